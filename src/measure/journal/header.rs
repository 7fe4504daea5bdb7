//! Which run a journal belongs to, and whether another run may continue it.

use crate::dataset::{self, Origin, line};
use crate::error::{Error, Result};
use crate::measure::device::Identity;
use crate::measure::plan::{DeviceRates, Plan};
use crate::shard::Shard;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;

/// Version of the journal's layout; its rows have the version of the Parquet layout.
const SCHEMA: u64 = 2;

/// What two runs must have in common for one to continue the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunKey {
    /// Device and software.
    pub identity: Identity,
    /// Name of the plan.
    pub plan: String,
    /// Digest of the plan.
    pub plan_digest: String,
    /// Seed of the plan.
    pub seed: u64,
    /// Shard of the plan, as `I/N`.
    pub shard: String,
}

impl RunKey {
    /// The key of a run.
    pub fn new(identity: &Identity, plan: &Plan, seed: u64, shard: Shard) -> Self {
        Self {
            identity: identity.clone(),
            plan: plan.name.clone(),
            plan_digest: plan.digest(),
            seed,
            shard: shard.to_string(),
        }
    }
}

/// First line of a journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Version of the journal's layout.
    pub schema: u64,
    /// Version of the layout of its rows.
    pub row_schema: u64,
    /// Program that measured.
    pub source: String,
    /// The run.
    pub run: RunKey,
    /// Rates that the sizes of the plan follow from.
    pub rates: DeviceRates,
    /// Whether rows of the finished file belong to this run; if not, the file is to be replaced.
    pub continues: bool,
}

impl Header {
    /// The header of a new run.
    pub fn new(run: RunKey, rates: DeviceRates) -> Self {
        Self {
            schema: SCHEMA,
            row_schema: dataset::SCHEMA,
            source: format!("shapewise {}", env!("CARGO_PKG_VERSION")),
            run,
            rates,
            continues: false,
        }
    }

    /// Refuses a run other than the one of this header; `place` names the file.
    pub(super) fn check(&self, wanted: &RunKey, place: &Path) -> Result<()> {
        let fields = |run: &RunKey, schema: u64, row_schema: u64| {
            let identity = run.identity.clone();
            [
                ("schema", schema.to_string()),
                ("row_schema", row_schema.to_string()),
                ("gpu", identity.gpu),
                ("title", identity.driver.title),
                ("stack", identity.stack),
                ("libraries", identity.libraries),
                ("plan", format!("{} {}", run.plan, run.plan_digest)),
                ("seed", run.seed.to_string()),
                ("shard", run.shard.clone()),
            ]
        };
        let held = fields(&self.run, self.schema, self.row_schema);
        let mut pairs = held.into_iter().zip(fields(wanted, SCHEMA, dataset::SCHEMA));
        match pairs.find(|(held, wanted)| held != wanted) {
            None => Ok(()),
            Some(((field, held), (_, wanted))) => Err(Error::field(
                place.display(),
                field,
                format!("`{held}`"),
                &format!("`{wanted}`, as this run has, or --force to begin anew"),
            )),
        }
    }

    /// What every row of the journal shares.
    pub fn shared(&self) -> line::Shared {
        let identity = &self.run.identity;
        line::Shared {
            gpu: identity.gpu.as_str().into(),
            stack: identity.stack.as_str().into(),
            origin: Arc::new(Origin {
                source: self.source.clone(),
                licence: "MIT OR Apache-2.0".to_owned(),
                libraries: Some(identity.libraries.clone()),
            }),
        }
    }
}
