//! Attention as graphs of cuDNN's backend API that its flash-attention engines match.
//!
//! Order and types of the operations are those of NVIDIA's cudnn-frontend 1.23
//! (`node/scaled_dot_product_flash_attention.h`). Building a graph needs no device, so a test
//! builds them wherever the library is installed.

mod background;
mod backward;
mod descriptor;
mod forward;
mod graph;
mod plan;
mod plans;

#[cfg(feature = "test-support")]
#[path = "tests/described.rs"]
pub mod described;

pub(super) use descriptor::Handle;
pub(super) use plan::Plan;
pub(super) use plans::Plans;

use crate::error::Result;
use crate::ops::{Attention, Dtype, Pass};
use cudarc::cudnn::sys;
use graph::Graph;

/// What a tensor of a graph is bound to when its plan runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Binding {
    /// An operand of the operator, by its name in the reference.
    Operand(&'static str),
    /// Scratch memory of this many bytes.
    Scratch(u64),
    /// A number that the host passes by value.
    Value(f32),
}

/// A graph and the bindings of its tensors by unique id.
type BoundGraph = (Vec<(i64, Binding)>, Graph);

/// Sizes in the integers of cuDNN.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    batch: i64,
    heads: i64,
    kv_heads: i64,
    seq_q: i64,
    seq_kv: i64,
    head_dim: i64,
    value_dim: i64,
    dtype: sys::cudnnDataType_t,
    masked: bool,
}

impl Sizes {
    fn of(op: &Attention) -> Self {
        let size = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        Self {
            batch: size(op.batch),
            heads: size(op.heads),
            kv_heads: size(op.kv_heads),
            seq_q: size(op.seq_q),
            seq_kv: size(op.seq_kv),
            head_dim: size(op.head_dim),
            value_dim: size(op.value_dim),
            dtype: match op.dtype {
                Dtype::Fp16 => sys::cudnnDataType_t::CUDNN_DATA_HALF,
                _ => sys::cudnnDataType_t::CUDNN_DATA_BFLOAT16,
            },
            // A single query at the end of the keys sees all of them.
            masked: op.causal && op.seq_q > 1,
        }
    }

    /// Softmax scale.
    fn scale(&self) -> f32 {
        1.0 / (self.head_dim as f32).sqrt()
    }

    const fn scores(&self) -> [i64; 4] {
        [self.batch, self.heads, self.seq_q, self.seq_kv]
    }

    const fn rows(&self) -> [i64; 4] {
        [self.batch, self.heads, self.seq_q, 1]
    }

    const fn query(&self) -> [i64; 4] {
        [self.batch, self.heads, self.seq_q, self.head_dim]
    }

    const fn output(&self) -> [i64; 4] {
        [self.batch, self.heads, self.seq_q, self.value_dim]
    }

    const fn key(&self) -> [i64; 4] {
        [self.batch, self.kv_heads, self.seq_kv, self.head_dim]
    }

    const fn value(&self) -> [i64; 4] {
        [self.batch, self.kv_heads, self.seq_kv, self.value_dim]
    }
}

/// Why this attention is refused, if it is.
pub fn refuses(op: &Attention) -> Option<String> {
    let sizes = [
        op.batch,
        op.heads,
        op.kv_heads,
        op.seq_q,
        op.seq_kv,
        op.head_dim,
        op.value_dim,
    ];
    if sizes.iter().any(|&size| size == 0 || size >= 1 << 31) {
        return Some("sizes of an attention must be 1 to 2^31 - 1".to_owned());
    }
    if !matches!(op.dtype, Dtype::Fp16 | Dtype::Bf16) {
        return Some(format!("cuDNN's flash attention is not built in {}", op.dtype));
    }
    if !op.heads.is_multiple_of(op.kv_heads) {
        return Some("heads must be a multiple of key and value heads".to_owned());
    }
    if op.window != 0 && (op.window < op.seq_kv || !op.causal) {
        return Some("sliding windows are not built".to_owned());
    }
    if op.causal && op.seq_q != op.seq_kv && op.seq_q != 1 {
        return Some("a causal mask is built for equal sequences or one query".to_owned());
    }
    let widths = [op.head_dim, op.value_dim];
    if widths.iter().any(|width| width % 8 != 0 || *width > 256) {
        return Some("cuDNN's flash attention needs heads of 8 to 256 in steps of 8".to_owned());
    }
    if op.pass == Pass::Backward && op.head_dim != op.value_dim {
        return Some("backward attention with unequal head widths is not built".to_owned());
    }
    None
}

/// Why the loaded release of cuDNN cannot run this attention, if it cannot: before 9.6 the caller
/// had to clear the accumulators of backward attention.
pub(super) fn refuses_release(op: &Attention) -> Option<String> {
    let version = Handle::version_number();
    let old = op.pass == Pass::Backward && version < 90_600;
    old.then(|| format!("backward attention needs cuDNN 9.6, not {}", Handle::version()))
}

/// The graph of an operator and the bindings of its tensors.
fn build(op: &Attention) -> Result<BoundGraph> {
    match op.pass {
        Pass::Forward => forward::build(&Sizes::of(op)),
        Pass::Backward => backward::build(&Sizes::of(op)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_built_is_refused_with_a_reason() {
        let op = Attention {
            kv_heads: 2,
            ..Attention::new(1, 8, 128, 64)
        };
        assert_eq!(refuses(&op), None);
        let decode = Attention { seq_q: 1, ..op };
        assert_eq!(refuses(&decode), None);
        assert!(!Sizes::of(&decode).masked && Sizes::of(&op).masked);
        for (op, reason) in [
            (Attention { seq_q: 64, ..op }, "equal sequences"),
            (Attention { window: 32, ..op }, "windows"),
            (Attention { kv_heads: 3, ..op }, "multiple"),
            (Attention { head_dim: 100, ..op }, "steps of 8"),
            (
                Attention {
                    dtype: Dtype::Fp8,
                    ..op
                },
                "fp8",
            ),
            (Attention { batch: 0, ..op }, "sizes"),
        ] {
            let said = refuses(&op).unwrap();
            assert!(said.contains(reason), "{said}");
        }
    }
}
