//! The answer to `predict gemm` and `predict attention`.

use crate::check::{Faster, Limit, Limits};
use crate::gpu::Gpu;
use crate::ops::{Dtype, Gemm, Op};
use crate::predict::estimate::{Bound, Estimate, Tier};
use crate::report::shape::Shape;
use crate::report::{Basis, NamedGpu, Report, Warning, joined, named_lines, percent, time_text};
use crate::tiles::{Tile, Waves};
use crate::units::{Bytes, Flops, Seconds, significant};
use serde::Serialize;
use utoipa::ToSchema;

/// Whole numbers up to here are exact.
const COUNTABLE: f64 = (1_u64 << 53) as f64;

/// One predicted operator.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct OperatorReport {
    gpu: NamedGpu,
    op: Shape,
    basis: Option<Basis>,
    time_us: Seconds,
    low_us: Seconds,
    high_us: Seconds,
    flops: Flops,
    bytes: Bytes,
    tflops_per_s: f64,
    gigabytes_per_s: f64,
    peak_fraction: f64,
    bandwidth_fraction: f64,
    intensity_flops_per_byte: f64,
    bound: Bound,
    /// What it loses most of its time to, or waits for where it loses none; none in lists of operators.
    #[serde(skip_serializing_if = "Option::is_none")]
    bound_by: Option<Limit>,
    /// The sizes behind that loss.
    #[serde(skip_serializing_if = "String::is_empty")]
    bound_detail: String,
    /// Near sizes that are predicted faster, the greatest loss first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    faster: Vec<Faster>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waves: Option<WaveCount>,
    tier: Tier,
    caveats: Vec<Warning>,
    /// What the model that was asked does not know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

/// Many predicted operators.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct OperatorsReport {
    /// In the order of the question.
    pub ops: Vec<OperatorReport>,
}

/// `n = 11008 takes 477.2 us (2.9 times as fast)`.
pub(super) fn faster_text(near: &Faster) -> String {
    let head = near.changes.iter().find(|change| change.size == "head_dim");
    let sizes: Vec<_> = near
        .changes
        .iter()
        // Values of the same width as keys change alike.
        .filter(|change| change.size != "value_dim" || head.is_none_or(|head| head.to != change.to))
        .map(|change| format!("{} = {}", change.size, change.to))
        .collect();
    let takes = if sizes.len() > 1 { "take" } else { "takes" };
    // A smaller operator is faster in any case, and a larger one may be at its rate alone.
    let gain = match near.rate_factor >= near.factor && near.factor > 1.0 {
        true => format!("{:.2} times as fast", near.factor),
        false => format!("{:.2} times the FLOP/s", near.rate_factor),
    };
    format!("{} {takes} {} ({gain})", joined(", ", sizes), near.time)
}

/// How a GEMM fills the GPU in tiles of 128 x 256.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, ToSchema)]
struct WaveCount {
    tile_m: u64,
    tile_n: u64,
    tiles: u64,
    waves: f64,
    tile_fill: f64,
    last_wave_fill: f64,
}

impl OperatorReport {
    /// Describes the estimate of `op` on `gpu`.
    pub fn new(gpu: &Gpu, op: &Op, estimate: &Estimate, basis: Option<Basis>) -> Self {
        let (flops, bytes) = (op.flops(), op.bytes());
        let peak = op.dtype().map(|dtype| gpu.nearest_peak(dtype));
        let rate = flops / estimate.time;
        let traffic = bytes / estimate.time;
        Self {
            gpu: gpu.into(),
            op: Shape::from(op),
            basis,
            time_us: estimate.time,
            low_us: estimate.low(),
            high_us: estimate.high(),
            flops,
            bytes,
            tflops_per_s: rate.flops_per_sec() / 1e12,
            gigabytes_per_s: traffic.bytes_per_sec() / 1e9,
            peak_fraction: peak.map_or(0.0, |peak| rate / peak),
            bandwidth_fraction: traffic / gpu.bandwidth(),
            intensity_flops_per_byte: flops.flops() / bytes.bytes(),
            bound: Bound::of(op, gpu),
            bound_by: None,
            bound_detail: String::new(),
            faster: Vec::new(),
            waves: match op {
                Op::Gemm(gemm) => WaveCount::of(gemm, gpu),
                _ => None,
            },
            tier: estimate.tier,
            caveats: estimate.caveats.iter().map(Warning::from).collect(),
            notes: Vec::new(),
        }
    }

    /// The same with what bounds the operator.
    #[must_use]
    pub fn with_limits(mut self, limits: &Limits) -> Self {
        self.bound_by = Some(limits.bound_by);
        self.bound_detail.clone_from(&limits.detail);
        self.faster = limits.faster.clone().unwrap_or_default();
        self
    }

    /// What bounds the operator, in words.
    pub(super) fn bound_text(&self) -> String {
        let ideal = format!(
            "{} ({} FLOPs per byte)",
            self.bound.text(),
            significant(self.intensity_flops_per_byte)
        );
        match self.bound_by {
            Some(limit) if !self.bound_detail.is_empty() => {
                format!("{limit}: {}; an ideal kernel by {ideal}", self.bound_detail)
            }
            _ => ideal,
        }
    }

    /// The same with what the model that was asked does not know.
    #[must_use]
    pub fn with_note(mut self, note: Option<String>) -> Self {
        self.notes.extend(note);
        self
    }
}

