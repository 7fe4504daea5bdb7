//! `shapewise mcp`: questions of agents, each answered with the command line that repeats it.

use crate::answer::question::Question;
use crate::cli::args::Cli;
use crate::error::Result;
use crate::mcp;
use crate::request::json::with_workload;
use clap::{Arg, CommandFactory};
use serde_json::{Map, Value};

pub(super) fn run() -> Result<String> {
    mcp::run(command_line)?;
    Ok(String::new())
}

/// The command line that asks `question` with this body; `None` if the body holds the content of a file.
fn command_line(question: &Question, body: &Value) -> Option<String> {
    let mut command = &Cli::command();
    let mut line = vec![command.get_name().to_owned()];
    for word in question.name.split('_') {
        // What is no command is an option.
        let Some(part) = command.find_subcommand(word) else {
            break;
        };
        command = part;
        line.push(word.to_owned());
    }
    let (mut first, mut options) = (Vec::new(), Vec::new());
    let body = &match question.body().has_workload {
        true => with_workload(body.clone()),
        false => body.clone(),
    };
    let nothing = Map::new();
    let workload = body.get("workload").and_then(Value::as_object).unwrap_or(&nothing);
    for (key, value) in body
        .as_object()?
        .iter()
        .chain(workload)
        .filter(|(key, _)| *key != "workload")
    {
        let arg = command.get_arguments().find(|arg| arg.get_id().as_str() == key)?;
        let text = match value {
            Value::Null | Value::Bool(false) => continue,
            Value::Array(values) if values.is_empty() => continue,
            Value::Bool(true) if !arg.get_action().takes_values() => None,
            Value::Bool(true) => arg.get_value_names().map(|names| quoted(&names[0])),
            value => Some(quoted(&text(value)?)),
        };
        if arg.is_positional() {
            first.extend(text);
        } else {
            options.push(option(arg)?);
            options.extend(text);
        }
    }
    Some([line, first, options].concat().join(" "))
}

/// The name of an option, as it is typed.
fn option(arg: &Arg) -> Option<String> {
    let long = arg.get_long().map(|long| format!("--{long}"));
    long.or_else(|| arg.get_short().map(|short| format!("-{short}")))
}

/// A value as it is typed; `None` if it is the content of a file.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(values) => {
            let texts: Option<Vec<_>> = values.iter().map(text).collect();
            Some(texts?.join(","))
        }
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// A word for a shell.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.,:/+-=".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_body_is_said_in_options() {
        for (name, body, line) in [
            (
                "sweep_attention",
                json!({"batch": 4, "heads": "8:32:8", "seq_q": 2048, "head_dim": 128, "causal": true, "window": 0}),
                Some("sweep attention --batch 4 --heads 8:32:8 --seq 2048 --head-dim 128 --causal --window 0"),
            ),
            (
                "check",
                json!({"gpu": "a100", "architecture": "my model/config.json", "workload": {"mode": "decode", "tp": 8}}),
                Some("check 'my model/config.json' --gpu a100 --mode decode --tp 8"),
            ),
            (
                "predict_model",
                json!({"architecture": "gpt2", "workload": {"mode": "decode"}, "mode": "train"}),
                Some("predict model gpt2 --mode train"),
            ),
            (
                "search",
                json!({"params": "350M", "relax": []}),
                Some("search --params 350M"),
            ),
            (
                "search",
                json!({"params": "1B", "also_gpus": ["a100", "h100"], "exhaustive": false, "export": true}),
                Some("search --params 1B --also-gpus a100,h100 --export DIR"),
            ),
            (
                "plan",
                json!({"architecture": {"model_type": "llama"}, "gpus": 8}),
                None,
            ),
            ("predict_graph", json!({"ops": "{}"}), None),
            ("gpus", json!({}), Some("gpus")),
        ] {
            let said = command_line(Question::find(name).unwrap(), &body);
            let line = line.map(|line| format!("shapewise {line}"));
            assert_eq!(said, line, "{name} {body}");
        }
    }
}
