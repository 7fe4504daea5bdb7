//! Who may know whom: the tables of `tests/boundaries.toml`, kept true.

use crate::files::{below, root, text_of};
use std::collections::BTreeMap;
use std::fs;

/// What each name is allowed.
type Table = BTreeMap<String, Vec<String>>;

/// The tables of `tests/boundaries.toml`.
fn tables() -> BTreeMap<String, Table> {
    toml::from_str(include_str!("../boundaries.toml")).unwrap()
}

/// The packages with modules: the folder of `lib.rs` and the table of their imports.
const PACKAGES: [(&str, &str); 2] = [("src/core", "core"), ("src", "imports")];

/// What the modules of each package may import from it; what comes from other packages is in its manifest.
fn imports() -> [(&'static str, Table); 2] {
    PACKAGES.map(|(folder, name)| (folder, tables().remove(name).unwrap()))
}

fn crates() -> Table {
    tables().remove("crates").unwrap()
}

/// Every Rust file below `folder`, as its path from the root and its text, in a stable order.
fn sources(folder: &str) -> Vec<(String, String)> {
    let files = below(&[folder], "rs").into_iter().map(|path| {
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        (name, fs::read_to_string(&path).unwrap())
    });
    files.collect()
}

/// The top-level module that a file below `src` belongs to; `None` for `lib.rs`, which only lists them, and for
/// `maintain`, a package with a manifest of its own.
fn module(file: &str) -> Option<&str> {
    let inside = file.strip_prefix("src/core/").or_else(|| file.strip_prefix("src/"))?;
    let name = inside.split('/').next()?.trim_end_matches(".rs");
    (!["lib", "maintain"].contains(&name)).then_some(name)
}

/// The lines of a source that are not comments, without the comments at their ends.
fn code(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().map(|line| {
        let comment = line.find("//").filter(|at| !line[..*at].ends_with(':'));
        comment.map_or(line, |at| &line[..at])
    });
    lines.filter(|line| !line.trim().is_empty())
}

/// The code that ships: a file up to its tests, nothing of a file of tests.
fn shipped<'a>(file: &str, text: &'a str) -> &'a str {
    if file.contains("/tests/") || file.ends_with("/tests.rs") {
        return "";
    }
    let tests = text.find("#[cfg(test)]\nmod tests {");
    tests.map_or(text, |at| &text[..at])
}

/// The identifier that a text starts with.
fn identifier(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
    end.map_or(text, |end| &text[..end])
}

/// What follows each occurrence of `word` as a whole identifier.
fn after<'a>(line: &'a str, word: &'a str) -> impl Iterator<Item = &'a str> {
    line.match_indices(word).filter_map(move |(at, _)| {
        let before = line[..at].chars().next_back();
        let part = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
        (!part).then(|| &line[at + word.len()..])
    })
}

/// Every import that the table forbids, as `file: what is wrong`.
fn forbidden_imports(file: &str, text: &str, imports: &[(&str, Table)]) -> Vec<String> {
    let Some(module) = module(file) else {
        return Vec::new();
    };
    let (_, table) = imports.iter().find(|(folder, _)| file.starts_with(folder)).unwrap();
    let Some(allowed) = table.get(module) else {
        return vec![format!("{file}: `{module}` has no row in the import table")];
    };
    let mut found = Vec::new();
    for line in code(text) {
        // `super::` from a file directly below `src` reaches other modules like `crate::` does.
        let paths = ["crate::", "shapewise::", "super::"];
        for rest in paths.iter().flat_map(|path| after(line, path)) {
            if rest.starts_with('{') && !line.contains("super::{") {
                found.push(format!("{file}: `{}` names no single module", line.trim()));
            }
            let other = identifier(rest);
            let known = table.contains_key(other) && other != module;
            if known && !allowed.iter().any(|name| name == other) {
                found.push(format!("{file}: `{module}` may not import `{other}`"));
            }
        }
    }
    found
}

/// Every use of a foreign crate outside the modules that may know it.
fn strayed_crates(file: &str, text: &str, table: &Table) -> Vec<String> {
    let Some(module) = module(file) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (foreign, homes) in table {
        let path = format!("{foreign}::");
        let used = code(text).any(|line| after(line, &path).next().is_some());
        if used && !homes.iter().any(|home| home == module) {
            found.push(format!("{file}: `{module}` may not know `{foreign}`"));
        }
    }
    found
}

