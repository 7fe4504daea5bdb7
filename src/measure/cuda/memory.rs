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
use crate::ops::Dtype;
use crate::ops::Memory;
use crate::ops::MemoryKind;
use crate::ops::Pass;
use cudarc::driver::CudaFunction;
use cudarc::driver::sys::CUfunction_attribute;

/// Shared memory that a block gets without asking for more.
const PLAIN_SHARED_BYTES: u64 = 48 << 10;

/// What a memory-bound kernel needs to know of its device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Streaming multiprocessors.
    pub(super) processors: u64,
    /// The most dynamic shared memory of a block, in bytes.
    pub(super) shared_bytes: u64,
}

/// Why an operator cannot run, where it cannot.
pub(super) fn refuses(op: &Memory, limits: Limits) -> Option<String> {
    if matches!(op.dtype, Dtype::Tf32 | Dtype::Fp8) {
        return Some(format!("{} is a format of products", op.dtype.name()));
    }
    if op.rows == 0 || op.cols == 0 || op.rows >= 1 << 31 || op.cols >= 1 << 31 {
        return Some("rows and columns must be 1 to 2^31 - 1".to_owned());
    }
    match (op.kind, op.pass) {
        (MemoryKind::Adam, Pass::Backward) => Some("Adam has no backward pass".to_owned()),
        (MemoryKind::Rotary, _) if op.cols % 2 == 1 => {
            Some("rotary embedding needs an even number of columns".to_owned())
        }
        (MemoryKind::LayerNorm | MemoryKind::RmsNorm, Pass::Backward)
            if column_bytes(op) > limits.shared_bytes =>
        {
            Some("the sums of so many columns do not fit into shared memory".to_owned())
        }
        _ => None,
    }
}

/// Columns whose sums the backward pass of a norm keeps: weights, and shifts where it is centred.
const fn sums(op: &Memory) -> u64 {
    match op.kind {
        MemoryKind::LayerNorm => 2,
        _ => 1,
    }
}

/// Shared memory for the sums per column of the backward pass of a norm.
const fn column_bytes(op: &Memory) -> u64 {
    sums(op) * op.cols * 4
}

/// The source and the name of the kernel.
const fn kernel_of(kind: MemoryKind, pass: Pass) -> (Source, &'static str) {
    use MemoryKind as K;
    use Pass::{Backward, Forward};
    match (kind, pass) {
        (K::Softmax, Forward) => (Source::Softmax, "softmax_forward"),
        (K::Softmax, Backward) => (Source::Softmax, "softmax_backward"),
        (K::CrossEntropy, Forward) => (Source::Softmax, "cross_entropy_forward"),
        (K::CrossEntropy, Backward) => (Source::Softmax, "cross_entropy_backward"),
        (K::LayerNorm, Forward) => (Source::Norm, "layer_norm_forward"),
        (K::LayerNorm, Backward) => (Source::Norm, "layer_norm_backward"),
        (K::RmsNorm, Forward) => (Source::Norm, "rms_norm_forward"),
        (K::RmsNorm, Backward) => (Source::Norm, "rms_norm_backward"),
        (K::Mask, _) => (Source::Elementwise, "mask"),
        (K::Dropout, Forward) => (Source::Elementwise, "dropout_forward"),
        (K::Dropout, Backward) => (Source::Elementwise, "dropout_backward"),
        (K::Gelu, Forward) => (Source::Elementwise, "gelu_forward"),
        (K::Gelu, Backward) => (Source::Elementwise, "gelu_backward"),
        (K::Swiglu, Forward) => (Source::Elementwise, "swiglu_forward"),
        (K::Swiglu, Backward) => (Source::Elementwise, "swiglu_backward"),
        (K::Rotary, _) => (Source::Elementwise, "rotary"),
        (K::Add, _) => (Source::Elementwise, "add"),
        (K::Adam, _) => (Source::Elementwise, "adam"),
        (K::Embedding | K::Permute, Forward) => (Source::Gather, "gather"),
        (K::Embedding, Backward) => (Source::Gather, "scatter_add"),
        (K::Permute, Backward) => (Source::Gather, "scatter"),
        (K::Copy, _) => (Source::Copy, "copy"),
    }
}

