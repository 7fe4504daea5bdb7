//! The import table of ARCHITECTURE.md, and the other rules of the source that can be read off its text.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A source file of one module of the crate.
struct Source {
    /// The module of the crate that it belongs to: `dataset` for `src/dataset/import/mod.rs`.
    module: String,
    /// How many modules lie between it and the crate's root, itself included.
    depth: usize,
    place: String,
    /// Its lines without comments.
    lines: Vec<String>,
}

/// What one row of the table allows.
struct Allowed {
    modules: BTreeSet<String>,
    crates: BTreeSet<String>,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

fn rust_files(folder: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// Every file below `src` but the crate's two roots.
fn sources() -> Vec<Source> {
    let folder = root().join("src");
    rust_files("src")
        .into_iter()
        .filter_map(|path| {
            let inside = path.strip_prefix(&folder).unwrap().with_extension("");
            let mut parts: Vec<_> = inside
                .iter()
                .map(|part| part.to_string_lossy().into_owned())
                .collect();
            parts.pop_if(|last| last == "mod");
            let module = parts.first()?.clone();
            let text = fs::read_to_string(&path).unwrap();
            let code = |line: &str| line.split("//").next().unwrap_or_default().to_owned();
            (module != "lib" && module != "main").then(|| Source {
                module,
                depth: parts.len(),
                place: path.strip_prefix(root()).unwrap().display().to_string(),
                lines: text.lines().map(code).collect(),
            })
        })
        .collect()
}

/// The rows of the import table, in their order.
fn table() -> Vec<(String, Allowed)> {
    let document = read("ARCHITECTURE.md");
    let start = document.find("<!-- imports: begin -->").expect("a table");
    let end = document.find("<!-- imports: end -->").expect("its end");
    let words = |cell: &str| cell.split_whitespace().map(str::to_owned).collect();
    document[start..end]
        .lines()
        .filter(|line| line.starts_with('|'))
        .skip(2) // headings and rule
        .map(|line| {
            let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [module, modules, crates] = cells[..] else {
                panic!("a row of three cells, not {line}");
            };
            let allowed = Allowed {
                modules: words(modules),
                crates: words(crates),
            };
            (module.to_owned(), allowed)
        })
        .collect()
}

/// The crates that the program may use, as code spells them.
fn dependencies() -> Vec<String> {
    let manifest = read("Cargo.toml");
    let section = manifest.split("\n[dependencies]\n").nth(1).unwrap();
    section
        .lines()
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split_once(" = "))
        .filter(|(name, _)| !name.starts_with('#'))
        .map(|(name, _)| name.trim().replace('-', "_"))
        .collect()
}

/// The identifiers that follow `prefix` where a path begins with it.
fn after<'a>(line: &'a str, prefix: &'a str) -> impl Iterator<Item = &'a str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(prefix).filter_map(move |(at, _)| {
        let begins = !line[..at].ends_with(|c: char| is_word(c) || c == ':');
        let rest = &line[at + prefix.len()..];
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        begins.then_some(&rest[..end])
    })
}

/// Fails with all violations at once.
fn none(violations: Vec<String>) {
    assert!(violations.is_empty(), "\n{}\n", violations.join("\n"));
}

/// Every line of every source that `check` objects to.
fn violations(check: impl Fn(&Source, usize, &str) -> Option<String>) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources() {
        for (index, line) in source.lines.iter().enumerate() {
            if let Some(objection) = check(&source, index, line) {
                found.push(format!("{}:{}: {objection}", source.place, index + 1));
            }
        }
    }
    found
}

#[test]
fn the_table_lists_the_modules_of_the_crate_in_their_order() {
    let listed: Vec<_> = table().into_iter().map(|(module, _)| module).collect();
    let declared: Vec<_> = read("src/lib.rs")
        .lines()
        .filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'))
        .map(str::to_owned)
        .collect();
    assert_eq!(listed, declared);
}

#[test]
fn modules_import_only_what_the_table_allows() {
    let table: BTreeMap<_, _> = table().into_iter().collect();
    none(violations(|source, _, line| {
        let allowed = &table[&source.module].modules;
        let named = after(line, "crate::").find(|name| {
            *name != source.module && table.contains_key(*name) && !allowed.contains(*name)
        })?;
        Some(format!("`{}` may not import `{named}`", source.module))
    }));
}

