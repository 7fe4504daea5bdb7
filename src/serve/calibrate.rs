//! `POST /v1/calibrate`: measured steps in the body, the framework that they make in the document.

use crate::answer;
use crate::framework::Framework;
use crate::report::Report;
use crate::request::json::{Bodied, BodyTraits};
use crate::request::{CalibrateRequest, FrameworkRequest, MeasuredRun};
use crate::serve::body::JsonRequest;
use crate::serve::handlers::{Answered, Problems, work};
use crate::serve::problem::Problem;
use crate::serve::{App, schema};
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// The most runs of one calibration.
const MOST_RUNS: usize = 1000;

/// Measured steps, and the framework to depart from; files have no place in it.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CalibrateBody {
    /// Measured whole models, three or more runs of your own trainer or server, each an object with the columns of
    /// docs/runs.md as keys.
    #[schema(max_items = 1000)]
    pub runs: Vec<Map<String, Value>>,
    /// The same as the text of a CSV table.
    #[schema(examples("model,gpu,mode,batch,seq,seconds\nllama-3-8b,h100,train,1,2048,0.5"))]
    pub csv: Option<String>,
    /// The framework to depart from [default: megatron in training, vllm in serving].
    #[schema(inline)]
    pub framework: Option<FrameworkRequest>,
}

impl Bodied for CalibrateBody {
    const BODY: BodyTraits = BodyTraits::PLAIN;
}

impl CalibrateBody {
    /// The question without any file.
    pub fn question(self) -> Result<CalibrateRequest, Problem> {
        let lines = self.csv.as_deref().map_or(0, |text| text.lines().count());
        for (field, found) in [("runs", self.runs.len()), ("csv", lines.saturating_sub(1))] {
            if found > MOST_RUNS {
                let (found, allowed) = (format!("{found} long"), format!("up to {MOST_RUNS}"));
                return Err(Problem::field(field, &found, &allowed));
            }
        }
        if let Some(FrameworkRequest::Named(name)) = &self.framework {
            Framework::check_name(name)?;
        }
        Ok(CalibrateRequest {
            runs: self.runs.into_iter().map(MeasuredRun::Run).collect(),
            csv: self.csv,
            framework: self.framework,
            ..CalibrateRequest::default()
        })
    }
}

/// Fit the constants of a framework to measured steps; `toml` of the answer is a framework of any request.
#[utoipa::path(
    post, path = "/v1/calibrate", tag = "predict",
    request_body(content = CalibrateBody, example = json!({"framework": "fsdp2", "runs": [
        {"model": "llama-3.2-1b", "gpu": "h100", "mode": "train", "batch": 4, "seq": 2048, "seconds": 0.21},
        {"model": "llama-3.2-3b", "gpu": "h100", "mode": "train", "batch": 2, "seq": 4096, "seconds": 0.55},
        {"model": "qwen3-4b", "gpu": "h100", "mode": "train", "batch": 2, "seq": 4096, "seconds": 0.75},
    ]})),
    responses((status = 200, description = "The fitted framework", body = schema::Calibration), Problems),
)]
pub async fn calibrate(State(app): State<App>, asked: JsonRequest<CalibrateBody>) -> Answered {
    let question = asked.request.question()?;
    work(&app, move || Ok(answer::calibrate::run(&question)?.json())).await
}
