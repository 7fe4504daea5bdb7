//! One function per address: question in, document out.

use crate::error::Error;
use crate::ops::Op;
use crate::predict::Predictor;
use crate::query::catalog;
use crate::query::model;
use crate::query::operator;
use crate::query::sweep;
use crate::query::workload::Workload;
use crate::report::Report;
use crate::report::operator::OperatorsReport;
use crate::report::sweep::SweepReport;
use crate::serve::App;
use crate::serve::answer;
use crate::serve::body;
use crate::serve::body::Asked;
use crate::serve::metrics;
use crate::serve::problem;
use crate::serve::problem::Problem;
use crate::serve::wire;
use axum::extract::Path;
use axum::extract::State;
use axum::extract::rejection::PathRejection;
use axum::http::HeaderValue;
use axum::http::StatusCode;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use std::sync::{Arc, OnceLock};
use utoipa::IntoResponses;

/// What every question may be answered with instead.
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
    /// A field is wrong, or no answer can meet the request
    #[response(status = 422, content_type = "application/problem+json")]
    Field(#[to_schema] problem::Document),
    /// Too much at once; `Retry-After` says when to come back
    #[response(status = 429, content_type = "application/problem+json")]
    Busy(#[to_schema] problem::Document),
    /// A fault of the service; `instance` names it in the log
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

type Answered = Result<Response, Problem>;

/// Predict one product.
#[utoipa::path(
    post, path = "/v1/predict/gemm", tag = "predict",
    request_body(content = wire::Gemm, example = json!({"m": 8192, "n": 4096, "k": 4096})),
    responses((status = 200, description = "The time of the product", body = answer::Operator), Problems),
)]
pub async fn predict_gemm(State(app): State<App>, Asked(asked): Asked<wire::Gemm>) -> Answered {
    let op = operator::Gemm::from(&asked).op();
    one(&app, &asked.gpu, asked.model.as_deref(), &op)
}

/// Predict one fused attention.
#[utoipa::path(
    post, path = "/v1/predict/attention", tag = "predict",
    request_body(content = wire::Attention, example = json!({"batch": 4, "heads": 32, "kv_heads": 8, "seq": 2048, "head_dim": 128, "causal": true})),
    responses((status = 200, description = "The time of the attention", body = answer::Operator), Problems),
)]
pub async fn predict_attention(
    State(app): State<App>,
    Asked(asked): Asked<wire::Attention>,
) -> Answered {
    let op = operator::Attention::from(&asked).op()?;
    one(&app, &asked.gpu, asked.model.as_deref(), &op)
}

fn one(app: &App, gpu: &str, model: Option<&str>, op: &Op) -> Answered {
    let predictor = app.predictors.get(gpu, model)?;
    app.metrics.predicted(1);
    let reports = operator::predict(&predictor, std::slice::from_ref(op));
    Ok(json(reports[0].json()))
}

/// Predict up to 10,000 operators.
#[utoipa::path(
    post, path = "/v1/predict/batch", tag = "predict",
    request_body(content = wire::Batch, example = json!({"ops": [
        {"kind": "gemm", "m": 8192, "n": 4096, "k": 4096},
        {"kind": "attention", "batch": 4, "heads": 32, "seq": 2048, "head_dim": 128},
    ]})),
    responses((status = 200, description = "The time of each, in order", body = answer::Operators), Problems),
)]
pub async fn predict_batch(State(app): State<App>, Asked(asked): Asked<wire::Batch>) -> Answered {
    let found = asked.ops.len();
    if !(1..=wire::MOST_OPS).contains(&found) {
        let (found, allowed) = (format!("{found} long"), format!("1 to {}", wire::MOST_OPS));
        return Err(Problem::field("ops", &found, &allowed));
    }
    let ops = asked.ops.into_iter().enumerate();
    let ops: Vec<Op> = ops
        .map(|(at, op)| wire::operator(op).map_err(|problem| problem.within(&format!("ops[{at}]"))))
        .collect::<Result<_, Problem>>()?;
    let answer = job(&app, &asked.gpu, asked.model, move |predictor| {
        let ops = operator::predict(predictor, &ops);
        Ok(OperatorsReport { ops }.json())
    });
    let answer = answer.await?;
    app.metrics.predicted(found);
    Ok(answer)
}

