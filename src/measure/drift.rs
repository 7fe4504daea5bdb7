//! How far the machine moved during a run, seen by a few cases that were timed again and again.

use super::protocol::median;
use crate::dataset::Role;
use crate::dataset::Row;
use std::collections::HashMap;

/// Above this drift a run is not to be trusted.
pub const BAD_DRIFT: f64 = 0.02;

/// How far anchors moved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// Cases that were timed again and again.
    pub anchors: usize,
    /// How often, the first time included.
    pub visits: usize,
    /// Change of the median anchor against its first visit, at the visit where it was largest; signed, relative.
    pub largest: f64,
    /// The same at the last visit.
    pub last: f64,
}

impl Drift {
    /// Whether a model should rather not be trained on this run.
    pub fn is_bad(&self) -> bool {
        self.largest.abs() > BAD_DRIFT
    }
}

/// The drift of these rows; none where no anchor was visited twice.
pub fn drift(rows: &[Row]) -> Option<Drift> {
    let mut times: HashMap<_, Vec<f64>> = HashMap::new();
    for row in rows {
        if let Some(about) = row
            .measured
            .as_ref()
            .filter(|about| about.role == Role::Anchor)
        {
            let case = (row.op, about.cache, about.rank);
            times.entry(case).or_default().push(row.time.secs());
        }
    }
    let visits = times.values().map(Vec::len).max()?;
    let changes: Vec<f64> = (1..visits)
        .filter_map(|visit| {
            let ratios = times
                .values()
                .filter_map(|times| Some(times.get(visit)? / times[0]));
            median(ratios).map(|ratio| ratio - 1.0)
        })
        .collect();
    Some(Drift {
        anchors: times.len(),
        visits,
        largest: changes
            .iter()
            .copied()
            .max_by(|a, b| a.abs().total_cmp(&b.abs()))?,
        last: *changes.last()?,
    })
}
