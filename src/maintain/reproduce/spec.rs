//! The findings as data: `data/findings/*.toml`, embedded at build time and read strictly.

use crate::reproduce::Axis;
use crate::reproduce::formula::Sizes;
use crate::reproduce::headline::HeadlineSpec;
use crate::reproduce::series::power_of_two;
use crate::reproduce::statistic::StatisticSpec;
use crate::reproduce::subject::Subject;
use include_dir::{Dir, include_dir};
use serde::Deserialize;
use shapewise::error::{Error, Result};
use shapewise::gpu::Gpu;
use shapewise::rules::RULES;
use shapewise::toml_text;
use std::collections::{BTreeMap, HashSet};

static FILES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../data/findings");

/// The GPU that the caller chose, where a GPU's name is expected.
pub const TARGET: &str = "target";

/// One file: a claim of the paper, what is predicted for it and what decides.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FindingSpec {
    /// The file, for messages.
    #[serde(skip)]
    pub place: String,
    pub id: String,
    pub title: String,
    pub claim: String,
    pub source: String,
    pub rules: Vec<String>,
    #[serde(default)]
    pub notes: Vec<String>,
    /// The public table whose rows are laid beside the series with `rows`.
    pub table: Option<String>,
    #[serde(default)]
    pub series: Vec<SeriesSpec>,
    #[serde(default, rename = "statistic")]
    pub statistics: Vec<StatisticSpec>,
    #[serde(default, rename = "panel")]
    pub panels: Vec<PanelSpec>,
    pub headline: Option<HeadlineSpec>,
}

/// Predicted values along a size, beside measured ones.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeriesSpec {
    pub name: String,
    /// A name of `data/gpus`, or [`TARGET`].
    pub gpu: String,
    /// The size on the horizontal axis; may be left out where one size varies, or none.
    pub along: Option<String>,
    /// The values of each size that varies; several vary together, value by value.
    #[serde(default)]
    pub sizes: BTreeMap<String, Values>,
    /// Sizes that a mean is taken over at each point.
    #[serde(default)]
    pub mean_over: BTreeMap<String, Values>,
    /// Whether the points are means over all values that the same power of two, at most 64,
    /// divides.
    #[serde(default)]
    pub by_power_of_two: bool,
    pub predict: Subject,
    /// A size that values are multiplied with, and a number that they are divided by.
    pub scale: Option<(String, f64)>,
    /// Whether values are divided by the first one.
    #[serde(default)]
    pub over_first: bool,
    /// Whether points that the ranks do not divide are left out.
    #[serde(default)]
    pub skip_indivisible: bool,
    /// Horizontal values with what was measured there.
    #[serde(default)]
    pub measured: Vec<(f64, f64)>,
    /// Whether the user's timings are what was measured.
    #[serde(default)]
    pub rows: bool,
    #[serde(default)]
    pub basis: Evidence,
}

/// What measured values are to the nets that predict them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// No net was fitted to them.
    KeptOut,
    /// Points of the tables that nets were fitted to.
    Fitted,
    /// Means over such tables.
    Quoted,
    /// Nothing was measured.
    #[default]
    Claim,
}

/// Values of a size.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a list of sizes, or a table of `from`, `to` and `step`"
)]
pub enum Values {
    /// Each on its own.
    List(Vec<u64>),
    /// At equal distances, ends included.
    Range(Range),
}

/// Values at equal distances.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    pub from: u64,
    pub to: u64,
    pub step: std::num::NonZeroUsize,
}

impl Values {
    pub fn list(&self) -> Vec<u64> {
        match self {
            Self::List(list) => list.clone(),
            Self::Range(range) => (range.from..=range.to).step_by(range.step.get()).collect(),
        }
    }
}

/// One plot.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PanelSpec {
    pub title: String,
    pub conditions: String,
    pub x: Axis,
    pub y: Axis,
    pub curves: Vec<CurveSpec>,
    pub marks: Option<MarksSpec>,
}

/// Horizontal positions that matter.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MarksSpec {
    pub name: String,
    pub at: Vec<u64>,
}

