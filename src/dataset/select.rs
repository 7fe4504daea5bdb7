//! Which rows are the time of a shape, which are kept from every fit, and how far two runs of one case differ.
//!
//! A file of `measure` holds more than one row for some shapes: anchors and repeats, in old files warm caches and other
//! algorithms.

use super::clock::to_usual_clock;
use super::{Cache, Role, Row, Table, is_held_out, key};
use crate::ops::Op;
use crate::stats::{median, quantile};
use std::collections::HashMap;

/// The share of keys that no fit ever sees, in rows of our own.
pub const RESERVED: f64 = 0.10;

/// The seed of that choice, fixed for good.
const RESERVED_SEED: u64 = 0;

/// Stack of what our harness alone runs on CUDA.
pub const OWN_KERNELS: &str = "shapewise-cuda";

/// Whether a measured operator runs on kernels that no framework runs so: our memory-bound ones on CUDA, and cuDNN's
/// attention of one query against a cache that is one tensor.
pub fn is_own_kernel(stack: &str, op: &Op) -> bool {
    let is_cuda = stack == OWN_KERNELS || stack.starts_with("cublaslt ");
    is_cuda
        && match op {
            Op::Memory(_) => true,
            Op::Attention(op) => op.is_decode(),
            _ => false,
        }
}

/// Whether this row is the time of its shape: cold operands, the algorithm that the library puts first, timed for its
/// own sake. Every row of a table of others is.
pub fn is_timing(row: &Row) -> bool {
    row.measured.as_ref().is_none_or(|about| {
        about.cache == Cache::Cold
            && about.rank == 0
            && !about.has_slow_sums()
            && matches!(about.role, Role::Plan | Role::Active)
    })
}

/// Keeps the rows that are the time of their shape by kernels that other programs run, too, in their order and at their
/// usual clock, and counts the others.
pub fn timings(rows: Vec<Row>) -> Table {
    let mut table = Table::default();
    let is_own = |row: &Row| is_own_kernel(&row.stack, &row.op);
    for row in rows {
        let about = row.measured.as_ref();
        match about.filter(|_| !is_timing(&row) || is_own(&row)) {
            None => table.rows.push(row),
            Some(about) => {
                let reason = match (about.role, about.cache) {
                    (Role::Anchor, _) => "an anchor, timed again and again to see drift",
                    (Role::Repeat, _) => "a repeat, timed once more to see noise",
                    _ if is_timing(&row) => "a kernel of our harness, which no framework runs",
                    _ if about.has_slow_sums() => "summed without fast accumulation",
                    (_, Cache::Hot) => "timed with operands in the cache",
                    _ => "timed with an algorithm that the library does not put first",
                };
                table.skipped.add(reason, 1);
            }
        }
    }
    to_usual_clock(&mut table.rows);
    table
}

/// Whether this row of our own is kept from every fit, to test with: a tenth of the keys, by the hash of the key alone,
/// so equal on every machine and in every run. Rows of other tables never are.
pub fn is_reserved(row: &Row) -> bool {
    row.measured.is_some() && is_held_out(key(row), RESERVED, RESERVED_SEED)
}

/// How far two measurements of one case differ, far apart in time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunToRun {
    /// Cases that were measured twice.
    pub pairs: usize,
    /// Median of `|ln(second / first)|`.
    pub median: f64,
    /// 90th percentile of the same.
    pub p90: f64,
}

/// What a row of our own is a time of, on which GPU and stack.
type Case<'a> = (Op, Cache, u32, bool, &'a str, &'a str);

/// Why a row of our own was measured, and its case.
fn case(row: &Row) -> Option<(Role, Case<'_>)> {
    let about = row.measured.as_ref()?;
    let (cache, rank, slow) = (about.cache, about.rank, about.has_slow_sums());
    Some((about.role, (row.op, cache, rank, slow, &row.gpu, &row.stack)))
}

/// The times of every anchor, in the order of its visits.
fn anchors(rows: &[Row]) -> HashMap<Case<'_>, Vec<f64>> {
    let mut times: HashMap<_, Vec<f64>> = HashMap::new();
    for row in rows {
        if let Some((Role::Anchor, case)) = case(row) {
            times.entry(case).or_default().push(row.time.secs());
        }
    }
    times
}

/// Drift above which a run should not be trusted.
const BAD_DRIFT: f64 = 0.02;

/// Drift of a run: change in the time of anchors, the cases that are timed again and again.
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
    let times = anchors(rows);
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

