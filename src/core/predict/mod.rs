//! From operators to times: which model answers, how certain it is, and how steps add up.
//!
//! A [`Predictor`] answers for one GPU. It never reads files: models are built in or handed over.

pub mod assume;

pub mod choose;

pub mod collective;

pub mod estimate;

pub mod laws;

pub mod library;

mod log_log;

pub mod memo;

pub mod ratios;

pub mod scope;

pub mod step;

use crate::arch::{Architecture, MemoryUse, Mode, Practice, Workload, memory_use};
use crate::error::{Error, Result};
use crate::families::{self, Family, GpuRates, OddSizes, Question, Variant};
use crate::framework::{Engine, Framework, Kernels, Provider};
use crate::gpu::Gpu;
use crate::ops::{Attention, Dtype, Op};
use crate::predict::choose::{Answer, Answers, LoadedModel, Miss, PeakShares};
use crate::predict::estimate::{Caveat, Caveats, Estimate, Tier};
use crate::predict::laws::Laws;
use crate::predict::ratios::{Carried, Ratios};
use crate::predict::scope::{Scope, other_stacks};
use crate::regressor::artifact::{Artifact, Card};
use crate::regressor::net::Output;
use crate::regressor::{Loops, vectorised};
use crate::stats::quadrature;
use crate::units::Seconds;
use std::cell::RefCell;
use std::collections::HashMap;

/// Operators that are evaluated together: their features stay in the second-level cache.
const BATCH: usize = 384;

/// Predicts operators on one GPU.
pub struct Predictor {
    gpu: Gpu,
    /// Those of the GPU, without a stack.
    rates: GpuRates,
    models: Vec<LoadedModel>,
    answers: Answers,
    /// What answers in place of those for kernels of an engine.
    of_engines: [Answers; Engine::ALL.len()],
    odd_sizes: OddSizes,
    /// The model that knows odd sizes and batches, where any GPU of the maker has one.
    alignment: Option<usize>,
    /// What kernels for unaligned operands reach of the peak.
    peak_shares: Option<&'static PeakShares>,
    ratios: Ratios,
    laws: Laws,
    measured: HashMap<Op, Seconds>,
    framework: Framed,
    scope: Scope,
    /// The model that was asked for.
    named: Option<Named>,
}

/// A model that was asked for.
struct Named {
    name: String,
    /// Those of its sub-models.
    formats: Vec<Dtype>,
    /// That of all its sub-models; `None` where they are of several.
    stack: Option<String>,
}

impl Named {
    fn of(card: &Card) -> Self {
        let keys = || card.submodels.iter().map(|submodel| &submodel.key);
        let known: Vec<_> = keys().filter_map(|key| key.variant.dtype()).collect();
        let mut stacks: Vec<_> = keys().map(|key| key.stack.clone()).collect();
        stacks.sort();
        stacks.dedup();
        Self {
            name: card.name.clone(),
            formats: Dtype::ALL.into_iter().filter(|dtype| known.contains(dtype)).collect(),
            stack: stacks.pop().filter(|_| stacks.is_empty()),
        }
    }
}

/// What puts steps together.
#[derive(Clone, Debug, Default)]
enum Framed {
    /// The default of the mode.
    #[default]
    Default,
    /// The built-in framework of this name.
    Named(String),
    /// This one.
    Given(Box<Framework>),
}

impl Predictor {
    /// A predictor from the built-in models, or from `model` first where it has an answer.
    pub fn new(gpu: &Gpu, model: Option<&Artifact>) -> Result<Self> {
        let mut predictor = Self::of(gpu, &choose::candidates(gpu, model)?, Laws::of(gpu, true)?)?;
        predictor.named = model.map(|model| Named::of(&model.card));
        if let Some([only]) = predictor.named.as_ref().map(|named| &named.formats[..])
            && only.is_element()
        {
            predictor.gpu = predictor.gpu.with_usual_dtype(*only);
        }
        Ok(predictor)
    }

    /// A predictor of a GPU as if it had no measurements: from the built-in models that saw no row of it, neither their own
    /// nor through a teacher. Odd sizes are known from elsewhere; measured ratios between kernels of attention stay, laws of its memory-bound
    /// kernels do not.
    pub fn leaving_out(gpu: &Gpu) -> Result<Self> {
        Self::of(gpu, &choose::candidates_without(gpu)?, Laws::of(gpu, false)?)
    }

