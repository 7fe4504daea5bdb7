//! Attention to the keys that an index chooses, as the module that servers run.

use super::attention::pairs;
use super::dimension::{Dimension, choice, count};
use super::{Dtype, Op, product};
use crate::units::{Bytes, Flops};
use std::fmt;

/// DeepSeek Sparse Attention (arXiv 2512.02556) of one layer on one rank, from the normalised residual stream to the output
/// projection: latents and queries, the index scores of every key, the choice of `top_k`, attention to those.
///
/// Decoding one token is `seq_q = 1` with `seq_kv` counting the cached tokens and the new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IndexedAttention {
    /// Sequences.
    pub batch: u64,
    /// Query heads of the rank.
    pub heads: u64,
    /// New tokens of a sequence.
    pub seq_q: u64,
    /// Keys of a sequence, cached ones included.
    pub seq_kv: u64,
    /// Width of the residual stream.
    pub hidden: u64,
    /// Width of the query latent.
    pub query_rank: u64,
    /// Width of the key/value latent.
    pub latent: u64,
    /// Rotated part of a head.
    pub rotary: u64,
    /// Width of a query and key head, its rotated part included.
    pub head_dim: u64,
    /// Width of a value head.
    pub value_dim: u64,
    /// Heads of the index; 0 = the choice of an earlier layer holds.
    pub index_heads: u64,
    /// Width of a head of the index.
    pub index_dim: u64,
    /// Keys that a query attends to at most.
    pub top_k: u64,
    /// Number format of the cached latents.
    pub cache_dtype: Dtype,
    /// Number format of the projections.
    pub dtype: Dtype,
}

/// Bytes of an element of the index keys: fp8 with a scale of four bytes for 128.
pub(crate) const INDEX_KEY_BYTES: f64 = 1.0 + 4.0 / 128.0;

/// What follows one upon another inside the module: arithmetic, its format, and traffic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stage {
    pub flops: Flops,
    pub dtype: Dtype,
    pub bytes: Bytes,
}

impl IndexedAttention {
    /// Every field, in order.
    pub const DIMENSIONS: &[Dimension] = &[
        count!(IndexedAttention, batch, 1, "sequences"),
        count!(IndexedAttention, heads, 1, "heads"),
        count!(IndexedAttention, seq_q, 1, "tokens"),
        count!(IndexedAttention, seq_kv, 1, "tokens"),
        count!(IndexedAttention, hidden, 1, "elements"),
        count!(IndexedAttention, query_rank, 1, "elements"),
        count!(IndexedAttention, latent, 1, "elements"),
        count!(IndexedAttention, rotary, 0, "elements"),
        count!(IndexedAttention, head_dim, 1, "elements"),
        count!(IndexedAttention, value_dim, 1, "elements"),
        count!(IndexedAttention, index_heads, 0, "heads"),
        count!(IndexedAttention, index_dim, 1, "elements"),
        count!(IndexedAttention, top_k, 1, "tokens"),
        choice!(IndexedAttention, cache_dtype, Dtype, ELEMENT_NAMES),
        choice!(IndexedAttention, dtype, Dtype),
    ];

    /// A layer of DeepSeek-V3.2 with this many heads on the rank: `seq_q` new tokens of each sequence behind `cached` ones.
    pub const fn deepseek(batch: u64, heads: u64, seq_q: u64, cached: u64) -> Self {
        Self {
            batch,
            heads,
            seq_q,
            seq_kv: seq_q + cached,
            hidden: 7168,
            query_rank: 1536,
            latent: 512,
            rotary: 64,
            head_dim: 192,
            value_dim: 128,
            index_heads: 64,
            index_dim: 128,
            top_k: 2048,
            cache_dtype: Dtype::Bf16,
            dtype: Dtype::Fp8Block,
        }
    }

    /// The first size that does not go with the others: its dimension, its value and what is allowed.
    pub fn misfit(&self) -> Option<(&'static str, u64, String)> {
        if self.seq_kv < self.seq_q {
            return Some(("seq_kv", self.seq_kv, format!("at least seq_q, {}", self.seq_q)));
        }
        let allowed = format!("at most head_dim, {}", self.head_dim);
        (self.rotary > self.head_dim).then_some(("rotary", self.rotary, allowed))
    }

