//! What a search varies only where it is asked to.

use crate::arch::Dimension;
use crate::named_enum;

named_enum! {
    /// What else a search may vary.
    Free {
        /// Sequences per micro-batch, up to 64.
        MicroBatch = "micro-batch",
        /// Tensor-parallel ranks, up to the 8 GPUs of a usual node.
        Tp = "tp",
        /// Pipeline stages, up to 8.
        Pp = "pp",
        /// The share of the layers whose attention sees a sliding window: none, a half, three quarters, five sixths.
        Window = "window",
        /// The share of the layers with linear attention: none, a half, three quarters, seven eighths, or those that are asked for.
        Linear = "linear",
        /// Latent attention of several ranks, or none.
        Latent = "latent",
    }
}

impl Free {
    /// The dimension that varies.
    pub const fn dimension(self) -> Dimension {
        match self {
            Self::MicroBatch => Dimension::Batch,
            Self::Tp => Dimension::Tp,
            Self::Pp => Dimension::Pp,
            Self::Window => Dimension::WindowLayers,
            Self::Linear => Dimension::LinearLayers,
            Self::Latent => Dimension::KvLoraRank,
        }
    }

    /// What there is to choose from of the workload: powers of two; `None` if the choices depend on the architecture.
    pub fn powers(self) -> Option<Vec<u64>> {
        let largest_log2 = match self {
            Self::MicroBatch => 6,
            Self::Tp | Self::Pp => 3,
            Self::Window | Self::Linear | Self::Latent => return None,
        };
        Some((0..=largest_log2).map(|power| 1 << power).collect())
    }
}
