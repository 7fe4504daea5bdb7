//! Lowering of the MLP block: norm, dense MLP or mixture of experts, residual.

use super::super::layer::{Linear, Shards, mlp_linears, moe_linears};
use super::super::{MlpKind, NormPlacement, Role};
use super::{Lowering, Scope};
use crate::ops::MemoryKind;

impl Lowering<'_> {
    pub(super) fn mlp_block(&mut self) {
        let (arch, layers) = (self.arch, self.stage.layers);
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
        self.residual(Role::MlpOutputDropout, Role::MlpResidual);
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
        self.linear(&linears[0], tokens, 1, scope, layers);
        let softmax = MemoryKind::Softmax;
        self.memory(
            Role::RouterSoftmax,
            softmax,
            tokens,
            moe.experts,
            scope,
            layers,
        );
        let permute = MemoryKind::Permute;
        self.memory(
            Role::ExpertsDispatch,
            permute,
            routed,
            hidden,
            scope,
            layers,
        );
        self.mlp(
            &linears[1],
            Role::ExpertsActivation,
            &linears[2],
            routed.div_ceil(visited),
            visited,
            layers,
        );
        self.memory(Role::ExpertsCombine, permute, routed, hidden, scope, layers);
        if let [up, down] = &linears[3..] {
            self.mlp(up, Role::SharedActivation, down, tokens, 1, layers);
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
