//! From timing rows to a model: which heads, in what order, with checkpoints between the nets.
//!
//! Training is reproducible from its seed on one machine, and resumes after a kill: every finished net is
//! written to `OUT/.checkpoints` under a name that depends on the rows and the options.

pub mod calibrate;

pub mod committee;

pub mod fit;

pub mod head;

pub mod recipe;

pub mod tables;

pub mod teach;

pub mod trees;

use crate::dataset::{Row, SCRIPTED, digest, is_held_out, is_timing, key};
use crate::error::{Error, Result, write_atomically};
use crate::features::Family;
use crate::gpu::Gpu;
use crate::gpu::GpuCatalog;
use crate::ops::Dtype;
use crate::random::fnv1a;
use crate::regressor::artifact::{Artifact, Card, GroupErrors, KeptOut, Key, SCHEMA, Waves};
use crate::regressor::net::Net;
use crate::train::fit::{Backend, Computer};
use crate::train::head::train_head;
use crate::train::recipe::{Care, Recipe};
use crate::train::tables::{TableRows, Tables};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// How much work goes into the nets of a head.
#[derive(Clone, Debug)]
pub struct Effort {
    /// Nets in the ensemble.
    pub members: usize,
    /// Widths of their hidden layers.
    pub hidden: Vec<usize>,
    /// Passes over rows and labelled shapes.
    pub epochs: usize,
    /// Rows in a step.
    pub batch: usize,
    /// Highest learning rate of the cycle.
    pub learning_rate: f64,
    /// Forests of the teacher, averaged; 0 = no teacher.
    pub forests: usize,
    /// Trees in each.
    pub trees: usize,
    /// Shapes the teacher labels.
    pub invented: usize,
}

impl Effort {
    /// The effort of a shipped head.
    pub fn of(care: Care, family: Family) -> Self {
        let products = family == Family::Gemm;
        let common = Self {
            members: 3,
            hidden: vec![96, 96],
            epochs: 40,
            batch: 512,
            learning_rate: 5e-3,
            forests: 1,
            trees: 600,
            invented: if products { 40_000 } else { 20_000 },
        };
        match care {
            Care::Usual => common,
            Care::Full => Self {
                members: 5,
                epochs: 160,
                forests: 2,
                trees: if products { 2500 } else { 1500 },
                invented: if products { 90_000 } else { 30_000 },
                ..common
            },
        }
    }

    /// Fine-tuning of finished nets: a teacher finds how the rows differ from what they say, and labels what holds them
    /// in place wherever there are no rows.
    pub fn fine_tune(family: Family) -> Self {
        Self {
            members: 5,
            learning_rate: 2e-3,
            // At most: of few rows a trial says how many.
            trees: 512,
            invented: 10_000,
            ..Self::of(Care::Usual, family)
        }
    }
}

/// What to train and where to put it.
#[derive(Clone, Debug)]
pub struct Options {
    /// Folder of the model; its last part is the model's name.
    pub out: PathBuf,
    /// The GPUs that the rows and the base model may name.
    pub gpus: GpuCatalog,
    /// Train the heads of this GPU only; without it the rows must be of one GPU.
    pub gpu: Option<String>,
    /// One head a family over all GPUs, for GPUs nobody measured.
    pub across: bool,
    /// Model to fine-tune instead of starting fresh.
    pub base: Option<Artifact>,
    /// Seed of everything random.
    pub seed: u64,
    /// What computes.
    pub backend: Backend,
    /// Overrides the epochs of the effort.
    pub epochs: Option<usize>,
    /// Overrides how many shapes the teacher labels.
    pub labels: Option<usize>,
    /// Share of the keys that no net sees, so that the model can be judged by them.
    pub keep_out: Option<f64>,
}

/// Seed of the keys that are kept out: not that of a run, so that the keys of a rehearsal are others.
const KEEP_OUT_SEED: u64 = 240_114_489;

/// News from a training run.
#[derive(Debug)]
#[allow(missing_docs)]
pub enum Event<'a> {
    /// A head begins.
    HeadStarted {
        key: &'a Key,
        rows: usize,
        held_out: usize,
    },
    /// The teacher has grown another tree.
    Tree {
        key: &'a Key,
        tree: usize,
        of: usize,
    },
    /// What the teacher gets wrong on held-out keys: the mark the nets aim at.
    TeacherRehearsed {
        key: &'a Key,
        median_ape: f64,
        p90_ape: f64,
    },
    /// A net has finished an epoch; now and then with the median error on held-out keys.
    Epoch {
        key: &'a Key,
        member: usize,
        epoch: usize,
        of: usize,
        loss: f32,
        held_out: Option<f64>,
    },
    /// The rehearsal's error table.
    HeadRehearsed {
        key: &'a Key,
        errors: &'a [GroupErrors],
    },
    /// A net was already in the checkpoints.
    Resumed { net: &'a str },
    /// A head cannot be trained from these rows.
    HeadSkipped { key: &'a Key, reason: &'a str },
}

/// One run as the heads see it.
pub struct Run<'a> {
    seed: u64,
    backend: Backend,
    computer: Computer,
    checkpoints: PathBuf,
    listener: &'a (dyn Fn(Event<'_>) + Sync),
}

