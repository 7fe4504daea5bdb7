//! Work that threads do ahead of its use, such as compiling plans: each thread has a state of its
//! own, and results are fetched by key.

use crate::error::Result;
use crate::measure::cuda::guarded;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Threads that turn keys into values.
pub struct Background<K, V> {
    shared: Arc<Shared<K, V>>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared<K, V> {
    state: Mutex<State<K, V>>,
    changed: Condvar,
}

struct State<K, V> {
    waiting: VecDeque<K>,
    begun: HashSet<K>,
    done: HashMap<K, Result<V>>,
    /// Threads that still work.
    alive: usize,
    ending: bool,
}

impl<K: Clone + Eq + Hash + Send + 'static, V: Send + 'static> Background<K, V> {
    /// Starts threads; each makes its worker by `open`, and ends if that fails.
    pub fn new<W>(threads: usize, open: impl Fn() -> Result<W> + Clone + Send + 'static) -> Self
    where
        W: FnMut(&K) -> Result<V>,
    {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                begun: HashSet::new(),
                done: HashMap::new(),
                alive: threads,
                ending: false,
            }),
            changed: Condvar::new(),
        });
        let start = |_| {
            let (shared, open) = (Arc::clone(&shared), open.clone());
            std::thread::spawn(move || {
                if let Ok(mut worker) = guarded(open) {
                    shared.work(|key| guarded(|| worker(key)));
                }
                let mut state = shared.lock();
                state.alive -= 1;
                shared.changed.notify_all();
            })
        };
        let threads = (0..threads).map(start).collect();
        Self { shared, threads }
    }

    /// Has the values of these keys made, in this order, unless they were asked for before.
    pub fn ask(&self, keys: impl Iterator<Item = K>) {
        let mut state = self.shared.lock();
        let mut asked = false;
        for key in keys {
            let known = state.done.contains_key(&key) || state.begun.contains(&key);
            if !known && !state.waiting.contains(&key) {
                state.waiting.push_back(key);
                asked = true;
            }
        }
        if asked {
            self.shared.changed.notify_all();
        }
    }

    /// Whether [`Background::take`] would wait for this key.
    pub fn is_pending(&self, key: &K) -> bool {
        self.shared.lock().is_pending(key)
    }

    /// The value of a key that was asked for, once it is there; none of another key, or where no
    /// thread is left to make it.
    pub fn take(&self, key: &K) -> Option<Result<V>> {
        let mut state = self.shared.lock();
        while state.is_pending(key) {
            let waited = self.shared.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        state.done.remove(key)
    }
}

impl<K: Eq + Hash, V> State<K, V> {
    fn is_pending(&self, key: &K) -> bool {
        self.alive > 0 && (self.begun.contains(key) || self.waiting.contains(key))
    }
}

impl<K: Clone + Eq + Hash, V> Shared<K, V> {
    fn lock(&self) -> MutexGuard<'_, State<K, V>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes values until the end is asked for.
    fn work(&self, mut make: impl FnMut(&K) -> Result<V>) {
        let mut state = self.lock();
        while !state.ending {
            let Some(key) = state.waiting.pop_front() else {
                let waited = self.changed.wait(state);
                state = waited.unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            state.begun.insert(key.clone());
            drop(state);
            let value = make(&key);
            state = self.lock();
            state.begun.remove(&key);
            state.done.insert(key, value);
            self.changed.notify_all();
        }
    }
}

impl<K, V> Drop for Background<K, V> {
    /// Waits for what is being made; what was not begun is not.
    fn drop(&mut self) {
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.ending = true;
        drop(state);
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn values_are_made_once_and_wait_for_whoever_takes_them() {
        let made = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&made);
        let squares = Background::new(3, move || {
            let counter = Arc::clone(&counter);
            Ok(move |&key: &usize| {
                counter.fetch_add(1, Ordering::SeqCst);
                Ok(key * key)
            })
        });
        squares.ask(0..50);
        squares.ask(0..50);
        for key in (0..50).rev() {
            assert_eq!(squares.take(&key).unwrap().unwrap(), key * key);
            assert!(!squares.is_pending(&key));
        }
        assert_eq!(made.load(Ordering::SeqCst), 50);
        // Not asked for, and taken already.
        assert!(squares.take(&99).is_none() && squares.take(&7).is_none());
    }

    #[test]
    fn an_error_or_a_panic_is_the_result_of_its_key_alone() {
        let odd = Background::new(2, || {
            Ok(|&key: &usize| match key % 3 {
                0 => Err(Error::infeasible("a multiple of three")),
                1 => panic!("one more than that"),
                _ => Ok(key),
            })
        });
        odd.ask(0..9);
        let said = |key| odd.take(&key).unwrap().unwrap_err().to_string();
        assert!(said(3).contains("a multiple of three"));
        assert!(said(4).contains("one more than that"));
        assert_eq!(odd.take(&5).unwrap().unwrap(), 5);
    }

    #[test]
    fn without_a_worker_nothing_is_waited_for() {
        type Worker = fn(&usize) -> Result<usize>;
        let none = Background::new(2, || Err::<Worker, _>(Error::infeasible("no handle")));
        none.ask(0..4);
        assert!(none.take(&0).is_none());
        // What was not begun does not hold the end up.
        let slow = Background::new(1, || {
            Ok(|&key: &u64| {
                std::thread::sleep(std::time::Duration::from_millis(20));
                Ok(key)
            })
        });
        slow.ask(0..1000);
        assert_eq!(slow.take(&0).unwrap().unwrap(), 0);
    }
}