/// How a series is drawn.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum CurveSpec {
    /// Predictions joined, measurements as points, each under its name.
    Line {
        series: String,
        predicted: String,
        measured: Option<String>,
    },
    /// The same, apart for sizes that are multiples of 8, other even ones and odd ones.
    ByAlignment { series: String },
    /// Predictions as points with labels.
    Points {
        series: String,
        name: String,
        label: String,
    },
    /// Predicted against measured values, as points with labels.
    Parity {
        series: String,
        name: String,
        label: String,
    },
    /// A line to compare with.
    Fixed { name: String, points: Vec<(f64, f64)> },
}

impl CurveSpec {
    fn series(&self) -> Option<&str> {
        match self {
            Self::Line { series, .. }
            | Self::ByAlignment { series }
            | Self::Points { series, .. }
            | Self::Parity { series, .. } => Some(series),
            Self::Fixed { .. } => None,
        }
    }
}

impl FindingSpec {
    /// Every finding, in the order of the files' names, which is that of the paper's argument.
    pub fn all() -> Result<Vec<Self>> {
        let mut files: Vec<_> = FILES.files().collect();
        files.sort_by_key(|file| file.path());
        let specs = files.into_iter().map(|file| {
            let place = format!("data/findings/{}", file.path().display());
            let text = file
                .contents_utf8()
                .ok_or_else(|| Error::bad_input(format!("{place}: not UTF-8")))?;
            Self::parse(text, &place)
        });
        specs.collect()
    }

    /// Reads and checks one file; `place` names it in messages.
    pub fn parse(text: &str, place: &str) -> Result<Self> {
        let mut spec: Self = toml_text::parse(text, place)?;
        place.clone_into(&mut spec.place);
        spec.check()?;
        Ok(spec)
    }

    /// The GPUs that it is predicted for.
    pub fn gpus(&self) -> impl Iterator<Item = &str> {
        let headline = self.headline.iter().flat_map(|headline| &headline.gpus);
        let series = self.series.iter().map(|series| &series.gpu);
        series.chain(headline).map(String::as_str)
    }

    fn check(&self) -> Result<()> {
        let place = &self.place;
        for (field, text) in [
            ("id", &self.id),
            ("title", &self.title),
            ("claim", &self.claim),
            ("source", &self.source),
        ] {
            if text.trim().is_empty() {
                return Err(Error::field(place, field, "empty", "a text"));
            }
        }
        for rule in &self.rules {
            among(place, "rules", rule, RULES.iter().map(|rule| rule.id))?;
        }
        let mut names = HashSet::new();
        for series in &self.series {
            series.check(place)?;
            if !names.insert(series.name.as_str()) {
                let allowed = "each name once";
                return Err(Error::field(place, "series.name", &series.name, allowed));
            }
        }
        if self.table.is_some() != self.series.iter().any(|series| series.rows) {
            let value = self.table.as_deref().unwrap_or("absent");
            let allowed = "a file name where a series has `rows`, else absent";
            return Err(Error::field(place, "table", value, allowed));
        }
        let known = |field: &str, name: &str| {
            let names = self.series.iter().map(|series| series.name.as_str());
            among(place, field, name, names)
        };
        for curve in self.panels.iter().flat_map(|panel| &panel.curves) {
            curve
                .series()
                .map_or(Ok(()), |name| known("panel.curves.series", name))?;
        }
        let mut named = Vec::new();
        for statistic in &self.statistics {
            statistic.check(place, &known, &named)?;
            named.extend(statistic.name.as_deref());
        }
        Ok(())
    }
}

