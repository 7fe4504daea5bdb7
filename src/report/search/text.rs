//! Searched shapes as people read them.

use super::{EqualLossKeys, LifeKeys, LossKeys, OutcomeKeys, SearchReport, ServingKeys, ShapeKeys, SpeedKeys};
use crate::arch::Dimension;
use crate::loss::Evidence;
use crate::report::architecture::ArchitectureShape;
use crate::report::plan::{layout_text, recompute_text};
use crate::report::plot::{Axis, Band, Chart, GIB, Series};
use crate::report::table::{bad, dash, filled, good, left, right, row, table};
use crate::report::{Basis, Report, grouped, joined, named_lines, percent, server_text, signed, tokens};
use crate::search::goal::{ABSOLUTE_LAW, Objective};
use crate::search::{Free, MOST_TIED};
use crate::units::significant;
use std::collections::BTreeSet;

/// `ln` of the time from which the text says "never".
const OUT_OF_SIGHT: f64 = 5.0;

/// Points of the front that are shown; the document has all.
const SHOWN: usize = 8;

impl Report for SearchReport {
    const LISTS: &'static [&'static str] = &["shapes"];

    fn drawn(&self) -> Option<Chart> {
        Some(self.chart())
    }

    fn page(&self) -> String {
        let mut parts = vec![
            self.heading(),
            self.sizes(),
            self.outcomes(),
            self.ranking(),
            self.against(),
            self.reasons(),
            self.front(),
            self.elsewhere(),
            self.based_on(),
        ];
        parts.retain(|part| !part.is_empty());
        parts.join("\n")
    }
}

impl SearchReport {
    /// Throughput against memory: the Pareto front, the recommended shapes, the baseline.
    fn chart(&self) -> Chart {
        let size = |layers: u64, hidden: u64| format!("{layers} x {hidden}");
        let every = self.every_shown();
        let front = || self.pareto_front.iter();
        let labels = front()
            .enumerate()
            .map(|(index, point)| match index.is_multiple_of(every) {
                true => size(point.shape.layers, point.shape.hidden),
                false => String::new(),
            });
        let front = front().map(|point| (point.memory_bytes.bytes() / GIB, point.tokens_per_s_per_gpu));
        let place = |speed: &SpeedKeys| (speed.memory_bytes.bytes() / GIB, speed.tokens_per_s_per_gpu);
        let ranked = self.shapes.iter().map(|shape| place(&shape.speed));
        let ranks = self.shapes.iter().map(|shape| format!("#{}", shape.rank));
        let baseline = &self.baseline;
        Chart {
            title: format!("Shapes of {}", self.subject()),
            subtitle: format!("{}; points are layers x hidden size", self.workload),
            x: Axis::linear("memory per GPU", "GiB"),
            y: Axis::linear("throughput per GPU", "tokens/s"),
            points: vec![
                Series::new("Pareto front", front).labelled(labels),
                Series::new("recommended", ranked).labelled(ranks),
                Series::new("baseline", [place(&baseline.speed)]).labelled([baseline.shape.name.clone()]),
            ],
            ..Chart::default()
        }
    }

    fn subject(&self) -> String {
        format!("{} parameters on {}", grouped(self.request.parameters), self.gpu.title)
    }

    /// Throughput against loss: the recommended shapes with their bands, the Pareto front, the baseline.
    pub fn loss_chart(&self) -> Chart {
        let known = self.shapes.iter().filter_map(|shape| {
            let loss = &shape.loss;
            let loss = [loss.difference_mnat?, loss.low_mnat?, loss.high_mnat?];
            Some((shape.speed.tokens_per_s_per_gpu, loss, format!("#{}", shape.rank)))
        });
        let mut known: Vec<_> = known.collect();
        known.sort_by(|a, b| a.0.total_cmp(&b.0));
        let middles = || known.iter().map(|(x, [middle, ..], _)| (*x, *middle));
        let front = self.pareto_front.iter();
        let front = front.filter_map(|point| Some((point.tokens_per_s_per_gpu, point.loss.difference_mnat?)));
        let baseline = &self.baseline;
        let first = self
            .shapes
            .first()
            .and_then(|shape| Some(shape.speed.tokens_per_s_per_gpu / (1.0 + shape.gain?)));
        let at_equal_parameters = first.unwrap_or(baseline.speed.tokens_per_s_per_gpu);
        Chart {
            title: format!("Throughput and loss of shapes of {}", self.subject()),
            subtitle: format!(
                "{}\nloss over {}'s proportions at equal parameters after {} billion tokens",
                self.workload,
                baseline.shape.name,
                significant(self.request.tokens / 1e9)
            ),
            x: Axis::linear("throughput per GPU", "tokens/s"),
            y: Axis::linear("loss over the baseline", "10^-3 nats"),
            band: Some(Band {
                name: "90 % band".to_owned(),
                points: known.iter().map(|(x, [_, low, high], _)| (*x, *low, *high)).collect(),
            }),
            points: vec![
                Series::new("Pareto front", front),
                Series::new("rank", middles()).labelled(known.iter().map(|(.., label)| label.clone())),
                Series::new("baseline", [(at_equal_parameters, 0.0)]).labelled([baseline.shape.name.clone()]),
            ],
            ..Chart::default()
        }
    }

