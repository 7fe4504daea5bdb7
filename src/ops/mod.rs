//! The operators a transformer step is made of, each with its arithmetic and its memory traffic.
//!
//! An [`Op`] is one kernel-sized piece of work on one GPU. FLOPs count a multiply-add as two;
//! bytes count every operand once (the least traffic an ideal cache would cause).
//! Formulas follow arXiv 2401.14489 and Korthikanti et al., arXiv 2205.05198.

use crate::units::{Bytes, Flops};
use std::fmt;

named_enum! {
    /// The number format of the operands of a kernel.
    Dtype {
        /// IEEE single precision without tensor cores.
        Fp32 = "fp32",
        /// Single precision rounded to 10 mantissa bits on tensor cores.
        Tf32 = "tf32",
        /// IEEE half precision.
        Fp16 = "fp16",
        /// bfloat16.
        Bf16 = "bf16",
        /// 8-bit float with one scale per tensor or token; a GEMM writes its output as bf16.
        Fp8 = "fp8",
    }
}

impl Dtype {
    /// Bytes of one operand element.
    pub const fn size(self) -> u64 {
        match self {
            Self::Fp32 | Self::Tf32 => 4,
            Self::Fp16 | Self::Bf16 => 2,
            Self::Fp8 => 1,
        }
    }

    /// Bytes of one element of a product: fp8 products are written in 16 bits.
    pub const fn output_size(self) -> u64 {
        match self {
            Self::Fp8 => 2,
            other => other.size(),
        }
    }
}

named_enum! {
    /// Which operand of a GEMM is stored transposed, in the column-major terms of cuBLAS.
    ///
    /// A PyTorch linear layer runs forward as `tn`, its input gradient as `nn`, its weight gradient as `nt`.
    Layout {
        /// Left operand transposed.
        Tn = "tn",
        /// Neither transposed.
        Nn = "nn",
        /// Right operand transposed.
        Nt = "nt",
        /// Both transposed.
        Tt = "tt",
    }
}

named_enum! {
    /// Direction of a differentiable operator.
    Pass {
        /// Outputs from inputs.
        Forward = "forward",
        /// Gradients of the inputs from gradients of the outputs.
        Backward = "backward",
    }
}

/// A matrix product `(m, k) x (k, n)`, `k` the reduction, repeated for `batch` independent members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub struct Gemm {
    pub m: u64,
    pub n: u64,
    pub k: u64,
    pub batch: u64,
    pub layout: Layout,
    pub dtype: Dtype,
}

/// Fused (flash) attention of `heads` query heads over `kv_heads` key/value heads.
///
/// Decoding one token is `seq_q = 1` with `seq_kv` counting the cached tokens and the new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub struct Attention {
    pub batch: u64,
    pub heads: u64,
    pub kv_heads: u64,
    pub seq_q: u64,
    pub seq_kv: u64,
    /// Width of a query and key head.
    pub head_dim: u64,
    /// Width of a value head; differs from `head_dim` in multi-head latent attention.
    pub value_dim: u64,
    pub causal: bool,
    /// Each query sees at most this many keys (sliding window); 0 = all.
    pub window: u64,
    pub pass: Pass,
    pub dtype: Dtype,
}

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
        /// Transposition of axes.
        Permute = "permute",
        /// Copy or cast.
        Copy = "copy",
    }
}

impl MemoryKind {
    /// Tensor-sized reads plus writes of the kernel as training frameworks fuse it, per pass.
    ///
    /// `cols` is the width of the *output*; SwiGLU reads two such tensors. Cross-entropy reads the
    /// logits forward, reads and overwrites them backward.
    const fn passes_over_memory(self, pass: Pass) -> f64 {
        match (self, pass) {
            (Self::CrossEntropy, Pass::Forward) => 1.0,
            (Self::CrossEntropy, Pass::Backward) => 2.0,
            (Self::Add | Self::Swiglu, Pass::Forward) => 3.0,
            (Self::Swiglu, Pass::Backward) => 5.0,
            (Self::Softmax | Self::LayerNorm | Self::RmsNorm | Self::Gelu, Pass::Backward) => 3.0,
            (Self::Add | Self::Embedding, Pass::Backward) => 3.0,
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
            Self::Adam => 12.0,
            Self::Add | Self::Mask | Self::Dropout => 1.0,
            Self::Embedding | Self::Permute | Self::Copy => 0.0,
        }
    }
}

