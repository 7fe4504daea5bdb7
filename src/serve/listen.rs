//! The socket: connections with deadlines, and an end that loses no accepted request.

use crate::serve::App;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_io_timeout::TimeoutStream;

/// How long to wait after the operating system refused a connection, for want of files mostly.
const AFTER_REFUSAL: Duration = Duration::from_millis(50);

/// How often to look whether all connections have ended.
const PACE: Duration = Duration::from_millis(10);

/// Answers until `stop` is ready, then shuts down gracefully in three steps: for a moment (lame duck) requests are still
/// taken, each answer closing its connection; then no connection is accepted; then what runs is finished.
pub async fn serve(listener: TcpListener, router: Router, app: App, stop: impl Future<Output = ()>) {
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(app.limits.connections));
    let mut stop = pin!(stop);
    let mut end = pin!(async {
        stop.as_mut().await;
        app.drain();
        tokio::time::sleep(app.limits.lame_duck).await;
    });
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut end => break,
            accepted = accept(&listener, &places) => accepted,
        };
        match accepted {
            Ok((stream, place)) => connect(stream, &router, &app, &graceful, place),
            Err(_) => tokio::time::sleep(AFTER_REFUSAL).await,
        }
    }
    drain_accept_queue(listener, &places, |stream, place| {
        connect(stream, &router, &app, &graceful, place);
    });
    // A connection that was just accepted would be closed like an idle one: its request has to arrive first.
    let mut pace = tokio::time::interval(PACE);
    let _ = tokio::time::timeout(app.limits.lame_duck, async {
        while graceful.count() > 0 {
            pace.tick().await;
        }
    })
    .await;
    // What has not finished by then is aborted: the program ends.
    let _ = tokio::time::timeout(app.limits.drain, graceful.shutdown()).await;
}

/// Accepts the connections that are complete in the accept queue, then closes the listener.
///
/// The operating system itself is asked, as what the runtime knows of the queue may be older; connections that are in
/// the queue when it is closed are reset.
fn drain_accept_queue(listener: TcpListener, places: &Arc<Semaphore>, connect: impl Fn(TcpStream, Place)) {
    let Ok(listener) = listener.into_std() else {
        return;
    };
    let mut accepted = Vec::new();
    while let Ok(place) = Arc::clone(places).try_acquire_owned() {
        let Ok((stream, _)) = listener.accept() else {
            break;
        };
        accepted.push((stream, place));
    }
    drop(listener);
    for (stream, place) in accepted {
        if stream.set_nonblocking(true).is_ok()
            && let Ok(stream) = TcpStream::from_std(stream)
        {
            connect(stream, place);
        }
    }
}

type Place = tokio::sync::OwnedSemaphorePermit;

async fn accept(listener: &TcpListener, places: &Arc<Semaphore>) -> io::Result<(TcpStream, Place)> {
    let place = Arc::clone(places).acquire_owned().await;
    let (stream, _) = listener.accept().await?;
    Ok((stream, place.expect("the places are never closed")))
}

/// Answers on one connection, in a task of its own.
fn connect(stream: TcpStream, router: &Router, app: &App, graceful: &GracefulShutdown, place: Place) {
    let limits = app.limits;
    // Answers are written whole; waiting for more to send only delays them.
    let _ = stream.set_nodelay(true);
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(limits.write_time));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new());
    http.header_read_timeout(limits.header_time);
    http.max_buf_size(limits.header_bytes);
    let service = TowerToHyperService::new(router.clone());
    let connection = http.serve_connection(TokioIo::new(Box::pin(stream)), service);
    let connection = graceful.watch(connection);
    let app = app.clone();
    tokio::spawn(async move {
        let _open = app.metrics.open();
        // A dropped connection is not an error.
        let _ = connection.await;
        drop(place);
    });
}
