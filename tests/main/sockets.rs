//! The HTTP service over a socket: connections, clients that are slow or leave, and an end that loses nothing.

use crate::cli::say;
use crate::http::{Client, PATIENCE, Server, endless, question, wait_until};
use serde_json::Value;
use shapewise::serve::App;
use shapewise::serve::limits::Limits;
use shapewise::serve::listen;
use shapewise::serve::router;
use std::net::TcpListener;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

const GEMM: (&str, &[u8]) = ("/v1/predict/gemm", br#"{"m": 4096, "n": 4096, "k": 128}"#);

/// The service in this process, where its limits can be others; asked to stop when dropped.
struct Within {
    address: String,
    stop: Option<oneshot::Sender<()>>,
    served: Option<std::thread::JoinHandle<()>>,
}

impl Within {
    fn start(limits: Limits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (stop, stopped) = oneshot::channel::<()>();
        let served = std::thread::spawn(move || {
            let app = App::new(limits, |_| {});
            let router = router(app.clone(), &[]).unwrap();
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                let stop = async move { drop(stopped.await) };
                listen::serve(listener, router, app, stop).await;
            });
            runtime.shutdown_background();
        });
        Self {
            address,
            stop: Some(stop),
            served: Some(served),
        }
    }

    fn client(&self) -> Client {
        Client::connect(&self.address).unwrap()
    }

    fn stop(&mut self) {
        drop(self.stop.take());
    }

    /// Waits for its end.
    fn ended(&mut self) {
        self.served.take().unwrap().join().unwrap();
    }
}

#[test]
fn one_connection_takes_many_questions() {
    let server = Server::start();
    let mut client = server.client();
    for _ in 0..3 {
        let reply = client.post(GEMM.0, GEMM.1).unwrap();
        assert_eq!(reply.status, 200, "{}", reply.text);
        assert!(reply.json()["time_us"].as_f64().unwrap() > 0.0);
        assert_eq!(client.get("/v1/nothing").unwrap().status, 404);
        assert_eq!(client.post(GEMM.0, b"{").unwrap().status, 400);
    }
    // Questions may be sent before the answers to earlier ones have come.
    client
        .write(&[question(GEMM.0, "", GEMM.1), question(GEMM.0, "", b"[]")].concat())
        .unwrap();
    assert_eq!(client.read().unwrap().status, 200);
    assert_eq!(client.read().unwrap().status, 422);
    let counted = client.get("/metrics").unwrap().text;
    assert!(counted.contains("shapewise_connections 1"), "{counted}");
    assert_eq!(server.said().lines().count(), 1, "{}", server.said());
}

#[test]
fn who_can_be_asked_by_others_says_so() {
    let server = Server::listening("0.0.0.0:0");
    wait_until("a second line", || server.said().lines().count() == 2);
    assert!(server.said().contains("not a loopback address"));
    assert_eq!(server.get("/healthz").status, 200);
}

#[test]
fn a_port_in_use_is_one_sentence() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap();
    let outcome = say(&format!("serve --listen {at}"));
    assert_eq!((outcome.code, &*outcome.out), (1, ""));
    let sentence = format!("error: --listen {at}: ");
    assert!(outcome.err.starts_with(&sentence), "{}", outcome.err);
    assert_eq!(outcome.err.lines().count(), 1, "{}", outcome.err);
}

#[test]
fn headers_that_do_not_arrive_end_the_connection() {
    let service = Within::start(Limits {
        header_time: Duration::from_millis(200),
        ..Limits::default()
    });
    let mut silent = service.client();
    assert!(silent.is_closed(), "nothing was sent");
    let mut slow = service.client();
    slow.write(b"POST /v1/check HTTP/1.1\r\nhost: ").unwrap();
    assert!(slow.is_closed(), "half a header was sent");
    let mut idle = service.client();
    assert_eq!(idle.get("/healthz").unwrap().status, 200);
    assert!(idle.is_closed(), "nothing more was sent");
}

#[test]
fn a_body_that_does_not_arrive_is_told_so() {
    let service = Within::start(Limits {
        body_time: Duration::from_millis(200),
        ..Limits::default()
    });
    let mut slow = service.client();
    slow.write(b"POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{")
        .unwrap();
    let reply = slow.read().unwrap();
    assert_eq!(reply.status, 408, "{}", reply.text);
    assert!(slow.is_closed());
}

#[test]
fn a_body_that_is_too_large_is_told_so_while_it_comes() {
    let server = Server::start();
    let mut large = server.client();
    let reply = large.post("/v1/check", &vec![b' '; (1 << 20) + 1]).unwrap();
    assert_eq!(reply.status, 413, "{}", reply.text);
}

