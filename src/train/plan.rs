//! Which sub-models a run trains, and which tables each learns from.

use crate::dataset::{Row, is_timing};
use crate::error::{Error, Result};
use crate::families::{Family, Variant};
use crate::gpu::Gpu;
use crate::regressor::artifact::{ANY_GPU, Artifact, Key, Waves, Weights};
use crate::train::options::Options;
use crate::train::recipe::{Budget, Recipe};
use std::collections::BTreeMap;

/// Rows of one GPU, stack, family and variant.
pub(super) type Rows<'a> = BTreeMap<(&'a str, &'a str, Family, Variant), Vec<&'a Row>>;

/// GPUs and stacks that a sub-model learns from, and how.
#[derive(Default)]
pub(super) struct Sources<'a> {
    pub(super) own: Vec<(&'a Gpu, &'a str)>,
    pub(super) auxiliary: Vec<(&'a Gpu, &'a str)>,
    pub(super) budget: Budget,
    pub(super) waves: Option<Waves>,
}

pub(super) fn tables<'a>(rows: impl Iterator<Item = &'a Row>) -> Result<Rows<'a>> {
    let mut tables = Rows::new();
    for row in rows.filter(|row| is_timing(row)) {
        let (family, variant) = (Family::of(&row.op), Variant::of(&row.op));
        let key = (&*row.gpu, &*row.stack, family, variant);
        tables.entry(key).or_default().push(row);
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
    let wanted = (gpu, stack, recipe.family, recipe.variant);
    tables.keys().find(|key| **key == wanted).map(|key| key.1)
}

pub(super) fn plan<'a>(
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
            auxiliary: vec![],
            budget: recipe.budget,
            waves: recipe.waves,
        };
        for (name, stack) in recipe.auxiliary() {
            if let Some(stack) = stack_in(tables, name, stack, recipe) {
                sources.auxiliary.push((Gpu::find(name)?, stack));
            }
        }
        plan.push((
            key_of(&gpu.name, own, recipe.family, recipe.variant),
            sources,
        ));
    }
    if plan.is_empty() {
        // A GPU or stack without a recipe: every table of the GPU becomes a sub-model of its own.
        for &(_, stack, family, variant) in tables.keys().filter(|key| key.0 == gpu.name) {
            plan.push((
                key_of(&gpu.name, stack, family, variant),
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

/// One sub-model a family and variant from the default stacks of all GPUs that have one.
fn plan_across<'a>(tables: &Rows<'a>, recipes: &[Recipe]) -> Vec<(Key, Sources<'a>)> {
    let mut plan: BTreeMap<(Family, Variant), Sources<'a>> = BTreeMap::new();
    for recipe in recipes {
        if let (Some(stack), Ok(gpu)) = (
            stack_in(tables, &recipe.gpu, &recipe.stack, recipe),
            Gpu::find(&recipe.gpu),
        ) {
            plan.entry((recipe.family, recipe.variant))
                .or_default()
                .own
                .push((gpu, stack));
        }
    }
    let any = ANY_GPU;
    plan.into_iter()
        .map(|((family, variant), sources)| {
            (key_of(any, "default stacks", family, variant), sources)
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
pub(super) fn start_of<'a>(base: &'a Artifact, key: &Key) -> Option<&'a Weights> {
    let same = |exact: bool| {
        let mut submodels = base.submodels();
        submodels.find(|(known, _)| {
            let (own, wanted) = (known.key.variant, key.variant);
            known.key.family == key.family
                && own.kind() == wanted.kind()
                && (!exact || own == wanted)
        })
    };
    same(true).or_else(|| same(false)).map(|(_, nets)| nets)
}
