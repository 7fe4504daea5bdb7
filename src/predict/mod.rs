//! From operators to times: which model answers, how certain it is, and how steps add up.
//!
//! A [`Predictor`] answers for one GPU. It never reads files: models are built in or handed over.

pub mod assume;

pub mod choose;

pub mod estimate;

pub mod library;

pub mod memo;

pub mod step;

use crate::error::Result;
use crate::features::{Family, head_tile};
use crate::gpu::Gpu;
use crate::ops::{Attention, Dtype, Gemm, Op, Pass};
use crate::predict::choose::{Answer, Voice, choose};
use crate::predict::estimate::{Caveat, Caveats, Estimate, Tier};
use crate::regressor::artifact::Artifact;
use crate::regressor::artifact::Coverage;
use crate::regressor::evaluate::mean_and_spread;
use crate::units::Seconds;
use std::collections::HashMap;

/// Operators that are evaluated together: their features stay in the second-level cache.
const ROUND: usize = 384;

/// Predicts operators on one GPU.
pub struct Predictor {
    gpu: Gpu,
    voices: Vec<Voice>,
    /// By family and format.
    answers: [[Option<Answer>; Dtype::ALL.len()]; Family::ALL.len()],
    /// The voice that knows odd sizes and batches, where any GPU of the maker has one.
    alignment: Option<usize>,
    measured: HashMap<Op, Seconds>,
}

impl Predictor {
    /// A predictor from the built-in models, or from `model` first where it has an answer.
    pub fn new(gpu: &Gpu, model: Option<&Artifact>) -> Result<Self> {
        let mut voices = Vec::new();
        let mut answers = <[[Option<Answer>; Dtype::ALL.len()]; Family::ALL.len()]>::default();
        let candidates = choose::candidates(gpu, model)?;
        for family in Family::ALL {
            for dtype in Dtype::ALL {
                answers[family as usize][dtype as usize] =
                    choose(gpu, &candidates, family, dtype, &mut voices);
            }
        }
        let alignment = choose::alignment(gpu, &mut voices)?;
        Ok(Self {
            gpu: gpu.clone(),
            voices,
            answers,
            alignment,
            measured: HashMap::new(),
        })
    }

    /// Answers these exact operators with their measured times.
    #[must_use]
    pub fn with_measured(mut self, rows: impl IntoIterator<Item = (Op, Seconds)>) -> Self {
        self.measured.extend(rows);
        self
    }

    /// The GPU the times are for.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// The stack and GPU that answer for this family and format (`trtllm 1.3.0rc20 on h200`).
    pub fn basis(&self, family: Family, dtype: Dtype) -> Option<String> {
        self.answer(family, dtype)
            .map(|(_, voice)| voice.name.clone())
    }

    /// What answers for each family and format: the stack and GPU, and what is unlike the question.
    pub fn answers(&self) -> impl Iterator<Item = (Family, Dtype, &str, Caveats)> {
        let asked = Family::ALL
            .into_iter()
            .flat_map(|family| Dtype::ALL.map(|dtype| (family, dtype)));
        asked.filter_map(|(family, dtype)| {
            let (answer, voice) = self.answer(family, dtype)?;
            Some((family, dtype, voice.name.as_str(), answer.caveats))
        })
    }

    /// Predicts each operator, in order.
    pub fn predict(&self, ops: &[Op]) -> Vec<Estimate> {
        let mut estimates = Vec::with_capacity(ops.len());
        let mut round = Round::new(self.voices.len());
        let mut plans = Vec::with_capacity(ops.len().min(ROUND));
        for ops in ops.chunks(ROUND) {
            plans.extend(ops.iter().map(|op| self.plan(op, &mut round)));
            round.evaluate(&self.voices);
            let answers = ops.iter().zip(plans.drain(..));
            estimates.extend(answers.map(|(op, plan)| self.conclude(op, plan, &round)));
            round.clear();
        }
        estimates
    }

    fn answer(&self, family: Family, dtype: Dtype) -> Option<(&Answer, &Voice)> {
        let answer = self.answers[family as usize][dtype as usize].as_ref()?;
        Some((answer, &self.voices[answer.voice]))
    }

