//! The HTTP service and its web page: the same requests and documents as on the command line.
//!
//! [`router`] is the whole service without a socket; [`run`] puts it on one. A call goes through `body` (bytes to a
//! request), a handler (request to document, in `handlers` and `search`), and back; what keeps a core busy passes
//! `admission` first. Only this module knows HTTP.

mod admission;

pub mod body;

mod handlers;

mod hosts;

pub mod limits;

pub mod listen;

mod metrics;

mod page;

pub mod problem;

mod schema;

mod search;

use crate::answer::predictors::Predictors;
use crate::answer::question::Question;
use crate::error::{Error, Result};
use crate::request::TargetRequest;
use crate::serve::admission::Admission;
use crate::serve::hosts::Hosts;
use crate::serve::limits::Limits;
use crate::serve::metrics::Metrics;
use crate::serve::problem::Problem;
use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, Method, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::any::Any;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tower::util::option_layer;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::{AllowOrigin, CorsLayer};
use tower_http::set_header::SetResponseHeaderLayer;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// How to serve.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Web pages that may ask from a browser: origins, or `*` for all; if empty, no page may.
    pub origins: Vec<String>,
    /// What one client may ask.
    pub limits: Limits,
}

impl Options {
    /// The usual limits.
    pub fn new(listen: SocketAddr, origins: Vec<String>) -> Self {
        Self {
            listen,
            origins,
            limits: Limits::default(),
        }
    }
}

/// What handlers share.
#[derive(Clone)]
pub struct App {
    limits: Limits,
    predictors: Arc<Predictors>,
    searches: Arc<Admission>,
    jobs: Arc<Admission>,
    /// Bytes of answers that no client has taken yet.
    unsent: Arc<Semaphore>,
    hosts: Hosts,
    metrics: Arc<Metrics>,
    draining: Arc<AtomicBool>,
    /// Receives one line per event.
    say: fn(&str),
}

impl App {
    /// A service with these limits; `say` receives one line per event.
    pub fn new(limits: Limits, say: fn(&str)) -> Self {
        let admission = |what, running, queued| Arc::new(Admission::new(what, running, queued));
        Self {
            limits,
            predictors: Arc::new(Predictors::new(limits.predictors)),
            searches: admission("searches", limits.searches, limits.waiting_searches),
            jobs: admission(
                "checks, plans, sweeps, batches, graphs and calibrations",
                limits.jobs,
                limits.waiting_jobs,
            ),
            unsent: Arc::new(Semaphore::new(limits.unsent_bytes)),
            hosts: Hosts::default(),
            metrics: Arc::default(),
            draining: Arc::default(),
            say,
        }
    }

    /// The same, answering to the names of a loopback address and of these origins alone.
    #[must_use]
    pub fn on_loopback(mut self, origins: &[String]) -> Self {
        self.hosts = Hosts::of_loopback(origins);
        self
    }

    /// From now on every answer closes its connection.
    fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    fn drains(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// The problem of a request that met a bug; the panic itself was reported where it happened.
    fn fault(&self) -> Problem {
        static FAULTS: AtomicU64 = AtomicU64::new(1);
        let number = FAULTS.fetch_add(1, Ordering::Relaxed);
        let id = format!("urn:shapewise:fault:{}-{number}", std::process::id());
        (self.say)(&format!("{id}: a request met the bug reported above"));
        Problem::fault(id)
    }
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "shapewise",
        description = "Predicts how fast transformers run on GPUs, and finds the fastest shapes. \
            Answers are the documents of the command line's `--format json`; every key carries its unit."
    ),
    tags(
        (name = "predict", description = "The time of operators and of whole models"),
        (name = "search", description = "The fastest architecture for a number of parameters"),
        (name = "plan", description = "The layout of a model over GPUs"),
        (name = "check", description = "The sizing rules on a shape"),
        (name = "sweep", description = "Curves along one size"),
        (name = "catalog", description = "What is built in"),
        (name = "service", description = "State of the service"),
    )
)]
struct Document;

/// The whole service without a socket.
pub fn router(app: App, origins: &[String]) -> Result<Router> {
    let api = OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(handlers::gpu))
        .routes(routes!(handlers::healthz))
        .routes(routes!(handlers::readyz))
        .routes(routes!(handlers::metrics));
    let (mut api, mut document) = api.split_for_parts();
    for question in Question::ALL {
        let address = format!("/v1/{}", question.name.replace('_', "/"));
        api = api.route(&address, handlers::route(question));
        schema::describe(question, &address, &mut document);
    }
    let document = schema::labelled(&document);
    let fixed = |name, value| {
        let name = HeaderName::from_static(name);
        SetResponseHeaderLayer::if_not_present(name, HeaderValue::from_static(value))
    };
    let cors = cors(origins)?;
    Ok(api
        .route("/openapi.json", get(async move || handlers::json(document.clone())))
        .route("/", get(page::index))
        .route("/api", get(page::api))
        .route("/page/{name}", get(page::part))
        .fallback(async || Problem::nothing_here())
        .method_not_allowed_fallback(async |method: Method| Problem::other_method(&method))
        .layer(caught(&app))
        .layer(option_layer(cors))
        .layer(fixed("content-security-policy", page::POLICY))
        .layer(fixed("x-content-type-options", "nosniff"))
        .layer(fixed("referrer-policy", "no-referrer"))
        .layer(middleware::from_fn_with_state(app.clone(), observe))
        .with_state(app))
}

