//! Backward attention: the probabilities again from the statistics, then the gradients of values, keys and queries.

use crate::error::Result;
use crate::measure::cuda::cudnn::graph::{Graph, Tensor};
use crate::measure::cuda::cudnn::{Binding, Sizes};
use cudarc::cudnn::sys::{
    cudnnDataType_t as Data, cudnnPointwiseMode_t as Mode, cudnnReduceTensorOp_t as Reduction,
};

/// Bytes of a single-precision tensor.
fn bytes(sizes: [i64; 4]) -> u64 {
    sizes
        .iter()
        .map(|&size| size.unsigned_abs())
        .product::<u64>()
        * 4
}

/// `gradient = leftᵀ · right`, added up over the query heads that share a key head.
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
    let separate = graph.passing(sizes.dtype, each)?;
    graph.multiply(left, right, separate)?;
    graph.reduce(Reduction::CUDNN_REDUCE_TENSOR_ADD, separate, gradient)
}

/// The graph, and what its tensors are bound to.
pub(super) fn build(sizes: &Sizes) -> Result<(Graph, Vec<(i64, Binding)>)> {
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

    // What the normalisation of each row takes off its gradient: a real tensor, filled by the kernel.
    let [batch, heads, seq, width] = sizes.output();
    let strides = [heads * seq * width, seq * width, heads * width, 1];
    let agreement = graph.passing_as(single, sizes.output(), strides)?;
    graph.apply(Mode::CUDNN_POINTWISE_MUL, &[upstream, output], agreement)?;
    let sum = graph.passing(single, [batch, heads, seq, 1])?;
    graph.reduce(Reduction::CUDNN_REDUCE_TENSOR_ADD, agreement, sum)?;
    let delta = graph.dense(single, sizes.rows())?;
    graph.apply(Mode::CUDNN_POINTWISE_MUL, &[sum, one], delta)?;

    let products = graph.passing(single, sizes.scores())?;
    graph.multiply(query, key, products)?;
    let scores = graph.map(Mode::CUDNN_POINTWISE_MUL, &[products, scale])?;
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
    let columns = graph.passing_as(sizes.dtype, turned, turned_strides)?;
    graph.reshape(probabilities, columns)?;
    let target = (d_value, sizes.value_dim);
    multiply_shared(&mut graph, sizes, columns, upstream, target)?;

    let d_probabilities = graph.passing(single, sizes.scores())?;
    graph.multiply(upstream, value, d_probabilities)?;
    let centred = graph.map(Mode::CUDNN_POINTWISE_SUB, &[d_probabilities, delta])?;
    let weighted = graph.map(Mode::CUDNN_POINTWISE_MUL, &[centred, probabilities])?;
    let d_scores = graph.passing(sizes.dtype, sizes.scores())?;
    graph.apply(Mode::CUDNN_POINTWISE_MUL, &[weighted, scale], d_scores)?;

    let d_columns = graph.passing_as(sizes.dtype, turned, turned_strides)?;
    graph.reshape(d_scores, d_columns)?;
    let target = (d_key, sizes.head_dim);
    multiply_shared(&mut graph, sizes, d_columns, query, target)?;

    // Gradients of queries are added up in single precision, in a real tensor, and then narrowed.
    let key_rows = graph.passing(sizes.dtype, sizes.key())?;
    graph.reshape(key, key_rows)?;
    let accumulated = graph.dense(single, sizes.query())?;
    graph.multiply(d_scores, key_rows, accumulated)?;
    graph.apply(Mode::CUDNN_POINTWISE_IDENTITY, &[accumulated], d_query)?;

    let mut bindings = vec![
        (graph.number(query), Binding::Operand("q")),
        (graph.number(key), Binding::Operand("k")),
        (graph.number(value), Binding::Operand("v")),
        (graph.number(output), Binding::Operand("o")),
        (graph.number(upstream), Binding::Operand("do")),
        (graph.number(stats), Binding::Operand("stats")),
        (graph.number(d_query), Binding::Operand("dq")),
        (graph.number(d_key), Binding::Operand("dk")),
        (graph.number(d_value), Binding::Operand("dv")),
        (graph.number(scale), Binding::Value(sizes.scale())),
        (graph.number(one), Binding::Value(1.0)),
        (graph.number(delta), Binding::Scratch(bytes(sizes.rows()))),
        (
            graph.number(accumulated),
            Binding::Scratch(bytes(sizes.query())),
        ),
    ];
    bindings.extend(hidden.map(|tensor| {
        let number = graph.number(tensor);
        (number, Binding::Value(f32::NEG_INFINITY))
    }));
    Ok((graph, bindings))
}
