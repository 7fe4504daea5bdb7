//! The parts of an ONNX file that operators follow from: nodes, shapes, and the few numbers that shapes are made of.

use super::{Options, shapes, wire};
use crate::error::{Error, Result};
use crate::ops::Dtype;
use rten_onnx::onnx::{AttributeProto, DataType, ModelProto, NodeProto, TensorProto, ValueInfoProto};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Display;

/// The largest message that the format allows.
pub(super) const MOST_BYTES: u64 = 2 << 30;

/// Tensors of whole numbers up to this length are read: they may be shapes, axes or indices.
const MOST_NUMBERS: usize = 256;

/// The most dimensions, and elements, of a tensor: where there are more, its shape counts as unknown.
const MOST_DIMENSIONS: usize = 32;
const MOST_ELEMENTS: u64 = 1 << 48;

/// What is known of a tensor.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tensor {
    pub dims: Vec<u64>,
    /// Type of its elements, as ONNX numbers them.
    pub element: DataType,
}

impl Tensor {
    /// How many elements it has.
    pub fn elements(&self) -> u64 {
        self.dims.iter().fold(1, |product, dim| product.saturating_mul(*dim))
    }

    /// Whether it is no larger than any machine: products of its sizes can be formed.
    fn is_possible(&self) -> bool {
        let mut sizes = self.dims.iter().map(|dim| (*dim).max(1));
        let elements = sizes.try_fold(1, |product: u64, dim| product.checked_mul(dim));
        self.dims.len() <= MOST_DIMENSIONS && elements.is_some_and(|all| all <= MOST_ELEMENTS)
    }

    /// The number format of its elements; `None` if they are no floating-point numbers that kernels multiply.
    pub fn dtype(&self) -> Option<Dtype> {
        match self.element {
            DataType::FLOAT => Some(Dtype::Fp32),
            DataType::FLOAT16 => Some(Dtype::Fp16),
            DataType::BFLOAT16 => Some(Dtype::Bf16),
            DataType::FLOAT8E4M3FN | DataType::FLOAT8E5M2 => Some(Dtype::Fp8),
            _ => None,
        }
    }
}

/// A node with its attributes by name.
#[derive(Debug)]
pub(super) struct Node {
    pub kind: String,
    pub inputs: Vec<String>,
    pub outputs: Vec<String>,
    attributes: HashMap<String, AttributeProto>,
}

impl Node {
    fn new(node: NodeProto) -> Self {
        let attributes = node.attribute.into_iter();
        let kind = node.op_type.unwrap_or_default();
        let domain = node.domain.unwrap_or_default();
        // Fused attention is another operator in either domain; what else ONNX Runtime adds has a name of its own.
        let is_usual = matches!(&*domain, "" | "ai.onnx") || domain == "com.microsoft" && kind != "Attention";
        Self {
            kind: if is_usual { kind } else { format!("{domain}.{kind}") },
            inputs: node.input,
            outputs: node.output,
            attributes: attributes
                .filter_map(|attribute| Some((attribute.name.clone()?, attribute)))
                .collect(),
        }
    }

    /// A whole number.
    pub fn int(&self, name: &str) -> Option<i64> {
        self.attributes.get(name)?.i
    }

    /// A whole number above zero.
    pub fn count(&self, name: &str) -> Option<u64> {
        let count = self.int(name).and_then(|count| u64::try_from(count).ok());
        count.filter(|count| *count > 0)
    }

    /// A list of whole numbers.
    pub fn ints(&self, name: &str) -> Option<&[i64]> {
        Some(&self.attributes.get(name)?.ints)
    }

    /// The tensor of a constant.
    pub fn tensor(&self, name: &str) -> Option<&TensorProto> {
        self.attributes.get(name)?.t.as_ref()
    }

    /// Whether it holds graphs of its own, as branches and loops do.
    pub fn has_graphs(&self) -> bool {
        self.attributes.values().any(|attribute| attribute.g.is_some())
    }

    /// The name of an input; `None` if it is left out.
    pub fn input(&self, at: usize) -> Option<&str> {
        self.inputs.get(at).map(String::as_str).filter(|name| !name.is_empty())
    }
}

