//! Searching for the lowest loss that a budget reaches, or for the shortest time to a loss.
//!
//! Tokens are throughput times GPU time. Throughput and loss are drawn together, as often as the model of the loss has
//! joint draws: all shapes share a draw of the law, of its terms and of what is uncertain about every throughput alike.

use crate::arch::Architecture;
use crate::error::{Error, Result};
use crate::loss::law::{Law, Size};
use crate::loss::{DRAWS, Ensemble, Evidence, Model, Profile, Reason, TIED};
use crate::named_enum;
use crate::random::{Random, fnv1a};
use crate::search::{Request, Served};
use crate::stats::NORMAL_90;
use crate::stats::quantile;
use crate::units::Seconds;
use std::collections::BTreeMap;

named_enum! {
    /// What a search looks for.
    #[derive(Default)]
    Objective {
        /// The most tokens per second among shapes that cost no loss against the baseline.
        #[default]
        EqualLoss = "equal-loss",
        /// The most tokens per second, whatever it costs in loss.
        Throughput = "throughput",
        /// The lowest loss for a budget of GPU time, or after so many tokens.
        Loss = "loss",
        /// The shortest GPU time to a loss.
        TrainTime = "train-time",
    }
}

/// The law whose scale an absolute loss is on: the one annealed fit that knows the shape.
pub const ABSOLUTE_LAW: &str = "gemstones-annealed";

/// The law of what is known as compute-optimal.
pub const CHINCHILLA: &str = "hoffmann";

/// Tokens a parameter of the model by which a loss is carried from [`ABSOLUTE_LAW`] to the others.
const ANCHORED: f64 = 20.0;

/// `ln` of the parameters that such a model is looked for between.
const LN_ANCHORS: [f64; 2] = [14.0, 34.0];

/// `ln` of the tokens for a loss which no number of tokens reaches.
const OUT_OF_REACH: f64 = 60.0;

/// Tokens of a training for which a budget leaves nothing.
const LEAST_TOKENS: f64 = 1.0;

/// Score from which on that is so.
const UNAFFORDABLE: f64 = 1e6;

/// Hidden width over layers of usual models.
const USUAL_RATIO: f64 = 80.0;

/// Probability of being better than the best from which a shape ties with it.
const TIE: f64 = 0.2;

/// Nats per token that one unit of `ln` of GPU time is worth at 20 tokens a parameter: a scale for annealing.
const NATS: f64 = 0.1;

/// `ln` of two GPU times below which they tie.
pub const TIED_TIME: f64 = TIED / 1e3 / NATS;

/// What is to be reached beside throughput.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// Loss or time.
    pub objective: Objective,
    /// GPU time that may be spent.
    pub gpu_time: Option<Seconds>,
    /// US dollars that it costs, where they were given in its place.
    pub usd: Option<f64>,
    /// Tokens: that every shape is trained on, or after which the baseline has the loss to reach.
    pub tokens: Option<f64>,
    /// The loss to reach, nats per token on the scale of [`ABSOLUTE_LAW`]: by each law that of the usual model which has this loss by that
    /// one after 20 tokens a parameter.
    pub target_loss: Option<f64>,
}