    fn heading(&self) -> String {
        let request = &self.request;
        let mut lines = Vec::from_iter(self.best());
        lines.push(format!(
            "{} {} parameters within {}{}, vocabulary {}{}, on {}",
            grouped(request.parameters),
            request.count,
            percent(request.tolerance),
            match &self.sizes {
                Some(sizes) => format!(", the best of {} sizes", sizes.points.len()),
                None => String::new(),
            },
            grouped(request.vocab),
            if request.tied_embeddings {
                ", embeddings tied"
            } else {
                ""
            },
            self.gpu
        ));
        lines.push(self.workload.to_string());
        lines.extend(self.server_least_us.map(|least| {
            let server = server_text(&self.framework, least);
            format!("bound by the server: {server}; no shape is faster than another")
        }));
        let by_goal = [Objective::Loss, Objective::TrainTime].contains(&request.objective);
        if by_goal {
            let usd = request
                .budget_usd
                .map(|usd| format!("{} US dollars", grouped(usd.round() as u64)));
            let hours = request.budget_gpu_hours.map(|hours| match hours >= 1000.0 {
                true => format!("{} GPU-hours", grouped(hours.round() as u64)),
                false => format!("{} GPU-hours", significant(hours)),
            });
            let budget = joined(", ", usd.into_iter().chain(hours));
            let of = match request.target_loss_nats {
                _ if !budget.is_empty() => budget,
                Some(nats) => format!("a loss of {nats} nats on the scale of {ABSOLUTE_LAW}"),
                None => format!("{} billion tokens", significant(request.tokens / 1e9)),
            };
            lines.push(format!(
                "objective {} for {of}{}; tokens are throughput times GPU time, one learning rate schedule over all of them",
                request.objective,
                if request.serve.is_some() { " of training and serving" } else { "" },
            ));
        }
        lines.extend(request.serve.as_ref().map(LifeKeys::text));
        for (name, choices) in &request.free {
            if let (Some(least), Some(most)) = (choices.first(), choices.last()) {
                lines.push(format!("free: {name} from {least} to {most} in powers of two"));
            }
        }
        for free in &request.free_attention {
            let varied = match free {
                Free::Linear => format!(
                    "linear attention in a share of {} of the layers",
                    joined(", ", &request.linear_shares)
                ),
                Free::Window => "windows in none, a half, three quarters or five sixths of the layers".to_owned(),
                _ => "latent attention of several ranks, or none".to_owned(),
            };
            lines.push(format!(
                "free: {varied}; the fastest of each is among the shapes as far as `--top` goes"
            ));
        }
        if let Some(size) = self.shapes.iter().find_map(|shape| shape.shape.window) {
            lines.push(format!("a query of a windowed layer sees {} keys", grouped(size)));
        }
        if !request.relaxed.is_empty() {
            lines.push(format!("relaxed: {}", joined(", ", &request.relaxed)));
        }
        lines.join("\n") + "\n"
    }

    /// The first shape, and what it gains or what training it takes.
    fn best(&self) -> Option<String> {
        let first = self.shapes.first()?;
        let shape = format!(
            "best: {} ({} parameters)",
            dimensions(&first.shape),
            billions(first.shape.parameters)
        );
        let Some(outcome) = &first.outcome else {
            let mut gains = vec![format!("{} tokens/s per GPU", tokens(first.speed.tokens_per_s_per_gpu))];
            let name = self.baseline_text();
            gains.extend(
                first
                    .gain
                    .map(|gain| format!("{} over {name} at equal parameters", signed(gain))),
            );
            let whose = first
                .gain
                .map_or_else(|| format!("the GPU time of {name}"), |_| "its GPU time".to_owned());
            let time = first.to_equal_loss.text();
            gains.extend(time.map(|time| format!("{time} {whose} to equal loss")));
            return Some(format!("{shape}: {}{}", gains.join(", "), self.behind_text()));
        };
        let hours = outcome
            .gpu_hours
            .map(|hours| format!(" in {} GPU-hours", significant(hours)));
        let mark = mark(outcome.evidence);
        Some(format!(
            "{shape} after {}B tokens{}{mark}",
            significant(outcome.tokens? / 1e9),
            hours.unwrap_or_default(),
        ))
    }

