//! Tables of sitar-lab/NeuSight: random fp32 shapes, PyTorch 2.1 in eager mode.
//!
//! Latencies are in milliseconds and include the host's launch cost: none is below 24 us. TF32
//! was off, so products run without tensor cores.

use super::{Batch, Importer, MILLISECOND, Parquet, Reader, Reading, Recipe};
use crate::error::Result;
use crate::ops::{Dtype, Gemm, Layout, Memory, MemoryKind, Op, Pass};

const PRODUCT: &[&str] = &["OPName", "B", "M", "N", "K", "Latency", "CUDA Version"];
const MEMORY: &[&str] = &["OPName", "B", "H", "Latency", "CUDA Version"];
const IN_MODELS: &[&str] = &["target", "input_shapes", "output_shape", "fw_latency"];

/// Ends of the names of linear layers in BERT, GPT-2, OPT and Switch Transformers.
const LINEAR: [&str; 18] = [
    "dense",
    "query",
    "key",
    "value",
    "q",
    "k",
    "v",
    "o",
    "q_proj",
    "k_proj",
    "v_proj",
    "out_proj",
    "fc#",
    "wi",
    "wo",
    "lm_head",
    "decoder",
    "classifier",
];

/// The publisher and its tables.
pub(super) const IMPORTER: Importer = Importer {
    repository: "sitar-lab/NeuSight@6945927",
    licence: "MIT",
    tables: "its operator tables with OPName, Latency and B, M, N, K or B, H, or operators of models with input_shapes, output_shape and fw_latency",
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
    recipe(PRODUCT, product).or_else(|| recipe(MEMORY, memory)).or_else(|| {
        let in_models = file.has_all(IN_MODELS) && file.has("gpu");
        in_models.then_some(Recipe {
            identity: &["gpu"],
            identify: |texts| (texts[0].to_owned(), "torch 2.1, in models".to_owned()),
            columns: IN_MODELS,
            readers: vec![in_model],
        })
    })
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

/// The forward pass of a module or function of a traced model; a backward pass is several kernels.
fn in_model<'a>(rows: &'a Batch<'_>) -> Result<Reader<'a>> {
    let target = rows.texts("target")?;
    let (inputs, output) = (rows.texts("input_shapes")?, rows.texts("output_shape")?);
    let latency = rows.numbers("fw_latency")?;
    Ok(Box::new(move |row| {
        let target = target.get(row).unwrap_or("null");
        let inputs = shapes(inputs.get(row).unwrap_or_default());
        let output = output.get(row).unwrap_or_default();
        let output = shapes(&format!(
            "[{}]",
            output.replace('(', "[").replace(",)", "]").replace(')', "]")
        ));
        let op = inputs
            .zip(output)
            .and_then(|(inputs, output)| traced(target, &inputs, output.first()?));
        let op = op.ok_or_else(|| format!("operator `{}`", target.rsplit('.').next().unwrap_or(target)))?;
        Ok(Reading::new(op, latency.time(row, MILLISECOND)))
    }))
}

/// `[[4096, 1280], [1280, 3840]]`.
fn shapes(text: &str) -> Option<Vec<Vec<u64>>> {
    serde_json::from_str(text).ok()
}

/// The operator of a target with these shapes; none where it is none of ours.
fn traced(target: &str, inputs: &[Vec<u64>], output: &[u64]) -> Option<Op> {
    let (&width, rows) = output.split_last()?;
    let rows = rows.iter().product::<u64>();
    let memory = |kind| Some(Op::Memory(Memory::forward(kind, rows, width, Dtype::Fp32)));
    let gemm = |m, n, k, batch, layout| {
        Some(Op::Gemm(Gemm {
            batch,
            layout,
            dtype: Dtype::Fp32,
            ..Gemm::new(m, n, k)
        }))
    };
    let last = target.rsplit('.').next()?;
    let is_function = |name: &str| target.contains(&format!(" {name} of ")) || target.contains(&format!(" {name}>"));
    if is_function("addmm") {
        return gemm(rows, width, *inputs.get(1)?.last()?, 1, Layout::Nn);
    }
    if is_function("bmm") || is_function("matmul") {
        let (&m, batch) = output.split_last()?.1.split_last()?;
        return gemm(m, width, *inputs.first()?.last()?, batch.iter().product(), Layout::Nn);
    }
    if is_function("softmax") {
        return memory(MemoryKind::Softmax);
    }
    if is_function("gelu") {
        return memory(MemoryKind::Gelu);
    }
    let name = last.to_ascii_lowercase();
    if name.contains("norm") || name.starts_with("ln_") {
        return memory(MemoryKind::LayerNorm);
    }
    if ["embeddings", "embed_tokens", "wte", "wpe"]
        .iter()
        .any(|end| name.ends_with(end))
    {
        return memory(MemoryKind::Embedding);
    }
    LINEAR
        .contains(&last)
        .then(|| gemm(rows, width, *inputs.first()?.last()?, 1, Layout::Tn))?
}
