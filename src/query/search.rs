//! The fastest architecture for a number of parameters.

use crate::arch::Architecture;
use crate::arch::MlpKind;
use crate::arch::config_json;
use crate::error::Error;
use crate::error::Result;
use crate::predict::Predictor;
use crate::query::bases;
use crate::query::workload::Workload;
use crate::report::search::SearchReport;
use crate::search;
use crate::search::Found;
use crate::search::Method;
use crate::search::PARAMETERS;
use crate::search::Request;
use crate::search::USUAL_VOCABULARY;
use crate::search::bounds::Quantity;
use crate::search::shape::Count;
use crate::search::shape::Fixed;
use serde::Deserialize;
use utoipa::ToSchema;

/// Positions that an exported config allows at least.
const LEAST_POSITIONS: u64 = 2048;

/// Largest `ln 2` of a free micro-batch and of free tensor-parallel ranks.
const MOST_BATCH_POWER: u32 = 6;
const MOST_RANKS_POWER: u32 = 3;

/// What to search; what is left out comes from `like`, else is as usual.
#[derive(Clone, Debug)]
pub struct Search {
    /// Parameters wanted; as many as `like` has where left out.
    pub params: Option<u64>,
    /// What they count.
    pub count: Count,
    /// Largest miss, as a fraction.
    pub tolerance: f64,
    /// Whose parts and vocabulary stay, and what gains are reported against.
    pub like: Option<Architecture>,
    /// Kind of MLP.
    pub mlp: Option<MlpKind>,
    /// Tokens of the vocabulary, before padding.
    pub vocab: Option<u64>,
    /// What else varies.
    pub free: Vec<Free>,
    /// Bounds that shapes may leave.
    pub relax: Vec<Quantity>,
    /// Dimensions that stay.
    pub fixed: Fixed,
    /// Shapes to report.
    pub top: usize,
    /// How.
    pub method: Method,
    /// Whether training states that do not fit are sharded over replicas.
    pub shard: bool,
    /// Whether the config.json of each shape is wanted too; then every shape has one.
    pub export: bool,
    /// Shapes, MLP widths apart, that are held in memory at most; as the search has it where left out.
    pub most_frames: Option<usize>,
    /// What one step does.
    pub workload: Workload,
}

/// What else a search may vary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Free {
    /// Sequences per micro-batch.
    MicroBatch,
    /// Tensor-parallel ranks.
    Tp,
}

impl Free {
    /// Everything that may be free.
    pub const ALL: [Self; 2] = [Self::MicroBatch, Self::Tp];

    /// The name used on the command line and on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MicroBatch => "micro-batch",
            Self::Tp => "tp",
        }
    }

    /// What has this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|free| free.name() == name)
    }
}

impl Search {
    /// The request with everything filled in.
    pub fn request(&self) -> Result<Request> {
        let mut request = match (&self.like, self.params) {
            (Some(model), params) => {
                let workload = self.workload.described(model)?;
                Request {
                    parameters: params.unwrap_or_else(|| self.count.of(model)),
                    ..Request::like(model, workload)
                }
            }
            (None, Some(parameters)) => {
                let kind = self.mlp.unwrap_or(MlpKind::Swiglu);
                let base = search::usual_architecture(kind, parameters);
                let workload = self.workload.described(&base)?;
                let vocab = self.vocab.unwrap_or(USUAL_VOCABULARY);
                Request::usual(parameters, kind, vocab, workload)?
            }
            (None, None) => {
                let allowed = "a number of parameters, unless like names a model";
                return Err(Error::field("search", "params", "absent", allowed));
            }
        };
        if let Some(kind) = self.mlp {
            request.base.mlp.kind = kind;
        }
        if let Some(vocab) = self.vocab {
            request.vocab = vocab;
        }
        self.refuse_fixed_and_free()?;
        let whole_groups = self.export && !groups_can_be_written(&request.base)?;
        Ok(Request {
            count: self.count,
            tolerance: self.tolerance,
            shard: self.shard,
            batches: self.powers(Free::MicroBatch, MOST_BATCH_POWER),
            ranks: self.powers(Free::Tp, MOST_RANKS_POWER),
            fixed: Fixed {
                kv_group: whole_groups.then_some(1),
                ..self.fixed
            },
            relaxed: self.relax.clone(),
            method: self.method,
            top: self.top,
            most_frames: self.most_frames.unwrap_or(request.most_frames),
            ..request
        })
    }

