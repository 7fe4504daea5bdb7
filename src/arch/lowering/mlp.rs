//! Lowering of the MLP block: norm, dense MLP or mixture of experts, residual.

use super::super::layer::{Linear, Shards, mlp_linears, moe_linears};
use super::super::{MlpKind, NormPlacement, Role};
use super::{Lowering, Scope};
use crate::ops::MemoryKind;

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
        if matches!(placement, NormPlacement::Post | NormPlacement::Sandwich) {
            self.norm(Role::MlpPostNorm, rows, hidden, Scope::Layer, layers);
        }
        self.residual(Role::MlpOutputDropout, Role::MlpResidual, layers);
    }

    /// Up, elementwise function, down, for `members` groups of `rows` tokens.
    fn mlp(
        &mut self,
        up: &Linear,
        activation: Role,
        down: &Linear,
        rows: u64,
        members: u64,
        layers: u64,
    ) {
        let kind = match self.arch.mlp.kind {
            MlpKind::Gelu => MemoryKind::Gelu,
            MlpKind::Swiglu => MemoryKind::Swiglu,
        };
        let scope = Scope::Layer;
        self.linear(up, rows, members, scope, layers);
        self.memory(activation, kind, rows * members, down.inputs, scope, layers);
        self.linear(down, rows, members, scope, layers);
    }

    fn experts(&mut self, layers: u64) {
        let (arch, work, tokens) = (self.arch, self.work, self.work.rank_tokens());
        let Some(moe) = arch.moe else { return };
        let (hidden, scope) = (arch.hidden, Scope::Layer);
        // The ranks that share an expert gather its tokens; without sharing, each rank routes its own.
        let routed = (tokens * moe.top_k * work.expert_ranks()).div_ceil(work.tp);
        let visited = (moe.experts / work.ep).min(routed);
        let linears = moe_linears(arch, Shards::of(work));
        let of = |role: Role| linears.iter().find(|linear| linear.role == role).copied();
        let width = moe.routed_width(hidden);
        if let Some(router) = of(Role::Router) {
            self.linear(&router, tokens, 1, scope, layers);
        }
        let softmax = MemoryKind::Softmax;
        self.memory(
            Role::RouterSoftmax,
            softmax,
            tokens,
            moe.experts,
            scope,
            layers,
        );
        if let Some(down) = of(Role::ExpertsLatentDown) {
            self.linear(&down, tokens, 1, scope, layers);
        }
        let permute = MemoryKind::Permute;
        self.memory(Role::ExpertsDispatch, permute, routed, width, scope, layers);
        if let (Some(up), Some(down)) = (of(Role::ExpertsUp), of(Role::ExpertsDown)) {
            self.mlp(
                &up,
                Role::ExpertsActivation,
                &down,
                routed.div_ceil(visited),
                visited,
                layers,
            );
        }
        self.memory(Role::ExpertsCombine, permute, routed, width, scope, layers);
        if let Some(up) = of(Role::ExpertsLatentUp) {
            self.linear(&up, tokens, 1, scope, layers);
        }
        if let (Some(up), Some(down)) = (of(Role::SharedUp), of(Role::SharedDown)) {
            self.mlp(&up, Role::SharedActivation, &down, tokens, 1, layers);
            self.memory(
                Role::SharedAdd,
                MemoryKind::Add,
                tokens,
                hidden,
                scope,
                layers,
            );
        }
    }
}
