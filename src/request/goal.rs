//! Budgets of GPU time, as people write them.

use crate::plan::MOST_GPUS;
use crate::request::number;
use crate::request::written::{Written, written};
use crate::units::Seconds;
use serde_json::Value;
use utoipa::openapi::schema::Type;
use utoipa::openapi::{ObjectBuilder, RefOr, Schema};

/// What one training run may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Budget {
    /// GPU time, and how many GPUs it is of where that is said.
    GpuTime(Seconds, Option<u64>),
    /// US dollars.
    Usd(f64),
}

impl Written for Budget {
    const ALLOWED: &'static str = "GPU time from 0.01 to 1e12 GPU-hours, such as `1000 gpu-hours`, `50 gpu-days` or `512 gpus 30 days`, or US dollars such as `2M usd`";

    fn read(text: &str) -> Option<Self> {
        const HOUR: f64 = 3600.0;
        let units = [
            ("gpu-hours", HOUR),
            ("gpu-hour", HOUR),
            ("gpu-days", 24.0 * HOUR),
            ("gpu-day", 24.0 * HOUR),
        ];
        let lower = text.trim().to_ascii_lowercase();
        let of = |word| lower.strip_prefix(word).or_else(|| lower.strip_suffix(word));
        if let Some(usd) = ["$", "usd", "dollars"].into_iter().find_map(of) {
            let usd = number::with_unit(usd.trim(), &number::DECIMAL)?;
            return (0.01..=1e12).contains(&usd).then_some(Self::Usd(usd));
        }
        let is_named = units.iter().any(|(unit, _)| lower.ends_with(unit));
        let (seconds, gpus) = match is_named {
            true => (number::with_unit(text, &units)?, None),
            false => of_gpus(&lower).map(|(gpus, hours)| (gpus * hours * HOUR, Some(gpus)))?,
        };
        let is_allowed = (0.01 * HOUR..=1e12 * HOUR).contains(&seconds);
        let is_whole = |gpus: f64| gpus.fract() == 0.0 && gpus <= MOST_GPUS as f64;
        let is_allowed = is_allowed && gpus.is_none_or(is_whole);
        let gpus = gpus.map(|gpus| gpus as u64);
        is_allowed.then_some(Self::GpuTime(Seconds::from_secs(seconds), gpus))
    }

    fn refusal(text: &str) -> String {
        let hours = text.trim().parse().ok().filter(|&hours: &f64| hours > 0.0);
        let hint = hours.map(|hours| format!("write `{hours} gpu-hours`; "));
        format!("{}allowed: {}", hint.unwrap_or_default(), Self::ALLOWED)
    }

    fn described() -> RefOr<Schema> {
        let pattern = "^(\\$[0-9]+(\\.[0-9]+)?[KMB]?|[0-9]+(\\.[0-9]+)?([Ee][0-9]{1,2})? ?(gpu-(hour|day)s?|[KMB]? ?usd)|[1-9][0-9]* gpus [1-9][0-9]* days)$";
        ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some(pattern))
            .description(Some(Self::ALLOWED))
            .examples(["1000 gpu-hours"])
            .into()
    }
}

written!(Budget, ServedTokens);

/// GPUs and hours of `512 gpus 30 days`, the two in any order.
fn of_gpus(text: &str) -> Option<(f64, f64)> {
    const TIMES: [(&str, f64); 3] = [("hour", 1.0), ("day", 24.0), ("week", 168.0)];
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || c == '*' || c == ',')
        .filter(|word| !["", "x", "for", "on"].contains(word))
        .collect();
    let number = |text: &str| text.parse().ok().filter(|&one: &f64| one > 0.0 && one < 1e12);
    let [(gpus, _), (time, unit)] = match words.as_slice() {
        [a, of_a, b, of_b] if of_a.starts_with("gpu") => [(a, of_a), (b, of_b)],
        [a, of_a, b, of_b] if of_b.starts_with("gpu") => [(b, of_b), (a, of_a)],
        _ => return None,
    };
    let (_, hours) = TIMES.iter().find(|(name, _)| unit.starts_with(name))?;
    Some((number(gpus)?, number(time)? * hours))
}

/// Tokens that a model generates in its life.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServedTokens(pub f64);

