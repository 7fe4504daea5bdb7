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

/// A kind of problem: the status of its answer, the address of its description, and the same in words.
#[derive(Clone, Copy)]
pub struct Kind(pub StatusCode, pub &'static str, pub &'static str);

const NOT_JSON: Kind = Kind(StatusCode::BAD_REQUEST, "/api#not-json", "The body is not JSON");
const TOO_SLOW: Kind = Kind(
    StatusCode::REQUEST_TIMEOUT,
    "/api#too-slow",
    "The body did not arrive in time",
);
const TOO_LARGE: Kind = Kind(StatusCode::PAYLOAD_TOO_LARGE, "/api#too-large", "The body is too large");
const NOT_DECLARED: Kind = Kind(
    StatusCode::UNSUPPORTED_MEDIA_TYPE,
    "/api#media-type",
    "The body is not declared as JSON",
);
const OTHER_HOST: Kind = Kind(
    StatusCode::MISDIRECTED_REQUEST,
    "/api#host",
    "This service has another name",
);
const FIELD: Kind = Kind(StatusCode::UNPROCESSABLE_ENTITY, "/api#field", "A value is not allowed");
const INFEASIBLE: Kind = Kind(
    StatusCode::UNPROCESSABLE_ENTITY,
    "/api#infeasible",
    "No answer can meet the request",
);
const BUSY: Kind = Kind(StatusCode::TOO_MANY_REQUESTS, "/api#busy", "Too many requests at once");
const LARGE_HEADERS: Kind = Kind(
    StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
    "/api#headers",
    "The headers are too large",
);
const FAULT: Kind = Kind(StatusCode::INTERNAL_SERVER_ERROR, "/api#fault", "Internal fault");
const OVER_TIME: Kind = Kind(
    StatusCode::SERVICE_UNAVAILABLE,
    "/api#over-time",
    "The answer takes too long",
);
const NOT_FOUND: Kind = Kind(StatusCode::NOT_FOUND, "/api#not-found", "Nothing has this name");
const OTHER_METHOD: Kind = Kind(
    StatusCode::METHOD_NOT_ALLOWED,
    "/api#method",
    "The address does not take this method",
);

/// What every question may be answered with instead.
pub const OF_QUESTIONS: [Kind; 11] = [
    NOT_JSON,
    TOO_SLOW,
    TOO_LARGE,
    NOT_DECLARED,
    OTHER_HOST,
    FIELD,
    INFEASIBLE,
    BUSY,
    LARGE_HEADERS,
    FAULT,
    OVER_TIME,
];

impl Problem {
    fn new(Kind(status, kind, title): Kind, mut detail: String) -> Self {
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
        Self::new(NOT_JSON, detail)
    }

    /// The body came as another media type.
    pub fn not_declared() -> Self {
        Self::new(
            NOT_DECLARED,
            "send the header `Content-Type: application/json`".to_owned(),
        )
    }

    /// The body is larger than `most` bytes.
    pub fn too_large(most: usize) -> Self {
        Self::new(TOO_LARGE, format!("the body is larger than {most} bytes"))
    }

    /// The body did not arrive in time.
    pub fn too_slow(within: Duration) -> Self {
        let detail = format!("the body did not arrive within {} s", within.as_secs());
        Self::new(TOO_SLOW, detail)
    }

    /// A field breaks a rule.
    pub fn field(field: &str, value: &str, allowed: &str) -> Self {
        let (field, value) = (&*shortened(field), &*shortened(value));
        let named = if field.is_empty() { "body" } else { field };
        let mut problem = Self::new(FIELD, sentence(named, value, allowed));
        problem.document.field = (!field.is_empty()).then(|| field.to_owned());
        problem.document.value = Some(value.to_owned());
        problem.document.allowed = Some(allowed.to_owned());
        problem
    }

    /// No route has this address.
    pub fn nothing_here() -> Self {
        let detail = "`/openapi.json` lists all addresses, `/api` shows them".to_owned();
        Self::new(NOT_FOUND, detail)
    }

    /// Nothing has the name that the address ends with.
    pub fn unknown(error: &Error) -> Self {
        Self::new(NOT_FOUND, error.to_string())
    }

    /// The address takes another method.
    pub fn other_method(taken: &Method) -> Self {
        let detail = match *taken {
            Method::GET => "this address takes POST with a JSON body",
            Method::POST => "this address takes GET",
            _ => "the header `Allow` names the methods of this address",
        };
        Self::new(OTHER_METHOD, detail.to_owned())
    }

    /// The headers have more than `most` bytes.
    pub fn large_headers(most: usize) -> Self {
        Self::new(
            LARGE_HEADERS,
            format!("address and headers have more than {most} bytes"),
        )
    }

    /// The request names another host than this service.
    pub fn other_host() -> Self {
        let detail = "the header `Host` is neither localhost, a loopback address nor a host of `--cors`".to_owned();
        Self::new(OTHER_HOST, detail)
    }

    /// The queue is full; the load is shed.
    pub fn busy(what: &str, retry_after: Duration) -> Self {
        let detail = format!("the queue of {what} is full; try again after `Retry-After`");
        Self {
            retry_after: Some(retry_after),
            ..Self::new(BUSY, detail)
        }
    }

    /// The answer would take longer than a request may.
    pub fn over_time(within: Duration) -> Self {
        let detail = format!(
            "the answer takes longer than {} s; request less, or use the command line",
            within.as_secs()
        );
        Self::new(OVER_TIME, detail)
    }

    /// The service is wrong, not the client; `id` names the fault in the log.
    pub fn fault(id: String) -> Self {
        let detail = "this is a bug of the service; its log has the details under this instance".to_owned();
        let mut problem = Self::new(FAULT, detail);
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
    fn within(mut self, outer: &str) -> Self {
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

/// Keys that hold a config.json, in which a field may be wrong.
const CONFIGS: [&str; 3] = ["architecture", "from", "like"];

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let detail = json::in_keys(&error.to_string());
        if error.is_infeasible() {
            return Self::new(INFEASIBLE, detail);
        }
        let place = error.place();
        let mut problem = Self::new(FIELD, detail);
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