    fn plan(&self, op: &Op, round: &mut Round) -> Plan {
        if let Some(&time) = self.measured.get(op) {
            return Plan::Measured(time);
        }
        let answer = Family::of(op)
            .zip(op.dtype())
            .and_then(|(family, dtype)| self.answer(family, dtype));
        match (op, answer) {
            (Op::Gemm(gemm), Some((answer, voice))) => self.plan_gemm(gemm, answer, voice, round),
            (Op::Attention(attention), Some((answer, voice))) => {
                plan_attention(attention, answer, voice, round)
            }
            _ => Plan::Roofline,
        }
    }

    fn plan_gemm(&self, op: &Gemm, answer: &Answer, voice: &Voice, round: &mut Round) -> Plan {
        let coverage = &voice.coverage;
        let mut caveats = answer.caveats;
        let asked = Gemm {
            dtype: answer.dtype,
            ..*op
        };
        // A power of two divides both exactly when it divides their union of bits.
        let misaligned = !(op.n | op.k).is_multiple_of(coverage.alignment);
        let batched = op.batch > coverage.ranges.get("batch").map_or(1, |range| range[1]);
        if !coverage.layouts.contains(&op.layout) {
            caveats.insert(Caveat::OtherLayout);
        }
        // The nearest product of the kind that was measured: aligned, batch members stacked along m.
        let mut known = asked;
        if misaligned {
            known.n = op.n.next_multiple_of(assume::ALIGNED);
            known.k = op.k.next_multiple_of(assume::ALIGNED);
        }
        if batched {
            known.m = op.m.saturating_mul(op.batch);
            known.batch = 1;
        }
        for (name, size) in [
            ("m", known.m),
            ("n", known.n),
            ("k", known.k),
            ("batch", known.batch),
        ] {
            check_range(coverage, name, size, &mut caveats);
        }
        let mut correction = None;
        if misaligned || batched {
            match self.alignment {
                Some(odd) => {
                    let here = Gemm {
                        dtype: Dtype::Fp16,
                        ..*op
                    };
                    let there = Gemm {
                        dtype: Dtype::Fp16,
                        ..known
                    };
                    correction = Some((
                        odd,
                        round.ask(odd, &Op::Gemm(here), &self.voices[odd]),
                        round.ask(odd, &Op::Gemm(there), &self.voices[odd]),
                    ));
                    if misaligned {
                        caveats.insert(Caveat::Alignment);
                    }
                }
                None => caveats.insert(Caveat::AlignmentUnknown),
            }
            if batched {
                caveats.insert(Caveat::Batched);
            }
        }
        let row = round.ask(answer.voice, &Op::Gemm(known), voice);
        let reference = voice.machine.reference(&Op::Gemm(asked));
        Plan::Learned {
            voice: answer.voice,
            row,
            reference,
            factor: 1.0,
            correction,
            caveats,
        }
    }

