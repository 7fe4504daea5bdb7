//! Attention in a graph: an operator of its own, or two products with a softmax between them.

use super::Options;
use super::onnx::{Graph, Node, Tensor};
use crate::ops::{Attention, Dtype, Gemm, Op};

/// An attention and the nodes that its kernel takes in.
pub(super) struct Found {
    pub kind: &'static str,
    /// The attention, behind the product that its operator runs first.
    pub ops: Vec<Op>,
    /// The node that represents it.
    pub at: usize,
    pub nodes: Vec<usize>,
    /// Whether the graph adds a mask of its own to the scores.
    pub masked: bool,
}

/// The most nodes between a product and its softmax: scale, mask, casts, a cap of the scores, where scores are quantized
/// two more behind each.
const BETWEEN: usize = 16;

/// Whether both inputs are factors in floating point.
fn is_product(kind: &str) -> bool {
    matches!(kind, "MatMul" | "FusedMatMul" | "TransposeMatMul")
}

/// Every attention of a graph.
pub(super) fn found(graph: &Graph, options: &Options) -> Vec<Found> {
    let nodes = 0..graph.nodes.len();
    nodes
        .filter_map(|at| match graph.nodes[at].kind.as_str() {
            "Softmax" => around_softmax(graph, at, options),
            _ => one_operator(graph, at, options),
        })
        .collect()
}

/// The test and the choice that replace shares which are no numbers, those of rows that are masked entirely: two readers of
/// the softmax, as `torch.onnx.export` writes them.
fn guard(graph: &Graph, softmax: usize) -> Option<(usize, usize)> {
    let shares = graph.nodes[softmax].outputs.first()?;
    let &[one, other] = &**graph.readers.get(shares)? else {
        return None;
    };
    let pairs = [(one, other), (other, one)];
    pairs.into_iter().find(|&(test, choice)| {
        graph.nodes[test].kind == "IsNaN"
            && graph.nodes[choice].kind == "Where"
            && graph.sole_reader(test) == Some(choice)
            && graph.source(choice, 0) == Some(test)
    })
}

/// Queries, keys and values with heads of their own: `[batch, heads, tokens, width]`.
struct Operands {
    batch: u64,
    heads: u64,
    kv_heads: u64,
    seq_q: u64,
    seq_kv: u64,
    head_dim: u64,
    value_dim: u64,
}

impl Operands {
    /// Values as wide as keys; `seq` is the length of the queries and of the keys.
    const fn alike(batch: u64, heads: u64, kv_heads: u64, seq: [u64; 2], head_dim: u64) -> Self {
        Self {
            batch,
            heads,
            kv_heads,
            seq_q: seq[0],
            seq_kv: seq[1],
            head_dim,
            value_dim: head_dim,
        }
    }

    fn op(self, causal: bool, of: &Tensor, options: &Options) -> Op {
        Op::Attention(Attention {
            kv_heads: self.kv_heads,
            seq_kv: self.seq_kv,
            value_dim: self.value_dim,
            // Causal queries see the keys before them, of which there are at least as many.
            causal: causal && self.seq_kv >= self.seq_q,
            dtype: options.dtype.unwrap_or_else(|| of.dtype().unwrap_or_default()),
            ..Attention::new(self.batch, self.heads, self.seq_q, self.head_dim)
        })
    }
}

