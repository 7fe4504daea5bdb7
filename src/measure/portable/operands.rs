//! One set of operands as tensors, and the call that burn makes of an operator.

use crate::measure::reference;
use crate::ops::{Dtype, MemoryKind, Op, Pass};
use crate::random::Random;
use burn::tensor::module::attention;
use burn::tensor::ops::AttentionModuleOptions;
use burn::tensor::{DType, Device, Tensor, TensorData, activation};

/// Why burn has no such operator.
pub fn refuses(op: &Op) -> Option<String> {
    match op {
        Op::Gemm(_) => None,
        Op::Attention(op) if op.pass == Pass::Backward => {
            Some("burn has no fused backward attention".to_owned())
        }
        Op::Attention(op) if op.heads != op.kv_heads => {
            Some("burn's attention wants as many key heads as query heads".to_owned())
        }
        Op::Attention(op) if op.window > 0 || (op.causal && op.seq_q != op.seq_kv) => {
            Some("burn's attention masks all or the square triangle".to_owned())
        }
        Op::Attention(_) => None,
        Op::Memory(op) if op.pass == Pass::Backward => {
            Some("burn differentiates by composition, not by one kernel".to_owned())
        }
        Op::Memory(op) => match op.kind {
            MemoryKind::Softmax | MemoryKind::Add => None,
            MemoryKind::Gelu => {
                Some("burn's fused gelu is not the tanh approximation of transformers".to_owned())
            }
            kind => Some(format!("burn has no single kernel for {}", kind.name())),
        },
        Op::Collective(_) => Some("collectives need several devices".to_owned()),
        other => Some(format!("burn has no kernel of {}", other.kind())),
    }
}

/// The tensors of one call.
pub enum Operands {
    /// Stored operands of a GEMM, and whether each is stored transposed.
    Gemm([(Tensor<3>, bool); 2]),
    /// Queries, keys and values.
    Attention(Box<[Tensor<4>; 3]>, AttentionModuleOptions),
    /// Rows of scores.
    Softmax(Tensor<2>),
    /// Two terms.
    Add([Tensor<2>; 2]),
}

/// Source of the operands' values.
pub trait Source {
    /// The next operand: this many elements in this format.
    fn next(&mut self, elements: usize, dtype: DType) -> Tensor<1>;
}

/// Values on the host, operand by operand.
pub struct HostValues<'a> {
    /// Device of the tensors.
    pub device: &'a Device,
    /// Operands that are not taken yet.
    pub operands: std::vec::IntoIter<Vec<f32>>,
}

impl Source for HostValues<'_> {
    fn next(&mut self, elements: usize, dtype: DType) -> Tensor<1> {
        let operand = self.operands.next();
        let operand = operand.expect("the reference draws every operand");
        assert_eq!(
            operand.len(),
            elements,
            "the reference draws whole operands"
        );
        Tensor::from_data(TensorData::new(operand, [elements]), (self.device, dtype))
    }
}

/// Normals on the device, drawn once; operands are consecutive slices of them.
///
/// A slice is a view on the CPU, which makes set-up cheap, and a copy on a GPU.
pub struct Pool {
    tensors: Vec<(DType, Tensor<1>)>,
    elements: usize,
}

impl Pool {
    /// This many normals, in each of the formats.
    pub fn new(device: &Device, elements: usize, dtypes: &[Dtype]) -> Self {
        let mut random = Random::new(0, "operands of the portable device");
        // The period of a million does not affect a GEMM.
        let drawn: Vec<f32> = (0..elements.min(1 << 20))
            .map(|_| random.normal() as f32)
            .collect();
        let values: Vec<f32> = drawn.iter().copied().cycle().take(elements).collect();
        let tensor = |dtype: &Dtype| {
            let dtype = format(*dtype);
            let data = TensorData::new(values.clone(), [elements]);
            (dtype, Tensor::from_data(data, (device, dtype)))
        };
        Self {
            tensors: dtypes.iter().map(tensor).collect(),
            elements,
        }
    }
}

/// Consecutive slices of a pool.
pub struct PoolSlices<'a> {
    pool: &'a Pool,
    next: usize,
}

