//! Plans as TOML: three are built in, others come from a file in the same format; unknown keys are refused by name.

use super::{Plan, Set};
use crate::error::Error;
use crate::error::Result;
use crate::error::read_text;
use crate::measure::plan::scale::Scale;
use crate::ops::Dtype;
use crate::units::Seconds;
use crate::units::duration;
use serde::Deserialize;
use std::collections::BTreeMap;
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

/// A plan file; every key must be there but `scale`.
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
    scale: Option<Scale>,
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

/// Reads a plan; `place` names the file in messages.
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
    let field = |name: &str, value: &dyn std::fmt::Display, allowed: &str| {
        Err(Error::field(place, name, value, allowed))
    };
    if document.name.trim().is_empty() {
        return field("name", &"empty", "a text");
    }
    let (shortest, longest) = (document.shortest_us, document.longest_us);
    if !(1e-3..=1e7).contains(&shortest) {
        return field("shortest_us", &shortest, "0.001 to 1e7");
    }
    if !(longest > shortest && longest <= 1e7) {
        return field(
            "longest_us",
            &longest,
            "more than `shortest_us`, at most 1e7",
        );
    }
    if document.dtypes.is_empty() {
        return field(
            "dtypes",
            &"empty",
            "a format with its weight, such as { bf16 = 1.0 }",
        );
    }
    for (dtype, &weight) in &document.dtypes {
        if !(weight > 0.0 && weight <= 1e6) {
            let name = format!("dtypes.{}", dtype.name());
            return field(&name, &weight, "a weight of more than 0, at most 1e6");
        }
    }
    if document.sets.values().all(|&cases| cases == 0) {
        return field(
            "sets",
            &"empty",
            "at least one set with a number of cases of 1 or more",
        );
    }
    for (set, &cases) in &document.sets {
        if cases > 1_000_000 {
            return field(&format!("sets.{}", set.name()), &cases, "0 to 1000000");
        }
    }
    if document.anchors > 1000 {
        return field("anchors", &document.anchors, "0 to 1000");
    }
    if !(1..=100).contains(&document.active_rounds) {
        return field("active_rounds", &document.active_rounds, "1 to 100");
    }
    if let Some(scale) = &document.scale {
        check_scale(scale, place)?;
    }
    let time = |name: &str, text: &str| {
        duration(text).map_err(|allowed| Error::field(place, name, format!("`{text}`"), &allowed))
    };
    Ok(Plan {
        budget: time("budget", &document.budget)?,
        soak: time("soak", &document.soak)?,
        anchor_period: time("anchor_period", &document.anchor_period)?,
        name: document.name,
        anchors: document.anchors as usize,
        shortest: Seconds::from_micros(shortest),
        longest: Seconds::from_micros(longest),
        active_rounds: document.active_rounds as usize,
        dtypes: document.dtypes.into_iter().collect(),
        sets: document
            .sets
            .into_iter()
            .map(|(set, cases)| (set, cases as usize))
            .collect(),
        scale: document.scale,
    })
}

fn check_scale(scale: &Scale, place: &str) -> Result<()> {
    let rates = scale
        .gemm_flops_per_s
        .values()
        .chain(scale.attention_flops_per_s.values());
    let rates = rates.chain(&scale.memory_bytes_per_s);
    if let Some(rate) = rates.copied().find(|rate| !(1e3..=1e20).contains(rate)) {
        return Err(Error::field(place, "scale", rate, "rates of 1e3 to 1e20"));
    }
    match (1e-3..=1e6).contains(&scale.floor_us) {
        true => Ok(()),
        false => Err(Error::field(
            place,
            "scale.floor_us",
            scale.floor_us,
            "0.001 to 1e6",
        )),
    }
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
