//! Losses of language models whose shape is known; `docs/runs.md` has the columns of such a table.

use serde::Deserialize;
use serde_json::Value;
use shapewise::dataset::Skipped;
use shapewise::dataset::runs::mapped_rows;
use shapewise::error::Result;
use std::path::Path;

/// Losses that may be compared with one another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct LossSet {
    /// Whose runs.
    pub source: String,
    /// Which of them: schedule, data, step at which the loss was read.
    pub split: String,
    /// The text that the loss is of.
    pub loss_on: String,
}

/// One measured loss.
#[derive(Clone, Debug, PartialEq, Deserialize)]
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
        for row in mapped_rows("losses", path.as_ref())? {
            let run = row.and_then(|row| LossRun::deserialize(Value::Object(row)).map_err(|error| error.to_string()));
            match run {
                Ok(run) => all.runs.push(run),
                Err(reason) => all.skipped.add(&reason, 1),
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_missing_columns_of_losses_are_named_even_without_rows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("losses.csv");
        let names = "source,split,loss_on,shape_key,layers,width,heads,head_dim,kv_heads,d_ff,gated,vocab,params";
        for row in ["", "a,b,c,d,1,2,3,4,5,6,false,7,8\n"] {
            std::fs::write(&path, format!("{names}\n{row}")).unwrap();
            let message = read_losses(&[&path]).unwrap_err().to_string();
            let missing =
                "the column `loss` is missing, nor are there `tokens`; allowed: a file with the columns layers, ";
            assert!(message.contains(missing), "{message}");
        }
        let cells = "a,b,c,d,2,64,4,16,4,256,false,100,";
        std::fs::write(
            &path,
            format!("{names},tokens,loss\n{cells}111104,1e9,2.5\n{cells}7,1e9,2\n"),
        )
        .unwrap();
        let losses = read_losses(&[&path]).unwrap();
        assert_eq!(
            (losses.runs.len(), losses.runs[0].tokens, losses.skipped.total()),
            (1, 1e9, 1)
        );
        std::fs::write(&path, format!("{names},tokens,loss\n{cells}1,many,2\n")).unwrap();
        let message = read_losses(&[&path]).unwrap_err().to_string();
        assert!(message.contains("`tokens` holds `many`; allowed: numbers"), "{message}");
    }
}
