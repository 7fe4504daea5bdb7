//! What `sweep` may be asked.

use super::predict::{AttentionArgs, GemmArgs, ModelArgs};
use super::{Extent, from};
use crate::report::plot;
use crate::sweep::Range;
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
    #[arg(long, value_name = "L", value_parser = Size::dimension, allow_negative_numbers = true)]
    pub layers: Option<Size>,
    /// Width of the residual stream.
    #[arg(long, value_name = "H", value_parser = Size::dimension, allow_negative_numbers = true)]
    pub hidden: Option<Size>,
    /// Query heads.
    #[arg(long, value_name = "A", value_parser = Size::dimension, allow_negative_numbers = true)]
    pub heads: Option<Size>,
    /// Key/value heads, a divisor of the query heads.
    #[arg(long, value_name = "G", value_parser = Size::dimension, allow_negative_numbers = true)]
    pub kv_heads: Option<Size>,
    /// Inner width of the MLP, or of one expert.
    #[arg(long, value_name = "F", value_parser = Size::dimension, allow_negative_numbers = true)]
    pub d_ff: Option<Size>,
    /// Rows of the token embedding.
    #[arg(long, value_name = "V", value_parser = Size::dimension, allow_negative_numbers = true)]
    pub vocab: Option<Size>,
}

/// A number or a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// The same at every point.
    Fixed(u64),
    /// What is swept.
    Range(Range),
}

impl Size {
    /// The size where the swept one has this value.
    pub const fn at(self, value: u64) -> u64 {
        match self {
            Self::Fixed(size) => size,
            Self::Range(_) => value,
        }
    }
}

impl Extent for Size {
    fn read(least: u64, text: &str) -> Result<Self, String> {
        let number = |part: &str| from(least, part);
        let range = |start: &str, end: &str, step: &str| {
            let range = Range::new(number(start)?, number(end)?, from(1, step)?);
            range.map(Self::Range).map_err(|error| error.to_string())
        };
        let parts: Vec<_> = text.split(':').collect();
        match parts[..] {
            [number] => from(least, number).map(Self::Fixed),
            [start, end] => range(start, end, "1"),
            [start, end, step] => range(start, end, step),
            _ => Err("allowed: a number, START:END or START:END:STEP".to_owned()),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_a_number_or_a_range() {
        let range = |start, end, step| Ok(Size::Range(Range::new(start, end, step).unwrap()));
        assert_eq!(Size::dimension("4096"), Ok(Size::Fixed(4096)));
        assert_eq!(Size::dimension("16:64"), range(16, 64, 1));
        assert_eq!(Size::dimension("1536:6144:64"), range(1536, 6144, 64));
        assert_eq!(Size::cached("0:8:4"), range(0, 8, 4));
        for (text, part) in [
            ("", "whole numbers"),
            ("0:8", "from 1"),
            ("8:", "whole numbers"),
            ("64:16", "at least the start, 64"),
            ("1:2:0", "from 1"),
            ("1:2:3:4", "START:END:STEP"),
            ("1:1000000", "at most 100000"),
        ] {
            let message = Size::dimension(text).unwrap_err();
            assert!(message.contains(part), "{text}: {message}");
        }
        assert_eq!(Size::Fixed(3).at(7), 3);
        assert_eq!(Size::dimension("1:9").unwrap().at(7), 7);
    }
}
