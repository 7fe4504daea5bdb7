//! Schemas of bodies and answers, for the document of the API.
//!
//! A body is a request of [`crate::request`] with the GPU and the model beside its keys; where it is swept, its sizes
//! may be ranges. An answer is a report with the version beside its keys.

use crate::answer::question::{Load, Question};
use crate::answer::schema::{Described, described};
use crate::report::SCHEMA;
use crate::report::gpus::GpuReport;
use crate::request::{group, label};
use crate::serve::problem::{self, Kind};
use std::borrow::Cow;
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::path::{HttpMethod, OperationBuilder};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::schema::{AllOfBuilder, Type};
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
        for Kind(status, _, title) in problem::OF_QUESTIONS {
            let problem = content("Problem");
            let response = ResponseBuilder::new()
                .description(title)
                .content(problem::MEDIA_TYPE, problem);
            responses = responses.response(status.as_str(), response);
        }
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

/// The document on one GPU.
pub struct Gpu;

impl PartialSchema for Gpu {
    fn schema() -> RefOr<Schema> {
        let (_, mut schemas) = answer(described::<GpuReport>());
        // Its own is the first.
        schemas.swap_remove(0).1
    }
}

impl ToSchema for Gpu {
    fn name() -> Cow<'static, str> {
        answer(described::<GpuReport>()).0.into()
    }

    fn schemas(schemas: &mut Schemas) {
        schemas.extend(answer(described::<GpuReport>()).1);
    }
}