    fn of(gpu: &Gpu, candidates: &choose::Candidates<'_>, laws: Laws) -> Result<Self> {
        let mut models = Vec::new();
        let answers = choose::answers(gpu, candidates, &mut models)?;
        let mut of_engines = Engine::ALL.map(|_| Family::ALL.map(|_| Vec::new()));
        for engine in Engine::ALL {
            of_engines[engine as usize] = choose::answers_of(engine, gpu, candidates, &answers, &mut models)?;
        }
        let (odd_sizes, alignment, peak_shares) = choose::alignment(gpu, candidates, &mut models)?;
        Ok(Self {
            gpu: gpu.clone(),
            rates: GpuRates::new(gpu, gpu.launch_floor()),
            models,
            answers,
            of_engines,
            odd_sizes,
            alignment,
            peak_shares,
            ratios: Ratios::of(gpu)?,
            laws,
            measured: HashMap::new(),
            framework: Framed::Default,
            scope: Scope::ThisStack,
            named: None,
        })
    }

    /// What to say where the model that was asked for knows nothing of this format's width, so that others answer:
    /// which formats it has.
    pub fn format_note(&self, dtype: Dtype) -> Option<String> {
        let Named {
            name, formats: known, ..
        } = self.named.as_ref()?;
        if known.is_empty() || known.iter().any(|known| known.runs_as(dtype)) {
            return None;
        }
        let known: Vec<_> = known.iter().map(|known| known.name()).collect();
        Some(format!(
            "model {name} knows nothing of {dtype}, so other models answer; it has {}: dtype {} asks it",
            known.join(", "),
            known[0]
        ))
    }

    /// Puts steps together as this framework does.
    #[must_use]
    pub fn with_framework(mut self, framework: Framework) -> Self {
        self.framework = Framed::Given(Box::new(framework));
        self
    }

    /// Puts steps together as the built-in framework of this name does in the mode of each step.
    #[must_use]
    pub fn with_framework_named(mut self, name: &str) -> Self {
        self.framework = Framed::Named(name.to_owned());
        self
    }

    /// Makes intervals of operators hold for this software.
    #[must_use]
    pub const fn with_scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// The software that intervals of operators hold for.
    pub const fn scope(&self) -> Scope {
        self.scope
    }

    /// The framework that puts steps of this mode together; fails where the one asked for does not run it.
    pub fn framework(&self, mode: Mode) -> Result<&Framework> {
        match &self.framework {
            Framed::Default => Ok(self
                .timed_framework(mode)
                .unwrap_or_else(|| Framework::assumed_for(mode))),
            Framed::Named(name) => Framework::find(name, mode, self.gpu.generation),
            Framed::Given(framework) if framework.modes.contains(&mode) => Ok(framework),
            Framed::Given(framework) => {
                let modes = framework.modes.iter().map(|mode| mode.name());
                let allowed = modes.collect::<Vec<_>>().join(" or ");
                Err(Error::field(&framework.name, "mode", mode, &allowed))
            }
        }
    }

