//! The layout of a step over a number of GPUs, and GPUs beside each other.

use crate::arch::{
    Acceptance, Architecture, AttentionKernel, BaseDtype, Dimension, Draft, GradientDtype, KvCacheDtype, Loss, Mode,
    Offload, Optimizer, OptimizerStates, Recipe, Recompute, Targets, Workload,
};
use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::ops::{Dtype, RouterLoad};
use crate::plan::{Limits, MOST_GPUS, OFFLOAD_LAST, Query, SERVING_MEMORY_SHARE, memory_share, sequences};
use crate::request::workload::{USUAL_SEQUENCE, format};
use crate::request::written::{
    Confidence, MemoryShare, Milliseconds, Top, UsdPerHour, Written, ZeroStage, number_or_text, number_or_text_schema,
    written,
};
use crate::request::{ArchitectureRequest, Size, Sizes, number};
use crate::units::Seconds;
use serde_json::Value;
use std::fmt;
use utoipa::ToSchema;
use utoipa::openapi::schema::{OneOfBuilder, Type};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema};

/// Default number of tokens that a request generates.
pub(super) const USUAL_OUTPUT: u64 = 512;

/// Numbers of GPUs: one, or START:END in doublings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuCounts {
    start: u64,
    end: u64,
}

impl GpuCounts {
    /// What servers are tried on where no number is asked for.
    const OF_SERVERS: Self = Self { start: 1, end: 64 };

    /// The numbers, rising.
    pub fn values(self) -> impl Iterator<Item = u64> {
        let doubled = std::iter::successors(Some(self.start), |count| count.checked_mul(2));
        doubled.take_while(move |count| *count <= self.end)
    }
}

impl Written for GpuCounts {
    const ALLOWED: &'static str = "a whole number from 1 to 131072, or START:END in doublings such as 8:1024";

    fn read(text: &str) -> Option<Self> {
        let (start, end) = text.split_once(':').unwrap_or((text, text));
        let (start, end) = (number::size(start)?, number::size(end)?);
        (1 <= start && start <= end && end <= MOST_GPUS).then_some(Self { start, end })
    }

    fn described() -> RefOr<Schema> {
        let text = ObjectBuilder::new()
            .pattern(Some("^[0-9]+(:[0-9]+)?$"))
            .examples(["8:1024"]);
        number_or_text_schema(
            Type::Integer,
            [1.0, MOST_GPUS as f64],
            text.description(Some(Self::ALLOWED)),
        )
    }
}

impl fmt::Display for GpuCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.start)?;
        match self.end == self.start {
            true => Ok(()),
            false => write!(f, ":{}", self.end),
        }
    }
}

/// Tokens: a number, or one with K, M, B or T behind it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tokens(pub f64);

impl Tokens {
    const MOST: u64 = 10_u64.pow(18);
}

impl Written for Tokens {
    const ALLOWED: &'static str = "a number of tokens from 1 to 1e18, such as 4M or 15T";

    fn read(text: &str) -> Option<Self> {
        let tokens = number::with_unit(text, &number::DECIMAL)?.round();
        (1.0..=Self::MOST as f64).contains(&tokens).then_some(Self(tokens))
    }

    fn of_json(value: &Value) -> Option<Self> {
        // One more than the most is the same real number.
        let exceeds = value.as_u64().is_some_and(|tokens| tokens > Self::MOST);
        number_or_text(value).filter(|_| !exceeds)
    }

    fn described() -> RefOr<Schema> {
        let text = ObjectBuilder::new()
            .pattern(Some("^[0-9]+(\\.[0-9]+)?([Ee][0-9]{1,2}|[KkMmBbTt])?$"))
            .examples(["4M"]);
        number_or_text_schema(
            Type::Number,
            [1.0, Self::MOST as f64],
            text.description(Some(Self::ALLOWED)),
        )
    }
}

/// Prices of a GPU for an hour, in US dollars: one for all GPUs, or one for each that is named.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuPrices {
    all: Option<UsdPerHour>,
    named: Vec<(String, UsdPerHour)>,
}

