//! From nodes of a graph to operators.
//!
//! Element-wise nodes run in one kernel with the element-wise node, norm or softmax that alone reads them, and a bias in
//! the epilogue of its GEMM, as compilers of graphs fuse them. Views and arithmetic on shapes cost nothing.

use super::attention;
use super::onnx::{Graph, Node, Tensor};
use super::{Listing, Options, checked};
use crate::error::{Error, Result};
use crate::ops::{Dtype, Gemm, Layout, Memory, MemoryKind, Op};
use rten_onnx::onnx::DataType;
use std::collections::{HashMap, HashSet};

/// Whole numbers of four bits, as ONNX numbers them.
const UINT4: DataType = DataType(21);
const INT4: DataType = DataType(22);

/// Whether a list of kinds, with spaces between them, has this one.
fn lists(kinds: &str, kind: &str) -> bool {
    kinds.split(' ').any(|known| known == kind)
}

/// What combines two tensors element by element.
pub(super) fn is_pairwise(kind: &str) -> bool {
    const KINDS: &str = "Add And BiasAdd BiasGelu Div Equal Greater GreaterOrEqual Less LessOrEqual Max Min Mul Or Pow \
        Sub";
    lists(KINDS, kind)
}

/// Products of two tensors: which input the second one is, and whether both are of 8-bit integers.
const PRODUCTS: [(&str, usize, bool); 11] = [
    ("DynamicQuantizeMatMul", 1, true),
    ("FusedGemm", 1, false),
    ("FusedMatMul", 1, false),
    ("Gemm", 1, false),
    ("GemmFastGelu", 1, false),
    ("MatMul", 1, false),
    ("MatMulInteger", 1, true),
    ("MatMulIntegerToFloat", 1, true),
    ("QGemm", 3, true),
    ("QLinearMatMul", 3, true),
    ("TransposeMatMul", 1, false),
];

fn product(kind: &str) -> Option<(usize, bool)> {
    let mut products = PRODUCTS.iter();
    let found = products.find(|(name, _, _)| *name == kind);
    found.map(|(_, second, integers)| (*second, *integers))
}

/// Products of inputs in 16 bits and of weights in fewer, whose sizes are attributes.
pub(super) fn packs_weights(kind: &str) -> bool {
    matches!(kind, "MatMulNBits" | "MatMulBnb4")
}

/// Both tensors of a product as they multiply, turned where attributes say so: `[.., m, k]` and `[.., k, n]`.
pub(super) fn factors(graph: &Graph, node: &Node) -> Option<[Vec<u64>; 2]> {
    let (second, _) = product(&node.kind)?;
    let factor = |input: usize, turns: &str| {
        let mut dims = graph.input(node, input)?.dims.clone();
        if node.int(turns) == Some(1) {
            let end = dims.len().checked_sub(2)?;
            dims[end..].reverse();
        }
        Some(dims)
    };
    Some([factor(0, "transA")?, factor(second, "transB")?])
}

/// Whether whole numbers are what a node computes with, not shapes, indices or masks.
fn computes_integers(kind: &str) -> bool {
    product(kind).is_some()
        || kind.starts_with("QLinear")
        || kind.contains("Integer")
        || matches!(kind, "QuantizeLinear" | "DynamicQuantizeLinear")
}

/// Functions of one tensor, element by element.
fn is_unary(kind: &str) -> bool {
    const KINDS: &str = "Abs Cast Ceil Celu Clip Cos DequantizeLinear Elu Erf Exp FastGelu Floor Gelu HardSigmoid \
        HardSwish IsNaN LeakyRelu Log Mish Neg Not QuantizeLinear QuickGelu Reciprocal Relu Round \
        Sigmoid Sign Sin Softplus Softsign Sqrt Swish Tanh ThresholdedRelu Trunc";
    lists(KINDS, kind)
}

/// What is called an activation function.
fn is_activation(kind: &str) -> bool {
    const KINDS: &str = "BiasGelu BiasSplitGelu Celu Elu Erf FastGelu Gelu HardSigmoid HardSwish LeakyRelu Mish \
        QuickGelu Relu Sigmoid Softplus Swish Tanh";
    lists(KINDS, kind)
}

