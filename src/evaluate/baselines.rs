//! Simple predictors on the split of a trained head, to tell what learning is worth.
//!
//! Three of them, each with the same held-out keys as the head's own error table: the bare
//! roofline, a roofline with three fitted constants, and log-linear interpolation of
//! `time / roofline` between the training keys of the grid.

use crate::dataset::{HeldOut, Row};
use crate::families::GpuRates;
use crate::gpu::Gpu;
use crate::ops::Op;
use crate::stats::quantile;
use crate::units::Seconds;
use std::collections::BTreeMap;
use std::collections::HashMap;

/// Rows that the constants of the fitted roofline are searched on; more change the third digit only.
const FIT_ROWS: usize = 4000;

/// Errors of the simple predictors on the held-out rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Baselines {
    /// Rows of the training keys.
    pub trained: usize,
    /// Rows of the held-out keys.
    pub held_out: usize,
    /// `max(flops / peak, bytes / bandwidth)`.
    pub roofline: Ape,
    /// The same with three fitted constants: reached shares of peak and bandwidth, and a floor.
    pub fitted: Ape,
    /// Interpolation between training keys.
    pub interpolation: Ape,
    /// Held-out rows without a neighbour on the grid, which take the fitted roofline.
    pub without_neighbours: usize,
}

/// Absolute percentage errors, as fractions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ape {
    /// Half of the rows are better.
    pub median: f64,
    /// The mean.
    pub mean: f64,
    /// Nine rows in ten are better.
    pub p90: f64,
}

/// Judges the simple predictors on rows of one GPU, stack, family and format; nothing where a side
/// of a split is empty. The keys that `fraction` and `seed` hold out are those of a sub-model.
pub fn baselines(gpu: &Gpu, rows: &[&Row], fraction: f64, seed: u64) -> Option<Baselines> {
    let rates = GpuRates::new(gpu, Seconds::ZERO);
    let held_out = HeldOut::of(rows.iter().copied(), fraction, seed);
    let mut judged = Judged::default();
    for fit in 0..held_out.fits() {
        let point = |row: &&Row| Point::new(gpu, &rates, row);
        let (held_out, trained): (Vec<&Row>, Vec<&Row>) =
            rows.iter().partition(|row| held_out.holds(row, fit));
        let trained: Vec<Point> = trained.iter().map(point).collect();
        if trained.is_empty() || held_out.is_empty() {
            return None;
        }
        judged.add(&trained, held_out.iter().map(point));
    }
    Some(Baselines {
        trained: judged.trained,
        held_out: judged.roofline.len(),
        roofline: Ape::of(judged.roofline),
        fitted: Ape::of(judged.fitted),
        interpolation: Ape::of(judged.interpolation),
        without_neighbours: judged.without_neighbours,
    })
}

/// Signed `ln(predicted / measured)` of the held-out rows.
#[derive(Default)]
struct Judged {
    trained: usize,
    roofline: Vec<f64>,
    fitted: Vec<f64>,
    interpolation: Vec<f64>,
    without_neighbours: usize,
}

impl Judged {
    /// Judges one split.
    fn add(&mut self, trained: &[Point], held_out: impl Iterator<Item = Point>) {
        self.trained = trained.len();
        let fitted = Fitted::new(trained);
        let grid = Grid::new(trained);
        for point in held_out {
            let by_constants = fitted.log_time(&point) - point.log_time;
            self.roofline.push(-point.log_ratio());
            self.fitted.push(by_constants);
            let interpolated = grid.interpolate(&point.op);
            self.without_neighbours += usize::from(interpolated.is_none());
            let error = interpolated.map(|log_ratio| log_ratio - point.log_ratio());
            self.interpolation.push(error.unwrap_or(by_constants));
        }
    }
}

impl Ape {
    /// From signed `ln(predicted / measured)`, at least one.
    fn of(logs: Vec<f64>) -> Self {
        let mut apes: Vec<f64> = logs.into_iter().map(|log| log.exp_m1().abs()).collect();
        apes.sort_by(f64::total_cmp);
        Self {
            median: quantile(&apes, 0.5),
            mean: apes.iter().sum::<f64>() / apes.len() as f64,
            p90: quantile(&apes, 0.9),
        }
    }
}

/// One timing as the simple predictors see it: seconds and their logarithms.
#[derive(Clone, Copy, Debug)]
struct Point {
    op: Op,
    log_time: f64,
    log_roofline: f64,
    compute: f64,
    memory: f64,
}

impl Point {
    fn new(gpu: &Gpu, rates: &GpuRates, row: &Row) -> Self {
        let compute = row.op.dtype().map_or(0.0, |dtype| {
            (row.op.flops() / gpu.nearest_peak(dtype)).secs()
        });
        Self {
            op: row.op,
            log_time: row.time.secs().ln(),
            log_roofline: rates.roofline(&row.op).secs().ln(),
            compute,
            memory: (row.op.bytes() / gpu.bandwidth()).secs(),
        }
    }

