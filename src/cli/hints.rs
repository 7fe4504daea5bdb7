//! What a wrong option, value or command was meant to be: `data/hints.toml`.

use crate::gpu::Gpu;
use crate::names::misspelt;
use crate::toml_text::built_in;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};
use serde::Deserialize;
use std::sync::LazyLock;

static TABLE: LazyLock<Table> = LazyLock::new(|| built_in(&shapewise_data::HINTS));

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    option: Vec<Hint>,
    value: Vec<Hint>,
    command: Vec<Hint>,
    argument: Vec<Hint>,
}

/// What people type, and what says it here.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Hint {
    /// The option whose values the names are, or the command that has an argument too many.
    of: Option<String>,
    #[serde(default)]
    names: Vec<String>,
    /// Options with their values, or commands: the first that there is.
    #[serde(default)]
    means: Vec<String>,
    /// The hint if no name is near.
    says: Option<String>,
}

impl Hint {
    fn is_about(&self, wrong: &str) -> bool {
        self.names.iter().any(|name| match name.strip_suffix('*') {
            Some(start) => wrong.starts_with(start),
            None => name == wrong,
        })
    }

    /// The sentence, with the first meaning that `known` finds, which also says how it is written.
    fn sentence(&self, known: impl Fn(&str) -> Option<String>) -> Option<String> {
        let meant = self.means.iter().find_map(|meant| known(meant));
        meant.map(|meant| meaning(&meant)).or_else(|| self.says.clone())
    }
}

fn meaning(meant: &str) -> String {
    format!("this may be what you mean: `{meant}`")
}

/// The same error with a better suggestion, where there is one; `args` are those of the command line, without the program.
pub fn improved(mut error: clap::Error, root: &Command, args: &[String]) -> clap::Error {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    let asked = Asked::new(root, args);
    let hint = match error.kind() {
        ErrorKind::UnknownArgument => text(ContextKind::InvalidArg).and_then(|wrong| {
            let similar = text(ContextKind::SuggestedArg).filter(|known| is_near(&wrong, known));
            let similar = || similar.map(|known| meaning(&known));
            asked.argument(&wrong).or_else(similar)
        }),
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            let argument = text(ContextKind::InvalidArg);
            let wrong = text(ContextKind::InvalidValue);
            argument.zip(wrong).and_then(|(argument, wrong)| {
                let option = argument.trim_start_matches('-').split(' ').next()?;
                asked.value(option, &wrong)
            })
        }
        ErrorKind::InvalidSubcommand => text(ContextKind::InvalidSubcommand).and_then(|name| asked.command(&name)),
        _ => None,
    };
    let is_unknown = error.kind() == ErrorKind::UnknownArgument;
    if hint.is_some() || is_unknown {
        // Usage would show the option that clap took for the one that was meant.
        for kind in [
            ContextKind::SuggestedArg,
            ContextKind::SuggestedSubcommand,
            ContextKind::Suggested,
            ContextKind::SuggestedValue,
            ContextKind::Usage,
        ] {
            error.remove(kind);
        }
    }
    if let Some(hint) = hint {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
    }
    error
}

/// What was asked: a command, its path below the program, and all words.
struct Asked<'a> {
    root: &'a Command,
    command: &'a Command,
    path: String,
    args: &'a [String],
}

impl<'a> Asked<'a> {
    fn new(root: &'a Command, args: &'a [String]) -> Self {
        let (mut command, mut path) = (root, Vec::new());
        for arg in args {
            let Some(next) = command.find_subcommand(arg) else {
                break;
            };
            command = next;
            path.push(arg.as_str());
        }
        let path = path.join(" ");
        Self {
            root,
            command,
            path,
            args,
        }
    }

    /// `tp` or `dtype fp8` with its dashes, if the command has that option.
    fn written(&self, option: &str) -> Option<String> {
        let long = option.split(' ').next();
        let mut arguments = self.command.get_arguments().chain(self.root.get_arguments());
        arguments
            .any(|arg| arg.get_long() == long)
            .then(|| format!("--{option}"))
    }

