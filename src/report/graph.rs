//! The answer to `predict graph`: every operator with its time, their sum, and what is not timed.

use crate::gpu::Gpu;
use crate::graph::Listing;
use crate::predict::estimate::Caveats;
use crate::predict::estimate::Estimate;
use crate::predict::estimate::Tier;
use crate::report::Basis;
use crate::report::Report;
use crate::report::Warning;
use crate::report::grouped;
use crate::report::percent;
use crate::report::shape::Shape;
use crate::report::step::SharedWarning;
use crate::report::table::{left, right, table};
use crate::report::tier_shares_text;
use crate::units::Seconds;
use crate::units::significant;
use serde::Serialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// The predicted operators of a graph.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct GraphReport {
    gpu: String,
    #[serde(skip)]
    gpu_title: String,
    graph: String,
    basis: Vec<Basis>,
    /// The sum of all kernels; between them nothing waits.
    time_us: f64,
    /// Ends of the interval, as if all operators were off to the same side.
    low_us: f64,
    high_us: f64,
    flops: f64,
    tier: Tier,
    tier_shares: BTreeMap<Tier, f64>,
    caveats: Vec<SharedWarning>,
    notes: Vec<String>,
    lines: Vec<GraphLine>,
    /// Node types that are not timed.
    unknown: Vec<UnknownNodes>,
    /// Nodes that run inside the kernel of another.
    fused_nodes: u64,
    /// Nodes that move no data.
    free_nodes: u64,
}

/// One operator of a graph.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct GraphLine {
    label: String,
    op: Shape,
    #[serde(skip)]
    shown: String,
    count: u64,
    each_us: f64,
    each_low_us: f64,
    each_high_us: f64,
    time_us: f64,
    share: f64,
    tflops_per_s: f64,
    tier: Tier,
    caveats: Vec<Warning>,
}

/// Nodes of one type that are not timed.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct UnknownNodes {
    label: String,
    nodes: u64,
    reason: String,
}

impl GraphReport {
    /// Describes the operators of a graph with the estimate of each on `gpu`.
    pub fn new(gpu: &Gpu, name: &str, listing: &Listing, estimates: &[Estimate], basis: Vec<Basis>) -> Self {
        let parts = || listing.items.iter().zip(estimates);
        let sum = |of: fn(&Estimate) -> Seconds| {
            let times = parts().map(|(item, each)| (of(each) * item.count as f64).micros());
            times.sum::<f64>()
        };
        let time_us = sum(|each| each.time);
        let share = |of: &dyn Fn(&Estimate) -> bool| {
            let touched = parts().filter(|(_, each)| of(each));
            let times = touched.map(|(item, each)| (each.time * item.count as f64).micros());
            if time_us > 0.0 {
                times.sum::<f64>() / time_us
            } else {
                0.0
            }
        };
        let caveats = estimates
            .iter()
            .fold(Caveats::default(), |all, each| all.union(each.caveats));
        let tier_shares = Tier::ALL.map(|tier| share(&|each| each.tier == tier));
        Self {
            gpu: gpu.name.clone(),
            gpu_title: gpu.title.clone(),
            graph: name.to_owned(),
            basis,
            time_us,
            low_us: sum(Estimate::low),
            high_us: sum(Estimate::high),
            flops: parts()
                .map(|(item, _)| item.op.flops().flops() * item.count as f64)
                .sum(),
            tier: Tier::of_most(tier_shares),
            tier_shares: Tier::ALL.into_iter().zip(tier_shares).collect(),
            caveats: SharedWarning::sorted(caveats.iter(), |caveat| share(&|each| each.caveats.contains(caveat))),
            notes: listing.notes.clone(),
            lines: parts()
                .map(|(item, each)| GraphLine {
                    label: item.kind.clone(),
                    op: Shape::from(&item.op),
                    shown: item.op.to_string(),
                    count: item.count,
                    each_us: each.time.micros(),
                    each_low_us: each.low().micros(),
                    each_high_us: each.high().micros(),
                    time_us: each.time.micros() * item.count as f64,
                    share: each.time.micros() * item.count as f64 / time_us,
                    tflops_per_s: (item.op.flops() / each.time).flops_per_sec() / 1e12,
                    tier: each.tier,
                    caveats: each.caveats.iter().map(Warning::from).collect(),
                })
                .collect(),
            unknown: listing
                .unknown
                .iter()
                .map(|unknown| UnknownNodes {
                    label: unknown.kind.clone(),
                    nodes: unknown.nodes,
                    reason: unknown.reason.clone(),
                })
                .collect(),
            fused_nodes: listing.fused,
            free_nodes: listing.free,
        }
    }

    /// The same with further notes.
    #[must_use]
    pub fn with_notes(mut self, notes: impl IntoIterator<Item = String>) -> Self {
        self.notes.extend(notes);
        self
    }
}

impl Report for GraphReport {
    const LISTS: &'static [&'static str] = &["lines"];

    fn predicted(&self) -> usize {
        self.lines.len()
    }

    fn page(&self) -> String {
        let [time, low, high] = [self.time_us, self.low_us, self.high_us].map(Seconds::from_micros);
        let headings = [
            left("operator"),
            left("shape"),
            right("count"),
            right("time"),
            right("share"),
            right("TFLOP/s"),
            left("tier"),
        ];
        let rows = self.lines.iter().map(|line| {
            [
                line.label.clone(),
                line.shown.clone(),
                grouped(line.count),
                Seconds::from_micros(line.time_us).to_string(),
                percent(line.share),
                significant(line.tflops_per_s),
                line.tier.to_string(),
            ]
        });
        let basis: Vec<_> = self.basis.iter().map(Basis::text).collect();
        let mut lines = vec![
            (
                "sum",
                format!("{time}   (90 %: {low} to {high}); kernels alone, without gaps between them"),
            ),
            ("tiers", tier_shares_text(&self.tier_shares)),
        ];
        if self.fused_nodes + self.free_nodes > 0 {
            let (fused, free) = (grouped(self.fused_nodes), grouped(self.free_nodes));
            lines.push((
                "nodes",
                format!("{fused} run inside another kernel, {free} move no data"),
            ));
        }
        lines.extend(self.unknown.iter().map(|unknown| {
            let nodes = grouped(unknown.nodes);
            ("unknown", format!("{nodes} x {}: {}", unknown.label, unknown.reason))
        }));
        lines.extend(SharedWarning::lines(&self.caveats));
        lines.extend(self.notes.iter().map(|note| ("note", note.clone())));
        let summary: String = lines.iter().map(|(name, text)| format!("{name:<9} {text}\n")).collect();
        format!(
            "{} on {} ({})\nbased on {}\n\n{}\n{summary}",
            self.graph,
            self.gpu_title,
            self.gpu,
            if basis.is_empty() {
                let mut shares = self.tier_shares.iter();
                match shares.any(|(tier, share)| *tier != Tier::Roofline && *share > 0.0) {
                    true => "laws of memory-bound kernels".to_owned(),
                    false => "a roofline, nothing learned".to_owned(),
                }
            } else {
                basis.join("; ")
            },
            table(headings, rows)
        )
    }
}
