//! Reading a Hugging Face `config.json` as an [`Architecture`], and writing one.
//!
//! Fields that shape the model are read, fields that cannot change a shape (token ids, dropout, initialisation, rotary
//! frequencies, soft caps) are known and skipped, a value that would change the computation in a way this crate does not
//! model is refused. Of fields that its `model_type` does not define, those that may change a shape by their name are
//! refused, all at once, unless they are off; the others are passed over, and named with each answer. Where a field is missing, only the default
//! that `transformers` documents for that `model_type` is taken; sizes without which no model exists
//! (layers, hidden, heads, MLP width, vocabulary) have no default, but in a text part, from which
//! `transformers` itself leaves defaults out.
//!
//! Of a multimodal model only the text part is read (`text_config`, `llm_config`, …); the other parts are not modelled.
//!
//! An object with the keys of `data/architectures` is read as it is.

mod fields;
mod further;
mod json;
mod kinds;
mod linear;
mod moe;
mod quantized;
mod reader;
mod stated;
mod table;
mod varied;
mod window;
mod write;

pub use stated::Stated;
pub use write::{config_json, layers_json};

use super::Architecture;
use crate::error::{Error, Result};
use crate::names::{misspelt, nearest};
use fields::Fields;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::path::Path;
use table::table;

/// Reads a `config.json`, also from the folder that holds it or, where the path is `-`, from standard input; the model
/// is named after the file, or after its folder if it is called `config.json`.
pub fn read_config(path: &Path) -> Result<Architecture> {
    if path == Path::new("-") {
        let place = "standard input";
        let text = std::io::read_to_string(std::io::stdin()).map_err(|source| Error::io(place, source))?;
        return parse_config(&text, "config", place);
    }
    let file = match path.is_dir() {
        true => path.join("config.json"),
        false => path.to_owned(),
    };
    let text = json::read(&file)?;
    let stem = file.file_stem().unwrap_or_default();
    let folder = file.parent().and_then(Path::file_name);
    let name = match folder {
        Some(folder) if stem == "config" => folder,
        _ => stem,
    };
    let (name, place) = (name.to_string_lossy(), file.display().to_string());
    let mut config = json::parse(&text, &place)?;
    let beside = file.with_file_name(stated::HF_QUANT);
    if beside.is_file() {
        let quantization = json::parse(&json::read(&beside)?, &beside.display().to_string())?;
        stated::add_hf_quant(&mut config, &quantization);
    }
    read_object(&config, &name, &place)
}

/// Reads the text of a `config.json`; `place` names it in messages.
pub fn parse_config(text: &str, name: &str, place: &str) -> Result<Architecture> {
    read_object(&json::parse(text, place)?, name, place)
}

/// Reads a `config.json`, or an architecture with the keys of `data/architectures`, that is JSON already; `place` names
/// it in messages.
pub fn read_object(value: &Value, name: &str, place: &str) -> Result<Architecture> {
    let Value::Object(object) = value else {
        return Err(Error::bad_input(format!(
            "{place}: is not a JSON object, so not a Hugging Face config"
        )));
    };
    // Only the keys of `data/architectures` call the layers so.
    let is_own = object.contains_key("layers") && !object.contains_key("model_type");
    let mut arch = match is_own {
        true => Architecture::deserialize(value).map_err(|error| Error::bad_input(format!("{place}: {error}")))?,
        false => read_whole(object, place)?,
    };
    if !is_own {
        name.clone_into(&mut arch.name);
    }
    arch.validate()
        .map_err(|error| Error::bad_input(format!("{place}: {error}")))?;
    let stored = Stated::read_stored(object, &arch);
    arch.stated.set_stored(stored);
    if !is_own {
        arch.stated.keep_unshaped(object);
    }
    Ok(arch)
}

