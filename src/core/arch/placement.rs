//! Which GPUs exchange data: every kind of parallelism divides the GPUs into groups.
//!
//! Ranks nest in the order tensor, context, data, pipeline, as Megatron-LM numbers them: the tensor-parallel ranks of a
//! replica are neighbours, pipeline stages are furthest apart. Routed experts have their own order over the same GPUs:
//! ranks that share an expert, ranks that hold different experts, replicas.

use super::Workload;

/// GPUs that exchange data: `size` of them, `stride` apart in the numbering of all GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// GPUs of the group.
    pub size: u64,
    /// Distance between neighbours.
    pub stride: u64,
}

impl Workload {
    /// Ranks that share every linear map.
    pub const fn tensor_group(&self) -> Group {
        Group {
            size: self.tp,
            stride: 1,
        }
    }

    /// Ranks that share every sequence.
    pub const fn context_group(&self) -> Group {
        Group {
            size: self.cp,
            stride: self.tp,
        }
    }

    /// Ranks that hold different routed experts.
    pub const fn expert_group(&self) -> Group {
        Group {
            size: self.ep,
            stride: self.expert_ranks(),
        }
    }

    /// Ranks that hold the same weights outside the routed experts: replicas, and the ranks that share their sequences.
    pub const fn data_group(&self) -> Group {
        Group {
            size: self.cp * self.dp,
            stride: self.tp,
        }
    }

    /// Ranks that hold the same routed experts.
    pub const fn expert_data_group(&self) -> Group {
        let sharing = self.expert_ranks() * self.ep;
        let size = self.tp * self.cp * self.dp / sharing;
        Group {
            size: if size == 0 { 1 } else { size },
            stride: sharing,
        }
    }

    /// The next pipeline stage.
    pub const fn pipeline_group(&self) -> Group {
        Group {
            size: 2,
            stride: self.tp * self.cp * self.dp,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_cover_all_gpus_of_a_stage() {
        let work = Workload {
            tp: 4,
            cp: 2,
            dp: 16,
            pp: 8,
            ep: 32,
            expert_tp: 1,
            ..Workload::train(1, 4096)
        };
        let group = |size, stride| Group { size, stride };
        assert_eq!(work.tensor_group(), group(4, 1));
        assert_eq!(work.context_group(), group(2, 4));
        assert_eq!(work.data_group(), group(32, 4));
        assert_eq!(work.expert_group(), group(32, 1));
        assert_eq!(work.expert_data_group(), group(4, 32));
        assert_eq!(work.pipeline_group().stride, 128);
        assert_eq!((work.gpus_per_replica(), work.gpus()), (64, 1024));
    }
}
