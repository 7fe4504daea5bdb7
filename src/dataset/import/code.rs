//! Operators that follow from a row by more than formulas, by the names that maps call them.

use super::Reason;
use crate::arch::{Architecture, Preset};
use crate::dataset::schema::product;
use crate::ops::{Dtype, Gemm, Layout, Memory, MemoryKind, Op};
use serde::Deserialize;

/// What makes an operator of texts and a size of a row.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Function {
    /// A layer of a served model: model, ranks as `tp4`, layer; tokens.
    ServedLayer,
    /// A module of a traced model: its name, shapes of its inputs, shape of its output.
    TracedModule,
}

impl Function {
    /// The operator, or why the row is not kept.
    pub fn operator(self, texts: &[&str], size: u64) -> Result<Op, Reason> {
        match (self, texts) {
            (Self::ServedLayer, &[model, ranks, layer]) => served(place(model, ranks)?, layer, size),
            (Self::TracedModule, &[target, inputs, output]) => {
                let output = output.replace('(', "[").replace(",)", "]").replace(')', "]");
                let op = shapes(inputs)
                    .zip(shapes(&format!("[{output}]")))
                    .and_then(|(inputs, output)| traced(target, &inputs, output.first()?));
                op.ok_or_else(|| format!("operator `{}`", target.rsplit('.').next().unwrap_or(target)))
            }
            _ => Err("the function reads other columns than its map says".to_owned()),
        }
    }
}

/// The model of a row and its tensor-parallel ranks (`tp4`).
fn place(model: &str, tp: &str) -> Result<(&'static Architecture, u64), Reason> {
    let preset = Preset::find(model).map_err(|_| format!("no preset describes `{model}`"))?;
    let ranks = tp.strip_prefix("tp").and_then(|ranks| ranks.parse().ok());
    let ranks = ranks.filter(|ranks| *ranks > 0);
    let ranks = ranks.ok_or_else(|| format!("`tp` is {tp}, which names no number of ranks"))?;
    Ok((&preset.architecture, ranks))
}

/// The operator of a layer over `tokens` on one rank.
fn served((arch, ranks): (&Architecture, u64), layer: &str, tokens: u64) -> Result<Op, Reason> {
    let hidden = arch.hidden;
    let queries = arch.heads * arch.head_dim / ranks;
    let keys = arch.kv_heads * arch.head_dim / ranks;
    let inner = arch.mlp.d_ff / ranks;
    let is_dense = arch.moe.is_none();
    let (outputs, inputs) = match layer {
        "q_proj" => (queries, hidden),
        "k_proj" | "v_proj" => (keys, hidden),
        "qkv_proj" => (queries + 2 * keys, hidden),
        "o_proj" => (hidden, queries),
        "gate_proj" | "up_proj" if is_dense => (inner, hidden),
        "gate_up_proj" if is_dense => (2 * inner, hidden),
        "down_proj" if is_dense => (hidden, inner),
        "lm_head" => (arch.vocab / ranks, hidden),
        "input_layernorm" | "post_layernorm" | "final_layernorm" | "layernorm" => {
            let norm = Memory::forward(MemoryKind::RmsNorm, tokens, hidden, Dtype::default());
            return Ok(Op::Memory(norm));
        }
        other => return Err(format!("layer `{other}` is no operator of ours")),
    };
    Ok(Op::Gemm(Gemm::new(tokens, outputs, inputs)))
}

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

/// `[[4096, 1280], [1280, 3840]]`.
fn shapes(text: &str) -> Option<Vec<Vec<u64>>> {
    serde_json::from_str(text).ok()
}

/// The operator of a target with these shapes; `None` if it cannot be mapped.
fn traced(target: &str, inputs: &[Vec<u64>], output: &[u64]) -> Option<Op> {
    let (&width, rows) = output.split_last()?;
    let rows = product(rows)?;
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
        return gemm(m, width, *inputs.first()?.last()?, product(batch)?, Layout::Nn);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_whose_product_overflows_are_no_operator() {
        let read = |function, output| {
            let target = format!("<built-in function {function}>");
            Function::TracedModule.operator(&[&target, "[[8, 16], [16, 8]]", output], 0)
        };
        for function in ["softmax", "matmul"] {
            assert!(read(function, "(4, 4, 8)").is_ok());
            let reason = read(function, "(4294967296, 4294967296, 1, 8)").unwrap_err();
            assert!(reason.contains(function), "{reason}");
        }
    }
}
