//! Memory-bound operators: which of our kernels runs, with which arguments and how many threads.

use super::algorithm::Algorithm;
use super::compile::Source;
use super::driver::{Driver, failed};
use super::launch::Argument::{self, Address, Count, Float, Int, Word};
use super::launch::{Kernels, Shape, launch, threads_of_row};
use super::placement::{Arena, Placement};
use crate::dataset::Kernel;
use crate::error::{Error, Result};
use crate::measure::reference::{self, Access, adam};
use crate::ops::{Dtype, Memory, MemoryKind, Pass};
use cudarc::driver::CudaFunction;
use cudarc::driver::sys::CUfunction_attribute;

/// Operands that the kernel of a norm's backward pass leaves to `add_blocks`.
const WEIGHT_GRADIENTS: [&str; 2] = ["dgamma", "dbeta"];

/// Limits of the device for memory-bound kernels.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Streaming multiprocessors.
    pub processors: u64,
    /// Largest dynamic shared memory of a block, in bytes.
    pub shared_bytes: u64,
}

/// Why an operator cannot run, if it cannot.
pub fn refuses(op: &Memory, limits: Limits) -> Option<String> {
    if !matches!(op.dtype, Dtype::Fp32 | Dtype::Fp16 | Dtype::Bf16) {
        return Some(format!("{} is a format of GEMMs", op.dtype));
    }
    if op.rows == 0 || op.cols == 0 || op.rows >= 1 << 31 || op.cols >= 1 << 31 {
        return Some("rows and columns must be 1 to 2^31 - 1".to_owned());
    }
    let is_backward_norm = op.pass == Pass::Backward && is_norm(op.kind);
    if is_backward_norm && column_bytes(op) > limits.shared_bytes {
        return Some("the sums of so many columns do not fit into shared memory".to_owned());
    }
    reference::refuses_memory(op)
}

const fn is_norm(kind: MemoryKind) -> bool {
    matches!(kind, MemoryKind::LayerNorm | MemoryKind::RmsNorm)
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

/// Elements per access: the widest of 16 bytes that divides this length.
fn widest(length: u64, dtype: Dtype) -> u64 {
    let mut elements = 16 / dtype.size();
    while !length.is_multiple_of(elements) {
        elements /= 2;
    }
    elements
}

/// Elements per access, and the accesses of a row where threads along x share one.
fn accesses(op: &Memory, access: Access) -> (u64, Option<u64>) {
    let full = 16 / op.dtype.size();
    let (vector, shared) = match access {
        Access::Rows => (full, Some(op.cols)),
        Access::MovedRows => (widest(op.cols, op.dtype), Some(op.cols)),
        Access::Pairs => {
            let width = reference::rotary_width(op.cols).unwrap_or(2);
            (widest(width / 2, op.dtype), Some(op.cols / 2))
        }
        Access::Tiles => (widest(op.cols, op.dtype), None),
        Access::Flat => (full, None),
    };
    (vector, shared.map(|elements| elements / vector))
}

/// Rows and columns of the tiles that are cast and transposed, as `kernels/quantize.cu` has them.
const TILE: u64 = 64;

/// A memory-bound operator that is set up.
pub struct MemoryBound {
    op: Memory,
    name: &'static str,
    access: Access,
    function: CudaFunction,
    shape: Shape,
    /// For the gradients of norm weights: the kernel that adds the sums of blocks, and their
    /// address.
    columns: Option<(CudaFunction, u64)>,
}

impl MemoryBound {
    pub fn new(op: &Memory, driver: &Driver, kernels: &Kernels, limits: Limits, arena: &mut Arena) -> Result<Self> {
        if let Some(reason) = refuses(op, limits) {
            return Err(Error::infeasible(reason));
        }
        let (file, name, access) = reference::cuda_kernel(op).expect("it would be refused");
        let source = Source::parse(file).expect("a file of kernels/");
        let (vector, packs) = accesses(op, access);
        let tiles = || op.rows.div_ceil(TILE) * op.cols.div_ceil(TILE);
        let mut shape = match packs {
            Some(packs) => Shape::rows(op.rows, packs),
            None if access == Access::Tiles => Shape {
                blocks: u32::try_from(tiles()).unwrap_or(u32::MAX),
                threads: (256, 1),
                shared: 0,
            },
            None => Shape::flat(op.rows * op.cols / vector, limits.processors),
        };
        let function = kernels.function(driver, (source, op.dtype, vector), name)?;
        let mut columns = None;
        if is_norm(op.kind) && op.pass == Pass::Backward {
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
            access,
            function,
            shape,
            columns,
        })
    }

    /// The arguments of the kernel: pointers to the operands in the order of the reference, then
    /// numbers.
    fn arguments(&self, operands: &Placement, set: u64) -> Vec<Argument> {
        use MemoryKind as K;
        let op = &self.op;
        let is_forward = op.pass == Pass::Forward;
        // A second kernel writes the gradients of norm weights.
        let slots = operands.operands().iter();
        let slots = slots.filter(|slot| !WEIGHT_GRADIENTS.contains(&slot.name));
        let pointers = slots.map(|slot| operands.address(set, slot.name));
        let sums = self.columns.iter().map(|(_, partial)| *partial);
        // In single precision there is no copy of the weights in a narrower format.
        let low = (op.kind == K::Adam && op.dtype == Dtype::Fp32).then_some(0);
        let sizes = match self.access {
            Access::Flat => vec![Count(op.rows * op.cols)],
            _ => vec![Count(op.rows), Int(op.cols as i32)],
        };
        let real = |value: f64| Float(value as f32);
        let more = match op.kind {
            K::LayerNorm | K::RmsNorm if is_forward => vec![real(reference::EPSILON)],
            K::Mask => vec![Float(if is_forward { f32::NEG_INFINITY } else { 0.0 })],
            K::Dropout => {
                let survivor = real(1.0 / (1.0 - f64::from(reference::DROPOUT) / 2f64.powi(32)));
                let threshold = is_forward.then_some(Word(reference::DROPOUT));
                threshold.into_iter().chain([survivor]).collect()
            }
            K::Rotary => {
                let width = reference::rotary_width(op.cols).unwrap_or(2);
                let whole = [width, reference::positions(op.rows)].map(|size| Int(size as i32));
                let turn = Float(if is_forward { 1.0 } else { -1.0 });
                [&whole[..], &[turn]].concat()
            }
            K::Adam => {
                let corrected = |beta: f64| 1.0 / (1.0 - beta.powi(adam::STEP));
                let constants = [
                    adam::RATE,
                    adam::BETA_1,
                    adam::BETA_2,
                    corrected(adam::BETA_1),
                    corrected(adam::BETA_2),
                    adam::EPSILON,
                    adam::DECAY,
                ];
                constants.map(real).into()
            }
            _ => Vec::new(),
        };
        let pointers = pointers.chain(sums).chain(low).map(Address);
        pointers.chain(sizes).chain(more).collect()
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
            name: Some(self.name.to_owned()),
            ..Kernel::default()
        })
    }
}
