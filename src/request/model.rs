//! One step of a whole model, its sizes as they are or changed.

use crate::arch::{Architecture, Dimension, Workload, read_object};
use crate::error::Result;
use crate::request::{Size, Sizes, WorkloadRequest};
use serde::de::{Deserialize, Deserializer, Error as _};
use serde_json::Value;
use utoipa::ToSchema;

/// What the model of a config is called that came without a file.
pub const UNNAMED: &str = "config";

/// The name of a preset, or a Hugging Face config.json.
#[derive(Clone, Debug, ToSchema)]
#[serde(untagged)]
pub enum ArchitectureRequest {
    /// One of `/v1/presets`; on the command line also the path or folder of a config.json, or `-`.
    #[schema(examples("llama-3-8b"))]
    Named(String),
    /// The object of a config.json.
    #[schema(value_type = Object)]
    Config(Value),
}

impl ArchitectureRequest {
    /// The architecture; a name that is no preset is the path of a config.json, which is read.
    pub fn find(&self) -> Result<Architecture> {
        match self {
            Self::Named(name) => Architecture::find(name),
            Self::Config(config) => read_object(config, UNNAMED, "architecture"),
        }
    }

    /// Each of several names with commas between them.
    pub fn each(&self) -> Vec<Self> {
        match self {
            Self::Named(names) => names
                .split(',')
                .map(|name| Self::Named(name.trim().to_owned()))
                .collect(),
            config @ Self::Config(_) => vec![config.clone()],
        }
    }
}

impl From<String> for ArchitectureRequest {
    fn from(name: String) -> Self {
        Self::Named(name)
    }
}

impl<'de> Deserialize<'de> for ArchitectureRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(name) => Ok(Self::Named(name)),
            config @ Value::Object(_) => Ok(Self::Config(config)),
            _ => Err(D::Error::custom(
                "expected the name of a preset or the object of a config.json",
            )),
        }
    }
}

/// A step of a whole model. Sizes of the architecture that are left out stay as they are or follow: heads keeps the
/// width of attention and the queries per key head, hidden keeps the number of heads and the ratio of the MLP.
#[derive(Clone, Debug, serde::Deserialize, ToSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct ModelRequest {
    /// A preset (gpt3-2.7b, llama-3-8b, …) or a Hugging Face config.json: its path, its folder or `-` for standard input
    /// on the command line, the object itself in JSON.
    #[arg(value_name = "PRESET|CONFIG.json")]
    pub architecture: ArchitectureRequest,
    /// Transformer layers.
    #[arg(long, value_name = "L")]
    pub layers: Option<Size>,
    /// Width of the residual stream.
    #[arg(long, value_name = "H")]
    pub hidden: Option<Size>,
    /// Query heads.
    #[arg(long, value_name = "A")]
    pub heads: Option<Size>,
    /// Key/value heads, a divisor of the query heads.
    #[arg(long, value_name = "G")]
    pub kv_heads: Option<Size>,
    /// Inner width of the MLP, or of one expert.
    #[arg(long, value_name = "F")]
    pub d_ff: Option<Size>,
    /// Rows of the token embedding.
    #[arg(long, value_name = "V")]
    pub vocab: Option<Size>,
    /// What one step does and how it is spread over GPUs.
    #[command(flatten)]
    #[serde(default)]
    pub workload: WorkloadRequest,
}

impl ModelRequest {
    /// `base` with the sizes that were asked for, and one step of it; fails where that cannot run.
    pub fn step(&self, base: &Architecture, sizes: &mut Sizes) -> Result<(Architecture, Workload)> {
        let (architecture, workload) = self.described(base, sizes)?;
        workload.validate(&architecture)?;
        if !sizes.are_swept() {
            workload.require_effect(&architecture)?;
        }
        Ok((architecture, workload))
    }

    /// The same whether or not that can run.
    pub fn described(&self, base: &Architecture, sizes: &mut Sizes) -> Result<(Architecture, Workload)> {
        // In the order in which they are applied; all are turned into numbers before anything can fail.
        let asked = [
            (Dimension::Layers, self.layers),
            (Dimension::Hidden, self.hidden),
            (Dimension::Heads, self.heads),
            (Dimension::KvHeads, self.kv_heads),
            (Dimension::DFf, self.d_ff),
            (Dimension::Vocab, self.vocab),
        ]
        .map(|(dimension, size)| (dimension, sizes.option(dimension.name(), size)));
        let mut workload = self.workload.described(base, sizes)?;
        let mut architecture = base.clone();
        for (dimension, asked) in asked {
            if let Some(value) = asked {
                let dimension = dimension.meant_in(base);
                dimension.set(&mut architecture, &mut workload, value)?;
            }
        }
        Ok((architecture, workload))
    }
}
