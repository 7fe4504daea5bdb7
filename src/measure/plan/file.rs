//! Plans as TOML: some are built in, others come from a file in the same format; unknown keys are
//! refused by name.

use super::Plan;
use crate::error::{Error, Result, read_text};
use crate::toml_text;
use shapewise_data::PLANS;
use std::ops::RangeInclusive;
use std::path::Path;

/// The built-in plans.
const BUILT_IN: [&str; 7] = ["quick", "standard", "full", "training", "attention", "gaps", "steps"];

/// The text of the built-in plan of this name.
fn built_in(name: &str) -> Option<&'static str> {
    let file = PLANS.get_file(format!("{name}.toml"));
    file.and_then(|file| file.contents_utf8())
}

/// The plan of this name, else that of the file.
pub fn find(name: &str) -> Result<Plan> {
    if let Some(text) = built_in(name) {
        return parse(text, &format!("data/plans/{name}.toml"));
    }
    let path = Path::new(name);
    if !path.is_file() {
        let names = BUILT_IN.join(", ");
        let allowed = format!("{names}, or the path of a plan file");
        return Err(Error::field("command line", "--plan", format!("`{name}`"), &allowed));
    }
    parse(&read_text(path)?, name)
}

/// Parses a plan; `place` names the file in messages.
pub fn parse(text: &str, place: &str) -> Result<Plan> {
    let plan = toml_text::parse(text, place)
        .map_err(|error| Error::bad_input(format!("{error}; allowed: a plan as docs/measure.md describes it")))?;
    check(&plan, place)?;
    Ok(plan)
}

