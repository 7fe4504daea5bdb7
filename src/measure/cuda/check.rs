//! Compares every path with the reference on the CPU, before anything is timed.
//!
//! Operands and the guards between them are poisoned first (all bits set, a NaN in every format),
//! so that an output that is not written, and a write out of bounds, is an infinite error.

use super::device::{CudaDevice, Prepared};
use super::guarded;
use super::placement::{GUARD, Slot};
use crate::error::{Error, Result};
use crate::measure::device::{Checked, Checks, Device, NotRun};
use crate::measure::format;
use crate::measure::path::KernelPath;
use crate::measure::reference::{self, Element};
use crate::ops::{Attention, Dtype, Gemm, Layout, Memory, MemoryKind, Op, Pass};

/// Value of every byte before a check.
pub const POISON: u8 = 0xff;

/// Shapes of memory-bound kernels: odd columns, one warp per row, one block per row whose sums of layer norm take 48 KiB,
/// and rows wider than the registers of a block.
const SHAPES: [(u64, u64); 5] = [(7, 129), (9, 64), (33, 1000), (5, 6144), (2, 17_416)];

/// Shapes of GEMMs: sizes that no power of two divides, and sizes that fp8 supports.
const GEMMS: [[u64; 4]; 4] = [[136, 72, 200, 1], [37, 53, 29, 1], [48, 64, 96, 3], [1, 256, 512, 1]];

/// Further shapes of fp8, whose batches and single rows libraries support least.
const FP8_GEMMS: [[u64; 4]; 4] = [
    [144, 64, 192, 1],
    [64, 1024, 512, 1],
    [8, 256, 512, 1],
    [24, 128, 64, 2],
];

/// All operators to check in these formats, including those that a device refuses.
fn operators(formats: &[Dtype]) -> Vec<Op> {
    let mut operators = Vec::new();
    for &dtype in formats {
        for layout in Layout::ALL {
            let more: &[[u64; 4]] = match dtype {
                Dtype::Fp8 => &FP8_GEMMS,
                _ => &[],
            };
            operators.extend(GEMMS.iter().chain(more).map(|&[m, n, k, batch]| {
                Op::Gemm(Gemm {
                    batch,
                    layout,
                    dtype,
                    ..Gemm::new(m, n, k)
                })
            }));
        }
    }
    for kind in MemoryKind::ALL {
        for pass in Pass::ALL {
            let asked = match kind.own_format() {
                Some(own) => vec![own],
                None => formats.to_vec(),
            };
            for dtype in among(&asked, &[Dtype::Fp32, Dtype::Fp16, Dtype::Bf16]) {
                operators.extend(SHAPES.map(|(rows, cols)| {
                    Op::Memory(Memory {
                        kind,
                        rows,
                        cols,
                        pass,
                        dtype,
                    })
                }));
            }
        }
    }
    for dtype in among(formats, &[Dtype::Bf16, Dtype::Fp16]) {
        for causal in [false, true] {
            for pass in Pass::ALL {
                for (seq, head_dim) in [(128, 64), (200, 80)] {
                    operators.push(Op::Attention(Attention {
                        kv_heads: 2,
                        causal,
                        pass,
                        dtype,
                        ..Attention::new(1, 4, seq, head_dim)
                    }));
                }
            }
            operators.push(Op::Attention(Attention {
                kv_heads: 2,
                seq_q: 1,
                causal,
                dtype,
                ..Attention::new(2, 4, 130, 64)
            }));
        }
    }
    operators
}

/// Those of the formats that are among these.
fn among(formats: &[Dtype], these: &[Dtype]) -> impl Iterator<Item = Dtype> {
    these.iter().copied().filter(|dtype| formats.contains(dtype))
}

/// Name of a check in the list.
fn name(op: &Op, output: &str) -> String {
    match op {
        Op::Attention(attention) => format!("attention {} {op} {output}", attention.pass),
        Op::Memory(memory) => {
            let (rows, cols) = (memory.rows, memory.cols);
            let path = format!("{} {} {}", memory.kind, memory.pass, memory.dtype);
            format!("{path} {rows}x{cols} {output}")
        }
        other => format!("{other} {output}"),
    }
}

/// Largest error of an operator: that of its format, doubled for attention, which rounds its
/// probabilities between two GEMMs.
fn allowed(op: &Op) -> f64 {
    let dtype = op.dtype().unwrap_or(Dtype::Fp32);
    match op {
        Op::Attention(_) => 2.0 * reference::allowed(dtype),
        _ => reference::allowed(dtype),
    }
}

/// Checks every path in these formats that the device does not refuse.
pub fn run(device: &mut CudaDevice, formats: &[Dtype]) -> Result<Checks> {
    let mut checks = Checks::default();
    for (seed, op) in operators(formats).iter().enumerate() {
        if device.refuses_op(op).is_some() {
            continue;
        }
        let compared = guarded(|| {
            let prepared = device.prepare(op, |_| 1)?;
            compare(device, op, &prepared, seed as u64)
        });
        match compared {
            Ok(compared) => checks.compared.extend(compared),
            Err(error) => {
                if let Some(lost) = device.lost() {
                    return Err(Error::infeasible(format!(
                        "the check of {op} ended with: {error}; {lost}"
                    )));
                }
                checks.not_run.push(NotRun {
                    path: KernelPath::of(op),
                    name: name(op, "").trim_end().to_owned(),
                    reason: error.to_string(),
                });
            }
        }
    }
    Ok(checks)
}

