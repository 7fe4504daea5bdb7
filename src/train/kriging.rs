//! Kriging (Gaussian process regression; Rasmussen & Williams 2006, chapter 2) of GEMM times over the logarithms of `n` and
//! `k`, for each `m` of a table: what the teacher sees beside the features.
//!
//! What a library does at one pair `(n, k)` it mostly does at its neighbours, too: along ridges of equal `n` or equal
//! `k` times vary together. Features that follow physics do not show that.

use crate::ops::Op;
use crate::stats::quadrature;
use crate::train::fit::Samples;
use crate::train::teacher::LabelledTable;
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Least number of pairs and of values of `m` that kriging is worth.
const LEAST_PAIRS: usize = 100;
const LEAST_ROWS: usize = 8;

/// Share of the grid of pairs and values of `m` that has to be there.
const LEAST_FILLED: f64 = 0.9;

/// Up to which `m` a band of equal covariance goes: a library changes its kernels with `m`.
const BANDS: [u64; 6] = [16, 64, 256, 1024, 4352, u64::MAX];

/// Numbers of a covariance.
const NUMBERS: usize = 10;

/// Where the search for a covariance starts: a smooth part with its length along `n` and `k` in octaves, ridges of equal
/// `k` and of equal `n` with their two lengths each, and the noise of a pair.
const START: [f64; NUMBERS] = [0.3, 3.0, 3.0, 0.01, 0.2, 2.0, 0.01, 0.2, 2.0, 0.002];

/// Factors that the search tries on each number, one after the other.
const FACTORS: [f64; 4] = [3.0, 1.7, 1.3, 1.15];

/// The covariance of two pairs.
#[derive(Clone, Copy, Debug)]
struct Covariance([f64; NUMBERS]);

impl Covariance {
    /// At these distances in octaves of `n` and `k`, without the noise.
    fn at(&self, [n, k]: [f64; 2]) -> f64 {
        let [
            smooth,
            along_n,
            along_k,
            equal_k,
            n_short,
            k_long,
            equal_n,
            k_short,
            n_long,
            _,
        ] = self.0;
        smooth * matern(quadrature(n / along_n, k / along_k))
            + equal_k * (-n / n_short).exp() * matern(k / k_long)
            + equal_n * (-k / k_short).exp() * matern(n / n_long)
    }

    fn noise(&self) -> f64 {
        self.0[NUMBERS - 1]
    }
}

/// The Matérn covariance of smoothness 3/2.
fn matern(distance: f64) -> f64 {
    let scaled = 3f64.sqrt() * distance;
    (1.0 + scaled) * (-scaled).exp()
}

/// Lower triangle of a positive definite matrix as a product with its transpose, by rows.
struct Cholesky {
    size: usize,
    lower: Vec<f64>,
}

impl Cholesky {
    fn of(covariance: &Covariance, pairs: &[[f64; 2]]) -> Option<Self> {
        let size = pairs.len();
        let mut lower = vec![0.0; size * size];
        for row in 0..size {
            for column in 0..=row {
                let mut sum = covariance.at(gap(pairs[row], pairs[column]));
                if row == column {
                    sum += covariance.noise();
                }
                let (left, right) = (&lower[row * size..], &lower[column * size..]);
                let known: f64 = left[..column].iter().zip(right).map(|(a, b)| a * b).sum();
                sum -= known;
                lower[row * size + column] = match row == column {
                    true if sum > 0.0 => sum.sqrt(),
                    true => return None,
                    false => sum / lower[column * size + column],
                };
            }
        }
        Some(Self { size, lower })
    }

    /// Solves for the lower triangle.
    fn forward(&self, values: &[f64]) -> Vec<f64> {
        let mut solved: Vec<f64> = Vec::with_capacity(self.size);
        for (row, value) in values.iter().enumerate() {
            let line = &self.lower[row * self.size..][..=row];
            let known: f64 = line.iter().zip(&solved).map(|(a, b)| a * b).sum();
            solved.push((value - known) / line[row]);
        }
        solved
    }

    /// Solves for the whole matrix.
    fn solve(&self, values: &[f64]) -> Vec<f64> {
        let mut solved = self.forward(values);
        for row in (0..self.size).rev() {
            let value = solved[row] / self.lower[row * self.size + row];
            solved[row] = value;
            let line = &self.lower[row * self.size..][..row];
            for (below, factor) in solved[..row].iter_mut().zip(line) {
                *below -= factor * value;
            }
        }
        solved
    }

