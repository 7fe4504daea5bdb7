//! One share of a job that is split over machines.

use crate::random::{Random, fnv1a};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The most shares of a job.
const MOST: u64 = 1 << 16;

/// One share of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// Its number, from 1.
    pub index: u64,
    /// How many there are.
    pub of: u64,
}

impl Shard {
    /// The whole job.
    pub const WHOLE: Self = Self { index: 1, of: 1 };

    /// Whether this shard holds what has this name: a share that follows from the name alone.
    pub fn holds(self, name: &str) -> bool {
        let digest = fnv1a(name.as_bytes());
        Random::new(digest, "shard").bits() % self.of == self.index - 1
    }

    /// What this shard holds of a list whose neighbours are alike: shards take turns.
    pub fn turns<T: Copy>(self, all: &[T]) -> Vec<T> {
        let from = all.iter().skip(self.index as usize - 1);
        from.step_by(self.of as usize).copied().collect()
    }
}

/// `I/N`.
impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/{}", self.index, self.of))
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/');
        let numbers = numbers.and_then(|(index, of)| Some((index.parse().ok()?, of.parse().ok()?)));
        match numbers {
            Some((index, of)) if (1..=MOST).contains(&of) && (1..=of).contains(&index) => Ok(Self { index, of }),
            _ => Err(format!(
                "allowed: I/N with I from 1 to N and N up to {MOST}, such as 2/8"
            )),
        }
    }
}
