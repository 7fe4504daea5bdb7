//! Every question: what it takes, what answers it and what the answer holds.
//!
//! The HTTP service with its document, bindings to other languages and tables of questions walk [`Question::ALL`]. The
//! signature of a question follows from the schemas of its request and its report.

use crate::answer;
use crate::answer::predictors::Predictors;
use crate::answer::schema::{self, Described, described};
use crate::answer::{catalog, sweep};
use crate::arch::Architecture;
use crate::error::{Error, Result};
use crate::predict::Predictor;
use crate::report::calibration::CalibrationReport;
use crate::report::check::CheckReport;
use crate::report::graph::GraphReport;
use crate::report::operator::{OperatorReport, OperatorsReport};
use crate::report::operator_check::OperatorCheckReport;
use crate::report::plan::{CompareReport, PlanReport};
use crate::report::prune::PruneReport;
use crate::report::search::SearchReport;
use crate::report::step::StepReport;
use crate::report::sweep::SweepReport;
use crate::report::{AnyReport, Report};
use crate::request::json::{self, Bodied, BodyTraits, NoRequest};
use crate::request::{
    ArchitectureRequest, AttentionRequest, BatchRequest, CalibrateRequest, GemmRequest, GraphRequest, ModelRequest,
    OperatorRequest, PlanRequest, PruneRequest, SearchRequest, Sizes, StepRequest, TargetRequest,
};
use crate::search::{Progress, Watch};
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::sync::Arc;
use utoipa::{PartialSchema, ToSchema};

/// Predictors that one process keeps ready.
const READY: usize = 32;

/// What may be asked.
pub struct Question {
    /// Its name; its address is the same with slashes.
    pub name: &'static str,
    /// The group that the document of the API lists it in.
    pub topic: &'static str,
    /// What it does, as a sentence.
    pub summary: &'static str,
    /// What its answer holds.
    pub answer: &'static str,
    /// A request as JSON; `None` if there is nothing to choose.
    pub example: Option<&'static str>,
    /// What answering takes.
    pub load: Load,
    asks: &'static dyn Asks,
}

/// What answering a question takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Microseconds to milliseconds.
    Moment,
    /// Up to seconds of a core.
    Job,
    /// Seconds of every core, with progress.
    Search,
}

/// Where the predictors and architectures of requests come from.
pub trait Context: Send + Sync {
    /// The predictor of a target.
    fn predictor(&self, target: &TargetRequest) -> Result<Arc<Predictor>>;

    /// The architecture that the key of a request names or holds.
    fn architecture(&self, key: &str, request: &ArchitectureRequest) -> Result<Arc<Architecture>>;

    /// Whether a name in a request may be the path of a file.
    fn reads_files(&self) -> bool {
        true
    }
}

/// A request with its target and what it is answered from.
pub struct Asked<Q> {
    /// The request.
    pub request: Q,
    /// Where it runs and what answers.
    pub target: TargetRequest,
    /// What it is answered from.
    pub context: Arc<dyn Context>,
}

impl<Q> Asked<Q> {
    fn predictor(&self) -> Result<Arc<Predictor>> {
        self.context.predictor(&self.target)
    }

    fn base(&self, request: &ArchitectureRequest) -> Result<Arc<Architecture>> {
        self.context.architecture("architecture", request)
    }
}

