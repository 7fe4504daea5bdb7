//! Values as people write them, the same on the command line and in JSON.

use crate::request::number;
use serde::de::{Deserialize, Deserializer, Error as _};
use serde_json::Value;
use utoipa::openapi::schema::{OneOfBuilder, Type};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema};

/// A value that is read from a text; [`written`] gives it to the command line, to JSON and to the schemas.
pub(super) trait Written: Sized {
    /// What is allowed, in the words of messages.
    const ALLOWED: &'static str;

    /// The value that a text says; `None` if it is not allowed.
    fn read(text: &str) -> Option<Self>;

    /// The schema of the value in JSON.
    fn described() -> RefOr<Schema>;

    /// What to write in place of a text that is not allowed.
    fn refusal(_: &str) -> String {
        format!("allowed: {}", Self::ALLOWED)
    }

    /// The value of JSON, where a number says the same as its digits.
    fn of_json(value: &Value) -> Option<Self> {
        number_or_text(value)
    }
}

/// The value of a number of JSON, as of its digits, or of a text.
pub(super) fn number_or_text<T: Written>(value: &Value) -> Option<T> {
    match value {
        Value::Number(number) => T::read(&number.to_string()),
        Value::String(text) => T::read(text),
        _ => None,
    }
}

/// Reads and describes these types as [`Written`] says.
macro_rules! written {
    ($($name:ident),+ $(,)?) => {$(
        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                <Self as $crate::request::written::Written>::read(text).ok_or_else(|| Self::refusal(text))
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::request::written::deserialize(deserializer)
            }
        }

        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                Self::described()
            }
        }

        impl utoipa::ToSchema for $name {}
    )+};
}

pub(super) use written;

pub(super) fn deserialize<'de, D: Deserializer<'de>, T: Written>(deserializer: D) -> Result<T, D::Error> {
    let read = T::of_json(&Value::deserialize(deserializer)?);
    read.ok_or_else(|| D::Error::custom(format!("expected {}", T::ALLOWED)))
}

/// A number between two ends, its text with or without a unit.
macro_rules! bounded {
    ($($(#[$doc:meta])* $name:ident($number:ident $kind:ident): $least:literal to $most:literal, $read:expr, $allowed:literal;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
        pub struct $name(pub $number);

        impl $name {
            fn within(number: $number) -> Option<Self> {
                ($least..=$most).contains(&number).then_some(Self(number))
            }
        }

        impl Written for $name {
            const ALLOWED: &'static str = $allowed;

            fn read(text: &str) -> Option<Self> {
                let read: fn(&str) -> Option<$number> = $read;
                Self::within(read(text)?)
            }

            fn of_json(value: &Value) -> Option<Self> {
                Self::within($number::deserialize(value).ok()?)
            }

            fn described() -> RefOr<Schema> {
                let number = ObjectBuilder::new().schema_type(Type::$kind);
                number.minimum(Some($least)).maximum(Some($most)).into()
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }

        written!($name);
    )+};
}

bounded! {
    /// The probability with which a limit is kept.
    Confidence(f64 Number): 0.5 to 0.99, number::fraction, "a fraction from 0.5 to 0.99";
    /// The share of a GPU's memory that a layout takes.
    MemoryShare(f64 Number): 0.1 to 1.0, number::fraction, "a fraction from 0.1 to 1";
    /// The largest miss of a number of parameters.
    Tolerance(f64 Number): 0.0 to 0.5, number::fraction, "a fraction from 0 to 0.5, such as 0.01";
    /// A share of the layers.
    LinearShare(f64 Number): 0.0 to 0.99, number::fraction, "fractions from 0 to 0.99";
    /// A loss to reach.
    TargetLoss(f64 Number): 0.5 to 20.0, |text| text.parse().ok(), "a number from 0.5 to 20, in nats per token";
    /// A stage of ZeRO.
    #[derive(Default)]
    ZeroStage(u8 Integer): 0 to 3, |text| text.parse().ok(), "a whole number from 0 to 3";
    /// How many answers are reported.
    Top(u64 Integer): 1 to 1000, |text| text.parse().ok(), "a whole number from 1 to 1000";
    /// A limit of latency.
    Milliseconds(f64 Number): 0.001 to 1e9, milliseconds, "milliseconds from 0.001 to 1e9";
    /// The price of one GPU for an hour, in US dollars.
    UsdPerHour(f64 Number): 0.0001 to 10000.0, usd, "a number from 0.0001 to 10000, in US dollars";
    /// A bandwidth in Gb/s.
    Gigabits(f64 Number): 0.001 to 8000.0, |text| rate(text, "Gb/s"), "a number from 0.001 to 8000, in Gb/s";
    /// A bandwidth in GB/s.
    Gigabytes(f64 Number): 0.001 to 8000.0, |text| rate(text, "GB/s"), "a number from 0.001 to 8000, in GB/s";
}

impl Default for Tolerance {
    fn default() -> Self {
        Self(0.01)
    }
}

impl Default for Top {
    fn default() -> Self {
        Self(10)
    }
}

/// `50`, `50ms`, `0.05s`.
fn milliseconds(text: &str) -> Option<f64> {
    number::with_unit(text, &[("ms", 1.0), ("s", 1e3)])
}

/// `2.5`, `$2.5`.
fn usd(text: &str) -> Option<f64> {
    text.trim().trim_start_matches('$').parse().ok()
}

/// `400`, `400Gb/s`.
fn rate(text: &str, unit: &str) -> Option<f64> {
    text.trim().trim_end_matches(unit).trim().parse().ok()
}

/// The schema of a number between these ends, or of a text.
pub(super) fn number_or_text_schema(number: Type, [least, most]: [f64; 2], text: ObjectBuilder) -> RefOr<Schema> {
    let number = ObjectBuilder::new().schema_type(number);
    let number = number.minimum(Some(least)).maximum(Some(most));
    let text = text.schema_type(Type::String);
    OneOfBuilder::new().item(number).item(text).into()
}