/// Counts the answer, and closes the connection when the service is about to end.
async fn observe(State(app): State<App>, path: Option<MatchedPath>, request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let most = app.limits.header_bytes;
    let mut response = if header_bytes(&request) > most {
        Problem::large_headers(most).into_response()
    } else if app.hosts.answer(request.headers()) {
        next.run(request).await
    } else {
        Problem::other_host().into_response()
    };
    let path = path.as_ref().map_or("other", MatchedPath::as_str);
    app.metrics.answered(path, response.status(), begun.elapsed());
    if app.drains() {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    response
}

/// Bytes of the address and of the headers, which the buffer of a connection bounds to a few thousand more.
fn header_bytes(request: &Request) -> usize {
    let address = request.uri().path_and_query();
    let address = address.map_or(0, |address| address.as_str().len());
    let headers = request.headers().iter();
    // A colon, a space and the end of the line.
    let each = headers.map(|(name, value)| name.as_str().len() + value.len() + 4);
    address + each.sum::<usize>()
}

/// Which pages of others may ask.
fn cors(origins: &[String]) -> Result<Option<CorsLayer>> {
    let allowed = match origins {
        [] => return Ok(None),
        [all] if all == "*" => AllowOrigin::any(),
        some => {
            let parsed = some.iter().map(|origin| {
                let header = HeaderValue::from_str(origin).ok();
                header.filter(|_| is_origin(origin)).ok_or_else(|| {
                    let allowed = "* or origins such as https://example.org, in lower case and without a path";
                    Error::field("serve", "cors", origin, allowed)
                })
            });
            AllowOrigin::list(parsed.collect::<Result<Vec<_>>>()?)
        }
    };
    let layer = CorsLayer::new()
        .allow_origin(allowed)
        .allow_methods([Method::GET, Method::POST])
        .allow_headers([header::CONTENT_TYPE, header::ACCEPT])
        .expose_headers([header::RETRY_AFTER]);
    Ok(Some(layer))
}

/// `scheme://host` or `scheme://host:port`, as browsers write it.
fn is_origin(text: &str) -> bool {
    let rest = text.strip_prefix("https://");
    let rest = rest.or_else(|| text.strip_prefix("http://"));
    let odd = |c: char| c.is_ascii_uppercase() || ['/', '?', '#', '*', ' '].contains(&c);
    rest.is_some_and(|host| !host.is_empty() && !host.contains(odd))
}

/// Turns a panic of a handler into a problem.
fn caught(app: &App) -> CatchPanicLayer<impl Fn(Box<dyn Any + Send>) -> Response + Clone + use<>> {
    let app = app.clone();
    CatchPanicLayer::custom(move |_: Box<dyn Any + Send>| app.fault().into_response())
}

/// Serves until Ctrl-C or SIGTERM; `say` receives one line per event.
pub fn run(options: &Options, say: fn(&str)) -> Result<()> {
    let mut app = App::new(options.limits, say);
    if options.listen.ip().is_loopback() {
        app = app.on_loopback(&options.origins);
    }
    // The usual GPU answers its first question as fast as any.
    app.predictors.built_in(&TargetRequest::default())?;
    let router = router(app.clone(), &options.origins)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Error::io("threads", error))?;
    let served = runtime.block_on(async {
        let at = options.listen;
        let failed = |error: io::Error| {
            let other = SocketAddr::new(at.ip(), at.port().saturating_add(1));
            let error = match error.kind() {
                io::ErrorKind::AddrInUse => io::Error::other(format!("another program listens there; try {other}")),
                _ => error,
            };
            Error::io(format!("--listen {at}"), error)
        };
        let listener = TcpListener::bind(at).await.map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        let stop = signals().map_err(|error| Error::io("signals", error))?;
        say(&format!("listening on http://{bound}"));
        if !bound.ip().is_loopback() {
            say("warning: not a loopback address; anyone who can reach this machine can use the service without a password");
        }
        listen::serve(listener, router, app, stop).await;
        Ok(())
    });
    // A search without a waiting client stops at its next move; it is not waited for.
    runtime.shutdown_background();
    served
}

/// Ready at Ctrl-C or SIGTERM.
fn signals() -> std::io::Result<impl Future<Output = ()>> {
    #[cfg(unix)]
    let mut terminate = {
        use tokio::signal::unix::{SignalKind, signal};
        signal(SignalKind::terminate())?
    };
    Ok(async move {
        let interrupted = tokio::signal::ctrl_c();
        #[cfg(unix)]
        tokio::select! {
            _ = interrupted => {}
            _ = terminate.recv() => {}
        }
        #[cfg(not(unix))]
        let _ = interrupted.await;
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::{Body, to_bytes};
    use std::sync::Mutex;
    use tower::ServiceExt;

    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

    #[tokio::test]
    async fn a_bug_shows_an_id_that_is_said_to_whoever_runs_it() {
        let app = App::new(Limits::default(), |line| {
            SAID.lock().unwrap().push(line.to_owned());
        });
        let buggy = get(async || -> &'static str { panic!("a secret") });
        let router: Router = Router::new().route("/", buggy).layer(caught(&app));
        let response = router.oneshot(Request::new(Body::empty())).await.unwrap();
        assert_eq!(response.status().as_u16(), 500);
        let bytes = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        assert!(!text.contains("secret"), "{text}");
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        let id = document["instance"].as_str().unwrap();
        let said = SAID.lock().unwrap();
        assert!(said.len() == 1 && said[0].starts_with(id), "{said:?}");
    }
}
