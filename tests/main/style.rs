//! The words of `docs/style.md`: retired ones occur in no identifier.

use std::fs;
use std::path::{Path, PathBuf};

/// Beginnings of words that no identifier has, each with the term to use.
const RETIRED: [(&str, &str); 7] = [
    ("voice", "sub-model"),
    ("lesson", "table"),
    ("sister", "auxiliary table"),
    ("mend", "fix"),
    ("adopt", "register"),
    ("acquaint", "register"),
    ("rehears", "held-out fit"),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file of the code, its tests, benches and examples.
fn sources() -> Vec<PathBuf> {
    let mut files = Vec::new();
    let folders = ["src", "tests/main", "benches", "examples"];
    let mut folders = folders.map(|name| root().join(name)).to_vec();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// The words of an identifier: `OwnRows`, `own_rows`, `OWN_ROWS`.
fn words(identifier: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_lower = false;
    for letter in identifier.chars() {
        if letter == '_' || letter.is_uppercase() && after_lower {
            words.push(String::new());
        }
        if letter != '_' {
            words.last_mut().unwrap().extend(letter.to_lowercase());
        }
        after_lower = letter.is_lowercase();
    }
    words
}

/// The retired words in the identifiers of a line; strings and comments are another matter.
fn retired(line: &str) -> Vec<&'static str> {
    let code = line.split("//").next().unwrap_or_default();
    let outside: String = code.split('"').step_by(2).collect::<Vec<_>>().join(" ");
    let identifiers = outside.split(|c: char| !c.is_alphanumeric() && c != '_');
    let words: Vec<String> = identifiers.flat_map(words).collect();
    let begins = |known: &&str| words.iter().any(|word| word.starts_with(known));
    RETIRED
        .iter()
        .map(|(known, _)| *known)
        .filter(begins)
        .collect()
}

#[test]
fn no_identifier_has_a_retired_word() {
    let mut found = Vec::new();
    for file in sources() {
        let text = fs::read_to_string(&file).unwrap();
        let place = file.strip_prefix(root()).unwrap().display();
        for (number, line) in text.lines().enumerate() {
            for word in retired(line) {
                let term = RETIRED.iter().find(|(known, _)| *known == word).unwrap().1;
                found.push(format!("{place}:{}: `{word}`; write: {term}", number + 1));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn retired_words_are_found_and_others_not() {
    for line in [
        "struct Lesson;",
        "let sisters = 1;",
        "HeadRehearsed { .. }",
        "fn mend_it()",
    ] {
        assert_eq!(retired(line).len(), 1, "{line}");
    }
    for line in [
        "fn recommend()",
        "// a sister",
        "// its voice",
        "let invoice = 1;",
    ] {
        assert!(retired(line).is_empty(), "{line}");
    }
}

#[test]
fn the_glossary_names_every_retired_word() {
    let style = fs::read_to_string(root().join("docs/style.md")).unwrap();
    for (word, term) in RETIRED {
        let row = |line: &str| line.starts_with('|') && line.contains(word);
        assert!(style.lines().any(row), "docs/style.md: {word} ({term})");
    }
}

#[test]
fn files_that_contributors_are_sent_to_exist() {
    let text = fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let quoted = text.split('`').skip(1).step_by(2);
    let named = quoted.filter(|name| name.contains('/') && !name.contains(char::is_whitespace));
    let paths: Vec<&str> = named.filter(|name| !name.contains("NAME")).collect();
    assert!(paths.len() > 20, "{paths:?}");
    for path in paths {
        assert!(root().join(path).exists(), "CONTRIBUTING.md names {path}");
    }
}
