//! Lowering of blocks with linear attention: norm, projections, convolution, recurrence, gated norm, projection, residual.
//!
//! The norm of the outputs is fused with their gate, and so has the traffic of a gated activation. A short convolution has
//! a gate on either side and no recurrence.

use super::super::layer::{linear_attention_linears, rank_linear};
use super::super::{Architecture, LinearLayers, Mode, NormPlacement, Phase, Role, Workload};
use super::{Lowering, Scope};
use crate::ops::{LinearAttention, MemoryKind, Op, Pass};

/// The recurrence of one layer over all tokens of one rank; `None` without one.
fn recurrence(linear: &LinearLayers, work: &Workload) -> Option<LinearAttention> {
    // A decoding step keeps the state after each token.
    let [batch, seq_q] = work.recurrent_tokens();
    Some(LinearAttention {
        kind: linear.kind?,
        batch,
        heads: linear.heads,
        key_heads: linear.key_heads,
        seq_q,
        head_dim: linear.head_dim,
        value_dim: linear.value_dim,
        pass: Pass::Forward,
        dtype: work.activation_dtype(),
    })
}

/// Forward arithmetic of the recurrence of one layer over the tokens of a replica.
pub(super) fn flops(arch: &Architecture, work: &Workload) -> f64 {
    let op = arch.linear.and_then(|linear| recurrence(&linear, work));
    op.map_or(0.0, |op| op.flops().flops())
}