impl Run<'_> {
    fn tell(&self, event: Event<'_>) {
        (self.listener)(event);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.checkpoints
            .join(format!("{}.json", name.replace(' ', "-")))
    }

    fn checkpoint(&self, name: &str) -> Option<Net> {
        let text = std::fs::read_to_string(self.path(name)).ok()?;
        let net = serde_json::from_str(&text).ok()?;
        self.tell(Event::Resumed { net: name });
        Some(net)
    }

    fn save_checkpoint(&self, name: &str, net: &Net) -> Result<()> {
        let text = serde_json::to_string(net).expect("a net has only plain fields");
        write_atomically(&self.path(name), text.as_bytes())
    }
}

/// Trains a model from `rows` and saves it to `options.out`.
pub fn train(
    rows: &[Row],
    options: &Options,
    listener: &(dyn Fn(Event<'_>) + Sync),
) -> Result<Artifact> {
    let name = options
        .out
        .file_name()
        .and_then(|name| name.to_str())
        .ok_or_else(|| {
            Error::field(
                "--out",
                "folder",
                options.out.display(),
                "a path that ends in a name",
            )
        })?;
    if let Some(row) = rows.iter().find(|row| *row.gpu == *SCRIPTED) {
        return Err(Error::field(
            "data",
            "gpu",
            format!("`{}`", row.gpu),
            "rows that a device has timed; a script made these up",
        ));
    }
    let computer = options.backend.device()?;
    let kept_out = options.keep_out.map(|fraction| KeptOut {
        fraction,
        seed: KEEP_OUT_SEED,
    });
    let seen =
        |row: &&Row| kept_out.is_none_or(|kept| !is_held_out(key(row), kept.fraction, kept.seed));
    let tables = tables(rows.iter().filter(seen))?;
    let recipes = Recipe::shipped()?;
    let plan = plan(&tables, &recipes, options)?;
    let checkpoints = options
        .out
        .join(".checkpoints")
        .join(fingerprint(rows, &recipes, options));
    std::fs::create_dir_all(&checkpoints).map_err(|source| Error::io(&checkpoints, source))?;
    let run = Run {
        seed: options.seed,
        backend: options.backend,
        computer,
        checkpoints,
        listener,
    };

    let mut card = Card {
        schema: SCHEMA,
        name: name.to_owned(),
        base: options.base.as_ref().map(|base| base.card.name.clone()),
        kept_out,
        heads: vec![],
        gpus: vec![],
    };
    let mut weights = Vec::new();
    for (key, sources) in plan {
        let gather = |(gpu, stack)| {
            let gpu: &Gpu = gpu;
            let rows = &tables[&(gpu.name.as_str(), stack, key.family, key.dtype)];
            TableRows {
                gpu,
                rows: rows.clone(),
            }
        };
        let learn = Tables {
            own: sources.own.iter().copied().map(gather).collect(),
            sisters: sources.sisters.iter().copied().map(gather).collect(),
            waves: sources.waves,
        };
        let start = options.base.as_ref().and_then(|base| start_of(base, &key));
        let mut effort = match start {
            Some(_) => Effort::fine_tune(key.family),
            None => Effort::of(sources.care, key.family),
        };
        if learn.own.len() > 1 {
            // Many tables leave little to invent.
            effort.forests = 0;
        }
        effort.epochs = options.epochs.unwrap_or(effort.epochs);
        effort.invented = match effort.forests {
            0 => 0,
            _ => options.labels.unwrap_or(effort.invented),
        };
        match train_head(key.clone(), &learn, start, &effort, &run) {
            Ok((head, nets)) => {
                let parts = learn.own.iter().map(|table| table.gpu);
                for gpu in parts.filter(|gpu| gpu.is_described()) {
                    if !card.gpus.contains(gpu) {
                        card.gpus.push(gpu.clone());
                    }
                }
                card.heads.push(head);
                weights.push(nets);
            }
            Err(error) if error.is_infeasible() => {
                listener(Event::HeadSkipped {
                    key: &key,
                    reason: &error.to_string(),
                });
            }
            Err(error) => return Err(error),
        }
    }
    if card.heads.is_empty() {
        return Err(Error::infeasible(
            "no GPU, stack, family and format in the rows has enough of them to train on",
        ));
    }
    let artifact = Artifact { card, weights };
    artifact.save(&options.out)?;
    // Only after the model is safe; a leftover folder does no harm.
    let _ = std::fs::remove_dir_all(options.out.join(".checkpoints"));
    Ok(artifact)
}

/// Rows of one GPU, stack, family and format.
type Rows<'a> = BTreeMap<(&'a str, &'a str, Family, Dtype), Vec<&'a Row>>;

/// GPUs and stacks that a head learns from, and how.
#[derive(Default)]
struct Sources<'a> {
    own: Vec<(&'a Gpu, &'a str)>,
    sisters: Vec<(&'a Gpu, &'a str)>,
    care: Care,
    waves: Option<Waves>,
}

fn tables<'a>(rows: impl Iterator<Item = &'a Row>) -> Result<Rows<'a>> {
    let mut tables = Rows::new();
    for row in rows.filter(|row| is_timing(row)) {
        if let (Some(family), Some(dtype)) = (Family::of(&row.op), row.op.dtype()) {
            tables
                .entry((&*row.gpu, &*row.stack, family, dtype))
                .or_default()
                .push(row);
        }
    }
    if tables.is_empty() {
        return Err(Error::infeasible(
            "the rows hold no products and no attention; nothing else is learned",
        ));
    }
    Ok(tables)
}