/// Predict one step of a whole model, operator by operator.
#[utoipa::path(
    post, path = "/v1/predict/model", tag = "predict",
    request_body(content = wire::ModelOrConfig, example = json!({"architecture": "llama-3-8b", "workload": {"mode": "decode"}})),
    params(wire::BesideConfig, wire::Workload),
    responses((status = 200, description = "The time of the step", body = answer::Step), Problems),
)]
pub async fn predict_model(State(app): State<App>, Asked(asked): Asked<wire::Model>) -> Answered {
    let bare = asked.bare;
    step(&app, &asked).map_err(|problem| problem.beside(bare))
}

fn step(app: &App, asked: &wire::Model) -> Answered {
    let architecture = asked.architecture.resolve("architecture")?;
    let workload = query(&asked.workload).on(&architecture);
    let workload = workload.map_err(|error| Problem::from(error).within_workload())?;
    let predictor = app.predictors.get(&asked.gpu, asked.model.as_deref())?;
    let report = model::predict(&predictor, &architecture, &workload)?;
    app.metrics.predicted(report.predicted());
    Ok(json(report.json()))
}

fn query(asked: &wire::Workload) -> Workload {
    asked.into()
}

/// Judge a shape by the sizing rules: what is broken, what it costs, what mends it.
#[utoipa::path(
    post, path = "/v1/check", tag = "check",
    request_body(content = wire::ModelOrConfig, example = json!({"architecture": "gpt2", "gpu": "a100"})),
    params(wire::BesideConfig, wire::Workload),
    responses((status = 200, description = "What every rule says", body = answer::Check), Problems),
)]
pub async fn check(State(app): State<App>, Asked(asked): Asked<wire::Model>) -> Answered {
    let bare = asked.bare;
    let checked = checked(&app, asked).await;
    checked.map_err(|problem| problem.beside(bare))
}

async fn checked(app: &App, asked: wire::Model) -> Answered {
    let architecture = asked.architecture.resolve("architecture")?;
    let workload = query(&asked.workload).described(&architecture);
    let workload = workload.map_err(|error| Problem::from(error).within_workload())?;
    job(app, &asked.gpu, asked.model, move |predictor| {
        let report = model::check(predictor, &architecture, &workload);
        let report = report.map_err(|error| Problem::from(error).within_workload())?;
        Ok(report.json())
    })
    .await
}

/// Predict a product, an attention or a model along one of its sizes, as `kind` says.
#[utoipa::path(
    post, path = "/v1/sweep", tag = "sweep",
    request_body(content = wire::Sweep, example = json!({"kind": "gemm", "m": 2304, "n": "1536:6144:64", "k": 4096})),
    responses((status = 200, description = "The curve", body = answer::Sweep), Problems),
)]
pub async fn sweep_any(State(app): State<App>, Asked(asked): Asked<wire::Sweep>) -> Answered {
    let wire::Sweep(mut body) = asked;
    let kind = wire::take_kind(&mut body);
    match kind.as_ref().and_then(Value::as_str) {
        Some("gemm") => sweep_gemm(State(app), Asked(body::parse(body)?)).await,
        Some("attention") => sweep_attention(State(app), Asked(body::parse(body)?)).await,
        Some("model") => sweep_model(State(app), Asked(body::parse(body)?)).await,
        _ => Err(wire::other_kind(kind, "`gemm`, `attention` or `model`")),
    }
}

/// Predict one product along one of its sizes.
#[utoipa::path(
    post, path = "/v1/sweep/gemm", tag = "sweep",
    request_body(content = wire::SweptGemm, example = json!({"m": 2304, "n": "1536:6144:64", "k": 4096})),
    responses((status = 200, description = "The curve", body = answer::Sweep), Problems),
)]
pub async fn sweep_gemm(State(app): State<App>, Asked(asked): Asked<wire::SweptGemm>) -> Answered {
    let gemm = operator::Gemm::from(&asked);
    curve(&app, &asked.gpu, asked.model, move |predictor| {
        sweep::gemm(predictor, &gemm, None)
    })
    .await
}

