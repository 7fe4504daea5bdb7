//! What went wrong, as an RFC 9457 problem document: field, value, what is allowed.

use crate::error::{Error, shortened};
use crate::request::{WorkloadRequest, json};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use std::time::Duration;
use utoipa::ToSchema;

/// The media type of a problem document.
pub const MEDIA_TYPE: &str = "application/problem+json";

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    document: Box<Document>,
    retry_after: Option<Duration>,
}

/// A problem document (RFC 9457).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct Document {
    /// What kind of problem, as the address of its description.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The same in words.
    title: &'static str,
    /// The status of the answer.
    status: u16,
    /// This case in one sentence.
    detail: String,
    /// The field that is wrong, such as `workload.batch`.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    /// What it holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    /// What it may hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed: Option<String>,
    /// Names this case in the log of the service.
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<String>,
}

impl Problem {
    fn new(status: StatusCode, kind: &'static str, title: &'static str, mut detail: String) -> Self {
        if let Some((end, _)) = detail.char_indices().nth(LONGEST) {
            detail.truncate(end);
            detail.push('…');
        }
        Self {
            document: Box::new(Document {
                kind,
                title,
                status: status.as_u16(),
                detail,
                field: None,
                value: None,
                allowed: None,
                instance: None,
            }),
            retry_after: None,
        }
    }

    /// The body is no JSON at all.
    pub fn not_json(detail: String) -> Self {
        let title = "The body is not JSON";
        Self::new(StatusCode::BAD_REQUEST, "/api#not-json", title, detail)
    }

    /// The body came as another media type.
    pub fn not_declared() -> Self {
        let detail = "send the header `Content-Type: application/json`".to_owned();
        let title = "The body is not declared as JSON";
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        Self::new(status, "/api#media-type", title, detail)
    }

