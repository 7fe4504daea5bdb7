//! Which sub-models a run trains, and which tables each learns from.

use crate::dataset::Row;
use crate::error::{Error, Result};
use crate::families::{Family, Variant};
use crate::gpu::Gpu;
use crate::random::fnv1a;
use crate::regressor::artifact::{ANY_GPU, Artifact, Key, Submodel, Weights};
use crate::train::options::Options;
use crate::train::recipe::{Budget, Recipe};
use std::collections::BTreeMap;

/// Rows of one GPU, stack, family and variant.
pub(super) type Rows<'a> = BTreeMap<(&'a str, &'a str, Family, Variant), Vec<&'a Row>>;

/// GPUs and stacks that a sub-model learns from, and how.
#[derive(Default)]
pub(super) struct Sources<'a> {
    pub(super) own: Vec<(&'a Gpu, &'a str)>,
    /// The least ranks of the collectives that one of them is asked for, by GPU and stack, else for all.
    pub(super) ranks_from: BTreeMap<(&'a str, &'a str), u64>,
    pub(super) auxiliary: Vec<(&'a Gpu, &'a str)>,
    pub(super) budget: Budget,
    pub(super) recipe: Option<&'a Recipe>,
}

pub(super) fn tables<'a>(rows: impl Iterator<Item = &'a Row>) -> Result<Rows<'a>> {
    let mut tables = Rows::new();
    for row in rows {
        let (family, variant) = (Family::of(&row.op), Variant::of(&row.op));
        let key = (&*row.gpu, &*row.stack, family, variant);
        tables.entry(key).or_default().push(row);
    }
    for ((.., family, _), rows) in &mut tables {
        let most = family.learning().rows;
        if rows.len() > most {
            let one_in = rows.len().div_ceil(most) as u64;
            // Not by `dataset::draw`, which takes other rows: models were trained on these.
            rows.retain(|row| fnv1a(row.op.to_string().as_bytes()).is_multiple_of(one_in));
        }
    }
    if tables.is_empty() {
        return Err(Error::infeasible(
            "the data holds no rows that are timings to learn from",
        ));
    }
    Ok(tables)
}

/// The stack as the rows spell it, where they hold such a table.
fn stack_in<'a>(tables: &Rows<'a>, gpu: &str, stack: &str, recipe: &Recipe) -> Option<&'a str> {
    let wanted = (gpu, stack, recipe.family, recipe.variant());
    tables.keys().find(|key| **key == wanted).map(|key| key.1)
}

/// Least number of rows of our own with which a table outranks the public one of a recipe.
const ENOUGH: usize = 100;

/// Tables of `measure` of a GPU, the largest of each family and variant first.
///
/// They were timed by one protocol on software that their owner runs, so they outrank what others
/// have published, if there are enough of them.
fn measured_of<'a>(tables: &Rows<'a>, gpu: &str) -> Vec<(&'a str, Family, Variant)> {
    let own = tables.iter().filter(|((name, ..), rows)| {
        *name == gpu && rows.iter().filter(|row| row.measured.is_some()).count() >= ENOUGH
    });
    let mut own: Vec<_> = own.collect();
    own.sort_by_key(|((_, stack, family, variant), rows)| (*family, *variant, std::cmp::Reverse(rows.len()), *stack));
    let keys = own.into_iter();
    keys.map(|(&(_, stack, family, variant), _)| (stack, family, variant))
        .collect()
}

/// What a recipe asks for, as far as the tables hold it.
fn sources_of<'a>(recipe: &'a Recipe, tables: &Rows<'a>, gpu: &'a Gpu, own: &'a str) -> Result<Sources<'a>> {
    let mut sources = Sources {
        own: vec![(gpu, own)],
        ranks_from: recipe.ranks_from(own),
        auxiliary: vec![],
        budget: recipe.budget,
        recipe: Some(recipe),
    };
    for (name, stack) in recipe.auxiliary() {
        if let Some(stack) = stack_in(tables, name, stack, recipe) {
            sources.auxiliary.push((Gpu::find(name)?, stack));
        }
    }
    Ok(sources)
}

