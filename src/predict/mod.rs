//! From operators to times: which model answers, how certain it is, and how steps add up.
//!
//! A [`Predictor`] answers for one GPU. It never reads files: the caller hands it the artifacts.

pub mod estimate;
pub mod step;

use crate::features::Family;
use crate::gpu::Gpu;
use crate::op::Dtype;
use crate::op::Op;
use crate::predict::estimate::{Caveat, Caveats, Estimate, Tier};

/// Predicts operators on one GPU.
pub struct Predictor {
    gpu: &'static Gpu,
}

impl Predictor {
    /// The GPU the times are for.
    pub fn gpu(&self) -> &'static Gpu {
        self.gpu
    }

    /// The software stack that answers for this family and format, for table captions
    /// (`trtllm 1.3.0rc20 on h200`); none where nothing was learned.
    pub fn basis(&self, _family: Family, _dtype: Dtype) -> Option<String> {
        None
    }

    /// Predicts each operator, in order.
    pub fn predict(&self, ops: &[Op]) -> Vec<Estimate> {
        ops.iter().map(|op| self.roofline(op)).collect()
    }

    fn roofline(&self, op: &Op) -> Estimate {
        let mut caveats = Caveats::default();
        caveats.insert(Caveat::NotLearned);
        let time = op.bytes() / self.gpu.reachable_bandwidth() + self.gpu.launch_floor();
        Estimate {
            time,
            half_width: 0.3,
            shared: 0.3,
            tier: Tier::Roofline,
            caveats,
        }
    }
}
