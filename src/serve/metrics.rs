//! What the service counts, in the text format of Prometheus.

use crate::serve::admission::Admission;
use axum::http::StatusCode;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use std::time::Duration;

/// The media type of the text.
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Upper ends of the histogram of answer times, in seconds.
const BUCKETS: [f64; 12] = [1e-4, 2.5e-4, 5e-4, 1e-3, 2e-3, 5e-3, 2e-2, 1e-1, 0.5, 1.0, 5.0, 60.0];

/// Everything that is counted.
pub struct Metrics {
    registry: Registry,
    requests: Family<Answered, Counter>,
    times: Family<At, Histogram, fn() -> Histogram>,
    connections: Gauge,
    working: Family<Work, Gauge>,
    waiting: Family<Work, Gauge>,
}

/// An open connection.
pub struct Open(Gauge);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    path: String,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct At {
    path: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Work {
    work: &'static str,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("shapewise");
        let requests = Family::<Answered, Counter>::default();
        let times = Family::new_with_constructor((|| Histogram::new(BUCKETS)) as fn() -> Histogram);
        let connections = Gauge::default();
        let working = Family::default();
        let waiting = Family::default();
        registry.register("requests", "Answered requests", requests.clone());
        registry.register_with_unit(
            "answer_time",
            "From the request to the headers of the answer",
            Unit::Seconds,
            times.clone(),
        );
        registry.register("connections", "Open connections", connections.clone());
        registry.register("working", "Requests that keep a core busy", working.clone());
        registry.register("waiting", "Requests that wait for a core", waiting.clone());
        Self {
            registry,
            requests,
            times,
            connections,
            working,
            waiting,
        }
    }
}

impl Metrics {
    /// Notes an answer. `path` is that of the route, so that clients cannot invent new ones.
    pub fn answered(&self, path: &str, status: StatusCode, time: Duration) {
        let path = path.to_owned();
        let status = status.as_u16();
        let answered = Answered {
            path: path.clone(),
            status,
        };
        self.requests.get_or_create(&answered).inc();
        let times = self.times.get_or_create(&At { path });
        times.observe(time.as_secs_f64());
    }

    /// Counts a connection as open until what is returned is dropped.
    pub fn open(&self) -> Open {
        self.connections.inc();
        Open(self.connections.clone())
    }

    /// Everything as text, with what runs and queues now.
    pub fn text(&self, admissions: [(&'static str, &Admission); 2]) -> String {
        for (work, admission) in admissions {
            let work = Work { work };
            let running = self.working.get_or_create(&work);
            running.set(admission.running() as i64);
            let queued = self.waiting.get_or_create(&work);
            queued.set(admission.queued() as i64);
        }
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("strings take any text");
        text
    }
}
