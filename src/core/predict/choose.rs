//! Which sub-model answers a question, from best to worst: this GPU and format, this GPU in another format,
//! the nearest GPU of the generation, the nearest two of other generations, the model over all GPUs.

use crate::error::Result;
use crate::families::{Caveat, Caveats, Coverage, Extent, Family, GpuRates, OddSizes, Variant};
use crate::framework::Engine;
use crate::gpu::{Generation, Gpu, Vendor};
use crate::ops::{Dtype, Gemm, Layout, Op, Recurrence};
use crate::predict::assume;
use crate::predict::library;
use crate::predict::log_log::LogLog;
use crate::regressor::artifact::{ANY_GPU, Artifact, Calibration, Key, Submodel, Weights};
use crate::regressor::evaluate::Evaluator;
use crate::toml_text::built_in;
use crate::units::{BytesPerSecond, FlopsPerSecond, Seconds};
use serde::Deserialize;
use std::sync::{Arc, LazyLock, OnceLock};

/// The end of the names of stacks (`data/stacks.toml`) whose rows are the fastest kernels that a tuner found, which no engine runs
/// throughout.
const TUNED: &str = "tuned minimum";

/// A sub-model made ready to answer for one GPU.
pub struct LoadedModel {
    /// `trtllm 1.3.0rc20 on h200`.
    pub name: String,
    /// What it was trained for.
    key: Key,
    /// Name of the GPU it is asked about.
    gpu: String,
    /// Half widths that learning on another GPU adds, as [`assume::other_gpu`] has them.
    pub transfer: [f64; 2],
    /// What the GPU that is asked about reaches; `None` if it or its teacher saw a row of it.
    reach: Option<Reach>,
    /// Rates of the GPU that is asked about, with the launch term of the stack.
    pub rates: GpuRates,
    /// The measured region.
    pub coverage: Coverage,
    /// Spread to interval.
    pub calibration: Calibration,
    /// What it misses of GEMMs, by layout and by which sizes are misaligned; `None` if that is not known.
    misses: Option<Box<[[Miss; 8]; Layout::ALL.len()]>>,
    weights: Arc<Weights>,
    /// The engine whose kernels it timed.
    pub engine: Option<Engine>,
    /// Whether its rows are the fastest kernels that a tuner found, which no engine runs throughout.
    pub is_tuned: bool,
    /// Packed when first asked: a step uses few sub-models of a GPU.
    evaluator: OnceLock<Evaluator>,
}

/// What a GPU reaches of which nets saw no row.
struct Reach {
    /// The fastest arithmetic in the format of the nets, where that is known.
    peak: Option<FlopsPerSecond>,
    /// How fast weights are read at most.
    bandwidth: BytesPerSecond,
    /// Whether they are read as fast as by a streaming kernel, too.
    streams: bool,
}

impl Reach {
    fn new(gpu: &Gpu, dtype: Dtype) -> Self {
        let streams = gpu.has_graphics_memory();
        Self {
            peak: assume::reachable_peak(gpu, dtype),
            bandwidth: match streams {
                true => gpu.reachable_bandwidth(),
                false => gpu.bandwidth(),
            },
            streams,
        }
    }
}

impl LoadedModel {
    fn new(submodel: &Submodel, weights: &Arc<Weights>, gpu: &Gpu) -> Self {
        let has_seen = has_seen(submodel, &gpu.name);
        let rates = GpuRates::new(gpu, Seconds::from_micros(submodel.launch_us));
        let dtype = submodel.key.variant.dtype().unwrap_or(Dtype::Bf16);
        Self {
            name: match (submodel.key.gpu.as_str(), &tables_of(submodel, gpu)[..]) {
                (ANY_GPU, []) => format!("{} of all GPUs", submodel.key.stack),
                (ANY_GPU, stacks) => format!("{} on {}", stacks.join(" and "), gpu.name),
                (gpu, _) => format!("{} on {gpu}", submodel.key.stack),
            },
            engine: Engine::of_stack(&submodel.key.stack),
            is_tuned: submodel.key.stack.ends_with(TUNED),
            key: submodel.key.clone(),
            gpu: gpu.name.clone(),
            transfer: if is_measured(submodel, gpu) {
                [0.0; 2]
            } else {
                assume::other_gpu(gpu, &submodel.key)
            },
            reach: (!has_seen).then(|| Reach::new(gpu, dtype)),
            rates: match has_seen {
                true => rates,
                false => rates.with_peaks_times(assume::peaks_of_held_units(gpu, &submodel.key)),
            },
            coverage: submodel.coverage.clone(),
            calibration: submodel.calibration.clone(),
            misses: misses(&submodel.key),
            weights: weights.clone(),
            evaluator: OnceLock::new(),
        }
    }

    /// From features to answers.
    pub fn evaluator(&self) -> &Evaluator {
        self.evaluator.get_or_init(|| {
            let mut usual = vec![0.0; self.weights.mean.len()];
            self.rates.features(&self.key.family.usual(), &mut usual);
            Evaluator::around(&self.weights, &usual)
        })
    }

