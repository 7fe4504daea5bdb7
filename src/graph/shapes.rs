//! Shapes that a graph leaves out, as far as they follow from its inputs, and the whole numbers they are computed from.

use super::onnx::{Graph, Node, Tensor};
use rten_onnx::onnx::DataType;

/// Finds what follows of the outputs of a node from its inputs.
pub(super) fn follow(graph: &mut Graph, at: usize) {
    let node = &graph.nodes[at];
    let first = node.outputs.first().filter(|name| !name.is_empty());
    let Some(name) = first.cloned() else {
        return;
    };
    if node.kind == "Constant" {
        if let Some(value) = node.tensor("value").cloned() {
            graph.constant(&name, &value);
        } else if let Some(numbers) = node
            .ints("value_ints")
            .map(<[i64]>::to_vec)
            .or_else(|| Some(vec![node.int("value_int")?]))
        {
            graph.constants.insert(name.clone());
            note(graph, name, numbers);
        }
        return;
    }
    if node
        .inputs
        .iter()
        .all(|name| name.is_empty() || graph.constants.contains(name))
        && !node.inputs.is_empty()
    {
        graph.constants.insert(name.clone());
    }
    let node = &graph.nodes[at];
    if let Some(numbers) = numbers(graph, node) {
        note(graph, name, numbers);
        return;
    }
    if node.kind == "Split" {
        split(graph, at);
        return;
    }
    if graph.tensors.contains_key(&name) {
        return;
    }
    let element = element(graph, node);
    if let (Some(dims), Some(element)) = (dims(graph, node), element) {
        let tensor = Tensor { dims, element };
        let other = |at: usize| node.outputs.get(at).cloned();
        let beside = match node.kind.as_str() {
            // The sum that a norm gives back beside itself, and the scale of a whole tensor.
            kind if kind.starts_with("Skip") => other(3).map(|sum| (sum, tensor.clone())),
            "DynamicQuantizeLinear" => graph.input(node, 0).zip(other(1)).map(|(input, scale)| {
                let dims = Vec::new();
                let element = input.element;
                (scale, Tensor { dims, element })
            }),
            _ => None,
        };
        if let Some((name, tensor)) = beside {
            graph.know(name, tensor);
        }
        graph.know(name, tensor);
    }
}

fn note(graph: &mut Graph, name: String, numbers: Vec<i64>) {
    let tensor = Tensor {
        dims: vec![numbers.len() as u64],
        element: DataType::INT64,
    };
    graph.know(name.clone(), tensor);
    graph.note(name, numbers);
}

/// The content of the output, where it is a few whole numbers.
fn numbers(graph: &Graph, node: &Node) -> Option<Vec<i64>> {
    let of = |at: usize| graph.numbers.get(node.input(at)?);
    let pair = |combine: fn(i64, i64) -> Option<i64>| {
        let (a, b) = (of(0)?, of(1)?);
        let length = a.len().max(b.len());
        let fits = |list: &[i64]| list.len() == length || list.len() == 1;
        if !fits(a) || !fits(b) {
            return None;
        }
        let both = (0..length).map(|at| combine(a[at.min(a.len() - 1)], b[at.min(b.len() - 1)]));
        both.collect()
    };
    match node.kind.as_str() {
        "Shape" => {
            let dims = &graph.input(node, 0)?.dims;
            let rank = dims.len() as i64;
            let place = |at: i64| (if at < 0 { at + rank } else { at }).clamp(0, rank) as usize;
            let start = place(node.int("start").unwrap_or(0));
            let end = place(node.int("end").unwrap_or(rank));
            Some(dims.get(start..end)?.iter().map(|dim| *dim as i64).collect())
        }
        "Identity" | "Cast" | "Unsqueeze" | "Squeeze" => of(0).cloned(),
        "Gather" => {
            let (list, at) = (of(0)?, of(1)?);
            let place = |at: &i64| {
                if *at < 0 { *at + list.len() as i64 } else { *at }
            };
            at.iter()
                .map(|at| list.get(usize::try_from(place(at)).ok()?).copied())
                .collect()
        }
        "Concat" => {
            let parts = (0..node.inputs.len()).map(of).collect::<Option<Vec<_>>>()?;
            Some(parts.into_iter().flatten().copied().collect())
        }
        "Slice" => {
            let list = of(0)?;
            let length = list.len() as i64;
            let step = of(4).map_or(Some(1), |steps| steps.first().copied())?;
            let place = |at: i64| (if at < 0 { at + length } else { at }).clamp(0, length) as usize;
            (step == 1).then(|| {
                list.get(place(*of(1)?.first()?)..place(*of(2)?.first()?))
                    .map(<[i64]>::to_vec)
            })?
        }
        "Add" => pair(i64::checked_add),
        "Sub" => pair(i64::checked_sub),
        "Mul" => pair(i64::checked_mul),
        "Div" => pair(i64::checked_div),
        _ => None,
    }
}