    /// What gains are over, and what is ranked by.
    fn against(&self) -> String {
        let (request, baseline) = (&self.request, &self.baseline);
        let active = match self.shapes.first().and_then(|shape| shape.shape.experts) {
            Some(_) => "active ",
            None => "",
        };
        let mut lines = vec![match baseline.stands_in {
            false => format!(
                "Gains are over {} ({} parameters, vocabulary {}): {} tokens/s per GPU, MFU {}{}, at equal {active}parameters.",
                baseline.shape.name,
                grouped(baseline.shape.parameters),
                baseline.shape.vocab,
                tokens(baseline.speed.tokens_per_s_per_gpu),
                percent(baseline.speed.mfu),
                if baseline.fits {
                    String::new()
                } else {
                    format!(", {}", bad("does not fit"))
                },
            ),
            true => format!(
                "No published model of this kind, size and vocabulary is built in, so no gain is shown; losses are compared with the shape at the centre of the bounds ({} x {}, {} heads, vocabulary {}).",
                baseline.shape.layers_text(),
                baseline.shape.hidden,
                baseline.shape.heads,
                baseline.shape.vocab,
            ),
        }];
        if request.objective == Objective::EqualLoss {
            lines.push(self.verdict());
        }
        if self.sharded {
            let gpus = self.workload.gpus();
            lines.push(format!(
                "Each shape is timed under its own fastest layout over {} GPU{}, the workload above has the baseline's; `--gpus`, `--global-batch`, `--tp`, `--cp`, `--pp`, `--vp` and `--batch` fix parts of it, `--no-sharding` keeps the ranks that are given.",
                grouped(gpus),
                if gpus == 1 { "" } else { "s" }
            ));
        }
        let recomputed = recompute_text(&self.workload);
        if self.sharded && !recomputed.is_empty() {
            lines.push(format!(
                "The baseline recomputes {recomputed} to fit, which is part of what shapes gain: with more `--gpus` none has to."
            ));
        }
        lines.join("\n") + "\n"
    }

    /// What was looked at, and what the times are based on.
    fn based_on(&self) -> String {
        let search = &self.search;
        let looked = format!(
            "{}: {} evaluations, {} ruled out, of {} shapes in the lattice; stopped: {}{}",
            match search.seed {
                Some(seed) => format!("{}, seed {seed}", search.method),
                None => search.method.to_owned(),
            },
            grouped(search.evaluations),
            grouped(search.refused),
            grouped(search.lattice_shapes),
            search.stopped,
            search.gap.map_or_else(String::new, |gap| format!(
                "; within {} of the fastest of all in random questions, `--exhaustive` looks at all",
                percent(gap)
            ))
        );
        let basis = joined("; ", self.basis.iter().map(Basis::text));
        named_lines(&[
            ("searched", looked),
            ("framework", self.framework.clone()),
            ("based on", basis),
        ])
    }

    /// The sizes that an objective was tried at.
    fn sizes(&self) -> String {
        let Some(sizes) = &self.sizes else {
            return String::new();
        };
        let billions = |count: f64| format!("{}B", significant(count / 1e9));
        let points = sizes.points.iter().map(|point| {
            let name = format!(
                "{} ({} x {})",
                billions(point.parameters as f64),
                point.shape.layers,
                point.shape.hidden
            );
            (name, &point.outcome)
        });
        format!(
            "{}The best size lies between {} and {} parameters in two of three joint draws of throughput and loss; sizes that beat the best in a fifth of them or are less than 5 x 10^-3 nats behind tie with it.\n",
            self.outcome_table("size (shape)", points),
            billions(sizes.parameters_low),
            billions(sizes.parameters_high)
        ) + &self.compute_optimal().unwrap_or_default()
    }

    /// What the size takes over the life that is best for the training alone.
    fn compute_optimal(&self) -> Option<String> {
        let optimal = self.sizes.as_ref()?.compute_optimal.as_ref()?;
        let even = optimal.even_at_tokens.map(|tokens| {
            let served = self.request.serve.as_ref().map_or(1.0, |life| life.tokens);
            format!(
                "; it would cost less below {} billion tokens served, or if serving cost less than {} times as much",
                significant(tokens / 1e9),
                significant(tokens / served)
            )
        });
        Some(format!(
            "Compute-optimal (Chinchilla) for the loss of the first shape below: {} ({} x {}) after {}B tokens, {} GPU-hours of training and {} of serving, {:.2} times its cost over the life{}.\n",
            billions(optimal.parameters),
            optimal.shape.layers,
            optimal.shape.hidden,
            significant(optimal.tokens / 1e9),
            significant(optimal.gpu_hours),
            significant(optimal.serving.gpu_hours),
            optimal.cost_over_best,
            even.unwrap_or_default(),
        ))
    }

