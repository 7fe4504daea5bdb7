//! Sizes as formulas of named sizes, such as `3*h/ranks`, and texts that name them in braces.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;

/// Sizes by name.
pub type Sizes = BTreeMap<String, u64>;

/// Factors and divisors, applied from left to right; every division is exact.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Written")]
pub struct Formula {
    text: String,
    steps: Vec<(Operation, Term)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Operation {
    Times,
    Over,
}

#[derive(Clone, Debug)]
enum Term {
    Number(u64),
    Name(String),
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a whole number or a formula such as \"3*h/ranks\"")]
enum Written {
    Number(u64),
    Text(String),
}

impl TryFrom<Written> for Formula {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        match written {
            Written::Number(number) => Self::parse(&number.to_string()),
            Written::Text(text) => Self::parse(&text),
        }
    }
}

impl Formula {
    /// Reads numbers and names between `*` and `/`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let is_name = |word: &str| {
            word.starts_with(|first: char| first.is_ascii_lowercase())
                && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        let mut steps = Vec::new();
        let mut operation = Operation::Times;
        for part in text.split_inclusive(['*', '/']) {
            let word = part.trim_end_matches(['*', '/']).trim();
            let term = match word.parse() {
                Ok(number) => Term::Number(number),
                Err(_) if is_name(word) => Term::Name(word.to_owned()),
                Err(_) => {
                    return Err(format!(
                        "formula `{text}` holds `{word}`; allowed: whole numbers and names of sizes between `*` and `/`"
                    ));
                }
            };
            steps.push((operation, term));
            operation = match part.ends_with('/') {
                true => Operation::Over,
                false => Operation::Times,
            };
        }
        match text.ends_with(['*', '/']) || steps.is_empty() {
            true => Err(format!("formula `{text}` ends early; allowed: `3*h/ranks`")),
            false => Ok(Self {
                text: text.to_owned(),
                steps,
            }),
        }
    }

    /// The size for these values of the names.
    pub fn value(&self, sizes: &Sizes) -> Result<u64, String> {
        let mut value: u64 = 1;
        for (operation, term) in &self.steps {
            let term = match term {
                Term::Number(number) => *number,
                Term::Name(name) => *sizes.get(name).ok_or_else(|| {
                    let known: Vec<_> = sizes.keys().map(String::as_str).collect();
                    format!("formula `{self}` names `{name}`; allowed: {}", known.join(", "))
                })?,
            };
            let next = match operation {
                Operation::Times => value.checked_mul(term),
                Operation::Over if value.checked_rem(term) == Some(0) => Some(value / term),
                Operation::Over => None,
            };
            value = next.ok_or_else(|| {
                format!("formula `{self}` is no whole number below 2^64 for {sizes:?}; allowed: exact divisions")
            })?;
        }
        Ok(value)
    }
}

impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The text with everything in braces replaced by its value.
pub fn fill(text: &str, value: impl Fn(&str) -> Result<String, String>) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after
            .split_once('}')
            .ok_or_else(|| format!("text `{text}` opens a brace that it does not close"))?;
        filled.push_str(before);
        filled.push_str(&value(name)?);
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes() -> Sizes {
        [("h", 2560), ("ranks", 4)]
            .map(|(name, size)| (name.to_owned(), size))
            .into()
    }

    #[test]
    fn formulas_are_read_from_left_to_right() {
        for (text, wanted) in [
            ("7", 7),
            ("h", 2560),
            ("3*h/ranks", 1920),
            ("512 / ranks", 128),
            ("h/ranks*2", 1280),
        ] {
            let formula = Formula::parse(text).unwrap();
            assert_eq!(formula.value(&sizes()), Ok(wanted), "{text}");
            assert_eq!(formula.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_size_is_refused_with_the_formula() {
        for text in ["", "h*", "/h", "h+1", "3h", "-1", "h**2", "1.5*h"] {
            let message = Formula::parse(text).unwrap_err();
            assert!(message.contains("allowed"), "{text}: {message}");
        }
        for (text, part) in [
            ("2*width", "allowed: h, ranks"),
            ("h/3", "exact divisions"),
            ("h/0", "exact divisions"),
            ("h*9000000000000000000", "below 2^64"),
        ] {
            let message = Formula::parse(text).unwrap().value(&sizes()).unwrap_err();
            assert!(message.contains(part), "{text}: {message}");
        }
    }

    #[test]
    fn texts_are_filled_with_values() {
        let value = |name: &str| Formula::parse(name)?.value(&sizes()).map(|v| v.to_string());
        assert_eq!(fill("{ranks} ranks of {h/ranks}", value).unwrap(), "4 ranks of 640");
        assert!(fill("{ranks", value).unwrap_err().contains("brace"));
        assert!(fill("{width}", value).unwrap_err().contains("allowed: h"));
    }
}
