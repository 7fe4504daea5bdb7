//! Rules on how well the GEMMs fill the GPU: tokens, micro-batch, tiles, waves, depth.

use crate::arch::{Mode, Phase, Role, Workload, lower};
use crate::gpu::Gpu;
use crate::ops::{Gemm, Op};
use crate::rules::alignment::aligned;
use crate::rules::{Severity, Subject, Verdict};
use crate::tiles::{Tile, Waves};

/// The large tile laid the other way.
const TURNED: Tile = Tile::new(Tile::LARGE.columns, Tile::LARGE.rows);

/// Share of the forward arithmetic of these GEMMs below which the tiles of one do not matter.
const LEAST_SHARE: f64 = 0.01;

/// Least share of the tiles that is output.
const TILE_FILL: f64 = 0.98;

/// Least share of the multiprocessors that the waves of all GEMMs keep busy.
const WAVE_FILL: f64 = 0.75;

/// Waves from which more tokens gain little (NVIDIA: small past four blocks per multiprocessor).
const ENOUGH_WAVES: f64 = 4.0;

/// Least hidden width per layer where latency counts: between Pythia-410M (43) and Pythia-1B (128).
const LEAST_ASPECT: u64 = 50;

/// One linear map of the forward pass and how often it runs.
struct ForwardGemm {
    role: Role,
    gemm: Gemm,
    count: u64,
}

impl ForwardGemm {
    fn flops(&self) -> f64 {
        Op::Gemm(self.gemm).flops().flops() * self.count as f64
    }

    /// How the large tile fills the multiprocessors.
    fn waves(&self, gpu: &Gpu) -> Waves {
        Waves::new(&self.gemm, Tile::LARGE, gpu.sm_count() as f64)
    }

    /// Output over the tiles it takes, laid either way.
    fn tile_fill(&self) -> f64 {
        tile_fill(&self.gemm)
    }

    fn name(&self) -> String {
        format!("{} {}", self.role, Op::Gemm(self.gemm))
    }
}

fn tile_fill(gemm: &Gemm) -> f64 {
    let fill = |tile| Waves::new(gemm, tile, 1.0).tile_fill();
    fill(Tile::LARGE).max(fill(TURNED))
}

/// Met where `fill` is at least `least`.
fn filled(fill: f64, least: f64, detail: String) -> Verdict {
    if fill >= least {
        return Verdict::met(detail);
    }
    let wanted = format!("{} % or more", least * 100.0);
    Verdict::broken(Severity::Advice, fill, wanted, &detail)
}

/// How one GEMM fills its tiles.
pub(super) fn gemm_tiles(gemm: &Gemm) -> Verdict {
    let fill = tile_fill(gemm);
    filled(
        fill,
        TILE_FILL,
        format!("{:.1} % of its tiles are output", fill * 100.0),
    )
}

/// How the blocks of one GEMM fill their waves.
pub(super) fn gemm_waves(gemm: &Gemm, gpu: &Gpu) -> Verdict {
    let waves = Waves::new(gemm, Tile::LARGE, gpu.sm_count() as f64);
    let fill = waves.wave_fill();
    let detail = format!(
        "{} blocks on {} multiprocessors: {} waves, {:.0} % full",
        waves.blocks,
        gpu.sm_count(),
        waves.rounds(),
        fill * 100.0
    );
    filled(fill, WAVE_FILL, detail)
}

/// The linear maps of the forward pass; empty if the workload cannot be split like this.
fn forward_gemms(subject: &Subject) -> Vec<ForwardGemm> {
    let Ok(step) = lower(subject.arch, subject.work) else {
        return Vec::new();
    };
    step.items
        .iter()
        .filter(|item| item.phase == Phase::Forward)
        .filter_map(|item| match (item.role, item.op) {
            (Role::AttentionScore | Role::AttentionValue | Role::Router, _) => None,
            (role, Op::Gemm(gemm)) => Some(ForwardGemm {
                role,
                gemm,
                count: item.count,
            }),
            _ => None,
        })
        .collect()
}

/// Why the rules on large GEMMs have nothing to say, where they have not.
fn silent(subject: &Subject) -> Option<Verdict> {
    let why = if subject.work.mode == Mode::Decode {
        "decode waits for the weights, not for arithmetic"
    } else if subject.work.validate(subject.arch).is_err() {
        "the model cannot be split like this: see node-size"
    } else {
        return None;
    };
    Some(Verdict::not_applicable(why))
}

