//! XLA's own cost tables: collectives by kind, size and group, where all groups of the machine run at once, and GEMMs, whose
//! times hold the launch by the host (a floor of about 5 us).

use super::{Batch, Importer, MICROSECOND, Parquet, Reader, Reading, Recipe, unknown};
use crate::error::Result;
use crate::ops::{Collective, CollectiveKind, Dtype, Gemm, Op};

const COLLECTIVE: &[&str] = &[
    "collective",
    "tensor_bytes",
    "gpus_per_group",
    "time_us",
    "throughput_gb_s",
];

const GEMM: &[&str] = &["batch", "m", "n", "k", "lhs", "rhs", "out", "time_us", "suspect"];

/// GB/s below which a rate in whole hundredths says nothing of the time that follows from it: 2 % at the least.
const LEAST_RATE: f64 = 0.25;

/// The publisher and its tables.
pub(super) const IMPORTER: Importer = Importer {
    repository: "ROCm/xla@d02afb4f",
    licence: "Apache-2.0",
    tables: "its collectives with collective, tensor_bytes, gpus_per_group, throughput_gb_s and time_us, or GEMMs with \
             device_key, batch, m, n, k, lhs, rhs, out and time_us",
    recipe,
};

/// What to do with a file, judged by its columns.
fn recipe(file: &Parquet) -> Option<Recipe> {
    let recipe = |columns, readers| Recipe {
        identity: &["gpu"],
        identify: |texts| (texts[0].to_owned(), "xla".to_owned()),
        columns,
        readers,
    };
    if file.has_all(COLLECTIVE) {
        return Some(recipe(COLLECTIVE, vec![collective]));
    }
    let gemms = file.has_all(GEMM) && file.has("device_key");
    gemms.then(|| recipe(GEMM, vec![gemm]))
}

fn gemm<'a>(rows: &'a Batch<'_>) -> Result<Reader<'a>> {
    let (batch, m) = (rows.counts("batch")?, rows.counts("m")?);
    let (n, k) = (rows.counts("n")?, rows.counts("k")?);
    let (left, right) = (rows.texts("lhs")?, rows.texts("rhs")?);
    let (output, suspect) = (rows.texts("out")?, rows.flags("suspect")?);
    let time = rows.numbers("time_us")?;
    Ok(Box::new(move |row| {
        if suspect.get(row) == Some(true) {
            return Err("marked as suspect".to_owned());
        }
        let is_fp8 = |format: &str| format.starts_with("f8");
        let dtype = match (left.get(row), right.get(row), output.get(row)) {
            (Some("bf16"), Some("bf16"), Some("bf16")) => Dtype::Bf16,
            (Some("f32"), Some("f32"), Some("f32")) => Dtype::Tf32,
            (Some(left), Some(right), Some("bf16")) if is_fp8(left) && is_fp8(right) => Dtype::Fp8,
            (Some("bf16"), Some("bf16"), other) => return Err(unknown("out", other)),
            (other, ..) => return Err(unknown("lhs", other)),
        };
        Ok(Reading::new(
            Op::Gemm(Gemm {
                batch: batch.size(row),
                dtype,
                ..Gemm::new(m.size(row), n.size(row), k.size(row))
            }),
            time.time(row, MICROSECOND),
        ))
    }))
}

fn collective<'a>(rows: &'a Batch<'_>) -> Result<Reader<'a>> {
    let kind = rows.texts("collective")?;
    let (bytes, ranks) = (rows.counts("tensor_bytes")?, rows.counts("gpus_per_group")?);
    let (time, rate) = (rows.numbers("time_us")?, rows.numbers("throughput_gb_s")?);
    Ok(Box::new(move |row| {
        let hundredths = 100.0 * rate.get(row).unwrap_or(0.0);
        let rounded = (hundredths - hundredths.round()).abs() < 1e-4;
        if rounded && hundredths < 100.0 * LEAST_RATE {
            return Err("time of a rate that is rounded to 0.01 GB/s".to_owned());
        }
        let kind = match kind.get(row) {
            Some("all-reduce") => CollectiveKind::AllReduce,
            Some("all-gather") => CollectiveKind::AllGather,
            Some("reduce-scatter") => CollectiveKind::ReduceScatter,
            Some("all-to-all") => CollectiveKind::AllToAll,
            // Every GPU sends to its neighbour.
            Some("collective-permute") => CollectiveKind::SendReceive,
            other => return Err(unknown("collective", other)),
        };
        let ranks = match kind {
            CollectiveKind::SendReceive => 2,
            _ => ranks.size(row),
        };
        Ok(Reading::new(
            Op::Collective(Collective::new(kind, bytes.size(row), ranks)),
            time.time(row, MICROSECOND),
        ))
    }))
}