/// Every word in shipped code that only these modules may say.
fn reserved_words(file: &str, text: &str) -> Vec<String> {
    const TALK: &[&str] = &["cli", "main"];
    const FILES: &[&str] = &["error", "dataset", "measure", "regressor", "train", "cli"];
    const RESERVED: &[(&str, &[&str])] = &[
        ("println!", TALK),
        ("print!", TALK),
        ("eprintln!", TALK),
        ("eprint!", TALK),
        ("dbg!", &[]),
        ("todo!", &[]),
        ("stdout()", TALK),
        ("stderr()", TALK),
        // A second Ctrl-C.
        ("process::exit", &["cli"]),
        ("process::Command", &[]),
        ("process::ExitCode", TALK),
        // Libraries of CUDA are looked for where the environment says.
        ("env::", &["cli", "main", "measure"]),
        ("fs::", FILES),
        ("File::", FILES),
        // Paths of models that edges hand on.
        ("Artifact::open", &["answer"]),
        ("SystemTime", &[]),
        ("Instant::", &["serve", "measure"]),
        ("unsafe", &["measure", "regressor"]),
    ];
    let Some(module) = module(file) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (word, homes) in RESERVED {
        let mut lines = code(shipped(file, text));
        let said = lines.any(|line| after(line, word).any(|rest| !rest.starts_with("_code")));
        if said && !homes.contains(&module) {
            found.push(format!("{file}: `{module}` may not say `{word}`"));
        }
    }
    found
}

/// Every lint that is silenced without need: documentation of plain fields may be left out, the rest needs a reason.
fn silenced_lints(file: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines() {
        let attribute = line.trim();
        let silences = ["#[allow(", "#![allow(", "#[expect(", "#![expect("];
        let silenced = silences.iter().find_map(|at| attribute.strip_prefix(at));
        let plain = |lints: &str| lints.starts_with("missing_docs)");
        let explained = |lints: &str| lints.contains(")] //") || lints.contains("reason = ");
        if silenced.is_some_and(|lints| !plain(lints) && !explained(lints)) {
            found.push(format!("{file}: {attribute} gives no reason"));
        }
    }
    found
}

