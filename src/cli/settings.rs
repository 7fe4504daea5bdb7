//! Values of options where the command line has none: those of the environment, else of a small file.

use crate::error::{Error, read_text};
use crate::predict::library;
use crate::request::Gigabits;
use crate::toml_text;
use clap::builder::ArgPredicate;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches};
use serde::Deserialize;
use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

/// The variable that names the GPU.
pub const GPU_VARIABLE: &str = "SHAPEWISE_GPU";

/// The variable that names the file; there is none if it is empty.
const FILE_VARIABLE: &str = "SHAPEWISE_CONFIG";

/// What the file may set.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    gpu: Option<String>,
    network_gbit_per_s: Option<Gigabits>,
}

impl File {
    /// Sets all that a file may, so that the use of one that cannot be read is seen.
    fn unread() -> Self {
        Self {
            gpu: Some("unread".to_owned()),
            network_gbit_per_s: Some(Gigabits(1.0)),
        }
    }
}

/// An option, its value and what sets it.
#[derive(Clone, Debug)]
pub struct Setting {
    option: &'static str,
    value: String,
    by: String,
}

impl Setting {
    /// What is said of it beside an answer.
    pub fn note(&self) -> String {
        format!("--{} {} by {}", self.option.replace('_', "-"), self.value, self.by)
    }

    /// The error of a command; one about an option that is set names what sets it.
    pub fn explain(set: &[Self], error: Error) -> Error {
        let Some(at) = error.field_error().filter(|_| error.is_usage()) else {
            return error;
        };
        match set.iter().find(|setting| setting.option == at.field) {
            Some(Self { by, .. }) => {
                Error::usage(format!("{by}: `{}` is {}; allowed: {}", at.field, at.value, at.allowed))
            }
            None => error,
        }
    }
}

/// Every option that is set.
#[derive(Debug, Default)]
pub struct Settings {
    all: Vec<Setting>,
    /// What is wrong with the file, whose values then hold its place only.
    fault: Option<Error>,
}

impl Settings {
    /// Those of the environment and of the file that it names, `~/.config/shapewise/config.toml` if it names none.
    pub fn read() -> Self {
        let path = env::var_os(FILE_VARIABLE).map_or_else(usual_file, |path| Some(path.into()));
        let path = path.filter(|path| !path.as_os_str().is_empty());
        let place = path
            .as_ref()
            .map_or_else(String::new, |path| path.display().to_string());
        let read = path.map_or_else(
            || Ok(File::default()),
            |path| read_text(&path).and_then(|text| toml_text::parse(&text, &place)),
        );
        let (file, fault) = match read {
            Ok(file) => (file, None),
            Err(fault) => (File::unread(), Some(fault)),
        };
        let named = |gpu: &String| !gpu.is_empty();
        let of_environment = env::var(GPU_VARIABLE).ok().filter(named);
        let network = file.network_gbit_per_s.map(|rate| rate.to_string());
        let set = |option, value: Option<String>, by: &str| {
            let by = by.to_owned();
            value.map(|value| Setting { option, value, by })
        };
        let gpu = set("gpu", of_environment, GPU_VARIABLE).or_else(|| set("gpu", file.gpu.filter(named), &place));
        let network = set("network_gbit_per_s", network, &place);
        Self {
            all: gpu.into_iter().chain(network).collect(),
            fault,
        }
    }

    /// What is wrong with the file, if one of these settings is of it.
    pub fn fault(&self, used: &[Setting]) -> Option<&Error> {
        let of_file = used.iter().any(|setting| setting.by != GPU_VARIABLE);
        self.fault.as_ref().filter(|_| of_file)
    }

    fn of(&self, arg: &str) -> Option<&Setting> {
        self.all.iter().find(|setting| setting.option == arg)
    }

    /// The option with its default, where it is set.
    ///
    /// A model given by its path has no default GPU, since it may bring its own.
    pub fn with(&self, arg: Arg) -> Arg {
        let Some(Setting { option, value, .. }) = self.of(arg.get_id().as_str()) else {
            return arg;
        };
        let arg = arg.default_value(value.clone()).hide_default_value(true);
        if *option != "gpu" {
            return arg;
        }
        let built_in = |model: &'static str| ("model", ArgPredicate::Equals(model.into()), value.clone());
        let arg = arg.default_value_ifs(library::names().map(built_in));
        arg.default_value_if("model", ArgPredicate::IsPresent, None::<&str>)
    }

    /// Those that a command line was read with.
    pub fn used(&self, matches: &ArgMatches) -> Vec<Setting> {
        if let Some((_, matches)) = matches.subcommand() {
            return self.used(matches);
        }
        let is_used = |setting: &&Setting| {
            let is_known = matches.try_contains_id(setting.option).unwrap_or(false);
            is_known && matches.value_source(setting.option) == Some(ValueSource::DefaultValue)
        };
        self.all.iter().filter(is_used).cloned().collect()
    }
}

/// The file that is read where no other is named, if there is one.
fn usual_file() -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|value: &OsString| !value.is_empty());
    let home = || Some(PathBuf::from(set("HOME")?).join(".config"));
    let folder = set("XDG_CONFIG_HOME").map(PathBuf::from).or_else(home)?;
    Some(folder.join("shapewise/config.toml")).filter(|path| path.exists())
}