impl Goal {
    /// Fails where too little or too much was given for the objective.
    pub fn check(&self, request: &Request, sized: bool) -> Result<()> {
        let wrong = |field: &str, value: &str, allowed: &str| Err(Error::field("search", field, value, allowed));
        let objective = self.objective.name();
        if !request.workload.trains() {
            let allowed = format!("train for the objective {objective}");
            return wrong("mode", request.workload.mode.name(), &allowed);
        }
        if request.named {
            Model::same_tokenizer("search", request.vocab, request.baseline.vocab)?;
        }
        match (self.objective, self.gpu_time, self.tokens, self.target_loss) {
            (Objective::Loss, _, _, Some(_)) => wrong(
                "target_loss",
                "given",
                "nothing for the objective loss: train-time reaches a loss",
            ),
            (Objective::Loss, Some(_), Some(_), _) => wrong("tokens", "given", "nothing beside budget"),
            (Objective::Loss, None, None, _) => wrong(
                "budget",
                "absent",
                "GPU time such as `1000 gpu-hours`, or tokens instead",
            ),
            (Objective::Loss, None, Some(_), _) if !sized => wrong(
                "params",
                "absent",
                "a number of parameters, or budget instead of tokens: with tokens alone the largest model is best",
            ),
            (Objective::TrainTime, Some(_), ..) => wrong(
                "budget",
                "given",
                "nothing for the objective train-time, which finds it",
            ),
            (Objective::TrainTime, _, None, None) => wrong(
                "target_loss",
                "absent",
                "a loss in nats per token, or tokens after which the baseline has it",
            ),
            (Objective::TrainTime, _, Some(_), Some(_)) => wrong("tokens", "given", "nothing beside target_loss"),
            (Objective::TrainTime, _, Some(_), None) if !sized => wrong(
                "params",
                "absent",
                "a number of parameters where tokens of the baseline set the loss",
            ),
            (Objective::EqualLoss | Objective::Throughput, ..) => {
                wrong("objective", objective, "loss or train-time with a budget")
            }
            (Objective::Loss, None, ..) if request.service.is_some() => {
                wrong("serve", "given", "nothing with tokens alone, which cost nothing")
            }
            _ => Ok(()),
        }
    }
}

/// What a shape reaches.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Tokens it is trained on.
    pub tokens: f64,
    /// GPU time it takes; `None` if tokens alone are given.
    pub gpu_time: Option<Seconds>,
    /// Against the best of the answer, mean, 5th and 95th percentile: of the loss in 10^-3 nats, or of `ln` of the time.
    pub behind: [f64; 3],
    /// Share of the joint draws in which it is the best of all in the answer.
    pub wins: f64,
    /// Share in which it is better than the best.
    pub beats_best: f64,
    /// Whether it is as good as the best within the spread of the draws, or less than [`TIED`] behind.
    pub ties: bool,
    /// Loss by law, nats per token, each on the scale of its own data and tokenizer.
    pub losses: BTreeMap<String, f64>,
    /// How much is known of its loss against the baseline's.
    pub evidence: Evidence,
    /// Why not more.
    pub reasons: Vec<Reason>,
}

/// A shape whose outcome is wanted.
pub struct Entry<'a> {
    /// The shape.
    pub architecture: &'a Architecture,
    /// GPU time of a token.
    pub per_token: Seconds,
    /// Half widths of the 90 % interval of `ln` of the throughput: of this shape alone, and of all alike.
    pub half_widths: [f64; 2],
    /// What serving it costs, where it is served; all shapes share the error of that, which a budget of GPU time leaves out.
    pub serving: Option<&'a Served>,
}

impl Outcome {
    /// Whether serving alone takes the budget, which leaves no training.
    pub fn is_unaffordable(&self) -> bool {
        self.tokens <= LEAST_TOKENS
    }
}

impl Entry<'_> {
    fn serving(&self) -> Seconds {
        self.serving.map_or(Seconds::ZERO, |served| served.cost)
    }
}

/// Judges shapes by a goal.
pub struct Yardstick {
    model: &'static Model,
    goal: Goal,
    ensemble: &'static Ensemble,
    /// Each law's fit with its weight: every data set counts alike.
    fits: Vec<(String, Law, f64)>,
    reference: Profile,
    /// What the terms beside the laws cost the baseline, in nats.
    of_reference: f64,
    /// The model whose loss is to be reached, where a loss is.
    anchor: Option<Size>,
    vocab: u64,
    /// GPU time of a token at cost 0.
    per_token: Seconds,
}

impl Yardstick {
    /// That of a request whose costs are relative to `per_token`.
    pub fn new(request: &Request, goal: Goal, per_token: Seconds) -> Self {
        let model = Model::get();
        let fits = model.sizes.weighted();
        let fits = fits.map(|(name, law, weight)| (name.clone(), law.clone(), weight));
        let fits: Vec<_> = fits.collect();
        let reference = Profile::of(&request.baseline, request.vocab, request.workload.linear_dtype());
        Self {
            of_reference: model.middle_cost(&reference),
            anchor: goal.target_loss.map(|loss| anchor(&fits, loss, request.vocab)),
            fits,
            reference,
            vocab: request.vocab,
            model,
            ensemble: &model.sizes,
            goal,
            per_token,
        }
    }

