//! Schemas of bodies and answers, for the document of the API.
//!
//! A body is a request of [`crate::request`] with the GPU and the model beside its keys; where it is swept, its sizes
//! may be ranges. An answer is a report with the version beside its keys.

use crate::answer::question::{Load, Question};
use crate::answer::schema::{Described, described, with_target};
use crate::report::SCHEMA;
use crate::report::calibration::CalibrationReport;
use crate::report::gpus::GpuReport;
use crate::report::operator::OperatorsReport;
use crate::request::json::Bodied;
use crate::request::{AttentionRequest, GemmRequest, group, label};
use crate::serve::body::BatchRequest;
use crate::serve::handlers::Problems;
use std::borrow::Cow;
use std::marker::PhantomData;
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::path::{HttpMethod, OperationBuilder};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::schema::{AllOfBuilder, OneOfBuilder, Type};
use utoipa::openapi::{ObjectBuilder, OpenApi, Ref, RefOr, Required, ResponsesBuilder, Schema};
use utoipa::{PartialSchema, ToSchema};

type Schemas = Vec<(String, RefOr<Schema>)>;

/// Enters a question into the document of the API.
pub fn describe(question: &Question, address: &str, document: &mut OpenApi) {
    let mut operation = OperationBuilder::new()
        .tag(question.topic)
        .operation_id(Some(question.name))
        .summary(Some(question.summary));
    let (answer, mut schemas) = answer(question.report());
    let content = |name: &str| ContentBuilder::new().schema(Some(Ref::from_schema_name(name)));
    let mut response = ResponseBuilder::new()
        .description(question.answer)
        .content("application/json", content(&answer));
    if question.load == Load::Search {
        operation = operation.description(Some(EVENTS));
        let text = ObjectBuilder::new().schema_type(Type::String);
        let events = ContentBuilder::new().schema(Some(text));
        response = response.content("text/event-stream", events);
    }
    let mut responses = ResponsesBuilder::new().response("200", response);
    let mut method = HttpMethod::Get;
    if let Some(example) = question.example {
        method = HttpMethod::Post;
        let (name, body) = question.body_schema();
        schemas.extend(body);
        let example = serde_json::from_str(example).expect("examples are JSON");
        let body = RequestBodyBuilder::new().content("application/json", content(&name).example(Some(example)));
        operation = operation.request_body(Some(body.required(Some(Required::True)).build()));
        responses = responses.responses_from_into_responses::<Problems>();
    }
    let operation = operation.responses(responses.build());
    document.paths.add_path_operation(address, vec![method], operation);
    document.components.get_or_insert_default().schemas.extend(schemas);
}

/// The document with a label, a group and a place in the groups beside every key of a request.
pub fn labelled(document: &OpenApi) -> String {
    let mut document = serde_json::to_value(document).expect("the document is JSON");
    let schemas = document["components"]["schemas"].as_object_mut();
    let requests = schemas.into_iter().flatten();
    for (_, schema) in requests.filter(|(name, _)| name.ends_with("Request")) {
        for (key, one) in schema["properties"].as_object_mut().into_iter().flatten() {
            if let Some((heading, place)) = group(key) {
                one["title"] = label(key).into();
                one["x-group"] = heading.into();
                one["x-order"] = place.into();
            }
        }
    }
    serde_json::to_string_pretty(&document).expect("it was JSON")
}

/// Searches in the document of the API.
const EVENTS: &str = "With `Accept: text/event-stream` the answer is a stream: `progress` events with `done`, `total` and\n\
    `best_time_ratio`, then one `result` with the document or one `problem`. A search whose client disconnects is stopped.";

/// Many operators with their GPU and model.
pub struct BatchBody;

impl PartialSchema for BatchBody {
    fn schema() -> RefOr<Schema> {
        own(with_target(described::<BatchRequest>(), BatchRequest::BODY))
    }
}

impl ToSchema for BatchBody {
    fn name() -> Cow<'static, str> {
        BatchRequest::name()
    }

    fn schemas(schemas: &mut Schemas) {
        BatchRequest::schemas(schemas);
    }
}

/// The schema that a description is of.
fn own((_, schemas): Described) -> RefOr<Schema> {
    let mut schemas = schemas.into_iter();
    schemas.next().expect("its own is the first").1
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

/// A document as it is answered: the report, with the version beside its keys.
pub struct Answer<R>(PhantomData<R>);

pub type Calibration = Answer<CalibrationReport>;
pub type Gpu = Answer<GpuReport>;
pub type Operators = Answer<OperatorsReport>;

/// Name and schemas of a document with this report.
fn answer((report, mut schemas): Described) -> Described {
    let what = report.strip_suffix("Report").unwrap_or(&report);
    let name = format!("{what}Answer");
    let version = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .enum_values(Some([SCHEMA]))
        .description(Some("The version of the document."));
    let version = ObjectBuilder::new().property("schema", version).required("schema");
    let document = AllOfBuilder::new().item(Ref::from_schema_name(&report)).item(version);
    schemas.insert(0, (name.clone(), document.into()));
    (name, schemas)
}

impl<R: ToSchema> PartialSchema for Answer<R> {
    fn schema() -> RefOr<Schema> {
        own(answer(described::<R>()))
    }
}

impl<R: ToSchema> ToSchema for Answer<R> {
    fn name() -> Cow<'static, str> {
        answer(described::<R>()).0.into()
    }

    fn schemas(schemas: &mut Schemas) {
        schemas.extend(answer(described::<R>()).1);
    }
}
