//! Which sub-model answers a question, from best to worst: this GPU and format, this GPU in another format,
//! the nearest GPU of the generation, the model over all GPUs.

use crate::error::{Error, Result};
use crate::families::{Caveat, Caveats, Coverage, Family, GpuRates, Variant};
use crate::gpu::{Generation, Gpu, Vendor};
use crate::ops::Op;
use crate::predict::assume;
use crate::predict::library;
use crate::regressor::artifact::{ANY_GPU, Artifact, Calibration, Key, Submodel, Weights};
use crate::regressor::evaluate::Evaluator;
use crate::units::Seconds;
use serde::Deserialize;
use std::sync::OnceLock;

/// A sub-model made ready to answer for one GPU.
pub struct LoadedModel {
    /// `trtllm 1.3.0rc20 on h200`.
    pub name: String,
    /// What it was trained for.
    key: Key,
    /// Name of the GPU it is asked about.
    gpu: String,
    /// Half width that learning on another GPU adds.
    pub transfer: f64,
    /// Rates of the GPU that is asked about, with the launch term of the stack.
    pub rates: GpuRates,
    /// The measured region.
    pub coverage: Coverage,
    /// Spread to interval.
    pub calibration: Calibration,
    /// From features to answers.
    pub evaluator: Evaluator,
}

impl LoadedModel {
    fn new(submodel: &Submodel, weights: &Weights, gpu: &Gpu) -> Self {
        Self {
            name: match submodel.key.gpu.as_str() {
                ANY_GPU => format!("{} of all GPUs", submodel.key.stack),
                gpu => format!("{} on {gpu}", submodel.key.stack),
            },
            key: submodel.key.clone(),
            gpu: gpu.name.clone(),
            transfer: assume::other_gpu(gpu, &submodel.key),
            rates: GpuRates::new(gpu, Seconds::from_micros(submodel.launch_us)),
            coverage: submodel.coverage.clone(),
            calibration: submodel.calibration.clone(),
            evaluator: Evaluator::new(weights),
        }
    }
}

/// The model that answers for one family and variant.
pub struct Answer {
    /// Index of the model.
    pub model: usize,
    /// The variant that the model is asked in.
    pub asked: Variant,
    /// What is unlike the question.
    pub caveats: Caveats,
    /// Below how many rows of a GEMM another sub-model answers, and which.
    sparse: Option<(u64, Box<Answer>)>,
}

impl Answer {
    /// This answer, or that of the next best sub-model where this one saw hardly a row.
    pub fn to(&self, op: &Op) -> &Self {
        match (&self.sparse, op) {
            (Some((m_from, elsewhere)), Op::Gemm(gemm)) if gemm.m < *m_from => elsewhere,
            _ => self,
        }
    }
}

/// Finds the sub-model that fits best and loads it; none where no model knows the family.
pub fn choose(
    gpu: &Gpu,
    candidates: &Candidates<'_>,
    family: Family,
    variant: Variant,
    models: &mut Vec<LoadedModel>,
) -> Result<Option<Answer>> {
    let Some((best, mut answer)) = next_best(gpu, candidates, (family, variant), None, models)
    else {
        return Ok(None);
    };
    let sparse = sparse_entries()?.iter();
    if family == Family::Gemm
        && let Some(entry) = sparse.into_iter().find(|entry| entry.is(best))
        && let Some((_, elsewhere)) =
            next_best(gpu, candidates, (family, variant), Some(best), models)
    {
        answer.sparse = Some((entry.m_from, Box::new(elsewhere)));
    }
    Ok(Some(answer))
}

/// The sub-model that fits best, but for `excluded`.
fn next_best<'a>(
    gpu: &Gpu,
    candidates: &Candidates<'a>,
    (family, variant): (Family, Variant),
    excluded: Option<&Key>,
    models: &mut Vec<LoadedModel>,
) -> Option<(&'a Key, Answer)> {
    let nearest = |artifacts: &[&'a Artifact], family: Family, most: u32| {
        let all = artifacts.iter().flat_map(|artifact| artifact.submodels());
        let others = all.filter(|(submodel, _)| {
            submodel.key.family == family
                && excluded != Some(&submodel.key)
                && candidates.may_answer(submodel)
        });
        let known = others.filter_map(|(submodel, weights)| {
            let distance = distance(gpu, variant, &submodel.key)?;
            (distance <= most).then_some((distance, submodel, weights))
        });
        known.min_by_key(|(distance, ..)| *distance)
    };
    // A model that was asked for by name answers wherever it knows kernels of this format's width; where nobody knows
    // the family, the one with the same features answers.
    let families = std::iter::once(family).chain(family.like());
    let (_, submodel, weights) = families.into_iter().find_map(|family| {
        nearest(&candidates.named, family, SAME_WIDTH)
            .or_else(|| nearest(&candidates.all, family, u32::MAX))
    })?;
    let known = submodel.key.variant;
    let mut caveats = Caveats::default();
    caveats.insert_if(submodel.key.gpu != gpu.name, Caveat::OtherGpu);
    caveats.insert_if(known != variant, Caveat::OtherDtype);
    let answer = Answer {
        model: load(submodel, weights, gpu, models),
        // Both 16-bit formats run the same kernels; the features of any other format carry its own peak and size.
        asked: if bytes(variant) == bytes(known) {
            known
        } else {
            variant
        },
        caveats,
        sparse: None,
    };
    Some((&submodel.key, answer))
}