    /// What it misses of this operator for how its sizes are aligned.
    pub fn miss(&self, op: &Op) -> Miss {
        match (&self.misses, op) {
            (Some(misses), Op::Gemm(op)) => {
                let sizes = [op.m, op.n, op.k].map(|size| !size.is_multiple_of(8));
                let miss = misses[op.layout as usize][place(sizes)];
                let slower = if op.m < FEW_ROWS { 0.0 } else { miss.slower };
                Miss { slower, ..miss }
            }
            _ => Miss::default(),
        }
    }

    /// A time of its nets that is no less than what this GPU, of which they saw no row, reaches: in arithmetic of their format, and in
    /// reading weights, which no step leaves in a cache. GPUs with GDDR read them at least as fast as a
    /// streaming kernel: RTX 3090 and A6000 at 0.82 to 0.97 of the bandwidth, A100's HBM at 0.64 to 0.78 (LLMServingSim).
    pub fn reached(&self, op: &Op, time: Seconds, gpu: &Gpu) -> Seconds {
        let Some(reach) = &self.reach else {
            return time;
        };
        let known = self.key.variant.dtype();
        let peak = op
            .dtype()
            .zip(known)
            .and_then(|(asked, known)| match known.runs_as(asked) {
                true => reach.peak,
                false => assume::reachable_of_another(gpu, known, asked),
            });
        let time = peak.map_or(time, |peak| time.max(op.flops() / peak));
        match op {
            Op::Gemm(gemm) if gemm.batch == 1 && gemm.layout == Layout::Tn => {
                let time = time.max(gemm.right_bytes() / reach.bandwidth);
                match reach.streams && self.rates.waits_for_weights(gemm) {
                    true => time.min(self.rates.launch() + op.bytes() / reach.bandwidth),
                    false => time,
                }
            }
            _ => time,
        }
    }

    /// Whether it was trained over several GPUs.
    pub fn is_of_all_gpus(&self) -> bool {
        self.key.gpu == ANY_GPU
    }
}

/// What answers, by family and variant.
pub type Answers = [Vec<Option<Answer>>; Family::ALL.len()];

/// The model that answers for one family and variant.
pub struct Answer {
    /// Index of the model.
    pub model: usize,
    /// The variant that the model is asked in.
    pub asked: Variant,
    /// What is unlike the question.
    pub caveats: Caveats,
    /// The family that the model was trained on.
    pub family: Family,
    /// Stack and GPU, of both models where there are two.
    pub name: String,
    /// A second model of GEMMs, of another generation of GPUs, where the first one is of another generation than the GPU, too:
    /// the mean of both is nearer than either (docs/method/notebook.md).
    pub beside: Option<usize>,
    /// What another sub-model answers for, and which.
    elsewhere: Option<(Unseen, Box<Answer>)>,
}

/// Operators of its family of which a sub-model saw hardly a row.
enum Unseen {
    /// GEMMs of fewer rows.
    RowsBelow(u64),
    /// Attention of other head sizes than these, which measured ratios carry over better.
    HeadsBeside(Vec<u64>),
}

impl Unseen {
    fn holds(&self, op: &Op) -> bool {
        match (self, op) {
            (Self::RowsBelow(m_from), Op::Gemm(op)) => op.m < *m_from,
            (Self::HeadsBeside(known), Op::Attention(op)) => !known.contains(&op.head_dim),
            _ => false,
        }
    }
}

impl Answer {
    /// The next best sub-model for shapes this one has almost no data on, else this one.
    pub fn to(&self, op: &Op) -> &Self {
        match &self.elsewhere {
            Some((unseen, answer)) if unseen.holds(op) => answer,
            _ => self,
        }
    }
}

/// What answers for a GPU.
pub fn answers(gpu: &Gpu, candidates: &Candidates<'_>, models: &mut Vec<LoadedModel>) -> Result<Answers> {
    let mut answers = Family::ALL.map(|_| Vec::new());
    for family in Family::ALL {
        for variant in family.variants() {
            let answer = choose(gpu, candidates, family, variant, models)?;
            answers[family as usize].push(answer);
        }
    }
    Ok(answers)
}

/// What answers in place of `default` where the kernels are those of an engine: where that is another sub-model. A model that
/// was named answers whichever engine it is, if its user measured the rows.
pub fn answers_of(
    engine: Engine,
    gpu: &Gpu,
    candidates: &Candidates<'_>,
    default: &Answers,
    models: &mut Vec<LoadedModel>,
) -> Result<Answers> {
    let mut answers = Family::ALL.map(|_| Vec::new());
    let candidates = candidates.preferring(engine);
    for family in candidates.beside_default(engine) {
        for (variant, known) in family.variants().into_iter().zip(&default[family as usize]) {
            let may_differ = |known: &&Answer| candidates.named.is_empty() || models[known.model].engine.is_some();
            let answer = match known.as_ref().filter(may_differ).map(|known| known.model) {
                Some(known) => {
                    choose(gpu, &candidates, family, variant, models)?.filter(|answer| answer.model != known)
                }
                None => None,
            };
            answers[family as usize].push(answer);
        }
    }
    Ok(answers)
}

