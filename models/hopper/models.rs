//! The trained models of `shapewise` for GPUs of the generation Hopper; `shapewise-models` has the others.

use include_dir::{Dir, include_dir};

/// The folders, named as the models.
pub static MODELS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR");