    /// The body is larger than `most` bytes.
    pub fn too_large(most: usize) -> Self {
        let detail = format!("the body is larger than {most} bytes");
        let title = "The body is too large";
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "/api#too-large", title, detail)
    }

    /// The body did not arrive in time.
    pub fn too_slow(within: Duration) -> Self {
        let detail = format!("the body did not arrive within {} s", within.as_secs());
        let title = "The body did not arrive";
        Self::new(StatusCode::REQUEST_TIMEOUT, "/api#too-slow", title, detail)
    }

    /// A field breaks a rule.
    pub fn field(field: &str, value: &str, allowed: &str) -> Self {
        let (field, value) = (&*shortened(field), &*shortened(value));
        let named = if field.is_empty() { "body" } else { field };
        let detail = sentence(named, value, allowed);
        let mut problem = Self::new(StatusCode::UNPROCESSABLE_ENTITY, FIELD.0, FIELD.1, detail);
        problem.document.field = (!field.is_empty()).then(|| field.to_owned());
        problem.document.value = Some(value.to_owned());
        problem.document.allowed = Some(allowed.to_owned());
        problem
    }

    /// No route has this address.
    pub fn nothing_here() -> Self {
        let detail = "`/openapi.json` lists all addresses, `/api` shows them".to_owned();
        let title = "There is nothing at this address";
        Self::new(StatusCode::NOT_FOUND, "/api#not-found", title, detail)
    }

    /// Nothing has the name that the address ends with.
    pub fn unknown(error: &Error) -> Self {
        let title = "Nothing has this name";
        Self::new(StatusCode::NOT_FOUND, "/api#not-found", title, error.to_string())
    }

    /// The address takes another method.
    pub fn other_method(taken: &Method) -> Self {
        let detail = match *taken {
            Method::GET => "this address takes POST with a JSON body".to_owned(),
            Method::POST => "this address takes GET".to_owned(),
            _ => "the header `Allow` names the methods of this address".to_owned(),
        };
        let title = "The address does not take this method";
        let status = StatusCode::METHOD_NOT_ALLOWED;
        Self::new(status, "/api#method", title, detail)
    }

    /// The headers have more than `most` bytes.
    pub fn large_headers(most: usize) -> Self {
        let detail = format!("address and headers have more than {most} bytes");
        let title = "The headers are too large";
        let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        Self::new(status, "/api#headers", title, detail)
    }

    /// The request names another host than this service.
    pub fn other_host() -> Self {
        let detail = "the header `Host` is neither localhost, a loopback address nor a host of `--cors`".to_owned();
        let title = "This service has another name";
        Self::new(StatusCode::MISDIRECTED_REQUEST, "/api#host", title, detail)
    }

    /// The queue is full; the load is shed.
    pub fn busy(what: &str, retry_after: Duration) -> Self {
        let detail = format!("the queue of {what} is full; try again after `Retry-After`");
        Self {
            retry_after: Some(retry_after),
            ..Self::new(
                StatusCode::TOO_MANY_REQUESTS,
                "/api#busy",
                "Too many requests at once",
                detail,
            )
        }
    }

    /// The answer would take longer than a request may.
    pub fn over_time(within: Duration) -> Self {
        let detail = format!(
            "the answer takes longer than {} s; request less, or use the command line",
            within.as_secs()
        );
        let title = "The answer takes too long";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "/api#over-time", title, detail)
    }

    /// The service is wrong, not the client; `id` names the fault in the log.
    pub fn fault(id: String) -> Self {
        let detail = "this is a bug of the service; its log has the details under this instance".to_owned();
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        let mut problem = Self::new(status, "/api#fault", "Internal fault", detail);
        problem.document.instance = Some(id);
        problem
    }

    /// The same problem, with a field of the workload named as the body holds it: `workload.batch`.
    #[must_use]
    pub fn within_workload(mut self) -> Self {
        if let Some(field) = &mut self.document.field
            && WorkloadRequest::has(field)
        {
            field.insert_str(0, "workload.");
        }
        self
    }

    /// The same problem, in a field of `outer`.
    #[must_use]
    pub fn within(mut self, outer: &str) -> Self {
        let document = &mut *self.document;
        let field = match document.field.take() {
            Some(field) => format!("{outer}.{field}"),
            None => outer.to_owned(),
        };
        if let (Some(value), Some(allowed)) = (&document.value, &document.allowed) {
            document.detail = sentence(&field, value, allowed);
        }
        document.field = Some(field);
        self
    }

    /// The status of the answer.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.document.status).expect("it was made from one")
    }

    /// One JSON document.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(&self.document).expect("a problem holds strings and numbers only")
    }
}

fn sentence(field: &str, value: &str, allowed: &str) -> String {
    format!("`{field}` is {value}; allowed: {allowed}")
}

/// The longest message, in characters: no body is echoed.
const LONGEST: usize = 1000;

/// A field breaks a rule.
const FIELD: (&str, &str) = ("/api#field", "A value is not allowed");

/// Keys that hold a config.json, in which a field may be wrong.
const CONFIGS: [&str; 2] = ["architecture", "like"];

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let detail = json::in_keys(&error.to_string());
        if error.is_infeasible() {
            let title = "No answer can meet the request";
            let status = StatusCode::UNPROCESSABLE_ENTITY;
            return Self::new(status, "/api#infeasible", title, detail);
        }
        let place = error.place();
        let mut problem = Self::new(StatusCode::UNPROCESSABLE_ENTITY, FIELD.0, FIELD.1, detail);
        if let Some(at) = error.field_error() {
            let (value, allowed) = (at.value.replace('`', "\""), json::in_keys(&at.allowed));
            if place == Some(json::PLACE) {
                return Self::field(if at.field == json::WHOLE { "" } else { &at.field }, &value, &allowed);
            }
            problem.document.field = Some(at.field.clone());
            problem.document.value = Some(value);
            problem.document.allowed = Some(allowed);
        }
        match place.filter(|key| CONFIGS.contains(key)) {
            Some(key) => problem.within(key),
            None => problem,
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status(), self.json()).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        // What is left of the body is not read.
        if [StatusCode::PAYLOAD_TOO_LARGE, StatusCode::REQUEST_TIMEOUT].contains(&self.status()) {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        if let Some(after) = self.retry_after {
            headers.insert(header::RETRY_AFTER, after.as_secs().max(1).into());
        }
        response
    }
}