    /// The framework that runs the one stack of the model that was asked for, where none was named.
    fn timed_framework(&self, mode: Mode) -> Option<&'static Framework> {
        let stack = self.named.as_ref()?.stack.as_ref()?;
        let is_open = matches!(self.framework, Framed::Default);
        is_open
            .then(|| Framework::recognise(stack, mode, self.gpu.generation))
            .flatten()
    }

    /// What the framework of this mode keeps in memory while it trains.
    pub fn practice(&self, mode: Mode) -> Practice {
        let framework = self.framework(mode);
        framework.map_or_else(|_| Practice::default(), |framework| framework.practice.clone())
    }

    /// Memory on the fullest GPU of a replica under the framework of the workload's mode.
    pub fn memory_use(&self, arch: &Architecture, work: &Workload) -> Result<MemoryUse> {
        memory_use(arch, work, &self.framework(work.mode)?.practice)
    }

    /// Whose kernels operators run that are asked for alone: those of the framework that was asked for, else the default.
    pub fn kernels(&self) -> Kernels {
        match &self.framework {
            Framed::Default => Kernels::default(),
            Framed::Named(name) => Framework::kernels_of(name, self.gpu.generation),
            Framed::Given(framework) => framework.kernels,
        }
    }

    /// Answers these exact operators with their measured times.
    #[must_use]
    pub fn with_measured(mut self, rows: impl IntoIterator<Item = (Op, Seconds)>) -> Self {
        self.measured.extend(rows);
        self
    }

    /// Whether the default framework of the mode is assumed because nothing says another.
    pub fn assumes_framework(&self, mode: Mode) -> bool {
        matches!(self.framework, Framed::Default) && self.timed_framework(mode).is_none()
    }

    /// The GPU the times are for.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// The stack and GPU that answer for these kernels of this family and variant (`trtllm 1.3.0rc20 on h200`).
    pub fn basis(&self, kernels: Kernels, family: Family, variant: impl Into<Variant>) -> Option<String> {
        self.answer(kernels.engine, family, variant.into())
            .map(|answer| answer.name.clone())
    }

    /// The family whose kernels answer for a family: another one where the GPU has no model of it.
    pub fn answering(&self, kernels: Kernels, family: Family, variant: impl Into<Variant>) -> Family {
        self.answer(kernels.engine, family, variant.into())
            .map_or(family, |answer| answer.family)
    }

    /// Whether the timings behind these GEMMs of this format contain the cast of the left operand to it: TensorRT-LLM's
    /// tables do, but for scales of blocks (6 us in all for 16 rows on H200), and so does the model over the default stacks of all GPUs.
    pub fn times_casts(&self, kernels: Kernels, dtype: Dtype) -> bool {
        let answer = self.answer(kernels.engine, Family::Gemm, dtype.into());
        let holds_casts = |answer: &Answer| {
            let model = &self.models[answer.model];
            model.engine == Some(Engine::Trtllm) || model.is_of_all_gpus()
        };
        dtype != Dtype::Fp8Block && answer.is_some_and(holds_casts)
    }

    /// What answers for each family and variant: the stack and GPU, and what is unlike the question; the default before
    /// what answers in its place for kernels of an engine.
    pub fn answers(&self) -> impl Iterator<Item = (Family, Variant, Option<Engine>, &str, Caveats)> {
        let asked = Family::ALL.into_iter().flat_map(|family| {
            let variants = family.variants().into_iter();
            variants.map(move |variant| (family, variant))
        });
        asked.flat_map(|(family, variant)| {
            let of_engines = Engine::ALL.map(Some).into_iter().zip(&self.of_engines);
            let tables = std::iter::once((None, &self.answers)).chain(of_engines);
            tables.filter_map(move |(engine, table)| {
                let answer = at(table, family, variant)?;
                Some((family, variant, engine, answer.name.as_str(), answer.caveats))
            })
        })
    }

    /// Predicts each operator, in order, with [`Predictor::kernels`].
    pub fn predict(&self, ops: &[Op]) -> Vec<Estimate> {
        self.predict_by(self.kernels(), ops)
    }

    /// The same with these kernels.
    pub fn predict_by(&self, kernels: Kernels, ops: &[Op]) -> Vec<Estimate> {
        let mut estimates = Vec::with_capacity(ops.len());
        let mut plans = Vec::with_capacity(ops.len().min(BATCH));
        ROWS.with_borrow_mut(|batch| {
            for ops in ops.chunks(BATCH) {
                batch.clear(self.models.len());
                plans.extend(ops.iter().map(|op| {
                    let plan = self.plan(op, kernels.engine, batch);
                    (plan, self.plans_from_cache(op, kernels.engine, batch))
                }));
                batch.evaluate(&self.models);
                let answers = ops.iter().zip(plans.drain(..));
                let answers = answers.map(|(op, (plan, from_cache))| {
                    let mut estimate = self.conclude(op, plan, kernels.memory, batch);
                    if let Some(from_cache) = from_cache.filter(|_| estimate.tier != Tier::Measured) {
                        let from_cache =
                            from_cache.map(|(op, plan)| (op, self.conclude(&op, plan, kernels.memory, batch)));
                        estimate = self.against_cache(op, estimate, from_cache);
                    }
                    let estimate = match op {
                        Op::Attention(attention)
                            if !attention.has_fused_kernel()
                                && !kernels.memory.pads_heads(attention)
                                && !self.times_any_head(op, kernels.engine)
                                && estimate.tier != Tier::Measured =>
                        {
                            assume::unfused(&self.gpu, attention, estimate)
                        }
                        _ => estimate,
                    };
                    self.scoped(op, estimate)
                });
                estimates.extend(answers);
            }
        });
        estimates
    }

    fn answer(&self, engine: Option<Engine>, family: Family, variant: Variant) -> Option<&Answer> {
        engine
            .and_then(|engine| at(&self.of_engines[engine as usize], family, variant))
            .or_else(|| at(&self.answers, family, variant))
    }

    /// Whether the kernels that answer were timed with heads that no fused kernel takes, so that they take all.
    fn times_any_head(&self, op: &Op, engine: Option<Engine>) -> bool {
        let answer = self.answer(engine, Family::of(op), Variant::of(op));
        let known = answer.map(|answer| &self.models[answer.to(op).model].coverage.head_dims);
        known.is_some_and(|sizes| {
            sizes
                .iter()
                .any(|&size| !Attention::new(1, 1, 2, size).has_fused_kernel())
        })
    }

    /// Queues the nearest covered shape of an operator.
    fn plan(&self, op: &Op, engine: Option<Engine>, batch: &mut Batch) -> Plan {
        if let Some(&time) = self.measured.get(op) {
            return Plan::Measured(time);
        }
        let Some(answer) = self.answer(engine, Family::of(op), Variant::of(op)) else {
            return Plan::Unlearned(1.0);
        };
        let answer = answer.to(op);
        let model = &self.models[answer.model];
        let question = Question {
            variant: answer.asked,
            coverage: &model.coverage,
            odd_sizes: self.odd_sizes,
            gpus_per_node: self.gpu.gpus_per_node(),
        };
        let Some(nearest) = families::nearest_covered(op, &question) else {
            return Plan::Unlearned(1.0);
        };
        let correction = self.alignment.zip(nearest.correction);
        let asked = |model: usize, batch: &mut Batch| {
            let loaded = &self.models[model];
            Asked {
                model,
                row: batch.enqueue(model, &nearest.covered, loaded),
                reference: loaded.rates.reference(&nearest.timed) * nearest.scale,
                size_factor: {
                    let sizes = families::grouped_sizes(&nearest.covered);
                    loaded.calibration.size_factor(sizes)
                },
                miss: loaded.miss(op),
            }
        };
        let mut carried = match (op, &nearest.covered) {
            (Op::Attention(op), Op::Attention(covered)) => self.ratios.carry(op, covered),
            _ => Carried::NOTHING,
        };
        carried.factor *= nearest.factor;
        let unlike = |engine: &Engine| model.engine.map_or(model.is_tuned, |timed| timed != *engine);
        let borrowed = engine
            .filter(unlike)
            .and_then(|engine| other_stacks(op, Some((engine, self.gpu.generation))));
        let mut caveats = answer.caveats.union(nearest.caveats);
        caveats.insert_if(borrowed.is_some(), Caveat::OtherProvider);
        carried = carried.and(borrowed.unwrap_or(Carried::NOTHING));
        if caveats.contains(Caveat::RatioOfRecurrences) {
            let ratio = assume::ratio_of_recurrences(self.gpu.generation);
            carried.half_width = quadrature(carried.half_width, ratio);
        }
        // No engine is asked for, and one's kernels answer.
        if let Op::Attention(op) = op
            && engine.is_none()
            && model.engine.is_some()
            && let Some(trained) = self.ratios.train(op)
        {
            carried = carried.and(trained);
            caveats.insert(Caveat::TrainedFromServed);
        }
        Plan::Learned {
            correction: correction.map(|(odd, pair)| {
                let rows = pair.map(|op| batch.enqueue(odd, &op, &self.models[odd]));
                (odd, rows)
            }),
            asked: asked(answer.model, batch),
            beside: answer.beside.map(|other| asked(other, batch)),
            carried,
            caveats,
        }
    }

    /// Queues what else may answer for queries against a longer cache, which no table of prompts holds: the decoding step that does
    /// the same; that of one query, than which none is faster; and the prompt as long as the cache, whose rate none exceeds.
    fn plans_from_cache(&self, op: &Op, engine: Option<Engine>, batch: &mut Batch) -> Option<Box<[(Op, Plan); 3]>> {
        let Op::Attention(whole) = op else { return None };
        let (folded, times) = whole.folded()?;
        let single = Attention { seq_q: 1, ..*whole };
        let prompt = Attention {
            seq_q: whole.seq_kv,
            ..*whole
        };
        let plans = [(folded, times), (single, 1.0), (prompt, 1.0)].map(|(op, times)| {
            let op = Op::Attention(op);
            let mut plan = self.plan(&op, engine, batch);
            match &mut plan {
                Plan::Learned { caveats, carried, .. } => {
                    caveats.insert(Caveat::FewQueries);
                    carried.factor *= times;
                }
                Plan::Unlearned(all) => *all = times,
                Plan::Measured(_) => {}
            }
            (op, plan)
        });
        // Few operators have them, and all make room for them.
        Some(Box::new(plans))
    }

    /// The answer for queries against a longer cache, from that of the nets of prompts and those of
    /// [`Predictor::plans_from_cache`], in their order.
    fn against_cache(&self, op: &Op, whole: Estimate, from_cache: [(Op, Estimate); 3]) -> Estimate {
        let [(_, folded), (_, single), (prompt_op, prompt)] = from_cache;
        let folded = Estimate {
            time: folded.time.max(prompt.time * (op.flops() / prompt_op.flops())),
            ..folded
        };
        let faster = if folded.time < whole.time { folded } else { whole };
        let answer = if single.time > faster.time { single } else { faster };
        let least = self.rates.least(op);
        Estimate {
            time: answer.time.max(least),
            least,
            ..answer
        }
    }

    fn outcome(&self, op: &Op, asked: &Asked, batch: &Batch) -> Outcome {
        let model = &self.models[asked.model];
        let Output { mean, spread } = batch.output(asked.model, asked.row);
        let reference = batch.reference(asked.model, asked.row).micros();
        let calibration = &model.calibration;
        let half_width = calibration.half_width(reference, asked.size_factor, spread);
        Outcome {
            output: mean + asked.miss.slower,
            half_width: half_width.max(asked.miss.half_width),
            transfer: model.transfer[match op {
                Op::Gemm(op) => usize::from(self.rates.waits_for_weights(op)),
                _ => 0,
            }],
        }
    }

    /// An estimate whose interval holds for the software that was asked for; what follows from bandwidths alone names no stack.
    fn scoped(&self, op: &Op, estimate: Estimate) -> Estimate {
        let other = match (self.scope, estimate.tier) {
            (Scope::ThisStack, _) | (_, Tier::Roofline) => None,
            (Scope::AnyStack, _) => other_stacks(op, None),
        };
        other.map_or(estimate, |other| estimate.widened(other.half_width))
    }

    fn conclude(&self, op: &Op, plan: Plan, provider: Provider, batch: &Batch) -> Estimate {
        match plan {
            Plan::Measured(time) => Estimate {
                time,
                half_width: assume::MEASURED,
                shared: 0.0,
                least: self.rates.least(op).min(time),
                tier: Tier::Measured,
                caveats: Caveats::default(),
            },
            Plan::Unlearned(times) => {
                let known = match op {
                    Op::Memory(op) => self.laws.estimate(op, provider),
                    Op::Collective(op) => assume::over_network(&self.gpu, op),
                    _ => None,
                };
                let estimate = known.unwrap_or_else(|| assume::roofline(&self.gpu, op));
                let time = estimate.time * times;
                Estimate {
                    time,
                    least: self.rates.least(op).min(time),
                    ..estimate
                }
            }
            Plan::Learned {
                asked,
                beside,
                carried,
                correction,
                mut caveats,
            } => {
                let model = &self.models[asked.model];
                let mut own = self.outcome(op, &asked, batch);
                if let Some(beside) = beside {
                    let other = self.outcome(op, &beside, batch);
                    // Relative to the reference of the first.
                    let apart = (beside.reference / asked.reference).ln();
                    own.output = (own.output + other.output + apart) / 2.0;
                    own.half_width = (own.half_width + other.half_width) / 2.0;
                    // The mean is nearer than either answer.
                    own.transfer = own.transfer.min(other.transfer);
                }
                let mut output = own.output;
                if let Some((odd, [here, there])) = correction {
                    output += (batch.output(odd, here).mean - batch.output(odd, there).mean)
                        .clamp(-assume::GREATEST_CORRECTION, assume::GREATEST_CORRECTION);
                }
                // No weights, however damaged, make a time of nothing or of ages.
                let output = output.clamp(-assume::GREATEST_OUTPUT, assume::GREATEST_OUTPUT);
                let mut time = carried.apply(asked.reference * output.exp(), model.rates.launch());
                // Of collectives both ends of a link's range lie as far from bytes over bandwidth.
                if own.half_width > assume::GUESS && !matches!(op, Op::Collective(_)) {
                    time = assume::towards_roofline(&self.gpu, op, time, own.half_width);
                    own.half_width = assume::GUESS;
                }
                let time = model.reached(op, time, &self.gpu);
                let time = match (op, self.peak_shares) {
                    (Op::Gemm(gemm), Some(shares)) if gemm.dtype.size() == 2 => {
                        time.max(op.flops() / (self.gpu.nearest_peak(gemm.dtype) * shares.of(gemm)))
                    }
                    _ => time,
                };
                let least = self.rates.least(op);
                caveats.insert_if(time < least, Caveat::Physics);
                let assumed = quadrature(assume::uncertainty(caveats), carried.half_width);
                let assumed = quadrature(assumed, own.transfer);
                Estimate {
                    time: time.max(least),
                    half_width: quadrature(own.half_width, assumed).min(assume::GREATEST_OUTPUT),
                    shared: quadrature(assumed, assume::STACK),
                    least,
                    tier: if assume::is_transfer(caveats) {
                        Tier::Transferred
                    } else {
                        Tier::Learned
                    },
                    caveats,
                }
            }
        }
    }
}