/// Finds the sub-model that fits best and loads it; `None` if no model knows the family.
pub fn choose(
    gpu: &Gpu,
    candidates: &Candidates<'_>,
    family: Family,
    variant: Variant,
    models: &mut Vec<LoadedModel>,
) -> Result<Option<Answer>> {
    let asked = (family, variant);
    let Some((best, mut answer)) = next_best(gpu, candidates, asked, &|_| false, models) else {
        return Ok(None);
    };
    if family == Family::Gemm
        && candidates.named.is_empty()
        && let Some(other) = beside(gpu, candidates, best, models)
    {
        answer.beside = Some(other.model);
        answer.name = format!("{} and {}", answer.name, other.name);
    }
    let sparse = SPARSE.submodel.iter();
    if family == Family::Gemm
        && let Some(entry) = sparse.into_iter().find(|entry| entry.is(best))
        && let Some((_, elsewhere)) = next_best(gpu, candidates, asked, &|key| key == best, models)
    {
        answer.elsewhere = Some((Unseen::RowsBelow(entry.m_from), Box::new(elsewhere)));
    }
    let of_family = |key: &Key| key.family == family;
    if family.is_carried()
        && of_family(best)
        && let Some((_, elsewhere)) = next_best(gpu, candidates, asked, &of_family, models)
    {
        let known = models[answer.model].coverage.head_dims.clone();
        answer.elsewhere = Some((Unseen::HeadsBeside(known), Box::new(elsewhere)));
    }
    Ok(Some(answer))
}

/// The second sub-model of GEMMs where `best` is of a GPU of another generation: of a third generation, of the same maker, as
/// near as any pair that this was tried on. A part with a link of its own between GPUs errs otherwise than a card, so
/// both together err less; a card is better off without.
fn beside(gpu: &Gpu, candidates: &Candidates<'_>, best: &Key, models: &mut Vec<LoadedModel>) -> Option<Answer> {
    let first = Gpu::find(&best.gpu).ok()?.generation;
    if first == gpu.generation {
        return None;
    }
    let mut of = |linked_alike: bool| {
        let unlike = |key: &Key| {
            let other = Gpu::find(&key.gpu).ok();
            other.is_none_or(|other| {
                key.variant != best.variant
                    || [first, gpu.generation].contains(&other.generation)
                    || other.vendor != gpu.vendor
                    || gap(gpu, other) > FAR
                    || (linked_alike && other.is_linked() != gpu.is_linked())
            })
        };
        let found = next_best(gpu, candidates, (best.family, best.variant), &unlike, models);
        found.map(|(_, answer)| answer)
    };
    of(true).or_else(|| gpu.is_linked().then(|| of(false))?)
}

/// The sub-model that fits best, but for those that are `excluded`.
fn next_best<'a>(
    gpu: &Gpu,
    candidates: &Candidates<'a>,
    (family, variant): (Family, Variant),
    excluded: &dyn Fn(&Key) -> bool,
    models: &mut Vec<LoadedModel>,
) -> Option<(&'a Key, Answer)> {
    let nearest = |artifacts: &[&'a Artifact], family: Family, most: u32| {
        let all = artifacts.iter().enumerate().flat_map(|(place, artifact)| {
            let submodels = artifact.submodels();
            submodels.map(move |(submodel, weights)| (place, submodel, weights))
        });
        let others = all.filter(|(place, submodel, _)| {
            submodel.key.family == family
                && !excluded(&submodel.key)
                && candidates.may_answer(artifacts[*place], submodel)
                && (family != Family::Collective || carries(submodel, gpu))
        });
        // Of one GPU, the sub-model of the engine that is asked for, else of one that is like it, else the first. MoE layers
        // of the engine on a GPU of the generation go before those of another engine on this one, which are further off; in a
        // format of another width the first answers, over which constants of frameworks were fitted.
        let unlike = |submodel, distance| {
            let engine = candidates.engine;
            let engine = engine.filter(|_| family != Family::Experts || distance <= SAME_WIDTH);
            engine.map(|engine| unlikeness(engine, submodel).unwrap_or(u8::MAX))
        };
        let known = others.filter_map(|(place, submodel, weights)| {
            let distance = distance(gpu, variant, &submodel.key)?;
            let unlike = unlike(submodel, distance);
            let of_engine = (family == Family::Experts).then_some((distance > SAME_WIDTH, unlike));
            // A net of collectives that saw this GPU goes before one of the engine that did not.
            let rank = (of_engine, distance, !is_measured(submodel, gpu), place, unlike);
            (distance <= most).then_some((rank, submodel, weights))
        });
        known.min_by_key(|(rank, ..)| *rank)
    };
    // A model that was asked for by name answers wherever it knows kernels of this format's width; where no sub-model knows
    // the family, the one with the same features answers, and where ratios carry that over, this GPU's before another's.
    let families = || std::iter::once(family).chain(family.like());
    let nearest_of = |family, most| {
        nearest(&candidates.named, family, SAME_WIDTH).or_else(|| nearest(&candidates.all, family, most))
    };
    let own = family.is_carried().then_some(SAME_GPU);
    let (_, submodel, weights) = own
        .into_iter()
        .chain([u32::MAX])
        .find_map(|most| families().find_map(|family| nearest_of(family, most)))?;
    let known = submodel.key.variant;
    let mut caveats = Caveats::default();
    caveats.insert_if(!is_measured(submodel, gpu), Caveat::OtherGpu);
    let as_wide = runs_as(family, variant, known);
    caveats.insert_if(known.dtype() != variant.dtype() && as_wide, Caveat::OtherDtype);
    caveats.insert_if(!as_wide, Caveat::OtherWidth);
    let model = load(submodel, weights, gpu, models);
    let answer = Answer {
        model,
        family: submodel.key.family,
        name: models[model].name.clone(),
        // Both 16-bit formats run the same kernels; the features of any other format carry its own peak and size.
        asked: if as_wide { known } else { variant },
        caveats,
        beside: None,
        elsewhere: None,
    };
    Some((&submodel.key, answer))
}

