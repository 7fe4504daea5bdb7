//! A graph under construction: tensors, and the operations between them.

use super::descriptor::{Descriptor, Handle};
use super::{Binding, BoundGraph};
use crate::error::Result;
use cudarc::cudnn::sys::{
    cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind, cudnnDataType_t as Data,
    cudnnPointwiseMode_t as Mode, cudnnReduceTensorOp_t as Reduction,
};

/// Alignment of operands in bytes.
const ALIGNMENT: i64 = 16;

/// A tensor of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tensor(usize);

/// Storage of a tensor.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In device memory.
    Memory,
    /// Between operations, in registers or shared memory.
    Virtual,
    /// A number that the host passes by value.
    Value,
}

struct Known {
    descriptor: Descriptor,
    number: i64,
    sizes: [i64; 4],
}

/// Tensors and operations in the order in which they were added.
pub struct Graph {
    // Operations refer to what is below, so they are destroyed first.
    operations: Vec<Descriptor>,
    functions: Vec<Descriptor>,
    tensors: Vec<Known>,
}

/// Strides of a tensor without gaps, the last dimension first.
const fn dense_strides(sizes: [i64; 4]) -> [i64; 4] {
    let rows = sizes[3];
    let planes = sizes[2] * rows;
    [sizes[1] * planes, planes, rows, 1]
}

impl Graph {
    pub const fn new() -> Self {
        Self {
            operations: Vec::new(),
            functions: Vec::new(),
            tensors: Vec::new(),
        }
    }

    fn tensor(&mut self, format: Data, sizes: [i64; 4], strides: [i64; 4], place: Place) -> Result<Tensor> {
        let number = self.tensors.len() as i64 + 1;
        let descriptor = Descriptor::new(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR, "a tensor")?;
        descriptor
            .set(Name::CUDNN_ATTR_TENSOR_DATA_TYPE, &[format])?
            .set(Name::CUDNN_ATTR_TENSOR_DIMENSIONS, &sizes)?
            .set(Name::CUDNN_ATTR_TENSOR_STRIDES, &strides)?
            .set(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, &[number])?
            .set(Name::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, &[ALIGNMENT])?;
        let flag = match place {
            Place::Memory => None,
            Place::Virtual => Some(Name::CUDNN_ATTR_TENSOR_IS_VIRTUAL),
            Place::Value => Some(Name::CUDNN_ATTR_TENSOR_IS_BY_VALUE),
        };
        if let Some(flag) = flag {
            descriptor.set(flag, &[true])?;
        }
        self.tensors.push(Known {
            descriptor: descriptor.finalize()?,
            number,
            sizes,
        });
        Ok(Tensor(self.tensors.len() - 1))
    }

    /// A tensor in device memory without gaps.
    pub fn dense(&mut self, format: Data, sizes: [i64; 4]) -> Result<Tensor> {
        self.tensor(format, sizes, dense_strides(sizes), Place::Memory)
    }

    /// A tensor in device memory without gaps, viewed with its last two dimensions transposed.
    pub fn transposed(&mut self, format: Data, sizes: [i64; 4]) -> Result<Tensor> {
        let strides = dense_strides(sizes);
        let turned = |of: [i64; 4]| [of[0], of[1], of[3], of[2]];
        self.tensor(format, turned(sizes), turned(strides), Place::Memory)
    }

    /// A single-precision number that the host passes by value.
    pub fn value(&mut self) -> Result<Tensor> {
        self.tensor(Data::CUDNN_DATA_FLOAT, [1; 4], [1; 4], Place::Value)
    }

    /// A virtual tensor: one between operations.
    pub fn virtual_dense(&mut self, format: Data, sizes: [i64; 4]) -> Result<Tensor> {
        self.tensor(format, sizes, dense_strides(sizes), Place::Virtual)
    }

    /// A virtual tensor with strides of its own.
    pub fn virtual_strided(&mut self, format: Data, sizes: [i64; 4], strides: [i64; 4]) -> Result<Tensor> {
        self.tensor(format, sizes, strides, Place::Virtual)
    }

    /// The unique id of a tensor.
    fn number(&self, tensor: Tensor) -> i64 {
        self.tensors[tensor.0].number
    }

    /// The graph with the bindings of its tensors, by unique id.
    pub fn bound(self, bindings: &[(Tensor, Binding)]) -> BoundGraph {
        let numbered = bindings.iter();
        let numbered = numbered.map(|&(tensor, binding)| (self.number(tensor), binding));
        (numbered.collect(), self)
    }

    fn of(&self, tensor: Tensor) -> &Descriptor {
        &self.tensors[tensor.0].descriptor
    }

    /// Adds `output = left · right`.
    pub fn multiply(&mut self, left: Tensor, right: Tensor, output: Tensor) -> Result<()> {
        let function = Descriptor::new(Kind::CUDNN_BACKEND_MATMUL_DESCRIPTOR, "a matmul")?;
        function.set(Name::CUDNN_ATTR_MATMUL_COMP_TYPE, &[Data::CUDNN_DATA_FLOAT])?;
        let function = function.finalize()?;
        let kind = Kind::CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR;
        let operation = Descriptor::new(kind, "the operation of a matmul")?;
        operation
            .descriptor(Name::CUDNN_ATTR_OPERATION_MATMUL_ADESC, self.of(left))?
            .descriptor(Name::CUDNN_ATTR_OPERATION_MATMUL_BDESC, self.of(right))?
            .descriptor(Name::CUDNN_ATTR_OPERATION_MATMUL_CDESC, self.of(output))?
            .descriptor(Name::CUDNN_ATTR_OPERATION_MATMUL_DESC, &function)?;
        self.add(operation, Some(function))
    }

