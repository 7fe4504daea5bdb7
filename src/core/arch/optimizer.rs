//! What updates the weights, and what it keeps and moves of each parameter.

use super::{OptimizerStates, Workload};

named_enum! {
    /// What updates the weights.
    #[derive(Default)]
    Optimizer {
        /// Adam or AdamW: two moments.
        #[default]
        AdamW = "adamw" or "adam" or "adamw_torch" or "fused_adam",
        /// Two moments of 8 bits (bitsandbytes, torchao): 16-bit weights are updated as they are.
        AdamW8bit = "adamw8bit" or "adamw_8bit" or "adamw-8bit" or "adam8bit" or "adamw_bnb_8bit",
        /// Two moments in pages that leave the GPU for host memory (bitsandbytes): 16-bit weights are updated as they are.
        PagedAdamW = "paged_adamw" or "paged-adamw" or "paged_adamw_32bit",
        /// The same with moments of 8 bits.
        PagedAdamW8bit = "paged_adamw8bit" or "paged_adamw_8bit" or "paged-adamw-8bit",
        /// One momentum (arXiv 2302.06675).
        Lion = "lion",
        /// One momentum of the matrices inside layers, whose update is orthogonalised; AdamW of all others. The time of the
        /// orthogonalisation is not counted.
        Muon = "muon",
        /// Sums of rows and columns in place of the second moment, no first (arXiv 1804.04235).
        Adafactor = "adafactor",
        /// No momentum.
        Sgd = "sgd",
    }
}

/// What an optimizer keeps of a parameter.
struct Kept {
    /// Values in the format of the states.
    moments: f64,
    /// Further bytes.
    bytes: f64,
    /// Whether a mixed-precision trainer keeps fp32 weights beside those of 16 bits.
    master: bool,
    /// Whether states leave the GPU.
    paged: bool,
}

/// Two 8-bit moments and the fp32 scale of each block of 256 of them.
const TWO_8_BIT_MOMENTS: f64 = 2.0 * (1.0 + 4.0 / 256.0);

impl Optimizer {
    const fn kept(self) -> Kept {
        let (moments, bytes, master, paged) = match self {
            Self::AdamW => (2.0, 0.0, true, false),
            Self::AdamW8bit => (0.0, TWO_8_BIT_MOMENTS, false, false),
            Self::PagedAdamW => (2.0, 0.0, false, true),
            Self::PagedAdamW8bit => (0.0, TWO_8_BIT_MOMENTS, false, true),
            Self::Lion | Self::Muon => (1.0, 0.0, true, false),
            Self::Adafactor | Self::Sgd => (0.0, 0.0, false, false),
        };
        Kept {
            moments,
            bytes,
            master,
            paged,
        }
    }

    /// Whether it keeps moments whose format can be chosen.
    pub const fn has_moments(self) -> bool {
        self.kept().moments > 0.0
    }

    /// Whether its states leave the GPU.
    pub const fn is_paged(self) -> bool {
        self.kept().paged
    }
}

/// Bytes of optimizer states a parameter, wherever they are.
pub(super) fn state_bytes(work: &Workload) -> f64 {
    let kept = work.optimizer.kept();
    let (moment, master) = match work.optimizer_states {
        OptimizerStates::Bf16 => (2.0, 0.0),
        OptimizerStates::Fp32 if kept.master && work.trained_dtype().size() < 4 => (4.0, 4.0),
        OptimizerStates::Fp32 => (4.0, 0.0),
    };
    kept.moments * moment + kept.bytes + master
}

/// Bytes of a second moment that AdamW keeps of parameters outside layers, where this optimizer has one of the others.
pub(super) fn further_bytes_of_edges(work: &Workload) -> f64 {
    match (work.optimizer, work.optimizer_states) {
        (Optimizer::Muon, OptimizerStates::Fp32) => 4.0,
        (Optimizer::Muon, OptimizerStates::Bf16) => 2.0,
        _ => 0.0,
    }
}

/// Bytes that an update moves over those that one of AdamW moves: it reads gradient and states, writes states and weight,
/// and reads a weight that has no fp32 copy.
pub(super) fn relative_traffic(work: &Workload) -> f64 {
    let bytes = |work: &Workload| {
        let wide = work.trained_dtype().size() as f64;
        let copied = work.optimizer.kept().master && work.optimizer_states == OptimizerStates::Fp32 && wide < 4.0;
        let read = if copied { 0.0 } else { wide };
        2.0 * wide + read + 2.0 * state_bytes(work)
    };
    let adamw = Workload {
        optimizer: Optimizer::AdamW,
        ..*work
    };
    bytes(work) / bytes(&adamw)
}
