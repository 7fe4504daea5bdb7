//! Where a product falls because its tiles need a further wave of multiprocessors.

use crate::error::Result;
use crate::ops::Layout;
use crate::ops::Op;
use crate::reproduce::Axis;
use crate::reproduce::Comparison;
use crate::reproduce::Finding;
use crate::reproduce::Panel;
use crate::reproduce::alignment::product;
use crate::reproduce::judge::Basis;
use crate::reproduce::judge::Criterion;
use crate::reproduce::judge::Unit;
use crate::reproduce::judge::mean;
use crate::reproduce::judge::median;
use crate::reproduce::machines::Machines;
use crate::reproduce::machines::Timings;
use crate::sweep;
use crate::sweep::Drop;
use crate::sweep::Range;
use crate::units::FlopsPerSecond;
use std::collections::BTreeMap;

const TABLE: &str = "cookbook_wave_sweeps_eval_only.parquet";

/// The distance of two points of the sweep, and how far a drop may be from where it was measured.
const STEP: u64 = 64;

/// A drop: its position and the share of the rate that is lost there.
type Position = (u64, f64);

/// GPU, drops that a wave model explains, every drop of more than 3 % that was measured (EleutherAI/cookbook raw logs,
/// Oct 2023).
const DROPS: [(&str, &[Position], &[Position]); 3] = [
    (
        "v100",
        &[(2240, 0.181), (3392, 0.149), (4544, 0.109), (5696, 0.096)],
        &[
            (2240, 0.181),
            (2368, 0.062),
            (3392, 0.149),
            (3520, 0.035),
            (4544, 0.109),
            (5696, 0.096),
        ],
    ),
    (
        "a100-40gb",
        &[
            (1600, 0.172),
            (2368, 0.130),
            (3136, 0.143),
            (3904, 0.087),
            (4672, 0.080),
            (5440, 0.033),
        ],
        &[
            (1600, 0.172),
            (1792, 0.175),
            (1984, 0.034),
            (2368, 0.130),
            (3136, 0.143),
            (3904, 0.087),
            (4672, 0.080),
            (5056, 0.034),
            (5440, 0.033),
        ],
    ),
    (
        "mi250x",
        &[],
        &[
            (1856, 0.36),
            (3136, 0.135),
            (3392, 0.039),
            (3648, 0.24),
            (4864, 0.10),
            (5440, 0.095),
        ],
    ),
];

/// Predicted drops held against measured ones.
#[derive(Debug, PartialEq)]
struct Held {
    /// Wanted drops with the depth predicted within one step of them.
    found: Vec<(Position, f64)>,
    /// Wanted drops where nothing is predicted.
    missed: Vec<u64>,
    /// Predicted drops where nothing was measured.
    invented: Vec<u64>,
}

/// Holds predicted drops against those wanted and against all that were measured.
fn hold(predicted: &[Drop], wanted: &[Position], measured: &[Position]) -> Held {
    let near = |a: u64, b: u64| a.abs_diff(b) <= STEP;
    let depth_at = |value: u64| {
        let close = predicted.iter().filter(|drop| near(drop.value, value));
        close.map(|drop| drop.depth).reduce(f64::max)
    };
    let found = wanted
        .iter()
        .filter_map(|position| Some((*position, depth_at(position.0)?)));
    let missed = wanted
        .iter()
        .filter(|position| depth_at(position.0).is_none());
    let is_known = |drop: &Drop| measured.iter().any(|position| near(position.0, drop.value));
    let invented = predicted.iter().filter(|drop| !is_known(drop));
    Held {
        found: found.collect(),
        missed: missed.map(|position| position.0).collect(),
        invented: invented.map(|drop| drop.value).collect(),
    }
}

