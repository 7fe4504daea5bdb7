//! Plans as TOML: three are built in, others come from a file in the same format; unknown keys are
//! refused by name.

use super::{DeviceRates, Plan, Set};
use crate::error::{Error, Result, read_text};
use crate::ops::Dtype;
use crate::units::{Seconds, duration};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;

/// The built-in plans by name.
pub const BUILT_IN: [(&str, &str); 3] = [
    ("quick", include_str!("../../../data/plans/quick.toml")),
    (
        "standard",
        include_str!("../../../data/plans/standard.toml"),
    ),
    ("full", include_str!("../../../data/plans/full.toml")),
];

/// A plan file; every key but `scale` is required.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    name: String,
    budget: String,
    soak: String,
    anchors: u32,
    anchor_period: String,
    shortest_us: f64,
    longest_us: f64,
    active_rounds: u32,
    dtypes: BTreeMap<Dtype, f64>,
    sets: BTreeMap<Set, u32>,
    #[serde(default)]
    scale: Option<DeviceRates>,
}

/// The plan of this name, else that of the file.
pub fn find(name: &str) -> Result<Plan> {
    if let Some((name, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
        return parse(text, &format!("data/plans/{name}.toml"));
    }
    let path = Path::new(name);
    if !path.is_file() {
        return Err(Error::field(
            "command line",
            "--plan",
            format!("`{name}`"),
            "quick, standard, full, or the path of a plan file",
        ));
    }
    parse(&read_text(path)?, name)
}

/// Parses a plan; `place` names the file in messages.
pub fn parse(text: &str, place: &str) -> Result<Plan> {
    let document: Document = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| {
            1 + text[..span.start.min(text.len())].matches('\n').count()
        });
        Error::bad_input(format!(
            "{place}: line {line}: {}; allowed: a plan as docs/measure.md describes it",
            error.message().replace('\n', " ")
        ))
    })?;
    check(&document, place)?;
    let time = |name: &str, text: &str| {
        duration(text).map_err(|allowed| Error::field(place, name, format!("`{text}`"), &allowed))
    };
    Ok(Plan {
        budget: time("budget", &document.budget)?,
        soak: time("soak", &document.soak)?,
        anchor_period: time("anchor_period", &document.anchor_period)?,
        name: document.name,
        anchors: document.anchors as usize,
        shortest: Seconds::from_micros(document.shortest_us),
        longest: Seconds::from_micros(document.longest_us),
        active_rounds: document.active_rounds as usize,
        dtypes: document.dtypes.into_iter().collect(),
        sets: document
            .sets
            .into_iter()
            .map(|(set, cases)| (set, cases as usize))
            .collect(),
        rates: document.scale,
    })
}

/// Refuses the first value that is out of range.
fn check(document: &Document, place: &str) -> Result<()> {
    let require = |holds: bool, name: &str, value: &dyn Display, allowed: &str| match holds {
        true => Ok(()),
        false => Err(Error::field(place, name, value, allowed)),
    };
    let holds = !document.name.trim().is_empty();
    require(holds, "name", &"empty", "a text")?;
    let (shortest, longest) = (document.shortest_us, document.longest_us);
    let holds = (1e-3..=1e7).contains(&shortest);
    require(holds, "shortest_us", &shortest, "0.001 to 1e7")?;
    let allowed = "more than `shortest_us`, at most 1e7";
    let holds = longest > shortest && longest <= 1e7;
    require(holds, "longest_us", &longest, allowed)?;
    let allowed = "a format with its weight, such as { bf16 = 1.0 }";
    require(!document.dtypes.is_empty(), "dtypes", &"empty", allowed)?;
    for (dtype, &weight) in &document.dtypes {
        let (name, holds) = (format!("dtypes.{dtype}"), weight > 0.0 && weight <= 1e6);
        let allowed = "a weight of more than 0, at most 1e6";
        require(holds, &name, &weight, allowed)?;
    }
    let allowed = "at least one set with a number of cases of 1 or more";
    let holds = document.sets.values().any(|&cases| cases > 0);
    require(holds, "sets", &"empty", allowed)?;
    for (set, cases) in &document.sets {
        let name = format!("sets.{set}");
        require(*cases <= 1_000_000, &name, cases, "0 to 1000000")?;
    }
    let (anchors, rounds) = (document.anchors, document.active_rounds);
    require(anchors <= 1000, "anchors", &anchors, "0 to 1000")?;
    let holds = (1..=100).contains(&rounds);
    require(holds, "active_rounds", &rounds, "1 to 100")?;
    let Some(rates) = &document.scale else {
        return Ok(());
    };
    let arithmetic = rates.gemm_flops_per_s.values();
    let arithmetic = arithmetic.chain(rates.attention_flops_per_s.values());
    for rate in arithmetic.chain(&rates.memory_bytes_per_s) {
        let holds = (1e3..=1e20).contains(rate);
        require(holds, "scale", rate, "rates of 1e3 to 1e20")?;
    }
    let holds = (1e-3..=1e6).contains(&rates.floor_us);
    require(holds, "scale.floor_us", &rates.floor_us, "0.001 to 1e6")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn quick() -> &'static str {
        BUILT_IN[0].1
    }

    #[test]
    fn every_built_in_plan_is_read_and_says_its_name() {
        let budgets = [2, 5, 9].map(|minutes| Duration::from_secs(60 * minutes));
        for ((name, _), budget) in BUILT_IN.into_iter().zip(budgets) {
            let plan = find(name).unwrap();
            assert_eq!((plan.name.as_str(), plan.budget), (name, budget));
        }
    }

    #[test]
    fn a_broken_plan_is_named_with_field_value_and_what_is_allowed() {
        for (from, to, expected) in [
            (
                "budget = \"2m\"",
                "budget = \"2 minutes\"",
                "mine.toml: `budget` is `2 minutes`; allowed: a number",
            ),
            (
                "longest_us = 10000",
                "longest_us = 0.1",
                "mine.toml: `longest_us` is 0.1; allowed: more than",
            ),
            ("anchors = 24", "anchor = 24", "mine.toml: line "),
            ("anchors = 24", "anchor = 24", "unknown field `anchor`"),
            ("sobol = ", "sobold = ", "unknown variant `sobold`"),
            (
                "bf16 = 0.5",
                "bf16 = -0.5",
                "mine.toml: `dtypes.bf16` is -0.5; allowed: a weight",
            ),
        ] {
            let text = quick().replacen(from, to, 1);
            assert_ne!(text, quick(), "{from}");
            let sentence = parse(&text, "mine.toml").unwrap_err().to_string();
            assert!(sentence.contains(expected), "{sentence}");
            assert!(
                sentence.contains("allowed: ") && !sentence.contains('\n'),
                "{sentence}"
            );
        }
        let sentence = find("fast").unwrap_err().to_string();
        assert!(
            sentence.contains("`--plan` is `fast`; allowed: quick, standard, full"),
            "{sentence}"
        );
    }
}
