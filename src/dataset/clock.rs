//! Times at the usual clock: what a timing would have been at the clock that operators like it run at.
//!
//! At its power limit a GPU moves its clock by a quarter from one case to the next, as what ran before asks for: on an H200 two
//! times of one case differ by 4 to 5 % (standard deviation), and by 1 to 2 % at equal clocks. The compulsory traffic takes
//! its time whatever the clock of the processors, since memory has one of its own; the rest takes as many cycles as before.

use super::Row;
use crate::gpu::Gpu;
use crate::stats::median;
use crate::units::{Hertz, Seconds};
use std::collections::BTreeMap;

/// Neighbours on each side whose median clock is the usual one.
const NEIGHBOURS: usize = 100;

/// Fewest rows with a clock from which the usual clock is taken.
const ENOUGH: usize = 21;

/// Moves the times of our own rows to the usual clock: the median over the rows of the family on the same GPU and
/// stack whose rate, in FLOPs or else in bytes a second, is nearest, since the power that a rate takes sets the clock.
/// Rows without a clock, or of a GPU that `data/gpus` does not know, stay as they are.
pub(super) fn to_usual_clock(rows: &mut [Row]) {
    let mut alike: BTreeMap<_, Vec<(f64, f64, usize)>> = BTreeMap::new();
    for (place, row) in rows.iter().enumerate() {
        let Some(clock) = row.clock.filter(|_| row.measured.is_some()) else {
            continue;
        };
        let work = match row.op.flops().flops() {
            flops if flops > 0.0 => flops,
            _ => row.op.bytes().bytes(),
        };
        let key = (row.gpu.clone(), row.stack.clone(), row.op.kind());
        let rate = work / row.time.secs();
        alike.entry(key).or_default().push((rate, clock.hertz(), place));
    }
    for ((gpu, ..), mut clocks) in alike {
        let Ok(gpu) = Gpu::find(&gpu) else { continue };
        if clocks.len() < ENOUGH {
            continue;
        }
        clocks.sort_by(|one, two| one.0.total_cmp(&two.0));
        for (at, &(_, _, place)) in clocks.iter().enumerate() {
            let near = at.saturating_sub(NEIGHBOURS)..clocks.len().min(at + NEIGHBOURS + 1);
            let near = clocks[near].iter().map(|&(_, clock, _)| clock).collect();
            let usual = median(near).map(Hertz::from_hertz);
            if let Some(usual) = usual {
                move_to(&mut rows[place], usual, gpu);
            }
        }
    }
}

/// Moves the times of a row from its clock to another.
fn move_to(row: &mut Row, usual: Hertz, gpu: &Gpu) {
    let Some(clock) = row.clock else { return };
    let cycles = clock.hertz() / usual.hertz();
    let traffic = row.op.bytes().bytes() / gpu.bandwidth().bytes_per_sec();
    let times = [Some(&mut row.time), row.p10.as_mut(), row.p90.as_mut()];
    for time in times.into_iter().flatten() {
        let bound = traffic.min(time.secs());
        *time = Seconds::from_secs(bound + (time.secs() - bound) * cycles);
    }
    row.clock = Some(usual);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::tests::measured_row;

    /// Rows of one compute-bound shape each at this clock: `cycles` at 1.6 GHz take 100 us beside their traffic.
    fn at(clocks: &[f64]) -> Vec<Row> {
        let row = |(place, &ghz): (usize, &f64)| {
            let mut row = measured_row(4096, 4096, 1024 + place as u64);
            row.gpu = "h200".into();
            row.time = traffic(&row) + Seconds::from_micros(100.0 * 1.6 / ghz);
            row.p90 = Some(row.time);
            row.clock = Some(Hertz::from_hertz(ghz * 1e9));
            row
        };
        clocks.iter().enumerate().map(row).collect()
    }

    fn traffic(row: &Row) -> Seconds {
        let bandwidth = Gpu::find("h200").unwrap().bandwidth();
        Seconds::from_secs(row.op.bytes().bytes() / bandwidth.bytes_per_sec())
    }

    #[test]
    fn the_time_beyond_the_traffic_scales_with_the_clock() {
        let clocks: Vec<f64> = (0..41).map(|place| [1.4, 1.6, 1.8][place % 3]).chain([1.6]).collect();
        let mut rows = at(&clocks);
        to_usual_clock(&mut rows);
        for row in &rows {
            let rest = row.time.micros() - traffic(row).micros();
            assert!((rest - 100.0).abs() < 1e-6, "{rest}");
            assert_eq!(row.clock, Some(Hertz::from_hertz(1.6e9)));
            assert_eq!(row.p90, Some(row.time));
        }
    }

    #[test]
    fn rows_of_others_few_rows_and_unknown_gpus_stay_as_they_are() {
        let few = at(&[1.4, 1.6, 1.8]);
        let mut others = at(&[1.4; 20].map(|ghz| ghz));
        others.extend(at(&[1.8; 20]));
        let mut unknown = others.clone();
        others.iter_mut().for_each(|row| row.measured = None);
        unknown.iter_mut().for_each(|row| row.gpu = "no such part".into());
        for rows in [few, others, unknown] {
            let mut moved = rows.clone();
            to_usual_clock(&mut moved);
            assert_eq!(moved, rows);
        }
    }
}
