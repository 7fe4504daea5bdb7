//! One product, one attention or a step of a whole model along one of its sizes.

use crate::arch;
use crate::arch::Architecture;
use crate::arch::Dimension;
use crate::arch::lower;
use crate::error::Error;
use crate::error::Result;
use crate::ops::Op;
use crate::predict::Predictor;
use crate::query::Size;
use crate::query::bases;
use crate::query::operator::Attention;
use crate::query::operator::Gemm;
use crate::query::workload::Workload;
use crate::report::sweep::Measured;
use crate::report::sweep::SweepReport;
use crate::report::sweep::Swept;
use crate::sweep;
use crate::sweep::Range;
use crate::sweep::Subject;
use crate::units::Seconds;
use std::sync::Arc;

/// The sizes of attention that may be a range.
const ATTENTION: &str = "batch, heads, kv_heads, seq, kv_seq, head_dim";

/// The sizes of a product that may be a range.
const GEMM: &str = "m, n, k, batch_count";

/// The sizes of a model that may be a range.
const MODEL: &str = "layers, hidden, heads, kv_heads, d_ff, vocab, batch, seq, context, tp";

/// A timing that a curve may be compared with.
pub struct Timing {
    /// What was measured.
    pub op: Op,
    /// How long it took.
    pub time: Seconds,
    /// The software that ran it.
    pub stack: Arc<str>,
}

/// Sizes of an architecture; what is left out stays as it is or follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the dimensions of `arch::Architecture`
pub struct Sizes {
    pub layers: Option<Size>,
    pub hidden: Option<Size>,
    pub heads: Option<Size>,
    pub kv_heads: Option<Size>,
    pub d_ff: Option<Size>,
    pub vocab: Option<Size>,
}

impl Sizes {
    /// The sizes that were asked for, in the order in which they are applied.
    fn asked(&self) -> impl Iterator<Item = (Dimension, Size)> {
        let all = [
            (Dimension::Layers, self.layers),
            (Dimension::Hidden, self.hidden),
            (Dimension::Heads, self.heads),
            (Dimension::KvHeads, self.kv_heads),
            (Dimension::DFf, self.d_ff),
            (Dimension::Vocab, self.vocab),
        ];
        all.into_iter()
            .filter_map(|(dimension, asked)| Some((dimension, asked?)))
    }
}

/// The curve of a product, with the timings that lie on it; there must be one where any are given.
pub fn gemm(
    predictor: &Predictor,
    gemm: &Gemm<Size>,
    timings: Option<&[Timing]>,
) -> Result<SweepReport> {
    let mut ranges = Ranges::of(GEMM);
    gemm.map(|field, size| ranges.add(field, *size));
    let at = |value| Ok(gemm.map(|_, size| size.at(value)).op());
    operator(predictor, ranges, timings, at)
}

/// The curve of an attention, with the timings that lie on it; there must be one where any are given.
pub fn attention(
    predictor: &Predictor,
    attention: &Attention<Size>,
    timings: Option<&[Timing]>,
) -> Result<SweepReport> {
    let mut ranges = Ranges::of(ATTENTION);
    attention.map(|field, size| ranges.add(field, *size));
    let at = |value| attention.map(|_, size| size.at(value)).op();
    operator(predictor, ranges, timings, at)
}

/// The curve of a step of a model.
pub fn model(
    predictor: &Predictor,
    base: &Architecture,
    sizes: &Sizes,
    workload: &Workload<Size>,
) -> Result<SweepReport> {
    let mut ranges = Ranges::of(MODEL);
    for (dimension, size) in sizes.asked() {
        ranges.add(dimension.name(), size);
    }
    workload.map(|field, size| ranges.add(field, *size));
    let (dimension, range) = ranges.only()?;
    let at = |value| -> Result<(Architecture, arch::Workload)> {
        let mut architecture = base.clone();
        // The workload follows from the architecture, so there is none yet to change.
        let mut unused = arch::Workload::train(1, 1);
        for (dimension, asked) in sizes.asked() {
            let dimension = dimension.meant_in(base);
            dimension.set(&mut architecture, &mut unused, asked.at(value))?;
        }
        let workload = workload.map(|_, size| size.at(value)).on(&architecture)?;
        Ok((architecture, workload))
    };
    let sweep = sweep::models(predictor, range, at)?;
    let [first, last] = [sweep.points.first(), sweep.points.last()];
    let end = |point: Option<&sweep::Point>| at(point.map_or(range.start(), |point| point.value));
    let ends = [end(first)?, end(last)?];
    let items = lower(&ends[0].0, &ends[0].1)?.items;
    let swept = Swept {
        gpu: predictor.gpu(),
        dtype: ends[0].1.dtype,
        dimension: dimension.to_owned(),
        range,
        basis: bases(predictor, items.iter().map(|item| &item.op)),
    };
    Ok(SweepReport::models(swept, &sweep, &ends))
}