/// A kernel bound by memory traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub struct Memory {
    pub kind: MemoryKind,
    pub rows: u64,
    pub cols: u64,
    pub pass: Pass,
    pub dtype: Dtype,
}

named_enum! {
    /// The pattern of a collective operation.
    CollectiveKind {
        /// Every rank gets the sum.
        AllReduce = "all_reduce",
        /// Every rank gets all parts.
        AllGather = "all_gather",
        /// Every rank gets its part of the sum.
        ReduceScatter = "reduce_scatter",
        /// Every rank sends a part to every other.
        AllToAll = "all_to_all",
        /// One rank sends to another.
        SendReceive = "send_receive",
    }
}

/// A collective over `ranks` GPUs; `bytes` is the size of the full tensor on one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub struct Collective {
    pub kind: CollectiveKind,
    pub bytes: u64,
    pub ranks: u64,
}

/// One operator on one GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Op {
    Gemm(Gemm),
    Attention(Attention),
    Memory(Memory),
    Collective(Collective),
}

impl Gemm {
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
        let inputs = product(&[self.m, self.k]) + product(&[self.k, self.n]);
        let output = product(&[self.m, self.n]);
        let each = inputs * self.dtype.size() as f64 + output * self.dtype.output_size() as f64;
        Bytes::from_bytes(self.batch as f64 * each)
    }
}

impl Attention {
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

    /// Query-key pairs that are computed, per head: all, the causal half, or a band of `window`.
    ///
    /// Query `i` (0-based, aligned to the end of the keys) sees `seq_kv - seq_q + i + 1` keys when causal.
    pub fn pairs(&self) -> f64 {
        let (q, kv) = (self.seq_q as f64, self.seq_kv as f64);
        let window = if self.window == 0 {
            kv
        } else {
            (self.window as f64).min(kv)
        };
        if !self.causal {
            return q * window;
        }
        // Queries whose prefix is still shorter than the window see a growing triangle.
        let first = kv - q;
        let growing = (window - first).clamp(0.0, q);
        growing * first + growing * (growing + 1.0) / 2.0 + (q - growing) * window
    }

    /// Two products forward (`q·kᵀ`, `p·v`); backward recomputes the scores: five products, 2.5 times.
    pub fn flops(&self) -> Flops {
        let forward = 2.0
            * product(&[self.batch, self.heads])
            * self.pairs()
            * (self.head_dim + self.value_dim) as f64;
        Flops::from_flops(match self.pass {
            Pass::Forward => forward,
            Pass::Backward => 2.5 * forward,
        })
    }

    /// FLOPs with the full `seq_q x seq_kv` square, the convention of most published MFU figures.
    pub fn dense_flops(&self) -> Flops {
        Self {
            causal: false,
            window: 0,
            ..*self
        }
        .flops()
    }

    /// Queries, keys, values and output once; backward reads them with the output gradient and writes three gradients.
    ///
    /// Only the keys inside the window of some query are read.
    pub fn bytes(&self) -> Bytes {
        let keys = match self.window {
            0 => self.seq_kv,
            window => self.seq_kv.min(window + self.seq_q - 1),
        };
        let query = product(&[self.batch, self.heads, self.seq_q, self.head_dim]);
        let output = product(&[self.batch, self.heads, self.seq_q, self.value_dim]);
        let key_value = product(&[
            self.batch,
            self.kv_heads,
            keys,
            self.head_dim + self.value_dim,
        ]);
        let elements = match self.pass {
            Pass::Forward => query + output + key_value,
            Pass::Backward => 2.0 * (query + output + key_value),
        };
        Bytes::from_bytes(elements * self.dtype.size() as f64)
    }

    /// Whether this is one decoding step: a single query against a cache.
    pub fn is_decode(&self) -> bool {
        self.seq_q == 1 && self.seq_kv > 1
    }
}

/// Bytes that one Adam step moves per parameter: it reads the gradient (2), the fp32 master weight and both
/// moments (12), and writes the latter three and the 16-bit weight (14).
const ADAM_BYTES_PER_PARAMETER: f64 = 28.0;

/// Bytes per element of the mask that dropout writes forward and reads backward: PyTorch keeps a flag of one byte, the
/// 1 in the `5·a·s` of arXiv 2205.05198. With it, stand-alone dropout on A100 agrees with the co-design paper's logs
/// to a tenth (18.1 ms for 2^32 elements in fp16); without, it is 28 % too fast.
const DROPOUT_MASK_BYTES: f64 = 1.0;

