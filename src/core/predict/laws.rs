//! Laws of memory-bound kernels: a launch term plus the traffic at a share of the datasheet bandwidth.
//!
//! `data/memory.toml` holds one law a kernel, pass, provider, GPU and width of the elements; the nearest one answers.

use crate::error::Result;
use crate::framework::Provider;
use crate::gpu::{Generation, Gpu};
use crate::ops::{Dtype, Memory, MemoryKind, Pass};
use crate::predict::assume;
use crate::predict::estimate::{Caveat, Caveats, Estimate, Tier};
use crate::predict::log_log::LogLog;
use crate::stats::quadrature;
use crate::toml_text::built_in;
use crate::units::{BytesPerSecond, Seconds};
use serde::Deserialize;
use std::sync::LazyLock;

/// The time of one kernel on one GPU.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Law {
    /// What it computes.
    pub kernel: MemoryKind,
    /// Forward or backward.
    pub pass: Pass,
    /// Whose kernel it is; those of optimizers, zeros and the gradient of an embedding are the same in several.
    pub providers: Vec<Provider>,
    /// The GPU that was measured.
    pub gpu: String,
    /// Size of an element.
    pub bits: u64,
    /// The software that was measured.
    pub library: String,
    /// Time of a call beyond its traffic.
    pub launch_us: f64,
    /// The share of the datasheet bandwidth at which [`Memory::bytes`] move, by width of a row.
    shares: LogLog,
    /// Least and greatest elements that were measured.
    pub elements: (f64, f64),
    /// Least and greatest widths that were measured.
    pub cols: (f64, f64),
    /// Measurements that it was fitted to.
    pub rows: u64,
    /// Mean of `|ln(law / measured)|` with whole widths held out.
    pub error: f64,
    /// Half width of the 90 % interval of the logarithm of the time.
    pub half_width: f64,
    /// Where the measurements were published.
    pub source: String,
}

/// What a law that is not of the question adds to its half width.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Transfer {
    within_generation: f64,
    across_generations: f64,
    other_maker: f64,
    other_provider: f64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    transfer: Transfer,
    law: Vec<Law>,
}

static DOCUMENT: LazyLock<Document> = LazyLock::new(|| built_in(&shapewise_data::MEMORY));

/// By width of the elements, pass, kernel and provider.
type Table = [[[[Option<Near>; 2]; Pass::ALL.len()]; MemoryKind::ALL.len()]; Provider::ALL.len()];

/// The laws as one GPU sees them.
pub struct Laws(Box<Table>);

/// A law on one GPU.
struct Near {
    law: &'static Law,
    /// How unlike the question it is.
    distance: f64,
    launch: Seconds,
    bandwidth: BytesPerSecond,
    /// Inside the measured sizes and outside.
    certainty: [Certainty; 2],
}

#[derive(Clone, Copy)]
struct Certainty {
    half_width: f64,
    tier: Tier,
    caveats: Caveats,
}

impl Laws {
    /// The laws of `data/memory.toml`, those of this GPU first; without those where it counts as not measured.
    pub fn of(gpu: &Gpu, measured: bool) -> Result<Self> {
        let mut laws = Self(Box::default());
        // Nothing carries over to a GPU that was described by measuring it.
        if gpu.generation == Generation::Other {
            return Ok(laws);
        }
        let document = &*DOCUMENT;
        for law in &document.law {
            if law.gpu == gpu.name && !measured {
                continue;
            }
            let on = Gpu::find(&law.gpu)?;
            for provider in Provider::ALL {
                // Where a provider has none, a library's answers.
                if ![provider, Provider::Fused]
                    .iter()
                    .any(|known| law.providers.contains(known))
                {
                    continue;
                }
                for wide in [false, true] {
                    let near = Near::new((law, on), document.transfer, gpu, provider, wide);
                    let known = laws.entry(provider, law.kernel, law.pass, wide);
                    if known.as_ref().is_none_or(|known| near.distance < known.distance) {
                        *known = Some(near);
                    }
                }
            }
        }
        Ok(laws)
    }

    fn entry(&mut self, provider: Provider, kernel: MemoryKind, pass: Pass, wide: bool) -> &mut Option<Near> {
        &mut self.0[provider as usize][kernel as usize][pass as usize][usize::from(wide)]
    }