/// What is left to do for an answer once a request is known to be right; a search reports its progress.
pub type Work<R> = Box<dyn FnOnce(&Watch<'_>) -> Result<R> + Send>;

fn work<R>(answer: impl FnOnce(&Watch<'_>) -> Result<R> + Send + 'static) -> Result<Work<R>> {
    Ok(Box::new(answer))
}

/// The time of one operator.
pub fn predict_operator<Q: OperatorRequest>(asked: Asked<Q>) -> Result<Work<OperatorReport>> {
    let predictor = asked.predictor()?;
    let op = Sizes::fixed(predictor.gpu(), |sizes| asked.request.op(sizes))?;
    work(move |_| answer::operator(&predictor, &op))
}

/// One operator by the sizing rules.
pub fn check_operator<Q: OperatorRequest>(asked: Asked<Q>) -> Result<Work<OperatorCheckReport>> {
    let predictor = asked.predictor()?;
    let op = Sizes::fixed(predictor.gpu(), |sizes| asked.request.op(sizes))?;
    work(move |_| answer::check_operator(&predictor, &op))
}

/// One operator along one of its sizes.
pub fn sweep_operator<Q: OperatorRequest>(asked: Asked<Q>) -> Result<Work<SweepReport>> {
    let predictor = asked.predictor()?;
    work(move |_| sweep::operator(&predictor, &asked.request, None))
}

/// A step of a whole model.
pub fn predict_model(asked: Asked<StepRequest>) -> Result<Work<StepReport>> {
    let StepRequest { model, run } = &asked.request;
    let base = asked.base(&model.architecture)?;
    let (predictor, run) = (asked.predictor()?, *run);
    let (architecture, workload) = Sizes::fixed(predictor.gpu(), |sizes| model.step(&base, sizes))?;
    work(move |_| answer::step(&predictor, &architecture, &workload, &run))
}

/// The operators of a graph.
pub fn predict_graph(asked: Asked<GraphRequest>) -> Result<Work<GraphReport>> {
    let predictor = asked.predictor()?;
    work(move |_| {
        let (listing, name) = answer::graph::read(asked.request)?;
        answer::graph::report(&predictor, &listing, &name)
    })
}

/// Many operators.
pub fn predict_batch(asked: Asked<BatchRequest>) -> Result<Work<OperatorsReport>> {
    let predictor = asked.predictor()?;
    let ops = asked.request.ops(predictor.gpu())?;
    work(move |_| {
        let ops = answer::operators(&predictor, &ops)?;
        Ok(OperatorsReport { ops })
    })
}

/// A framework that is fitted to measured steps.
pub fn calibrate(asked: Asked<CalibrateRequest>) -> Result<Work<CalibrationReport>> {
    if !asked.context.reads_files() {
        answer::calibrate::refuse_files(&asked.request)?;
    }
    work(move |_| answer::calibrate::run(&asked.request))
}

/// A shape by the sizing rules.
pub fn check(asked: Asked<ModelRequest>) -> Result<Work<CheckReport>> {
    let base = asked.base(&asked.request.architecture)?;
    let predictor = asked.predictor()?;
    let (architecture, workload) = Sizes::fixed(predictor.gpu(), |sizes| asked.request.described(&base, sizes))?;
    work(move |_| answer::check(&predictor, &architecture, &workload))
}

/// A step of a whole model along one of its sizes.
pub fn sweep_model(asked: Asked<ModelRequest>) -> Result<Work<SweepReport>> {
    let base = asked.base(&asked.request.architecture)?;
    let predictor = asked.predictor()?;
    work(move |_| sweep::model(&predictor, &base, &asked.request))
}

/// The fastest shapes for a number of parameters.
pub fn search(asked: Asked<SearchRequest>) -> Result<Work<SearchReport>> {
    let like = asked.request.like.as_ref();
    let like = like.map(|like| asked.context.architecture("like", like)).transpose()?;
    let home = asked.predictor()?;
    let searched = asked.request.request(like.as_deref(), home.gpu())?;
    work(move |watch| {
        let of = |target: &TargetRequest| asked.context.predictor(target);
        answer::search::search(&home, &asked.request, &searched, &asked.target, of, watch)
    })
}

/// What an existing model loses to meet targets.
pub fn prune(asked: Asked<PruneRequest>) -> Result<Work<PruneReport>> {
    let model = asked.context.architecture("from", &asked.request.from)?;
    let predictor = asked.predictor()?;
    let workload = asked.request.workload(&model, predictor.gpu())?;
    work(move |_| answer::prune::prune(&predictor, &model, &workload, &asked.request))
}

/// The best layouts over a number of GPUs.
pub fn plan(asked: Asked<PlanRequest>) -> Result<Work<PlanReport>> {
    let base = asked.base(&asked.request.architecture)?;
    let predictor = asked.predictor()?;
    work(move |_| answer::plan::plan(&predictor, &base, &asked.request))
}

/// GPUs and models beside each other, each pair with its best layout.
pub fn compare(asked: Asked<PlanRequest>) -> Result<Work<CompareReport>> {
    let models = asked.request.architecture.each().into_iter();
    let models = models.map(|model| asked.base(&model)).collect::<Result<Vec<_>>>()?;
    work(move |_| {
        let of = |target: &TargetRequest| asked.context.predictor(target);
        answer::plan::compare(&models, &asked.request, &asked.target, of)
    })
}

/// A question whatever its types are.
trait Asks: Sync {
    fn request(&self) -> Described;

    fn report(&self) -> Described;

    /// The lists of the report whose entries are its rows.
    fn lists(&self) -> &'static [&'static str];

    fn body(&self) -> BodyTraits;

    fn read(&self, body: Value, context: Arc<dyn Context>) -> Result<Work<Box<dyn AnyReport>>>;
}

/// A question by the function that answers it.
struct By<Q, R>(fn(Asked<Q>) -> Result<Work<R>>);

impl<Q: Bodied + ToSchema + 'static, R: Report + Send + Sync + ToSchema + 'static> Asks for By<Q, R> {
    fn request(&self) -> Described {
        described::<Q>()
    }

    fn report(&self) -> Described {
        described::<R>()
    }

    fn lists(&self) -> &'static [&'static str] {
        R::LISTS
    }

    fn body(&self) -> BodyTraits {
        Q::BODY
    }

    fn read(&self, body: Value, context: Arc<dyn Context>) -> Result<Work<Box<dyn AnyReport>>> {
        let (request, target) = json::body(body)?;
        let answer = self.0(Asked {
            request,
            target,
            context,
        })?;
        work(move |watch| Ok(Box::new(answer(watch)?) as Box<dyn AnyReport>))
    }
}

