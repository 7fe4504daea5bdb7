//! Fitting the nets with burn.

pub mod fit;
