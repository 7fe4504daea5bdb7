//! The files of the repository, for tests that read them.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of the workspace.
pub fn root() -> &'static Path {
    let mut above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    above.find(|folder| folder.join("Cargo.lock").exists()).unwrap()
}

pub fn text_of(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Folders of the packages of trained models.
pub fn model_packages() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("models")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.join("Cargo.toml").exists()).collect()
}

/// The folder of a trained model.
pub fn model(name: &str) -> PathBuf {
    let mut folders = model_packages().into_iter().map(|package| package.join(name));
    folders
        .find(|folder| folder.is_dir())
        .unwrap_or_else(|| panic!("no model {name}"))
}

/// Whether generated files are to be written instead of compared.
pub fn blessing() -> bool {
    env::var_os("SHAPEWISE_BLESS").is_some()
}

/// Every file with this ending below these folders, in a stable order.
pub fn below(folders: &[&str], ending: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders: Vec<PathBuf> = folders.iter().map(|folder| root().join(folder)).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|own| own == ending) {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}