pub(super) fn plan<'a>(
    tables: &Rows<'a>,
    recipes: &'a [Recipe],
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
    let of_gpu = || recipes.iter().filter(|recipe| recipe.gpu == gpu.name);
    let mut plan = Vec::new();
    // The first sub-model of a family and variant answers: our own rows, then those of a recipe.
    for (stack, family, variant) in measured_of(tables, &gpu.name) {
        let like = |recipe: &&Recipe| (recipe.family, recipe.variant()) == (family, variant);
        let exact = of_gpu().filter(like).find(|recipe| recipe.stack == stack);
        let sources = match exact {
            Some(recipe) => sources_of(recipe, tables, gpu, stack)?,
            None => Sources {
                own: vec![(gpu, stack)],
                budget: of_gpu().find(like).map(|recipe| recipe.budget).unwrap_or_default(),
                ..Sources::default()
            },
        };
        plan.push((key_of(&gpu.name, stack, family, variant), sources));
    }
    let mut has_recipe = false;
    for recipe in of_gpu() {
        let Some(own) = stack_in(tables, &gpu.name, &recipe.stack, recipe) else {
            continue;
        };
        has_recipe = true;
        let key = key_of(&gpu.name, own, recipe.family, recipe.variant());
        if plan.iter().any(|(known, _)| *known == key) {
            continue;
        }
        plan.push((key, sources_of(recipe, tables, gpu, own)?));
    }
    // Without a recipe, every other table of the GPU becomes a sub-model of its own; small ones of our
    // own always do.
    for (&(_, stack, family, variant), rows) in tables.iter().filter(|(key, _)| key.0 == gpu.name) {
        let key = key_of(&gpu.name, stack, family, variant);
        let is_own = rows.iter().any(|row| row.measured.is_some());
        if (is_own || !has_recipe) && plan.iter().all(|(known, _)| *known != key) {
            let sources = Sources {
                own: vec![(gpu, stack)],
                ..Sources::default()
            };
            plan.push((key, sources));
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

/// The stack of a sub-model over all GPUs that learns from the first table of each.
const DEFAULT_STACKS: &str = "default stacks";

/// One sub-model a family and variant from the default stacks, the first of each GPU, of all GPUs that have one; of collectives
/// one more an engine that has kernels of its own.
fn plan_across<'a>(tables: &Rows<'a>, recipes: &'a [Recipe]) -> Vec<(Key, Sources<'a>)> {
    // That of the default stacks, which no recipe names, goes first: it answers where no engine is asked for.
    let mut plan: BTreeMap<(Family, Variant, Option<&str>), Sources<'a>> = BTreeMap::new();
    for recipe in recipes {
        if let (Some(stack), Ok(gpu)) = (
            stack_in(tables, &recipe.gpu, &recipe.stack, recipe),
            Gpu::find(&recipe.gpu),
        ) {
            let key = (recipe.family, recipe.variant(), recipe.across.as_deref());
            let sources = plan.entry(key).or_default();
            let is_collective = recipe.family == Family::Collective;
            // Collectives of few and of many ranks are of two stacks of one GPU.
            let mut known = sources.own.iter();
            if !is_collective && known.any(|(known, _)| known.name == gpu.name) {
                continue;
            }
            sources.own.push((gpu, stack));
            sources.ranks_from.extend(recipe.ranks_from(stack));
        }
    }
    plan.into_iter()
        .map(|((family, variant, across), sources)| {
            let stacks = across.unwrap_or(DEFAULT_STACKS);
            (key_of(ANY_GPU, stacks, family, variant), sources)
        })
        .collect()
}

fn key_of(gpu: &str, stack: &str, family: Family, variant: Variant) -> Key {
    Key {
        gpu: gpu.to_owned(),
        stack: stack.to_owned(),
        family,
        variant,
    }
}

/// The nets of `base` to start a sub-model from: the same family and kind, the same format if there is one.
pub(super) fn start_of<'a>(base: &'a Artifact, key: &Key) -> Option<(&'a Submodel, &'a Weights)> {
    let same = |exact: bool| {
        let mut submodels = base.submodels();
        submodels.find(|(known, _)| {
            let (own, wanted) = (known.key.variant, key.variant);
            known.key.family == key.family && own.kind() == wanted.kind() && (!exact || own == wanted)
        })
    };
    same(true)
        .or_else(|| same(false))
        .map(|(submodel, weights)| (submodel, weights.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::{Cache, Measured, Role, Stop};
    use crate::gpu::GpuCatalog;
    use crate::ops::{Dtype, Gemm, Op};
    use crate::train::fit::Backend;
    use crate::units::Seconds;

    /// This many GEMMs of a stack on an H200, timed by others or by `measure`.
    fn table(stack: &str, rows: u64, is_own: bool) -> Vec<Row> {
        let time = Seconds::from_micros(10.0);
        let about = Measured {
            set: "sobol".to_owned(),
            role: Role::Plan,
            cache: Cache::Cold,
            rank: 0,
            at_s: 0.0,
            calls: 1,
            min: time,
            quartiles: (time, time),
            half_width: None,
            stop: Stop::Precise,
            throttled: false,
            clock_reasons: None,
            power_watts: None,
            temperature_celsius: None,
            kernel: None,
        };
        let row = |m: u64| Row {
            measured: is_own.then(|| Box::new(about.clone())),
            ..Row::new(Op::Gemm(Gemm::new(m, 512, 512)), "h200", stack, time)
        };
        (1..=rows).map(row).collect()
    }

    /// Stacks of the sub-models in their order.
    fn stacks(rows: &[Row]) -> Vec<String> {
        let options = Options {
            out: "mine".into(),
            gpus: GpuCatalog::default(),
            gpu: None,
            across: false,
            choices: vec![],
            base: None,
            seed: 0,
            backend: Backend::Cpu,
            epochs: None,
            labels: None,
            keep_out: None,
        };
        let recipes = Recipe::shipped().unwrap();
        let tables = tables(rows.iter()).unwrap();
        let plan = plan(&tables, &recipes, &options).unwrap();
        let bf16 = Variant::Format(Dtype::Bf16);
        assert!(
            plan.iter()
                .all(|(key, _)| (key.family, key.variant) == (Family::Gemm, bf16))
        );
        plan.into_iter().map(|(key, _)| key.stack).collect()
    }

    #[test]
    fn our_own_rows_answer_before_those_of_others() {
        const PUBLIC: &str = "trtllm 1.3.0rc20";
        let public = || table(PUBLIC, 900, false);
        let own = |stack: &str, rows| table(stack, rows, true);
        let both = |own: Vec<Row>| stacks(&[public(), own].concat());
        assert_eq!(both(own("cublaslt 13.1.0", 100)), ["cublaslt 13.1.0", PUBLIC]);
        // Too few to answer, but judged beside the others.
        assert_eq!(both(own("cublaslt 13.1.0", 99)), [PUBLIC, "cublaslt 13.1.0"]);
        // Of two of our own the larger.
        let two = [own("cublaslt 13.1.0", 200), own("cublaslt 13.2.0", 300)].concat();
        assert_eq!(both(two), ["cublaslt 13.2.0", "cublaslt 13.1.0", PUBLIC]);
        // A public stack that no recipe names is left out where one is named, and answers alone.
        let unnamed = table("made-up 1", 900, false);
        assert_eq!(stacks(&unnamed), ["made-up 1"]);
        assert_eq!(stacks(&[public(), unnamed.clone()].concat()), [PUBLIC]);
        let with_own = [own("cublaslt 13.1.0", 100), unnamed].concat();
        assert_eq!(stacks(&with_own), ["cublaslt 13.1.0", "made-up 1"]);
    }
}