    /// New tokens of all sequences.
    pub const fn tokens(&self) -> u64 {
        self.batch.saturating_mul(self.seq_q)
    }

    /// Whether no query has more keys than it may attend to.
    pub const fn is_dense(&self) -> bool {
        self.seq_kv <= self.top_k
    }

    /// Whether this is one decoding step: a single query against a cache.
    pub const fn is_decode(&self) -> bool {
        self.seq_q == 1
    }

    /// Whether the layer has an index of its own.
    pub const fn has_index(&self) -> bool {
        self.index_heads > 0
    }

    /// Weights of the projections: into latents, up to queries, out of and into the key/value latent, back to the residual
    /// stream, and those of the index.
    pub fn weights(&self) -> f64 {
        let unrotated = self.head_dim - self.rotary + self.value_dim;
        let index = match self.index_heads {
            0 => 0.0,
            heads => {
                product(&[self.query_rank, heads, self.index_dim]) + product(&[self.hidden, heads + self.index_dim])
            }
        };
        product(&[self.hidden, self.query_rank + self.latent + self.rotary])
            + product(&[self.query_rank, self.heads, self.head_dim])
            + product(&[self.latent, self.heads, unrotated])
            + product(&[self.heads, self.value_dim, self.hidden])
            + index
    }

    /// Pairs of a query and a key that is scored by the index, per head of it; 0 where all keys are taken.
    fn scored(&self) -> f64 {
        match self.is_dense() {
            true => 0.0,
            false => pairs(self.seq_q, self.seq_kv, true, 0),
        }
    }

    /// Keys that are gathered, of all queries of a sequence.
    pub fn gathered(&self) -> f64 {
        pairs(self.seq_q, self.seq_kv, true, self.top_k)
    }

    /// Arithmetic of attention: over latents, or where no key is left out over keys and values expanded from them if that is
    /// less, as servers run it.
    fn attention_flops(&self) -> f64 {
        let products = |width: u64| 2.0 * product(&[self.batch, self.heads, width]) * self.gathered();
        let unrotated = self.head_dim - self.rotary + self.value_dim;
        let expansion = |tokens: u64| 2.0 * product(&[self.batch, tokens, self.heads, self.latent, unrotated]);
        let absorbed = products(2 * self.latent + self.rotary);
        if !self.is_dense() {
            return absorbed;
        }
        // The projections count the expansion of the new tokens.
        let cached = expansion(self.seq_kv - self.seq_q);
        absorbed.min(products(self.head_dim + self.value_dim) + cached)
    }

    /// Projections, index scores, attention: each needs what the one before gives.
    pub(crate) fn stages(&self) -> [Stage; 3] {
        let tokens = self.tokens() as f64;
        let stream = 2.0 * 2.0 * tokens * self.hidden as f64;
        let keys = self.batch as f64 * self.seq_kv.min(self.top_k + self.seq_q - 1) as f64;
        let index_keys = match (self.index_heads, self.is_dense()) {
            (1.., false) => product(&[self.batch, self.seq_kv, self.index_dim]) * INDEX_KEY_BYTES,
            _ => 0.0,
        };
        let latents = keys * (self.latent + self.rotary) as f64 * self.cache_dtype.size() as f64;
        let stage = |flops, dtype, bytes| Stage {
            flops: Flops::from_flops(flops),
            dtype,
            bytes: Bytes::from_bytes(bytes),
        };
        [
            stage(
                2.0 * tokens * self.weights(),
                match self.dtype {
                    Dtype::Nvfp4 => Dtype::Nvfp4,
                    dtype if dtype.size() == 1 => Dtype::Fp8,
                    dtype => dtype.dense().unwrap_or(dtype),
                },
                self.weights() * self.dtype.operand_sizes()[1] + stream,
            ),
            stage(
                2.0 * product(&[self.batch, self.index_heads, self.index_dim]) * self.scored(),
                Dtype::Fp8,
                index_keys,
            ),
            stage(self.attention_flops(), self.cache_dtype, latents),
        ]
    }

