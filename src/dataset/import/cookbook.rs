//! Sweeps of EleutherAI/cookbook: the raw timings behind arXiv 2401.14489, fp16 under torch 1.13.
//!
//! A time is the slowest or the mean of 200 calls, so expect a rerun to be a little faster. Plain
//! products ran as `torch.mm` and `torch.bmm` over row-major operands, which cuBLAS sees as `nn`;
//! a transformer's linear layers ran as `torch.nn.functional.linear`, which it sees as `tn`
//! (`sizing/benchmarks/utils.py` of the commit). In the vocabulary sweep the vocabulary is `k`.
//! The wave sweep (`m` 2304, `k` 4096) is for judging predictors: keep it out of training.

use super::{Batch, Importer, Parquet, Reader, Reading, Recipe};
use crate::error::Result;
use crate::ops::{Dtype, Gemm, Layout, Op};
use crate::units::Seconds;

const STACK: &str = "cookbook torch 1.13";

/// Micro-batch of the transformer sweep: `m` is 4 x 2048 tokens, attention has 4 x heads members.
const MICRO_BATCH: u64 = 4;

const COLUMNS: &[&str] = &["role", "tp", "batch", "m", "n", "k", "dtype", "seconds"];

/// The publisher and its tables.
pub(super) const IMPORTER: Importer = Importer {
    repository: "EleutherAI/cookbook@e6b8f2b",
    licence: "Apache-2.0",
    tables: "its sweeps with the columns role, tp, batch, m, n, k and seconds",
    recipe,
};

/// What to do with a file, judged by its columns.
fn recipe(file: &Parquet) -> Option<Recipe> {
    file.has_all(COLUMNS).then_some(Recipe {
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
