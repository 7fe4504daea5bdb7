//! Training and serving frameworks as data: what a step costs besides its kernels.
//!
//! `data/frameworks/*.toml` is embedded at build time. A framework is a set of constants ([`Constant`]), each with the
//! standard deviation it is known to and a source, and the half widths of the 90 % intervals of its steps
//! ([`Kind`]), which are split-conformal over configurations. A file names only what departs from the framework it
//! inherits from. [`Framework::KERNELS`] is the plain sum of kernels and collectives.

mod constant;
mod evidence;
mod read;

pub use constant::{Constant, Scale};
pub use evidence::{FitGroup, Gap, Subject};

use crate::arch::{Architecture, Dimension, Mode, Practice, Workload};
use crate::error::{Error, Result};
use crate::gpu::Generation;
use crate::ops::Attention;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::sync::LazyLock;
use utoipa::ToSchema;

named_enum! {
    /// Steps whose errors are alike, so that they share the half width of an interval.
    Kind {
        /// Training steps of dense models.
        TrainDense = "train_dense",
        /// Training steps of mixtures of experts.
        TrainMoe = "train_moe",
        /// Prompt passes.
        Prefill = "prefill",
        /// Time to the first token of a request beside others; the half width is that of what it waits for besides its own pass.
        FirstToken = "first_token",
        /// Decode steps of dense models.
        DecodeDense = "decode_dense",
        /// Decode steps of mixtures of experts.
        DecodeMoe = "decode_moe",
    }
}

named_enum! {
    /// Whose memory-bound kernels run.
    #[derive(Default)]
    Provider {
        /// Those of a library, one kernel for all that is done to a tensor: cuDNN, Liger-Kernel, serving engines.
        #[default]
        Fused = "fused",
        /// Those that torch.compile makes.
        Compiled = "compiled",
        /// PyTorch without a compiler, a kernel for each operation.
        Eager = "eager",
    }
}

named_enum! {
    /// A serving engine, which chooses the kernels of its GEMMs, attention and MoE layers.
    Engine {
        /// SGLang.
        Sglang = "sglang",
        /// TensorRT-LLM.
        Trtllm = "trtllm",
        /// vLLM.
        Vllm = "vllm",
    }
}

/// Whose kernels run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kernels {
    /// The memory-bound ones.
    pub memory: Provider,
    /// The others; empty means those that each GPU's default sub-models timed.
    pub engine: Option<Engine>,
}

impl Kernels {
    /// Whose kernels the stack of a table timed.
    pub fn of_stack(stack: &str) -> Self {
        Self {
            memory: Provider::of_software(stack),
            engine: Engine::of_stack(stack),
        }
    }
}

impl Engine {
    /// The engine that a stack names first, in small letters or large: `vllm 0.24.0`.
    pub fn of_stack(stack: &str) -> Option<Self> {
        match &*stack.split(' ').next()?.to_ascii_lowercase() {
            "tensorrt-llm" | "tensorrt_llm" => Some(Self::Trtllm),
            name => Self::parse(name),
        }
    }

    /// The engine that answers for its kernels where its own were not timed: vLLM and SGLang call the same libraries
    /// (CUTLASS, FlashAttention, FlashInfer, Triton).
    pub const fn like(self) -> Self {
        match self {
            Self::Sglang => Self::Vllm,
            Self::Vllm => Self::Sglang,
            Self::Trtllm => Self::Trtllm,
        }
    }
}

impl Kind {
    /// The kind of a step.
    pub fn of(architecture: &Architecture, workload: &Workload) -> Self {
        match (workload.mode, architecture.moe.is_some()) {
            (Mode::Train, false) => Self::TrainDense,
            (Mode::Train, true) => Self::TrainMoe,
            (Mode::Prefill, _) => Self::Prefill,
            (Mode::Decode, false) => Self::DecodeDense,
            (Mode::Decode, true) => Self::DecodeMoe,
        }
    }
}

impl Provider {
    /// Whether heads that no fused kernel takes are filled with zeros to a multiple of 8, as PyTorch's
    /// `scaled_dot_product_attention` does: steps of our own with heads of 100 take what fused kernels take.
    pub fn pads_heads(self, op: &Attention) -> bool {
        self != Self::Fused && op.head_dim <= 256
    }

