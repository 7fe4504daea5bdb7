//! What one client may ask of the service, and for how long.

use std::time::Duration;

/// The limits of a service.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of the headers of a request.
    pub header_bytes: usize,
    /// Bytes of a body.
    pub body_bytes: usize,
    /// Until a whole body has arrived.
    pub body_time: Duration,
    /// Until the headers of a request have arrived, and how long an idle connection is kept.
    pub header_time: Duration,
    /// Until a client takes the next bytes of an answer.
    pub write_time: Duration,
    /// Until a search or a sweep is answered, waiting included.
    pub answer_time: Duration,
    /// Searches at once.
    pub searches: usize,
    /// Searches that wait.
    pub waiting_searches: usize,
    /// Checks, sweeps and batches at once.
    pub jobs: usize,
    /// Checks, sweeps and batches that wait.
    pub waiting_jobs: usize,
    /// Bytes of large answers that clients have not taken yet, all together.
    pub unsent_bytes: usize,
    /// Connections at once; more wait in the queue of the operating system.
    pub connections: usize,
    /// Predictors that are kept ready.
    pub predictors: usize,
    /// After a signal to stop: how long requests are still taken, and then how long they may take.
    pub lame_duck: Duration,
    /// How long requests may take after that.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            header_bytes: 64 << 10,
            body_bytes: 1 << 20,
            body_time: Duration::from_secs(10),
            header_time: Duration::from_secs(10),
            write_time: Duration::from_secs(30),
            answer_time: Duration::from_secs(60),
            searches: cores,
            waiting_searches: 4 * cores,
            jobs: cores,
            waiting_jobs: 32 * cores,
            unsent_bytes: 128 << 20,
            connections: 1024,
            predictors: 16,
            lame_duck: Duration::from_secs(1),
            drain: Duration::from_secs(120),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_can_be_finished_at_the_end() {
        let limits = Limits::default();
        let longest = limits.body_time + limits.answer_time + limits.write_time;
        assert!(limits.drain >= longest);
    }
}
