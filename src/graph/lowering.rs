//! From nodes of a graph to operators.
//!
//! Element-wise nodes run in one kernel with the element-wise node, norm or softmax that alone reads them, and a bias in
//! the epilogue of its GEMM, as compilers of graphs fuse them. Views and arithmetic on shapes cost nothing.

use super::attention;
use super::onnx::{Graph, Node, Tensor};
use super::{Listing, Options, checked};
use crate::error::{Error, Result};
use crate::ops::{Dtype, Gemm, Layout, Memory, MemoryKind, Op};
use std::collections::{HashMap, HashSet};

/// What combines two tensors element by element.
pub(super) fn is_pairwise(kind: &str) -> bool {
    const KINDS: [&str; 15] = [
        "Add",
        "And",
        "BiasGelu",
        "Div",
        "Equal",
        "Greater",
        "GreaterOrEqual",
        "Less",
        "LessOrEqual",
        "Max",
        "Min",
        "Mul",
        "Or",
        "Pow",
        "Sub",
    ];
    KINDS.contains(&kind)
}

/// Functions of one tensor, element by element.
fn is_unary(kind: &str) -> bool {
    const KINDS: [&str; 34] = [
        "Abs",
        "Cast",
        "Ceil",
        "Celu",
        "Clip",
        "Cos",
        "Elu",
        "Erf",
        "Exp",
        "FastGelu",
        "Floor",
        "Gelu",
        "HardSigmoid",
        "HardSwish",
        "IsNaN",
        "LeakyRelu",
        "Log",
        "Mish",
        "Neg",
        "Not",
        "QuickGelu",
        "Reciprocal",
        "Relu",
        "Round",
        "Sigmoid",
        "Sign",
        "Sin",
        "Softplus",
        "Softsign",
        "Sqrt",
        "Swish",
        "Tanh",
        "ThresholdedRelu",
        "Trunc",
    ];
    KINDS.contains(&kind)
}

/// What is called an activation function.
fn is_activation(kind: &str) -> bool {
    const KINDS: [&str; 16] = [
        "BiasGelu",
        "Celu",
        "Elu",
        "Erf",
        "FastGelu",
        "Gelu",
        "HardSigmoid",
        "HardSwish",
        "LeakyRelu",
        "Mish",
        "QuickGelu",
        "Relu",
        "Sigmoid",
        "Softplus",
        "Swish",
        "Tanh",
    ];
    KINDS.contains(&kind)
}

/// Norms of rows, with the kernel that computes them.
fn norm(kind: &str) -> Option<MemoryKind> {
    match kind {
        "LayerNormalization" | "SkipLayerNormalization" => Some(MemoryKind::LayerNorm),
        "RMSNormalization"
        | "SimplifiedLayerNormalization"
        | "SkipSimplifiedLayerNormalization" => Some(MemoryKind::RmsNorm),
        _ => None,
    }
}

/// What moves no data or is not run when a model answers.
fn is_view(kind: &str) -> bool {
    const KINDS: [&str; 14] = [
        "Constant",
        "ConstantOfShape",
        "Dropout",
        "Expand",
        "Flatten",
        "Identity",
        "Range",
        "Reshape",
        "Shape",
        "Size",
        "Split",
        "Squeeze",
        "Trilu",
        "Unsqueeze",
    ];
    KINDS.contains(&kind)
}

fn is_reduction(kind: &str) -> bool {
    kind.starts_with("Reduce")
}

/// Whether the output has the shape of the first input.
pub(super) fn keeps_shape(kind: &str) -> bool {
    const KINDS: [&str; 8] = [
        "CumSum",
        "Dropout",
        "Identity",
        "LogSoftmax",
        "RotaryEmbedding",
        "ScatterND",
        "Softmax",
        "Trilu",
    ];
    is_unary(kind) || norm(kind).is_some() || KINDS.contains(&kind)
}

fn is_elementwise(kind: &str) -> bool {
    is_unary(kind) || is_pairwise(kind) || kind == "Where"
}