/// A sub-model that saw hardly a GEMM of fewer rows.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SparseEntry {
    gpu: String,
    stack: String,
    m_from: u64,
    #[allow(dead_code)] // evidence for whoever reads the file
    source: String,
}

impl SparseEntry {
    fn is(&self, key: &Key) -> bool {
        self.gpu == key.gpu && self.stack == key.stack
    }
}

fn sparse_entries() -> Result<&'static [SparseEntry]> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        submodel: Vec<SparseEntry>,
    }
    static ENTRIES: OnceLock<Vec<SparseEntry>> = OnceLock::new();
    if let Some(entries) = ENTRIES.get() {
        return Ok(entries);
    }
    let file: File = toml::from_str(include_str!("../../data/sparse.toml"))
        .map_err(|error| Error::bad_input(format!("data/sparse.toml: {error}")))?;
    Ok(ENTRIES.get_or_init(|| file.submodel))
}

/// Which GPU knows the odd sizes of a maker's GPUs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AlignmentEntry {
    vendor: Vendor,
    /// Nothing stands for all generations.
    generations: Option<Vec<Generation>>,
    alignment_from: String,
}

fn alignment_entries() -> Result<&'static [AlignmentEntry]> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        entry: Vec<AlignmentEntry>,
    }
    static ENTRIES: OnceLock<Vec<AlignmentEntry>> = OnceLock::new();
    if let Some(entries) = ENTRIES.get() {
        return Ok(entries);
    }
    let file: File = toml::from_str(include_str!("../../data/alignment.toml"))
        .map_err(|error| Error::bad_input(format!("data/alignment.toml: {error}")))?;
    Ok(ENTRIES.get_or_init(|| file.entry))
}

/// The sub-model that saw odd sizes and batches, for this maker and generation, as `data/alignment.toml` says.
pub fn alignment(
    gpu: &Gpu,
    candidates: &Candidates<'_>,
    models: &mut Vec<LoadedModel>,
) -> Result<Option<usize>> {
    let fits = |entry: &&AlignmentEntry| {
        let generations = entry.generations.as_ref();
        entry.vendor == gpu.vendor && generations.is_none_or(|all| all.contains(&gpu.generation))
    };
    let Some(entry) = alignment_entries()?.iter().find(fits) else {
        return Ok(None);
    };
    let Some(artifact) = library::find(&entry.alignment_from)? else {
        return Ok(None);
    };
    let gemms = artifact
        .submodels()
        .find(|(submodel, _)| submodel.key.family == Family::Gemm);
    let Some((submodel, weights)) = gemms.filter(|(submodel, _)| candidates.may_answer(submodel))
    else {
        return Ok(None);
    };
    // Ratios are taken on the GPU where they were measured.
    let measured_on = Gpu::find(&entry.alignment_from)?;
    Ok(Some(load(submodel, weights, measured_on, models)))
}

/// The index of this sub-model for this GPU, loaded once.
fn load(submodel: &Submodel, weights: &Weights, gpu: &Gpu, models: &mut Vec<LoadedModel>) -> usize {
    let known = models
        .iter()
        .position(|model| model.key == submodel.key && model.gpu == gpu.name);
    known.unwrap_or_else(|| {
        models.push(LoadedModel::new(submodel, weights, gpu));
        models.len() - 1
    })
}

/// Models worth asking.
pub struct Candidates<'a> {
    /// The one that was named, if one was.
    named: Vec<&'a Artifact>,
    /// The named one, the GPU's own, the nearest sibling's, the one over all GPUs.
    all: Vec<&'a Artifact>,
    /// The GPU whose rows no sub-model may have seen.
    left_out: Option<&'a str>,
}

impl Candidates<'_> {
    fn may_answer(&self, submodel: &Submodel) -> bool {
        let seen = |left_out: &str| submodel.data.iter().any(|table| table.gpu == left_out);
        !self.left_out.is_some_and(seen)
    }
}

/// The models that may answer for a GPU.
pub fn candidates<'a>(gpu: &Gpu, model: Option<&'a Artifact>) -> Result<Candidates<'a>> {
    let named: Vec<&Artifact> = model.into_iter().collect();
    let mut all = named.clone();
    for name in std::iter::once(gpu.name.as_str())
        .chain(sibling(gpu)?)
        .chain([library::BASE])
    {
        all.extend(library::find(name)?);
    }
    Ok(Candidates {
        named,
        all,
        left_out: None,
    })
}

