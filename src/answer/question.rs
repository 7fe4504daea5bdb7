//! Every question by its name: a JSON object in, a report out.
//!
//! This is the one list that bindings to other languages and tables of questions go through. The signature of a question
//! follows from the schemas of its request and its report.

use crate::answer;
use crate::answer::catalog;
use crate::answer::predictors::Predictors;
use crate::answer::sweep;
use crate::arch::Architecture;
use crate::error::Error;
use crate::error::Result;
use crate::predict::Predictor;
use crate::report::AnyReport;
use crate::report::check::CheckReport;
use crate::report::gpus::GpusReport;
use crate::report::graph::GraphReport;
use crate::report::models::ModelsReport;
use crate::report::operator::OperatorReport;
use crate::report::operator_check::OperatorCheckReport;
use crate::report::plan::{CompareReport, PlanReport};
use crate::report::presets::PresetsReport;
use crate::report::search::SearchReport;
use crate::report::step::StepReport;
use crate::report::sweep::SweepReport;
use crate::request::ArchitectureRequest;
use crate::request::AttentionRequest;
use crate::request::GemmRequest;
use crate::request::GraphRequest;
use crate::request::ModelRequest;
use crate::request::OperatorRequest;
use crate::request::PlanRequest;
use crate::request::SearchRequest;
use crate::request::Sizes;
use crate::request::StepRequest;
use crate::request::TargetRequest;
use crate::request::json;
use crate::request::json::FromJson;
use crate::search;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::Arc;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// Predictors that one process keeps ready.
const READY: usize = 32;

/// What may be asked.
pub struct Question {
    /// Its name.
    pub name: &'static str,
    /// The key of its report that is a list of rows.
    pub rows: Option<&'static str>,
    /// Whether GPU, model and framework stand beside the keys of the request.
    has_target: bool,
    /// Name and schema of the request, with those it refers to; none where there is nothing to choose.
    request: Option<fn() -> Described>,
    report: fn() -> Described,
    answer: fn(Asked<'_>) -> Result<Box<dyn AnyReport>>,
}

/// The name of a schema, and every schema that it needs.
type Described = (String, Vec<(String, RefOr<Schema>)>);

fn described<T: ToSchema>() -> Described {
    let mut schemas = vec![(T::name().into_owned(), T::schema())];
    T::schemas(&mut schemas);
    (T::name().into_owned(), schemas)
}

/// The body of a question and what it is answered with.
struct Asked<'a> {
    body: Value,
    /// The architecture, where it was read before.
    base: Option<&'a Architecture>,
    predictors: &'a Predictors,
    /// What answers a body that names neither GPU nor model nor framework.
    usual: Option<&'a Arc<Predictor>>,
}

/// What is at hand before a question is asked.
#[derive(Clone, Copy, Default)]
pub struct AtHand<'a> {
    /// The architecture, where it was read before.
    pub base: Option<&'a Architecture>,
    /// What answers where the body names neither GPU nor model nor framework.
    pub predictor: Option<&'a Arc<Predictor>>,
}

impl<'a> Asked<'a> {
    fn read<R: FromJson>(self) -> Result<(R, Arc<Predictor>)> {
        let (request, target) = json::read(self.body)?;
        let predictor = predictor(self.predictors, self.usual, &target)?;
        Ok((request, predictor))
    }

    /// A request that has a workload, whose keys may stand beside the others.
    fn flat<R: FromJson>(self) -> Result<(R, Arc<Predictor>)> {
        let body = json::with_workload(self.body);
        Asked { body, ..self }.read()
    }

    fn model(self) -> Result<(ModelRequest, Cow<'a, Architecture>, Arc<Predictor>)> {
        let base = self.base;
        let (request, predictor) = self.flat::<ModelRequest>()?;
        let base = known_or_found(base, &request.architecture)?;
        Ok((request, base, predictor))
    }
}

/// The predictor of a target; `usual` answers where it names nothing.
fn predictor(
    predictors: &Predictors,
    usual: Option<&Arc<Predictor>>,
    target: &TargetRequest,
) -> Result<Arc<Predictor>> {
    match usual {
        Some(usual) if *target == TargetRequest::default() => Ok(Arc::clone(usual)),
        _ => predictors.get(target),
    }
}

fn known_or_found<'a>(known: Option<&'a Architecture>, request: &ArchitectureRequest) -> Result<Cow<'a, Architecture>> {
    match known {
        Some(known) => Ok(Cow::Borrowed(known)),
        None => request.find().map(Cow::Owned),
    }
}

fn boxed(report: impl AnyReport + 'static) -> Box<dyn AnyReport> {
    Box::new(report)
}

fn operator<R: OperatorRequest>(asked: Asked<'_>) -> Result<Box<dyn AnyReport>> {
    let (request, predictor) = asked.read::<R>()?;
    let op = Sizes::fixed(|sizes| request.op(sizes))?;
    answer::operator(&predictor, &op).map(boxed)
}