impl GpuPrices {
    /// The price of this GPU, where there is one.
    pub fn of(&self, gpu: &Gpu) -> Option<f64> {
        let mut named = self.named.iter();
        let named = named.find(|(name, _)| is_named(name, gpu));
        named.map(|(_, price)| *price).or(self.all).map(|usd| usd.0)
    }

    /// Refuses a price of a GPU that the request is not about.
    pub fn check(&self, place: &str, gpus: &[&Gpu]) -> Result<()> {
        let asked = |name: &str| gpus.iter().any(|gpu| is_named(name, gpu));
        let Some((name, _)) = self.named.iter().find(|(name, _)| !asked(name)) else {
            return Ok(());
        };
        let mut names: Vec<_> = gpus.iter().map(|gpu| gpu.name.as_str()).collect();
        names.dedup();
        let allowed = format!("prices of {}", names.join(", "));
        Err(Error::field(
            place,
            "usd_per_gpu_hour",
            format!("for `{name}`"),
            &allowed,
        ))
    }
}

/// Whether a name, which may be another one of it, is that of this GPU.
fn is_named(name: &str, gpu: &Gpu) -> bool {
    name == gpu.name || Gpu::find(name).is_ok_and(|found| found.name == gpu.name)
}

impl Written for GpuPrices {
    const ALLOWED: &'static str = "a number from 0.0001 to 10000, in US dollars, or one a GPU such as h100=2.5,b200=5";

    fn read(text: &str) -> Option<Self> {
        let (mut all, mut named) = (None, Vec::new());
        for part in text.split(',') {
            match part.split_once('=') {
                Some((name, price)) => named.push((name.trim().to_owned(), UsdPerHour::read(price)?)),
                None if all.is_none() => all = Some(UsdPerHour::read(part)?),
                None => return None,
            }
        }
        Some(Self { all, named })
    }

    fn described() -> RefOr<Schema> {
        let text = ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some(
                "^([A-Za-z0-9-]+=)?[0-9]+(\\.[0-9]+)?(,[A-Za-z0-9-]+=[0-9]+(\\.[0-9]+)?)*$",
            ))
            .examples(["h100=2.5,b200=5"])
            .description(Some(Self::ALLOWED));
        let number = UsdPerHour::described();
        OneOfBuilder::new().item(number).item(text).into()
    }
}

written!(GpuCounts, Tokens, GpuPrices);