impl SeriesSpec {
    fn check(&self, place: &str) -> Result<()> {
        let of = |field: &str| format!("series {}: {field}", self.name);
        let refuse = |field: &str, value: &str, allowed| Err(Error::field(place, &of(field), value, allowed));
        if self.gpu != TARGET && Gpu::find(&self.gpu).is_err() {
            return refuse("gpu", &self.gpu, "`target` or a GPU of `data/gpus`");
        }
        if (self.rows || !self.measured.is_empty()) && self.basis == Evidence::Claim {
            let allowed = "kept_out, fitted or quoted where values were measured";
            return refuse("basis", "claim", allowed);
        }
        if self.rows && !self.measured.is_empty() {
            return refuse("measured", "present", "nothing beside `rows`");
        }
        let is_gemm = matches!(self.predict, Subject::Gemm(_));
        if !is_gemm && (self.rows || !self.mean_over.is_empty()) {
            let allowed = "`gemm` with `rows` or `mean_over`";
            return refuse("predict", "no GEMM", allowed);
        }
        let points = self.points(place)?;
        let is_point = |x: f64| match self.by_power_of_two {
            true => points.iter().any(|point| power_of_two(point.0 as u64) as f64 == x),
            false => points.iter().any(|point| point.0 == x),
        };
        if let Some((x, _)) = self.measured.iter().find(|(x, _)| !is_point(*x)) {
            return refuse("measured", &x.to_string(), "horizontal values of the series");
        }
        if let Some((size, _)) = &self.scale {
            among(place, &of("scale"), size, self.sizes.keys().map(|s| &**s))?;
        }
        let inner = zipped(&self.mean_over);
        if inner.is_none() {
            return refuse("mean_over", "uneven", "lists of one length");
        }
        for (_, sizes) in &points {
            for inner in inner.iter().flatten() {
                let sizes = sizes.clone().into_iter().chain(inner.clone()).collect();
                self.within(place, self.predict.check(&sizes))?;
            }
        }
        Ok(())
    }

    /// The result of a formula, its error with file and series.
    pub fn within<T>(&self, place: &str, result: std::result::Result<T, String>) -> Result<T> {
        result.map_err(|error| Error::bad_input(format!("{place}: series `{}`: {error}", self.name)))
    }

    /// The horizontal value and the sizes of each point.
    pub fn points(&self, place: &str) -> Result<Vec<(f64, Sizes)>> {
        let at = |field: &str| format!("series {}: {field}", self.name);
        let along = match (&self.along, self.sizes.len()) {
            (Some(along), _) => {
                among(place, &at("along"), along, self.sizes.keys().map(|s| &**s))?;
                Some(along)
            }
            (None, 0 | 1) => self.sizes.keys().next(),
            (None, _) => {
                let allowed = "one of the sizes where several vary";
                return Err(Error::field(place, &at("along"), "absent", allowed));
            }
        };
        let points =
            zipped(&self.sizes).ok_or_else(|| Error::field(place, &at("sizes"), "uneven", "lists of one length"))?;
        let points = points.into_iter().map(|sizes| {
            let x = along.map_or(1, |name| sizes[name]);
            (x as f64, sizes)
        });
        Ok(points.collect())
    }

    /// The sizes that the mean of each point is taken over; one empty set if there are no sizes.
    pub fn inner(&self) -> Vec<Sizes> {
        zipped(&self.mean_over).unwrap_or_default()
    }
}

/// Sizes that vary together, value by value; `None` if their numbers of values differ.
fn zipped(sizes: &BTreeMap<String, Values>) -> Option<Vec<Sizes>> {
    let lists: Vec<_> = sizes.iter().map(|(name, v)| (name, v.list())).collect();
    let count = lists.first().map_or(1, |(_, list)| list.len());
    if count == 0 || lists.iter().any(|(_, list)| list.len() != count) {
        return None;
    }
    let at = |place: usize| lists.iter().map(move |(name, list)| ((*name).clone(), list[place]));
    Some((0..count).map(|place| at(place).collect()).collect())
}

