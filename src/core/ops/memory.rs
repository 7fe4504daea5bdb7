//! Memory-bound kernels: normalisation, activation, softmax and the other elementwise work of a layer.

use super::dimension::{Dimension, choice, count};
use super::{Dtype, Op, Pass, product};
use crate::units::{Bytes, Flops};
use std::fmt;

named_enum! {
    /// What a memory-bound kernel does to a `(rows, cols)` tensor.
    MemoryKind {
        /// Softmax over each row.
        Softmax = "softmax",
        /// Adds a mask.
        Mask = "mask",
        /// Dropout with a one-byte mask.
        Dropout = "dropout",
        /// Layer normalisation of each row.
        LayerNorm = "layer_norm",
        /// Root-mean-square normalisation of each row.
        RmsNorm = "rms_norm",
        /// GELU activation.
        Gelu = "gelu",
        /// SiLU of one half times the other half.
        Swiglu = "swiglu",
        /// Rotary position embedding.
        Rotary = "rotary",
        /// Residual addition.
        Add = "add",
        /// Table look-up.
        Embedding = "embedding",
        /// Cross-entropy loss over the logits.
        CrossEntropy = "cross_entropy",
        /// Adam update of weights and both moments.
        Adam = "adam",
        /// Adam update without master weights: gradient, weight and moments have one format.
        PlainAdam = "plain_adam",
        /// Transposition of axes.
        Permute = "permute",
        /// Copy.
        Copy = "copy",
        /// Cast of fp32 to the format of the operands.
        Downcast = "downcast",
        /// The cast back to fp32.
        Upcast = "upcast",
        /// Fills a tensor with zeros.
        Zero = "zero",
        /// Cast of 16-bit activations to 8 bits, as they are and transposed: reads 2 bytes, writes 1 + 1.
        Quantize = "quantize",
        /// A weight gradient added to its fp32 sum over micro-batches by the epilogue of the GEMM.
        AccumulateGradient = "accumulate_gradient",
        /// Causal convolution of four taps along a sequence, channel by channel, with its activation (linear attention).
        CausalConv = "causal_conv",
        /// The same of one new token against the last three, which are kept: rows are sequences.
        CausalConvStep = "causal_conv_step",
        /// Cast of 16-bit activations to fp8 by a scale that is known, as serving engines do before a GEMM: reads 2 bytes, writes 1.
        CastFp8 = "cast_fp8",
    }
}

impl MemoryKind {
    /// The one format of its tensors, whatever that of the GEMMs: optimizers update weights in single precision.
    pub const fn own_format(self) -> Option<Dtype> {
        match self {
            Self::Adam => Some(Dtype::Fp32),
            _ => None,
        }
    }

    /// Tensor-sized reads plus writes of the kernel as training frameworks fuse it, per pass.
    ///
    /// `cols` is the width of the *output*; SwiGLU reads two such tensors. Cross-entropy reads the
    /// logits forward, reads and overwrites them backward.
    const fn passes_over_memory(self, pass: Pass) -> f64 {
        match (self, pass) {
            (Self::CrossEntropy, Pass::Forward) | (Self::Zero, _) => 1.0,
            (Self::CrossEntropy, Pass::Backward) => 2.0,
            (Self::Add | Self::Swiglu, Pass::Forward) => 3.0,
            (Self::Swiglu, Pass::Backward) => 5.0,
            (Self::Softmax | Self::LayerNorm | Self::RmsNorm | Self::Gelu, Pass::Backward) => 3.0,
            (Self::Add | Self::Embedding, Pass::Backward) => 3.0,
            (Self::PlainAdam, _) => 7.0,
            // The input twice: its own gradient, and that of the taps.
            (Self::CausalConv, Pass::Backward) => 3.0,
            // Three kept tokens read and written, one read, one written.
            (Self::CausalConvStep, _) => 8.0,
            _ => 2.0,
        }
    }

    /// Arithmetic per output element; only its order matters, these kernels wait for memory.
    const fn flops_per_element(self) -> f64 {
        match self {
            Self::Softmax | Self::CrossEntropy => 5.0,
            Self::LayerNorm | Self::RmsNorm => 7.0,
            Self::Gelu | Self::Swiglu => 8.0,
            Self::Rotary => 3.0,
            Self::Adam | Self::PlainAdam => 12.0,
            Self::Add | Self::Mask | Self::Dropout => 1.0,
            Self::Embedding | Self::Permute | Self::Copy => 0.0,
            Self::Downcast | Self::Upcast | Self::Zero => 0.0,
            Self::Quantize | Self::CastFp8 => 2.0,
            Self::AccumulateGradient => 1.0,
            Self::CausalConv | Self::CausalConvStep => 12.0,
        }
    }
}

