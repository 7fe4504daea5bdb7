//! Plans and comparisons as people read them.

use super::{AskedKeys, CompareReport, LatencyKeys, LayoutKeys, LimitKeys, PlanKeys, PlanReport, RunKeys};
use crate::arch::{Mode, Offload, Recompute, Workload};
use crate::report::plot::{Axis, Chart, GIB, Series};
use crate::report::step::Lane;
use crate::report::table::{filled, left, right, row, table};
use crate::report::{Report, grouped, joined, percent, signed, tier_shares_text, tokens};
use crate::units::{Seconds, significant};

/// Changes of a lane that are not shown.
const LEAST_CHANGE: f64 = 0.001;

impl Report for PlanReport {
    const LISTS: &'static [&'static str] = &["plans.layouts"];

    fn drawn(&self) -> Option<Chart> {
        Some(self.chart())
    }

    fn page(&self) -> String {
        let mut parts = vec![self.heading() + &format!("framework {}\n", self.framework.short())];
        match &self.plans[..] {
            [plan] => parts.extend([self.ranking(plan), self.remarks(plan)]),
            plans => parts.extend([self.scaling(plans), self.framework_line()]),
        }
        parts.join("\n")
    }
}

/// The text, or nothing.
fn some(text: Option<impl ToString>) -> String {
    text.map_or_else(String::new, |text| text.to_string())
}

impl AskedKeys {
    /// `requests of 4,096 tokens that generate 512, fp8`.
    fn text(&self) -> String {
        let beside = [&self.adapters, &self.drafts].into_iter().flatten();
        let beside: String = beside.map(|text| format!(", {text}")).collect();
        format!("{}, {}{beside}", self.work(), self.format)
    }

    /// The same without what differs between models.
    fn work(&self) -> String {
        let seq = grouped(self.seq);
        let what = match (self.global_batch, self.output) {
            (Some(batch), _) => format!("steps of {} sequences of {seq} tokens", grouped(batch)),
            (None, Some(output)) => format!("requests of {seq} tokens that generate {}", grouped(output)),
            (None, None) => format!("prompts of {seq} tokens"),
        };
        let cached = self
            .cached_tokens
            .map(|cached| format!(", {} of a prompt cached", grouped(cached)));
        format!("{what}{}", some(cached))
    }
}

impl PlanReport {
    fn heading(&self) -> String {
        let (gpus, answer) = match &self.plans[..] {
            [plan] => (format!("{} x ", grouped(plan.gpus)), plan.answer(self.asked.output)),
            _ => Default::default(),
        };
        let notes = self.notes.iter().map(|note| format!("note {note}\n"));
        format!(
            "{} ({} parameters) on {gpus}{}\n{}{}\n{}{answer}",
            self.asked.model,
            grouped(self.asked.parameters),
            self.gpu,
            if self.asked.mode == Mode::Train {
                "training "
            } else {
                ""
            },
            self.asked.text(),
            notes.collect::<String>()
        )
    }

    fn ranking(&self, plan: &PlanKeys) -> String {
        match self.asked.mode {
            Mode::Train => training_table(plan),
            Mode::Prefill | Mode::Decode => serving_table(plan, self.asked.limits),
        }
    }

    fn remarks(&self, plan: &PlanKeys) -> String {
        let mut lines = Vec::new();
        if let Some(order) = self.order.as_ref()
            && plan.layouts.iter().filter(|layout| layout.tied).count() > 1
        {
            let fewer = match self.asked.mode {
                Mode::Train => "",
                Mode::Prefill | Mode::Decode => "; fewer GPUs an engine come first",
            };
            lines.push(format!(
                "= tied with the first: layouts within {} of each other were ranked wrongly more than one time in five ({} measured pairs){fewer}",
                percent(order.tie.exp_m1()),
                order.pairs
            ));
        }
        let changes = plan
            .decided_by
            .iter()
            .filter(|(_, change)| change.abs() >= LEAST_CHANGE);
        let changes = changes.map(|(lane, change)| format!("{} {}", lane.name().replace('_', " "), signed(*change)));
        let changes = joined(", ", changes);
        if !changes.is_empty() {
            lines.push(format!("the second against the first: {changes}"));
        }
        let room = match plan.memory_share < 1.0 {
            true => format!("at most {} of {}", percent(plan.memory_share), self.capacity_bytes),
            false => format!(
                "all of {} but what is kept free, as none takes less; expect fragmentation to decide",
                self.capacity_bytes
            ),
        };
        lines.push(match self.asked.mode {
            Mode::Train => format!(
                "{} legal layouts; {} fit, {} with every kind of recomputation; a layout takes {room}",
                grouped(plan.legal as u64),
                grouped(plan.fitting as u64),
                grouped(plan.predicted.unwrap_or(plan.fitting) as u64)
            ),
            Mode::Prefill | Mode::Decode => format!(
                "{} to split the GPUs into engines; {} fit; one takes {room} with every cache full",
                counted(plan.legal as u64, "way"),
                grouped(plan.fitting as u64)
            ),
        });
        lines.extend(self.asked.limits.map(LimitKeys::text));
        let lines = lines.iter().map(|line| format!("{line}\n"));
        lines.collect::<String>() + &self.framework_line()
    }

