//! `shapewise predict`: one product, one attention, or a step of a whole model.

use crate::arch::Architecture;
use crate::arch::Mode;
use crate::arch::Positions;
use crate::arch::Workload;
use crate::cli::args::AttentionArgs;
use crate::cli::args::Format;
use crate::cli::args::GemmArgs;
use crate::cli::args::ModelArgs;
use crate::cli::args::Predict;
use crate::cli::args::TargetArgs;
use crate::cli::predictor;
use crate::cli::render;
use crate::error::Error;
use crate::error::Result;
use crate::features::Family;
use crate::gpu::Gpu;
use crate::op::Attention;
use crate::op::Gemm;
use crate::op::Op;
use crate::predict::Predictor;
use crate::predict::step::estimate_step;
use crate::report::Basis;
use crate::report::operator::OperatorReport;
use crate::report::step::StepReport;

/// New tokens per sequence in training and prefill, and cached tokens in decode, unless told otherwise.
const USUAL_SEQUENCE: u64 = 2048;

pub(super) fn run(command: &Predict, format: Format) -> Result<String> {
    match command {
        Predict::Gemm(args) => operator(&gemm(args), &args.target, format),
        Predict::Attention(args) => operator(&attention(args)?, &args.target, format),
        Predict::Model(args) => model(args, format),
    }
}

fn operator(op: &Op, target: &TargetArgs, format: Format) -> Result<String> {
    let predictor = answering(target)?;
    let estimate = predictor.predict(std::slice::from_ref(op))[0];
    let basis = basis(&predictor, op);
    let report = OperatorReport::new(predictor.gpu(), op, &estimate, basis);
    Ok(render(&report, format))
}

fn model(args: &ModelArgs, format: Format) -> Result<String> {
    let architecture = Architecture::find(&args.architecture)?;
    if args.mode == Mode::Decode
        && let (Some(seq), Some(context)) = (args.seq, args.context)
        && seq != 1
        && seq != context
    {
        let allowed = format!(
            "what --context says, {context}, or nothing: in decode both are the cached tokens"
        );
        return Err(Error::field("decode", "--seq", seq, &allowed));
    }
    let workload = workload(args, &architecture);
    workload.validate(&architecture)?;
    let predictor = answering(&args.target)?;
    let step = estimate_step(&predictor, &architecture, &workload)?;
    let mut bases = Vec::new();
    for line in &step.lines {
        if let Some(basis) = basis(&predictor, &line.item.op)
            && !bases.contains(&basis)
        {
            bases.push(basis);
        }
    }
    let report = StepReport::new(predictor.gpu(), &architecture, &workload, &step, bases);
    Ok(render(&report, format))
}

/// The predictor of the target, with the user's own timings where there are some.
fn answering(target: &TargetArgs) -> Result<Predictor> {
    let gpu = Gpu::find(&target.gpu)?;
    let predictor = predictor(gpu, target.model.as_deref())?;
    match &target.data {
        None => Ok(predictor),
        Some(path) => with_measured(predictor, path),
    }
}

#[cfg(feature = "dataset")]
fn with_measured(predictor: Predictor, path: &std::path::Path) -> Result<Predictor> {
    let gpu = predictor.gpu();
    let mut rows = crate::dataset::read(path)?;
    rows.retain(|row| *row.gpu == *gpu.name);
    if rows.is_empty() {
        return Err(Error::infeasible(format!(
            "--data {}: the table has no row of {}",
            path.display(),
            gpu.name
        )));
    }
    Ok(predictor.with_measured(rows.iter().map(|row| (row.op, row.time))))
}

#[cfg(not(feature = "dataset"))]
fn with_measured(_predictor: Predictor, _path: &std::path::Path) -> Result<Predictor> {
    Err(Error::feature_off("`--data`", "dataset"))
}

/// What the estimate of `op` is based on, where its family is learned.
fn basis(predictor: &Predictor, op: &Op) -> Option<Basis> {
    let (family, dtype) = (Family::of(op)?, op.dtype()?);
    Some(Basis {
        family: family.name(),
        dtype: dtype.name(),
        stack: predictor.basis(family, dtype),
    })
}

fn gemm(args: &GemmArgs) -> Op {
    Op::Gemm(Gemm {
        m: args.m,
        n: args.n,
        k: args.k,
        batch: args.batch_count,
        layout: args.layout,
        dtype: args.dtype,
    })
}

fn attention(args: &AttentionArgs) -> Result<Op> {
    let kv_heads = args.kv_heads.unwrap_or(args.heads);
    if !args.heads.is_multiple_of(kv_heads) {
        let allowed = format!("a divisor of --heads, {}", args.heads);
        return Err(Error::field("attention", "--kv-heads", kv_heads, &allowed));
    }
    let seq_kv = args.kv_seq.unwrap_or(args.seq);
    if args.causal && seq_kv < args.seq {
        let allowed = format!("at least --seq, {}, with --causal", args.seq);
        return Err(Error::field("attention", "--kv-seq", seq_kv, &allowed));
    }
    Ok(Op::Attention(Attention {
        batch: args.batch,
        heads: args.heads,
        kv_heads,
        seq_q: args.seq,
        seq_kv,
        head_dim: args.head_dim,
        value_dim: args.head_dim,
        causal: args.causal,
        window: 0,
        pass: args.pass,
        dtype: args.dtype,
    }))
}

/// The workload that was asked for, with defaults that fit the architecture.
fn workload(args: &ModelArgs, architecture: &Architecture) -> Workload {
    let room = match architecture.positions {
        Positions::Learned { max } => max,
        _ => u64::MAX,
    };
    let decode = args.mode == Mode::Decode;
    // A decoding step makes one new token, so there `--seq` can only mean what is cached.
    let cached = args.context.or(args.seq.filter(|_| decode));
    let context = cached.unwrap_or(if decode {
        USUAL_SEQUENCE.min(room - 1)
    } else {
        0
    });
    let (batch, seq) = match args.mode {
        Mode::Train => (4, USUAL_SEQUENCE),
        Mode::Prefill => (1, USUAL_SEQUENCE),
        Mode::Decode => (8, 1),
    };
    Workload {
        mode: args.mode,
        batch: args.batch.unwrap_or(batch),
        seq: args
            .seq
            .filter(|_| !decode)
            .unwrap_or(seq.min(room.saturating_sub(context)).max(1)),
        context,
        dtype: args.dtype,
        tp: args.tp,
        pp: args.pp,
        dp: args.dp,
        zero: args.zero,
        recompute: args.recompute,
        attention: args.attention,
        sequence_parallel: args.sequence_parallel,
        microbatches: args.microbatches,
    }
}
