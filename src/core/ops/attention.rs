//! Fused attention over whole sequences or of one new token against a cache.

use super::dimension::{Dimension, choice, count, flag};
use super::{Dtype, Op, Pass, product};
use crate::units::{Bytes, Flops};
use std::fmt;

/// Fused (flash) attention of `heads` query heads over `kv_heads` key/value heads.
///
/// Decoding one token is `seq_q = 1` with `seq_kv` counting the cached tokens and the new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Attention {
    /// Sequences.
    pub batch: u64,
    /// Query heads.
    pub heads: u64,
    /// Key/value heads, a divisor of the query heads.
    pub kv_heads: u64,
    /// Queries of a sequence, in tokens.
    pub seq_q: u64,
    /// Keys of a sequence, cached ones included, in tokens.
    pub seq_kv: u64,
    /// Width of a query and key head.
    pub head_dim: u64,
    /// Width of a value head; differs from `head_dim` in multi-head latent attention.
    pub value_dim: u64,
    /// Whether a query sees only the keys up to its own position.
    pub causal: bool,
    /// Each query sees at most this many keys (sliding window); 0 = all.
    pub window: u64,
    /// Forward or backward.
    pub pass: Pass,
    /// Number format of queries, keys and values.
    pub dtype: Dtype,
}

/// Queries of a sequence that one tile of a kernel of decoding steps takes.
const FEW_QUERIES: u64 = 64;

/// The widest head, four times the widest that any model has.
const WIDEST_HEAD: u64 = 4096;

impl Attention {
    /// Every field, in order.
    pub const DIMENSIONS: &[Dimension] = &[
        count!(Attention, batch, 1, "sequences"),
        count!(Attention, heads, 1, "heads"),
        count!(Attention, kv_heads, 1, "heads"),
        count!(Attention, seq_q, 1, "tokens"),
        count!(Attention, seq_kv, 1, "tokens"),
        count!(Attention, head_dim, 1, "elements"),
        count!(Attention, value_dim, 1, "elements"),
        flag!(Attention, causal),
        count!(Attention, window, 0, "tokens"),
        choice!(Attention, pass, Pass),
        choice!(Attention, dtype, Dtype, ELEMENT_NAMES),
    ];

    /// Causal self-attention forward over whole sequences: `heads` heads of size `head_dim`, bf16. Other fields by
    /// struct update.
    pub const fn new(batch: u64, heads: u64, seq: u64, head_dim: u64) -> Self {
        Self {
            batch,
            heads,
            kv_heads: heads,
            seq_q: seq,
            seq_kv: seq,
            head_dim,
            value_dim: head_dim,
            causal: true,
            window: 0,
            pass: Pass::Forward,
            dtype: Dtype::Bf16,
        }
    }

    /// The first size that does not go with the others: its dimension, its value and what is allowed.
    pub fn misfit(&self) -> Option<(&'static str, u64, String)> {
        if !self.heads.is_multiple_of(self.kv_heads) {
            let allowed = format!("a divisor of heads, {}", self.heads);
            return Some(("kv_heads", self.kv_heads, allowed));
        }
        if self.causal && self.seq_kv < self.seq_q {
            let allowed = format!("at least seq_q, {}, where attention is causal", self.seq_q);
            return Some(("seq_kv", self.seq_kv, allowed));
        }
        [("head_dim", self.head_dim), ("value_dim", self.value_dim)]
            .into_iter()
            .find(|&(_, width)| width > WIDEST_HEAD)
            .map(|(field, width)| (field, width, format!("at most {WIDEST_HEAD}")))
    }

    /// Query-key pairs that are computed, per head: all, the causal half, or a band of `window`.
    ///
    /// Query `i` (0-based, aligned to the end of the keys) sees `seq_kv - seq_q + i + 1` keys when causal.
    pub fn pairs(&self) -> f64 {
        pairs(self.seq_q, self.seq_kv, self.causal, self.window)
    }

    /// Two products forward (`q·kᵀ`, `p·v`); backward recomputes the scores: five products, 2.5 times.
    pub fn flops(&self) -> Flops {
        let forward = 2.0 * product(&[self.batch, self.heads]) * self.pairs() * (self.head_dim + self.value_dim) as f64;
        Flops::from_flops(match self.pass {
            Pass::Forward => forward,
            Pass::Backward => 2.5 * forward,
        })
    }

    /// Queries, keys, values and output once; backward reads them with the output gradient and writes three gradients.
    ///
    /// Only the keys inside the window of some query are read. The values of a latent are the first part of its keys.
    pub fn bytes(&self) -> Bytes {
        self.bytes_with(self.cached_values())
    }

    /// Keys that some query sees.
    pub fn keys(&self) -> u64 {
        match self.window {
            0 => self.seq_kv,
            window => self.seq_kv.min(window + self.seq_q - 1),
        }
    }

    /// The traffic with this width of values beside the keys.
    pub(crate) fn bytes_with(&self, values: u64) -> Bytes {
        let query = product(&[self.batch, self.heads, self.seq_q, self.head_dim]);
        let output = product(&[self.batch, self.heads, self.seq_q, self.value_dim]);
        let each = (query + output) * self.dtype.size() as f64 + self.cache(values).bytes();
        Bytes::from_bytes(match self.pass {
            Pass::Forward => each,
            Pass::Backward => 2.0 * each,
        })
    }