    /// What the shapes reach under an objective.
    fn outcomes(&self) -> String {
        if self.shapes.iter().all(|shape| shape.outcome.is_none()) {
            return String::new();
        }
        let shapes = self.shapes.iter().filter_map(|shape| {
            let size = format!("{} ({} x {})", shape.rank, shape.shape.layers, shape.shape.hidden);
            Some((size, shape.outcome.as_ref()?))
        });
        let table = self.outcome_table("rank (shape)", shapes);
        let first = self.shapes.first().and_then(|shape| shape.outcome.as_ref());
        let losses = first.map(|outcome| {
            let each = outcome.loss_nats.iter();
            let each = each.map(|(law, nats)| format!("{nats:.3} by {law}"));
            let what = match outcome.tokens {
                None if self.request.objective == Objective::TrainTime => {
                    "By most laws no number of tokens is enough for a model of this size; a larger one reaches the loss with fewer. \
                     Least loss"
                }
                _ => "Loss",
            };
            format!(
                "{what} of the first, nats per token, each on the scale of its law's data and tokenizer: {}.\n",
                joined(", ", each)
            )
        });
        let serving = first
            .and_then(|outcome| outcome.serving.as_ref())
            .map(ServingKeys::text);
        table + &losses.unwrap_or_default() + &serving.unwrap_or_default()
    }