/// A sub-model with almost no training data below `m_from` rows.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SparseEntry {
    gpu: String,
    stack: String,
    m_from: u64,
    #[allow(dead_code)] // evidence for readers of the file
    source: String,
}

impl SparseEntry {
    fn is(&self, key: &Key) -> bool {
        self.gpu == key.gpu && self.stack == key.stack
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sparse {
    submodel: Vec<SparseEntry>,
}

static SPARSE: LazyLock<Sparse> = LazyLock::new(|| built_in(&shapewise_data::SPARSE));

/// Which GPU knows the odd sizes of a maker's GPUs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AlignmentEntry {
    vendor: Vendor,
    /// Empty means all generations.
    generations: Option<Vec<Generation>>,
    alignment_from: String,
    /// Whether odd sizes cost nothing there, so that batches alone are carried over.
    #[serde(default)]
    odd_sizes_are_free: bool,
    #[serde(default)]
    peak_shares: Option<PeakShares>,
}

/// The shares of the dense 16-bit peak that no GEMM exceeds of which the contiguous `n` or `k` is odd, or even and no multiple
/// of 8; by `k`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeakShares {
    odd_n: LogLog,
    even_n: LogLog,
    odd_k: LogLog,
    even_k: LogLog,
}

impl PeakShares {
    /// The share of the peak that this GEMM reaches at most.
    pub fn of(&self, gemm: &Gemm) -> f64 {
        let [_, n, k] = gemm.layout.contiguous();
        let share = |size: u64, odd: &LogLog, even: &LogLog| match size.trailing_zeros() {
            0 => odd.at(gemm.k as f64),
            1 | 2 => even.at(gemm.k as f64),
            _ => 1.0,
        };
        let of_n = if n {
            share(gemm.n, &self.odd_n, &self.even_n)
        } else {
            1.0
        };
        let of_k = if k {
            share(gemm.k, &self.odd_k, &self.even_k)
        } else {
            1.0
        };
        of_n.min(of_k)
    }
}

/// Of fewer rows nets know misaligned GEMMs from many widths.
const FEW_ROWS: u64 = 64;

/// What nets miss of GEMMs that are misaligned alike.
#[derive(Clone, Copy, Default, Deserialize)]
pub struct Miss {
    /// Added to `ln(time)`.
    #[serde(default)]
    pub slower: f64,
    /// The least half width of the interval.
    pub half_width: f64,
}

/// GEMMs of one layout that are misaligned alike.
#[derive(Deserialize)]
struct MisalignedClass {
    layout: Layout,
    /// The sizes that 8 does not divide.
    sizes: Vec<Extent>,
    #[serde(flatten)]
    miss: Miss,
}

/// The sub-models that saw misaligned GEMMs in several layouts, and what they miss of them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Misaligned {
    stack: String,
    class: Vec<MisalignedClass>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Alignment {
    entry: Vec<AlignmentEntry>,
    misaligned: Misaligned,
}

/// What a sub-model misses of GEMMs, by layout and by which sizes are misaligned.
fn misses(key: &Key) -> Option<Box<[[Miss; 8]; Layout::ALL.len()]>> {
    let Misaligned { stack, class } = &ALIGNMENT.misaligned;
    if key.family != Family::Gemm || key.stack != *stack {
        return None;
    }
    let mut misses = Box::new([[Miss::default(); 8]; Layout::ALL.len()]);
    for class in class {
        let sizes = [Extent::M, Extent::N, Extent::K].map(|size| class.sizes.contains(&size));
        misses[class.layout as usize][place(sizes)] = class.miss;
    }
    Some(misses)
}

/// The place of a class among those of a layout, by which of `m`, `n` and `k` are misaligned.
fn place([m, n, k]: [bool; 3]) -> usize {
    usize::from(m) | usize::from(n) << 1 | usize::from(k) << 2
}

static ALIGNMENT: LazyLock<Alignment> = LazyLock::new(|| built_in(&shapewise_data::ALIGNMENT));

