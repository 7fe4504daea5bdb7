//! Which measured runs cover a step, and the gaps that they leave.

use super::{Fit, Framework, Kind};
use crate::arch::{Architecture, Recipe, Workload};
use crate::gpu::{Generation, Gpu};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use utoipa::ToSchema;

/// Longest covered sequence over the longest sequence of the runs.
const REACH: f64 = 4.0;

/// What of a step decides which runs cover it.
#[derive(Clone, Debug, PartialEq)]
pub struct Subject {
    /// The kind of step.
    pub kind: Kind,
    /// Whether some layers are recurrences.
    pub hybrid: bool,
    /// Our name of the GPU.
    pub gpu: String,
    /// Its generation.
    pub generation: Generation,
    /// Number format, or the recipe of fp8.
    pub format: &'static str,
    /// Keys that the last token of a sequence sees.
    pub tokens: u64,
    /// Nodes of a replica.
    pub nodes: u64,
    /// Whether adapters are trained in place of the weights.
    pub adapters: bool,
    /// Whether it verifies draft tokens.
    pub drafts: bool,
    /// Share of the prompt's own pass in a time to the first token; 0 of all other times.
    pub own_pass: f64,
}

/// Runs of one generation of GPUs, and the errors of a fit without their own configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FitGroup {
    /// The generation of the GPUs.
    pub generation: Generation,
    /// Whether some layers of the models are recurrences.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hybrid: bool,
    /// Whether they train adapters.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub adapters: bool,
    /// Whether they verify draft tokens.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub drafts: bool,
    /// The GPUs.
    pub gpus: BTreeSet<String>,
    /// Number formats, or recipes of fp8.
    pub formats: BTreeSet<String>,
    /// Tokens of the longest sequence.
    pub longest_tokens: u64,
    /// Nodes of the largest replica.
    pub nodes: u64,
    /// Runs.
    pub runs: u64,
    /// Configurations: model, GPU and format.
    pub configurations: u64,
    /// Median absolute percentage error on held-out configurations, as a fraction.
    pub median_ape: f64,
    /// Mean of the same.
    pub mean_ape: f64,
    /// 90th percentile of the same.
    pub p90_ape: f64,
    /// Share of held-out runs inside the 90 % interval.
    pub coverage_90: f64,
}

/// What none of the runs of a framework covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gap {
    /// GPUs of this generation, with models of this kind.
    Gpu,
    /// Sequences of a quarter of this length.
    Length,
    /// The number format.
    Format,
    /// A replica over several nodes.
    Nodes,
    /// Training of adapters.
    Adapters,
    /// Verification of draft tokens.
    Drafts,
}

impl Subject {
    /// That of a step.
    pub fn of(gpu: &Gpu, architecture: &Architecture, workload: &Workload) -> Self {
        let node = gpu.gpus_per_node().unwrap_or(u64::MAX);
        Self {
            kind: Kind::of(architecture, workload),
            hybrid: architecture.linear_layers() > 0,
            gpu: gpu.name.clone(),
            generation: gpu.generation,
            // What sources call fp8 of models whose weights are in blocks.
            format: match workload.recipe {
                Recipe::Fp8Block => workload.dtype.name(),
                _ => workload.format_name(),
            },
            tokens: workload.keys(),
            nodes: workload.gpus_per_replica().div_ceil(node),
            adapters: workload.has_adapters(),
            drafts: workload.speculate > 0,
            own_pass: 0.0,
        }
    }

    /// The gaps to runs that neither train adapters nor verify drafts.
    pub fn beside(&self) -> Vec<Gap> {
        held([(self.adapters, Gap::Adapters), (self.drafts, Gap::Drafts)])
    }
}

fn held<const COUNT: usize>(gaps: [(bool, Gap); COUNT]) -> Vec<Gap> {
    let gaps = gaps.into_iter().filter(|(holds, _)| *holds);
    gaps.map(|(_, gap)| gap).collect()
}

impl Fit {
    /// The fit of one of its groups alone.
    pub fn of_group(&self, group: &FitGroup) -> Self {
        Self {
            runs_from: self.runs_from.clone(),
            runs: group.runs,
            configurations: group.configurations,
            median_ape: group.median_ape,
            mean_ape: group.mean_ape,
            p90_ape: group.p90_ape,
            coverage_90: group.coverage_90,
            groups: vec![group.clone()],
        }
    }
}

