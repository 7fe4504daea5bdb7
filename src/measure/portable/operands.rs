//! One set of operands as tensors, and the burn call of an operator, without or with autodiff.

use super::memory;
use super::transformer::{heads_of, rows_of};
use crate::measure::reference;
use crate::ops::{Attention, Dtype, Gemm, Op, Pass};
use crate::random::Random;
use burn::tensor::kind::Autodiff;
use burn::tensor::module::attention;
use burn::tensor::ops::AttentionModuleOptions;
use burn::tensor::{DType, Device, Gradients, Int, Tensor, TensorData};
use std::sync::Arc;

/// Why burn has no such operator.
pub fn refuses(op: &Op) -> Option<String> {
    match op {
        Op::Gemm(_) => None,
        Op::Attention(op) if op.heads != op.kv_heads => {
            Some("burn's attention wants as many key heads as query heads".to_owned())
        }
        Op::Attention(op) if op.window > 0 || (hides_keys(op) && op.seq_q != op.seq_kv) => {
            Some("burn's attention masks all or the square triangle".to_owned())
        }
        Op::Attention(_) => None,
        Op::Memory(op) => memory::refuses(op),
        Op::Collective(_) => Some("collectives need several devices".to_owned()),
        other => Some(format!("burn has no kernel of {}", other.kind())),
    }
}

/// What one call gives, as views of at most four dimensions.
type Call = Box<dyn Fn() -> Vec<Tensor<4>> + Send + Sync>;

/// One set of operands, and the call over them.
pub struct Operands {
    call: Call,
    /// What does not count: a backward call runs the forward pass under autodiff too, and what a step without gradients
    /// runs of that is another operator.
    besides: Option<Call>,
}

/// A tensor that the gradient is taken by, where there is one.
pub struct Leaf<const D: usize>(pub Tensor<D>);

impl<const D: usize> Leaf<D> {
    /// The tensor, under autodiff where it trains.
    pub fn new(tensor: &Tensor<D>, trains: bool) -> Self {
        match trains {
            true => Self(tensor.clone().autodiff().require_grad()),
            false => Self(tensor.clone()),
        }
    }
}

/// A tensor that no gradient is taken by, under autodiff where others train.
pub fn constant<const D: usize, K: Autodiff>(tensor: &Tensor<D, K>, trains: bool) -> Tensor<D, K> {
    match trains {
        true => tensor.clone().autodiff(),
        false => tensor.clone(),
    }
}

/// Takes the gradient by a leaf.
pub struct Gradient(Box<dyn Fn(&Gradients) -> Tensor<4>>);

impl<const D: usize> From<Leaf<D>> for Gradient {
    fn from(leaf: Leaf<D>) -> Self {
        Self(Box::new(move |gradients| {
            let gradient = leaf.0.grad(gradients);
            four(gradient.expect("the output depends on every leaf"))
        }))
    }
}

impl Operands {
    /// A call without gradients.
    pub fn plain(call: impl Fn() -> Vec<Tensor<4>> + Send + Sync + 'static) -> Self {
        Self {
            call: Box::new(call),
            besides: None,
        }
    }

    /// A pass of a function that returns its output and, under autodiff, its leaves; `upstream` is the gradient of the
    /// output, else ones.
    pub fn new<const D: usize>(
        pass: Pass,
        upstream: Option<Tensor<D>>,
        function: impl Fn(bool) -> (Tensor<D>, Vec<Gradient>) + Send + Sync + 'static,
    ) -> Self {
        let function = Arc::new(function);
        let forward = {
            let function = function.clone();
            move || vec![four(function(false).0)]
        };
        match pass {
            Pass::Forward => Self::plain(forward),
            Pass::Backward => Self {
                besides: Some(Box::new(forward)),
                call: Box::new(move || {
                    let (output, leaves) = function(true);
                    let gradients = match &upstream {
                        Some(upstream) => (output * upstream.clone().autodiff()).sum().backward(),
                        None => output.backward(),
                    };
                    leaves.iter().map(|leaf| leaf.0(&gradients)).collect()
                }),
            },
        }
    }

    /// The same with other views of what the call gives.
    fn viewed(self, view: impl Fn(Vec<Tensor<4>>) -> Vec<Tensor<4>> + Send + Sync + 'static) -> Self {
        let call = self.call;
        Self {
            call: Box::new(move || view(call())),
            ..self
        }
    }

