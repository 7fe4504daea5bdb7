//! The figures of one GPU that features and reference times are made of.

use super::row::TILE_EDGE;
use super::{Kernels, collective, experts};
use crate::gpu::{Generation, Gpu};
use crate::ops::{Dtype, Gemm, Op};
use crate::units::{Bytes, Flops, Seconds};

/// The rates of one GPU with the launch term of one software stack, read out once.
#[derive(Clone, Copy, Debug)]
pub struct GpuRates {
    pub(super) sms: f64,
    /// FLOP/s by format.
    pub(super) peak: [f64; Dtype::ALL.len()],
    /// [`Gpu::greatest_peak`] over [`Gpu::nearest_peak`], of any format.
    pub(super) over_rated: f64,
    /// Bytes/s of device memory.
    pub(super) bandwidth: f64,
    /// Bytes of the second-level cache.
    pub(super) l2: f64,
    /// FLOPs of one multiprocessor per clock in fp16.
    pub(super) flops_per_clock: f64,
    /// Seconds.
    pub(super) launch: f64,
    /// Bytes/s to another GPU of the node, in one direction.
    pub(super) link: f64,
    /// Bytes/s to a GPU of another node.
    pub(super) network: f64,
    /// GPUs per link domain; `None` if the link reaches all of them.
    pub(super) gpus_per_node: Option<u64>,
    /// The largest exponent of a power of two in a size that is a feature of GEMM nets.
    pub(super) largest_power: u32,
    /// Tiles that were tuned for fused MoE layers.
    pub(super) fused_tiles: &'static [experts::Tuned],
}

/// The largest exponent of a power of two in a size that is a feature of GEMM nets: rows a multiple of 4,096 elements apart compete
/// for few sets of a cache. Up to Ampere and CDNA 2 it is that of a tile edge: along the widths of the co-design paper's sweep
/// rates do not fall after 2,048 and 4,096 (docs/method/features.md).
const fn largest_power(generation: Generation) -> u32 {
    match generation {
        Generation::Volta | Generation::Turing | Generation::Ampere | Generation::Cdna2 => TILE_EDGE,
        _ => 12,
    }
}

/// Times of one operator in seconds.
pub(super) struct Times {
    /// Arithmetic at peak.
    pub(super) compute: f64,
    /// Traffic at full bandwidth.
    pub(super) memory: f64,
    /// The longer of the two.
    pub(super) roofline: f64,
    /// Launch term plus roofline.
    pub(super) reference: f64,
}

impl GpuRates {
    /// Rates of this GPU; `launch` is the additive launch term of the software stack.
    ///
    /// A format the part has no matrix units for runs at the peak of the next wider one.
    pub fn new(gpu: &Gpu, launch: Seconds) -> Self {
        let peak = Dtype::ALL.map(|dtype| gpu.nearest_peak(dtype).flops_per_sec());
        let sms = gpu.sm_count() as f64;
        let link = collective::link(gpu);
        Self {
            sms,
            peak,
            over_rated: gpu.greatest_peak(Dtype::Fp16) / gpu.nearest_peak(Dtype::Fp16),
            bandwidth: gpu.bandwidth().bytes_per_sec(),
            l2: gpu.l2().bytes(),
            flops_per_clock: peak[Dtype::Fp16 as usize] / sms / gpu.clock().hertz(),
            launch: launch.secs(),
            link: link.bytes_per_sec(),
            network: link.min(gpu.network_bandwidth()).bytes_per_sec(),
            gpus_per_node: gpu.gpus_per_node(),
            largest_power: largest_power(gpu.generation),
            fused_tiles: experts::tuned(&gpu.name),
        }
    }

    /// The rates of a GPU whose matrix units are so many times as fast.
    #[must_use]
    pub fn with_peaks_times(mut self, factor: f64) -> Self {
        self.peak = self.peak.map(|peak| peak * factor);
        self.flops_per_clock *= factor;
        self
    }

