//! Measured ratios between kernels of attention: backward over forward, bidirectional over causal, head sizes
//! between the tiles of 64 and 128.
//!
//! `data/attention.toml` holds curves over the length by GPU, kernel and head size; the nearest one answers.

use crate::error::Result;
use crate::gpu::{Generation, Gpu, Vendor};
use crate::ops::{Attention, Pass};
use crate::predict::log_log::LogLog;
use crate::stats::quadrature;
use crate::units::Seconds;
use serde::Deserialize;
use std::sync::LazyLock;

/// How far a head size twice as large is, on the scale of [`Near::distance`].
const OCTAVE: f64 = 2.0;

named_enum! {
    /// What is divided by what.
    Ratio {
        /// The backward pass by the forward pass.
        Backward = "backward",
        /// Bidirectional attention by causal.
        Full = "full",
        /// A head size by 64.
        Head = "head",
    }
}

named_enum! {
    /// Which keys a query sees.
    Mask {
        /// Those before it.
        Causal = "causal",
        /// All.
        Full = "full",
        /// The last few.
        Window = "window",
    }
}

impl Mask {
    const fn of(op: &Attention) -> Self {
        match (op.window, op.causal) {
            (1.., _) => Self::Window,
            (0, true) => Self::Causal,
            (0, false) => Self::Full,
        }
    }
}

/// One ratio over the length of the keys.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    /// What is divided by what.
    pub ratio: Ratio,
    /// The GPU that was measured.
    pub gpu: String,
    /// Generations that run this kernel; that of the GPU where none are named.
    pub generations: Option<Vec<Generation>>,
    /// The kernel that was measured.
    pub kernel: String,
    /// Size of an element of the operands.
    pub bits: u64,
    /// Head size of queries and keys.
    pub head_dim: u64,
    /// Which keys a query saw; `None` if the ratio is not of the backward pass.
    pub mask: Option<Mask>,
    /// The ratio by length.
    points: LogLog,
    /// Pairs of measurements that the points were fitted to.
    pub rows: u64,
    /// Mean of `|ln(fitted / measured)|` on pairs that were held out.
    pub error: f64,
    /// Half width of the 90 % interval of the logarithm of the ratio.
    pub half_width: f64,
    /// Where the measurements were published.
    pub source: String,
}

/// Widths of ratios on GPUs that were not measured.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Transfer {
    within_generation: f64,
    across_generations: f64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    transfer: Transfer,
    curve: Vec<Curve>,
}

static DOCUMENT: LazyLock<Document> = built_in!("data/attention.toml");

/// How the time of one kernel becomes that of another.
#[derive(Clone, Copy, Debug)]
pub struct Carried {
    /// Multiplies the time beyond the launch term.
    pub factor: f64,
    /// Half width of the 90 % interval of its logarithm.
    pub half_width: f64,
}

impl Carried {
    /// This time with what lies beyond `launch` multiplied.
    pub fn apply(self, time: Seconds, launch: Seconds) -> Seconds {
        if self.factor == 1.0 || time <= launch {
            return time;
        }
        launch + (time - launch) * self.factor
    }

    /// The time of the kernel itself.
    pub const NOTHING: Self = Self {
        factor: 1.0,
        half_width: 0.0,
    };
}

/// The curves as one GPU sees them.
pub struct Ratios {
    curves: Vec<Near>,
}

/// A curve and how far its GPU is.
struct Near {
    curve: &'static Curve,
    distance: f64,
    half_width: f64,
}

