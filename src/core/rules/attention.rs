//! Rules on the heads.

use crate::arch::{AttentionKernel, Mode};
use crate::ops::Attention;
use crate::rules::alignment::aligned;
use crate::rules::{Severity, Subject, Verdict, factors};

/// Nothing was gained beyond this head alignment in the paper's figure 7.
const HEAD_ALIGNMENT: u64 = 64;

/// The one head size between multiples of 64 that FlashAttention 2 and 3 both have a kernel for.
const EXTRA_FLASH_SIZE: u64 = 96;

/// Head sizes that fused kernels take unpadded; FlashAttention runs a head between two of them in the kernel of the larger one
/// (Dao-AILab/flash-attention, csrc/flash_attn/src, static_switch.h).
pub const FLASH_SIZES: [u64; 5] = [64, EXTRA_FLASH_SIZE, 128, 192, 256];

/// Least head size with fused attention, and what it must be a multiple of.
const FLASH_LEAST: u64 = 64;
const FLASH_UNIT: u64 = 8;

/// Head sizes from which the throughput of attention is flat: fused, unfused.
const WIDE_FLASH: u64 = 96;
const WIDE_UNFUSED: u64 = 128;

/// Why kernels of decoding need no head of a certain size.
pub(super) const READS_THE_CACHE: &str = "decode reads the cache: see head-size";

fn is_flash(subject: &Subject) -> bool {
    subject.work.attention == AttentionKernel::Flash
}

pub(super) fn head_size(subject: &Subject) -> Verdict {
    if is_flash(subject) {
        return match subject.work.mode {
            Mode::Decode => cached_head(subject.arch.head_dim, subject.wide_alignment()),
            _ => head_fits(subject.arch.head_dim, subject.wide_alignment()),
        };
    }
    let wanted = subject.wide_alignment().min(HEAD_ALIGNMENT);
    aligned(subject, "head size", subject.arch.head_dim, wanted)
}

/// Whether fused kernels take a head of this size unpadded, on a GPU of this alignment.
pub(super) fn head_fits(size: u64, alignment: u64) -> Verdict {
    let wanted = alignment.min(HEAD_ALIGNMENT);
    let detail = format!("head size {}", factors(size));
    if size.is_multiple_of(wanted) {
        return Verdict::met(detail);
    }
    if size == EXTRA_FLASH_SIZE {
        return Verdict::met(format!("head size {size} has a flash kernel of its own"));
    }
    let detail = format!("{detail}: {}", fused_head(&Attention::new(1, 1, 2, size)));
    let wanted = format!("a multiple of {wanted}");
    Verdict::broken(Severity::Advice, size as f64, wanted, &detail)
}

/// Whether kernels of decoding read the cache of heads of this size in whole 16-byte loads. They wait for it, so a head
/// narrower than its tile takes less time.
pub(super) fn cached_head(size: u64, alignment: u64) -> Verdict {
    let unit = alignment.min(FLASH_UNIT);
    let detail = format!("head size {}", factors(size));
    match size.is_multiple_of(unit) {
        true => Verdict::met(detail),
        false => Verdict::broken(Severity::Advice, size as f64, format!("a multiple of {unit}"), &detail),
    }
}

/// What fused kernels do with the heads of `op` where none has their size for itself.
pub fn fused_head(op: &Attention) -> String {
    let kernel = FLASH_SIZES.into_iter().find(|known| op.head_dim <= *known);
    if let Some(kernel) = kernel.filter(|_| op.has_fused_kernel()) {
        return format!("FlashAttention computes it as {kernel}");
    }
    let head_dim = op.head_dim.next_multiple_of(FLASH_UNIT);
    match Attention::new(1, 1, 2, head_dim).has_fused_kernel() {
        true => format!(
            "no fused kernel takes it; PyTorch and flash_attn pad it to {head_dim}, Transformer Engine does not"
        ),
        false => "no fused kernel takes it, only multiples of 8 up to 256".to_owned(),
    }
}

pub(super) fn flash(subject: &Subject) -> Verdict {
    if !is_flash(subject) {
        return Verdict::not_applicable("attention is not fused: see head-size");
    }
    if subject.work.mode == Mode::Decode {
        return Verdict::not_applicable(READS_THE_CACHE);
    }
    flash_size(subject.arch.head_dim, subject.wide_alignment())
}

/// Whether fused kernels run a head of this size fast.
pub(super) fn flash_size(size: u64, alignment: u64) -> Verdict {
    let unit = alignment.min(FLASH_UNIT);
    let detail = format!("head size {size}");
    let [.., most] = FLASH_SIZES;
    if (FLASH_LEAST..=most).contains(&size) && size.is_multiple_of(unit) {
        return Verdict::met(detail);
    }
    let wanted = format!("a multiple of {unit} from {FLASH_LEAST} to {most}");
    Verdict::broken(Severity::Hard, size as f64, wanted, &detail)
}

pub(super) fn few_heads(subject: &Subject) -> Verdict {
    let (heads, size) = (subject.arch.heads, subject.arch.head_dim);
    if subject.work.mode == Mode::Decode {
        return Verdict::not_applicable("decode reads the cache, and fewer heads do not shrink it");
    }
    if heads == 1 {
        return Verdict::not_applicable("there is one head");
    }
    let least = if is_flash(subject) { WIDE_FLASH } else { WIDE_UNFUSED };
    let detail = format!("{heads} heads of {size}");
    if size >= least {
        return Verdict::met(detail);
    }
    let wanted = format!("fewer heads of {least} or more");
    Verdict::broken(Severity::Advice, heads as f64, wanted, &detail)
}

pub(super) fn attention_shard(subject: &Subject) -> Verdict {
    let (heads, kv_heads, tp) = (subject.arch.heads, subject.arch.kv_heads, subject.work.tp);
    if tp == 1 {
        return Verdict::not_applicable("tp 1 splits nothing");
    }
    if !heads.is_multiple_of(tp) {
        let detail = format!("tp {tp} does not divide {heads} heads");
        let wanted = format!("a multiple of {tp}");
        return Verdict::broken(Severity::Hard, heads as f64, wanted, &detail);
    }
    if !kv_heads.is_multiple_of(tp) {
        let detail = format!("{kv_heads} key/value heads on {tp} ranks are replicated");
        let wanted = format!("a multiple of {tp}");
        let (severity, detail) = match tp.is_multiple_of(kv_heads) {
            true => (Severity::Advice, detail),
            false => (
                Severity::Hard,
                format!("tp {tp} does not divide {kv_heads} key/value heads"),
            ),
        };
        return Verdict::broken(severity, kv_heads as f64, wanted, &detail);
    }
    Verdict::met(format!("{} heads on each of {tp} ranks", heads / tp))
}