/// The type of the elements of the output.
fn element(graph: &Graph, node: &Node) -> Option<DataType> {
    let of = |at: usize| Some(graph.input(node, at)?.element);
    match node.kind.as_str() {
        "Cast" => Some(DataType(i32::try_from(node.int("to")?).ok()?)),
        "Shape" | "Size" | "ArgMax" | "NonZero" => Some(DataType::INT64),
        "Equal" | "Less" | "Greater" | "LessOrEqual" | "GreaterOrEqual" | "And" | "Or" | "Not" | "IsNaN" => {
            Some(DataType::BOOL)
        }
        "Where" => of(1).or_else(|| of(2)),
        "DynamicQuantizeLinear" => Some(DataType::UINT8),
        "QuantizeLinear" => of(2).or(Some(DataType::UINT8)),
        "DequantizeLinear" => of(1),
        "MatMulInteger" | "ConvInteger" => Some(DataType::INT32),
        "EmbedLayerNormalization" | "MatMulIntegerToFloat" => of(2),
        "QAttention" => of(3),
        "ConstantOfShape" => Some(
            node.tensor("value")
                .and_then(|value| value.data_type)
                .unwrap_or(DataType::FLOAT),
        ),
        _ => of(0),
    }
}

/// The place of an axis in a rank.
fn axis(at: i64, rank: usize) -> Option<usize> {
    let place = if at < 0 { at + rank as i64 } else { at };
    usize::try_from(place).ok().filter(|place| *place <= rank)
}

/// Sizes of two tensors that are combined element by element.
pub(super) fn broadcast(a: &[u64], b: &[u64]) -> Option<Vec<u64>> {
    let rank = a.len().max(b.len());
    let of = |dims: &[u64], at: usize| match (at + dims.len()).checked_sub(rank) {
        Some(place) => dims[place],
        None => 1,
    };
    (0..rank)
        .map(|at| match (of(a, at), of(b, at)) {
            (one, other) if one == other => Some(one),
            (1, other) => Some(other),
            (one, 1) => Some(one),
            _ => None,
        })
        .collect()
}

fn sizes(numbers: &[i64]) -> Option<Vec<u64>> {
    numbers.iter().map(|number| u64::try_from(*number).ok()).collect()
}

