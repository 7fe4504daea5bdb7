//! Predictors that are ready: making one takes milliseconds, asking it microseconds.

use crate::error::Error;
use crate::error::Result;
use crate::framework::Framework;
use crate::gpu::Gpu;
use crate::predict::Predictor;
use crate::predict::library;
use crate::request::DEFAULT_GPU;
use crate::request::TargetRequest;
use std::sync::{Arc, Mutex};

/// The predictors that were asked last.
pub struct Predictors {
    most: usize,
    /// The one asked last stands at the end.
    ready: Mutex<Vec<(Key, Arc<Predictor>)>>,
}

/// The GPU, then what else was asked for.
type Key = (&'static str, TargetRequest);

impl Predictors {
    /// Keeps up to `most` of them.
    pub const fn new(most: usize) -> Self {
        Self {
            most,
            ready: Mutex::new(Vec::new()),
        }
    }

    /// The predictor for a GPU and, if named, a built-in model. Nothing is read from paths.
    pub fn get(&self, target: &TargetRequest) -> Result<Arc<Predictor>> {
        let gpu = Gpu::find(target.gpu.as_deref().unwrap_or(DEFAULT_GPU))?;
        let model = target.model.as_deref();
        let others = TargetRequest {
            gpu: None,
            ..target.clone()
        };
        let key: Key = (&gpu.name, others);
        if let Some(ready) = self.touch(&key) {
            return Ok(ready);
        }
        // Others go on meanwhile; that two make the same one does no harm.
        let artifact = model.map(built_in).transpose()?;
        let mut made = Predictor::new(&target.placed(gpu), artifact)?;
        if let Some(name) = &target.framework {
            Framework::check_name(name)?;
            made = made.with_framework_named(name);
        }
        let made = Arc::new(made);
        let mut ready = self.lock();
        ready.retain(|(known, _)| *known != key);
        if ready.len() >= self.most {
            ready.remove(0);
        }
        ready.push((key, Arc::clone(&made)));
        Ok(made)
    }

    /// The predictor if it is ready, moved to the end.
    fn touch(&self, key: &Key) -> Option<Arc<Predictor>> {
        let mut ready = self.lock();
        let place = ready.iter().position(|(known, _)| known == key)?;
        ready[place..].rotate_left(1);
        ready.last().map(|(_, predictor)| Arc::clone(predictor))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(Key, Arc<Predictor>)>> {
        self.ready.lock().expect("nobody panics while holding it")
    }
}

/// The built-in model of this name.
fn built_in(name: &str) -> Result<&'static crate::regressor::artifact::Artifact> {
    library::find(name)?.ok_or_else(|| {
        let names: Vec<_> = library::names().collect();
        let allowed = format!("one of {}", names.join(", "));
        Error::field("target", "model", format!("`{name}`"), &allowed)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(gpu: &str, model: Option<&str>) -> TargetRequest {
        TargetRequest {
            gpu: Some(gpu.to_owned()),
            model: model.map(str::to_owned),
            ..TargetRequest::default()
        }
    }

    #[test]
    fn the_one_asked_longest_ago_is_forgotten() {
        let predictors = Predictors::new(2);
        let first = predictors.get(&target("h200", None)).unwrap();
        let again = predictors.get(&target("H200", None)).unwrap();
        assert!(Arc::ptr_eq(&first, &again));
        predictors.get(&target("a100", None)).unwrap();
        assert!(Arc::ptr_eq(
            &first,
            &predictors.get(&target("h200", None)).unwrap()
        ));
        predictors.get(&target("l40s", None)).unwrap();
        assert!(Arc::ptr_eq(
            &first,
            &predictors.get(&target("h200", None)).unwrap()
        ));
        assert_eq!(predictors.lock().len(), 2);
    }

    #[test]
    fn names_are_no_paths() {
        let predictors = Predictors::new(2);
        for (gpu, model) in [("../h200", None), ("h200", Some("models/h200"))] {
            let refused = predictors.get(&target(gpu, model)).err().unwrap();
            assert!(refused.is_bad_input(), "{refused}");
        }
    }
}
