//! The predictors that findings need, and the user's timings that lie on a series.

use crate::reproduce::judge::Basis;
use crate::reproduce::spec::{Evidence, TARGET};
use shapewise::error::Result;
use shapewise::framework::Framework;
use shapewise::gpu::Gpu;
use shapewise::ops::{Gemm, Op};
use shapewise::predict::Predictor;
use shapewise::regressor::artifact::Artifact;
use shapewise::units::Seconds;
use std::collections::{BTreeMap, HashMap};

/// The GPUs that the authors measured on, under the names of `data/gpus`.
pub const AUTHORS: [&str; 3] = ["v100", "a100-40gb", "mi250x"];

/// Predictors for every GPU that a finding needs.
pub struct Predictors {
    by_gpu: BTreeMap<String, Predictor>,
    /// What the rows of each of [`AUTHORS`] are to the nets that answer for it.
    fitted: [Basis; AUTHORS.len()],
}

impl Predictors {
    /// The named model where it answers, else the built-in ones, beside the predictor of the
    /// target.
    pub fn new<'a>(target: Predictor, model: Option<&Artifact>, gpus: impl Iterator<Item = &'a str>) -> Result<Self> {
        // The authors timed kernels and single layers.
        let plain = |predictor: Predictor| predictor.with_framework_named(Framework::KERNELS);
        let mut by_gpu = BTreeMap::from([(TARGET.to_owned(), plain(target))]);
        for gpu in gpus {
            if !by_gpu.contains_key(gpu) {
                let predictor = Predictor::new(Gpu::find(gpu)?, model)?;
                by_gpu.insert(gpu.to_owned(), plain(predictor));
            }
        }
        Ok(Self {
            by_gpu,
            fitted: AUTHORS.map(|gpu| match model.map(|model| &model.card) {
                Some(card) if card.kept_out_of(gpu).is_some() => Basis::KeptOut,
                Some(card) if card.knows(gpu) => Basis::Unknown,
                // The built-in nets answer.
                _ => Basis::Trained,
            }),
        })
    }

    /// The predictor for a GPU that was named at the start, or for [`TARGET`].
    pub fn of(&self, gpu: &str) -> &Predictor {
        &self.by_gpu[gpu]
    }

    /// The name of the GPU that whole models are predicted for.
    pub fn target(&self) -> &str {
        &self.of(TARGET).gpu().name
    }

    /// What evidence is to the nets that answer for a GPU.
    pub fn basis(&self, evidence: Evidence, gpu: &str) -> Basis {
        match (evidence, self.fitted(gpu)) {
            (Evidence::KeptOut, _) => Basis::KeptOut,
            (Evidence::Claim, _) => Basis::Claim,
            // Once the timings that judge are chosen, kept-out keys alone are left; quoted means
            // are of all keys.
            (Evidence::Quoted, Basis::KeptOut) => Basis::Trained,
            (_, basis) => basis,
        }
    }

    fn fitted(&self, gpu: &str) -> Basis {
        let known = AUTHORS.iter().position(|author| *author == gpu);
        known.map_or(Basis::Unknown, |at| self.fitted[at])
    }
}

/// TFLOP/s of GEMMs.
pub fn rates(predictor: &Predictor, gemms: &[Gemm]) -> Vec<f64> {
    let ops: Vec<_> = gemms.iter().map(|gemm| Op::Gemm(*gemm)).collect();
    let estimates = predictor.predict(&ops);
    let timed = ops.iter().zip(&estimates);
    timed.map(|(op, estimate)| tflops(op, estimate.time)).collect()
}

fn tflops(op: &Op, time: Seconds) -> f64 {
    (op.flops() / time).flops_per_sec() / 1e12
}

/// One timing of the user.
#[derive(Clone, Debug)]
pub struct Timing {
    /// Our name of the GPU.
    pub gpu: String,
    /// What ran.
    pub op: Op,
    /// How long.
    pub time: Seconds,
    /// Whether the training of the named model kept its key out.
    pub kept_out: bool,
}

/// The user's timings; may be none.
#[derive(Clone, Debug, Default)]
pub struct Timings(pub Vec<Timing>);

/// A single measurement that lies this share below both of its neighbours in a sweep is taken for a
/// disturbance of the run: the logs keep the slowest or the mean of 200 calls, so one slow call
/// shows, and the sizes beside it show nothing.
const DISTURBANCE: f64 = 0.1;

impl Timings {
    /// What judges sweeps that nets are fitted to: of a GPU whose nets kept keys out, these keys
    /// alone.
    pub fn judging(&self, predictors: &Predictors) -> Self {
        let judges = |timing: &&Timing| timing.kept_out || predictors.fitted(&timing.gpu) != Basis::KeptOut;
        Self(self.0.iter().filter(judges).cloned().collect())
    }

    /// Single measurements on a grid that lie far below both of their neighbours, with their
    /// places; a GEMM that was timed twice is its own neighbour.
    pub fn disturbed(&self, gpu: &str, grid: &[(f64, Gemm)]) -> Vec<(f64, f64)> {
        let on_grid = self.on_grid(gpu, grid);
        let points: Vec<_> = on_grid.map(|(index, rate)| (grid[index].0, rate)).collect();
        let alone = |points: &&[(f64, f64)]| {
            let [before, here, after] = [points[0], points[1], points[2]];
            here.1 < (1.0 - DISTURBANCE) * before.1.min(after.1)
        };
        let found = points.windows(3).filter(alone);
        found.map(|points| points[1]).collect()
    }

    /// The measured rates of GEMMs on a grid, with their indices there, in order.
    pub fn on_grid(&self, gpu: &str, grid: &[(f64, Gemm)]) -> impl Iterator<Item = (usize, f64)> {
        let indices: HashMap<Gemm, usize> = grid.iter().map(|(_, gemm)| *gemm).zip(0..).collect();
        let here = self.0.iter().filter(|timing| timing.gpu == gpu);
        let rates = here.filter_map(|timing| match timing.op {
            Op::Gemm(gemm) => Some((*indices.get(&gemm)?, tflops(&timing.op, timing.time))),
            _ => None,
        });
        let mut rates: Vec<_> = rates.collect();
        rates.sort_by_key(|(index, _)| *index);
        rates.into_iter()
    }
}
