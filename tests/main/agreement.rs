//! What publications say of models beside each other, asked here: `tests/agreement.toml` has the questions, `docs/method/serving.md`
//! and `docs/method/search.md` the answers.

use crate::cli::json;
use crate::documents::section_holds;
use crate::files::text_of;
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    what: String,
    source: String,
    published: f64,
    /// How far the answer may be, of what is published.
    tolerance: f64,
    ask: String,
    beside: Option<String>,
    per: Option<f64>,
    /// What `key` is divided by in the same answer.
    over: Option<String>,
    key: String,
    /// What the difference is, where it is more.
    why: Option<String>,
}

/// A model that was shaped for a GPU, searched for that GPU.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Choice {
    ask: String,
    /// What the difference is, where the search finds a gain of more than [`AGREES`].
    why: Option<String>,
}

/// Largest gain over a published shape that the search agrees with.
const AGREES: f64 = 0.1;

#[derive(Deserialize)]
struct Rows {
    row: Vec<Row>,
    search: Vec<Row>,
    choice: Vec<Choice>,
}

/// Three digits, or all before the point.
fn short(value: f64) -> String {
    match value {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[test]
fn answers_agree_with_publications_or_say_why_not() {
    section_holds("docs/method/serving.md", "agreement", &compared(&rows().row));
    section_holds("docs/method/search.md", "agreement", &compared(&rows().search));
}

fn rows() -> Rows {
    toml::from_str(&text_of("tests/agreement.toml")).unwrap()
}

/// The number at a place of an answer.
fn number(answer: &Value, key: &str) -> f64 {
    let value = answer.pointer(key).and_then(Value::as_f64);
    value.unwrap_or_else(|| panic!("{key} is no number in {answer}"))
}

fn compared(rows: &[Row]) -> String {
    let mut table = "\n| what | published | here | apart | source |\n| --- | --- | --- | --- | --- |\n".to_owned();
    for row in rows {
        let answer = json(&row.ask);
        let beside = row.beside.as_deref().map(|line| number(&json(line), &row.key));
        let over = row.over.as_deref().map(|key| number(&answer, key));
        let beside = beside.or(over).or(row.per).expect("`beside`, `over` or `per`");
        let here = number(&answer, &row.key) / beside;
        let apart = here / row.published - 1.0;
        let agrees = apart.abs() <= row.tolerance;
        assert_eq!(
            agrees,
            row.why.is_none(),
            "{}: {here}, published {}",
            row.what,
            row.published
        );
        let what = match &row.why {
            Some(why) => format!("{}; {why}", row.what),
            None => row.what.clone(),
        };
        table += &format!(
            "| {what} | {} | {} | {:+.0} % | {} |\n",
            short(row.published),
            short(here),
            100.0 * apart,
            row.source
        );
    }
    table + "\n"
}

/// `32 x 4096, 32 heads (8 kv) of 128, d_ff 14336`.
fn shape_text(shape: &Value) -> String {
    let of = |key: &str| shape[key].as_u64();
    let kinds = [("linear_layers", "linear"), ("window_layers", "windowed")];
    let kinds = kinds.map(|(key, kind)| of(key).map(|layers| format!(" ({layers} {kind})")).unwrap_or_default());
    let number = |key: &str| of(key).unwrap_or_else(|| panic!("{key} of {shape}"));
    format!(
        "{}{} x {}, {} heads ({} kv) of {}, d_ff {}",
        number("layers"),
        kinds.concat(),
        number("hidden"),
        number("heads"),
        number("kv_heads"),
        number("head_dim"),
        of("moe_d_ff").unwrap_or_else(|| number("d_ff"))
    )
}

#[test]
fn models_shaped_for_a_gpu_are_searched_for_it() {
    let mut table =
        "\n| published | asked for | ours | gain | loss, 10^-3 nats (90 %) |\n| --- | --- | --- | --- | --- |\n"
            .to_owned();
    for choice in &rows().choice {
        let answer = json(&format!("{} --top 1", choice.ask));
        let [baseline, best] = ["/baseline/shape", "/shapes/0/shape"].map(|key| answer.pointer(key).unwrap());
        let gain = number(&answer, "/shapes/0/gain");
        assert_eq!(gain <= AGREES, choice.why.is_none(), "{}: {gain}", choice.ask);
        let why = choice.why.iter().map(|why| format!("; {why}")).collect::<String>();
        let asked = choice.ask.split_once("--gpu").expect("a GPU").1;
        let loss = ["difference", "low", "high"].map(|key| number(&answer, &format!("/shapes/0/loss/{key}_mnat")));
        table += &format!(
            "| {}: {}{why} | `--gpu{asked}` | {} | {:+.0} % | {:+.0} ({:+.0} to {:+.0}) |\n",
            baseline["name"].as_str().unwrap(),
            shape_text(baseline),
            shape_text(best),
            100.0 * gain,
            loss[0],
            loss[1],
            loss[2]
        );
    }
    section_holds("docs/method/search.md", "choices", &(table + "\n"));
}
