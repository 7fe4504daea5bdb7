//! Lowering of the MLP block: norm, dense MLP or mixture of experts, residual.

use super::super::layer::{Linear, Shards, mlp_linears, moe_linears};
use super::super::{MlpKind, Moe, NormPlacement, Phase, Role, Workload};
use super::{Lowering, Scope};
use crate::ops::{Experts, MemoryKind, Op};

/// More ranks than these, with tokens of their own, send them to the experts, whose kernels see what they receive; timed layers sort
/// the tokens of all ranks (docs/method/kernels.md).
const SORTING_RANKS: u64 = 8;

/// How many groups of [`SORTING_RANKS`] share the experts, where each group has enough for a token: the layer of one group is what its ranks compute.
fn receiving_groups(moe: &Moe, work: &Workload) -> u64 {
    let groups = work.ep / SORTING_RANKS;
    let has_groups = groups > 0 && work.ep.is_multiple_of(SORTING_RANKS) && moe.experts.is_multiple_of(groups);
    match has_groups && moe.experts / groups >= moe.top_k && work.tp < work.ep {
        true => groups,
        false => 1,
    }
}

impl Lowering<'_> {
    pub(super) fn mlp_block(&mut self) {
        let (arch, layers) = (self.arch, self.stage.with_mlp());
        let (rows, hidden) = (self.work.residual_rows(), arch.hidden);
        let placement = arch.norm.placement;
        if matches!(
            placement,
            NormPlacement::Pre | NormPlacement::PreAndEmbedding | NormPlacement::Sandwich
        ) {
            self.norm(Role::MlpNorm, rows, hidden, Scope::Layer, layers);
        }
        if self.stage.dense > 0 {
            let [up, down] = mlp_linears(arch, self.work.tp);
            let tokens = self.work.rank_tokens();
            self.mlp(&up, Role::MlpActivation, &down, tokens, 1, self.stage.dense);
        }
        if self.stage.moe > 0 {
            self.experts(self.stage.moe);
        }
        if placement.follows_branches() {
            self.norm(Role::MlpPostNorm, rows, hidden, Scope::Layer, layers);
        }
        self.residual(Role::MlpOutputDropout, Role::MlpResidual, layers);
    }

    /// Up, elementwise function, down, for `members` groups of `rows` tokens.
    fn mlp(&mut self, up: &Linear, activation: Role, down: &Linear, rows: u64, members: u64, layers: u64) {
        let kind = match self.arch.mlp.kind {
            MlpKind::Gelu => MemoryKind::Gelu,
            MlpKind::Swiglu => MemoryKind::Swiglu,
        };
        let scope = Scope::Layer;
        self.linear(up, rows, members, scope, layers);
        self.memory(activation, kind, rows * members, down.inputs, scope, layers);
        self.linear(down, rows, members, scope, layers);
    }

    /// Training: gathered tokens through GEMMs of all experts.
    fn experts_apart(&mut self, moe: &Moe, linears: [Linear; 2], [tokens, width]: [u64; 2], layers: u64) {
        let (work, scope) = (self.work, Scope::Layer);
        // The ranks that share an expert gather its tokens; without sharing, each rank routes its own.
        let routed = (tokens * moe.top_k * work.expert_ranks()).div_ceil(work.tp);
        let visited = (moe.experts / work.ep).min(routed);
        let permute = MemoryKind::Permute;
        self.memory(Role::ExpertsDispatch, permute, routed, width, scope, layers);
        let ([up, down], rows) = (linears, routed.div_ceil(visited));
        self.mlp(&up, Role::ExpertsActivation, &down, rows, visited, layers);
        self.memory(Role::ExpertsCombine, permute, routed, width, scope, layers);
    }

    /// Serving: the grouped kernels that servers run.
    fn experts_fused(&mut self, moe: &Moe, [tokens, width]: [u64; 2], layers: u64) {
        let work = self.work;
        let groups = receiving_groups(moe, work);
        let op = Experts {
            tokens: (tokens * work.expert_ranks() * work.ep).div_ceil(work.tp * groups),
            width_shards: work.expert_ranks(),
            expert_shards: work.ep / groups,
            gated: self.arch.mlp.kind == MlpKind::Swiglu,
            dtype: match self.packs(Role::ExpertsUp) {
                true => work.linear_dtype(),
                false => work.activation_dtype(),
            },
            load: work.router_load,
            ..Experts::new(1, width, moe.d_ff, moe.experts / groups, moe.top_k)
        };
        self.push(Role::Experts, Phase::Forward, Op::Experts(op), layers);
    }

    fn experts(&mut self, layers: u64) {
        let (arch, work, tokens) = (self.arch, self.work, self.work.rank_tokens());
        let Some(moe) = arch.moe else { return };
        let (hidden, scope) = (arch.hidden, Scope::Layer);
        let linears = moe_linears(arch, Shards::of(work));
        let of = |role: Role| linears.iter().find(|linear| linear.role == role).copied();
        let width = moe.routed_width(hidden);
        let (norms, rows) = (moe.norms * layers, work.residual_rows());
        self.norm(Role::MlpNorm, rows, hidden, scope, norms);
        if let Some(router) = of(Role::Router) {
            self.linear(&router, tokens, 1, scope, layers);
        }
        let softmax = MemoryKind::Softmax;
        self.memory(Role::RouterSoftmax, softmax, tokens, moe.experts, scope, layers);
        if let Some(down) = of(Role::ExpertsLatentDown) {
            self.linear(&down, tokens, 1, scope, layers);
        }
        if !work.trains() {
            self.experts_fused(&moe, [tokens, width], layers);
        } else if let (Some(up), Some(down)) = (of(Role::ExpertsUp), of(Role::ExpertsDown)) {
            self.experts_apart(&moe, [up, down], [tokens, width], layers);
        }
        if let Some(up) = of(Role::ExpertsLatentUp) {
            self.linear(&up, tokens, 1, scope, layers);
        }
        if let (Some(up), Some(down)) = (of(Role::SharedUp), of(Role::SharedDown)) {
            self.mlp(&up, Role::SharedActivation, &down, tokens, 1, layers);
            if moe.shared_gate {
                // As much traffic: tokens and outputs are read, outputs written.
                let kind = MemoryKind::Add;
                self.memory(Role::SharedGate, kind, tokens, hidden, scope, layers);
            }
            self.memory(Role::SharedAdd, MemoryKind::Add, tokens, hidden, scope, layers);
        }
    }
}
