//! Tables of ROCm/aiter: the fastest kernel that a tuner found for each GEMM and each layer of experts on Instinct GPUs.
//!
//! A minimum over kernels is faster than what a library picks by itself, so it is a stack of its own.

use super::{Batch, Importer, MICROSECOND, Parquet, Reader, Reading, Recipe, unknown};
use crate::error::Result;
use crate::ops::{Dtype, Experts, Gemm, Op};

const GEMM: &[&str] = &["cu_num", "M", "N", "K", "us", "file", "q_dtype_w", "libtype"];

const EXPERTS: &[&str] = &[
    "tokens",
    "hidden",
    "ffn",
    "experts",
    "topk",
    "quant_act_dtype",
    "weight_dtype",
    "activation",
    "time_us",
];

/// The publisher and its tables.
pub(super) const IMPORTER: Importer = Importer {
    repository: "ROCm/aiter@e4048607",
    licence: "MIT",
    tables: "its tuned GEMMs with gfx, file, M, N, K and us, or layers of experts with tokens, hidden, ffn, experts, topk, quant and \
             time_us",
    recipe,
};

/// What to do with a file, judged by its columns.
fn recipe(file: &Parquet) -> Option<Recipe> {
    if file.has_all(EXPERTS) && file.has("quant") {
        return Some(Recipe {
            identity: &["gpu", "quant"],
            identify: |texts| {
                let scales = match texts[1] {
                    "No" => String::new(),
                    quant => format!(" {quant}"),
                };
                (texts[0].to_owned(), format!("aiter{scales}, tuned minimum"))
            },
            columns: EXPERTS,
            readers: vec![experts],
        });
    }
    let known = file.has_all(GEMM) && file.has("gfx");
    known.then_some(Recipe {
        identity: &["gfx", "file"],
        identify: |texts| {
            let gpu = match texts[0] {
                "gfx942" => "mi300x",
                "gfx950" => "mi355x",
                other => other,
            };
            // Kernels of weights that lie in memory as the matrix units load them, which the server has to arrange first.
            let weights = match texts[1].contains("bpreshuffle") {
                true => " bpreshuffle",
                false => "",
            };
            (gpu.to_owned(), format!("aiter{weights}, tuned minimum"))
        },
        columns: GEMM,
        readers: vec![gemm],
    })
}

fn gemm<'a>(rows: &'a Batch<'_>) -> Result<Reader<'a>> {
    let (m, n, k) = (rows.counts("M")?, rows.counts("N")?, rows.counts("K")?);
    let (units, time) = (rows.counts("cu_num")?, rows.numbers("us")?);
    let (file, weights) = (rows.texts("file")?, rows.texts("q_dtype_w")?);
    let library = rows.texts("libtype")?;
    Ok(Box::new(move |row| {
        if units.size(row) == 80 {
            return Err("80 compute units, so an MI308X, which data/gpus lacks".to_owned());
        }
        let file = file.get(row).unwrap_or("");
        if file.contains("batched") {
            return Err("batched GEMM without its batch".to_owned());
        }
        let dtype = match weights.get(row) {
            Some("torch.int8") => return Err(unknown("q_dtype_w", weights.get(row))),
            _ if file.contains("a8w8_blockscale") => Dtype::Fp8Block,
            _ if file.contains("a8w8") => Dtype::Fp8,
            _ if file.contains("bf16_tuned") => Dtype::Bf16,
            _ => return Err("4-bit weights".to_owned()),
        };
        Ok(Reading {
            op: Op::Gemm(Gemm {
                dtype,
                ..Gemm::new(m.size(row), n.size(row), k.size(row))
            }),
            time: time.time(row, MICROSECOND),
            group: None,
            libraries: library.get(row),
        })
    }))
}

/// A gated layer in two stages; how the tuner dealt its tokens is not stated, so evenly.
fn experts<'a>(rows: &'a Batch<'_>) -> Result<Reader<'a>> {
    let (tokens, hidden) = (rows.counts("tokens")?, rows.counts("hidden")?);
    let (width, experts) = (rows.counts("ffn")?, rows.counts("experts")?);
    let (top_k, time) = (rows.counts("topk")?, rows.numbers("time_us")?);
    let (inputs, weights) = (rows.texts("quant_act_dtype")?, rows.texts("weight_dtype")?);
    let activation = rows.texts("activation")?;
    Ok(Box::new(move |row| {
        let is_fp8 = |format: &str| format.starts_with("float8");
        let dtype = match (inputs.get(row), weights.get(row)) {
            (Some("bfloat16"), Some("bfloat16")) => Dtype::Bf16,
            (Some("bfloat16"), Some("int4")) => Dtype::W4a16,
            (Some("int8"), Some("int8")) => Dtype::Int8,
            (Some(inputs), Some(weights)) if is_fp8(inputs) && is_fp8(weights) => Dtype::Fp8,
            (_, other) => return Err(unknown("weight_dtype", other)),
        };
        let [tokens, hidden, width] = [&tokens, &hidden, &width].map(|size| size.size(row));
        let layer = Experts::new(tokens, hidden, width, experts.size(row), top_k.size(row));
        Ok(Reading {
            op: Op::Experts(Experts { dtype, ..layer }),
            time: time.time(row, MICROSECOND),
            group: None,
            libraries: activation.get(row),
        })
    }))
}
