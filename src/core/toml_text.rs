//! TOML documents: what people write, and the files of `data/` that are compiled in.

use crate::error::{Error, Result};
use serde::de::DeserializeOwned;

/// Reads a document; `place` names it in messages, which give the line.
pub fn parse<T: DeserializeOwned>(text: &str, place: &str) -> Result<T> {
    toml::from_str(text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start));
        let line = before.map_or(1, |before| before.matches('\n').count() + 1);
        let reason = error.message().trim().replace('\n', " ");
        Error::bad_input(format!("{place}: line {line}: {reason}"))
    })
}

/// Reads a file of `data/`.
///
/// # Panics
///
/// If it isn't a document of this type, which a test of every caller rules out.
pub fn built_in<T: DeserializeOwned>(file: &shapewise_data::File) -> T {
    parse(file.text, file.place).expect("a file that tests read")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_message_names_the_place_and_the_line() {
        let read = |text| parse::<BTreeMap<String, u64>>(text, "my.toml").map_err(|e| e.to_string());
        assert_eq!(read("a = 1\n").unwrap()["a"], 1);
        let wrong_type = read("a = 1\nb = \"two\"\n").unwrap_err();
        assert!(wrong_type.starts_with("my.toml: line 2: invalid type"), "{wrong_type}");
        let no_toml = read("a = 1\n\nb = \n").unwrap_err();
        assert!(no_toml.starts_with("my.toml: line 3: "), "{no_toml}");
        assert!(!no_toml.contains('\n'));
    }
}