/// Every operator of a graph.
pub(super) fn lowered(graph: &Graph, options: &Options, place: &str) -> Result<Listing> {
    let mut lowering = Lowering {
        graph,
        options,
        listing: Listing::default(),
    };
    // The nodes that a kernel of attention takes in are not seen one by one.
    let found = attention::found(graph, options);
    let masked = found.iter().filter(|found| found.masked).count();
    let taken_in: HashSet<usize> = found
        .iter()
        .flat_map(|found| found.nodes.iter().copied())
        .collect();
    let found: HashMap<usize, _> = found.into_iter().map(|found| (found.at, found)).collect();
    for at in 0..graph.nodes.len() {
        if let Some(found) = found.get(&at) {
            match checked(found.op) {
                Ok(op) => lowering.listing.add(found.kind, op, 1),
                Err(reason) => lowering.listing.leave(found.kind, &reason),
            }
        } else if taken_in.contains(&at) {
            lowering.listing.fused += 1;
        } else {
            lowering.node(at);
        }
    }
    let mut listing = lowering.listing;
    if listing.items.is_empty() {
        let kinds: Vec<_> = listing
            .unknown
            .iter()
            .map(|unknown| &*unknown.kind)
            .collect();
        return Err(Error::infeasible(format!(
            "{place}: no node of the graph can be timed; what it has: {}",
            kinds.join(", ")
        )));
    }
    if masked > 0 && !options.causal {
        listing.notes.push(format!(
            "{masked} attentions add a mask that the graph computes, so all of it is timed; `causal` says that it hides what follows a query"
        ));
    }
    if options.dtype.is_none()
        && listing
            .items
            .iter()
            .all(|item| matches!(item.op.dtype(), None | Some(Dtype::Fp32)))
    {
        let note = "the graph is in fp32, as exporters write it, and timed so; a `dtype` such as bf16 times it as it may be served";
        listing.notes.push(note.to_owned());
    }
    Ok(listing)
}

struct Lowering<'a> {
    graph: &'a Graph,
    options: &'a Options,
    listing: Listing,
}

