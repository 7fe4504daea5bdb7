//! Statistics of series: what a finding shows as a number, and what decides its verdict.

use crate::reproduce::drops::Drop;
use crate::reproduce::judge::{
    Basis, CORRELATION, Criterion, Limit, RATE_ERROR, SHARE_ERROR, Unit, correlation, mean, median_error, ordered,
};
use crate::reproduce::series::{Point, Series, follows, is_measured, pairs};
use crate::reproduce::{Comparison, Evaluation, drops};
use serde::Deserialize;
use shapewise::error::{Error, Result};

/// A statistic with the texts under which it is shown as a comparison and judged as a criterion.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatisticSpec {
    /// Under this name texts and quotients know it.
    pub name: Option<String>,
    value: Statistic,
    /// The comparison, with sizes and statistics in braces.
    shown: Option<String>,
    /// The criterion.
    judged: Option<String>,
    /// Both, where they read alike.
    shown_and_judged: Option<String>,
    /// A measured value that is shown and not judged.
    quoted: Option<f64>,
    /// The least value, where it is not the usual one.
    at_least: Option<f64>,
}

/// How a number follows from series.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Statistic {
    /// One value over another, the mean or the least of several; near the measured ratio where both
    /// ends were measured, else at least 1.
    Ratio {
        of: String,
        over: Option<String>,
        #[serde(default = "only_point")]
        at: Vec<(f64, f64)>,
        #[serde(default)]
        least: bool,
    },
    /// A named statistic over another; at least 1.
    Quotient {
        of: String,
        over: String,
    },
    /// The mean of predicted over measured values.
    Level {
        of: String,
    },
    /// The median error of predicted values.
    MedianError {
        of: Vec<String>,
        #[serde(default)]
        from: u64,
        multiple_of: Option<u64>,
    },
    /// The greatest difference of a predicted and a measured share.
    GreatestDifference {
        of: Vec<String>,
    },
    /// Pearson's correlation of predicted and measured values.
    Correlation {
        of: String,
    },
    /// The correlation of predicted values with the size.
    Linearity {
        of: String,
    },
    /// The share of neighbours by measured value that are predicted in this order.
    Ordered {
        of: String,
    },
    /// The share of steps at which the predicted value rises, or falls.
    Rising {
        of: String,
    },
    Falling {
        of: String,
    },
    /// Whether it falls at every step.
    Decreasing {
        of: String,
    },
    /// Whether it falls through a level between two places.
    Crossing {
        of: String,
        level: f64,
        between: (f64, f64),
    },
    /// Whether there is a point at a place.
    Exists {
        of: String,
        at: f64,
        exists: bool,
    },
    /// Every point of the series, shown.
    Points {
        of: String,
    },
    /// Correlation and median error over the user's timings, where there are enough.
    Rows {
        of: String,
        left_out: Option<LeftOut>,
        /// The comparison that lists disturbed measurements, which are not judged.
        disturbed: Option<String>,
    },
    /// Where the rate falls as a further wave begins.
    Drops {
        of: String,
        /// Measured drops that a wave explains.
        explained: Vec<Drop>,
        /// All measured drops above 3 %.
        measured: Vec<Drop>,
    },
}

/// A part of a sweep that is shown and not judged.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LeftOut {
    from: f64,
    to: f64,
    shown: String,
    judged: String,
}

fn only_point() -> Vec<(f64, f64)> {
    vec![(1.0, 1.0)]
}

/// A statistic as a number.
struct Number {
    value: f64,
    measured: Option<f64>,
    unit: Unit,
    limit: Limit,
}

impl Number {
    fn new(value: f64, unit: Unit, limit: Limit) -> Self {
        Self {
            value,
            measured: None,
            unit,
            limit,
        }
    }

    fn truth(holds: bool) -> Self {
        let value = f64::from(u8::from(holds));
        Self::new(value, Unit::Truth, Limit::AtLeast(1.0))
    }

    fn error(pairs: &[(f64, f64)]) -> Self {
        Self::new(median_error(pairs), Unit::Share, Limit::AtMost(RATE_ERROR))
    }

    /// The share of steps of a series that pass a test.
    fn steps(series: &Series, passes: impl Fn(f64, f64) -> bool) -> Self {
        let (mut passed, mut all) = (0, 0);
        for (before, after) in series.steps() {
            all += 1;
            passed += usize::from(passes(before, after));
        }
        let share = passed as f64 / all as f64;
        Self::new(share, Unit::Share, Limit::AtLeast(1.0))
    }
}

impl Statistic {
    /// The series that it needs.
    fn series(&self) -> Vec<&str> {
        match self {
            Self::Ratio { of, over, .. } => [Some(of), over.as_ref()]
                .into_iter()
                .flatten()
                .map(String::as_str)
                .collect(),
            Self::MedianError { of, .. } | Self::GreatestDifference { of } => of.iter().map(String::as_str).collect(),
            Self::Quotient { .. } => Vec::new(),
            Self::Level { of }
            | Self::Correlation { of }
            | Self::Linearity { of }
            | Self::Ordered { of }
            | Self::Rising { of }
            | Self::Falling { of }
            | Self::Decreasing { of }
            | Self::Crossing { of, .. }
            | Self::Exists { of, .. }
            | Self::Points { of }
            | Self::Rows { of, .. }
            | Self::Drops { of, .. } => vec![of],
        }
    }
}

