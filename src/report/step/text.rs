//! A predicted step as people read it: one line per role, then the sums.

use super::{MemoryKeys, RemedyKeys, RestLine, SharedWarning, StepLine, StepReport};
use crate::arch::{MemoryVerdict, Phase, Workload};
use crate::plan::MOST_REMEDY_GPUS;
use crate::predict::estimate::Tier;
use crate::report::plot::Chart;
use crate::report::table::{bad, dash, doubtful, left, right, row, table};
use crate::report::{Report, based_on, grouped, joined, named_lines, percent, tier_shares_text, time_text, tokens};
use crate::units::{BytesPerSecond, Flops, Seconds, significant};
use serde_json::Value;

/// HFU over MFU from which the step executes so much more than the model that both are worth a line.
const EXECUTES_MORE: f64 = 1.15;

impl Report for StepReport {
    const LISTS: &'static [&'static str] = &["lines"];

    fn drawn(&self) -> Option<Chart> {
        Some(self.roofline())
    }

    fn page(&self) -> String {
        format!("{}\n{}\n{}", self.answer(), self.operators(), self.summary())
    }
}

impl StepReport {
    /// The notes of one label, as lines.
    fn notes_on(&self, label: &str) -> impl Iterator<Item = (&'static str, String)> {
        let notes = self.notes.iter().filter(move |note| note.label == label);
        notes.map(|note| (note.label, note.text.clone()))
    }

    /// The options under which the step fits, those that keep its format first.
    fn remedies(&self) -> Vec<(&'static str, String)> {
        let MemoryKeys { remedy, shorter, .. } = &self.memory;
        let mut all: Vec<_> = [remedy, shorter].into_iter().flatten().collect();
        let format = |workload: &Workload| (workload.dtype, workload.recipe);
        all.sort_by_key(|one| format(&one.workload) != format(&self.workload));
        let mut lines: Vec<_> = all.iter().map(|one| ("remedy", self.remedy_text(one))).collect();
        if remedy.is_none() {
            let none = format!(
                "no format, loss, ZeRO stage, micro-batch, recomputation, optimizer, offload or ranks that {} runs fit, up to {} GPUs",
                self.framework.name,
                grouped(MOST_REMEDY_GPUS)
            );
            lines.push(("remedy", none));
        }
        lines
    }

    /// The options of a workload that fits.
    fn remedy_text(&self, remedy: &RemedyKeys) -> String {
        let keys = |workload: &Workload| match serde_json::to_value(workload) {
            Ok(Value::Object(keys)) => keys,
            _ => unreachable!("a workload is an object"),
        };
        let (before, after) = (keys(&self.workload), keys(&remedy.workload));
        let changed = after.into_iter().filter(|(key, value)| before.get(key) != Some(value));
        let options = changed.map(|(key, value)| {
            let option = key.replace('_', "-");
            match value {
                Value::Bool(_) => format!("--{option}"),
                Value::String(name) => format!("--{option} {name}"),
                number => format!("--{option} {number}"),
            }
        });
        format!(
            "`{}` fits: {} per GPU on {} GPU{}",
            joined(" ", options),
            remedy.memory_bytes,
            grouped(remedy.gpus),
            if remedy.gpus > 1 { "s" } else { "" }
        )
    }

    /// `91 % kernels, 6.0 % exposed traffic`.
    fn lanes_text(&self) -> String {
        let shown = self.lanes.iter().filter(|(_, lane)| lane.share > 0.0005);
        let shown = shown.map(|(lane, keys)| format!("{} {}", percent(keys.share), lane.name().replace('_', " ")));
        joined(", ", shown)
    }

    /// How attention counts in the MFU, where it counts.
    fn convention(&self) -> String {
        let square = self.mfu_full_attention;
        match square / self.mfu {
            ratio if ratio < 1.005 => String::new(),
            _ if square > 1.0 => "the causal half of attention, ".to_owned(),
            _ => format!(
                "the causal half of attention, {} as published with all of it; ",
                percent(square)
            ),
        }
    }

