//! The fastest architecture for a number of parameters.
