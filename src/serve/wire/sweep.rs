//! Any sweep as JSON, by its kind.

use super::operator::of_kind;
use super::{SweptAttention, SweptGemm, SweptModel};
use serde::Deserialize;
use serde_json::Value;
use utoipa::openapi::schema::OneOfBuilder;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// A sweep of the kind that `kind` names; the other keys are those of that sweep.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub struct Sweep(pub Value);

impl PartialSchema for Sweep {
    fn schema() -> RefOr<Schema> {
        OneOfBuilder::new()
            .item(of_kind::<SweptGemm>(
                "gemm",
                "A product along one of its sizes.",
            ))
            .item(of_kind::<SweptAttention>(
                "attention",
                "An attention along one of its sizes.",
            ))
            .item(of_kind::<SweptModel>(
                "model",
                "A model along one of its sizes.",
            ))
            .description(Some("A sweep of the kind that `kind` names."))
            .into()
    }
}

impl ToSchema for Sweep {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        SweptGemm::schemas(schemas);
        SweptAttention::schemas(schemas);
        SweptModel::schemas(schemas);
    }
}
