//! The trained models of `shapewise`: a folder for each, with weights and a card that says what they were fitted to and
//! how wrong they are; `shapewise-models-hopper` has those of Hopper. Packages of their own, for they are most of what there
//! is to download.

use include_dir::{Dir, include_dir};

/// The folders, named as the models.
pub static MODELS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR");
