//! Memory-bound operators: which of our kernels runs, with which arguments and how many threads.

use crate::dataset::Kernel;
use crate::error::{Error, Result};
use crate::measure::cuda::algorithm::Algorithm;
use crate::measure::cuda::compile::Source;
use crate::measure::cuda::driver::{Driver, failed};
use crate::measure::cuda::launch::Argument::{self, Address, Count, Float, Int, Word};
use crate::measure::cuda::launch::{Kernels, Shape, launch, threads_of_row};
use crate::measure::cuda::placement::{Arena, Placement};
use crate::measure::reference::{self, adam};
use crate::ops::{Dtype, Memory, MemoryKind, Pass};
use cudarc::driver::CudaFunction;
use cudarc::driver::sys::CUfunction_attribute;

/// Operands that the kernel of a norm's backward pass leaves to `add_blocks`.
const WEIGHT_GRADIENTS: [&str; 2] = ["dgamma", "dbeta"];

/// Limits of the device for memory-bound kernels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Streaming multiprocessors.
    pub(super) processors: u64,
    /// Largest dynamic shared memory of a block, in bytes.
    pub(super) shared_bytes: u64,
}

/// Why an operator cannot run, if it cannot.
pub(super) fn refuses(op: &Memory, limits: Limits) -> Option<String> {
    if !matches!(op.dtype, Dtype::Fp32 | Dtype::Fp16 | Dtype::Bf16) {
        return Some(format!("{} is a format of GEMMs", op.dtype));
    }
    if op.rows == 0 || op.cols == 0 || op.rows >= 1 << 31 || op.cols >= 1 << 31 {
        return Some("rows and columns must be 1 to 2^31 - 1".to_owned());
    }
    match (op.kind, op.pass) {
        (
            MemoryKind::CastFp8
            | MemoryKind::CausalConv
            | MemoryKind::CausalConvStep
            | MemoryKind::Downcast
            | MemoryKind::Upcast,
            _,
        ) => Some(format!("there is no kernel of {}", op.kind)),
        (MemoryKind::PlainAdam, _) => Some("no kernel updates weights without fp32 states".to_owned()),
        (MemoryKind::Adam | MemoryKind::Quantize | MemoryKind::Zero, Pass::Backward) => {
            Some(format!("{} has no backward pass", op.kind))
        }
        (MemoryKind::AccumulateGradient, _) => Some(format!(
            "{} is fused into other kernels and has none of its own",
            op.kind
        )),
        (MemoryKind::Rotary, _) if op.cols % 2 == 1 => {
            Some("rotary embedding needs an even number of columns".to_owned())
        }
        (MemoryKind::LayerNorm | MemoryKind::RmsNorm, Pass::Backward) if column_bytes(op) > limits.shared_bytes => {
            Some("the sums of so many columns do not fit into shared memory".to_owned())
        }
        _ => None,
    }
}

/// Number of sums per column in the backward pass of a norm: weights, and shifts of layer norm.
const fn sums(op: &Memory) -> u64 {
    match op.kind {
        MemoryKind::LayerNorm => 2,
        _ => 1,
    }
}

/// Shared memory in bytes for the sums per column in the backward pass of a norm, whose columns are
/// rounded up to whole accesses.
const fn column_bytes(op: &Memory) -> u64 {
    sums(op) * op.cols.next_multiple_of(16 / op.dtype.size()) * 4
}

/// The source and the name of the kernel, `KIND_PASS` unless several kinds or both passes share
/// one.
fn kernel_of(kind: MemoryKind, pass: Pass) -> (Source, String) {
    use MemoryKind as K;
    let source = match kind {
        K::Softmax | K::CrossEntropy => Source::Softmax,
        K::LayerNorm | K::RmsNorm => Source::Norm,
        K::Embedding | K::Permute => Source::Gather,
        K::Copy => Source::Copy,
        K::Quantize => Source::Quantize,
        _ => Source::Elementwise,
    };
    let name = match (kind, pass) {
        (K::Embedding | K::Permute, Pass::Forward) => "gather".to_owned(),
        (K::Embedding, Pass::Backward) => "scatter_add".to_owned(),
        (K::Permute, Pass::Backward) => "scatter".to_owned(),
        (K::Mask | K::Rotary | K::Add | K::Adam | K::Copy | K::Zero, _) => kind.to_string(),
        _ => format!("{kind}_{pass}"),
    };
    (source, name)
}