/// The best layout of a model over a number of GPUs. What is left out is planned.
#[derive(Clone, Debug, serde::Deserialize, ToSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct PlanRequest {
    /// A preset (llama-3-70b, deepseek-v3, …) or a Hugging Face config.json: its path, its folder or `-` for standard
    /// input on the command line, the object itself in JSON.
    #[arg(value_name = "PRESET|CONFIG.json")]
    pub architecture: ArchitectureRequest,
    /// All GPUs, or a range in doublings such as 8:1024 for the strong scaling of one batch [default: when serving the fewest of
    /// 1, 2, 4, … that do].
    #[arg(long, value_name = "N|START:END")]
    pub gpus: Option<GpuCounts>,
    /// What the GPUs do: train, serve requests (decode), or nothing but prompts (prefill).
    #[arg(long, default_value_t)]
    #[serde(default)]
    #[schema(default = "train")]
    pub mode: Mode,
    /// Tokens of a training step over all GPUs, such as 4M [default: 4M, rounded to a whole number of sequences a GPU].
    #[arg(long, value_name = "TOKENS")]
    pub global_batch: Option<Tokens>,
    /// Tokens per sequence; of a prompt when serving [default: 4096 or what the position table holds].
    #[arg(long, value_name = "S", visible_aliases = ["isl", "input-len"], aliases = ["input-length", "prompt"])]
    pub seq: Option<Size>,
    /// Tokens of a prompt that are cached from earlier requests (prefix caching), so that the prompt pass computes the others alone
    /// [default: 0].
    #[arg(long, value_name = "T", alias = "prefix-len")]
    pub cached_tokens: Option<Size<0>>,
    /// Tokens that a request generates [default: 512].
    #[arg(long, value_name = "T", visible_aliases = ["osl", "output-len"], aliases = ["output-length", "max-tokens", "max-new-tokens"])]
    pub output: Option<Size>,
    /// Requests sent to all engines at once, such as 50 users; those that they have no room for wait [default: the most within
    /// the limits].
    #[arg(long, value_name = "N", visible_alias = "max-concurrency", aliases = ["concurrent-requests", "users"])]
    pub concurrency: Option<Size>,
    /// The longest time to the first token of a request, in ms.
    #[arg(long, value_name = "MS")]
    pub ttft_ms: Option<Milliseconds>,
    /// The longest time per further token of a request, in ms.
    #[arg(long, value_name = "MS")]
    pub tpot_ms: Option<Milliseconds>,
    /// The least probability with which the times keep their limits [default: 0.5: the expected times keep them].
    #[arg(long, value_name = "FRACTION")]
    pub confidence: Option<Confidence>,
    /// Number format of the linear layers, or of what a recipe makes of them, such as nvfp4 or w4a16 [default: bf16; when serving a
    /// quantized checkpoint, as that is stored].
    #[arg(long)]
    pub dtype: Option<Dtype>,
    /// How linear maps are quantized: fp8 tensorwise, rowwise, fp8_block, mxfp8 or nvfp4; served bf16 or fp16 to integers, too
    /// [default: tensorwise; when serving a quantized checkpoint, as that is stored].
    #[arg(long)]
    pub recipe: Option<Recipe>,
    /// Fused or unfused attention.
    #[arg(long, default_value_t)]
    #[serde(default)]
    #[schema(default = "flash")]
    pub attention: AttentionKernel,
    /// Number format of what Adam keeps: fp32 moments and master weights, or bf16 moments alone.
    #[arg(long, default_value_t)]
    #[serde(default)]
    #[schema(default = "fp32")]
    pub optimizer_states: OptimizerStates,
    /// What updates the weights.
    #[arg(long, default_value_t)]
    #[serde(default)]
    #[schema(default = "adamw")]
    pub optimizer: Optimizer,
    /// Number format of accumulated gradients; `auto` is that of the framework, fp32 in Megatron.
    #[arg(long, default_value_t)]
    #[serde(default)]
    #[schema(default = "auto")]
    pub gradient_dtype: GradientDtype,
    /// How the loss is computed; `auto` is as the framework does. It changes memory, not time.
    #[arg(long, default_value_t)]
    #[serde(default)]
    #[schema(default = "auto")]
    pub loss: Loss,
    /// Train as `torch.autocast` does: fp32 weights, which are cast where 16-bit linear maps use them.
    #[arg(long)]
    #[serde(default)]
    pub autocast: bool,
    /// Rank of LoRA adapters, which are trained in place of the weights; 0 for none [default: 0].
    #[arg(long, value_name = "RANK")]
    pub lora: Option<Size<0>>,
    /// Linear maps with adapters: all-linear, attention, mlp, or a list such as q,v (PEFT's `target_modules`).
    #[arg(long, default_value_t, value_name = "MAPS")]
    #[serde(default)]
    #[schema(default = "all-linear")]
    pub lora_targets: Targets,
    /// Number format of the frozen weights below adapters (QLoRA): nf4 and int8 as bitsandbytes, int4 as GPTQ and AWQ store them.
    #[arg(long, default_value_t)]
    #[serde(default)]
    #[schema(default = "auto")]
    pub base_dtype: BaseDtype,
    /// Number format of cached keys and values; `auto` is that of the checkpoint, else of the activations.
    #[arg(long, default_value_t)]
    #[serde(default)]
    #[schema(default = "auto")]
    pub kv_cache_dtype: KvCacheDtype,
    /// Draft tokens of a sequence that one decoding step verifies: `num_speculative_tokens`, or the steps of EAGLE; 0 for none [default: 0].
    #[arg(long, value_name = "K")]
    pub speculate: Option<Size<0>>,
    /// What drafts tokens: an MTP layer of the model, a dense layer of EAGLE, or matches in the text, which take no time of the GPU
    /// [default: mtp of models with experts or such a layer, else eagle].
    #[arg(long)]
    pub draft: Option<Draft>,
    /// Share of draft tokens that is kept, to a thousandth, each given those before it [default: 0.8 of MTP layers, 0.62 of EAGLE].
    #[arg(long, value_name = "SHARE")]
    pub acceptance: Option<Acceptance>,
    /// How unevenly the router spreads tokens over the experts of a server; `even` where busy experts are replicated (EPLB).
    #[arg(long, default_value_t)]
    #[serde(default)]
    #[schema(default = "power_law_1.01")]
    pub router_load: RouterLoad,
    /// Fix the number of tensor-parallel ranks.
    #[arg(long, value_name = "T")]
    pub tp: Option<Size>,
    /// Fix the number of context-parallel ranks.
    #[arg(long, value_name = "C")]
    pub cp: Option<Size>,
    /// Fix the number of expert-parallel ranks.
    #[arg(long, value_name = "E")]
    pub ep: Option<Size>,
    /// Fix the number of pipeline stages.
    #[arg(long, value_name = "P")]
    pub pp: Option<Size>,
    /// Fix the number of virtual stages a GPU.
    #[arg(long, value_name = "V")]
    pub vp: Option<Size>,
    /// Fix the number of sequences a micro-batch, or of requests that run on each engine; beside concurrency the most.
    #[arg(long, value_name = "B", visible_alias = "max-num-seqs", alias = "max-batch-size")]
    pub batch: Option<Size>,
    /// Keep this ZeRO stage [default: those that the framework runs].
    #[arg(long, value_name = "STAGE")]
    pub zero: Option<ZeroStage>,
    /// Keep this recomputation [default: the fastest that fits].
    #[arg(long)]
    pub recompute: Option<Recompute>,
    /// Keep this in host memory [default: nothing, or what it takes where nothing fits].
    #[arg(long)]
    pub offload: Option<Offload>,
    /// Share of a GPU's memory that a layout takes at most [default: 0.88 in training, 0.9 when serving].
    #[arg(long, value_name = "FRACTION")]
    pub memory_share: Option<MemoryShare>,
    /// Layouts to report.
    #[arg(long, default_value_t, value_name = "N")]
    #[serde(default)]
    #[schema(default = 10)]
    pub top: Top,
    /// Tokens of the whole run, such as 15T: how many days and GPU-hours it takes.
    #[arg(long, value_name = "COUNT")]
    pub tokens: Option<Tokens>,
    /// Price of one GPU for an hour, in US dollars: one for all GPUs, or one for each such as h100=2.5,b200=5.
    #[arg(long, value_name = "USD|GPU=USD,…")]
    pub usd_per_gpu_hour: Option<GpuPrices>,
}

