//! A sweep as a table for other programs: one line per point, units in the heading.

use crate::predict::estimate::Tier;
use crate::report::sweep::SweepReport;
use std::fmt::Write;

impl SweepReport {
    /// Every predicted point, then every measured one with the tier `measured` and no interval. A step comes from
    /// several tiers, so its lines have the share of each.
    pub fn csv(&self) -> String {
        let model = self.is_model();
        let (before, rate, after) = if model {
            (
                "head_dim,parameters,",
                "tokens_per_s",
                format!(
                    "mfu,bandwidth_fraction,memory_bytes,fits,{}",
                    Tier::ALL.map(share_of).join(",")
                ),
            )
        } else {
            ("", "tflops_per_s", "waves,tier".to_owned())
        };
        let mut text = format!(
            "{},alignment,{before}time_us,low_us,high_us,{rate},{rate}_low,{rate}_high,{after}\n",
            self.dimension
        );
        for point in &self.points {
            let alignment = point.alignment.map_or(String::new(), |of| of.to_string());
            let [low, rate, high] = point.rates();
            let (before, after) = match &point.model {
                Some(model) => (
                    format!("{},{},", model.head_dim, model.parameters),
                    format!(
                        "{},{},{},{},{}",
                        model.mfu,
                        model.bandwidth_fraction,
                        model.memory_bytes,
                        model.fits,
                        Tier::ALL.map(|tier| model.tier_shares[&tier].to_string()).join(",")
                    ),
                ),
                None => (
                    String::new(),
                    format!(
                        "{},{}",
                        point.waves.map_or(String::new(), |waves| waves.to_string()),
                        point.tier
                    ),
                ),
            };
            write_line(
                &mut text,
                format_args!(
                    "{},{alignment},{before}{},{},{},{rate},{low},{high},{after}",
                    point.value, point.time_us, point.low_us, point.high_us
                ),
            );
        }
        for point in &self.measured {
            let alignment = 1u64 << point.value.trailing_zeros().min(63);
            write_line(
                &mut text,
                format_args!(
                    "{},{alignment},{},,,{},,,,measured",
                    point.value, point.time_us, point.tflops_per_s
                ),
            );
        }
        text
    }
}

/// `learned_share`.
fn share_of(tier: Tier) -> String {
    format!("{tier}_share")
}

fn write_line(text: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(text, "{line}").expect("a text takes every line");
}
