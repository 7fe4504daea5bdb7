//! Tables of ROCm/aiter: the fastest GEMM kernel that a tuner found for each shape on Instinct GPUs.
//!
//! A minimum over kernels is faster than what a library picks by itself, so it is a stack of its own.

use super::{Batch, Importer, MICROSECOND, Parquet, Reader, Reading, Recipe, unknown};
use crate::error::Result;
use crate::ops::{Dtype, Gemm, Op};

const GEMM: &[&str] = &[
    "cu_num",
    "M",
    "N",
    "K",
    "us",
    "file",
    "q_dtype_w",
    "libtype",
];

/// The publisher and its tables.
pub(super) const IMPORTER: Importer = Importer {
    repository: "ROCm/aiter@e4048607",
    licence: "MIT",
    tables: "its tuned GEMMs with gfx, file, M, N, K and us",
    recipe,
};

/// What to do with a file, judged by its columns.
fn recipe(file: &Parquet) -> Option<Recipe> {
    let known = file.has_all(GEMM) && file.has("gfx");
    known.then_some(Recipe {
        identity: &["gfx", "file"],
        identify: |texts| {
            let gpu = match texts[0] {
                "gfx942" => "mi300x",
                "gfx950" => "mi355x",
                other => other,
            };
            let scales = match texts[1].contains("blockscale") {
                true => " blockscale",
                false => "",
            };
            (gpu.to_owned(), format!("aiter{scales}, tuned minimum"))
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