/// A graph whose shapes are known as far as they follow.
#[derive(Debug, Default)]
pub(super) struct Graph {
    pub nodes: Vec<Node>,
    pub tensors: HashMap<String, Tensor>,
    /// Short tensors of whole numbers whose content is known.
    pub numbers: HashMap<String, Vec<i64>>,
    /// Weights and constants.
    pub constants: HashSet<String>,
    /// The nodes that read a tensor.
    pub readers: HashMap<String, Vec<usize>>,
    /// The node that writes a tensor.
    pub writer: HashMap<String, usize>,
    /// What the graph gives back.
    pub outputs: HashSet<String>,
}

impl Graph {
    pub fn new(model: &[u8], options: &Options, place: &str) -> Result<Self> {
        let no_model = |why: &dyn Display| {
            Error::bad_input(format!(
                "{place}: this is not a whole ONNX file ({why}); allowed: an ONNX model"
            ))
        };
        if !wire::is_whole(model) {
            return Err(no_model(
                &"a field reaches beyond its message, or messages nest too deep",
            ));
        }
        let model = ModelProto::parse_buf(model).map_err(|error| no_model(&error))?;
        let graph = model
            .graph
            .ok_or_else(|| Error::bad_input(format!("{place}: the model has no graph; allowed: an ONNX model")))?;
        if graph.node.is_empty() {
            let sentence = format!("{place}: the graph has no node; allowed: an ONNX model");
            return Err(Error::bad_input(sentence));
        }
        let mut found = Self::default();
        for tensor in &graph.initializer {
            found.constant(tensor.name.as_deref().unwrap_or_default(), tensor);
        }
        let mut unnamed = BTreeSet::new();
        let mut known = BTreeSet::new();
        let inputs = graph.input.iter().filter(|input| {
            let name = input.name.as_deref().unwrap_or_default();
            !found.constants.contains(name)
        });
        let inputs: Vec<_> = inputs.collect();
        for (value, is_input) in inputs
            .iter()
            .map(|value| (*value, true))
            .chain(graph.value_info.iter().chain(&graph.output).map(|value| (value, false)))
        {
            let shape = Shape::of(value);
            known.extend(shape.symbols.iter().cloned());
            match shape.with(&options.dims) {
                Ok(tensor) => {
                    if let Some((name, tensor)) = value.name.clone().zip(tensor) {
                        found.know(name, tensor);
                    }
                }
                Err(_) if is_input => {
                    let open = shape.symbols.iter().filter(|name| !options.dims.contains_key(*name));
                    unnamed.extend(open.cloned());
                }
                // A symbol of an exporter's own: the shape follows from the inputs, or it stays unknown.
                Err(_) => {}
            }
        }
        if !unnamed.is_empty() {
            let each: Vec<_> = unnamed.iter().map(|name| format!("--dim {name}=SIZE")).collect();
            let names: Vec<_> = unnamed.into_iter().collect();
            let allowed = format!("a size for each; on the command line {}", each.join(" "));
            return Err(Error::field(
                place,
                "dims",
                format!("open ({})", names.join(", ")),
                &allowed,
            ));
        }
        if let Some(name) = options.dims.keys().find(|name| !known.contains(*name)) {
            let names: Vec<_> = known.into_iter().collect();
            let allowed = format!("the symbolic dimensions of {place}: {}", names.join(", "));
            return Err(Error::field("request", "dims", format!("`{name}`"), &allowed));
        }
        found.outputs = graph.output.iter().filter_map(|value| value.name.clone()).collect();
        found.nodes = graph.node.into_iter().map(Node::new).collect();
        for (at, node) in found.nodes.iter().enumerate() {
            for name in node.inputs.iter().filter(|name| !name.is_empty()) {
                found.readers.entry(name.clone()).or_default().push(at);
            }
            found.writer.extend(node.outputs.iter().map(|name| (name.clone(), at)));
            found.writer.remove("");
        }
        for at in 0..found.nodes.len() {
            shapes::follow(&mut found, at);
        }
        Ok(found)
    }

    /// Takes in a weight or a constant.
    pub fn constant(&mut self, name: &str, tensor: &TensorProto) {
        let dims = tensor.dims.iter().map(|dim| u64::try_from(*dim).unwrap_or(0));
        let known = Tensor {
            dims: dims.collect(),
            element: tensor.data_type.unwrap_or(DataType(0)),
        };
        if let Some(numbers) = whole_numbers(tensor, &known) {
            self.note(name.to_owned(), numbers);
        }
        self.know(name.to_owned(), known);
        self.constants.insert(name.to_owned());
    }

