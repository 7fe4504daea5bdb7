//! In the place of reading tables where `dataset` was not compiled in.

use crate::answer::sweep::Timing;
use crate::cli::args::TargetArgs;
use crate::error::{Error, Result};
use crate::gpu::{Gpu, GpuCatalog};
use std::iter;

pub(super) fn publishers() -> impl Iterator<Item = &'static str> {
    iter::empty()
}

pub(super) fn recorders() -> impl Iterator<Item = &'static str> {
    iter::empty()
}

pub(super) fn described(_: &TargetArgs) -> Result<GpuCatalog> {
    Ok(GpuCatalog::default())
}

pub(super) fn timings(target: &TargetArgs, _: &Gpu) -> Result<Vec<Timing>> {
    match target.data {
        None => Ok(Vec::new()),
        Some(_) => Err(Error::feature_off("`--data`", "dataset")),
    }
}
