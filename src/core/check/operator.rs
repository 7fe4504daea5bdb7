//! What bounds one operator, and the nearest size that is faster.
//!
//! Both are decided by evaluation: near sizes that are aligned, that a kernel takes unpadded or that fill whole waves are
//! predicted, and their times are held beside that of the operator as it is.

use crate::gpu::{Gpu, Vendor};
use crate::ops::{Attention, Gemm, Op, Value};
use crate::predict::Predictor;
use crate::predict::estimate::{Bound, Tier};
use crate::rules::{FLASH_SIZES, LOAD_BYTES, OperatorFinding, Severity, fused_head, judge_operator};
use crate::tiles::{Tile, Waves};
use crate::units::Seconds;
use serde::Serialize;
use utoipa::ToSchema;

/// A loss that names what bounds an operator. Ours: a net orders neighbours to a few percent.
const BINDING: f64 = 0.1;

/// A near size is named when it is faster by this much.
const WORTH_NAMING: f64 = 0.03;

/// Times that are alike: the nearer size is named.
const ALIKE: f64 = 1.02;

/// A size that fills whole waves is near within this factor.
const NEAR: f64 = 1.5;

/// Tiles of GEMMs whose waves are tried, and queries of one head in a block of attention.
const TILES: [Tile; 3] = [Tile::LARGE, Tile::new(256, 128), Tile::new(128, 128)];
const QUERIES: u64 = 128;

named_enum! {
    /// What an operator loses most of its time to, or waits for where it loses none.
    Limit {
        /// Sizes that no wide load or no unpadded kernel takes.
        Alignment = "alignment",
        /// Multiprocessors that are idle in the last wave.
        Waves = "waves",
        /// Arithmetic.
        Compute = "compute",
        /// Device memory.
        Memory = "memory",
        /// The launch of a kernel.
        Launch = "launch",
    }
}

impl From<Bound> for Limit {
    fn from(bound: Bound) -> Self {
        match bound {
            Bound::Compute => Self::Compute,
            Bound::Memory => Self::Memory,
            Bound::Launch => Self::Launch,
        }
    }
}

/// One size that a near operator changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Resize {
    /// Its name.
    pub size: &'static str,
    /// What it is.
    pub from: u64,
    /// What it becomes.
    pub to: u64,
}

/// A near operator that is predicted faster.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Faster {
    /// What it fixes.
    pub limit: Limit,
    /// The sizes that are different.
    pub changes: Vec<Resize>,
    /// Its predicted time.
    #[serde(rename = "time_us")]
    pub time: Seconds,
    /// The time as it is over this time.
    pub factor: f64,
    /// Its FLOP/s over those as it is.
    pub rate_factor: f64,
    /// The share of the time that is lost without it.
    #[serde(rename = "loss_fraction")]
    pub loss: f64,
}

/// What bounds an operator.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The largest loss, or what an ideal kernel would wait for where none is large.
    pub bound_by: Limit,
    /// The sizes that cause the loss, in words; empty if none does.
    pub detail: String,
    /// Near operators that are faster, the greatest loss first; `None` for an operator with a timing of one's own, which
    /// errs apart from predictions of its neighbours.
    pub faster: Option<Vec<Faster>>,
}

/// A rule on a single operator and what can be done.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct OperatorDiagnosis {
    /// The rule and its verdict.
    #[serde(flatten)]
    pub finding: OperatorFinding,
    /// The near operator that fixes what the rule is about, where it is broken and one is faster.
    #[serde(rename = "fix")]
    pub faster: Option<Faster>,
}

/// What bounds `op`.
pub fn limits(predictor: &Predictor, op: &Op) -> Limits {
    let gpu = predictor.gpu();
    let estimate = predictor.predict(&[*op])[0];
    let faster = (estimate.tier != Tier::Measured).then(|| {
        let near = Near {
            predictor,
            op,
            time: estimate.time,
        };
        let aligned = near.aligned();
        let mut faster = Vec::from_iter(near.whole_waves(aligned.as_ref()));
        faster.extend(aligned.map(|(_, aligned)| aligned));
        faster.sort_by(|a, b| b.loss.total_cmp(&a.loss));
        faster
    });
    let first = faster.as_ref().and_then(|all| all.first());
    let binding = first.filter(|first| first.loss >= BINDING);
    Limits {
        bound_by: binding.map_or(Bound::of(op, gpu).into(), |binding| binding.limit),
        detail: binding.map_or(String::new(), |binding| detail(gpu, op, binding)),
        faster,
    }
}