#[test]
fn a_length_beyond_all_is_refused_before_the_body() {
    let service = Within::start(Limits::default());
    let mut liar = service.client();
    liar.write(b"POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 100000000000000\r\n\r\n{")
        .unwrap();
    let begun = Instant::now();
    let reply = liar.read().unwrap();
    assert_eq!(reply.status, 413, "{}", reply.text);
    assert!(reply.closes() && begun.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_body_of_another_kind_leaves_the_connection_to_the_next_request() {
    let service = Within::start(Limits::default());
    let mut client = service.client();
    for _ in 0..50 {
        client
            .write(
                b"POST /v1/predict/gemm HTTP/1.1\r\nhost: a\r\ncontent-type: text/plain\r\ncontent-length: 5\r\n\r\n",
            )
            .unwrap();
        std::thread::sleep(Duration::from_millis(1));
        client.write(b"hello").unwrap();
        assert_eq!(client.read().unwrap().status, 415);
        let (path, body) = GEMM;
        assert_eq!(client.post(path, body).unwrap().status, 200);
    }
}

#[test]
fn a_loopback_service_does_not_answer_to_other_names() {
    let server = Server::start();
    let ask = |host: &str| {
        let mut client = server.client();
        let request = format!("GET /v1/gpus HTTP/1.1\r\n{host}\r\n");
        client.write(request.as_bytes()).unwrap();
        client.read().unwrap().status
    };
    assert_eq!(ask("host: localhost\r\n"), 200);
    assert_eq!(ask("host: 127.0.0.1:8080\r\n"), 200);
    assert_eq!(ask("host: evil.example\r\n"), 421);
    assert_eq!(ask("host: localhost\r\nhost: evil.example\r\n"), 421);
    let large = |bytes| format!("host: localhost\r\nx-large: {}\r\n", "x".repeat(bytes));
    assert_eq!(ask(&large(60 << 10)), 200);
    assert_eq!(ask(&large(65 << 10)), 431);
}

#[test]
fn answers_that_nobody_takes_have_a_budget() {
    let service = Within::start(Limits {
        unsent_bytes: 16 << 20,
        ..Limits::default()
    });
    let op = r#"{"kind":"gemm","m":8,"n":8,"k":8}"#;
    let ops = vec![op; 10_000].join(",");
    let batch = question("/v1/predict/batch", "", format!("{{\"ops\":[{ops}]}}").as_bytes());
    // Each answer is of several MB, more than the buffers of a socket hold.
    let mut deaf: Vec<Client> = Vec::new();
    for _ in 0..8 {
        let mut client = service.client();
        client.write(&batch).unwrap();
        deaf.push(client);
    }
    let refused = deaf.iter_mut().filter_map(|client| {
        let header = client.header().unwrap();
        header.starts_with("http/1.1 429").then_some(())
    });
    assert!(refused.count() >= 4);
    drop(deaf);
    let mut reader = service.client();
    wait_until("room for answers", || {
        reader.write(&batch).unwrap();
        reader.read().unwrap().status == 200
    });
}

#[test]
fn a_client_that_does_not_read_is_dropped() {
    let service = Within::start(Limits {
        write_time: Duration::from_millis(200),
        ..Limits::default()
    });
    let mut greedy = service.client();
    let ask = b"GET /openapi.json HTTP/1.1\r\nhost: a\r\n\r\n";
    // More answers than all buffers between here and there hold.
    greedy.write(&ask.repeat(2000)).unwrap();
    let mut other = service.client();
    wait_until("its end", || {
        let counted = other.get("/metrics").unwrap().text;
        counted.contains("shapewise_connections 1\n")
    });
}

#[test]
fn beyond_the_most_connections_others_wait() {
    let service = Within::start(Limits {
        connections: 2,
        header_time: Duration::from_millis(500),
        ..Limits::default()
    });
    let idle = [service.client(), service.client()];
    let mut third = service.client();
    assert_eq!(third.get("/healthz").unwrap().status, 200);
    drop(idle);
}

/// Reads events up to one of this name; returns its data.
fn event(client: &mut Client, name: &str) -> String {
    let mut text = String::new();
    while let Some(chunk) = client.chunk().unwrap() {
        text += &String::from_utf8(chunk).unwrap();
        let sought = text.split_once(&format!("event: {name}\ndata: "));
        if let Some((data, _)) = sought.and_then(|(_, rest)| rest.split_once("\n\n")) {
            return data.to_owned();
        }
    }
    panic!("no {name} in {text}");
}

#[test]
fn a_search_stops_when_its_client_leaves() {
    let server = Server::start();
    let busy = "shapewise_working{work=\"search\"} 1";
    let idle = "shapewise_working{work=\"search\"} 0";
    let events = "accept: text/event-stream\r\n";
    let mut watching = server.client();
    watching
        .write(&question("/v1/search", events, endless().to_string().as_bytes()))
        .unwrap();
    assert!(watching.header().unwrap().contains("200 ok"));
    let step: Value = serde_json::from_str(&event(&mut watching, "progress")).unwrap();
    assert!(step["done"].as_u64() <= step["total"].as_u64(), "{step}");
    server.wait_for(busy);
    drop(watching);
    server.wait_for(idle);

    let mut waiting = server.client();
    waiting
        .write(&question("/v1/search", "", endless().to_string().as_bytes()))
        .unwrap();
    server.wait_for(busy);
    drop(waiting);
    server.wait_for(idle);
}

#[test]
fn whoever_is_about_to_end_says_so_and_finishes() {
    let mut service = Within::start(Limits {
        lame_duck: Duration::from_secs(5),
        ..Limits::default()
    });
    let mut early = service.client();
    assert_eq!(early.get("/readyz").unwrap().status, 200);
    service.stop();
    wait_until("readyz to say no", || {
        let reply = service.client().get("/readyz").unwrap();
        reply.status == 503 && reply.closes()
    });
    // New questions are still answered, on old and on new connections; each answer is the last one there.
    for client in [&mut early, &mut service.client()] {
        let reply = client.post(GEMM.0, GEMM.1).unwrap();
        assert_eq!(reply.status, 200);
        assert!(reply.closes() && client.is_closed());
    }
    service.ended();
    assert!(Client::connect(&service.address).is_err());
}

#[test]
fn what_takes_too_long_is_cut_off_at_the_end() {
    let mut service = Within::start(Limits {
        lame_duck: Duration::ZERO,
        drain: Duration::from_millis(100),
        ..Limits::default()
    });
    let mut client = service.client();
    client
        .write(&question("/v1/search", "", endless().to_string().as_bytes()))
        .unwrap();
    let mut other = service.client();
    wait_until("the search", || {
        let counted = other.get("/metrics").unwrap().text;
        counted.contains("shapewise_working{work=\"search\"} 1")
    });
    service.stop();
    service.ended();
    assert!(client.is_closed());
}

/// What a client under load met.
#[derive(Debug, Default)]
struct Met {
    answered: usize,
    lost: Vec<String>,
}

/// Connections that are begun after the first one was ended from the other side. A client that begins them until
/// no one listens may wait in the queue of the operating system when it is closed, and that is no accepted request.
const LATE: usize = 5;

/// Asks one question after the other, as long as it is answered.
fn ask_to_the_end(address: &str, path: &str, body: &[u8]) -> Met {
    let mut met = Met::default();
    let begun = Instant::now();
    for _ in 0..LATE {
        let Ok(mut client) = Client::connect(address) else {
            break;
        };
        assert!(begun.elapsed() < PATIENCE, "it does not end");
        loop {
            if client.write(&question(path, "", body)).is_err() {
                // It was not sent, so nothing is lost.
                break;
            }
            match client.read() {
                Ok(reply) => {
                    assert_eq!(reply.status, 200, "{}", reply.text);
                    met.answered += 1;
                    if reply.closes() {
                        break;
                    }
                }
                Err(error) => {
                    met.lost.push(format!("after {}: {error}", met.answered));
                    break;
                }
            }
        }
    }
    met
}

#[cfg(unix)]
fn ends_without_losses(signal: &str) {
    let mut server = Server::start();
    let asking: Vec<_> = (0..8)
        .map(|number| {
            let address = server.address.clone();
            std::thread::spawn(move || match number {
                0 => ask_to_the_end(&address, "/v1/search", br#"{"params": "350M"}"#),
                1 | 2 => ask_to_the_end(&address, "/v1/predict/model", br#"{"architecture": "gpt2"}"#),
                3 => ask_to_the_end(
                    &address,
                    "/v1/sweep/gemm",
                    br#"{"m": 512, "n": "64:4096:64", "k": 512}"#,
                ),
                _ => ask_to_the_end(&address, GEMM.0, GEMM.1),
            })
        })
        .collect();
    server.wait_for("shapewise_requests_total{path=\"/v1/search\",status=\"200\"}");
    server.signal(signal);
    let status = server.ended();
    assert_eq!(status.code(), Some(0), "{}", server.said());
    for (number, client) in asking.into_iter().enumerate() {
        let met = client.join().unwrap();
        assert!(met.answered > 0, "client {number}: {met:?}");
        assert!(met.lost.is_empty(), "client {number}: {met:?}");
    }
    assert_eq!(server.said().lines().count(), 1, "{}", server.said());
}

#[cfg(unix)]
#[test]
fn a_signal_to_terminate_loses_no_accepted_request() {
    ends_without_losses("TERM");
}

#[cfg(unix)]
#[test]
fn neither_does_an_interruption() {
    ends_without_losses("INT");
}