/// The sub-model that saw odd sizes and batches, for this maker and generation, as `data/alignment.toml` says.
pub fn alignment(
    gpu: &Gpu,
    candidates: &Candidates<'_>,
    models: &mut Vec<LoadedModel>,
) -> Result<(OddSizes, Option<usize>, Option<&'static PeakShares>)> {
    let unknown = (OddSizes::Unknown, None, None);
    let fits = |entry: &&AlignmentEntry| {
        let generations = entry.generations.as_ref();
        entry.vendor == gpu.vendor && generations.is_none_or(|all| all.contains(&gpu.generation))
    };
    let Some(entry) = ALIGNMENT.entry.iter().find(fits) else {
        return Ok(unknown);
    };
    let Some(artifact) = library::find(&entry.alignment_from)? else {
        return Ok(unknown);
    };
    let gemms = artifact
        .submodels()
        .find(|(submodel, _)| submodel.key.family == Family::Gemm);
    let may_answer = |submodel: &Submodel| candidates.may_answer(artifact, submodel);
    let Some((submodel, weights)) = gemms.filter(|(submodel, _)| may_answer(submodel)) else {
        return Ok(unknown);
    };
    // Ratios are taken on the GPU where they were measured.
    let measured_on = Gpu::find(&entry.alignment_from)?;
    let odd_sizes = match entry.odd_sizes_are_free {
        true => OddSizes::Free,
        false => OddSizes::Measured,
    };
    let from = load(submodel, weights, measured_on, models);
    Ok((odd_sizes, Some(from), entry.peak_shares.as_ref()))
}

/// The index of this sub-model for this GPU, loaded once.
fn load(submodel: &Submodel, weights: &Arc<Weights>, gpu: &Gpu, models: &mut Vec<LoadedModel>) -> usize {
    let known = models
        .iter()
        .position(|model| model.key == submodel.key && model.gpu == gpu.name);
    known.unwrap_or_else(|| {
        models.push(LoadedModel::new(submodel, weights, gpu));
        models.len() - 1
    })
}

/// Models worth asking.
#[derive(Clone)]
pub struct Candidates<'a> {
    /// The one that was named, if one was.
    named: Vec<&'a Artifact>,
    /// The named one, the GPU's own, those of its generation, nearest first, the one over all GPUs.
    all: Vec<&'a Artifact>,
    /// The GPU whose rows no sub-model may have seen.
    left_out: Option<&'a str>,
    /// The engine whose sub-models go before others of the same GPU.
    engine: Option<Engine>,
}

impl Candidates<'_> {
    /// The same, with the sub-models of an engine before others of the same GPU.
    fn preferring(&self, engine: Engine) -> Self {
        Self {
            engine: Some(engine),
            ..self.clone()
        }
    }

    /// The families of which a model has a sub-model that answers for this engine beside the default one.
    fn beside_default(&self, engine: Engine) -> impl Iterator<Item = Family> {
        let is_beside = move |artifact: &&Artifact, family: Family| {
            let mut submodels = artifact.card.submodels.iter();
            submodels.any(|submodel| {
                submodel.key.family == family
                    && (unlikeness(engine, submodel).is_some() || is_default(artifact, submodel, Some(engine)))
                    // The default one of MoE layers may be of another engine in the other scales of fp8.
                    && (family == Family::Experts || !is_default(artifact, submodel, None))
            })
        };
        Family::ALL.into_iter().filter(move |&family| {
            let mut models = self.all.iter();
            models.any(|artifact| is_beside(artifact, family))
        })
    }

    /// Whether a sub-model has not seen the GPU that is left out, and is the default one of its variant or of an engine like
    /// the one that is asked for; collectives are NCCL's where no engine's were timed.
    fn may_answer(&self, artifact: &Artifact, submodel: &Submodel) -> bool {
        let seen = |left_out: &str| has_seen(submodel, left_out);
        let is_like = |engine| unlikeness(engine, submodel).is_some();
        let is_collective = submodel.key.family == Family::Collective;
        !self.left_out.is_some_and(seen)
            && (is_default(artifact, submodel, self.engine)
                || self.engine.is_some_and(is_like)
                || (is_collective && is_default(artifact, submodel, None)))
    }
}

/// 0 where a sub-model timed this engine, 1 where one that calls the same libraries, else none.
fn unlikeness(engine: Engine, submodel: &Submodel) -> Option<u8> {
    match Engine::of_stack(&submodel.key.stack)? {
        timed if timed == engine => Some(0),
        timed if timed == engine.like() => Some(1),
        _ => None,
    }
}

/// Whether a sub-model is the first of its GPU, family and variant; for an engine the first that timed any engine, if one did.
fn is_default(artifact: &Artifact, submodel: &Submodel, engine: Option<Engine>) -> bool {
    let Key {
        gpu, family, variant, ..
    } = &submodel.key;
    let alike = |other: &&Key| other.family == *family && other.variant == *variant && other.gpu == *gpu;
    let keys = artifact.card.submodels.iter().map(|other| &other.key);
    let mut alike = keys.filter(alike);
    let first = alike.clone().next();
    let of_engine = engine.and_then(|_| alike.find(|key| Engine::of_stack(&key.stack).is_some()));
    of_engine.or(first) == Some(&submodel.key)
}

/// The models that may answer for a GPU: its own, those of its generation, where neither knows GEMMs of 16 bits those of other
/// generations of its maker that are not far, and the one of all GPUs.
pub fn candidates<'a>(gpu: &Gpu, model: Option<&'a Artifact>) -> Result<Candidates<'a>> {
    let named: Vec<&Artifact> = model.into_iter().collect();
    let own = std::iter::once(gpu.name.as_str()).chain(siblings(gpu)?);
    let mut found = models(own)?;
    if !found.iter().copied().any(knows_gemms) {
        let others = others(gpu)?.into_iter();
        let near = others.filter(|(_, other)| other.vendor == gpu.vendor && gap(gpu, other) <= FAR);
        found.extend(models(near.map(|(name, _)| name))?);
    }
    found.extend(models([library::COLLECTIVES, library::BASE])?);
    Ok(Candidates {
        all: named.iter().copied().chain(found).collect(),
        named,
        left_out: None,
        engine: None,
    })
}

