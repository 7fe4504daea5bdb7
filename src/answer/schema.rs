//! Schemas of bodies: a request with its target beside its keys, and ranges where sizes are swept.

use crate::request::json::BodyTraits;
use crate::request::{Size, TargetRequest};
use utoipa::openapi::schema::{OneOfBuilder, Type};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// The name of a schema, and every schema that it needs, its own first.
pub type Described = (String, Vec<(String, RefOr<Schema>)>);

/// Name and schemas of a type.
pub fn described<T: ToSchema>() -> Described {
    let mut schemas = vec![(T::name().into_owned(), T::schema())];
    T::schemas(&mut schemas);
    (T::name().into_owned(), schemas)
}

/// The same with the keys of GPU, model and framework, if the body has them.
pub fn with_target(mut described: Described, body: BodyTraits) -> Described {
    if let Some((_, RefOr::T(Schema::Object(object)))) = described.1.first_mut()
        && let RefOr::T(Schema::Object(target)) = TargetRequest::schema()
        && body.has_target
    {
        object.properties.extend(target.properties);
    }
    described
}

/// The same with ranges where sizes are.
pub fn swept((name, schemas): Described) -> Described {
    let named = |name: &str| format!("Swept{name}");
    let widened = schemas.into_iter().map(|(name, schema)| match widened(&schema) {
        Some(swept) => (named(&name), swept),
        None => (name, schema),
    });
    let mut schemas: Vec<_> = widened.collect();
    schemas.push(("SizeOrRange".to_owned(), size_or_range::<1>()));
    schemas.push(("SizeOrZeroOrRange".to_owned(), size_or_range::<0>()));
    (named(&name), schemas)
}

/// The same schema with ranges where sizes are; `None` if it has no sizes.
fn widened(schema: &RefOr<Schema>) -> Option<RefOr<Schema>> {
    let reference = |name: &str| format!("\"#/components/schemas/{name}\"");
    let plain = serde_json::to_string(schema).expect("a schema is JSON");
    let mut text = plain.clone();
    for (plain, swept) in [
        ("Size", "SizeOrRange"),
        ("SizeOrZero", "SizeOrZeroOrRange"),
        ("WorkloadRequest", "SweptWorkloadRequest"),
    ] {
        text = text.replace(&reference(plain), &reference(swept));
    }
    let swept = || serde_json::from_str(&text).expect("only names were replaced");
    (text != plain).then(swept)
}

fn size_or_range<const LEAST: u64>() -> RefOr<Schema> {
    let range = ObjectBuilder::new()
        .schema_type(Type::String)
        .pattern(Some(
            "^[0-9]{1,10}(:[0-9]{1,10}(:x?[0-9]{1,10})?|(,[0-9]{1,10}){1,15})$",
        ))
        .description(Some(
            "START:END, START:END:STEP or START:END:xFACTOR, both ends included, or a list such as 4096,8192",
        ))
        .examples(["1536:6144:64"]);
    OneOfBuilder::new().item(Size::<LEAST>::schema()).item(range).into()
}
