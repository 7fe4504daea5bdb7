//! Predictions along one dimension of an operator or a model.
