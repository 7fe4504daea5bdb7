//! Placement of operands in the pool: sets of operands, each aligned to 256 bytes and followed by a
//! guard.

use crate::error::{Error, Result};
use crate::measure::reference::{self, Element};
use crate::ops::Op;
use crate::units::Bytes;
use std::ops::Range;

/// Alignment of addresses in bytes; cuBLASLt and cuDNN assume less.
const ALIGNMENT: u64 = 256;

/// Size in bytes of the guard behind each operand, which no kernel may write.
pub const GUARD: u64 = 256;

/// Arena (bump) allocator.
#[derive(Clone, Debug)]
pub struct Arena {
    next: u64,
    end: u64,
}

impl Arena {
    pub const fn new(address: u64, bytes: u64) -> Self {
        Self {
            next: address.next_multiple_of(ALIGNMENT),
            end: address + bytes,
        }
    }

    /// Address of the next allocation.
    pub const fn start(&self) -> u64 {
        self.next
    }

    pub const fn left(&self) -> u64 {
        self.end.saturating_sub(self.next)
    }

    /// Allocates this many bytes.
    pub fn take(&mut self, bytes: u64) -> Result<u64> {
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
pub fn too_large(bytes: u64, left: u64) -> Error {
    let shown = |bytes: u64| Bytes::from_bytes(bytes as f64);
    Error::infeasible(format!(
        "operands of {} do not fit into the {} that are left of the pool",
        shown(bytes),
        shown(left)
    ))
}

/// One operand of a set.
#[derive(Clone, Debug, PartialEq)]
pub struct Slot {
    pub name: &'static str,
    pub element: Element,
    pub elements: u64,
    pub bytes: u64,
    /// Offset in its set, in bytes.
    pub offset: u64,
    pub is_input: bool,
    pub is_output: bool,
    /// Whether it lies among the inputs that cases share.
    pub is_shared: bool,
}

impl Slot {
    /// Whether nothing writes it and plain normals do: neither indices and flags, nor squares (`v`)
    /// and statistics of a softmax.
    fn may_be_shared(&self) -> bool {
        let plain = matches!(self.element, Element::Tensor | Element::Single);
        plain && !self.is_output && !matches!(self.name, "v" | "stats")
    }
}

/// The operands of one operator, in several sets of equal layout.
#[derive(Clone, Debug)]
pub struct Placement {
    slots: Vec<Slot>,
    base: u64,
    set_bytes: u64,
    sets: u64,
    /// Base of the inputs that cases share, and the bytes of a set of them.
    shared: (u64, u64),
}

impl Placement {
    /// The slots of one set and its size in bytes; an operand that is updated in place has one
    /// slot.
    pub fn slots(op: &Op) -> Option<(Vec<Slot>, u64)> {
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
                is_shared: false,
            });
            offset += bytes.next_multiple_of(ALIGNMENT) + GUARD;
        }
        Some((slots, offset))
    }

    /// Takes as many sets as are wanted and fit, at least one.
    pub fn new(op: &Op, arena: &mut Arena, wanted: impl Fn(u64) -> u64) -> Result<Self> {
        let (slots, set_bytes) =
            Self::slots(op).ok_or_else(|| Error::infeasible(format!("{op} has no operands on one GPU")))?;
        let sets = wanted(set_bytes).min(arena.left() / set_bytes).max(1);
        let base = arena.take(set_bytes * sets)?;
        Ok(Self {
            slots,
            base,
            set_bytes,
            sets,
            shared: (0, 0),
        })
    }

    /// The same, with the inputs that plain normals do at `home`, where cases of one format share
    /// them; what the operator writes, or what is not plain, comes from the arena.
    ///
    /// Where the inputs do not fit behind `home`, they end with the arena.
    pub fn sharing(op: &Op, arena: &mut Arena, home: u64, wanted: impl Fn(u64) -> u64) -> Result<Self> {
        let (mut slots, bytes) =
            Self::slots(op).ok_or_else(|| Error::infeasible(format!("{op} has no operands on one GPU")))?;
        let (mut own, mut shared) = (0, 0);
        for slot in &mut slots {
            slot.is_shared = slot.may_be_shared();
            let area = if slot.is_shared { &mut shared } else { &mut own };
            slot.offset = *area;
            *area += slot.bytes.next_multiple_of(ALIGNMENT) + GUARD;
        }
        let sets = wanted(bytes).min(arena.left() / bytes).max(1);
        let base = arena.take(own * sets)?;
        let needed = shared * sets;
        if needed > arena.left() {
            return Err(too_large(needed, arena.left()));
        }
        let last = (arena.end - needed) & !(ALIGNMENT - 1);
        Ok(Self {
            slots,
            base,
            set_bytes: own,
            sets,
            shared: (home.clamp(arena.start().min(last), last), shared),
        })
    }

    pub const fn sets(&self) -> u64 {
        self.sets
    }

    /// Bytes of a set, shared inputs included.
    pub const fn set_bytes(&self) -> u64 {
        self.set_bytes + self.shared.1
    }

    /// All sets as (address, bytes), without shared inputs.
    pub const fn region(&self) -> (u64, u64) {
        (self.base, self.set_bytes * self.sets)
    }

    /// The shared inputs of all sets.
    pub const fn shared(&self) -> Range<u64> {
        let (base, bytes) = self.shared;
        base..base + bytes * self.sets
    }

    /// The inputs that lie in [`Placement::region`].
    pub fn own_inputs(&self) -> impl Iterator<Item = &Slot> {
        let slots = self.slots.iter();
        slots.filter(|slot| slot.is_input && !slot.is_shared)
    }

    pub fn operands(&self) -> &[Slot] {
        &self.slots
    }

    /// The address of an operand in a set; sets repeat.
    ///
    /// # Panics
    ///
    /// Panics if the operator has no operand of this name, which is a bug in this module.
    pub fn address(&self, set: u64, name: &str) -> u64 {
        let slot = self.slots.iter().find(|slot| slot.name == name);
        let slot = slot.unwrap_or_else(|| panic!("no operand `{name}`"));
        let (base, bytes) = match slot.is_shared {
            true => self.shared,
            false => (self.base, self.set_bytes),
        };
        base + set % self.sets * bytes + slot.offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{Dtype, Gemm, Memory, MemoryKind, Pass};

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
    fn inputs_that_nothing_writes_lie_at_home_apart_from_the_rest() {
        let gemm = Op::Gemm(Gemm::new(64, 64, 64));
        let (start, end, home) = (1024, 1024 + (1 << 20), 1024 + (1 << 18));
        let placed = |op: &Op, home, wanted| {
            let mut arena = Arena::new(start, end - start);
            Placement::sharing(op, &mut arena, home, |_| wanted).unwrap()
        };
        let placement = placed(&gemm, home, 4);
        assert_eq!(placement.sets(), 4);
        assert_eq!(placement.shared().start, home);
        assert_eq!((placement.address(0, "a"), placement.address(0, "c")), (home, start));
        assert_eq!(placement.own_inputs().count(), 0);
        let (base, bytes) = placement.region();
        for set in 0..4 {
            for slot in placement.operands() {
                let address = placement.address(set, slot.name);
                let area = if slot.is_output {
                    base..base + bytes
                } else {
                    placement.shared()
                };
                assert!(area.contains(&address) && address + slot.bytes <= area.end);
            }
        }
        let Some((_, whole)) = Placement::slots(&gemm) else {
            unreachable!()
        };
        assert_eq!(placement.set_bytes(), whole);
        // As many sets as fit, which then end with the arena.
        let large = placed(&gemm, home, 1000);
        assert!(large.sets() > 10 && large.shared().end <= end);
        assert!(large.shared().start >= large.region().0 + large.region().1);
        // Weights and their moments are updated in place: every case draws them anew.
        let own: Vec<_> = placed(&adam(), home, 2).own_inputs().map(|slot| slot.name).collect();
        assert_eq!(own, ["weight", "m", "v"]);
    }

    #[test]
    fn what_does_not_fit_says_so() {
        let error = Placement::new(&adam(), &mut Arena::new(0, 512), |_| 1).unwrap_err();
        assert!(error.to_string().contains("do not fit"), "{error}");
    }
}