    /// Takes in the shape of a tensor, unless it is known.
    pub fn know(&mut self, name: String, tensor: Tensor) {
        if tensor.is_possible() && !name.is_empty() {
            self.tensors.entry(name).or_insert(tensor);
        }
    }

    /// Takes in the content of a short tensor.
    pub fn note(&mut self, name: String, numbers: Vec<i64>) {
        if numbers.len() <= MOST_NUMBERS {
            self.numbers.insert(name, numbers);
        }
    }

    /// What is known of an input of a node.
    pub fn input(&self, node: &Node, at: usize) -> Option<&Tensor> {
        self.tensors.get(node.input(at)?)
    }

    /// What is known of an output of a node.
    pub fn output(&self, node: &Node, at: usize) -> Option<&Tensor> {
        self.tensors.get(node.outputs.get(at)?)
    }

    /// The node that alone reads the first output of this one.
    pub fn sole_reader(&self, node: usize) -> Option<usize> {
        let name = self.nodes[node].outputs.first()?;
        match self.readers.get(name).map(Vec::as_slice) {
            Some([reader]) if !self.outputs.contains(name) => Some(*reader),
            _ => None,
        }
    }

    /// The node that writes an input of this one.
    pub fn source(&self, node: usize, input: usize) -> Option<usize> {
        self.writer.get(self.nodes[node].input(input)?).copied()
    }
}

/// The numbers of a short tensor of whole numbers.
fn whole_numbers(tensor: &TensorProto, known: &Tensor) -> Option<Vec<i64>> {
    let count = usize::try_from(known.elements())
        .ok()
        .filter(|count| *count <= MOST_NUMBERS)?;
    let raw = tensor
        .raw_data
        .as_ref()
        .map(|raw| raw.borrow().clone())
        .unwrap_or_default();
    let numbers: Vec<i64> = match tensor.data_type? {
        DataType::INT64 if !raw.is_empty() => {
            let chunks = raw.chunks_exact(8);
            chunks
                .map(|bytes| i64::from_le_bytes(bytes.try_into().expect("eight bytes")))
                .collect()
        }
        DataType::INT32 if !raw.is_empty() => {
            let chunks = raw.chunks_exact(4);
            chunks
                .map(|bytes| i32::from_le_bytes(bytes.try_into().expect("four bytes")).into())
                .collect()
        }
        DataType::INT64 => tensor.int64_data.clone(),
        DataType::INT32 => tensor.int32_data.iter().map(|number| (*number).into()).collect(),
        _ => return None,
    };
    (numbers.len() == count).then_some(numbers)
}

/// A shape as a graph states it.
struct Shape<'a> {
    element: Option<DataType>,
    dims: Option<Vec<Dim<'a>>>,
    symbols: Vec<String>,
}

enum Dim<'a> {
    Size(u64),
    Symbol(&'a str),
    /// Neither is stated.
    Open,
}

impl<'a> Shape<'a> {
    fn of(value: &'a ValueInfoProto) -> Self {
        let tensor = value.r#type.as_ref().and_then(|kind| kind.tensor_type.as_ref());
        let dims = tensor.and_then(|tensor| tensor.shape.as_ref()).map(|shape| {
            let dims = shape.dim.iter().map(|dim| match (dim.dim_value, &dim.dim_param) {
                (Some(size), _) => u64::try_from(size).map_or(Dim::Open, Dim::Size),
                (None, Some(name)) if !name.is_empty() => Dim::Symbol(name),
                (None, _) => Dim::Open,
            });
            dims.collect::<Vec<_>>()
        });
        let symbols = dims.iter().flatten().filter_map(|dim| match dim {
            Dim::Symbol(name) => Some((*name).to_owned()),
            _ => None,
        });
        Self {
            element: tensor.and_then(|tensor| tensor.elem_type),
            symbols: symbols.collect(),
            dims,
        }
    }

    /// The tensor with these sizes; the name of a dimension that has none.
    fn with(&self, sizes: &BTreeMap<String, u64>) -> std::result::Result<Option<Tensor>, String> {
        let (Some(element), Some(dims)) = (self.element, &self.dims) else {
            return Ok(None);
        };
        let mut known = Vec::new();
        for dim in dims {
            match dim {
                Dim::Size(size) => known.push(*size),
                Dim::Symbol(name) => known.push(*sizes.get(*name).ok_or_else(|| (*name).to_owned())?),
                Dim::Open => return Ok(None),
            }
        }
        Ok(Some(Tensor { dims: known, element }))
    }
}
