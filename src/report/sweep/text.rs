//! A sweep as people read it: the curve thinned to a page, then where it falls and why.

use crate::report::plot::Chart;
use crate::report::sweep::keys::{ModelKeys, PointKeys, RangeKeys};
use crate::report::sweep::{BANDWIDTH, SweepReport};
use crate::report::table::{bad, dash, left, right, row, table};
use crate::report::{Report, based_on, grouped, joined, named_lines, percent, server_text, tier_shares_text, tokens};
use crate::sweep::Drop;
use crate::units::significant;

/// The most lines of the table.
const LINES: usize = 40;

/// The most positions in one sentence.
const POSITIONS: usize = 16;

impl Report for SweepReport {
    const LISTS: &'static [&'static str] = &["points", "measured"];

    fn drawn(&self) -> Option<Chart> {
        Some(self.chart())
    }

    fn page(&self) -> String {
        format!("{}\n{}\n{}", self.heading(), self.curve(), self.summary())
    }
}

impl SweepReport {
    fn heading(&self) -> String {
        let RangeKeys { start, end, step, text } = &self.range;
        let values = match step {
            Some(step) => format!("from {start} to {end} by {step}"),
            None => format!("over {text}"),
        };
        format!(
            "{} on {}: {} {values}\n{}{}\n{}based on {}\n",
            self.subject,
            self.gpu,
            self.dimension,
            self.server().unwrap_or_default(),
            self.constants(),
            self.framework
                .as_ref()
                .map_or_else(String::new, |name| format!("framework {name}; ")),
            based_on(&self.basis)
        )
    }

    /// Where the server decides the time.
    fn server(&self) -> Option<String> {
        let models = self.points.iter().filter_map(|point| point.model.as_ref());
        let bound: Vec<_> = models.filter_map(|model| model.server_least_us).collect();
        let server = server_text(self.framework.as_ref()?, *bound.first()?);
        Some(format!(
            "bound by the server at {} of {} points: {server}\n",
            bound.len(),
            self.points.len()
        ))
    }

    fn curve(&self) -> String {
        let every = self.points.len().div_ceil(LINES);
        let last = self.points.len().saturating_sub(1);
        let shown = self.points.iter().enumerate();
        let shown = shown.filter(|(at, _)| at % every == 0 || *at == last);
        let points = shown.map(|(_, point)| point);
        let value = right(self.dimension.as_str());
        let of = format!("pow2({})", self.alignment_of);
        let alignment = right(of.as_str());
        let mut text = if self.is_model() {
            let headings = [
                value,
                alignment,
                right("parameters").minor(5),
                right("step"),
                right("tokens/s"),
                right("90 % interval").minor(1),
                right(if self.is_decoded() { "bandwidth" } else { "MFU" }),
                right("memory"),
                left("share of tiers").minor(9),
            ];
            let rows = points.filter_map(|point| Some(self.model_cells(point, point.model.as_ref()?)));
            table(headings, rows)
        } else {
            let headings = [
                value,
                alignment,
                right("time"),
                right("90 % interval"),
                right("TFLOP/s"),
                left("tier"),
            ];
            table(headings, points.map(PointKeys::operator_cells))
        };
        if every > 1 {
            text.push_str(&format!(
                "(one in {every} of {} points; --format json and csv have all)\n",
                self.points.len()
            ));
        }
        text
    }

    fn summary(&self) -> String {
        let mut lines = Vec::new();
        let rate = match self.drops_of {
            "mfu" => "MFU",
            BANDWIDTH => "share of the bandwidth",
            _ => "rate",
        };
        lines.push(("drops", self.drops_text(rate, &self.drops)));
        if let (Some(first), Some(last)) = (self.measured.first(), self.measured.last()) {
            let values = (first.value, last.value);
            let text = format!(
                "{} timings between {} and {}, not used for the prediction",
                self.measured.len(),
                values.0,
                values.1
            );
            lines.push(("measured", text));
            let drops = self.drops_text("measured rate", &self.measured_drops);
            lines.push(("", drops));
        }
        let models = self.points.iter().filter_map(|point| point.model.as_ref());
        let large = models.filter(|model| !model.fits).count();
        if large > 0 {
            let text = format!("{large} of {} points do not fit", self.points.len());
            lines.push(("memory", text));
        }
        lines.extend(self.skipped.iter().map(|skip| {
            let text = format!("{} values, such as: {}", skip.points, skip.reason);
            ("skipped", text)
        }));
        let caveats = self.caveats.iter();
        lines.extend(caveats.map(|warning| ("caveat", warning.text.to_owned())));
        named_lines(&lines)
    }

    /// Whether steps are bound by the traffic of the memory.
    fn is_decoded(&self) -> bool {
        self.drops_of == BANDWIDTH
    }

    fn drops_text(&self, rate: &str, drops: &[Drop]) -> String {
        let above = percent(self.drops_above);
        if drops.is_empty() {
            return format!("the {rate} never falls by more than {above} from one point to the next");
        }
        let mut deepest = drops.to_vec();
        deepest.sort_by(|a, b| b.depth.total_cmp(&a.depth));
        deepest.truncate(POSITIONS);
        deepest.sort_by_key(|drop| drop.value);
        let positions = deepest
            .iter()
            .map(|drop| format!("{} (-{})", drop.value, percent(drop.depth)));
        let positions = joined(", ", positions);
        let times = if drops.len() > POSITIONS {
            format!("{} times, most at", drops.len())
        } else {
            "at".to_owned()
        };
        let dimension = &self.dimension;
        format!("the {rate} falls by more than {above} {times} {dimension} = {positions}")
    }

    fn model_cells(&self, point: &PointKeys, model: &ModelKeys) -> [String; 9] {
        let [low, rate, high] = point.rates().map(tokens);
        let memory = model.memory_bytes;
        row![
            point.value,
            dash(point.alignment),
            grouped(model.parameters),
            point.time_us,
            rate,
            format!("{low} to {high}"),
            percent(if self.is_decoded() {
                model.bandwidth_fraction
            } else {
                model.mfu
            }),
            if model.fits {
                memory.to_string()
            } else {
                format!("{memory} {}", bad("DOES NOT FIT"))
            },
            tier_shares_text(model.tier_shares),
        ]
    }
}

impl PointKeys {
    fn operator_cells(&self) -> [String; 6] {
        row![
            self.value,
            dash(self.alignment),
            self.time_us,
            format!("{} to {}", self.low_us, self.high_us),
            significant(self.tflops_per_s),
            self.tier,
        ]
    }
}
