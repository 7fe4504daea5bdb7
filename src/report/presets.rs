//! The answer to `presets`: published architectures that have a name here.

use crate::arch::Preset;
use crate::report::Report;
use crate::report::architecture::ArchitectureShape;
use crate::report::table::{left, right, row, table};
use crate::units::significant;
use serde::Serialize;
use utoipa::ToSchema;

/// Every preset.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct PresetsReport {
    presets: Vec<PresetLine>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
struct PresetLine {
    #[serde(flatten)]
    shape: ArchitectureShape,
    aliases: Vec<String>,
    /// Where the shape was published.
    source: String,
}

impl PresetsReport {
    /// Describes these presets.
    pub fn new(presets: &[Preset]) -> Self {
        let lines = presets.iter().map(|preset| PresetLine {
            shape: ArchitectureShape::from(&preset.architecture),
            aliases: preset.aliases().cloned().collect(),
            source: preset.source.clone(),
        });
        Self {
            presets: lines.collect(),
        }
    }
}

impl Report for PresetsReport {
    const LISTS: &'static [&'static str] = &["presets"];

    fn page(&self) -> String {
        let rows = self.presets.iter().map(|PresetLine { shape, .. }| {
            row![
                shape.name,
                significant(shape.parameters as f64 / 1e9),
                shape.layers,
                shape.hidden,
                shape.heads,
                shape.kv_heads,
                shape.head_dim,
                format!("{} {}", shape.mlp, shape.moe_d_ff.unwrap_or(shape.d_ff)),
                shape.vocab,
            ]
        });
        table(
            [
                left("name"),
                right("10^9 parameters"),
                right("layers"),
                right("hidden"),
                right("heads"),
                right("kv"),
                right("head size").minor(1),
                left("mlp"),
                right("vocab"),
            ],
            rows,
        )
    }
}
