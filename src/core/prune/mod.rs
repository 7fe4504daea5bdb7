//! What an existing model loses to meet targets of latency, memory or throughput, at the least expected damage.
//!
//! Block by block, as Puzzle does (arXiv 2411.19146): costs of blocks add up to those of a step, scores of blocks to the damage.
//! Alike in all layers, as Minitron does (arXiv 2407.14679). Costs are predicted. Scores are the user's, or [`damage`].

mod blocks;
mod knapsack;
mod uniform;

use crate::arch::{Architecture, LayerKind, Workload, memory_use, parameters};
use crate::error::{Error, Result};
use crate::predict::Predictor;
use crate::predict::memo::Memo;
use crate::predict::step::{StepEstimate, estimate_step};
use crate::units::{Bytes, Seconds};
use serde::{Deserialize, Deserializer, Serialize, de};
use std::fmt;
use std::str::FromStr;
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, schema::Type};
use utoipa::{PartialSchema, ToSchema};

named_enum! {
    /// What a target is of.
    Measure {
        /// Time of the step.
        Latency = "latency",
        /// Memory of the fullest GPU: weights, caches and whatever else the step keeps.
        Memory = "memory",
        /// Tokens per second of the step, with the same batch.
        Throughput = "throughput",
    }
}

named_enum! {
    /// Which changes are tried.
    #[derive(Default)]
    Choice {
        /// Each layer keeps, shrinks or loses its attention and its MLP.
        #[default]
        Blocks = "blocks",
        /// All layers get narrower alike, or fewer.
        Uniform = "uniform",
    }
}

named_enum! {
    /// A part of a layer.
    Part {
        /// Attention; what is left of it is a number of key/value heads.
        Attention = "attention",
        /// The MLP or the experts; what is left is a width.
        Mlp = "mlp",
    }
}

/// What to reach, as a multiple of what the model has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// The multiple.
    pub ratio: f64,
    /// Of what.
    pub measure: Measure,
}

impl Target {
    /// What may be written.
    pub const ALLOWED: &'static str = "a factor from 0.01 to 1 of latency or memory, or from 1 to 100 of throughput, such as 0.6x-latency or 1.7x-throughput";
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = || {
            let (ratio, name) = text.trim().split_once(['x', 'X'])?;
            let measure = Measure::parse(&name.trim_start_matches('-').to_ascii_lowercase())?;
            let ratio = ratio.parse().ok()?;
            let allowed = match measure {
                Measure::Latency | Measure::Memory => 0.01..=1.0,
                Measure::Throughput => 1.0..=100.0,
            };
            allowed.contains(&ratio).then_some(Self { ratio, measure })
        };
        read().ok_or_else(|| format!("allowed: {}", Self::ALLOWED))
    }
}

impl<'de> Deserialize<'de> for Target {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = String::deserialize(deserializer)?.parse();
        read.map_err(|_| de::Error::custom(format!("expected {}", Self::ALLOWED)))
    }
}

impl PartialSchema for Target {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some("^[0-9]+(\\.[0-9]+)?x-(latency|memory|throughput)$"))
            .description(Some(Self::ALLOWED))
            .examples(["0.6x-latency"])
            .into()
    }
}

impl ToSchema for Target {}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x-{}", self.ratio, self.measure)
    }
}

/// The damage of one block in place of what the model has.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Score {
    /// The layer, counted from 0.
    pub layer: u64,
    /// The part of it.
    pub part: Part,
    /// What is left: key/value heads of attention, width of the MLP; 0 for nothing.
    pub choice: u64,
    /// The damage, such as the KL divergence of the model with this block alone replaced.
    #[schema(minimum = 0, maximum = 1_000_000_000_000.0)]
    pub score: f64,
}

