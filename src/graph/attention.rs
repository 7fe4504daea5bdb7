//! Attention in a graph: an operator of its own, or two products with a softmax between them.

use super::Options;
use super::onnx::{Graph, Node, Tensor};
use crate::ops::{Attention, Op};

/// An attention and the nodes that its kernel takes in.
pub(super) struct Found {
    pub kind: &'static str,
    pub op: Op,
    /// The node that stands for it.
    pub at: usize,
    pub nodes: Vec<usize>,
    /// Whether the graph adds a mask of its own to the scores.
    pub masked: bool,
}

/// The most nodes between a product and its softmax: scale, mask, casts, a cap of the scores.
const BETWEEN: usize = 8;

/// Every attention of a graph.
pub(super) fn found(graph: &Graph, options: &Options) -> Vec<Found> {
    let nodes = 0..graph.nodes.len();
    nodes
        .filter_map(|at| match graph.nodes[at].kind.as_str() {
            "Softmax" => around_softmax(graph, at, options),
            "Attention" => one_operator(graph, at, options),
            "MultiHeadAttention" | "GroupQueryAttention" => of_onnx_runtime(graph, at, options),
            _ => None,
        })
        .collect()
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
    fn op(self, causal: bool, of: &Tensor, options: &Options) -> Op {
        Op::Attention(Attention {
            kv_heads: self.kv_heads,
            seq_kv: self.seq_kv,
            value_dim: self.value_dim,
            // Causal queries see the keys before them, of which there are at least as many.
            causal: causal && self.seq_kv >= self.seq_q,
            dtype: options
                .dtype
                .unwrap_or_else(|| of.dtype().unwrap_or_default()),
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
                matches!(
                    kind,
                    "MatMul" | "Add" | "Mul" | "Div" | "Sub" | "Where" | "Cast" | "Tanh" | "Max"
                ) && graph.output(&graph.nodes[*source], 0).map(Tensor::elements)
                    == graph.output(&graph.nodes[softmax], 0).map(Tensor::elements)
            })?;
        nodes.push(source);
        match graph.nodes[source].kind.as_str() {
            "MatMul" => break source,
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
        let reader = graph.sole_reader(at)?;
        nodes.push(reader);
        match graph.nodes[reader].kind.as_str() {
            "MatMul"
                if graph.nodes[reader].input(0)
                    == graph.nodes[at].outputs.first().map(String::as_str) =>
            {
                break reader;
            }
            "Cast" | "Dropout" | "Identity" => at = reader,
            _ => return None,
        }
    };
    let (query, keys) = (
        graph.input(&graph.nodes[score], 0)?,
        graph.input(&graph.nodes[score], 1)?,
    );
    let values = graph.input(&graph.nodes[value], 1)?;
    let ([left @ .., seq_q, head_dim], [.., seq_kv, value_dim]) = (&*query.dims, &*values.dims)
    else {
        return None;
    };
    let (batch, heads) = match left {
        [] => (1, 1),
        [all] => (1, *all),
        [batch, heads @ ..] => (*batch, heads.iter().product()),
    };
    let shared: u64 = keys.dims[..keys.dims.len().checked_sub(2)?]
        .iter()
        .product();
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
        while let Some(source) = graph.source(at.0, at.1) {
            let kind = graph.nodes[source].kind.as_str();
            let is_alone = graph.sole_reader(source) == Some(at.0);
            if !is_alone
                || !matches!(kind, "Transpose" | "Mul" | "Div")
                || nodes.len() > 2 * BETWEEN
            {
                break;
            }
            nodes.push(source);
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
        op,
        at: value,
        nodes,
        masked,
    })
}

/// `Attention` of ONNX 23.
fn one_operator(graph: &Graph, at: usize, options: &Options) -> Option<Found> {
    let node = &graph.nodes[at];
    let [query, keys, values] = [0, 1, 2].map(|input| graph.input(node, input));
    let (query, keys, values) = (query?, keys?, values?);
    let past = graph
        .input(node, 4)
        .and_then(|past| past.dims.get(2).copied())
        .unwrap_or(0);
    let operands = match (&*query.dims, &*keys.dims, &*values.dims) {
        ([batch, heads, seq_q, head_dim], [_, kv_heads, seq_kv, _], [.., value_dim]) => Operands {
            batch: *batch,
            heads: *heads,
            kv_heads: *kv_heads,
            seq_q: *seq_q,
            seq_kv: seq_kv + past,
            head_dim: *head_dim,
            value_dim: *value_dim,
        },
        ([batch, seq_q, width], [_, seq_kv, _], [.., values]) => {
            let (heads, kv_heads) = (node.count("q_num_heads")?, node.count("kv_num_heads")?);
            Operands {
                batch: *batch,
                heads,
                kv_heads,
                seq_q: *seq_q,
                seq_kv: seq_kv + past,
                head_dim: width / heads,
                value_dim: values / kv_heads,
            }
        }
        _ => return None,
    };
    let masked = node.input(3).is_some();
    let causal = node.int("is_causal") == Some(1) || masked && options.causal;
    Some(alone(
        "Attention",
        at,
        operands.op(causal, query, options),
        masked && !causal,
    ))
}

/// Fused attention of ONNX Runtime, with queries, keys and values apart.
fn of_onnx_runtime(graph: &Graph, at: usize, options: &Options) -> Option<Found> {
    let node = &graph.nodes[at];
    let (query, keys) = (graph.input(node, 0)?, graph.input(node, 1)?);
    let heads = node.count("num_heads")?;
    let grouped = node.kind == "GroupQueryAttention";
    let kv_heads = if grouped {
        node.count("kv_num_heads")?
    } else {
        heads
    };
    let ([batch, seq_q, width], [_, seq_kv, _]) = (&*query.dims, &*keys.dims) else {
        return None;
    };
    // The cache with the new keys, as the operator gives it back; before them, as it takes it.
    let present = graph
        .output(node, 1)
        .and_then(|present| present.dims.get(2).copied());
    let past = graph.input(node, if grouped { 3 } else { 6 });
    let past = past.and_then(|past| past.dims.get(2).copied()).unwrap_or(0);
    let head_dim = width / heads;
    let operands = Operands {
        batch: *batch,
        heads,
        kv_heads,
        seq_q: *seq_q,
        seq_kv: present.unwrap_or(seq_kv + past),
        head_dim,
        value_dim: head_dim,
    };
    let masked = !grouped && node.input(4).is_some();
    let causal = grouped || node.int("unidirectional") == Some(1) || masked && options.causal;
    Some(alone(
        name_of(node),
        at,
        operands.op(causal, query, options),
        masked && !causal,
    ))
}

fn name_of(node: &Node) -> &'static str {
    match node.kind.as_str() {
        "GroupQueryAttention" => "GroupQueryAttention",
        _ => "MultiHeadAttention",
    }
}

fn alone(kind: &'static str, at: usize, op: Op, masked: bool) -> Found {
    Found {
        kind,
        op,
        at,
        nodes: vec![at],
        masked,
    }
}
