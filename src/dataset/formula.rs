//! Formulas, conditions and texts over the columns of a row, as the maps of `data/imports` and `data/runs` have them.
//!
//! | what | forms |
//! | --- | --- |
//! | formula | a number, a column, `a + b`, `a - b`, `a * b`, `a / b`, `a // b` (rounded down), `a ^ b`, `if(condition, a, b)` |
//! | condition | a column of flags, `a < b`, `a > b`, `a = b`, `column is null`, `column = 'text' \| 'start*'`, `not`, `and`, `or` |
//! | text | between other text `{column}`, `{lower column}`, `{column without text}`, `{column spaced sign}` (a space for each), `{column part 1|}` (after the first of such signs) |
//!
//! A column with other signs than letters, digits, `_` and `.` in its name is between backquotes. A null or negative number
//! is 0, which no size may be; a null text is empty. Texts are compared without regard to case, `*` is any text.

use crate::dataset::column::{Cell, Kind};
use crate::toml_text;
use serde::de::DeserializeOwned;
use shapewise_data::Dir;
use std::collections::BTreeMap;

/// What a column holds in a row, by its place in [`Columns`].
pub(super) type Cells<'r, 'a> = &'r (dyn Fn(usize) -> Option<Cell<'a>> + 'r);

/// What follows from the cells of a row.
pub(super) type Of<T> = Box<dyn Fn(Cells<'_, '_>) -> T + Send + Sync>;

/// The columns that formulas read, each with the type that it is read as.
#[derive(Default)]
pub(super) struct Columns(pub Vec<(&'static str, Kind)>);

/// The maps of a folder of `data`, by name. Panics if one cannot be read, which a test of every map rules out.
pub(super) fn maps<Raw: DeserializeOwned + 'static, Map>(
    folder: &'static Dir<'static>,
    of: impl Fn(&'static str, &'static Raw) -> Map,
) -> BTreeMap<&'static str, Map> {
    let maps = folder.files().map(|file| {
        let name = file.path().file_stem().and_then(|stem| stem.to_str());
        let name = name.expect("a name in UTF-8");
        let text = file.contents_utf8().expect("a text");
        let raw = toml_text::parse(text, &file.path().display().to_string());
        let raw: &'static Raw = Box::leak(Box::new(raw.expect("a file that tests read")));
        (name, of(name, raw))
    });
    maps.collect()
}

impl Columns {
    /// The place of a column, which is added unless it is known.
    pub fn place(&mut self, name: &'static str, kind: Kind) -> usize {
        let known = self.0.iter().position(|known| *known == (name, kind));
        known.unwrap_or_else(|| {
            self.0.push((name, kind));
            self.0.len() - 1
        })
    }

    /// A formula. Panics if it isn't one, which a test of every map rules out.
    pub fn number(&mut self, text: &'static str) -> Of<f64> {
        self.parse(text, |parser| parser.sum())
    }

    /// A condition. Panics if it isn't one.
    pub fn condition(&mut self, text: &'static str) -> Of<bool> {
        self.parse(text, |parser| parser.condition())
    }

    /// A condition; always true if absent.
    pub fn when(&mut self, text: Option<&'static str>) -> Of<bool> {
        text.map_or_else(|| Box::new(|_: Cells<'_, '_>| true) as _, |text| self.condition(text))
    }

    /// The first of these patterns that the text of a column matches, with its value; `None` if none does.
    pub fn one_of<T: Clone + Send + Sync + 'static>(
        &mut self,
        column: &'static str,
        values: impl Iterator<Item = (&'static str, T)>,
    ) -> Of<Option<T>> {
        let place = self.place(column, Kind::Text);
        let values: Vec<_> = values.collect();
        Box::new(move |cells| {
            let own = text(cells, place).as_bytes();
            let known = values.iter().find(|(pattern, _)| matches(pattern.as_bytes(), own));
            known.map(|(_, value)| value.clone())
        })
    }

    fn parse<T>(&mut self, text: &'static str, read: fn(&mut Parser<'_>) -> Option<T>) -> T {
        let mut parser = Parser {
            rest: text,
            columns: self,
        };
        let found = read(&mut parser).filter(|_| parser.rest.trim().is_empty());
        found.unwrap_or_else(|| panic!("`{text}` is neither a formula nor a condition"))
    }

    /// A text with columns in it.
    pub fn text(&mut self, template: &'static str) -> Of<String> {
        let pieces = template.split('{').map(|piece| match piece.split_once('}') {
            None => (None, piece),
            Some((hole, literal)) => {
                let mut words = [(" without ", ""), (" spaced ", " "), (" part ", "")].into_iter();
                let change = words.find_map(|(word, to)| Some((hole.split_once(word)?, word, to)));
                let ((hole, from), word, to) = change.unwrap_or(((hole, ""), "", ""));
                let part = (word == " part ").then(|| from.split_at(1));
                let part = part.and_then(|(number, sign)| Some((number.parse::<usize>().ok()?, sign)));
                let lower = hole.strip_prefix("lower ");
                let place = self.place(lower.unwrap_or(hole), Kind::Text);
                (Some((place, lower.is_some(), part, from, to)), literal)
            }
        });
        let pieces: Vec<_> = pieces.collect();
        Box::new(move |cells| {
            let mut whole = String::new();
            for (hole, literal) in &pieces {
                if let Some((place, lower, part, from, to)) = hole {
                    let content = cells(*place).map_or_else(String::new, |cell| cell.to_string());
                    let content = match part {
                        Some((number, sign)) => content.split(sign).nth(*number).unwrap_or_default().to_owned(),
                        None => content.replace(from, to),
                    };
                    whole += &if *lower { content.to_ascii_lowercase() } else { content };
                }
                whole += literal;
            }
            whole
        })
    }
}

