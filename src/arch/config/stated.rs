//! What a config says beyond the shape: the number format of its weights, and parts that no answer counts.

use super::fields::Fields;
use crate::error::Result;
use crate::ops::Dtype;

/// Fields that say how stored weights are packed; the second is MLX's.
const QUANTIZATION: [&str; 2] = ["quantization_config", "quantization"];

/// What a config says beyond the shape.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stated {
    /// The number format of the weights.
    format: Option<Format>,
    /// What is not counted or counted as something else, one sentence each.
    left_out: Vec<String>,
}

/// A number format as the config calls it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Format {
    field: &'static str,
    name: String,
}

impl Format {
    /// The format of an answer that this is.
    fn dtype(&self) -> Option<Dtype> {
        match self.name.as_str() {
            "float32" => Some(Dtype::Fp32),
            "float16" => Some(Dtype::Fp16),
            "bfloat16" => Some(Dtype::Bf16),
            "fp8" | "fbgemm_fp8" | "modelopt FP8" | "compressed-tensors float-quantized" => {
                Some(Dtype::Fp8)
            }
            "modelopt NVFP4" | "compressed-tensors nvfp4-pack-quantized" => Some(Dtype::Nvfp4),
            "compressed-tensors int-quantized" => Some(Dtype::Int8),
            "fp8 in blocks of 128 x 128" => Some(Dtype::Fp8Block),
            "awq with 4 bits" | "gptq with 4 bits" => Some(Dtype::W4a16),
            "gptq with 8 bits" => Some(Dtype::W8a16),
            _ => None,
        }
    }
}

impl Stated {
    /// Reads the format that a config states: `quantization_config` says more than `dtype`.
    pub(super) fn read(fields: &mut Fields<'_>) -> Result<Self> {
        let mut format = None;
        for field in ["torch_dtype", "dtype"] {
            let stated = fields.value(field).and_then(|value| value.as_str());
            if let Some(name) = stated {
                let name = name.trim_start_matches("torch.").to_owned();
                format = Some(Format { field, name });
            }
        }
        let found = fields.named(&QUANTIZATION);
        fields.ignore(&QUANTIZATION);
        if let Some(mut nested) = fields.object(found)? {
            let method = nested
                .value("quant_method")
                .and_then(|value| value.as_str());
            let bits = nested.optional("bits")?;
            let mut name = method.unwrap_or("an unnamed format").to_owned();
            for part in ["quant_algo", "format"] {
                if let Some(part) = nested.value(part).and_then(|value| value.as_str()) {
                    name = format!("{name} {part}");
                }
            }
            if let Some(bits) = bits {
                name = format!("{name} with {bits} bits");
            }
            if let Some(block) = nested.value("weight_block_size").and_then(|v| v.as_array()) {
                let sizes: Vec<_> = block.iter().map(ToString::to_string).collect();
                name = format!("{name} in blocks of {}", sizes.join(" x "));
            }
            format = Some(Format { field: found, name });
        }
        Ok(Self {
            format,
            left_out: Vec::new(),
        })
    }

    /// Fills in what a part of the config says itself.
    pub(super) fn or(mut self, whole: Self) -> Self {
        let says_more = |format: &Format| QUANTIZATION.contains(&format.field);
        let packed = whole.format.clone().filter(says_more);
        self.format = packed.or(self.format).or(whole.format);
        self.left_out.extend(whole.left_out);
        self
    }

    /// Adds what is not counted.
    pub(super) fn leave_out(&mut self, what: impl Into<String>) {
        self.left_out.push(what.into());
    }

    /// Adds the fields that were passed over.
    pub(super) fn pass_over(&mut self, fields: &[String]) {
        if !fields.is_empty() {
            let (names, these) = (
                fields.join("`, `"),
                if fields.len() == 1 {
                    "changes"
                } else {
                    "change"
                },
            );
            self.leave_out(format!(
                "`{names}` of the config {these} no shape and are passed over"
            ));
        }
    }

    /// Sentences about an answer whose linear maps have this format, for whoever reads it.
    pub fn notes(&self, dtype: Dtype) -> Vec<String> {
        let other = self
            .format
            .iter()
            .filter(|format| format.dtype() != Some(dtype));
        let contradiction = other.map(|format| {
            let Format { field, name } = format;
            let recipe = match format.dtype() {
                Some(quantized @ (Dtype::Fp8Block | Dtype::Nvfp4)) => {
                    format!(", dtype fp8 with recipe {quantized} the other")
                }
                Some(quantized) if !quantized.is_element() => {
                    format!(", recipe {quantized} the other")
                }
                _ => String::new(),
            };
            format!("the config says {name} (`{field}`); this answer takes {dtype}{recipe}")
        });
        let left_out = self.left_out.iter().cloned();
        contradiction.chain(left_out).collect()
    }
}