impl StatisticSpec {
    /// Refuses what no finding can show; `known` refuses series, `named` are the statistics before.
    pub fn check(&self, place: &str, known: &impl Fn(&str, &str) -> Result<()>, named: &[&str]) -> Result<()> {
        for series in self.value.series() {
            known("statistic.value.of", series)?;
        }
        if let Statistic::Quotient { of, over } = &self.value {
            for name in [of, over] {
                super::spec::among(place, "statistic.value.quotient", name, named.iter().copied())?;
            }
        }
        let texts = (&self.shown, &self.judged, &self.shown_and_judged);
        let is_whole = matches!(self.value, Statistic::Drops { .. });
        let allowed = match (&self.value, texts) {
            (_, (Some(_), _, Some(_)) | (_, Some(_), Some(_))) => "`shown_and_judged` or the two others",
            (_, (None, None, None)) if self.name.is_none() && !is_whole => {
                "`name`, `shown`, `judged` or `shown_and_judged`"
            }
            (Statistic::Points { .. }, (None, ..) | (_, Some(_), _)) => "`shown` alone for points",
            (Statistic::Rows { .. }, (_, None, _) | (Some(_), ..)) => "`judged` alone for rows",
            _ => return Ok(()),
        };
        let value = format!("{:?}", self.value);
        Err(Error::field(place, "statistic", value, allowed))
    }

    /// Adds comparisons and criteria to a finding.
    pub fn evaluate(&self, evaluation: &mut Evaluation) -> Result<()> {
        let series = self.value.series();
        let basis = series.first().map(|name| evaluation.series(name).basis);
        let basis = basis.unwrap_or(Basis::Claim);
        let Some(mut number) = self.value.number(evaluation)? else {
            return self.several(evaluation);
        };
        if let Some(least) = self.at_least {
            number.limit = Limit::AtLeast(least);
        }
        if let Some(name) = &self.name {
            evaluation.named.insert(name.clone(), number.value);
        }
        if let Some(text) = self.shown.as_ref().or(self.shown_and_judged.as_ref()) {
            let what = evaluation.text(text)?;
            let measured = self.quoted.or(number.measured);
            let comparison = Comparison::new(what, measured, number.value, number.unit);
            evaluation.finding.comparisons.push(comparison);
        }
        if let Some(text) = self.judged.as_ref().or(self.shown_and_judged.as_ref()) {
            let text = evaluation.text(text)?;
            let criterion = match number.measured {
                Some(measured) => Criterion::near(text, basis, number.value, measured),
                None => Criterion::new(text, basis, number.value, number.unit, number.limit),
            };
            evaluation.finding.criteria.push(criterion);
        }
        Ok(())
    }

