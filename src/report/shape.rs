//! Operators as JSON keys.

use crate::ops::{Domain, Op, OpKind, Value};
use serde::ser::{Serialize, SerializeMap, Serializer};
use utoipa::openapi::schema::{KnownFormat, OneOfBuilder, SchemaFormat, Type};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// An operator on the wire: its kind, then its dimensions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape(pub(super) Op);

impl From<&Op> for Shape {
    fn from(op: &Op) -> Self {
        Self(*op)
    }
}

impl Serialize for Shape {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let kind = self.0.kind();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("kind", kind.name())?;
        for dimension in kind.dimensions() {
            let key = dimension.key(kind);
            match dimension.get(&self.0) {
                Some(Value::Count(count)) => map.serialize_entry(key, &count)?,
                Some(Value::Flag(flag)) => map.serialize_entry(key, &flag)?,
                Some(Value::Choice(name)) => map.serialize_entry(key, name)?,
                None => {}
            }
        }
        map.end()
    }
}

impl PartialSchema for Shape {
    fn schema() -> RefOr<Schema> {
        let text = || ObjectBuilder::new().schema_type(Type::String);
        let variant = |kind: OpKind| {
            let tag = text().enum_values(Some([kind.name()]));
            let start = ObjectBuilder::new().property("kind", tag).required("kind");
            let dimensions = kind.dimensions().iter();
            dimensions.fold(start, |object, dimension| {
                let key = dimension.key(kind);
                let value = match dimension.domain {
                    Domain::Count { least, .. } => ObjectBuilder::new()
                        .schema_type(Type::Integer)
                        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
                        .minimum(Some(least)),
                    Domain::Flag => ObjectBuilder::new().schema_type(Type::Boolean),
                    Domain::Choice(names) => text().enum_values(Some(names.iter().copied())),
                };
                object.property(key, value).required(key)
            })
        };
        let variants = OpKind::ALL.into_iter().map(variant);
        let all = variants.fold(OneOfBuilder::new(), |all, variant| all.item(variant));
        let described = all.description(Some("An operator: its kind, then its dimensions."));
        RefOr::T(described.into())
    }
}

impl ToSchema for Shape {}
