//! Rules on the widths of the linear maps and of the output head.

use crate::arch::{Architecture, MlpKind, Workload};
use crate::rules::operator::LOAD_BYTES;
use crate::rules::{Severity, Subject, Verdict, factors};

/// Judges a width that should be a multiple of `wanted`.
pub(super) fn aligned(subject: &Subject, what: &str, width: u64, wanted: u64) -> Verdict {
    if wanted <= 1 {
        let gpu = &subject.gpu.name;
        return Verdict::met(format!("{what} {width}; {gpu} has no alignment"));
    }
    let detail = format!("{what} {}", factors(width));
    if width.is_multiple_of(wanted) {
        return Verdict::met(detail);
    }
    let wanted = format!("a multiple of {wanted}");
    Verdict::broken(Severity::Hard, width as f64, wanted, &detail)
}

/// Judges `width / tp`, which must be whole before it can be aligned.
fn shard(subject: &Subject, what: &str, width: u64) -> Verdict {
    share(subject, what, width, subject.work.tp)
}

/// The same of a width that so many ranks share.
fn share(subject: &Subject, what: &str, width: u64, tp: u64) -> Verdict {
    let wanted = subject.alignment();
    if !width.is_multiple_of(tp) {
        let wanted = format!("a multiple of {}", tp * wanted);
        let detail = format!("tp {tp} does not divide {what} {width}");
        return Verdict::broken(Severity::Hard, width as f64, wanted, &detail);
    }
    let what = match tp {
        1 => what.to_owned(),
        tp => format!("{what} {width} / tp {tp}:"),
    };
    aligned(subject, &what, width / tp, wanted)
}

/// The first verdict that is broken, else the first one.
fn worst(verdicts: impl IntoIterator<Item = Verdict>) -> Verdict {
    let mut first = None;
    for verdict in verdicts {
        if verdict.is_met() == Some(false) {
            return verdict;
        }
        first.get_or_insert(verdict);
    }
    first.unwrap_or_else(|| Verdict::not_applicable("there is no such GEMM"))
}

pub(super) fn vocabulary(subject: &Subject) -> Verdict {
    let (vocab, tp) = (subject.arch.vocab, subject.work.tp);
    let whole = subject.wide_alignment();
    let size = subject.work.activation_dtype().size();
    let wanted = if subject.work.trains() {
        whole
    } else {
        whole.min(LOAD_BYTES / size)
    };
    aligned(subject, "vocabulary", vocab, wanted * tp)
}

pub(super) fn hidden_shard(subject: &Subject) -> Verdict {
    let arch = subject.arch;
    let inner = arch.heads * arch.value_dim();
    if inner == arch.hidden {
        return shard(subject, "hidden", arch.hidden);
    }
    worst([
        aligned(subject, "hidden", arch.hidden, subject.alignment()),
        shard(subject, "heads x head size", inner),
    ])
}

pub(super) fn qkv_shard(subject: &Subject) -> Verdict {
    let arch = subject.arch;
    if arch.mla.is_some() {
        return Verdict::not_applicable("latent attention has no fused QKV GEMM");
    }
    // Fewer key heads than ranks are replicated, one on each.
    let kv_heads = arch.kv_heads.max(subject.work.tp);
    let width = (arch.heads + 2 * kv_heads) * arch.head_dim;
    shard(subject, "QKV width", width)
}

pub(super) fn mlp_shard(subject: &Subject) -> Verdict {
    match subject.arch.mlp.kind {
        MlpKind::Gelu => inner_widths(subject),
        MlpKind::Swiglu => Verdict::not_applicable("the MLP is gated: see swiglu-width"),
    }
}

pub(super) fn swiglu_width(subject: &Subject) -> Verdict {
    match subject.arch.mlp.kind {
        MlpKind::Swiglu => inner_widths(subject),
        MlpKind::Gelu => Verdict::not_applicable("the MLP is not gated: see mlp-shard"),
    }
}

fn inner_widths(subject: &Subject) -> Verdict {
    let widths = inner(subject.arch, subject.work).into_iter();
    let widths = widths.filter(|(_, width, _)| *width > 0);
    worst(widths.map(|(what, width, ranks)| share(subject, what, width, ranks)))
}

/// The inner widths of the MLPs that exist, 0 for those that do not, and the ranks that share each.
pub(super) fn inner(arch: &Architecture, work: &Workload) -> [(&'static str, u64, u64); 3] {
    let dense = arch.layers > arch.moe_layers();
    let tp = work.tp;
    [
        ("d_ff", if dense { arch.mlp.d_ff } else { 0 }, tp),
        ("expert d_ff", arch.moe.map_or(0, |moe| moe.d_ff), work.expert_ranks()),
        ("shared expert d_ff", arch.moe.map_or(0, |moe| moe.shared_d_ff), tp),
    ]
}
