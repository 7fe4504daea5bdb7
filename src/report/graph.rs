//! The answer to `predict graph`: every operator with its time, their sum, and what is not timed.

use crate::gpu::Gpu;
use crate::graph::{Listing, Unknown};
use crate::predict::estimate::{Caveats, Estimate, Tier, TierShares};
use crate::report::shape::Shape;
use crate::report::step::SharedWarning;
use crate::report::table::{left, right, row, table};
use crate::report::{
    Basis, NamedGpu, Report, Warning, based_on, grouped, named_lines, percent, tier_shares_text, time_text,
};
use crate::units::{Flops, Seconds, significant};
use serde::Serialize;
use utoipa::ToSchema;

/// The predicted operators of a graph.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct GraphReport {
    gpu: NamedGpu,
    graph: String,
    basis: Vec<Basis>,
    /// The sum of all kernels; between them nothing waits.
    time_us: Seconds,
    /// Ends of the interval, as if all operators were off to the same side.
    low_us: Seconds,
    high_us: Seconds,
    flops: Flops,
    tier: Tier,
    tier_shares: TierShares,
    caveats: Vec<SharedWarning>,
    notes: Vec<String>,
    lines: Vec<GraphLine>,
    /// Node types that are not timed.
    unknown: Vec<Unknown>,
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
    count: u64,
    each_us: Seconds,
    each_low_us: Seconds,
    each_high_us: Seconds,
    time_us: Seconds,
    share: f64,
    tflops_per_s: f64,
    tier: Tier,
    caveats: Vec<Warning>,
}

impl GraphReport {
    /// Describes the operators of a graph with the estimate of each on `gpu`.
    pub fn new(gpu: &Gpu, name: &str, listing: &Listing, estimates: &[Estimate], basis: Vec<Basis>) -> Self {
        let parts = || listing.items.iter().zip(estimates);
        let sum = |of: fn(&Estimate) -> Seconds| parts().map(|(item, each)| of(each) * item.count as f64).sum();
        let time_us: Seconds = sum(|each| each.time);
        let share = |of: &dyn Fn(&Estimate) -> bool| {
            let touched = parts().filter(|(_, each)| of(each));
            let touched: Seconds = touched.map(|(item, each)| each.time * item.count as f64).sum();
            if time_us > Seconds::ZERO {
                touched / time_us
            } else {
                0.0
            }
        };
        let caveats = estimates
            .iter()
            .fold(Caveats::default(), |all, each| all.union(each.caveats));
        let tier_shares = TierShares(Tier::ALL.map(|tier| share(&|each| each.tier == tier)));
        Self {
            gpu: gpu.into(),
            graph: name.to_owned(),
            basis,
            time_us,
            low_us: sum(Estimate::low),
            high_us: sum(Estimate::high),
            flops: parts().map(|(item, _)| item.op.flops() * item.count as f64).sum(),
            tier: tier_shares.most(),
            tier_shares,
            caveats: SharedWarning::sorted(caveats.iter(), |caveat| share(&|each| each.caveats.contains(caveat))),
            notes: listing.notes.clone(),
            lines: parts()
                .map(|(item, each)| GraphLine {
                    label: item.kind.clone(),
                    op: Shape::from(&item.op),
                    count: item.count,
                    each_us: each.time,
                    each_low_us: each.low(),
                    each_high_us: each.high(),
                    time_us: each.time * item.count as f64,
                    share: each.time * item.count as f64 / time_us,
                    tflops_per_s: (item.op.flops() / each.time).flops_per_sec() / 1e12,
                    tier: each.tier,
                    caveats: each.caveats.iter().map(Warning::from).collect(),
                })
                .collect(),
            unknown: listing.unknown.clone(),
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

    fn page(&self) -> String {
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
            row![
                line.label,
                line.op.0,
                grouped(line.count),
                line.time_us,
                percent(line.share),
                significant(line.tflops_per_s),
                line.tier,
            ]
        });
        let mut lines = vec![
            (
                "sum",
                format!(
                    "{}; kernels alone, without gaps between them",
                    time_text(self.time_us, self.low_us, self.high_us)
                ),
            ),
            ("tiers", tier_shares_text(self.tier_shares)),
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
            ("unknown", format!("{nodes} x {}: {}", unknown.kind, unknown.reason))
        }));
        lines.extend(SharedWarning::lines(&self.caveats));
        lines.extend(self.notes.iter().map(|note| ("note", note.clone())));
        let mut shares = self.tier_shares.each();
        let is_learned = shares.any(|(tier, share)| tier != Tier::Roofline && share > 0.0);
        format!(
            "{} on {}\nbased on {}\n\n{}\n{}",
            self.graph,
            self.gpu,
            match self.basis.is_empty() && is_learned {
                true => "laws of memory-bound kernels".to_owned(),
                false => based_on(&self.basis),
            },
            table(headings, rows),
            named_lines(&lines)
        )
    }
}