/// `MatMul`, scale and mask, `Softmax`, `MatMul`.
fn around_softmax(graph: &Graph, softmax: usize, options: &Options) -> Option<Found> {
    let rank = graph.output(&graph.nodes[softmax], 0)?.dims.len() as i64;
    let axis = graph.nodes[softmax].int("axis").unwrap_or(-1);
    if axis != -1 && axis != rank - 1 {
        return None;
    }
    let mut nodes = vec![softmax];
    let mut masked = false;
    let mut at = softmax;
    let score = loop {
        // The side of a node that comes from a product; the others are scales and masks.
        let inputs = 0..graph.nodes[at].inputs.len();
        let sources = inputs.filter_map(|input| graph.source(at, input));
        let source = sources
            .filter(|source| graph.sole_reader(*source) == Some(at))
            .find(|source| {
                let kind = graph.nodes[*source].kind.as_str();
                let between = [
                    "Add",
                    "Cast",
                    "DequantizeLinear",
                    "Div",
                    "Max",
                    "Mul",
                    "QuantizeLinear",
                    "Sub",
                    "Tanh",
                    "Where",
                ];
                (is_product(kind) || between.contains(&kind))
                    && graph.output(&graph.nodes[*source], 0).map(Tensor::elements)
                        == graph.output(&graph.nodes[softmax], 0).map(Tensor::elements)
            })?;
        nodes.push(source);
        match graph.nodes[source].kind.as_str() {
            kind if is_product(kind) => break source,
            "Add" | "Where" | "Sub" | "Max" => masked = true,
            _ => {}
        }
        if nodes.len() > BETWEEN {
            return None;
        }
        at = source;
    };
    let mut at = softmax;
    let value = loop {
        if let Some((test, choice)) = guard(graph, at) {
            nodes.extend([test, choice]);
            at = choice;
        }
        let reader = graph.sole_reader(at)?;
        nodes.push(reader);
        match graph.nodes[reader].kind.as_str() {
            kind if is_product(kind)
                && graph.nodes[reader].input(0) == graph.nodes[at].outputs.first().map(String::as_str) =>
            {
                break reader;
            }
            "Cast" | "Dropout" | "Identity" | "QuantizeLinear" | "DequantizeLinear" => at = reader,
            _ => return None,
        }
    };
    let (query, keys) = (
        graph.input(&graph.nodes[score], 0)?,
        graph.input(&graph.nodes[score], 1)?,
    );
    let values = graph.input(&graph.nodes[value], 1)?;
    let ([left @ .., seq_q, head_dim], [.., seq_kv, value_dim]) = (&*query.dims, &*values.dims) else {
        return None;
    };
    let (batch, heads) = match left {
        [] => (1, 1),
        [all] => (1, *all),
        [batch, heads @ ..] => (*batch, heads.iter().product()),
    };
    let shared: u64 = keys.dims[..keys.dims.len().checked_sub(2)?].iter().product();
    let kv_heads = (shared / batch.max(1)).clamp(1, heads.max(1));
    let operands = Operands {
        batch,
        heads,
        kv_heads: if heads.is_multiple_of(kv_heads) {
            kv_heads
        } else {
            heads
        },
        seq_q: *seq_q,
        seq_kv: *seq_kv,
        head_dim: *head_dim,
        value_dim: *value_dim,
    };
    let op = operands.op(masked && options.causal, query, options);
    // Kernels read heads where they lie, so turning them costs nothing.
    for (node, input) in [(score, 0), (score, 1), (value, 1)] {
        let mut at = (node, input);
        for _ in 0..2 * BETWEEN {
            let Some(source) = graph.source(at.0, at.1) else {
                break;
            };
            let is_alone = graph.sole_reader(source) == Some(at.0);
            match graph.nodes[source].kind.as_str() {
                "Transpose" | "Mul" | "Div" | "QuantizeLinear" | "DequantizeLinear" if is_alone => {
                    nodes.push(source);
                }
                "Reshape" | "Squeeze" | "Unsqueeze" if is_alone => {}
                _ => break,
            }
            at = (source, 0);
        }
    }
    if let Some(reader) = graph.sole_reader(value)
        && graph.nodes[reader].kind == "Transpose"
    {
        nodes.push(reader);
    }
    Some(Found {
        kind: "attention of MatMul, Softmax, MatMul",
        ops: vec![op],
        at: value,
        nodes,
        masked,
    })
}

