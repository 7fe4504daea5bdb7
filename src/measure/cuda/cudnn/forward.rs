//! Forward attention: product, scale, mask, softmax, product, and the statistics that training keeps.

use crate::error::Result;
use crate::measure::cuda::cudnn::graph::Graph;
use crate::measure::cuda::cudnn::{Binding, Sizes};
use cudarc::cudnn::sys::{
    cudnnDataType_t as Data, cudnnPointwiseMode_t as Mode, cudnnReduceTensorOp_t as Reduction,
};

/// The graph, and what its tensors are bound to.
pub(super) fn build(sizes: &Sizes) -> Result<(Graph, Vec<(i64, Binding)>)> {
    let single = Data::CUDNN_DATA_FLOAT;
    let mut graph = Graph::new();
    let query = graph.dense(sizes.dtype, sizes.query())?;
    let key = graph.transposed(sizes.dtype, sizes.key())?;
    let value = graph.dense(sizes.dtype, sizes.value())?;
    let output = graph.dense(sizes.dtype, sizes.output())?;
    let scale = graph.value()?;

    let products = graph.passing(single, sizes.scores())?;
    graph.multiply(query, key, products)?;
    let mut scores = graph.map(Mode::CUDNN_POINTWISE_MUL, &[products, scale])?;
    let mut hidden = None;
    if sizes.masked {
        let minus_infinity = graph.value()?;
        scores = graph.mask_causal(scores, minus_infinity)?;
        hidden = Some(minus_infinity);
    }
    let largest = graph.passing(single, sizes.rows())?;
    graph.reduce(Reduction::CUDNN_REDUCE_TENSOR_MAX, scores, largest)?;
    let below = graph.map(Mode::CUDNN_POINTWISE_SUB, &[scores, largest])?;
    let exponentials = graph.map(Mode::CUDNN_POINTWISE_EXP, &[below])?;
    let sum = graph.passing(single, sizes.rows())?;
    graph.reduce(Reduction::CUDNN_REDUCE_TENSOR_ADD, exponentials, sum)?;
    let logarithm = graph.map(Mode::CUDNN_POINTWISE_LOG, &[sum])?;
    let stats = graph.dense(single, sizes.rows())?;
    graph.apply(Mode::CUDNN_POINTWISE_ADD, &[largest, logarithm], stats)?;
    // The engines want the probabilities in the format of the operands.
    let probabilities = graph.passing(sizes.dtype, sizes.scores())?;
    graph.apply(
        Mode::CUDNN_POINTWISE_DIV,
        &[exponentials, sum],
        probabilities,
    )?;
    graph.multiply(probabilities, value, output)?;

    let mut bindings = vec![
        (graph.number(query), Binding::Operand("q")),
        (graph.number(key), Binding::Operand("k")),
        (graph.number(value), Binding::Operand("v")),
        (graph.number(output), Binding::Operand("o")),
        (graph.number(stats), Binding::Operand("stats")),
        (graph.number(scale), Binding::Value(sizes.scale())),
    ];
    bindings.extend(hidden.map(|tensor| {
        let number = graph.number(tensor);
        (number, Binding::Value(f32::NEG_INFINITY))
    }));
    Ok((graph, bindings))
}