/// The sizes of a question that are ranges.
struct Ranges {
    /// Every size that may be one.
    fields: &'static str,
    found: Vec<(&'static str, Range)>,
}

impl Ranges {
    const fn of(fields: &'static str) -> Self {
        Self {
            fields,
            found: Vec::new(),
        }
    }

    /// Notes a size and returns its least value.
    fn add(&mut self, field: &'static str, size: Size) -> u64 {
        match size {
            Size::Fixed(value) => value,
            Size::Range(range) => {
                self.found.push((field, range));
                range.start()
            }
        }
    }

    /// The only range, with its key.
    fn only(&self) -> Result<(&'static str, Range)> {
        match self.found[..] {
            [only] => Ok(only),
            _ => {
                let found: Vec<_> = self.found.iter().map(|(field, _)| *field).collect();
                let value = match &found[..] {
                    [] => "absent".to_owned(),
                    found => format!("in {}", found.join(" and ")),
                };
                let allowed = format!("exactly one of {} as START:END:STEP", self.fields);
                Err(Error::bad_input(format!(
                    "sweep: the range is {value}; allowed: {allowed}"
                )))
            }
        }
    }
}

fn operator(
    predictor: &Predictor,
    ranges: Ranges,
    timings: Option<&[Timing]>,
    at: impl Fn(u64) -> Result<Op>,
) -> Result<SweepReport> {
    let (dimension, range) = ranges.only()?;
    let measured = along(timings.unwrap_or_default(), range, &at);
    if timings.is_some() && measured.is_empty() {
        return Err(Error::infeasible(format!(
            "timings: no row of {} lies on the sweep; all but {dimension} must be equal, layout and format too",
            predictor.gpu().name
        )));
    }
    let sweep = sweep::operators(predictor, range, &at)?;
    let ops: Vec<_> = sweep
        .points
        .iter()
        .filter_map(|point| match &point.subject {
            Subject::Operator(op) => Some(op),
            Subject::Model(_) => None,
        })
        .collect();
    let swept = Swept {
        gpu: predictor.gpu(),
        dtype: ops[0]
            .dtype()
            .expect("products and attention have a format"),
        dimension: dimension.to_owned(),
        range,
        basis: bases(predictor, ops.into_iter()),
    };
    Ok(SweepReport::operators(swept, &sweep, &measured))
}

/// The timings that lie on the curve, by rising value.
fn along(timings: &[Timing], range: Range, at: impl Fn(u64) -> Result<Op>) -> Vec<Measured> {
    let on_curve = timings.iter().filter_map(|timing| {
        // The value is one of the operator's own sizes.
        let sizes = match timing.op {
            Op::Gemm(op) => vec![op.m, op.n, op.k, op.batch],
            Op::Attention(op) => vec![
                op.batch,
                op.heads,
                op.kv_heads,
                op.seq_q,
                op.seq_kv,
                op.head_dim,
            ],
            Op::Memory(_) | Op::Collective(_) => Vec::new(),
        };
        let mut sizes = sizes.into_iter().filter(|size| range.contains(*size));
        let value = sizes.find(|size| at(*size).is_ok_and(|op| op == timing.op))?;
        Some(Measured {
            value,
            op: timing.op,
            time: timing.time,
            stack: timing.stack.to_string(),
        })
    });
    let mut measured: Vec<_> = on_curve.collect();
    measured.sort_by_key(|point| point.value);
    measured
}