    /// The diagonal of the inverse.
    fn inverse_diagonal(&self) -> Vec<f64> {
        let unit = |at: usize| -> f64 {
            let mut values = vec![0.0; self.size];
            values[at] = 1.0;
            self.forward(&values).iter().map(|value| value * value).sum()
        };
        (0..self.size).map(unit).collect()
    }

    fn log_determinant(&self) -> f64 {
        let diagonal = (0..self.size).map(|row| self.lower[row * self.size + row].ln());
        2.0 * diagonal.sum::<f64>()
    }
}

fn gap(a: [f64; 2], b: [f64; 2]) -> [f64; 2] {
    [(a[0] - b[0]).abs(), (a[1] - b[1]).abs()]
}

/// One value of `m`.
struct Slice {
    log_m: f64,
    covariance: Covariance,
    mean: f64,
    /// What the covariance to each pair is weighed with.
    weights: Vec<f64>,
    /// By pair what the others say of it.
    left_out: Vec<f64>,
}

/// A table of GEMMs as a Gaussian process for each `m`.
pub struct Kriging {
    pairs: Vec<[f64; 2]>,
    /// The place of each pair in `pairs`.
    places: BTreeMap<(u64, u64), usize>,
    slices: Vec<Slice>,
}

/// Covariances by band.
struct Covariances(Vec<Covariance>);

/// A table as a grid of pairs and values of `m`.
struct Grid {
    places: BTreeMap<(u64, u64), usize>,
    /// By `m` the targets of all pairs.
    slices: Vec<(u64, Vec<f64>)>,
}

impl Grid {
    /// None of a table that is no grid of single GEMMs in one layout.
    fn of(table: &LabelledTable<'_>, targets: &[f32]) -> Option<Self> {
        let mut pairs = BTreeSet::new();
        let mut sizes = BTreeSet::new();
        let mut known: BTreeMap<(u64, u64, u64), f64> = BTreeMap::new();
        let mut layouts = BTreeSet::new();
        for ((op, _), target) in table.rows.iter().zip(targets) {
            let Op::Gemm(gemm) = op else { return None };
            if gemm.batch > 1 {
                return None;
            }
            layouts.insert(gemm.layout);
            pairs.insert((gemm.n, gemm.k));
            sizes.insert(gemm.m);
            known.insert((gemm.n, gemm.k, gemm.m), f64::from(*target));
        }
        let filled = known.len() as f64 / (pairs.len() * sizes.len()).max(1) as f64;
        if layouts.len() != 1 || pairs.len() < LEAST_PAIRS || sizes.len() < LEAST_ROWS || filled < LEAST_FILLED {
            return None;
        }
        // A gap is filled along m.
        let target = |(n, k): (u64, u64), m: u64| {
            let below = known.range((n, k, 0)..=(n, k, m)).next_back();
            let above = known.range((n, k, m)..=(n, k, u64::MAX)).next();
            match (below, above) {
                (Some((&(.., low), &a)), Some((&(.., high), &b))) if low < high => {
                    let ln = |m: u64| (m as f64).ln();
                    a + (b - a) * (ln(m) - ln(low)) / (ln(high) - ln(low))
                }
                (Some((_, &only)), _) | (_, Some((_, &only))) => only,
                (None, None) => 0.0,
            }
        };
        let slice = |m: u64| (m, pairs.iter().map(|&pair| target(pair, m)).collect());
        Some(Self {
            slices: sizes.iter().map(|&m| slice(m)).collect(),
            places: pairs.into_iter().enumerate().map(|(at, pair)| (pair, at)).collect(),
        })
    }

    fn pairs(&self) -> Vec<[f64; 2]> {
        let octaves = |&(n, k): &(u64, u64)| [(n as f64).log2(), (k as f64).log2()];
        self.places.keys().map(octaves).collect()
    }
}

fn band(m: u64) -> usize {
    BANDS.partition_point(|&last| last < m)
}

fn centred(values: &[f64]) -> (f64, Vec<f64>) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (mean, values.iter().map(|value| value - mean).collect())
}

impl Covariances {
    /// The likeliest covariance of each band.
    fn fit(grid: &Grid) -> Self {
        let pairs = grid.pairs();
        let fit = |number: usize| {
            let of_band = grid.slices.iter().filter(|(m, _)| band(*m) == number);
            let slices: Vec<Vec<f64>> = of_band.map(|(_, values)| centred(values).1).collect();
            match slices.is_empty() {
                true => Covariance(START),
                false => likeliest(&pairs, &slices),
            }
        };
        Self((0..BANDS.len()).into_par_iter().map(fit).collect())
    }
}

