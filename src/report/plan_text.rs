//! Plans and comparisons as people read them.

use crate::arch::{Mode, Offload, Recompute, Workload};
use crate::report::plan::{CompareReport, LatencyKeys, LayoutKeys, LimitKeys, PlanKeys, PlanReport, RunKeys};
use crate::report::plot::{Axis, Chart, Series};
use crate::report::table::{filled, left, right, table};
use crate::report::{Report, grouped, percent, signed, tokens};
use crate::units::{Bytes, Seconds, significant};

/// Changes of a lane that are not shown.
const LEAST_CHANGE: f64 = 0.001;

impl Report for PlanReport {
    const LISTS: &'static [&'static str] = &["plans.layouts"];

    fn page(&self) -> String {
        let mut parts = vec![self.heading()];
        match &self.plans[..] {
            [plan] => parts.extend([self.ranking(plan), self.remarks(plan)]),
            plans => parts.push(self.scaling(plans)),
        }
        parts.join("\n")
    }
}

/// A further part of a heading.
fn with(part: Option<&str>) -> String {
    part.map_or_else(String::new, |part| format!(", {part}"))
}

impl PlanReport {
    fn heading(&self) -> String {
        let what = match (self.mode, self.global_batch, self.output) {
            (Mode::Train, Some(batch), _) => format!(
                "training steps of {} sequences of {} tokens, {}",
                grouped(batch),
                grouped(self.seq),
                self.format
            ),
            (_, _, Some(output)) => format!(
                "requests of {} tokens that generate {}, {}",
                grouped(self.seq),
                grouped(output),
                self.format
            ),
            _ => format!("prompts of {} tokens, {}", grouped(self.seq), self.format),
        };
        let gpus = match &self.plans[..] {
            [plan] => format!("{} x ", grouped(plan.gpus)),
            _ => String::new(),
        };
        let notes: Vec<_> = self.notes.iter().map(|note| format!("note {note}\n")).collect();
        format!(
            "{} ({} parameters) on {gpus}{} ({})\n{what}{}\n{}\n{}",
            self.model,
            grouped(self.parameters),
            self.gpu_title,
            self.gpu,
            with(self.adapters.as_deref()),
            self.framework.text(true),
            notes.concat()
        )
    }

    fn ranking(&self, plan: &PlanKeys) -> String {
        match self.mode {
            Mode::Train => training_table(plan),
            Mode::Prefill | Mode::Decode => serving_table(plan, self.limits),
        }
    }

    fn remarks(&self, plan: &PlanKeys) -> String {
        let mut lines = Vec::new();
        if let Some(order) = self.order.as_ref()
            && plan.layouts.iter().filter(|layout| layout.tied).count() > 1
        {
            lines.push(format!(
                "= tied with the first: layouts within {} of each other were ranked wrongly more than one time in five ({} measured pairs)",
                percent(order.tie.exp_m1()),
                order.pairs
            ));
        }
        let changes = plan
            .decided_by
            .iter()
            .filter(|(_, change)| change.abs() >= LEAST_CHANGE);
        let changes: Vec<_> = changes
            .map(|(lane, change)| format!("{} {}", lane.name().replace('_', " "), signed(*change)))
            .collect();
        if !changes.is_empty() {
            lines.push(format!("the second against the first: {}", changes.join(", ")));
        }
        let room = match plan.memory_share < 1.0 {
            true => format!(
                "at most {} of {}",
                percent(plan.memory_share),
                Bytes::from_bytes(self.capacity_bytes)
            ),
            false => format!(
                "all of {} but what is kept free, as none takes less; expect fragmentation to decide",
                Bytes::from_bytes(self.capacity_bytes)
            ),
        };
        lines.push(match self.mode {
            Mode::Train => format!(
                "{} legal layouts; {} fit, {} with every kind of recomputation; a layout takes {room}",
                grouped(plan.legal as u64),
                grouped(plan.fitting as u64),
                grouped(plan.predicted.unwrap_or(plan.fitting) as u64)
            ),
            Mode::Prefill | Mode::Decode => format!(
                "{} ways to split the GPUs into engines; {} fit; one takes {room} with every cache full",
                grouped(plan.legal as u64),
                grouped(plan.fitting as u64)
            ),
        });
        lines.extend(self.limits.map(LimitKeys::text));
        if let Some(run) = &plan.run {
            lines.push(run.text());
        }
        lines.iter().map(|line| format!("{line}\n")).collect()
    }

