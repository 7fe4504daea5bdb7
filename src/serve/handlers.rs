//! One function per address: request in, document out.

use crate::answer;
use crate::answer::catalog;
use crate::answer::sweep;
use crate::error::Error;
use crate::gpu::Gpu;
use crate::ops::Op;
use crate::predict::Predictor;
use crate::report::Report;
use crate::report::operator::OperatorsReport;
use crate::request;
use crate::request::AttentionRequest;
use crate::request::GemmRequest;
use crate::request::GraphRequest;
use crate::request::ModelRequest;
use crate::request::OperatorRequest;
use crate::request::PlanRequest;
use crate::request::Sizes;
use crate::request::StepRequest;
use crate::request::TargetRequest;
use crate::request::WorkloadRequest;
use crate::request::read_operator;
use crate::serve::App;
use crate::serve::admission::RETRY_AFTER;
use crate::serve::body;
use crate::serve::body::BatchRequest;
use crate::serve::body::JsonRequest;
use crate::serve::metrics;
use crate::serve::problem;
use crate::serve::problem::Problem;
use crate::serve::schema;
use axum::body::{Body, Bytes};
use axum::extract::Path;
use axum::extract::State;
use axum::extract::rejection::PathRejection;
use axum::http::HeaderValue;
use axum::http::StatusCode;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::de::DeserializeOwned;
use serde_json::Value;
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

/// Predict one GEMM.
#[utoipa::path(
    post, path = "/v1/predict/gemm", tag = "predict",
    request_body(content = schema::GemmBody, example = json!({"m": 8192, "n": 4096, "k": 4096})),
    responses((status = 200, description = "The time of the GEMM", body = schema::Operator), Problems),
)]
pub async fn predict_gemm(State(app): State<App>, asked: JsonRequest<GemmRequest>) -> Answered {
    one(&app, &asked)
}

/// Predict one fused attention.
#[utoipa::path(
    post, path = "/v1/predict/attention", tag = "predict",
    request_body(content = schema::AttentionBody, example = json!({"batch": 4, "heads": 32, "kv_heads": 8, "seq_q": 2048, "head_dim": 128, "causal": true})),
    responses((status = 200, description = "The time of the attention", body = schema::Operator), Problems),
)]
pub async fn predict_attention(State(app): State<App>, asked: JsonRequest<AttentionRequest>) -> Answered {
    one(&app, &asked)
}

fn one<R: OperatorRequest>(app: &App, asked: &JsonRequest<R>) -> Answered {
    let op = Sizes::fixed(|sizes| asked.request.op(sizes))?;
    let predictor = app.predictors.built_in(&asked.target)?;
    app.metrics.predicted(1);
    Ok(json(answer::operator(&predictor, &op)?.json()))
}

/// Judge one GEMM by the sizing rules: what bounds it and which near size is faster.
#[utoipa::path(
    post, path = "/v1/check/gemm", tag = "check",
    request_body(content = schema::GemmBody, example = json!({"m": 4096, "n": 11006, "k": 4096, "gpu": "h100"})),
    responses((status = 200, description = "What every rule on a GEMM says", body = schema::OperatorCheck), Problems),
)]
pub async fn check_gemm(State(app): State<App>, asked: JsonRequest<GemmRequest>) -> Answered {
    check_one(&app, &asked)
}

/// Judge one fused attention by the sizing rules: what bounds it and which near size is faster.
#[utoipa::path(
    post, path = "/v1/check/attention", tag = "check",
    request_body(content = schema::AttentionBody, example = json!({"batch": 4, "heads": 32, "seq_q": 2048, "head_dim": 80, "causal": true})),
    responses((status = 200, description = "What every rule on attention says", body = schema::OperatorCheck), Problems),
)]
pub async fn check_attention(State(app): State<App>, asked: JsonRequest<AttentionRequest>) -> Answered {
    check_one(&app, &asked)
}

fn check_one<R: OperatorRequest>(app: &App, asked: &JsonRequest<R>) -> Answered {
    let op = Sizes::fixed(|sizes| asked.request.op(sizes))?;
    let predictor = app.predictors.built_in(&asked.target)?;
    app.metrics.predicted(1);
    Ok(json(answer::check_operator(&predictor, &op)?.json()))
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
    let ops = asked.request.ops.into_iter().enumerate();
    let ops: Vec<Op> = ops
        .map(|(at, op)| {
            let read = read_operator(op).map_err(body::unreadable);
            read.map_err(|problem| problem.within(&format!("ops[{at}]")))
        })
        .collect::<Result<_, Problem>>()?;
    let answer = job(&app, &asked.target, move |predictor| {
        let ops = answer::operators(predictor, &ops)?;
        Ok(OperatorsReport { ops }.json())
    });
    let answer = answer.await?;
    app.metrics.predicted(found);
    Ok(answer)
}

