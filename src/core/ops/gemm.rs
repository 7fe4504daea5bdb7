//! GEMM: dense matrix multiplication, batched or not.

use super::dimension::{Dimension, choice, count};
use super::{Dtype, Op, product};
use crate::units::{Bytes, Flops};
use std::fmt;

named_enum! {
    /// Which operand of a GEMM is stored transposed, in the column-major terms of cuBLAS.
    ///
    /// A PyTorch linear layer runs forward as `tn`, its input gradient as `nn`, its weight gradient as `nt`.
    #[derive(Default)]
    Layout {
        /// Left operand transposed.
        #[default]
        Tn = "tn",
        /// Neither transposed.
        Nn = "nn",
        /// Right operand transposed.
        Nt = "nt",
        /// Both transposed.
        Tt = "tt",
    }
}

impl Layout {
    /// Whether some operand lies in memory element by element along `m`, `n` and `k`: the left operand along `k`, or `m`
    /// if transposed; the right one along `n`, or `k`; the output along `n`.
    pub const fn contiguous(self) -> [bool; 3] {
        let left_transposed = matches!(self, Self::Nt | Self::Tt);
        let right_transposed = matches!(self, Self::Tn | Self::Tt);
        [left_transposed, true, !left_transposed || right_transposed]
    }
}

/// A matrix product `(m, k) x (k, n)`, `k` the reduction, repeated for `batch` independent members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Gemm {
    /// Rows of the left operand and of the product.
    pub m: u64,
    /// Columns of the right operand and of the product.
    pub n: u64,
    /// The reduction: columns of the left operand.
    pub k: u64,
    /// Independent products in one call.
    pub batch: u64,
    /// Which operand is stored transposed, in cuBLAS terms.
    pub layout: Layout,
    /// Number format of the operands.
    pub dtype: Dtype,
}

impl Gemm {
    /// Every field, in order.
    pub const DIMENSIONS: &[Dimension] = &[
        count!(Gemm, m, 1, "rows"),
        count!(Gemm, n, 1, "columns"),
        count!(Gemm, k, 1, "elements"),
        count!(Gemm, batch, 1, "GEMMs"),
        choice!(Gemm, layout, Layout),
        choice!(Gemm, dtype, Dtype),
    ];

    /// A single GEMM as a linear layer runs it forward: layout `tn`, bf16. Other fields by struct update.
    pub const fn new(m: u64, n: u64, k: u64) -> Self {
        Self {
            m,
            n,
            k,
            batch: 1,
            layout: Layout::Tn,
            dtype: Dtype::Bf16,
        }
    }

    /// One GEMM whose three sizes are the same.
    pub const fn square(size: u64, layout: Layout, dtype: Dtype) -> Self {
        Self {
            layout,
            dtype,
            ..Self::new(size, size, size)
        }
    }

    /// `2·m·n·k·batch`.
    pub fn flops(&self) -> Flops {
        Flops::from_flops(2.0 * product(&[self.m, self.n, self.k, self.batch]))
    }

    /// Both inputs and the output, once each.
    pub fn bytes(&self) -> Bytes {
        let [left, _] = self.dtype.operand_sizes();
        let input = product(&[self.m, self.k]) * left;
        let output = product(&[self.m, self.n]) * self.dtype.output_size() as f64;
        self.right_bytes() + Bytes::from_bytes(self.batch as f64 * (input + output))
    }

    /// The same padded to the multiples of 16 of `n` and `k` that cuBLASLt and `torch._scaled_mm` take of fp8 operands
    /// (pytorch/pytorch, pull requests 107341 and 108308); `None` if they take it as it is.
    pub fn padded_for_fp8(&self) -> Option<Self> {
        let padded = Self {
            n: self.n.next_multiple_of(16),
            k: self.k.next_multiple_of(16),
            ..*self
        };
        (self.dtype == Dtype::Fp8 && padded != *self).then_some(padded)
    }

    /// The right operands, of linear maps the weights.
    pub fn right_bytes(&self) -> Bytes {
        let [_, right] = self.dtype.operand_sizes();
        Bytes::from_bytes(product(&[self.batch, self.k, self.n]) * right)
    }
}

impl fmt::Display for Gemm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { m, n, k, .. } = self;
        if self.batch > 1 {
            write!(f, "{} x ", self.batch)?;
        }
        write!(f, "({m}, {k}) x ({k}, {n}) {} {}", self.layout, self.dtype)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantized_weights_alone_are_the_right_operand() {
        let bytes = |dtype| {
            let gemm = Gemm {
                dtype,
                ..Gemm::new(3, 500, 70)
            };
            gemm.bytes().bytes()
        };
        let (left, right, output) = (210.0, 35_000.0, 1500.0);
        assert_eq!(bytes(Dtype::Bf16), 2.0 * (left + right + output));
        assert_eq!(bytes(Dtype::W8a16), 2.0 * left + right + 2.0 * output);
        assert_eq!(bytes(Dtype::W4a16), 2.0 * left + 0.5 * right + 2.0 * output);
        let blocks = left * (1.0 + 1.0 / 32.0) + right * (1.0 + 1.0 / 4096.0);
        assert_eq!(bytes(Dtype::Fp8Block), blocks + 2.0 * output);
        assert_eq!(bytes(Dtype::Int8), left + right + 2.0 * output);
        assert_eq!(bytes(Dtype::Nvfp4), 0.5625 * (left + right) + 2.0 * output);
        // Of four 16-bit weights, two values and two places of 2 bits: 36 bits of 64; of four in fp8 20 of 32.
        let sparse = [Dtype::SparseBf16, Dtype::SparseFp8].map(bytes);
        let right = [36.0, 20.0].map(|bits| bits / 32.0 * right);
        let dense = [2.0, 1.0].map(|size| size * left + 2.0 * output);
        assert_eq!(sparse, [dense[0] + right[0], dense[1] + right[1]]);
    }

    #[test]
    fn gemm_counts_match_the_formula_even_beyond_64_bits() {
        let gemm = Gemm {
            m: 1 << 22,
            n: 1 << 22,
            k: 1 << 22,
            batch: 4,
            layout: Layout::Tn,
            dtype: Dtype::Bf16,
        };
        assert_eq!(gemm.flops().flops(), 2.0 * 4.0 * (2.0f64).powi(66));
        assert_eq!(gemm.bytes().bytes(), 4.0 * 3.0 * 2.0 * (2.0f64).powi(44));
    }
}
