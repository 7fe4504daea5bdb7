//! From an architecture and a workload to the operators that one GPU executes.
//!
//! Shapes follow the operator table of arXiv 2401.14489, generalised to grouped-query attention, gated
//! MLPs, mixture of experts and latent attention, and extended by the backward pass: a linear map
//! `(tokens, in) x (in, out)` runs forward as `tn`; its input gradient `(tokens, out) x (out, in)` as
//! `nn`; its weight gradient `(out, tokens) x (tokens, in)`, where the tokens are the reduction, as `nt`.
//! fp8 GEMMs run as `tn` in all three places, the only layout fp8 tensor cores take.
//!
//! Conventions, each a plain assumption about the framework:
//! - Bias adds ride in the epilogue of their GEMM and cost nothing extra.
//! - Gate and up projection are one GEMM, queries, keys and values are one GEMM.
//! - Routing is balanced in training: every visited expert gets `ceil(tokens·top_k / visited)` tokens, where
//!   `visited = min(experts, tokens·top_k)`. Experts are split by tensor parallelism like a dense MLP.
//!   A server runs all experts of a layer in one fused operator, whose tokens follow a power law.
//! - Latent attention expands keys and values in training and prefill and runs absorbed in decode
//!   (arXiv 2405.04434, section 2.1.2): every head attends to the one cached latent.
//! - Adapters (LoRA) leave out gradients of weights. Each has kernels of its own.
//! - With pipeline parallelism the last stage is lowered: `ceil(layers/stages)` layers and the head.

mod attention;
mod linear;

mod mlp;

use super::communication::collectives;
use super::layer::{Linear, StageLayers, rank_vocab};
use super::optimizer::relative_traffic;
use super::params::active_weights;
use super::{
    Architecture, AttentionKernel, Item, NormKind, NormPlacement, Optimizer, OptimizerStates, Phase, Positions,
    Recompute, Role, Step, Workload,
};
use crate::error::Result;
use crate::ops::{CollectiveKind, Dtype, Gemm, Layout, Memory, MemoryKind, Op, Pass, pairs};
use crate::units::Flops;

/// Lowers one step to the operators of one GPU; fails where architecture or workload is impossible.
pub fn lower(arch: &Architecture, work: &Workload) -> Result<Step> {
    arch.validate()?;
    work.validate(arch)?;
    let stage = StageLayers::of(arch, work);
    let parts: Vec<_> = stage.parts(arch).collect();
    let mut lowering = Lowering {
        arch,
        work,
        whole: stage,
        stage,
        items: Vec::with_capacity(96),
        seen: [0; Role::ALL.len()],
    };
    if work.pp == 1 {
        lowering.embedding();
    }
    for (part, stage) in &parts {
        (lowering.arch, lowering.stage) = (part, *stage);
        lowering.attention_block();
        lowering.linear_block();
        lowering.mlp_block();
    }
    (lowering.arch, lowering.stage) = (arch, stage);
    lowering.further();
    lowering.head();
    lowering.optimizer_and_collectives();
    if let Some((drafter, [first, further])) = work.drafter(arch) {
        // Of the first pass the head sees the last token alone, as in the others.
        let is_of_head = |item: &Item| match item.op {
            Op::Collective(op) => op.kind == CollectiveKind::AllGather,
            _ => matches!(item.role, Role::FinalNorm | Role::Logits),
        };
        let [mut once, each] = [lower(&drafter, &first)?.items, lower(&drafter, &further)?.items];
        once.retain(|item| !is_of_head(item));
        once.extend(each.iter().filter(|item| is_of_head(item)));
        lowering.drafts(&once, &first, 1);
        lowering.drafts(&each, &further, work.speculate - 1);
    }
    Ok(Step {
        tokens: work.batch as f64 * work.kept_tokens() * work.microbatches as f64,
        model_flops: model_flops(arch, work, true),
        square_flops: model_flops(arch, work, false),
        gpus_per_replica: work.gpus_per_replica(),
        stages: work.pp,
        virtual_stages: work.vp,
        layers: stage.layers,
        moe_layers: stage.moe,
        head_is_a_layer: stage.head_is_a_layer,
        microbatches: work.microbatches,
        items: lowering.items,
    })
}

