//! Losses of language models whose shape is known; `docs/runs.md` has the columns of such a table.

use super::Skipped;
use super::columns::Parquet;
use super::runs::cells::Cells;
use crate::error::Result;
use std::path::Path;

/// What a table must have.
const COLUMNS: &[&str] = &[
    "source",
    "split",
    "loss_on",
    "shape_key",
    "layers",
    "width",
    "heads",
    "head_dim",
    "kv_heads",
    "d_ff",
    "gated",
    "vocab",
    "params",
    "tokens",
    "loss",
];

/// How far the stated parameters may be from those that the shape has.
const COUNT_ERROR: f64 = 2e-3;

/// Losses that may be compared with one another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LossSet {
    /// Whose runs.
    pub source: String,
    /// Which of them: schedule, data, step at which the loss was read.
    pub split: String,
    /// The text that the loss is of.
    pub loss_on: String,
}

/// One measured loss.
#[derive(Clone, Debug, PartialEq)]
pub struct LossRun {
    /// What it may be compared with.
    pub set: LossSet,
    /// Layers x width.
    pub shape: String,
    /// Transformer layers.
    pub layers: f64,
    /// Hidden width.
    pub width: f64,
    /// Query heads.
    pub heads: f64,
    /// Width of a head.
    pub head_dim: f64,
    /// Key/value heads.
    pub kv_heads: f64,
    /// Parameters of the attention blocks.
    pub attention: f64,
    /// Parameters of the MLPs.
    pub mlp: f64,
    /// Rows of the embedding.
    pub vocab: f64,
    /// Tokens trained on.
    pub tokens: f64,
    /// Nats per token.
    pub loss: f64,
}

impl LossRun {
    /// Parameters of the embedding and the head matrix.
    pub fn embeddings(&self) -> f64 {
        2.0 * self.vocab * self.width
    }

    /// All parameters but norms.
    pub fn parameters(&self) -> f64 {
        self.attention + self.mlp + self.embeddings()
    }
}

/// Losses with an account of the rows that were left out.
#[derive(Clone, Debug, Default)]
pub struct LossRuns {
    /// Those that were kept; of several at equal set, shape, heads and tokens the lowest.
    pub runs: Vec<LossRun>,
    /// Those that were not, by reason.
    pub skipped: Skipped,
}

/// Reads tables of losses.
pub fn read_losses<P: AsRef<Path>>(paths: &[P]) -> Result<LossRuns> {
    let mut all = LossRuns::default();
    for path in paths {
        Cells::each(&Parquet::open(path.as_ref())?, COLUMNS, |cells| match read(cells) {
            Ok(run) => all.runs.push(run),
            Err(reason) => all.skipped.add(&reason, 1),
        })?;
    }
    all.keep_lowest();
    Ok(all)
}

impl LossRuns {
    /// Runs that differ in learning rate or warm-up alone: the best tuned one is the loss of the shape.
    fn keep_lowest(&mut self) {
        let key = |run: &LossRun| {
            let sizes = [run.heads, run.head_dim, run.kv_heads, run.mlp, run.tokens];
            (run.set.clone(), run.shape.clone(), sizes.map(f64::to_bits))
        };
        let before = self.runs.len();
        self.runs
            .sort_by(|a, b| key(a).cmp(&key(b)).then(a.loss.total_cmp(&b.loss)));
        self.runs.dedup_by(|later, first| key(later) == key(first));
        let left_out = (before - self.runs.len()) as u64;
        let reason = "another run of the shape has a lower loss after as many tokens";
        self.skipped.add(reason, left_out);
    }
}

fn read(cells: Cells<'_>) -> Result<LossRun, String> {
    let text = |column| cells.text_or_empty(column).map(str::to_owned);
    let number = |column: &str| {
        let value = cells.number(column)?;
        let stated = value.filter(|value| *value > 0.0 && value.is_finite());
        stated.ok_or_else(|| format!("`{column}` is not stated or not more than 0"))
    };
    let (layers, width, d_ff) = (number("layers")?, number("width")?, number("d_ff")?);
    let (heads, head_dim, kv_heads) = (number("heads")?, number("head_dim")?, number("kv_heads")?);
    let matrices = if cells.flag("gated")? { 3.0 } else { 2.0 };
    let run = LossRun {
        set: LossSet {
            source: text("source")?,
            split: text("split")?,
            loss_on: text("loss_on")?,
        },
        shape: text("shape_key")?,
        attention: layers * 2.0 * width * (heads + kv_heads) * head_dim,
        mlp: layers * matrices * width * d_ff,
        layers,
        width,
        heads,
        head_dim,
        kv_heads,
        vocab: number("vocab")?,
        tokens: number("tokens")?,
        loss: number("loss")?,
    };
    let miss = (run.parameters() / number("params")? - 1.0).abs();
    match miss <= COUNT_ERROR {
        true => Ok(run),
        false => Err("`params` is not the number that the shape has".to_owned()),
    }
}