/// Predict one step of a whole model, operator by operator.
#[utoipa::path(
    post, path = "/v1/predict/model", tag = "predict",
    request_body(content = schema::StepOrConfig, example = json!({"architecture": "llama-3-8b", "workload": {"mode": "decode"}})),
    params(TargetRequest, WorkloadRequest),
    responses((status = 200, description = "The time of the step", body = schema::Step), Problems),
)]
pub async fn predict_model(State(app): State<App>, asked: JsonRequest<StepRequest>) -> Answered {
    step(&app, &asked).map_err(|problem| problem.beside(asked.is_config))
}

fn step(app: &App, JsonRequest { request, target, .. }: &JsonRequest<StepRequest>) -> Answered {
    let base = body::architecture(&request.model.architecture, "architecture")?;
    let step = Sizes::fixed(|sizes| request.model.step(&base, sizes));
    let (architecture, workload) = step.map_err(in_workload)?;
    let predictor = app.predictors.built_in(target)?;
    let report = answer::step(&predictor, &architecture, &workload, &request.run)?;
    app.metrics.predicted(report.predicted());
    Ok(json(report.json()))
}

/// Predict every operator of an ONNX model or of a list, and their sum.
#[utoipa::path(
    post, path = "/v1/predict/graph", tag = "predict",
    request_body(content = schema::GraphBody, example = json!({"ops": [
        {"kind": "gemm", "m": 4096, "n": 11008, "k": 4096, "count": 32},
        {"kind": "memory", "function": "rms_norm", "rows": 4096, "cols": 4096, "count": 65},
    ]})),
    responses((status = 200, description = "The time of each operator", body = schema::Graph), Problems),
)]
pub async fn predict_graph(State(app): State<App>, asked: JsonRequest<GraphRequest>) -> Answered {
    let request = asked.request;
    let metrics = Arc::clone(&app.metrics);
    job(&app, &asked.target, move |predictor| {
        let (listing, name) = answer::graph::read(request)?;
        let report = answer::graph::report(predictor, &listing, &name)?;
        metrics.predicted(report.predicted());
        Ok(report.json())
    })
    .await
}

/// The problem behind an error about a model, which may be in a field of its workload.
pub fn in_workload(error: Error) -> Problem {
    Problem::from(error).within_workload()
}

/// Judge a shape by the sizing rules: what is broken, what it costs, what fixes it.
#[utoipa::path(
    post, path = "/v1/check", tag = "check",
    request_body(content = schema::ModelOrConfig, example = json!({"architecture": "gpt2", "gpu": "a100"})),
    params(TargetRequest, WorkloadRequest),
    responses((status = 200, description = "What every rule says", body = schema::Check), Problems),
)]
pub async fn check(State(app): State<App>, asked: JsonRequest<ModelRequest>) -> Answered {
    let checked = checked(&app, &asked).await;
    checked.map_err(|problem| problem.beside(asked.is_config))
}

async fn checked(app: &App, JsonRequest { request, target, .. }: &JsonRequest<ModelRequest>) -> Answered {
    let base = body::architecture(&request.architecture, "architecture")?;
    let described = Sizes::fixed(|sizes| request.described(&base, sizes));
    let (architecture, workload) = described.map_err(in_workload)?;
    job(app, target, move |predictor| {
        let report = answer::check(predictor, &architecture, &workload);
        Ok(report.map_err(in_workload)?.json())
    })
    .await
}

/// Find the fastest layout of a model over a number of GPUs.
#[utoipa::path(
    post, path = "/v1/plan", tag = "plan",
    request_body(content = schema::PlanBody, example = json!({"architecture": "llama-3-70b", "gpu": "h100", "gpus": 64})),
    responses((status = 200, description = "Ranked layouts for each number of GPUs", body = schema::Plan), Problems),
)]
pub async fn plan(State(app): State<App>, asked: JsonRequest<PlanRequest>) -> Answered {
    let request = asked.request;
    let base = body::architecture(&request.architecture, "architecture")?;
    job(&app, &asked.target, move |predictor| {
        Ok(answer::plan::plan(predictor, &base, &request)?.json())
    })
    .await
}

/// Hold GPUs beside each other, each with its best layout; `gpu` names several with commas between them, or `all`.
#[utoipa::path(
    post, path = "/v1/compare", tag = "plan",
    request_body(content = schema::PlanBody, example = json!({"architecture": "llama-3-8b", "gpu": "h100,h200,b200", "gpus": 8})),
    responses((status = 200, description = "The best layout on each GPU", body = schema::Compare), Problems),
)]
pub async fn compare(State(app): State<App>, asked: JsonRequest<PlanRequest>) -> Answered {
    let (request, target) = (asked.request, asked.target);
    let base = body::architecture(&request.architecture, "architecture")?;
    let predictors = Arc::clone(&app.predictors);
    work(&app, move || {
        let of = |target: &TargetRequest| predictors.built_in(target);
        Ok(answer::plan::compare(&base, &request, &target, of)?.json())
    })
    .await
}

