//! A bounded number of places to work and to wait: what comes on top is told to come back later.

use crate::serve::problem::Problem;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task;

/// When somebody who found no place may come again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Places for one kind of work.
pub struct Gate {
    what: &'static str,
    working: Arc<Semaphore>,
    places: usize,
    waiting: AtomicUsize,
    most_waiting: usize,
}

/// A place in the queue, given back when dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Gate {
    /// Places for `places` at work and `most_waiting` in the queue.
    pub fn new(what: &'static str, places: usize, most_waiting: usize) -> Self {
        Self {
            what,
            working: Arc::new(Semaphore::new(places)),
            places,
            waiting: AtomicUsize::new(0),
            most_waiting,
        }
    }

    /// How many are at work.
    pub fn working(&self) -> usize {
        self.places - self.working.available_permits()
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Waits for a place to work; fails at once where too many wait.
    pub async fn enter(&self) -> Result<OwnedSemaphorePermit, Problem> {
        if let Ok(place) = Arc::clone(&self.working).try_acquire_owned() {
            return Ok(place);
        }
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiting = Waiting(&self.waiting);
        if before >= self.most_waiting {
            return Err(Problem::busy(self.what, RETRY_AFTER));
        }
        let place = Arc::clone(&self.working).acquire_owned().await;
        Ok(place.expect("the places are never closed"))
    }

    /// Does work that keeps a core busy on a thread of its own, in a place that is held until the work ends.
    pub async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let place = self.enter().await?;
        let done = task::spawn_blocking(move || {
            let _place = place;
            work()
        });
        // A panic goes on where somebody waits for the result.
        Ok(done
            .await
            .unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_finds_no_place_is_told_to_come_back() {
        let gate = Arc::new(Gate::new("searches", 1, 1));
        let working = gate.enter().await.unwrap();
        let waiting = tokio::spawn({
            let gate = Arc::clone(&gate);
            async move { gate.enter().await.map(drop) }
        });
        while gate.waiting() == 0 {
            task::yield_now().await;
        }
        let refused = gate.enter().await.unwrap_err();
        assert_eq!(refused.status().as_u16(), 429);
        assert_eq!((gate.working(), gate.waiting()), (1, 1));
        drop(working);
        waiting.await.unwrap().unwrap();
        assert_eq!((gate.working(), gate.waiting()), (0, 0));
    }

    #[tokio::test]
    async fn who_stops_waiting_leaves_the_queue() {
        let gate = Gate::new("searches", 1, 1);
        let working = gate.enter().await.unwrap();
        let impatient = tokio::time::timeout(Duration::from_millis(5), gate.enter());
        assert!(impatient.await.is_err());
        assert_eq!(gate.waiting(), 0);
        drop(working);
        assert_eq!(gate.work(|| 6 * 7).await.unwrap(), 42);
        assert_eq!(gate.working(), 0);
    }
}
