//! The answer to `search --from`: what each layer of a model keeps, and what the step gains.

use crate::arch::{Architecture, Draft, LayerKind, Workload, parameters};
use crate::error::Result;
use crate::predict::Predictor;
use crate::predict::estimate::{Tier, TierShares};
use crate::predict::step::StepEstimate;
use crate::prune::{Change, Choice, Measure, Pruned, Query};
use crate::report::architecture::ArchitectureShape;
use crate::report::step::{FrameworkKeys, SharedWarning};
use crate::report::table::{bad, left, right, row, table};
use crate::report::{
    Basis, NamedGpu, Report, based_on, grouped, joined, named_lines, percent, signed, tier_shares_text, tokens,
};
use crate::units::{Bytes, Seconds, significant};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// What a model loses to meet targets.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct PruneReport {
    gpu: NamedGpu,
    model: ArchitectureShape,
    /// What is left of it.
    pruned: ArchitectureShape,
    workload: Workload,
    framework: FrameworkKeys,
    basis: Vec<Basis>,
    choice: Choice,
    targets: Vec<TargetKeys>,
    /// Whether the user's scores were added up.
    scored: bool,
    /// The expected damage: the sum of the scores, or a share of all parameters.
    damage: f64,
    /// Less damage than this no choice does, by costs of blocks.
    damage_bound: f64,
    /// The time by which blocks were chosen; absent where whole steps were predicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    summed_time_us: Option<Seconds>,
    layers: Vec<LayersKeys>,
    before: StepKeys,
    after: StepKeys,
    changes: Vec<ChangeKeys>,
    tier: Tier,
    tier_shares: TierShares,
    caveats: Vec<SharedWarning>,
    notes: Vec<String>,
    /// The config.json of what is left, where it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    config: Option<Value>,
}

/// A target and what is reached of it.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
struct TargetKeys {
    measure: Measure,
    ratio: f64,
    reached_ratio: f64,
}

/// Layers in a row that keep the same.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
struct LayersKeys {
    /// The first, counted from 0 in the model that they come from; of layers that are alike, in what is left.
    first: u64,
    /// With the keys of a kind of layers.
    #[serde(flatten)]
    #[schema(value_type = HashMap<String, serde_json::Value>)]
    kept: LayerKind,
}

/// A step and what it takes.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[schema(as = PrunedStep)]
struct StepKeys {
    parameters: u64,
    time_us: Seconds,
    low_us: Seconds,
    high_us: Seconds,
    tokens_per_s: f64,
    memory_bytes: Bytes,
    fits: bool,
}

/// Equal changes of layers, and what they save together.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = PrunedChange)]
struct ChangeKeys {
    change: String,
    layers: u64,
    saved_time_us: Seconds,
    saved_memory_bytes: Bytes,
    removed_parameters: f64,
    damage: f64,
}

impl From<&Change> for ChangeKeys {
    fn from(change: &Change) -> Self {
        Self {
            change: change.text.clone(),
            layers: change.layers,
            saved_time_us: change.saved.time,
            saved_memory_bytes: change.saved.memory,
            removed_parameters: change.saved.parameters,
            damage: change.damage,
        }
    }
}

impl StepKeys {
    fn new(parameters: u64, step: &StepEstimate) -> Self {
        Self {
            parameters,
            time_us: step.time,
            low_us: step.low,
            high_us: step.high,
            tokens_per_s: step.tokens_per_s,
            memory_bytes: step.memory.total(),
            fits: step.fits,
        }
    }
}

impl LayersKeys {
    /// Runs of layers that keep the same.
    fn runs(layers: &[LayerKind]) -> Vec<Self> {
        let runs = layers.chunk_by(|one, next| one == next);
        let runs = runs.scan(0, |first, run| {
            let layers = run.len() as u64;
            let run = Self {
                first: *first,
                kept: LayerKind { layers, ..run[0] },
            };
            *first += layers;
            Some(run)
        });
        runs.collect()
    }

    fn cells(&self) -> [String; 4] {
        let Self { first, kept } = self;
        let attention = match kept.heads {
            0 => "none".to_owned(),
            heads => format!("{heads} heads, {} kv", kept.kv_heads),
        };
        let mlp = match kept.d_ff {
            0 if kept.experts => "experts".to_owned(),
            0 => "none".to_owned(),
            width => width.to_string(),
        };
        let place = match kept.layers {
            1 => first.to_string(),
            layers => format!("{first}-{}", first + layers - 1),
        };
        [place, kept.layers.to_string(), attention, mlp]
    }
}

impl PruneReport {
    /// Describes what is left for a query.
    pub fn new(predictor: &Predictor, query: &Query<'_>, pruned: &Pruned, basis: Vec<Basis>) -> Result<Self> {
        let (arch, workload) = (query.architecture, query.workload);
        let before = StepKeys::new(parameters(arch).total, &pruned.before);
        let after = StepKeys::new(parameters(&pruned.found.architecture).total, &pruned.after);
        let targets = query.targets.iter().map(|target| TargetKeys {
            measure: target.measure,
            ratio: target.ratio,
            reached_ratio: match target.measure {
                Measure::Latency => after.time_us / before.time_us,
                Measure::Memory => after.memory_bytes / before.memory_bytes,
                Measure::Throughput => after.tokens_per_s / before.tokens_per_s,
            },
        });
        let mut notes = pruned.found.architecture.notes(workload);
        if workload.speculate > 0 && workload.draft != Draft::Ngram {
            notes.push(
                "the layer that drafts is pruned, too: its shape is that of most layers that are left".to_owned(),
            );
        }
        Ok(Self {
            gpu: predictor.gpu().into(),
            model: arch.into(),
            pruned: (&pruned.found.architecture).into(),
            workload: *workload,
            framework: FrameworkKeys::of(predictor, &pruned.found.architecture, workload)?,
            basis,
            choice: query.choice,
            targets: targets.collect(),
            scored: !query.scores.is_empty(),
            damage: pruned.found.damage,
            damage_bound: pruned.found.bound,
            summed_time_us: pruned.found.summed,
            layers: LayersKeys::runs(&pruned.found.layers),
            before,
            after,
            changes: pruned.found.changes.iter().map(ChangeKeys::from).collect(),
            tier: pruned.after.main_tier(),
            tier_shares: pruned.after.tier_shares,
            caveats: SharedWarning::of(&pruned.after),
            notes,
            config: None,
        })
    }