impl Ratios {
    /// The curves of `data/attention.toml`, those of this GPU nearest.
    pub fn of(gpu: &Gpu) -> Result<Self> {
        let Document { transfer, curve } = &*DOCUMENT;
        let near = |curve: &'static Curve| -> Result<Near> {
            let measured = Gpu::find(&curve.gpu)?;
            let runs_it = match &curve.generations {
                Some(generations) => generations.contains(&gpu.generation),
                None => measured.generation == gpu.generation,
            };
            // An order of preference: this GPU, its generation, its maker.
            let (distance, carried) = if measured.name == gpu.name {
                (0.0, 0.0)
            } else if runs_it && gpu.generation != Generation::Other {
                (1.0, transfer.within_generation)
            } else if measured.vendor == gpu.vendor && gpu.vendor != Vendor::Other {
                (3.0, transfer.across_generations)
            } else {
                (4.0, transfer.across_generations)
            };
            Ok(Near {
                curve,
                distance,
                half_width: quadrature(curve.half_width, carried),
            })
        };
        Ok(Self {
            curves: curve.iter().map(near).collect::<Result<_>>()?,
        })
    }

    /// What the time of `covered` is multiplied by to be that of `op`.
    pub fn carry(&self, op: &Attention, covered: &Attention) -> Carried {
        let mut carried = Carried::NOTHING;
        if !op.causal && covered.causal && !op.is_decode() {
            self.multiply(&mut carried, Ratio::Full, covered, Mask::Full);
        }
        if covered.head_dim == 64 && op.head_dim > 64 {
            self.multiply(&mut carried, Ratio::Head, op, Mask::Full);
        }
        if op.pass != covered.pass && op.pass == Pass::Backward {
            self.multiply(&mut carried, Ratio::Backward, op, Mask::of(op));
        }
        carried
    }

    fn multiply(&self, carried: &mut Carried, ratio: Ratio, op: &Attention, mask: Mask) {
        let size = op.head_dim as f64;
        let distance = |near: &Near| {
            let octaves = (size / near.curve.head_dim as f64).log2().abs();
            let other_mask = match near.curve.mask {
                Some(known) if known == mask => 0.0,
                Some(known) if known == Mask::Window || mask == Mask::Window => 2.0,
                Some(_) => 0.5,
                None => 0.0,
            };
            let other_format = if near.curve.bits == 8 * op.dtype.size() {
                0.0
            } else {
                2.0
            };
            near.distance + OCTAVE * octaves + other_mask + other_format
        };
        let curves = self.curves.iter().filter(|near| near.curve.ratio == ratio);
        let curves = curves.map(|near| (distance(near), near));
        if let Some((_, near)) = curves.min_by(|(a, _), (b, _)| a.total_cmp(b)) {
            carried.factor *= near.curve.points.at(op.seq_kv as f64);
            carried.half_width = quadrature(carried.half_width, near.half_width);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratios(gpu: &str) -> Ratios {
        Ratios::of(Gpu::find(gpu).unwrap()).unwrap()
    }

    fn backward(op: Attention) -> Attention {
        Attention {
            pass: Pass::Backward,
            ..op
        }
    }

    #[test]
    fn curves_are_of_known_gpus_with_named_sources() {
        for curve in &DOCUMENT.curve {
            assert!(Gpu::find(&curve.gpu).is_ok());
            let mut ratios = curve.points.values();
            assert!(ratios.all(|ratio| (0.2..6.0).contains(&ratio)));
            assert_eq!(curve.mask.is_some(), curve.ratio == Ratio::Backward);
            assert!(curve.rows > 0 && curve.error <= curve.half_width);
            assert!(curve.source.contains('(') && !curve.kernel.is_empty());
        }
    }

    #[test]
    fn the_backward_pass_takes_longer_on_short_sequences_and_is_less_sure_elsewhere() {
        let [short, long] = [512, 8192].map(|seq| Attention::new(4, 16, seq, 128));
        let h100 = |op| ratios("h100").carry(&backward(op), &op);
        assert!(h100(short).factor > 1.1 * h100(long).factor);
        let a100 = ratios("a100").carry(&backward(long), &long);
        assert!((2.5..3.5).contains(&a100.factor));
        assert!(a100.half_width > 2.0 * h100(long).half_width);
        assert_eq!(ratios("h100").carry(&long, &long).factor, 1.0);
    }

    #[test]
    fn seeing_all_keys_takes_less_than_twice_the_causal_time() {
        let causal = Attention::new(4, 16, 4096, 128);
        let full = Attention {
            causal: false,
            ..causal
        };
        for gpu in ["h100", "h200", "rtx-pro-6000", "a100", "t4", "mi300x", "b60"] {
            let factor = ratios(gpu).carry(&full, &causal).factor;
            assert!((1.5..2.0).contains(&factor), "{gpu}: {factor}");
        }
    }

    #[test]
    fn a_head_of_80_takes_less_than_two_of_64() {
        let op = Attention::new(4, 16, 4096, 80);
        let base = |head_dim| Attention {
            head_dim,
            value_dim: head_dim,
            ..op
        };
        let ratios = ratios("a100");
        let over_64 = ratios.carry(&op, &base(64)).factor;
        assert!((1.1..1.7).contains(&over_64));
        assert_eq!(ratios.carry(&op, &base(128)).factor, 1.0);
    }
}