/// Predict one fused attention along one of its sizes.
#[utoipa::path(
    post, path = "/v1/sweep/attention", tag = "sweep",
    request_body(content = wire::SweptAttention, example = json!({"batch": 4, "heads": "8:32:8", "seq": 2048, "head_dim": 128})),
    responses((status = 200, description = "The curve", body = answer::Sweep), Problems),
)]
pub async fn sweep_attention(
    State(app): State<App>,
    Asked(asked): Asked<wire::SweptAttention>,
) -> Answered {
    let attention = operator::Attention::from(&asked);
    curve(&app, &asked.gpu, asked.model, move |predictor| {
        sweep::attention(predictor, &attention, None)
    })
    .await
}

/// Predict one step of a whole model along one of its sizes.
#[utoipa::path(
    post, path = "/v1/sweep/model", tag = "sweep",
    request_body(content = wire::SweptModel, example = json!({"architecture": "gpt2", "vocab": "50257:50304:47"})),
    responses((status = 200, description = "The curve", body = answer::Sweep), Problems),
)]
pub async fn sweep_model(
    State(app): State<App>,
    Asked(asked): Asked<wire::SweptModel>,
) -> Answered {
    let architecture = asked.architecture.resolve("architecture")?;
    let (sizes, workload) = ((&asked).into(), (&asked.workload).into());
    curve(&app, &asked.gpu, asked.model, move |predictor| {
        sweep::model(predictor, &architecture, &sizes, &workload)
    })
    .await
}

async fn curve(
    app: &App,
    gpu: &str,
    model: Option<String>,
    sweep: impl FnOnce(&Predictor) -> Result<SweepReport, Error> + Send + 'static,
) -> Answered {
    job(app, gpu, model, move |predictor| {
        let report = sweep(predictor);
        let report = report.map_err(|error| Problem::from(error).within_workload())?;
        Ok(report.json())
    })
    .await
}

/// Makes a document that takes more than a moment, in a place of its own.
async fn job(
    app: &App,
    gpu: &str,
    model: Option<String>,
    work: impl FnOnce(&Predictor) -> Result<String, Problem> + Send + 'static,
) -> Answered {
    let predictor: Arc<Predictor> = app.predictors.get(gpu, model.as_deref())?;
    let within = app.limits.answer_time;
    let work = app.jobs.ticket()?.work(move || work(&predictor));
    match tokio::time::timeout(within, work).await {
        Err(_) => Err(Problem::over_time(within)),
        Ok(None) => Err(app.fault()),
        Ok(Some(done)) => done.map(json),
    }
}

/// List the known GPUs.
#[utoipa::path(
    get, path = "/v1/gpus", tag = "catalog",
    responses((status = 200, description = "Every GPU", body = answer::Gpus)),
)]
pub async fn gpus() -> Response {
    json(catalog::gpus().json())
}

/// Show every figure of a GPU with its source, and what answers for it.
#[utoipa::path(
    get, path = "/v1/gpus/{name}", tag = "catalog", params(("name" = String, Path, description = "A name or an alias", example = "h200")),
    responses(
        (status = 200, description = "One GPU", body = answer::Gpu),
        (status = 404, description = "No GPU has this name", body = problem::Document, content_type = "application/problem+json"),
    ),
)]
pub async fn gpu(State(app): State<App>, name: Result<Path<String>, PathRejection>) -> Answered {
    let Path(name) = name.map_err(|_| Problem::nothing_here())?;
    let gpu = crate::gpu::Gpu::find(&name).map_err(|error| Problem::unknown(&error))?;
    let predictor = app.predictors.get(&gpu.name, None)?;
    Ok(json(catalog::gpu(&predictor).json()))
}

/// List the models that are built in, with their errors on held-out shapes.
#[utoipa::path(
    get, path = "/v1/models", tag = "catalog",
    responses((status = 200, description = "Every model", body = answer::Models)),
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
    responses((status = 200, description = "Every preset", body = answer::Presets)),
)]
pub async fn presets() -> Response {
    json(catalog::presets().json())
}

/// Say that the program runs.
#[utoipa::path(get, path = "/healthz", tag = "service", responses((status = 200, description = "It runs", body = String)))]
pub async fn healthz() -> &'static str {
    "ok\n"
}

/// Say whether new requests are welcome.
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
    let gates = [("search", &*app.searches), ("job", &*app.jobs)];
    ([(header::CONTENT_TYPE, kind)], app.metrics.text(gates))
}
