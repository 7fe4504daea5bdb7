//! Values of operands during timing: random normals, never zeros, and valid indices.
//!
//! Zeros draw less power, which makes GEMMs about a tenth faster.

use crate::error::Result;
use crate::measure::cuda::compile::Source;
use crate::measure::cuda::driver::Driver;
use crate::measure::cuda::launch::Argument::{Address, Count, Float, Int, Word};
use crate::measure::cuda::launch::{Kernels, Shape, launch};
use crate::measure::cuda::placement::{Placement, Slot};
use crate::measure::format;
use crate::measure::reference::{self, Element};
use crate::ops::{Dtype, Op};
use crate::random::Random;

/// Fills operands with our own kernels.
#[derive(Clone, Copy)]
pub(super) struct Filler<'a> {
    pub(super) driver: &'a Driver,
    pub(super) kernels: &'a Kernels,
    pub(super) processors: u64,
}

impl Filler<'_> {
    /// Fills all sets: first everything with normals, then indices, flags and statistics.
    pub(super) fn fill(self, op: &Op, operands: &Placement) -> Result<()> {
        let dtype = match op.dtype() {
            Some(Dtype::Tf32) | None => Dtype::Fp32,
            Some(dtype) => dtype,
        };
        self.normals(dtype, operands.region(), false)?;
        for set in 0..operands.sets() {
            for slot in operands.operands().iter().filter(|slot| slot.is_input) {
                self.fill_special(op, slot, operands.address(set, slot.name))?;
            }
        }
        Ok(())
    }

    /// Fills a range of the pool with normals, or with their magnitudes.
    pub(super) fn normals(
        self,
        dtype: Dtype,
        (address, bytes): (u64, u64),
        magnitudes: bool,
    ) -> Result<()> {
        let vector = 16 / dtype.size();
        let variant = (Source::Fill, dtype, vector);
        let function = self.kernels.function(self.driver, variant, "fill_normal")?;
        let elements = bytes / dtype.size();
        let shape = Shape::flat(elements / vector, self.processors);
        let arguments = [
            Address(address),
            Count(elements),
            Word(0x5eed_0001),
            Float(1.0),
            Int(magnitudes.into()),
        ];
        // SAFETY: the arguments are those of the kernel, and the range lies in the pool.
        unsafe { launch(self.driver, &function, shape, &arguments) }
    }

    /// Fills operands that cannot be normals: indices, flags, squares, and statistics of attention.
    fn fill_special(self, op: &Op, slot: &Slot, address: u64) -> Result<()> {
        let (name, more) = match (slot.element, slot.name, op) {
            (Element::Index, name, Op::Memory(memory)) => {
                let end = match name {
                    "classes" => memory.cols,
                    _ => memory.rows,
                };
                ("fill_order", vec![Count(coprime(end)), Count(end)])
            }
            (Element::Flag, _, _) => ("fill_flags", vec![Word(reference::DROPOUT)]),
            (Element::Single, "v", _) => {
                return self.normals(Dtype::Fp32, (address, slot.bytes), true);
            }
            (Element::Single, "stats", _) => {
                let (queries, keys, causal) = match op {
                    Op::Attention(op) => (op.seq_q, op.seq_kv, op.causal),
                    Op::Memory(op) => (1, op.cols, false),
                    _ => (1, 1, false),
                };
                let sizes = vec![Count(queries), Count(keys), Int(causal.into())];
                ("fill_stats", sizes)
            }
            _ => return Ok(()),
        };
        let variant = (Source::Fill, Dtype::Fp32, 4);
        let function = self.kernels.function(self.driver, variant, name)?;
        let shape = Shape::flat(slot.elements, self.processors);
        let arguments = [vec![Address(address), Count(slot.elements)], more].concat();
        // SAFETY: the arguments are those of the kernel named, and the operand lies in the pool.
        unsafe { launch(self.driver, &function, shape, &arguments) }
    }
}

/// Fills all sets without kernels of our own: a block of normals from the host, repeated.
pub(super) fn from_host(driver: &Driver, op: &Op, operands: &Placement) -> Result<()> {
    const BLOCK_BYTES: u64 = 4 << 20;
    let dtype = op.dtype().unwrap_or(Dtype::Fp32);
    let mut random = Random::new(0, "operands of CUDA");
    let (address, bytes) = operands.region();
    let block: Vec<u8> = (0..BLOCK_BYTES.min(bytes) / dtype.size())
        .flat_map(|_| {
            let bits = format::encode(dtype, random.normal() as f32);
            bits.to_le_bytes().into_iter().take(dtype.size() as usize)
        })
        .collect();
    let mut written = 0;
    while written < bytes {
        let left = block.len().min((bytes - written) as usize);
        driver.upload(address + written, &block[..left])?;
        written += left as u64;
    }
    Ok(())
}

/// A number near the golden section of `end` and coprime to it, so that its multiples modulo `end`
/// visit every index once, with neighbours far apart.
fn coprime(end: u64) -> u64 {
    let start = (end as f64 * 0.618_033_988_749_895) as u64;
    (start.max(1)..=end.max(1))
        .find(|&factor| divisor(factor, end) == 1)
        .unwrap_or(1)
}

/// The greatest common divisor.
fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multiples_of_the_factor_visit_every_row_once() {
        for end in [1, 2, 3, 6, 64, 1000, 4099] {
            let factor = coprime(end);
            let mut seen: Vec<_> = (0..end).map(|row| row * factor % end).collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..end).collect::<Vec<_>>(), "{end}");
        }
    }
}