/// Elements per access: the widest of 16 bytes that divides this length.
fn widest(length: u64, dtype: Dtype) -> u64 {
    let mut elements = 16 / dtype.size();
    while !length.is_multiple_of(elements) {
        elements /= 2;
    }
    elements
}

/// Elements per access, and the accesses of a row where threads along x share one.
///
/// Kernels that read and write one place of each row reach aligned accesses by single elements
/// before and after them; rows that move to another place have another alignment there.
fn accesses(op: &Memory) -> (u64, Option<u64>) {
    use MemoryKind as K;
    let full = 16 / op.dtype.size();
    match op.kind {
        K::Softmax | K::CrossEntropy | K::LayerNorm | K::RmsNorm | K::Mask => (full, Some(op.cols / full)),
        K::Embedding | K::Permute => {
            let vector = widest(op.cols, op.dtype);
            (vector, Some(op.cols / vector))
        }
        K::Rotary => {
            let width = reference::rotary_width(op.cols).unwrap_or(2);
            let vector = widest(width / 2, op.dtype);
            (vector, Some(op.cols / 2 / vector))
        }
        K::Quantize => (widest(op.cols, op.dtype), None),
        _ => (full, None),
    }
}

/// Rows and columns of the tiles that are cast and transposed, as `kernels/quantize.cu` has them.
const TILE: u64 = 64;

/// A memory-bound operator that is set up.
pub(super) struct MemoryBound {
    op: Memory,
    name: String,
    function: CudaFunction,
    shape: Shape,
    /// For the gradients of norm weights: the kernel that adds the sums of blocks, and their
    /// address.
    columns: Option<(CudaFunction, u64)>,
}

impl MemoryBound {
    pub(super) fn new(
        op: &Memory,
        driver: &Driver,
        kernels: &Kernels,
        limits: Limits,
        arena: &mut Arena,
    ) -> Result<Self> {
        if let Some(reason) = refuses(op, limits) {
            return Err(Error::infeasible(reason));
        }
        let (source, name) = kernel_of(op.kind, op.pass);
        let is_norm = matches!(op.kind, MemoryKind::LayerNorm | MemoryKind::RmsNorm);
        let (vector, packs) = accesses(op);
        let tiles = || op.rows.div_ceil(TILE) * op.cols.div_ceil(TILE);
        let mut shape = match packs {
            Some(packs) => Shape::rows(op.rows, packs),
            None if op.kind == MemoryKind::Quantize => Shape {
                blocks: u32::try_from(tiles()).unwrap_or(u32::MAX),
                threads: (256, 1),
                shared: 0,
            },
            None => Shape::flat(op.rows * op.cols / vector, limits.processors),
        };
        let function = kernels.function(driver, (source, op.dtype, vector), &name)?;
        let mut columns = None;
        if is_norm && op.pass == Pass::Backward {
            let blocks = op.rows.min(2 * limits.processors);
            let shared = column_bytes(op);
            shape = Shape {
                blocks: blocks as u32,
                threads: (threads_of_row(op.cols / vector), 1),
                shared: shared as u32,
            };
            // Without it a block has 48 KiB, of which the kernel's static variables take their part.
            let most = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            function
                .set_attribute(most, shared as i32)
                .map_err(failed("give a block so much shared memory"))?;
            let adds = kernels.function(driver, (source, op.dtype, vector), "add_blocks")?;
            let partial = arena.take(sums(op) * blocks * op.cols * 4)?;
            columns = Some((adds, partial));
        }
        Ok(Self {
            op: *op,
            name,
            function,
            shape,
            columns,
        })
    }