/// The models that may answer for a GPU as if nobody had measured it: those of all other GPUs, the nearest of its
/// generation first, then of other generations.
pub fn candidates_without(gpu: &Gpu) -> Result<Candidates<'_>> {
    let others = others(gpu)?.into_iter();
    let found: Vec<_> = others
        .map(|(name, _)| library::find(name))
        .collect::<Result<_>>()?;
    Ok(Candidates {
        named: vec![],
        all: found.into_iter().flatten().collect(),
        left_out: Some(&gpu.name),
    })
}

/// The other GPUs with a model of their own, of a dense table: first those of the same generation, each nearest in units and
/// bandwidth first.
fn others(gpu: &Gpu) -> Result<Vec<(&'static str, &'static Gpu)>> {
    let sparse = sparse_entries()?;
    let gap = |other: &Gpu| {
        let units = (gpu.sm_count() as f64 / other.sm_count() as f64).ln().abs();
        units + (gpu.bandwidth() / other.bandwidth()).ln().abs()
    };
    let mut others: Vec<_> = library::names()
        .filter(|name| *name != library::BASE && *name != gpu.name)
        .filter(|name| sparse.iter().all(|entry| entry.gpu != *name))
        .filter_map(|name| Gpu::find(name).ok().map(|other| (name, other)))
        .collect();
    others.sort_by(|(_, a), (_, b)| {
        let is_other = |other: &Gpu| other.generation != gpu.generation;
        let by_generation = is_other(a).cmp(&is_other(b));
        by_generation.then(gap(a).total_cmp(&gap(b)))
    });
    Ok(others)
}

/// The nearest of them that is of the same generation.
fn sibling(gpu: &Gpu) -> Result<Option<&'static str>> {
    let nearest = others(gpu)?.into_iter().next();
    let sibling = nearest.filter(|(_, other)| other.generation == gpu.generation);
    Ok(sibling.map(|(name, _)| name))
}

fn bytes(variant: Variant) -> Option<u64> {
    variant.dtype().map(|dtype| dtype.size())
}

/// The most that [`distance`] is for a format of the same width.
const SAME_WIDTH: u32 = 5;

/// How far a sub-model is from the question; none where it knows another kind of kernel.
///
/// Assumed, as an order of preference: another 16-bit format runs the same kernels (1), so it goes before another GPU
/// of the generation (3), that before all GPUs together (4), and a format of another width comes last (6).
fn distance(gpu: &Gpu, variant: Variant, key: &Key) -> Option<u32> {
    let format = match (key.variant == variant, bytes(key.variant) == bytes(variant)) {
        (true, _) => 0,
        _ if key.variant.kind() != variant.kind() => return None,
        (false, true) => 1,
        (false, false) => 6,
    };
    let gpu = match key.gpu.as_str() {
        name if name == gpu.name => 0,
        ANY_GPU => 4,
        _ => 3,
    };
    Some(format + gpu)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparse_tables_are_of_built_in_models_and_no_siblings() {
        for entry in sparse_entries().unwrap() {
            let artifact = library::find(&entry.gpu).unwrap().unwrap();
            assert!(
                artifact
                    .submodels()
                    .any(|(submodel, _)| entry.is(&submodel.key))
            );
            assert!(entry.m_from > 1 && entry.source.contains("rows"));
        }
        for ampere in ["a30", "a100-40gb", "a100-40gb-pcie"] {
            assert_eq!(sibling(Gpu::find(ampere).unwrap()).unwrap(), Some("a100"));
        }
    }

    #[test]
    fn a_gpu_that_is_left_out_is_answered_by_models_that_saw_no_row_of_it() {
        for name in library::names().filter(|name| *name != library::BASE) {
            let gpu = Gpu::find(name).unwrap();
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
        // H200's GEMMs were taught by rows of H100, so another generation answers for H100.
        let h100 = Gpu::find("h100").unwrap();
        let candidates = candidates_without(h100).unwrap();
        let bf16 = Variant::Format(crate::ops::Dtype::Bf16);
        let mut models = Vec::new();
        choose(h100, &candidates, Family::Gemm, bf16, &mut models).unwrap();
        assert_ne!(models[0].key.gpu, "h200");
    }

    #[test]
    fn odd_sizes_are_known_on_gpus_that_exist_and_have_a_model() {
        for entry in alignment_entries().unwrap() {
            let gpu = Gpu::find(&entry.alignment_from).unwrap();
            assert_eq!(gpu.name, entry.alignment_from);
            assert_eq!(gpu.vendor, entry.vendor);
            assert!(library::find(&gpu.name).unwrap().is_some());
        }
        let from = |gpu: &str| {
            let mut models = Vec::new();
            let gpu = Gpu::find(gpu).unwrap();
            let found = alignment(gpu, &candidates(gpu, None).unwrap(), &mut models).unwrap();
            found.map(|model| models[model].gpu.clone())
        };
        assert_eq!(from("v100").as_deref(), Some("v100"));
        assert_eq!(from("h200").as_deref(), Some("a100-40gb"));
        assert_eq!(from("mi300x").as_deref(), Some("mi250x"));
        assert_eq!(from("b60"), None);
    }
}