/// Refuses the first value that is out of range.
fn check(plan: &Plan, place: &str) -> Result<()> {
    let some = |name: &str, is_there: bool, allowed: &str| match is_there {
        true => Ok(()),
        false => Err(Error::field(place, name, "empty", allowed)),
    };
    let number = |name: &str, value: f64, range: RangeInclusive<f64>, allowed: &str| match range.contains(&value) {
        true => Ok(()),
        // Digits that a time in seconds adds to one in microseconds are not printed.
        false => Err(Error::field(place, name, value as f32, allowed)),
    };
    some("name", !plan.name.trim().is_empty(), "a text")?;
    let (shortest, longest) = (plan.shortest.micros(), plan.longest.micros());
    number("shortest_us", shortest, 1e-3..=1e7, "0.001 to 1e7")?;
    let range = shortest.next_up()..=1e7;
    number("longest_us", longest, range, "more than `shortest_us`, at most 1e7")?;
    let allowed = "a format with its weight, such as { bf16 = 1.0 }";
    some("dtypes", !plan.dtypes.is_empty(), allowed)?;
    let allowed = "a layout with its weight, such as { tn = 1.0 }";
    some("layouts", !plan.layouts.is_empty(), allowed)?;
    let dtypes = plan
        .dtypes
        .iter()
        .map(|(dtype, weight)| (format!("dtypes.{dtype}"), weight));
    let layouts = plan
        .layouts
        .iter()
        .map(|(layout, weight)| (format!("layouts.{layout}"), weight));
    for (name, weight) in dtypes.chain(layouts) {
        let allowed = "a weight of more than 0, at most 1e6";
        number(&name, *weight, f64::MIN_POSITIVE..=1e6, allowed)?;
    }
    let (name, allowed) = ("attention.head_dims", "at least one head size, 8 to 512");
    some(name, !plan.attention.head_dims.is_empty(), allowed)?;
    for &head_dim in &plan.attention.head_dims {
        number(name, head_dim as f64, 8.0..=512.0, allowed)?;
    }
    let shares = plan.attention.shares().into_iter();
    for (name, share) in shares.chain([("memory.presets", plan.memory.presets)]) {
        number(name, share, 0.0..=1.0, "a share from 0 to 1")?;
    }
    let [least, most] = plan.attention.tokens;
    if !(1..=most.min(1 << 20)).contains(&least) || most > 1 << 20 {
        let allowed = "the least and the most of 1 to 1048576 tokens";
        return Err(Error::field(
            place,
            "attention.tokens",
            format!("[{least}, {most}]"),
            allowed,
        ));
    }
    number("few_rows", plan.few_rows, 1.0..=100.0, "1 to 100")?;
    let allowed = "at least one kernel, such as [\"adam\"]";
    some("memory.kinds", !plan.memory.kinds.is_empty(), allowed)?;
    let allowed = "at least one set with a number of cases of 1 or more";
    some("sets", plan.sets.iter().any(|(_, cases)| *cases > 0), allowed)?;
    for (set, cases) in &plan.sets {
        number(&format!("sets.{set}"), *cases as f64, 0.0..=1e6, "0 to 1000000")?;
    }
    number("anchors", plan.anchors as f64, 0.0..=1000.0, "0 to 1000")?;
    number("chain_us", plan.chain.micros(), 10.0..=1e5, "10 to 1e5")?;
    number("fewest", plan.fewest as f64, 3.0..=7.0, "3 to 7")?;
    let Some(rates) = &plan.rates else {
        return Ok(());
    };
    let arithmetic = rates.gemm_flops_per_s.values();
    let arithmetic = arithmetic.chain(rates.attention_flops_per_s.values());
    for rate in arithmetic.chain(&rates.memory_bytes_per_s) {
        number("scale", *rate, 1e3..=1e20, "rates of 1e3 to 1e20")?;
    }
    number("scale.floor_us", rates.floor_us, 1e-3..=1e6, "0.001 to 1e6")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn quick() -> &'static str {
        built_in("quick").unwrap()
    }

    #[test]
    fn every_built_in_plan_is_read_and_says_its_name() {
        let budgets = [120, 300, 540, 540, 540, 120, 600].map(Duration::from_secs);
        for (name, budget) in BUILT_IN.into_iter().zip(budgets) {
            let plan = find(name).unwrap();
            assert_eq!((plan.name.as_str(), plan.budget), (name, budget));
        }
    }

    #[test]
    fn chains_are_as_long_and_replays_as_few_as_a_plan_says() {
        let usual = parse(quick(), "mine.toml").unwrap();
        assert_eq!((usual.chain.micros(), usual.fewest), (1000.0, 7));
        let keys = "anchors = 24\nchain_us = 300\nfewest = 5";
        let text = quick().replacen("anchors = 24", keys, 1);
        let plan = parse(&text, "mine.toml").unwrap();
        assert_eq!((plan.chain.micros(), plan.fewest), (300.0, 5));
        // Journals distinguish the two.
        assert_ne!(plan.digest(), usual.digest());
    }

    #[test]
    fn a_broken_plan_is_named_with_field_value_and_what_is_allowed() {
        for (from, to, expected) in [
            (
                "budget = \"2m\"",
                "budget = \"2 minutes\"",
                "mine.toml: line 3: `2 minutes` is no duration: a number with its unit",
            ),
            (
                "longest_us = 10000",
                "longest_us = 0.1",
                "mine.toml: `longest_us` is 0.1; allowed: more than",
            ),
            (
                "anchors = 24",
                "anchors = 24\nchain_us = 1",
                "mine.toml: `chain_us` is 1; allowed: 10 to 1e5",
            ),
            (
                "anchors = 24",
                "anchors = 24\nfewest = 2",
                "mine.toml: `fewest` is 2; allowed: 3 to 7",
            ),
            ("anchors = 24", "anchor = 24", "mine.toml: line "),
            ("anchors = 24", "anchor = 24", "unknown field `anchor`"),
            ("sobol = ", "sobold = ", "unknown variant `sobold`"),
            (
                "[sets]",
                "layouts = { tn = 0 }\n[sets]",
                "mine.toml: `layouts.tn` is 0; allowed: a weight",
            ),
            (
                "[sets]",
                "[attention]\nbackward = 1.5\n[sets]",
                "mine.toml: `attention.backward` is 1.5; allowed: a share from 0 to 1",
            ),
            (
                "[sets]",
                "[attention]\nhead_dims = [64, 4]\n[sets]",
                "mine.toml: `attention.head_dims` is 4; allowed: at least one head size",
            ),
            (
                "[sets]",
                "[memory]\nkinds = [\"adamw\"]\n[sets]",
                "unknown variant `adamw`",
            ),
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
            assert!(sentence.contains("allowed: ") && !sentence.contains('\n'), "{sentence}");
        }
        let sentence = find("fast").unwrap_err().to_string();
        assert!(
            sentence.contains("`--plan` is `fast`; allowed: quick, standard, full"),
            "{sentence}"
        );
    }
}
