//! The web page and the page of the API: static files, built in.

use crate::serve::problem::Problem;
use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use include_dir::{Dir, include_dir};

static FILES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/src/serve/page");

/// The page runs our own files alone and connects to no other host.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The page.
pub async fn index() -> Response {
    file("index.html")
}

/// The page of the API.
pub async fn api() -> Response {
    file("api.html")
}

/// A file of the pages.
pub async fn part(name: Result<Path<String>, PathRejection>) -> Response {
    match name {
        Ok(Path(name)) => file(&name),
        Err(_) => Problem::nothing_here().into_response(),
    }
}

fn file(name: &str) -> Response {
    let Some(file) = FILES.get_file(name) else {
        return Problem::nothing_here().into_response();
    };
    let kind = match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        // A new program may bring a new page, so nothing is kept unasked.
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    (headers, file.contents()).into_response()
}
