//! `POST /v1/search`: one document, or progress as server-sent events and then the document.

use crate::search::{Progress, Watch};
use crate::serve::App;
use crate::serve::admission::Admitted;
use crate::serve::handlers::{Answered, json};
use crate::serve::problem::Problem;
use axum::http::{HeaderMap, header};
use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream;
use serde::Serialize;
use std::convert::Infallible;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// Least time between two events.
const PACE: Duration = Duration::from_millis(100);

/// How far a search is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
struct Step {
    /// Moves made or families of shapes scanned.
    done: u64,
    /// Of how many.
    total: u64,
    /// Best time of one chain over the baseline's.
    #[serde(skip_serializing_if = "Option::is_none")]
    best_time_ratio: Option<f64>,
}

impl From<&Progress> for Step {
    fn from(progress: &Progress) -> Self {
        Self {
            done: progress.done,
            total: progress.total,
            best_time_ratio: progress.best_cost().map(f64::exp),
        }
    }
}

/// Stops a search when its answer is no longer awaited.
struct Abandoned(Arc<AtomicBool>);

impl Drop for Abandoned {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What a search is answered with: its document, or a stream of events that ends with it.
pub async fn answered(
    app: &App,
    headers: &HeaderMap,
    answer: impl FnOnce(&Watch<'_>) -> Result<String, Problem> + Send + 'static,
) -> Answered {
    let admitted = app.searches.admit()?;
    let (tell, told) = watch::channel(Step::default());
    let answer = Box::pin(find(app.clone(), admitted, answer, tell));
    if wants_events(headers) {
        return Ok(events(answer, told).into_response());
    }
    Ok(json(answer.await?))
}

/// The document of a search.
type Finding = Pin<Box<dyn Future<Output = Result<String, Problem>> + Send>>;

/// Waits for a permit, searches, and stops when this future is dropped or runs out of time.
async fn find(
    app: App,
    admitted: Admitted,
    answer: impl FnOnce(&Watch<'_>) -> Result<String, Problem> + Send + 'static,
    tell: watch::Sender<Step>,
) -> Result<String, Problem> {
    let abandoned = Abandoned(Arc::default());
    let stop = Arc::clone(&abandoned.0);
    let within = app.limits.answer_time;
    let work = admitted.run(move || {
        answer(&|progress| {
            tell.send_replace(Step::from(progress));
            match stop.load(Ordering::Relaxed) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })
    });
    match tokio::time::timeout(within, work).await {
        Err(_) => Err(Problem::over_time(within)),
        Ok(None) => Err(app.fault()),
        Ok(Some(done)) => done,
    }
}

fn wants_events(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter();
    accepted
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|kind| kind.trim().starts_with("text/event-stream"))
}

/// What a stream of events is at.
enum Stage {
    Searching(Finding, watch::Receiver<Step>, Instant),
    Done,
}

fn events(answer: Finding, told: watch::Receiver<Step>) -> Sse<impl stream::Stream<Item = Result<Event, Infallible>>> {
    let begun = Stage::Searching(answer, told, Instant::now());
    let events = stream::unfold(begun, |stage| async move {
        let Stage::Searching(mut answer, mut told, next) = stage else {
            return None;
        };
        let step = async {
            tokio::time::sleep_until(next).await;
            match told.changed().await {
                Ok(()) => *told.borrow_and_update(),
                // The search has ended; its answer is about to come.
                Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            done = &mut answer => Some((Ok(last(done)), Stage::Done)),
            step = step => {
                let text = serde_json::to_string(&step).expect("steps hold numbers only");
                let event = Event::default().event("progress").data(text);
                let next = Instant::now() + PACE;
                Some((Ok(event), Stage::Searching(answer, told, next)))
            }
        }
    });
    Sse::new(events).keep_alive(KeepAlive::default())
}

fn last(done: Result<String, Problem>) -> Event {
    match done {
        Ok(document) => Event::default().event("result").data(document),
        Err(problem) => Event::default().event("problem").data(problem.json()),
    }
}