/// Elements per access: the widest of 16 bytes that divides this length.
fn widest(length: u64, dtype: Dtype) -> u64 {
    let mut elements = 16 / dtype.size();
    while !length.is_multiple_of(elements) {
        elements /= 2;
    }
    elements
}

/// Whether threads along x share a row.
const fn is_by_row(kind: MemoryKind) -> bool {
    matches!(
        kind,
        MemoryKind::Softmax
            | MemoryKind::CrossEntropy
            | MemoryKind::LayerNorm
            | MemoryKind::RmsNorm
            | MemoryKind::Mask
            | MemoryKind::Embedding
            | MemoryKind::Permute
    )
}

/// A memory-bound operator that is set up.
pub(super) struct MemoryBound {
    op: Memory,
    name: &'static str,
    function: CudaFunction,
    shape: Shape,
    /// For the gradients of norm weights: the kernel that adds the blocks, and where their sums lie.
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
        let (vector, mut shape) = if is_by_row(op.kind) {
            let vector = widest(op.cols, op.dtype);
            (vector, Shape::rows(op.rows, op.cols / vector))
        } else if op.kind == MemoryKind::Rotary {
            let width = reference::rotary_width(op.cols).unwrap_or(2);
            let vector = widest(width / 2, op.dtype);
            let pairs = op.rows * (op.cols / 2 / vector);
            (vector, Shape::flat(pairs, limits.processors))
        } else {
            let vector = 16 / op.dtype.size();
            let packs = op.rows * op.cols / vector;
            (vector, Shape::flat(packs, limits.processors))
        };
        let function = kernels.function(driver, (source, op.dtype, vector), name)?;
        let mut columns = None;
        if is_norm && op.pass == Pass::Backward {
            let blocks = op.rows.min(2 * limits.processors);
            let shared = column_bytes(op);
            shape = Shape {
                blocks: blocks as u32,
                threads: (threads_of_row(op.cols / vector), 1),
                shared: shared as u32,
            };
            if shared > PLAIN_SHARED_BYTES {
                let most = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
                function
                    .set_attribute(most, shared as i32)
                    .map_err(failed("give a block so much shared memory"))?;
            }
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

    /// The arguments of the kernel, as its source declares them.
    fn arguments(&self, operands: &Placement, set: u64) -> Vec<Argument> {
        use MemoryKind as K;
        use Pass::{Backward, Forward};
        let op = &self.op;
        let elements = Count(op.rows * op.cols);
        let (rows, cols) = (Count(op.rows), Int(op.cols as i32));
        let at = |name: &str| Address(operands.address(set, name));
        let all = |names: &[&str]| names.iter().map(|name| at(name)).collect::<Vec<_>>();
        let partial = self.columns.as_ref().map_or(0, |(_, partial)| *partial);
        let epsilon = Float(reference::EPSILON as f32);
        let survivor = 1.0 / (1.0 - f64::from(reference::DROPOUT) / 2f64.powi(32));
        let (mut arguments, sizes): (Vec<Argument>, Vec<Argument>) = match (op.kind, op.pass) {
            (K::Softmax, Forward) => (all(&["x", "y"]), vec![rows, cols]),
            (K::Softmax, Backward) => (all(&["y", "dy", "dx"]), vec![rows, cols]),
            (K::CrossEntropy, Forward) => (
                all(&["logits", "classes", "loss", "stats"]),
                vec![rows, cols],
            ),
            (K::CrossEntropy, Backward) => (
                all(&["logits", "classes", "stats", "dloss", "dlogits"]),
                vec![rows, cols],
            ),
            (K::LayerNorm, Forward) => {
                (all(&["x", "gamma", "beta", "y"]), vec![rows, cols, epsilon])
            }
            (K::LayerNorm, Backward) => (
                all(&["x", "gamma", "dy", "mean", "rstd", "dx"]),
                vec![Address(partial), rows, cols],
            ),
            (K::RmsNorm, Forward) => (all(&["x", "gamma", "y"]), vec![rows, cols, epsilon]),
            (K::RmsNorm, Backward) => (
                all(&["x", "gamma", "dy", "rstd", "dx"]),
                vec![Address(partial), rows, cols],
            ),
            (K::Mask, Forward) => (all(&["x", "y"]), vec![rows, cols, Float(f32::NEG_INFINITY)]),
            (K::Mask, Backward) => (all(&["dy", "dx"]), vec![rows, cols, Float(0.0)]),
            (K::Dropout, Forward) => (
                all(&["x", "y", "mask"]),
                vec![elements, Word(reference::DROPOUT), Float(survivor as f32)],
            ),
            (K::Dropout, Backward) => (
                all(&["dy", "mask", "dx"]),
                vec![elements, Float(survivor as f32)],
            ),
            (K::Gelu | K::Copy, Forward) => (all(&["x", "y"]), vec![elements]),
            (K::Gelu, Backward) => (all(&["x", "dy", "dx"]), vec![elements]),
            (K::Copy, Backward) => (all(&["dy", "dx"]), vec![elements]),
            (K::Swiglu, Forward) => (all(&["gate", "up", "y"]), vec![elements]),
            (K::Swiglu, Backward) => (all(&["gate", "up", "dy", "dgate", "dup"]), vec![elements]),
            (K::Rotary, pass) => {
                let (from, to, turn) = match pass {
                    Forward => ("x", "y", 1.0),
                    Backward => ("dy", "dx", -1.0),
                };
                let width = reference::rotary_width(op.cols).unwrap_or(2) as i32;
                let positions = reference::positions(op.rows) as i32;
                (
                    all(&[from, "cos", "sin", to]),
                    vec![rows, cols, Int(width), Int(positions), Float(turn)],
                )
            }
            (K::Add, Forward) => (all(&["x", "skip", "y"]), vec![elements]),
            (K::Add, Backward) => (all(&["dy", "dskip", "dx"]), vec![elements]),
            (K::Embedding, Forward) => (all(&["table", "rows", "y"]), vec![rows, cols]),
            (K::Embedding, Backward) => (all(&["dy", "rows", "dtable"]), vec![rows, cols]),
            (K::Permute, Forward) => (all(&["x", "order", "y"]), vec![rows, cols]),
            (K::Permute, Backward) => (all(&["dy", "order", "dx"]), vec![rows, cols]),
            (K::Adam, _) => {
                let mut pointers = all(&["gradient", "weight", "m", "v"]);
                pointers.push(match op.dtype {
                    Dtype::Fp32 => Address(0),
                    _ => at("low"),
                });
                let corrected = |beta: f64| Float((1.0 / (1.0 - beta.powi(adam::STEP))) as f32);
                let constants = vec![
                    elements,
                    Float(adam::RATE as f32),
                    Float(adam::BETA_1 as f32),
                    Float(adam::BETA_2 as f32),
                    corrected(adam::BETA_1),
                    corrected(adam::BETA_2),
                    Float(adam::EPSILON as f32),
                    Float(adam::DECAY as f32),
                ];
                (pointers, constants)
            }
        };
        arguments.extend(sizes);
        arguments
    }
}

impl Algorithm for MemoryBound {
    fn enqueue(&self, driver: &Driver, operands: &Placement, set: u64) -> Result<()> {
        let arguments = self.arguments(operands, set);
        // SAFETY: the arguments are those that the source declares, which the checks of every kernel against the
        // reference hold to; the operands lie in the pool with the sizes that the kernel was set up for.
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
        for (at, name) in ["dgamma", "dbeta"]
            .iter()
            .take(sums(&self.op) as usize)
            .enumerate()
        {
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
