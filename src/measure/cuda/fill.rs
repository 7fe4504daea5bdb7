//! Values of operands during timing: random normals, never zeros, and valid indices.
//!
//! Zeros draw less power, which makes GEMMs about a tenth faster.

use super::compile::Source;
use super::driver::Driver;
use super::launch::Argument::{Address, Count, Float, Int, Word};
use super::launch::{Kernels, Shape, launch};
use super::placement::{Placement, Slot};
use crate::error::Result;
use crate::measure::format;
use crate::measure::reference::{self, Element};
use crate::ops::{Dtype, Op};
use crate::random::{Random, fnv1a};
use std::ops::Range;

/// Fills operands with our own kernels.
#[derive(Clone, Copy)]
pub struct Filler<'a> {
    pub driver: &'a Driver,
    pub kernels: &'a Kernels,
    pub processors: u64,
}

/// Format in which an operator's normals are drawn.
pub fn format_of(op: &Op) -> Dtype {
    match op.dtype() {
        Some(Dtype::Tf32) | None => Dtype::Fp32,
        Some(dtype) => dtype,
    }
}

/// Format and number of a draw of normals.
pub type Draw = (Dtype, u64);

/// Parts of the pool that hold the normals of a draw, which nothing has written since.
#[derive(Debug, Default)]
pub struct Filled(Vec<(Draw, Range<u64>)>);

impl Filled {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Forgets what is about to be written, and of the part that it begins in all that follows.
    pub fn forget(&mut self, written: &Range<u64>) {
        for (_, filled) in &mut self.0 {
            if filled.start < written.end && written.start < filled.end {
                filled.end = written.start.max(filled.start);
            }
        }
        self.0.retain(|(_, filled)| !filled.is_empty());
    }

    /// Takes a range as filled with a draw; returns the part of it that has yet to be.
    pub fn claim(&mut self, draw: Draw, range: Range<u64>) -> Range<u64> {
        let holds = |filled: &Range<u64>| filled.start <= range.start && range.start <= filled.end;
        let mut known = self.0.iter();
        let known = known.find(|(of, filled)| *of == draw && holds(filled)).cloned();
        let (start, end) = known.map_or((range.start, range.start), |(_, at)| (at.start, at.end));
        if end >= range.end {
            return range.end..range.end;
        }
        let missing = end..range.end;
        self.forget(&(start..range.end));
        self.0.push((draw, start..range.end));
        missing
    }
}

impl Filler<'_> {
    /// Fills what the sets have of their own: normals, then indices, flags and statistics.
    pub fn fill_own(self, op: &Op, operands: &Placement, draw: u64) -> Result<()> {
        if operands.own_inputs().next().is_none() {
            return Ok(());
        }
        self.normals((format_of(op), draw), operands.region(), false)?;
        for set in 0..operands.sets() {
            for slot in operands.own_inputs() {
                self.fill_special(op, slot, operands.address(set, slot.name), draw)?;
            }
        }
        Ok(())
    }

    /// Fills a range of the pool with normals, or with their magnitudes.
    pub fn normals(self, (dtype, draw): Draw, (address, bytes): (u64, u64), magnitudes: bool) -> Result<()> {
        let vector = 16 / dtype.size();
        let variant = (Source::Fill, dtype, vector);
        let function = self.kernels.function(self.driver, variant, "fill_normal")?;
        let elements = bytes / dtype.size();
        let shape = Shape::flat(elements / vector, self.processors);
        let arguments = [
            Address(address),
            Count(elements),
            // Numbers of elements count from the start of each range.
            Word(0x5eed_0001 ^ fnv1a(&[address, draw].map(u64::to_le_bytes).concat()) as u32),
            Float(1.0),
            Int(magnitudes.into()),
        ];
        // SAFETY: the arguments are those of the kernel, and the range lies in the pool.
        unsafe { launch(self.driver, &function, shape, &arguments) }
    }

    /// Fills operands that cannot be normals: indices, flags, squares, and statistics of attention.
    fn fill_special(self, op: &Op, slot: &Slot, address: u64, draw: u64) -> Result<()> {
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
                return self.normals((Dtype::Fp32, draw), (address, slot.bytes), true);
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

/// Fills a range without kernels of our own: a block of normals from the host, repeated.
pub fn from_host(driver: &Driver, (dtype, draw): Draw, (address, bytes): (u64, u64)) -> Result<()> {
    const BLOCK_BYTES: u64 = 4 << 20;
    let mut random = Random::new(draw, "operands of CUDA");
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
    fn what_was_filled_is_not_filled_again_before_it_is_written() {
        let (ours, theirs) = ((Dtype::Bf16, 0), (Dtype::Fp8, 0));
        let mut filled = Filled::default();
        assert_eq!(filled.claim(ours, 100..200), 100..200);
        assert!(filled.claim(ours, 100..150).is_empty());
        assert!(filled.claim(ours, 120..200).is_empty());
        // A larger case adds what is missing.
        assert_eq!(filled.claim(ours, 100..300), 200..300);
        // Another format or draw in the same place takes it.
        assert_eq!(filled.claim(theirs, 250..400), 250..400);
        assert_eq!(filled.claim(ours, 100..300), 250..300);
        assert_eq!(filled.claim((Dtype::Bf16, 1), 120..140), 120..140);
        assert_eq!(filled.claim(ours, 100..300), 120..300);
        // Outputs that reach into it spoil what follows.
        filled.forget(&(280..290));
        filled.forget(&(500..600));
        assert_eq!(filled.claim(ours, 100..300), 280..300);
        filled.forget(&(0..1000));
        assert_eq!(filled.claim(ours, 100..110), 100..110);
        filled.clear();
        assert_eq!(filled.claim(ours, 100..110), 100..110);
    }

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
