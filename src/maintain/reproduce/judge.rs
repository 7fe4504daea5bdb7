//! How a finding is judged: criteria with their limits, and the verdict that follows from them.

use shapewise::stats;
use shapewise::units::significant;

/// Least correlation between predicted and measured rates along a sweep: below, dips and steps are
/// not where they were measured even where the level is right.
pub const CORRELATION: f64 = 0.9;

/// Greatest median error of rates. The logs keep the slowest or the mean of 200 calls, which a
/// rerun with another statistic moves by 10 to 15 % for small GEMMs (TransformerSizing, slowest
/// against fastest of one run).
pub const RATE_ERROR: f64 = 0.10;

/// Greatest error of a ratio of two rates: both ends carry the noise of [`RATE_ERROR`], which
/// partly cancels.
pub const RATIO_ERROR: f64 = 0.15;

/// Greatest difference of two shares of a layer's time; the durations behind them are rounded to
/// 0.1 ms of 6 to 25.
pub const SHARE_ERROR: f64 = 0.06;

shapewise::named_enum! {
    /// The evidence of a criterion.
    Basis {
        /// Measurements that the shipped nets never saw.
        KeptOut = "kept_out",
        /// Measurements that the shipped nets were trained with: a test of the fit, not of
        /// prediction.
        Trained = "trained",
        /// Measurements that the model the user named may have been trained with.
        Unknown = "unknown",
        /// The direction of a claim whose numbers were not seen.
        Claim = "claim",
    }
}

impl Basis {
    /// The sentence that is printed.
    pub const fn text(self) -> &'static str {
        match self {
            Self::KeptOut => "measured, never trained on",
            Self::Trained => "measured, part of training",
            Self::Unknown => "measured; the named model may know it",
            Self::Claim => "nothing measured; direction only",
        }
    }

    /// Whether it has numbers.
    pub const fn is_measured(self) -> bool {
        !matches!(self, Self::Claim)
    }
}

shapewise::named_enum! {
    /// What a number counts.
    Unit {
        /// 10^12 floating-point operations per second.
        TflopsPerS = "tflops_per_s",
        /// Milliseconds.
        Millis = "ms",
        /// Tokens per second.
        TokensPerS = "tokens_per_s",
        /// A fraction of a whole.
        Share = "share",
        /// One number over another.
        Ratio = "ratio",
        /// How many.
        Count = "count",
        /// 1 for yes, 0 for no.
        Truth = "truth",
        /// A plain number, such as a correlation.
        Plain = "plain",
    }
}

impl Unit {
    /// The name on an axis.
    pub const fn label(self) -> &'static str {
        match self {
            Self::TflopsPerS => "TFLOP/s",
            Self::Millis => "ms",
            Self::TokensPerS => "tokens/s",
            Self::Share => "%",
            Self::Ratio | Self::Count | Self::Truth | Self::Plain => "",
        }
    }

    /// The number with its unit, for people.
    pub fn text(self, value: f64) -> String {
        match self {
            Self::Share => format!("{:.1} %", value * 100.0),
            Self::Ratio => format!("{value:.2}x"),
            Self::Count => format!("{value}"),
            Self::Truth => (if value > 0.0 { "yes" } else { "no" }).to_owned(),
            Self::Plain => format!("{value:.2}"),
            Self::TokensPerS => format!("{value:.0} {}", self.label()),
            Self::TflopsPerS | Self::Millis => format!("{} {}", significant(value), self.label()),
        }
    }
}

/// What a value must keep to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// Not less.
    AtLeast(f64),
    /// Not more.
    AtMost(f64),
}

/// One number that decides a verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct Criterion {
    /// What the number is.
    pub statement: String,
    /// Its evidence.
    pub basis: Basis,
    /// The number.
    pub value: f64,
    /// What it counts.
    pub unit: Unit,
    /// What it must keep to.
    pub limit: Limit,
}

impl Criterion {
    /// A number with what it must keep to.
    pub fn new(statement: impl Into<String>, basis: Basis, value: f64, unit: Unit, limit: Limit) -> Self {
        Self {
            statement: statement.into(),
            basis,
            value,
            unit,
            limit,
        }
    }

    /// A predicted ratio that must be near the measured one.
    pub fn near(statement: impl Into<String>, basis: Basis, predicted: f64, measured: f64) -> Self {
        let statement = format!(
            "{}: {predicted:.2} predicted, {measured:.2} measured; error",
            statement.into()
        );
        let error = (predicted / measured - 1.0).abs();
        Self::new(statement, basis, error, Unit::Share, Limit::AtMost(RATIO_ERROR))
    }

    /// Whether it holds; a number that does not exist never does.
    pub fn is_met(&self) -> bool {
        match self.limit {
            Limit::AtLeast(least) => self.value >= least,
            Limit::AtMost(most) => self.value <= most,
        }
    }
}

shapewise::named_enum! {
    /// How far a finding comes out of the predictor.
    Outcome {
        /// Every criterion is met.
        Reproduced = "reproduced",
        /// Some are.
        Partly = "partly",
        /// None is.
        NotReproduced = "not_reproduced",
        /// There is nothing to judge.
        Open = "open",
    }
}

/// What the criteria of a finding add up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// How many criteria are met.
    pub outcome: Outcome,
    /// Whether any of them has measurements as evidence.
    pub measured: bool,
    /// Criteria that are met.
    pub met: usize,
    /// All criteria.
    pub of: usize,
}