    /// What is minimised, in units of `ln` of time. `cost` is `ln` of the GPU
    /// time of a token over that at cost 0, `serving` the GPU time of its life after training.
    pub fn score(&self, arch: &Architecture, cost: f64, serving: Seconds) -> f64 {
        let shape = self.profile(arch);
        let more = self.model.middle_cost(&shape);
        self.score_of(&shape.size, more, cost, serving, OUT_OF_REACH)
    }

    fn score_of(&self, size: &Size, more: f64, cost: f64, serving: Seconds, out_of_reach: f64) -> f64 {
        let per_token = self.per_token * cost.exp();
        let weighted =
            |value: &dyn Fn(&Law) -> f64| -> f64 { self.fits.iter().map(|(_, law, weight)| weight * value(law)).sum() };
        match self.goal.objective {
            Objective::TrainTime => {
                // A law by which the loss is out of reach counts as a very long time.
                let of_reference = self.of_reference;
                let tokens = |law: &Law| self.tokens_to_target(law, size, more, of_reference) + serving / per_token;
                weighted(&|law| tokens(law).ln().min(out_of_reach)) + cost
            }
            _ => {
                let tokens = self.tokens(per_token, serving);
                if tokens <= LEAST_TOKENS {
                    return UNAFFORDABLE + serving.secs().ln();
                }
                let loss = weighted(&|law| law.loss(size, tokens)) + more;
                // Equal losses are ordered by speed.
                loss / NATS + 1e-6 * cost
            }
        }
    }

    /// [`Self::score`] of a model of so many parameters in usual proportions; infinite where it cannot be reached.
    pub fn usual_score(&self, parameters: f64, cost: f64, serving: Seconds) -> f64 {
        let size = usual_size(parameters, self.vocab);
        self.score_of(&size, 0.0, cost, serving, f64::INFINITY)
    }

    /// Tokens after which a shape has the loss that another has after so many, by [`CHINCHILLA`].
    pub fn tokens_as_good(&self, arch: &Architecture, other: &Architecture, tokens: f64) -> f64 {
        let [shape, other] = [arch, other].map(|arch| self.profile(arch));
        let more = self.model.middle_cost(&shape) - self.model.middle_cost(&other);
        let fits = &self.model.sizes.fits;
        let (_, law) = fits
            .iter()
            .find(|(name, _)| name == CHINCHILLA)
            .expect("it is built in");
        law.tokens(law.loss(&other.size, tokens) - more - law.floor(&shape.size))
    }

    fn profile(&self, arch: &Architecture) -> Profile {
        Profile::of(arch, self.vocab, self.reference.format)
    }

    /// Tokens at this GPU time each, after what serving takes.
    fn tokens(&self, per_token: Seconds, serving: Seconds) -> f64 {
        match (self.goal.gpu_time, self.goal.tokens) {
            (Some(time), _) => ((time - serving) / per_token).max(LEAST_TOKENS),
            (None, tokens) => tokens.unwrap_or(0.0),
        }
    }

    /// Tokens until a shape has the loss to reach; `of_reference` is what the terms cost the baseline.
    fn tokens_to_target(&self, law: &Law, size: &Size, cost: f64, of_reference: f64) -> f64 {
        let target = match &self.anchor {
            Some(anchor) => law.loss(anchor, ANCHORED * anchor.parameters()),
            None => law.loss(&self.reference.size, self.goal.tokens.unwrap_or(0.0)) + of_reference,
        };
        law.tokens(target - cost - law.floor(size))
    }

