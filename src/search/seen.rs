//! A search of one lattice on many machines: what a shard has seen, and all shards together.

use crate::error::{Error, Result};
use crate::predict::Predictor;
use crate::random::fnv1a;
use crate::search::lattice::Lattice;
use crate::search::objective::Archive;
use crate::shard::Shard;
use serde::{Deserialize, Serialize};

/// What a shard has seen.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seen {
    /// Which.
    pub shard: Shard,
    /// Shapes of the whole lattice.
    pub lattice: u64,
    /// Digest of the lattice and of what its shapes are measured by.
    question: u64,
    /// Digest of `archive` as it is written.
    digest: u64,
    archive: Archive,
}

impl Seen {
    /// That of a whole shard.
    pub(super) fn new(shard: Shard, lattice: &Lattice, predictor: &Predictor, archive: Archive) -> Self {
        Self {
            shard,
            lattice: lattice.count(),
            question: question(lattice, predictor),
            digest: digest(&archive),
            archive,
        }
    }

    /// Reads what [`Seen::text`] wrote.
    pub fn read(text: &str) -> Result<Self> {
        let seen: Self = serde_json::from_str(text).map_err(|error| Error::bad_input(error.to_string()))?;
        match seen.digest == digest(&seen.archive) {
            true => Ok(seen),
            false => Err(Error::bad_input("it is not as it was written")),
        }
    }

    /// As a JSON document.
    pub fn text(&self) -> String {
        json(self)
    }

    /// Shapes that were predicted.
    pub fn evaluations(&self) -> u64 {
        self.archive.evaluations
    }

    /// Shapes that bounds or memory ruled out.
    pub fn refused(&self) -> u64 {
        self.archive.refused
    }
}

/// What all shards of a lattice have seen; fails where the request has others, or not each once.
pub(super) fn merged(lattice: &Lattice, predictor: &Predictor) -> Result<Archive> {
    let all = &lattice.request.seen;
    let question = question(lattice, predictor);
    if let Some(other) = all.iter().find(|seen| seen.question != question) {
        let allowed = "shards of this search, with the same options, version and models";
        return Err(Error::field("search", "merge", other.shard, allowed));
    }
    let of = all.first().map_or(1, |seen| seen.shard.of);
    let is_there = |shard: &Shard| all.iter().any(|seen| seen.shard == *shard);
    let missing = (1..=of).map(|index| Shard { index, of }).find(|shard| !is_there(shard));
    if all.len() as u64 != of || missing.is_some() {
        let allowed = missing.map_or_else(|| "each once".to_owned(), |shard| format!("{shard}, too"));
        return Err(Error::field(
            "search",
            "merge",
            format!("{} shards of {of}", all.len()),
            &allowed,
        ));
    }
    let archives = all.iter().map(|seen| seen.archive.clone());
    Ok(archives.fold(Archive::default(), Archive::merge))
}

/// Digest of everything that what is seen of a shape follows from.
fn question(lattice: &Lattice, predictor: &Predictor) -> u64 {
    let Lattice {
        request,
        space,
        baseline,
        ..
    } = lattice;
    let gpu = predictor.gpu();
    let scale = lattice.scale();
    let service = scale.service.map(|(service, served)| (&service.life, served.cost));
    let asked = (&request.baseline, request.goal, request.equal_loss, request.tokens);
    let version = env!("CARGO_PKG_VERSION");
    fnv1a(format!("{version} {gpu:?} {space:?} {baseline:?} {asked:?} {service:?}").as_bytes())
}

fn digest(archive: &Archive) -> u64 {
    fnv1a(json(archive).as_bytes())
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("numbers and their names")
}
