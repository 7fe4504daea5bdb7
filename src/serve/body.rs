//! From the bytes of a body to a question, or to a problem that names field, value and what is allowed.

use crate::serve::App;
use crate::serve::limits::Limits;
use crate::serve::problem::Problem;
use crate::serve::problem::shortened;
use crate::serve::wire::Question;
use axum::body;
use axum::body::Body;
use axum::extract::FromRequest;
use axum::extract::Request;
use axum::http::header;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use serde_path_to_error::{Path, Segment};

/// The question of a request.
pub struct Asked<Q>(pub Q);

impl<Q: Question> FromRequest<App> for Asked<Q> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let declared = request.headers().get(header::CONTENT_TYPE);
        let declared = declared.and_then(|kind| kind.to_str().ok()).unwrap_or("");
        if !is_json(declared) {
            return Err(Problem::not_declared());
        }
        let query = request.uri().query().map(str::to_owned);
        let bytes = whole(request.into_body(), &app.limits).await?;
        read(&bytes, query.as_deref()).map(Self)
    }
}

/// Whether a media type is JSON, with or without parameters.
fn is_json(declared: &str) -> bool {
    let kind = declared.split(';').next().unwrap_or("").trim();
    let kind = kind.to_ascii_lowercase();
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}

/// The whole body, if it is small enough and arrives in time.
async fn whole(body: Body, limits: &Limits) -> Result<body::Bytes, Problem> {
    let arriving = body::to_bytes(body, limits.body_bytes);
    match tokio::time::timeout(limits.body_time, arriving).await {
        Err(_) => Err(Problem::too_slow(limits.body_time)),
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) if is_too_long(&error) => Err(Problem::too_large(limits.body_bytes)),
        Ok(Err(_)) => Err(Problem::not_json("the body broke off".to_owned())),
    }
}

fn is_too_long(error: &axum::Error) -> bool {
    let source = std::error::Error::source(error);
    source.is_some_and(|source| source.is::<http_body_util::LengthLimitError>())
}

/// Reads the bytes of a body; `query` is the query string beside it.
pub fn read<Q: Question>(bytes: &[u8], query: Option<&str>) -> Result<Q, Problem> {
    let body: Value = serde_json::from_slice(bytes)
        .map_err(|error| Problem::not_json(format!("the body is not JSON: {error}")))?;
    let pairs = pairs(query.unwrap_or(""));
    let is_config = body.get("model_type").is_some();
    if is_config && let Some(question) = Q::about(body.clone(), pairs.clone()) {
        let mut question: Q = parse(question).map_err(|problem| problem.beside(true))?;
        question.note_bare();
        return Ok(question);
    }
    if let Some((key, value)) = pairs.into_iter().next() {
        let allowed = "no query string, unless the body is a config.json";
        return Err(Problem::field(&key, &shown(&value), allowed));
    }
    parse(body)
}

/// The pairs of a query string; numbers and truth values are read as such.
fn pairs(query: &str) -> Map<String, Value> {
    let pairs = form_urlencoded::parse(query.as_bytes());
    let read = pairs.map(|(key, text)| {
        let value = match serde_json::from_str(&text) {
            Ok(value @ (Value::Number(_) | Value::Bool(_))) => value,
            _ => Value::String(text.into_owned()),
        };
        (key.into_owned(), value)
    });
    read.collect()
}

/// Reads a question from JSON.
pub fn parse<Q: DeserializeOwned>(body: Value) -> Result<Q, Problem> {
    serde_path_to_error::deserialize(&body).map_err(|error| {
        let place = dotted(error.path());
        let found = at(&body, error.path());
        refused(&place, found, &error.into_inner().to_string())
    })
}

/// The problem behind a sentence of serde.
fn refused(place: &str, found: Option<&Value>, sentence: &str) -> Problem {
    let quoted = sentence.split('`').nth(1).unwrap_or("");
    let inner = |name: &str| match place {
        "" => name.to_owned(),
        place => format!("{place}.{name}"),
    };
    let expected = sentence.split_once("expected ").map(|(_, wanted)| wanted);
    if sentence.starts_with("missing field") {
        return Problem::field(&inner(quoted), "absent", "a value; it has no default");
    }
    if sentence.starts_with("unknown field") {
        // The path of an unknown field ends with it.
        let field = match place.rsplit('.').next() == Some(quoted) {
            true => place.to_owned(),
            false => inner(quoted),
        };
        return Problem::field(&field, "unknown", expected.unwrap_or("no other field"));
    }
    let value = found.map_or_else(|| "absent".to_owned(), shown);
    Problem::field(place, &value, &plain(expected.unwrap_or(sentence)))
}

