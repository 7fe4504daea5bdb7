//! `shapewise predict`: one product, one attention, or a step of a whole model.

use crate::arch::Architecture;
use crate::cli::args::Format;
use crate::cli::args::TargetArgs;
use crate::cli::args::predict::AttentionArgs;
use crate::cli::args::predict::GemmArgs;
use crate::cli::args::predict::ModelArgs;
use crate::cli::args::predict::Predict;
use crate::cli::render;
use crate::cli::target::answering;
use crate::cli::workload::workload;
use crate::error::Error;
use crate::error::Result;
use crate::features::Family;
use crate::op::Attention;
use crate::op::Gemm;
use crate::op::Op;
use crate::predict::Predictor;
use crate::predict::step::estimate_step;
use crate::report::Basis;
use crate::report::operator::OperatorReport;
use crate::report::step::StepReport;

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
    let workload = workload(&args.workload, &architecture)?;
    let predictor = answering(&args.target)?;
    let step = estimate_step(&predictor, &architecture, &workload)?;
    let ops = step.lines.iter().map(|line| &line.item.op);
    let bases = bases(&predictor, ops);
    let report = StepReport::new(predictor.gpu(), &architecture, &workload, &step, bases);
    Ok(render(&report, format))
}

/// What the estimate of `op` is based on, where its family is learned.
pub(super) fn basis(predictor: &Predictor, op: &Op) -> Option<Basis> {
    let (family, dtype) = (Family::of(op)?, op.dtype()?);
    Some(Basis {
        family: family.name(),
        dtype: dtype.name(),
        stack: predictor.basis(family, dtype),
    })
}

/// What the estimates of these operators are based on, each basis once.
pub(super) fn bases<'a>(predictor: &Predictor, ops: impl Iterator<Item = &'a Op>) -> Vec<Basis> {
    let mut bases = Vec::new();
    for basis in ops.filter_map(|op| basis(predictor, op)) {
        if !bases.contains(&basis) {
            bases.push(basis);
        }
    }
    bases
}

pub(super) fn gemm(args: &GemmArgs) -> Op {
    Op::Gemm(Gemm {
        m: args.m,
        n: args.n,
        k: args.k,
        batch: args.batch_count,
        layout: args.layout,
        dtype: args.dtype,
    })
}

pub(super) fn attention(args: &AttentionArgs) -> Result<Op> {
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
