//! From the bytes of a body to a request, or to a problem that names field, value and what is allowed.

use crate::answer::predictors::Predictors;
use crate::answer::question::Context;
use crate::arch::{Architecture, Preset, read_object};
use crate::error::{self, Error};
use crate::predict::Predictor;
use crate::request::json;
use crate::request::{ArchitectureRequest, TargetRequest, UNNAMED};
use crate::serve::App;
use crate::serve::handlers::no_query;
use crate::serve::limits::Limits;
use crate::serve::problem::Problem;
use axum::body::{self, Body};
use axum::extract::Request;
use axum::http::header;
use futures_util::StreamExt;
use serde_json::Value;
use std::sync::Arc;

/// The bytes of a body that is declared as JSON.
pub async fn arrived(request: Request, app: &App) -> Result<body::Bytes, Problem> {
    let declared = request.headers().get(header::CONTENT_TYPE);
    let declared = declared.and_then(|kind| kind.to_str().ok()).unwrap_or("");
    let is_declared = is_json(declared);
    let length = request.headers().get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > (DRAINED * app.limits.body_bytes) as u64) {
        return Err(Problem::too_large(app.limits.body_bytes));
    }
    let query = request.uri().query().map(str::to_owned);
    // A body that is refused is read too, so that the next request of the connection is found behind it.
    let bytes = whole(request.into_body(), &app.limits).await?;
    match is_declared {
        false => Err(Problem::not_declared()),
        true => no_query(query.as_deref(), "nothing; all keys are in the body").map(|()| bytes),
    }
}

/// Whether a media type is JSON, with or without parameters.
fn is_json(declared: &str) -> bool {
    let kind = declared.split(';').next().unwrap_or("").trim();
    let kind = kind.to_ascii_lowercase();
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}

/// How much of a body that is too large is still read, in bodies of the largest size: a client that is cut off while it
/// sends may never see why.
const DRAINED: usize = 16;

/// The whole body, if it is small enough and arrives in time.
async fn whole(body: Body, limits: &Limits) -> Result<body::Bytes, Problem> {
    let mut arriving = body.into_data_stream();
    let (mut bytes, mut length) = (Vec::new(), 0);
    let read = async {
        while let Some(chunk) = arriving.next().await {
            let Ok(chunk) = chunk else {
                return Err(Problem::not_json("the body broke off".to_owned()));
            };
            length += chunk.len();
            if length <= limits.body_bytes {
                bytes.extend_from_slice(&chunk);
            } else if length > DRAINED * limits.body_bytes {
                break;
            }
        }
        Ok(())
    };
    match tokio::time::timeout(limits.body_time, read).await {
        Err(_) => Err(Problem::too_slow(limits.body_time)),
        Ok(Err(problem)) => Err(problem),
        Ok(Ok(())) if length > limits.body_bytes => Err(Problem::too_large(limits.body_bytes)),
        Ok(Ok(())) => Ok(bytes.into()),
    }
}

/// The JSON of a body.
pub fn value(bytes: &[u8]) -> Result<Value, Problem> {
    serde_json::from_slice(bytes).map_err(|error| Problem::not_json(format!("the body is not JSON: {error}")))
}

/// The service answers from what is built in and reads no files.
impl Context for Predictors {
    fn predictor(&self, target: &TargetRequest) -> error::Result<Arc<Predictor>> {
        self.built_in(target)
    }

    fn architecture(&self, key: &str, request: &ArchitectureRequest) -> error::Result<Arc<Architecture>> {
        architecture(request, key).map(Arc::new)
    }

    fn reads_files(&self) -> bool {
        false
    }
}

/// The architecture that `key` of a body holds; no path, as the service reads no files.
pub fn architecture(request: &ArchitectureRequest, key: &str) -> error::Result<Architecture> {
    match request {
        ArchitectureRequest::Named(name) => Preset::published(name).map_err(|_| {
            let nearest = Preset::nearest(name).join(", ");
            let allowed = format!("a preset, nearest {nearest}, or the object of a config.json");
            Error::field(json::PLACE, key, format!("\"{name}\""), &allowed)
        }),
        ArchitectureRequest::Config(config) => read_object(config, UNNAMED, key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::json::Bodied;
    use crate::request::{GemmRequest, ModelRequest, SearchRequest};
    use serde_json::json;

    fn read<R: Bodied>(bytes: &[u8]) -> Result<R, Problem> {
        Ok(json::body(value(bytes)?)?.0)
    }

    fn refusal<R: Bodied>(body: &Value) -> Value {
        let problem = match read::<R>(body.to_string().as_bytes()) {
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
            (json!({"m": 8, "n": 8, "k": 8, "o": 1}), "o", "unknown", "`m`"),
            (
                json!({"m": 8, "n": 8, "k": 8, "dtype": "int9"}),
                "dtype",
                "\"int9\"",
                "`bf16`",
            ),
        ] {
            let problem = refusal::<GemmRequest>(&body);
            assert_eq!(problem["status"], 422, "{body}");
            assert_eq!(problem["field"], field, "{problem}");
            assert_eq!(problem["value"], value, "{problem}");
            let refusal = problem["allowed"].as_str().unwrap();
            assert!(refusal.contains(allowed), "{body}: {refusal}");
        }
    }

    #[test]
    fn nested_fields_are_named_with_their_path() {
        let model = json!({"architecture": "gpt2", "workload": {"batch": 0}});
        assert_eq!(refusal::<ModelRequest>(&model)["field"], "workload.batch");
        let model = json!({"architecture": "gpt2", "workload": {"bach": 1}});
        assert_eq!(refusal::<ModelRequest>(&model)["field"], "workload.bach");
        let model = json!({"architecture": 3});
        let problem = refusal::<ModelRequest>(&model);
        assert_eq!(problem["field"], "architecture");
        assert!(problem["allowed"].as_str().unwrap().contains("preset"));
        let search = json!({"params": "6.7B", "relax": ["layers", "width"]});
        assert_eq!(refusal::<SearchRequest>(&search)["field"], "relax[1]");
    }

    #[test]
    fn what_is_not_an_object_is_refused() {
        for body in [json!([]), json!(null), json!(1), json!("gemm")] {
            let problem = refusal::<GemmRequest>(&body);
            assert_eq!(problem["status"], 422, "{problem}");
        }
        let problem = read::<GemmRequest>(b"{").unwrap_err();
        assert_eq!(problem.status().as_u16(), 400);
        let deep = "[".repeat(10_000);
        let problem = read::<GemmRequest>(deep.as_bytes()).unwrap_err();
        assert_eq!(problem.status().as_u16(), 400);
    }
}