/// What is at hand before a question is asked; names may be paths.
#[derive(Clone, Default)]
pub struct AtHand {
    /// The architecture, where it was read before.
    pub base: Option<Arc<Architecture>>,
    /// What answers where the body names neither GPU nor model nor framework.
    pub predictor: Option<Arc<Predictor>>,
}

impl Context for AtHand {
    fn predictor(&self, target: &TargetRequest) -> Result<Arc<Predictor>> {
        match &self.predictor {
            Some(usual) if *target == TargetRequest::default() => Ok(Arc::clone(usual)),
            _ => ready().get(target),
        }
    }

    fn architecture(&self, _: &str, request: &ArchitectureRequest) -> Result<Arc<Architecture>> {
        match &self.base {
            Some(known) => Ok(Arc::clone(known)),
            None => request.find().map(Arc::new),
        }
    }
}

impl Question {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self {
            name: "predict_gemm",
            topic: "predict",
            summary: "Predict one GEMM.",
            answer: "The time of the GEMM",
            example: Some(r#"{"m": 8192, "n": 4096, "k": 4096}"#),
            load: Load::Moment,
            asks: &By(predict_operator::<GemmRequest>),
        },
        Self {
            name: "predict_attention",
            topic: "predict",
            summary: "Predict one fused attention.",
            answer: "The time of the attention",
            example: Some(
                r#"{"batch": 4, "heads": 32, "kv_heads": 8, "seq_q": 2048, "head_dim": 128, "causal": true}"#,
            ),
            load: Load::Moment,
            asks: &By(predict_operator::<AttentionRequest>),
        },
        Self {
            name: "predict_model",
            topic: "predict",
            summary: "Predict one step of a whole model, operator by operator.",
            answer: "The time of the step",
            example: Some(r#"{"architecture": "llama-3-8b", "workload": {"mode": "decode"}}"#),
            load: Load::Moment,
            asks: &By(predict_model),
        },
        Self {
            name: "predict_graph",
            topic: "predict",
            summary: "Predict every operator of an ONNX model or of a list, and their sum.",
            answer: "The time of each operator",
            example: Some(
                r#"{"ops": [
                    {"kind": "gemm", "m": 4096, "n": 11008, "k": 4096, "count": 32},
                    {"kind": "memory", "function": "rms_norm", "rows": 4096, "cols": 4096, "count": 65}]}"#,
            ),
            load: Load::Job,
            asks: &By(predict_graph),
        },
        Self {
            name: "predict_batch",
            topic: "predict",
            summary: "Predict up to 10,000 operators.",
            answer: "The time of each, in order",
            example: Some(
                r#"{"ops": [
                    {"kind": "gemm", "m": 8192, "n": 4096, "k": 4096},
                    {"kind": "attention", "batch": 4, "heads": 32, "seq_q": 2048, "head_dim": 128}]}"#,
            ),
            load: Load::Job,
            asks: &By(predict_batch),
        },
        Self {
            name: "check",
            topic: "check",
            summary: "Judge a shape by the sizing rules: what is broken, what it costs, what fixes it.",
            answer: "What every rule says",
            example: Some(r#"{"architecture": "gpt2", "gpu": "a100"}"#),
            load: Load::Job,
            asks: &By(check),
        },
        Self {
            name: "check_gemm",
            topic: "check",
            summary: "Judge one GEMM by the sizing rules: what bounds it and which near size is faster.",
            answer: "What every rule on a GEMM says",
            example: Some(r#"{"m": 4096, "n": 11006, "k": 4096, "gpu": "h100"}"#),
            load: Load::Moment,
            asks: &By(check_operator::<GemmRequest>),
        },
        Self {
            name: "check_attention",
            topic: "check",
            summary: "Judge one fused attention by the sizing rules: what bounds it and which near size is faster.",
            answer: "What every rule on attention says",
            example: Some(r#"{"batch": 4, "heads": 32, "seq_q": 2048, "head_dim": 80, "causal": true}"#),
            load: Load::Moment,
            asks: &By(check_operator::<AttentionRequest>),
        },
        Self {
            name: "search",
            topic: "search",
            summary: "Find the fastest architecture for a number of parameters.",
            answer: "Ranked shapes",
            example: Some(r#"{"params": "350M", "top": 3, "export": true}"#),
            load: Load::Search,
            asks: &By(search),
        },
        Self {
            name: "search_from",
            topic: "search",
            summary: "Find what an existing model loses to meet targets of latency, memory or throughput at the least expected damage.",
            answer: "What each layer keeps, before and after",
            example: Some(r#"{"from": "llama-3-8b", "target": ["0.7x-latency"], "workload": {"mode": "decode"}}"#),
            load: Load::Job,
            asks: &By(prune),
        },
        Self {
            name: "plan",
            topic: "plan",
            summary: "Find the fastest layout of a model over a number of GPUs.",
            answer: "Ranked layouts for each number of GPUs",
            example: Some(r#"{"architecture": "llama-3-70b", "gpu": "h100", "gpus": 64}"#),
            load: Load::Job,
            asks: &By(plan),
        },
        Self {
            name: "compare",
            topic: "plan",
            summary: "Hold GPUs and models beside each other, each with its best layout: `gpu` and `architecture` name several with commas between them; `gpu` may be `all`.",
            answer: "The best layout of each model on each GPU",
            example: Some(r#"{"architecture": "llama-3-8b", "gpu": "h100,h200,b200", "gpus": 8}"#),
            load: Load::Job,
            asks: &By(compare),
        },
        Self {
            name: "sweep_gemm",
            topic: "sweep",
            summary: "Predict one GEMM along one of its sizes.",
            answer: "The curve",
            example: Some(r#"{"m": 2304, "n": "1536:6144:64", "k": 4096}"#),
            load: Load::Job,
            asks: &By(sweep_operator::<GemmRequest>),
        },
        Self {
            name: "sweep_attention",
            topic: "sweep",
            summary: "Predict one fused attention along one of its sizes.",
            answer: "The curve",
            example: Some(r#"{"batch": 4, "heads": "8:32:8", "seq_q": 2048, "head_dim": 128}"#),
            load: Load::Job,
            asks: &By(sweep_operator::<AttentionRequest>),
        },
        Self {
            name: "sweep_model",
            topic: "sweep",
            summary: "Predict one step of a whole model along one of its sizes.",
            answer: "The curve",
            example: Some(r#"{"architecture": "gpt2", "vocab": "50257:50304:47"}"#),
            load: Load::Job,
            asks: &By(sweep_model),
        },
        Self {
            name: "calibrate",
            topic: "predict",
            summary: "Fit the constants of a framework to measured steps; `toml` of the answer is a framework of any request.",
            answer: "The fitted framework",
            example: Some(
                r#"{"framework": "fsdp2", "runs": [
                    {"model": "llama-3.2-1b", "gpu": "h100", "mode": "train", "batch": 4, "seq": 2048, "seconds": 0.21},
                    {"model": "llama-3.2-3b", "gpu": "h100", "mode": "train", "batch": 2, "seq": 4096, "seconds": 0.55},
                    {"model": "qwen3-4b", "gpu": "h100", "mode": "train", "batch": 2, "seq": 4096, "seconds": 0.75}]}"#,
            ),
            load: Load::Job,
            asks: &By(calibrate),
        },
        Self {
            name: "gpus",
            topic: "catalog",
            summary: "List the known GPUs.",
            answer: "Every GPU",
            example: None,
            load: Load::Moment,
            asks: &By(|_: Asked<NoRequest>| work(|_| Ok(catalog::gpus()))),
        },
        Self {
            name: "models",
            topic: "catalog",
            summary: "List the models that are built in, with their errors on held-out shapes.",
            answer: "Every model",
            example: None,
            load: Load::Moment,
            asks: &By(|_: Asked<NoRequest>| work(|_| catalog::models())),
        },
        Self {
            name: "presets",
            topic: "catalog",
            summary: "List the published architectures that have a name here.",
            answer: "Every preset",
            example: None,
            load: Load::Moment,
            asks: &By(|_: Asked<NoRequest>| work(|_| Ok(catalog::presets()))),
        },
    ];

    /// The question of this name.
    pub fn find(name: &str) -> Result<&'static Self> {
        let found = Self::ALL.iter().find(|question| question.name == name);
        found.ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|question| question.name).collect();
            Error::field("question", "name", format!("`{name}`"), &names.join(", "))
        })
    }

    /// Reads the question with this body; what is wrong with it is known before the work begins.
    pub fn read(&self, body: Value, context: Arc<dyn Context>) -> Result<Work<Box<dyn AnyReport>>> {
        self.asks.read(body, context)
    }

    /// The answer to the question with this body, in which the keys of a workload may be beside the others.
    pub fn ask(&self, body: Value, context: Arc<dyn Context>, watch: &Watch<'_>) -> Result<Box<dyn AnyReport>> {
        let body = match self.body().has_workload {
            true => json::with_workload(body),
            false => body,
        };
        self.read(body, context)?(watch)
    }

    /// What its body holds beside the keys of the request.
    pub fn body(&self) -> BodyTraits {
        self.asks.body()
    }

    /// Name and schema of the request alone.
    pub fn request(&self) -> Described {
        self.asks.request()
    }

    /// Name and schema of the body: the request with its target, and with ranges where it is swept.
    pub fn body_schema(&self) -> Described {
        let described = schema::with_target(self.request(), self.body());
        match self.is_swept() {
            true => schema::swept(described),
            false => described,
        }
    }

    /// Whether one of its sizes is a range.
    pub fn is_swept(&self) -> bool {
        self.topic == "sweep"
    }

    /// Name and schema of the report.
    pub fn report(&self) -> Described {
        self.asks.report()
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
                    "rows": question.asks.lists().first(),
                    "has_target": question.body().has_target,
                    "request": question.example.map(|_| named(question.request())),
                    "report": named(question.report()),
                    "example": question.example.map(|text| serde_json::from_str::<Value>(text).expect("a test reads it")),
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

/// Goes on with a search, however far it is.
pub fn unwatched(_: &Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
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
            if let Some(rows) = question["rows"].as_str().and_then(|rows| rows.split('.').next()) {
                // Keys that several reports have are a part of their own, before those of one.
                let own = schema["allOf"].as_array().and_then(|parts| parts.last());
                let own = own.unwrap_or(schema);
                assert!(own["properties"][rows].is_object(), "{question} {schema}");
            }
        }
    }

    #[test]
    fn a_question_takes_keys_of_the_workload_flat_and_names_wrong_ones() {
        let ask = |name, body| {
            Question::find(name)
                .unwrap()
                .ask(body, Arc::new(AtHand::default()), &unwatched)
        };
        let body = json!({"architecture": "gpt2", "gpu": "a100", "mode": "decode", "batch": 4});
        let report = ask("predict_model", body).unwrap();
        let nested = json!({"architecture": "gpt2", "gpu": "a100", "workload": {"mode": "decode", "batch": 4}});
        assert_eq!(report.json(), ask("predict_model", nested).unwrap().json());
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
            let report = question.ask(body, Arc::new(AtHand::default()), &unwatched).unwrap();
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
