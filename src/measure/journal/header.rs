//! Whose rows a journal holds, and whether another run may go on with them.

use crate::dataset;
use crate::dataset::Origin;
use crate::dataset::line;
use crate::error::Error;
use crate::error::Result;
use crate::measure::device::Identity;
use crate::measure::plan::{Plan, Scale, Shard};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;

/// The layout of the journal; rows have the number of the Parquet layout beside it.
const SCHEMA: u64 = 1;

/// Whose rows a journal holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Layout of the journal.
    pub schema: u64,
    /// Layout of its rows.
    pub row_schema: u64,
    /// The program that measured.
    pub source: String,
    /// Our name of the GPU.
    pub gpu: String,
    /// The software that runs the operators.
    pub stack: String,
    /// Versions below.
    pub libraries: String,
    /// What the driver reports.
    pub title: String,
    /// Processors, as the driver reports them.
    pub processors: Option<u64>,
    /// Memory, as the driver reports it.
    pub memory_bytes: Option<f64>,
    /// Last-level cache, as the driver reports it.
    pub cache_bytes: Option<f64>,
    /// Highest clock, as the driver reports it.
    pub clock_hz: Option<f64>,
    /// Name of the plan.
    pub plan: String,
    /// Fingerprint of the plan.
    pub plan_digest: String,
    /// Seed of the plan.
    pub seed: u64,
    /// Part of the plan.
    pub shard: String,
    /// Rates that the sizes of the plan follow from.
    pub scale: Scale,
    /// Whether rows of the finished file belong to this run; if not, the file is to be replaced.
    pub continues: bool,
}

impl Header {
    /// The header of a run.
    pub fn new(identity: &Identity, plan: &Plan, seed: u64, shard: Shard, scale: Scale) -> Self {
        Self {
            schema: SCHEMA,
            row_schema: dataset::SCHEMA,
            source: format!("shapewise {}", env!("CARGO_PKG_VERSION")),
            gpu: identity.gpu.clone(),
            stack: identity.stack.clone(),
            libraries: identity.libraries.clone(),
            title: identity.facts.title.clone(),
            processors: identity.facts.processors,
            memory_bytes: identity.facts.memory_bytes,
            cache_bytes: identity.facts.cache_bytes,
            clock_hz: identity.facts.clock.map(|clock| clock.hertz()),
            plan: plan.name.clone(),
            plan_digest: plan.digest(),
            seed,
            shard: shard.to_string(),
            scale,
            continues: false,
        }
    }

    /// Refuses a run that is not the one this header began; `place` names the file.
    pub(super) fn check(&self, wanted: &Wanted<'_>, place: &Path) -> Result<()> {
        let identity = wanted.identity;
        let pairs: [(&str, String, String); 9] = [
            ("schema", self.schema.to_string(), SCHEMA.to_string()),
            (
                "row_schema",
                self.row_schema.to_string(),
                dataset::SCHEMA.to_string(),
            ),
            ("gpu", self.gpu.clone(), identity.gpu.clone()),
            ("title", self.title.clone(), identity.facts.title.clone()),
            ("stack", self.stack.clone(), identity.stack.clone()),
            (
                "libraries",
                self.libraries.clone(),
                identity.libraries.clone(),
            ),
            (
                "plan",
                format!("{} {}", self.plan, self.plan_digest),
                format!("{} {}", wanted.plan.name, wanted.plan.digest()),
            ),
            ("seed", self.seed.to_string(), wanted.seed.to_string()),
            ("shard", self.shard.clone(), wanted.shard.to_string()),
        ];
        match pairs.into_iter().find(|(_, held, wanted)| held != wanted) {
            None => Ok(()),
            Some((field, held, wanted)) => Err(Error::field(
                place.display(),
                field,
                format!("`{held}`"),
                &format!("`{wanted}`, as this run has, or --force to begin anew"),
            )),
        }
    }

    /// What every row shares.
    pub fn shared(&self) -> line::Shared {
        line::Shared {
            gpu: self.gpu.as_str().into(),
            stack: self.stack.as_str().into(),
            origin: Arc::new(Origin {
                source: self.source.clone(),
                licence: "MIT OR Apache-2.0".to_owned(),
                libraries: Some(self.libraries.clone()),
            }),
        }
    }
}

/// The run that wants to write.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// Who is being measured.
    pub identity: &'a Identity,
    /// The plan.
    pub plan: &'a Plan,
    /// Its seed.
    pub seed: u64,
    /// Its part.
    pub shard: Shard,
}