    fn outcome_table<'a>(&self, what: &str, rows: impl Iterator<Item = (String, &'a OutcomeKeys)>) -> String {
        let is_time = self.request.objective == Objective::TrainTime;
        let behind = if is_time {
            "time behind the best (90 %)"
        } else {
            "behind the best, 10^-3 nats (90 %)"
        };
        let price = match self.request.serve.as_ref().and_then(|life| life.usd_per_gpu_hour) {
            Some(_) => "USD per M tokens",
            None => "GPU-hours per M tokens",
        };
        let headings = [
            left(what),
            right("tokens"),
            right("GPU-hours"),
            right("serving"),
            right("90 %").minor(2),
            right(price),
            left(behind),
            right("beats it"),
            right("best of all"),
            left(""),
        ];
        let rows = rows.map(|(name, outcome)| {
            let value = |behind: f64| match is_time {
                true if behind > OUT_OF_SIGHT => "never".to_owned(),
                true => signed(behind.exp_m1()),
                false => mnat(behind),
            };
            let is_best = outcome.behind == 0.0 && outcome.beats_best == 0.0;
            let serving = outcome.serving.as_ref();
            let ends = serving.map(|one| [one.gpu_hours_low, one.gpu_hours_high].map(significant).join(" to "));
            let price = |serving: &ServingKeys| {
                let usd = serving.engine.usd_per_million_tokens;
                significant(usd.unwrap_or(serving.gpu_hours_per_million_tokens))
            };
            [
                name,
                outcome.tokens.map_or_else(
                    || if is_time { "not reached" } else { "none left" }.to_owned(),
                    |tokens| format!("{}B", significant(tokens / 1e9)),
                ),
                dash(outcome.tokens.and(outcome.gpu_hours).map(significant)),
                serving.map(|one| significant(one.gpu_hours)).unwrap_or_default(),
                ends.unwrap_or_default(),
                serving.map(price).unwrap_or_default(),
                match is_best {
                    true => "best".to_owned(),
                    false if outcome.tokens.is_none() && !is_time => "-".to_owned(),
                    false => format!(
                        "{} ({} to {})",
                        value(outcome.behind),
                        value(outcome.behind_low),
                        value(outcome.behind_high)
                    ),
                },
                percent(outcome.beats_best),
                percent(outcome.wins),
                if outcome.ties { "tie" } else { "" }.to_owned(),
            ]
        });
        filled(headings, rows)
    }

    fn ranking(&self) -> String {
        let split = match self.sharded {
            true => "layout".to_owned(),
            false => joined(" x ", self.split()),
        };
        let mixed = self.shapes.iter().any(|shape| shape.shape.experts.is_some());
        let (width, parameters) = match mixed {
            true => (left("experts x d_ff"), "params (active)"),
            false => (right("d_ff"), "params"),
        };
        let grouped_keys = self.shapes.iter().any(|shape| keys(&shape.shape).is_some());
        let headings = [
            right(""),
            right("tie").minor(8),
            right("layers"),
            right("hidden"),
            right(if grouped_keys { "heads/kv" } else { "heads" }),
            right("head").minor(4),
            width,
            right("vocab").minor(8),
            right(parameters).minor(5),
            right("b").minor(5),
            // A layout is words, which a narrow table wraps.
            if self.sharded { left(&split) } else { right(&split) },
            right("tokens/s per GPU"),
            right("90 %").minor(6),
            right("MFU").minor(7),
            right("memory").minor(4),
            right("gain"),
            right("GPU time to equal loss").minor(1),
            right("90 %").minor(3),
            right("loss, 10^-3 nats (90 %)"),
            left("nearest").minor(9),
        ];
        let rows = self.shapes.iter().map(|shape| {
            let split = match &shape.layout {
                Some(layout) => {
                    let mut parts = vec![layout_text(layout)];
                    let recompute = recompute_text(layout);
                    if !recompute.is_empty() {
                        parts.push(format!("recompute {recompute}"));
                    }
                    parts.join(", ")
                }
                None => joined(" x ", self.split().map(|part| shape.workload[&part])),
            };
            cells(shape, split)
        });
        filled(headings, rows)
    }

    /// What a replica is split into: tensor-parallel ranks, and whatever else is free.
    fn split(&self) -> impl Iterator<Item = Dimension> {
        let free = self.request.free.keys().copied();
        let others = free.filter(|free| !matches!(free, Dimension::Batch | Dimension::Tp));
        std::iter::once(Dimension::Tp).chain(others)
    }

    /// Why the first shape wins, and what to mind about any of them.
    fn reasons(&self) -> String {
        let mut lines = Vec::new();
        let group = |tie| self.shapes.iter().filter(move |shape| shape.tie_group == tie);
        let by_speed = [Objective::EqualLoss, Objective::Throughput];
        if by_speed.contains(&self.request.objective) && group(1).count() > 1 {
            lines.push(format!(
                "= tied with the first: within the uncertainty of the prediction and at most {} slower than the fastest of these. Ties are ordered by {}.",
                percent(MOST_TIED),
                match self.request.objective {
                    Objective::EqualLoss => "the rules that they break, then by loss in steps of 5 x 10^-3 nats, below which losses tie, then by closeness to published models",
                    _ => "speed",
                }
            ));
        }
        if by_speed.contains(&self.request.objective) {
            lines.push(self.fastest_sentence());
        }
        if let Some(first) = self.shapes.first() {
            let parts = first.won.iter();
            let parts = parts.map(|role| format!("{} {}", role.role.replace('_', " "), signed(role.time_change)));
            let named: f64 = first.won.iter().map(|role| role.time_change).sum();
            let rest = first.gain.map(|gain| 1.0 / (1.0 + gain) - 1.0 - named);
            let parts = parts.chain(rest.map(|rest| format!("the rest {}", signed(rest))));
            if self.server_least_us.is_none() {
                lines.push(format!(
                    "How the time of the first differs from the baseline's at equal parameters, in shares of the baseline's step: {}.",
                    joined(", ", parts)
                ));
            }
            lines.push(format!("Rules it meets: {}.", first.rules_met.join(", ")));
            if !first.rules_broken.is_empty() {
                lines.push(format!(
                    "Rules it breaks: {} (`shapewise check` says why).",
                    first.rules_broken.join(", ")
                ));
            }
        }
        if let Some(first) = self.shapes.first().filter(|first| !first.at_limit.is_empty()) {
            let bounds = joined(
                ", ",
                first
                    .at_limit
                    .iter()
                    .map(|(bound, limit)| format!("{bound} {}", significant(*limit))),
            );
            lines.push(format!(
                "The first lies at a limit of the search: {bounds}. `--relax {}` looks further.",
                joined(",", first.at_limit.keys())
            ));
        }
        lines.extend(self.order_lines());
        lines.push(self.loss_sentence());
        let shapes = self.shapes.iter().filter(|shape| shape.loss.recalls_less);
        let ranks = joined(", ", shapes.map(|shape| shape.rank));
        if !ranks.is_empty() {
            lines.push(format!(
                "Warning: fewer layers see all keys in {ranks} than in the baseline: they may recall worse from far back, which a loss does not show."
            ));
        }
        for (rank, why) in &self.no_config {
            lines.push(format!("Warning: shape {rank} has no config.json: {why}."));
        }
        for shape in &self.shapes {
            for outside in &shape.outside_usual {
                let [least, most] = outside.usual;
                let usual = match (least..=most).contains(&outside.value) {
                    true => "not one of the usual values".to_owned(),
                    false => format!("outside the usual {least} to {most}"),
                };
                lines.push(format!(
                    "Warning: shape {} has {} {}, {usual}.",
                    shape.rank,
                    outside.bound,
                    significant(outside.value),
                ));
            }
        }
        lines.join("\n") + "\n"
    }

    fn baseline_text(&self) -> &str {
        match self.baseline.stands_in {
            true => "the centre of the bounds",
            false => &self.baseline.shape.name,
        }
    }

    /// What shapes are held to the baseline by, and how far the best is ahead of it, as a logarithm with the half width of its speed.
    fn ahead(&self) -> (&'static str, Option<(f64, f64)>) {
        let of = |shape: &ShapeKeys| match (shape.to_equal_loss.gpu_time_to_equal_loss, shape.gain) {
            (Some(time), _) => Some((1.0 / time).ln()),
            (None, Some(gain)) if !self.workload.trains() => Some(gain.ln_1p()),
            _ => None,
        };
        let what = match self.workload.trains() {
            true => "GPU time to equal loss",
            false => "throughput",
        };
        let known = self.shapes.iter();
        let known = known.filter_map(|shape| Some((of(shape)?, shape.cost_half_width)));
        (what, known.max_by(|a, b| a.0.total_cmp(&b.0)))
    }

    /// That the baseline is the better one, where it is.
    fn behind_text(&self) -> String {
        match self.ahead() {
            (what, Some((ahead, _))) if ahead < 0.0 && !self.baseline.stands_in && self.server_least_us.is_none() => {
                format!("; {} itself is better in {what}", self.baseline_text())
            }
            _ => String::new(),
        }
    }

    /// Whether anything beats the baseline.
    fn verdict(&self) -> String {
        let name = self.baseline_text();
        let (what, best) = self.ahead();
        let ranked = match self.costs_loss {
            true => {
                format!("No shape was found that costs no loss against {name}; these cost least.")
            }
            false if self.server_least_us.is_some() => {
                return format!("None of these costs loss against {name} at equal parameters.");
            }
            false => format!(
                "Ranked by tokens/s, ties by rules, loss and habit, among shapes whose predicted loss is not above that of {name} at equal parameters; `--objective throughput` ranks by tokens/s alone."
            ),
        };
        match best {
            Some((ahead, _)) if ahead <= 0.0 => {
                format!(
                    "{ranked} Nothing found beats {name} in {what}: the best is {} behind.",
                    percent((-ahead).exp_m1())
                )
            }
            Some((ahead, own)) if ahead <= own => format!(
                "{ranked} {name} is within {} of the best found in {what}, less than the uncertainty of the prediction.",
                percent(ahead.exp_m1())
            ),
            _ => ranked,
        }
    }

    /// The fastest shape by throughput alone, and what it costs.
    fn fastest_sentence(&self) -> String {
        let fastest = &self.fastest;
        let mut costs = vec![format!("{} tokens/s per GPU", tokens(fastest.tokens_per_s_per_gpu))];
        costs.extend(fastest.gain.map(|gain| format!("gain {}", signed(gain))));
        costs.push(format!("loss {} x 10^-3 nats", fastest.loss.cell()));
        let is_known = self.workload.trains() && fastest.loss.difference_mnat.is_some();
        let time = fastest.to_equal_loss.text();
        costs.extend(match fastest.to_equal_loss.is_never {
            false => time.map(|time| format!("{time} the GPU time to equal loss")),
            true => is_known.then(|| "a loss that no more tokens make up for".to_owned()),
        });
        format!(
            "Fastest by tokens/s alone: {}, vocab {}: {}.",
            dimensions(&fastest.shape),
            fastest.shape.vocab,
            costs.join(", ")
        )
    }

    /// What the column of losses means and how far it may be trusted.
    fn loss_sentence(&self) -> String {
        let mut sentence = format!(
            "Loss: 0.001 nat per token over {}'s proportions at equal parameters after {} billion tokens, one learning rate schedule and tokenizer.",
            self.baseline.shape.name,
            significant(self.request.tokens / 1e9)
        );
        if self.workload.trains() {
            sentence += " GPU time to equal loss: that of the baseline's proportions is 1.";
        }
        if let Some(format) = &self.format_loss {
            sentence += &format!(
                " All shapes pay for training in {} alike, {} against 16 bits, which is in no difference.",
                self.workload.linear_dtype(),
                format.cell()
            );
        }
        let reasons = |wanted: Evidence| {
            let all = self.shapes.iter().flat_map(|shape| {
                let of_outcome = shape.outcome.iter().flat_map(|outcome| &outcome.reasons);
                shape.loss.reasons.iter().chain(of_outcome)
            });
            let names = all.filter(|reason| reason.evidence() == wanted);
            let names: BTreeSet<&str> = names.map(|reason| reason.words()).collect();
            (!names.is_empty()).then(|| joined(", ", names))
        };
        for (evidence, text) in [
            (
                Evidence::Extrapolated,
                " * extrapolated beyond the runs that the laws were fitted to",
            ),
            (
                Evidence::None,
                " ** without a part that has never been measured, of which throughput alone decides",
            ),
            (Evidence::Refused, " Refused"),
        ] {
            if let Some(names) = reasons(evidence) {
                sentence += &format!("{text}: {names}.");
            }
        }
        sentence
    }

    /// Labels every n-th point of the front, so that labels do not overlap.
    fn every_shown(&self) -> usize {
        self.pareto_front.len().div_ceil(SHOWN).max(1)
    }

    /// What the same search finds on other GPUs and in other formats.
    fn elsewhere(&self) -> String {
        if self.elsewhere.is_empty() {
            return String::new();
        }
        let headings = [
            left("elsewhere"),
            left("format"),
            left("best shape"),
            right("tokens/s per GPU"),
            right("MFU").minor(1),
            right("memory").minor(2),
            right("gain"),
            right("loss, 10^-3 nats (90 %)"),
            left("format's loss, 10^-3 nats (90 %)").minor(3),
        ];
        let rows = self.elsewhere.iter().map(|place| {
            let Some(best) = &place.best else {
                let refused = place.refused.as_deref().unwrap_or_default();
                return row![place.gpu, place.dtype, refused, "-", "-", "-", "-", "-", "-"];
            };
            row![
                place.gpu,
                place.dtype,
                dimensions(&best.shape),
                tokens(best.tokens_per_s_per_gpu),
                percent(best.mfu),
                best.memory_bytes,
                gain_text(best.gain),
                best.loss.cell(),
                dash(best.format_loss.as_ref().map(LossKeys::cell)),
            ]
        });
        table(headings, rows)
    }

    fn front(&self) -> String {
        let headings = [
            left("Pareto front"),
            right("tokens/s per GPU"),
            right("memory").minor(1),
            right("loss, 10^-3 nats (90 %)"),
            right("from centre").minor(2),
        ];
        let points = self.pareto_front.iter().step_by(self.every_shown());
        let shown = points.map(|point| {
            row![
                format!("{}, vocab {}", dimensions(&point.shape), point.shape.vocab),
                tokens(point.tokens_per_s_per_gpu),
                point.memory_bytes,
                point.loss.cell(),
                format!("{:.2}", point.centre_distance),
            ]
        });
        table(headings, shown)
    }
}