/// Operators of attention, of ONNX and of ONNX Runtime.
pub(super) const KINDS: [&str; 8] = [
    "Attention",
    "DecoderMaskedMultiHeadAttention",
    "GroupQueryAttention",
    "MultiHeadAttention",
    "PackedAttention",
    "PackedMultiHeadAttention",
    "QAttention",
    ONNX_RUNTIME,
];

/// What projects queries, keys and values in one product before it attends.
const ONNX_RUNTIME: &str = "com.microsoft.Attention";

/// Heads of a node of [`KINDS`], and whether its output has them apart.
fn operands(graph: &Graph, node: &Node) -> Option<Operands> {
    let of = |at: usize| Some(&*graph.input(node, at)?.dims);
    // The cache with the new keys, as the operator gives it back; before them, as it takes it.
    let present = graph.output(node, 1).map(|present| &*present.dims);
    let present = present.and_then(|dims| dims.get(dims.len().checked_sub(2)?).copied());
    let cached = |at: usize, new: u64| {
        let past = of(at).and_then(|dims| dims.get(dims.len().checked_sub(2)?).copied());
        present.unwrap_or_else(|| new.saturating_add(past.unwrap_or(0)))
    };
    let heads = || node.count("num_heads");
    Some(match node.kind.as_str() {
        "Attention" => match (of(0)?, of(1)?, of(2)?) {
            (&[batch, heads, seq_q, head_dim], &[_, kv_heads, new, _], &[.., value_dim]) => Operands {
                batch,
                heads,
                kv_heads,
                seq_q,
                seq_kv: cached(4, new),
                head_dim,
                value_dim,
            },
            (&[batch, seq_q, width], &[_, new, _], &[.., values]) => {
                let (heads, kv_heads) = (node.count("q_num_heads")?, node.count("kv_num_heads")?);
                Operands {
                    batch,
                    heads,
                    kv_heads,
                    seq_q,
                    seq_kv: cached(4, new),
                    head_dim: width / heads,
                    value_dim: values / kv_heads,
                }
            }
            _ => return None,
        },
        "GroupQueryAttention" => {
            let (heads, kv_heads) = (heads()?, node.count("kv_num_heads")?);
            let &[batch, seq_q, width] = of(0)? else {
                return None;
            };
            // Without keys the queries hold them and the values behind their own.
            let (new, head_dim) = match of(1) {
                Some(keys) => (*keys.get(1)?, width / heads),
                None => (seq_q, width / (heads + 2 * kv_heads)),
            };
            Operands::alike(batch, heads, kv_heads, [seq_q, cached(3, new)], head_dim)
        }
        "MultiHeadAttention" | "DecoderMaskedMultiHeadAttention" => {
            let heads = heads()?;
            let (batch, seq_q, head_dim) = match *of(0)? {
                [batch, seq_q, width] => (batch, seq_q, width / heads),
                [batch, seq_q, _, 3, width] => (batch, seq_q, width),
                _ => return None,
            };
            let (new, value_dim) = match (of(1), of(2)) {
                (None, _) => (seq_q, head_dim),
                (Some(&[_, new, _, 2, width]), None) => (new, width),
                (Some(&[_, _, new, _] | &[_, new, _]), Some(&[.., width])) => {
                    let apart = of(2)?.len() == 4;
                    (new, if apart { width } else { width / heads })
                }
                _ => return None,
            };
            let past = if node.kind.starts_with('M') { 6 } else { 5 };
            Operands {
                value_dim,
                ..Operands::alike(batch, heads, heads, [seq_q, cached(past, new)], head_dim)
            }
        }
        ONNX_RUNTIME | "QAttention" => {
            let heads = heads()?;
            let ([batch, seq_q, _], [_, all]) = (of(0)?, of(1)?) else {
                return None;
            };
            let [head_dim, value_dim] = projected(node, *all).map(|width| width / heads);
            let past = if node.kind == ONNX_RUNTIME { 4 } else { 8 };
            let seq = [*seq_q, cached(past, *seq_q)];
            Operands {
                value_dim,
                ..Operands::alike(*batch, heads, heads, seq, head_dim)
            }
        }
        "PackedAttention" => {
            let heads = heads()?;
            let (&[batch, seq], &[_, all]) = (of(3)?, of(1)?) else {
                return None;
            };
            let [head_dim, value_dim] = projected(node, all).map(|width| width / heads);
            Operands {
                value_dim,
                ..Operands::alike(batch, heads, heads, [seq, seq], head_dim)
            }
        }
        "PackedMultiHeadAttention" => {
            let heads = heads()?;
            let &[batch, seq] = of(4)? else {
                return None;
            };
            let head_dim = match *of(0)? {
                [_, width] => width / heads,
                [_, _, 3, width] => width,
                _ => return None,
            };
            let value_dim = match of(2) {
                Some(&[_, width]) => width / heads,
                _ => head_dim,
            };
            Operands {
                value_dim,
                ..Operands::alike(batch, heads, heads, [seq, seq], head_dim)
            }
        }
        _ => return None,
    })
}