    /// The products of all stages.
    pub fn flops(&self) -> Flops {
        self.stages().into_iter().map(|stage| stage.flops).sum()
    }

    /// Weights, the residual stream in and out, index keys and the latents of the keys that some query may choose, once.
    pub fn bytes(&self) -> Bytes {
        self.stages().into_iter().map(|stage| stage.bytes).sum()
    }

    /// The weights and the caches, which belong to this layer alone.
    pub fn streamed_bytes(&self) -> Bytes {
        let [projections, scores, attention] = self.stages().map(|stage| stage.bytes);
        let stream = Bytes::from_bytes(2.0 * 2.0 * self.tokens() as f64 * self.hidden as f64);
        projections - stream + scores + attention
    }

    /// The fastest format of its stages: no stage of it is faster than the peak of that.
    pub const fn fastest_dtype(&self) -> Dtype {
        match self.dtype {
            Dtype::Nvfp4 => Dtype::Nvfp4,
            _ => Dtype::Fp8,
        }
    }
}

impl fmt::Display for IndexedAttention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            batch,
            heads,
            seq_q,
            seq_kv,
            top_k,
            ..
        } = self;
        write!(f, "b {batch} heads {heads} q {seq_q} kv {seq_kv} top {top_k}")?;
        match self.index_heads {
            0 => write!(f, " without index")?,
            heads => write!(f, " by {heads} heads")?,
        }
        write!(f, " {}", self.dtype)?;
        match self.cache_dtype {
            Dtype::Bf16 => Ok(()),
            cache => write!(f, " cache {cache}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attention_stops_growing_at_the_keys_that_are_chosen_and_the_index_does_not() {
        let flops = |cached| {
            IndexedAttention::deepseek(8, 16, 1, cached)
                .stages()
                .map(|stage| stage.flops.flops())
        };
        let [short, long, longer] = [1023, 16_383, 32_767].map(flops);
        assert_eq!(short[1], 0.0);
        assert_eq!(2.0 * long[1], longer[1]);
        assert_eq!(long[1], 2.0 * 8.0 * 64.0 * 128.0 * 16_384.0);
        assert_eq!(long[2], longer[2]);
        assert_eq!(short[0], longer[0]);
    }

    /// 187,107,328 weights of attention in DeepSeek-V3, 13,959,168 of the index beside them.
    #[test]
    fn the_projections_are_those_of_the_model() {
        let whole = IndexedAttention::deepseek(1, 128, 1, 1);
        let shared = IndexedAttention {
            index_heads: 0,
            ..whole
        };
        assert_eq!(whole.weights() - shared.weights(), 13_959_168.0);
        assert_eq!(shared.weights(), 187_105_280.0);
    }

    #[test]
    fn the_largest_sizes_have_counts() {
        let size = super::super::dimension::LARGEST;
        let largest = IndexedAttention {
            batch: size,
            heads: size,
            seq_q: size,
            seq_kv: size,
            hidden: size,
            query_rank: size,
            latent: size,
            rotary: size,
            head_dim: size,
            value_dim: size,
            index_heads: size,
            index_dim: size,
            top_k: size,
            ..IndexedAttention::deepseek(1, 1, 1, 0)
        };
        let decoding = IndexedAttention {
            seq_q: 1,
            top_k: 1,
            ..largest
        };
        for op in [largest, decoding] {
            let counts = [op.flops().flops(), op.bytes().bytes(), op.streamed_bytes().bytes()];
            assert!(
                counts.iter().all(|count| count.is_finite() && *count > 0.0),
                "{op}: {counts:?}"
            );
        }
    }

    #[test]
    fn a_long_prompt_attends_to_latents_and_a_short_one_to_expanded_keys() {
        let of = |seq| IndexedAttention::deepseek(1, 128, seq, 0).stages()[2].flops.flops();
        let (seq, k) = (1024.0, 2048.0);
        assert_eq!(of(1024), 2.0 * 128.0 * seq * (seq + 1.0) / 2.0 * 320.0);
        let long = k * (k + 1.0) / 2.0 + (65_536.0 - k) * k;
        assert_eq!(of(65_536), 2.0 * 128.0 * long * 1088.0);
    }
}