/// What to prune, and where to.
pub struct Query<'a> {
    /// The model.
    pub architecture: &'a Architecture,
    /// The step that targets are of.
    pub workload: &'a Workload,
    /// All of them are met.
    pub targets: &'a [Target],
    /// Which changes are tried.
    pub choice: Choice,
    /// Blocks that may be chosen; if empty, all with [`damage`].
    pub scores: &'a [Score],
    /// The positions of a config that holds what is left; `None` if none has to.
    pub positions: Option<u64>,
}

/// What a model keeps.
pub struct Pruned {
    /// What is left.
    pub found: Found,
    /// The step of the model that it comes from.
    pub before: StepEstimate,
    /// Its own.
    pub after: StepEstimate,
}

/// What is left of a model.
pub struct Found {
    /// The model that is left.
    pub architecture: Architecture,
    /// Each layer of the model that it comes from, those of nothing included; of layers that are alike, those that are left.
    pub layers: Vec<LayerKind>,
    /// The expected damage.
    pub damage: f64,
    /// Less damage than this no choice does.
    pub bound: f64,
    /// The time by which blocks were chosen: the sum over them; `None` where whole steps were predicted.
    pub summed: Option<Seconds>,
    /// What was changed, that which saves most time first.
    pub changes: Vec<Change>,
}

/// Equal changes of layers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    /// What they lose.
    pub text: String,
    /// How many layers.
    pub layers: u64,
    /// What they save.
    pub saved: Cost,
    /// The damage they do.
    pub damage: f64,
}

/// What a model takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Time of the step.
    pub time: Seconds,
    /// Memory of the fullest GPU.
    pub memory: Bytes,
    /// Parameters.
    pub parameters: f64,
}

/// The damage of a part that shrinks, where nothing is known of it: its share of all parameters, times the square of the share of it
/// that goes.
///
/// Parts are pruned in the order of importance (arXiv 2407.14679). Where importance is spread evenly from zero, the least important
/// share `f` of a part holds `f²` of it. Key/value heads that go count with the query heads that they served.
pub fn damage(part: f64, gone: f64, all: f64) -> f64 {
    part.max(0.0) * gone * gone / all
}

impl Cost {
    /// The same with so many times another.
    fn plus(self, times: f64, other: Self) -> Self {
        Self {
            time: self.time + other.time * times,
            memory: self.memory + other.memory * times,
            parameters: self.parameters + other.parameters * times,
        }
    }
}

/// Predicts what models take.
struct Costs<'a> {
    memo: Memo<'a>,
    workload: &'a Workload,
    /// The least of each that a candidate takes.
    least: Cost,
}

impl Costs<'_> {
    /// Fails for a model that cannot be built or run.
    fn of(&mut self, architecture: &Architecture) -> Result<Cost> {
        architecture.validate()?;
        self.workload.validate(architecture)?;
        let practice = &self.memo.predictor().framework(self.workload.mode)?.practice;
        Ok(Cost {
            time: self.memo.cost(architecture, self.workload)?.time,
            memory: memory_use(architecture, self.workload, practice)?.total(),
            parameters: parameters(architecture).total as f64,
        })
    }

    /// The same of a model that may be the answer.
    fn of_candidate(&mut self, architecture: &Architecture) -> Result<Cost> {
        let cost = self.of(architecture)?;
        self.least.time = self.least.time.min(cost.time);
        self.least.memory = self.least.memory.min(cost.memory);
        Ok(cost)
    }
}

/// Widths that are left are multiples of this, on each tensor-parallel rank.
const TILE: u64 = 128;

/// Ratios in an error are counted in parts of this.
const RATIOS: f64 = 1000.0;

/// What a model may take to meet its targets; infinite where none is of it.
#[derive(Clone, Copy)]
struct Limits(Cost);

