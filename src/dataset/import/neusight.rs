//! Tables of sitar-lab/NeuSight: random fp32 shapes, PyTorch 2.1 in eager mode.
//!
//! Latencies are in milliseconds and include the host's launch cost: none is below 24 us. TF32
//! was off, so products run without tensor cores.

use super::{Batch, Importer, MILLISECOND, Parquet, Reader, Reading, Recipe};
use crate::error::Result;
use crate::ops::{Dtype, Gemm, Layout, Memory, MemoryKind, Op, Pass};

const PRODUCT: &[&str] = &["OPName", "B", "M", "N", "K", "Latency", "CUDA Version"];
const MEMORY: &[&str] = &["OPName", "B", "H", "Latency", "CUDA Version"];

/// The publisher and its tables.
pub(super) const IMPORTER: Importer = Importer {
    repository: "sitar-lab/NeuSight@6945927",
    licence: "MIT",
    tables: "its operator tables with OPName, Latency and B, M, N, K or B, H",
    recipe,
};

/// What to do with a file, judged by its columns.
fn recipe(file: &Parquet) -> Option<Recipe> {
    let recipe = |columns: &'static [&'static str], reader| {
        file.has_all(columns).then_some(Recipe {
            identity: &["Device", "Torch Version"],
            identify: |texts| {
                let version = texts[1].trim_start_matches('p');
                (texts[0].to_owned(), format!("torch {version}"))
            },
            columns,
            readers: vec![reader],
        })
    };
    recipe(PRODUCT, product).or_else(|| recipe(MEMORY, memory))
}

/// A batched product `[M,K] x [K,N]`, or a linear layer of `M` rows from `N` to `K` features.
fn product<'a>(rows: &'a Batch<'_>) -> Result<Reader<'a>> {
    let name = rows.texts("OPName")?;
    let (batch, m) = (rows.counts("B")?, rows.counts("M")?);
    let (n, k) = (rows.counts("N")?, rows.counts("K")?);
    let latency = rows.numbers("Latency")?;
    let cuda = rows.texts("CUDA Version")?;
    Ok(Box::new(move |row| {
        let (n, k) = (n.size(row), k.size(row));
        let (n, k, layout) = match name.get(row) {
            Some("bmm") => (n, k, Layout::Nn),
            Some("linear") => (k, n, Layout::Tn),
            other => return Err(format!("operator `{}`", other.unwrap_or("null"))),
        };
        Ok(Reading {
            op: Op::Gemm(Gemm {
                m: m.size(row),
                n,
                k,
                batch: batch.size(row),
                layout,
                dtype: Dtype::Fp32,
            }),
            time: latency.time(row, MILLISECOND),
            group: None,
            libraries: cuda.get(row),
        })
    }))
}

/// An operator over `B` rows of `H` elements.
fn memory<'a>(rows: &'a Batch<'_>) -> Result<Reader<'a>> {
    let name = rows.texts("OPName")?;
    let (height, width) = (rows.counts("B")?, rows.counts("H")?);
    let latency = rows.numbers("Latency")?;
    let cuda = rows.texts("CUDA Version")?;
    Ok(Box::new(move |row| {
        Ok(Reading {
            op: Op::Memory(Memory {
                kind: match name.get(row) {
                    Some("softmax") => MemoryKind::Softmax,
                    Some("ln") => MemoryKind::LayerNorm,
                    Some("add") => MemoryKind::Add,
                    Some("gelu") => MemoryKind::Gelu,
                    other => return Err(format!("operator `{}`", other.unwrap_or("null"))),
                },
                rows: height.size(row),
                cols: width.size(row),
                pass: Pass::Forward,
                dtype: Dtype::Fp32,
            }),
            time: latency.time(row, MILLISECOND),
            group: None,
            libraries: cuda.get(row),
        })
    }))
}