/// What to plan: requests that are served within limits, or training steps.
#[derive(Clone, Debug)]
pub struct Planned {
    /// One query for each number of GPUs.
    pub queries: Vec<Query>,
    /// Whether the first number with an answer is meant alone, as none was asked for.
    pub fewest: bool,
    /// The requests, when serving.
    pub limits: Option<Limits>,
}

impl PlanRequest {
    /// What to plan for this architecture.
    pub fn planned(&self, arch: &Architecture, gpu: &Gpu) -> Result<Planned> {
        Sizes::fixed(gpu, |sizes| self.described(arch, sizes))
    }

    fn described(&self, arch: &Architecture, sizes: &mut Sizes) -> Result<Planned> {
        let serves = self.mode != Mode::Train;
        self.refuse_of_the_other_kind(serves)?;
        let generated = sizes.option("output", self.output);
        // The prompt pass makes the first token.
        let mode = match (self.mode, generated) {
            (Mode::Decode, Some(1)) => Mode::Prefill,
            (mode, _) => mode,
        };
        let speculate = sizes.option("speculate", self.speculate);
        let room = match mode {
            // The last decoding step adds its tokens to a full cache.
            Mode::Decode => arch.positions.longest().saturating_sub(1 + speculate.unwrap_or(0)),
            Mode::Train | Mode::Prefill => arch.positions.longest(),
        };
        let output = match mode {
            Mode::Decode => generated.unwrap_or(USUAL_OUTPUT.min(room / 2)),
            Mode::Train | Mode::Prefill => 0,
        };
        let concurrency = sizes.option("concurrency", self.concurrency);
        let cached = sizes.option("cached_tokens", self.cached_tokens).unwrap_or(0);
        let lora = sizes.option("lora", self.lora);
        let seq = sizes.option("seq", self.seq);
        let seq = seq.unwrap_or(USUAL_SEQUENCE.min(room.saturating_sub(output)).max(1));
        let kept = [
            (Dimension::Tp, self.tp),
            (Dimension::Cp, self.cp),
            (Dimension::Ep, self.ep),
            (Dimension::Pp, self.pp),
            (Dimension::Vp, self.vp),
            (Dimension::Batch, self.batch),
        ]
        .map(|(dimension, size)| (dimension, sizes.option(dimension.name(), size)));
        let kept = kept.into_iter();
        let kept: Vec<_> = kept.filter_map(|(dimension, size)| Some((dimension, size?))).collect();
        if cached >= seq {
            let allowed = format!("less than the {seq} tokens of a prompt");
            return Err(Error::field("plan", "cached_tokens", cached, &allowed));
        }
        let base = match mode {
            Mode::Train => Workload::train(1, seq),
            Mode::Prefill => Workload::prefill(1, seq),
            Mode::Decode => Workload::decode(1, seq + output / 2),
        };
        let (dtype, recipe) = format(mode, arch, self.dtype, self.recipe, sizes);
        let workload = Workload {
            dtype,
            recipe,
            attention: self.attention,
            optimizer_states: self.optimizer_states,
            optimizer: self.optimizer,
            gradient_dtype: self.gradient_dtype,
            loss: self.loss,
            autocast: self.autocast,
            lora: lora.unwrap_or(0),
            lora_targets: self.lora_targets,
            base_dtype: arch.base_dtype(lora, self.base_dtype),
            kv_cache_dtype: self.kv_cache_dtype,
            router_load: self.router_load,
            ..base
        };
        let workload = workload.speculating(arch, speculate, self.draft, self.acceptance)?;
        let allowed = "a number of GPUs, such as 8; serving takes the fewest that do";
        let absent = || Error::field("plan", "gpus", "absent", allowed);
        let counts = self
            .gpus
            .or(serves.then_some(GpuCounts::OF_SERVERS))
            .ok_or_else(absent)?;
        let largest = counts.values().last().unwrap_or(1);
        let tokens = self.global_batch.map(|tokens| tokens.0);
        let global_batch = sequences(tokens, seq, largest)?;
        let memory_share = match (self.memory_share, serves) {
            (Some(MemoryShare(share)), _) => share,
            (None, true) => SERVING_MEMORY_SHARE,
            (None, false) => memory_share(),
        };
        let queries = counts.values().map(|gpus| Query {
            gpus,
            global_batch,
            workload,
            kept: kept.clone(),
            zero: self.zero.map(|stage| stage.0),
            recompute: self.recompute,
            offloads: match self.offload {
                Some(kept) => vec![kept],
                None => OFFLOAD_LAST.to_vec(),
            },
            memory_share,
            top: self.top.0 as usize,
        });
        Ok(Planned {
            queries: queries.collect(),
            fewest: self.gpus.is_none(),
            limits: serves.then_some(Limits {
                prompt: seq,
                cached,
                output,
                concurrency,
                ..limits(self.ttft_ms, self.tpot_ms, self.confidence)
            }),
        })
    }