#[test]
fn foreign_crates_stay_behind_the_modules_that_the_table_names() {
    let table: BTreeMap<_, _> = table().into_iter().collect();
    let crates = dependencies();
    assert!(crates.iter().any(|name| name == "clap"), "{crates:?}");
    none(violations(|source, _, line| {
        let allowed = &table[&source.module].crates;
        let named = crates.iter().find(|name| {
            !allowed.contains(*name) && after(line, &format!("{name}::")).next().is_some()
        })?;
        Some(format!("`{}` may not use `{named}`", source.module))
    }));
}

#[test]
fn the_table_names_no_crate_that_is_none() {
    let crates = dependencies();
    let unknown = table().into_iter().flat_map(|(module, allowed)| {
        let unknown = allowed.crates.into_iter();
        unknown
            .filter(|name| !crates.contains(name))
            .map(move |name| format!("{module}: {name}"))
    });
    none(unknown.collect());
}

#[test]
fn imports_name_one_module_each_and_super_stays_inside() {
    none(violations(|source, index, line| {
        if line.contains("use crate::{") {
            return Some("one module of the crate per `use`".to_owned());
        }
        let climbed = line.matches("super::").count();
        // Inside `mod tests { … }` there is one module more to climb out of.
        let inline = |line: &String| line.starts_with("mod ") && line.ends_with('{');
        (climbed > 0
            && climbed >= source.depth + usize::from(source.lines[..index].iter().any(inline)))
        .then(|| "`super` leaves the module; write `crate::…`".to_owned())
    }));
}

#[test]
fn only_the_command_line_prints_and_exits() {
    const WORDS: [&str; 8] = [
        "println!",
        "print!",
        "eprintln!",
        "eprint!",
        "dbg!",
        "stdout()",
        "stderr()",
        "process::exit",
    ];
    none(violations(|source, _, line| {
        let is_test = source.place.contains("/tests");
        let word = WORDS.iter().find(|word| line.contains(**word))?;
        (source.module != "cli" && !is_test).then(|| format!("`{word}` outside of `cli`"))
    }));
}

#[test]
fn prediction_knows_no_files() {
    const MODULES: [&str; 4] = ["features", "predict", "evaluate", "report"];
    none(violations(|source, _, line| {
        let knows = ["std::fs", "fs::read", "File::", "std::net", "read_text"]
            .into_iter()
            .find(|word| line.contains(word))?;
        let reads = MODULES.contains(&source.module.as_str());
        reads.then(|| format!("`{knows}` in `{}`", source.module))
    }));
}

#[test]
fn every_file_says_what_it_is_for() {
    let mute = ["src", "tests", "benches"]
        .into_iter()
        .flat_map(rust_files)
        .filter(|path| !fs::read_to_string(path).unwrap().starts_with("//! "))
        .map(|path| path.display().to_string());
    none(mute.collect());
}

#[test]
fn main_only_starts_the_program() {
    let main = read("src/main.rs");
    assert!(main.lines().count() <= 40);
    assert!(main.contains("shapewise::cli::run"));
    let named: Vec<_> = after(&main, "shapewise::").collect();
    assert!(named.iter().all(|module| *module == "cli"), "{named:?}");
}

#[test]
fn the_map_names_files_that_exist() {
    let document = read("ARCHITECTURE.md");
    let paths = document
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|code| code.contains('/') && !code.contains(' '))
        .filter(|code| !root().join(code).exists())
        .map(str::to_owned);
    none(paths.collect());
}

#[test]
fn the_checks_see_what_they_look_for() {
    let names: Vec<_> = after("use crate::op::Op; x(crate::gpu::Gpu)", "crate::").collect();
    assert_eq!(names, ["op", "gpu"]);
    assert_eq!(
        after("use my_clap::Arg; super::clap::Arg", "clap::").count(),
        0
    );
    assert_eq!(after("use clap::Arg;", "clap::").count(), 1);
    assert!(
        sources()
            .iter()
            .any(|source| source.module == "arch" && source.depth == 3)
    );
}