    fn operators(&self) -> String {
        let headings = [
            left("role"),
            left("shape"),
            right("count"),
            right("time"),
            right("share"),
            right("TFLOP/s").minor(1),
            left("tier"),
        ];
        let rest = self.rest.iter().map(RestLine::cells);
        table(headings, merged(&self.lines).iter().map(Merged::cells).chain(rest))
    }

    /// Whether the interval spans frameworks, as none was named.
    fn is_of_any_framework(&self) -> bool {
        self.framework.assumed && self.workload.trains()
    }

    /// What was asked, how long it takes, and whether it fits.
    fn answer(&self) -> String {
        let trained = self.trained_parameters;
        let trained = trained.map_or_else(String::new, |count| format!(", {} trained", grouped(count)));
        let (unit, gpus) = if self.gpus_per_replica > 1 {
            ("per replica", format!(" of {} GPUs", self.gpus_per_replica))
        } else {
            ("per GPU", String::new())
        };
        let mut lines: Vec<_> = self.notes_on("model").collect();
        let mut time = time_text(self.time_us, self.low_us, self.high_us);
        if self.is_of_any_framework() {
            time += &format!(
                " of {}, with the interval of any framework; `--framework` names yours",
                self.framework.name
            );
        }
        lines.push(("step", time));
        if let Some(speculation) = self.speculation {
            let shown = format!(
                "{}: {} a step, {} of {} drafts being kept; drafting takes {} of the time",
                speculation.time_per_token_us,
                significant(speculation.tokens_per_step),
                speculation.acceptance,
                self.workload.speculate,
                percent(speculation.draft_share),
            );
            lines.push(("token", shown));
        }
        let rate = format!(
            "{} {unit}{gpus}   (90 %: {} to {})",
            tokens(self.tokens_per_s),
            tokens(self.tokens_per_s_low),
            tokens(self.tokens_per_s_high)
        );
        lines.push(("tokens/s", rate));
        if self.gpus > 1 {
            let each = tokens(self.tokens_per_s_per_gpu);
            let all = tokens(self.tokens_per_s_of_all_gpus);
            lines.push(("", format!("{each} per GPU, {all} on all {} GPUs", grouped(self.gpus))));
        }
        lines.extend(self.notes_on("idle"));
        lines.extend(
            self.run
                .map(|run| ("run", format!("{}; `plan` chooses the tokens of a step", run.text()))),
        );
        lines.extend(self.usd_per_million_tokens.map(|usd| {
            let shown = format!("{} USD for a million tokens", significant(usd));
            ("cost", shown)
        }));
        let memory = &self.memory;
        let parts = memory.largest().into_iter();
        let parts = parts.map(|(name, bytes)| format!("{} {bytes}", name.replace('_', " ")));
        let shown = format!(
            "{} of {} per GPU: {} ({})",
            memory.memory_bytes,
            memory.capacity_bytes,
            match memory.verdict {
                MemoryVerdict::Fits => "fits".to_owned(),
                MemoryVerdict::Tight => doubtful("tight, an allocator usually takes more"),
                MemoryVerdict::DoesNotFit => bad("DOES NOT FIT beside driver and libraries"),
            },
            joined(", ", parts)
        );
        match memory.fits {
            true => lines.push(("memory", shown)),
            // The rate of a step that does not run comes second.
            false => drop(lines.splice(..0, [("memory", shown)].into_iter().chain(self.remedies()))),
        }
        lines.extend(self.notes_on("weights"));
        lines.push(("framework", self.framework.short()));
        format!(
            "{} ({} parameters{trained}) on {}\n{}\n{}",
            self.model,
            grouped(self.parameters),
            self.gpu,
            self.workload,
            named_lines(&lines)
        )
    }