    /// Adds `result = mode(inputs)` for each element, computed in `precision`; `axis` is the
    /// dimension whose index is generated, and the third input of a selection its condition.
    fn pointwise(
        &mut self,
        mode: Mode,
        precision: Data,
        axis: Option<i64>,
        inputs: &[Tensor],
        result: Tensor,
    ) -> Result<()> {
        let function = Descriptor::new(Kind::CUDNN_BACKEND_POINTWISE_DESCRIPTOR, "a function")?;
        function
            .set(Name::CUDNN_ATTR_POINTWISE_MODE, &[mode])?
            .set(Name::CUDNN_ATTR_POINTWISE_MATH_PREC, &[precision])?;
        if let Some(axis) = axis {
            function.set(Name::CUDNN_ATTR_POINTWISE_AXIS, &[axis])?;
        }
        let function = function.finalize()?;
        let kind = Kind::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR;
        let operation = Descriptor::new(kind, "the operation of a function")?;
        operation
            .descriptor(Name::CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, &function)?
            .descriptor(Name::CUDNN_ATTR_OPERATION_POINTWISE_YDESC, self.of(result))?;
        let names = [
            Name::CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
            Name::CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
            Name::CUDNN_ATTR_OPERATION_POINTWISE_TDESC,
        ];
        for (name, &input) in names.into_iter().zip(inputs) {
            operation.descriptor(name, self.of(input))?;
        }
        self.add(operation, Some(function))
    }

    /// Adds `result = mode(inputs)` in single precision.
    pub fn apply(&mut self, mode: Mode, inputs: &[Tensor], result: Tensor) -> Result<()> {
        self.pointwise(mode, Data::CUDNN_DATA_FLOAT, None, inputs, result)
    }

    /// Adds `mode(inputs)` in single precision as a virtual tensor with the sizes of the first
    /// input.
    pub fn map(&mut self, mode: Mode, inputs: &[Tensor]) -> Result<Tensor> {
        let sizes = self.tensors[inputs[0].0].sizes;
        let result = self.virtual_dense(Data::CUDNN_DATA_FLOAT, sizes)?;
        self.apply(mode, inputs, result)?;
        Ok(result)
    }

    /// Reduces the dimensions in which `result` is 1.
    pub fn reduce(&mut self, by: Reduction, input: Tensor, result: Tensor) -> Result<()> {
        let function = Descriptor::new(Kind::CUDNN_BACKEND_REDUCTION_DESCRIPTOR, "a reduction")?;
        function
            .set(Name::CUDNN_ATTR_REDUCTION_COMP_TYPE, &[Data::CUDNN_DATA_FLOAT])?
            .set(Name::CUDNN_ATTR_REDUCTION_OPERATOR, &[by])?;
        let function = function.finalize()?;
        let kind = Kind::CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR;
        let operation = Descriptor::new(kind, "the operation of a reduction")?;
        operation
            .descriptor(Name::CUDNN_ATTR_OPERATION_REDUCTION_XDESC, self.of(input))?
            .descriptor(Name::CUDNN_ATTR_OPERATION_REDUCTION_YDESC, self.of(result))?
            .descriptor(Name::CUDNN_ATTR_OPERATION_REDUCTION_DESC, &function)?;
        self.add(operation, Some(function))
    }

    /// The same elements with the sizes of `result`.
    pub fn reshape(&mut self, input: Tensor, result: Tensor) -> Result<()> {
        let kind = Kind::CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR;
        let operation = Descriptor::new(kind, "the operation of a new shape")?;
        operation
            .descriptor(Name::CUDNN_ATTR_OPERATION_RESHAPE_XDESC, self.of(input))?
            .descriptor(Name::CUDNN_ATTR_OPERATION_RESHAPE_YDESC, self.of(result))?;
        self.add(operation, None)
    }

    /// Adds the causal mask: scores with `hidden` where the column exceeds the row.
    pub fn mask_causal(&mut self, scores: Tensor, hidden: Tensor) -> Result<Tensor> {
        let (index, single, truth) = (Data::CUDNN_DATA_INT32, Data::CUDNN_DATA_FLOAT, Data::CUDNN_DATA_BOOLEAN);
        let sizes = self.tensors[scores.0].sizes;
        let generate = Mode::CUDNN_POINTWISE_GEN_INDEX;
        let row = self.virtual_dense(index, sizes)?;
        self.pointwise(generate, single, Some(2), &[scores], row)?;
        let column = self.virtual_dense(index, sizes)?;
        self.pointwise(generate, single, Some(3), &[scores], column)?;
        let visible = self.virtual_dense(truth, sizes)?;
        let at_least = Mode::CUDNN_POINTWISE_CMP_GE;
        self.pointwise(at_least, truth, None, &[row, column], visible)?;
        let masked = self.virtual_dense(single, sizes)?;
        let select = Mode::CUDNN_POINTWISE_BINARY_SELECT;
        self.apply(select, &[scores, hidden, visible], masked)?;
        Ok(masked)
    }

    fn add(&mut self, operation: Descriptor, function: Option<Descriptor>) -> Result<()> {
        self.operations.push(operation.finalize()?);
        self.functions.extend(function);
        Ok(())
    }

    /// The finalized graph of cuDNN; it refers to this one, which must live as long.
    pub fn finalize(&self, handle: Option<&Handle>) -> Result<Descriptor> {
        let kind = Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR;
        let graph = Descriptor::new(kind, "a graph")?;
        if let Some(handle) = handle {
            graph.set(Name::CUDNN_ATTR_OPERATIONGRAPH_HANDLE, &[handle.raw()])?;
        }
        let operations: Vec<_> = self.operations.iter().collect();
        graph.descriptors(Name::CUDNN_ATTR_OPERATIONGRAPH_OPS, &operations)?;
        graph.finalize()
    }
}