fn checked<R: OperatorRequest>(asked: Asked<'_>) -> Result<Box<dyn AnyReport>> {
    let (request, predictor) = asked.read::<R>()?;
    let op = Sizes::fixed(|sizes| request.op(sizes))?;
    answer::check_operator(&predictor, &op).map(boxed)
}

fn swept<R: OperatorRequest>(asked: Asked<'_>) -> Result<Box<dyn AnyReport>> {
    let (request, predictor) = asked.read::<R>()?;
    sweep::operator(&predictor, &request, None).map(boxed)
}

impl Question {
    const fn new<Q: ToSchema, R: ToSchema>(
        name: &'static str,
        rows: Option<&'static str>,
        answer: fn(Asked<'_>) -> Result<Box<dyn AnyReport>>,
    ) -> Self {
        Self {
            name,
            rows,
            has_target: true,
            request: Some(described::<Q>),
            report: described::<R>,
            answer,
        }
    }

    const fn catalog<R: ToSchema>(
        name: &'static str,
        rows: &'static str,
        answer: fn(Asked<'_>) -> Result<Box<dyn AnyReport>>,
    ) -> Self {
        Self {
            name,
            rows: Some(rows),
            has_target: false,
            request: None,
            report: described::<R>,
            answer,
        }
    }

    /// All of them.
    pub const ALL: &[Self] = &[
        Self::new::<GemmRequest, OperatorReport>("predict_gemm", None, operator::<GemmRequest>),
        Self::new::<AttentionRequest, OperatorReport>("predict_attention", None, operator::<AttentionRequest>),
        Self::new::<StepRequest, StepReport>("predict_model", Some("lines"), |asked| {
            let base = asked.base;
            let (request, predictor) = asked.flat::<StepRequest>()?;
            let base = known_or_found(base, &request.model.architecture)?;
            let (architecture, workload) = Sizes::fixed(|sizes| request.model.step(&base, sizes))?;
            answer::step(&predictor, &architecture, &workload, &request.run).map(boxed)
        }),
        Self::new::<GraphRequest, GraphReport>("predict_graph", Some("lines"), |asked| {
            let (request, predictor) = asked.read::<GraphRequest>()?;
            let (listing, name) = answer::graph::read(request)?;
            answer::graph::report(&predictor, &listing, &name).map(boxed)
        }),
        Self::new::<ModelRequest, CheckReport>("check", Some("rules"), |asked| {
            let (request, base, predictor) = asked.model()?;
            let (architecture, workload) = Sizes::fixed(|sizes| request.described(&base, sizes))?;
            answer::check(&predictor, &architecture, &workload).map(boxed)
        }),
        Self::new::<GemmRequest, OperatorCheckReport>("check_gemm", Some("rules"), checked::<GemmRequest>),
        Self::new::<AttentionRequest, OperatorCheckReport>(
            "check_attention",
            Some("rules"),
            checked::<AttentionRequest>,
        ),
        Self::new::<SearchRequest, SearchReport>("search", Some("shapes"), |asked| {
            let (request, target): (SearchRequest, _) = json::read(json::with_workload(asked.body))?;
            let predictor = predictor(asked.predictors, asked.usual, &target)?;
            let like = request.like.as_ref().map(ArchitectureRequest::find);
            let searched = request.request(like.transpose()?.as_ref())?;
            let watch = |_: &search::Progress| ControlFlow::Continue(());
            let of = |target: &TargetRequest| asked.predictors.get(target);
            answer::search::search(&predictor, &request, &searched, &target, of, &watch).map(boxed)
        }),
        Self::new::<PlanRequest, PlanReport>("plan", Some("plans"), |asked| {
            let base = asked.base;
            let (request, predictor) = asked.read::<PlanRequest>()?;
            let base = known_or_found(base, &request.architecture)?;
            answer::plan::plan(&predictor, &base, &request).map(boxed)
        }),
        Self::new::<PlanRequest, CompareReport>("compare", Some("compared"), |asked| {
            let (request, target): (PlanRequest, _) = json::read(asked.body)?;
            let base = known_or_found(asked.base, &request.architecture)?;
            let of = |target: &TargetRequest| asked.predictors.get(target);
            answer::plan::compare(&base, &request, &target, of).map(boxed)
        }),
        Self::new::<GemmRequest, SweepReport>("sweep_gemm", Some("points"), swept::<GemmRequest>),
        Self::new::<AttentionRequest, SweepReport>("sweep_attention", Some("points"), swept::<AttentionRequest>),
        Self::new::<ModelRequest, SweepReport>("sweep_model", Some("points"), |asked| {
            let (request, base, predictor) = asked.model()?;
            sweep::model(&predictor, &base, &request).map(boxed)
        }),
        #[cfg(feature = "dataset")]
        Self {
            has_target: false,
            ..Self::new::<crate::request::CalibrateRequest, crate::report::calibration::CalibrationReport>(
                "calibrate",
                Some("constants"),
                |asked| answer::calibrate::run(&json::plain(asked.body)?).map(boxed),
            )
        },
        Self::catalog::<GpusReport>("gpus", "gpus", |_| Ok(boxed(catalog::gpus()))),
        Self::catalog::<ModelsReport>("models", "models", |_| catalog::models().map(boxed)),
        Self::catalog::<PresetsReport>("presets", "presets", |_| Ok(boxed(catalog::presets()))),
    ];

    /// The question of this name.
    pub fn find(name: &str) -> Result<&'static Self> {
        let found = Self::ALL.iter().find(|question| question.name == name);
        found.ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|question| question.name).collect();
            Error::field("question", "name", format!("`{name}`"), &names.join(", "))
        })
    }

    /// The answer to the question with this body.
    pub fn ask(&self, body: Value, at_hand: AtHand<'_>) -> Result<Box<dyn AnyReport>> {
        (self.answer)(Asked {
            body,
            base: at_hand.base,
            predictors: ready(),
            usual: at_hand.predictor,
        })
    }

    /// All questions with the schemas of their requests and reports, as JSON.
    pub fn described() -> Value {
        let mut schemas = serde_json::Map::new();
        let mut named = |described: Described| {
            let (name, all) = described;
            schemas.extend(all.into_iter().map(|(name, schema)| (name, json!(schema))));
            name
        };
        let questions: Vec<_> = Self::ALL
            .iter()
            .map(|question| {
                json!({
                    "name": question.name,
                    "rows": question.rows,
                    "has_target": question.has_target,
                    "request": question.request.map(|request| named(request())),
                    "report": named((question.report)()),
                })
            })
            .collect();
        json!({
            "questions": questions,
            "target": TargetRequest::schema(),
            "schemas": schemas,
        })
    }
}