/// The features of an operator, to be written into `out`; its reference time.
struct Features<'a> {
    rates: &'a GpuRates,
    op: &'a Op,
    out: &'a mut [f32],
}

impl Loops for Features<'_> {
    type Output = Seconds;

    #[inline(always)] // into a function that is compiled for vectors
    fn run(self) -> Seconds {
        self.rates.features(self.op, self.out)
    }
}

/// The answer for a family and variant.
fn at(answers: &Answers, family: Family, variant: Variant) -> Option<&Answer> {
    answers[family as usize].get(variant.index())?.as_ref()
}

/// The answer of a model to one row.
struct Outcome {
    /// `ln` of the time over the reference.
    output: f64,
    half_width: f64,
    /// What learning on another GPU adds to it.
    transfer: f64,
}

/// How one operator is going to be answered.
enum Plan {
    Measured(Seconds),
    /// By bandwidths and peaks alone, so many times.
    Unlearned(f64),
    Learned {
        asked: Asked,
        /// The same of another model, where the answer is the mean of both.
        beside: Option<Asked>,
        carried: Carried,
        /// Model, row of the operator itself and row of its aligned, unbatched neighbour.
        correction: Option<(usize, [usize; 2])>,
        caveats: Caveats,
    },
}

/// A row that a model is asked for.
struct Asked {
    model: usize,
    row: usize,
    /// The reference time of the operator.
    reference: Seconds,
    /// What its sizes multiply the half width by.
    size_factor: f64,
    miss: Miss,
}

