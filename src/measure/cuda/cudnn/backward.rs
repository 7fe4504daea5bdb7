//! Backward attention: the probabilities recomputed from the statistics, then the gradients of
//! values, keys and queries.

use super::{Binding, BoundGraph, Sizes};
use crate::error::Result;
use crate::measure::cuda::cudnn::graph::{Graph, Tensor};
use cudarc::cudnn::sys::{cudnnDataType_t as Data, cudnnPointwiseMode_t as Mode, cudnnReduceTensorOp_t as Reduction};

/// Size in bytes of a single-precision tensor.
fn bytes(sizes: [i64; 4]) -> u64 {
    sizes.iter().map(|&size| size.unsigned_abs()).product::<u64>() * 4
}

/// Adds `gradient = leftᵀ · right`, summed over the query heads that share a key head.
fn multiply_shared(
    graph: &mut Graph,
    sizes: &Sizes,
    left: Tensor,
    right: Tensor,
    (gradient, width): (Tensor, i64),
) -> Result<()> {
    if sizes.heads == sizes.kv_heads {
        return graph.multiply(left, right, gradient);
    }
    let each = [sizes.batch, sizes.heads, sizes.seq_kv, width];
    let separate = graph.virtual_dense(sizes.dtype, each)?;
    graph.multiply(left, right, separate)?;
    graph.reduce(Reduction::CUDNN_REDUCE_TENSOR_ADD, separate, gradient)
}

/// The graph and the bindings of its tensors.
pub fn build(sizes: &Sizes) -> Result<BoundGraph> {
    let single = Data::CUDNN_DATA_FLOAT;
    let mut graph = Graph::new();
    let query = graph.dense(sizes.dtype, sizes.query())?;
    let key = graph.transposed(sizes.dtype, sizes.key())?;
    let value = graph.transposed(sizes.dtype, sizes.value())?;
    let output = graph.dense(sizes.dtype, sizes.output())?;
    let upstream = graph.dense(sizes.dtype, sizes.output())?;
    let stats = graph.dense(single, sizes.rows())?;
    let d_query = graph.dense(sizes.dtype, sizes.query())?;
    let d_key = graph.dense(sizes.dtype, sizes.key())?;
    let d_value = graph.dense(sizes.dtype, sizes.value())?;
    let (scale, one) = (graph.value()?, graph.value()?);

    // The row term of the softmax gradient: a tensor in memory, written by the kernel.
    let [batch, heads, seq, width] = sizes.output();
    let strides = [heads * seq * width, seq * width, heads * width, 1];
    let agreement = graph.virtual_strided(single, sizes.output(), strides)?;
    graph.apply(Mode::CUDNN_POINTWISE_MUL, &[upstream, output], agreement)?;
    let sum = graph.virtual_dense(single, [batch, heads, seq, 1])?;
    graph.reduce(Reduction::CUDNN_REDUCE_TENSOR_ADD, agreement, sum)?;
    let delta = graph.dense(single, sizes.rows())?;
    graph.apply(Mode::CUDNN_POINTWISE_MUL, &[sum, one], delta)?;

    let unscaled = graph.virtual_dense(single, sizes.scores())?;
    graph.multiply(query, key, unscaled)?;
    let scores = graph.map(Mode::CUDNN_POINTWISE_MUL, &[unscaled, scale])?;
    let mut below = graph.map(Mode::CUDNN_POINTWISE_SUB, &[scores, stats])?;
    let mut hidden = None;
    if sizes.masked {
        let minus_infinity = graph.value()?;
        below = graph.mask_causal(below, minus_infinity)?;
        hidden = Some(minus_infinity);
    }
    let probabilities = graph.map(Mode::CUDNN_POINTWISE_EXP, &[below])?;

    let turned = [sizes.batch, sizes.heads, sizes.seq_kv, sizes.seq_q];
    let (plane, row) = (sizes.seq_q * sizes.seq_kv, sizes.seq_kv);
    let turned_strides = [sizes.heads * plane, plane, 1, row];
    let columns = graph.virtual_strided(sizes.dtype, turned, turned_strides)?;
    graph.reshape(probabilities, columns)?;
    let target = (d_value, sizes.value_dim);
    multiply_shared(&mut graph, sizes, columns, upstream, target)?;

    let d_probabilities = graph.virtual_dense(single, sizes.scores())?;
    graph.multiply(upstream, value, d_probabilities)?;
    let centred = graph.map(Mode::CUDNN_POINTWISE_SUB, &[d_probabilities, delta])?;
    let weighted = graph.map(Mode::CUDNN_POINTWISE_MUL, &[centred, probabilities])?;
    let d_scores = graph.virtual_dense(sizes.dtype, sizes.scores())?;
    graph.apply(Mode::CUDNN_POINTWISE_MUL, &[weighted, scale], d_scores)?;

    let d_columns = graph.virtual_strided(sizes.dtype, turned, turned_strides)?;
    graph.reshape(d_scores, d_columns)?;
    let target = (d_key, sizes.head_dim);
    multiply_shared(&mut graph, sizes, d_columns, query, target)?;

    // Gradients of queries are summed in single precision, in memory, and then converted.
    let key_rows = graph.virtual_dense(sizes.dtype, sizes.key())?;
    graph.reshape(key, key_rows)?;
    let accumulated = graph.dense(single, sizes.query())?;
    graph.multiply(d_scores, key_rows, accumulated)?;
    graph.apply(Mode::CUDNN_POINTWISE_IDENTITY, &[accumulated], d_query)?;

    let mut bindings = vec![
        (query, Binding::Operand("q")),
        (key, Binding::Operand("k")),
        (value, Binding::Operand("v")),
        (output, Binding::Operand("o")),
        (upstream, Binding::Operand("do")),
        (stats, Binding::Operand("stats")),
        (d_query, Binding::Operand("dq")),
        (d_key, Binding::Operand("dk")),
        (d_value, Binding::Operand("dv")),
        (scale, Binding::Value(sizes.scale())),
        (one, Binding::Value(1.0)),
        (delta, Binding::Scratch(bytes(sizes.rows()))),
        (accumulated, Binding::Scratch(bytes(sizes.query()))),
    ];
    bindings.extend(hidden.map(|tensor| (tensor, Binding::Value(f32::NEG_INFINITY))));
    Ok(graph.bound(&bindings))
}
