//! What a search varies only where it is asked to: dimensions of the workload, each with its choices.

use crate::arch::Dimension;

named_enum! {
    /// What else a search may vary.
    Free {
        /// Sequences per micro-batch, up to 64.
        MicroBatch = "micro-batch",
        /// Tensor-parallel ranks, up to the 8 GPUs of a usual node.
        Tp = "tp",
        /// Pipeline stages, up to 8.
        Pp = "pp",
    }
}

impl Free {
    /// The dimension that varies.
    pub const fn dimension(self) -> Dimension {
        match self {
            Self::MicroBatch => Dimension::Batch,
            Self::Tp => Dimension::Tp,
            Self::Pp => Dimension::Pp,
        }
    }

    /// What there is to choose from: powers of two.
    pub fn choices(self) -> Vec<u64> {
        let largest_log2 = match self {
            Self::MicroBatch => 6,
            Self::Tp | Self::Pp => 3,
        };
        (0..=largest_log2).map(|power| 1 << power).collect()
    }
}