    /// Adds what is no single number.
    fn several(&self, evaluation: &mut Evaluation) -> Result<()> {
        match &self.value {
            Statistic::Points { of } => self.points(evaluation, of),
            Statistic::Rows {
                of,
                left_out,
                disturbed,
            } => {
                self.rows(evaluation, of, left_out.as_ref(), disturbed.as_deref());
                Ok(())
            }
            Statistic::Drops {
                of,
                explained,
                measured,
            } => {
                drops::evaluate(evaluation, of, explained, measured);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn points(&self, evaluation: &mut Evaluation, of: &str) -> Result<()> {
        let series = evaluation.series(of);
        let mut comparisons = Vec::new();
        for ((x, predicted), sizes) in series.predicted.iter().zip(&series.sizes) {
            let what = evaluation.label(self.shown.as_deref().unwrap_or_default(), sizes)?;
            let measured = series.measured_at(*x);
            comparisons.push(Comparison::new(what, measured, *predicted, series.unit));
        }
        evaluation.finding.comparisons.extend(comparisons);
        Ok(())
    }

    fn rows(&self, evaluation: &mut Evaluation, of: &str, left_out: Option<&LeftOut>, disturbed: Option<&str>) {
        let series = evaluation.series(of);
        let mut judged = series.judged.clone();
        let mut what = self.judged.clone().unwrap_or_default();
        let mut comparisons = Vec::new();
        if let Some(left_out) = left_out {
            let range = left_out.from..=left_out.to;
            let points = Series::take_out(&mut judged, |point| range.contains(&point.x));
            if !points.is_empty() {
                let level = level(&points);
                comparisons.push(Comparison::new(&left_out.shown, None, level, Unit::Ratio));
                what.push_str(&left_out.judged);
            }
        }
        if let Some(shown) = disturbed {
            let with_them = follows(&judged);
            let is_out = |point: &Point| series.disturbed.contains(&(point.x, point.measured));
            let taken = Series::take_out(&mut judged, is_out);
            if !taken.is_empty() {
                let places: Vec<_> = taken.iter().map(|point| point.x.to_string()).collect();
                let places = format!("{} = {}", series.along, places.join(", "));
                comparisons.push(Comparison::new(
                    shown.replace("{places}", &places),
                    None,
                    with_them,
                    Unit::Plain,
                ));
                what.push_str(&format!(" (without {places}: disturbed measurements)"));
            }
        }
        evaluation.finding.comparisons.extend(comparisons);
        evaluation.judge_rows(of, &what, &judged);
    }
}

fn level(points: &[Point]) -> f64 {
    mean(points.iter().map(|point| point.predicted / point.measured))
}

impl Statistic {
    /// Its number; `None` if it is several.
    fn number(&self, evaluation: &Evaluation) -> Result<Option<Number>> {
        let series = |name: &String| evaluation.series(name);
        let number = match self {
            Self::Ratio { of, over, at, least } => {
                let (of, over) = (series(of), series(over.as_ref().unwrap_or(of)));
                let total = |ratios: Vec<f64>| match least {
                    true => ratios.into_iter().fold(f64::INFINITY, f64::min),
                    false => mean(ratios.into_iter()),
                };
                let place = &evaluation.spec.place;
                let predicted = at
                    .iter()
                    .map(|(a, b)| Ok(of.at(place, *a)? / over.at(place, *b)?))
                    .collect::<Result<_>>()?;
                let measured: Option<_> = at
                    .iter()
                    .map(|(a, b)| Some(of.measured_at(*a)? / over.measured_at(*b)?))
                    .collect();
                Number {
                    measured: measured.map(total),
                    ..Number::new(total(predicted), Unit::Ratio, Limit::AtLeast(1.0))
                }
            }
            Self::Quotient { of, over } => {
                let value = evaluation.named[of] / evaluation.named[over];
                Number::new(value, Unit::Ratio, Limit::AtLeast(1.0))
            }
            Self::Level { of } => Number::new(level(&series(of).judged), Unit::Ratio, Limit::AtLeast(1.0)),
            Self::MedianError { of, from, multiple_of } => {
                let points = of.iter().flat_map(|name| &series(name).judged);
                let counts = |point: &&Point| {
                    let size = point.x as u64;
                    size >= *from && multiple_of.is_none_or(|factor| size.is_multiple_of(factor))
                };
                let points: Vec<_> = points.filter(counts).copied().collect();
                Number::error(&pairs(&points))
            }
            Self::GreatestDifference { of } => {
                let points = of.iter().flat_map(|name| &series(name).judged);
                let differences = points.map(|point| (point.measured - point.predicted).abs());
                let greatest = differences.fold(0.0, f64::max);
                Number::new(greatest, Unit::Share, Limit::AtMost(SHARE_ERROR))
            }
            Self::Correlation { of } => {
                let value = follows(&series(of).judged);
                Number::new(value, Unit::Plain, Limit::AtLeast(CORRELATION))
            }
            Self::Linearity { of } => {
                let value = correlation(&series(of).predicted);
                Number::new(value, Unit::Plain, Limit::AtLeast(CORRELATION))
            }
            Self::Ordered { of } => {
                let share = ordered(&pairs(&series(of).judged));
                Number::new(share, Unit::Share, Limit::AtLeast(1.0))
            }
            Self::Rising { of } => Number::steps(series(of), |before, after| after > before),
            Self::Falling { of } => Number::steps(series(of), |before, after| after < before),
            Self::Decreasing { of } => Number::truth(series(of).steps().all(|(before, after)| before > after)),
            Self::Crossing { of, level, between } => {
                let at = |x| series(of).at(&evaluation.spec.place, x);
                Number::truth(at(between.0)? > *level && at(between.1)? < *level)
            }
            Self::Exists { of, at, exists } => {
                Number::truth(series(of).predicted.iter().any(|point| point.0 == *at) == *exists)
            }
            Self::Points { .. } | Self::Rows { .. } | Self::Drops { .. } => return Ok(None),
        };
        Ok(Some(number))
    }
}

impl Evaluation<'_> {
    /// Correlation and median error over judged rows, or the note that they are missing.
    pub fn judge_rows(&mut self, of: &str, what: &str, judged: &[Point]) {
        let series = self.series(of);
        if !is_measured(judged) {
            self.finding.missing.clone_from(&self.spec.table);
            return;
        }
        let (gpu, basis) = (&series.gpu, series.basis);
        let count = judged.len();
        let criteria = [
            Criterion::new(
                format!("{what}, {gpu}: correlation over {count} points"),
                basis,
                follows(judged),
                Unit::Plain,
                Limit::AtLeast(CORRELATION),
            ),
            Criterion::new(
                format!("{what}, {gpu}: median error of the rate"),
                basis,
                median_error(&pairs(judged)),
                Unit::Share,
                Limit::AtMost(RATE_ERROR),
            ),
        ];
        self.finding.criteria.extend(criteria);
    }
}