/// Forward arithmetic of one step, three times that in training; see [`Step::model_flops`].
///
/// `2 ·` (weights a token meets) `· tokens`, plus `2·b·a·pairs·(d + d_v)` per layer for the two attention
/// GEMMs, `pairs` being all `q·kv` or those that a causal mask keeps; a window bounds `kv`. Latent attention counts in
/// its expanded form in every mode and over the keys that an index chooses, beside the scores of that index, linear attention
/// the products with its states.
fn model_flops(arch: &Architecture, work: &Workload, causal: bool) -> Flops {
    let (layer_weights, head_weights) = active_weights(arch);
    let linear = 2.0 * layer_weights as f64 * work.tokens() as f64;
    let head = 2.0 * head_weights as f64 * (work.head_rows() * context_ranks(work)) as f64;
    let pairs = |window| pairs(work.seq, work.keys(), causal, window);
    let attention = arch.parts().map(|arch| {
        let windowed = arch.window.map_or(0, |window| window.layers);
        let seen = arch.window.map_or(0.0, |window| pairs(window.size));
        let full = arch.attention_layers().saturating_sub(windowed);
        let chosen = arch.index.map_or(0, |index| index.top_k);
        // Compressed keys are seen, or scored, in place of all.
        let stride = arch.stride().max(1);
        let scores = arch
            .index
            .filter(|index| work.keys() / stride > index.top_k)
            .map_or(0.0, |index| {
                2.0 * pairs(0) / stride as f64 * (work.batch * index.layers * index.heads * index.head_dim) as f64
            });
        let compressed = match arch.stride() {
            0 => 0.0,
            stride => (pairs(0) / stride as f64).min(match chosen {
                0 => f64::INFINITY,
                chosen => (work.seq * chosen) as f64,
            }),
        };
        let pairs = windowed as f64 * (seen + compressed) + full as f64 * pairs(chosen);
        let width = (arch.heads * (arch.head_dim + arch.value_dim())) as f64;
        let recurrence = arch.linear_layers() as f64 * linear::flops(&arch, work);
        2.0 * work.batch as f64 * pairs * width + recurrence + scores
    });
    let attention: f64 = attention.sum();
    let [weights, others] = match (work.trains(), work.has_adapters()) {
        (false, _) => [1.0; 2],
        (true, false) => [3.0; 2],
        (true, true) => [2.0, 3.0],
    };
    // Of tokens that are drafted those that are kept.
    let kept = work.kept_tokens() / work.seq as f64;
    Flops::from_flops(((linear + head) * weights + attention * others) * work.microbatches as f64 * kept)
}

/// Ranks among which the positions of the head are divided.
fn context_ranks(work: &Workload) -> u64 {
    if work.trains() { work.cp } else { 1 }
}

/// Makes GEMMs of `members` groups; one that casts its inputs has them in one layout.
fn gemms(members: u64, dtype: Dtype) -> impl Fn(u64, u64, u64, Layout) -> Op {
    move |m, n, k, layout| {
        Op::Gemm(Gemm {
            batch: members,
            layout: if dtype.casts_inputs() { Layout::Tn } else { layout },
            dtype,
            ..Gemm::new(m, n, k)
        })
    }
}