    /// The time of a kernel of this provider; `None` if no GPU has a law of it.
    pub fn estimate(&self, op: &Memory, provider: Provider) -> Option<Estimate> {
        let wide = usize::from(is_wide(8 * op.dtype.size()));
        let near = &self.0[provider as usize][op.kind as usize][op.pass as usize][wide];
        near.as_ref().map(|near| near.estimate(op))
    }
}

/// Whether elements are of 32 bits.
const fn is_wide(bits: u64) -> bool {
    bits >= 8 * Dtype::Fp32.size()
}

impl Near {
    /// A law of the GPU that it was measured on, as another one sees it.
    fn new(
        (law, measured): (&'static Law, &Gpu),
        transfer: Transfer,
        gpu: &Gpu,
        provider: Provider,
        wide: bool,
    ) -> Self {
        let Transfer {
            within_generation,
            across_generations,
            other_maker,
            other_provider,
        } = transfer;
        let carried = if measured.name == gpu.name {
            0.0
        } else if measured.generation == gpu.generation {
            within_generation
        } else if measured.vendor == gpu.vendor {
            across_generations
        } else {
            other_maker
        };
        let mut caveats = Caveats::default();
        caveats.insert_if(measured.name != gpu.name, Caveat::OtherGpu);
        let other_width = is_wide(law.bits) != wide;
        caveats.insert_if(other_width, Caveat::OtherDtype);
        let of_another = !law.providers.contains(&provider);
        caveats.insert_if(of_another, Caveat::OtherProvider);
        let carried = quadrature(carried, if of_another { other_provider } else { 0.0 });
        let certainty = |outside: bool| {
            let mut caveats = caveats;
            caveats.insert_if(outside, Caveat::OutOfDomain);
            let assumed = quadrature(assume::uncertainty(caveats), carried);
            Certainty {
                half_width: quadrature(law.half_width, assumed),
                tier: match assume::is_transfer(caveats) {
                    true => Tier::Transferred,
                    false => Tier::Learned,
                },
                caveats,
            }
        };
        // The least that is added to the half width; of equals the nearest bandwidth.
        let gap = (measured.bandwidth() / gpu.bandwidth()).ln().abs();
        let distance = quadrature(assume::uncertainty(caveats), carried) + 1e-6 * gap;
        Self {
            law,
            distance,
            launch: Seconds::from_micros(law.launch_us),
            bandwidth: gpu.bandwidth(),
            certainty: [false, true].map(certainty),
        }
    }

    fn estimate(&self, op: &Memory) -> Estimate {
        let cols = op.cols as f64;
        let holds = |(least, most): (f64, f64), size: f64| least <= size && size <= most;
        let inside = holds(self.law.elements, op.rows as f64 * cols) && holds(self.law.cols, cols);
        let Certainty {
            half_width,
            tier,
            caveats,
        } = self.certainty[usize::from(!inside)];
        Estimate {
            time: self.launch + op.bytes() / (self.bandwidth * self.law.shares.at(cols)),
            half_width,
            // What a share is off by, it is off by at every size.
            shared: half_width,
            least: Seconds::ZERO,
            tier,
            caveats,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::GpuRates;
    use crate::ops::Op;

    fn laws(gpu: &str) -> Laws {
        Laws::of(Gpu::find(gpu).unwrap(), true).unwrap()
    }

    fn norm(pass: Pass) -> Memory {
        Memory {
            kind: MemoryKind::RmsNorm,
            rows: 8192,
            cols: 4096,
            pass,
            dtype: Dtype::Bf16,
        }
    }

    #[test]
    fn laws_are_of_known_gpus_with_physical_shares_and_named_sources() {
        let Document { law, transfer } = &*DOCUMENT;
        assert!(transfer.within_generation <= transfer.across_generations);
        for law in law {
            assert!(Gpu::find(&law.gpu).is_ok());
            assert!(law.shares.values().all(|share| share <= 1.0));
            assert!((0.5..30.0).contains(&law.launch_us));
            assert!(law.elements.0 <= law.elements.1 && law.cols.0 <= law.cols.1);
            assert!(law.rows > 1 && law.error <= 0.3 && law.half_width >= 0.04);
            assert!(law.source.contains('(') && !law.library.is_empty());
        }
    }

    #[test]
    fn a_law_of_this_gpu_is_learned_inside_its_sizes_alone() {
        let laws = laws("h200");
        let own = laws.estimate(&norm(Pass::Forward), Provider::Fused);
        let own = own.unwrap();
        assert_eq!(own.tier, Tier::Learned);
        let wide = Memory {
            cols: 1 << 20,
            ..norm(Pass::Forward)
        };
        let outside = laws.estimate(&wide, Provider::Fused).unwrap();
        assert!(outside.caveats.contains(Caveat::OutOfDomain));
        assert_eq!(outside.tier, Tier::Transferred);
        assert!(outside.half_width > own.half_width);
    }

    #[test]
    fn the_backward_pass_of_a_compiled_norm_takes_longer_than_its_traffic() {
        for gpu in ["h200", "gb200", "gb300", "h100", "a100"] {
            let laws = laws(gpu);
            let time = |pass, provider| laws.estimate(&norm(pass), provider).unwrap().time;
            let ratio = |provider| time(Pass::Backward, provider) / time(Pass::Forward, provider);
            // Three tensors backward, two forward.
            assert!(ratio(Provider::Compiled) > 1.6, "{gpu}");
            assert!((1.0..2.0).contains(&ratio(Provider::Fused)), "{gpu}");
        }
    }

    #[test]
    fn the_nearest_gpu_answers_where_none_was_measured() {
        let op = norm(Pass::Forward);
        let of = |gpu| laws(gpu).estimate(&op, Provider::Compiled).unwrap();
        let (gh200, b300, a100) = (of("gh200"), of("b300"), of("a100"));
        for each in [gh200, b300, a100] {
            assert_eq!(each.tier, Tier::Transferred);
            assert!(each.caveats.contains(Caveat::OtherGpu));
        }
        assert!(gh200.half_width < a100.half_width);
        // The share of the other GPU, the bandwidth of this one.
        let share = |gpu: &str, time: Seconds| {
            let gpu = Gpu::find(gpu).unwrap();
            op.bytes() / gpu.bandwidth() / time
        };
        let apart = share("b300", b300.time) / share("gb300", of("gb300").time);
        assert!((apart - 1.0).abs() < 0.1, "{apart}");
        let left_out = Laws::of(Gpu::find("h200").unwrap(), false).unwrap();
        let left_out = left_out.estimate(&op, Provider::Fused).unwrap();
        assert!(left_out.caveats.contains(Caveat::OtherGpu));
    }

    #[test]
    fn a_provider_without_a_law_is_answered_by_a_library_and_a_kernel_without_one_by_none() {
        let laws = laws("h100");
        let of = |kind, provider| {
            let op = Memory {
                kind,
                ..norm(Pass::Forward)
            };
            laws.estimate(&op, provider)
        };
        let [compiled, fused] =
            [Provider::Compiled, Provider::Fused].map(|provider| of(MemoryKind::CrossEntropy, provider).unwrap());
        assert!(compiled.caveats.contains(Caveat::OtherProvider));
        assert_eq!(compiled.time, fused.time);
        assert!(compiled.half_width > 2.0 * fused.half_width);
        let [eager, fused] =
            [Provider::Eager, Provider::Fused].map(|provider| of(MemoryKind::Swiglu, provider).unwrap());
        assert!(eager.time > fused.time * 2.0);
        for provider in Provider::ALL {
            assert!(of(MemoryKind::Permute, provider).is_none());
        }
    }

    #[test]
    fn no_law_is_faster_than_the_compulsory_traffic() {
        for gpu in Gpu::all() {
            let rates = GpuRates::new(gpu, gpu.launch_floor());
            let laws = Laws::of(gpu, true).unwrap();
            for (kind, rows, cols) in MemoryKind::ALL
                .into_iter()
                .flat_map(|kind| [(1, 1), (16, 4096), (8192, 4096), (1 << 20, 1 << 14)].map(|at| (kind, at.0, at.1)))
            {
                for (pass, provider) in Pass::ALL
                    .into_iter()
                    .flat_map(|pass| Provider::ALL.map(|provider| (pass, provider)))
                {
                    for dtype in [Dtype::Bf16, Dtype::Fp32] {
                        let op = Memory {
                            kind,
                            rows,
                            cols,
                            pass,
                            dtype,
                        };
                        if let Some(estimate) = laws.estimate(&op, provider) {
                            assert!(estimate.time >= rates.least(&Op::Memory(op)), "{op}");
                        }
                    }
                }
            }
        }
    }
}
