//! Stopping rule for the replays of a chain: sequential sampling until the median is precise.
//!
//! The confidence interval of the median comes from order statistics, so it assumes no
//! distribution. Optional stopping (a look after every replay) makes such an interval too narrow:
//! of 95 % intervals for a fixed number of replays, 89 % cover the median of an even mixture of two
//! modes, and 92 % that of lognormal noise. Therefore the ranks are those of 97 %, no look counts
//! before the seventh replay, and two looks in a row must agree. Simulated coverage is then at
//! least 95 % in all noise models of the tests below.

pub use crate::dataset::Stop;
use crate::stats::quantile;
use crate::units::Seconds;

/// What a plan sets of the rule and of the chains that it is fed with.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Target device time of one replay of a chain.
    pub chain: Seconds,
    /// Least number of replays of calls over `MEDIUM`.
    pub fewest: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            chain: Seconds::from_micros(1000.0),
            fewest: FEWEST,
        }
    }
}

/// Half-width of the interval over the median, for calls of at least [`SHORT`].
const PRECISION: f64 = 0.005;

/// Half-width over the median for shorter calls, which the timer's resolution limits.
const SHORT_PRECISION: f64 = 0.01;

/// Time of one call below which [`SHORT_PRECISION`] holds.
const SHORT: Seconds = Seconds::from_micros(20.0);

/// Time of one call up to which more replays are the least than [`Limits::fewest`].
const MEDIUM: Seconds = Seconds::from_secs(1e-3);

/// Largest number of replays.
const MOST: usize = 25;

/// Largest device time of all replays, once there are the fewest.
const TIME: Seconds = Seconds::from_secs(25e-3);

/// Time of one call above which [`LONG_REPLAYS`] are enough.
const LONG: Seconds = Seconds::from_secs(5e-3);

/// Replays of a long call.
const LONG_REPLAYS: usize = 3;

/// Replays that an interval of the median needs.
const FEWEST: usize = 7;

/// Number of looks in a row at which the interval must be narrow enough.
const LOOKS: usize = 2;

/// Nominal coverage of the interval for a fixed number of replays; after optional stopping it is
/// over 95 %.
const NOMINAL: f64 = 0.97;

/// Number of replays from which p10 and p90 are reported; with fewer they are close to the
/// extremes.
const TAILS: usize = 10;

/// Statistics of one case's replays, per call.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// The median.
    pub median: Seconds,
    /// The fastest.
    pub min: Seconds,
    /// Lower and upper quartile.
    pub quartiles: (Seconds, Seconds),
    /// 10th and 90th percentile, from ten replays on.
    pub tails: Option<(Seconds, Seconds)>,
    /// The 95 % confidence interval of the median; none of too few replays.
    pub interval: Option<(Seconds, Seconds)>,
    /// Replays taken.
    pub replays: usize,
    /// Reason for the stop.
    pub stop: Stop,
}

impl Summary {
    /// Half the width of the interval over the median.
    pub fn half_width(&self) -> Option<f64> {
        self.interval.map(|(low, high)| (high - low) / self.median / 2.0)
    }
}

/// State of the rule.
#[derive(Clone, Debug)]
pub struct Stopping {
    limits: Limits,
    /// Times per call, ascending.
    sorted: Vec<Seconds>,
    spent: Seconds,
    good_looks: usize,
}

impl Stopping {
    /// A rule without replays.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            sorted: Vec::new(),
            spent: Seconds::ZERO,
            good_looks: 0,
        }
    }

    /// Adds the time of one replay of a chain of `calls`; returns the reason to stop, if any.
    pub fn feed(&mut self, elapsed: Seconds, calls: u32) -> Option<Stop> {
        let call = elapsed / f64::from(calls.max(1));
        let place = self.sorted.partition_point(|&time| time < call);
        self.sorted.insert(place, call);
        self.spent += elapsed;
        let replays = self.sorted.len();
        let median = quantile(&self.sorted, 0.5);
        if median > LONG {
            return (replays >= LONG_REPLAYS).then_some(Stop::Long);
        }
        let goal = match median < SHORT {
            true => SHORT_PRECISION,
            false => PRECISION,
        };
        // While there are too few for an interval, the extremes replace it: that look only counts
        // with the next.
        let extremes = (self.sorted[0], self.sorted[replays - 1]);
        let (low, high) = interval(&self.sorted).unwrap_or(extremes);
        let narrow = (high - low) / median / 2.0 <= goal;
        self.good_looks = if narrow { self.good_looks + 1 } else { 0 };
        let fewest = match median > MEDIUM {
            true => self.limits.fewest,
            false => FEWEST,
        };
        if replays < fewest {
            None
        } else if self.good_looks >= LOOKS {
            // Fewer than seven replays claim no interval.
            Some(match replays < FEWEST {
                true => Stop::Long,
                false => Stop::Precise,
            })
        } else if replays >= MOST {
            Some(Stop::Replays)
        } else {
            (self.spent >= TIME).then_some(Stop::Time)
        }
    }

    /// Statistics so far; none without replays.
    pub fn summary(&self, stop: Stop) -> Option<Summary> {
        let times = &self.sorted;
        let min = *times.first()?;
        Some(Summary {
            median: quantile(times, 0.5),
            min,
            quartiles: (quantile(times, 0.25), quantile(times, 0.75)),
            tails: (times.len() >= TAILS).then(|| (quantile(times, 0.1), quantile(times, 0.9))),
            interval: interval(times).filter(|_| stop != Stop::Long),
            replays: times.len(),
            stop,
        })
    }
}