/// Applies a check to every file below `src` and fails with everything it found.
fn hold(check: impl Fn(&str, &str) -> Vec<String>) {
    let files = sources("src");
    let found: Vec<_> = files.iter().flat_map(|(file, text)| check(file, text)).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn modules_import_only_what_the_table_allows() {
    let imports = imports();
    hold(|file, text| forbidden_imports(file, text, &imports));
}

/// The module that a line of a `lib.rs` declares.
fn declared(line: &str) -> Option<&str> {
    let line = line.strip_prefix("pub ").unwrap_or(line);
    line.strip_prefix("mod ")?.strip_suffix(';')
}

#[test]
fn the_tables_have_a_row_for_every_module_and_no_other() {
    for (folder, table) in imports() {
        let lib = text_of(&format!("{folder}/lib.rs"));
        let mut modules: Vec<_> = code(&lib).filter_map(declared).collect();
        if folder == "src" {
            modules.push("main");
        }
        modules.sort_unstable();
        let rows: Vec<_> = table.keys().map(String::as_str).collect();
        assert_eq!(
            rows, modules,
            "rows of tests/boundaries.toml against modules of {folder}/lib.rs"
        );
        for (module, allowed) in &table {
            for name in allowed {
                assert!(
                    table.contains_key(name) && name != "main",
                    "the row of `{module}` allows `{name}`, which is no module"
                );
            }
        }
    }
}

#[test]
fn nothing_imports_what_stands_below_it() {
    for (folder, table) in imports() {
        let lib = text_of(&format!("{folder}/lib.rs"));
        let order: Vec<_> = code(&lib).filter_map(declared).collect();
        let place = |name: &str| order.iter().position(|module| *module == name);
        for (module, allowed) in table {
            for name in allowed.iter().filter(|_| module != "main") {
                assert!(
                    place(name) < place(&module),
                    "{folder}/lib.rs lists `{name}` below `{module}`, which imports it"
                );
            }
        }
    }
}

#[test]
fn foreign_crates_stay_behind_their_modules() {
    let table = crates();
    let manifests = [text_of("Cargo.toml"), text_of("src/core/Cargo.toml")];
    let manifest = manifests.concat().replace('-', "_");
    for name in table.keys() {
        let line = format!("{name} = ");
        let known = manifest.lines().any(|entry| entry.starts_with(&line));
        assert!(known, "`{name}` of tests/boundaries.toml is no dependency");
    }
    hold(|file, text| strayed_crates(file, text, &table));
}

#[test]
fn only_the_edge_talks_and_only_the_pipeline_touches_files() {
    hold(reserved_words);
}

#[test]
fn every_file_says_what_it_is_for() {
    for folder in ["src", "tests", "benches"] {
        for (file, text) in sources(folder) {
            assert!(text.starts_with("//! "), "{file}: no `//!` on top");
        }
    }
}

#[test]
fn no_lint_is_silenced_without_a_reason() {
    for folder in ["src", "tests", "benches"] {
        for (file, text) in sources(folder) {
            let found = silenced_lints(&file, &text);
            assert!(found.is_empty(), "{}", found.join("\n"));
        }
    }
}

#[test]
fn the_code_map_names_every_module() {
    let document = text_of("ARCHITECTURE.md");
    for (package, table) in imports() {
        for name in table.keys().filter(|name| *name != "main") {
            let folder = root().join(package).join(name).is_dir();
            let place = format!("`{package}/{name}{}`", if folder { "/" } else { ".rs" });
            assert!(
                document.contains(&format!("| {place} |")),
                "the code map has no line for {place}"
            );
        }
    }
}

#[test]
fn documents_name_the_schema_numbers_of_the_code() {
    use shapewise::{regressor::artifact, report};
    let models = text_of("models/README.md");
    let card = format!("| `schema` | {}; another number does not load |", artifact::SCHEMA);
    assert!(models.contains(&card), "models/README.md lacks: {card}");
    let document = format!("`\"schema\": {}`", report::SCHEMA);
    let map = text_of("ARCHITECTURE.md");
    assert!(map.contains(&document), "ARCHITECTURE.md lacks: {document}");

    let layout = text_of("src/dataset/schema.rs");
    let number = layout
        .lines()
        .find_map(|line| line.strip_prefix("pub const SCHEMA: u64 = ")?.strip_suffix(';'))
        .expect("src/dataset/schema.rs has its schema number");
    let data = text_of("data/README.md");
    let tables = format!("`shapewise.schema` is {number}");
    assert!(data.contains(&tables), "data/README.md lacks: {tables}");
}

/// A check that cannot fail is worth nothing.
#[test]
fn the_checks_find_what_they_look_for() {
    let (imports, crates) = (imports(), crates());
    for (file, source) in [
        ("src/core/predict/fake.rs", "use crate::sweep::Range;"),
        ("src/core/predict/fake.rs", "use crate::{check, units};"),
        ("src/search/fake.rs", "fn f() { crate::dataset::read(path) }"),
        ("src/report/fake.rs", "pub use super::cli::run;"),
    ] {
        let found = forbidden_imports(file, source, &imports);
        assert_eq!(found.len(), 1, "{source}: {found:?}");
        assert!(found[0].starts_with(&format!("{file}: ")), "{found:?}");
    }
    let found = forbidden_imports("src/newcomer.rs", "", &imports);
    assert!(found[0].contains("no row"), "{found:?}");
    for source in [
        "use crate::units::Seconds;",
        "// crate::train is not for us",
        "use super::step::{a, b};",
    ] {
        let found = forbidden_imports("src/core/predict/fake.rs", source, &imports);
        assert!(found.is_empty(), "{source}: {found:?}");
    }
    assert_eq!(
        strayed_crates("src/op.rs", "use burn::tensor::Tensor;", &crates),
        ["src/op.rs: `op` may not know `burn`"]
    );
    assert!(strayed_crates("src/train/fit.rs", "use burn::tensor::Tensor;", &crates).is_empty());
    for source in [
        "println!(\"x\");",
        "std::fs::read(path)?;",
        "Artifact::open(path)?;",
        "std::process::exit(1);",
    ] {
        let found = reserved_words("src/predict/mod.rs", source);
        assert_eq!(found.len(), 1, "{source}: {found:?}");
    }
    let test = "#[cfg(test)]\nmod tests {\n    println!(\"x\");\n}";
    assert!(reserved_words("src/predict/mod.rs", test).is_empty());
    assert_eq!(silenced_lints("a.rs", "#[allow(dead_code)]").len(), 1);
    assert!(silenced_lints("a.rs", "#[allow(unsafe_code)] // why").is_empty());
}