/// The covariance under which these slices are likeliest, by coordinate search in the logarithms of its numbers.
fn likeliest(pairs: &[[f64; 2]], slices: &[Vec<f64>]) -> Covariance {
    let surprise = |covariance: &Covariance| {
        let Some(cholesky) = Cholesky::of(covariance, pairs) else {
            return f64::INFINITY;
        };
        let squares = |values: &Vec<f64>| -> f64 {
            let solved = cholesky.forward(values);
            solved.iter().map(|value| value * value).sum()
        };
        let fit: f64 = slices.iter().map(squares).sum();
        fit + slices.len() as f64 * cholesky.log_determinant()
    };
    let mut best = Covariance(START);
    let mut least = surprise(&best);
    for factor in FACTORS {
        for number in 0..NUMBERS {
            for factor in [factor, 1.0 / factor] {
                loop {
                    let mut tried = best;
                    tried.0[number] *= factor;
                    let found = surprise(&tried);
                    if found >= least {
                        break;
                    }
                    (best, least) = (tried, found);
                }
            }
        }
    }
    best
}

impl Kriging {
    /// Of several tables of one kernel library, the first of which says how times vary together; empty if one is no grid.
    pub fn of_tables(tables: &[LabelledTable<'_>], samples: &[Samples]) -> Vec<Self> {
        let tables = tables.iter().zip(samples);
        let grids = tables.map(|(table, samples)| Grid::of(table, &samples.targets));
        let Some(grids) = grids.collect::<Option<Vec<_>>>() else {
            return vec![];
        };
        let covariances = Covariances::fit(&grids[0]);
        let all = grids.into_iter().map(|grid| Self::of(grid, &covariances));
        all.collect::<Option<_>>().unwrap_or_default()
    }

    /// Of a grid; `None` if a covariance has other pairs.
    fn of(grid: Grid, covariances: &Covariances) -> Option<Self> {
        let pairs = grid.pairs();
        let factor = |covariance: &Covariance| {
            let cholesky = Cholesky::of(covariance, &pairs)?;
            let diagonal = cholesky.inverse_diagonal();
            Some((cholesky, diagonal))
        };
        let factors: Vec<Option<_>> = covariances.0.par_iter().map(factor).collect();
        let slice = |(m, values): &(u64, Vec<f64>)| {
            let (cholesky, diagonal) = factors[band(*m)].as_ref()?;
            let (mean, centred) = centred(values);
            let weights = cholesky.solve(&centred);
            let left_out = values.iter().zip(&weights).zip(diagonal);
            let left_out = left_out.map(|((value, weight), inverse)| value - weight / inverse);
            Some(Slice {
                log_m: (*m as f64).ln(),
                covariance: covariances.0[band(*m)],
                mean,
                left_out: left_out.collect(),
                weights,
            })
        };
        let slices = grid.slices.iter().map(slice).collect::<Option<_>>()?;
        Some(Self {
            pairs,
            places: grid.places,
            slices,
        })
    }

    /// Its estimate of each operator; of a pair of the table that from the other pairs.
    pub fn column(&self, table: &LabelledTable<'_>) -> Vec<f32> {
        let said = |(op, _): &(&Op, f64)| match op {
            Op::Gemm(gemm) => self.say([gemm.m, gemm.n, gemm.k]) as f32,
            _ => 0.0,
        };
        table.rows.par_iter().map(said).collect()
    }

    fn say(&self, [m, n, k]: [u64; 3]) -> f64 {
        let log_m = (m as f64).ln();
        let above = self.slices.partition_point(|slice| slice.log_m < log_m);
        let above = above.min(self.slices.len() - 1);
        let below = above.saturating_sub(1);
        let place = self.places.get(&(n, k)).copied();
        let at = [(n as f64).log2(), (k as f64).log2()];
        let [low, high] = [below, above].map(|slice| self.slices[slice].say(place, at, &self.pairs));
        let [from, to] = [below, above].map(|slice| self.slices[slice].log_m);
        let share = if from < to {
            ((log_m - from) / (to - from)).clamp(0.0, 1.0)
        } else {
            1.0
        };
        low + (high - low) * share
    }
}

impl Slice {
    fn say(&self, place: Option<usize>, at: [f64; 2], pairs: &[[f64; 2]]) -> f64 {
        if let Some(place) = place {
            return self.left_out[place];
        }
        let terms = pairs.iter().zip(&self.weights);
        let terms = terms.map(|(pair, weight)| weight * self.covariance.at(gap(at, *pair)));
        self.mean + terms.sum::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::{Family, GpuRates};
    use crate::gpu::Gpu;
    use crate::ops::Gemm;
    use crate::random::Random;
    use crate::units::Seconds;

    const ROWS: [u64; 8] = [8, 16, 32, 64, 128, 256, 512, 1024];

    /// Twelve `n` by ten `k`, where an `n` and a `k` each have a factor of their own and a pair has a little of its own.
    fn ridges() -> Vec<(Op, f64)> {
        let mut random = Random::seeded(7);
        let [of_n, of_k] = [12, 10].map(|count| -> Vec<f64> { (0..count).map(|_| 0.2 * random.normal()).collect() });
        let mut rows = Vec::new();
        for (at_n, of_n) in of_n.iter().enumerate() {
            for (at_k, of_k) in of_k.iter().enumerate() {
                let own = 0.02 * random.normal();
                let gemm = |m| Gemm::new(m, 512 + 416 * at_n as u64, 256 + 320 * at_k as u64);
                rows.extend(ROWS.map(|m| (Op::Gemm(gemm(m)), of_n + of_k + own)));
            }
        }
        rows
    }

    /// The rows as a table, and their targets.
    fn table(rows: &[(Op, f64)]) -> (LabelledTable<'_>, Vec<f32>) {
        let rates = GpuRates::new(Gpu::find("h100").unwrap(), Seconds::from_micros(3.0));
        let timed = rows.iter().map(|(op, target)| {
            let reference = rates.reference(op).secs();
            (op, reference * target.exp())
        });
        let table = LabelledTable {
            rows: timed.collect(),
            rates,
        };
        let targets = table.samples(Family::Gemm).targets;
        (table, targets)
    }

    fn kriging(rows: &[(Op, f64)]) -> Kriging {
        let (table, targets) = table(rows);
        let grid = Grid::of(&table, &targets).unwrap();
        let covariances = Covariances::fit(&grid);
        Kriging::of(grid, &covariances).unwrap()
    }

    #[test]
    fn a_pair_that_nobody_timed_follows_its_ridges() {
        let rows = ridges();
        let pairs = rows.chunks(ROWS.len()).enumerate();
        let (unseen, seen): (Vec<_>, Vec<_>) = pairs.partition(|(pair, _)| pair % 10 == pair / 10 % 10);
        let flat = |pairs: Vec<(usize, &[(Op, f64)])>| -> Vec<_> {
            pairs.into_iter().flat_map(|(_, rows)| rows.to_vec()).collect()
        };
        let (unseen, seen) = (flat(unseen), flat(seen));
        assert_eq!((unseen.len(), seen.len()), (96, 864));
        let kriging = kriging(&seen);
        let (table, targets) = table(&unseen);
        let misses = kriging.column(&table).into_iter().zip(&targets);
        let miss = misses.map(|(said, target)| (said - target).abs()).sum::<f32>();
        let spread: f32 = targets.iter().map(|target| target.abs()).sum();
        assert!(miss < 0.25 * spread, "{miss} of {spread}");
    }

    #[test]
    fn a_timed_pair_gets_what_the_others_say_of_it() {
        let rows = ridges();
        let (table, targets) = table(&rows);
        let grid = Grid::of(&table, &targets).unwrap();
        let covariances = Covariances::fit(&grid);
        let whole = Kriging::of(grid, &covariances).unwrap();
        let said = whole.column(&table);
        let pair = |op: &Op| match op {
            Op::Gemm(gemm) => (gemm.n, gemm.k),
            _ => (0, 0),
        };
        let one = pair(&rows[37 * ROWS.len()].0);
        let others: Vec<_> = rows.iter().copied().filter(|(op, _)| pair(op) != one).collect();
        let (fewer, fewer_targets) = super::tests::table(&others);
        let fewer = Grid::of(&fewer, &fewer_targets).unwrap();
        let without = Kriging::of(fewer, &covariances).unwrap();
        for (place, (op, _)) in rows.iter().enumerate().filter(|(_, (op, _))| pair(op) == one) {
            let Op::Gemm(gemm) = op else { unreachable!() };
            let expected = without.say([gemm.m, gemm.n, gemm.k]);
            let found = f64::from(said[place]);
            // The means of the slices differ by a 120th of the pair.
            assert!((found - expected).abs() < 0.01, "{op}: {found} {expected}");
            assert!((found - f64::from(targets[place])).abs() > 1e-6);
        }
    }

    #[test]
    fn tables_that_are_no_grid_of_gemms_are_left_alone() {
        let mut rows = ridges();
        rows.truncate(50 * ROWS.len());
        let (few, targets) = table(&rows);
        assert!(Grid::of(&few, &targets).is_none());
        let mut rows = ridges();
        let mut place = 0;
        rows.retain(|_| {
            place += 1;
            place % 3 == 0
        });
        let (holes, targets) = table(&rows);
        assert!(Grid::of(&holes, &targets).is_none());
    }
}
