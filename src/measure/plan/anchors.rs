//! Anchors: cases of every plan on a device, which show the drift between runs.

use super::{Planned, Set, Sizing};
use crate::ops::{Attention, Dtype, Gemm, Layout, Memory, MemoryKind, Op, Pass};

/// Sizes of GEMMs (m, n, k), small ones for devices on which the large ones take too long.
const GEMMS: [(u64, u64, u64, Layout); 8] = [
    (4096, 4096, 4096, Layout::Tn),
    (8192, 4096, 11_008, Layout::Nn),
    (4096, 4096, 8192, Layout::Nt),
    (16, 8192, 8192, Layout::Tn),
    (1024, 1024, 1024, Layout::Tn),
    (2048, 2049, 2050, Layout::Tn),
    (256, 256, 256, Layout::Tn),
    (64, 512, 512, Layout::Tn),
];

/// Memory-bound kernels over tensors of (rows, columns).
const KERNELS: [(MemoryKind, u64, u64); 5] = [
    (MemoryKind::RmsNorm, 8192, 4096),
    (MemoryKind::Gelu, 8192, 11_008),
    (MemoryKind::Copy, 16_384, 8192),
    (MemoryKind::Softmax, 256, 1024),
    (MemoryKind::Add, 64, 1024),
];

/// Anchors that do not depend on the plan, as far as they are short enough and the device runs
/// them: in bf16, else in fp32.
pub fn anchors(sizing: &Sizing<'_>, refuses: &dyn Fn(&Op) -> Option<String>) -> Vec<Planned> {
    let smallest = |dtype| Op::Gemm(Gemm::square(256, Layout::Tn, dtype));
    let dtype = match refuses(&smallest(Dtype::Bf16)) {
        None => Dtype::Bf16,
        Some(_) => Dtype::Fp32,
    };
    let gemms = GEMMS.map(|(m, n, k, layout)| {
        let gemm = Gemm {
            layout,
            dtype,
            ..Gemm::new(m, n, k)
        };
        (Op::Gemm(gemm), Set::Transformer)
    });
    let kernels = KERNELS.map(|(kind, rows, cols)| (Op::Memory(Memory::forward(kind, rows, cols, dtype)), Set::Memory));
    let attention = Pass::ALL.map(|pass| {
        let attention = Attention {
            pass,
            dtype,
            ..Attention::new(2, 32, 2048, 128)
        };
        (Op::Attention(attention), Set::Attention)
    });
    let all = gemms.into_iter().chain(kernels).chain(attention);
    let planned = all.map(|(op, set)| Planned { op, set });
    planned
        .filter(|planned| sizing.fits(&planned.op) && refuses(&planned.op).is_none())
        .collect()
}