    fn scaling(&self, plans: &[PlanKeys]) -> String {
        let first = plans
            .iter()
            .find_map(PlanKeys::best)
            .map(|best| best.tokens_per_s_per_gpu);
        let rows = plans.iter().map(|plan| {
            let best = plan.best();
            let rate = best.map(|best| best.tokens_per_s_per_gpu);
            let cell = |text: Option<String>| text.unwrap_or_default();
            [
                grouped(plan.gpus),
                match (best, &plan.refused) {
                    (Some(best), _) => layout_text(&best.workload),
                    (None, reason) => reason.clone().unwrap_or_default(),
                },
                cell(best.map(|best| tokens(best.tokens_per_s_of_all_gpus))),
                cell(rate.map(tokens)),
                cell(rate.zip(first).map(|(rate, first)| percent(rate / first))),
                cell(best.and_then(|best| best.step.as_ref()).map(|step| percent(step.mfu))),
                cell(plan.run.as_ref().map(|run| format!("{} days", significant(run.days)))),
            ]
        });
        let headings = [
            right("GPUs"),
            left("layout"),
            right("tokens/s"),
            right("per GPU"),
            right("efficiency"),
            right("MFU").minor(2),
            right("run").minor(1),
        ];
        table(headings, rows)
    }

    /// Throughput of layouts against memory, or against the number of GPUs.
    pub fn chart(&self) -> Chart {
        let axis = |label: &str, unit: &str, log: bool| Axis {
            label: label.to_owned(),
            unit: unit.to_owned(),
            log,
        };
        let (x, lines, points) = match &self.plans[..] {
            [plan] => {
                let tried = plan.tried.iter();
                let tried = tried.map(|tried| (tried.memory_bytes / GIB, tried.tokens_per_s_per_gpu));
                let ranked = plan.layouts.iter();
                let ranked: Vec<_> = ranked
                    .map(|layout| (layout.memory_bytes / GIB, layout.tokens_per_s_per_gpu))
                    .collect();
                let series = vec![
                    Series {
                        name: "layouts that fit".to_owned(),
                        points: tried.collect(),
                        labels: Vec::new(),
                    },
                    Series {
                        name: "the fastest".to_owned(),
                        labels: (1..=ranked.len()).map(|rank| format!("#{rank}")).collect(),
                        points: ranked,
                    },
                ];
                (axis("memory per GPU", "GiB", false), Vec::new(), series)
            }
            plans => {
                let best = plans
                    .iter()
                    .filter_map(|plan| Some((plan.gpus as f64, plan.best()?.tokens_per_s_of_all_gpus)));
                let best: Vec<_> = best.collect();
                let linear = best.first().map_or(Vec::new(), |&(gpus, rate)| {
                    best.iter().map(|&(count, _)| (count, rate * count / gpus)).collect()
                });
                let line = |name: &str, points| Series {
                    name: name.to_owned(),
                    points,
                    labels: Vec::new(),
                };
                let lines = vec![line("best layout", best), line("linear", linear)];
                (axis("GPUs", "", true), lines, Vec::new())
            }
        };
        let several = self.plans.len() > 1;
        Chart {
            title: format!("Layouts of {} on {}", self.model, self.gpu_title),
            subtitle: self.framework.text(true),
            x,
            y: match several {
                true => axis("throughput of all GPUs", "tokens/s", true),
                false => axis("throughput per GPU", "tokens/s", false),
            },
            band: None,
            lines,
            points,
            marks: Vec::new(),
            areas: Vec::new(),
        }
    }
}

const GIB: f64 = (1_u64 << 30) as f64;

fn training_table(plan: &PlanKeys) -> String {
    let headings = [
        right("#"),
        left("layout"),
        left("batch").minor(1),
        left("recompute").minor(2),
        right("tokens/s").minor(7),
        right("per GPU"),
        right("MFU").minor(4),
        right("step"),
        right("90 %"),
        right("exposed").minor(9),
        right("bubble").minor(8),
        right("memory"),
    ];
    let rows = plan.layouts.iter().filter_map(|layout| {
        let step = layout.step.as_ref()?;
        let work = &layout.workload;
        let seconds = |micros: f64| Seconds::from_micros(micros).to_string();
        let share = |lane| {
            step.lanes
                .get(&lane)
                .map_or(0.0, |keys: &super::step::LaneKeys| keys.share)
        };
        Some([
            rank(layout),
            layout_text(work),
            format!("{} x {}", work.batch, work.microbatches),
            recompute_text(work),
            tokens(layout.tokens_per_s_of_all_gpus),
            tokens(layout.tokens_per_s_per_gpu),
            percent(step.mfu),
            seconds(step.time_us),
            format!("{} to {}", seconds(step.low_us), seconds(step.high_us)),
            percent(share(super::step::Lane::Exposed)),
            percent(share(super::step::Lane::Bubble)),
            Bytes::from_bytes(layout.memory_bytes).to_string(),
        ])
    });
    table(headings, rows)
}