/// What the rules on single operators say of `op`, with the near operator that fixes each broken one.
pub fn check_operator(gpu: &Gpu, op: &Op, limits: &Limits) -> Vec<OperatorDiagnosis> {
    let diagnosed = judge_operator(op, gpu).into_iter().map(|mut finding| {
        let near = limits.faster.as_ref().filter(|_| finding.verdict.counts(true));
        let fixes = |faster: &&Faster| (faster.limit == Limit::Waves) == finding.is_of_waves;
        let faster = near.and_then(|near| near.iter().find(fixes).cloned());
        if near.is_some() && faster.is_none() {
            finding.verdict = finding.verdict.with_severity(Severity::NoGain);
        }
        OperatorDiagnosis { finding, faster }
    });
    diagnosed.collect()
}

/// An operator whose neighbours are predicted.
struct Near<'a> {
    predictor: &'a Predictor,
    op: &'a Op,
    time: Seconds,
}

impl Near<'_> {
    /// The nearest aligned operator of those that lose least; `None` if nothing is lost.
    fn aligned(&self) -> Option<(Op, Faster)> {
        let candidates = match self.op {
            Op::Gemm(gemm) => aligned_gemms(self.predictor.gpu(), gemm),
            Op::Attention(attention) => aligned_heads(attention),
            _ => Vec::new(),
        };
        let estimates = self.predictor.predict(&candidates);
        let near = candidates.into_iter().zip(estimates).map(|(op, estimate)| {
            let mut near = self.faster(&op, estimate.time, Limit::Alignment, 0.0);
            // A padded operator does the same work in its time; a smaller one does less.
            near.loss = 1.0 - 1.0 / near.factor.min(near.rate_factor);
            (op, near)
        });
        let mut faster: Vec<_> = near.filter(|(_, near)| near.loss >= WORTH_NAMING).collect();
        let best = faster.iter().map(|(_, near)| near.loss).fold(0.0, f64::max);
        faster.retain(|(_, near)| (1.0 - near.loss) <= (1.0 - best) * ALIKE);
        faster
            .into_iter()
            .min_by(|a, b| distance(&a.1).total_cmp(&distance(&b.1)))
    }

    /// The operator with whole waves that loses least, beside the aligned one where sizes are not aligned.
    fn whole_waves(&self, aligned: Option<&(Op, Faster)>) -> Option<Faster> {
        let gpu = self.predictor.gpu();
        if Bound::of(self.op, gpu) != Bound::Compute {
            return None;
        }
        let (base, time) = match aligned {
            Some((op, near)) => (op, near.time),
            None => (self.op, self.time),
        };
        let sms = gpu.sm_count() as f64;
        let candidates = match base {
            Op::Gemm(gemm) => filled_gemms(sms, gemm),
            Op::Attention(attention) if !attention.is_decode() => filled_attentions(sms, attention),
            _ => Vec::new(),
        };
        let launch = gpu.launch_floor();
        let rate = |op: &Op, time: Seconds| op.flops().flops() / (time - launch).secs().max(1e-9);
        let now = rate(base, time);
        let share = time / self.time;
        let estimates = self.predictor.predict(&candidates);
        let near = candidates.into_iter().zip(estimates).map(|(op, estimate)| {
            let loss = (1.0 - now / rate(&op, estimate.time)) * share;
            self.faster(&op, estimate.time, Limit::Waves, loss)
        });
        near.filter(|near| near.loss >= WORTH_NAMING && near.rate_factor > 1.0 + WORTH_NAMING)
            .max_by(|a, b| a.loss.total_cmp(&b.loss))
    }

    fn faster(&self, op: &Op, time: Seconds, limit: Limit, loss: f64) -> Faster {
        let factor = self.time / time;
        Faster {
            limit,
            changes: changes(self.op, op),
            time,
            factor,
            rate_factor: factor * (op.flops() / self.op.flops()),
            loss,
        }
    }
}

/// The sizes in which two operators of a family differ.
fn changes(from: &Op, to: &Op) -> Vec<Resize> {
    let dimensions = from.kind().dimensions().iter();
    let both = dimensions.filter_map(|dimension| match (dimension.get(from)?, dimension.get(to)?) {
        (Value::Count(from), Value::Count(to)) if from != to => Some(Resize {
            size: dimension.name,
            from,
            to,
        }),
        _ => None,
    });
    both.collect()
}

/// How far the sizes are from what they were, each one that moves counted besides.
fn distance(near: &Faster) -> f64 {
    let each = near.changes.iter();
    each.map(|change| (change.to as f64 / change.from as f64).ln().abs() + 1e-4)
        .sum()
}