    fn log_ratio(&self) -> f64 {
        self.log_time - self.log_roofline
    }
}

/// `time = max(compute time / a, memory time / b) + c`: the shares of peak and bandwidth that are
/// reached, and a constant.
#[derive(Clone, Copy, Debug)]
struct Fitted {
    /// `-ln a`, `-ln b`, `ln c` with `c` in seconds.
    constants: [f64; 3],
}

impl Fitted {
    /// Coordinate descent on the mean of `|ln(predicted / measured)|`, from steps of a factor of
    /// two down to a tenth of a percent.
    fn new(points: &[Point]) -> Self {
        let every = points.len().div_ceil(FIT_ROWS);
        let sample: Vec<Point> = points.iter().step_by(every).copied().collect();
        let fastest = sample.iter().map(|point| point.log_time);
        let mut best = Self {
            constants: [0.3, 0.3, fastest.fold(f64::INFINITY, f64::min)],
        };
        let mut least = best.loss(&sample);
        let mut step = 2f64.ln();
        while step > 1e-3 {
            let mut improved = false;
            for constant in 0..3 {
                for change in [step, -step] {
                    let mut candidate = best;
                    candidate.constants[constant] += change;
                    let loss = candidate.loss(&sample);
                    if loss < least {
                        (best, least, improved) = (candidate, loss, true);
                    }
                }
            }
            if !improved {
                step /= 2.0;
            }
        }
        best
    }

    fn loss(&self, points: &[Point]) -> f64 {
        let distance = |point: &Point| (self.log_time(point) - point.log_time).abs();
        points.iter().map(distance).sum()
    }

    fn log_time(&self, point: &Point) -> f64 {
        let [compute, memory, floor] = self.constants.map(f64::exp);
        ((point.compute * compute).max(point.memory * memory) + floor).ln()
    }
}

/// The dimensions that stay fixed along a line of the grid, which one varies first.
type Line = [u64; 9];

/// `ln(time / roofline)` of the training rows, strung on every line of the grid they lie on.
struct Grid {
    /// Per line, by the dimension that varies: sum and number of the values there.
    lines: HashMap<Line, BTreeMap<u64, (f64, u32)>>,
}

impl Grid {
    fn new(points: &[Point]) -> Self {
        let mut lines: HashMap<Line, BTreeMap<u64, (f64, u32)>> = HashMap::new();
        for point in points {
            for (line, position) in lines_through(&point.op) {
                let (sum, number) = lines.entry(line).or_default().entry(position).or_default();
                *sum += point.log_ratio();
                *number += 1;
            }
        }
        Self { lines }
    }

    /// The mean of the values interpolated along each line through `op`. A line with training rows
    /// on one side only continues flat, and counts only where no line has both sides.
    fn interpolate(&self, op: &Op) -> Option<f64> {
        let (mut inside, mut outside) = (Vec::new(), Vec::new());
        for (line, position) in lines_through(op) {
            let Some(values) = self.lines.get(&line) else {
                continue;
            };
            let mean = |(&position, &(sum, number)): (&u64, &(f64, u32))| {
                ((position as f64).ln(), sum / f64::from(number))
            };
            let below = values.range(..=position).next_back().map(mean);
            let above = values.range(position..).next().map(mean);
            match (below, above) {
                (Some((x0, y0)), Some((x1, y1))) => {
                    let share = if x1 > x0 {
                        ((position as f64).ln() - x0) / (x1 - x0)
                    } else {
                        0.0
                    };
                    inside.push(y0 + share * (y1 - y0));
                }
                (Some((_, value)), None) | (None, Some((_, value))) => outside.push(value),
                (None, None) => {}
            }
        }
        let values = if inside.is_empty() { outside } else { inside };
        let number = values.len();
        (number > 0).then(|| values.iter().sum::<f64>() / number as f64)
    }
}

