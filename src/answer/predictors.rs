//! From the GPU, the model and the framework that a request names to a predictor.
//!
//! Making one takes milliseconds, asking it microseconds, so those that were asked last are kept.

use crate::arch::Mode;
use crate::error::{Error, Result, read_text};
use crate::framework::Framework;
use crate::gpu::{Gpu, GpuCatalog};
use crate::predict::scope::Scope;
use crate::predict::{Predictor, library};
use crate::regressor::artifact::{ANY_GPU, Artifact, Card};
use crate::request::{DEFAULT_GPU, FrameworkRequest, TargetRequest};
use std::borrow::Cow;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// The predictors that were asked last.
pub struct Predictors {
    most: usize,
    /// The most recently used is last.
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

    /// The predictor for a GPU and, if named, a built-in model and framework. Nothing is read from paths.
    pub fn built_in(&self, target: &TargetRequest) -> Result<Arc<Predictor>> {
        let artifact = target.model.as_deref().map(built_in).transpose()?;
        let own = artifact.and_then(|artifact| own_gpu(&artifact.card));
        let gpu = Gpu::find(target.gpu.as_deref().or(own).unwrap_or(DEFAULT_GPU))?;
        let others = TargetRequest {
            gpu: None,
            ..target.clone()
        };
        let key: Key = (&gpu.name, others);
        if let Some(ready) = self.touch(&key) {
            return Ok(ready);
        }
        // Others go on meanwhile; that two make the same one does no harm.
        let made = unframed(target, gpu, artifact)?;
        let made = Arc::new(framed(made, target)?);
        if let Some(FrameworkRequest::Content { .. }) = target.framework {
            return Ok(made);
        }
        let mut ready = self.lock();
        ready.retain(|(known, _)| *known != key);
        if ready.len() >= self.most {
            ready.remove(0);
        }
        ready.push((key, Arc::clone(&made)));
        Ok(made)
    }

    /// The predictor of a target whose model and framework may be paths; those are read anew each time.
    pub fn get(&self, target: &TargetRequest) -> Result<Arc<Predictor>> {
        let is_path = |name: &String| {
            let path = Path::new(name);
            path.is_dir() || path.extension().is_some()
        };
        let framework = match &target.framework {
            Some(FrameworkRequest::Named(name)) => Some(name),
            _ => None,
        };
        let paths = target.model.iter().chain(framework).chain(&target.gpu);
        match paths.into_iter().any(is_path) {
            true => find(target, GpuCatalog::default()).map(Arc::new),
            false => self.built_in(target),
        }
    }

    /// The predictor if it is ready, moved to the end.
    fn touch(&self, key: &Key) -> Option<Arc<Predictor>> {
        let mut ready = self.lock();
        let place = ready.iter().position(|(known, _)| known == key)?;
        ready[place..].rotate_left(1);
        ready.last().map(|(_, predictor)| Arc::clone(predictor))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(Key, Arc<Predictor>)>> {
        self.ready.lock().expect("no panic while it is held")
    }
}

/// The predictor of a target whose model and framework may be paths; `gpus` are described elsewhere.
pub fn find(target: &TargetRequest, mut gpus: GpuCatalog) -> Result<Predictor> {
    let model = target.model.as_deref().map(artifact).transpose()?;
    gpus.extend(described_by(model.as_deref()));
    let own = model.as_ref().and_then(|model| own_gpu(&model.card));
    let name = target.gpu.as_deref().or(own).unwrap_or(DEFAULT_GPU);
    let described = gpu_file(name)?;
    let gpu = described.as_ref().map_or_else(|| gpus.find(name), Ok)?;
    let predictor = unframed(target, gpu, model.as_deref())?;
    if let Some(FrameworkRequest::Named(name)) = &target.framework
        && let Some(framework) = framework_file(name)?
    {
        refuse_eager(target, name)?;
        return Ok(predictor.with_framework(framework));
    }
    framed(predictor, target)
}

/// The predictor of a target on this GPU, without its framework.
fn unframed(target: &TargetRequest, gpu: &Gpu, model: Option<&Artifact>) -> Result<Predictor> {
    let predictor = Predictor::new(&target.placed(gpu), model)?;
    Ok(predictor.with_scope(Scope::of(target.any_stack)))
}

/// The predictor with a framework, whose name is that of a built-in one.
fn framed(predictor: Predictor, target: &TargetRequest) -> Result<Predictor> {
    match &target.framework {
        None if target.enforce_eager => {
            Ok(predictor.with_framework_named(&eager(Framework::default_name(Mode::Decode))?))
        }
        None => Ok(predictor),
        Some(FrameworkRequest::Named(name)) => {
            Framework::check_name(name)?;
            let name = match target.enforce_eager {
                true => &eager(name)?,
                false => name,
            };
            Ok(predictor.with_framework_named(name))
        }
        Some(FrameworkRequest::Content { toml }) => {
            let framework = framework_content(toml)?;
            refuse_eager(target, &framework.name)?;
            Ok(predictor.with_framework(framework))
        }
    }
}

/// The built-in framework that is this one without CUDA graphs.
fn eager(name: &str) -> Result<String> {
    const EAGER: &str = "-eager";
    let eager = match name.ends_with(EAGER) {
        true => name.to_owned(),
        false => format!("{name}{EAGER}"),
    };
    let known = Framework::all().iter().map(|known| known.name.as_str());
    if known.clone().any(|known| known == eager) {
        return Ok(eager);
    }
    let with: Vec<_> = known.filter_map(|known| known.strip_suffix(EAGER)).collect();
    let allowed = format!("with {}", with.join(", "));
    let field = "enforce_eager";
    Err(Error::field("target", field, format!("with {name}"), &allowed))
}

/// Refuses launches by the host beside the constants of a file, which hold what its server does.
fn refuse_eager(target: &TargetRequest, name: &str) -> Result<()> {
    if !target.enforce_eager {
        return Ok(());
    }
    let allowed = "with a built-in framework";
    let field = "enforce_eager";
    Err(Error::field("target", field, format!("with {name}"), allowed))
}

/// The framework that a request holds as the text of a file.
pub fn framework_content(toml: &str) -> Result<Framework> {
    Framework::from_toml(toml, "framework.toml")
}

/// The model of this name: a folder with a card, else a built-in one.
pub fn artifact(name: &str) -> Result<Cow<'static, Artifact>> {
    let folder = Path::new(name);
    if folder.is_dir() {
        return Artifact::open(folder).map(Cow::Owned);
    }
    let built_in = library::find(name)?;
    built_in.map(Cow::Borrowed).ok_or_else(|| {
        let names: Vec<_> = library::names().collect();
        let allowed = format!("a folder with a card.json, or one of {}", names.join(", "));
        Error::field("target", "model", format!("`{name}`"), &allowed)
    })
}

