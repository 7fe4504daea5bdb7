//! Which operators of PyTorch are operators of ours, and where their sizes are.
//!
//! A trace without formats, strides or arguments has them in the names of kernels.

use super::event::Details;
use crate::dataset::schema::product;
use crate::ops::{Attention, Dtype, Gemm, Layout, Memory, MemoryKind, Op, Pass};
use serde_json::Value;

/// How the inputs of an operator say its sizes; numbers are places among its inputs.
pub enum Mapping {
    /// A GEMM whose left operand has this place, the right one the next.
    Gemm(usize),
    /// Attention over `(sequences, heads, tokens, width)`, or `(sequences, tokens, heads, width)`.
    Attention {
        query: usize,
        causal: usize,
        /// A mask of its own.
        mask: Option<usize>,
        tokens_first: bool,
        pass: Pass,
    },
    /// A kernel over rows of the first input.
    Memory(MemoryKind, Pass),
}

/// Attention by `scaled_dot_product_attention`.
const fn attention(query: usize, causal: usize, mask: Option<usize>, pass: Pass) -> Mapping {
    Mapping::Attention {
        query,
        causal,
        mask,
        tokens_first: false,
        pass,
    }
}

/// Attention by the package `flash_attn`: after `causal` come the window left and right, the soft cap and the slopes of
/// ALiBi.
const fn flash(query: usize, causal: usize, pass: Pass) -> Mapping {
    Mapping::Attention {
        query,
        causal,
        mask: Some(causal + 4),
        tokens_first: true,
        pass,
    }
}

use Pass::{Backward, Forward};

/// The operators, by name; none of them calls another one.
#[rustfmt::skip]
const OPERATORS: [(&str, Mapping); 22] = [
    ("aten::mm", Mapping::Gemm(0)),
    ("aten::addmm", Mapping::Gemm(1)),
    ("aten::bmm", Mapping::Gemm(0)),
    ("aten::baddbmm", Mapping::Gemm(1)),
    ("aten::_scaled_mm", Mapping::Gemm(0)),
    ("aten::_scaled_dot_product_flash_attention", attention(0, 4, None, Forward)),
    ("aten::_scaled_dot_product_efficient_attention", attention(0, 6, Some(3), Forward)),
    ("aten::_scaled_dot_product_cudnn_attention", attention(0, 6, Some(3), Forward)),
    ("aten::_scaled_dot_product_flash_attention_backward", attention(1, 11, None, Backward)),
    ("aten::_scaled_dot_product_efficient_attention_backward", attention(1, 11, Some(4), Backward)),
    ("aten::_scaled_dot_product_cudnn_attention_backward", attention(1, 14, Some(8), Backward)),
    ("flash_attn::_flash_attn_forward", flash(0, 5, Forward)),
    ("flash_attn::_flash_attn_backward", flash(1, 11, Backward)),
    ("aten::native_layer_norm", Mapping::Memory(MemoryKind::LayerNorm, Forward)),
    ("aten::native_layer_norm_backward", Mapping::Memory(MemoryKind::LayerNorm, Backward)),
    ("aten::_fused_rms_norm", Mapping::Memory(MemoryKind::RmsNorm, Forward)),
    ("aten::_fused_rms_norm_backward", Mapping::Memory(MemoryKind::RmsNorm, Backward)),
    ("aten::_softmax", Mapping::Memory(MemoryKind::Softmax, Forward)),
    ("aten::_softmax_backward_data", Mapping::Memory(MemoryKind::Softmax, Backward)),
    ("aten::gelu", Mapping::Memory(MemoryKind::Gelu, Forward)),
    ("aten::gelu_backward", Mapping::Memory(MemoryKind::Gelu, Backward)),
    ("aten::add", Mapping::Memory(MemoryKind::Add, Forward)),
];

/// How the inputs of this operator are read; `None` if no operator of ours is like it.
pub fn mapping(name: &str) -> Option<&'static Mapping> {
    let found = OPERATORS.iter().find(|(known, _)| *known == name);
    found.map(|(_, mapping)| mapping)
}

/// An operator of ours.
pub struct Mapped {
    op: Op,
    /// Whether the layout of a GEMM, the format and the mask are to be read from the name of its kernel.
    layout_unknown: bool,
    dtype_unknown: bool,
    mask_unknown: bool,
}

type Result<T> = std::result::Result<T, &'static str>;