    /// The same with the config.json of what is left.
    #[must_use]
    pub fn with_config(mut self, config: Value, model: &Architecture) -> Self {
        if !model.stated.is_of_a_file() {
            self.notes.push(
                "config.json has the usual rope_theta, epsilon and token ids, which a preset does not hold: give `--from` the config.json of the model to keep its own"
                    .to_owned(),
            );
        }
        self.config = Some(config);
        self
    }

    /// The config.json of what is left, with a name for its folder.
    pub fn configs(&self) -> impl Iterator<Item = (String, &Value)> {
        self.config.iter().map(|config| (self.pruned.name.clone(), config))
    }

    /// What is reached, by what.
    fn heading(&self) -> String {
        let targets = self.targets.iter().map(|target| {
            let reached = significant(target.reached_ratio);
            format!("{reached} of its {} ({} wanted)", target.measure, target.ratio)
        });
        let changes = self.changes.iter().map(|change| match self.choice {
            Choice::Blocks if change.layers == 1 => format!("{} in 1 layer", change.change),
            Choice::Blocks => format!("{} in {} layers", change.change, change.layers),
            Choice::Uniform => change.change.clone(),
        });
        let changes = Some(joined(", ", changes)).filter(|changes| !changes.is_empty());
        format!(
            "{} on {} reaches {}: {}\n{}\n{}\n",
            self.model.name,
            self.gpu,
            joined(" and ", targets),
            changes.as_deref().unwrap_or("as it is"),
            self.damage_text(),
            self.workload,
        ) + &self.unfit_text()
    }

    /// That what is left takes more memory than there is.
    fn unfit_text(&self) -> String {
        if self.after.fits {
            return String::new();
        }
        let serving = match self.workload.trains() {
            true => "; this is a training step, `--mode decode` is for serving",
            false => "",
        };
        let verdict = bad("DOES NOT FIT");
        format!("{verdict}: {} on each GPU{serving}\n", self.after.memory_bytes)
    }

    /// A damage in the unit of the scores.
    fn shown(&self, damage: f64) -> String {
        match self.scored {
            true => significant(damage),
            false => percent(damage),
        }
    }

    /// The damage, where it comes from, and how much less there may be.
    fn damage_text(&self) -> String {
        let scores = match self.scored {
            true => "the sum of the scores given",
            false => {
                "a default, not measured: each part's share of all parameters, times the square of the share of it that goes"
            }
        };
        let proof = self.summed_time_us.map_or_else(
            || "no choice does less".to_owned(),
            |summed| {
                format!(
                    "at least {} by the sum of blocks, which is {} off the step",
                    self.shown(self.damage_bound),
                    percent((summed / self.after.time_us - 1.0).abs())
                )
            },
        );
        format!("damage {} ({scores}); {proof}", self.shown(self.damage))
    }

    /// Both steps beside each other.
    fn steps(&self) -> String {
        let step = |step: &StepKeys| {
            row![
                grouped(step.parameters),
                step.time_us,
                format!("{} to {}", step.low_us, step.high_us),
                tokens(step.tokens_per_s),
                step.memory_bytes,
            ]
        };
        let (before, after) = (&self.before, &self.after);
        let change = |of: fn(&StepKeys) -> f64| signed(of(after) / of(before) - 1.0);
        let changes = [
            change(|step| step.parameters as f64),
            change(|step| step.time_us.secs()),
            String::new(),
            change(|step| step.tokens_per_s),
            change(|step| step.memory_bytes.bytes()),
        ];
        let names = ["parameters", "step", "90 % interval", "tokens/s", "memory"];
        let rows = names.into_iter().zip(step(before)).zip(step(after)).zip(changes);
        table(
            [left(""), right("before"), right("after"), right("change")],
            rows.map(|(((name, before), after), change)| [name.to_owned(), before, after, change]),
        )
    }

    /// What saves most.
    fn savings(&self) -> String {
        let rows = self.changes.iter().map(|change| {
            row![
                change.change,
                change.layers,
                change.saved_time_us,
                change.saved_memory_bytes,
                grouped(change.removed_parameters.round() as u64),
                self.shown(change.damage),
            ]
        });
        table(
            [
                left("what saves most"),
                right("layers"),
                right("time"),
                right("memory"),
                right("parameters"),
                right("damage"),
            ],
            rows,
        )
    }
}

impl Report for PruneReport {
    const LISTS: &'static [&'static str] = &["layers"];

    fn page(&self) -> String {
        let layers = table(
            [left("layers"), right("count"), left("attention"), left("MLP")],
            self.layers.iter().map(LayersKeys::cells),
        );
        let mut tail = vec![
            ("framework", self.framework.text(self.workload.gpus() > 1)),
            ("based on", based_on(&self.basis)),
            ("tiers", tier_shares_text(self.tier_shares)),
        ];
        tail.extend(SharedWarning::lines(&self.caveats));
        tail.extend(self.notes.iter().map(|note| ("note", note.clone())));
        [self.heading(), layers, self.steps(), self.savings(), named_lines(&tail)].join("\n")
    }
}