impl LifeKeys {
    fn text(&self) -> String {
        let prices = match self.usd_per_gpu_hour {
            Some([training, serving]) => {
                format!("a GPU-hour of training costs {training} USD, one of serving {serving}")
            }
            None => "GPU-hours of training and serving cost the same (`--usd-per-gpu-hour`)".to_owned(),
        };
        format!(
            "served after it: {}B tokens generated in {} on {}, {} to a prompt of {}; {prices}",
            significant(self.tokens / 1e9),
            self.format,
            self.gpu,
            grouped(self.output),
            grouped(self.prompt),
        )
    }
}

impl ServingKeys {
    fn text(&self) -> String {
        let engine = &self.engine;
        let work = &engine.workload;
        let kept = |probability: Option<f64>| {
            probability.map_or_else(String::new, |kept| format!(" (kept with {})", percent(kept)))
        };
        let latency = engine.request.as_ref().map(|request| {
            format!(
                "first token after {} ms{}, each further one after {} ms{}",
                significant(request.ttft_us.millis()),
                kept(request.ttft_kept_probability),
                significant(request.tpot_us.unwrap_or_default().millis()),
                kept(request.tpot_kept_probability),
            )
        });
        let usd = self
            .usd_with_training
            .map(|usd| format!("; training and serving cost {} USD", significant(usd)));
        format!(
            "Engines of the first: {}, {} requests in flight each, {} tokens/s per GPU, {}{}.\n",
            layout_text(work),
            engine
                .request
                .as_ref()
                .map_or_else(String::new, |request| grouped(request.in_flight)),
            tokens(engine.tokens_per_s_per_gpu),
            latency.unwrap_or_default(),
            usd.unwrap_or_default()
        )
    }
}