    /// Outcomes of these shapes against each other, in the order given, and the draws behind them. What the laws leave out
    /// of differences between shapes counts where it is asked for: sizes have alike shapes.
    pub fn outcomes(&self, entries: &[Entry<'_>], unexplained: bool) -> (Vec<Outcome>, Vec<Vec<f64>>) {
        let draws = entries.iter().map(|entry| self.draws(entry, unexplained));
        let draws: Vec<Vec<f64>> = draws.collect();
        let mut wins = vec![0.0; entries.len()];
        for draw in 0..DRAWS {
            let values = draws.iter().map(|draws| draws[draw]).enumerate();
            if let Some((best, _)) = values.min_by(|a, b| a.1.total_cmp(&b.1)) {
                wins[best] += 1.0 / DRAWS as f64;
            }
        }
        let mean = |draws: &[f64]| draws.iter().sum::<f64>() / DRAWS as f64;
        let means: Vec<f64> = draws.iter().map(|draws| mean(draws)).collect();
        let best = (0..entries.len())
            .min_by(|&a, &b| means[a].total_cmp(&means[b]))
            .unwrap_or(0);
        let outcomes = entries.iter().enumerate().map(|(index, entry)| {
            let shape = self.profile(entry.architecture);
            let pairs = draws[index].iter().zip(&draws[best]);
            let mut behind: Vec<f64> = pairs.clone().map(|(one, best)| one - best).collect();
            behind.sort_by(f64::total_cmp);
            let [low, high] = [0.05, 0.95].map(|share| quantile(&behind, share));
            let (scale, tied) = match self.goal.objective {
                Objective::TrainTime => (1.0, TIED_TIME),
                _ => (1e3, TIED),
            };
            let better = pairs.filter(|(one, best)| one < best).count();
            let beats_best = better as f64 / DRAWS as f64;
            let mean = scale * (means[index] - means[best]);
            let (tokens, losses) = self.central(&shape, entry);
            let (evidence, reasons) = self.model.evidence(&shape, &self.reference, tokens);
            let timed = self.goal.gpu_time.is_some() || self.goal.objective == Objective::TrainTime;
            Outcome {
                tokens,
                gpu_time: timed.then(|| entry.per_token * tokens),
                behind: [mean, scale * low, scale * high],
                wins: wins[index],
                beats_best,
                ties: index != best && (beats_best >= TIE || mean < tied),
                losses,
                evidence,
                reasons,
            }
        });
        (outcomes.collect(), draws)
    }

    /// Tokens and the loss by each data set's law, from the fits.
    fn central(&self, shape: &Profile, entry: &Entry<'_>) -> (f64, BTreeMap<String, f64>) {
        let more = self.model.middle_cost(shape);
        let tokens = match self.goal.objective {
            Objective::TrainTime => {
                let of_reference = self.of_reference;
                let tokens = |law: &Law| self.tokens_to_target(law, &shape.size, more, of_reference);
                let logs = self.fits.iter().map(|(_, law, weight)| (tokens(law).ln(), weight));
                let reached = logs.filter(|(log, _)| log.is_finite());
                let [sum, weight] =
                    reached.fold([0.0; 2], |[sum, all], (log, weight)| [sum + weight * log, all + weight]);
                // By most laws: those by which the loss is out of reach say no number.
                if weight > 0.5 {
                    (sum / weight).exp()
                } else {
                    f64::INFINITY
                }
            }
            _ => self.tokens(entry.per_token, entry.serving()),
        };
        let mut losses = BTreeMap::new();
        let sets = self.fits.iter().map(|(name, ..)| name.clone());
        let count = sets.collect::<std::collections::BTreeSet<_>>().len() as f64;
        for (name, law, weight) in &self.fits {
            let loss = law.loss(&shape.size, tokens) + more;
            *losses.entry(name.clone()).or_insert(0.0) += loss * weight * count;
        }
        (tokens, losses)
    }

    /// The loss in nats, or `ln` of the GPU time in seconds, in every joint draw.
    fn draws(&self, entry: &Entry<'_>, unexplained: bool) -> Vec<f64> {
        let shape = self.profile(entry.architecture);
        let Architecture {
            layers,
            hidden,
            heads,
            kv_heads,
            mlp,
            ..
        } = entry.architecture;
        let key = format!("{layers} {hidden} {heads} {kv_heads} {}", mlp.d_ff);
        let mut own = Random::new(fnv1a(key.as_bytes()), "throughput of a shape");
        let mut shared = Random::new(0, "throughput of all shapes");
        let mut of_engines = Random::new(0, "throughput of all engines");
        let costs = self.model.costs(&shape);
        let of_reference = self.model.costs(&self.reference);
        let left_out = match unexplained {
            true => self.model.unexplained(&shape, &self.reference),
            false => vec![0.0; DRAWS],
        };
        (0..DRAWS)
            .map(|draw| {
                let [of_shape, of_all] = entry.half_widths;
                let slower = (own.normal() * of_shape + shared.normal() * of_all) / NORMAL_90;
                let per_token = entry.per_token * slower.exp();
                let half_width = entry.serving.map_or(0.0, |served| served.half_width);
                let dearer = (of_engines.normal() * half_width / NORMAL_90).exp();
                let law = self.ensemble.law(draw);
                let more = costs[draw] + left_out[draw];
                match self.goal.objective {
                    Objective::TrainTime => {
                        let of_reference = of_reference[draw];
                        let tokens = self.tokens_to_target(law, &shape.size, more, of_reference);
                        let tokens = tokens + entry.serving() * dearer / per_token;
                        tokens.ln().min(OUT_OF_REACH) + per_token.secs().ln()
                    }
                    // How long a run may be is decided before it is known what serving takes.
                    _ => law.loss(&shape.size, self.tokens(per_token, entry.serving())) + more,
                }
            })
            .collect()
    }
}

/// A model of so many parameters in its layers, in usual proportions.
fn usual_size(parameters: f64, vocab: u64) -> Size {
    let width = (parameters * USUAL_RATIO / 12.0).cbrt();
    Size {
        layers: width / USUAL_RATIO,
        width,
        blocks: parameters,
        embeddings: 2.0 * vocab as f64 * width,
    }
}

/// The usual model that has a loss by [`ABSOLUTE_LAW`] after [`ANCHORED`] tokens a parameter, or the largest one.
fn anchor(fits: &[(String, Law, f64)], loss: f64, vocab: u64) -> Size {
    let laws = || fits.iter().filter(|(name, ..)| name == ABSOLUTE_LAW);
    let reached = |size: &Size| {
        let losses = laws().map(|(_, law, _)| law.loss(size, ANCHORED * size.parameters()));
        losses.sum::<f64>() / laws().count() as f64
    };
    let [mut low, mut high] = LN_ANCHORS;
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        match reached(&usual_size(middle.exp(), vocab)) > loss {
            true => low = middle,
            false => high = middle,
        }
    }
    usual_size(high.exp(), vocab)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::{MlpKind, Preset, Workload};

