//! From an architecture and a workload to the operators that one GPU executes.
//!
//! Shapes follow the operator table of arXiv 2401.14489, generalised to grouped-query attention, gated
//! MLPs, mixture of experts and latent attention, and extended by the backward pass: a linear map
//! `(tokens, in) x (in, out)` runs forward as `tn`; its input gradient `(tokens, out) x (out, in)` as
//! `nn`; its weight gradient `(out, tokens) x (tokens, in)`, where the tokens are the reduction, as `nt`.
//! fp8 products run as `tn` in all three places, the only layout fp8 tensor cores take.
//!
//! Conventions, each a plain assumption about the framework:
//! - Bias adds ride in the epilogue of their product and cost nothing extra.
//! - Gate and up projection are one product, queries, keys and values are one product.
//! - Routing is balanced: every visited expert gets `ceil(tokens·top_k / visited)` tokens, where
//!   `visited = min(experts, tokens·top_k)`. Experts are split by tensor parallelism like a dense MLP.
//! - Latent attention expands keys and values in training and prefill and runs absorbed in decode
//!   (arXiv 2405.04434, section 2.1.2): every head attends to the one cached latent.
//! - With pipeline parallelism the last stage is lowered: `ceil(layers/stages)` layers and the head.

use super::communication::collectives;
use super::layer::{
    Linear, StageLayers, attention_linears, mlp_linears, moe_linears, rank_heads, rank_kv_heads,
    rank_vocab,
};
use super::params::{active_weights, rank_parameters};
use super::step::{Item, Phase, Role, Step};
use super::{
    Architecture, AttentionKernel, MlpKind, Mode, NormKind, NormPlacement, Positions, QkNorm,
    Recompute, Workload,
};
use crate::error::Result;
use crate::op::{Attention, Dtype, Gemm, Layout, Memory, MemoryKind, Op, Pass};
use crate::units::Flops;

/// Lowers one step to the operators of one GPU; fails where architecture or workload is impossible.
pub fn lower(arch: &Architecture, work: &Workload) -> Result<Step> {
    arch.validate()?;
    work.validate(arch)?;
    let mut lowering = Lowering {
        arch,
        work,
        stage: StageLayers::new(arch, work.pp),
        items: Vec::with_capacity(96),
    };
    if work.pp == 1 {
        lowering.embedding();
    }
    lowering.attention_block();
    lowering.mlp_block();
    lowering.head();
    lowering.optimizer_and_collectives();
    Ok(Step {
        items: lowering.items,
        tokens: work.tokens() * work.microbatches,
        model_flops: model_flops(arch, work),
        gpus_per_replica: work.tp * work.pp,
        stages: work.pp,
        microbatches: work.microbatches,
    })
}

/// Forward arithmetic of one step, three times that in training; see [`Step::model_flops`].
///
/// `2 ·` (weights a token meets) `· tokens`, plus `2·b·a·q·kv·(d + d_v)` per layer for the two attention
/// products; a window bounds `kv`. Latent attention counts in its expanded form in every mode.
fn model_flops(arch: &Architecture, work: &Workload) -> Flops {
    let (layer_weights, head_weights) = active_weights(arch);
    let linear = 2.0 * layer_weights as f64 * work.tokens() as f64;
    let head = 2.0 * head_weights as f64 * head_rows(work) as f64;
    let windowed = arch.window.map_or(0, |window| window.layers);
    let seen = arch.window.map_or(0, |window| window.size.min(work.keys()));
    let keys = (windowed * seen + (arch.layers - windowed) * work.keys()) as f64;
    let width = (arch.heads * (arch.head_dim + arch.value_dim())) as f64;
    let attention = 2.0 * work.tokens() as f64 * keys * width;
    let passes = if work.trains() { 3.0 } else { 1.0 };
    Flops::from_flops((linear + head + attention) * passes * work.microbatches as f64)
}

/// Positions that the head predicts: all in training, the last of each sequence when serving.
fn head_rows(work: &Workload) -> u64 {
    if work.trains() {
        work.tokens()
    } else {
        work.batch
    }
}

/// Whether an operator runs again in the backward pass.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// Embedding and head: never.
    Edge,
    /// Inside a layer: with full recomputation.
    Layer,
    /// Attention core: with selective recomputation too.
    Core,
}

struct Lowering<'a> {
    arch: &'a Architecture,
    work: &'a Workload,
    stage: StageLayers,
    items: Vec<Item>,
}

