//! The operators a transformer step is made of, each with its arithmetic and its memory traffic.
//!
//! An [`Op`] is one kernel-sized piece of work on one GPU. FLOPs count a multiply-add as two;
//! bytes count every operand once (the least traffic an ideal cache would cause).
//! Formulas follow arXiv 2401.14489 and Korthikanti et al., arXiv 2205.05198.
//! One file describes one family; its table of [`Dimension`]s is what the rest iterates over.

mod attention;
mod collective;
mod dimension;
mod experts;
mod gemm;
mod indexed;
mod linear_attention;
mod memory;

pub use attention::Attention;
pub(crate) use attention::pairs;
pub use collective::{Collective, CollectiveKind};
pub use dimension::{Dimension, Domain, LARGEST, Value};
pub use experts::{Experts, RouterLoad, Routing, Stratum};
pub use gemm::{Gemm, Layout};
pub use indexed::IndexedAttention;
pub(crate) use indexed::{INDEX_KEY_BYTES, Stage};
pub use linear_attention::{LinearAttention, Recurrence};
pub use memory::{Memory, MemoryKind};

use crate::units::{Bytes, Flops};
use std::fmt;

named_enum! {
    /// The number format of the operands of a kernel.
    ///
    /// The formats after fp8 are those of GEMMs and MoE layers alone: their weights, the right operand, are quantized.
    #[derive(Default)]
    #[non_exhaustive]
    Dtype {
        /// IEEE single precision without tensor cores.
        Fp32 = "fp32" or "float32" or "float",
        /// Single precision rounded to 10 mantissa bits on tensor cores.
        Tf32 = "tf32",
        /// IEEE half precision.
        Fp16 = "fp16" or "float16" or "half",
        /// bfloat16.
        #[default]
        Bf16 = "bf16" or "bfloat16",
        /// 8-bit float with one scale per tensor or token; a GEMM writes its output as bf16.
        Fp8 = "fp8" or "float8" or "float8_e4m3fn" or "e4m3",
        /// fp8 with a 32-bit scale a block of 128 inputs and a block of 128 by 128 weights (DeepSeek-V3, arXiv 2412.19437).
        Fp8Block = "fp8_block" or "fp8_blockwise",
        /// Weights and inputs in 8-bit integers (SmoothQuant, arXiv 2211.10438).
        Int8 = "int8" or "w8a8",
        /// 4-bit floats with an 8-bit scale a block of 16, weights and inputs (NVIDIA NVFP4).
        Nvfp4 = "nvfp4",
        /// Weights in 8-bit integers, inputs and arithmetic in 16 bits. GGUF's formats of 5 to 8 bits are taken as it: Q8_0 keeps 8.5
        /// bits a weight, Q6_K 6.6, Q5_K_M 5.7.
        W8a16 = "w8a16" or "int8_wo" or "q8_0" or "q6_k" or "q5_0" or "q5_1" or "q5_k_m" or "q5_k_s" or "Q8_0" or "Q6_K" or "Q5_0" or "Q5_1" or "Q5_K_M" or "Q5_K_S",
        /// Weights in 4-bit integers, inputs and arithmetic in 16 bits (GPTQ, arXiv 2210.17323; AWQ, arXiv 2306.00978). GGUF's formats
        /// of 4 bits are taken as it: they keep 4.3 to 4.9 bits a weight, up to 13 % more.
        W4a16 = "w4a16" or "int4_wo" or "int4" or "awq" or "gptq" or "q4_0" or "q4_1" or "q4_k_m" or "q4_k_s" or "iq4_xs" or "iq4_nl" or "Q4_0" or "Q4_1" or "Q4_K_M" or "Q4_K_S" or "IQ4_XS" or "IQ4_NL",
        /// bf16 with two of four neighbouring weights zero (arXiv 2104.08378): values and 2-bit places of the others are kept.
        SparseBf16 = "sparse_bf16" or "bf16_2_4",
        /// The same in fp8.
        SparseFp8 = "sparse_fp8" or "fp8_2_4",
    }
}

impl Dtype {
    /// The formats that operands of any operator may have.
    pub const ELEMENTS: [Self; 5] = [Self::Fp32, Self::Tf32, Self::Fp16, Self::Bf16, Self::Fp8];