/// Where the rate fell: by the rows at hand where both ends of a step were timed, elsewhere by the quoted positions.
fn fallen(rows: &[(f64, f64)], quoted: &[Position]) -> Vec<Position> {
    let mut rates: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for (n, rate) in rows {
        rates.entry(*n as u64).or_default().push(*rate);
    }
    let at = |n: u64| {
        let rate = median(rates.get(&n)?.clone());
        Some((n, FlopsPerSecond::from_flops_per_sec(rate * 1e12)))
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

pub(super) fn waves(machines: &Machines, timings: &Timings) -> Result<Finding> {
    let mut finding = Finding {
        id: "waves",
        takes_rows: true,
        title: "Tile and wave quantization",
        claim: "The rate of a product falls where its tiles no longer fit into the waves they needed: on V100 at four widths, on A100 at \
                six; on MI250X no tile explains the falls.",
        source: "EleutherAI/cookbook raw logs, Oct 2023: (2304, 4096) x (4096, n), n = 1536 to 6144 in steps of 64; figure: \
                 stas00/ml-engineering, training/performance, wave-quant.png",
        rules: &["waves", "tiles"],
        ..Finding::default()
    };
    let range = Range::new(1536, 6144, STEP)?;
    let at = |n| product(2304, n, 4096, Layout::Nn);
    let grid: Vec<_> = range.values().map(|n| (n as f64, at(n))).collect();
    for (predictor, (gpu, wanted, measured)) in machines.authors().into_iter().zip(DROPS) {
        let along = timings.along(predictor, &grid);
        let predicted = sweep::operators(predictor, range, |n| Ok(Op::Gemm(at(n))))?;
        let held = hold(&predicted.drops, wanted, &fallen(&along.measured, measured));
        if !wanted.is_empty() {
            let mut statement = format!(
                "{gpu}: share of the {} wave drops found within {STEP}",
                wanted.len()
            );
            if !held.missed.is_empty() {
                statement.push_str(&format!(" (missed at {})", list(&held.missed)));
            }
            finding.criteria.push(Criterion::at_least(
                statement,
                Basis::KeptOut,
                held.found.len() as f64 / wanted.len() as f64,
                Unit::Share,
                1.0,
            ));
        }
        let mut statement =
            format!("{gpu}: drops of more than 3 % predicted where none was measured");
        if !held.invented.is_empty() {
            statement.push_str(&format!(" (at {})", list(&held.invented)));
        }
        finding.criteria.push(Criterion::at_most(
            statement,
            Basis::KeptOut,
            held.invented.len() as f64,
            Unit::Count,
            0.0,
        ));
        finding
            .criteria
            .extend(along.criteria("rate along n", Basis::KeptOut));
        for (position, depth) in &held.found {
            finding.comparisons.push(Comparison::new(
                format!("{gpu}: depth of the drop at {}", position.0),
                Some(position.1),
                *depth,
                Unit::Share,
            ));
        }
        if !held.found.is_empty() {
            let mean_of = |depth: fn(&(Position, f64)) -> f64| mean(held.found.iter().map(depth));
            finding.criteria.push(Criterion::near(
                format!("{gpu}: mean depth of the drops found"),
                Basis::KeptOut,
                mean_of(|found| found.1),
                mean_of(|found| found.0.1),
            ));
        }
        if !along.is_measured() {
            finding.missing = Some(TABLE);
        }
        let mut panel = Panel::new(format!("Waves on {gpu}"), Axis::plain("n"), Axis::rate())
            .conditions("(2304, 4096) x (4096, n), fp16")
            .predicted("predicted", along.predicted)
            .measured("measured", Basis::KeptOut, along.measured);
        let marks: Vec<_> = wanted.iter().map(|position| position.0).collect();
        if !marks.is_empty() {
            panel.marks = Some(("drop that a further wave explains".to_owned(), marks));
        }
        finding.panels.push(panel);
    }
    finding.notes.push(
        "This sweep was kept out of training. One of the A100's drops, at 1,792, fits no wave; the falls of MI250X fit none either."
            .to_owned(),
    );
    Ok(finding)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drop(value: u64, depth: f64) -> Drop {
        Drop { value, depth }
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
        let rows = [
            (1536.0, 100.0),
            (1600.0, 90.0),
            (1792.0, 70.0),
            (1856.0, 71.0),
        ];
        let [drop] = fallen(&rows, &[])[..] else {
            panic!("one drop")
        };
        assert_eq!(drop.0, 1600);
        assert!((drop.1 - 0.1).abs() < 1e-12);
        // Several rows of one width are their median, in any order.
        let noisy = [
            (1536.0, 100.0),
            (1600.0, 99.0),
            (1600.0, 50.0),
            (1600.0, 98.0),
        ];
        assert_eq!(fallen(&noisy, &[]), []);
        // A quoted drop stands where the rows do not reach, and falls where they say otherwise.
        let quoted = [(1600, 0.17), (1792, 0.18)];
        assert_eq!(fallen(&noisy, &quoted), [(1792, 0.18)]);
        assert_eq!(fallen(&[], &quoted), quoted);
    }

    #[test]
    fn the_wave_drops_are_those_of_tiles_on_multiprocessors() {
        // Tiles of 256x128 on 80 and of 128x128 on 108 multiprocessors: where `ceil(blocks / S)` steps up.
        let steps = |tile: (u64, u64), sms: u64| -> Vec<u64> {
            let waves = |n: u64| (2304u64.div_ceil(tile.0) * n.div_ceil(tile.1)).div_ceil(sms);
            let values: Vec<_> = (1536..=6144).step_by(64).collect();
            let pairs = values
                .windows(2)
                .filter(|pair| waves(pair[1]) > waves(pair[0]));
            pairs.map(|pair| pair[1]).collect()
        };
        let positions = |at: usize| -> Vec<u64> { DROPS[at].1.iter().map(|drop| drop.0).collect() };
        assert_eq!(steps((256, 128), 80), positions(0));
        assert_eq!(steps((128, 128), 108), positions(1));
    }
}
