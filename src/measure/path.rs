//! Kernel and library paths: what cases share a kernel or a library's entry, and so are refused or
//! wrong together.

use crate::ops::{Dtype, Gemm, Layout, MemoryKind, Op, OpKind, Pass};
use std::collections::BTreeMap;
use std::fmt;

/// A kernel or library path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KernelPath {
    /// A matrix product.
    Gemm {
        /// Which operand is stored transposed.
        layout: Layout,
        /// Number format of the operands.
        dtype: Dtype,
        /// Whether one call has several products.
        batched: bool,
    },
    /// Fused attention.
    Attention {
        /// Forward or backward.
        pass: Pass,
        /// Whether a mask hides later keys.
        causal: bool,
        /// Whether one query reads many keys.
        decode: bool,
        /// Number format of the operands.
        dtype: Dtype,
    },
    /// A memory-bound kernel.
    Memory {
        /// What it computes.
        kind: MemoryKind,
        /// Forward or backward.
        pass: Pass,
        /// Number format of the operands.
        dtype: Dtype,
    },
    /// Operators that no device times.
    Other(OpKind),
}

impl KernelPath {
    /// The path of an operator.
    pub const fn of(op: &Op) -> Self {
        match op {
            Op::Gemm(Gemm {
                layout, dtype, batch, ..
            }) => Self::Gemm {
                layout: *layout,
                dtype: *dtype,
                batched: *batch > 1,
            },
            Op::Attention(op) => Self::Attention {
                pass: op.pass,
                causal: op.causal,
                decode: op.is_decode(),
                dtype: op.dtype,
            },
            Op::Memory(op) => Self::Memory {
                kind: op.kind,
                pass: op.pass,
                dtype: op.dtype,
            },
            other => Self::Other(other.kind()),
        }
    }

    /// The family of operators that the path runs.
    pub const fn kind(&self) -> OpKind {
        match self {
            Self::Gemm { .. } => OpKind::Gemm,
            Self::Attention { .. } => OpKind::Attention,
            Self::Memory { .. } => OpKind::Memory,
            Self::Other(kind) => *kind,
        }
    }
}

impl fmt::Display for KernelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gemm { layout, dtype, batched } => {
                let batched = if *batched { "batched " } else { "" };
                write!(f, "{batched}gemm {layout} {dtype}")
            }
            Self::Attention {
                pass,
                causal,
                decode,
                dtype,
            } => {
                let name = if *decode { "decode" } else { "attention" };
                let mask = if *causal { "causal " } else { "" };
                write!(f, "{name} {pass} {mask}{dtype}")
            }
            Self::Memory { kind, pass, dtype } => write!(f, "{kind} {pass} {dtype}"),
            Self::Other(kind) => write!(f, "{kind}"),
        }
    }
}

/// The paths that a device refuses since its checks or its first cases, each with the reason.
#[derive(Clone, Debug, Default)]
pub struct Refusals(BTreeMap<KernelPath, String>);

impl Refusals {
    /// Refuses a path from now on; the first reason stays.
    pub fn add(&mut self, path: KernelPath, reason: String) {
        self.0.entry(path).or_insert(reason);
    }

    /// Why the path of an operator is refused, if it is.
    pub fn reason(&self, op: &Op) -> Option<String> {
        self.0.get(&KernelPath::of(op)).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Attention;

    #[test]
    fn single_and_batched_gemms_are_two_paths_and_sizes_make_none() {
        let gemm = Gemm::new(7, 8, 9);
        let path = |op| KernelPath::of(&Op::Gemm(op));
        assert_eq!(path(gemm), path(Gemm { m: 4096, ..gemm }));
        assert_ne!(path(gemm), path(Gemm { batch: 3, ..gemm }));
        assert_eq!(path(gemm).to_string(), "gemm tn bf16");
        let decode = Attention {
            seq_q: 1,
            ..Attention::new(1, 8, 128, 64)
        };
        let decode = KernelPath::of(&Op::Attention(decode));
        assert_eq!(decode.to_string(), "decode forward causal bf16");
    }

    #[test]
    fn the_first_reason_of_a_refusal_stays() {
        let op = Op::Gemm(Gemm::new(7, 8, 9));
        let mut refusals = Refusals::default();
        assert_eq!(refusals.reason(&op), None);
        refusals.add(KernelPath::of(&op), "no algorithm".to_owned());
        refusals.add(KernelPath::of(&op), "wrong".to_owned());
        assert_eq!(refusals.reason(&op).unwrap(), "no algorithm");
    }
}