/// Refuses a value that is not among the allowed ones.
pub fn among<'a>(place: &str, field: &str, value: &str, allowed: impl Iterator<Item = &'a str>) -> Result<()> {
    let allowed: Vec<_> = allowed.collect();
    match allowed.contains(&value) {
        true => Ok(()),
        false => Err(Error::field(place, field, value, &allowed.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"
id = "made-up"
title = "Made up"
claim = "Wider is faster."
source = "no source"
rules = ["vocabulary"]
notes = ["1024 over 512: {gain} times"]

[[series]]
name = "rate"
gpu = "a100-40gb"
sizes.n = { from = 256, to = 1024, step = 256 }
predict.gemm = { m = 4096, n = "n", k = "2*n", layout = "tn", dtype = "fp16" }
measured = [[512, 100.0], [1024, 150.0]]
basis = "kept_out"

[[statistic]]
name = "gain"
value.ratio = { of = "rate", at = [[1024, 512]] }
shown_and_judged = "1024 over 512"

[[panel]]
title = "Rate"
conditions = "fp16"
x = { label = "n" }
y = { label = "rate", unit = "tflops_per_s" }
curves = [{ line = { series = "rate", predicted = "predicted", measured = "measured" } }]
"#;

    #[test]
    fn every_file_is_read_and_named_after_its_finding() {
        let specs = FindingSpec::all().unwrap();
        assert_eq!(specs.len(), FILES.files().count());
        assert_eq!(specs.len(), 19);
        for (at, spec) in specs.iter().enumerate() {
            let name = format!("data/findings/{:02}-{}.toml", at + 1, spec.id);
            assert_eq!(spec.place, name);
        }
    }

    #[test]
    fn what_is_not_understood_is_refused_with_file_field_and_what_is_allowed() {
        assert_eq!(FindingSpec::parse(WHOLE, "x.toml").unwrap().id, "made-up");
        for (from, to, parts) in [
            ("claim = \"Wider is faster.\"\n", "", ["missing field", "claim"]),
            ("Wider is faster.", " ", ["`claim` is empty", "allowed: a text"]),
            ("source =", "origin =", ["unknown field `origin`", "`source`"]),
            ("\"vocabulary\"", "\"vocab\"", ["`rules` is vocab", "allowed: "]),
            ("a100-40gb", "a1000", ["gpu` is a1000", "`target` or a GPU"]),
            ("predict.gemm", "predict.gem", ["unknown variant `gem`", "`gemm`"]),
            (
                "layout = \"tn\"",
                "layout = \"rows\"",
                ["unknown variant `rows`", "`tn`"],
            ),
            ("dtype =", "format =", ["unknown field `format`", "`dtype`"]),
            (", dtype = \"fp16\"", "", ["missing field", "dtype"]),
            (
                "\"2*n\"",
                "\"2*k\"",
                ["series `rate`: formula `2*k` names `k`", "allowed: n"],
            ),
            ("\"2*n\"", "\"n/3\"", ["formula `n/3`", "allowed: exact divisions"]),
            ("\"2*n\"", "-1", ["whole number", "formula"]),
            ("step = 256", "by = 256", ["a list of sizes", "`from`, `to` and `step`"]),
            (
                "[[512,",
                "[[513,",
                ["measured` is 513", "horizontal values of the series"],
            ),
            ("basis = \"kept_out\"", "", ["basis` is claim", "allowed: kept_out"]),
            ("kept_out", "guessed", ["unknown variant `guessed`", "`fitted`"]),
            (
                "value.ratio",
                "value.rate",
                ["unknown variant `rate`", "`median_error`"],
            ),
            (
                "of = \"rate\"",
                "of = \"rates\"",
                ["value.of` is rates", "allowed: rate"],
            ),
            (
                "of = \"rate\"",
                "from = \"rate\"",
                ["unexpected keys in table: from", "available keys: of"],
            ),
            (
                "series = \"rate\"",
                "series = \"r\"",
                ["curves.series` is r", "allowed: rate"],
            ),
            ("name = \"gain\"", "judged = \"x\"", ["statistic", "or the two others"]),
            ("\"tflops_per_s\"", "\"flops\"", ["unknown variant `flops`", "`share`"]),
            (
                "conditions =",
                "subtitle =",
                ["unknown field `subtitle`", "`conditions`"],
            ),
            (
                "id = \"made-up\"",
                "id = \"made-up\"\ntable = \"t\"",
                ["`table` is t", "`rows`"],
            ),
        ] {
            assert!(WHOLE.contains(from), "{from}");
            let text = WHOLE.replacen(from, to, 1);
            let message = FindingSpec::parse(&text, "x.toml").unwrap_err().to_string();
            assert!(message.starts_with("x.toml: "), "{message}");
            for part in parts {
                assert!(message.contains(part), "`{part}` is not in {message}");
            }
        }
    }
}