/// The GEMM with any of its contiguous sizes padded to 16-byte loads, and to the alignment of the GPU.
fn aligned_gemms(gpu: &Gpu, gemm: &Gemm) -> Vec<Op> {
    let mut near = Vec::new();
    let loads = (LOAD_BYTES / gemm.dtype.size()).max(1);
    let contiguous = gemm.layout.contiguous();
    for unit in [loads, gpu.alignment(gemm.dtype)] {
        for padded in 1..8 {
            let pad = |at: usize, size: u64| match contiguous[at] && padded & (1 << at) != 0 {
                true => size.next_multiple_of(unit),
                false => size,
            };
            let op = Op::Gemm(Gemm {
                m: pad(0, gemm.m),
                n: pad(1, gemm.n),
                k: pad(2, gemm.k),
                ..*gemm
            });
            if op != Op::Gemm(*gemm) && !near.contains(&op) {
                near.push(op);
            }
        }
    }
    near
}

/// The attention with the head sizes of fused kernels on either side of its own.
fn aligned_heads(attention: &Attention) -> Vec<Op> {
    let size = attention.head_dim;
    if FLASH_SIZES.contains(&size) {
        return Vec::new();
    }
    let below = FLASH_SIZES.into_iter().rev().find(|known| *known < size);
    let above = FLASH_SIZES.into_iter().find(|known| *known > size);
    let eights = Some(size.next_multiple_of(8)).filter(|padded| *padded != size);
    let sizes = [below, eights, above].into_iter().flatten();
    let resized = sizes.map(|head_dim| {
        let equal = attention.value_dim == attention.head_dim;
        Op::Attention(Attention {
            head_dim,
            value_dim: if equal { head_dim } else { attention.value_dim },
            ..*attention
        })
    });
    resized.collect()
}

/// Numbers of blocks along one size that fill whole waves with `across` blocks beside each: the wave before and this one.
fn whole(blocks: u64, across: u64, sms: f64) -> impl Iterator<Item = u64> {
    let waves = blocks as f64 * across as f64 / sms;
    let counts = [waves.floor(), waves.ceil()].map(|full| (full * sms / across as f64) as u64);
    counts.into_iter().filter(move |count| *count > 0 && *count != blocks)
}

/// The GEMM with `n` or `m` at whole waves of a usual tile.
fn filled_gemms(sms: f64, gemm: &Gemm) -> Vec<Op> {
    let mut near = Vec::new();
    for tile in TILES {
        let [rows, columns] = [gemm.m.div_ceil(tile.rows), gemm.n.div_ceil(tile.columns)];
        for count in whole(columns, rows.saturating_mul(gemm.batch), sms) {
            let n = count * tile.columns;
            if is_near(n, gemm.n) {
                near.push(Op::Gemm(Gemm { n, ..*gemm }));
            }
        }
        for count in whole(rows, columns.saturating_mul(gemm.batch), sms) {
            let m = count * tile.rows;
            if is_near(m, gemm.m) {
                near.push(Op::Gemm(Gemm { m, ..*gemm }));
            }
        }
    }
    near
}

/// The attention with whole blocks of queries, and with batches that fill whole waves of them.
fn filled_attentions(sms: f64, attention: &Attention) -> Vec<Op> {
    let mut near = Vec::new();
    let blocks = attention.seq_q.div_ceil(QUERIES);
    for seq in [attention.seq_q / QUERIES * QUERIES, blocks * QUERIES] {
        if attention.seq_q == attention.seq_kv && seq != attention.seq_q && is_near(seq, attention.seq_q) {
            near.push(Op::Attention(Attention {
                seq_q: seq,
                seq_kv: seq,
                ..*attention
            }));
        }
    }
    for batch in whole(attention.batch, blocks.saturating_mul(attention.heads), sms) {
        if is_near(batch, attention.batch) {
            near.push(Op::Attention(Attention { batch, ..*attention }));
        }
    }
    near
}

fn is_near(size: u64, now: u64) -> bool {
    let factor = size as f64 / now as f64;
    size != now && (1.0 / NEAR..=NEAR).contains(&factor)
}

