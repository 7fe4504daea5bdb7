//! Sweeps of EleutherAI/cookbook: the raw timings behind arXiv 2401.14489, fp16 under torch 1.13.
//!
//! A time is the slowest or the mean of 200 calls, so expect a rerun to be a little faster. Plain
//! products ran as `torch.mm` and `torch.bmm` over row-major operands, which cuBLAS sees as `nn`;
//! a transformer's linear layers ran as `torch.nn.functional.linear`, which it sees as `tn`
//! (`sizing/benchmarks/utils.py` of the commit). In the vocabulary sweep the vocabulary is `k`.
//! The wave sweep (`m` 2304, `k` 4096) is for judging predictors: keep it out of training.

use super::{Batch, Filter, Importer, Parquet, Reader, Reading, Recipe, Supplied};
use crate::error::{Error, Result, read_bytes};
use crate::gpu::Gpu;
use crate::ops::{Dtype, Gemm, Layout, Op};
use crate::units::Seconds;
use std::fmt::Write;
use std::path::Path;

const STACK: &str = "cookbook torch 1.13";

/// Micro-batch of the transformer sweep: `m` is 4 x 2048 tokens, attention has 4 x heads members.
const MICRO_BATCH: u64 = 4;

const COLUMNS: &[&str] = &["role", "tp", "batch", "m", "n", "k", "dtype", "seconds"];

/// The publisher and its tables.
pub(super) const IMPORTER: Importer = Importer {
    repository: "EleutherAI/cookbook@e6b8f2b",
    licence: "Apache-2.0",
    tables: "its logs (`.out`), or tables of them with the columns role, tp, batch, m, n, k and seconds, of a GPU that the path or `gpu` names",
    recipe,
};

/// The most bytes of a log; the largest published has 284 kB.
const MOST_LOG: u64 = 16 << 20;

/// Opens a log as it is published, or a table.
pub(super) fn open(path: &Path) -> Result<Parquet> {
    match is_log(path) {
        true => open_log(path),
        false => Parquet::open(path),
    }
}

/// Whether a file is a log as it is published.
pub(super) fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "out")
}

/// A log, `sizing/results/**/*.out`, as a table: of each line `Throughput (in TFLOP/s) for mlp_h_to_4h (4x8128x32512, b=2048): 245.6`
/// the sizes `[members x] m x k x n`, `m` times `b`, and the seconds that the throughput says.
fn open_log(path: &Path) -> Result<Parquet> {
    let place = path.display().to_string();
    let mut table = format!("{}\n", COLUMNS.join(","));
    let mut tp = 1;
    let log = read_bytes(path, MOST_LOG)?;
    for (index, line) in String::from_utf8_lossy(&log).lines().enumerate() {
        if let Some((_, rest)) = line.split_once("tensor_mp_size: ") {
            let size: String = rest.chars().take_while(char::is_ascii_digit).collect();
            tp = size.parse().unwrap_or(1);
        }
        let Some(timing) = line.strip_prefix("Throughput (in TFLOP/s) for ") else {
            continue;
        };
        let row = log_row(timing, tp).ok_or_else(|| {
            Error::field(
                format!("{place}: line {}", index + 1),
                "Throughput",
                format!("`{timing}`"),
                "sizes such as 4096x4096x64 or 16x2048x64x2048, and TFLOP/s",
            )
        })?;
        writeln!(table, "{row}").expect("a text grows");
    }
    Parquet::of_csv(table.as_bytes(), place)
}

/// The cells of [`COLUMNS`] that a line of a log says; nothing where it is none.
fn log_row(timing: &str, tp: u64) -> Option<String> {
    let (label, tflops) = timing.rsplit_once(": ")?;
    let (role, sizes) = match label.split_once(" (") {
        Some((role, sizes)) => (role, sizes.strip_suffix(')')?),
        None if label.contains(", b=") => ("logits", label),
        None => ("plain", label),
    };
    let (sizes, repeats) = match sizes.split_once(", b=") {
        Some((sizes, repeats)) => (sizes, repeats.parse().ok()?),
        None => (sizes, 1),
    };
    let sizes: Vec<u64> = sizes.split('x').map(|size| size.parse().ok()).collect::<Option<_>>()?;
    let (batch, m, k, n) = match sizes[..] {
        [m, k, n] => (1, m.checked_mul(repeats)?, k, n),
        [batch, m, k, n] => (batch, m, k, n),
        _ => return None,
    };
    let rate: f64 = tflops.trim().parse().ok()?;
    let flops = 2.0 * batch as f64 * m as f64 * n as f64 * k as f64;
    let seconds = flops / (rate * 1e12);
    Some(format!("{role},{tp},{batch},{m},{n},{k},fp16,{seconds:e}"))
}

/// The GPU, which the name of a log is (`a100.out`) or the caller knows.
pub(super) fn supplied(path: &Path, filter: &Filter) -> Vec<(&'static str, Supplied)> {
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    let named = stem.filter(|stem| Gpu::find(stem).is_ok());
    let named = named.map(|name| ("gpu", Supplied::Text(name.to_owned())));
    named.into_iter().chain(filter.supplied()).collect()
}

/// What to do with a file, judged by its columns.
fn recipe(file: &Parquet) -> Option<Recipe> {
    (file.has_all(COLUMNS) && file.has("gpu")).then_some(Recipe {
        identity: &["gpu"],
        identify: |texts| {
            // Their A100 is the 40 GB part; our `a100` is the 80 GB one.
            let gpu = match texts[0] {
                "a100" => "a100-40gb",
                other => other,
            };
            (gpu.to_owned(), STACK.to_owned())
        },
        columns: COLUMNS,
        readers: vec![reader],
    })
}

/// `C[m,n] = A[m,k] B[k,n]`, `batch` times.
fn reader<'a>(rows: &'a Batch<'_>) -> Result<Reader<'a>> {
    let (role, dtype) = (rows.texts("role")?, rows.texts("dtype")?);
    let (tp, batch) = (rows.counts("tp")?, rows.counts("batch")?);
    let (m, n, k) = (rows.counts("m")?, rows.counts("n")?, rows.counts("k")?);
    let seconds = rows.numbers("seconds")?;
    Ok(Box::new(move |row| {
        if dtype.get(row) != Some("fp16") {
            return Err("`dtype` is not fp16".to_owned());
        }
        let role = role.get(row).unwrap_or("");
        let product = Gemm {
            m: m.size(row),
            n: n.size(row),
            k: k.size(row),
            batch: batch.size(row),
            layout: layout(role),
            dtype: Dtype::Fp16,
        };
        Ok(Reading {
            op: Op::Gemm(product),
            time: seconds.time(row, Seconds::from_secs(1.0)),
            group: hidden(role, &product, tp.size(row)),
            libraries: None,
        })
    }))
}

fn layout(role: &str) -> Layout {
    match role {
        "plain" | "attention_key_query_prob" | "attention_prob_times_values" => Layout::Nn,
        _ => Layout::Tn,
    }
}

/// Hidden size of the transformer that a product was timed for; nothing for plain sweeps.
fn hidden(role: &str, product: &Gemm, tp: u64) -> Option<u64> {
    // Attention runs micro-batch x heads / tp members of one head's width each.
    let heads = product.batch * tp / MICRO_BATCH;
    match role {
        "attention_key_value_query_transform" | "mlp_h_to_4h" => Some(product.k),
        "attention_linear_projection" | "mlp_4h_to_h" => Some(product.n),
        "attention_key_query_prob" => Some(product.k * heads),
        "attention_prob_times_values" => Some(product.n * heads),
        _ => None,
    }
}