/// The predictors that this process keeps ready.
pub fn ready() -> &'static Predictors {
    static READY_ONES: Predictors = Predictors::new(READY);
    &READY_ONES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_question_is_described_and_names_its_rows() {
        let described = Question::described();
        for question in described["questions"].as_array().unwrap() {
            let report = question["report"].as_str().unwrap();
            let schema = &described["schemas"][report];
            assert!(schema.is_object(), "{question}");
            if let Some(rows) = question["rows"].as_str() {
                assert!(schema["properties"][rows].is_object(), "{question} {schema}");
            }
        }
    }

    #[test]
    fn a_question_takes_keys_of_the_workload_flat_and_names_wrong_ones() {
        let ask = |name, body| Question::find(name).unwrap().ask(body, AtHand::default());
        let body = json!({"architecture": "gpt2", "gpu": "a100", "mode": "decode", "batch": 4});
        let report = ask("predict_model", body).unwrap();
        let nested = json!({"architecture": "gpt2", "gpu": "a100", "workload": {"mode": "decode", "batch": 4}});
        assert_eq!(report.json(), ask("predict_model", nested).unwrap().json());
        let document: Value = serde_json::from_str(&report.json()).unwrap();
        let time = report.key("time_us").unwrap();
        assert_eq!(time, document["time_us"].to_string());
        for (name, body, field) in [
            ("predict_gemm", json!({"m": 1, "n": 1}), "k"),
            ("check", json!({"architecture": "gpt2", "tp": 0}), "workload.tp"),
            ("search", json!({"params": "1B", "gpu": "h2000"}), "gpu"),
        ] {
            let refused = ask(name, body).err().unwrap();
            assert_eq!(refused.field_error().unwrap().field, field, "{refused}");
        }
    }

    #[test]
    fn published_weights_are_served_as_they_are_stored_unless_a_format_is_named() {
        let ask = |keys: Value| {
            let mut body = json!({"architecture": "gpt-oss-120b", "gpu": "h100", "batch": 1});
            body.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
            let question = Question::find("predict_model").unwrap();
            let report = question.ask(body, AtHand::default()).unwrap();
            serde_json::from_str::<Value>(&report.json()).unwrap()
        };
        let served = ask(json!({"mode": "decode"}));
        // The total of the published index is 65.25 GB.
        let weights = &served["memory"]["parts_bytes"]["weights"];
        assert!((weights.as_f64().unwrap() / 65.25e9 - 1.0).abs() < 1e-3, "{weights}");
        assert_eq!(served["memory"]["fits"], true);
        assert!(
            served["notes"][0].as_str().unwrap().contains("as stored, mxfp4"),
            "{served}"
        );
        for keys in [json!({"mode": "decode", "dtype": "bf16"}), json!({})] {
            let other = ask(keys);
            assert_eq!(other["workload"]["dtype"], "bf16");
            assert_eq!(other["memory"]["fits"], false);
            assert!(other["notes"][0].as_str().unwrap().contains("takes bf16"), "{other}");
        }
    }
}
