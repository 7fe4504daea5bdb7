//! Forward attention: GEMM, scale, mask, softmax, GEMM, and the statistics that training keeps.

use super::{Binding, BoundGraph, Sizes};
use crate::error::Result;
use crate::measure::cuda::cudnn::graph::Graph;
use cudarc::cudnn::sys::{cudnnDataType_t as Data, cudnnPointwiseMode_t as Mode, cudnnReduceTensorOp_t as Reduction};

/// The graph and the bindings of its tensors.
pub fn build(sizes: &Sizes) -> Result<BoundGraph> {
    let single = Data::CUDNN_DATA_FLOAT;
    let mut graph = Graph::new();
    let query = graph.dense(sizes.dtype, sizes.query())?;
    let key = graph.transposed(sizes.dtype, sizes.key())?;
    let value = graph.dense(sizes.dtype, sizes.value())?;
    let output = graph.dense(sizes.dtype, sizes.output())?;
    let scale = graph.value()?;

    let unscaled = graph.virtual_dense(single, sizes.scores())?;
    graph.multiply(query, key, unscaled)?;
    let mut scores = graph.map(Mode::CUDNN_POINTWISE_MUL, &[unscaled, scale])?;
    let mut hidden = None;
    if sizes.masked {
        let minus_infinity = graph.value()?;
        scores = graph.mask_causal(scores, minus_infinity)?;
        hidden = Some(minus_infinity);
    }
    let largest = graph.virtual_dense(single, sizes.rows())?;
    graph.reduce(Reduction::CUDNN_REDUCE_TENSOR_MAX, scores, largest)?;
    let below = graph.map(Mode::CUDNN_POINTWISE_SUB, &[scores, largest])?;
    let exponentials = graph.map(Mode::CUDNN_POINTWISE_EXP, &[below])?;
    let sum = graph.virtual_dense(single, sizes.rows())?;
    graph.reduce(Reduction::CUDNN_REDUCE_TENSOR_ADD, exponentials, sum)?;
    let logarithm = graph.map(Mode::CUDNN_POINTWISE_LOG, &[sum])?;
    let stats = graph.dense(single, sizes.rows())?;
    graph.apply(Mode::CUDNN_POINTWISE_ADD, &[largest, logarithm], stats)?;
    // The engines expect the probabilities in the format of the operands.
    let probabilities = graph.virtual_dense(sizes.dtype, sizes.scores())?;
    let divide = Mode::CUDNN_POINTWISE_DIV;
    graph.apply(divide, &[exponentials, sum], probabilities)?;
    graph.multiply(probabilities, value, output)?;

    let mut bindings = vec![
        (query, Binding::Operand("q")),
        (key, Binding::Operand("k")),
        (value, Binding::Operand("v")),
        (output, Binding::Operand("o")),
        (stats, Binding::Operand("stats")),
        (scale, Binding::Value(sizes.scale())),
    ];
    bindings.extend(hidden.map(|tensor| (tensor, Binding::Value(f32::NEG_INFINITY))));
    Ok(graph.bound(&bindings))
}