    fn request() -> Request {
        Request::usual(2_700_000_000, MlpKind::Swiglu, 50257, Workload::train(4, 2048)).unwrap()
    }

    fn hours(hours: f64) -> Goal {
        Goal {
            objective: Objective::Loss,
            gpu_time: Some(Seconds::from_secs(3600.0 * hours)),
            usd: None,
            tokens: None,
            target_loss: None,
        }
    }

    #[test]
    fn twice_the_throughput_is_twice_the_budget() {
        let request = request();
        let model = &Preset::find("gpt3-2.7b").unwrap().architecture;
        let outcome = |hours: Goal, per_token: f64| {
            let yardstick = Yardstick::new(&request, hours, Seconds::from_secs(1.0));
            let entry = Entry {
                architecture: model,
                per_token: Seconds::from_secs(per_token),
                half_widths: [0.05, 0.1],
                serving: None,
            };
            (
                yardstick.draws(&entry, true),
                yardstick.outcomes(&[entry], true).0[0].losses.clone(),
            )
        };
        let faster = outcome(hours(1000.0), 5e-5);
        assert_eq!(faster, outcome(hours(2000.0), 1e-4));
        let slower = outcome(hours(1000.0), 1e-4);
        assert!(faster.1.iter().all(|(law, loss)| *loss < slower.1[law]));
        let laws: Vec<_> = faster.1.keys().map(String::as_str).collect();
        assert_eq!(laws, ["epoch", "gemstones-annealed", "hoffmann", "morph"]);
    }