impl Mapping {
    /// The operator of a call, or why it cannot be mapped.
    pub fn read(&self, call: &Details) -> Result<Mapped> {
        if call.dims.is_empty() {
            return Err("no shapes; record with record_shapes=True");
        }
        let mapped = |op, mask_unknown| Mapped {
            op,
            layout_unknown: false,
            dtype_unknown: call.types.is_empty(),
            mask_unknown,
        };
        match *self {
            Self::Gemm(left) => gemm(call, left),
            Self::Attention {
                query,
                causal,
                mask,
                tokens_first,
                pass,
            } => {
                if mask.is_some_and(|mask| !call.sizes(mask).is_ok_and(|sizes| sizes.is_empty())) {
                    return Err("a mask of its own");
                }
                let mask_unknown = call.concrete.is_empty();
                let states = tokens_first && !mask_unknown;
                if states && [1, 2].iter().any(|side| call.text(causal + side) != Some("-1")) {
                    return Err("a sliding window");
                }
                let cap = call.text(causal + 3).and_then(|cap| cap.parse().ok());
                if states && cap != Some(0.0) {
                    return Err("a soft cap");
                }
                let causal = match call.text(causal) {
                    Some("True") => true,
                    Some("False") => false,
                    _ if mask_unknown => false,
                    _ => return Err("no word on its mask"),
                };
                let axes = |place: usize| match call.sizes(place)?[..] {
                    [batch, one, two, width] if tokens_first => Ok([batch, two, one, width]),
                    [batch, heads, tokens, width] => Ok([batch, heads, tokens, width]),
                    _ => Err("operands that are not of four axes"),
                };
                let [batch, heads, seq_q, head_dim] = axes(query)?;
                let [_, kv_heads, seq_kv, _] = axes(query + 1)?;
                let [.., value_dim] = axes(query + 2)?;
                let attention = Attention {
                    batch,
                    heads,
                    kv_heads,
                    seq_q,
                    seq_kv,
                    head_dim,
                    value_dim,
                    causal,
                    window: 0,
                    pass,
                    dtype: call.dtype(query)?,
                };
                Ok(mapped(Op::Attention(attention), mask_unknown))
            }
            Self::Memory(kind, pass) => {
                let sizes = call.sizes(0)?;
                if kind == MemoryKind::Add && call.sizes(1)? != sizes {
                    return Err("operands of two shapes");
                }
                let (cols, rows) = sizes.split_last().ok_or("operands without axes")?;
                // `dim` of a softmax or `normalized_shape` of a norm; without them, the weight of a norm.
                let is_last = match call.text(if pass == Forward { 1 } else { 2 }) {
                    Some(axis) => {
                        [format!("[{cols}]"), "-1".to_owned(), rows.len().to_string()].contains(&axis.to_owned())
                    }
                    None => call.dims.contains(&Value::from([*cols])),
                };
                if !matches!(kind, MemoryKind::Gelu | MemoryKind::Add) && !is_last {
                    return Err("no word that its axis is the last one");
                }
                let dtype = call.dtype(0)?;
                let (rows, cols) = (product(rows).ok_or("sizes whose product is above 2^64 - 1")?, *cols);
                let memory = Memory {
                    pass,
                    ..Memory::forward(kind, rows, cols, dtype)
                };
                Ok(mapped(Op::Memory(memory), false))
            }
        }
    }
}

fn gemm(call: &Details, place: usize) -> Result<Mapped> {
    let (left, right) = (call.sizes(place)?, call.sizes(place + 1)?);
    let (batch, [m, k], [other, n]) = match (&left[..], &right[..]) {
        (&[m, k], &[other, n]) => (1, [m, k], [other, n]),
        (&[batch, m, k], &[same, other, n]) if batch == same => (batch, [m, k], [other, n]),
        _ => return Err("operands that are no matrices"),
    };
    if k != other {
        return Err("operands that do not fit together");
    }
    // A matrix that is stored column by column is a transposed one.
    let transposed = |place: usize| {
        let strides = call.strides(place)?;
        let [.., row, column] = strides[..] else {
            return None;
        };
        Some(row == 1 && column != 1)
    };
    let layout = transposed(place + 1)
        .zip(transposed(place))
        .map(|transposed| match transposed {
            (true, false) => Layout::Tn,
            (false, false) => Layout::Nn,
            (false, true) => Layout::Nt,
            (true, true) => Layout::Tt,
        });
    Ok(Mapped {
        op: Op::Gemm(Gemm {
            m,
            n,
            k,
            batch,
            layout: layout.unwrap_or_default(),
            dtype: call.dtype(place)?,
        }),
        layout_unknown: layout.is_none(),
        dtype_unknown: call.types.is_empty(),
        mask_unknown: false,
    })
}