impl LimitKeys {
    fn text(self) -> String {
        format!(
            "each limit is kept with a probability of at least {}, by the interval of its time",
            percent(self.confidence)
        )
    }
}

/// `within 500 ms`, where there is a limit.
fn limit_headings(limits: Option<LimitKeys>) -> [String; 2] {
    let limits = limits.map(|limits| [limits.ttft_us, limits.tpot_us]);
    let within = |limit: Option<f64>| match limit {
        Some(limit) => format!("within {}", milliseconds(limit)),
        None => String::new(),
    };
    limits.unwrap_or_default().map(within)
}

fn milliseconds(micros: f64) -> String {
    format!("{} ms", significant(micros / 1e3))
}

fn interval(low: Option<f64>, high: Option<f64>) -> String {
    let ends = low.zip(high);
    ends.map_or(String::new(), |(low, high)| {
        format!("{} to {}", milliseconds(low), milliseconds(high))
    })
}

/// Both times of a request, each with its interval and the probability that it keeps its limit.
fn latency_cells(request: &LatencyKeys) -> [String; 6] {
    let kept = |share: Option<f64>| share.map_or(String::new(), percent);
    [
        milliseconds(request.ttft_us),
        interval(request.ttft_low_us, request.ttft_high_us),
        kept(request.ttft_kept_probability),
        request.tpot_us.map_or(String::new(), milliseconds),
        interval(request.tpot_low_us, request.tpot_high_us),
        kept(request.tpot_kept_probability),
    ]
}

fn serving_table(plan: &PlanKeys, limits: Option<LimitKeys>) -> String {
    let [within_first, within_further] = limit_headings(limits);
    let headings = [
        right("#"),
        left("engine"),
        right("engines").minor(5),
        right("requests each"),
        right("tokens/s").minor(9),
        right("per GPU"),
        right("90 %").minor(4),
        right("first token"),
        right("first token 90 %").minor(6),
        right(&within_first).minor(2),
        right("per token"),
        right("per token 90 %").minor(6),
        right(&within_further).minor(2),
        right("memory").minor(3),
        right("USD per M tokens"),
    ];
    let rows = plan.layouts.iter().filter_map(|layout| {
        let request = layout.request.as_ref()?;
        let work = &layout.workload;
        let [first, first_ends, first_kept, further, further_ends, further_kept] = latency_cells(request);
        Some([
            rank(layout),
            layout_text(&Workload { dp: 1, ..*work }),
            grouped(work.dp),
            grouped(work.batch),
            tokens(layout.tokens_per_s_of_all_gpus),
            tokens(layout.tokens_per_s_per_gpu),
            rate_interval(layout),
            first,
            first_ends,
            first_kept,
            further,
            further_ends,
            further_kept,
            Bytes::from_bytes(layout.memory_bytes).to_string(),
            usd_text(layout),
        ])
    });
    filled(headings, rows)
}

/// The 90 % interval of the tokens per second and GPU.
fn rate_interval(layout: &LayoutKeys) -> String {
    let ends = layout.tokens_per_s_per_gpu_low.zip(layout.tokens_per_s_per_gpu_high);
    ends.map_or(String::new(), |(low, high)| {
        format!("{} to {}", tokens(low), tokens(high))
    })
}

fn usd_text(layout: &LayoutKeys) -> String {
    let usd = layout.usd_per_million_tokens;
    usd.map_or(String::new(), significant)
}

fn rank(layout: &LayoutKeys) -> String {
    let mark = if layout.tied && layout.rank > 1 { "=" } else { "" };
    format!("{mark}{}", layout.rank)
}

/// `tp 4, pp 8, vp 5, dp 16, ZeRO 1`.
pub(super) fn layout_text(work: &Workload) -> String {
    let named = [
        ("tp", work.tp),
        ("cp", work.cp),
        ("ep", work.ep),
        ("pp", work.pp),
        ("vp", work.vp),
        ("dp", work.dp),
        ("ZeRO", u64::from(work.zero)),
    ];
    let shown = named.iter().filter(|(name, size)| match *name {
        "ZeRO" => *size > 0,
        _ => *size > 1,
    });
    let mut shown: Vec<_> = shown.map(|(name, size)| format!("{name} {size}")).collect();
    if work.offload != Offload::None {
        shown.push(format!("offload {}", work.offload));
    }
    match shown.is_empty() {
        true => "one GPU each".to_owned(),
        false => shown.join(", "),
    }
}