    /// The arguments of the kernel: pointers to the operands in the order of the reference, then
    /// numbers.
    fn arguments(&self, operands: &Placement, set: u64) -> Vec<Argument> {
        use MemoryKind as K;
        use Pass::{Backward, Forward};
        let op = &self.op;
        let elements = Count(op.rows * op.cols);
        let (rows, cols) = (Count(op.rows), Int(op.cols as i32));
        let partial = self.columns.as_ref().map_or(0, |(_, partial)| *partial);
        let survivor = Float((1.0 / (1.0 - f64::from(reference::DROPOUT) / 2f64.powi(32))) as f32);
        // A second kernel writes the gradients of norm weights.
        let slots = operands.operands().iter();
        let slots = slots.filter(|slot| !WEIGHT_GRADIENTS.contains(&slot.name));
        let pointers = slots.map(|slot| Address(operands.address(set, slot.name)));
        let numbers = match (op.kind, op.pass) {
            (K::Gelu | K::Swiglu | K::Add | K::Copy | K::Zero, _) => vec![elements],
            // They are refused.
            (
                K::AccumulateGradient
                | K::PlainAdam
                | K::CastFp8
                | K::CausalConv
                | K::CausalConvStep
                | K::Downcast
                | K::Upcast,
                _,
            ) => Vec::new(),
            (K::Quantize | K::Softmax | K::CrossEntropy | K::Embedding | K::Permute, _) => {
                vec![rows, cols]
            }
            (K::LayerNorm | K::RmsNorm, Forward) => {
                vec![rows, cols, Float(reference::EPSILON as f32)]
            }
            (K::LayerNorm | K::RmsNorm, Backward) => vec![Address(partial), rows, cols],
            (K::Mask, Forward) => vec![rows, cols, Float(f32::NEG_INFINITY)],
            (K::Mask, Backward) => vec![rows, cols, Float(0.0)],
            (K::Dropout, Forward) => vec![elements, Word(reference::DROPOUT), survivor],
            (K::Dropout, Backward) => vec![elements, survivor],
            (K::Rotary, pass) => {
                let width = reference::rotary_width(op.cols).unwrap_or(2) as i32;
                let positions = reference::positions(op.rows) as i32;
                let turn = if pass == Forward { 1.0 } else { -1.0 };
                vec![rows, cols, Int(width), Int(positions), Float(turn)]
            }
            (K::Adam, _) => {
                let corrected = |beta: f64| Float((1.0 / (1.0 - beta.powi(adam::STEP))) as f32);
                // In single precision there is no copy of the weights in a narrower format.
                let low = (op.dtype == Dtype::Fp32).then_some(Address(0));
                let constants = [
                    elements,
                    Float(adam::RATE as f32),
                    Float(adam::BETA_1 as f32),
                    Float(adam::BETA_2 as f32),
                    corrected(adam::BETA_1),
                    corrected(adam::BETA_2),
                    Float(adam::EPSILON as f32),
                    Float(adam::DECAY as f32),
                ];
                low.into_iter().chain(constants).collect()
            }
        };
        pointers.chain(numbers).collect()
    }
}

impl Algorithm for MemoryBound {
    fn enqueue(&self, driver: &Driver, operands: &Placement, set: u64) -> Result<()> {
        let arguments = self.arguments(operands, set);
        // SAFETY: the arguments are those that the source declares, which the checks of every
        // kernel against the reference hold to; the operands lie in the pool with the sizes that
        // the kernel was set up for.
        unsafe { launch(driver, &self.function, self.shape, &arguments) }?;
        let Some((adds, partial)) = &self.columns else {
            return Ok(());
        };
        let blocks = self.shape.blocks;
        let shape = Shape {
            blocks: self.op.cols.div_ceil(32) as u32,
            threads: (32, 32),
            shared: 0,
        };
        let bytes = u64::from(blocks) * self.op.cols * 4;
        let outputs = WEIGHT_GRADIENTS.iter().take(sums(&self.op) as usize);
        for (at, name) in outputs.enumerate() {
            let arguments = [
                Address(partial + at as u64 * bytes),
                Address(operands.address(set, name)),
                Int(blocks as i32),
                Int(self.op.cols as i32),
            ];
            // SAFETY: as above; the sums of the blocks were taken from the arena for this operator.
            unsafe { launch(driver, adds, shape, &arguments) }?;
        }
        Ok(())
    }

    fn kernel(&self) -> Option<Kernel> {
        Some(Kernel {
            name: Some(self.name.clone()),
            ..Kernel::default()
        })
    }
}