impl Framework {
    /// The compared runs that cover a step, of the fit of its kind, and the gaps they leave; `None` if no run of its kind was
    /// compared.
    pub fn evidence(&self, subject: &Subject) -> Option<(Option<&FitGroup>, Vec<Gap>)> {
        let fit = self.fits.get(&subject.kind)?;
        let alike = |adapters: bool, drafts: bool| {
            let is_alike = |group: &&FitGroup| {
                let of_group = (group.generation, group.hybrid, group.adapters, group.drafts);
                of_group == (subject.generation, subject.hybrid, adapters, drafts)
            };
            fit.groups.iter().find(is_alike)
        };
        let own = alike(subject.adapters, subject.drafts);
        let beside = match own {
            Some(_) => Vec::new(),
            None => subject.beside(),
        };
        let Some(group) = own.or_else(|| alike(false, false)) else {
            let gaps = held([(!fit.groups.is_empty(), Gap::Gpu)]);
            return Some((None, [gaps, beside].concat()));
        };
        let is_long = subject.tokens as f64 > REACH * group.longest_tokens as f64;
        let gaps = [
            (is_long, Gap::Length),
            (!group.formats.contains(subject.format), Gap::Format),
            (subject.nodes > group.nodes && group.nodes == 1, Gap::Nodes),
        ];
        let speaks = !is_long && own.is_some();
        Some((speaks.then_some(group), [held(gaps), beside].concat()))
    }

    /// How far its constants of attention hold for sequences of so many tokens: wholly up to the longest run, beyond four
    /// times that not at all, when the kernel answers by itself.
    pub fn attention_reach(&self, kind: Kind, tokens: f64) -> f64 {
        let longest = self.fits.get(&kind).and_then(|fit| {
            let longest = fit.groups.iter().map(|group| group.longest_tokens);
            longest.max()
        });
        longest.map_or(1.0, |longest| {
            (1.0 - (tokens / longest as f64).log(REACH)).clamp(0.0, 1.0)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::{Mode, Preset};

    fn gaps(gpu: &str, model: &str, work: Workload, framework: &str) -> (Option<u64>, Vec<Gap>) {
        let gpu = Gpu::find(gpu).unwrap();
        let arch = &Preset::find(model).unwrap().architecture;
        let framework = Framework::find(framework, work.mode, gpu.generation).unwrap();
        let (group, gaps) = framework
            .evidence(&Subject::of(gpu, arch, &work))
            .expect("runs of this kind");
        (group.map(|group| group.runs), gaps)
    }

    #[test]
    fn runs_speak_for_their_generation_kind_length_and_format() {
        let train = Workload::train(1, 4096);
        let (runs, none) = gaps("h100", "llama-3-8b", train, "megatron");
        assert!(
            runs.is_some_and(|runs| (20..294).contains(&runs)) && none.is_empty(),
            "{runs:?}"
        );
        for gpu in ["rtx4090", "mi300x", "v100", "l4"] {
            assert_eq!(
                gaps(gpu, "llama-3-8b", train, "megatron"),
                (None, vec![Gap::Gpu]),
                "{gpu}"
            );
        }
        let long = gaps("h100", "llama-3-8b", Workload::train(1, 1 << 20), "megatron");
        assert_eq!(long, (None, vec![Gap::Length]));
        let int8 = Workload {
            recipe: Recipe::Int8,
            ..train
        };
        let (runs, gap) = gaps("h100", "llama-3-8b", int8, "megatron");
        assert!(runs.is_some() && gap == [Gap::Format]);
        let adapters = Workload { lora: 8, ..train };
        assert_eq!(
            gaps("h100", "llama-3-8b", adapters, "megatron"),
            (None, vec![Gap::Adapters])
        );
        assert_eq!(
            gaps("l4", "llama-3-8b", adapters, "megatron"),
            (None, vec![Gap::Gpu, Gap::Adapters])
        );
        let nodes = Workload {
            tp: 16,
            ..Workload::decode(1, 192)
        };
        let (_, gap) = gaps("h100", "llama-2-70b", nodes, "vllm");
        assert_eq!(gap, [Gap::Nodes]);
    }

    #[test]
    fn constants_of_attention_fade_beyond_the_longest_run() {
        let fsdp2 = Framework::find("fsdp2", Mode::Train, Generation::Hopper).unwrap();
        let reach = |tokens: f64| fsdp2.attention_reach(Kind::TrainDense, tokens);
        assert_eq!([8192.0, 262_144.0].map(reach), [1.0, 1.0]);
        assert!((reach(524_288.0) - 0.5).abs() < 1e-9);
        assert_eq!(reach(1_048_576.0), 0.0);
        let kernels = Framework::find("kernels", Mode::Train, Generation::Hopper).unwrap();
        assert_eq!(kernels.attention_reach(Kind::TrainDense, 1e9), 1.0);
    }
}