/// What serde expected, in words.
fn plain(expected: &str) -> String {
    match expected.strip_prefix("struct ") {
        Some(_) => "an object".to_owned(),
        None => match expected {
            "u64" => "a whole number of at least 0".to_owned(),
            "f64" => "a number".to_owned(),
            "a boolean" => "true or false".to_owned(),
            "a sequence" => "a list".to_owned(),
            other => other.to_owned(),
        },
    }
}

/// A path as `workload.batch` or `ops[3].m`.
fn dotted(path: &Path) -> String {
    let text = path.to_string();
    if text == "." { String::new() } else { text }
}

/// What stands at a path.
fn at<'a>(body: &'a Value, path: &Path) -> Option<&'a Value> {
    path.iter().try_fold(body, |value, segment| match segment {
        Segment::Map { key } => value.get(key),
        Segment::Seq { index } => value.get(index),
        Segment::Enum { .. } | Segment::Unknown => Some(value),
    })
}

/// A value as messages repeat it.
fn shown(value: &Value) -> String {
    shortened(&value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::wire;
    use serde_json::json;

    fn refusal<Q: Question>(body: &Value) -> Value {
        let problem = match read::<Q>(body.to_string().as_bytes(), None) {
            Ok(_) => panic!("{body} was taken"),
            Err(problem) => problem,
        };
        serde_json::from_str(&problem.json()).unwrap()
    }

    #[test]
    fn a_problem_names_field_value_and_what_is_allowed() {
        let gemm = |m: Value| json!({"m": m, "n": 8, "k": 8});
        for (body, field, value, allowed) in [
            (gemm(json!(0)), "m", "0", "whole number from 1 to"),
            (gemm(json!("8")), "m", "\"8\"", "whole number from 1 to"),
            (gemm(json!(1.5)), "m", "1.5", "whole number"),
            (json!({"m": 8, "n": 8}), "k", "absent", "no default"),
            (
                json!({"m": 8, "n": 8, "k": 8, "o": 1}),
                "o",
                "unknown",
                "`m`",
            ),
            (
                json!({"m": 8, "n": 8, "k": 8, "dtype": "int8"}),
                "dtype",
                "\"int8\"",
                "`bf16`",
            ),
        ] {
            let problem = refusal::<wire::Gemm>(&body);
            assert_eq!(problem["status"], 422, "{body}");
            assert_eq!(problem["field"], field, "{problem}");
            assert_eq!(problem["value"], value, "{problem}");
            let told = problem["allowed"].as_str().unwrap();
            assert!(told.contains(allowed), "{body}: {told}");
        }
    }

    #[test]
    fn nested_fields_are_named_with_their_path() {
        let model = json!({"architecture": "gpt2", "workload": {"batch": 0}});
        assert_eq!(refusal::<wire::Model>(&model)["field"], "workload.batch");
        let model = json!({"architecture": "gpt2", "workload": {"bach": 1}});
        assert_eq!(refusal::<wire::Model>(&model)["field"], "workload.bach");
        let model = json!({"architecture": 3});
        let problem = refusal::<wire::Model>(&model);
        assert_eq!(problem["field"], "architecture");
        assert!(problem["allowed"].as_str().unwrap().contains("preset"));
        let search = json!({"params": "6.7B", "relax": ["layers", "width"]});
        assert_eq!(refusal::<wire::Search>(&search)["field"], "relax[1]");
    }

    #[test]
    fn what_is_not_an_object_is_refused() {
        for body in [json!([]), json!(null), json!(1), json!("gemm")] {
            let problem = refusal::<wire::Gemm>(&body);
            assert_eq!(problem["status"], 422, "{problem}");
        }
        let problem = read::<wire::Gemm>(b"{", None).unwrap_err();
        assert_eq!(problem.status().as_u16(), 400);
        let deep = "[".repeat(10_000);
        let problem = read::<wire::Gemm>(deep.as_bytes(), None).unwrap_err();
        assert_eq!(problem.status().as_u16(), 400);
    }

    #[test]
    fn a_config_may_be_the_body_with_the_rest_in_the_query_string() {
        let config = json!({"model_type": "llama", "hidden_size": 64});
        let bytes = config.to_string();
        let read_with = |query| read::<wire::Model>(bytes.as_bytes(), Some(query));
        let model = read_with("gpu=a100&mode=decode&batch=8&sequence_parallel=true").unwrap();
        assert_eq!(model.gpu, "a100");
        assert_eq!(model.workload.batch.unwrap().0, 8);
        assert!(model.workload.sequence_parallel);
        let problem = read_with("batch=eight").unwrap_err();
        assert!(
            problem.json().contains("\"field\": \"batch\""),
            "{problem:?}"
        );
        let problem = read::<wire::Gemm>(br#"{"m":1,"n":1,"k":1}"#, Some("gpu=a100"));
        assert!(problem.unwrap_err().json().contains("query string"));
    }
}