/// Those of the built-in models of these names that exist.
fn models<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Vec<&'static Artifact>> {
    let found = names.into_iter().map(library::find);
    found.filter_map(Result::transpose).collect()
}

/// Whether a model was trained on GEMMs of 16 bits.
fn knows_gemms(artifact: &Artifact) -> bool {
    let mut keys = artifact.card.submodels.iter().map(|submodel| &submodel.key);
    keys.any(|key| {
        let runs_alike = |dtype: Dtype| dtype.runs_as(Dtype::Bf16);
        key.family == Family::Gemm && key.variant.dtype().is_some_and(runs_alike)
    })
}

/// The models that may answer for a GPU as if it had no measurements: those of all other GPUs, the nearest of its
/// generation first, then of other generations.
pub fn candidates_without(gpu: &Gpu) -> Result<Candidates<'_>> {
    let others = others(gpu)?.into_iter();
    let names = others.map(|(name, _)| name).chain([library::COLLECTIVES]);
    Ok(Candidates {
        named: vec![],
        all: models(names)?,
        left_out: Some(&gpu.name),
        engine: None,
    })
}

/// How far two GPUs are apart: the e-folds between their units and their bandwidths.
fn gap(gpu: &Gpu, other: &Gpu) -> f64 {
    let units = (gpu.sm_count() as f64 / other.sm_count() as f64).ln().abs();
    units + (gpu.bandwidth() / other.bandwidth()).ln().abs()
}

/// How unlike the dies of two GPUs of one generation are: the mean of the e-folds between their peaks. Blackwell Ultra has
/// the 16-bit units of Blackwell, but others of 4 bits and integers.
fn unlike(gpu: &Gpu, other: &Gpu) -> f64 {
    let both = Dtype::ALL
        .into_iter()
        .filter_map(|dtype| Some((gpu.peak(dtype)?, other.peak(dtype)?)));
    let folds: Vec<f64> = both.map(|(a, b)| (a / b).ln().abs()).collect();
    folds.iter().sum::<f64>() / folds.len().max(1) as f64
}

/// Farther apart than the GPUs of one maker on which the mean of two others was tried (docs/method/notebook.md).
const FAR: f64 = 2.0;

/// The other GPUs with a model of their own, of a dense table: first those of the same generation, nearest in units,
/// bandwidth and peaks, then the others of the maker, then all others, nearest in units and bandwidth.
fn others(gpu: &Gpu) -> Result<Vec<(&'static str, &'static Gpu)>> {
    let sparse = &SPARSE.submodel;
    let mut others: Vec<_> = library::names()
        .filter(|name| *name != library::BASE && *name != gpu.name)
        .filter(|name| sparse.iter().all(|entry| entry.gpu != *name))
        .filter_map(|name| Gpu::find(name).ok().map(|other| (name, other)))
        .collect();
    let place = |other: &Gpu| match other.generation == gpu.generation {
        true => (0, gap(gpu, other) + unlike(gpu, other)),
        false => (1 + u8::from(other.vendor != gpu.vendor), gap(gpu, other)),
    };
    others.sort_by(|(_, a), (_, b)| {
        let [(other_a, far_a), (other_b, far_b)] = [place(a), place(b)];
        other_a.cmp(&other_b).then(far_a.total_cmp(&far_b))
    });
    Ok(others)
}

/// The other GPUs of the generation with a model of their own, the nearest first.
fn siblings(gpu: &Gpu) -> Result<Vec<&'static str>> {
    let others = others(gpu)?.into_iter();
    let siblings = others.filter(|(_, other)| other.generation == gpu.generation);
    Ok(siblings.map(|(name, _)| name).collect())
}

/// Whether kernels of one variant are those of the other but for a format that runs alike: in MoE layers both scales of fp8.
fn runs_as(family: Family, one: Variant, other: Variant) -> bool {
    let is_fp8 = |dtype| matches!(dtype, Dtype::Fp8 | Dtype::Fp8Block);
    match (one.dtype(), other.dtype()) {
        (Some(one), Some(other)) if family == Family::Experts && is_fp8(one) && is_fp8(other) => true,
        (Some(one), Some(other)) => one.runs_as(other),
        (one, other) => one == other,
    }
}

/// The most that [`distance`] is on the same GPU in a format of the same width.
const SAME_GPU: u32 = 1;

/// The most that [`distance`] is for a format of the same width.
const SAME_WIDTH: u32 = 5;

/// The stacks of a GPU in the tables that a model of collectives was trained on.
fn tables_of<'a>(submodel: &'a Submodel, gpu: &Gpu) -> Vec<&'a str> {
    let own = submodel
        .data
        .iter()
        .filter(|table| submodel.key.family == Family::Collective && table.gpu == gpu.name);
    own.map(|table| table.stack.as_str()).collect()
}