/// Norms of rows, with the kernel that computes them.
fn norm(kind: &str) -> Option<MemoryKind> {
    match kind {
        "LayerNormalization" | "SkipLayerNormalization" => Some(MemoryKind::LayerNorm),
        "RMSNormalization" | "SimplifiedLayerNormalization" | "SkipSimplifiedLayerNormalization" => {
            Some(MemoryKind::RmsNorm)
        }
        _ => None,
    }
}

/// What moves no data or is not run when a model answers.
fn is_view(kind: &str) -> bool {
    const KINDS: &str = "Constant ConstantOfShape Dropout Expand Flatten Identity Range Reshape Shape Size Split Squeeze \
        Trilu Unsqueeze";
    lists(KINDS, kind)
}

fn is_reduction(kind: &str) -> bool {
    kind.starts_with("Reduce")
}

/// Whether the output has the shape of the first input.
pub(super) fn keeps_shape(kind: &str) -> bool {
    const KINDS: &str = "BiasSoftmax CumSum Dropout DynamicQuantizeLinear Identity LogSoftmax RotaryEmbedding ScatterND \
        Softmax Trilu";
    is_unary(kind) || norm(kind).is_some() || lists(KINDS, kind)
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
    let taken_in: HashSet<usize> = found.iter().flat_map(|found| found.nodes.iter().copied()).collect();
    let found: HashMap<usize, _> = found.into_iter().map(|found| (found.at, found)).collect();
    for at in 0..graph.nodes.len() {
        if let Some(found) = found.get(&at) {
            let ops: std::result::Result<Vec<_>, _> = found.ops.iter().map(|op| checked(*op)).collect();
            match ops {
                Ok(ops) => ops.into_iter().for_each(|op| lowering.listing.add(found.kind, op, 1)),
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
        let kinds: Vec<_> = listing.unknown.iter().map(|unknown| &*unknown.kind).collect();
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
            .all(|name| name.is_empty() || graph.constants.contains(name));
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
            let is_known = is_elementwise(kind) || norm(kind).is_some() || is_reduction(kind) || self.is_known(kind);
            let reason = if is_known {
                "its shape does not follow: export the graph with shapes (onnx.shape_inference)"
            } else {
                "this operator is not timed"
            };
            self.listing.leave(kind, reason);
            return;
        };
        // Arithmetic on the scales of tensors.
        if is_elementwise(kind) && output.elements() == 1 {
            self.listing.free += 1;
            return;
        }
        // Whole numbers are shapes, indices and masks.
        if output.dtype().is_none() && !computes_integers(kind) {
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
            "BiasSoftmax",
            "Concat",
            "EmbedLayerNormalization",
            "Gather",
            "Pad",
            "RotaryEmbedding",
            "Slice",
            "Softmax",
            "Transpose",
        ];
        KINDS.contains(&kind) || attention::KINDS.contains(&kind) || product(kind).is_some() || packs_weights(kind)
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
                product(&graph.nodes[source].kind).is_some() && graph.sole_reader(source) == Some(at)
            })
        });
        if matches!(&*node.kind, "Cast" | "QuantizeLinear" | "DequantizeLinear")
            || node.kind == "Add" && after_gemm && node.inputs.iter().any(is_bias)
        {
            return true;
        }
        graph.sole_reader(at).is_some_and(|reader| {
            let kind = graph.nodes[reader].kind.as_str();
            is_elementwise(kind) || is_reduction(kind) || norm(kind).is_some() || kind == "Softmax"
        })
    }

    /// The operator of a node; `None` if its type is not known.
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
            checked(Op::Memory(Memory::forward(kind, rows, cols, self.dtype(tensor))))
        };
        let kind = node.kind.as_str();
        Some(match kind {
            _ if product(kind).is_some() => self.product(node),
            _ if packs_weights(kind) => shape_of(0).and_then(|a| {
                let sizes = node.count("N").zip(node.count("K"));
                let (n, k) = sizes.ok_or_else(|| "its attributes N and K are absent".to_owned())?;
                let dtype = match node.count("bits").unwrap_or(4) {
                    ..=4 => Dtype::W4a16,
                    _ => Dtype::W8a16,
                };
                checked(Op::Gemm(Gemm {
                    dtype,
                    ..Gemm::new(a.elements() / k, n, k)
                }))
            }),
            "DynamicQuantizeLinear" => shape_of(0).and_then(|input| memory(MemoryKind::Copy, input)),
            "Softmax" | "LogSoftmax" | "BiasSoftmax" => memory(MemoryKind::Softmax, output),
            "RotaryEmbedding" => memory(MemoryKind::Rotary, output),
            "EmbedLayerNormalization" => memory(MemoryKind::Embedding, output),
            "Gather" => {
                let is_table = node.input(0).is_some_and(|name| graph.constants.contains(name));
                let kind = if is_table {
                    MemoryKind::Embedding
                } else {
                    MemoryKind::Copy
                };
                memory(kind, output)
            }
            "Transpose" => memory(MemoryKind::Permute, output),
            "Concat" | "Slice" | "Pad" | "Tile" | "ScatterND" | "CumSum" => memory(MemoryKind::Copy, output),
            "SkipLayerNormalization" | "SkipSimplifiedLayerNormalization" => memory(MemoryKind::Add, output),
            _ if norm(kind).is_some() => memory(norm(kind)?, output),
            _ if is_reduction(kind) => shape_of(0).and_then(|input| memory(MemoryKind::Copy, input)),
            _ if is_activation(kind) => memory(MemoryKind::Gelu, output),
            _ if is_elementwise(kind) => {
                let whole = |name: &&String| {
                    let dims = graph.tensors.get(*name).map(|tensor| &tensor.dims);
                    !graph.constants.contains(*name) && dims == Some(&output.dims)
                };
                let two = node.inputs.iter().filter(whole).count() >= 2;
                memory(if two { MemoryKind::Add } else { MemoryKind::Copy }, output)
            }
            _ => return None,
        })
    }

    fn dtype(&self, tensor: &Tensor) -> Dtype {
        let own = tensor.dtype().unwrap_or_default();
        self.options.dtype.unwrap_or(own)
    }

    /// The number format of a product: that of integers where its factors were quantized, also by nodes of their own.
    fn format(&self, node: &Node, second: usize, integers: bool) -> Dtype {
        let quantized = |input: usize| {
            let source = self.graph.writer.get(node.input(input)?)?;
            let source = &self.graph.nodes[*source];
            let stored = self.graph.input(source, 0)?.element;
            (source.kind == "DequantizeLinear").then_some(stored)
        };
        match (quantized(0), quantized(second)) {
            _ if integers => Dtype::Int8,
            (Some(DataType::INT8 | DataType::UINT8), Some(DataType::INT8 | DataType::UINT8)) => Dtype::Int8,
            (None, Some(DataType::INT8 | DataType::UINT8)) => Dtype::W8a16,
            (None, Some(UINT4 | INT4)) => Dtype::W4a16,
            _ => {
                let float = self.graph.input(node, 0);
                float.map_or(Dtype::default(), |float| self.dtype(float))
            }
        }
    }

    /// A product of two tensors; weights are shared by all rows, so these are one GEMM.
    fn product(&self, node: &Node) -> std::result::Result<Op, String> {
        if node.int("transBatchA") == Some(1) || node.int("transBatchB") == Some(1) {
            return Err("it turns batches, which is not timed".to_owned());
        }
        let factors = factors(self.graph, node);
        let [a, b] = factors.ok_or_else(|| "the shape of an input does not follow".to_owned())?;
        let ([left @ .., m, k], [right @ .., inner, n]) = (&*a, &*b) else {
            return Err("it multiplies a vector, which is not timed".to_owned());
        };
        if k != inner {
            return Err(format!("its operands do not fit: {k} columns and {inner} rows"));
        }
        let rows: u64 = left.iter().product();
        let others: u64 = right.iter().product();
        let (second, integers) = product(&node.kind).expect("it is a product");
        let is_weight = node
            .input(second)
            .is_some_and(|name| self.graph.constants.contains(name));
        let (batch, m) = if others == 1 {
            (1, rows * m)
        } else {
            (rows.max(others), *m)
        };
        let dtype = self.format(node, second, integers);
        checked(Op::Gemm(Gemm {
            batch,
            // Weights are packed as linear layers keep them, whatever the graph states.
            layout: if is_weight { Layout::Tn } else { Layout::Nn },
            dtype,
            ..Gemm::new(m, *n, *k)
        }))
    }
}