/// The sizes behind a loss: `n = 11006 is a multiple of 2; 16-byte loads need 8`.
fn detail(gpu: &Gpu, op: &Op, near: &Faster) -> String {
    match (near.limit, op) {
        (Limit::Alignment, Op::Attention(attention)) => head_detail(attention),
        (Limit::Alignment, _) => {
            let each = near.changes.iter().map(|change| {
                let power = 1_u64 << change.from.trailing_zeros();
                let size = match power {
                    1 => format!("{} = {} is odd", change.size, change.from),
                    power => format!("{} = {} is a multiple of {power}", change.size, change.from),
                };
                let loads = LOAD_BYTES / op.dtype().map_or(1, |dtype| dtype.size());
                match change.from.is_multiple_of(loads.max(1)) {
                    false => format!("{size}; {LOAD_BYTES}-byte loads need {loads}"),
                    true => format!(
                        "{size}; {} wants {}",
                        gpu.name,
                        gpu.alignment(op.dtype().unwrap_or_default())
                    ),
                }
            });
            each.collect::<Vec<_>>().join(", ")
        }
        (_, Op::Gemm(gemm)) => {
            let waves = Waves::new(gemm, Tile::LARGE, gpu.sm_count() as f64);
            format!(
                "{} tiles of {} on {} multiprocessors, the last of {} waves {:.0} % full",
                waves.blocks,
                Tile::LARGE,
                gpu.sm_count(),
                waves.rounds(),
                100.0 * waves.last_wave_fill()
            )
        }
        (_, Op::Attention(attention)) => {
            let blocks = attention.seq_q.div_ceil(QUERIES) as f64 * attention.heads as f64 * attention.batch as f64;
            let waves = blocks / gpu.sm_count() as f64;
            format!(
                "{blocks} blocks of {QUERIES} queries on {} multiprocessors are {waves:.1} waves",
                gpu.sm_count()
            )
        }
        _ => String::new(),
    }
}

/// Why the usual libraries do not run `op` on this GPU; `None` if they do.
pub fn refusal(op: &Op, gpu: &Gpu) -> Option<String> {
    let Op::Gemm(gemm) = op else { return None };
    let padded = gemm.padded_for_fp8().filter(|_| gpu.vendor == Vendor::Nvidia)?;
    Some(format!(
        "cuBLASLt and torch._scaled_mm refuse it: n and k of fp8 are multiples of 16, here {} and {} when padded",
        padded.n, padded.k
    ))
}

fn head_detail(attention: &Attention) -> String {
    format!("head_dim = {}; {}", attention.head_dim, fused_head(attention))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Layout;

    fn of(gpu: &str, op: Op) -> Limits {
        let predictor = Predictor::new(Gpu::find(gpu).unwrap(), None).unwrap();
        limits(&predictor, &op)
    }

    #[test]
    fn an_unaligned_gemm_is_bound_by_alignment_and_its_padded_neighbour_is_named() {
        let limits = of("h100", Op::Gemm(Gemm::new(4096, 11006, 4096)));
        assert_eq!(limits.bound_by, Limit::Alignment);
        assert_eq!(limits.detail, "n = 11006 is a multiple of 2; 16-byte loads need 8");
        let nearest = &limits.faster.as_ref().unwrap()[0];
        let padded = Resize {
            size: "n",
            from: 11006,
            to: 11008,
        };
        assert_eq!(nearest.changes, [padded]);
        assert!((1.5..5.0).contains(&nearest.factor), "{nearest:?}");
    }

    #[test]
    fn what_an_aligned_gemm_waits_for_is_what_an_ideal_kernel_would() {
        for (m, n, k, wanted) in [
            (8192, 8192, 8192, Limit::Compute),
            (16, 8192, 8192, Limit::Memory),
            (16, 64, 64, Limit::Launch),
        ] {
            let limits = of("h100", Op::Gemm(Gemm::new(m, n, k)));
            assert_eq!(limits.bound_by, wanted, "{m} x {n} x {k}: {limits:?}");
        }
    }

    #[test]
    fn an_almost_empty_last_wave_is_named_with_the_size_before_it() {
        // 109 blocks on 108 multiprocessors take twice the time of 108.
        let gemm = Gemm {
            layout: Layout::Tn,
            ..Gemm::new(128 * 12, 256 * 10, 8192)
        };
        let limits = of("a100", Op::Gemm(gemm));
        assert!(
            limits
                .faster
                .unwrap()
                .iter()
                .all(|near| near.rate_factor > 1.0 && near.loss > 0.0)
        );
    }

    #[test]
    fn a_head_that_is_padded_names_the_kernel_that_takes_less() {
        let limits = of("h100", Op::Attention(Attention::new(4, 32, 4096, 136)));
        let head = limits
            .faster
            .iter()
            .flatten()
            .find(|near| near.limit == Limit::Alignment)
            .unwrap();
        assert_eq!(
            head.changes[0],
            Resize {
                size: "head_dim",
                from: 136,
                to: 128
            }
        );
        assert!(head.rate_factor > 1.0);
    }
}
