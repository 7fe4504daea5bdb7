//! What operands hold while they are timed: random normals, never zeros, and whole numbers where rows or classes go.
//!
//! Zeros would draw less power, and products of them would look a tenth faster than they are.

use crate::error::Result;
use crate::measure::cuda::compile::Source;
use crate::measure::cuda::driver::Driver;
use crate::measure::cuda::launch::Argument::{Address, Count, Float, Int, Word};
use crate::measure::cuda::launch::{Kernels, Shape, launch};
use crate::measure::cuda::placement::{Placement, Slot};
use crate::measure::format;
use crate::measure::reference::{self, Element};
use crate::ops::Dtype;
use crate::ops::Op;
use crate::random::Random;

/// Fills all sets: everything with normals in the operator's format first, then what must be something else.
pub(super) fn fill(
    driver: &Driver,
    kernels: &Kernels,
    processors: u64,
    op: &Op,
    operands: &Placement,
) -> Result<()> {
    let dtype = match op.dtype() {
        Some(Dtype::Tf32) | None => Dtype::Fp32,
        Some(dtype) => dtype,
    };
    let (address, bytes) = operands.region();
    normals(driver, kernels, processors, dtype, (address, bytes), false)?;
    for set in 0..operands.sets() {
        for slot in operands.operands().iter().filter(|slot| slot.is_input) {
            let address = operands.address(set, slot.name);
            fill_special(driver, kernels, processors, op, slot, address)?;
        }
    }
    Ok(())
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

/// Normals over a part of the pool; only their magnitudes where asked.
pub(super) fn normals(
    driver: &Driver,
    kernels: &Kernels,
    processors: u64,
    dtype: Dtype,
    (address, bytes): (u64, u64),
    magnitudes: bool,
) -> Result<()> {
    let vector = 16 / dtype.size();
    let function = kernels.function(driver, (Source::Fill, dtype, vector), "fill_normal")?;
    let elements = bytes / dtype.size();
    let shape = Shape::flat(elements / vector, processors);
    let arguments = [
        Address(address),
        Count(elements),
        Word(0x5eed_0001),
        Float(1.0),
        Int(magnitudes.into()),
    ];
    // SAFETY: the arguments are those of the kernel, and the part lies in the pool.
    unsafe { launch(driver, &function, shape, &arguments) }
}

/// What normals would be wrong for: whole numbers, flags, squares, and what the forward pass of attention leaves.
fn fill_special(
    driver: &Driver,
    kernels: &Kernels,
    processors: u64,
    op: &Op,
    slot: &Slot,
    address: u64,
) -> Result<()> {
    let variant = (Source::Fill, Dtype::Fp32, 4);
    let shape = Shape::flat(slot.elements, processors);
    let (name, arguments) = match (slot.element, slot.name, op) {
        (Element::Index, name, Op::Memory(memory)) => {
            let end = match name {
                "classes" => memory.cols,
                _ => memory.rows,
            };
            let order = [
                Address(address),
                Count(slot.elements),
                Count(coprime(end)),
                Count(end),
            ];
            ("fill_order", order.to_vec())
        }
        (Element::Flag, _, _) => {
            let flags = [
                Address(address),
                Count(slot.elements),
                Word(reference::DROPOUT),
            ];
            ("fill_flags", flags.to_vec())
        }
        (Element::Single, "v", _) => {
            let region = (address, slot.bytes);
            return normals(driver, kernels, processors, Dtype::Fp32, region, true);
        }
        (Element::Single, "stats", _) => {
            let (queries, keys, causal) = match op {
                Op::Attention(attention) => (attention.seq_q, attention.seq_kv, attention.causal),
                Op::Memory(memory) => (1, memory.cols, false),
                _ => (1, 1, false),
            };
            let stats = [
                Address(address),
                Count(slot.elements),
                Count(queries),
                Count(keys),
                Int(causal.into()),
            ];
            ("fill_stats", stats.to_vec())
        }
        _ => return Ok(()),
    };
    let function = kernels.function(driver, variant, name)?;
    // SAFETY: the arguments are those of the kernel named, and the operand lies in the pool.
    unsafe { launch(driver, &function, shape, &arguments) }
}

/// A factor near the golden section of `end` that shares no divisor with it, so that its multiples visit every number
/// below `end` once and neighbours lie far apart.
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
