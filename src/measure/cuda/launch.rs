//! Our kernels on a device: compiled when first needed, launched with arguments of known types.

use super::compile::{self, Source};
use super::driver::{Driver, failed};
use crate::error::Result;
use crate::ops::Dtype;
use cudarc::driver::result;
use cudarc::driver::{CudaFunction, CudaModule};
use cudarc::nvrtc::Ptx;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Arc;

/// A source, its format, and its elements per access.
type Variant = (Source, Dtype, u64);

/// The kernels of a device.
pub struct Kernels {
    architecture: String,
    modules: RefCell<HashMap<Variant, Arc<CudaModule>>>,
}

/// One argument of a kernel.
#[derive(Clone, Copy, Debug)]
pub enum Argument {
    /// A pointer into device memory.
    Address(u64),
    /// `unsigned long long`.
    Count(u64),
    /// `int`.
    Int(i32),
    /// `unsigned`.
    Word(u32),
    /// `float`.
    Float(f32),
}

/// Launch configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub blocks: u32,
    /// Threads along x and y.
    pub threads: (u32, u32),
    /// Bytes of dynamic shared memory.
    pub shared: u32,
}

impl Shape {
    /// Shape of a kernel over a flat tensor of this many packs of elements.
    pub fn flat(packs: u64, processors: u64) -> Self {
        const THREADS: u64 = 256;
        // More blocks than this only loop less; with fewer, the tail is longer.
        let most = processors * 64;
        Self {
            blocks: packs.div_ceil(THREADS).clamp(1, most.max(1)) as u32,
            threads: (THREADS as u32, 1),
            shared: 0,
        }
    }

    /// Shape of a kernel whose threads along x share a row: four warps to a block for short rows,
    /// else a block with about two packs per thread.
    pub fn rows(rows: u64, packs: u64) -> Self {
        if packs <= 32 * 4 {
            return Self {
                blocks: rows.div_ceil(4) as u32,
                threads: (32, 4),
                shared: 0,
            };
        }
        Self {
            blocks: rows as u32,
            threads: (threads_of_row(packs), 1),
            shared: 0,
        }
    }
}

/// Number of threads that share a row of this many packs.
pub fn threads_of_row(packs: u64) -> u32 {
    packs.div_ceil(2).next_multiple_of(32).clamp(64, 512) as u32
}

impl Kernels {
    /// Kernels for the architecture of this device.
    pub fn new(major: i32, minor: i32) -> Result<Self> {
        Ok(Self {
            architecture: compile::architecture(major, minor)?,
            modules: RefCell::default(),
        })
    }

    /// A kernel by its name; its source is compiled at first use.
    pub fn function(&self, driver: &Driver, (source, dtype, vector): Variant, name: &str) -> Result<CudaFunction> {
        let known = self.modules.borrow().get(&(source, dtype, vector)).cloned();
        let module = match known {
            Some(module) => module,
            None => {
                let compiled = compile::compile(source, dtype, vector, &self.architecture)?;
                let image = Ptx::from_binary(compiled.image);
                let module = driver
                    .context()
                    .load_module(image)
                    .map_err(failed(&format!("load {}", source.name())))?;
                let mut modules = self.modules.borrow_mut();
                modules.insert((source, dtype, vector), Arc::clone(&module));
                module
            }
        };
        module
            .load_function(name)
            .map_err(failed(&format!("find the kernel {name}")))
    }
}

/// Enqueues a kernel.
///
/// # Safety
///
/// The arguments must be those of the kernel, in number, order and type, and addresses must hold
/// what it reads and writes.
pub unsafe fn launch(driver: &Driver, function: &CudaFunction, shape: Shape, arguments: &[Argument]) -> Result<()> {
    driver.bind()?;
    // Hosts of CUDA are little-endian, so a number is at the start of its eight bytes.
    let mut values: Vec<u64> = arguments
        .iter()
        .map(|argument| match *argument {
            Argument::Address(value) | Argument::Count(value) => value,
            Argument::Int(value) => u64::from(value.cast_unsigned()),
            Argument::Word(value) => value.into(),
            Argument::Float(value) => value.to_bits().into(),
        })
        .collect();
    let mut pointers: Vec<*mut c_void> = values
        .iter_mut()
        .map(|value| std::ptr::from_mut(value).cast())
        .collect();
    // SAFETY: the caller vouches for the arguments; they are copied before the call returns, and
    // their values and pointers live until then. The function belongs to a module that its handle
    // keeps loaded.
    unsafe {
        result::launch_kernel(
            function.cu_function(),
            (shape.blocks, 1, 1),
            (shape.threads.0, shape.threads.1, 1),
            shape.shared,
            driver.stream().cu_stream(),
            &mut pointers,
        )
    }
    .map_err(failed("launch a kernel"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_threads_and_no_block_is_too_large() {
        for packs in [1, 31, 128, 129, 1000, 100_000] {
            for rows in [1, 3, 4, 5, 4096] {
                let shape = Shape::rows(rows, packs);
                let per_block = u64::from(shape.threads.1);
                assert!(u64::from(shape.blocks) * per_block >= rows);
                assert!(shape.threads.0.is_multiple_of(32));
                assert!(shape.threads.0 * shape.threads.1 <= 512);
                // One warp needs no barrier; more rows than one to a block would share it.
                assert!(shape.threads.0 == 32 || shape.threads.1 == 1);
            }
        }
        assert_eq!(Shape::flat(0, 132).blocks, 1);
        assert_eq!(Shape::flat(1 << 40, 132).blocks, 132 * 64);
    }
}