/// A text cell; empty where it is null.
fn text<'a>(cells: Cells<'_, 'a>, place: usize) -> &'a str {
    cells(place).and_then(Cell::text).unwrap_or_default()
}

/// Whether a pattern with `*` for any text is this text.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut own) = (0, 0);
    // What follows the last `*`, and the end of what it covers.
    let mut star = None;
    loop {
        match (pattern.get(at), text.get(own), star) {
            (Some(b'*'), ..) => {
                at += 1;
                star = Some((at, own));
            }
            (Some(wanted), Some(found), _) if wanted.eq_ignore_ascii_case(found) => {
                at += 1;
                own += 1;
            }
            (left, None, _) => return left.is_none(),
            (_, Some(_), None) => return false,
            (_, Some(_), Some((after, covered))) => {
                (at, own) = (after, covered + 1);
                star = Some((at, own));
            }
        }
    }
}

/// An operation of two numbers or of two conditions.
type Apply<T> = fn(T, T) -> T;

/// What is left of a text, and the columns read so far.
struct Parser<'a> {
    rest: &'static str,
    columns: &'a mut Columns,
}

impl Parser<'_> {
    /// Passes over this, if the text goes on with it.
    fn take(&mut self, sign: &str) -> bool {
        let after = self.rest.trim_start().strip_prefix(sign);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    /// Parts with operators between, applied from left to right.
    fn chain<T: 'static>(
        &mut self,
        operators: &[(&str, Apply<T>)],
        part: fn(&mut Self) -> Option<Of<T>>,
    ) -> Option<Of<T>> {
        let mut left = part(self)?;
        while let Some((_, apply)) = operators.iter().find(|(sign, _)| self.take(sign)) {
            let (apply, right) = (*apply, part(self)?);
            left = Box::new(move |cells| apply(left(cells), right(cells)));
        }
        Some(left)
    }

    fn condition(&mut self) -> Option<Of<bool>> {
        self.chain::<bool>(&[("or ", |a, b| a || b)], |all| {
            all.chain::<bool>(&[("and ", |a, b| a && b)], Self::test)
        })
    }

    fn test(&mut self) -> Option<Of<bool>> {
        if self.take("not ") {
            let test = self.test()?;
            return Some(Box::new(move |cells| !test(cells)));
        }
        if self.take("(") {
            let inside = self.condition()?;
            return self.take(")").then_some(inside);
        }
        let start = self.rest;
        let name = self.column()?;
        if self.take("is null") {
            let place = self.columns.place(name, Kind::Real);
            return Some(Box::new(move |cells| cells(place).is_none()));
        }
        if self.take("= '") {
            let place = self.columns.place(name, Kind::Text);
            let mut patterns = Vec::new();
            while patterns.is_empty() || self.take("| '") {
                let (pattern, after) = self.rest.split_once('\'')?;
                patterns.push(pattern.as_bytes());
                self.rest = after;
            }
            return Some(Box::new(move |cells| {
                let text = text(cells, place).as_bytes();
                patterns.iter().any(|pattern| matches(pattern, text))
            }));
        }
        if !self
            .rest
            .trim_start()
            .starts_with(['+', '-', '*', '/', '^', '<', '>', '=', '('])
        {
            let place = self.columns.place(name, Kind::Flag);
            return Some(Box::new(move |cells| cells(place).and_then(Cell::flag) == Some(true)));
        }
        self.rest = start;
        let left = self.sum()?;
        let compare: fn(&f64, &f64) -> bool = match () {
            () if self.take("<") => f64::lt,
            () if self.take(">") => f64::gt,
            () if self.take("=") => f64::eq,
            () => return None,
        };
        let right = self.sum()?;
        Some(Box::new(move |cells| compare(&left(cells), &right(cells))))
    }

    fn sum(&mut self) -> Option<Of<f64>> {
        self.chain::<f64>(&[("+", |a, b| a + b), ("-", |a, b| a - b)], Self::product)
    }

    fn product(&mut self) -> Option<Of<f64>> {
        let operators: [(&str, Apply<f64>); 3] =
            [("*", |a, b| a * b), ("//", |a, b| (a / b).floor()), ("/", |a, b| a / b)];
        self.chain(&operators, |power| power.chain(&[("^", f64::powf)], Self::atom))
    }

    fn atom(&mut self) -> Option<Of<f64>> {
        if self.take("(") {
            let inside = self.sum()?;
            return self.take(")").then_some(inside);
        }
        if self.take("if(") {
            let condition = self.condition()?;
            let then = self.take(",").then(|| self.sum())??;
            let other = self.take(",").then(|| self.sum())??;
            let chosen: Of<f64> = Box::new(move |cells| if condition(cells) { then(cells) } else { other(cells) });
            return self.take(")").then_some(chosen);
        }
        let word = self.column()?;
        if word.starts_with(|sign: char| sign.is_ascii_digit()) {
            let number: f64 = word.parse().ok()?;
            return Some(Box::new(move |_| number));
        }
        let place = self.columns.place(word, Kind::Real);
        Some(Box::new(move |cells| {
            let number = cells(place).and_then(Cell::real);
            number.map_or(0.0, |number| number.max(0.0))
        }))
    }

    /// The name of a column, or a number.
    fn column(&mut self) -> Option<&'static str> {
        if self.take("`") {
            let (name, after) = self.rest.split_once('`')?;
            self.rest = after;
            return Some(name);
        }
        let text = self.rest.trim_start();
        let ends = |sign: char| !sign.is_ascii_alphanumeric() && sign != '_' && sign != '.';
        let (word, after) = text.split_at(text.find(ends).unwrap_or(text.len()));
        self.rest = after;
        (!word.is_empty()).then_some(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cells of columns that are named by what they hold.
    fn row(columns: &Columns) -> Vec<Option<Cell<'static>>> {
        let cell = |(name, kind): &(&'static str, Kind)| match kind {
            Kind::Flag => Some(Cell::Flag(*name == "yes")),
            Kind::Text => Some(Cell::Text(name)).filter(|_| *name != "null"),
            _ => Some(Cell::Real(if *name == "minus" { -1.0 } else { 7.0 })).filter(|_| *name != "null"),
        };
        columns.0.iter().map(cell).collect()
    }

    #[test]
    fn formulas_bind_as_arithmetic_does() {
        for (formula, expected) in [
            ("2 + 3 * 4", 14.0),
            ("seven - 2 - 1", 4.0),
            ("(2 + 3) * 4 // 3", 6.0),
            ("0.5 * 2 ^ 3 / 8", 0.5),
            ("null + minus + 1", 1.0),
            ("if(yes, 1, 2) + if(not yes, 10, 20)", 21.0),
        ] {
            let mut columns = Columns::default();
            let number = columns.number(formula);
            let cells = row(&columns);
            assert_eq!(number(&|place| cells[place]), expected, "{formula}");
        }
    }

    #[test]
    fn conditions_compare_numbers_and_texts() {
        for (condition, expected) in [
            ("yes and not no", true),
            ("no or no and yes", false),
            ("(no or yes) and yes", true),
            ("seven > 2 * 3", true),
            ("seven = 7 and 7 < seven", false),
            ("Text = 'other' | 't*T'", true),
            ("`a name` = '*Na*' and null = ''", true),
            ("null is null and not seven is null", true),
            ("Text = 'tex'", false),
        ] {
            let mut columns = Columns::default();
            let holds = columns.condition(condition);
            let cells = row(&columns);
            assert_eq!(holds(&|place| cells[place]), expected, "{condition}");
        }
        let mut columns = Columns::default();
        let text = columns.text("a {lower ABC}-{H100_dgx without _dgx} {no_end spaced _} {x|y part 1|} z");
        let cells = row(&columns);
        assert_eq!(text(&|place| cells[place]), "a abc-H100 no end y z");
    }

    #[test]
    fn patterns_match_long_cells() {
        let text = "a".repeat(200_000);
        for (pattern, expected) in [("*a*aa*", true), ("*a*b*A", false), ("a*a*a*b", false), ("a*a*a", true)] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern}");
        }
        for (pattern, text) in [("", ""), ("*", ""), ("**b", "ab"), ("*ab", "aab"), ("a*c*c", "abcbcc")] {
            assert!(matches(pattern.as_bytes(), text.as_bytes()), "{pattern}");
        }
        for (pattern, text) in [("", "a"), ("a", ""), ("a*a", "a"), ("*ab", "aba")] {
            assert!(!matches(pattern.as_bytes(), text.as_bytes()), "{pattern}");
        }
    }

    #[test]
    fn what_is_no_formula_is_refused() {
        for wrong in ["", "2 +", "(2", "if(yes, 1)", "`open", "1 2", "2x", "a = 'open"] {
            let read = |read: fn(&mut Columns, &'static str)| {
                std::panic::catch_unwind(|| read(&mut Columns::default(), wrong)).is_err()
            };
            assert!(read(|columns, text| drop(columns.number(text))), "{wrong}");
        }
    }
}
