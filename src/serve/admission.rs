//! Admission control: so many requests run at once, so many more queue, and load beyond that is shed with a 429.

use crate::serve::problem::Problem;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task;

/// The `Retry-After` of a request that was shed.
pub const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The admission control of one kind of work.
pub struct Admission {
    what: &'static str,
    permits: Arc<Semaphore>,
    concurrency: usize,
    queued: Arc<AtomicUsize>,
    queue_length: usize,
}

/// A slot of the queue, released when dropped.
pub struct QueueSlot {
    queued: Arc<AtomicUsize>,
    /// How many were queued before.
    before: usize,
}

impl QueueSlot {
    fn new(queued: &Arc<AtomicUsize>) -> Self {
        Self {
            before: queued.fetch_add(1, Ordering::Relaxed),
            queued: Arc::clone(queued),
        }
    }
}

impl Drop for QueueSlot {
    fn drop(&mut self) {
        self.queued.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Admission {
    /// Runs `concurrency` at once and queues `queue_length` more.
    pub fn new(what: &'static str, concurrency: usize, queue_length: usize) -> Self {
        Self {
            what,
            permits: Arc::new(Semaphore::new(concurrency)),
            concurrency,
            queued: Arc::default(),
            queue_length,
        }
    }

    /// How many run.
    pub fn running(&self) -> usize {
        self.concurrency - self.permits.available_permits()
    }

    /// How many are queued.
    pub fn queued(&self) -> usize {
        self.queued.load(Ordering::Relaxed)
    }

    /// Admits a request, to run or to the queue; sheds it where both are full.
    pub fn admit(&self) -> Result<Admitted, Problem> {
        if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            return Ok(Admitted::Running(permit));
        }
        let slot = QueueSlot::new(&self.queued);
        if slot.before >= self.queue_length {
            return Err(Problem::busy(self.what, RETRY_AFTER));
        }
        Ok(Admitted::Queued(slot, Arc::clone(&self.permits)))
    }
}

/// An admitted request; dropped, it gives its permit or its slot back.
pub enum Admitted {
    /// It holds a permit.
    Running(OwnedSemaphorePermit),
    /// It waits for one.
    Queued(QueueSlot, Arc<Semaphore>),
}

impl Admitted {
    /// Waits for the permit.
    async fn permit(self) -> OwnedSemaphorePermit {
        match self {
            Self::Running(permit) => permit,
            Self::Queued(_slot, permits) => {
                let permit = permits.acquire_owned().await;
                permit.expect("the semaphore is never closed")
            }
        }
    }

    /// Runs work that keeps a core busy on a thread of its own, which holds the permit until the work ends; `None` if the
    /// work panicked.
    pub async fn run<T: Send + 'static>(self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let permit = self.permit().await;
        let done = task::spawn_blocking(move || {
            let _permit = permit;
            work()
        });
        done.await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn load_beyond_the_queue_is_shed() {
        let searches = Admission::new("searches", 1, 1);
        let running = searches.admit().unwrap();
        let queued = searches.admit().unwrap();
        let shed = searches.admit().err().unwrap();
        assert_eq!(shed.status().as_u16(), 429);
        assert_eq!((searches.running(), searches.queued()), (1, 1));
        drop(running);
        assert_eq!(queued.run(|| 6 * 7).await, Some(42));
        assert_eq!((searches.running(), searches.queued()), (0, 0));
    }

    #[tokio::test]
    async fn a_request_that_is_given_up_leaves_the_queue() {
        let searches = Admission::new("searches", 1, 1);
        let running = searches.admit().unwrap();
        let queued = searches.admit().unwrap();
        let given_up = tokio::time::timeout(Duration::from_millis(5), queued.run(|| ()));
        assert!(given_up.await.is_err());
        assert_eq!(searches.queued(), 0);
        drop(running);
        assert_eq!(searches.running(), 0);
    }

    #[tokio::test]
    async fn a_panic_releases_the_permit() {
        let searches = Admission::new("searches", 1, 0);
        let done = searches.admit().unwrap().run(|| panic!("on purpose"));
        assert!(done.await.is_none());
        assert_eq!(searches.running(), 0);
    }
}