    /// The keys that some query sees, with their values.
    pub fn cache_bytes(&self) -> Bytes {
        self.cache(self.cached_values())
    }

    fn cache(&self, values: u64) -> Bytes {
        let width = self.head_dim + values;
        let elements = product(&[self.batch, self.kv_heads, self.keys(), width]);
        Bytes::from_bytes(elements * self.dtype.size() as f64)
    }

    /// Width of the values that lie beside the keys: those of a latent are the first part of its keys.
    const fn cached_values(&self) -> u64 {
        if self.is_absorbed() { 0 } else { self.value_dim }
    }

    /// Whether values are of another width than keys, as where both are expanded from a latent or are one.
    pub const fn is_latent(&self) -> bool {
        self.head_dim != self.value_dim
    }

    /// Whether heads attend to a latent instead of keys and values expanded from it: heads of expanded keys are no wider
    /// than the 256 elements that flash kernels take.
    pub const fn is_absorbed(&self) -> bool {
        self.is_latent() && self.head_dim > 256
    }

    /// Whether a fused kernel takes heads of this size: FlashAttention, cuDNN and Transformer Engine take multiples of 8 up to
    /// 256. Kernels of decoding steps read the cache in any size, and those of latents, and of a window of keys that all heads
    /// share (DeepSeek-V4), are made for theirs.
    pub const fn has_fused_kernel(&self) -> bool {
        let fits = self.head_dim.is_multiple_of(8) && self.head_dim <= 256;
        let is_shared = self.kv_heads == 1 && self.window > 0;
        fits || self.is_decode() || self.is_latent() || is_shared
    }

    /// Queries against a longer cache as a decoding step that does the same, and how often it runs: kernels that read the cache once
    /// lay up to 64 queries of a key head in one tile, of whichever token they are.
    pub fn folded(&self) -> Option<(Self, f64)> {
        let few = self.seq_q.min(FEW_QUERIES);
        let follows = self.seq_q > 1 && self.seq_q < self.seq_kv;
        let folded = Self {
            heads: self.heads * few,
            seq_q: 1,
            ..*self
        };
        (follows && self.pass == Pass::Forward).then_some((folded, self.seq_q as f64 / few as f64))
    }

    /// Whether this is one decoding step: a single query against a cache.
    pub const fn is_decode(&self) -> bool {
        self.seq_q == 1 && self.seq_kv > 1
    }
}

/// [`Attention::pairs`] of one head.
pub(crate) fn pairs(queries: u64, keys: u64, causal: bool, window: u64) -> f64 {
    let (q, kv) = (queries as f64, keys as f64);
    let window = if window == 0 { kv } else { (window as f64).min(kv) };
    if !causal {
        return q * window;
    }
    // Queries whose prefix is still shorter than the window see a growing triangle.
    let first = kv - q;
    let growing = (window - first).clamp(0.0, q);
    growing * first + growing * (growing + 1.0) / 2.0 + (q - growing) * window
}

impl fmt::Display for Attention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (batch, heads, kv_heads) = (self.batch, self.heads, self.kv_heads);
        let (q, kv, width) = (self.seq_q, self.seq_kv, self.head_dim);
        write!(f, "b {batch} heads {heads}/{kv_heads} q {q} kv {kv} d {width}")?;
        if self.value_dim != self.head_dim {
            write!(f, "/{}", self.value_dim)?;
        }
        if self.causal {
            write!(f, " causal")?;
        }
        if self.window > 0 {
            write!(f, " window {}", self.window)?;
        }
        write!(f, " {}", self.dtype)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attention(seq_q: u64, seq_kv: u64, causal: bool, window: u64) -> Attention {
        Attention {
            batch: 1,
            heads: 1,
            kv_heads: 1,
            seq_q,
            seq_kv,
            head_dim: 64,
            value_dim: 64,
            causal,
            window,
            pass: Pass::Forward,
            dtype: Dtype::Bf16,
        }
    }

    #[test]
    fn attention_pairs_equal_a_count_by_hand() {
        for (q, kv, causal, window) in [
            (5, 5, true, 0),
            (3, 7, true, 0),
            (4, 9, false, 0),
            (8, 8, true, 3),
            (2, 9, true, 4),
            (1, 9, true, 4),
        ] {
            let op = attention(q, kv, causal, window);
            let counted: u64 = (0..q)
                .map(|i| {
                    let visible = if causal { kv - q + i + 1 } else { kv };
                    if window == 0 { visible } else { visible.min(window) }
                })
                .sum();
            assert_eq!(op.pairs(), counted as f64, "{op:?}");
        }
    }

    #[test]
    fn backward_attention_is_two_and_a_half_times_forward() {
        let forward = attention(64, 64, true, 0);
        let backward = Attention {
            pass: Pass::Backward,
            ..forward
        };
        assert_eq!(backward.flops() / forward.flops(), 2.5);
    }
}
