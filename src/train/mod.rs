//! Fitting the nets with burn, and the boosted trees that label shapes for them.

pub mod fit;

pub mod trees;