impl Lowering<'_> {
    pub(super) fn linear_block(&mut self) {
        let (arch, work, layers) = (self.arch, self.work, self.stage.linear);
        let Some(rank) = arch
            .linear
            .filter(|_| layers > 0)
            .map(|linear| rank_linear(&linear, work.tp))
        else {
            return;
        };
        let (rows, hidden, scope) = (work.residual_rows(), arch.hidden, Scope::Layer);
        // Beside attention it takes what the norm of that gives.
        if arch.norm.placement != NormPlacement::Post && !rank.beside {
            self.norm(Role::AttentionNorm, rows, hidden, scope, layers);
        }
        let tokens = work.rank_tokens();
        for linear in linear_attention_linears(arch, work.tp) {
            if linear.role == Role::LinearOutput {
                self.recurrence_core(rank, layers);
            }
            self.linear(&linear, tokens, linear.members, scope, layers);
        }
        if arch.norm.placement.follows_branches() {
            self.norm(Role::AttentionPostNorm, rows, hidden, scope, layers);
        }
        self.residual(Role::AttentionOutputDropout, Role::AttentionResidual, layers);
    }

    /// Everything between the projections.
    fn recurrence_core(&mut self, rank: LinearLayers, layers: u64) {
        let tokens = self.work.rank_tokens();
        let op = recurrence(&rank, self.work);
        let gate = MemoryKind::Swiglu;
        let convolution = match self.work.mode {
            Mode::Decode => MemoryKind::CausalConvStep,
            Mode::Train | Mode::Prefill => MemoryKind::CausalConv,
        };
        let scope = Scope::Layer;
        if op.is_none() && rank.step_rank == 0 {
            self.memory(Role::LinearGate, gate, tokens, rank.values(), scope, layers);
        }
        if rank.taps > 0 {
            let channels = rank.channels();
            self.memory(Role::LinearConvolution, convolution, tokens, channels, scope, layers);
        }
        if rank.step_rank > 0 {
            // The scan reads inputs, step sizes and gates and writes as many outputs; a decoding step its states in fp32.
            let states = match self.work.mode {
                Mode::Decode => 2 * rank.states(),
                Mode::Train | Mode::Prefill => 0,
            };
            let cols = 2 * rank.values() + rank.head_dim + states;
            return self.memory(Role::LinearAttention, MemoryKind::Copy, tokens, cols, scope, layers);
        }
        let Some(op) = op else {
            return self.memory(Role::LinearGate, gate, tokens, rank.values(), scope, layers);
        };
        let backward = LinearAttention {
            pass: Pass::Backward,
            ..op
        };
        self.emit(
            Role::LinearAttention,
            Scope::Core,
            layers,
            Op::LinearAttention(op),
            &[(Phase::Backward, Op::LinearAttention(backward))],
        );
        self.memory(Role::LinearNorm, gate, tokens, rank.values(), scope, layers);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{Practice, Preset, memory_use};
    use super::*;
    use crate::arch::{Step, lower};

    fn lowered(name: &str, work: &Workload) -> Step {
        lower(&Preset::find(name).unwrap().architecture, work).unwrap()
    }

    /// How often operators of a role run forward.
    fn forward(step: &Step, role: Role) -> u64 {
        let items = step.items.iter();
        let forward = items.filter(|item| (item.role, item.phase) == (role, Phase::Forward));
        forward.map(|item| item.count).sum()
    }

    #[test]
    fn every_fourth_layer_attends_and_the_others_keep_a_state() {
        let work = Workload {
            tp: 2,
            ..Workload::train(1, 4096)
        };
        let step = lowered("qwen3-next-80b-a3b", &work);
        for (role, count) in [
            (Role::Attention, 12),
            (Role::AttentionOutputGate, 12),
            (Role::LinearAttention, 36),
            (Role::LinearConvolution, 36),
            (Role::AttentionNorm, 48),
            (Role::AttentionResidual, 48),
            (Role::Router, 48),
        ] {
            assert_eq!(forward(&step, role), count, "{role}");
        }
        let of = |phase| {
            let mut items = step.items.iter();
            let item = items.find(|item| (item.role, item.phase) == (Role::LinearAttention, phase));
            let Some(Op::LinearAttention(op)) = item.map(|item| item.op) else {
                panic!("no linear attention {phase}")
            };
            (op.heads, op.key_heads, op.seq_q, op.pass)
        };
        assert_eq!(of(Phase::Forward), (16, 8, 4096, Pass::Forward));
        assert_eq!(of(Phase::Backward), (16, 8, 4096, Pass::Backward));
    }

    #[test]
    fn a_layer_of_one_block_has_one_norm() {
        let step = lowered("nemotron-h-8b", &Workload::decode(8, 4096));
        for (role, count) in [
            (Role::Attention, 4),
            (Role::LinearAttention, 24),
            (Role::AttentionNorm, 28),
            (Role::MlpNorm, 24),
            (Role::MlpUp, 24),
            (Role::MlpResidual, 24),
        ] {
            assert_eq!(forward(&step, role), count, "{role}");
        }
        let mut items = step.items.iter();
        let convolution = items.find(|item| item.role == Role::LinearConvolution);
        let Some(Op::Memory(convolution)) = convolution.map(|item| item.op) else {
            panic!("no convolution")
        };
        assert_eq!(convolution.kind, MemoryKind::CausalConvStep);
        assert_eq!((convolution.rows, convolution.cols), (8, 128 * 64 + 2 * 8 * 128));
    }

    #[test]
    fn a_short_convolution_has_two_gates_and_keeps_a_few_tokens() {
        let arch = Architecture {
            linear: Some(LinearLayers {
                kind: None,
                layers: 10,
                key_heads: 32,
                heads: 32,
                head_dim: 64,
                value_dim: 64,
                taps: 3,
                ..LinearLayers::default()
            }),
            ..Architecture::gpt(2048, 16, 32)
        };
        let work = Workload::decode(8, 1023);
        let step = lower(&arch, &work).unwrap();
        for (role, count) in [
            (Role::Attention, 6),
            (Role::LinearAttention, 0),
            (Role::LinearConvolution, 10),
            (Role::LinearGate, 20),
            (Role::LinearNorm, 0),
            (Role::AttentionNorm, 16),
        ] {
            assert_eq!(forward(&step, role), count, "{role}");
        }
        let memory = memory_use(&arch, &work, &Practice::default()).unwrap();
        let sequence = 6.0 * 1024.0 * 2.0 * 2048.0 * 2.0 + 10.0 * 2048.0 * 2.0 * 2.0;
        assert_eq!(memory.kv_cache.bytes(), 8.0 * sequence);
    }

    #[test]
    fn a_state_beside_attention_shares_its_norm_and_one_alone_has_no_mlp() {
        let linear = LinearLayers {
            kind: Some(crate::ops::Recurrence::Mamba2),
            layers: 16,
            key_heads: 1,
            heads: 32,
            head_dim: 64,
            value_dim: 64,
            taps: 4,
            beside: true,
            unnormed: true,
            ..LinearLayers::default()
        };
        let alone = LinearLayers {
            beside: false,
            ..linear
        };
        for (linear, mlp_layers, counts) in [
            (linear, None, [16, 16, 16, 32, 16]),
            (alone, Some(0), [0, 16, 16, 16, 0]),
        ] {
            let arch = Architecture {
                linear: Some(linear),
                mlp_layers,
                ..Architecture::gpt(2048, 16, 32)
            };
            let step = lower(&arch, &Workload::decode(8, 1023)).unwrap();
            let roles = [
                Role::Attention,
                Role::LinearAttention,
                Role::AttentionNorm,
                Role::AttentionResidual,
                Role::MlpUp,
            ];
            assert_eq!(roles.map(|role| forward(&step, role)), counts);
        }
    }

    #[test]
    fn states_do_not_grow_with_the_context() {
        let arch = &Preset::find("qwen3-next-80b-a3b").unwrap().architecture;
        let cache = |context| {
            let memory = memory_use(arch, &Workload::decode(1, context), &Practice::default()).unwrap();
            memory.kv_cache.bytes()
        };
        let states = 36.0 * (32.0 * 128.0 * 128.0 * 4.0 + 8192.0 * 3.0 * 2.0);
        let token = 12.0 * 2.0 * 2.0 * 256.0 * 2.0;
        assert_eq!(cache(1023), states + 1024.0 * token);
        assert_eq!(cache(32_767), states + 32_768.0 * token);
    }

    #[test]
    fn context_parallel_ranks_and_heads_that_do_not_divide_are_refused() {
        let arch = &Preset::find("qwen3-next-80b-a3b").unwrap().architecture;
        let refused = |work: Workload| work.validate(arch).unwrap_err().to_string();
        let cp = Workload {
            cp: 2,
            ..Workload::train(1, 4096)
        };
        assert!(refused(cp).contains("`cp` is 2; allowed: 1 with linear attention"));
        let mut other = arch.clone();
        other.linear.as_mut().unwrap().layers = 49;
        let error = other.validate().unwrap_err().to_string();
        assert!(error.contains("`linear.layers` is 49; allowed: 1 to 48"), "{error}");
    }
}