    /// The times that features are relative to.
    pub(super) fn times(&self, flops: Flops, bytes: Bytes, dtype: Dtype) -> Times {
        let compute = flops.flops() / self.peak[dtype as usize];
        let memory = bytes.bytes() / self.bandwidth;
        let roofline = compute.max(memory);
        Times {
            compute,
            memory,
            roofline,
            reference: self.launch + roofline,
        }
    }

    /// `max(flops / peak, bytes / bandwidth)`, of collectives bytes over their link: no kernel is faster.
    pub fn roofline(&self, op: &Op) -> Seconds {
        Seconds::from_secs(dispatch!(op, F, op => F::roofline(op, self)))
    }

    /// What no kernel is faster than: arithmetic at [`Gpu::greatest_peak`], and the traffic that the second-level cache cannot
    /// hold, once; of a collective what each rank sends over its link.
    pub fn least(&self, op: &Op) -> Seconds {
        if let Op::Collective(op) = op {
            return Seconds::from_secs(collective::least(op, self));
        }
        let Some(dtype) = op.dtype() else {
            return Seconds::ZERO;
        };
        let compute = op.flops().flops() / (self.peak[dtype as usize] * self.over_rated);
        let memory = (op.bytes().bytes() - self.l2).max(0.0) / self.bandwidth;
        Seconds::from_secs(compute.max(memory))
    }

    /// Whether a GEMM in 16 bits or fp8 waits for weights alone: more than twice what the second-level cache holds, over 30 us of
    /// the bandwidth, and less than 0.3 of that in arithmetic.
    pub fn waits_for_weights(&self, op: &Gemm) -> bool {
        let memory = op.bytes().bytes() / self.bandwidth;
        let compute = op.flops().flops() / self.peak[op.dtype as usize];
        let is_plain = matches!(op.dtype, Dtype::Bf16 | Dtype::Fp16 | Dtype::Fp8);
        is_plain && op.right_bytes().bytes() > 2.0 * self.l2 && memory > 30e-6 && compute < 0.3 * memory
    }

    /// Launch term plus roofline: the scale that a net's output multiplies.
    pub fn reference(&self, op: &Op) -> Seconds {
        Seconds::from_secs(self.launch) + self.roofline(op)
    }

    /// The additive launch term.
    pub fn launch(&self) -> Seconds {
        Seconds::from_secs(self.launch)
    }

    /// Multiprocessors.
    pub fn sms(&self) -> f64 {
        self.sms
    }

    /// Rates that belong to no GPU and never change: what the digests of the features are taken on.
    pub(super) const FIXED: [Self; 2] = [
        Self {
            sms: 132.0,
            peak: [
                6.7e13, 4.945e14, 9.89e14, 9.89e14, 1.979e15, 1.979e15, 1.979e15, 3.958e15, 9.89e14, 9.89e14, 1.979e15,
                3.958e15,
            ],
            over_rated: 1.0,
            bandwidth: 4.8e12,
            l2: 5.0e7,
            flops_per_clock: 4096.0,
            launch: 2.5e-6,
            link: 4.5e11,
            network: 5.0e10,
            gpus_per_node: Some(8),
            largest_power: 12,
            fused_tiles: &[],
        },
        Self {
            sms: 80.0,
            peak: [
                1.57e13, 1.57e13, 1.25e14, 1.25e14, 1.25e14, 1.25e14, 1.25e14, 1.25e14, 1.25e14, 1.25e14, 1.25e14,
                1.25e14,
            ],
            over_rated: 1.0,
            bandwidth: 9.0e11,
            l2: 6.0e6,
            flops_per_clock: 1024.0,
            launch: 5.0e-6,
            link: 1.5e11,
            network: 3.2e10,
            gpus_per_node: None,
            largest_power: TILE_EDGE,
            fused_tiles: &[],
        },
    ];
}
