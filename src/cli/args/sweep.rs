//! What `sweep` may be asked.

use super::dimension;
use super::predict::{AttentionArgs, GemmArgs, ModelArgs};
use crate::query::Size;
use crate::query::sweep::Sizes;
use crate::report::plot;
use clap::{Args, Subcommand};
use std::path::{Path, PathBuf};

/// What to predict along one dimension.
#[derive(Debug, Subcommand)]
pub enum Sweep {
    /// One matrix product (m, k) x (k, n); one of its sizes is a range.
    ///
    /// Timings of --data are shown beside the prediction, which does not use them.
    Gemm(SweepArgs<GemmArgs<Size>>),
    /// One fused (flash) attention; one of its sizes is a range.
    ///
    /// Timings of --data are shown beside the prediction, which does not use them.
    Attention(SweepArgs<AttentionArgs<Size>>),
    /// One step of a whole transformer; one of its sizes is a range.
    ///
    /// Sizes of the architecture that are left out stay as they are or follow: --heads keeps the width of attention and
    /// the queries per key head, --hidden keeps the number of heads and the ratio of the MLP.
    Model(SweepArgs<SizedModelArgs>),
}

/// What is predicted, and where the results go.
#[derive(Debug, Args)]
pub struct SweepArgs<A: Args> {
    /// What is predicted.
    #[command(flatten)]
    pub subject: A,
    /// Files to write.
    #[command(flatten)]
    pub files: FileArgs,
}

/// Files that a sweep writes beside its report.
#[derive(Debug, Args)]
pub struct FileArgs {
    /// Write every point to this table, too.
    #[arg(long, value_name = "FILE.csv")]
    pub csv: Option<PathBuf>,
    /// Draw the curve, too; the extension chooses the format.
    #[arg(long, value_name = "FILE.svg|FILE.png", value_parser = picture)]
    pub plot: Option<PathBuf>,
}

/// A model whose sizes may differ from those of its architecture.
#[derive(Debug, Args)]
pub struct SizedModelArgs {
    /// Architecture, workload, GPU.
    #[command(flatten)]
    pub model: ModelArgs<Size>,
    /// Transformer layers.
    #[arg(long, value_name = "L", value_parser = dimension::<Size>, allow_negative_numbers = true)]
    pub layers: Option<Size>,
    /// Width of the residual stream.
    #[arg(long, value_name = "H", value_parser = dimension::<Size>, allow_negative_numbers = true)]
    pub hidden: Option<Size>,
    /// Query heads.
    #[arg(long, value_name = "A", value_parser = dimension::<Size>, allow_negative_numbers = true)]
    pub heads: Option<Size>,
    /// Key/value heads, a divisor of the query heads.
    #[arg(long, value_name = "G", value_parser = dimension::<Size>, allow_negative_numbers = true)]
    pub kv_heads: Option<Size>,
    /// Inner width of the MLP, or of one expert.
    #[arg(long, value_name = "F", value_parser = dimension::<Size>, allow_negative_numbers = true)]
    pub d_ff: Option<Size>,
    /// Rows of the token embedding.
    #[arg(long, value_name = "V", value_parser = dimension::<Size>, allow_negative_numbers = true)]
    pub vocab: Option<Size>,
}

impl SizedModelArgs {
    /// The sizes of the architecture.
    pub fn sizes(&self) -> Sizes {
        Sizes {
            layers: self.layers,
            hidden: self.hidden,
            heads: self.heads,
            kv_heads: self.kv_heads,
            d_ff: self.d_ff,
            vocab: self.vocab,
        }
    }
}

/// Reads the path of a plot; its extension must name a format.
fn picture(text: &str) -> Result<PathBuf, String> {
    let path = Path::new(text);
    match plot::Format::of(path) {
        Ok(_) => Ok(path.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
