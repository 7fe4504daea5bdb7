//! Where a GEMM falls because its tiles need a further wave of multiprocessors.

use crate::reproduce::judge::{Criterion, Limit, Unit, mean, median};
use crate::reproduce::{Comparison, Evaluation};
use shapewise::sweep;
use shapewise::sweep::Drop as Fall;
use std::collections::BTreeMap;

/// The distance of two points of the sweep, and how far a drop may be from where it was measured.
const STEP: u64 = 64;

/// A drop: its position and the share of the rate that is lost there.
pub type Drop = (u64, f64);

/// Predicted drops held against measured ones.
#[derive(Debug, PartialEq)]
struct Held {
    /// Wanted drops with the depth predicted within one step of them.
    found: Vec<(Drop, f64)>,
    /// Wanted drops where nothing is predicted.
    missed: Vec<u64>,
    /// Predicted drops where nothing was measured.
    invented: Vec<u64>,
}

/// Holds predicted drops against those wanted and against all that were measured.
fn hold(predicted: &[Fall], wanted: &[Drop], measured: &[Drop]) -> Held {
    let near = |a: u64, b: u64| a.abs_diff(b) <= STEP;
    let depth_at = |value: u64| {
        let close = predicted.iter().filter(|drop| near(drop.value, value));
        close.map(|drop| drop.depth).reduce(f64::max)
    };
    let found = wanted
        .iter()
        .filter_map(|position| Some((*position, depth_at(position.0)?)));
    let missed = wanted.iter().filter(|position| depth_at(position.0).is_none());
    let is_known = |drop: &Fall| measured.iter().any(|position| near(position.0, drop.value));
    let invented = predicted.iter().filter(|drop| !is_known(drop));
    Held {
        found: found.collect(),
        missed: missed.map(|position| position.0).collect(),
        invented: invented.map(|drop| drop.value).collect(),
    }
}

/// Where the rate fell: by the rows at hand where both ends of a step were timed, elsewhere by the
/// quoted positions.
fn fallen(rows: &[(f64, f64)], quoted: &[Drop]) -> Vec<Drop> {
    let mut rates: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for (n, rate) in rows {
        rates.entry(*n as u64).or_default().push(*rate);
    }
    let at = |n: u64| {
        let rate = median(rates.get(&n)?.clone());
        Some((n, rate))
    };
    let step = |n: u64| Some([at(n.checked_sub(STEP)?)?, at(n)?]);
    let timed = rates.keys().filter_map(|n| step(*n));
    let timed = timed.flat_map(|ends| sweep::drops(ends.into_iter()));
    let mut fallen: Vec<_> = timed.map(|drop| (drop.value, drop.depth)).collect();
    let untimed = quoted.iter().filter(|position| step(position.0).is_none());
    fallen.extend(untimed);
    fallen.sort_by_key(|position| position.0);
    fallen
}

fn list(values: &[u64]) -> String {
    let texts: Vec<_> = values.iter().map(u64::to_string).collect();
    texts.join(", ")
}

/// The rates of a curve as values with their drops.
fn falls(curve: &[(f64, f64)]) -> Vec<Fall> {
    sweep::drops(curve.iter().map(|(n, rate)| (*n as u64, *rate)))
}