impl Lowering<'_> {
    /// Adds `times` repetitions per micro-batch.
    fn push(&mut self, role: Role, phase: Phase, op: Op, times: u64) {
        self.push_per_step(role, phase, op, times * self.work.microbatches);
    }

    /// Adds `count` repetitions per step, to an equal item where there is one.
    fn push_per_step(&mut self, role: Role, phase: Phase, op: Op, count: u64) {
        if count == 0 {
            return;
        }
        let equal = |item: &&mut Item| item.role == role && item.phase == phase && item.op == op;
        match self.items.iter_mut().find(equal) {
            Some(item) => item.count += count,
            None => self.items.push(Item {
                role,
                phase,
                op,
                count,
            }),
        }
    }

    /// Adds an operator forward and, in training, what its backward pass needs.
    fn emit(&mut self, role: Role, scope: Scope, times: u64, op: Op, backward: &[(Phase, Op)]) {
        self.push(role, Phase::Forward, op, times);
        if !self.work.trains() {
            return;
        }
        let again = match self.work.recompute {
            Recompute::None => false,
            Recompute::Selective => scope == Scope::Core,
            Recompute::Full => scope != Scope::Edge,
        };
        if again {
            self.push(role, Phase::Recompute, op, times);
        }
        for &(phase, op) in backward {
            self.push(role, phase, op, times);
        }
    }

    /// A linear map over `rows` tokens, or over `members` groups of `rows` tokens.
    fn linear(&mut self, linear: &Linear, rows: u64, members: u64, scope: Scope, times: u64) {
        let dtype = match linear.role {
            Role::Logits | Role::Router => self.work.activation_dtype(),
            _ => self.work.dtype,
        };
        let (inputs, outputs) = (linear.inputs, linear.outputs);
        let gemm = |m, n, k, layout| {
            Op::Gemm(Gemm {
                m,
                n,
                k,
                batch: members,
                layout: if dtype == Dtype::Fp8 {
                    Layout::Tn
                } else {
                    layout
                },
                dtype,
            })
        };
        self.emit(
            linear.role,
            scope,
            times,
            gemm(rows, outputs, inputs, Layout::Tn),
            &[
                (Phase::GradInput, gemm(rows, inputs, outputs, Layout::Nn)),
                (Phase::GradWeight, gemm(outputs, inputs, rows, Layout::Nt)),
            ],
        );
    }

    /// A memory-bound kernel.
    fn memory(
        &mut self,
        role: Role,
        kind: MemoryKind,
        rows: u64,
        cols: u64,
        scope: Scope,
        times: u64,
    ) {
        let op = |pass| {
            Op::Memory(Memory {
                kind,
                rows,
                cols,
                pass,
                dtype: self.work.activation_dtype(),
            })
        };
        let backward = [(Phase::Backward, op(Pass::Backward))];
        self.emit(role, scope, times, op(Pass::Forward), &backward);
    }

    /// Norm over the residual stream or a slice of it.
    fn norm(&mut self, role: Role, rows: u64, cols: u64, scope: Scope, times: u64) {
        let kind = match self.arch.norm.kind {
            NormKind::LayerNorm => MemoryKind::LayerNorm,
            NormKind::RmsNorm => MemoryKind::RmsNorm,
        };
        self.memory(role, kind, rows, cols, scope, times);
    }

    /// Whether dropout kernels run: training with the unfused stack.
    fn drops_out(&self) -> bool {
        self.work.trains() && self.work.attention == AttentionKernel::Unfused
    }

    fn embedding(&mut self) {
        let (rows, hidden) = (self.work.residual_rows(), self.arch.hidden);
        let edge = Scope::Edge;
        self.memory(
            Role::Embedding,
            MemoryKind::Embedding,
            self.work.tokens(),
            hidden,
            edge,
            1,
        );
        if let Positions::Learned { .. } = self.arch.positions {
            self.memory(
                Role::PositionEmbedding,
                MemoryKind::Add,
                rows,
                hidden,
                edge,
                1,
            );
        }
        if self.drops_out() {
            self.memory(
                Role::EmbeddingDropout,
                MemoryKind::Dropout,
                rows,
                hidden,
                edge,
                1,
            );
        }
    }

    fn attention_block(&mut self) {
        let (arch, layers) = (self.arch, self.stage.layers);
        let (rows, hidden) = (self.work.residual_rows(), arch.hidden);
        if arch.norm.placement != NormPlacement::Post {
            self.norm(Role::AttentionNorm, rows, hidden, Scope::Layer, layers);
        }
        self.attention_inputs();
        self.attention_core(self.stage.full_attention, 0);
        let window = arch.window.map_or(0, |window| window.size);
        self.attention_core(self.stage.windowed, window);
        self.attention_outputs();
        if matches!(
            arch.norm.placement,
            NormPlacement::Post | NormPlacement::Sandwich
        ) {
            self.norm(Role::AttentionPostNorm, rows, hidden, Scope::Layer, layers);
        }
        self.residual(Role::AttentionOutputDropout, Role::AttentionResidual);
    }

    /// Whether latent attention runs in its absorbed form.
    fn absorbed(&self) -> bool {
        self.arch.mla.is_some() && self.work.mode == Mode::Decode
    }

    /// Everything between the attention norm and the attention core.
    fn attention_inputs(&mut self) {
        let (arch, work, layers) = (self.arch, self.work, self.stage.layers);
        let tokens = work.tokens();
        let heads = rank_heads(arch, work.tp);
        let kv_heads = rank_kv_heads(arch, work.tp);
        let scope = Scope::Layer;
        for linear in attention_linears(arch, work.tp) {
            match linear.role {
                Role::AttentionProjection => {}
                // Absorbed: the weight is applied to queries and outputs instead, head by head.
                Role::KeyValueUp if self.absorbed() => {}
                // A cached prefix is stored as latent and expanded again.
                Role::KeyValueUp => {
                    let rows = work.batch * work.keys();
                    self.linear(&linear, rows, 1, scope, layers);
                }
                _ => self.linear(&linear, tokens, 1, scope, layers),
            }
            let rank = linear.outputs;
            match (linear.role, arch.mla) {
                (Role::QueryDown, _) => {
                    self.norm(Role::QueryLatentNorm, tokens, rank, scope, layers);
                }
                (Role::KeyValueDown, Some(mla)) => {
                    let rank = mla.kv_lora_rank;
                    self.norm(Role::KeyValueLatentNorm, tokens, rank, scope, layers);
                }
                _ => {}
            }
        }
        let (queries, keys) = (heads * arch.head_dim, kv_heads * arch.head_dim);
        let (query_shape, key_shape) = match arch.norm.qk {
            QkNorm::None => ((0, 0), (0, 0)),
            QkNorm::Head => (
                (tokens * heads, arch.head_dim),
                (tokens * kv_heads, arch.head_dim),
            ),
            QkNorm::Full => ((tokens, queries), (tokens, keys)),
        };
        if arch.norm.qk != QkNorm::None {
            self.norm(Role::QueryNorm, query_shape.0, query_shape.1, scope, layers);
            self.norm(Role::KeyNorm, key_shape.0, key_shape.1, scope, layers);
        }
        if arch.positions == Positions::Rotary {
            let cols = arch
                .mla
                .map_or(queries + keys, |mla| (heads + 1) * mla.qk_rope);
            self.memory(
                Role::Rotary,
                MemoryKind::Rotary,
                tokens,
                cols,
                scope,
                layers,
            );
        }
        if !work.trains() {
            let cols = arch
                .mla
                .map_or(2 * keys, |mla| mla.kv_lora_rank + mla.qk_rope);
            self.memory(
                Role::CacheWrite,
                MemoryKind::Copy,
                tokens,
                cols,
                scope,
                layers,
            );
        }
        if let (true, Some(mla)) = (self.absorbed(), arch.mla) {
            self.per_head(Role::QueryAbsorb, mla.qk_nope, mla.kv_lora_rank);
        }
    }

    /// Everything between the attention core and the residual add.
    fn attention_outputs(&mut self) {
        if let (true, Some(mla)) = (self.absorbed(), self.arch.mla) {
            self.per_head(Role::ValueAbsorb, mla.kv_lora_rank, mla.v_head_dim);
        }
        for linear in attention_linears(self.arch, self.work.tp) {
            if linear.role == Role::AttentionProjection {
                let tokens = self.work.tokens();
                self.linear(&linear, tokens, 1, Scope::Layer, self.stage.layers);
            }
        }
    }

    /// One small product per query head.
    fn per_head(&mut self, role: Role, inputs: u64, outputs: u64) {
        let heads = rank_heads(self.arch, self.work.tp);
        let linear = Linear {
            role,
            inputs,
            outputs,
            bias: 0,
            members: heads,
        };
        let (tokens, layers) = (self.work.tokens(), self.stage.layers);
        self.linear(&linear, tokens, heads, Scope::Layer, layers);
    }

    fn attention_core(&mut self, layers: u64, window: u64) {
        if layers == 0 {
            return;
        }
        let (arch, work) = (self.arch, self.work);
        let mut op = Attention {
            batch: work.batch,
            heads: rank_heads(arch, work.tp),
            kv_heads: rank_kv_heads(arch, work.tp),
            seq_q: work.seq,
            seq_kv: work.keys(),
            head_dim: arch.head_dim,
            value_dim: arch.value_dim(),
            causal: true,
            // A window that no query reaches is the same operator as none.
            window: if window < work.keys() { window } else { 0 },
            pass: Pass::Forward,
            dtype: work.activation_dtype(),
        };
        if let (true, Some(mla)) = (self.absorbed(), arch.mla) {
            op.kv_heads = 1;
            op.head_dim = mla.kv_lora_rank + mla.qk_rope;
            op.value_dim = mla.kv_lora_rank;
        }
        match work.attention {
            AttentionKernel::Flash => {
                let backward = Attention {
                    pass: Pass::Backward,
                    ..op
                };
                self.emit(
                    Role::Attention,
                    Scope::Core,
                    layers,
                    Op::Attention(op),
                    &[(Phase::Backward, Op::Attention(backward))],
                );
            }
            AttentionKernel::Unfused => self.unfused_attention(&op, layers),
        }
    }

    /// Score and value products as batched GEMMs over all query heads, with the kernels between them.
    fn unfused_attention(&mut self, op: &Attention, layers: u64) {
        let (q, kv) = (op.seq_q, op.seq_kv);
        let batch = op.batch * op.heads;
        let gemm = |m, n, k, layout| {
            Op::Gemm(Gemm {
                m,
                n,
                k,
                batch,
                layout,
                dtype: op.dtype,
            })
        };
        let core = Scope::Core;
        self.emit(
            Role::AttentionScore,
            core,
            layers,
            gemm(q, kv, op.head_dim, Layout::Tn),
            &[
                (Phase::GradInput, gemm(q, op.head_dim, kv, Layout::Nn)),
                (Phase::GradWeight, gemm(kv, op.head_dim, q, Layout::Nt)),
            ],
        );
        for (role, kind) in [
            (Role::AttentionMask, MemoryKind::Mask),
            (Role::AttentionSoftmax, MemoryKind::Softmax),
            (Role::AttentionDropout, MemoryKind::Dropout),
        ] {
            if kind != MemoryKind::Dropout || self.drops_out() {
                self.memory(role, kind, batch * q, kv, core, layers);
            }
        }
        self.emit(
            Role::AttentionValue,
            core,
            layers,
            gemm(q, op.value_dim, kv, Layout::Nn),
            &[
                (Phase::GradInput, gemm(q, kv, op.value_dim, Layout::Tn)),
                (Phase::GradWeight, gemm(kv, op.value_dim, q, Layout::Nt)),
            ],
        );
    }

    /// Adds a block's output to the residual stream.
    fn residual(&mut self, dropout: Role, add: Role) {
        let (rows, hidden) = (self.work.residual_rows(), self.arch.hidden);
        let layers = self.stage.layers;
        if self.drops_out() {
            self.memory(
                dropout,
                MemoryKind::Dropout,
                rows,
                hidden,
                Scope::Layer,
                layers,
            );
        }
        self.memory(add, MemoryKind::Add, rows, hidden, Scope::Layer, layers);
    }

    fn mlp_block(&mut self) {
        let (arch, layers) = (self.arch, self.stage.layers);
        let (rows, hidden) = (self.work.residual_rows(), arch.hidden);
        let placement = arch.norm.placement;
        if matches!(placement, NormPlacement::Pre | NormPlacement::Sandwich) {
            self.norm(Role::MlpNorm, rows, hidden, Scope::Layer, layers);
        }
        if self.stage.dense > 0 {
            let [up, down] = mlp_linears(arch, self.work.tp);
            let tokens = self.work.tokens();
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
        let (arch, tokens) = (self.arch, self.work.tokens());
        let Some(moe) = arch.moe else { return };
        let (hidden, scope) = (arch.hidden, Scope::Layer);
        let routed = tokens * moe.top_k;
        let visited = moe.experts.min(routed);
        let linears = moe_linears(arch, self.work.tp);
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

    fn head(&mut self) {
        let (arch, work, edge) = (self.arch, self.work, Scope::Edge);
        self.norm(Role::FinalNorm, work.residual_rows(), arch.hidden, edge, 1);
        let head = Linear {
            role: Role::Logits,
            inputs: arch.hidden,
            outputs: rank_vocab(arch, work.tp),
            bias: 0,
            members: 1,
        };
        self.linear(&head, head_rows(work), 1, edge, 1);
        if work.trains() {
            let kind = MemoryKind::CrossEntropy;
            self.memory(Role::Loss, kind, work.tokens(), head.outputs, edge, 1);
        }
    }

    fn optimizer_and_collectives(&mut self) {
        let (arch, work, stage) = (self.arch, self.work, self.stage);
        if work.trains() {
            let owned = rank_parameters(arch, work.tp, stage, work.pp == 1, true);
            let shards = if work.zero > 0 { work.dp } else { 1 };
            let adam = Memory {
                kind: MemoryKind::Adam,
                rows: owned.div_ceil(shards),
                cols: 1,
                pass: Pass::Forward,
                dtype: Dtype::Fp32,
            };
            self.push_per_step(Role::Optimizer, Phase::Update, Op::Memory(adam), 1);
        }
        collectives(arch, work, stage, |role, phase, op, count| {
            self.push_per_step(role, phase, op, count);
        });
    }
}
