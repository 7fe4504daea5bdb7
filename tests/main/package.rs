//! What is shipped beside the code agrees with it: licences, notices, recipes, manifest.

use crate::files::{model_packages, root, text_of};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

/// The cards of all shipped models.
fn cards() -> Vec<Value> {
    let folders = model_packages()
        .into_iter()
        .flat_map(|package| fs::read_dir(package).unwrap());
    let files = folders.map(|entry| entry.unwrap().path().join("card.json"));
    let mut files: Vec<PathBuf> = files.filter(|file| file.exists()).collect();
    files.sort();
    let read = |file: &PathBuf| serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let cards: Vec<Value> = files.iter().map(read).collect();
    assert!(cards.len() > 10, "{files:?}");
    cards
}

/// Every entry of a list inside `value`.
fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().expect(key).iter()
}

#[test]
fn the_notice_names_every_table_that_weights_were_fitted_to() {
    let notice = text_of("NOTICE");
    let mut sources = BTreeSet::new();
    for card in &cards() {
        for data in list(card, "submodels").flat_map(|model| list(model, "data")) {
            let field = |key: &str| data[key].as_str().expect(key).to_owned();
            sources.insert((field("source"), field("licence")));
        }
    }
    for (source, licence) in &sources {
        let named = |line: &str| line.contains(source.as_str()) && line.contains(licence.as_str());
        let found = notice.lines().any(named);
        assert!(found, "NOTICE lacks {source} with its licence {licence}");
    }
}

#[test]
fn both_licences_are_there_in_full() {
    let apache = text_of("LICENSE-APACHE");
    for part in ["1. Definitions.", "4. Redistribution.", "END OF TERMS"] {
        assert!(apache.contains(part), "LICENSE-APACHE lacks `{part}`");
    }
    assert!(text_of("LICENSE-MIT").contains("THE SOFTWARE IS PROVIDED \"AS IS\""));
    assert!(text_of("Cargo.toml").contains("license = \"MIT OR Apache-2.0\""));
}

/// Recipes and cards disagree once a model was trained with other settings than the file names.
#[cfg(feature = "train")]
#[test]
fn the_shipped_models_were_trained_by_the_recipes() {
    use shapewise::families::Family;
    use shapewise::ops::Dtype;
    use shapewise::predict::library::{BASE, COLLECTIVES};
    let recipes = shapewise::train::recipe::Recipe::shipped().unwrap();
    let cards = cards();
    for recipe in &recipes {
        let name = format!("{} {:?} {:?}", recipe.gpu, recipe.family, recipe.variant());
        // One net of all GPUs answers for collectives.
        let shared = recipe.family == Family::Collective;
        let folder = if shared { COLLECTIVES } else { recipe.gpu.as_str() };
        let card = cards
            .iter()
            .find(|card| card["name"] == folder)
            .unwrap_or_else(|| panic!("{name}: no card"));
        let model = list(card, "submodels")
            .find(|model| {
                let key = &model["key"];
                let stack = match shared {
                    true => recipe.across.as_deref().unwrap_or("default stacks"),
                    false => recipe.stack.as_str(),
                };
                key["stack"] == stack
                    && key["family"] == recipe.family.name()
                    && key["kind"].as_str() == recipe.variant().kind()
                    && key["dtype"].as_str() == recipe.variant().dtype().map(Dtype::name)
            })
            .unwrap_or_else(|| panic!("{name}: no such model in the card"));
        let waves = model["training"].get("waves").cloned();
        let wanted = recipe.waves.map(|waves| serde_json::to_value(waves).unwrap());
        assert_eq!(waves, wanted, "{name}: waves of card and data/stacks.toml");
        let tables: Vec<String> = list(model, "data")
            .map(|data| {
                format!(
                    "{} / {}",
                    data["gpu"].as_str().unwrap(),
                    data["stack"].as_str().unwrap()
                )
            })
            .collect();
        let own = format!("{} / {}", recipe.gpu, recipe.stack);
        let auxiliary = recipe.auxiliary();
        let auxiliary = auxiliary.map(|(gpu, stack)| format!("{gpu} / {stack}"));
        if shared {
            assert!(tables.contains(&own), "{name}: {own} is not in the card");
            continue;
        }
        let wanted: Vec<String> = [own].into_iter().chain(auxiliary).collect();
        assert_eq!(tables, wanted, "{name}: tables of card and data/stacks.toml");
    }
    let shipped: usize = cards
        .iter()
        .filter(|card| card["name"] != BASE && card["name"] != COLLECTIVES)
        .map(|card| list(card, "submodels").count())
        .sum();
    let own = recipes.iter().filter(|recipe| recipe.family != Family::Collective);
    assert_eq!(shipped, own.count(), "models without a recipe");
}

/// The two numbers of `major.minor`.
fn version(text: &str) -> (u32, u32) {
    let mut parts = text.split('.').map(|part| part.parse().expect(text));
    (parts.next().unwrap(), parts.next().unwrap())
}

#[test]
fn the_least_rust_version_is_stated_once() {
    let least = env!("CARGO_PKG_RUST_VERSION");
    let readme = text_of("README.md");
    assert!(readme.contains(&format!("Rust {least}")), "README.md");
    // Edition 2024 needs 1.85.
    assert!(version(least) >= (1, 85), "{least}");
}

/// A need without a meaning would never be required by anybody.
#[test]
fn every_need_is_explained_where_tests_are_run() {
    let script = text_of(".ci/run");
    for need in [
        "tables", "nvrtc", "browser", "wgpu", "c++", "full", "curl", "slurm", "gpu", "cudnn",
    ] {
        let explained =
            |line: &str| line.starts_with("# ") && line.split([' ', ',', '(', ')']).any(|word| word == need);
        let explained = script.lines().any(explained);
        assert!(explained, ".ci/run explains no `{need}`");
        // Only a CUDA GPU can run these.
        let optional = ["gpu", "cudnn"].contains(&need);
        let listed = script.contains(&format!("{need},")) || script.contains(&format!(",{need}"));
        assert!(listed || optional, ".ci/run requires no `{need}`");
    }
}

/// What the program is built from must be in the packages.
#[test]
fn the_packages_hold_what_is_built_in() {
    let embedding = text_of("data/data.rs");
    let paths = embedding
        .split('"')
        .filter_map(|text| text.trim_start_matches("$CARGO_MANIFEST_DIR/").split('/').next());
    let is_folder = |name: &&str| !name.is_empty() && root().join("data").join(name).is_dir();
    let embedded: Vec<_> = paths.filter(is_folder).map(|folder| ("data", folder)).collect();
    assert!(embedded.len() >= 6, "{embedded:?}");
    let own = ["src", "kernels", "examples"].map(|folder| (".", folder));
    for (package, folder) in own.into_iter().chain(embedded) {
        let manifest = text_of(&format!("{package}/Cargo.toml"));
        let line = format!("\"/{folder}\",");
        assert!(manifest.contains(&line), "include of {package}/Cargo.toml lacks {line}");
        assert!(root().join(package).join(folder).is_dir(), "{folder}");
    }
    for file in ["LICENSE-APACHE", "LICENSE-MIT", "NOTICE"] {
        let others = ["data", "src/core"].map(|folder| root().join(folder));
        for package in model_packages().into_iter().chain(others) {
            let shipped = package.join(file);
            assert_eq!(text_of(file), fs::read_to_string(&shipped).unwrap(), "{shipped:?}");
        }
    }
}