/// Adds comparisons and criteria of the drops of a series: which of those that a wave explains are
/// found and how deep, and which are predicted where none was measured.
pub fn evaluate(evaluation: &mut Evaluation, of: &str, explained: &[Drop], measured: &[Drop]) {
    let series = evaluation.series(of);
    let (gpu, basis, judged) = (series.gpu.clone(), series.basis, series.judged.clone());
    let known = fallen(&series.measured, measured);
    let held = hold(&falls(&series.predicted), explained, &known);
    if !explained.is_empty() {
        let mut statement = format!("{gpu}: share of the {} wave drops found within {STEP}", explained.len());
        if !held.missed.is_empty() {
            statement.push_str(&format!(" (missed at {})", list(&held.missed)));
        }
        evaluation.finding.criteria.push(Criterion::new(
            statement,
            basis,
            held.found.len() as f64 / explained.len() as f64,
            Unit::Share,
            Limit::AtLeast(1.0),
        ));
    }
    let mut statement = format!("{gpu}: drops of more than 3 % predicted where none was measured");
    if !held.invented.is_empty() {
        statement.push_str(&format!(" (at {})", list(&held.invented)));
    }
    evaluation.finding.criteria.push(Criterion::new(
        statement,
        basis,
        held.invented.len() as f64,
        Unit::Count,
        Limit::AtMost(0.0),
    ));
    evaluation.judge_rows(of, "rate along n", &judged);
    let shown = held.found.iter().map(|((position, depth), predicted)| {
        let what = format!("{gpu}: depth of the drop at {position}");
        Comparison::new(what, Some(*depth), *predicted, Unit::Share)
    });
    evaluation.finding.comparisons.extend(shown);
    if !held.found.is_empty() {
        let mean_of = |depth: fn(&(Drop, f64)) -> f64| mean(held.found.iter().map(depth));
        evaluation.finding.criteria.push(Criterion::near(
            format!("{gpu}: mean depth of the drops found"),
            basis,
            mean_of(|found| found.1),
            mean_of(|found| found.0.1),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::spec::FindingSpec;
    use shapewise::ops::Gemm;
    use shapewise::tiles::Tile;
    use shapewise::tiles::Waves;

    fn drop(value: u64, depth: f64) -> Fall {
        Fall { value, depth }
    }

    #[test]
    fn drops_are_found_missed_and_invented() {
        let wanted = [(1600, 0.17), (2368, 0.13)];
        let measured = [(1600, 0.17), (1792, 0.18), (2368, 0.13)];
        let predicted = [drop(1664, 0.1), drop(1792, 0.05), drop(3000, 0.04)];
        let held = hold(&predicted, &wanted, &measured);
        assert_eq!(held.found, [((1600, 0.17), 0.1)]);
        assert_eq!(held.missed, [2368]);
        assert_eq!(held.invented, [3000]);
        // Two steps away is another place.
        let far = hold(&[drop(1728, 0.1)], &wanted[..1], &[]);
        assert_eq!((far.missed, far.invented), (vec![1600], vec![1728]));
        assert!(hold(&[], &[], &measured).invented.is_empty());
    }

    #[test]
    fn rows_tell_a_drop_only_where_both_ends_of_a_step_were_timed() {
        // From 1,600 to 1,792 two widths are missing: their fall is no drop of one step.
        let rows = [(1536.0, 100.0), (1600.0, 90.0), (1792.0, 70.0), (1856.0, 71.0)];
        let [drop] = fallen(&rows, &[])[..] else {
            panic!("one drop")
        };
        assert_eq!(drop.0, 1600);
        assert!((drop.1 - 0.1).abs() < 1e-12);
        // Several rows of one width are their median, in any order.
        let noisy = [(1536.0, 100.0), (1600.0, 99.0), (1600.0, 50.0), (1600.0, 98.0)];
        assert_eq!(fallen(&noisy, &[]), []);
        // A quoted drop is kept where no rows reach, and dropped where they contradict it.
        let quoted = [(1600, 0.17), (1792, 0.18)];
        assert_eq!(fallen(&noisy, &quoted), [(1792, 0.18)]);
        assert_eq!(fallen(&[], &quoted), quoted);
    }

    #[test]
    fn the_wave_drops_are_those_of_tiles_on_multiprocessors() {
        // Tiles of 256x128 on 80 and of 128x128 on 108 multiprocessors: where `ceil(blocks / S)`
        // steps up.
        let steps = |tile: Tile, sms: f64| -> Vec<u64> {
            let waves = |n: u64| Waves::new(&Gemm::new(2304, n, 4096), tile, sms).rounds();
            let values: Vec<_> = (1536..=6144).step_by(64).collect();
            let pairs = values.windows(2).filter(|pair| waves(pair[1]) > waves(pair[0]));
            pairs.map(|pair| pair[1]).collect()
        };
        let specs = FindingSpec::all().unwrap();
        let waves = specs.iter().find(|spec| spec.id == "waves").unwrap();
        let marked = |at: usize| waves.panels[at].marks.as_ref().unwrap().at.clone();
        assert_eq!(steps(Tile::new(256, 128), 80.0), marked(0));
        assert_eq!(steps(Tile::new(128, 128), 108.0), marked(1));
        assert!(waves.panels[2].marks.is_none());
    }
}