/// The noise from run to run: every repeat against the first time of its case; `None` if nothing was repeated.
pub fn run_to_run<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Option<RunToRun> {
    let (mut first, mut repeats) = (HashMap::new(), Vec::new());
    for row in rows {
        let Some((role, case)) = case(row) else { continue };
        match role {
            Role::Plan | Role::Active => {
                first.entry(case).or_insert(row.time);
            }
            Role::Repeat => repeats.push((case, row.time)),
            Role::Anchor => {}
        }
    }
    let differences = repeats.iter().filter_map(|(case, time)| {
        let first = first.get(case)?;
        Some((*time / *first).ln().abs())
    });
    RunToRun::of(differences.collect())
}

impl RunToRun {
    /// Of differences between the logarithms of two times; none without any.
    pub fn of(mut differences: Vec<f64>) -> Option<Self> {
        differences.sort_by(f64::total_cmp);
        (!differences.is_empty()).then(|| Self {
            pairs: differences.len(),
            median: quantile(&differences, 0.5),
            p90: quantile(&differences, 0.9),
        })
    }
}

/// Change of the anchors that two runs have in common.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AnchorChange {
    /// Anchors that both runs timed.
    pub anchors: usize,
    /// Median over them of the later median time over the earlier one, less one.
    pub change: f64,
}

/// The change of the anchors from the rows of one run to those of another on the same GPU and stack; none without a
/// common anchor.
pub fn anchor_change(earlier: &[Row], later: &[Row]) -> Option<AnchorChange> {
    let mut earlier = anchors(earlier);
    let common = anchors(later).into_iter();
    let common = common.filter_map(|(case, times)| Some(median(times)? / median(earlier.remove(&case)?)?));
    let ratios: Vec<f64> = common.collect();
    Some(AnchorChange {
        anchors: ratios.len(),
        change: median(ratios)? - 1.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::tests::{gemm_row, measured_row};

    #[test]
    fn only_cold_first_choice_rows_of_the_plan_are_timings() {
        let mut rows = vec![gemm_row(1, 2, 3), measured_row(1, 2, 3)];
        let changes: [fn(&mut super::super::Measured); 4] = [
            |about| about.role = Role::Anchor,
            |about| about.role = Role::Repeat,
            |about| about.cache = Cache::Hot,
            |about| about.rank = 3,
        ];
        for change in changes {
            let mut row = measured_row(1, 2, 3);
            change(row.measured.as_mut().unwrap());
            rows.push(row);
        }
        let expected = rows[..2].to_vec();
        let table = timings(rows);
        assert_eq!(table.rows, expected);
        assert_eq!(table.skipped.total(), 4);
        assert_eq!(table.skipped.iter().count(), 4);
    }

    #[test]
    fn reserved_keys_are_a_tenth_and_only_of_our_own_rows() {
        let sizes = (1..60).flat_map(|n| (1..60).map(move |k| (n * 64, k * 64)));
        let rows: Vec<Row> = sizes.map(|(n, k)| measured_row(7, n, k)).collect();
        let reserved = rows.iter().filter(|row| is_reserved(row)).count();
        let share = reserved as f64 / rows.len() as f64;
        assert!((share - RESERVED).abs() < 0.02, "{share}");
        let kept = rows.iter().find(|row| is_reserved(row)).unwrap();
        // Another m of the same weights is on the same side; a row of another table is on none.
        let mut other = kept.clone();
        other.measured = None;
        assert!(!is_reserved(&other));
    }

    #[test]
    fn the_change_between_runs_is_that_of_their_common_anchors() {
        let anchor = |m, factor: f64| {
            let mut row = measured_row(m, 64, 64);
            row.measured.as_mut().unwrap().role = Role::Anchor;
            row.time = row.time * factor;
            row
        };
        let earlier = [
            anchor(1, 1.0),
            anchor(2, 1.0),
            anchor(2, 1.1),
            anchor(2, 1.2),
            anchor(3, 1.0),
        ];
        let later = [
            anchor(2, 1.122),
            anchor(3, 1.02),
            anchor(4, 9.0),
            measured_row(1, 64, 64),
        ];
        let change = anchor_change(&earlier, &later).unwrap();
        assert_eq!(change.anchors, 2);
        assert!((change.change - 0.02).abs() < 1e-9, "{}", change.change);
        assert_eq!(anchor_change(&earlier, &[]), None);
    }

    #[test]
    fn noise_is_the_difference_between_a_repeat_and_its_first_time() {
        let first = measured_row(1, 2, 3);
        assert_eq!(run_to_run([&first]), None);
        let mut again = first.clone();
        again.measured.as_mut().unwrap().role = Role::Repeat;
        again.time = first.time * 1.01;
        let noise = run_to_run([&first, &again]).unwrap();
        assert_eq!(noise.pairs, 1);
        assert!((noise.median - 1.01f64.ln()).abs() < 1e-12);
    }
}