impl Written for ServedTokens {
    const ALLOWED: &'static str = "tokens up to 1e18, such as `4T tokens` or `2T tokens/year for 2 years`";

    fn read(text: &str) -> Option<Self> {
        const TIMES: [(&str, f64); 4] = [("day", 1.0), ("week", 7.0), ("month", 365.25 / 12.0), ("year", 365.25)];
        let days = |text: &str| {
            let text = text.trim().trim_end_matches('s');
            let is_named = TIMES.iter().any(|(unit, _)| text.ends_with(unit));
            number::with_unit(text, &TIMES).filter(|_| is_named)
        };
        let count = |text: &str| {
            number::with_unit(
                text.trim().trim_end_matches('s').trim_end_matches("token"),
                &number::DECIMAL,
            )
        };
        let lower = text.to_ascii_lowercase();
        let total = match (lower.split_once(" for "), lower.split_once('/')) {
            (None, None) => count(&lower),
            (Some((rate, span)), Some(_)) => rate
                .split_once('/')
                .and_then(|(tokens, unit)| Some(count(tokens)? / days(&format!("1 {unit}"))? * days(span)?)),
            _ => None,
        };
        total.filter(|total| (1.0..=1e18).contains(total)).map(Self)
    }

    fn of_json(value: &Value) -> Option<Self> {
        Self::read(value.as_str()?)
    }

    fn described() -> RefOr<Schema> {
        let text = ObjectBuilder::new().schema_type(Type::String);
        let text = text.description(Some(Self::ALLOWED));
        text.examples(["2T tokens/year for 2 years"]).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_read_as_people_write_them() {
        for (text, hours, gpus) in [
            ("1000 gpu-hours", 1e3, None),
            ("1,000 GPU-hours", 1e3, None),
            ("1e3gpu-hours", 1e3, None),
            ("2 gpu-days", 48.0, None),
            ("1 gpu-hour", 1.0, None),
            ("512 gpus 30 days", 368_640.0, Some(512)),
            ("30 days on 512 GPUs", 368_640.0, Some(512)),
            ("8 gpus x 2 weeks", 2688.0, Some(8)),
        ] {
            let wanted = Budget::GpuTime(Seconds::from_secs(3600.0 * hours), gpus);
            assert_eq!(text.parse(), Ok(wanted), "{text}");
        }
        for (text, usd) in [
            ("$100", 100.0),
            ("2M usd", 2e6),
            ("1,500 USD", 1500.0),
            ("$1.5M", 1.5e6),
            ("usd 2M", 2e6),
            ("2M dollars", 2e6),
        ] {
            assert_eq!(text.parse(), Ok(Budget::Usd(usd)), "{text}");
        }
        for text in [
            "1000 hours",
            "gpu-hours",
            "-1 gpu-hours",
            "0 gpu-hours",
            "$",
            "0 usd",
            "512 gpus",
            "3 days 4 hours",
            "2 gpus 3 gpus",
            "1.5 gpus 3 days",
            "1000000000 gpus 10 hours",
            "-1",
        ] {
            let refusal = text.parse::<Budget>().unwrap_err();
            assert!(refusal.starts_with("allowed: "), "{text}: {refusal}");
        }
        let refusal = "368640".parse::<Budget>().unwrap_err();
        assert!(refusal.starts_with("write `368640 gpu-hours`"), "{refusal}");
    }

    #[test]
    fn tokens_of_a_life_are_a_total_or_a_rate_over_a_time() {
        for (text, tokens) in [
            ("4T tokens", 4e12),
            ("4e12", 4e12),
            ("2T tokens/year for 2 years", 4e12),
            ("1 token/day for 1 week", 7.0),
            ("100B tokens / month for 1 year", 1.2e12),
        ] {
            let ServedTokens(read) = text.parse().unwrap();
            assert!((read / tokens - 1.0).abs() < 1e-9, "{text}: {read}");
        }
        for text in [
            "",
            "2T tokens/year",
            "2T tokens for 2 years",
            "2T tokens/user for 2 years",
            "-1",
            "1e19",
        ] {
            assert!(text.parse::<ServedTokens>().is_err(), "{text}");
        }
    }
}
