//! From JSON to a request, or to an error that names field, value and what is allowed.

use crate::error::{Error, Result};
use crate::request::{
    AttentionRequest, BatchRequest, CalibrateRequest, GemmRequest, GraphRequest, ModelRequest, PlanRequest,
    PruneRequest, SearchRequest, StepRequest, TargetRequest, WorkloadRequest,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use serde_path_to_error::{Path, Segment};
use utoipa::ToSchema;

/// The place that errors name.
pub const PLACE: &str = "request";

/// What errors call the request itself, where it is no object.
pub const WHOLE: &str = "body";

/// Reads a request and its target from one JSON object.
pub fn read<R: FromJson>(body: Value) -> Result<(R, TargetRequest)> {
    let (target, body) = apart(body, &TargetRequest::KEYS);
    let target = plain(target)?;
    Ok((R::from_json(body, &listed(&TargetRequest::KEYS))?, target))
}

/// What a JSON object is read as.
pub trait FromJson: Sized {
    /// Reads an object; `others` are further keys that are allowed.
    fn from_json(body: Value, others: &str) -> Result<Self>;
}

impl<R: DeserializeOwned> FromJson for R {
    fn from_json(body: Value, others: &str) -> Result<Self> {
        read_as(body, others)
    }
}

/// What a body holds beside the keys of its request.
#[derive(Clone, Copy, Debug)]
pub struct BodyTraits {
    /// Whether GPU, model and framework are beside the keys of the request.
    pub has_target: bool,
    /// Whether it has the key `workload`.
    pub has_workload: bool,
}

impl BodyTraits {
    /// A request that has a target.
    pub const TARGETED: Self = Self {
        has_target: true,
        ..Self::PLAIN
    };
    /// A request alone.
    pub const PLAIN: Self = Self {
        has_target: false,
        has_workload: false,
    };
    /// A request with a workload.
    const WORKING: Self = Self {
        has_workload: true,
        ..Self::TARGETED
    };
}

/// What a body is read as.
pub trait Bodied: FromJson + Send {
    /// What it holds besides.
    const BODY: BodyTraits = BodyTraits::TARGETED;
}

impl Bodied for GemmRequest {}
impl Bodied for AttentionRequest {}
impl Bodied for BatchRequest {}
impl Bodied for GraphRequest {}
impl Bodied for PlanRequest {}
impl Bodied for ModelRequest {
    const BODY: BodyTraits = BodyTraits::WORKING;
}
impl Bodied for StepRequest {
    const BODY: BodyTraits = BodyTraits::WORKING;
}
impl Bodied for SearchRequest {
    const BODY: BodyTraits = BodyTraits::WORKING;
}
impl Bodied for PruneRequest {
    const BODY: BodyTraits = BodyTraits::WORKING;
}
impl Bodied for CalibrateRequest {
    const BODY: BodyTraits = BodyTraits::PLAIN;
}
impl Bodied for NoRequest {
    const BODY: BodyTraits = BodyTraits::PLAIN;
}

/// Nothing to choose.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NoRequest {}

/// Reads a request, with its target where it has one.
pub fn body<R: Bodied>(body: Value) -> Result<(R, TargetRequest)> {
    match R::BODY.has_target {
        true => read(body),
        false => Ok((R::from_json(body, "")?, TargetRequest::default())),
    }
}

/// The object of these keys, and the rest.
pub fn apart(mut body: Value, keys: &[&str]) -> (Value, Value) {
    let taken = taken(&mut body, |key| keys.contains(&key));
    (Value::Object(taken), body)
}

/// Keys as an error goes on to list them.
pub fn listed(keys: &[&str]) -> String {
    keys.iter().map(|key| format!(", `{key}`")).collect()
}

/// Reads JSON without GPU and model.
pub fn plain<R: DeserializeOwned>(body: Value) -> Result<R> {
    read_as(body, "")
}

/// The same sentence with the options between its backticks as JSON has them: `--tp 8 --pp 2` is `"tp": 8, "pp": 2`.
pub fn in_keys(sentence: &str) -> String {
    let spans = sentence.split('`').enumerate().map(|(at, span)| {
        let options: Vec<_> = span.split("--").skip(1).collect();
        let is_list = options.len() > 1;
        let options: Vec<_> = options.into_iter().map(|option| in_key(option, is_list)).collect();
        match at % 2 == 1 && span.starts_with("--") {
            true => options.join(", "),
            false => span.to_owned(),
        }
    });
    spans.collect::<Vec<_>>().join("`")
}

fn in_key(option: &str, is_in_list: bool) -> String {
    let (name, value) = option.trim().split_once(' ').unwrap_or((option.trim(), ""));
    let name = name.replace('-', "_");
    match value {
        "" if is_in_list => format!("\"{name}\": true"),
        "" => name,
        _ if name == "relax" => format!("\"{name}\": [\"{value}\"]"),
        _ if value.parse::<f64>().is_ok() => format!("\"{name}\": {value}"),
        _ => format!("\"{name}\": \"{value}\""),
    }
}

/// Moves top-level keys of the workload to where a request has them.
///
/// Keyword arguments and columns of a table are flat.
pub fn with_workload(mut body: Value) -> Value {
    let moved = taken(&mut body, WorkloadRequest::has);
    if let Some(object) = body.as_object_mut()
        && !moved.is_empty()
    {
        let workload = object.entry("workload").or_insert_with(|| Map::new().into());
        if let Some(workload) = workload.as_object_mut() {
            workload.extend(moved);
        }
    }
    body
}

/// The key `kind` of an object, and the rest of it.
pub fn kind_of(mut body: Value) -> (Option<Value>, Value) {
    let kind = taken(&mut body, |key| key == "kind").remove("kind");
    (kind, body)
}

/// The error of a kind that is not allowed.
pub fn other_kind(kind: Option<Value>, allowed: &str) -> Error {
    let found = kind.map_or_else(|| "absent".to_owned(), |kind| kind.to_string());
    Error::field(PLACE, "kind", found, allowed)
}

/// Takes the keys that are `wanted` out of an object.
fn taken(body: &mut Value, wanted: impl Fn(&str) -> bool) -> Map<String, Value> {
    let mut taken = Map::new();
    if let Some(object) = body.as_object_mut() {
        for (key, value) in std::mem::take(object) {
            let side = if wanted(&key) { &mut taken } else { &mut *object };
            side.insert(key, value);
        }
    }
    taken
}

/// Reads JSON beside which these `others` are allowed.
fn read_as<R: DeserializeOwned>(body: Value, others: &str) -> Result<R> {
    serde_path_to_error::deserialize(&body).map_err(|error| {
        let place = dotted(error.path());
        let found = at(&body, error.path());
        refused(&place, found, &error.into_inner().to_string(), others)
    })
}

/// The error behind a sentence of serde.
fn refused(place: &str, found: Option<&Value>, sentence: &str, others: &str) -> Error {
    let quoted = sentence.split('`').nth(1).unwrap_or("");
    let inner = |name: &str| match place {
        "" => name.to_owned(),
        place => format!("{place}.{name}"),
    };
    let expected = sentence.split_once("expected ").map(|(_, wanted)| wanted);
    if sentence.starts_with("missing field") {
        let allowed = match quoted {
            "architecture" => "a preset or a config.json; `model` names trained models",
            _ => "a value; it has no default",
        };
        return Error::field(PLACE, &inner(quoted), "absent", allowed);
    }
    if sentence.starts_with("unknown field") {
        // The path of an unknown field ends with it.
        let field = match place.rsplit('.').next() == Some(quoted) {
            true => place.to_owned(),
            false => inner(quoted),
        };
        let others = if field == quoted { others } else { "" };
        let allowed = format!("{}{others}", expected.unwrap_or("no other field"));
        return Error::field(PLACE, &field, "unknown", &allowed);
    }
    let value = found.map_or_else(|| "absent".to_owned(), Value::to_string);
    let place = if place.is_empty() { WHOLE } else { place };
    Error::field(PLACE, place, value, &in_words(expected.unwrap_or(sentence)))
}

/// What serde expected, in words.
fn in_words(expected: &str) -> String {
    match expected.strip_prefix("struct ") {
        Some(_) => "an object".to_owned(),
        None => match expected {
            "u64" => "a whole number of at least 0".to_owned(),
            "f64" => "a number".to_owned(),
            "a boolean" => "true or false".to_owned(),
            "a sequence" => "a list".to_owned(),
            "a map" => "an object".to_owned(),
            other => other.to_owned(),
        },
    }
}

/// A path as `workload.batch` or `ops[3].m`.
fn dotted(path: &Path) -> String {
    let text = path.to_string();
    if text == "." { String::new() } else { text }
}

/// The value at a path.
fn at<'a>(body: &'a Value, path: &Path) -> Option<&'a Value> {
    path.iter().try_fold(body, |value, segment| match segment {
        Segment::Map { key } => value.get(key),
        Segment::Seq { index } => value.get(index),
        Segment::Enum { .. } | Segment::Unknown => Some(value),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{ModelRequest, Size};
    use serde_json::json;

    #[test]
    fn options_of_a_sentence_become_keys() {
        for (sentence, in_json) in [
            (
                "what would free it: `--dp 8 --zero 1`, or `--dtype fp8`, or `--relax layers`, or without `--d-ff`",
                "what would free it: `\"dp\": 8, \"zero\": 1`, or `\"dtype\": \"fp8\"`, or `\"relax\": [\"layers\"]`, or without `d_ff`",
            ),
            ("`m` is --; allowed: a -- b", "`m` is --; allowed: a -- b"),
        ] {
            assert_eq!(in_keys(sentence), in_json);
        }
    }

    #[test]
    fn keys_of_the_workload_may_stand_beside_the_others() {
        let flat = json!({"architecture": "gpt2", "gpu": "a100", "batch": 2, "mode": "decode"});
        let (request, target) = read::<ModelRequest>(with_workload(flat)).unwrap();
        assert_eq!(request.workload.batch, Some(Size::Number(2)));
        assert_eq!(target.gpu.as_deref(), Some("a100"));
        let mixed = json!({"architecture": "gpt2", "workload": {"seq": 8}, "batch": 0});
        let refused = read::<ModelRequest>(with_workload(mixed)).unwrap_err();
        let at = refused.field_error().unwrap();
        assert_eq!((&*at.field, &*at.value), ("workload.batch", "0"));
    }
}
