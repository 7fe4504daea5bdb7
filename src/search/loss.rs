//! What searched shapes cost in loss against the baseline, and which are slower and worse at once.

use crate::arch::Architecture;
use crate::loss::{Comparison, Evidence, Model, Profile};
use crate::ops::Dtype;
use crate::search::Request;
use crate::search::objective::Candidate;
use crate::search::shape::{Count, Shape};
use crate::search::space::Space;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex};

/// Tokens a parameter where no number of tokens is asked for.
const TOKENS_A_PARAMETER: f64 = 20.0;

/// Joint draws in which a shape must have the higher loss to be worse for sure.
const SURE: usize = 250;

/// What a shape that costs loss is worse by, in units of `ln` of time.
pub const COSTS_LOSS: f64 = 100.0;

/// Compares shapes with the baseline's proportions at equal parameters and tokens.
pub struct Referee {
    model: &'static Model,
    reference: Profile,
    vocab: u64,
    total: bool,
    /// Tokens that both are trained on.
    tokens: f64,
    /// What was computed before: a search ranks most shapes again under another layout.
    compared: Memo<Comparison>,
    drawn: Memo<Option<Arc<[f64]>>>,
}

impl Referee {
    /// Against the baseline of a request; after the tokens of the request where none are given.
    pub fn new(request: &Request, tokens: Option<f64>) -> Self {
        // An unnamed baseline lends its proportions, not its tokenizer.
        let vocab = match request.named {
            true => request.baseline.vocab,
            false => request.vocab,
        };
        let mut reference = Profile::of(&request.baseline, vocab, request.workload.linear_dtype());
        // Nor does it take the gate away that the search has.
        reference.gated |= !request.named && request.base.mlp.kind.up_factor() > 1;
        Self {
            model: Model::get(),
            reference,
            vocab: request.vocab,
            total: request.count == Count::Total,
            tokens: tokens
                .or(request.tokens)
                .unwrap_or(TOKENS_A_PARAMETER * request.parameters as f64),
            compared: Memo::default(),
            drawn: Memo::default(),
        }
    }

    /// Tokens that both are trained on.
    pub fn tokens(&self) -> f64 {
        self.tokens
    }

    /// What the number format costs the baseline against 16 bits, which is in no other difference; `None` if nothing.
    pub fn format(&self) -> Option<Comparison> {
        let wide = Profile {
            format: Dtype::Bf16,
            ..self.reference
        };
        let compared = self.model.compare(&self.reference, &wide, self.tokens);
        let costs = compared.difference.as_ref().is_some_and(|one| one.mnat != 0.0);
        costs.then_some(compared)
    }

    /// What is known of the loss of a shape, which `arch` has.
    pub fn compare(&self, shape: &Shape, arch: &Architecture) -> Comparison {
        self.compared.of(shape, || {
            let (shape, reference) = self.pair(arch);
            self.model.compare(&shape, &reference, self.tokens)
        })
    }

    /// What is added to the score of a shape that costs loss, more than any time differs by, and more for more of it; 0 where it
    /// costs none.
    pub fn penalty(&self, arch: &Architecture) -> f64 {
        let mnat = self.middle(arch);
        match mnat > 0.0 {
            true => COSTS_LOSS + mnat / 100.0,
            false => 0.0,
        }
    }

    /// The middle of its loss over the baseline's, 10^-3 nats; infinite where they do not compare.
    pub fn middle(&self, arch: &Architecture) -> f64 {
        if self.vocab != self.reference.vocab {
            return f64::INFINITY;
        }
        let (shape, reference) = self.pair(arch);
        self.model.middle_difference(&shape, &reference, self.tokens)
    }

    /// Whether the laws say what a difference of loss is worth in tokens for a model of this size.
    pub fn knows_worth(&self, arch: &Architecture) -> bool {
        self.model.knows_tokens(Count::Total.of(arch) as f64, self.tokens)
    }

    /// GPU time until a shape has the loss that the baseline's proportions have at equal parameters, over the time that they
    /// take, where its loss is so much higher and is so many times as fast; infinite where it never has. The laws of size and
    /// tokens say, in the mean, what a difference of loss is worth.
    pub fn time_to_equal_loss(&self, mnat: f64, times_as_fast: f64) -> f64 {
        let logs = self.model.sizes.weighted().map(|(_, law, weight)| {
            let left = law.of_tokens(self.tokens) - mnat / 1e3;
            weight * (law.tokens(left) / self.tokens).ln()
        });
        logs.sum::<f64>().exp() / times_as_fast
    }

    /// A shape and the baseline's proportions at as many parameters.
    pub fn pair(&self, arch: &Architecture) -> (Profile, Profile) {
        let shape = Profile::of(arch, self.vocab, self.reference.format);
        (shape, self.reference.as_large_as(&shape, self.total))
    }

    /// Candidates, given fastest first, without those that a faster one beats in loss in every draw. Shapes of whose loss
    /// nothing is known stay.
    pub fn not_worse(&self, space: &Space, candidates: Vec<Candidate>) -> Vec<Candidate> {
        let losses: Vec<Option<Arc<[f64]>>> = candidates
            .par_iter()
            .map(|candidate| {
                let shape = &candidate.shape;
                self.drawn.of(shape, || self.draws(&space.build(shape).0))
            })
            .collect();
        let mut kept: Vec<(Candidate, Option<Arc<[f64]>>)> = Vec::new();
        for (candidate, losses) in candidates.into_iter().zip(losses) {
            let beaten = losses.as_ref().is_some_and(|losses| {
                let known = kept.iter().rev().filter_map(|(_, known)| known.as_ref());
                known.into_iter().any(|known| all_lower(known, losses))
            });
            if !beaten {
                kept.push((candidate, losses));
            }
        }
        kept.into_iter().map(|(candidate, _)| candidate).collect()
    }

    fn draws(&self, arch: &Architecture) -> Option<Arc<[f64]>> {
        let shape = Profile::of(arch, self.vocab, self.reference.format);
        let (evidence, _) = self.model.evidence(&shape, &self.reference, self.tokens);
        let known = matches!(evidence, Evidence::Inside | Evidence::Extrapolated);
        known.then(|| self.model.first_losses(&shape, self.tokens, SURE).into())
    }
}

/// Values by shape, whatever its layout.
struct Memo<T>(Mutex<FxHashMap<Shape, T>>);

impl<T> Default for Memo<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> Memo<T> {
    fn of(&self, shape: &Shape, compute: impl FnOnce() -> T) -> T {
        let shape = shape.under_any();
        let lock = || self.0.lock().expect("no thread panics with it");
        if let Some(known) = lock().get(&shape) {
            return known.clone();
        }
        let value = compute();
        lock().insert(shape, value.clone());
        value
    }
}

fn all_lower(one: &[f64], other: &[f64]) -> bool {
    one.iter().zip(other).all(|(one, other)| one < other)
}
