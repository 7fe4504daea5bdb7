//! Which trained head answers a question, from best to worst: this GPU and format, this GPU in another format,
//! the nearest GPU of the generation, the model over all GPUs.

use crate::error::Result;
use crate::features::{Family, Machine};
use crate::gpu::{Generation, Gpu, Vendor};
use crate::ops::Dtype;
use crate::predict::estimate::{Caveat, Caveats};
use crate::predict::library;
use crate::regressor::artifact::{ANY_GPU, Artifact, Calibration, Coverage, Head, Key, Weights};
use crate::regressor::evaluate::Ensemble;
use crate::units::Seconds;

/// A head made ready to answer for one GPU.
pub struct Voice {
    /// `trtllm 1.3.0rc20 on h200`.
    pub name: String,
    /// What it was trained for.
    key: Key,
    /// The GPU it is asked about.
    gpu: String,
    /// Features on the GPU that is asked about, with the launch term of the stack.
    pub machine: Machine,
    /// The measured region.
    pub coverage: Coverage,
    /// Spread to interval.
    pub calibration: Calibration,
    normaliser: Weights,
    ensemble: Ensemble,
}

impl Voice {
    fn new(head: &Head, weights: &Weights, gpu: &Gpu) -> Self {
        Self {
            name: match head.key.gpu.as_str() {
                ANY_GPU => format!("{} of all GPUs", head.key.stack),
                part => format!("{} on {part}", head.key.stack),
            },
            key: head.key.clone(),
            gpu: gpu.name.clone(),
            machine: Machine::new(gpu, Seconds::from_micros(head.launch_us)),
            coverage: head.coverage.clone(),
            calibration: head.calibration.clone(),
            normaliser: Weights {
                mean: weights.mean.clone(),
                scale: weights.scale.clone(),
                nets: Vec::new(),
            },
            ensemble: Ensemble::new(&weights.nets),
        }
    }

    /// Features an operator has.
    pub fn width(&self) -> usize {
        self.normaliser.mean.len()
    }

    /// Evaluates rows of raw features, `[rows, width] -> [rows, members]`; returns the number of members.
    pub fn evaluate(&self, inputs: &mut [f32], outputs: &mut Vec<f32>) -> usize {
        self.normaliser.normalise(inputs);
        self.ensemble.evaluate(inputs, outputs);
        self.ensemble.members()
    }
}

/// The voice that answers for one family and format.
pub struct Answer {
    /// Index of the voice.
    pub voice: usize,
    /// The format that the voice is asked in.
    pub dtype: Dtype,
    /// What is unlike the question.
    pub caveats: Caveats,
}

/// Finds the head that fits best and makes it a voice; none where no model knows the family.
pub fn choose(
    gpu: &Gpu,
    candidates: &[&Artifact],
    family: Family,
    dtype: Dtype,
    voices: &mut Vec<Voice>,
) -> Option<Answer> {
    let mut best: Option<(u32, &Head, &Weights)> = None;
    for artifact in candidates {
        for (head, weights) in artifact.card.heads.iter().zip(&artifact.weights) {
            if head.key.family != family {
                continue;
            }
            let distance = distance(gpu, dtype, head);
            if best.is_none_or(|(least, ..)| distance < least) {
                best = Some((distance, head, weights));
            }
        }
    }
    let (_, head, weights) = best?;
    let mut caveats = Caveats::default();
    if head.key.gpu != gpu.name {
        caveats.insert(Caveat::OtherGpu);
    }
    if head.key.dtype != dtype {
        caveats.insert(Caveat::OtherDtype);
    }
    // Both 16-bit formats run the same kernels; the features of any other format carry its own peak and size.
    let asked = if dtype.size() == head.key.dtype.size() {
        head.key.dtype
    } else {
        dtype
    };
    Some(Answer {
        voice: voice_of(head, weights, gpu, voices),
        dtype: asked,
        caveats,
    })
}

/// The head that saw odd sizes and batches, for this maker and generation: the co-design paper's raw sweeps.
pub fn alignment(gpu: &Gpu, voices: &mut Vec<Voice>) -> Result<Option<usize>> {
    let part = match (gpu.vendor, gpu.generation) {
        (Vendor::Nvidia, Generation::Volta | Generation::Turing) => "v100",
        (Vendor::Nvidia, _) => "a100-40gb",
        (Vendor::Amd, _) => "mi250x",
        (Vendor::Intel | Vendor::Other, _) => return Ok(None),
    };
    let Some(artifact) = library::find(part)? else {
        return Ok(None);
    };
    let products = artifact
        .card
        .heads
        .iter()
        .zip(&artifact.weights)
        .find(|(head, _)| head.key.family == Family::Gemm);
    let Some((head, weights)) = products else {
        return Ok(None);
    };
    // Ratios are taken on the part where they were measured.
    Ok(Some(voice_of(head, weights, Gpu::find(part)?, voices)))
}

fn voice_of(head: &Head, weights: &Weights, gpu: &Gpu, voices: &mut Vec<Voice>) -> usize {
    let known = voices
        .iter()
        .position(|voice| voice.key == head.key && voice.gpu == gpu.name);
    known.unwrap_or_else(|| {
        voices.push(Voice::new(head, weights, gpu));
        voices.len() - 1
    })
}

/// Models worth asking: the given one, the GPU's own, the nearest sibling's, the one over all GPUs.
pub fn candidates<'a>(gpu: &Gpu, model: Option<&'a Artifact>) -> Result<Vec<&'a Artifact>> {
    let mut artifacts: Vec<&Artifact> = model.into_iter().collect();
    for name in std::iter::once(gpu.name.as_str())
        .chain(sibling(gpu))
        .chain([library::BASE])
    {
        artifacts.extend(library::find(name)?);
    }
    Ok(artifacts)
}

/// The GPU of the same generation with a model of its own that is nearest in units and bandwidth.
fn sibling(gpu: &Gpu) -> Option<&'static str> {
    let gap = |other: &Gpu| {
        let units = (gpu.sm_count() as f64 / other.sm_count() as f64).ln().abs();
        units + (gpu.bandwidth() / other.bandwidth()).ln().abs()
    };
    library::names()
        .filter(|name| *name != library::BASE && *name != gpu.name)
        .filter_map(|name| Gpu::find(name).ok().map(|other| (name, other)))
        .filter(|(_, other)| other.generation == gpu.generation)
        .min_by(|(_, a), (_, b)| gap(a).total_cmp(&gap(b)))
        .map(|(name, _)| name)
}

/// How far a head is from the question: another 16-bit format is next to nothing, another GPU of the generation
/// counts less than a format of another width.
fn distance(gpu: &Gpu, dtype: Dtype, head: &Head) -> u32 {
    let format = match (
        head.key.dtype == dtype,
        head.key.dtype.size() == dtype.size(),
    ) {
        (true, _) => 0,
        (false, true) => 1,
        (false, false) => 6,
    };
    let part = match head.key.gpu.as_str() {
        name if name == gpu.name => 0,
        ANY_GPU => 4,
        _ => 3,
    };
    format + part
}