impl Lowering<'_> {
    fn node(&mut self, at: usize) {
        let graph = self.graph;
        let node = &graph.nodes[at];
        let kind = node.kind.as_str();
        let is_constant = node
            .outputs
            .iter()
            .all(|name| graph.constants.contains(name));
        if is_view(kind) || is_constant {
            self.listing.free += 1;
            return;
        }
        if node.has_graphs() {
            self.listing.leave(
                kind,
                "it holds graphs of its own, of which it is not known how often they run",
            );
            return;
        }
        let Some(output) = graph.output(node, 0) else {
            let is_known = is_elementwise(kind)
                || norm(kind).is_some()
                || is_reduction(kind)
                || self.is_known(kind);
            let reason = if is_known {
                "its shape does not follow: export the graph with shapes (onnx.shape_inference)"
            } else {
                "this operator is not timed"
            };
            self.listing.leave(kind, reason);
            return;
        };
        // Whole numbers are shapes, indices and masks.
        if output.dtype().is_none() {
            self.listing.free += 1;
            return;
        }
        if self.is_fused(at) {
            self.listing.fused += 1;
            return;
        }
        match self.op(node, output) {
            Some(Ok(op)) => self.listing.add(kind, op, 1),
            Some(Err(reason)) => self.listing.leave(kind, &reason),
            None => self.listing.leave(kind, "this operator is not timed"),
        }
    }

    fn is_known(&self, kind: &str) -> bool {
        const KINDS: [&str; 9] = [
            "Concat",
            "Gather",
            "Gemm",
            "MatMul",
            "Pad",
            "RotaryEmbedding",
            "Slice",
            "Softmax",
            "Transpose",
        ];
        KINDS.contains(&kind)
    }

    /// Whether a node runs in the kernel of another.
    fn is_fused(&self, at: usize) -> bool {
        let graph = self.graph;
        let node = &graph.nodes[at];
        if !is_elementwise(&node.kind) {
            return false;
        }
        let is_bias = |name: &String| {
            let rank = graph.tensors.get(name).map(|tensor| tensor.dims.len());
            graph.constants.contains(name) && rank.is_some_and(|rank| rank <= 1)
        };
        let after_gemm = (0..node.inputs.len()).any(|input| {
            graph.source(at, input).is_some_and(|source| {
                matches!(&*graph.nodes[source].kind, "MatMul" | "Gemm")
                    && graph.sole_reader(source) == Some(at)
            })
        });
        if node.kind == "Cast"
            || node.kind == "Add" && after_gemm && node.inputs.iter().any(is_bias)
        {
            return true;
        }
        graph.sole_reader(at).is_some_and(|reader| {
            let kind = graph.nodes[reader].kind.as_str();
            is_elementwise(kind) || is_reduction(kind) || norm(kind).is_some() || kind == "Softmax"
        })
    }

    /// The operator of a node; none where its type is not known.
    fn op(&self, node: &Node, output: &Tensor) -> Option<std::result::Result<Op, String>> {
        let graph = self.graph;
        let shape_of = |at: usize| {
            graph
                .input(node, at)
                .ok_or_else(|| "the shape of an input does not follow".to_owned())
        };
        let memory = |kind: MemoryKind, tensor: &Tensor| {
            let cols = tensor.dims.last().copied().unwrap_or(1).max(1);
            let rows = tensor.elements() / cols;
            checked(Op::Memory(Memory::forward(
                kind,
                rows,
                cols,
                self.dtype(tensor),
            )))
        };
        let kind = node.kind.as_str();
        Some(match kind {
            "MatMul" => shape_of(0).and_then(|a| self.product(node, a, shape_of(1)?, false)),
            "Gemm" => shape_of(0).and_then(|a| self.product(node, a, shape_of(1)?, true)),
            "Softmax" | "LogSoftmax" => memory(MemoryKind::Softmax, output),
            "RotaryEmbedding" => memory(MemoryKind::Rotary, output),
            "Gather" | "EmbedLayerNormalization" => {
                let is_table = node
                    .input(0)
                    .is_some_and(|name| graph.constants.contains(name));
                let kind = if is_table {
                    MemoryKind::Embedding
                } else {
                    MemoryKind::Copy
                };
                memory(kind, output)
            }
            "Transpose" => memory(MemoryKind::Permute, output),
            "Concat" | "Slice" | "Pad" | "Tile" | "ScatterND" | "CumSum" => {
                memory(MemoryKind::Copy, output)
            }
            "SkipLayerNormalization" | "SkipSimplifiedLayerNormalization" => {
                memory(MemoryKind::Add, output)
            }
            _ if norm(kind).is_some() => memory(norm(kind)?, output),
            _ if is_reduction(kind) => {
                shape_of(0).and_then(|input| memory(MemoryKind::Copy, input))
            }
            _ if is_activation(kind) => memory(MemoryKind::Gelu, output),
            _ if is_elementwise(kind) => {
                let whole = |name: &&String| {
                    let dims = graph.tensors.get(*name).map(|tensor| &tensor.dims);
                    !graph.constants.contains(*name) && dims == Some(&output.dims)
                };
                let two = node.inputs.iter().filter(whole).count() >= 2;
                memory(
                    if two {
                        MemoryKind::Add
                    } else {
                        MemoryKind::Copy
                    },
                    output,
                )
            }
            _ => return None,
        })
    }

    fn dtype(&self, tensor: &Tensor) -> Dtype {
        let own = tensor.dtype().unwrap_or_default();
        self.options.dtype.unwrap_or(own)
    }

    /// A product of two tensors; weights are shared by all rows, so these are one GEMM.
    fn product(
        &self,
        node: &Node,
        a: &Tensor,
        b: &Tensor,
        turns: bool,
    ) -> std::result::Result<Op, String> {
        let turned = |name: &str| turns && node.int(name) == Some(1);
        let ([left @ .., m, k], [right @ .., inner, n]) = (&*a.dims, &*b.dims) else {
            return Err("it multiplies a vector, which is not timed".to_owned());
        };
        let (m, k) = if turned("transA") { (k, m) } else { (m, k) };
        let (inner, n) = if turned("transB") {
            (n, inner)
        } else {
            (inner, n)
        };
        if k != inner {
            return Err(format!(
                "its operands do not fit: {k} columns and {inner} rows"
            ));
        }
        let rows: u64 = left.iter().product();
        let others: u64 = right.iter().product();
        let is_weight = node
            .input(1)
            .is_some_and(|name| self.graph.constants.contains(name));
        let (batch, m) = if others == 1 {
            (1, rows * m)
        } else {
            (rows.max(others), *m)
        };
        let dtype = self.dtype(a);
        checked(Op::Gemm(Gemm {
            batch,
            // Weights are packed as linear layers keep them, whatever the graph states.
            layout: if is_weight { Layout::Tn } else { Layout::Nn },
            dtype,
            ..Gemm::new(m, *n, *k)
        }))
    }
}