/// The GPUs that a model describes.
pub fn described_by(model: Option<&Artifact>) -> impl Iterator<Item = Gpu> {
    model.into_iter().flat_map(|model| model.card.gpus.clone())
}

/// The GPU of a file; `None` if the text is the name of one.
fn gpu_file(name_or_path: &str) -> Result<Option<Gpu>> {
    let path = Path::new(name_or_path);
    if path.extension().is_none_or(|extension| extension != "toml") {
        return Ok(None);
    }
    let gpu = Gpu::from_toml(&read_text(path)?, name_or_path)?;
    if gpu.is_described() {
        return Ok(Some(gpu));
    }
    let allowed = "a name that no built-in GPU has";
    Err(Error::field(name_or_path, "name", format!("`{}`", gpu.name), allowed))
}

/// The framework of a file; `None` if the text is the name of a built-in one.
pub fn framework_file(name_or_path: &str) -> Result<Option<Framework>> {
    let path = Path::new(name_or_path);
    if path.extension().is_none_or(|extension| extension != "toml") {
        return Ok(None);
    }
    Framework::from_toml(&read_text(path)?, name_or_path).map(Some)
}

/// The GPU that a model describes, else that of all its rows, where it is one.
fn own_gpu(card: &Card) -> Option<&str> {
    let measured = card.submodels.iter().map(|submodel| submodel.key.gpu.as_str());
    let mut names: Vec<&str> = match &card.gpus[..] {
        [] => measured.filter(|gpu| *gpu != ANY_GPU).collect(),
        described => described.iter().map(|gpu| gpu.name.as_str()).collect(),
    };
    names.dedup();
    match names[..] {
        [name] => Some(name),
        _ => None,
    }
}

/// The built-in model of this name.
pub(super) fn built_in(name: &str) -> Result<&'static Artifact> {
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
        let first = predictors.built_in(&target("h200", None)).unwrap();
        let again = predictors.built_in(&target("H200", None)).unwrap();
        assert!(Arc::ptr_eq(&first, &again));
        predictors.built_in(&target("a100", None)).unwrap();
        assert!(Arc::ptr_eq(
            &first,
            &predictors.built_in(&target("h200", None)).unwrap()
        ));
        predictors.built_in(&target("l40s", None)).unwrap();
        assert!(Arc::ptr_eq(
            &first,
            &predictors.built_in(&target("h200", None)).unwrap()
        ));
        assert_eq!(predictors.lock().len(), 2);
    }

    #[test]
    fn a_model_of_one_gpu_is_asked_for_that_gpu() {
        let predictors = Predictors::new(2);
        for (model, gpu) in [("h100", "h100"), (library::BASE, DEFAULT_GPU)] {
            let named = TargetRequest {
                gpu: None,
                ..target("", Some(model))
            };
            assert_eq!(predictors.built_in(&named).unwrap().gpu().name, gpu);
            assert_eq!(find(&named, GpuCatalog::default()).unwrap().gpu().name, gpu);
        }
    }

    #[test]
    fn names_are_no_paths() {
        let predictors = Predictors::new(2);
        for (gpu, model) in [("../h200", None), ("h200", Some("models/h200"))] {
            let refused = predictors.built_in(&target(gpu, model)).err().unwrap();
            assert!(refused.is_bad_input(), "{refused}");
        }
    }
}
