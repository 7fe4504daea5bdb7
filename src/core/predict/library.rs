//! The models that are built into the program, parsed when first asked for.

use crate::error::Result;
use crate::regressor::artifact::{Artifact, CARD_FILE, WEIGHTS_FILE};
use include_dir::Dir;
use std::collections::BTreeMap;
use std::sync::{LazyLock, OnceLock};

/// Name of the model that was trained over all GPUs.
pub const BASE: &str = "base";

/// Name of the model of collectives, of all GPUs whose links were timed.
pub const COLLECTIVES: &str = "collectives";

/// Folders of the built-in models by name, each with its model once that is asked for.
static BUILT_IN: LazyLock<BTreeMap<&'static str, (&'static Dir<'static>, OnceLock<Artifact>)>> = LazyLock::new(|| {
    let folders = shapewise_models::MODELS
        .dirs()
        .chain(shapewise_models_hopper::MODELS.dirs());
    folders
        .filter(|folder| folder.get_file(folder.path().join(CARD_FILE)).is_some())
        .filter_map(|folder| Some((folder.path().to_str()?, (folder, OnceLock::new()))))
        .collect()
});

/// Names of the built-in models: those of GPUs are named like the GPU.
pub fn names() -> impl Iterator<Item = &'static str> {
    BUILT_IN.keys().copied()
}

/// All built-in models.
pub fn all() -> Result<Vec<&'static Artifact>> {
    names().filter_map(|name| find(name).transpose()).collect()
}

/// The built-in model of this name, if there is one.
pub fn find(name: &str) -> Result<Option<&'static Artifact>> {
    let Some((folder, cell)) = BUILT_IN.get(name) else {
        return Ok(None);
    };
    if let Some(artifact) = cell.get() {
        return Ok(Some(artifact));
    }
    let read = |file: &str| {
        let file = folder.get_file(folder.path().join(file));
        file.map_or(&[][..], |file| file.contents())
    };
    let card = String::from_utf8_lossy(read(CARD_FILE));
    let artifact = Artifact::parse(&card, read(WEIGHTS_FILE), &format!("built-in model {name}"))?;
    Ok(Some(cell.get_or_init(|| artifact)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::Gpu;

    #[test]
    fn every_built_in_model_loads_and_is_named_like_its_folder() {
        for name in names() {
            let artifact = find(name).unwrap().unwrap();
            assert_eq!(artifact.card.name, name);
            assert!([BASE, COLLECTIVES].contains(&name) || Gpu::find(name).unwrap().name == name);
        }
        assert!(find("no-such-model").unwrap().is_none());
    }
}
