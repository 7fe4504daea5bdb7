//! One function per address: request in, document out.

use crate::answer::catalog;
use crate::answer::question::{Load, Question, unwatched};
use crate::error::Error;
use crate::gpu::Gpu;
use crate::report::Report;
use crate::request::TargetRequest;
use crate::request::json::BodyTraits;
use crate::search::Watch;
use crate::serve::admission::RETRY_AFTER;
use crate::serve::body;
use crate::serve::problem::{self, Problem};
use crate::serve::{App, metrics, schema, search};
use axum::body::{Body, Bytes};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use futures_util::stream;
use serde_json::{Map, Value};
use std::convert::Infallible;
use std::sync::{Arc, OnceLock};

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
    get(
        async move |State(app): State<App>, RawQuery(query): RawQuery| -> Answered {
            no_query(query.as_deref(), "nothing; the list is whole")?;
            if known.get().is_none() {
                let list = question.read(Value::Object(Map::new()), app.predictors.clone())?;
                let list = list(&unwatched)?.json();
                let _ = known.set(list);
            }
            Ok(json(known.get().cloned().unwrap_or_default()))
        },
    )
}

/// Refuses a query string, since no address reads one.
pub fn no_query(query: Option<&str>, allowed: &str) -> Result<(), Problem> {
    match query {
        None | Some("") => Ok(()),
        Some(query) => Err(Problem::field("query string", query, allowed)),
    }
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

/// Makes a document that takes more than a moment: admitted as a job, on a thread of its own.
async fn work(app: &App, work: impl FnOnce() -> Result<String, Problem> + Send + 'static) -> Answered {
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
pub async fn gpu(
    State(app): State<App>,
    RawQuery(query): RawQuery,
    name: Result<Path<String>, PathRejection>,
) -> Answered {
    no_query(query.as_deref(), "nothing; the name of the GPU is in the path")?;
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