thread_local! {
    static ROWS: RefCell<Batch> = RefCell::default();
}

/// The rows that all models are asked for in one call, evaluated together.
#[derive(Default)]
struct Batch {
    models: Vec<BatchRows>,
}

#[derive(Default)]
struct BatchRows {
    inputs: Vec<f32>,
    references: Vec<Seconds>,
    outputs: Vec<Output>,
}

impl Batch {
    /// Forgets the rows and keeps the memory, for so many models.
    fn clear(&mut self, models: usize) {
        for rows in &mut self.models {
            rows.inputs.clear();
            rows.references.clear();
        }
        self.models.resize_with(models, BatchRows::default);
    }

    /// Queues one operator for a model; the row of its output.
    fn enqueue(&mut self, index: usize, op: &Op, model: &LoadedModel) -> usize {
        let rows = &mut self.models[index];
        let start = rows.inputs.len();
        rows.inputs.resize(start + model.evaluator().inputs(), 0.0);
        let reference = vectorised(Features {
            rates: &model.rates,
            op,
            out: &mut rows.inputs[start..],
        });
        rows.references.push(reference);
        rows.references.len() - 1
    }

    fn evaluate(&mut self, models: &[LoadedModel]) {
        for (rows, model) in self.models.iter_mut().zip(models) {
            if !rows.references.is_empty() {
                model.evaluator().evaluate(&rows.inputs, &mut rows.outputs);
            }
        }
    }

    fn reference(&self, model: usize, row: usize) -> Seconds {
        self.models[model].references[row]
    }

    fn output(&self, model: usize, row: usize) -> Output {
        self.models[model].outputs[row]
    }
}