impl Limits {
    fn new(targets: &[Target], before: Cost) -> Self {
        let least = |time: bool| {
            let ratios = targets.iter().map(|target| match target.measure {
                Measure::Latency if time => target.ratio,
                Measure::Throughput if time => target.ratio.recip(),
                Measure::Memory if !time => target.ratio,
                _ => f64::INFINITY,
            });
            ratios.fold(f64::INFINITY, f64::min)
        };
        Self(Cost {
            time: before.time * least(true),
            memory: before.memory * least(false),
            ..before
        })
    }

    fn are_met(&self, cost: Cost) -> bool {
        cost.time <= self.0.time && cost.memory <= self.0.memory
    }
}

/// What is left of a model that meets its targets at the least damage.
pub fn prune(predictor: &Predictor, query: &Query<'_>) -> Result<Pruned> {
    if query.targets.is_empty() {
        return Err(Error::field("search", "target", "absent", Target::ALLOWED));
    }
    if let (Choice::Uniform, Some(_)) = (query.choice, query.scores.first()) {
        let allowed = "nothing for the choice uniform, which scores of blocks say nothing about";
        return Err(Error::field("search", "scores", "given", allowed));
    }
    let before = estimate_step(predictor, query.architecture, query.workload)?;
    let whole = Cost {
        time: before.time,
        memory: before.memory.total(),
        parameters: parameters(query.architecture).total as f64,
    };
    let mut costs = Costs {
        memo: Memo::new(predictor),
        workload: query.workload,
        least: whole,
    };
    let limits = Limits::new(query.targets, whole);
    let found = match query.choice {
        Choice::Blocks => blocks::prune(query, &mut costs, whole, limits)?,
        Choice::Uniform => uniform::prune(query, &mut costs, whole, limits)?,
    };
    let mut found = found.ok_or_else(|| {
        let reached = |target: &Target| {
            let [time, memory] = [costs.least.time / whole.time, costs.least.memory / whole.memory];
            let ratio = match target.measure {
                Measure::Latency => (time * RATIOS).ceil() / RATIOS,
                Measure::Memory => (memory * RATIOS).ceil() / RATIOS,
                Measure::Throughput => (RATIOS / time).floor() / RATIOS,
            };
            Target { ratio, ..*target }
        };
        let joined = |of: &dyn Fn(&Target) -> Target| {
            let all: Vec<_> = query.targets.iter().map(|target| of(target).to_string()).collect();
            all.join(" and ")
        };
        Error::infeasible(format!(
            "search: nothing that is left of {} meets {}; found, each by itself: {}",
            query.architecture.name,
            joined(&|target| *target),
            joined(&reached)
        ))
    })?;
    found
        .changes
        .sort_by(|a, b| b.saved.time.secs().total_cmp(&a.saved.time.secs()));
    found.architecture.name = format!("{}-pruned", query.architecture.name);
    Ok(Pruned {
        after: estimate_step(predictor, &found.architecture, query.workload)?,
        found,
        before,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::Preset;
    use crate::gpu::Gpu;

    const LATENCY: Target = Target {
        ratio: 0.6,
        measure: Measure::Latency,
    };

    fn asked(model: &str, work: &Workload, targets: &[Target], choice: Choice, scores: &[Score]) -> Result<Pruned> {
        let predictor = Predictor::new(Gpu::find("h100").unwrap(), None).unwrap();
        let query = Query {
            architecture: &Preset::find(model).unwrap().architecture,
            workload: work,
            targets,
            choice,
            scores,
            positions: None,
        };
        prune(&predictor, &query)
    }

    #[test]
    fn targets_are_read_as_people_write_them() {
        for text in ["0.6x-latency", "0.5X-memory", "1.7x-throughput", "0.6xlatency"] {
            assert!(text.parse::<Target>().is_ok(), "{text}");
        }
        assert_eq!("0.6x-latency".parse(), Ok(LATENCY));
        assert_eq!(LATENCY.to_string(), "0.6x-latency");
        for text in [
            "",
            "x-",
            "0.6-latency",
            "1.1x-latency",
            "0.9x-throughput",
            "nanx-memory",
            "0x-memory",
            "0.6x-loss",
        ] {
            assert!(
                text.parse::<Target>().unwrap_err().contains("such as 0.6x-latency"),
                "{text}"
            );
        }
    }

    #[test]
    fn every_step_of_what_is_left_meets_its_targets_and_is_near_the_sum_of_its_blocks() {
        let memory = Target {
            ratio: 0.7,
            measure: Measure::Memory,
        };
        let prefill = Workload {
            tp: 2,
            ..Workload::prefill(2, 1024)
        };
        let train = Workload::train(2, 1024);
        for (model, work, targets) in [
            ("llama-3-8b", Workload::decode(64, 4095), &[LATENCY][..]),
            ("llama-3-8b", Workload::decode(8, 1023), &[LATENCY, memory]),
            ("llama-3-8b", prefill, &[LATENCY]),
            ("gpt2-xl", train, &[memory]),
            (
                "llama-3-70b",
                Workload {
                    tp: 8,
                    ..Workload::decode(1, 127)
                },
                &[Target { ratio: 0.5, ..LATENCY }],
            ),
            ("mixtral-8x7b", Workload::decode(16, 1023), &[LATENCY]),
            ("deepseek-v2-lite", Workload::decode(16, 1023), &[memory]),
            (
                "mixtral-8x7b",
                Workload {
                    tp: 2,
                    ..Workload::decode(16, 1023)
                },
                &[memory],
            ),
            (
                "deepseek-v3",
                Workload {
                    tp: 8,
                    ..Workload::decode(16, 1023)
                },
                &[Target { ratio: 0.8, ..memory }],
            ),
        ] {
            let pruned = asked(model, &work, targets, Choice::Blocks, &[]).unwrap();
            for target in targets {
                let reached = match target.measure {
                    Measure::Memory => pruned.after.memory.total() / pruned.before.memory.total(),
                    _ => pruned.after.time / pruned.before.time,
                };
                let near = target.ratio - 0.1..=target.ratio;
                assert!(
                    targets.len() > 1 && reached <= target.ratio || near.contains(&reached),
                    "{model}: {reached}"
                );
            }
            let off = pruned.found.summed.unwrap() / pruned.after.time - 1.0;
            let most = if work.tp == 8 { 0.09 } else { 0.05 };
            assert!(off.abs() < most, "{model} {work}: {off}");
            assert!(
                pruned.found.bound <= pruned.found.damage && pruned.found.damage < 1.0,
                "{model}"
            );
            let without = pruned.found.layers.iter().filter(|layer| layer.heads == 0).count();
            assert!(2 * without <= pruned.found.layers.len() + 1, "{model}: {without}");
            let kept = pruned.found.layers.iter().filter(|layer| layer.is_something()).count();
            assert_eq!(kept as u64, pruned.found.architecture.layers);
            let uniform = asked(model, &work, targets, Choice::Uniform, &[]);
            match model {
                "deepseek-v2-lite" | "deepseek-v3" => assert!(uniform.is_err()),
                _ => assert!(uniform.unwrap().after.time < pruned.before.time, "{model}"),
            }
        }
    }

    #[test]
    fn scores_choose_the_blocks_and_what_is_not_scored_stays() {
        let work = Workload::decode(64, 4095);
        // The even layers matter little.
        let scores: Vec<Score> = (0..32)
            .map(|layer| Score {
                layer,
                part: Part::Attention,
                choice: 0,
                score: if layer % 2 == 0 { 0.01 } else { 1.0 },
            })
            .collect();
        let target = Target { ratio: 0.75, ..LATENCY };
        let pruned = asked("llama-3-8b", &work, &[target], Choice::Blocks, &scores).unwrap();
        let lost: Vec<bool> = pruned.found.layers.iter().map(|layer| layer.heads == 0).collect();
        assert!(lost.iter().skip(1).step_by(2).all(|lost| !lost), "{lost:?}");
        let count = lost.iter().filter(|lost| **lost).count();
        assert!(
            (pruned.found.damage - 0.01 * count as f64).abs() < 1e-9 && count > 5,
            "{count}"
        );
        assert!(pruned.found.layers.iter().all(|layer| layer.d_ff == 14336));

        let one = |score: Score| {
            asked("llama-3-8b", &work, &[target], Choice::Blocks, &[score])
                .err()
                .unwrap()
                .to_string()
        };
        let score = scores[0];
        for (score, wanted) in [
            (Score { layer: 32, ..score }, "`scores.layer` is 32; allowed: 0 to 31"),
            (Score { choice: 3, ..score }, "`scores.choice` is 3"),
            (
                Score { score: -1.0, ..score },
                "`scores.score` is -1; allowed: a number from 0 to 1e12",
            ),
            (Score { score: 1e308, ..score }, "`scores.score` is 1"),
            (
                score,
                "nothing that is left of llama-3-8b meets 0.75x-latency; found, each by itself: 0.9",
            ),
        ] {
            let refused = one(score);
            assert!(refused.contains(wanted), "{refused}");
        }
        let latent = [Score { choice: 8, ..score }];
        for (model, scores, wanted) in [
            (
                "llama-3-8b",
                &[score; 2][..],
                "one score for this choice of attention in layer 0",
            ),
            ("deepseek-v2-lite", &latent, "what may be left of 16 of attention"),
        ] {
            let refused = asked(model, &work, &[target], Choice::Blocks, scores);
            let refused = refused.err().unwrap().to_string();
            assert!(refused.contains(wanted), "{refused}");
        }
        let narrow = [Score {
            part: Part::Mlp,
            choice: 7,
            ..score
        }];
        let ranks = Workload { tp: 8, ..work };
        let refused = asked("llama-3-8b", &ranks, &[target], Choice::Blocks, &narrow);
        let refused = refused.err().unwrap().to_string();
        assert!(refused.contains("is 7; allowed: what can run in layer 0"), "{refused}");
    }

    #[test]
    fn hundreds_of_layers_take_few_choices_and_the_named_least_ratio_is_reached() {
        let predictor = Predictor::new(Gpu::find("h100").unwrap(), None).unwrap();
        let mut deep = Preset::find("llama-3.2-1b").unwrap().architecture.clone();
        deep.layers = 300;
        let work = Workload::decode(1, 127);
        let of = |ratio| {
            let query = Query {
                architecture: &deep,
                workload: &work,
                targets: &[Target { ratio, ..LATENCY }],
                choice: Choice::Blocks,
                scores: &[],
                positions: None,
            };
            prune(&predictor, &query)
        };
        let pruned = of(0.7).unwrap();
        assert!(
            pruned.found.bound > 0.99 * pruned.found.damage,
            "{} {}",
            pruned.found.bound,
            pruned.found.damage
        );
        let refused = of(0.01).err().unwrap().to_string();
        let least: Target = refused.rsplit(' ').next().unwrap().parse().unwrap();
        assert!(of(least.ratio).is_ok() && of(least.ratio - 0.002).is_err(), "{refused}");
    }

    #[test]
    fn models_whose_layers_have_no_place_and_empty_questions_are_refused() {
        let work = Workload::decode(8, 1023);
        for (model, targets, wanted) in [
            ("nemotron-super-49b", &[LATENCY][..], "`from` is nemotron-super-49b"),
            ("gemma-3-4b", &[LATENCY], "`from` is gemma-3-4b"),
            ("qwen3-next-80b-a3b", &[LATENCY], "`from` is qwen3-next-80b-a3b"),
            ("llama-3-8b", &[], "`target` is absent"),
        ] {
            for choice in Choice::ALL {
                let refused = asked(model, &work, targets, choice, &[]).err().unwrap().to_string();
                assert!(refused.contains(wanted), "{refused}");
            }
        }
    }
}
