//! Tables of zksainx/pipeweave: fp8 GEMMs on Hopper, mean durations in microseconds.

use super::{Batch, Importer, MICROSECOND, Parquet, Reader, Reading, Recipe};
use crate::error::Result;
use crate::ops::{Dtype, Gemm, Op};

const GEMM: &[&str] = &["M", "N", "K", "avg_duration"];

/// The publisher and its tables.
pub(super) const IMPORTER: Importer = Importer {
    repository: "zksainx/pipeweave@55e03178",
    licence: "Apache-2.0",
    tables: "its fp8 GEMMs with hardware, M, N, K and avg_duration",
    recipe,
};

/// What to do with a file, judged by its columns.
fn recipe(file: &Parquet) -> Option<Recipe> {
    let known = file.has_all(GEMM) && file.has("hardware");
    known.then_some(Recipe {
        identity: &["hardware"],
        identify: |texts| {
            let gpu = texts[0].trim_start_matches("NVIDIA ");
            (gpu.to_owned(), "pipeweave".to_owned())
        },
        columns: GEMM,
        readers: vec![gemm],
    })
}

fn gemm<'a>(rows: &'a Batch<'_>) -> Result<Reader<'a>> {
    let (m, n, k) = (rows.counts("M")?, rows.counts("N")?, rows.counts("K")?);
    let duration = rows.numbers("avg_duration")?;
    Ok(Box::new(move |row| {
        Ok(Reading::new(
            Op::Gemm(Gemm {
                dtype: Dtype::Fp8,
                ..Gemm::new(m.size(row), n.size(row), k.size(row))
            }),
            duration.time(row, MICROSECOND),
        ))
    }))
}