    /// The first result cut after so many columns, in two.
    pub fn split_columns(self, cols: usize) -> Self {
        self.viewed(move |mut results| {
            let both = results.remove(0);
            let halves = [0, cols].map(|begin| both.clone().narrow(3, begin, cols));
            halves.into_iter().chain(results).collect()
        })
    }

    /// Every result with its two middle dimensions exchanged.
    pub fn swapped(self) -> Self {
        self.viewed(|results| results.into_iter().map(|all| all.swap_dims(1, 2)).collect())
    }

    /// Every result added to a tensor.
    pub fn plus(self, sum: Tensor<2>) -> Self {
        self.viewed(move |results| {
            let added = results.into_iter().map(|each| each + four(sum.clone()));
            added.collect()
        })
    }

    /// Enqueues, or on the CPU runs, one call.
    pub fn call(&self) -> Vec<Tensor<4>> {
        (self.call)()
    }

    /// Whether a part of each call does not count.
    pub fn has_besides(&self) -> bool {
        self.besides.is_some()
    }

    /// Runs what does not count of one call.
    pub fn run_besides(&self) {
        if let Some(besides) = &self.besides {
            drop(besides());
        }
    }
}

/// A tensor with leading dimensions of one.
pub fn four<const D: usize>(tensor: Tensor<D>) -> Tensor<4> {
    let dims = tensor.dims();
    let mut shape = [1; 4];
    shape[4 - D..].copy_from_slice(&dims);
    tensor.reshape(shape)
}

/// Source of the operands' values.
pub trait Source {
    /// The next operand: this many elements in this format.
    fn next(&mut self, elements: usize, dtype: DType) -> Tensor<1>;

    /// The next operand of so many whole numbers below `most`.
    fn indices(&mut self, count: usize, most: u64) -> Tensor<1, Int>;

    /// Whether results are compared, so that gradients begin with a drawn operand in place of ones.
    fn is_drawn(&self) -> bool;
}

impl dyn Source + '_ {
    /// The next operand of this shape.
    pub fn shaped<const D: usize>(&mut self, shape: [usize; D], dtype: DType) -> Tensor<D> {
        self.next(shape.iter().product(), dtype).reshape(shape)
    }

    /// The gradient of the output, where a pass takes one and results are compared.
    pub fn upstream<const D: usize>(&mut self, pass: Pass, shape: [usize; D], dtype: DType) -> Option<Tensor<D>> {
        let wanted = pass == Pass::Backward && self.is_drawn();
        wanted.then(|| self.shaped(shape, dtype))
    }
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
        assert_eq!(operand.len(), elements, "the reference draws whole operands");
        Tensor::from_data(TensorData::new(operand, [elements]), (self.device, dtype))
    }

    fn indices(&mut self, count: usize, _: u64) -> Tensor<1, Int> {
        self.next(count, DType::F32).int()
    }

    fn is_drawn(&self) -> bool {
        true
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
        let drawn: Vec<f32> = (0..elements.min(1 << 20)).map(|_| random.normal() as f32).collect();
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
    copies: bool,
    next: usize,
    /// Whole numbers, by how many and below what.
    drawn: Option<(usize, u64, Tensor<1, Int>)>,
}

impl<'a> PoolSlices<'a> {
    /// Slices from the start of the pool, or copies of them.
    pub const fn new(pool: &'a Pool, copies: bool) -> Self {
        Self {
            pool,
            copies,
            next: 0,
            drawn: None,
        }
    }
}

impl Source for PoolSlices<'_> {
    fn next(&mut self, elements: usize, dtype: DType) -> Tensor<1> {
        let known = self.pool.tensors.iter().find(|(known, _)| *known == dtype);
        let (_, pool) = known.expect("a format that is offered has a pool");
        let whole = self.pool.elements;
        let slice = if elements > whole {
            let times = elements.div_ceil(whole);
            pool.clone().repeat(&[times]).narrow(0, 0, elements)
        } else {
            if self.next + elements > whole {
                self.next = 0;
            }
            let begin = self.next;
            // Aligned for vector loads, as allocations are.
            self.next = (begin + elements).next_multiple_of(64);
            pool.clone().narrow(0, begin, elements)
        };
        match self.copies {
            true => slice.mul_scalar(1.0),
            false => slice,
        }
    }

    fn indices(&mut self, count: usize, most: u64) -> Tensor<1, Int> {
        let known = self.drawn.take();
        let known = known.filter(|(known, below, _)| (*known, *below) == (count, most));
        let (.., indices) = self.drawn.insert(known.unwrap_or_else(|| {
            let mut random = Random::new(0, "indices of the portable device");
            let drawn: Vec<i32> = (0..count).map(|_| random.below(most as usize) as i32).collect();
            let device = self.pool.tensors[0].1.device();
            (count, most, Tensor::from_data(TensorData::new(drawn, [count]), &device))
        }));
        indices.clone()
    }

    fn is_drawn(&self) -> bool {
        false
    }
}