/// The role of casts inside layers, and of those at embedding, head and loss.
const fn autocast(is_edge: bool) -> Role {
    match is_edge {
        true => Role::HeadAutocast,
        false => Role::Autocast,
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
    /// All layers of the stage.
    whole: StageLayers,
    /// Those of the part that is lowered, whose shape is `arch`.
    stage: StageLayers,
    items: Vec<Item>,
    /// By role, a bit for each phase that an item has: most operators are of a new one and equal none.
    seen: [u8; Role::ALL.len()],
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
        const { assert!(Phase::ALL.len() <= u8::BITS as usize) };
        let (seen, bit) = (&mut self.seen[role as usize], 1 << phase as u8);
        if *seen & bit != 0 {
            let equal = |item: &&mut Item| item.role == role && item.phase == phase && item.op == op;
            if let Some(item) = self.items.iter_mut().find(equal) {
                item.count += count;
                return;
            }
        }
        *seen |= bit;
        self.items.push(Item { role, phase, op, count });
    }

    /// Adds an operator forward and, in training, what its backward pass needs.
    fn emit(&mut self, role: Role, scope: Scope, times: u64, op: Op, backward: &[(Phase, Op)]) {
        self.push(role, Phase::Forward, op, times);
        // What lies before all adapters has no backward pass.
        if !self.work.trains() || self.work.has_adapters() && role <= Role::EmbeddingDropout {
            return;
        }
        let again = self.recomputed(role, scope, &op, times);
        self.push(role, Phase::Recompute, op, again);
        for &(phase, op) in backward {
            self.push(role, phase, op, times);
        }
    }

    /// How many of `times` repetitions run again in the backward pass.
    fn recomputed(&self, role: Role, scope: Scope, op: &Op, times: u64) -> u64 {
        let times = self.whole.recomputed(self.work, times);
        let pointwise = matches!(op, Op::Memory(_));
        let again = match self.work.recompute {
            Recompute::None => false,
            Recompute::Selective => scope == Scope::Core,
            Recompute::Pointwise => scope == Scope::Layer && pointwise,
            Recompute::LatentUp => matches!(role, Role::QueryUp | Role::KeyValueUp),
            Recompute::Mlp => scope == Scope::Layer && (pointwise || role.is_up_projection()),
            Recompute::Operators => scope == Scope::Layer,
            Recompute::Full => scope != Scope::Edge,
        };
        match (again, self.work.recompute) {
            (false, _) => 0,
            (true, Recompute::Operators) if !pointwise => times.div_ceil(2),
            (true, _) => times,
        }
    }

    /// Whether linear maps of this role are in the format of the workload: all but those that a quantized checkpoint keeps.
    fn packs(&self, role: Role) -> bool {
        let stored = self.arch.stored(self.work);
        stored.is_none_or(|stored| stored.packs(role))
    }

    /// A linear map over `rows` tokens, or over `members` groups of `rows` tokens.
    fn linear(&mut self, linear: &Linear, rows: u64, members: u64, scope: Scope, times: u64) {
        let dtype = match linear.role {
            Role::Logits | Role::Router | Role::FurtherMap => self.work.activation_dtype(),
            role if !self.packs(role) => self.work.activation_dtype(),
            _ => self.work.linear_dtype(),
        };
        let (inputs, outputs) = (linear.inputs, linear.outputs);
        let gemm = gemms(members, dtype);
        let frozen = self.work.has_adapters();
        let backward = [
            (Phase::GradInput, gemm(rows, inputs, outputs, Layout::Nn)),
            (Phase::GradWeight, gemm(outputs, inputs, rows, Layout::Nt)),
        ];
        let backward = if frozen { &backward[..1] } else { &backward };
        let forward = gemm(rows, outputs, inputs, Layout::Tn);
        self.emit(linear.role, scope, times, forward, backward);
        if self.work.trains() {
            let again = self.recomputed(linear.role, scope, &forward, times);
            match frozen {
                true => self.beside_frozen(linear, rows, members, times, again),
                false => self.beside_linear(linear, dtype, [rows * members, members], times, again),
            }
        }
    }

    /// What training adds to the three GEMMs of a linear map: casts of its input and of the gradient of its output to 8
    /// bits, and the sum of weight gradients over micro-batches in fp32; under autocast the casts of its weights, also where
    /// it runs `again`, and of their gradients, and the sums of those as kernels of their own.
    fn beside_linear(&mut self, linear: &Linear, dtype: Dtype, [rows, members]: [u64; 2], times: u64, again: u64) {
        let activations = self.work.activation_dtype();
        if dtype.casts_inputs() {
            for (phase, cols) in [(Phase::Forward, linear.inputs), (Phase::Backward, linear.outputs)] {
                let cast = Memory::forward(MemoryKind::Quantize, rows, cols, activations);
                self.push(Role::Quantize, phase, Op::Memory(cast), times);
            }
        }
        let [height, width] = [linear.outputs * members, linear.inputs];
        let is_head = linear.role == Role::Logits;
        let accumulation = match is_head {
            true => Role::HeadAccumulation,
            false => Role::GradientAccumulation,
        };
        if self.work.autocast {
            let role = autocast(is_head);
            let [down, up] = self.casts(height, width);
            self.push(role, Phase::Forward, down, times);
            self.push(role, Phase::Recompute, down, again);
            self.push(role, Phase::GradWeight, up, times);
            let sum = Memory::forward(MemoryKind::Add, height, width, self.work.weight_dtype());
            let further = times * (self.work.microbatches - 1);
            self.push_per_step(accumulation, Phase::GradWeight, Op::Memory(sum), further);
        } else if activations.size() == 2 {
            let kind = MemoryKind::AccumulateGradient;
            let sum = Memory::forward(kind, height, width, activations);
            self.push(accumulation, Phase::GradWeight, Op::Memory(sum), times);
        }
    }

    /// What adapters add to a frozen linear map: its weights unpacked in each pass, and for each adapter two narrow GEMMs with
    /// their gradients, a scaling and a sum forward, and both backward.
    fn beside_frozen(&mut self, linear: &Linear, rows: u64, members: u64, times: u64, again: u64) {
        let (work, dtype, inputs) = (self.work, self.work.activation_dtype(), linear.inputs);
        let passes = [(Phase::Forward, times), (Phase::Recompute, again)];
        if let Some(bytes) = work.unpacked_bytes(linear) {
            // As many elements of a copy as move the bytes.
            let elements = bytes / (2 * dtype.size()) as f64;
            let unpack = Op::Memory(Memory::forward(
                MemoryKind::Copy,
                elements.ceil() as u64,
                members,
                dtype,
            ));
            for (phase, times) in passes.into_iter().chain([(Phase::GradInput, times)]) {
                self.push(Role::Unpack, phase, unpack, times);
            }
        }
        let gemm = gemms(members, dtype);
        let kernel = |kind, cols| Op::Memory(Memory::forward(kind, rows * members, cols, dtype));
        let rank = work.lora;
        for outputs in work.adapters(self.arch, linear) {
            let forward = [
                gemm(rows, rank, inputs, Layout::Tn),
                gemm(rows, outputs, rank, Layout::Tn),
                kernel(MemoryKind::Copy, outputs),
                kernel(MemoryKind::Add, outputs),
            ];
            for (phase, times) in passes {
                for op in forward {
                    self.push(Role::Adapter, phase, op, times);
                }
            }
            for (phase, op) in [
                (Phase::Backward, kernel(MemoryKind::Copy, outputs)),
                (Phase::GradInput, gemm(rows, rank, outputs, Layout::Nn)),
                (Phase::GradWeight, gemm(outputs, rank, rows, Layout::Nt)),
                (Phase::GradInput, gemm(rows, inputs, rank, Layout::Nn)),
                (Phase::GradWeight, gemm(rank, inputs, rows, Layout::Nt)),
                (Phase::Backward, kernel(MemoryKind::Add, inputs)),
            ] {
                self.push(Role::Adapter, phase, op, times);
            }
        }
    }

    /// A memory-bound kernel.
    fn memory(&mut self, role: Role, kind: MemoryKind, rows: u64, cols: u64, scope: Scope, times: u64) {
        let dtype = match role.is_of_residual() {
            true => self.work.weight_dtype(),
            false => self.work.activation_dtype(),
        };
        let op = |pass| {
            Op::Memory(Memory {
                kind,
                rows,
                cols,
                pass,
                dtype,
            })
        };
        let backward = [(Phase::Backward, op(Pass::Backward))];
        self.emit(role, scope, times, op(Pass::Forward), &backward);
    }

    /// Norm over the residual stream or a slice of it, and under autocast the casts of what it takes and gives: linear maps and
    /// attention do both in 16 bits.
    fn norm(&mut self, role: Role, rows: u64, cols: u64, scope: Scope, times: u64) {
        let kind = match self.arch.norm.kind {
            NormKind::LayerNorm | NormKind::UnweightedLayerNorm => MemoryKind::LayerNorm,
            NormKind::RmsNorm | NormKind::UnweightedRmsNorm => MemoryKind::RmsNorm,
        };
        self.memory(role, kind, rows, cols, scope, times);
        if !self.work.casts_weights() {
            return;
        }
        let placement = self.arch.norm.placement;
        let (taken, given) = match role {
            Role::EmbeddingNorm => (0, 0),
            Role::QueryNorm | Role::KeyNorm | Role::QueryLatentNorm | Role::KeyValueLatentNorm => (1, 1),
            // The next linear map takes the residual stream itself.
            Role::AttentionPostNorm | Role::MlpPostNorm if placement == NormPlacement::Post => (1, 1),
            Role::AttentionPostNorm | Role::MlpPostNorm => (1, 0),
            // Each of the two branches casts for itself.
            Role::AttentionNorm if placement == NormPlacement::Shared => (0, 2),
            _ => (0, 1),
        };
        let [down, up] = self.casts(rows, cols);
        let role = autocast(scope == Scope::Edge);
        self.emit(role, scope, taken * times, up, &[(Phase::Backward, down)]);
        self.emit(role, scope, given * times, down, &[(Phase::Backward, up)]);
    }

    /// Casts of autocast: of a tensor to the format of linear maps, and back.
    fn casts(&self, rows: u64, cols: u64) -> [Op; 2] {
        let dtype = self.work.activation_dtype();
        [MemoryKind::Downcast, MemoryKind::Upcast].map(|kind| Op::Memory(Memory::forward(kind, rows, cols, dtype)))
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
            self.work.rank_tokens(),
            hidden,
            edge,
            1,
        );
        if self.work.trains() && !self.work.has_adapters() {
            let vocab = rank_vocab(self.arch, self.work.tp);
            let dtype = self.work.weight_dtype();
            let zero = Op::Memory(Memory::forward(MemoryKind::Zero, vocab, hidden, dtype));
            self.push(Role::EmbeddingZero, Phase::Backward, zero, 1);
        }
        if let Positions::Learned { .. } = self.arch.positions {
            self.memory(Role::PositionEmbedding, MemoryKind::Add, rows, hidden, edge, 1);
        }
        if self.arch.norm.placement == NormPlacement::PreAndEmbedding {
            self.norm(Role::EmbeddingNorm, rows, hidden, edge, 1);
        }
        if self.drops_out() {
            self.memory(Role::EmbeddingDropout, MemoryKind::Dropout, rows, hidden, edge, 1);
        }
    }

    /// Adds a block's output to the residual stream in so many layers.
    fn residual(&mut self, dropout: Role, add: Role, layers: u64) {
        let (rows, hidden) = (self.work.residual_rows(), self.arch.hidden);
        if self.drops_out() {
            self.memory(dropout, MemoryKind::Dropout, rows, hidden, Scope::Layer, layers);
        }
        self.memory(add, MemoryKind::Add, rows, hidden, Scope::Layer, layers);
        // A norm after a branch casts the gradient of the branch.
        if self.work.casts_weights() && !self.arch.norm.placement.follows_branches() {
            let [down, _] = self.casts(rows, hidden);
            self.push(Role::Autocast, Phase::Backward, down, layers);
        }
    }

    /// Linear maps and passes beside attention and MLP.
    fn further(&mut self) {
        let (arch, tokens, scope) = (self.arch, self.work.rank_tokens(), Scope::Layer);
        for (linear, times) in arch.further_linears(self.stage) {
            self.linear(&linear, tokens, 1, scope, times);
        }
        for (map, times) in arch.further_in(self.stage).filter(|(map, _)| map.copied > 0) {
            self.memory(Role::FurtherPass, MemoryKind::Copy, tokens, map.copied, scope, times);
        }
    }

    fn head(&mut self) {
        let (arch, work, edge) = (self.arch, self.work, Scope::Edge);
        self.norm(Role::FinalNorm, work.residual_rows(), arch.hidden, edge, 1);
        let head = Linear::new(Role::Logits, arch.hidden, rank_vocab(arch, work.tp), false);
        self.linear(&head, work.head_rows(), 1, edge, 1);
        if work.trains() {
            let kind = MemoryKind::CrossEntropy;
            let rows = work.rank_tokens();
            self.memory(Role::Loss, kind, rows, head.outputs, edge, 1);
            if self.work.casts_weights() {
                // The loss takes logarithms of probabilities in fp32.
                let [down, up] = self.casts(rows, head.outputs);
                self.push(Role::HeadAutocast, Phase::Forward, up, 1);
                self.push(Role::HeadAutocast, Phase::Backward, down, 1);
            }
        }
    }

    /// Adds passes of what drafts tokens: of its layer and head, and the linear map before them.
    fn drafts(&mut self, items: &[Item], pass: &Workload, times: u64) {
        let hidden = self.arch.hidden;
        let input = gemms(1, pass.activation_dtype())(pass.rank_tokens(), hidden, 2 * hidden, Layout::Tn);
        let mut push = |role, op, count| self.push_per_step(role, Phase::Draft, op, count * times);
        push(Role::DraftInput, input, 1);
        for item in items {
            push(item.role, item.op, item.count);
        }
    }

    fn optimizer_and_collectives(&mut self) {
        let (arch, work, stage) = (self.arch, self.work, self.stage);
        if work.trains() {
            let [owned, experts] = work.trained(arch, stage, work.pp == 1, true);
            let updated = if work.zero > 0 {
                let replicas = work.expert_data_group().size;
                (owned - experts).div_ceil(work.data_group().size) + experts.div_ceil(replicas)
            } else {
                owned
            };
            let (kind, dtype) = match work.optimizer_states {
                OptimizerStates::Fp32 => (MemoryKind::Adam, Dtype::Fp32),
                OptimizerStates::Bf16 => (MemoryKind::PlainAdam, work.activation_dtype()),
            };
            let updated = match work.optimizer {
                Optimizer::AdamW => updated,
                // As many elements of Adam as move the bytes.
                _ => (updated as f64 * relative_traffic(work)).ceil() as u64,
            };
            let adam = Op::Memory(Memory::forward(kind, updated, 1, dtype));
            let on_gpu = u64::from(!work.offload.optimizer());
            self.push_per_step(Role::Optimizer, Phase::Update, adam, on_gpu);
        }
        collectives(arch, work, stage, |role, phase, op, count| {
            self.push_per_step(role, phase, op, count);
        });
    }
}

#[cfg(test)]
mod tests;
