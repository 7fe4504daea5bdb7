//! Numbers as JSON, with what they may be: whole numbers, ranges, counts of parameters, fractions.

use crate::query::Extent;
use crate::query::LARGEST;
use crate::query::Size;
use crate::query::search::PARAMETERS_ALLOWED;
use crate::query::search::parameters;
use crate::search::PARAMETERS;
use serde::Serialize;
use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};
use serde::ser::Serializer;
use std::borrow::Cow;
use std::fmt;
use utoipa::openapi::schema::{KnownFormat, OneOfBuilder, SchemaFormat, Type};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// A whole number from `LEAST` to `MOST`.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Int<const LEAST: u64, const MOST: u64>(pub u64);

/// A dimension or a count of things.
pub type Whole = Int<1, LARGEST>;

/// Cached tokens: there may be none.
pub type Cached = Int<0, LARGEST>;

/// A number from `LEAST`, or a range of them in the words of [`Size`].
#[derive(Clone, Copy, Debug)]
pub struct Span<const LEAST: u64>(pub Size);

/// The most values of a range.
const MOST_VALUES: usize = 10_000;

/// A dimension or a count of things, or a range of them.
pub type WholeSpan = Span<1>;

/// Cached tokens, or a range of them.
pub type CachedSpan = Span<0>;

impl From<Whole> for WholeSpan {
    fn from(number: Whole) -> Self {
        Self(Size::Fixed(number.0))
    }
}

/// What a count is where it is left out.
pub fn one<E: From<Whole>>() -> E {
    Int(1).into()
}

/// A number of parameters, as a number or as people write it.
#[derive(Clone, Copy, Debug)]
pub struct Parameters(pub u64);

/// A fraction up to one half.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance(pub f64);

impl<const LEAST: u64, const MOST: u64> Int<LEAST, MOST> {
    fn schema() -> ObjectBuilder {
        ObjectBuilder::new()
            .schema_type(Type::Integer)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
            .minimum(Some(LEAST))
            .maximum(Some(MOST))
    }
}

impl<'de, const LEAST: u64, const MOST: u64> Deserialize<'de> for Int<LEAST, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader<const LEAST: u64, const MOST: u64>;
        impl<const LEAST: u64, const MOST: u64> Visitor<'_> for Reader<LEAST, MOST> {
            type Value = Int<LEAST, MOST>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a whole number from {LEAST} to {MOST}")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
                if (LEAST..=MOST).contains(&number) {
                    return Ok(Int(number));
                }
                Err(E::invalid_value(Unexpected::Unsigned(number), &self))
            }
        }
        deserializer.deserialize_u64(Reader)
    }
}

impl<'de, const LEAST: u64> Deserialize<'de> for Span<LEAST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader<const LEAST: u64>;
        impl<const LEAST: u64> Visitor<'_> for Reader<LEAST> {
            type Value = Span<LEAST>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(
                    f,
                    "a whole number from {LEAST} to {LARGEST}, or a range of at most {MOST_VALUES} of them as START:END or START:END:STEP"
                )
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
                if (LEAST..=LARGEST).contains(&number) {
                    return Ok(Span(Size::Fixed(number)));
                }
                Err(E::invalid_value(Unexpected::Unsigned(number), &self))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                match Size::read(LEAST, text) {
                    Ok(size @ Size::Range(range)) if range.values().count() <= MOST_VALUES => {
                        Ok(Span(size))
                    }
                    _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
                }
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

impl<const LEAST: u64> Serialize for Span<LEAST> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Size::Fixed(number) => serializer.serialize_u64(number),
            Size::Range(range) => serializer.collect_str(&range),
        }
    }
}

impl<'de> Deserialize<'de> for Parameters {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Parameters;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(PARAMETERS_ALLOWED)
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
                parameters(&number.to_string())
                    .map(Parameters)
                    .ok_or_else(|| E::invalid_value(Unexpected::Unsigned(number), &self))
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
                parameters(&format!("{number:e}"))
                    .map(Parameters)
                    .ok_or_else(|| E::invalid_value(Unexpected::Float(number), &self))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                parameters(text)
                    .map(Parameters)
                    .ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

impl<'de> Deserialize<'de> for Tolerance {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = f64::deserialize(deserializer)?;
        if (0.0..=0.5).contains(&number) {
            return Ok(Self(number));
        }
        let found = Unexpected::Float(number);
        Err(D::Error::invalid_value(found, &"a fraction from 0 to 0.5"))
    }
}

