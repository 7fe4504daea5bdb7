//! The trained models of `shapewise`: a folder for each, with weights and a card that says what they were fitted to and
//! how wrong they are. A package of its own, for it is most of what there is to download.

use include_dir::{Dir, include_dir};

/// The folders, named as the models.
pub static MODELS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR");
