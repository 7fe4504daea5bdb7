//! Reading and writing framework files: every constant in its range, every message with file, key and what is allowed.

use super::{Constant, Engine, Figure, Fit, Framework, Kernels, Kind, Provider, Release};
use crate::arch::{Dimension, Mode, Practice};
use crate::error::{Error, Result};
use crate::gpu::{Generation, Gpu};
use crate::toml_text;
use serde::{Deserialize, Serialize};
use shapewise_data::FRAMEWORKS;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// A framework as its file has it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    /// Other names that it is asked by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    aliases: Vec<String>,
    title: String,
    /// Where constants and half widths that are not named come from; empty means the plain sum.
    #[serde(skip_serializing_if = "Option::is_none")]
    inherits: Option<String>,
    #[serde(default)]
    software: Vec<String>,
    modes: Vec<Mode>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    generations: Vec<Generation>,
    /// ZeRO stages that it runs; empty means those of the framework it inherits from, else for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    zero_stages: Vec<u8>,
    /// ZeRO stages that it runs beside such ranks, where they are not all; empty means those of the framework it inherits from.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    zero_stages_beside: BTreeMap<String, Vec<u8>>,
    /// Ranks that it splits a model over; empty means those of the framework it inherits from, else for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    ranks: Option<Vec<String>>,
    /// Whose memory-bound kernels it runs; empty means those of the framework it inherits from, else of a library.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_kernels: Option<Provider>,
    /// Whose other kernels it runs; empty means those of the framework it inherits from, else for each GPU's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    engine: Option<Engine>,
    /// What it keeps in memory while it trains; empty means that of the framework it inherits from.
    #[serde(skip_serializing_if = "Option::is_none")]
    training_memory: Option<Practice>,
    #[serde(default)]
    half_widths: BTreeMap<Kind, f64>,
    #[serde(default)]
    constants: BTreeMap<String, Figure>,
    /// Deviations of inherited constants, in place of those that they were fitted with.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    spreads: BTreeMap<Constant, f64>,
    #[serde(default)]
    fits: BTreeMap<Kind, Fit>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    releases: Vec<Release>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    boards: BTreeMap<String, Figure>,
}

/// The embedded frameworks, by name.
pub(super) fn all() -> &'static [Framework] {
    static ALL: OnceLock<Vec<Framework>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut names: Vec<_> = FRAMEWORKS.files().map(|file| file.path().to_owned()).collect();
        names.sort();
        let read = names.iter().map(|path| {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            embedded(&stem).expect("a test loads every embedded framework")
        });
        read.collect()
    })
}

/// The embedded framework of this name, and those it inherits from.
pub(super) fn embedded(name: &str) -> Result<Framework> {
    let path = format!("{name}.toml");
    let file = FRAMEWORKS.get_file(&path);
    let text = file
        .and_then(|file| file.contents_utf8())
        .ok_or_else(|| Error::bad_input(format!("data/frameworks/{path}: there is no such file")))?;
    framework(text, &format!("data/frameworks/{path}"), &|name| embedded(name))
}

/// Reads a framework; `find` knows the one it inherits from.
pub(super) fn framework(text: &str, place: &str, find: &dyn Fn(&str) -> Result<Framework>) -> Result<Framework> {
    let file: File = toml_text::parse(text, place)?;
    let mut framework = base(file.inherits.as_deref(), &file.software, find)?;
    framework.inherits = file.inherits;
    framework.name = file.name;
    framework.aliases = file.aliases;
    framework.title = file.title;
    framework.software = file.software;
    framework.modes = file.modes;
    framework.generations = file.generations;
    framework.releases = file.releases;
    framework.boards = file.boards;
    if let Some(stage) = file.zero_stages.iter().find(|&&stage| stage > 3) {
        return Err(Error::field(place, "zero_stages", stage, "0 to 3"));
    }
    if !file.zero_stages.is_empty() {
        framework.zero_stages = file.zero_stages;
    }
    let rank = |field: &str, name: &String| {
        let mut known = Framework::RANKS.into_iter();
        known.find(|rank| rank.name() == name).ok_or_else(|| {
            let allowed = Framework::RANKS.map(Dimension::name).join(", ");
            Error::field(place, field, name, &allowed)
        })
    };
    if let Some(names) = file.ranks {
        let ranks = names.iter().map(|name| rank("ranks", name));
        framework.ranks = ranks.collect::<Result<_>>()?;
    }
    if !file.zero_stages_beside.is_empty() {
        let beside = file.zero_stages_beside.into_iter();
        let beside = beside.map(|(name, stages)| Ok((rank("zero_stages_beside", &name)?, stages)));
        framework.zero_stages_beside = beside.collect::<Result<_>>()?;
    }
    if let Some(provider) = file.memory_kernels {
        framework.kernels.memory = provider;
    }
    framework.kernels.engine = file.engine.or(framework.kernels.engine);
    if let Some(practice) = file.training_memory {
        framework.practice = practice;
    }
    // What changes no interval is judged by the same runs.
    if !(file.fits.is_empty() && file.half_widths.is_empty()) {
        framework.fits = file.fits;
    }
    for (key, figure) in file.constants {
        let Some(constant) = Constant::parse(&key) else {
            let known = Constant::NAMES.join(", ");
            return Err(Error::bad_input(format!(
                "{place}: `constants.{key}` is not known; allowed: {known}"
            )));
        };
        check(place, &format!("constants.{key}"), &figure, constant)?;
        framework.set(constant, figure);
    }
    for (constant, sd) in file.spreads {
        if !(sd > 0.0 && sd <= 10.0) {
            let field = format!("spreads.{constant}");
            return Err(Error::field(place, &field, sd, "more than 0, at most 10"));
        }
        let figure = framework.figure(constant).clone();
        framework.set(constant, Figure { sd, ..figure });
    }
    for (at, release) in framework.releases.iter().enumerate() {
        for (&constant, factor) in &release.factors {
            check(place, &format!("releases[{at}].{constant}"), factor, constant)?;
        }
    }
    for (gpu, factor) in &framework.boards {
        if Gpu::find(gpu).is_err() {
            return Err(Error::field(place, "boards", gpu, "names that `shapewise gpus` lists"));
        }
        check(place, &format!("boards.{gpu}"), factor, Constant::Gemm)?;
    }
    for (kind, half_width) in file.half_widths {
        if !(half_width > 0.0 && half_width <= 10.0) {
            let field = format!("half_widths.{kind}");
            return Err(Error::field(place, &field, half_width, "more than 0, at most 10"));
        }
        framework.set_half_width(kind, half_width);
    }
    Ok(framework)
}

