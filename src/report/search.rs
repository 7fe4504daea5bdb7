//! The answer to `search`.

use crate::predict::Predictor;
use crate::report::Report;
use crate::search::Found;
use serde::Serialize;

/// Recommended shapes.
#[derive(Clone, Debug, Serialize)]
pub struct SearchReport {
    #[serde(skip)]
    lines: String,
    lattice: u64,
}

impl SearchReport {
    /// Describes what was found.
    pub fn new(_predictor: &Predictor, found: &Found) -> Self {
        let mut lines = format!(
            "lattice {} evaluations {} refused {} stop {} sharded {} {:?} fastest {:?}\n",
            found.lattice,
            found.evaluations,
            found.refused,
            found.stopped.name(),
            found.sharded,
            (found.request.workload.dp, found.request.workload.zero),
            found.fastest
        );
        for s in &found.shapes {
            let c = s.ranked.candidate;
            lines += &format!(
                "{} {:?} cost {:.4} own {:.4} gain {:.3} near {} {:.3} d {:.2}\n",
                s.ranked.tie,
                c.shape,
                c.cost,
                c.own_half_width,
                s.gain,
                s.ranked.nearest.preset.architecture.name,
                s.ranked.nearest.distance,
                s.ranked.centre_distance
            );
        }
        lines += &format!("front {}\n", found.front.len());
        Self {
            lines,
            lattice: found.lattice,
        }
    }
}

impl Report for SearchReport {
    fn text(&self) -> String {
        self.lines.clone()
    }
}