/// The lines an operator lies on, each with its place there. Products: along `n` and along `k`.
/// Attention: along the heads at fixed key heads and at a fixed number of queries per key head,
/// and along the key heads. Nothing else is on a grid.
fn lines_through(op: &Op) -> Vec<(Line, u64)> {
    match op {
        Op::Gemm(op) => {
            let line = |kind, fixed| [kind, op.m, fixed, op.batch, op.layout as u64, 0, 0, 0, 0];
            vec![(line(0, op.k), op.n), (line(1, op.n), op.k)]
        }
        Op::Attention(op) => {
            let line = |kind, fixed| {
                let mask = u64::from(op.causal) + 2 * op.window;
                let widths = [op.head_dim, op.value_dim];
                let [head_dim, value_dim] = widths;
                [
                    kind,
                    fixed,
                    op.batch,
                    op.seq_q,
                    op.seq_kv,
                    head_dim,
                    value_dim,
                    mask,
                    op.pass as u64,
                ]
            };
            let queries = op.heads / op.kv_heads.max(1);
            vec![
                (line(2, op.kv_heads), op.heads),
                (line(3, queries), op.heads),
                (line(4, op.heads), op.kv_heads),
            ]
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Dtype;
    use crate::ops::Gemm;
    use crate::ops::Layout;

    /// Products on an H200 whose time is `time(point, n, k)`.
    fn grid(time: impl Fn(&Point, u64, u64) -> f64) -> Vec<Row> {
        let gpu = Gpu::find("h200").unwrap();
        let rates = GpuRates::new(gpu, Seconds::ZERO);
        let mut rows = Vec::new();
        for m in [1, 64, 4096] {
            for n in (0..8).map(|power| 256u64 << power) {
                for k in (0..8).map(|power| 256u64 << power) {
                    let op = Op::Gemm(Gemm {
                        m,
                        n,
                        k,
                        batch: 1,
                        layout: Layout::Tn,
                        dtype: Dtype::Bf16,
                    });
                    let mut row = Row::new(op, "h200", "law 1", Seconds::from_secs(1.0));
                    let point = Point::new(gpu, &rates, &row);
                    row.time = Seconds::from_secs(time(&point, n, k));
                    rows.push(row);
                }
            }
        }
        rows
    }

    fn judge(rows: &[Row]) -> Baselines {
        let gpu = Gpu::find("h200").unwrap();
        let rows: Vec<&Row> = rows.iter().collect();
        baselines(gpu, &rows, 0.2, 3).unwrap()
    }

    #[test]
    fn a_roofline_with_other_constants_is_found_again() {
        let rows = grid(|point, _, _| (point.compute / 0.7).max(point.memory / 0.8) + 4e-6);
        let judged = judge(&rows);
        assert_eq!(judged.trained + judged.held_out, rows.len());
        assert!(judged.roofline.median > 0.2, "{judged:?}");
        assert!(judged.fitted.p90 < 0.01, "{judged:?}");

        let gpu = Gpu::find("h200").unwrap();
        let rates = GpuRates::new(gpu, Seconds::ZERO);
        let points: Vec<Point> = rows
            .iter()
            .map(|row| Point::new(gpu, &rates, row))
            .collect();
        let [compute, memory, floor] = Fitted::new(&points).constants.map(f64::exp);
        for (found, expected) in [(compute, 1.0 / 0.7), (memory, 1.0 / 0.8), (floor, 4e-6)] {
            assert!(
                (found / expected - 1.0).abs() < 0.01,
                "{found} is not {expected}"
            );
        }
    }

    #[test]
    fn interpolation_is_exact_where_the_ratio_is_a_power_law() {
        let rows = grid(|point, n, k| {
            let ratio = 3.0 * (n as f64).powf(-0.2) * (k as f64).powf(-0.1);
            point.log_roofline.exp() * ratio
        });
        let gpu = Gpu::find("h200").unwrap();
        let rates = GpuRates::new(gpu, Seconds::ZERO);
        // The middle of the grid is left out, its neighbours on all four sides are not.
        let is_middle = |op: &Op| matches!(op, Op::Gemm(op) if op.n == 2048 && op.k == 2048);
        let points: Vec<Point> = rows
            .iter()
            .map(|row| Point::new(gpu, &rates, row))
            .collect();
        let (middle, around): (Vec<Point>, Vec<Point>) =
            points.into_iter().partition(|point| is_middle(&point.op));
        let grid = Grid::new(&around);
        for point in &middle {
            let log_ratio = grid.interpolate(&point.op).unwrap();
            assert!((log_ratio - point.log_ratio()).abs() < 1e-9);
        }
        assert_eq!(middle.len(), 3);
        // Beyond the grid it continues flat; elsewhere there is nothing to go by.
        let Op::Gemm(op) = middle[0].op else {
            unreachable!("the grid holds products only")
        };
        let known = |n, k| {
            let op = Op::Gemm(Gemm { n, k, ..op });
            around
                .iter()
                .find(|point| point.op == op)
                .unwrap()
                .log_ratio()
        };
        let beyond = Op::Gemm(Gemm {
            n: 1 << 20,
            k: 512,
            ..op
        });
        let flat = grid.interpolate(&beyond).unwrap();
        assert!((flat - known(256 << 7, 512)).abs() < 1e-12);
        let elsewhere = Op::Gemm(Gemm { m: 7, ..op });
        assert_eq!(grid.interpolate(&elsewhere), None);
    }

    #[test]
    fn an_empty_side_of_the_split_gives_nothing() {
        let gpu = Gpu::find("h200").unwrap();
        let rows = grid(|_, _, _| 1e-5);
        let rows: Vec<&Row> = rows.iter().collect();
        assert_eq!(baselines(gpu, &rows, 0.0, 0), None);
        assert_eq!(baselines(gpu, &rows, 1.0, 0), None);
    }
}
