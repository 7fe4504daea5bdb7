//! Measured ratios between kernels of attention: backward over forward, bidirectional over causal, head sizes
//! between the tiles of 64 and 128, kernels of training over those of engines.
//!
//! `data/attention.toml` holds curves over the length by GPU, kernel and head size; the nearest one answers.

use crate::error::Result;
use crate::gpu::{Generation, Gpu, Vendor};
use crate::ops::{Attention, Pass};
use crate::predict::log_log::LogLog;
use crate::stats::quadrature;
use crate::toml_text::built_in;
use crate::units::Seconds;
use serde::Deserialize;
use std::sync::LazyLock;

/// How far a head size twice as large is, on the scale of [`Near::distance`].
const OCTAVE: f64 = 2.0;

/// How far the head size of a kernel of training may lie from that of its curve, in octaves: sizes share a tile.
const NEAR_HEAD: f64 = 0.5;

/// The distance of a GPU that runs the kernel of a curve.
const SAME_KERNEL: f64 = 1.0;

named_enum! {
    /// What is divided by what.
    Ratio {
        /// The backward pass by the forward pass.
        Backward = "backward",
        /// Bidirectional attention by causal.
        Full = "full",
        /// A head size by 64.
        Head = "head",
        /// The forward kernel that frameworks of training call by what engines' kernels are predicted to take.
        Trained = "trained",
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
    /// Generations that run this kernel; that of the GPU if absent.
    pub generations: Option<Vec<Generation>>,
    /// Other GPUs that run it.
    #[serde(default)]
    pub also: Vec<String>,
    /// The kernel that was measured.
    pub kernel: String,
    /// Size of an element of the operands.
    pub bits: u64,
    /// Head size of queries and keys.
    pub head_dim: u64,
    /// Which keys a query saw; `None` if the ratio is that of any mask.
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

static DOCUMENT: LazyLock<Document> = LazyLock::new(|| built_in(&shapewise_data::ATTENTION));

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

    /// One after the other.
    pub fn and(self, next: Self) -> Self {
        Self {
            factor: self.factor * next.factor,
            half_width: quadrature(self.half_width, next.half_width),
        }
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

impl Near {
    /// Whether this is such a ratio; one of kernels of training says nothing of other GPUs, formats, windows or head sizes.
    fn holds(&self, ratio: Ratio, op: &Attention, mask: Mask) -> bool {
        let is_window = |mask| mask == Mask::Window;
        let is_near = || {
            self.distance <= SAME_KERNEL
                && self.curve.bits == 8 * op.dtype.size()
                && (op.head_dim as f64 / self.curve.head_dim as f64).log2().abs() <= NEAR_HEAD
                && self.curve.mask.is_some_and(|known| is_window(known) == is_window(mask))
        };
        self.curve.ratio == ratio && (ratio != Ratio::Trained || is_near())
    }
}

impl Ratios {
    /// The curves of `data/attention.toml`, those of this GPU nearest.
    pub fn of(gpu: &Gpu) -> Result<Self> {
        let Document { transfer, curve } = &*DOCUMENT;
        let near = |curve: &'static Curve| -> Result<Near> {
            let measured = Gpu::find(&curve.gpu)?;
            let runs_it = curve.also.contains(&gpu.name)
                || match &curve.generations {
                    Some(generations) => generations.contains(&gpu.generation),
                    None => measured.generation == gpu.generation,
                };
            // An order of preference: this GPU, its generation, its maker.
            let (distance, carried) = if measured.name == gpu.name {
                (0.0, 0.0)
            } else if runs_it && gpu.generation != Generation::Other {
                (SAME_KERNEL, transfer.within_generation)
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

    /// What the time of an engine's kernel is multiplied by to be that of the kernel of training, where that was measured
    /// on this GPU or one that runs the same.
    pub fn train(&self, op: &Attention) -> Option<Carried> {
        let mut carried = Carried::NOTHING;
        let is_known = !op.is_decode() && self.multiply(&mut carried, Ratio::Trained, op, Mask::of(op));
        is_known.then_some(carried)
    }

    /// By the nearest curve; `false` if no curve is near.
    fn multiply(&self, carried: &mut Carried, ratio: Ratio, op: &Attention, mask: Mask) -> bool {
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
        let curves = self.curves.iter().filter(|near| near.holds(ratio, op, mask));
        let curves = curves.map(|near| (distance(near), near));
        let Some((_, near)) = curves.min_by(|(a, _), (b, _)| a.total_cmp(b)) else {
            return false;
        };
        *carried = carried.and(Carried {
            factor: near.curve.points.at(op.seq_kv as f64),
            half_width: near.half_width,
        });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Dtype;

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
            let of_masks = [Ratio::Backward, Ratio::Trained];
            assert_eq!(curve.mask.is_some(), of_masks.contains(&curve.ratio));
            assert!(curve.also.iter().all(|name| Gpu::find(name).is_ok()));
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
    fn kernels_of_training_follow_from_those_of_engines_only_where_both_were_timed() {
        let op = Attention::new(4, 16, 8192, 128);
        let factor = |gpu, op: &Attention| ratios(gpu).train(op).map(|trained| trained.factor);
        for gpu in ["gb200", "b200", "gb300", "b300"] {
            assert!(
                factor(gpu, &op).is_some_and(|factor| (0.7..0.9).contains(&factor)),
                "{gpu}"
            );
        }
        for gpu in ["rtx-pro-6000", "a100", "mi300x"] {
            assert_eq!(factor(gpu, &op), None, "{gpu}");
        }
        let fp8 = Attention {
            dtype: Dtype::Fp8,
            ..op
        };
        assert!(factor("h100", &fp8).is_some_and(|factor| factor < 0.8));
        let token = Attention { seq_q: 1, ..op };
        assert_eq!(factor("gb200", &token), None);
        // Windows are no slower part of the whole: engines skip more of the keys.
        let window = Attention {
            window: 128,
            head_dim: 64,
            value_dim: 64,
            ..op
        };
        assert!(factor("gb200", &window) > Some(1.2));
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