/// Runs one operator on known inputs and compares each output with the reference.
fn compare(device: &CudaDevice, op: &Op, prepared: &Prepared, seed: u64) -> Result<Vec<Checked>> {
    let (driver, operands) = (device.driver(), &prepared.operands);
    let dtype = op.dtype().unwrap_or(Dtype::Fp32);
    let inputs = reference::inputs(op, seed);
    let expected = reference::run(op, &inputs);
    let (base, bytes) = operands.region();
    device.poison_scratch(operands)?;
    driver.set(base, bytes as usize, POISON)?;
    let slots = operands.operands();
    let read = slots.iter().filter(|slot| slot.is_input);
    for (slot, values) in read.zip(&inputs) {
        let bytes = encode(slot.element, dtype, values);
        driver.upload(operands.address(0, slot.name), &bytes)?;
    }
    prepared.algorithm.enqueue(driver, operands, 0)?;
    let memory = driver.download(base, bytes as usize)?;
    let trespassed = slots.iter().any(|slot| {
        let end = (slot.offset + slot.bytes) as usize;
        let next = (slot.offset + slot.bytes.next_multiple_of(256) + GUARD) as usize;
        memory[end..next].iter().any(|&byte| byte != POISON)
    });
    let Some(outputs) = reference::operands(op).map(|operands| operands.outputs) else {
        return Ok(Vec::new());
    };
    let found = |name: &str| slots.iter().find(|slot| slot.name == name);
    let checks = outputs.iter().zip(&expected).filter_map(|(output, expected)| {
        let slot: &Slot = found(output.name)?;
        let from = slot.offset as usize;
        let measured = decode(slot, dtype, &memory[from..from + slot.bytes as usize]);
        let error = match trespassed {
            true => f64::INFINITY,
            false => reference::error(&measured, expected),
        };
        Some(Checked {
            path: KernelPath::of(op),
            name: name(op, output.name),
            error,
            allowed: allowed(op),
        })
    });
    Ok(checks.collect())
}

/// Values as the device stores them.
fn encode(element: Element, dtype: Dtype, values: &[f32]) -> Vec<u8> {
    let size = element.size(dtype) as usize;
    let mut bytes = Vec::with_capacity(values.len() * size);
    for &value in values {
        let bits = match element.format(dtype) {
            Some(format) => format::encode(format, value),
            None => value as u32,
        };
        bytes.extend_from_slice(&bits.to_le_bytes()[..size]);
    }
    bytes
}

/// Values of the device's bytes; a flag that is neither 0 nor 1 is NaN.
fn decode(slot: &Slot, dtype: Dtype, bytes: &[u8]) -> Vec<f32> {
    let size = slot.element.size(dtype) as usize;
    let words = bytes.chunks_exact(size).map(|stored| {
        let mut word = [0u8; 4];
        word[..size].copy_from_slice(stored);
        u32::from_le_bytes(word)
    });
    words
        .map(|bits| match slot.element.format(dtype) {
            Some(format) => format::decode(format, bits),
            None if slot.element == Element::Flag && bits > 1 => f32::NAN,
            None => bits as f32,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_pass_layout_and_format_is_among_the_checks() {
        let all = operators(&Dtype::ELEMENTS);
        for kind in MemoryKind::ALL {
            for pass in Pass::ALL {
                let found = all
                    .iter()
                    .any(|op| matches!(op, Op::Memory(memory) if (memory.kind, memory.pass) == (kind, pass)));
                assert!(found, "{kind:?} {pass:?}");
            }
        }
        let gemms = all.iter().filter(|op| matches!(op, Op::Gemm(_))).count();
        assert_eq!(gemms, 4 * (5 * GEMMS.len() + FP8_GEMMS.len()));
        let half = operators(&[Dtype::Bf16]);
        let is_single = |op: &&Op| op.dtype() != Some(Dtype::Bf16);
        let single: Vec<_> = half.iter().filter(is_single).collect();
        assert!(
            !single.is_empty()
                && single.iter().all(|op| {
                    matches!(op, Op::Memory(op) if op.kind == MemoryKind::Adam && op.dtype == Dtype::Fp32)
                })
        );
        assert!(half.iter().any(|op| matches!(op, Op::Attention(_))));
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        for (element, values) in [
            (Element::Tensor, [1.0, -2.5, 0.15625]),
            (Element::Single, [1.0, -2.5, 0.1]),
            (Element::Index, [3.0, 70_000.0, 0.0]),
            (Element::Flag, [1.0, 0.0, 1.0]),
        ] {
            let bytes = encode(element, Dtype::Bf16, &values);
            let slot = Slot {
                name: "x",
                element,
                elements: 3,
                bytes: bytes.len() as u64,
                offset: 0,
                is_input: true,
                is_output: false,
                is_shared: false,
            };
            assert_eq!(decode(&slot, Dtype::Bf16, &bytes), values, "{element:?}");
        }
    }
}