    /// The names of [`Dtype::ELEMENTS`].
    pub const ELEMENT_NAMES: [&'static str; Self::ELEMENTS.len()] = ["fp32", "tf32", "fp16", "bf16", "fp8"];

    /// Whether operands of any operator may have this format, not of GEMMs and experts alone.
    pub fn is_element(self) -> bool {
        Self::ELEMENTS.contains(&self)
    }

    /// Bytes of one element of the left operand, the inputs; 4 bits count as a byte.
    pub const fn size(self) -> u64 {
        match self {
            Self::Fp32 | Self::Tf32 => 4,
            Self::Fp16 | Self::Bf16 | Self::W8a16 | Self::W4a16 | Self::SparseBf16 => 2,
            Self::Fp8 | Self::Fp8Block | Self::Int8 | Self::Nvfp4 | Self::SparseFp8 => 1,
        }
    }

    /// Bytes of one element of the left and of the right operand of a GEMM, scales of blocks included.
    pub const fn operand_sizes(self) -> [f64; 2] {
        let size = self.size() as f64;
        match self {
            Self::Fp8Block => [1.0 + 4.0 / 128.0, 1.0 + 4.0 / (128.0 * 128.0)],
            Self::Nvfp4 => [0.5 + 1.0 / 16.0; 2],
            Self::W8a16 => [size, 1.0],
            Self::W4a16 => [size, 0.5],
            Self::SparseBf16 => [size, 1.0 + 1.0 / 8.0],
            Self::SparseFp8 => [size, 0.5 + 1.0 / 8.0],
            _ => [size; 2],
        }
    }

    /// The dense format of the values, where two of four neighbouring weights are zero.
    pub const fn dense(self) -> Option<Self> {
        match self {
            Self::SparseBf16 => Some(Self::Bf16),
            Self::SparseFp8 => Some(Self::Fp8),
            _ => None,
        }
    }

    /// Whether operands are narrow floats that a kernel before the GEMM casts its inputs to.
    pub const fn casts_inputs(self) -> bool {
        matches!(self, Self::Fp8 | Self::Fp8Block | Self::Nvfp4)
    }

    /// Whether libraries run operands of both formats by the same kernels: widths are equal and neither alone is of integers.
    pub fn runs_as(self, other: Self) -> bool {
        let integers = |dtype| dtype == Self::Int8;
        self.operand_sizes() == other.operand_sizes() && integers(self) == integers(other)
    }

    /// Bytes of one output element of a GEMM: those of narrower formats are written in 16 bits.
    pub const fn output_size(self) -> u64 {
        match self.size() {
            1 => 2,
            size => size,
        }
    }
}

named_enum! {
    /// Direction of a differentiable operator.
    #[derive(Default)]
    Pass {
        /// Outputs from inputs.
        #[default]
        Forward = "forward",
        /// Gradients of the inputs from gradients of the outputs.
        Backward = "backward",
    }
}

named_enum! {
    /// The structs that describe operators, named as on disk and on the wire.
    OpKind {
        /// [`Gemm`].
        Gemm = "gemm",
        /// [`Attention`].
        Attention = "attention",
        /// [`Memory`].
        Memory = "memory",
        /// [`Collective`].
        Collective = "collective",
        /// [`Experts`].
        Experts = "experts",
        /// [`LinearAttention`].
        LinearAttention = "linear_attention",
        /// [`IndexedAttention`].
        IndexedAttention = "indexed_attention",
    }
}

impl OpKind {
    /// The fields of such operators, in order.
    pub const fn dimensions(self) -> &'static [Dimension] {
        match self {
            Self::Gemm => Gemm::DIMENSIONS,
            Self::Attention => Attention::DIMENSIONS,
            Self::Memory => Memory::DIMENSIONS,
            Self::Collective => Collective::DIMENSIONS,
            Self::Experts => Experts::DIMENSIONS,
            Self::LinearAttention => LinearAttention::DIMENSIONS,
            Self::IndexedAttention => IndexedAttention::DIMENSIONS,
        }
    }

    /// The layout of tables that came with its columns.
    pub const fn layout(self) -> u64 {
        match self {
            Self::Gemm | Self::Attention | Self::Memory | Self::Collective => 1,
            Self::Experts => 3,
            Self::LinearAttention => 5,
            Self::IndexedAttention => 6,
        }
    }

    /// The operator whose sizes are all 1, to fill in field by field.
    pub const fn smallest(self) -> Op {
        match self {
            Self::Gemm => Op::Gemm(Gemm::new(1, 1, 1)),
            Self::Attention => Op::Attention(Attention::new(1, 1, 1, 1)),
            Self::Memory => Op::Memory(Memory {
                kind: MemoryKind::Copy,
                rows: 1,
                cols: 1,
                pass: Pass::Forward,
                dtype: Dtype::Bf16,
            }),
            Self::Collective => Op::Collective(Collective::new(CollectiveKind::AllReduce, 1, 1)),
            Self::Experts => Op::Experts(Experts::new(1, 1, 1, 1, 1)),
            Self::LinearAttention => Op::LinearAttention(LinearAttention {
                head_dim: 1,
                value_dim: 1,
                ..LinearAttention::new(1, 1, 1, 1)
            }),
            Self::IndexedAttention => Op::IndexedAttention(IndexedAttention {
                hidden: 1,
                query_rank: 1,
                latent: 1,
                rotary: 0,
                head_dim: 1,
                value_dim: 1,
                index_heads: 0,
                index_dim: 1,
                top_k: 1,
                dtype: Dtype::Bf16,
                ..IndexedAttention::deepseek(1, 1, 1, 0)
            }),
        }
    }
}

