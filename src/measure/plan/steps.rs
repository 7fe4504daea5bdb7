//! The set of whole steps: small transformers drawn over widths, depths and tokens; and operators of others like them.

use super::{Set, Sizing, gemms};
use crate::arch::{
    Architecture, Biases, Item, Mlp, MlpKind, Mode, Norm, NormKind, Positions, Practice, Workload, lower, memory_use,
};
use crate::ops::Op;
use crate::random::Random;
use crate::units::Seconds;
use std::collections::HashSet;

/// Longest step at the rates of the probe, in units of the plan's longest call.
const LONGEST: f64 = 30.0;

/// Shortest step, as a share of the longest: shorter ones are noise of the host.
const SHORTEST: f64 = 1.0 / 300.0;

/// Most memory that a step takes, in units of the largest operands of one operator, an eighth of the device's memory.
const MOST_MEMORY: f64 = 4.0;

/// Most draws for each step that is wanted.
const DRAWS: usize = 500;

/// What the steps do, in turn: training is what most measured runs are of.
const MODES: [Mode; 4] = [Mode::Train, Mode::Prefill, Mode::Train, Mode::Decode];

/// How often each step is measured, far apart.
const VISITS: usize = 2;

const HEAD_DIMS: [u64; 3] = [32, 64, 128];
const HIDDEN: [u64; 13] = [128, 192, 256, 320, 384, 512, 640, 768, 1024, 1536, 2048, 3072, 4096];
/// Words of the vocabulary for each element of the hidden width: published models have 4 to 60.
const WORDS: [u64; 4] = [4, 8, 16, 32];
const LENGTHS: [u64; 7] = [32, 64, 128, 256, 512, 1024, 2048];

/// A step to measure.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedStep {
    /// Unique in its plan but for further visits.
    pub name: String,
    /// The transformer.
    pub architecture: Architecture,
    /// What one step of it does.
    pub workload: Workload,
}

/// The steps of a plan: all once, then all again in another order.
pub fn steps(sizing: &Sizing<'_>) -> Vec<PlannedStep> {
    let wanted = sizing.plan.cases_of(Set::Steps);
    let mut random = Random::new(sizing.seed, "steps");
    let mut known = HashSet::new();
    let mut once: Vec<PlannedStep> = Vec::new();
    for &mode in MODES.iter().cycle().take(wanted) {
        let mut drawn = (0..DRAWS).map(|_| draw(sizing, mode, &mut random));
        once.extend(drawn.find(|step| fits(sizing, step) && known.insert(step.name.clone())));
    }
    let visit = |_| {
        let mut steps = once.clone();
        random.shuffle(&mut steps);
        steps
    };
    (0..VISITS).flat_map(visit).collect()
}

/// The operators of further transformers, which share no step with the measured ones.
pub fn operators(sizing: &Sizing<'_>, wanted: usize) -> Vec<Op> {
    let measured: HashSet<String> = steps(sizing).into_iter().map(|step| step.name).collect();
    let mut random = Random::new(sizing.seed, "operators of steps");
    let mut known = HashSet::new();
    let mut cases = Vec::new();
    for &mode in MODES.iter().cycle().take(DRAWS * wanted.min(DRAWS)) {
        let step = draw(sizing, mode, &mut random);
        if measured.contains(&step.name) || !fits(sizing, &step) {
            continue;
        }
        let Ok(lowered) = lower(&step.architecture, &step.workload) else {
            continue;
        };
        let ops = lowered.items.iter().map(|item| item.op);
        let fresh = ops.filter(|op| sizing.fits(op) && known.insert(*op));
        cases.extend(fresh);
        if cases.len() >= wanted {
            break;
        }
    }
    cases.truncate(wanted);
    cases
}

fn draw(sizing: &Sizing<'_>, mode: Mode, random: &mut Random) -> PlannedStep {
    let head_dim = random.pick(&HEAD_DIMS);
    let heads = (random.pick(&HIDDEN) / head_dim).max(1);
    let hidden = heads * head_dim;
    let layers = random.pick(&[2, 3, 4, 6, 8, 12]);
    let vocab = hidden * random.pick(&WORDS);
    let (batch, length) = (random.pick(&[1, 2, 4, 8, 16]), random.pick(&LENGTHS));
    let is_llama = random.pick(&[false, true]);
    let workload = match mode {
        Mode::Train => Workload::train(batch, length),
        Mode::Prefill => Workload::prefill(batch, length),
        Mode::Decode => Workload::decode(batch, length),
    };
    let style = if is_llama { "llama" } else { "gpt" };
    let name = format!("{style}-{layers}x{hidden}-heads-{heads}-vocab-{vocab}");
    let workload = Workload {
        dtype: gemms::most_wanted(sizing),
        ..workload
    };
    let gpt = Architecture {
        name: name.clone(),
        vocab,
        tied_embeddings: false,
        positions: Positions::Learned { max: 4096, spare: 0 },
        ..Architecture::gpt(hidden, layers, heads)
    };
    PlannedStep {
        name: format!("{name}, {workload}"),
        workload,
        architecture: match is_llama {
            false => gpt,
            true => Architecture {
                mlp: Mlp {
                    kind: MlpKind::Swiglu,
                    d_ff: (8 * hidden / 3).next_multiple_of(32),
                },
                positions: Positions::Rotary,
                norm: Norm {
                    kind: NormKind::RmsNorm,
                    ..gpt.norm
                },
                biases: Biases::default(),
                ..gpt
            },
        },
    }
}

/// Whether a step is neither too short nor too long nor too large for the device.
fn fits(sizing: &Sizing<'_>, step: &PlannedStep) -> bool {
    let (architecture, workload) = (&step.architecture, &step.workload);
    let (Ok(lowered), Ok(memory)) = (
        lower(architecture, workload),
        memory_use(architecture, workload, &Practice::default()),
    ) else {
        return false;
    };
    let time = |item: &Item| sizing.rates.roofline(&item.op) * item.count as f64;
    let time: Seconds = lowered.items.iter().map(time).sum();
    let longest = sizing.plan.longest * LONGEST;
    let most = sizing.max_bytes * MOST_MEMORY;
    let holds = |item: &Item| item.op.bytes() <= sizing.max_bytes;
    lowered.items.iter().all(holds) && (longest * SHORTEST..=longest).contains(&time) && memory.total() <= most
}
