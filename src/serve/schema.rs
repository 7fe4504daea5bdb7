//! Schemas of bodies and answers, for the document of the API.
//!
//! A body is a request of [`crate::request`] with the GPU and the model beside its keys; where it is swept, its sizes
//! may be ranges. An answer is a report with the version beside its keys.

use crate::report::SCHEMA;
use crate::report::check::CheckReport;
use crate::report::gpus::{GpuReport, GpusReport};
use crate::report::graph::GraphReport;
use crate::report::models::ModelsReport;
use crate::report::operator::{OperatorReport, OperatorsReport};
use crate::report::operator_check::OperatorCheckReport;
use crate::report::plan::{CompareReport, PlanReport};
use crate::report::presets::PresetsReport;
use crate::report::search::SearchReport;
use crate::report::step::StepReport;
use crate::report::sweep::SweepReport;
use crate::request::AttentionRequest;
use crate::request::GemmRequest;
use crate::request::GraphRequest;
use crate::request::ModelRequest;
use crate::request::PlanRequest;
use crate::request::SearchRequest;
use crate::request::Size;
use crate::request::StepRequest;
use crate::request::TargetRequest;
use crate::serve::body::BatchRequest;
use std::borrow::Cow;
use std::marker::PhantomData;
use utoipa::openapi::schema::{AllOfBuilder, OneOfBuilder, Type};
use utoipa::openapi::{ObjectBuilder, Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// A request with its GPU and model.
pub struct Body<R>(PhantomData<R>);

/// A request with its GPU and model, one of whose sizes is a range.
pub struct Swept<R>(PhantomData<R>);

/// A document as it is answered: the report, with the version beside its keys.
pub struct Answer<R>(PhantomData<R>);

pub type AttentionBody = Body<AttentionRequest>;
pub type BatchBody = Body<BatchRequest>;
pub type GemmBody = Body<GemmRequest>;
pub type GraphBody = Body<GraphRequest>;
pub type ModelBody = Body<ModelRequest>;
pub type PlanBody = Body<PlanRequest>;
pub type SearchBody = Body<SearchRequest>;
pub type StepBody = Body<StepRequest>;
pub type SweptAttention = Swept<AttentionRequest>;
pub type SweptGemm = Swept<GemmRequest>;
pub type SweptModel = Swept<ModelRequest>;

#[cfg(feature = "dataset")]
pub type Calibration = Answer<crate::report::calibration::CalibrationReport>;
pub type Check = Answer<CheckReport>;
pub type Gpu = Answer<GpuReport>;
pub type Gpus = Answer<GpusReport>;
pub type Graph = Answer<GraphReport>;
pub type Models = Answer<ModelsReport>;
pub type Operator = Answer<OperatorReport>;
pub type Operators = Answer<OperatorsReport>;
pub type OperatorCheck = Answer<OperatorCheckReport>;
pub type Compare = Answer<CompareReport>;
pub type Plan = Answer<PlanReport>;
pub type Presets = Answer<PresetsReport>;
pub type Search = Answer<SearchReport>;
pub type Step = Answer<StepReport>;
pub type Sweep = Answer<SweepReport>;

type Schemas = Vec<(String, RefOr<Schema>)>;

impl<R: ToSchema> PartialSchema for Body<R> {
    fn schema() -> RefOr<Schema> {
        with_target(R::schema())
    }
}

impl<R: ToSchema> ToSchema for Body<R> {
    fn name() -> Cow<'static, str> {
        R::name()
    }

    fn schemas(schemas: &mut Schemas) {
        R::schemas(schemas);
    }
}

impl<R: ToSchema> PartialSchema for Swept<R> {
    fn schema() -> RefOr<Schema> {
        let schema = with_target(R::schema());
        widened(&schema).unwrap_or(schema)
    }
}

impl<R: ToSchema> ToSchema for Swept<R> {
    fn name() -> Cow<'static, str> {
        format!("Swept{}", R::name()).into()
    }

    fn schemas(schemas: &mut Schemas) {
        let mut parts = Vec::new();
        R::schemas(&mut parts);
        for (name, schema) in parts {
            match widened(&schema) {
                Some(swept) => schemas.push((format!("Swept{name}"), swept)),
                None => schemas.push((name, schema)),
            }
        }
        schemas.push(("SizeOrRange".to_owned(), size_or_range::<1>()));
        schemas.push(("SizeOrZeroOrRange".to_owned(), size_or_range::<0>()));
    }
}

/// The schema of an object with the keys of its GPU and model.
fn with_target(mut schema: RefOr<Schema>) -> RefOr<Schema> {
    if let (RefOr::T(Schema::Object(object)), RefOr::T(Schema::Object(target))) = (&mut schema, TargetRequest::schema())
    {
        object.properties.extend(target.properties);
    }
    schema
}

