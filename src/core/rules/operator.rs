//! The sizing rules that a single GEMM or attention can be judged by.

use crate::gpu::Gpu;
use crate::ops::{Attention, Gemm, Op};
use crate::rules::attention::{READS_THE_CACHE, cached_head, flash_size, head_fits};
use crate::rules::fill::{gemm_tiles, gemm_waves};
use crate::rules::{Rule, Severity, Verdict, factors};
use serde::Serialize;
use utoipa::ToSchema;

/// Bytes of the widest load of one thread. A forward GEMM needs no more; the rest of the alignment is earned by the
/// reductions of the backward pass.
pub const LOAD_BYTES: u64 = 16;

/// What a rule asks of one operator, and whether it does that.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct OperatorFinding {
    /// Stable name on the wire, in kebab-case.
    pub id: &'static str,
    /// What it says.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// What it asks.
    pub demand: &'static str,
    /// Why.
    pub reason: &'static str,
    /// Who says so.
    pub source: &'static str,
    /// Whether whole waves fix it; else other alignment does.
    #[serde(skip)]
    pub is_of_waves: bool,
}

impl OperatorFinding {
    /// A rule on whole models whose predicate looks at one operator.
    fn like(id: &str, verdict: Verdict) -> Self {
        let rule = Rule::find(id).expect("a rule of the table");
        Self {
            id: rule.id,
            demand: rule.demand,
            reason: rule.reason,
            source: rule.source,
            is_of_waves: matches!(id, "tiles" | "waves"),
            verdict,
        }
    }
}

/// Judges `op` by every rule on single operators; empty for all but GEMMs and attention.
pub fn judge_operator(op: &Op, gpu: &Gpu) -> Vec<OperatorFinding> {
    match op {
        Op::Gemm(gemm) => vec![
            OperatorFinding {
                id: "loads",
                demand: "Every size along which an operand is contiguous is a multiple of 16 bytes.",
                reason: "Narrower loads and stores leave the matrix units waiting; which sizes are contiguous the layout says.",
                source: "NVIDIA Matrix Multiplication Background User's Guide; raw sweeps behind arXiv 2401.14489",
                verdict: sizes(gemm, LOAD_BYTES / gemm.dtype.size(), Severity::Hard),
                is_of_waves: false,
            },
            OperatorFinding {
                id: "alignment",
                demand: "Every size along which an operand is contiguous is a multiple of the alignment of the GPU.",
                reason: "Whole cache lines and tiles are read; what 16-byte loads leave to gain is small, and largest where the \
                         size is a reduction.",
                source: "arXiv 2401.14489, closing list (stas00/ml-engineering, training/performance)",
                verdict: sizes(gemm, gpu.alignment(gemm.dtype), Severity::Advice),
                is_of_waves: false,
            },
            OperatorFinding::like("tiles", gemm_tiles(gemm)),
            OperatorFinding::like("waves", gemm_waves(gemm, gpu)),
        ],
        Op::Attention(attention) => vec![
            OperatorFinding::like("head-size", head(attention, gpu)),
            OperatorFinding::like("flash", flash(attention, gpu)),
        ],
        _ => Vec::new(),
    }
}

/// Whether the contiguous sizes are multiples of `wanted`.
fn sizes(gemm: &Gemm, wanted: u64, severity: Severity) -> Verdict {
    let contiguous = ["m", "n", "k"]
        .into_iter()
        .zip([gemm.m, gemm.n, gemm.k])
        .zip(gemm.layout.contiguous());
    let contiguous: Vec<_> = contiguous.filter(|(_, is)| *is).map(|(size, _)| size).collect();
    let of = |(name, size): &(&str, u64)| format!("{name} {}", factors(*size));
    let odd: Vec<_> = contiguous
        .iter()
        .filter(|(_, size)| !size.is_multiple_of(wanted.max(1)))
        .collect();
    match odd.first() {
        None => Verdict::met(contiguous.iter().map(of).collect::<Vec<_>>().join(", ")),
        Some((_, size)) => {
            let detail: Vec<_> = odd.iter().map(|size| of(size)).collect();
            let asked = format!("a multiple of {wanted}");
            Verdict::broken(severity, *size as f64, asked, &detail.join(", "))
        }
    }
}

fn head(attention: &Attention, gpu: &Gpu) -> Verdict {
    let alignment = gpu.alignment(attention.dtype);
    match attention.is_decode() {
        true => cached_head(attention.head_dim, alignment),
        false => head_fits(attention.head_dim, alignment),
    }
}

fn flash(attention: &Attention, gpu: &Gpu) -> Verdict {
    match attention.is_decode() {
        true => Verdict::not_applicable(READS_THE_CACHE),
        false => flash_size(attention.head_dim, gpu.alignment(attention.dtype)),
    }
}