    fn conclude(&self, op: &Op, plan: Plan, round: &Round) -> Estimate {
        match plan {
            Plan::Measured(time) => Estimate {
                time,
                half_width: assume::MEASURED,
                shared: 0.0,
                tier: Tier::Measured,
                caveats: Caveats::default(),
            },
            Plan::Roofline => assume::roofline(&self.gpu, op),
            Plan::Learned {
                voice: index,
                row,
                reference,
                factor,
                correction,
                caveats,
            } => {
                let voice = &self.voices[index];
                let (mut output, spread) = round.answer(index, row);
                if let Some((odd, here, there)) = correction {
                    output += (round.answer(odd, here).0 - round.answer(odd, there).0)
                        .clamp(-assume::GREATEST_CORRECTION, assume::GREATEST_CORRECTION);
                }
                let own = voice
                    .calibration
                    .half_width(round.reference(index, row).micros(), spread);
                let carried = assume::uncertainty(caveats);
                Estimate {
                    time: reference * output.exp() * factor,
                    half_width: quadrature(own, carried),
                    shared: quadrature(carried, assume::STACK),
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

fn plan_attention(op: &Attention, answer: &Answer, voice: &Voice, round: &mut Round) -> Plan {
    let coverage = &voice.coverage;
    let mut caveats = answer.caveats;
    let mut known = Attention {
        dtype: answer.dtype,
        pass: Pass::Forward,
        ..*op
    };
    if !coverage.head_dims.contains(&op.head_dim) {
        caveats.insert(Caveat::HeadSize);
        if !coverage.taught_head_dims.contains(&op.head_dim) {
            // A size that nobody timed runs in the kernel of its tile.
            known.head_dim = head_tile(op.head_dim) as u64;
            known.value_dim = head_tile(op.value_dim) as u64;
        }
    }
    // A single query sees all keys, masked or not.
    let masked_alike = op.seq_q == 1 || coverage.causal.contains(&op.causal);
    // Every prefill in the tables starts from an empty cache.
    let offset = op.seq_q > 1 && op.seq_q != op.seq_kv;
    if !masked_alike || offset || (op.window > 0 && !coverage.windowed) {
        caveats.insert(Caveat::Mask);
    }
    for (name, size) in [
        ("batch", op.batch),
        ("heads", op.heads),
        ("group", op.heads / op.kv_heads.max(1)),
        ("seq_q", op.seq_q),
        ("seq_kv", op.seq_kv),
    ] {
        check_range(coverage, name, size, &mut caveats);
    }
    let mut factor = 1.0;
    if op.pass == Pass::Backward {
        caveats.insert(Caveat::BackwardFromForward);
        factor = assume::BACKWARD_FLOPS / assume::BACKWARD_EFFICIENCY;
    }
    let row = round.ask(answer.voice, &Op::Attention(known), voice);
    // Decoding waits for the cache, so a narrower head than its tile moves fewer bytes; prefill computes the tile.
    let timed = if op.is_decode() {
        Attention {
            dtype: known.dtype,
            pass: known.pass,
            ..*op
        }
    } else {
        known
    };
    let reference = voice.machine.reference(&Op::Attention(timed));
    Plan::Learned {
        voice: answer.voice,
        row,
        reference,
        factor,
        correction: None,
        caveats,
    }
}

fn check_range(coverage: &Coverage, name: &str, size: u64, caveats: &mut Caveats) {
    if coverage
        .ranges
        .get(name)
        .is_some_and(|range| !(range[0]..=range[1]).contains(&size))
    {
        caveats.insert(Caveat::OutOfDomain);
    }
}

/// How one operator is going to be answered.
enum Plan {
    Measured(Seconds),
    Roofline,
    Learned {
        voice: usize,
        row: usize,
        reference: Seconds,
        factor: f64,
        /// Voice, row of the operator itself, row of its aligned, unbatched neighbour.
        correction: Option<(usize, usize, usize)>,
        caveats: Caveats,
    },
}

/// Everything asked of the nets in one call, evaluated together.
struct Round {
    voices: Vec<Questions>,
}

#[derive(Default)]
struct Questions {
    inputs: Vec<f32>,
    references: Vec<Seconds>,
    outputs: Vec<f32>,
    members: usize,
}

impl Round {
    fn new(voices: usize) -> Self {
        Self {
            voices: (0..voices).map(|_| Questions::default()).collect(),
        }
    }

    /// Forgets the questions and keeps the memory.
    fn clear(&mut self) {
        for questions in &mut self.voices {
            questions.inputs.clear();
            questions.references.clear();
        }
    }

    /// Queues one question to a voice; the row of its answer.
    fn ask(&mut self, index: usize, op: &Op, voice: &Voice) -> usize {
        let questions = &mut self.voices[index];
        let start = questions.inputs.len();
        questions.inputs.resize(start + voice.width(), 0.0);
        let reference = voice.machine.features(op, &mut questions.inputs[start..]);
        questions.references.push(reference);
        questions.references.len() - 1
    }

    fn evaluate(&mut self, voices: &[Voice]) {
        for (questions, voice) in self.voices.iter_mut().zip(voices) {
            if !questions.references.is_empty() {
                questions.members = voice.evaluate(&mut questions.inputs, &mut questions.outputs);
            }
        }
    }

    fn reference(&self, voice: usize, row: usize) -> Seconds {
        self.voices[voice].references[row]
    }

    /// Mean and standard deviation of the members.
    fn answer(&self, voice: usize, row: usize) -> (f64, f64) {
        let Questions {
            outputs, members, ..
        } = &self.voices[voice];
        mean_and_spread(outputs[row * members..][..*members].iter().copied())
    }
}

/// The sum of two independent deviations; the `hypot` of the C library would ask for glibc 2.35.
fn quadrature(a: f64, b: f64) -> f64 {
    (a * a + b * b).sqrt()
}