pub fn format(dtype: Dtype) -> DType {
    match dtype {
        Dtype::Fp16 => DType::F16,
        _ => DType::F32,
    }
}

/// Whether the mask hides a key: a single query sees all of them.
const fn hides_keys(op: &Attention) -> bool {
    op.causal && !op.is_decode()
}

/// Takes the operands of an operator that [`refuses`] accepts from a source, in the order of the reference.
pub fn operands(op: &Op, source: &mut dyn Source) -> Operands {
    let dtype = format(op.dtype().unwrap_or(Dtype::Fp32));
    match op {
        Op::Gemm(op) => gemm(op, dtype, source),
        Op::Attention(op) => attended(op, dtype, source),
        Op::Memory(op) => memory::operands(op, dtype, source),
        _ => unreachable!("others are refused"),
    }
}

fn gemm(op: &Gemm, dtype: DType, source: &mut dyn Source) -> Operands {
    let (first, second) = reference::transposed(op.layout);
    let mut stored = |rows: u64, columns: u64, transposed| -> Tensor<3> {
        let [batch, rows, columns] = [op.batch, rows, columns].map(|size| size as usize);
        match transposed {
            true => source.shaped([batch, columns, rows], dtype).swap_dims(1, 2),
            false => source.shaped([batch, rows, columns], dtype),
        }
    };
    let (first, second) = (stored(op.m, op.k, first), stored(op.k, op.n, second));
    Operands::plain(move || vec![four(first.clone().matmul(second.clone()))])
}

fn attended(op: &Attention, dtype: DType, source: &mut dyn Source) -> Operands {
    let options = AttentionModuleOptions {
        is_causal: hides_keys(op),
        ..AttentionModuleOptions::default()
    };
    let of_one_gemm = op.seq_q == op.seq_kv && op.head_dim == op.value_dim;
    if of_one_gemm && !source.is_drawn() {
        return of_mixed(op, dtype, source, options);
    }
    let mut heads = |sequence: u64, width: u64| -> Tensor<4> {
        let shape = [op.batch, op.heads, sequence, width].map(|size| size as usize);
        source.shaped(shape, dtype)
    };
    let (seq_q, value_dim) = (op.seq_q, op.value_dim);
    let operands = [
        heads(seq_q, op.head_dim),
        heads(op.seq_kv, op.head_dim),
        heads(op.seq_kv, value_dim),
    ];
    let upstream = match op.pass {
        Pass::Backward => {
            // The output, which burn computes again.
            drop(heads(seq_q, value_dim));
            let shape = [op.batch, op.heads, seq_q, value_dim].map(|size| size as usize);
            source.upstream(op.pass, shape, dtype)
        }
        Pass::Forward => None,
    };
    Operands::new(op.pass, upstream, move |trains| {
        let [query, key, value] = operands.each_ref().map(|operand| Leaf::new(operand, trains));
        let [q, k, v] = [&query, &key, &value].map(|leaf| leaf.0.clone());
        let output = attention(q, k, v, None, None, options);
        (output, [query, key, value].map(Gradient::from).into())
    })
}

/// Attention as a layer runs it, from what one GEMM makes of all tokens to the rows that the next one takes: burn copies
/// where heads are cut out and put together.
fn of_mixed(op: &Attention, dtype: DType, source: &mut dyn Source, options: AttentionModuleOptions) -> Operands {
    let shape = [op.batch, op.seq_q, op.heads, op.head_dim].map(|size| size as usize);
    let [batch, seq, heads, width] = shape;
    let mixed: Tensor<2> = source.shaped([batch * seq, 3 * heads * width], dtype);
    Operands::new(op.pass, None, move |trains| {
        let mixed = Leaf::new(&mixed, trains);
        let [q, k, v] = [0, 1, 2].map(|index| heads_of(&mixed.0, index, shape));
        let output = rows_of(attention(q, k, v, None, None, options));
        (output, vec![mixed.into()])
    })
}

/// Size in bytes of one set of inputs.
pub fn input_bytes(op: &Op) -> f64 {
    let operands = reference::operands(op).unwrap_or_default();
    let size = op.dtype().map_or(4, Dtype::size);
    let elements: u64 = operands.inputs.iter().map(|operand| operand.elements).sum();
    (elements * size) as f64
}