impl Mapped {
    /// The operator, with what the name of its longest kernel says besides.
    pub fn with_kernel(mut self, kernel: &str) -> Result<Op> {
        if self.dtype_unknown {
            let known = dtype_of(kernel).ok_or("no formats, and a kernel whose name has none")?;
            match &mut self.op {
                Op::Gemm(Gemm { dtype, .. })
                | Op::Attention(Attention { dtype, .. })
                | Op::Memory(Memory { dtype, .. }) => *dtype = known,
                _ => {}
            }
        }
        match &mut self.op {
            Op::Gemm(gemm) => {
                if self.layout_unknown {
                    gemm.layout = layout_of(kernel).ok_or("no strides, and a kernel whose name has no layout")?;
                }
                if gemm.dtype == Dtype::Fp32 && kernel.contains("tf32") {
                    gemm.dtype = Dtype::Tf32;
                }
            }
            Op::Attention(attention) => {
                if self.mask_unknown {
                    attention.causal = mask_of(kernel)?;
                }
                if !matches!(attention.dtype, Dtype::Fp16 | Dtype::Bf16 | Dtype::Fp32) {
                    return Err("a format that attention of ours has not");
                }
            }
            _ => {}
        }
        Ok(self.op)
    }
}

/// What the names of kernels call a format, most telling first: those of others hold that of their sums besides.
const FORMATS: [(Dtype, &[&str]); 4] = [
    (Dtype::Fp8, &["e4m3", "e5m2", "nvjet_qq"]),
    (Dtype::Bf16, &["bf16", "bfloat16", "BFloat16", "nvjet_t"]),
    (Dtype::Fp16, &["f16", "fp16", "half", "Half", "nvjet_h"]),
    (Dtype::Fp32, &["sgemm", "f32", "float", "nvjet_s"]),
];

/// The format that a kernel is named by.
fn dtype_of(kernel: &str) -> Option<Dtype> {
    let named = |(_, words): &&(_, &[&str])| words.iter().any(|word| kernel.contains(word));
    FORMATS.iter().find(named).map(|(dtype, _)| *dtype)
}

/// Whether a kernel of FlashAttention 2 is causal, by its template `<traits, dropout, causal, local, ...>`.
fn mask_of(kernel: &str) -> Result<bool> {
    let unknown = "no word on its mask";
    let is_flash = ["flash_fwd_kernel", "flash_bwd_dq_dk_dv"]
        .iter()
        .any(|name| kernel.contains(name));
    let (_, list) = kernel.split_once('<').filter(|_| is_flash).ok_or(unknown)?;
    let mut depth = 0;
    let arguments: Vec<&str> = list
        .split(|letter| {
            depth += i32::from(letter == '<') - i32::from(letter == '>');
            depth < 0 || (depth == 0 && letter == ',')
        })
        .collect();
    let is_true = |place: usize| {
        let argument = arguments.get(place)?.trim().trim_start_matches("(bool)");
        Some(matches!(argument, "1" | "true"))
    };
    match is_true(3).ok_or(unknown)? || is_true(7) == Some(true) {
        true => Err("a sliding window or a soft cap"),
        false => is_true(2).ok_or(unknown),
    }
}

/// The layout that a kernel of cuBLAS, CUTLASS or Tensile is named by: `ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_tn`,
/// `nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT`, `Cijk_Alik_Bljk_BBS_BH_MT256x112x64`.
fn layout_of(kernel: &str) -> Option<Layout> {
    kernel.split('_').rev().find_map(|part| match part.len() {
        2 => Layout::parse(part),
        3 if kernel.starts_with("nvjet") => Layout::parse(&part.get(..2)?.to_lowercase()),
        4 if part.starts_with('B') && kernel.starts_with("Cijk") => {
            let right = if part == "Bjlk" { "t" } else { "n" };
            let left = if kernel.contains("_Alik_") { "t" } else { "n" };
            Layout::parse(&format!("{left}{right}"))
        }
        _ => None,
    })
}

impl Details {
    /// The sizes of a tensor; empty if there is none.
    fn sizes(&self, place: usize) -> Result<Vec<u64>> {
        numbers(self.dims.get(place)).ok_or("inputs of another kind")
    }

    /// What an input that is no tensor is.
    fn text(&self, place: usize) -> Option<&str> {
        self.concrete.get(place)?.as_str()
    }

    fn strides(&self, place: usize) -> Option<Vec<u64>> {
        numbers(self.strides.get(place))
    }

    /// The format of a tensor; any where the trace has none.
    fn dtype(&self, place: usize) -> Result<Dtype> {
        if self.types.is_empty() {
            return Ok(Dtype::Bf16);
        }
        let name = self.types.get(place).and_then(Value::as_str);
        match name.map(|name| name.strip_prefix("c10::").unwrap_or(name)) {
            Some("BFloat16") => Ok(Dtype::Bf16),
            Some("Half") => Ok(Dtype::Fp16),
            Some("float") => Ok(Dtype::Fp32),
            Some("Float8_e4m3fn" | "Float8_e5m2") => Ok(Dtype::Fp8),
            _ => Err("an unknown format"),
        }
    }
}

fn numbers(list: Option<&Value>) -> Option<Vec<u64>> {
    list?.as_array()?.iter().map(Value::as_u64).collect()
}