/// A kernel bound by memory traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Memory {
    /// What it computes.
    pub kind: MemoryKind,
    /// Rows, in most kernels tokens.
    pub rows: u64,
    /// Elements of a row.
    pub cols: u64,
    /// Forward or backward.
    pub pass: Pass,
    /// Number format of the operands.
    pub dtype: Dtype,
}

/// Bytes that one Adam step moves per parameter: it reads the gradient (2), the fp32 master weight and both
/// moments (12), and writes the latter three and the 16-bit weight (14).
const ADAM_BYTES_PER_PARAMETER: f64 = 28.0;

/// Bytes that adding a weight gradient to an fp32 sum moves per weight: 4 read and 4 written, less the 2 of the 16-bit
/// gradient that is not written.
const ACCUMULATE_BYTES_PER_WEIGHT: f64 = 6.0;

/// Bytes per element of the mask that dropout writes forward and reads backward: PyTorch keeps a flag of one byte, the
/// 1 in the `5·a·s` of arXiv 2205.05198. With it, dropout alone on A100 agrees with the co-design paper's logs
/// to a tenth (18.1 ms for 2^32 elements in fp16); without, it is 28 % too fast.
const DROPOUT_MASK_BYTES: f64 = 1.0;

impl Memory {
    /// Every field, in order.
    pub const DIMENSIONS: &[Dimension] = &[
        choice!(Memory, kind, MemoryKind),
        count!(Memory, rows, 1, "rows"),
        count!(Memory, cols, 1, "columns"),
        choice!(Memory, pass, Pass),
        choice!(Memory, dtype, Dtype, ELEMENT_NAMES),
    ];

    /// A kernel forward.
    pub const fn forward(kind: MemoryKind, rows: u64, cols: u64, dtype: Dtype) -> Self {
        Self {
            kind,
            rows,
            cols,
            pass: Pass::Forward,
            dtype,
        }
    }

    /// A few operations per element.
    pub fn flops(&self) -> Flops {
        let forward = product(&[self.rows, self.cols]) * self.kind.flops_per_element();
        Flops::from_flops(match self.pass {
            Pass::Forward => forward,
            Pass::Backward => 2.0 * forward,
        })
    }

    /// Tensor-sized reads and writes of the fused kernel, and the mask of dropout.
    pub fn bytes(&self) -> Bytes {
        let elements = product(&[self.rows, self.cols]);
        Bytes::from_bytes(match self.kind {
            MemoryKind::Adam => elements * ADAM_BYTES_PER_PARAMETER,
            MemoryKind::AccumulateGradient => elements * ACCUMULATE_BYTES_PER_WEIGHT,
            MemoryKind::Downcast | MemoryKind::Upcast => elements * (self.dtype.size() + Dtype::Fp32.size()) as f64,
            MemoryKind::Quantize => elements * (self.dtype.size() as f64 + 2.0),
            MemoryKind::CastFp8 => elements * (self.dtype.size() as f64 + 1.0),
            kind => {
                let mask = match kind {
                    MemoryKind::Dropout => DROPOUT_MASK_BYTES,
                    _ => 0.0,
                };
                elements * (kind.passes_over_memory(self.pass) * self.dtype.size() as f64 + mask)
            }
        })
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, {}) {}", self.kind, self.rows, self.cols, self.dtype)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropout_moves_its_mask_besides_the_tensor() {
        let bytes = |pass, dtype| {
            let kind = MemoryKind::Dropout;
            let (rows, cols) = (10, 100);
            let op = Memory {
                kind,
                rows,
                cols,
                pass,
                dtype,
            };
            op.bytes().bytes()
        };
        assert_eq!(bytes(Pass::Forward, Dtype::Fp16), 5000.0);
        assert_eq!(bytes(Pass::Backward, Dtype::Bf16), 5000.0);
        assert_eq!(bytes(Pass::Forward, Dtype::Fp32), 9000.0);
    }
}
