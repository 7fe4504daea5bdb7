//! `shapewise completions` and `shapewise manual`: what shells and `man` read, from the same definitions as `--help`.

use crate::cli::args::{Cli, CompletionsArgs, ManualArgs};
use crate::cli::output::write_all;
use crate::cli::settings::Settings;
use crate::cli::{help, note};
use crate::error::{Error, Result};
use clap::{Arg, Command};
use std::collections::BTreeMap;

pub(super) fn completions(args: &CompletionsArgs) -> String {
    let mut script = Vec::new();
    let mut command = help::completed(Cli::arranged(&Settings::default()));
    clap_complete::generate(args.shell, &mut command, "shapewise", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

pub(super) fn pages(args: &ManualArgs) -> Result<String> {
    let mut root = Cli::arranged(&Settings::default());
    root.build();
    let Some(folder) = &args.out else {
        return Ok(markdown(&root));
    };
    let mut commands = vec![root];
    let mut pages = Vec::new();
    while let Some(command) = commands.pop() {
        let mut page = Vec::new();
        let man = clap_mangen::Man::new(command.clone());
        let name = man.get_filename();
        let path = folder.join(name);
        man.render(&mut page).map_err(|source| Error::io(&path, source))?;
        pages.push((path, page));
        let visible = command.get_subcommands().filter(|part| part.get_name() != "help");
        commands.extend(visible.cloned());
    }
    write_all("--out", &pages, args.replace)?;
    let (pages, folder) = (pages.len(), folder.display());
    note(&format!("wrote {pages} pages below {folder}"));
    Ok(String::new())
}

/// Every command, then every option once with the commands that take it.
fn markdown(root: &Command) -> String {
    let mut text =
        "# Command line\n\nWritten by `shapewise manual --markdown`. `--help` after a command says more.\n\n\
        | command | what it does |\n| --- | --- |\n"
            .to_owned();
    let mut options: BTreeMap<(&str, String, String), Vec<String>> = BTreeMap::new();
    let mut commands: Vec<&Command> = root.get_subcommands().collect();
    commands.reverse();
    let mut count = 0;
    while let Some(command) = commands.pop() {
        let name = command.get_bin_name().unwrap_or_default();
        let name = name.trim_start_matches("shapewise ").to_owned();
        let mut parts: Vec<&Command> = command.get_subcommands().collect();
        parts.retain(|part| part.get_name() != "help");
        if name == "help" {
            continue;
        }
        count += 1;
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let places = command.get_positionals().map(|place| format!(" {place}"));
        let places: String = places.collect();
        text += &format!("| `{name}{}` | {} |\n", places.replace('|', "\\|"), cell(&about));
        for option in command
            .get_arguments()
            .filter(|option| !option.is_hide_set() && !option.is_positional())
        {
            let heading = option.get_help_heading().unwrap_or("Other options");
            let of = options
                .entry((heading, option.to_string(), meaning(option)))
                .or_default();
            of.push(name.clone());
        }
        commands.extend(parts.into_iter().rev());
    }
    let mut last = "";
    for ((heading, option, meaning), commands) in options {
        if heading != last {
            text += &format!("\n## {heading}\n\n| option | meaning | of |\n| --- | --- | --- |\n");
            last = heading;
        }
        let option = option.replace('|', "\\|");
        let of = if commands.len() == count {
            "all".to_owned()
        } else {
            commands.join(", ")
        };
        text += &format!("| `{option}` | {meaning} | {of} |\n");
    }
    text
}

/// The help of an option with its default and its values.
fn meaning(option: &Arg) -> String {
    let help = option.get_long_help().or(option.get_help());
    let mut text = help.map(ToString::to_string).unwrap_or_default();
    let values = option.get_possible_values();
    if option.get_action().takes_values() && !values.is_empty() && !option.is_hide_possible_values_set() {
        let names: Vec<&str> = values.iter().map(|value| value.get_name()).collect();
        text += &format!(": {}", names.join(", "));
    }
    let defaults = option.get_default_values().iter();
    let defaults: Vec<_> = defaults.map(|value| value.to_string_lossy()).collect();
    if option.get_action().takes_values() && !defaults.is_empty() && !option.is_hide_default_value_set() {
        text += &format!(" [default: {}]", defaults.join(" "));
    }
    cell(&text)
}

/// Text inside a cell of a Markdown table.
fn cell(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").replace('|', "\\|")
}