    /// By every law a usual model reaches its own loss after its own tokens; the time to the loss that a budget reaches is that budget.
    #[test]
    fn the_time_to_a_loss_is_the_budget_that_reaches_it() {
        let request = request();
        let model = &Preset::find("gpt3-2.7b").unwrap().architecture;
        let entry = || Entry {
            architecture: model,
            per_token: Seconds::from_secs(1e-4),
            half_widths: [0.0; 2],
            serving: None,
        };
        let budget = Yardstick::new(&request, hours(1000.0), Seconds::from_secs(1e-4));
        let reached = budget.outcomes(&[entry()], true).0[0].losses[ABSOLUTE_LAW];
        let to = |loss| {
            let goal = Goal {
                objective: Objective::TrainTime,
                gpu_time: None,
                usd: None,
                tokens: None,
                target_loss: Some(loss),
            };
            Yardstick::new(&request, goal, Seconds::from_secs(1e-4))
        };
        let time = to(reached);
        let anchor = time.anchor.unwrap();
        for (name, law, _) in &time.fits {
            let tokens = time.tokens_to_target(law, &anchor, 0.0, 0.0);
            assert!(
                (tokens / anchor.parameters() / ANCHORED - 1.0).abs() < 1e-6,
                "{name} {tokens:e}"
            );
        }
        let hours = time.outcomes(&[entry()], true).0[0].gpu_time.unwrap().secs() / 3600.0;
        assert!((hours / 1000.0 - 1.0).abs() < 0.05, "{hours}");
        assert_eq!(to(1.0).usual_score(3e11, 0.0, Seconds::ZERO), f64::INFINITY);
    }

    /// The loss to reach is the baseline's own, what the terms beside the laws say of its experts included.
    #[test]
    fn a_baseline_takes_the_tokens_that_its_own_loss_is_of() {
        let model = &Preset::find("qwen3-30b-a3b").unwrap().architecture;
        let request = Request::like(model, Workload::train(1, 4096));
        let goal = Goal {
            objective: Objective::TrainTime,
            gpu_time: None,
            usd: None,
            tokens: Some(2e12),
            target_loss: None,
        };
        let yardstick = Yardstick::new(&request, goal, Seconds::from_secs(1e-5));
        assert!(yardstick.of_reference.abs() > 0.05);
        let score = yardstick.score(model, 0.0, Seconds::ZERO);
        assert!((score - 2e12_f64.ln()).abs() < 1e-6, "{score}");
    }

    /// Sardana et al. (arXiv 2401.00448), figure 1: where 13 B and 2e12 tokens of inference were planned, 7 B save 17 %.
    #[test]
    fn a_smaller_model_saves_what_was_published() {
        let yardstick = Yardstick::new(&request(), hours(1.0), Seconds::from_secs(1.0));
        // Of widths over layers that no law penalises.
        let [small, large] =
            [(2688, 81, 21), (3328, 100, 26)].map(|(hidden, layers, heads)| Architecture::gpt(hidden, layers, heads));
        let [small, large] = [&small, &large];
        // Those that 13 B are best trained on by this law.
        let planned = 0.65e12;
        let tokens = yardstick.tokens_as_good(small, large, planned);
        let flops =
            |arch: &Architecture, tokens: f64| yardstick.profile(arch).size.parameters() * (6.0 * tokens + 2.0 * 2e12);
        let saved = 1.0 - flops(small, tokens) / flops(large, planned);
        assert!((saved - 0.17).abs() < 0.02, "{saved} {tokens:e}");
        assert!((yardstick.tokens_as_good(large, large, planned) / planned - 1.0).abs() < 1e-9);
    }

    #[test]
    fn what_a_goal_lacks_is_told() {
        let request = request();
        let named = Request::like(&Preset::find("llama-2-7b").unwrap().architecture, request.workload);
        let other = Request {
            vocab: 128_256,
            ..named.clone()
        };
        let decode = Request {
            workload: Workload::decode(8, 2048),
            ..request.clone()
        };
        let none = Goal {
            gpu_time: None,
            ..hours(1.0)
        };
        let both = Goal {
            tokens: Some(1e11),
            ..hours(1.0)
        };
        for (goal, request, sized, part) in [
            (none, &request, true, "`budget` is absent"),
            (both, &request, true, "nothing beside budget"),
            (hours(1.0), &decode, true, "`mode` is decode"),
            (hours(1.0), &other, true, "different tokenizers"),
            (Goal { gpu_time: None, ..both }, &request, false, "`params` is absent"),
            (
                Goal {
                    objective: Objective::TrainTime,
                    ..none
                },
                &request,
                true,
                "`target_loss` is absent",
            ),
        ] {
            let message = goal.check(request, sized).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
        assert!(hours(1.0).check(&named, true).is_ok());
    }
}