impl Verdict {
    /// The verdict on these criteria.
    pub fn of(criteria: &[Criterion]) -> Self {
        let met = criteria.iter().filter(|each| each.is_met()).count();
        let of = criteria.len();
        let outcome = match met {
            _ if of == 0 => Outcome::Open,
            0 => Outcome::NotReproduced,
            met if met == of => Outcome::Reproduced,
            _ => Outcome::Partly,
        };
        Self {
            outcome,
            measured: criteria.iter().any(|each| each.basis.is_measured()),
            met,
            of,
        }
    }

    /// The verdict in words.
    pub const fn text(&self) -> &'static str {
        match (self.outcome, self.measured) {
            (Outcome::Reproduced, true) => "reproduced",
            (Outcome::Partly, true) => "partly",
            (Outcome::NotReproduced, true) => "not reproduced",
            (Outcome::Reproduced, false) => "direction only: agrees",
            (Outcome::Partly, false) => "direction only: agrees in part",
            (Outcome::NotReproduced, false) => "direction only: disagrees",
            (Outcome::Open, _) => "nothing to compare with",
        }
    }
}

/// Pearson's correlation of pairs; not a number where one side does not vary.
pub fn correlation(pairs: &[(f64, f64)]) -> f64 {
    stats::correlation(pairs).unwrap_or(f64::NAN)
}

/// The mean; not a number of nothing.
pub fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for value in values {
        sum += value;
        count += 1.0;
    }
    sum / count
}

/// The median error of measured and predicted values, relative to the measured ones; not a number
/// of nothing.
pub fn median_error(pairs: &[(f64, f64)]) -> f64 {
    let errors = pairs
        .iter()
        .map(|(measured, predicted)| (predicted / measured - 1.0).abs());
    median(errors.collect())
}

/// The median; not a number of nothing.
pub fn median(values: Vec<f64>) -> f64 {
    stats::median(values).unwrap_or(f64::NAN)
}

/// The share of neighbours in the order of the measured values, ties of the prediction
/// counted as wrong.
pub fn ordered(pairs: &[(f64, f64)]) -> f64 {
    let mut sorted = pairs.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let rising = sorted.windows(2).filter(|pair| pair[0].1 < pair[1].1);
    rising.count() as f64 / (sorted.len() - 1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn criterion(basis: Basis, value: f64) -> Criterion {
        Criterion::new("a value", basis, value, Unit::Plain, Limit::AtLeast(1.0))
    }

    #[test]
    fn a_verdict_follows_from_its_criteria_alone() {
        let verdict = |values: &[f64], basis| {
            let criteria: Vec<_> = values.iter().map(|value| criterion(basis, *value)).collect();
            Verdict::of(&criteria)
        };
        assert_eq!(verdict(&[1.0, 2.0], Basis::KeptOut).outcome, Outcome::Reproduced);
        assert_eq!(verdict(&[0.9, 2.0], Basis::KeptOut).outcome, Outcome::Partly);
        let none = verdict(&[0.9, 0.0], Basis::Trained);
        assert_eq!((none.outcome, none.text()), (Outcome::NotReproduced, "not reproduced"));
        assert_eq!(verdict(&[], Basis::Claim).text(), "nothing to compare with");
        assert_eq!(verdict(&[2.0], Basis::Claim).text(), "direction only: agrees");
        assert_eq!(verdict(&[0.0], Basis::Claim).text(), "direction only: disagrees");
        // One measurement among directions makes it a measured verdict.
        let mixed = [criterion(Basis::Claim, 2.0), criterion(Basis::KeptOut, 2.0)];
        assert_eq!(Verdict::of(&mixed).text(), "reproduced");
    }

    #[test]
    fn a_number_that_does_not_exist_meets_nothing() {
        assert!(!criterion(Basis::KeptOut, f64::NAN).is_met());
        assert!(!Criterion::near("a ratio", Basis::KeptOut, f64::NAN, 1.0).is_met());
        let none = Criterion::new("e", Basis::KeptOut, median_error(&[]), Unit::Share, Limit::AtMost(1.0));
        assert!(!none.is_met());
        let flat = correlation(&[(1.0, 1.0), (2.0, 1.0)]);
        assert!(flat.is_nan());
    }

    #[test]
    fn ratios_are_judged_by_their_distance() {
        assert!(Criterion::near("a ratio", Basis::KeptOut, 1.39 * 1.14, 1.39).is_met());
        assert!(!Criterion::near("a ratio", Basis::KeptOut, 1.39 * 1.16, 1.39).is_met());
        assert!(!Criterion::near("a ratio", Basis::KeptOut, 1.39 * 0.84, 1.39).is_met());
    }

    #[test]
    fn statistics_are_those_of_the_books() {
        let rising = [(1.0, 2.0), (2.0, 4.0), (3.0, 6.0)];
        assert!((correlation(&rising) - 1.0).abs() < 1e-12);
        let falling = rising.map(|(x, y)| (x, -y));
        assert!((correlation(&falling) + 1.0).abs() < 1e-12);
        let pairs = [(1.0, 1.1), (1.0, 0.7), (1.0, 1.2)];
        assert!((median_error(&pairs) - 0.2).abs() < 1e-12);
        assert!((median_error(&pairs[..2]) - 0.2).abs() < 1e-12);
        assert_eq!(ordered(&rising), 1.0);
        assert_eq!(ordered(&falling), 0.0);
        assert_eq!(ordered(&[(1.0, 1.0), (2.0, 3.0), (3.0, 2.0)]), 0.5);
    }
}