impl<const LEAST: u64, const MOST: u64> PartialSchema for Int<LEAST, MOST> {
    fn schema() -> RefOr<Schema> {
        Self::schema().into()
    }
}

impl<const LEAST: u64, const MOST: u64> ToSchema for Int<LEAST, MOST> {
    fn name() -> Cow<'static, str> {
        match (LEAST, MOST) {
            (1, LARGEST) => "Size".into(),
            (0, LARGEST) => "CachedSize".into(),
            _ => format!("Whole{LEAST}To{MOST}").into(),
        }
    }
}

impl<const LEAST: u64> PartialSchema for Span<LEAST> {
    fn schema() -> RefOr<Schema> {
        let range = ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some("^[0-9]{1,10}:[0-9]{1,10}(:[0-9]{1,10})?$"))
            .description(Some("START:END or START:END:STEP, both ends included"))
            .examples(["1536:6144:64"]);
        OneOfBuilder::new()
            .item(Int::<LEAST, LARGEST>::schema())
            .item(range)
            .into()
    }
}

impl<const LEAST: u64> ToSchema for Span<LEAST> {
    fn name() -> Cow<'static, str> {
        match LEAST {
            0 => "CachedSizeOrRange".into(),
            _ => "SizeOrRange".into(),
        }
    }
}

impl PartialSchema for Parameters {
    fn schema() -> RefOr<Schema> {
        let number = ObjectBuilder::new()
            .schema_type(Type::Number)
            .minimum(Some(PARAMETERS.0))
            .maximum(Some(PARAMETERS.1));
        let text = ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some("^[0-9]+(\\.[0-9]+)?([Ee][0-9]{1,2}|[KkMmBbTt])?$"))
            .description(Some(PARAMETERS_ALLOWED))
            .examples(["6.7B"]);
        OneOfBuilder::new().item(number).item(text).into()
    }
}

impl ToSchema for Parameters {}

impl PartialSchema for Tolerance {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::Number)
            .minimum(Some(0.0))
            .maximum(Some(0.5))
            .into()
    }
}

impl ToSchema for Tolerance {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_say_what_they_may_be() {
        let read = |text| serde_json::from_str::<Whole>(text).map_err(|error| error.to_string());
        assert_eq!(read("4096").unwrap().0, 4096);
        for text in [
            "0",
            "4294967297",
            "-1",
            "1.5",
            "\"8\"",
            "true",
            "null",
            "1e3",
        ] {
            let message = read(text).unwrap_err();
            let allowed = "expected a whole number from 1 to 4294967296";
            assert!(message.contains(allowed), "{text}: {message}");
        }
        assert_eq!(serde_json::from_str::<Cached>("0").unwrap().0, 0);
    }

    #[test]
    fn a_span_is_a_number_or_a_range() {
        let read = |text| serde_json::from_str::<WholeSpan>(text).map(|span| span.0);
        assert_eq!(read("8").unwrap(), Size::Fixed(8));
        assert!(matches!(read("\"8:64:8\"").unwrap(), Size::Range(_)));
        for text in ["\"8\"", "\"8:\"", "\"0:8\"", "0", "[1,2]"] {
            let message = read(text).unwrap_err().to_string();
            assert!(message.contains("START:END:STEP"), "{text}: {message}");
        }
    }

    #[test]
    fn parameters_are_numbers_or_words() {
        let read = |text| serde_json::from_str::<Parameters>(text).map(|read| read.0);
        for text in ["6700000000", "6.7e9", "\"6.7B\"", "\"6700M\""] {
            assert_eq!(read(text).unwrap(), 6_700_000_000, "{text}");
        }
        for text in ["1", "-1", "1e99", "\"six\"", "null", "[]"] {
            let message = read(text).unwrap_err().to_string();
            assert!(message.contains("such as 6.7B"), "{text}: {message}");
        }
    }
}
