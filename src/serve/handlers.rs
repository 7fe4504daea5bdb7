//! One function per address: request in, document out.

use crate::answer;
use crate::answer::catalog;
use crate::answer::question::{Load, Question, unwatched};
use crate::error::Error;
use crate::gpu::Gpu;
use crate::ops::Op;
use crate::report::Report;
use crate::report::operator::OperatorsReport;
use crate::request::json::BodyTraits;
use crate::request::{TargetRequest, read_operator};
use crate::search::Watch;
use crate::serve::admission::RETRY_AFTER;
use crate::serve::body::{self, BatchRequest, JsonRequest};
use crate::serve::problem::{self, Problem};
use crate::serve::{App, metrics, schema, search};
use axum::body::{Body, Bytes};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use futures_util::stream;
use serde_json::{Map, Value};
use std::convert::Infallible;
use std::sync::{Arc, OnceLock};
use utoipa::IntoResponses;

/// What every request may be answered with instead.
#[derive(IntoResponses)]
#[allow(dead_code)] // described, never built
pub enum Problems {
    /// The body is not JSON
    #[response(status = 400, content_type = "application/problem+json")]
    NotJson(#[to_schema] problem::Document),
    /// The body did not arrive in time
    #[response(status = 408, content_type = "application/problem+json")]
    TooSlow(#[to_schema] problem::Document),
    /// The body is larger than 1 MiB
    #[response(status = 413, content_type = "application/problem+json")]
    TooLarge(#[to_schema] problem::Document),
    /// The body is not declared as JSON
    #[response(status = 415, content_type = "application/problem+json")]
    MediaType(#[to_schema] problem::Document),
    /// The header `Host` names another service
    #[response(status = 421, content_type = "application/problem+json")]
    OtherHost(#[to_schema] problem::Document),
    /// A field is wrong, or no answer can meet the request
    #[response(status = 422, content_type = "application/problem+json")]
    Field(#[to_schema] problem::Document),
    /// Too many requests at once; `Retry-After` says when to try again
    #[response(status = 429, content_type = "application/problem+json")]
    Busy(#[to_schema] problem::Document),
    /// Address and headers have more than 64 KiB
    #[response(status = 431, content_type = "application/problem+json")]
    LargeHeaders(#[to_schema] problem::Document),
    /// A bug of the service; `instance` names it in the log
    #[response(status = 500, content_type = "application/problem+json")]
    Fault(#[to_schema] problem::Document),
    /// The answer takes too long
    #[response(status = 503, content_type = "application/problem+json")]
    OverTime(#[to_schema] problem::Document),
}

/// A document as a response.
pub fn json(text: String) -> Response {
    let kind = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

pub type Answered = Result<Response, Problem>;

/// The route of a question: a document for a body, or a list.
pub fn route(question: &'static Question) -> MethodRouter<App> {
    if question.example.is_some() {
        return post(async move |State(app): State<App>, request: Request| {
            let headers = request.headers().clone();
            let body = body::value(&body::arrived(request, &app).await?)?;
            asked(question, &app, body, &headers).await
        });
    }
    let known = Arc::new(OnceLock::new());
    get(async move |State(app): State<App>| -> Answered {
        if known.get().is_none() {
            let list = question.read(Value::Object(Map::new()), app.predictors.clone())?;
            let list = list(&unwatched)?.json();
            let _ = known.set(list);
        }
        Ok(json(known.get().cloned().unwrap_or_default()))
    })
}

/// The answer to a question with this body.
async fn asked(question: &'static Question, app: &App, body: Value, headers: &HeaderMap) -> Answered {
    let keys = body.as_object().into_iter().flat_map(Map::keys);
    let keys: Arc<[String]> = keys.cloned().collect();
    let named = move |error| named(error, question.body(), &keys);
    let answer = question.read(body, app.predictors.clone()).map_err(&named)?;
    let answer = move |watch: &Watch<'_>| -> Result<String, Problem> { Ok(answer(watch).map_err(&named)?.json()) };
    match question.load {
        Load::Moment => Ok(json(answer(&unwatched)?)),
        Load::Job => work(app, move || answer(&unwatched)).await,
        Load::Search => search::answered(app, headers, answer).await,
    }
}

/// The problem behind an error, in a field as a body of these keys names it.
fn named(error: Error, body: BodyTraits, keys: &[String]) -> Problem {
    let is_outside = error.field_error().is_some_and(|at| keys.contains(&at.field));
    let problem = Problem::from(error);
    if body.has_workload && !is_outside {
        problem.within_workload()
    } else {
        problem
    }
}

/// Predict up to 10,000 operators.
#[utoipa::path(
    post, path = "/v1/predict/batch", tag = "predict",
    request_body(content = schema::BatchBody, example = json!({"ops": [
        {"kind": "gemm", "m": 8192, "n": 4096, "k": 4096},
        {"kind": "attention", "batch": 4, "heads": 32, "seq_q": 2048, "head_dim": 128},
    ]})),
    responses((status = 200, description = "The time of each, in order", body = schema::Operators), Problems),
)]
pub async fn predict_batch(State(app): State<App>, asked: JsonRequest<BatchRequest>) -> Answered {
    let found = asked.request.ops.len();
    if !(1..=body::MOST_OPS).contains(&found) {
        let (found, allowed) = (format!("{found} long"), format!("1 to {}", body::MOST_OPS));
        return Err(Problem::field("ops", &found, &allowed));
    }
    let predictor = app.predictors.built_in(&asked.target)?;
    let gpu = predictor.gpu();
    let ops = asked.request.ops.into_iter().enumerate();
    let ops: Vec<Op> = ops
        .map(|(at, op)| read_operator(gpu, op).map_err(|error| Problem::from(error).within(&format!("ops[{at}]"))))
        .collect::<Result<_, Problem>>()?;
    let answer = work(&app, move || {
        let ops = answer::operators(&predictor, &ops)?;
        Ok(OperatorsReport { ops }.json())
    });
    answer.await
}

/// Makes a document that takes more than a moment: admitted as a job, on a thread of its own.
pub async fn work(app: &App, work: impl FnOnce() -> Result<String, Problem> + Send + 'static) -> Answered {
    let within = app.limits.answer_time;
    let work = app.jobs.admit()?.run(work);
    match tokio::time::timeout(within, work).await {
        Err(_) => Err(Problem::over_time(within)),
        Ok(None) => Err(app.fault()),
        Ok(Some(done)) => sent(app, done?),
    }
}

/// The most of an answer that is handed over at once, and the least that counts against the budget of unsent bytes.
const CHUNK: usize = 64 << 10;

/// A document that may be large: it is handed over in chunks, and counts against the budget of unsent bytes until the
/// client has taken the last of them.
fn sent(app: &App, text: String) -> Answered {
    if text.len() <= CHUNK {
        return Ok(json(text));
    }
    let (bytes, length) = (Bytes::from(text), app.limits.unsent_bytes);
    let weight = u32::try_from(bytes.len().min(length)).unwrap_or(u32::MAX);
    let budget = Arc::clone(&app.unsent).try_acquire_many_owned(weight);
    let held = budget.map_err(|_| Problem::busy("answers that are not taken", RETRY_AFTER))?;
    let length = HeaderValue::from(bytes.len());
    let chunks = stream::unfold((bytes, held), |(mut rest, held)| async move {
        let chunk = rest.split_to(rest.len().min(CHUNK));
        (!chunk.is_empty()).then(|| (Ok::<_, Infallible>(chunk), (rest, held)))
    });
    let mut response = Body::from_stream(chunks).into_response();
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("application/json");
    headers.insert(header::CONTENT_TYPE, kind);
    headers.insert(header::CONTENT_LENGTH, length);
    Ok(response)
}

/// Show every figure of a GPU with its source, and what answers for it.
#[utoipa::path(
    get, path = "/v1/gpus/{name}", tag = "catalog", params(("name" = String, Path, description = "A name or an alias", example = "h200")),
    responses(
        (status = 200, description = "One GPU", body = schema::Gpu),
        (status = 404, description = "No GPU has this name", body = problem::Document, content_type = "application/problem+json"),
    ),
)]
pub async fn gpu(State(app): State<App>, name: Result<Path<String>, PathRejection>) -> Answered {
    let Path(name) = name.map_err(|_| Problem::nothing_here())?;
    let gpu = Gpu::find(&name).map_err(|error| Problem::unknown(&error))?;
    let target = TargetRequest {
        gpu: Some(gpu.name.clone()),
        ..TargetRequest::default()
    };
    let predictor = app.predictors.built_in(&target)?;
    Ok(json(catalog::gpu(&predictor).json()))
}

/// Say that the program runs.
#[utoipa::path(get, path = "/healthz", tag = "service", responses((status = 200, description = "It runs", body = String)))]
pub async fn healthz() -> &'static str {
    "ok\n"
}

/// Say whether new requests are taken.
#[utoipa::path(
    get, path = "/readyz", tag = "service",
    responses(
        (status = 200, description = "It takes requests", body = String),
        (status = 503, description = "It is about to end", body = String),
    ),
)]
pub async fn readyz(State(app): State<App>) -> (StatusCode, &'static str) {
    if app.drains() {
        (StatusCode::SERVICE_UNAVAILABLE, "about to end\n")
    } else {
        (StatusCode::OK, "ready\n")
    }
}

/// Show what is counted, in the text format of Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "service", responses((
    status = 200, description = "Counters", body = String, content_type = "application/openmetrics-text",
)))]
pub async fn metrics(State(app): State<App>) -> impl IntoResponse {
    let kind = HeaderValue::from_static(metrics::MEDIA_TYPE);
    let admissions = [("search", &*app.searches), ("job", &*app.jobs)];
    ([(header::CONTENT_TYPE, kind)], app.metrics.text(admissions))
}
