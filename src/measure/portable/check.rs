//! Compares every operator that burn runs here with the reference, on small shapes that no tile
//! divides.

use super::SupportedGemms;
use super::chain::failed;
use super::operands::{self, HostValues};
use crate::error::Result;
use crate::measure::device::Checked;
use crate::measure::path::KernelPath;
use crate::measure::reference;
use crate::ops::{Attention, Dtype, Gemm, Memory, MemoryKind, Op, Pass};
use burn::tensor::{DType, Device};

/// Seed of the inputs.
const SEED: u64 = 20_240_125;

/// Shapes of GEMMs, as `m`, `n`, `k` and batch: odd rows, rows of whole vectors, a batch.
const GEMMS: [(u64, u64, u64, u64); 4] = [(33, 65, 17, 1), (128, 96, 130, 1), (40, 72, 264, 1), (5, 31, 64, 3)];

/// The operators that are compared: all in every supported one of these formats, GEMMs also in every layout.
pub fn ops(supported: &SupportedGemms, formats: &[Dtype]) -> Vec<Op> {
    let mut ops = Vec::new();
    let wanted = |dtype: &&Dtype| formats.contains(dtype);
    for &dtype in supported.dtypes.iter().filter(wanted) {
        for &layout in &supported.layouts {
            for (m, n, k, batch) in GEMMS {
                let [n, k] = [n, k].map(|size| size.next_multiple_of(supported.multiple));
                ops.push(Op::Gemm(Gemm {
                    batch,
                    layout,
                    dtype,
                    ..Gemm::new(m, n, k)
                }));
            }
        }
        use Pass::{Backward, Forward};
        for (seq_q, seq_kv, causal, pass) in [
            (33, 33, false, Forward),
            (65, 65, true, Forward),
            (1, 77, false, Forward),
            (1, 78, true, Forward),
            (33, 33, false, Backward),
            (65, 65, true, Backward),
        ] {
            ops.push(Op::Attention(Attention {
                seq_q,
                causal,
                pass,
                dtype,
                ..Attention::new(2, 3, seq_kv, 40)
            }));
        }
        for (kind, pass) in MemoryKind::ALL
            .into_iter()
            .flat_map(|kind| Pass::ALL.map(|pass| (kind, pass)))
        {
            let op = Op::Memory(Memory {
                kind,
                rows: 7,
                cols: 130,
                pass,
                dtype,
            });
            let own = kind.own_format().is_none_or(|own| own == dtype);
            if own && operands::refuses(&op).is_none() {
                ops.push(op);
            }
        }
    }
    ops
}

/// Runs one operator once and compares its result.
pub fn check(device: &Device, op: &Op) -> Result<Checked> {
    let inputs = reference::inputs(op, SEED);
    let expected = reference::run(op, &inputs);
    let mut values = HostValues {
        device,
        operands: inputs.into_iter(),
    };
    let results = operands::operands(op, &mut values).call();
    // Statistics that burn does not keep come last.
    let mut worst: f64 = 0.0;
    for (result, expected) in results.into_iter().zip(&expected) {
        let values = result.into_data().convert_dtype(DType::F32);
        let values = values
            .try_to_vec::<f32>()
            .map_err(|error| failed(format!("{error:?}")))?;
        worst = worst.max(reference::error(&values, expected));
    }
    Ok(Checked {
        path: KernelPath::of(op),
        name: op.to_string(),
        error: worst,
        allowed: reference::allowed(op.dtype().unwrap_or(Dtype::Fp32)),
    })
}