    /// Whose kernels a software runs that a table names: a library's, unless its name begins as PyTorch does.
    pub fn of_software(software: &str) -> Self {
        let name = software.split([' ', ',']).next().unwrap_or_default();
        match &*name.to_ascii_lowercase() {
            "torch_compile" => Self::Compiled,
            "torch" | "pytorch" | "huggingface" => Self::Eager,
            _ => Self::Fused,
        }
    }
}

/// The value of a constant, and how sure it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// In the unit of the constant.
    pub value: f64,
    /// Standard deviation of its logarithm, of its logit where it is a share; 0 where it is not fitted.
    #[serde(default)]
    pub sd: f64,
    /// Value and standard deviation before the fit; `None` if none was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prior: Option<[f64; 2]>,
    /// Publication, fit or assumption.
    pub source: String,
}

impl Figure {
    /// The value before the fit.
    pub fn prior_value(&self) -> f64 {
        self.prior.map_or(self.value, |[value, _]| value)
    }

    /// The standard deviation before the fit.
    pub fn prior_sd(&self) -> f64 {
        self.prior.map_or(self.sd, |[_, sd]| sd)
    }
}

/// What the constants of a framework were fitted to, and the error on configurations kept out of the fit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Fit {
    /// Where the runs are from.
    pub runs_from: String,
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
    /// The same by generation of the GPUs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<FitGroup>,
}

/// A release of a framework, or one of several servers that share a file: factors of its constants over those of the
/// others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Release {
    /// Text in the name of the software.
    pub software: String,
    /// Factors by constant.
    #[serde(flatten)]
    pub factors: BTreeMap<Constant, Figure>,
}

/// A software stack that runs whole steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Framework {
    /// Short name used with `--framework`.
    pub name: String,
    /// Other names that it is asked by.
    pub aliases: Vec<String>,
    /// Full name with versions.
    pub title: String,
    /// The built-in file that its own departs from; empty means the plain sum.
    pub inherits: Option<String>,
    /// Texts in the name of a software by which it is recognised.
    pub software: Vec<String>,
    /// What it runs.
    pub modes: Vec<Mode>,
    /// GPU generations that the constants are for; empty means all. Files of one name differ in these.
    pub generations: Vec<Generation>,
    /// ZeRO stages that it runs with more than one replica.
    pub zero_stages: Vec<u8>,
    /// Those of them that it runs beside such ranks, where they are not all.
    pub zero_stages_beside: Vec<(Dimension, Vec<u8>)>,
    /// Ranks that it splits a model over, besides replicas.
    pub ranks: Vec<Dimension>,
    /// Whose kernels it runs.
    pub kernels: Kernels,
    /// What it keeps in memory while it trains.
    pub practice: Practice,
    /// Releases whose expert path takes another time, by a text in the name of the software.
    pub releases: Vec<Release>,
    /// Measured time of arithmetic on a GPU over that by the other constants: boards sustain other clocks.
    pub boards: BTreeMap<String, Figure>,
    figures: [Figure; Constant::ALL.len()],
    half_widths: BTreeMap<Kind, f64>,
    /// The fit of its constants by kind of step; `None` if they are all assumed.
    pub fits: BTreeMap<Kind, Fit>,
}

impl Framework {
    /// The plain sum of kernels and collectives: nothing overlaps, nothing is added.
    pub const KERNELS: &'static str = "kernels";

    /// Any framework: intervals wide enough to hold whichever it is.
    pub const UNKNOWN: &'static str = "unknown";

