//! Plans as TOML: some are built in, others come from a file in the same format; unknown keys are
//! refused by name.

use super::shares::LAYOUTS;
use super::{AttentionShares, DeviceRates, MemoryShares, Plan, Set};
use crate::error::{Error, Result, read_text};
use crate::measure::stopping::Limits;
use crate::ops::{Dtype, Layout};
use crate::toml_text;
use crate::units::{Seconds, duration};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;

/// The built-in plans by name.
pub const BUILT_IN: [(&str, &str); 7] = [
    ("quick", include_str!("../../../data/plans/quick.toml")),
    ("standard", include_str!("../../../data/plans/standard.toml")),
    ("full", include_str!("../../../data/plans/full.toml")),
    ("training", include_str!("../../../data/plans/training.toml")),
    ("attention", include_str!("../../../data/plans/attention.toml")),
    ("gaps", include_str!("../../../data/plans/gaps.toml")),
    ("steps", include_str!("../../../data/plans/steps.toml")),
];

/// A plan file; what has a default may be left out.
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
    #[serde(default)]
    chain_us: Option<f64>,
    #[serde(default)]
    fewest: Option<usize>,
    #[serde(default = "once")]
    few_rows: f64,
    dtypes: BTreeMap<Dtype, f64>,
    #[serde(default = "layouts")]
    layouts: BTreeMap<Layout, f64>,
    #[serde(default)]
    attention: AttentionShares,
    #[serde(default)]
    memory: MemoryShares,
    #[serde(default)]
    own_kernels: bool,
    sets: BTreeMap<Set, u32>,
    #[serde(default)]
    scale: Option<DeviceRates>,
}

fn once() -> f64 {
    1.0
}

fn layouts() -> BTreeMap<Layout, f64> {
    BTreeMap::from(LAYOUTS)
}

/// The plan of this name, else that of the file.
pub fn find(name: &str) -> Result<Plan> {
    if let Some((name, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
        return parse(text, &format!("data/plans/{name}.toml"));
    }
    let path = Path::new(name);
    if !path.is_file() {
        let names = BUILT_IN.map(|(name, _)| name).join(", ");
        let allowed = format!("{names}, or the path of a plan file");
        return Err(Error::field("command line", "--plan", format!("`{name}`"), &allowed));
    }
    parse(&read_text(path)?, name)
}

/// Parses a plan; `place` names the file in messages.
pub fn parse(text: &str, place: &str) -> Result<Plan> {
    let document: Document = toml_text::parse(text, place)
        .map_err(|error| Error::bad_input(format!("{error}; allowed: a plan as docs/measure.md describes it")))?;
    check(&document, place)?;
    let usual = Limits::default();
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
        chain: document.chain_us.map_or(usual.chain, Seconds::from_micros),
        fewest: document.fewest.unwrap_or(usual.fewest),
        few_rows: document.few_rows,
        dtypes: document.dtypes.into_iter().collect(),
        layouts: document.layouts.into_iter().collect(),
        attention: document.attention,
        memory: document.memory,
        own_kernels: document.own_kernels,
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
    let allowed = "a layout with its weight, such as { tn = 1.0 }";
    require(!document.layouts.is_empty(), "layouts", &"empty", allowed)?;
    let dtypes = document.dtypes.iter();
    let dtypes = dtypes.map(|(dtype, weight)| (format!("dtypes.{dtype}"), *weight));
    let layouts = document.layouts.iter();
    let layouts = layouts.map(|(layout, weight)| (format!("layouts.{layout}"), *weight));
    for (name, weight) in dtypes.chain(layouts) {
        let holds = weight > 0.0 && weight <= 1e6;
        let allowed = "a weight of more than 0, at most 1e6";
        require(holds, &name, &weight, allowed)?;
    }
    let (attention, memory) = (&document.attention, &document.memory);
    let (name, allowed) = ("attention.head_dims", "at least one head size, 8 to 512");
    require(!attention.head_dims.is_empty(), name, &"empty", allowed)?;
    for head_dim in &attention.head_dims {
        require((8..=512).contains(head_dim), name, head_dim, allowed)?;
    }
    let shares = attention.shares();
    let shares = shares.map(|(name, share)| (format!("attention.{name}"), share));
    let presets = ("memory.presets".to_owned(), memory.presets);
    for (name, share) in shares.into_iter().chain([presets]) {
        let holds = (0.0..=1.0).contains(&share);
        require(holds, &name, &share, "a share from 0 to 1")?;
    }
    let [least, most] = attention.tokens;
    let holds = 1 <= least && least <= most && most <= 1 << 20;
    let tokens = format!("[{least}, {most}]");
    let allowed = "the least and the most of 1 to 1048576 tokens";
    require(holds, "attention.tokens", &tokens, allowed)?;
    let holds = (1.0..=100.0).contains(&document.few_rows);
    require(holds, "few_rows", &document.few_rows, "1 to 100")?;
    let (name, allowed) = ("memory.kinds", "at least one kernel, such as [\"adam\"]");
    require(!memory.kinds.is_empty(), name, &"empty", allowed)?;
    let allowed = "at least one set with a number of cases of 1 or more";
    let holds = document.sets.values().any(|&cases| cases > 0);
    require(holds, "sets", &"empty", allowed)?;
    for (set, cases) in &document.sets {
        let name = format!("sets.{set}");
        require(*cases <= 1_000_000, &name, cases, "0 to 1000000")?;
    }
    let anchors = document.anchors;
    require(anchors <= 1000, "anchors", &anchors, "0 to 1000")?;
    if let Some(chain) = document.chain_us {
        let holds = (10.0..=1e5).contains(&chain);
        require(holds, "chain_us", &chain, "10 to 1e5")?;
    }
    if let Some(fewest) = document.fewest {
        let holds = (3..=7).contains(&fewest);
        require(holds, "fewest", &fewest, "3 to 7")?;
    }
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
        let budgets = [120, 300, 540, 540, 540, 120, 600].map(Duration::from_secs);
        for ((name, _), budget) in BUILT_IN.into_iter().zip(budgets) {
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
        // Journals tell the two apart.
        assert_ne!(plan.digest(), usual.digest());
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