    /// Limits are of requests, batches and stages of training.
    fn refuse_of_the_other_kind(&self, serves: bool) -> Result<()> {
        let of_training = [
            ("global_batch", self.global_batch.is_some()),
            ("cp", self.cp.is_some()),
            ("vp", self.vp.is_some()),
            ("zero", self.zero.is_some()),
            ("recompute", self.recompute.is_some()),
            ("offload", self.offload.is_some()),
            ("optimizer_states", self.optimizer_states != OptimizerStates::Fp32),
            ("optimizer", self.optimizer != Optimizer::default()),
            ("gradient_dtype", self.gradient_dtype != GradientDtype::default()),
            ("loss", self.loss != Loss::default()),
            ("autocast", self.autocast),
            ("lora", self.lora.is_some()),
            ("tokens", self.tokens.is_some()),
        ];
        let of_serving = [
            ("output", self.output.is_some()),
            ("cached_tokens", self.cached_tokens.is_some()),
            ("concurrency", self.concurrency.is_some()),
            ("ttft_ms", self.ttft_ms.is_some()),
            ("tpot_ms", self.tpot_ms.is_some()),
            ("confidence", self.confidence.is_some()),
            ("kv_cache_dtype", self.kv_cache_dtype != KvCacheDtype::Auto),
            ("router_load", self.router_load != RouterLoad::default()),
            ("speculate", self.speculate.is_some()),
        ];
        let (wrong, allowed) = match serves {
            true => (&of_training[..], "nothing when serving"),
            false => (&of_serving[..], "nothing in training"),
        };
        if let Some((field, _)) = wrong.iter().find(|(_, given)| *given) {
            return Err(Error::field("plan", field, "given", allowed));
        }
        let has_limit = self.ttft_ms.is_some() || self.tpot_ms.is_some();
        let beside = [
            (
                "confidence",
                self.confidence.is_some() && !has_limit,
                "nothing without ttft_ms or tpot_ms",
            ),
            (
                "output",
                self.output.is_some() && self.mode == Mode::Prefill,
                "nothing in prefill: engines do nothing but prompts",
            ),
            (
                "tpot_ms",
                self.tpot_ms.is_some() && (self.mode == Mode::Prefill || self.output == Some(Size::Number(1))),
                "nothing in prefill, nor with an output of 1: engines do nothing but prompts",
            ),
        ];
        match beside.iter().find(|(_, given, _)| *given) {
            Some((field, _, allowed)) => Err(Error::field("plan", field, "given", allowed)),
            None => Ok(()),
        }
    }
}