    /// The framework that is assumed where none is named.
    pub const fn default_name(mode: Mode) -> &'static str {
        match mode {
            Mode::Train => "megatron",
            Mode::Prefill | Mode::Decode => "vllm",
        }
    }

    /// All built-in frameworks, by name.
    pub fn all() -> &'static [Self] {
        read::all()
    }

    /// Whether this is its name, or another that it is asked by, in small letters or large.
    fn is_called(&self, name: &str) -> bool {
        let mut names = iter::once(&self.name).chain(&self.aliases);
        names.any(|known| known.eq_ignore_ascii_case(name))
    }

    /// Whether it runs this mode on this generation of GPUs.
    pub fn runs(&self, mode: Mode, generation: Generation) -> bool {
        let generations = &self.generations;
        self.modes.contains(&mode) && (generations.is_empty() || generations.contains(&generation))
    }

    /// The ranks that a framework may split a model over, besides replicas.
    pub const RANKS: [Dimension; 5] = [
        Dimension::Tp,
        Dimension::Cp,
        Dimension::Ep,
        Dimension::Pp,
        Dimension::Vp,
    ];

    /// Whether it can run with so many ranks of a kind.
    pub fn splits(&self, dimension: Dimension, ranks: u64) -> bool {
        ranks == 1 || !Self::RANKS.contains(&dimension) || self.ranks.contains(&dimension)
    }

    /// Refuses ranks that it does not split a model over.
    pub fn check_ranks(&self, place: &str, ranks: &[(Dimension, u64)]) -> Result<()> {
        let mut ranks = ranks.iter();
        let Some((dimension, number)) = ranks.find(|(of, number)| !self.splits(*of, *number)) else {
            return Ok(());
        };
        let allowed = format!(
            "1 under framework {}, which does not split a model over {dimension} ranks",
            self.name
        );
        Err(Error::field(place, dimension.name(), number, &allowed))
    }

    /// The ZeRO stages that run beside so many pipeline stages: those that the file names, else 0 and 1.
    pub fn zero_stages_with(&self, pp: u64) -> impl Iterator<Item = u8> {
        let beside = self.zero_stages_beside.iter().find(|(rank, _)| *rank == Dimension::Pp);
        let runs = move |stage: &u8| pp == 1 || beside.map_or(*stage < 2, |(_, stages)| stages.contains(stage));
        self.zero_stages.iter().copied().filter(runs)
    }

    /// Refuses a layout with ranks that it does not split a model over, or with a ZeRO stage that it does not run beside them.
    pub fn check_layout(&self, work: &Workload) -> Result<()> {
        let [tp, cp, ep, pp, vp] = Self::RANKS;
        let ranks = [
            (tp, work.tp),
            (cp, work.cp),
            (ep, work.ep),
            (pp, work.pp),
            (vp, work.vp),
        ];
        self.check_ranks("workload", &ranks)?;
        let is_split = |of: &Dimension| ranks.iter().any(|(rank, number)| rank == of && *number > 1);
        let runs = |stages: &[u8]| work.dp * work.cp <= 1 || stages.contains(&work.zero);
        let mut beside = self.zero_stages_beside.iter();
        let Some((rank, stages)) = beside.find(|(rank, stages)| is_split(rank) && !runs(stages)) else {
            return Ok(());
        };
        let stages: Vec<String> = stages.iter().map(u8::to_string).collect();
        let allowed = format!(
            "{} beside {rank} ranks under framework {}",
            stages.join(", "),
            self.name
        );
        Err(Error::field("workload", "zero", work.zero, &allowed))
    }

    /// The built-in framework with this name that runs this mode on this generation of GPUs.
    pub fn find(name: &str, mode: Mode, generation: Generation) -> Result<&'static Self> {
        let mut runs = Self::all().iter().filter(|known| known.runs(mode, generation));
        let found = runs.clone().find(|framework| framework.is_called(name));
        found.ok_or_else(|| {
            let names: Vec<&str> = runs.by_ref().map(|known| known.name.as_str()).collect();
            let mut allowed = format!("in {mode}: {}", names.join(", "));
            let named = Self::all().iter().filter(|known| known.is_called(name));
            let modes = |other: &Mode| named.clone().any(|known| known.runs(*other, generation));
            let modes: Vec<&str> = Mode::ALL.into_iter().filter(modes).map(Mode::name).collect();
            if !modes.is_empty() {
                allowed += &format!("; {name} runs {}", modes.join(" and "));
            }
            Error::field("target", "framework", format!("`{name}`"), &allowed)
        })
    }

    /// Whose kernels the built-in framework with this name runs on this generation of GPUs; the default ones where there is
    /// none.
    pub fn kernels_of(name: &str, generation: Generation) -> Kernels {
        let named = Self::all()
            .iter()
            .find(|known| known.is_called(name) && known.modes.iter().any(|&mode| known.runs(mode, generation)));
        named.map(|known| known.kernels).unwrap_or_default()
    }

    /// Refuses a name that no built-in framework has, whatever the mode.
    pub fn check_name(name: &str) -> Result<()> {
        if Self::all().iter().any(|known| known.is_called(name)) {
            return Ok(());
        }
        let names: BTreeSet<&str> = Self::all().iter().map(|known| known.name.as_str()).collect();
        let allowed = format!(
            "{}; `unknown` is any other framework of training, `unknown-server` any other server",
            Vec::from_iter(names).join(", ")
        );
        Err(Error::field("target", "framework", format!("`{name}`"), &allowed))
    }

    /// The framework that is assumed where none is named.
    pub fn default_for(mode: Mode) -> &'static Self {
        Self::find(Self::default_name(mode), mode, Generation::Other).expect("a test loads the default frameworks")
    }

    /// [`Framework::default_for`] where no framework was named: training takes intervals that hold whichever it is.
    pub fn assumed_for(mode: Mode) -> &'static Self {
        static TRAINING: LazyLock<Framework> = LazyLock::new(|| {
            let any = Framework::find(Framework::UNKNOWN, Mode::Train, Generation::Other);
            Framework {
                half_widths: any.expect("a test loads it").half_widths.clone(),
                ..Framework::default_for(Mode::Train).clone()
            }
        });
        match mode {
            Mode::Train => &TRAINING,
            Mode::Prefill | Mode::Decode => Self::default_for(mode),
        }
    }

    /// This framework in the release that the name of a software contains.
    #[must_use]
    pub fn of_release(self, software: &str) -> Self {
        match self.release(software) {
            Some(release) => self.at_release(release),
            None => self,
        }
    }

    /// This framework, in one of [`Framework::releases`] where one is known.
    pub fn released(&self, release: Option<usize>) -> Cow<'_, Self> {
        match release {
            Some(release) => Cow::Owned(self.clone().at_release(release)),
            None => Cow::Borrowed(self),
        }
    }

    /// This framework in one of [`Framework::releases`].
    #[must_use]
    pub fn at_release(mut self, release: usize) -> Self {
        for (constant, factor) in self.releases[release].factors.clone() {
            self.set_value(constant, self.get(constant) * factor.value);
        }
        self
    }

    /// Which of [`Framework::releases`] the name of a software contains.
    pub fn release(&self, software: &str) -> Option<usize> {
        self.releases
            .iter()
            .position(|release| software.contains(&release.software))
    }

    /// The factor of [`Framework::boards`]; 1 for a GPU without one.
    pub fn board(&self, gpu: &str) -> f64 {
        self.boards.get(gpu).map_or(1.0, |figure| figure.value)
    }

    /// The built-in framework that runs this mode and is recognised in the name of a software; the longest text that
    /// occurs in it decides.
    pub fn recognise(software: &str, mode: Mode, generation: Generation) -> Option<&'static Self> {
        let software = software.to_lowercase();
        let longest = |framework: &&Self| {
            let texts = framework.software.iter();
            let found = texts.filter(|text| software.contains(&text.to_lowercase()));
            found.map(String::len).max()
        };
        Self::all()
            .iter()
            .filter(|framework| framework.runs(mode, generation) && longest(framework).is_some())
            .max_by_key(longest)
    }

    /// Reads and checks a framework; `place` names the file in messages.
    pub fn from_toml(text: &str, place: &str) -> Result<Self> {
        read::framework(text, place, &read::embedded)
    }

    /// The file of this framework, which names what departs from the one it inherits from.
    pub fn to_toml(&self) -> String {
        read::to_toml(self)
    }

    /// The value of a constant.
    #[inline]
    pub fn get(&self, constant: Constant) -> f64 {
        self.figures[constant as usize].value
    }

    /// A constant with its source.
    pub fn figure(&self, constant: Constant) -> &Figure {
        &self.figures[constant as usize]
    }

    /// This framework with another value of a constant.
    pub fn set(&mut self, constant: Constant, figure: Figure) {
        self.figures[constant as usize] = figure;
    }

    /// This framework with other values of all constants, for a fit.
    pub fn set_value(&mut self, constant: Constant, value: f64) {
        self.figures[constant as usize].value = value;
    }

    /// Half width of the 90 % interval of `ln(time)` of a whole step; none for the plain sum, whose interval is that of
    /// its operators.
    pub fn half_width(&self, kind: Kind) -> Option<f64> {
        self.half_widths.get(&kind).copied()
    }

    /// The same of a time of which a prompt's own pass is this share: that pass is as sure as any.
    pub fn half_width_with(&self, kind: Kind, own_pass: f64) -> Option<f64> {
        let waiting = self.half_width(kind)?;
        let pass = self.half_width(Kind::Prefill).unwrap_or(waiting);
        Some(waiting + own_pass * (pass - waiting))
    }

    /// Sets [`Framework::half_width`].
    pub fn set_half_width(&mut self, kind: Kind, half_width: f64) {
        self.half_widths.insert(kind, half_width);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_are_known_in_small_letters_and_large() {
        for (stack, engine) in [
            ("TRTLLM 1.3.0rc20", Some(Engine::Trtllm)),
            ("TensorRT-LLM 1.2", Some(Engine::Trtllm)),
            ("vLLM 0.24.0", Some(Engine::Vllm)),
            ("SGLang", Some(Engine::Sglang)),
            ("cublas", None),
        ] {
            assert_eq!(Engine::of_stack(stack), engine, "{stack}");
        }
        assert_eq!(Provider::of_software("PyTorch 2.9"), Provider::Eager);
    }

    #[test]
    fn every_built_in_framework_loads_and_reads_back() {
        assert!(Framework::all().len() >= 9);
        for framework in Framework::all() {
            let text = framework.to_toml();
            let again = Framework::from_toml(&text, "again.toml").unwrap();
            assert_eq!(&again, framework, "{text}");
        }
        for mode in Mode::ALL {
            assert!(Framework::default_for(mode).modes.contains(&mode));
            for name in [Framework::KERNELS, Framework::UNKNOWN] {
                assert_eq!(Framework::find(name, mode, Generation::Ada).unwrap().name, name);
            }
        }
    }

    /// Weights, gradients and optimizer states that Megatron-LM logs after its first step: 54,250.98 MB for Mixtral 8x7B on 16
    /// H100 (issue 756); 18 bytes a parameter in all (issue 654).
    #[test]
    fn gradients_of_megatron_take_four_bytes() {
        let memory = |name: &str, model: &str, work: Workload| {
            let framework = Framework::find(name, Mode::Train, Generation::Hopper).unwrap();
            let arch = Architecture::find(model).unwrap();
            crate::arch::memory_use(&arch, &work, &framework.practice).unwrap()
        };
        let work = Workload {
            tp: 2,
            ep: 8,
            dp: 8,
            zero: 1,
            microbatches: 16,
            sequence_parallel: true,
            ..Workload::train(1, 2048)
        };
        let kept = memory("megatron", "mixtral-8x7b", work);
        let states = kept.weights + kept.gradients + kept.optimizer;
        let gib = states.bytes() / f64::from(1 << 30);
        assert!((gib - 52.86).abs() < 0.01, "{gib}");
        let narrow = Workload {
            gradient_dtype: crate::arch::GradientDtype::Bf16,
            ..work
        };
        let narrow = memory("megatron", "mixtral-8x7b", narrow);
        assert_eq!(narrow.gradients.bytes(), kept.gradients.bytes() / 2.0);
        let work = Workload {
            dp: 8,
            zero: 1,
            ..Workload::train(1, 64)
        };
        let memory = memory("megatron", "llama-2-7b", work);
        let small = crate::gpu::Gpu::find("a100-40gb").unwrap();
        assert!(!memory.fits(small), "{memory:?}");
    }

    /// Peaks in GiB that pytorch/torchtitan (docs/performance.md) states, of Llama 3 8B on H100 with 96 GB.
    #[test]
    fn peaks_of_torchtitan_are_within_a_tenth() {
        use crate::arch::Recompute;
        use crate::ops::Dtype;
        let framework = Framework::find("fsdp2", Mode::Train, Generation::Hopper).unwrap();
        let arch = Architecture::find("llama-3-8b").unwrap();
        let sharded = |dp, cp, batch, seq| Workload {
            dp,
            cp,
            zero: 3,
            ..Workload::train(batch, seq)
        };
        let long = |dp, cp| Workload {
            recompute: Recompute::Full,
            dtype: Dtype::Fp8,
            ..sharded(dp, cp, 1, 32_768 * cp)
        };
        let selective = Workload {
            recompute: Recompute::Operators,
            ..sharded(8, 1, 2, 8192)
        };
        for (work, measured) in [
            (selective, 82.4),
            (long(8, 1), 83.9),
            (long(4, 2), 84.2),
            (long(2, 4), 84.0),
            (long(1, 8), 84.5),
        ] {
            let memory = crate::arch::memory_use(&arch, &work, &framework.practice).unwrap();
            let gib = memory.total().bytes() / f64::from(1 << 30);
            assert!((gib / measured - 1.0).abs() < 0.1, "{work}: {gib}, {measured}");
        }
    }

    #[test]
    fn the_plain_sum_changes_no_time() {
        let kernels = Framework::find(Framework::KERNELS, Mode::Train, Generation::Hopper).unwrap();
        for constant in Constant::ALL {
            assert_eq!(kernels.get(constant), constant.neutral(), "{constant}");
        }
        assert_eq!(kernels.half_width(Kind::TrainDense), None);
    }

    #[test]
    fn constants_of_an_unknown_trainer_spread_as_those_of_the_fitted_ones_do() {
        let of = |name, generation| Framework::find(name, Mode::Train, generation).unwrap();
        let [unknown, megatron, fsdp2, deepspeed] =
            ["unknown", "megatron", "fsdp2", "megatron-deepspeed"].map(|name| of(name, Generation::Hopper));
        let foundry = [Generation::Ampere, Generation::Hopper].map(|gpus| of("llm-foundry", gpus));
        let others = [fsdp2, deepspeed, foundry[0], foundry[1]];
        for constant in Constant::ALL {
            let [figure, inherited] = [unknown, megatron].map(|of| of.figure(constant));
            assert_eq!(figure.value, inherited.value, "{constant}");
            if figure.sd == inherited.sd {
                continue;
            }
            let line = |of: &Framework| constant.to_line(of.get(constant));
            let squares = others.map(|other| (line(other) - line(megatron)).powi(2));
            let spread = (squares.iter().sum::<f64>() / others.len() as f64).sqrt();
            assert!((figure.sd / spread - 1.0).abs() < 0.2, "{constant}: {spread}");
        }
    }

    #[test]
    fn the_stack_of_a_table_names_whose_kernels_it_timed() {
        for (software, provider) in [
            ("torch 2.1.0", Provider::Eager),
            ("torch_compile, cudnn-frontend 1.19.0", Provider::Compiled),
            ("cudnn, cuDNN 91901", Provider::Fused),
        ] {
            assert_eq!(Provider::of_software(software), provider, "{software}");
        }
        assert_eq!(
            Kernels::of_stack("vllm 0.24.0"),
            Kernels {
                memory: Provider::Fused,
                engine: Some(Engine::Vllm)
            }
        );
        assert_eq!(Kernels::of_stack("torch 2.1.0").engine, None);
    }

    #[test]
    fn a_framework_inherits_whose_kernels_it_runs() {
        let of = |body: &str| {
            let text = format!("name = \"x\"\ntitle = \"X\"\nmodes = [\"train\"]\n{body}");
            Framework::from_toml(&text, "my.toml").unwrap().kernels
        };
        assert_eq!(of(""), Kernels::default());
        assert_eq!(of("inherits = \"fsdp2\"").memory, Provider::Compiled);
        let own = "inherits = \"fsdp2\"\nmemory_kernels = \"eager\"";
        assert_eq!(of(own).memory, Provider::Eager);
        assert_eq!(of("inherits = \"vllm\"").engine, Some(Engine::Vllm));
    }

    #[test]
    fn a_framework_runs_its_own_ranks_and_refuses_others() {
        let of = |name| Framework::find(name, Mode::Train, Generation::Hopper).unwrap();
        let tp = Workload {
            tp: 4,
            ..Workload::train(1, 4096)
        };
        for name in ["fsdp1", "ddp", "pytorch", "pytorch-compiled", "llm-foundry"] {
            let refused = of(name).check_layout(&tp).unwrap_err().to_string();
            let wanted = format!("`tp` is 4; allowed: 1 under framework {name}");
            assert!(refused.contains(&wanted), "{refused}");
            of(name).check_layout(&Workload { tp: 1, dp: 8, ..tp }).unwrap();
        }
        for name in [
            "megatron",
            "fsdp2",
            "megatron-deepspeed",
            "maxtext",
            "unknown",
            "deepspeed",
            "torchtitan",
        ] {
            of(name).check_layout(&tp).unwrap();
        }
        let vp = of("megatron-deepspeed").check_layout(&Workload { pp: 4, vp: 2, ..tp });
        assert!(vp.is_err());
        for (name, pp, zero, runs) in [
            ("deepspeed", 4, 1, true),
            ("deepspeed", 4, 2, false),
            ("deepspeed", 1, 2, true),
            ("deepspeed", 1, 3, false),
            ("torchtitan", 4, 2, true),
            ("torchtitan", 4, 3, false),
            ("torchtitan", 1, 3, true),
            ("fsdp2", 4, 2, false),
        ] {
            let work = Workload { pp, zero, dp: 8, ..tp };
            assert_eq!(of(name).check_layout(&work).is_ok(), runs, "{name} pp {pp} ZeRO {zero}");
        }
        let alone = Workload {
            tp: 1,
            dp: 8,
            zero: 3,
            ..tp
        };
        of("deepspeed").check_layout(&alone).unwrap();
    }

    #[test]
    fn software_is_recognised_by_the_longest_text() {
        for (software, mode, name) in [
            ("dgxc-benchmarking v24.11.1, NeMo 24.09", Mode::Train, Some("megatron")),
            ("NeMo container 26.06, Megatron-Bridge", Mode::Train, Some("megatron")),
            ("NeMo AutoModel (PyTorch FSDP2), 2026-04-17", Mode::Train, Some("fsdp2")),
            (
                "torchtitan 9dec370, torch 2024-12-23 nightly",
                Mode::Train,
                Some("fsdp2"),
            ),
            ("Megatron-DeepSpeed 2022", Mode::Train, Some("megatron-deepspeed")),
            ("llm-foundry 2023", Mode::Train, Some("llm-foundry")),
            ("vLLM 0.9.1", Mode::Decode, Some("vllm")),
            ("vLLM 0.9.1", Mode::Train, None),
            ("PyTorch eager 2.11.0", Mode::Train, Some("pytorch")),
            ("PyTorch compiled 2.11.0", Mode::Train, Some("pytorch-compiled")),
            ("a trainer of our own", Mode::Train, None),
        ] {
            let found = Framework::recognise(software, mode, Generation::Hopper);
            assert_eq!(found.map(|found| found.name.as_str()), name, "{software}");
        }
    }

    #[test]
    fn bad_files_name_the_place_and_what_is_allowed() {
        let file =
            |body: &str| format!("name = \"x\"\ntitle = \"X\"\ninherits = \"megatron\"\nmodes = [\"train\"]\n{body}");
        for (body, part) in [
            (
                "[constants]\nspeed = { value = 1.0, source = \"a\" }",
                "`constants.speed` is not known",
            ),
            (
                "[constants]\nmemory = { value = -1.0, source = \"a\" }",
                "`constants.memory` is -1",
            ),
            (
                "[constants]\nexposed_tp = { value = 1.5, source = \"a\" }",
                "allowed: 0 to 1",
            ),
            (
                "[[releases]]\nsoftware = \"2\"\nmoe_path = { value = nan, source = \"a\" }",
                "`releases[0].moe_path` is NaN",
            ),
            ("[half_widths]\ntrain_dense = 0.0", "`half_widths.train_dense` is 0"),
            ("ranks = [\"layers\"]", "`ranks` is layers; allowed: tp, cp, ep, pp, vp"),
            (
                "engine = \"mine\"",
                "unknown variant `mine`, expected one of `sglang`, `trtllm`, `vllm`",
            ),
            (
                "memory_kernels = \"handmade\"",
                "unknown variant `handmade`, expected one of `fused`, `compiled`, `eager`",
            ),
        ] {
            let message = Framework::from_toml(&file(body), "my.toml").unwrap_err().to_string();
            assert!(message.starts_with("my.toml: ") && message.contains(part), "{message}");
        }
    }
}
