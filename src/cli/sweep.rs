//! `shapewise sweep`: one product, one attention or a step of a whole model along one of its sizes.

use crate::arch::Architecture;
use crate::arch::Workload;
use crate::arch::lower;
use crate::cli::args::Format;
use crate::cli::args::TargetArgs;
use crate::cli::args::predict::ModelArgs;
use crate::cli::args::sweep::FileArgs;
use crate::cli::args::sweep::Size;
use crate::cli::args::sweep::SizedModelArgs;
use crate::cli::args::sweep::Sweep;
use crate::cli::predict;
use crate::cli::render;
use crate::cli::say;
use crate::cli::target::Timing;
use crate::cli::target::answering;
use crate::cli::target::predicting;
use crate::cli::target::timings;
use crate::cli::workload::workload;
use crate::error::Error;
use crate::error::Result;
use crate::error::write_atomically;
use crate::op::Op;
use crate::report::plot;
use crate::report::sweep::Measured;
use crate::report::sweep::SweepReport;
use crate::report::sweep::Swept;
use crate::sweep;
use crate::sweep::Range;
use crate::sweep::Subject;
use crate::sweep::resize;

pub(super) fn run(command: &Sweep, format: Format) -> Result<String> {
    let (report, files) = match command {
        Sweep::Gemm(args) => {
            let gemm = &args.subject;
            let mut ranges = Ranges::of("-m, -n, -k, --batch-count");
            gemm.map(|option, size| ranges.add(option, *size));
            let at = |value| Ok(predict::gemm(&gemm.map(|_, size| size.at(value))));
            (operator(ranges, &gemm.target, at)?, &args.files)
        }
        Sweep::Attention(args) => {
            let attention = &args.subject;
            let mut ranges = Ranges::of(ATTENTION);
            attention.map(|option, size| ranges.add(option, *size));
            let at = |value| predict::attention(&attention.map(|_, size| size.at(value)));
            (operator(ranges, &attention.target, at)?, &args.files)
        }
        Sweep::Model(args) => (model(&args.subject)?, &args.files),
    };
    write(&report, files)?;
    Ok(render(&report, format))
}

/// The sizes of attention that may be a range.
const ATTENTION: &str = "--batch, --heads, --kv-heads, --seq, --kv-seq, --head-dim";

/// The sizes of a model that may be a range.
const MODEL: &str =
    "--layers, --hidden, --heads, --kv-heads, --d-ff, --vocab, --batch, --seq, --context, --tp";

/// The sizes of a command that are ranges.
struct Ranges {
    /// Every size that may be one.
    options: &'static str,
    found: Vec<(&'static str, Range)>,
}

impl Ranges {
    const fn of(options: &'static str) -> Self {
        Self {
            options,
            found: Vec::new(),
        }
    }

    /// Notes a size and returns its least value.
    fn add(&mut self, option: &'static str, size: Size) -> u64 {
        match size {
            Size::Fixed(value) => value,
            Size::Range(range) => {
                self.found.push((option, range));
                range.start()
            }
        }
    }

    /// The only range, with its name in documents.
    fn only(&self) -> Result<(String, Range)> {
        match self.found[..] {
            [(option, range)] => {
                let name = option.trim_start_matches('-').replace('-', "_");
                Ok((name, range))
            }
            _ => {
                let found: Vec<_> = self.found.iter().map(|(option, _)| *option).collect();
                let value = match &found[..] {
                    [] => "absent".to_owned(),
                    found => format!("in {}", found.join(" and ")),
                };
                let allowed = format!("exactly one of {} as START:END:STEP", self.options);
                Err(Error::field("sweep", "range", value, &allowed))
            }
        }
    }
}

fn operator(
    ranges: Ranges,
    target: &TargetArgs,
    at: impl Fn(u64) -> Result<Op>,
) -> Result<SweepReport> {
    let (dimension, range) = ranges.only()?;
    let predictor = predicting(target)?;
    let own = timings(target, predictor.gpu())?;
    let measured = along(&own, range, &at);
    if let (Some(path), true) = (&target.data, measured.is_empty()) {
        return Err(Error::infeasible(format!(
            "--data {}: no row of {} lies on the sweep; all but {dimension} must be equal, layout and format too",
            path.display(),
            predictor.gpu().name
        )));
    }
    let sweep = sweep::operators(&predictor, range, &at)?;
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
        dimension,
        range,
        basis: predict::bases(&predictor, ops.into_iter()),
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

fn model(args: &SizedModelArgs) -> Result<SweepReport> {
    let sizes = [
        ("--layers", sweep::Size::Layers, args.layers),
        ("--hidden", sweep::Size::Hidden, args.hidden),
        ("--heads", sweep::Size::Heads, args.heads),
        ("--kv-heads", sweep::Size::KvHeads, args.kv_heads),
        ("--d-ff", sweep::Size::DFf, args.d_ff),
        ("--vocab", sweep::Size::Vocab, args.vocab),
    ];
    let ModelArgs {
        architecture: base,
        workload: work,
        target,
    } = &args.model;
    let mut ranges = Ranges::of(MODEL);
    for (option, _, size) in sizes {
        if let Some(Size::Range(range)) = size {
            ranges.found.push((option, range));
        }
    }
    work.map(|option, size| ranges.add(option, *size));
    let (dimension, range) = ranges.only()?;

    let base = Architecture::find(base)?;
    let at = |value| -> Result<(Architecture, Workload)> {
        let mut architecture = base.clone();
        for (_, size, asked) in sizes {
            if let Some(asked) = asked {
                architecture = resize(&architecture, size, asked.at(value))?;
            }
        }
        let workload = workload(&work.map(|_, size| size.at(value)), &architecture)?;
        Ok((architecture, workload))
    };
    let predictor = answering(target)?;
    let sweep = sweep::models(&predictor, range, at)?;
    let [first, last] = [sweep.points.first(), sweep.points.last()];
    let end = |point: Option<&sweep::Point>| at(point.map_or(range.start(), |point| point.value));
    let ends = [end(first)?, end(last)?];
    let items = lower(&ends[0].0, &ends[0].1)?.items;
    let swept = Swept {
        gpu: predictor.gpu(),
        dtype: ends[0].1.dtype,
        dimension,
        range,
        basis: predict::bases(&predictor, items.iter().map(|item| &item.op)),
    };
    Ok(SweepReport::models(swept, &sweep, &ends))
}

/// Writes the files that were asked for.
fn write(report: &SweepReport, files: &FileArgs) -> Result<()> {
    let mut contents = Vec::new();
    if let Some(path) = &files.csv {
        contents.push((path, report.csv().into_bytes()));
    }
    if let Some(path) = &files.plot {
        let picture = plot::render(&report.chart(), plot::Format::of(path)?)?;
        contents.push((path, picture));
    }
    for (path, content) in contents {
        write_atomically(path, &content)?;
        say(&format!("wrote {}", path.display()));
    }
    Ok(())
}
