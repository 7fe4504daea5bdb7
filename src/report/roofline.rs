//! The operators of a step under the roofline of its GPU: intensity against achieved FLOP/s.

use crate::report::plot::{Axis, Chart, Series};
use crate::report::step::StepReport;
use crate::units::{Bytes, Flops, Seconds};
use std::collections::BTreeMap;

/// Operators of this share of the step and more are named.
const NAMED: f64 = 0.02;

/// Points of the roof between two ends: on logarithmic axes two lines.
const MARGIN: f64 = 2.0;

impl StepReport {
    /// Every operator that computes as a point of its role, its area its share of the time, under the roof of the GPU.
    pub(super) fn roofline(&self) -> Chart {
        let mut roles: BTreeMap<&str, Vec<(f64, f64, f64)>> = BTreeMap::new();
        for line in &self.lines {
            if line.flops > Flops::ZERO && line.time_us > Seconds::ZERO && line.bytes > Bytes::ZERO {
                let point = (line.flops.flops() / line.bytes.bytes(), line.tflops_per_s, line.share);
                roles.entry(line.role).or_default().push(point);
            }
        }
        let total = |points: &[(f64, f64, f64)]| points.iter().map(|(.., share)| share).sum::<f64>();
        let mut roles: Vec<_> = roles.into_iter().collect();
        roles.sort_by(|a, b| total(&b.1).total_cmp(&total(&a.1)));
        let (named, rest): (Vec<_>, Vec<_>) = roles.into_iter().partition(|(_, points)| total(points) >= NAMED);
        let rest = rest.into_iter().flat_map(|(_, points)| points).collect::<Vec<_>>();
        let rest = Some(("other", rest)).filter(|(_, points)| !points.is_empty());
        let all: Vec<_> = named.into_iter().chain(rest).collect();
        let [peak, bandwidth] = self.roof;
        let intensities = all.iter().flat_map(|(_, points)| points).map(|(x, ..)| *x);
        let ridge = peak / bandwidth;
        let (least, most) = intensities.fold((ridge, ridge), |(least, most), x| (least.min(x), most.max(x)));
        let dots = all.iter().map(|(role, points)| {
            let largest = points.iter().map(|(.., share)| *share).fold(0.0, f64::max);
            let label = |share: f64| match share == largest && *role != "other" {
                true => (*role).to_owned(),
                false => String::new(),
            };
            Series::new(
                format!("{role}, {:.0} % of the time", 100.0 * total(points)),
                points.iter().map(|(x, y, _)| (*x, *y)),
            )
            .labelled(points.iter().map(|(.., share)| label(*share)))
        });
        let areas = all
            .iter()
            .map(|(_, points)| points.iter().map(|(.., share)| *share).collect());
        Chart {
            title: format!("Operators of a step of {} on {}", self.model, self.gpu.title),
            subtitle: format!(
                "{}\nareas are shares of the time; above the roof of the memory where operands stay in the L2 cache",
                self.workload
            ),
            x: Axis::logarithmic("arithmetic intensity", "FLOPs per byte"),
            y: Axis::logarithmic("achieved rate", "TFLOP/s"),
            lines: vec![Series::new(
                "roofline of the dense peak and the memory",
                [
                    (least / MARGIN, bandwidth * least / MARGIN),
                    (ridge, peak),
                    (most * MARGIN, peak),
                ],
            )],
            points: dots.collect(),
            areas: areas.collect(),
            ..Chart::default()
        }
    }
}
