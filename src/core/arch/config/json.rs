//! JSON as Python writes it, and the type of a file that is not JSON.

use crate::error::{Error, Result, read_bytes, read_start};
use serde_json::Value;
use std::path::Path;

/// The most bytes of a config.
const MOST: u64 = 16 << 20;

/// Bytes at the start of a file that identify its type.
const START: u64 = 256;

/// The text of a file that may hold JSON; of another the error says what it is.
pub(super) fn read(path: &Path) -> Result<String> {
    let place = path.display().to_string();
    if path.is_file()
        && let Some(kind) = kind(&read_start(path, START)?)
    {
        return Err(no_json(&place, kind));
    }
    let bytes = read_bytes(path, MOST)?;
    String::from_utf8(bytes).map_err(|_| no_json(&place, "text in another encoding than UTF-8"))
}

/// The value of a text; Python writes `Infinity` and `NaN`, which are read as words.
pub(super) fn parse(text: &str, place: &str) -> Result<Value> {
    // Editors of Windows put a byte order mark in front.
    let text = text.trim_start_matches('\u{feff}');
    if let Some(kind) = kind(text.as_bytes()) {
        return Err(no_json(place, kind));
    }
    serde_json::from_str(text)
        .or_else(|_| serde_json::from_str(&with_words(text)))
        .map_err(|error| Error::bad_input(format!("{place}: is not JSON: {error}")))
}

fn no_json(place: &str, kind: &str) -> Error {
    Error::bad_input(format!(
        "{place}: is {kind}, no JSON; a Hugging Face config.json is wanted"
    ))
}

/// What begins so and is no JSON.
fn kind(bytes: &[u8]) -> Option<&'static str> {
    let start = bytes.trim_ascii_start();
    // A length in 8 bytes, then a header.
    let has_header = bytes.get(4..8) == Some(&[0; 4]) && bytes.get(8) == Some(&b'{');
    let line = start.split(|byte| *byte == b'\n').next().unwrap_or_default();
    match start {
        [] => Some("empty"),
        _ if bytes.starts_with(b"GGUF") => Some("a GGUF file"),
        _ if has_header => Some("a safetensors file"),
        _ if bytes.starts_with(b"PK\x03\x04") => Some("an archive (zip, as PyTorch writes weights)"),
        _ if bytes.contains(&0) => Some("a binary file"),
        [b'{' | b'[' | b'"', ..] => None,
        [0xef, 0xbb, 0xbf, ..] => None,
        [b'<', ..] => Some("HTML or XML"),
        [b'/', b'/' | b'*', ..] => Some("JSON with comments"),
        _ if start.starts_with(b"version https://git-lfs") => Some("a pointer of Git LFS"),
        _ if line.starts_with(b"---") || line.starts_with(b"%YAML") => Some("YAML"),
        _ if line.contains(&b':') && !line.contains(&b'{') => Some("YAML"),
        _ if line.starts_with(b"#") || line.contains(&b'=') => Some("TOML or a script"),
        _ => None,
    }
}

/// Numbers that Python writes and JSON does not have.
const NUMBERS: [&str; 3] = ["-Infinity", "Infinity", "NaN"];

/// The text with such numbers in quotes, so that only a field that wants no number can take them.
fn with_words(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let number = NUMBERS.into_iter().find(|number| rest.starts_with(number));
        let length = match (first, number) {
            ('"', _) => string_length(rest),
            (_, Some(number)) => number.len(),
            _ => first.len_utf8(),
        };
        let quote = if number.is_some() { "\"" } else { "" };
        quoted.extend([quote, &rest[..length], quote]);
        rest = &rest[length..];
    }
    quoted
}

/// Bytes of the string that a text begins with, its quotes included.
fn string_length(text: &str) -> usize {
    let mut is_escaped = false;
    for (place, letter) in text.char_indices().skip(1) {
        match letter {
            '"' if !is_escaped => return place + 1,
            _ => is_escaped = letter == '\\' && !is_escaped,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_of_python_are_read_outside_strings_only() {
        let text = r#"{"a": [0.0, Infinity, -Infinity], "NaN \" NaN": NaN, "b\\": "Infinity"}"#;
        let read = parse(text, "config.json").unwrap();
        let wanted = json!({"a": [0.0, "Infinity", "-Infinity"], "NaN \" NaN": "NaN", "b\\": "Infinity"});
        assert_eq!(read, wanted);
        for broken in ["{\"a\": Infinit}", "{\"a", "[NaN", "{\"a\": \"\\"] {
            let error = parse(broken, "config.json").unwrap_err().to_string();
            assert!(error.starts_with("config.json: is not JSON"), "{error}");
        }
    }

    #[test]
    fn what_is_no_json_is_named() {
        let folder = tempfile::tempdir().unwrap();
        for (bytes, said) in [
            (&b""[..], "is empty"),
            (b" \n", "is empty"),
            (b"GGUF\x03\0\0\0", "a GGUF file"),
            (b"\x20\0\0\0\0\0\0\0{\"a\":{}}", "a safetensors file"),
            (b"PK\x03\x04\x14", "an archive"),
            (b"\x7fELF\0", "a binary file"),
            (b"{\"a\": \"\xff\"}", "another encoding than UTF-8"),
            (b"<!DOCTYPE html>", "HTML"),
            (b"model:\n  layers: 2\n", "YAML"),
            (b"version https://git-lfs.github.com/spec/v1", "Git LFS"),
            (b"layers = 2\n", "TOML"),
        ] {
            let path = folder.path().join("c.json");
            crate::error::write_atomically(&path, bytes).unwrap();
            let error = super::super::read_config(&path).unwrap_err();
            let sentence = error.to_string();
            assert!(error.is_bad_input() && sentence.contains(said), "{sentence}");
            assert!(
                sentence.contains("c.json: is ") && sentence.contains("no JSON"),
                "{sentence}"
            );
        }
    }
}