fn gain_text(gain: Option<f64>) -> String {
    dash(gain.map(|gain| match gain < 0.0 {
        true => bad(&signed(gain)),
        false => good(&signed(gain)),
    }))
}

impl EqualLossKeys {
    /// `0.93 times (0.88 to 1.04)`.
    fn text(&self) -> Option<String> {
        let time = self.gpu_time_to_equal_loss?;
        Some(format!("{} times ({})", ratio(time), self.interval()?))
    }

    /// `0.93`; empty where no law says it.
    fn cell(&self) -> String {
        match self.is_never {
            true => "never".to_owned(),
            false => self.gpu_time_to_equal_loss.map(ratio).unwrap_or_default(),
        }
    }

    /// `0.88 to 1.04`.
    fn interval(&self) -> Option<String> {
        let high = self.gpu_time_to_equal_loss_high;
        let high = high.map_or_else(|| "never".to_owned(), ratio);
        Some(format!("{} to {high}", ratio(self.gpu_time_to_equal_loss_low?)))
    }
}

/// `0.93`.
fn ratio(value: f64) -> String {
    format!("{value:.2}")
}

fn cells(shape: &ShapeKeys, split: String) -> [String; 20] {
    let (arch, speed) = (&shape.shape, &shape.speed);
    let gpus = speed.tokens_per_s / speed.tokens_per_s_per_gpu;
    let ties = shape.outcome.is_none() && shape.tie_group == 1 && shape.rank > 1;
    let mark = if ties { "=" } else { "" };
    row![
        format!("{mark}{}", shape.rank),
        shape.tie_group,
        arch.layers_text(),
        arch.hidden,
        match keys(arch) {
            Some(keys) => format!("{}/{keys}", arch.heads),
            None => arch.heads.to_string(),
        },
        arch.head_dim,
        arch.inner_width(),
        arch.vocab,
        match arch.active_parameters {
            Some(active) => format!("{} ({})", billions(arch.parameters), billions(active)),
            None => billions(arch.parameters),
        },
        shape.workload[&Dimension::Batch],
        split,
        tokens(speed.tokens_per_s_per_gpu),
        format!(
            "{} to {}",
            tokens(speed.tokens_per_s_low / gpus),
            tokens(speed.tokens_per_s_high / gpus)
        ),
        percent(speed.mfu),
        speed.memory_bytes,
        gain_text(shape.gain),
        shape.to_equal_loss.cell(),
        shape.to_equal_loss.interval().unwrap_or_default(),
        shape.loss.cell(),
        shape.nearest_model,
    ]
}