/// Widths of the queries and of the values that one product over `all` columns gives.
fn projected(node: &Node, all: u64) -> [u64; 2] {
    match node.ints("qkv_hidden_sizes") {
        Some(&[queries, _, values]) => [queries, values].map(|width| width.max(0).unsigned_abs()),
        _ => [all / 3; 2],
    }
}

/// The shape of the output of a node of [`KINDS`].
pub(super) fn output(graph: &Graph, node: &Node) -> Option<Vec<u64>> {
    let found = operands(graph, node)?;
    let query = &*graph.input(node, 0)?.dims;
    let width = found.heads.checked_mul(found.value_dim)?;
    Some(match (node.kind.as_str(), query) {
        ("Attention", [_, _, _, _]) => {
            vec![found.batch, found.heads, found.seq_q, found.value_dim]
        }
        ("PackedAttention" | "PackedMultiHeadAttention", [tokens, ..]) => vec![*tokens, width],
        _ => vec![found.batch, found.seq_q, width],
    })
}

/// An operator of its own, with the product before it where it has one.
fn one_operator(graph: &Graph, at: usize, options: &Options) -> Option<Found> {
    let node = &graph.nodes[at];
    let kind = KINDS.into_iter().find(|kind| *kind == node.kind)?;
    let found = operands(graph, node)?;
    // Where an added mask is, and what says that queries see no keys behind them.
    let (mask, causal) = match kind {
        "Attention" => (Some(3), node.int("is_causal") == Some(1)),
        "GroupQueryAttention" => (None, true),
        "MultiHeadAttention" => (Some(4), node.int("unidirectional") == Some(1)),
        ONNX_RUNTIME => (Some(5), node.int("unidirectional") == Some(1)),
        _ => (None, node.int("unidirectional") == Some(1)),
    };
    let masked = mask.is_some_and(|mask| node.input(mask).is_some());
    let causal = causal || masked && options.causal;
    let is_quantized = kind == "QAttention";
    let float = graph.input(node, if is_quantized { 3 } else { 0 })?;
    let attention = found.op(causal, float, options);
    let mut ops = Vec::new();
    if matches!(kind, ONNX_RUNTIME | "QAttention" | "PackedAttention") {
        let (input, weights) = (graph.input(node, 0)?, graph.input(node, 1)?);
        let &[k, n] = &*weights.dims else {
            return None;
        };
        let dtype = if is_quantized {
            Dtype::Int8
        } else {
            attention.dtype().unwrap_or_default()
        };
        ops.push(Op::Gemm(Gemm {
            dtype,
            ..Gemm::new(input.elements().checked_div(k)?, n, k)
        }));
    }
    ops.push(attention);
    Some(Found {
        kind,
        ops,
        at,
        nodes: vec![at],
        masked: masked && !causal,
    })
}