/// What a framework departs from: the one it inherits from, in the release that its software names, else the plain sum.
fn base(inherits: Option<&str>, software: &[String], find: &dyn Fn(&str) -> Result<Framework>) -> Result<Framework> {
    let Some(name) = inherits else {
        return Ok(neutral());
    };
    let of_release = |base: Framework, software: &String| base.of_release(software);
    Ok(software.iter().fold(find(name)?, of_release))
}

/// Refuses a value outside the range of its constant.
fn check(place: &str, field: &str, figure: &Figure, constant: Constant) -> Result<()> {
    let most = constant.greatest();
    if (0.0..=most).contains(&figure.value) {
        return Ok(());
    }
    let allowed = format!("0 to {most}");
    Err(Error::field(place, field, figure.value, &allowed))
}

/// The plain sum, before a file names it.
fn neutral() -> Framework {
    Framework {
        name: String::new(),
        aliases: Vec::new(),
        title: String::new(),
        inherits: None,
        software: Vec::new(),
        modes: Vec::new(),
        generations: Vec::new(),
        zero_stages: vec![0, 1, 2, 3],
        zero_stages_beside: Vec::new(),
        ranks: Framework::RANKS.to_vec(),
        kernels: Kernels::default(),
        practice: Practice::default(),
        releases: Vec::new(),
        boards: BTreeMap::new(),
        figures: Constant::ALL.map(|constant| Figure {
            value: constant.neutral(),
            sd: 0.0,
            prior: None,
            source: "the plain sum".to_owned(),
        }),
        half_widths: BTreeMap::new(),
        fits: BTreeMap::new(),
    }
}

/// The file of a framework with all that departs from what it inherits.
pub(super) fn to_toml(framework: &Framework) -> String {
    let base = base(framework.inherits.as_deref(), &framework.software, &embedded);
    let base = base.expect("what is inherited was found when it was read");
    let departs = |constant: &Constant| framework.figure(*constant) != base.figure(*constant);
    let constants = Constant::ALL.into_iter().filter(departs);
    let (kernels, inherited) = (framework.kernels, base.kernels);
    let half_widths = framework.half_widths.iter();
    let file = File {
        name: framework.name.clone(),
        aliases: framework.aliases.clone(),
        title: framework.title.clone(),
        inherits: framework.inherits.clone(),
        software: framework.software.clone(),
        modes: framework.modes.clone(),
        generations: framework.generations.clone(),
        zero_stages: match framework.zero_stages == base.zero_stages {
            true => Vec::new(),
            false => framework.zero_stages.clone(),
        },
        zero_stages_beside: match framework.zero_stages_beside == base.zero_stages_beside {
            true => BTreeMap::new(),
            false => {
                let beside = framework.zero_stages_beside.iter();
                beside
                    .map(|(rank, stages)| (rank.name().to_owned(), stages.clone()))
                    .collect()
            }
        },
        ranks: (framework.ranks != base.ranks).then(|| {
            let ranks = framework.ranks.iter();
            ranks.map(|rank| rank.name().to_owned()).collect()
        }),
        memory_kernels: (kernels.memory != inherited.memory).then_some(kernels.memory),
        engine: kernels.engine.filter(|_| kernels.engine != inherited.engine),
        training_memory: (framework.practice != base.practice).then(|| framework.practice.clone()),
        half_widths: half_widths
            .filter(|(kind, width)| base.half_widths.get(kind) != Some(width))
            .map(|(&kind, &width)| (kind, width))
            .collect(),
        constants: constants
            .map(|constant| (constant.name().to_owned(), framework.figure(constant).clone()))
            .collect(),
        spreads: BTreeMap::new(),
        fits: match framework.fits == base.fits {
            true => BTreeMap::new(),
            false => framework.fits.clone(),
        },
        releases: framework.releases.clone(),
        boards: framework.boards.clone(),
    };
    toml::to_string(&file).expect("texts and finite numbers")
}
