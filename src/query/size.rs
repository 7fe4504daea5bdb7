//! One size of a question: a number, or a range where it is swept.

use crate::sweep::Range;

/// The largest dimension or count that may be asked for.
pub const LARGEST: u64 = 1 << 32;

/// A size as a question holds it: `predict` takes a number, `sweep` also a range.
pub trait Extent: Clone + Send + Sync + 'static {
    /// Reads a size; numbers below `least` are refused with what is allowed.
    fn read(least: u64, text: &str) -> Result<Self, String>;
}

impl Extent for u64 {
    fn read(least: u64, text: &str) -> Result<Self, String> {
        let number = text.parse().ok();
        number
            .filter(|number| (least..=LARGEST).contains(number))
            .ok_or_else(|| format!("allowed: whole numbers from {least} to {LARGEST}"))
    }
}

/// A number or a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// The same at every point.
    Fixed(u64),
    /// What is swept.
    Range(Range),
}

impl Size {
    /// The size where the swept one has this value.
    pub const fn at(self, value: u64) -> u64 {
        match self {
            Self::Fixed(size) => size,
            Self::Range(_) => value,
        }
    }
}

impl Extent for Size {
    fn read(least: u64, text: &str) -> Result<Self, String> {
        let range = |start: &str, end: &str, step: &str| {
            let [start, end] = [u64::read(least, start)?, u64::read(least, end)?];
            let range = Range::new(start, end, u64::read(1, step)?);
            range.map(Self::Range).map_err(|error| error.to_string())
        };
        let parts: Vec<_> = text.split(':').collect();
        match parts[..] {
            [number] => u64::read(least, number).map(Self::Fixed),
            [start, end] => range(start, end, "1"),
            [start, end, step] => range(start, end, step),
            _ => Err("allowed: a number, START:END or START:END:STEP".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_a_number_or_a_range() {
        let range = |start, end, step| Ok(Size::Range(Range::new(start, end, step).unwrap()));
        assert_eq!(Size::read(1, "4096"), Ok(Size::Fixed(4096)));
        assert_eq!(Size::read(1, "16:64"), range(16, 64, 1));
        assert_eq!(Size::read(1, "1536:6144:64"), range(1536, 6144, 64));
        assert_eq!(Size::read(0, "0:8:4"), range(0, 8, 4));
        for (text, part) in [
            ("", "whole numbers"),
            ("0:8", "from 1"),
            ("8:", "whole numbers"),
            ("64:16", "at least the start, 64"),
            ("1:2:0", "from 1"),
            ("1:2:3:4", "START:END:STEP"),
            ("1:1000000", "at most 100000"),
        ] {
            let message = Size::read(1, text).unwrap_err();
            assert!(message.contains(part), "{text}: {message}");
        }
        assert_eq!(Size::Fixed(3).at(7), 3);
        assert_eq!(Size::read(1, "1:9").unwrap().at(7), 7);
    }
}