impl WaveCount {
    /// `None` if the blocks are too many to be counted.
    fn of(gemm: &Gemm, gpu: &Gpu) -> Option<Self> {
        let waves = Waves::new(gemm, Tile::LARGE, gpu.sm_count() as f64);
        (waves.blocks < COUNTABLE).then(|| Self {
            tile_m: Tile::LARGE.rows,
            tile_n: Tile::LARGE.columns,
            tiles: waves.blocks as u64,
            waves: waves.waves(),
            tile_fill: waves.tile_fill(),
            last_wave_fill: waves.last_wave_fill(),
        })
    }

    fn text(&self) -> String {
        format!(
            "{} waves of {}x{} tiles ({} tiles, {} full; last wave {} full)",
            significant(self.waves),
            self.tile_m,
            self.tile_n,
            self.tiles,
            percent(self.tile_fill),
            percent(self.last_wave_fill)
        )
    }
}

impl Report for OperatorsReport {
    const LISTS: &'static [&'static str] = &["ops"];

    fn page(&self) -> String {
        let texts: Vec<_> = self.ops.iter().map(Report::page).collect();
        texts.join("\n")
    }
}

impl Report for OperatorReport {
    fn page(&self) -> String {
        let mut lines = vec![
            ("on", self.gpu.to_string()),
            ("time", time_text(self.time_us, self.low_us, self.high_us)),
            (
                "rate",
                format!(
                    "{} TFLOP/s, {} of the {} peak; {} GB/s, {} of the bandwidth{}",
                    significant(self.tflops_per_s),
                    percent(self.peak_fraction),
                    match self.op.0.dtype().and_then(Dtype::dense) {
                        Some(_) => "sparse",
                        None => "dense",
                    },
                    significant(self.gigabytes_per_s),
                    percent(self.bandwidth_fraction),
                    if self.bandwidth_fraction > 1.0 {
                        " of the memory (operands that stay in the L2 cache are not read from it)"
                    } else {
                        ""
                    }
                ),
            ),
            ("bound by", self.bound_text()),
        ];
        lines.extend(self.faster.iter().map(|near| ("faster", faster_text(near))));
        lines.extend(self.waves.map(|waves| ("fill", waves.text())));
        lines.push(("tier", self.tier.to_string()));
        lines.extend(self.basis.iter().map(|basis| ("based on", basis.text())));
        lines.extend(self.caveats.iter().map(|warning| ("caveat", warning.text.to_owned())));
        lines.extend(self.notes.iter().map(|note| ("note", note.clone())));
        let lines = named_lines(&lines);
        let body: String = lines.lines().map(|line| format!("  {line}\n")).collect();
        format!("{}\n{body}", self.op.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{Dtype, Layout};
    use crate::predict::estimate::{Caveat, Caveats};

    fn report(m: u64, n: u64, k: u64, time: Seconds) -> OperatorReport {
        let op = Op::Gemm(Gemm {
            m,
            n,
            k,
            batch: 1,
            layout: Layout::Tn,
            dtype: Dtype::Bf16,
        });
        let mut caveats = Caveats::default();
        caveats.insert(Caveat::Alignment);
        let estimate = Estimate {
            time,
            half_width: 0.05,
            shared: 0.01,
            least: Seconds::ZERO,
            tier: Tier::Transferred,
            caveats,
        };
        OperatorReport::new(Gpu::find("h200").unwrap(), &op, &estimate, None)
    }

    #[test]
    fn a_gemm_is_bound_by_what_takes_longest() {
        let bound = |m, n, k| report(m, n, k, Seconds::from_micros(10.0)).bound;
        assert_eq!(bound(8192, 8192, 8192), Bound::Compute);
        assert_eq!(bound(1, 8192, 8192), Bound::Memory);
        assert_eq!(bound(16, 64, 64), Bound::Launch);
    }

    #[test]
    fn waves_are_counted_in_tiles_of_128_by_256() {
        let waves = report(2304, 4096, 4096, Seconds::from_micros(100.0)).waves.unwrap();
        // 18 x 16 tiles on 132 SMs: 2.18 waves, the last one 0.18 full.
        assert_eq!((waves.tiles, waves.tile_fill), (288, 1.0));
        assert!((waves.last_wave_fill - (288.0 / 132.0 - 2.0)).abs() < 1e-12);
        let exact = report(128 * 132, 256, 64, Seconds::from_micros(9.0)).waves.unwrap();
        assert_eq!((exact.waves, exact.last_wave_fill), (1.0, 1.0));
    }

    #[test]
    fn text_and_json_say_the_same() {
        let report = report(4096, 50257, 2560, Seconds::from_micros(2000.0));
        let text = report.text();
        for part in [
            "(4096, 2560) x (2560, 50257) tn bf16",
            "2.000 ms",
            "transferred",
            "misaligned",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
        assert_eq!(json["schema"], 1);
        assert_eq!(json["op"]["kind"], "gemm");
        assert_eq!(json["op"]["n"], 50257);
        assert_eq!(json["tier"], "transferred");
        assert_eq!(json["caveats"][0]["caveat"], "alignment");
        assert!((json["time_us"].as_f64().unwrap() - 2000.0).abs() < 1e-9);
    }
}