/// The stack as the rows spell it, where they hold such a table.
fn stack_in<'a>(tables: &Rows<'a>, gpu: &str, stack: &str, recipe: &Recipe) -> Option<&'a str> {
    let wanted = (gpu, stack, recipe.family, recipe.dtype);
    tables.keys().find(|key| **key == wanted).map(|key| key.1)
}

fn plan<'a>(
    tables: &Rows<'a>,
    recipes: &[Recipe],
    options: &'a Options,
) -> Result<Vec<(Key, Sources<'a>)>> {
    if options.across {
        return Ok(plan_across(tables, recipes));
    }
    let mut gpus: Vec<&str> = tables.keys().map(|key| key.0).collect();
    gpus.dedup();
    let gpu = match (&options.gpu, &gpus[..]) {
        (Some(name), _) => options.gpus.find(name)?,
        (None, [only]) => options.gpus.find(only)?,
        (None, several) => {
            return Err(Error::field(
                "--gpu",
                "gpu",
                "not given",
                &format!("one of {}", several.join(", ")),
            ));
        }
    };
    let mut plan = Vec::new();
    for recipe in recipes.iter().filter(|recipe| recipe.gpu == gpu.name) {
        let Some(own) = stack_in(tables, &gpu.name, &recipe.stack, recipe) else {
            continue;
        };
        let mut sources = Sources {
            own: vec![(gpu, own)],
            sisters: vec![],
            care: recipe.care,
            waves: recipe.waves,
        };
        for (sister, stack) in recipe.sisters() {
            if let Some(stack) = stack_in(tables, sister, stack, recipe) {
                sources.sisters.push((Gpu::find(sister)?, stack));
            }
        }
        plan.push((key_of(&gpu.name, own, recipe.family, recipe.dtype), sources));
    }
    if plan.is_empty() {
        // A GPU or stack without a recipe: every table of the GPU becomes a head of its own.
        for &(_, stack, family, dtype) in tables.keys().filter(|key| key.0 == gpu.name) {
            plan.push((
                key_of(&gpu.name, stack, family, dtype),
                Sources {
                    own: vec![(gpu, stack)],
                    ..Sources::default()
                },
            ));
        }
    }
    if plan.is_empty() {
        return Err(Error::infeasible(format!(
            "the data holds no rows of {}; it holds {}",
            gpu.name,
            gpus.join(", ")
        )));
    }
    Ok(plan)
}

/// One head a family and format from the default stacks of all GPUs that have one.
fn plan_across<'a>(tables: &Rows<'a>, recipes: &[Recipe]) -> Vec<(Key, Sources<'a>)> {
    let mut plan: BTreeMap<(Family, Dtype), Sources<'a>> = BTreeMap::new();
    for recipe in recipes {
        if let (Some(stack), Ok(gpu)) = (
            stack_in(tables, &recipe.gpu, &recipe.stack, recipe),
            Gpu::find(&recipe.gpu),
        ) {
            plan.entry((recipe.family, recipe.dtype))
                .or_default()
                .own
                .push((gpu, stack));
        }
    }
    let any = crate::regressor::artifact::ANY_GPU;
    plan.into_iter()
        .map(|((family, dtype), sources)| (key_of(any, "default stacks", family, dtype), sources))
        .collect()
}

fn key_of(gpu: &str, stack: &str, family: Family, dtype: Dtype) -> Key {
    Key {
        gpu: gpu.to_owned(),
        stack: stack.to_owned(),
        family,
        dtype,
    }
}

/// The nets of `base` to start a head from: the same family, the same format if there is one.
fn start_of<'a>(base: &'a Artifact, key: &Key) -> Option<&'a crate::regressor::artifact::Weights> {
    let same = |exact: bool| {
        base.card.heads.iter().position(|head| {
            head.key.family == key.family && (!exact || head.key.dtype == key.dtype)
        })
    };
    same(true)
        .or_else(|| same(false))
        .map(|index| &base.weights[index])
}

/// A name for the checkpoints of exactly this run.
fn fingerprint(rows: &[Row], recipes: &[Recipe], options: &Options) -> String {
    let base = options.base.as_ref().map(|base| format!("{:?}", base.card));
    let rest = format!(
        "{} {recipes:?} {:?} {} {base:?} {} {:?} {:?} {:?} {:?} {}",
        digest(rows),
        options.gpu,
        options.across,
        options.seed,
        options.backend,
        options.epochs,
        options.labels,
        options.keep_out,
        env!("CARGO_PKG_VERSION")
    );
    format!("{:016x}", fnv1a(rest.as_bytes()))
}