/// The same schema with ranges where sizes are; none where there are no sizes.
fn widened(schema: &RefOr<Schema>) -> Option<RefOr<Schema>> {
    let reference = |name: &str| format!("\"#/components/schemas/{name}\"");
    let plain = serde_json::to_string(schema).expect("a schema is JSON");
    let mut text = plain.clone();
    for (plain, swept) in [
        ("Size", "SizeOrRange"),
        ("SizeOrZero", "SizeOrZeroOrRange"),
        ("WorkloadRequest", "SweptWorkloadRequest"),
    ] {
        text = text.replace(&reference(plain), &reference(swept));
    }
    let swept = || serde_json::from_str(&text).expect("only names were replaced");
    (text != plain).then(swept)
}

fn size_or_range<const LEAST: u64>() -> RefOr<Schema> {
    let range = ObjectBuilder::new()
        .schema_type(Type::String)
        .pattern(Some(
            "^[0-9]{1,10}(:[0-9]{1,10}(:x?[0-9]{1,10})?|(,[0-9]{1,10}){1,15})$",
        ))
        .description(Some(
            "START:END, START:END:STEP or START:END:xFACTOR, both ends included, or a list such as 4096,8192",
        ))
        .examples(["1536:6144:64"]);
    OneOfBuilder::new().item(Size::<LEAST>::schema()).item(range).into()
}

/// One operator of a batch, of the kind that `kind` names.
pub struct AnyOperator;

impl PartialSchema for AnyOperator {
    fn schema() -> RefOr<Schema> {
        OneOfBuilder::new()
            .item(of_kind("gemm", GemmRequest::schema()))
            .item(of_kind("attention", AttentionRequest::schema()))
            .description(Some("One operator of a batch, of the kind that `kind` names."))
            .into()
    }
}

impl ToSchema for AnyOperator {
    fn name() -> Cow<'static, str> {
        "OperatorRequest".into()
    }

    fn schemas(schemas: &mut Schemas) {
        GemmRequest::schemas(schemas);
        AttentionRequest::schemas(schemas);
    }
}

/// A sweep of the kind that `kind` names; the other keys are those of that sweep.
pub struct AnySweep;

impl PartialSchema for AnySweep {
    fn schema() -> RefOr<Schema> {
        OneOfBuilder::new()
            .item(of_kind("gemm", Swept::<GemmRequest>::schema()))
            .item(of_kind("attention", Swept::<AttentionRequest>::schema()))
            .item(of_kind("model", Swept::<ModelRequest>::schema()))
            .description(Some("A sweep of the kind that `kind` names."))
            .into()
    }
}

impl ToSchema for AnySweep {
    fn name() -> Cow<'static, str> {
        "SweepRequest".into()
    }

    fn schemas(schemas: &mut Schemas) {
        Swept::<GemmRequest>::schemas(schemas);
        Swept::<AttentionRequest>::schemas(schemas);
        Swept::<ModelRequest>::schemas(schemas);
    }
}

/// The schema of an object with a key `kind` that says `kind`. It stays one object: one that takes no other keys cannot
/// be added to.
fn of_kind(kind: &str, mut schema: RefOr<Schema>) -> RefOr<Schema> {
    if let RefOr::T(Schema::Object(object)) = &mut schema {
        let only = ObjectBuilder::new().schema_type(Type::String);
        let only = only.enum_values(Some([kind]));
        object.properties.insert("kind".to_owned(), only.into());
        object.required.push("kind".to_owned());
    }
    schema
}

/// A request about a model, or the config.json of one: then the query string holds the rest, as in
/// `?gpu=a100&mode=decode&batch=8`.
#[derive(ToSchema)]
#[serde(untagged)]
#[allow(dead_code)] // described, never built
pub enum ModelOrConfig {
    /// A request.
    Request(ModelBody),
    /// A Hugging Face config.json.
    Config(Config),
}

/// The same of one step and its run.
#[derive(ToSchema)]
#[serde(untagged)]
#[allow(dead_code)] // described, never built
pub enum StepOrConfig {
    /// A request.
    Request(StepBody),
    /// A Hugging Face config.json.
    Config(Config),
}

/// A Hugging Face config.json; which fields it has depends on its type.
#[derive(ToSchema)]
#[allow(dead_code)] // described, never built
pub struct Config {
    /// `llama`, `gpt2`, `mixtral`, …
    model_type: String,
}

impl<R: ToSchema> PartialSchema for Answer<R> {
    fn schema() -> RefOr<Schema> {
        let version = ObjectBuilder::new()
            .schema_type(Type::Integer)
            .enum_values(Some([SCHEMA]))
            .description(Some("The version of the document."));
        let version = ObjectBuilder::new().property("schema", version).required("schema");
        AllOfBuilder::new()
            .item(Ref::from_schema_name(R::name()))
            .item(version)
            .into()
    }
}

impl<R: ToSchema> ToSchema for Answer<R> {
    fn name() -> Cow<'static, str> {
        let report = R::name();
        let what = report.strip_suffix("Report").unwrap_or(&report);
        format!("{what}Answer").into()
    }

    fn schemas(schemas: &mut Schemas) {
        schemas.push((R::name().into(), R::schema()));
        R::schemas(schemas);
    }
}
