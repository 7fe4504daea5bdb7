//! Linear attention: heads that keep a state of fixed size in place of a cache of keys and values.

use super::dimension::{Dimension, choice, count};
use super::{Dtype, Op, Pass, product};
use crate::units::{Bytes, Flops};
use std::fmt;

named_enum! {
    /// How a token changes the state of a head, a matrix of keys by values.
    #[derive(Default)]
    Recurrence {
        /// Delta rule with one decay a head (Gated DeltaNet, arXiv 2412.06464; Qwen3-Next, Qwen3.5).
        #[default]
        GatedDeltaNet = "gated_delta_net",
        /// Delta rule with a decay for each element of a key (Kimi Delta Attention, arXiv 2510.26692).
        KimiDelta = "kimi_delta",
        /// One decay a head, no delta rule (Mamba-2, arXiv 2405.21060; constant decays: lightning attention, arXiv 2401.04658).
        Mamba2 = "mamba2",
    }
}

impl Recurrence {
    /// Products with the state that a token takes: the query reads it, the key adds a value to it, and the delta rule first
    /// reads what the key holds.
    const fn products(self) -> f64 {
        match self {
            Self::GatedDeltaNet | Self::KimiDelta => 3.0,
            Self::Mamba2 => 2.0,
        }
    }
}

/// The recurrence of `heads` heads over a sequence, in chunks; of one token it is a decoding step.
///
/// In terms of state-space models keys are `B`, queries `C`, values `x`, and key heads are groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinearAttention {
    /// How a token changes the state.
    pub kind: Recurrence,
    /// Sequences.
    pub batch: u64,
    /// Value heads, each with a state.
    pub heads: u64,
    /// Query and key heads, a divisor of the value heads.
    pub key_heads: u64,
    /// New tokens of a sequence.
    pub seq_q: u64,
    /// Width of a query and key head.
    pub head_dim: u64,
    /// Width of a value head.
    pub value_dim: u64,
    /// Forward or backward.
    pub pass: Pass,
    /// Number format of queries, keys and values.
    pub dtype: Dtype,
}

impl LinearAttention {
    /// Every field, in order.
    pub const DIMENSIONS: &[Dimension] = &[
        choice!(LinearAttention, kind, Recurrence),
        count!(LinearAttention, batch, 1, "sequences"),
        count!(LinearAttention, heads, 1, "heads"),
        count!(LinearAttention, key_heads, 1, "heads"),
        count!(LinearAttention, seq_q, 1, "tokens"),
        count!(LinearAttention, head_dim, 1, "elements"),
        count!(LinearAttention, value_dim, 1, "elements"),
        choice!(LinearAttention, pass, Pass),
        choice!(LinearAttention, dtype, Dtype, ELEMENT_NAMES),
    ];

    /// Gated DeltaNet forward with heads of 128, bf16. Other fields by struct update.
    pub const fn new(batch: u64, key_heads: u64, heads: u64, seq: u64) -> Self {
        Self {
            kind: Recurrence::GatedDeltaNet,
            batch,
            heads,
            key_heads,
            seq_q: seq,
            head_dim: 128,
            value_dim: 128,
            pass: Pass::Forward,
            dtype: Dtype::Bf16,
        }
    }

    /// Elements of the states of all heads.
    fn states(&self) -> f64 {
        product(&[self.batch, self.heads, self.head_dim, self.value_dim])
    }

    /// Width of the queries, keys and values of one token: the channels of the convolution before the recurrence.
    pub const fn channels(&self) -> u64 {
        2 * self.key_heads * self.head_dim + self.values()
    }

    /// Width of the values of all heads.
    pub const fn values(&self) -> u64 {
        self.heads * self.value_dim
    }

    /// The products with the state, token by token, which no chunked form undercuts; backward is two for each.
    pub fn flops(&self) -> Flops {
        let forward = 2.0 * self.kind.products() * self.seq_q as f64 * self.states();
        Flops::from_flops(match self.pass {
            Pass::Forward => forward,
            Pass::Backward => 2.0 * forward,
        })
    }

    /// Queries, keys, values, decays and output once, and the state: written, by a decoding step read as well. Backward
    /// reads them with the output gradient and writes the gradients.
    pub fn bytes(&self) -> Bytes {
        let tokens = product(&[self.batch, self.seq_q]);
        let decays = match self.kind {
            Recurrence::KimiDelta => self.heads * self.head_dim,
            Recurrence::GatedDeltaNet | Recurrence::Mamba2 => self.heads,
        };
        let width = self.channels() + self.values() + decays;
        let streamed = tokens * width as f64;
        let elements = match (self.pass, self.is_decode()) {
            (Pass::Forward, true) => streamed + 2.0 * self.states(),
            (Pass::Forward, false) => streamed + self.states(),
            (Pass::Backward, _) => 2.0 * streamed,
        };
        Bytes::from_bytes(elements * self.dtype.size() as f64)
    }

    /// The state, read and written by a decoding step.
    pub fn state_bytes(&self) -> Bytes {
        Bytes::from_bytes(2.0 * self.states() * self.dtype.size() as f64)
    }

    /// Whether this is one decoding step: a single token whose state is kept.
    pub const fn is_decode(&self) -> bool {
        self.seq_q == 1
    }
}

impl fmt::Display for LinearAttention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            batch,
            heads,
            key_heads,
            ..
        } = self;
        write!(
            f,
            "{kind} b {batch} heads {heads}/{key_heads} s {} d {}",
            self.seq_q, self.head_dim
        )?;
        if self.value_dim != self.head_dim {
            write!(f, "/{}", self.value_dim)?;
        }
        write!(f, " {}", self.dtype)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decoding_step_reads_and_writes_its_states() {
        let step = LinearAttention::new(64, 16, 32, 1);
        let states = 64.0 * 32.0 * 128.0 * 128.0;
        assert_eq!(step.flops().flops(), 6.0 * states);
        let tokens = 64.0 * (2.0 * 16.0 * 128.0 + 2.0 * 32.0 * 128.0 + 32.0);
        assert_eq!(step.bytes().bytes(), 2.0 * (2.0 * states + tokens));
        let mamba = LinearAttention {
            kind: Recurrence::Mamba2,
            ..step
        };
        assert_eq!(mamba.flops() / step.flops(), 2.0 / 3.0);
    }

    #[test]
    fn time_grows_with_the_tokens_and_not_with_their_square() {
        let of = |seq| LinearAttention::new(1, 16, 32, seq);
        assert_eq!(of(8192).flops() / of(4096).flops(), 2.0);
        let bytes = of(8192).bytes() / of(4096).bytes();
        assert!((1.8..2.0).contains(&bytes), "{bytes}");
    }
}
