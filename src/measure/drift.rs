//! Drift of a run: change in the time of anchors, the cases that are timed again and again.

use crate::dataset::{Role, Row};
use crate::stats::median;
use std::collections::HashMap;

/// Drift above which a run should not be trusted.
pub const BAD_DRIFT: f64 = 0.02;

/// Change in the time of anchors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// Number of anchors.
    pub anchors: usize,
    /// Number of visits, the first included.
    pub visits: usize,
    /// Largest change of the median anchor against its first visit, relative and signed.
    pub largest: f64,
    /// Change at the last visit.
    pub last: f64,
}

impl Drift {
    /// Whether no model should be trained on this run.
    pub fn is_bad(&self) -> bool {
        self.largest.abs() > BAD_DRIFT
    }
}

/// The drift of these rows; none without two visits.
pub fn drift(rows: &[Row]) -> Option<Drift> {
    let mut times: HashMap<_, Vec<f64>> = HashMap::new();
    for row in rows {
        let role = row.measured.as_ref().map(|about| about.role);
        if role == Some(Role::Anchor) {
            let visits = times.entry(row.op).or_default();
            visits.push(row.time.secs());
        }
    }
    let visits = times.values().map(Vec::len).max()?;
    let changes: Vec<f64> = (1..visits)
        .filter_map(|visit| {
            let ratios = times.values().filter_map(|times| Some(times.get(visit)? / times[0]));
            median(ratios.collect()).map(|ratio| ratio - 1.0)
        })
        .collect();
    let largest = changes.iter().max_by(|a, b| a.abs().total_cmp(&b.abs()));
    Some(Drift {
        anchors: times.len(),
        visits,
        largest: *largest?,
        last: *changes.last()?,
    })
}