    /// What an unknown option or an argument too many was meant to be.
    fn argument(&self, wrong: &str) -> Option<String> {
        let shorts: Vec<char> = self.command.get_arguments().filter_map(Arg::get_short).collect();
        if !wrong.starts_with('-') {
            return self.positional(wrong, &shorts);
        }
        let name = wrong.trim_start_matches('-').split('=').next()?.replace('_', "-");
        if let Some(written) = self.written(&name) {
            return Some(meaning(&written));
        }
        if let Some(letter) = name.chars().next().filter(|_| name.len() == 1)
            && shorts.contains(&letter)
        {
            return Some(meaning(&format!("-{letter}")));
        }
        let mut known = TABLE.option.iter().filter(|hint| hint.is_about(&name));
        // `--quantization awq` is `--recipe w4a16`.
        let given = self.args.iter().skip_while(|arg| !arg.starts_with(wrong)).nth(1);
        known.find_map(|hint| {
            hint.sentence(|meant| {
                let value = given.and_then(|value| of_value(meant, value));
                let value = value.and_then(|hint| hint.means.iter().find_map(|meant| self.written(meant)));
                value.or_else(|| self.written(meant))
            })
        })
    }

    fn positional(&self, wrong: &str, shorts: &[char]) -> Option<String> {
        let path = &self.path;
        let is_count = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
        let sizes = ['m', 'n', 'k'];
        if is_count(wrong) && sizes.iter().all(|size| shorts.contains(size)) {
            // The sizes of a GEMM in their order.
            let bare = self.args.iter().filter(|arg| is_count(arg)).zip(sizes);
            let named: Vec<_> = bare.map(|(value, size)| format!("-{size} {value}")).collect();
            return Some(meaning(&format!("shapewise {path} {}", named.join(" "))));
        }
        if is_count(wrong) && self.written("params").is_some() {
            return Some(meaning(&format!("shapewise {path} --params {wrong}")));
        }
        let mut known = TABLE.argument.iter();
        let hint = known.find(|hint| hint.of.as_deref() == Some(path))?;
        hint.sentence(|meant| Some(format!("shapewise {}", meant.replace('*', wrong))))
    }

    /// What a value of an option says in other words.
    fn value(&self, option: &str, wrong: &str) -> Option<String> {
        let gpus = || wrong.split(',').all(|name| Gpu::find(name).is_ok());
        match option == "gpus" && gpus() {
            true => Some(meaning(&format!("--gpu {wrong}"))),
            false => of_value(option, wrong)?.sentence(|meant| self.written(meant)),
        }
    }

    /// What an unknown command was meant to be.
    fn command(&self, name: &str) -> Option<String> {
        let path = &self.path;
        let below = |command: &Command, path: &str| {
            let mut command = command;
            path.split(' ').all(|name| match command.find_subcommand(name) {
                Some(next) => {
                    command = next;
                    true
                }
                None => false,
            })
        };
        let written = |meant: &str| match () {
            () if below(self.command, meant) => Some(format!("shapewise {path} {meant}").replace("  ", " ")),
            () if below(self.root, meant) || meant.starts_with('-') => Some(format!("shapewise {meant}")),
            () => None,
        };
        let known = TABLE.command.iter().find(|hint| hint.is_about(name));
        if let Some(hint) = known.and_then(|hint| hint.sentence(written)) {
            return Some(hint);
        }
        let commands = self.command.get_subcommands().map(Command::get_name);
        if let [near, ..] = misspelt(name, commands)[..] {
            return Some(meaning(&format!("shapewise {path} {near}").replace("  ", " ")));
        }
        // A size or a name is meant for the model.
        below(self.command, WHOLE_MODEL).then(|| meaning(&format!("shapewise {path} {WHOLE_MODEL} {name}")))
    }
}

/// What the table says of a value of this option.
fn of_value(option: &str, wrong: &str) -> Option<&'static Hint> {
    let wrong = wrong.to_lowercase().replace('_', "-");
    let mut values = TABLE.value.iter();
    values.find(|hint| hint.of.as_deref() == Some(option) && hint.is_about(&wrong))
}

/// The subcommand of `predict`, `sweep` that takes the name of a model.
const WHOLE_MODEL: &str = "model";

/// Letters that two names of one thing begin with.
const START: usize = 4;

/// Whether clap's suggestion has more than a few letters in common with what was typed.
fn is_near(wrong: &str, known: &str) -> bool {
    let [wrong, known] = [wrong, known].map(|name| name.trim_start_matches('-'));
    let alike = wrong.bytes().zip(known.bytes()).take_while(|(a, b)| a == b).count();
    let holds = |long: &str, short: &str| short.len() >= START && long.contains(short);
    alike >= START || holds(wrong, known) || holds(known, wrong) || !misspelt(wrong, [known].into_iter()).is_empty()
}
