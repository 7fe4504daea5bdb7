//! Reading a Hugging Face `config.json` as an [`Architecture`], and writing one.
//!
//! Strict: every field must be one that its `model_type` defines. Fields that shape the model are read,
//! fields that cannot change a shape (token ids, dropout, initialisation, rotary frequencies, soft caps)
//! are known and skipped, a value that would change the computation in a way this crate does not model
//! is refused, and so is any unknown field. Where a field is missing, only the default
//! that `transformers` documents for that `model_type` stands in; sizes without which no model exists
//! (layers, hidden, heads, MLP width, vocabulary) have no default here.

mod fields;

mod gpt;

mod llama;

mod write;

pub use write::config_json;

use super::Architecture;
use crate::error::{Error, Result, read_text};
use fields::Fields;
use serde_json::Value;
use std::path::Path;

type Reader = fn(&mut Fields<'_>) -> Result<Architecture>;

/// Every supported `model_type` and its reader.
const FAMILIES: &[(&str, Reader)] = &[
    ("deepseek_v3", llama::deepseek_v3),
    ("gemma", llama::gemma),
    ("gemma2", llama::gemma2),
    ("gemma3_text", llama::gemma3),
    ("gpt2", gpt::gpt2),
    ("gpt_neox", gpt::gpt_neox),
    ("llama", llama::llama),
    ("mistral", llama::mistral),
    ("mixtral", llama::mixtral),
    ("mpt", gpt::mpt),
    ("olmo2", llama::olmo2),
    ("opt", gpt::opt),
    ("qwen2", llama::qwen2),
    ("qwen3", llama::qwen3),
    ("qwen3_moe", llama::qwen3_moe),
];

/// Reads a `config.json`; the model is named after the file, or after its folder if it is called `config.json`.
pub fn read_config(path: &Path) -> Result<Architecture> {
    let text = read_text(path)?;
    let stem = path.file_stem().unwrap_or_default();
    let folder = path.parent().and_then(Path::file_name);
    let name = match folder {
        Some(folder) if stem == "config" => folder,
        _ => stem,
    };
    parse_config(&text, &name.to_string_lossy(), &path.display().to_string())
}

/// Reads the text of a `config.json`; `place` names it in messages.
pub fn parse_config(text: &str, name: &str, place: &str) -> Result<Architecture> {
    let value: Value = serde_json::from_str(text)
        .map_err(|error| Error::bad_input(format!("{place}: is not JSON: {error}")))?;
    read_object(&value, name, place)
}

/// Reads a `config.json` that is JSON already; `place` names it in messages.
pub fn read_object(value: &Value, name: &str, place: &str) -> Result<Architecture> {
    let Value::Object(object) = value else {
        return Err(Error::bad_input(format!(
            "{place}: is not a JSON object, so not a Hugging Face config"
        )));
    };
    let mut fields = Fields::new(object, place);
    let types: Vec<_> = FAMILIES.iter().map(|(name, _)| *name).collect();
    let model_type = fields.text("model_type", None, &types)?;
    let (_, read) = FAMILIES
        .iter()
        .find(|(known, _)| *known == model_type)
        .expect("`text` returns one of the allowed values");
    fields.quantization()?;
    let mut arch = read(&mut fields)?;
    fields.finish(&model_type)?;
    name.clone_into(&mut arch.name);
    arch.validate()
        .map_err(|error| Error::bad_input(format!("{place}: {error}")))?;
    Ok(arch)
}

#[cfg(test)]
mod tests;