    fn framework_line(&self) -> String {
        format!("framework {}\n", self.framework.text(true))
    }

    fn scaling(&self, plans: &[PlanKeys]) -> String {
        let first = plans
            .iter()
            .find_map(PlanKeys::best)
            .map(|best| best.tokens_per_s_per_gpu);
        let rows = plans.iter().map(|plan| {
            let best = plan.best();
            let rate = best.map(|best| best.tokens_per_s_per_gpu);
            [
                grouped(plan.gpus),
                match best {
                    Some(best) => layout_text(&best.workload),
                    None => some(plan.refused.as_ref()),
                },
                some(best.map(|best| tokens(best.tokens_per_s_of_all_gpus))),
                some(rate.map(tokens)),
                some(rate.zip(first).map(|(rate, first)| percent(rate / first))),
                some(best.and_then(|best| best.step.as_ref()).map(|step| percent(step.mfu))),
                some(plan.run.as_ref().map(|run| format!("{} days", significant(run.days)))),
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
        filled(headings, rows)
    }

    /// Throughput of layouts against memory, or against the number of GPUs.
    fn chart(&self) -> Chart {
        let chart = Chart {
            title: format!("Layouts of {} on {}", self.asked.model, self.gpu.title),
            subtitle: self.framework.text(true),
            ..Chart::default()
        };
        if let [plan] = &self.plans[..] {
            let tried = plan.tried.iter();
            let tried = tried.map(|tried| (tried.memory_bytes.bytes() / GIB, tried.tokens_per_s_per_gpu));
            let ranked = plan.layouts.iter();
            let ranked = ranked.map(|layout| (layout.memory_bytes.bytes() / GIB, layout.tokens_per_s_per_gpu));
            let ranks = (1..=plan.layouts.len()).map(|rank| format!("#{rank}"));
            return Chart {
                x: Axis::linear("memory per GPU", "GiB"),
                y: Axis::linear("throughput per GPU", "tokens/s"),
                points: vec![
                    Series::new("layouts that fit", tried),
                    Series::new("the fastest", ranked).labelled(ranks),
                ],
                ..chart
            };
        }
        let best = self.plans.iter();
        let best = best.filter_map(|plan| Some((plan.gpus as f64, plan.best()?.tokens_per_s_of_all_gpus)));
        let best: Vec<_> = best.collect();
        let linear = best.first().map_or(Vec::new(), |&(gpus, rate)| {
            best.iter().map(|&(count, _)| (count, rate * count / gpus)).collect()
        });
        Chart {
            x: Axis::logarithmic("GPUs", ""),
            y: Axis::logarithmic("throughput of all GPUs", "tokens/s"),
            lines: vec![Series::new("best layout", best), Series::new("linear", linear)],
            ..chart
        }
    }
}

impl PlanKeys {
    /// What the first layout reaches, and what the run takes with it.
    fn answer(&self, output: Option<u64>) -> String {
        let Some(best) = self.best() else {
            return String::new();
        };
        let work = &best.workload;
        let rate = tokens(best.tokens_per_s_per_gpu);
        let fastest = match (&best.step, &best.request) {
            (Some(step), _) => format!(
                "{}: {} a step (90 %: {} to {}), {rate} tokens/s per GPU, MFU {}",
                layout_text(work),
                step.time_us,
                step.low_us,
                step.high_us,
                percent(step.mfu)
            ),
            (None, Some(request)) => format!(
                "{}{}: {}, first token after {}{}",
                match self.gpus {
                    1 => format!("{} at once", counted(request.in_flight, "request")),
                    _ => format!(
                        "{}, {} each",
                        layout_text(&Workload { dp: 1, ..*work }),
                        counted(request.in_flight, "request")
                    ),
                },
                some(request.waiting.map(|waiting| {
                    let (run, wait) = (grouped(request.in_flight * work.dp), grouped(waiting));
                    let engines = if work.dp == 1 { "engine" } else { "engines" };
                    format!(" ({run} run at once, {wait} wait: {engines} full)")
                })),
                match self.gpus {
                    1 => format!("{rate} tokens/s"),
                    _ => format!(
                        "{} tokens/s in all, {rate} per GPU{}",
                        tokens(best.tokens_per_s_of_all_gpus),
                        some(
                            request
                                .rate(output)
                                .map(|rate| format!(", {} to each request, its prompt counted", significant(rate)))
                        )
                    ),
                },
                milliseconds(request.ttft_us),
                some(
                    request
                        .tpot_us
                        .map(|time| format!(", {} per token", milliseconds(time)))
                )
            ),
            (None, None) => return String::new(),
        };
        let run = some(self.run.as_ref().map(|run| format!("{}\n", run.text())));
        format!("fastest {fastest}\n{run}")
    }
}

/// `1 way`, `2 ways`.
fn counted(count: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(count), if count == 1 { "" } else { "s" })
}

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
        let share = |lane| percent(step.lanes.get(&lane).map_or(0.0, |keys| keys.share));
        Some(row![
            rank(layout),
            layout_text(work),
            format!("{} x {}", work.batch, work.microbatches),
            recompute_text(work),
            tokens(layout.tokens_per_s_of_all_gpus),
            tokens(layout.tokens_per_s_per_gpu),
            percent(step.mfu),
            step.time_us,
            format!("{} to {}", step.low_us, step.high_us),
            share(Lane::Exposed),
            share(Lane::Bubble),
            layout.memory_bytes,
        ])
    });
    table(headings, rows)
}