/// Confidence interval of the median from order statistics; `None` if the extremes do not reach
/// the nominal coverage.
fn interval(sorted: &[Seconds]) -> Option<(Seconds, Seconds)> {
    let cut = outside(sorted.len())?;
    Some((sorted[cut], sorted[sorted.len() - 1 - cut]))
}

/// Number of times outside the interval at either end: the median lies beyond the `cut` + 1
/// outermost with the binomial probability of at most `cut` heads of `n` fair coins.
fn outside(n: usize) -> Option<usize> {
    let mut probability = 0.5f64.powi(i32::try_from(n).ok()?);
    let (mut below, mut found) = (0.0, None);
    for cut in 0..n / 2 {
        below += probability;
        if 1.0 - 2.0 * below < NOMINAL {
            break;
        }
        found = Some(cut);
        probability *= (n - cut) as f64 / (cut + 1) as f64;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Noise of one replay, and the true median after this many.
    type Model = (
        &'static str,
        fn(&mut Random, f64, f64, usize) -> f64,
        fn(f64, f64, usize) -> f64,
    );

    /// Two modes, the upper one with this weight, `4·spread` above the lower, each with half the
    /// spread.
    fn modes(random: &mut Random, spread: f64, upper: f64) -> f64 {
        let mode = if random.uniform() < upper { 4.0 * spread } else { 0.0 };
        1.0 + mode + 0.5 * spread * random.normal()
    }

    /// The median of that mixture by bisection of its distribution, from 20,000 sorted draws.
    fn median_of_modes(spread: f64, upper: f64) -> f64 {
        let mut random = Random::new(99, "median");
        let mut draws: Vec<f64> = (0..40_001).map(|_| modes(&mut random, 1.0, upper)).collect();
        draws.sort_by(f64::total_cmp);
        1.0 + (draws[20_000] - 1.0) * spread
    }

    /// Every model takes a spread, a random drift from -1 to 1, and the index of the replay.
    ///
    /// Truth under drift is the median of the line over the replays that were taken: what the
    /// summary describes is the time that these calls took, and what drifts between cases is for
    /// anchors to show.
    const MODELS: [Model; 6] = [
        (
            "normal",
            |random, spread, _, _| 1.0 + spread * random.normal(),
            |_, _, _| 1.0,
        ),
        (
            "skewed",
            |random, spread, _, _| (1.5 * spread * random.normal()).exp(),
            |_, _, _| 1.0,
        ),
        (
            "bimodal 70:30",
            |random, spread, _, _| modes(random, spread, 0.3),
            |spread, _, _| median_of_modes(spread, 0.3),
        ),
        (
            "bimodal 58:42",
            |random, spread, _, _| modes(random, spread, 0.42),
            |spread, _, _| median_of_modes(spread, 0.42),
        ),
        // Halfway between equal modes, where no value is likelier to be the median than its
        // neighbours.
        (
            "bimodal 50:50",
            |random, spread, _, _| modes(random, spread, 0.5),
            |spread, _, _| 1.0 + 2.0 * spread,
        ),
        (
            "drifting",
            |random, spread, drift, index| {
                1.0 + 2.0 * spread * drift * index as f64 / 25.0 + 0.5 * spread * random.normal()
            },
            |spread, drift, replays| 1.0 + 2.0 * spread * drift * (replays as f64 - 1.0) / 50.0,
        ),
    ];

    fn run(mut time: impl FnMut(usize) -> f64, calls: u32) -> Summary {
        let mut rule = Stopping::new(Limits::default());
        for index in 0.. {
            let elapsed = Seconds::from_secs(time(index)) * f64::from(calls);
            if let Some(stop) = rule.feed(elapsed, calls) {
                return rule.summary(stop).unwrap();
            }
        }
        unreachable!("the rule stops at 25 replays")
    }

    #[test]
    fn intervals_cover_the_true_median_in_every_noise_model() {
        // One call of 40 us in chains of 25: neither the shorter goal nor the cap on time
        // interferes.
        const CALL: f64 = 40e-6;
        for (name, noise, truth) in MODELS {
            for spread in [0.0005, 0.001, 0.002, 0.003, 0.004, 0.006, 0.01, 0.02, 0.05] {
                let mut random = Random::new(5, name);
                let fixed = truth(spread, 0.0, 0);
                let (mut covered, mut replays) = (0, 0);
                const SHAPES: usize = 3000;
                for _ in 0..SHAPES {
                    let drift = 2.0 * random.uniform() - 1.0;
                    let seen = run(|index| CALL * noise(&mut random, spread, drift, index), 25);
                    let truth = match name {
                        "drifting" => truth(spread, drift, seen.replays),
                        _ => fixed,
                    };
                    let (low, high) = seen.interval.unwrap();
                    let truth = Seconds::from_secs(CALL * truth);
                    covered += usize::from(low <= truth && truth <= high);
                    replays += seen.replays;
                }
                let share = covered as f64 / SHAPES as f64;
                let mean = replays as f64 / SHAPES as f64;
                // 3000 shapes at 95 % scatter by 0.4 %.
                assert!(share >= 0.945, "{name} {spread}: {share} covered, {mean:.1} replays");
            }
        }
    }

    #[test]
    fn quiet_calls_stop_early_and_noisy_ones_at_a_cap() {
        let steady = run(|_| 100e-6, 10);
        assert_eq!((steady.replays, steady.stop), (7, Stop::Precise));
        assert_eq!(steady.half_width(), Some(0.0));
        assert_eq!(steady.tails, None);

        let mut random = Random::new(3, "noise");
        let noisy = run(|_| 100e-6 * (1.0 + 0.05 * random.normal().abs()), 2);
        assert_eq!((noisy.replays, noisy.stop), (25, Stop::Replays));
        assert!(noisy.half_width().unwrap() > 0.005 && noisy.tails.is_some());
        assert!(noisy.min < noisy.quartiles.0 && noisy.quartiles.0 < noisy.median);

        // 4 ms a call: seven replays are over 25 ms, and the seven still come first.
        let mut random = Random::new(3, "noise");
        let slow = run(|_| 4e-3 * (1.0 + 0.05 * random.normal().abs()), 1);
        assert_eq!((slow.replays, slow.stop), (7, Stop::Time));

        let long = run(|index| 6e-3 + 1e-6 * index as f64, 1);
        assert_eq!((long.replays, long.stop), (3, Stop::Long));
        assert_eq!((long.interval, long.half_width()), (None, None));
        assert!((long.median.secs() - 6.001e-3).abs() < 1e-12);
    }

    #[test]
    fn calls_over_a_millisecond_may_have_fewer_replays_without_an_interval() {
        let limits = Limits {
            fewest: 5,
            ..Limits::default()
        };
        let run = |call: f64, spread: f64| {
            let mut rule = Stopping::new(limits.clone());
            let mut calls = (0..).map(|index| call * (1.0 + spread * f64::from(index % 2)));
            loop {
                let call = Seconds::from_secs(calls.next().unwrap());
                if let Some(stop) = rule.feed(call, 1) {
                    return rule.summary(stop).unwrap();
                }
            }
        };
        let steady = run(2e-3, 0.001);
        assert_eq!((steady.replays, steady.stop), (5, Stop::Long));
        assert_eq!(steady.half_width(), None);
        // Without agreement among the first five, and for shorter calls, the usual number is taken.
        assert_eq!(run(2e-3, 0.02).stop, Stop::Time);
        assert!(run(2e-3, 0.02).replays > 7);
        assert_eq!(run(0.9e-3, 0.001).replays, 7);
    }

    #[test]
    fn short_calls_may_be_half_as_precise() {
        let spread = |size: f64| move |index: usize| size * (1.0 + 0.008 * (index % 2) as f64 * 2.0);
        // Half-width 0.8 %: enough below 20 us only.
        assert_eq!(run(spread(10e-6), 64).stop, Stop::Precise);
        assert_eq!(run(spread(40e-6), 25).stop, Stop::Replays);
    }

    #[test]
    fn ranks_are_those_of_the_binomial_distribution() {
        // P(at most 0 heads of 6) = 1/64: the extremes of six cover 96.9 %, those of seven 98.4 %.
        assert_eq!(outside(6), None);
        assert_eq!(outside(7), Some(0));
        // Of 25: 2 · P(at most 6 heads) = 1.46 %, of 7 4.3 %.
        assert_eq!(outside(25), Some(6));
    }
}
