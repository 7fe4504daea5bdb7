//! The words of `docs/style.md`: retired ones occur in no identifier, vague ones in no comment, message or document.

use crate::files::{below, root};
use std::fs;
use std::path::PathBuf;

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

/// Words that hide who does what, and terms of our own in place of those of the field.
const VAGUE: &[&str] = &[
    "answers nothing",
    "as ever",
    "goes along",
    "hands on",
    "is none of",
    "layer of experts",
    "layers of experts",
    "mnat",
    "nobody",
    "none where",
    "nothing where",
    "speak for",
    "speaks for",
    "stand",
    "stands",
    "stood",
    "tell",
    "tells",
    "told",
    "whoever",
];

/// Every Rust file of the code, its tests, benches and examples.
fn sources() -> Vec<PathBuf> {
    below(&["src", "tests/main", "benches", "examples"], "rs")
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
    RETIRED.iter().map(|(known, _)| *known).filter(begins).collect()
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
    for line in ["fn recommend()", "// a sister", "// its voice", "let invoice = 1;"] {
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

/// The comments of Rust source, and its string literals.
fn prose(source: &str) -> [String; 2] {
    let (mut comments, mut strings) = (String::new(), String::new());
    let mut rest = source;
    while let Some(letter) = rest.chars().next() {
        let raw = ["r\"", "r#\"", "r##\""]
            .into_iter()
            .find(|start| rest.starts_with(start));
        if rest.starts_with("//") {
            let end = rest.find('\n').unwrap_or(rest.len());
            comments.push_str(&rest[..end]);
            comments.push('\n');
            rest = &rest[end..];
        } else if let Some(start) = raw {
            let inside = &rest[start.len()..];
            let end = format!("\"{}", "#".repeat(start.len() - 2));
            let (text, after) = inside.split_once(&end).unwrap_or((inside, ""));
            strings.push_str(text);
            strings.push('\n');
            rest = after;
        } else if letter == '"' {
            let mut is_escaped = false;
            let ends = |(_, letter): &(usize, char)| {
                let ends = *letter == '"' && !is_escaped;
                is_escaped = *letter == '\\' && !is_escaped;
                ends
            };
            let end = rest[1..].char_indices().find(ends).map_or(rest.len() - 1, |(at, _)| at);
            strings.push_str(&rest[1..=end]);
            strings.push('\n');
            rest = rest.get(end + 2..).unwrap_or_default();
        } else {
            // A quote as a letter is no string.
            let skipped = match rest.starts_with("'\"'") {
                true => 3,
                false => letter.len_utf8(),
            };
            rest = &rest[skipped..];
        }
    }
    [comments, strings]
}

/// How often a text has these words, whole and in any case.
fn occurrences(text: &str, words: &str) -> usize {
    let text = text.to_lowercase();
    let is_part = |letter: Option<char>| letter.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let whole = |(at, _): &(usize, &str)| {
        let (before, after) = (&text[..*at], &text[at + words.len()..]);
        !is_part(before.chars().next_back()) && !is_part(after.chars().next())
    };
    text.match_indices(words).filter(whole).count()
}

/// Every document that people read.
fn documents() -> Vec<PathBuf> {
    let entries = fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().path());
    let own = entries.filter(|path| path.extension().is_some_and(|ending| ending == "md"));
    own.chain(below(&["docs", "data", "models"], "md")).collect()
}

#[test]
fn no_vague_word_is_written() {
    let own = [root().join("docs/style.md"), root().join("tests/main/style.rs")];
    let mut found = Vec::new();
    for file in sources()
        .into_iter()
        .chain(documents())
        .filter(|file| !own.contains(file))
    {
        let text = fs::read_to_string(&file).unwrap();
        let place = file.strip_prefix(root()).unwrap();
        let prose = match place.extension().is_some_and(|ending| ending == "rs") {
            false => text,
            true if place.starts_with("src") => prose(&text).concat(),
            true => prose(&text)[0].clone(),
        };
        let vague = VAGUE.iter().filter(|words| occurrences(&prose, words) > 0);
        found.extend(vague.map(|words| format!("{}: \"{words}\"", place.display())));
    }
    assert!(found.is_empty(), "words that hide who does what:\n{}", found.join("\n"));
}

#[test]
fn prose_is_separated_from_code() {
    let source = "let nobody = \"a \\\" nobody\"; // nobody\nlet letter = '\"'; let raw = r#\"nobody \"#;";
    let [comments, strings] = prose(source);
    assert_eq!([comments, strings], ["// nobody\n", "a \\\" nobody\nnobody \n"]);
    assert_eq!(occurrences("Nobody, nobody_else; a busybody", "nobody"), 1);
}
