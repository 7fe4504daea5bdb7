//! A predicted step as people read it: one line per role, then the sums.

use crate::predict::estimate::Tier;
use crate::report::Basis;
use crate::report::Report;
use crate::report::grouped;
use crate::report::percent;
use crate::report::step::StepLine;
use crate::report::step::StepReport;
use crate::report::table::Side;
use crate::report::table::table;
use crate::report::tier_shares_text;
use crate::report::tokens;
use crate::units::Bytes;
use crate::units::Seconds;
use crate::units::significant;

impl Report for StepReport {
    fn text(&self) -> String {
        format!(
            "{}\n{}\n{}",
            self.heading(),
            self.operators(),
            self.summary()
        )
    }
}

impl StepReport {
    fn heading(&self) -> String {
        let basis: Vec<_> = self.basis.iter().map(Basis::text).collect();
        format!(
            "{} ({} parameters) on {} ({})\n{}\nbased on {}\n",
            self.model,
            grouped(self.parameters),
            self.gpu_title,
            self.gpu,
            self.workload,
            if basis.is_empty() {
                "a roofline, nothing learned".to_owned()
            } else {
                basis.join("; ")
            }
        )
    }

    fn operators(&self) -> String {
        let headings = [
            ("role", Side::Left),
            ("shape", Side::Left),
            ("count", Side::Right),
            ("time", Side::Right),
            ("share", Side::Right),
            ("TFLOP/s", Side::Right),
            ("tier", Side::Left),
        ];
        table(headings, merged(&self.lines).iter().map(Merged::cells))
    }

    fn summary(&self) -> String {
        let [time, low, high] = [self.time_us, self.low_us, self.high_us].map(Seconds::from_micros);
        let (unit, gpus) = if self.gpus_per_replica > 1 {
            ("per replica", format!(" of {} GPUs", self.gpus_per_replica))
        } else {
            ("per GPU", String::new())
        };
        let memory = &self.memory;
        let parts: Vec<_> = memory
            .largest()
            .iter()
            .map(|(name, bytes)| format!("{} {bytes}", name.replace('_', " ")))
            .collect();
        let tiers = tier_shares_text(&self.tier_shares);
        let mut lines = vec![
            ("step", format!("{time}   (90 %: {low} to {high})")),
            (
                "tokens/s",
                format!(
                    "{} {unit}{gpus}   (90 %: {} to {})",
                    tokens(self.tokens_per_s),
                    tokens(self.tokens_per_s_low),
                    tokens(self.tokens_per_s_high)
                ),
            ),
            ("MFU", percent(self.mfu)),
            (
                "memory",
                format!(
                    "{} of {} per GPU: {} ({})",
                    Bytes::from_bytes(memory.memory_bytes),
                    Bytes::from_bytes(memory.capacity_bytes),
                    if memory.fits { "fits" } else { "DOES NOT FIT" },
                    parts.join(", ")
                ),
            ),
            ("tiers", tiers),
        ];
        lines.extend(self.caveats.iter().map(|caveat| {
            let share = percent(caveat.time_share);
            (
                "caveat",
                format!("{share} of the time: {}", caveat.warning.text),
            )
        }));
        lines.extend(self.notes.iter().map(|note| ("note", note.clone())));
        lines
            .iter()
            .map(|(name, value)| format!("{name:<9} {value}\n"))
            .collect()
    }
}

/// Lines of one role and kind, all phases together; the shape is that of the first one.
struct Merged<'a> {
    first: &'a StepLine,
    count: u64,
    time: Seconds,
    share: f64,
    flops: f64,
    tiers: Vec<Tier>,
}

/// One line per role and kind, in order of first execution.
fn merged(lines: &[StepLine]) -> Vec<Merged<'_>> {
    let mut all: Vec<Merged<'_>> = Vec::new();
    for line in lines {
        let known = all
            .iter_mut()
            .find(|other| (other.first.role, other.first.kind) == (line.role, line.kind));
        let merged = match known {
            Some(merged) => merged,
            None => {
                all.push(Merged {
                    first: line,
                    count: 0,
                    time: Seconds::ZERO,
                    share: 0.0,
                    flops: 0.0,
                    tiers: Vec::new(),
                });
                all.last_mut().expect("just pushed")
            }
        };
        merged.count += line.count;
        merged.time += Seconds::from_micros(line.time_us);
        merged.share += line.share;
        merged.flops += line.flops;
        if !merged.tiers.contains(&line.tier) {
            merged.tiers.push(line.tier);
            merged.tiers.sort_unstable();
        }
    }
    all
}

impl Merged<'_> {
    fn cells(&self) -> [String; 7] {
        let rate = self.flops / self.time.secs() / 1e12;
        let tiers: Vec<_> = self.tiers.iter().map(|tier| tier.name()).collect();
        [
            self.first.role.to_owned(),
            self.first.shown.clone(),
            self.count.to_string(),
            self.time.to_string(),
            percent(self.share),
            if self.first.kind.computes() {
                significant(rate)
            } else {
                "-".to_owned()
            },
            tiers.join(", "),
        ]
    }
}