impl LatencyKeys {
    /// Tokens a second of a request that generates so many.
    fn rate(&self, output: Option<u64>) -> Option<f64> {
        let output = output? as f64;
        Some(output / (self.ttft_us + self.tpot_us? * output).secs())
    }
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
    let within = |limit: Option<Seconds>| some(limit.map(|limit| format!("within {}", milliseconds(limit))));
    limits.unwrap_or_default().map(within)
}

fn milliseconds(time: Seconds) -> String {
    format!("{} ms", significant(time.millis()))
}

fn interval<T>(low: Option<T>, high: Option<T>, shown: fn(T) -> String) -> String {
    let ends = low.zip(high);
    some(ends.map(|(low, high)| format!("{} to {}", shown(low), shown(high))))
}

/// Both times of a request, each with its interval and the probability that it keeps its limit.
fn latency_cells(request: &LatencyKeys) -> [String; 6] {
    [
        milliseconds(request.ttft_us),
        interval(request.ttft_low_us, request.ttft_high_us, milliseconds),
        some(request.ttft_kept_probability.map(percent)),
        some(request.tpot_us.map(milliseconds)),
        interval(request.tpot_low_us, request.tpot_high_us, milliseconds),
        some(request.tpot_kept_probability.map(percent)),
    ]
}

fn serving_table(plan: &PlanKeys, limits: Option<LimitKeys>) -> String {
    let [within_first, within_further] = limit_headings(limits);
    let headings = [
        right("#"),
        left("engine"),
        right("copies").minor(5),
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
        Some(row![
            rank(layout),
            layout_text(&Workload { dp: 1, ..*work }),
            grouped(work.dp),
            grouped(request.in_flight),
            tokens(layout.tokens_per_s_of_all_gpus),
            tokens(layout.tokens_per_s_per_gpu),
            rate_interval(layout),
            first,
            first_ends,
            first_kept,
            further,
            further_ends,
            further_kept,
            layout.memory_bytes,
            usd_text(layout),
        ])
    });
    filled(headings, rows)
}

/// The 90 % interval of the tokens per second and GPU.
fn rate_interval(layout: &LayoutKeys) -> String {
    interval(
        layout.tokens_per_s_per_gpu_low,
        layout.tokens_per_s_per_gpu_high,
        tokens,
    )
}

