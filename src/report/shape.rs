//! Operators as JSON keys.

use crate::ops::Op;
use serde::Serialize;
use utoipa::ToSchema;

/// An operator on the wire: its kind, then its dimensions.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Shape {
    Gemm {
        m: u64,
        n: u64,
        k: u64,
        batch: u64,
        layout: &'static str,
        dtype: &'static str,
    },
    Attention {
        batch: u64,
        heads: u64,
        kv_heads: u64,
        seq_q: u64,
        seq_kv: u64,
        head_dim: u64,
        value_dim: u64,
        causal: bool,
        window: u64,
        pass: &'static str,
        dtype: &'static str,
    },
    Memory {
        function: &'static str,
        rows: u64,
        cols: u64,
        pass: &'static str,
        dtype: &'static str,
    },
    Collective {
        pattern: &'static str,
        bytes: u64,
        ranks: u64,
    },
}

impl From<&Op> for Shape {
    fn from(op: &Op) -> Self {
        match op {
            Op::Gemm(op) => Self::Gemm {
                m: op.m,
                n: op.n,
                k: op.k,
                batch: op.batch,
                layout: op.layout.name(),
                dtype: op.dtype.name(),
            },
            Op::Attention(op) => Self::Attention {
                batch: op.batch,
                heads: op.heads,
                kv_heads: op.kv_heads,
                seq_q: op.seq_q,
                seq_kv: op.seq_kv,
                head_dim: op.head_dim,
                value_dim: op.value_dim,
                causal: op.causal,
                window: op.window,
                pass: op.pass.name(),
                dtype: op.dtype.name(),
            },
            Op::Memory(op) => Self::Memory {
                function: op.kind.name(),
                rows: op.rows,
                cols: op.cols,
                pass: op.pass.name(),
                dtype: op.dtype.name(),
            },
            Op::Collective(op) => Self::Collective {
                pattern: op.kind.name(),
                bytes: op.bytes,
                ranks: op.ranks,
            },
        }
    }
}
