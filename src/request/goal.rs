//! Budgets of GPU time, as people write them.

use crate::request::number;
use crate::units::Seconds;
use serde::de::{Deserialize, Deserializer, Error as _};
use std::str::FromStr;
use utoipa::openapi::schema::Type;
use utoipa::openapi::{ObjectBuilder, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// GPU time of one training run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GpuTime(pub Seconds);

impl GpuTime {
    const ALLOWED: &'static str =
        "GPU time from 0.01 to 1e12 GPU-hours, such as `1000 gpu-hours` or `50 gpu-days`";
}

impl FromStr for GpuTime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const HOUR: f64 = 3600.0;
        let units = [
            ("gpu-hours", HOUR),
            ("gpu-hour", HOUR),
            ("gpu-days", 24.0 * HOUR),
            ("gpu-day", 24.0 * HOUR),
        ];
        let lower = text.trim().to_ascii_lowercase();
        let is_named = units.iter().any(|(unit, _)| lower.ends_with(unit));
        let seconds = number::with_unit(text, &units).filter(|_| is_named);
        let seconds = seconds.filter(|seconds| (0.01 * HOUR..=1e12 * HOUR).contains(seconds));
        seconds
            .map(|seconds| Self(Seconds::from_secs(seconds)))
            .ok_or_else(|| format!("allowed: {}", Self::ALLOWED))
    }
}

impl<'de> Deserialize<'de> for GpuTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = String::deserialize(deserializer)?.parse();
        read.map_err(|_| D::Error::custom(format!("expected {}", Self::ALLOWED)))
    }
}

impl PartialSchema for GpuTime {
    fn schema() -> RefOr<Schema> {
        let pattern = "^[0-9]+(\\.[0-9]+)?([Ee][0-9]{1,2})? ?gpu-(hour|day)s?$";
        ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some(pattern))
            .description(Some(Self::ALLOWED))
            .examples(["1000 gpu-hours"])
            .into()
    }
}

impl ToSchema for GpuTime {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_read_as_people_write_them() {
        for (text, hours) in [
            ("1000 gpu-hours", 1e3),
            ("1,000 GPU-hours", 1e3),
            ("1e3gpu-hours", 1e3),
            ("2 gpu-days", 48.0),
            ("1 gpu-hour", 1.0),
        ] {
            let wanted = GpuTime(Seconds::from_secs(3600.0 * hours));
            assert_eq!(text.parse(), Ok(wanted), "{text}");
        }
        for text in [
            "1000",
            "1000 hours",
            "gpu-hours",
            "-1 gpu-hours",
            "0 gpu-hours",
            "$100",
        ] {
            let told = text.parse::<GpuTime>().unwrap_err();
            assert!(told.contains("1000 gpu-hours"), "{text}: {told}");
        }
    }
}