fn usd_text(layout: &LayoutKeys) -> String {
    some(layout.usd_per_million_tokens.map(significant))
}

fn rank(layout: &LayoutKeys) -> String {
    let mark = if layout.tied && layout.rank > 1 { "=" } else { "" };
    format!("{mark}{}", layout.rank)
}

/// `tp 4, pp 8, vp 5, dp 16, ZeRO 1`.
pub(in crate::report) fn layout_text(work: &Workload) -> String {
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

pub(in crate::report) fn recompute_text(work: &Workload) -> String {
    match (work.recompute, work.recompute_layers) {
        (Recompute::None, _) => String::new(),
        (recompute, 0) => recompute.to_string(),
        (recompute, layers) => format!("{recompute}, {layers} layers"),
    }
}

impl RunKeys {
    /// `15 T tokens in 3,576,279 steps of 4,194,304: 41 days (90 %: 36 to 46), 503,000 GPU-hours, 1,258,000 USD`.
    pub(in crate::report) fn text(&self) -> String {
        let usd = some(self.usd.map(|usd| format!(", {} USD", grouped(usd.round() as u64))));
        format!(
            "{} tokens in {} steps of {}: {} days (90 %: {} to {}), {} GPU-hours{usd} while it runs, without stops and evaluations",
            grouped(self.tokens as u64),
            grouped(self.steps.ceil() as u64),
            grouped((self.tokens / self.steps).round() as u64),
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
        let asked = &self.asked;
        let several = self.has_models();
        let gpus = match self.gpus {
            None => "the fewest GPUs that serve each".to_owned(),
            Some(1) => "1 GPU".to_owned(),
            Some(gpus) => format!("{} GPUs", grouped(gpus)),
        };
        let heading = match several {
            true => format!("models on {gpus}, {}: {}\n", asked.mode, asked.work()),
            false => format!(
                "{} ({} parameters) on {gpus}, {}: {}\n",
                asked.model,
                grouped(asked.parameters),
                asked.mode,
                asked.text()
            ),
        };
        let [within_first, within_further] = limit_headings(asked.limits);
        let headings = [
            left("GPU"),
            left("model"),
            left("format").minor(1),
            left("best layout"),
            right("GPUs"),
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
            right("USD per M tokens"),
            right("USD a run"),
        ];
        let rows = self.compared.iter().filter_map(|compared| {
            let layout = compared.layout.as_ref()?;
            let step = layout.step.as_ref();
            let serves = layout.request.as_ref();
            let [first, first_ends, first_kept, further, further_ends, further_kept] =
                serves.map(latency_cells).unwrap_or_default();
            let run = compared.run.as_ref();
            Some(row![
                compared.gpu,
                some(several.then_some(&compared.model)),
                some(compared.format.filter(|_| several)),
                layout_text(&layout.workload),
                some(self.gpus.is_none().then(|| grouped(layout.workload.gpus()))),
                some(serves.map(|request| grouped(request.in_flight))),
                tokens(layout.tokens_per_s_per_gpu),
                rate_interval(layout),
                some(compared.tokens_per_s_per_node.map(tokens)),
                some(compared.tokens_per_s_per_watt.map(significant)),
                some(step.map(|step| percent(step.mfu))),
                first,
                first_ends,
                first_kept,
                further,
                further_ends,
                further_kept,
                layout.memory_bytes,
                some(step.map(|step| tier_shares_text(step.tier_shares))),
                usd_text(layout),
                some(run.and_then(|run| run.usd).map(|usd| grouped(usd.round() as u64))),
            ])
        });
        let table = filled(headings, rows);
        let limits = some(asked.limits.map(|limits| format!("\n{}\n", limits.text())));
        let without = self.compared.iter().filter_map(|compared| {
            let reason = compared.refused.as_ref()?;
            let model = some(several.then(|| format!(" {}", compared.model)));
            Some(format!("{}{model}: {reason}\n", compared.gpu))
        });
        let without: String = without.collect();
        let without = match without.is_empty() {
            true => without,
            false => format!("\n{without}"),
        };
        let notes: String = self.notes.iter().map(|note| format!("\nnote {note}\n")).collect();
        format!("{heading}\n{table}{limits}{notes}{without}")
    }
}