pub(super) fn tokens(subject: &Subject) -> Verdict {
    let work = subject.work;
    if work.mode == Mode::Decode {
        return Verdict::not_applicable("decode waits for the weights, not for arithmetic");
    }
    let what = format!("batch {} x seq {}:", work.batch, work.seq);
    let verdict = aligned(subject, &what, work.tokens(), subject.alignment());
    // Only the backward pass reduces over tokens.
    match work.trains() {
        true => verdict,
        false => verdict.with_severity(Severity::Advice),
    }
}

pub(super) fn micro_batch(subject: &Subject) -> Verdict {
    let work = subject.work;
    if !work.trains() {
        return Verdict::not_applicable("when serving, the requests decide");
    }
    if let Some(verdict) = silent(subject) {
        return verdict;
    }
    let doubled = Workload {
        batch: work.batch * 2,
        ..*work
    };
    if !subject.holds(work) {
        return Verdict::not_applicable("the model does not fit the memory");
    }
    if !subject.holds(&doubled) {
        return Verdict::met(format!("batch {}; batch {} does not fit", work.batch, doubled.batch));
    }
    let fewest = forward_gemms(subject)
        .iter()
        .map(|item| item.waves(subject.gpu).waves())
        .fold(f64::INFINITY, f64::min);
    let detail = format!("batch {}: the smallest GEMM fills {fewest:.1} waves", work.batch);
    if fewest >= ENOUGH_WAVES {
        return Verdict::met(detail);
    }
    let detail = format!("{detail}, and batch {} fits the memory", doubled.batch);
    let wanted = format!("batch {} or more", doubled.batch);
    Verdict::broken(Severity::Advice, work.batch as f64, wanted, &detail)
}

pub(super) fn tiles(subject: &Subject) -> Verdict {
    if let Some(verdict) = silent(subject) {
        return verdict;
    }
    let gemms = forward_gemms(subject);
    let total: f64 = gemms.iter().map(ForwardGemm::flops).sum();
    let worst = gemms
        .iter()
        // Logits of single positions are as narrow as the batch.
        .filter(|item| item.gemm.m >= Tile::LARGE.rows || item.role != Role::Logits)
        .filter(|item| item.flops() >= LEAST_SHARE * total)
        .min_by(|a, b| a.tile_fill().total_cmp(&b.tile_fill()));
    let Some(worst) = worst else {
        return Verdict::not_applicable("there is no such GEMM");
    };
    let fill = worst.tile_fill();
    let detail = format!("{} fills {:.1} % of its tiles", worst.name(), fill * 100.0);
    filled(fill, TILE_FILL, detail)
}

pub(super) fn waves(subject: &Subject) -> Verdict {
    if let Some(verdict) = silent(subject) {
        return verdict;
    }
    let fill = |item: &ForwardGemm| item.waves(subject.gpu).wave_fill();
    let gemms = forward_gemms(subject);
    let total: f64 = gemms.iter().map(ForwardGemm::flops).sum();
    let busy: f64 = gemms.iter().map(|item| item.flops() / fill(item)).sum();
    let worst = gemms.iter().min_by(|a, b| fill(a).total_cmp(&fill(b)));
    let Some(worst) = worst else {
        return Verdict::not_applicable("there is no such GEMM");
    };
    let full = total / busy;
    let detail = format!(
        "waves of {} blocks are {:.0} % full; fewest: {}, {} blocks, {:.0} %",
        subject.gpu.sm_count(),
        full * 100.0,
        worst.role,
        worst.waves(subject.gpu).blocks,
        fill(worst) * 100.0
    );
    filled(full, WAVE_FILL, detail)
}

pub(super) fn depth(subject: &Subject) -> Verdict {
    if subject.work.trains() {
        return Verdict::not_applicable("training is judged by throughput, not by latency");
    }
    let (hidden, layers) = (subject.arch.hidden, subject.arch.layers);
    let detail = format!("hidden {hidden} over {layers} layers: {} a layer", hidden / layers);
    if hidden >= LEAST_ASPECT * layers {
        return Verdict::met(detail);
    }
    let wanted = format!("{LEAST_ASPECT} or more");
    Verdict::broken(Severity::Advice, hidden as f64 / layers as f64, wanted, &detail)
}