/// One operator on one GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Op {
    /// A matrix product.
    Gemm(Gemm),
    /// Fused attention.
    Attention(Attention),
    /// A memory-bound kernel.
    Memory(Memory),
    /// A collective over several GPUs.
    Collective(Collective),
    /// A fused layer of routed experts.
    Experts(Experts),
    /// Linear attention.
    LinearAttention(LinearAttention),
    /// A module of attention to the keys that an index chooses.
    IndexedAttention(IndexedAttention),
}

impl Op {
    /// The arithmetic of the operator; a collective has none.
    pub fn flops(&self) -> Flops {
        match self {
            Self::Gemm(op) => op.flops(),
            Self::Attention(op) => op.flops(),
            Self::Memory(op) => op.flops(),
            Self::Collective(_) => Flops::ZERO,
            Self::Experts(op) => op.flops(),
            Self::LinearAttention(op) => op.flops(),
            Self::IndexedAttention(op) => op.flops(),
        }
    }

    /// The least device-memory traffic of the operator.
    pub fn bytes(&self) -> Bytes {
        match self {
            Self::Gemm(op) => op.bytes(),
            Self::Attention(op) => op.bytes(),
            Self::Memory(op) => op.bytes(),
            Self::Collective(op) => Bytes::from_bytes(op.bytes as f64),
            Self::Experts(op) => op.bytes(),
            Self::LinearAttention(op) => op.bytes(),
            Self::IndexedAttention(op) => op.bytes(),
        }
    }

    /// The part of the traffic that belongs to one layer alone: weights, cached keys and values, states of recurrences.
    pub(crate) fn layer_bytes(&self) -> Bytes {
        match self {
            Self::Gemm(op) => op.right_bytes(),
            Self::Attention(op) if op.is_decode() => op.cache_bytes(),
            Self::Attention(_) | Self::Memory(_) | Self::Collective(_) => Bytes::ZERO,
            Self::Experts(op) => op.weight_bytes(),
            Self::LinearAttention(op) if op.is_decode() => op.state_bytes(),
            Self::LinearAttention(_) => Bytes::ZERO,
            Self::IndexedAttention(op) => op.streamed_bytes(),
        }
    }

    /// The operand format, of several the fastest; a collective moves bytes.
    pub fn dtype(&self) -> Option<Dtype> {
        match self {
            Self::Gemm(op) => Some(op.dtype),
            Self::Attention(op) => Some(op.dtype),
            Self::Memory(op) => Some(op.dtype),
            Self::Collective(_) => None,
            Self::Experts(op) => Some(op.dtype),
            Self::LinearAttention(op) => Some(op.dtype),
            Self::IndexedAttention(op) => Some(op.fastest_dtype()),
        }
    }

    /// The first size that does not go with the others: its dimension, its value and what is allowed.
    pub fn misfit(&self) -> Option<(&'static str, u64, String)> {
        match self {
            Self::Attention(op) => op.misfit(),
            Self::IndexedAttention(op) => op.misfit(),
            _ => None,
        }
    }

    /// Which struct describes the operator.
    pub const fn kind(&self) -> OpKind {
        match self {
            Self::Gemm(_) => OpKind::Gemm,
            Self::Attention(_) => OpKind::Attention,
            Self::Memory(_) => OpKind::Memory,
            Self::Collective(_) => OpKind::Collective,
            Self::Experts(_) => OpKind::Experts,
            Self::LinearAttention(_) => OpKind::LinearAttention,
            Self::IndexedAttention(_) => OpKind::IndexedAttention,
        }
    }

    /// The field of this name.
    pub fn dimension(&self, name: &str) -> Option<&'static Dimension> {
        let mut dimensions = self.kind().dimensions().iter();
        dimensions.find(|dimension| dimension.name == name)
    }

    /// The content of the field of this name.
    pub fn get(&self, name: &str) -> Option<Value> {
        self.dimension(name)?.get(self)
    }
}

/// The shape in the notation of the field, for tables and messages.
impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Gemm(op) => op.to_string(),
            Self::Attention(op) => op.to_string(),
            Self::Memory(op) => op.to_string(),
            Self::Collective(op) => op.to_string(),
            Self::Experts(op) => op.to_string(),
            Self::LinearAttention(op) => op.to_string(),
            Self::IndexedAttention(op) => op.to_string(),
        };
        f.pad(&text)
    }
}

/// The product in floating point: `m·k` alone can pass 2^31, whole products pass 2^64.
fn product(factors: &[u64]) -> f64 {
    factors.iter().map(|&factor| factor as f64).product()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        assert!(Dtype::ALL.iter().all(|&d| Dtype::parse(d.name()) == Some(d)));
        assert!(Layout::ALL.iter().all(|&l| Layout::parse(l.name()) == Some(l)));
        assert_eq!(Pass::parse("backward"), Some(Pass::Backward));
        assert_eq!(Dtype::parse("fp64"), None);
    }
}