    /// What the time is made of, and what it is based on.
    fn summary(&self) -> String {
        let shown = format!(
            "{} (model FLOPs: {}no recomputation; dense peak of {})",
            percent(self.mfu),
            self.convention(),
            self.workload.dtype
        );
        let mut lines = vec![("MFU", shown)];
        if self.hfu > EXECUTES_MORE * self.mfu {
            let shown = format!("{} (executed FLOPs, recomputation too)", percent(self.hfu));
            lines.push(("HFU", shown));
        }
        lines.push(("time", self.lanes_text()));
        if let Some(offload) = self.offload {
            let gigabytes = |rate: BytesPerSecond| significant(rate.bytes_per_sec() * 1e-9);
            let shown = format!(
                "{} of host memory per GPU over {} GB/s, Adam at up to {} GB/s of it; one published run says how ranks share a CPU",
                offload.kept_bytes,
                gigabytes(offload.host_bandwidth_bytes_per_s),
                gigabytes(offload.host_memory_bandwidth_bytes_per_s),
            );
            lines.push(("offload", shown));
        }
        lines.push(("framework", self.framework.text(self.gpus > 1)));
        lines.push(("based on", based_on(&self.basis)));
        lines.push(("tiers", tier_shares_text(self.tier_shares)));
        let of_one = match self.is_of_any_framework() {
            true => format!("; of {} alone, whose interval is another", self.framework.name),
            false => String::new(),
        };
        let evidence = self.framework.evidence.clone();
        lines.extend(evidence.map(|evidence| ("runs", evidence + &of_one)));
        lines.extend(SharedWarning::lines(&self.caveats));
        lines.extend(self.notes_on("note"));
        named_lines(&lines)
    }
}

/// Lines of one role and kind, all phases together; the shape is that of the first one.
struct Merged<'a> {
    first: &'a StepLine,
    count: u64,
    time: Seconds,
    share: f64,
    flops: Flops,
    tiers: Vec<Tier>,
    /// Of its forward products.
    shapes: Vec<String>,
}

/// One line per role and kind, in order of first execution.
fn merged(lines: &[StepLine]) -> Vec<Merged<'_>> {
    let mut all: Vec<Merged<'_>> = Vec::new();
    for line in lines {
        let known = all.iter_mut().find(|other| other.merges(line));
        let merged = match known {
            Some(merged) => merged,
            None => {
                all.push(Merged {
                    first: line,
                    count: 0,
                    time: Seconds::ZERO,
                    share: 0.0,
                    flops: Flops::ZERO,
                    tiers: Vec::new(),
                    shapes: Vec::new(),
                });
                all.last_mut().expect("just pushed")
            }
        };
        let is_forward = line.phase == merged.first.phase && line.kind().computes();
        let shape = line.op.0.to_string();
        if is_forward && !merged.shapes.contains(&shape) {
            merged.shapes.push(shape);
        }
        merged.count += line.count;
        merged.time += line.time_us;
        merged.share += line.share;
        merged.flops += line.flops;
        if !merged.tiers.contains(&line.tier) {
            merged.tiers.push(line.tier);
            merged.tiers.sort_unstable();
        }
    }
    all
}

impl RestLine {
    fn cells(&self) -> [String; 7] {
        row![self.role, "-", "-", self.time_us, percent(self.share), "-", "-"]
    }
}

impl Merged<'_> {
    /// Whether a line is one with it: all drafts are, and so is what has one role and kind.
    fn merges(&self, line: &StepLine) -> bool {
        let drafts = [self.first, line].map(|line| line.phase == Phase::Draft);
        match drafts {
            [true, true] => true,
            [false, false] => (self.first.role, self.first.kind()) == (line.role, line.kind()),
            _ => false,
        }
    }

    fn cells(&self) -> [String; 7] {
        let rate = || significant((self.flops / self.time).flops_per_sec() / 1e12);
        let computes = self.first.kind().computes() && self.time > Seconds::ZERO;
        row![
            match self.first.phase {
                Phase::Draft => Phase::Draft.name(),
                _ => self.first.role,
            },
            match self.shapes.len() {
                0 | 1 => self.first.op.0.to_string(),
                shapes => format!("{} and {} more", self.first.op.0, shapes - 1),
            },
            self.count,
            self.time,
            percent(self.share),
            dash(computes.then(rate)),
            joined(", ", &self.tiers),
        ]
    }
}