impl LossKeys {
    /// `+3.1 (-2.0 to +14)`, with a star where it is extrapolated and two where a part is missing.
    fn cell(&self) -> String {
        let (Some(middle), Some(low), Some(high)) = (self.difference_mnat, self.low_mnat, self.high_mnat) else {
            return "refused".to_owned();
        };
        let mark = mark(self.evidence);
        let [middle, low, high] = [middle, low, high].map(mnat);
        format!("{middle} ({low} to {high}){mark}")
    }
}

/// A star where figures are extrapolated, and two where a part is missing.
const fn mark(evidence: Evidence) -> &'static str {
    match evidence {
        Evidence::Inside | Evidence::Refused => "",
        Evidence::Extrapolated => " *",
        Evidence::None => " **",
    }
}

/// `31 layers of 4096, 32 heads (8 kv) of 128, d_ff 10880`.
fn dimensions(shape: &ArchitectureShape) -> String {
    let kv = match shape.kv_lora_rank {
        None => keys(shape).map_or_else(String::new, |keys| format!(" ({keys} kv)")),
        Some(rank) => format!(" (latent {rank})"),
    };
    format!(
        "{} layers of {}, {} heads{kv} of {}, d_ff {}",
        shape.layers_text(),
        shape.hidden,
        shape.heads,
        shape.head_dim,
        shape.inner_width(),
    )
}

/// A difference in 10^-3 nats: `-21`, `+4.6`.
fn mnat(difference: f64) -> String {
    format!("{difference:+.*}", if difference.abs() < 9.95 { 1 } else { 0 })
}

/// Key/value heads, where they are not as many as heads.
fn keys(shape: &ArchitectureShape) -> Option<String> {
    (shape.kv_heads != shape.heads).then(|| shape.keys_text())
}

/// `6.7B`.
fn billions(parameters: u64) -> String {
    format!("{}B", significant(parameters as f64 / 1e9))
}
