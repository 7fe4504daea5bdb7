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
    waiting: Arc<AtomicUsize>,
    most_waiting: usize,
}

/// A place in the queue, given back when dropped.
pub struct Waiting {
    queue: Arc<AtomicUsize>,
    /// How many waited before.
    before: usize,
}

impl Waiting {
    fn new(queue: &Arc<AtomicUsize>) -> Self {
        Self {
            before: queue.fetch_add(1, Ordering::Relaxed),
            queue: Arc::clone(queue),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.queue.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Gate {
    /// Places for `places` at work and `most_waiting` in the queue.
    pub fn new(what: &'static str, places: usize, most_waiting: usize) -> Self {
        Self {
            what,
            working: Arc::new(Semaphore::new(places)),
            places,
            waiting: Arc::default(),
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

    /// A place to work, or one to wait for it; fails where neither is free.
    pub fn ticket(&self) -> Result<Ticket, Problem> {
        if let Ok(place) = Arc::clone(&self.working).try_acquire_owned() {
            return Ok(Ticket::Working(place));
        }
        let waiting = Waiting::new(&self.waiting);
        if waiting.before >= self.most_waiting {
            return Err(Problem::busy(self.what, RETRY_AFTER));
        }
        Ok(Ticket::Waiting(waiting, Arc::clone(&self.working)))
    }
}

/// What [`Gate::ticket`] gives; dropped, it is given back.
pub enum Ticket {
    /// A place to work.
    Working(OwnedSemaphorePermit),
    /// A place to wait for one.
    Waiting(Waiting, Arc<Semaphore>),
}

impl Ticket {
    /// Waits for the place.
    async fn place(self) -> OwnedSemaphorePermit {
        match self {
            Self::Working(place) => place,
            Self::Waiting(_waiting, working) => {
                let place = working.acquire_owned().await;
                place.expect("the places are never closed")
            }
        }
    }

    /// Does work that keeps a core busy on a thread of its own, in the place, which is held until the work ends; none
    /// where the work met a bug.
    pub async fn work<T: Send + 'static>(
        self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let place = self.place().await;
        let done = task::spawn_blocking(move || {
            let _place = place;
            work()
        });
        done.await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_finds_no_place_is_told_to_come_back() {
        let gate = Gate::new("searches", 1, 1);
        let working = gate.ticket().unwrap();
        let waiting = gate.ticket().unwrap();
        let refused = gate.ticket().err().unwrap();
        assert_eq!(refused.status().as_u16(), 429);
        assert_eq!((gate.working(), gate.waiting()), (1, 1));
        drop(working);
        assert_eq!(waiting.work(|| 6 * 7).await, Some(42));
        assert_eq!((gate.working(), gate.waiting()), (0, 0));
    }

    #[tokio::test]
    async fn who_stops_waiting_leaves_the_queue() {
        let gate = Gate::new("searches", 1, 1);
        let working = gate.ticket().unwrap();
        let waiting = gate.ticket().unwrap();
        let impatient = tokio::time::timeout(Duration::from_millis(5), waiting.work(|| ()));
        assert!(impatient.await.is_err());
        assert_eq!(gate.waiting(), 0);
        drop(working);
        assert_eq!(gate.working(), 0);
    }

    #[tokio::test]
    async fn a_bug_gives_the_place_back() {
        let gate = Gate::new("searches", 1, 0);
        let done = gate.ticket().unwrap().work(|| panic!("on purpose")).await;
        assert!(done.is_none());
        assert_eq!(gate.working(), 0);
    }
}