    /// Describes what was found, with the configs if they are wanted.
    pub fn report(&self, predictor: &Predictor, found: &Found) -> Result<SearchReport> {
        let lines = found.shapes[0].step.lines.iter();
        let basis = bases(predictor, lines.map(|line| &line.item.op));
        let report = SearchReport::new(predictor, found, basis);
        if !self.export {
            return Ok(report);
        }
        let positions = found.request.workload.keys().max(LEAST_POSITIONS);
        let shapes = found.shapes.iter();
        let configs = shapes.map(|shape| config_json(&shape.ranked.architecture, positions));
        Ok(report.with_configs(configs.collect::<Result<_>>()?))
    }

    /// A size cannot be both given and free.
    fn refuse_fixed_and_free(&self) -> Result<()> {
        let ranks = Some(self.workload.tp).filter(|&tp| tp > 1);
        for (free, field, given) in [
            (Free::MicroBatch, "batch", self.workload.batch),
            (Free::Tp, "tp", ranks),
        ] {
            if let Some(value) = given.filter(|_| self.free.contains(&free)) {
                let allowed = "nothing where free varies it";
                return Err(Error::field("search", field, value, allowed));
            }
        }
        Ok(())
    }

    /// Powers of two up to `2^most` where `free` is free, else nothing to choose from.
    fn powers(&self, free: Free, most: u32) -> Vec<u64> {
        match self.free.contains(&free) {
            true => (0..=most).map(|power| 1 << power).collect(),
            false => Vec::new(),
        }
    }
}

/// Whether a config file can hold fewer key/value heads than query heads for models of this style; fails where it
/// cannot hold them at all.
fn groups_can_be_written(base: &Architecture) -> Result<bool> {
    let with = |kv_heads| Architecture {
        hidden: 128,
        heads: 2,
        kv_heads,
        head_dim: 64,
        ..base.clone()
    };
    if let Err(error) = config_json(&with(2), LEAST_POSITIONS) {
        let allowed = format!("nothing for models of this style: {error}");
        return Err(Error::field("search", "export", "asked for", &allowed));
    }
    Ok(config_json(&with(1), LEAST_POSITIONS).is_ok())
}

/// What is allowed where parameters are counted.
pub const PARAMETERS_ALLOWED: &str =
    "a number from 10M to 10T, such as 6.7B, 350M, 6.7e9 or 6700000000";

/// Reads a number of parameters: digits, an exponent, or a suffix K, M, B or T; nothing where it is none.
pub fn parameters(text: &str) -> Option<u64> {
    let trimmed = text.trim();
    let (digits, unit) = match trimmed.chars().last()?.to_ascii_uppercase() {
        'K' => (&trimmed[..trimmed.len() - 1], 1e3),
        'M' => (&trimmed[..trimmed.len() - 1], 1e6),
        'B' => (&trimmed[..trimmed.len() - 1], 1e9),
        'T' => (&trimmed[..trimmed.len() - 1], 1e12),
        _ => (trimmed, 1.0),
    };
    let plain = |c: char| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '_');
    if digits.is_empty() || !digits.chars().all(plain) {
        return None;
    }
    let value: f64 = digits.replace('_', "").parse().ok()?;
    // What is too large for a whole number is out of range too.
    let count = (value * unit).round() as u64;
    (PARAMETERS.0..=PARAMETERS.1)
        .contains(&count)
        .then_some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_as_people_write_them() {
        for (text, count) in [
            ("6.7B", 6_700_000_000),
            ("6.7e9", 6_700_000_000),
            ("6700000000", 6_700_000_000),
            ("6_700_000_000", 6_700_000_000),
            ("350M", 350_000_000),
            ("350m", 350_000_000),
            ("1T", 1_000_000_000_000),
        ] {
            assert_eq!(parameters(text), Some(count), "{text}");
        }
        for text in [
            "", "B", "-1B", "6,7B", "six", "0", "1e99", "nan", "inf", "6.7 GB",
        ] {
            assert!(parameters(text).is_none(), "{text}");
        }
    }
}
