//! The time of one product or one attention, or of many.

use crate::error::Error;
use crate::error::Result;
use crate::ops;
use crate::ops::Dtype;
use crate::ops::Layout;
use crate::ops::Op;
use crate::ops::Pass;
use crate::predict::Predictor;
use crate::query::Extent;
use crate::query::basis;
use crate::report::operator::OperatorReport;

/// A matrix product (m, k) x (k, n).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the sizes of `ops::Gemm`
pub struct Gemm<E: Extent = u64> {
    pub m: E,
    pub n: E,
    pub k: E,
    /// Independent products in one call.
    pub batch_count: E,
    pub dtype: Dtype,
    pub layout: Layout,
}

impl<E: Extent> Gemm<E> {
    /// The same product with other sizes; each is asked for by its key.
    pub fn map<F: Extent>(&self, mut size: impl FnMut(&'static str, &E) -> F) -> Gemm<F> {
        Gemm {
            m: size("m", &self.m),
            n: size("n", &self.n),
            k: size("k", &self.k),
            batch_count: size("batch_count", &self.batch_count),
            dtype: self.dtype,
            layout: self.layout,
        }
    }
}

impl Gemm {
    /// The product.
    pub fn op(&self) -> Op {
        Op::Gemm(ops::Gemm {
            m: self.m,
            n: self.n,
            k: self.k,
            batch: self.batch_count,
            layout: self.layout,
            dtype: self.dtype,
        })
    }
}

/// A fused attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the sizes of `ops::Attention`
pub struct Attention<E: Extent = u64> {
    pub batch: E,
    pub heads: E,
    /// As many as query heads where left out.
    pub kv_heads: Option<E>,
    /// Queries per sequence.
    pub seq: E,
    /// Keys per sequence, cached ones included; as many as queries where left out.
    pub kv_seq: Option<E>,
    pub head_dim: E,
    pub causal: bool,
    pub pass: Pass,
    pub dtype: Dtype,
}

impl<E: Extent> Attention<E> {
    /// The same attention with other sizes; each is asked for by its key.
    pub fn map<F: Extent>(&self, mut size: impl FnMut(&'static str, &E) -> F) -> Attention<F> {
        Attention {
            batch: size("batch", &self.batch),
            heads: size("heads", &self.heads),
            kv_heads: self.kv_heads.as_ref().map(|heads| size("kv_heads", heads)),
            seq: size("seq", &self.seq),
            kv_seq: self.kv_seq.as_ref().map(|keys| size("kv_seq", keys)),
            head_dim: size("head_dim", &self.head_dim),
            causal: self.causal,
            pass: self.pass,
            dtype: self.dtype,
        }
    }
}

impl Attention {
    /// The attention; fails where heads or keys do not go together.
    pub fn op(&self) -> Result<Op> {
        let kv_heads = self.kv_heads.unwrap_or(self.heads);
        if !self.heads.is_multiple_of(kv_heads) {
            let allowed = format!("a divisor of heads, {}", self.heads);
            return Err(Error::field("attention", "kv_heads", kv_heads, &allowed));
        }
        let seq_kv = self.kv_seq.unwrap_or(self.seq);
        if self.causal && seq_kv < self.seq {
            let allowed = format!("at least seq, {}, where attention is causal", self.seq);
            return Err(Error::field("attention", "kv_seq", seq_kv, &allowed));
        }
        Ok(Op::Attention(ops::Attention {
            batch: self.batch,
            heads: self.heads,
            kv_heads,
            seq_q: self.seq,
            seq_kv,
            head_dim: self.head_dim,
            value_dim: self.head_dim,
            causal: self.causal,
            window: 0,
            pass: self.pass,
            dtype: self.dtype,
        }))
    }
}

/// The time of each operator, in the order of the question.
pub fn predict(predictor: &Predictor, ops: &[Op]) -> Vec<OperatorReport> {
    let estimates = predictor.predict(ops);
    let answered = ops.iter().zip(&estimates);
    let reports = answered.map(|(op, estimate)| {
        OperatorReport::new(predictor.gpu(), op, estimate, basis(predictor, op))
    });
    reports.collect()
}