/// Reads the object of a whole file.
fn read_whole(object: &Map<String, Value>, place: &str) -> Result<Architecture> {
    let mut fields = Fields::new(object, place);
    if fields.has("peft_type") && !fields.has("model_type") {
        let base = fields.value("base_model_name_or_path");
        let base = base.and_then(Value::as_str).unwrap_or("its base model");
        return fields.refuse(
            "peft_type",
            &format!("a model's config.json, as that of {base}; this is an adapter's"),
        );
    }
    if !fields.has("model_type") {
        let allowed =
            "the type that its fields are of, such as \"llama\", or \"gpt2\" where they are `n_layer` and `n_embd`";
        return fields.refuse("model_type", allowed);
    }
    let model_type = fields.word("model_type")?;
    let Some(text_type) = table().lists.text_config.get(model_type) else {
        return read_text_model(model_type, fields);
    };
    let whole = Stated::read(&mut fields)?;
    let mut arch = match text_part(object) {
        None => {
            fields.ignore(&table().lists.beside_text);
            read_text_model(text_type, fields)?
        }
        Some(text) => {
            let mut part = Fields::of_part(text, place);
            let inner = match part.has("model_type") {
                true => part.word("model_type")?,
                false => text_type,
            };
            let mut arch = read_text_model(inner, part)?;
            if !text.contains_key("tie_word_embeddings") {
                let own = arch.tied_embeddings;
                arch.tied_embeddings = fields.flag("tie_word_embeddings", own)?;
            }
            arch
        }
    };
    arch.stated = arch.stated.or(whole);
    arch.stated.leave_out_all_but_text();
    Ok(arch)
}

/// The text model inside a larger one.
fn text_part(object: &Map<String, Value>) -> Option<&Map<String, Value>> {
    let mut places = table().lists.text_parts.iter();
    places.find_map(|place| {
        let mut keys = place.split('.');
        keys.try_fold(object, |inside, key| inside.get(key)?.as_object())
    })
}

/// Reads the fields of a decoder of this type.
fn read_text_model(model_type: &str, mut fields: Fields<'_>) -> Result<Architecture> {
    let stated = Stated::read(&mut fields)?;
    let Some(row) = table().find(model_type) else {
        return unknown(model_type, &fields);
    };
    let row = table().variant(row, &mut fields);
    let whole = fields.flattened(&row.parts)?;
    let mut fields = match &whole {
        Some(object) => fields.over(object),
        None => fields,
    };
    let mut arch = reader::read(row, &mut fields)?;
    fields.finish(model_type)?;
    arch.stated = arch.stated.or(stated);
    arch.stated.pass_over(&fields.passed_over());
    Ok(arch)
}

/// Why models of this type cannot be timed, if that is known.
pub(super) fn refused(model_type: &str) -> Option<&'static str> {
    table().reason(model_type)
}

/// Why this type is not read.
fn unknown(model_type: &str, fields: &Fields<'_>) -> Result<Architecture> {
    if let Some(reason) = refused(model_type) {
        let allowed = format!("a decoder of attention and MLP layers; {model_type} {reason}");
        return fields.refuse("model_type", &allowed);
    }
    let near = near(model_type);
    let near = match near.is_empty() {
        true => String::new(),
        false => format!(", nearest {}", near.join(", ")),
    };
    let like_llama = match is_like_llama(fields) {
        true => "; its fields are Llama's, so a model shaped like that may be read as \"llama\"",
        false => "; a known one whose layers have the same shapes may be written in its place",
    };
    fields.refuse("model_type", &format!("a known type{near}{like_llama}"))
}

/// Known types of the same family, else those that differ by a slip of the pen.
fn near(model_type: &str) -> Vec<&'static str> {
    let family = |name: &str| {
        let end = name.find(|letter: char| !letter.is_ascii_alphabetic());
        name[..end.unwrap_or(name.len())].to_ascii_lowercase()
    };
    let own = family(model_type);
    let alike = types().filter(|known| own.len() > 2 && family(known) == own);
    match nearest(model_type, alike) {
        none if none.is_empty() => misspelt(model_type, types()),
        family => family,
    }
}

/// Whether an unknown type has the fields of Llama and no others that may shape it, and an MLP that is gated for all that is
/// known.
fn is_like_llama(fields: &Fields<'_>) -> bool {
    let mut again = fields.again();
    let is_gated = matches!(
        again.value("hidden_act").and_then(Value::as_str),
        Some("silu" | "swish")
    );
    is_gated && read_text_model("llama", again).is_ok_and(|arch| arch.validate().is_ok())
}

/// Every type that is read.
fn types() -> impl Iterator<Item = &'static str> {
    let table = table();
    table
        .types
        .keys()
        .chain(table.lists.text_config.keys())
        .map(String::as_str)
}

#[cfg(test)]
mod tests;