impl<'a> PoolSlices<'a> {
    /// Slices from the start of the pool.
    pub const fn new(pool: &'a Pool) -> Self {
        Self { pool, next: 0 }
    }
}

impl Source for PoolSlices<'_> {
    fn next(&mut self, elements: usize, dtype: DType) -> Tensor<1> {
        let known = self.pool.tensors.iter().find(|(known, _)| *known == dtype);
        let (_, pool) = known.expect("a format that is offered has a pool");
        let whole = self.pool.elements;
        if elements > whole {
            let times = elements.div_ceil(whole);
            return pool.clone().repeat(&[times]).narrow(0, 0, elements);
        }
        if self.next + elements > whole {
            self.next = 0;
        }
        let begin = self.next;
        // Aligned for vector loads, as allocations are.
        self.next = (begin + elements).next_multiple_of(64);
        pool.clone().narrow(0, begin, elements)
    }
}

pub fn format(dtype: Dtype) -> DType {
    match dtype {
        Dtype::Fp16 => DType::F16,
        _ => DType::F32,
    }
}

impl Operands {
    /// Takes the operands of an operator that [`refuses`] accepts from a source, in the order of
    /// the reference.
    pub fn new(op: &Op, source: &mut dyn Source) -> Self {
        let dtype = format(op.dtype().unwrap_or(Dtype::Fp32));
        let mut cube = |shape: [u64; 4]| -> Tensor<4> {
            let shape = shape.map(|size| size as usize);
            source.next(shape.iter().product(), dtype).reshape(shape)
        };
        match op {
            Op::Gemm(op) => {
                let (first, second) = reference::transposed(op.layout);
                let mut stored = |rows, columns, transposed| {
                    let shape = if transposed {
                        [1, op.batch, columns, rows]
                    } else {
                        [1, op.batch, rows, columns]
                    };
                    (cube(shape).squeeze_dim(0), transposed)
                };
                Self::Gemm([stored(op.m, op.k, first), stored(op.k, op.n, second)])
            }
            Op::Attention(op) => {
                let mut heads = |sequence, width| cube([op.batch, op.heads, sequence, width]);
                Self::Attention(
                    Box::new([
                        heads(op.seq_q, op.head_dim),
                        heads(op.seq_kv, op.head_dim),
                        heads(op.seq_kv, op.value_dim),
                    ]),
                    AttentionModuleOptions {
                        is_causal: op.causal,
                        ..AttentionModuleOptions::default()
                    },
                )
            }
            Op::Memory(op) => {
                let mut matrix =
                    || cube([1, 1, op.rows, op.cols]).reshape([op.rows as usize, op.cols as usize]);
                match op.kind {
                    MemoryKind::Softmax => Self::Softmax(matrix()),
                    _ => Self::Add([matrix(), matrix()]),
                }
            }
            _ => unreachable!("others are refused"),
        }
    }

    /// Enqueues, or on the CPU runs, one call; the result is flattened without a copy.
    pub fn call(&self) -> Tensor<1> {
        match self {
            Self::Gemm(stored) => {
                let [first, second] = stored.each_ref().map(|(tensor, transposed)| {
                    if *transposed {
                        tensor.clone().swap_dims(1, 2)
                    } else {
                        tensor.clone()
                    }
                });
                flat(first.matmul(second))
            }
            Self::Attention(tensors, options) => {
                let [query, key, value] = (**tensors).clone();
                flat(attention(query, key, value, None, None, *options))
            }
            Self::Softmax(scores) => flat(activation::softmax(scores.clone(), 1)),
            Self::Add([left, right]) => flat(left.clone() + right.clone()),
        }
    }
}

fn flat<const D: usize>(tensor: Tensor<D>) -> Tensor<1> {
    let elements = tensor.shape().num_elements();
    tensor.reshape([elements])
}

/// Size in bytes of one set of inputs.
pub fn input_bytes(op: &Op) -> f64 {
    let operands = reference::operands(op).unwrap_or_default();
    let size = op.dtype().map_or(4, Dtype::size);
    let elements: u64 = operands.inputs.iter().map(|operand| operand.elements).sum();
    (elements * size) as f64
}
