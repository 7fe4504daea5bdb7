//! Budgets and training tokens of a search, as people write them.

use crate::request::number;
use crate::units::Seconds;
use serde::de::{Deserialize, Deserializer, Error as _};
use serde_json::Value;
use std::str::FromStr;
use utoipa::openapi::schema::Type;
use utoipa::openapi::{ObjectBuilder, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// A text with a meaning of its own, in JSON as on the command line.
macro_rules! written {
    ($(#[$doc:meta])* $name:ident($value:ty), $read:path, $allowed:literal, $pattern:literal, $example:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $name(pub $value);

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let read = $read(text).map(Self);
                read.ok_or_else(|| concat!("allowed: ", $allowed).to_owned())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let read = match Value::deserialize(deserializer)? {
                    Value::String(text) => $read(&text),
                    Value::Number(number) => $read(&number.to_string()),
                    _ => None,
                };
                let read = read.map(Self);
                read.ok_or_else(|| D::Error::custom(concat!("expected ", $allowed)))
            }
        }

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                ObjectBuilder::new()
                    .schema_type(Type::String)
                    .pattern(Some($pattern))
                    .description(Some($allowed))
                    .examples([$example])
                    .into()
            }
        }

        impl ToSchema for $name {}
    };
}

written!(
    /// GPU time of one training run.
    GpuTime(Seconds),
    gpu_time,
    "GPU time from 0.01 to 1e12 GPU-hours, such as `1000 gpu-hours` or `50 gpu-days`",
    "^[0-9]+(,[0-9]{3})*(\\.[0-9]+)?([Ee][0-9]{1,2})? ?[Gg][Pp][Uu]-([Hh][Oo][Uu][Rr]|[Dd][Aa][Yy])[Ss]?$",
    "1000 gpu-hours"
);

written!(
    /// Tokens that a model is trained on.
    Tokens(f64),
    tokens,
    "a number of tokens from 1M to 1000T, such as 300B, 15T or 3e11",
    "^[0-9]+(,[0-9]{3})*(\\.[0-9]+)?([Ee][0-9]{1,2}| ?[KkMmBbTt])?$",
    "300B"
);

fn gpu_time(text: &str) -> Option<Seconds> {
    const HOUR: f64 = 3600.0;
    let units = [
        ("gpu-hours", HOUR),
        ("gpu-hour", HOUR),
        ("gpu-days", 24.0 * HOUR),
        ("gpu-day", 24.0 * HOUR),
    ];
    let lower = text.trim().to_ascii_lowercase();
    let named = units.iter().any(|(unit, _)| lower.ends_with(unit));
    let seconds = number::with_unit(text, &units).filter(|_| named)?;
    (0.01 * HOUR..=1e12 * HOUR)
        .contains(&seconds)
        .then(|| Seconds::from_secs(seconds))
}

fn tokens(text: &str) -> Option<f64> {
    let units = [("k", 1e3), ("m", 1e6), ("b", 1e9), ("t", 1e12)];
    let value = number::with_unit(text, &units)?;
    (1e6..=1e15).contains(&value).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_and_tokens_are_read_as_people_write_them() {
        for (text, hours) in [
            ("1000 gpu-hours", 1e3),
            ("1,000 GPU-hours", 1e3),
            ("1e3gpu-hours", 1e3),
            ("2 gpu-days", 48.0),
            ("1 gpu-hour", 1.0),
        ] {
            assert_eq!(
                gpu_time(text),
                Some(Seconds::from_secs(3600.0 * hours)),
                "{text}"
            );
        }
        for text in [
            "1000",
            "1000 hours",
            "gpu-hours",
            "-1 gpu-hours",
            "0 gpu-hours",
            "$100",
        ] {
            assert_eq!(gpu_time(text), None, "{text}");
        }
        assert_eq!((tokens("15T"), tokens("3e11")), (Some(15e12), Some(3e11)));
        assert_eq!((tokens("0"), tokens("many")), (None, None));
    }
}