impl Memory {
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

impl Collective {
    /// Bytes that each rank sends over its link with a ring: `2(r-1)/r` of the tensor for an all-reduce,
    /// `(r-1)/r` for gather, scatter and all-to-all, all of it for a point-to-point copy.
    pub fn wire_bytes(&self) -> Bytes {
        let ranks = self.ranks.max(1) as f64;
        let share = match self.kind {
            CollectiveKind::AllReduce => 2.0 * (ranks - 1.0) / ranks,
            CollectiveKind::AllGather
            | CollectiveKind::ReduceScatter
            | CollectiveKind::AllToAll => (ranks - 1.0) / ranks,
            CollectiveKind::SendReceive => 1.0,
        };
        Bytes::from_bytes(self.bytes as f64 * share)
    }
}

impl Op {
    /// The arithmetic of the operator; a collective has none.
    pub fn flops(&self) -> Flops {
        match self {
            Self::Gemm(op) => op.flops(),
            Self::Attention(op) => op.flops(),
            Self::Memory(op) => op.flops(),
            Self::Collective(_) => Flops::ZERO,
        }
    }

    /// The least device-memory traffic of the operator.
    pub fn bytes(&self) -> Bytes {
        match self {
            Self::Gemm(op) => op.bytes(),
            Self::Attention(op) => op.bytes(),
            Self::Memory(op) => op.bytes(),
            Self::Collective(op) => Bytes::from_bytes(op.bytes as f64),
        }
    }

    /// The operand format; a collective moves bytes.
    pub fn dtype(&self) -> Option<Dtype> {
        match self {
            Self::Gemm(op) => Some(op.dtype),
            Self::Attention(op) => Some(op.dtype),
            Self::Memory(op) => Some(op.dtype),
            Self::Collective(_) => None,
        }
    }
}

/// The shape in the notation of the field, for tables and messages.
impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Gemm(g) => {
                let batch = if g.batch > 1 {
                    format!("{} x ", g.batch)
                } else {
                    String::new()
                };
                format!(
                    "{batch}({}, {}) x ({}, {}) {} {}",
                    g.m,
                    g.k,
                    g.k,
                    g.n,
                    g.layout.name(),
                    g.dtype.name()
                )
            }
            Self::Attention(a) => {
                let mask = if a.causal { " causal" } else { "" };
                let window = if a.window > 0 {
                    format!(" window {}", a.window)
                } else {
                    String::new()
                };
                let value = if a.value_dim == a.head_dim {
                    String::new()
                } else {
                    format!("/{}", a.value_dim)
                };
                format!(
                    "b {} heads {}/{} q {} kv {} d {}{value}{mask}{window} {}",
                    a.batch,
                    a.heads,
                    a.kv_heads,
                    a.seq_q,
                    a.seq_kv,
                    a.head_dim,
                    a.dtype.name()
                )
            }
            Self::Memory(o) => format!(
                "{} ({}, {}) {}",
                o.kind.name(),
                o.rows,
                o.cols,
                o.dtype.name()
            ),
            Self::Collective(c) => {
                format!(
                    "{} {} over {} ranks",
                    c.kind.name(),
                    Bytes::from_bytes(c.bytes as f64),
                    c.ranks
                )
            }
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
                    if window == 0 {
                        visible
                    } else {
                        visible.min(window)
                    }
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
        assert!(forward.dense_flops() / forward.flops() > 1.9);
    }

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

    #[test]
    fn a_ring_all_reduce_sends_almost_twice_the_tensor() {
        let op = Collective {
            kind: CollectiveKind::AllReduce,
            bytes: 800,
            ranks: 8,
        };
        assert_eq!(op.wire_bytes().bytes(), 1400.0);
        assert_eq!(Collective { ranks: 1, ..op }.wire_bytes().bytes(), 0.0);
    }

    #[test]
    fn names_round_trip() {
        assert!(
            Dtype::ALL
                .iter()
                .all(|&d| Dtype::parse(d.name()) == Some(d))
        );
        assert!(
            Layout::ALL
                .iter()
                .all(|&l| Layout::parse(l.name()) == Some(l))
        );
        assert_eq!(Pass::parse("backward"), Some(Pass::Backward));
        assert_eq!(Dtype::parse("fp64"), None);
    }
}
