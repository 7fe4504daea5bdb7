//! One step of a whole model, and the run that it is a step of.

use crate::arch::Workload;
use crate::error::{Error, Result};
use crate::request::json::FromJson;
use crate::request::{ModelRequest, Tokens, UsdPerHour, json};
use serde_json::Value;
use std::borrow::Cow;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// A step of a whole model, with the keys of its run beside those of the model.
#[derive(Clone, Debug, clap::Args)]
pub struct StepRequest {
    /// The model and what one step of it does.
    #[command(flatten)]
    pub model: ModelRequest,
    /// The run.
    #[command(flatten)]
    pub run: RunRequest,
}

/// A whole run of a model.
#[derive(Clone, Copy, Debug, serde::Deserialize, ToSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct RunRequest {
    /// Tokens of a whole training run, such as 15T: how many days and GPU-hours it takes.
    #[arg(long, value_name = "COUNT")]
    pub tokens: Option<Tokens>,
    /// Price of one GPU for an hour, in US dollars: what the run, or a million tokens, costs.
    #[arg(long, value_name = "USD")]
    pub usd_per_gpu_hour: Option<UsdPerHour>,
}

impl RunRequest {
    const KEYS: [&str; 2] = ["tokens", "usd_per_gpu_hour"];

    /// Refuses a number of tokens where nothing is trained.
    pub fn validate(&self, workload: &Workload) -> Result<()> {
        match self.tokens.is_some() && !workload.trains() {
            true => Err(Error::field("run", "tokens", "given", "nothing when serving")),
            false => Ok(()),
        }
    }
}

impl FromJson for StepRequest {
    fn from_json(body: Value, others: &str) -> Result<Self> {
        let (run, model) = json::apart(body, &RunRequest::KEYS);
        let others = json::listed(&RunRequest::KEYS) + others;
        Ok(Self {
            run: json::plain(run)?,
            model: ModelRequest::from_json(model, &others)?,
        })
    }
}

impl PartialSchema for StepRequest {
    fn schema() -> RefOr<Schema> {
        let mut schema = ModelRequest::schema();
        if let (RefOr::T(Schema::Object(model)), RefOr::T(Schema::Object(run))) = (&mut schema, RunRequest::schema()) {
            model.properties.extend(run.properties);
        }
        schema
    }
}

impl ToSchema for StepRequest {
    fn name() -> Cow<'static, str> {
        "StepRequest".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        ModelRequest::schemas(schemas);
        RunRequest::schemas(schemas);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_of_the_run_stand_beside_those_of_the_model() {
        let body = json!({"architecture": "gpt2", "tokens": "1T", "gpu": "a100"});
        let (step, target) = json::read::<StepRequest>(body.clone()).unwrap();
        assert!(step.run.tokens.is_some() && step.run.usd_per_gpu_hour.is_none());
        assert_eq!(target.gpu.as_deref(), Some("a100"));
        let refused = json::read::<ModelRequest>(body).unwrap_err();
        assert_eq!(refused.field_error().unwrap().field, "tokens");
        for (body, field, allowed) in [
            (json!({"architecture": "gpt2", "tokens": "x"}), "tokens", "15T"),
            (
                json!({"architecture": "gpt2", "token": 1}),
                "token",
                "`usd_per_gpu_hour`, `gpu`",
            ),
            (
                json!({"architecture": "gpt2", "workload": {"batch": 0}}),
                "workload.batch",
                "from 1",
            ),
        ] {
            let refused = json::read::<StepRequest>(body).unwrap_err();
            let at = refused.field_error().unwrap();
            assert_eq!(at.field, field, "{refused}");
            assert!(at.allowed.contains(allowed), "{refused}");
        }
    }
}