pub(super) fn recompute_text(work: &Workload) -> String {
    match (work.recompute, work.recompute_layers) {
        (Recompute::None, _) => String::new(),
        (recompute, 0) => recompute.to_string(),
        (recompute, layers) => format!("{recompute}, {layers} layers"),
    }
}

impl RunKeys {
    /// `15 T tokens: 41 days (90 %: 36 to 46), 503,000 GPU-hours, 1,258,000 USD`.
    pub(super) fn text(&self) -> String {
        let usd = match self.usd {
            Some(usd) => format!(", {} USD", grouped(usd.round() as u64)),
            None => String::new(),
        };
        format!(
            "{} tokens in {} steps: {} days (90 %: {} to {}), {} GPU-hours{usd}",
            grouped(self.tokens as u64),
            grouped(self.steps.ceil() as u64),
            significant(self.days),
            significant(self.days_low),
            significant(self.days_high),
            grouped(self.gpu_hours.round() as u64)
        )
    }
}

impl Report for CompareReport {
    const LISTS: &'static [&'static str] = &["compared"];

    fn page(&self) -> String {
        let batch = match self.global_batch {
            Some(batch) => format!("steps of {} sequences of {} tokens", grouped(batch), grouped(self.seq)),
            None => match self.output {
                Some(output) => format!(
                    "requests of {} tokens that generate {}",
                    grouped(self.seq),
                    grouped(output)
                ),
                None => format!("prompts of {} tokens", grouped(self.seq)),
            },
        };
        let heading = format!(
            "{} ({} parameters) on {} GPUs, {}: {batch}, {}{}\n",
            self.model,
            grouped(self.parameters),
            grouped(self.gpus),
            self.mode,
            self.format,
            with(self.adapters.as_deref())
        );
        let [within_first, within_further] = limit_headings(self.limits);
        let headings = [
            left("GPU"),
            left("best layout"),
            right("requests each").minor(5),
            right("tokens/s per GPU"),
            right("90 %").minor(1),
            right("per node").minor(8),
            right("per W").minor(8),
            right("MFU").minor(6),
            right("first token").minor(3),
            right("first token 90 %").minor(7),
            right(&within_first).minor(4),
            right("per token").minor(3),
            right("per token 90 %").minor(7),
            right(&within_further).minor(4),
            right("memory").minor(5),
            left("from").minor(9),
            right("USD per M tokens").minor(2),
            right("USD a run").minor(2),
        ];
        let rows = self.compared.iter().filter_map(|compared| {
            let layout = compared.layout.as_ref()?;
            let step = layout.step.as_ref();
            let cell = |text: Option<String>| text.unwrap_or_default();
            let serves = layout.request.as_ref();
            let [first, first_ends, first_kept, further, further_ends, further_kept] =
                serves.map(latency_cells).unwrap_or_default();
            let run = compared.run.as_ref();
            Some([
                compared.gpu.clone(),
                layout_text(&layout.workload),
                cell(serves.map(|_| grouped(layout.workload.batch))),
                tokens(layout.tokens_per_s_per_gpu),
                rate_interval(layout),
                cell(compared.tokens_per_s_per_node.map(tokens)),
                cell(compared.tokens_per_s_per_watt.map(significant)),
                cell(step.map(|step| percent(step.mfu))),
                first,
                first_ends,
                first_kept,
                further,
                further_ends,
                further_kept,
                Bytes::from_bytes(layout.memory_bytes).to_string(),
                cell(step.map(|step| super::tier_shares_text(&step.tier_shares))),
                usd_text(layout),
                cell(run.and_then(|run| run.usd).map(|usd| grouped(usd.round() as u64))),
            ])
        });
        let table = filled(headings, rows);
        let limits = self
            .limits
            .map_or(String::new(), |limits| format!("\n{}\n", limits.text()));
        let without = self.compared.iter().filter_map(|compared| {
            let reason = compared.refused.as_ref()?;
            Some(format!("{}: {reason}\n", compared.gpu))
        });
        let without: String = without.collect();
        let without = match without.is_empty() {
            true => without,
            false => format!("\n{without}"),
        };
        format!("{heading}\n{table}{limits}{without}")
    }
}
