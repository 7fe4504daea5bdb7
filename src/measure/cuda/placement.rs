//! Placement of operands in the pool: sets of operands, each aligned to 256 bytes and followed by a
//! guard.

use crate::error::{Error, Result};
use crate::measure::reference::{self, Element};
use crate::ops::Op;
use crate::units::Bytes;

/// Alignment of addresses in bytes; cuBLASLt and cuDNN assume less.
const ALIGNMENT: u64 = 256;

/// Size in bytes of the guard behind each operand, which no kernel may write.
pub(super) const GUARD: u64 = 256;

/// Arena (bump) allocator.
#[derive(Clone, Debug)]
pub(super) struct Arena {
    next: u64,
    end: u64,
}

impl Arena {
    pub(super) const fn new(address: u64, bytes: u64) -> Self {
        Self {
            next: address.next_multiple_of(ALIGNMENT),
            end: address + bytes,
        }
    }

    /// Address of the next allocation.
    pub(super) const fn start(&self) -> u64 {
        self.next
    }

    pub(super) const fn left(&self) -> u64 {
        self.end.saturating_sub(self.next)
    }

    /// Allocates this many bytes.
    pub(super) fn take(&mut self, bytes: u64) -> Result<u64> {
        let bytes = bytes.next_multiple_of(ALIGNMENT);
        if bytes > self.left() {
            return Err(too_large(bytes, self.left()));
        }
        let address = self.next;
        self.next += bytes;
        Ok(address)
    }
}

/// Error for operands that do not fit.
pub(super) fn too_large(bytes: u64, left: u64) -> Error {
    let shown = |bytes: u64| Bytes::from_bytes(bytes as f64);
    Error::infeasible(format!(
        "operands of {} do not fit into the {} that are left of the pool",
        shown(bytes),
        shown(left)
    ))
}

/// One operand of a set.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Slot {
    pub(super) name: &'static str,
    pub(super) element: Element,
    pub(super) elements: u64,
    pub(super) bytes: u64,
    /// Offset in its set, in bytes.
    pub(super) offset: u64,
    pub(super) is_input: bool,
    pub(super) is_output: bool,
}

/// The operands of one operator, in several sets of equal layout.
#[derive(Clone, Debug)]
pub(super) struct Placement {
    slots: Vec<Slot>,
    base: u64,
    set_bytes: u64,
    sets: u64,
}

impl Placement {
    /// The slots of one set and its size in bytes; an operand that is updated in place has one
    /// slot.
    pub(super) fn slots(op: &Op) -> Option<(Vec<Slot>, u64)> {
        let operands = reference::operands(op)?;
        let dtype = op.dtype()?;
        let mut slots: Vec<Slot> = Vec::new();
        let mut offset = 0u64;
        let inputs = operands.inputs.iter().map(|operand| (operand, true));
        let outputs = operands.outputs.iter().map(|operand| (operand, false));
        for (operand, is_input) in inputs.chain(outputs) {
            if let Some(slot) = slots.iter_mut().find(|slot| slot.name == operand.name) {
                slot.is_output = true;
                continue;
            }
            let bytes = operand
                .elements
                .checked_mul(operand.element.size(dtype))
                .filter(|&bytes| bytes < 1 << 50)?;
            slots.push(Slot {
                name: operand.name,
                element: operand.element,
                elements: operand.elements,
                bytes,
                offset,
                is_input,
                is_output: !is_input,
            });
            offset += bytes.next_multiple_of(ALIGNMENT) + GUARD;
        }
        Some((slots, offset))
    }

    /// Takes as many sets as are wanted and fit, at least one.
    pub(super) fn new(op: &Op, arena: &mut Arena, wanted: impl Fn(u64) -> u64) -> Result<Self> {
        let (slots, set_bytes) = Self::slots(op)
            .ok_or_else(|| Error::infeasible(format!("{op} has no operands on one GPU")))?;
        let sets = wanted(set_bytes).min(arena.left() / set_bytes).max(1);
        let base = arena.take(set_bytes * sets)?;
        Ok(Self {
            slots,
            base,
            set_bytes,
            sets,
        })
    }

    pub(super) const fn sets(&self) -> u64 {
        self.sets
    }

    pub(super) const fn set_bytes(&self) -> u64 {
        self.set_bytes
    }

    /// All sets as (address, bytes).
    pub(super) const fn region(&self) -> (u64, u64) {
        (self.base, self.set_bytes * self.sets)
    }

    pub(super) fn operands(&self) -> &[Slot] {
        &self.slots
    }

    /// The address of an operand in a set; sets repeat.
    ///
    /// # Panics
    ///
    /// Panics if the operator has no operand of this name, which is a bug in this module.
    pub(super) fn address(&self, set: u64, name: &str) -> u64 {
        let slot = self.slots.iter().find(|slot| slot.name == name);
        let slot = slot.unwrap_or_else(|| panic!("no operand `{name}`"));
        self.base + set % self.sets * self.set_bytes + slot.offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{Dtype, Memory, MemoryKind, Pass};

    fn adam() -> Op {
        Op::Memory(Memory {
            kind: MemoryKind::Adam,
            rows: 3,
            cols: 5,
            pass: Pass::Forward,
            dtype: Dtype::Bf16,
        })
    }

    #[test]
    fn operands_do_not_overlap_and_are_aligned_with_a_guard_behind() {
        let mut arena = Arena::new(1000, 1 << 20);
        let placement = Placement::new(&adam(), &mut arena, |_| 3).unwrap();
        assert_eq!(placement.sets(), 3);
        let names: Vec<_> = placement.operands().iter().map(|slot| slot.name).collect();
        assert_eq!(names, ["gradient", "weight", "m", "v", "low"]);
        let mut end = 0;
        for set in 0..3 {
            for slot in placement.operands() {
                let address = placement.address(set, slot.name);
                assert!(address.is_multiple_of(256) && address >= end, "{slot:?}");
                end = address + slot.bytes + GUARD;
            }
        }
        let (base, bytes) = placement.region();
        assert!(end <= base + bytes && base + bytes <= 1000 + (1 << 20));
        assert_eq!(placement.address(3, "m"), placement.address(0, "m"));
    }

    #[test]
    fn what_does_not_fit_says_so() {
        let error = Placement::new(&adam(), &mut Arena::new(0, 512), |_| 1).unwrap_err();
        assert!(error.to_string().contains("do not fit"), "{error}");
    }
}