/// Whether a sub-model or its teacher saw rows of this GPU.
fn has_seen(submodel: &Submodel, gpu: &str) -> bool {
    submodel.data.iter().any(|table| table.gpu == gpu)
}

/// Whether a sub-model was trained for this GPU.
fn is_measured(submodel: &Submodel, gpu: &Gpu) -> bool {
    let any = submodel.key.gpu == ANY_GPU;
    submodel.key.gpu == gpu.name || (any && !tables_of(submodel, gpu).is_empty())
}

/// Whether a sub-model of collectives answers for a GPU: for its own, or for others of NVIDIA with fast links. What
/// crosses PCIe depends on the server: in L40S's table on one whose GPUs do not reach each other.
fn carries(submodel: &Submodel, gpu: &Gpu) -> bool {
    is_measured(submodel, gpu) || (gpu.vendor == Vendor::Nvidia && gpu.is_linked())
}

/// How far a sub-model is from the question; `None` if it knows another kind of kernel.
///
/// None over all GPUs answers for a decoding step of a GPU that it did not see: more keys came out faster ([`assume::roofline`] knows better).
/// Assumed, as an order of preference: another 16-bit format runs the same kernels (1), so it goes before another GPU
/// of the generation (3), that before all GPUs together (4), and a format of another width comes last (6).
fn distance(gpu: &Gpu, variant: Variant, key: &Key) -> Option<u32> {
    let format = match (key.variant == variant, runs_as(key.family, key.variant, variant)) {
        (true, _) => 0,
        // Kernels that skip zeros were timed nowhere.
        _ if variant.dtype().and_then(Dtype::dense).is_some() => return None,
        // Another recurrence has kernels of its own, but runs like the one that was measured, best where a ratio is known.
        _ if key.variant.recurrence() != variant.recurrence() => {
            let [known, asked] = [key.variant, variant].map(Variant::recurrence);
            let by_ratio = key.family == Family::LinearPrefill
                && (known, asked) == (Some(Recurrence::KimiDelta), Some(Recurrence::Mamba2));
            if by_ratio { 7 } else { 12 }
        }
        _ if key.variant.kind() != variant.kind() => return None,
        (false, true) => 1,
        // Of other widths, the one whose inputs are as wide.
        (false, false) => match key.variant.dtype().map(Dtype::size) == variant.dtype().map(Dtype::size) {
            true => 6,
            // Large MoE layers take as long as their arithmetic: one of another GPU with inputs as wide goes first.
            false if key.family == Family::Experts => 10,
            false => 7,
        },
    };
    let gpu = match key.gpu.as_str() {
        name if name == gpu.name => 0,
        ANY_GPU if key.family == Family::Decode => return None,
        ANY_GPU => 4,
        _ => 3,
    };
    Some(format + gpu)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tuned_stacks_are_known_by_their_names() {
        for gpu in ["mi300x", "mi355x"] {
            let artifact = library::find(gpu).unwrap().unwrap();
            assert!(
                artifact
                    .submodels()
                    .any(|(submodel, _)| submodel.key.stack.ends_with(TUNED))
            );
        }
    }

    #[test]
    fn sparse_tables_are_of_built_in_models_and_no_siblings() {
        for entry in &SPARSE.submodel {
            let artifact = library::find(&entry.gpu).unwrap().unwrap();
            assert!(artifact.submodels().any(|(submodel, _)| entry.is(&submodel.key)));
            assert!(entry.m_from > 1 && entry.source.contains("rows"));
        }
        for ampere in ["a30", "a100-40gb", "a100-40gb-pcie"] {
            let siblings = siblings(Gpu::find(ampere).unwrap()).unwrap();
            assert_eq!(siblings[0], "a100");
        }
    }

    #[test]
    fn a_gpu_that_is_left_out_is_answered_by_models_that_saw_no_row_of_it() {
        for gpu in library::names().filter_map(|name| Gpu::find(name).ok()) {
            let name = gpu.name.as_str();
            let candidates = candidates_without(gpu).unwrap();
            assert!(candidates.named.is_empty() && candidates.all.len() > 5);
            let mut models = Vec::new();
            for family in [Family::Gemm, Family::Prefill, Family::Decode] {
                for variant in family.variants() {
                    choose(gpu, &candidates, family, variant, &mut models).unwrap();
                }
            }
            let submodels = candidates.all.iter().flat_map(|each| each.submodels());
            for (submodel, _) in submodels {
                let saw = submodel.data.iter().any(|table| table.gpu == name);
                let answers = models.iter().any(|model| model.key == submodel.key);
                assert!(!(saw && answers), "{} for {name}", submodel.key);
            }
            assert!(!models.is_empty(), "{name}");
        }
        // Our own rows of H200 saw none of H100. Its GEMMs of TensorRT-LLM were taught by rows of H100, so two other
        // generations answer for that engine.
        let h100 = Gpu::find("h100").unwrap();
        let candidates = candidates_without(h100).unwrap();
        let bf16 = Variant::Format(Dtype::Bf16);
        let mut models = Vec::new();
        let mut gemm = |candidates: &Candidates<'_>| {
            let answer = choose(h100, candidates, Family::Gemm, bf16, &mut models);
            answer.unwrap().unwrap()
        };
        let own = "cublaslt 13.1.0 cudnn 9.14.0 on h200";
        assert_eq!(gemm(&candidates).name, own);
        let answer = gemm(&candidates.preferring(Engine::Trtllm));
        let answering = [answer.model, answer.beside.unwrap()].map(|model| &models[model].key.gpu);
        assert_eq!(answering, ["a100", "b200"]);
        assert_eq!(answer.name, "sglang 0.5.10 on a100 and trtllm 1.3.0rc20 on b200");
        // H200's fp8 GEMMs of SGLang saw no row of H100, but answer for their engine alone.
        let fp8 = Variant::Format(Dtype::Fp8);
        let mut name = |candidates: &Candidates<'_>| {
            let answer = choose(h100, candidates, Family::Gemm, fp8, &mut models);
            answer.unwrap().unwrap().name
        };
        assert!(!name(&candidates).contains("sglang"));
        let preferring = candidates.preferring(Engine::Vllm);
        assert!(name(&preferring).starts_with("sglang 0.5.14 on h200"));
    }

    #[test]
    fn kernels_of_an_engine_answer_where_its_stack_was_timed_beside_the_default_one() {
        let of = |gpu: &str, engine, family: Family, dtype| {
            let gpu = Gpu::find(gpu).unwrap();
            let candidates = candidates(gpu, None).unwrap();
            let mut models = Vec::new();
            let default = answers(gpu, &candidates, &mut models).unwrap();
            let own = answers_of(engine, gpu, &candidates, &default, &mut models).unwrap();
            let name = |answers: &Answers| {
                let answer = answers[family as usize].get(Variant::Format(dtype).index());
                let answer = answer.and_then(Option::as_ref);
                answer.map(|answer| answer.name.clone())
            };
            (name(&default).unwrap(), name(&own))
        };
        let (decode, gemm) = (Family::Decode, Family::Gemm);
        let (fp8, bf16) = (Dtype::Fp8, Dtype::Bf16);
        let (sglang, trtllm) = ("sglang 0.5.14 on h200", "trtllm 1.3.0rc20 on h200");
        let sglang_5_10 = "sglang 0.5.10 on h200";
        let ours = "cublaslt 13.1.0 cudnn 9.14.0 on h200";
        for (gpu, engine, family, dtype, default, own) in [
            (
                "a100",
                Engine::Vllm,
                decode,
                bf16,
                "sglang 0.5.10 on a100",
                "vllm 0.14.0 on a100",
            ),
            (
                "a100-40gb",
                Engine::Vllm,
                decode,
                bf16,
                "sglang 0.5.10 on a100",
                "vllm 0.14.0 on a100",
            ),
            ("h200", Engine::Sglang, gemm, fp8, ours, sglang),
            ("h200", Engine::Trtllm, gemm, bf16, ours, trtllm),
            ("h200", Engine::Vllm, gemm, bf16, ours, trtllm),
            ("h200", Engine::Vllm, Family::Prefill, bf16, ours, sglang_5_10),
            ("h200", Engine::Vllm, gemm, fp8, ours, sglang),
            ("h200", Engine::Trtllm, gemm, fp8, ours, trtllm),
            ("h200", Engine::Trtllm, decode, bf16, "sglang 0.5.10 on h200", trtllm),
        ] {
            let (found, of_engine) = of(gpu, engine, family, dtype);
            assert_eq!(found, default);
            assert_eq!(of_engine.as_deref(), Some(own), "{gpu} {engine} {family} {dtype}");
        }
        for (gpu, engine, family, dtype) in [
            ("a100", Engine::Sglang, decode, bf16),
            ("a100", Engine::Vllm, gemm, bf16),
            ("h200", Engine::Vllm, decode, bf16),
        ] {
            let own = of(gpu, engine, family, dtype).1;
            assert_eq!(own, None, "{gpu} {engine} {family} {dtype}");
        }
    }

    #[test]
    fn odd_sizes_are_known_on_gpus_that_exist_and_have_a_model() {
        for entry in &ALIGNMENT.entry {
            let gpu = Gpu::find(&entry.alignment_from).unwrap();
            assert_eq!(gpu.name, entry.alignment_from);
            assert_eq!(gpu.vendor, entry.vendor);
            assert!(library::find(&gpu.name).unwrap().is_some());
        }
        let from = |gpu: &str| {
            let mut models = Vec::new();
            let gpu = Gpu::find(gpu).unwrap();
            let found = alignment(gpu, &candidates(gpu, None).unwrap(), &mut models).unwrap();
            (found.0, found.1.map(|model| models[model].gpu.clone()))
        };
        let of = |known, gpu: &str| (known, Some(gpu.to_owned()));
        assert_eq!(from("v100"), of(OddSizes::Measured, "v100"));
        assert_eq!(from("a100"), of(OddSizes::Measured, "a100-40gb"));
        assert_eq!(from("rtx4090"), of(OddSizes::Free, "a100-40gb"));
        assert_eq!(from("h100"), of(OddSizes::Measured, "h200"));
        assert_eq!(from("b200"), of(OddSizes::Measured, "h200"));
        assert_eq!(from("mi300x"), of(OddSizes::Measured, "mi250x"));
        assert_eq!(from("b60"), (OddSizes::Unknown, None));
    }
}