/// The shape of the output.
fn dims(graph: &Graph, node: &Node) -> Option<Vec<u64>> {
    if let Some([a, b]) = super::lowering::factors(graph, node) {
        let ([left @ .., m, _], [right @ .., _, n]) = (&*a, &*b) else {
            return None;
        };
        return Some([broadcast(left, right)?, vec![*m, *n]].concat());
    }
    let of = |at: usize| Some(graph.input(node, at)?.dims.as_slice());
    let list = |attribute: &str, at: usize| -> Option<Vec<i64>> {
        let stated = node.ints(attribute).filter(|list| !list.is_empty());
        stated
            .map(<[i64]>::to_vec)
            .or_else(|| graph.numbers.get(node.input(at)?).cloned())
    };
    match node.kind.as_str() {
        kind if super::lowering::packs_weights(kind) => {
            let (mut dims, n) = (of(0)?.to_vec(), node.count("N")?);
            *dims.last_mut()? = n;
            Some(dims)
        }
        "EmbedLayerNormalization" => Some([of(0)?, &[*of(2)?.last()?]].concat()),
        "BiasSplitGelu" => {
            let mut dims = of(0)?.to_vec();
            *dims.last_mut()? /= 2;
            Some(dims)
        }
        "Transpose" => {
            let dims = of(0)?;
            match node.ints("perm") {
                Some(order) => order
                    .iter()
                    .map(|at| dims.get(usize::try_from(*at).ok()?).copied())
                    .collect(),
                None => Some(dims.iter().rev().copied().collect()),
            }
        }
        "Reshape" => {
            let (dims, wanted) = (of(0)?, graph.numbers.get(node.input(1)?)?);
            let whole: u64 = dims.iter().product();
            let mut shape = Vec::new();
            for (at, number) in wanted.iter().enumerate() {
                shape.push(match number {
                    0 => *dims.get(at)?,
                    -1 => 0,
                    _ => u64::try_from(*number).ok()?,
                });
            }
            if let Some(open) = wanted.iter().position(|number| *number == -1) {
                let others = shape.iter().enumerate().filter(|(at, _)| *at != open);
                let mut others = others.map(|(_, dim)| *dim);
                let rest = others.try_fold(1, |product: u64, dim| product.checked_mul(dim))?;
                shape[open] = whole.checked_div(rest)?;
            }
            let mut sizes = shape.iter();
            let filled = sizes.try_fold(1, |product: u64, dim| product.checked_mul(*dim))?;
            (filled == whole).then_some(shape)
        }
        "Flatten" => {
            let dims = of(0)?;
            let at = axis(node.int("axis").unwrap_or(1), dims.len())?;
            let (before, after) = dims.split_at(at);
            Some(vec![before.iter().product(), after.iter().product()])
        }
        "Squeeze" => {
            let dims = of(0)?;
            let gone = list("axes", 1);
            let gone = gone.map(|axes| axes.iter().filter_map(|at| axis(*at, dims.len())).collect::<Vec<_>>());
            let kept = dims.iter().enumerate();
            let kept = kept.filter(|(at, dim)| gone.as_ref().map_or(**dim != 1, |gone| !gone.contains(at)));
            Some(kept.map(|(_, dim)| *dim).collect())
        }
        "Unsqueeze" => {
            let (mut dims, axes) = (of(0)?.to_vec(), list("axes", 1)?);
            let rank = dims.len() + axes.len();
            let mut places = axes.iter().map(|at| axis(*at, rank)).collect::<Option<Vec<_>>>()?;
            places.sort_unstable();
            for place in places {
                (place <= dims.len()).then(|| dims.insert(place, 1))?;
            }
            Some(dims)
        }
        "Concat" => {
            let mut dims = of(0)?.to_vec();
            let at = axis(node.int("axis")?, dims.len())?;
            for input in 1..node.inputs.len() {
                *dims.get_mut(at)? += *of(input)?.get(at)?;
            }
            Some(dims)
        }
        "Gather" => {
            let (data, indices) = (of(0)?, of(1)?);
            let at = axis(node.int("axis").unwrap_or(0), data.len())?;
            let scalar = graph.numbers.get(node.input(1)?).is_some_and(|list| list.len() == 1) && indices == [1];
            let middle = if scalar { &[][..] } else { indices };
            Some([data.get(..at)?, middle, data.get(at + 1..)?].concat())
        }
        "Slice" => {
            let mut dims = of(0)?.to_vec();
            let (starts, ends) = (list("starts", 1)?, list("ends", 2)?);
            let axes = list("axes", 3).unwrap_or_else(|| (0..starts.len() as i64).collect());
            let steps = list("steps", 4).unwrap_or_else(|| vec![1; starts.len()]);
            for (((start, end), at), step) in starts.iter().zip(&ends).zip(&axes).zip(&steps) {
                let dim = dims.get_mut(axis(*at, of(0)?.len())?)?;
                let length = *dim as i64;
                let place = |at: i64| (if at < 0 { at.saturating_add(length) } else { at }).clamp(0, length);
                let span = u64::try_from(place(*end) - place(*start)).ok()?;
                *dim = span.div_ceil(u64::try_from(*step).ok().filter(|step| *step > 0)?);
            }
            Some(dims)
        }
        "Expand" => broadcast(of(0)?, &sizes(graph.numbers.get(node.input(1)?)?)?),
        "ConstantOfShape" => sizes(graph.numbers.get(node.input(0)?)?),
        "Where" => broadcast(of(0)?, &broadcast(of(1)?, of(2)?)?),
        "ReduceMean" | "ReduceSum" | "ReduceMax" | "ReduceMin" | "ReduceL2" => {
            let mut dims = of(0)?.to_vec();
            let rank = dims.len();
            let axes = list("axes", 1).unwrap_or_else(|| (0..rank as i64).collect());
            let places = axes.iter().map(|at| axis(*at, rank)).collect::<Option<Vec<_>>>()?;
            for place in &places {
                *dims.get_mut(*place)? = 1;
            }
            if node.int("keepdims") == Some(0) {
                let kept = dims.iter().enumerate().filter(|(at, _)| !places.contains(at));
                return Some(kept.map(|(_, dim)| *dim).collect());
            }
            Some(dims)
        }
        kind if super::attention::KINDS.contains(&kind) => super::attention::output(graph, node),
        "QLinearAdd" | "QLinearMul" => broadcast(of(0)?, of(3)?),
        kind if kind.starts_with("QLinear") => of(0).map(<[u64]>::to_vec),
        kind if super::lowering::is_pairwise(kind) => {
            let mut dims = of(0)?.to_vec();
            for at in (1..node.inputs.len()).filter(|at| node.input(*at).is_some()) {
                dims = broadcast(&dims, of(at)?)?;
            }
            Some(dims)
        }
        kind if super::lowering::keeps_shape(kind) => of(0).map(<[u64]>::to_vec),
        _ => None,
    }
}

/// Shapes of the parts of a split tensor.
fn split(graph: &mut Graph, at: usize) {
    let node = &graph.nodes[at];
    let found = (|| {
        let whole = graph.input(node, 0)?.clone();
        let place = axis(node.int("axis").unwrap_or(0), whole.dims.len())?;
        let stated = node.ints("split").map(<[i64]>::to_vec);
        let stated = stated.or_else(|| graph.numbers.get(node.input(1)?).cloned());
        let length = *whole.dims.get(place)?;
        let parts = match stated {
            Some(parts) => sizes(&parts)?,
            None => {
                let count = node.outputs.len() as u64;
                let each = length.div_ceil(count.max(1));
                (0..count)
                    .map(|part| each.min(length.saturating_sub(part * each)))
                    .collect()
            }
        };
        let shapes = parts.into_iter().map(|part| {
            let mut tensor = whole.clone();
            tensor.dims[place] = part;
            tensor
        });
        Some(node.outputs.iter().cloned().zip(shapes).collect::<Vec<_>>())
    })();
    for (name, tensor) in found.unwrap_or_default() {
        graph.know(name, tensor);
    }
}
