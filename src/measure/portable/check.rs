//! Every operator that burn runs here, held against the reference on small shapes that no tile divides.

use crate::error::Result;
use crate::measure::device::Checked;
use crate::measure::portable::Forms;
use crate::measure::portable::chain::failed;
use crate::measure::portable::operands::Given;
use crate::measure::portable::operands::Operands;
use crate::measure::reference;
use crate::ops::Attention;
use crate::ops::Dtype;
use crate::ops::Gemm;
use crate::ops::Memory;
use crate::ops::MemoryKind;
use crate::ops::Op;
use crate::ops::Pass;
use burn::tensor::DType;
use burn::tensor::Device;

/// Seed of the inputs.
const SEED: u64 = 20_240_125;

/// Products that are compared, as `m`, `n`, `k` and batch: odd rows, rows of whole vectors, several at once.
const PRODUCTS: [(u64, u64, u64, u64); 4] = [
    (33, 65, 17, 1),
    (128, 96, 130, 1),
    (40, 72, 264, 1),
    (5, 31, 64, 3),
];

/// What is compared: every operator in every format, products in every layout, single and batched.
pub fn ops(forms: &Forms) -> Vec<Op> {
    let mut ops = Vec::new();
    for &dtype in &forms.dtypes {
        for &layout in &forms.layouts {
            for (m, n, k, batch) in PRODUCTS {
                ops.push(Op::Gemm(Gemm {
                    m,
                    n: n.next_multiple_of(forms.multiple),
                    k: k.next_multiple_of(forms.multiple),
                    batch,
                    layout,
                    dtype,
                }));
            }
        }
        for (seq_q, seq_kv, causal) in [(33, 33, false), (65, 65, true), (1, 77, false)] {
            ops.push(Op::Attention(Attention {
                batch: 2,
                heads: 3,
                kv_heads: 3,
                seq_q,
                seq_kv,
                head_dim: 40,
                value_dim: 40,
                causal,
                window: 0,
                pass: Pass::Forward,
                dtype,
            }));
        }
        for kind in [MemoryKind::Softmax, MemoryKind::Add] {
            ops.push(Op::Memory(Memory {
                kind,
                rows: 7,
                cols: 129,
                pass: Pass::Forward,
                dtype,
            }));
        }
    }
    ops
}

/// Runs one operator once and compares its result.
pub fn check(device: &Device, op: &Op) -> Result<Checked> {
    let inputs = reference::inputs(op, SEED);
    let expected = reference::run(op, &inputs);
    let mut given = Given {
        device,
        operands: inputs.into_iter(),
    };
    let operands = Operands::new(op, &mut given);
    let result = operands.call().into_data().convert_dtype(DType::F32);
    let result = result
        .try_to_vec::<f32>()
        .map_err(|error| failed(format!("{error:?}")))?;
    Ok(Checked {
        path: op.to_string(),
        error: reference::error(&result, &expected[0]),
        allowed: reference::allowed(op.dtype().unwrap_or(Dtype::Fp32)),
    })
}