/// Predict a GEMM, an attention or a model along one of its sizes, as `kind` says.
#[utoipa::path(
    post, path = "/v1/sweep", tag = "sweep",
    request_body(content = schema::AnySweep, example = json!({"kind": "gemm", "m": 2304, "n": "1536:6144:64", "k": 4096})),
    responses((status = 200, description = "The curve", body = schema::Sweep), Problems),
)]
pub async fn sweep_any(State(app): State<App>, asked: JsonRequest<Value>) -> Answered {
    fn read<R: DeserializeOwned>(request: Value) -> Result<R, Problem> {
        request::json::plain(request).map_err(body::unreadable)
    }
    let (kind, request) = request::json::kind_of(asked.request);
    let target = asked.target;
    match kind.as_ref().and_then(Value::as_str) {
        Some("gemm") => curve::<GemmRequest>(&app, &target, read(request)?).await,
        Some("attention") => curve::<AttentionRequest>(&app, &target, read(request)?).await,
        Some("model") => model_curve(&app, &target, read(request)?).await,
        _ => {
            let allowed = "`gemm`, `attention` or `model`";
            Err(body::unreadable(request::json::other_kind(kind, allowed)))
        }
    }
}

/// Predict one GEMM along one of its sizes.
#[utoipa::path(
    post, path = "/v1/sweep/gemm", tag = "sweep",
    request_body(content = schema::SweptGemm, example = json!({"m": 2304, "n": "1536:6144:64", "k": 4096})),
    responses((status = 200, description = "The curve", body = schema::Sweep), Problems),
)]
pub async fn sweep_gemm(State(app): State<App>, asked: JsonRequest<GemmRequest>) -> Answered {
    curve(&app, &asked.target, asked.request).await
}

/// Predict one fused attention along one of its sizes.
#[utoipa::path(
    post, path = "/v1/sweep/attention", tag = "sweep",
    request_body(content = schema::SweptAttention, example = json!({"batch": 4, "heads": "8:32:8", "seq_q": 2048, "head_dim": 128})),
    responses((status = 200, description = "The curve", body = schema::Sweep), Problems),
)]
pub async fn sweep_attention(State(app): State<App>, asked: JsonRequest<AttentionRequest>) -> Answered {
    curve(&app, &asked.target, asked.request).await
}

/// Predict one step of a whole model along one of its sizes.
#[utoipa::path(
    post, path = "/v1/sweep/model", tag = "sweep",
    request_body(content = schema::SweptModel, example = json!({"architecture": "gpt2", "vocab": "50257:50304:47"})),
    responses((status = 200, description = "The curve", body = schema::Sweep), Problems),
)]
pub async fn sweep_model(State(app): State<App>, asked: JsonRequest<ModelRequest>) -> Answered {
    model_curve(&app, &asked.target, asked.request).await
}

async fn curve<R: OperatorRequest>(app: &App, target: &TargetRequest, request: R) -> Answered {
    job(app, target, move |predictor| {
        Ok(sweep::operator(predictor, &request, None)?.json())
    })
    .await
}

async fn model_curve(app: &App, target: &TargetRequest, request: ModelRequest) -> Answered {
    let base = body::architecture(&request.architecture, "architecture")?;
    job(app, target, move |predictor| {
        let report = sweep::model(predictor, &base, &request);
        Ok(report.map_err(in_workload)?.json())
    })
    .await
}

/// Makes a document that takes more than a moment: admitted as a job, on a thread of its own.
async fn job(
    app: &App,
    target: &TargetRequest,
    work: impl FnOnce(&Predictor) -> Result<String, Problem> + Send + 'static,
) -> Answered {
    let predictor: Arc<Predictor> = app.predictors.built_in(target)?;
    self::work(app, move || work(&predictor)).await
}

/// The same for work that opens its own predictors.
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

/// List the known GPUs.
#[utoipa::path(
    get, path = "/v1/gpus", tag = "catalog",
    responses((status = 200, description = "Every GPU", body = schema::Gpus)),
)]
pub async fn gpus() -> Response {
    json(catalog::gpus().json())
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

/// List the models that are built in, with their errors on held-out shapes.
#[utoipa::path(
    get, path = "/v1/models", tag = "catalog",
    responses((status = 200, description = "Every model", body = schema::Models)),
)]
pub async fn models() -> Answered {
    static MODELS: OnceLock<String> = OnceLock::new();
    if let Some(models) = MODELS.get() {
        return Ok(json(models.clone()));
    }
    let models = catalog::models()?.json();
    Ok(json(MODELS.get_or_init(|| models).clone()))
}

/// List the published architectures that have a name here.
#[utoipa::path(
    get, path = "/v1/presets", tag = "catalog",
    responses((status = 200, description = "Every preset", body = schema::Presets)),
)]
pub async fn presets() -> Response {
    json(catalog::presets().json())
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