/// These limits of requests of any length.
pub(super) fn limits(
    ttft_ms: Option<Milliseconds>,
    tpot_ms: Option<Milliseconds>,
    confidence: Option<Confidence>,
) -> Limits {
    let milliseconds = |limit: Option<Milliseconds>| limit.map(|limit| Seconds::from_secs(limit.0 * 1e-3));
    Limits {
        prompt: 0,
        cached: 0,
        output: 0,
        concurrency: None,
        first_token: milliseconds(ttft_ms),
        token: milliseconds(tpot_ms),
        confidence: confidence.map_or(Limits::USUAL_CONFIDENCE, |one| one.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::Preset;
    use serde_json::{Value, json};

    fn planned(name: &str, mut body: Value) -> Result<Planned> {
        body["architecture"] = json!(name);
        let request: PlanRequest = serde_json::from_value(body).unwrap();
        request.planned(&Preset::find(name)?.architecture, Gpu::find("h100")?)
    }

    #[test]
    fn batches_are_whole_sequences_and_gpus_double() {
        for (body, wanted) in [
            (json!({"gpus": 64}), (64, 1024)),
            (json!({"gpus": 96}), (96, 1056)),
            (json!({"gpus": 64, "global_batch": "4M", "seq": 8192}), (64, 512)),
            (json!({"gpus": 64, "global_batch": 1048576}), (64, 256)),
            (json!({"gpus": 16, "global_batch": "500k", "seq": 8192}), (16, 64)),
            (json!({"gpus": 16, "global_batch": "64k", "seq": 8192}), (16, 8)),
            (json!({"gpus": 4, "global_batch": "64k", "seq": 512}), (4, 128)),
            (json!({"gpus": 5, "global_batch": 64000, "seq": 512}), (5, 125)),
            (json!({"gpus": 8, "global_batch": 12288}), (8, 3)),
            (json!({"gpus": 8, "global_batch": 500001}), (8, 120)),
            (json!({"gpus": "8:64"}), (8, 1024)),
        ] {
            let planned = planned("llama-3-8b", body.clone()).unwrap();
            let query = &planned.queries[0];
            assert_eq!((query.gpus, query.global_batch), wanted, "{body}");
        }
        let counts: GpuCounts = "8:100".parse().unwrap();
        assert_eq!(counts.values().collect::<Vec<_>>(), [8, 16, 32, 64]);
        for text in ["0", "64:8", "8:", "many", "1:1000000"] {
            assert!(text.parse::<GpuCounts>().is_err(), "{text}");
        }
    }

    #[test]
    fn prices_are_one_for_all_gpus_or_one_for_each() {
        let [h100, b200] = ["h100", "b200"].map(|name| Gpu::find(name).unwrap());
        for (text, wanted) in [
            ("2.5", [Some(2.5), Some(2.5)]),
            ("h100=2.5,b200=5", [Some(2.5), Some(5.0)]),
            ("H100=$2.5", [Some(2.5), None]),
            ("3, b200=5", [Some(3.0), Some(5.0)]),
        ] {
            let prices: GpuPrices = text.parse().unwrap();
            assert_eq!([prices.of(h100), prices.of(b200)], wanted, "{text}");
        }
        for text in ["", "h100=", "h100=-1", "1,2", "h100=free", "=nan"] {
            assert!(text.parse::<GpuPrices>().is_err(), "{text}");
        }
        let prices: GpuPrices = "h100=2.5,b200=5".parse().unwrap();
        prices.check("compare", &[h100, b200]).unwrap();
        let refused = prices.check("plan", &[h100]).unwrap_err().to_string();
        assert!(refused.contains("for `b200`; allowed: prices of h100"), "{refused}");
    }

    #[test]
    fn a_number_of_sequences_in_place_of_tokens_is_told_apart() {
        let refused = planned("llama-3-8b", json!({"gpus": 64, "global_batch": 512}));
        let message = refused.unwrap_err().to_string();
        assert!(message.contains("512 sequences of 4096 are 2097152"), "{message}");
    }

    #[test]
    fn what_belongs_to_the_other_kind_is_refused() {
        for (body, field) in [
            (json!({"gpus": 8, "ttft_ms": 100.0}), "ttft_ms"),
            (
                json!({"gpus": 8, "mode": "decode", "global_batch": "4M"}),
                "global_batch",
            ),
            (json!({"gpus": 8, "mode": "prefill", "zero": 1}), "zero"),
            (json!({"gpus": 8, "mode": "prefill", "cp": 2}), "cp"),
            (json!({"gpus": 8, "mode": "prefill", "tpot_ms": 30.0}), "tpot_ms"),
            (json!({"gpus": 8, "concurrency": 50}), "concurrency"),
            (json!({"gpus": 8, "mode": "decode", "confidence": 0.9}), "confidence"),
            (json!({"gpus": 8, "global_batch": 5000}), "global_batch"),
        ] {
            let refused = planned("llama-3-8b", body).unwrap_err();
            assert_eq!(refused.field_error().unwrap().field, field);
        }
        let long = planned("gpt2", json!({"gpus": 8, "mode": "decode", "output": 2000}));
        assert_eq!(long.unwrap().limits.unwrap().prompt, 1);
        let gpt2 = planned("gpt2", json!({"gpus": 8, "mode": "decode"})).unwrap();
        let limits = gpt2.limits.unwrap();
        // The last step of a full cache adds its token: with 512 of both none could run.
        assert_eq!((limits.prompt, limits.output), (512, 511));
    }
}
