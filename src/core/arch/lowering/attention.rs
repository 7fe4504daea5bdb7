//! Lowering of the attention block: norm, projections, attention core, output projection, residual.

use super::super::layer::{Linear, attention_linears, index_linears, keys_values, rank_heads, rank_kv_heads};
use super::super::{AttentionKernel, Index, Mla, Mode, NormPlacement, Phase, Positions, QkNorm, Role};
use super::{Lowering, Scope};
use crate::ops::{Attention, Dtype, Gemm, IndexedAttention, Layout, Memory, MemoryKind, Op, Pass};

impl Lowering<'_> {
    pub(super) fn attention_block(&mut self) {
        let (arch, layers) = (self.arch, self.stage.attention());
        let (rows, hidden) = (self.work.residual_rows(), arch.hidden);
        if layers == 0 {
            return;
        }
        if arch.norm.placement != NormPlacement::Post {
            self.norm(Role::AttentionNorm, rows, hidden, Scope::Layer, layers);
        }
        if let (Some(index), Some(mla), false) = (arch.index, arch.mla, self.work.trains()) {
            self.indexed_attention(index, mla);
        } else {
            self.attention_inputs();
            self.index_scores();
            let chosen = arch.index.map_or(0, |index| index.top_k);
            self.attention_core(self.stage.full_attention, chosen);
            let window = arch.window.map_or(0, |window| window.size);
            let compressed = match arch.index {
                _ if arch.stride() == 0 => 0,
                None => self.seen_keys(),
                Some(index) => self.seen_keys().min(index.top_k),
            };
            self.attention_core(self.stage.windowed, window + compressed);
            self.attention_outputs();
        }
        if arch.norm.placement.follows_branches() {
            self.norm(Role::AttentionPostNorm, rows, hidden, Scope::Layer, layers);
        }
        self.residual(Role::AttentionOutputDropout, Role::AttentionResidual, layers);
    }

    /// Serving: everything between norm and residual add as the module that was timed, in layers with an index of their own and
    /// in those without.
    fn indexed_attention(&mut self, index: Index, mla: Mla) {
        let (arch, work) = (self.arch, self.work);
        // Every query of a decoding step chooses its own keys.
        let [batch, seq_q] = work.recurrent_tokens();
        let of = |index_heads| {
            Op::IndexedAttention(IndexedAttention {
                batch,
                heads: rank_heads(arch, work.tp),
                seq_q,
                seq_kv: work.keys(),
                hidden: arch.hidden,
                query_rank: mla.q_lora_rank.unwrap_or(arch.hidden),
                latent: mla.kv_lora_rank,
                rotary: mla.qk_rope,
                head_dim: arch.head_dim,
                value_dim: mla.v_head_dim,
                index_heads,
                index_dim: index.head_dim,
                top_k: index.top_k,
                cache_dtype: work.cache_dtype(),
                dtype: match self.packs(Role::AttentionProjection) {
                    true => work.linear_dtype(),
                    false => work.activation_dtype(),
                },
            })
        };
        let (own, all) = (self.stage.indexed, self.stage.attention());
        for (layers, op) in [(own, of(index.heads)), (all - own, of(0))] {
            self.push(Role::IndexedAttention, Phase::Forward, op, layers);
        }
    }

    /// Keys that a query in the middle sees, or scores: of each block one, where they are compressed.
    fn seen_keys(&self) -> u64 {
        (self.work.keys() - self.work.seq / 2) / self.arch.stride().max(1)
    }

    /// Scores of all keys by an index, and the choice of the best, as kernels of their own, unless every key is chosen.
    fn index_scores(&mut self) {
        let (Some(index), work, times) = (self.arch.index, self.work, self.stage.indexed) else {
            return;
        };
        for linear in index_linears(self.arch) {
            self.linear(&linear, work.rank_tokens(), 1, Scope::Layer, times);
        }
        if work.keys() / self.arch.stride().max(1) <= index.top_k {
            return;
        }
        let keys = self.seen_keys();
        // Attention without values: as many products and bytes as over half the keys with values.
        let scores = Attention {
            kv_heads: 1,
            seq_kv: keys.div_ceil(2),
            causal: false,
            dtype: match work.mode {
                Mode::Decode => work.cache_dtype(),
                _ => work.activation_dtype(),
            },
            ..Attention::new(work.batch, index.heads, work.seq, index.head_dim)
        };
        let backward = Attention {
            pass: Pass::Backward,
            ..scores
        };
        let backward = [(Phase::Backward, Op::Attention(backward))];
        self.emit(Role::IndexScores, Scope::Core, times, Op::Attention(scores), &backward);
        // Blocks are chosen for each head, single keys for all.
        let rows = match index.block {
            1 => work.batch * work.seq,
            _ => work.batch * work.seq * index.heads,
        };
        let kind = MemoryKind::Softmax;
        self.memory(
            Role::IndexChoice,
            kind,
            rows,
            keys.div_ceil(index.block),
            Scope::Layer,
            times,
        );
    }

    /// Whether latent attention runs in its absorbed form.
    fn absorbed(&self) -> bool {
        self.arch.mla.is_some() && self.work.mode == Mode::Decode
    }

    /// Everything between the attention norm and the attention core.
    fn attention_inputs(&mut self) {
        let (arch, work, layers) = (self.arch, self.work, self.stage.attention());
        let tokens = work.rank_tokens();
        let heads = rank_heads(arch, work.tp);
        let scope = Scope::Layer;
        for linear in attention_linears(arch, work.tp) {
            match linear.role {
                Role::AttentionProjection | Role::AttentionOutputDown => {}
                // Absorbed: the weight is applied to queries and outputs instead, head by head.
                Role::KeyValueUp if self.absorbed() => {}
                // A cached prefix is stored as latent and expanded again.
                Role::KeyValueUp => {
                    let rows = work.batch * work.keys() / work.cp;
                    self.linear(&linear, rows, 1, scope, layers);
                }
                _ => self.linear(&linear, tokens, 1, scope, layers),
            }
            let rank = linear.outputs;
            match (linear.role, arch.mla) {
                (Role::QueryDown, _) => {
                    self.norm(Role::QueryLatentNorm, tokens, rank, scope, layers);
                }
                (Role::KeyValueDown, mla) => {
                    let rank = mla.map_or(rank, |mla| mla.kv_lora_rank);
                    self.norm(Role::KeyValueLatentNorm, tokens, rank, scope, layers);
                }
                _ => {}
            }
        }
        let queries = heads * arch.head_dim;
        let [keys, values] = keys_values(arch, work.tp);
        let (query_shape, key_shape) = match arch.norm.qk {
            QkNorm::None => ((0, 0), (0, 0)),
            QkNorm::Head => (
                (tokens * heads, arch.head_dim),
                (tokens * keys / arch.head_dim, arch.head_dim),
            ),
            QkNorm::Full => ((tokens, queries), (tokens, keys)),
        };
        if arch.norm.qk != QkNorm::None {
            self.norm(Role::QueryNorm, query_shape.0, query_shape.1, scope, layers);
            let of_keys = if keys > 0 { layers } else { 0 };
            self.norm(Role::KeyNorm, key_shape.0, key_shape.1, scope, of_keys);
        }
        if arch.positions == Positions::Rotary {
            let cols = arch.mla.map_or(queries + keys, |mla| (heads + 1) * mla.qk_rope);
            self.memory(Role::Rotary, MemoryKind::Rotary, tokens, cols, scope, layers);
        }
        if !work.trains() {
            let cols = arch.mla.map_or(keys + values, |mla| mla.kv_lora_rank + mla.qk_rope);
            let written = if cols > 0 { layers } else { 0 };
            self.memory(Role::CacheWrite, MemoryKind::Copy, tokens, cols, scope, written);
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
        if self.arch.output_gate || self.arch.head_gate {
            let tokens = self.work.rank_tokens();
            let width = rank_heads(self.arch, self.work.tp) * self.arch.value_dim();
            let layers = self.stage.attention();
            self.memory(
                Role::AttentionOutputGate,
                MemoryKind::Swiglu,
                tokens,
                width,
                Scope::Layer,
                layers,
            );
        }
        for linear in attention_linears(self.arch, self.work.tp) {
            if matches!(linear.role, Role::AttentionProjection | Role::AttentionOutputDown) {
                let tokens = self.work.rank_tokens();
                self.linear(&linear, tokens, linear.members, Scope::Layer, self.stage.attention());
            }
        }
    }

    /// One small GEMM per query head.
    fn per_head(&mut self, role: Role, inputs: u64, outputs: u64) {
        let heads = rank_heads(self.arch, self.work.tp);
        let linear = Linear {
            members: heads,
            ..Linear::new(role, inputs, outputs, false)
        };
        let (tokens, layers) = (self.work.rank_tokens(), self.stage.attention());
        self.linear(&linear, tokens, heads, Scope::Layer, layers);
    }

    fn attention_core(&mut self, layers: u64, window: u64) {
        if layers == 0 {
            return;
        }
        let (arch, work) = (self.arch, self.work);
        let heads = rank_heads(arch, work.tp);
        // A window that no query reaches is the same operator as none.
        let window = if window < work.keys() { window } else { 0 };
        let own = work.keys() / work.cp;
        // A rank sees its window at once, and all other keys in a ring, of which each step is as much work as the first.
        let (steps, keys) = match window {
            0 => (work.cp, own),
            _ => (1, work.keys().min(own + window)),
        };
        let calls = layers * steps;
        let mut op = Attention {
            kv_heads: rank_kv_heads(arch, work.tp),
            seq_kv: keys,
            value_dim: arch.value_dim(),
            causal: true,
            window,
            dtype: match work.mode {
                Mode::Decode => work.cache_dtype(),
                _ => work.activation_dtype(),
            },
            ..Attention::new(work.batch, heads, work.seq / work.cp, arch.head_dim)
        };
        if steps > 1 {
            self.merge_ring(&op, calls);
        }
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
                    calls,
                    Op::Attention(op),
                    &[(Phase::Backward, Op::Attention(backward))],
                );
            }
            AttentionKernel::Unfused => self.unfused_attention(&op, calls),
        }
    }

    /// Outputs of the steps of a ring, scaled by their softmax sums and added in fp32, and the sums of their gradients
    /// (Transformer Engine, `AttnFuncWithCPAndKVP2P`).
    fn merge_ring(&mut self, op: &Attention, calls: u64) {
        let rows = op.batch * op.seq_q;
        let add = |cols, dtype| Op::Memory(Memory::forward(MemoryKind::Add, rows, cols, dtype));
        let outputs = add(op.heads * op.value_dim, Dtype::Fp32);
        let keys_and_values = op.kv_heads * (op.head_dim + op.value_dim);
        let gradients = add(op.heads * op.head_dim + keys_and_values, op.dtype);
        let backward = [(Phase::Backward, gradients)];
        self.emit(Role::AttentionMerge, Scope::Core, calls, outputs, &backward);
    }

    /// Score and value as batched GEMMs over all query heads, with the kernels between them.
    fn unfused_attention(&mut self, op: &Attention, layers: u64) {
        let (q, kv) = (op.seq_q, op.seq_kv);
        let batch = op.batch * op.heads;
        let gemm = |m, n, k, layout| {
            let dtype = op.dtype;
            Op::Gemm(Gemm {
                batch,
                layout,
                dtype,
                ..Gemm::new(m, n, k)
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
}
