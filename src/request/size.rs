//! One size of a request: a number, or a range where it is swept.

use crate::error;
use crate::error::Error;
use crate::gpu::Gpu;
use crate::ops::{Dtype, LARGEST};
use crate::request::number;
use crate::sweep::Range;
use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use utoipa::openapi::schema::{KnownFormat, SchemaFormat, Type};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// The most values of a range in JSON: a service answers many.
const MOST_VALUES: usize = 10_000;

/// A size from `LEAST` to [`LARGEST`], or a range of them.
///
/// Its schema is that of the number; that of a sweep widens it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size<const LEAST: u64 = 1> {
    /// The same at every point.
    Number(u64),
    /// What is swept.
    Range(Range),
}

impl<const LEAST: u64> Size<LEAST> {
    fn number(text: &str, least: u64) -> Result<u64, String> {
        number::size(text)
            .filter(|number| (least..=LARGEST).contains(number))
            .ok_or_else(|| format!("allowed: whole numbers from {least} to {LARGEST}, such as 8192, 8,192 or 8k"))
    }

    /// What a sweep takes.
    const SWEPT: &'static str = "a whole number such as 8192 or 8k, a list such as 4096,8192, or a range START:END, START:END:STEP or \
                                 START:END:xFACTOR, both ends included";

    /// As anything but a sweep reads it: `8,192` is one number.
    pub fn fixed(text: &str) -> Result<Self, String> {
        let refused = match Self::number(text, LEAST) {
            Ok(number) => return Ok(Self::Number(number)),
            Err(allowed) => allowed,
        };
        match Self::from_str(text) {
            Ok(Self::Range(_)) => Err(format!(
                "allowed: whole numbers from {LEAST} to {LARGEST}; only a sweep takes a range or a list"
            )),
            _ => Err(refused),
        }
    }
}

impl<const LEAST: u64> Default for Size<LEAST> {
    fn default() -> Self {
        Self::Number(LEAST)
    }
}

impl<const LEAST: u64> FromStr for Size<LEAST> {
    type Err = String;

    /// As a sweep reads it: commas separate the values of a list.
    fn from_str(text: &str) -> Result<Self, String> {
        let one = |text: &str| Self::number(text, LEAST);
        let read = |range: error::Result<Range>| range.map(Self::Range).map_err(|error| error.to_string());
        let parts: Vec<_> = text.split(':').collect();
        match parts[..] {
            [list] if list.contains(',') => {
                let values: Result<Vec<_>, _> = list.split(',').map(|value| one(value.trim())).collect();
                read(Range::of(&values?))
            }
            [number] => one(number).map(Self::Number).map_err(|_| {
                let range = number.split_once("..").or_else(|| number.split_once('-'));
                match range.filter(|(start, end)| !start.is_empty() && !end.is_empty()) {
                    Some((start, end)) => format!("a range is written {start}:{end}"),
                    None => format!("allowed: {}", Self::SWEPT),
                }
            }),
            [start, end, ..] if start.is_empty() || end.is_empty() => Err(format!("allowed: {}", Self::SWEPT)),
            [start, end] => read(Range::usual(one(start)?, one(end)?)),
            [start, end, step] => match step.strip_prefix(['x', 'X', '*']) {
                Some(factor) => read(Range::growing(one(start)?, one(end)?, Self::number(factor, 1)?)),
                None => read(Range::new(one(start)?, one(end)?, Self::number(step, 1)?)),
            },
            _ => Err(format!("allowed: {}", Self::SWEPT)),
        }
    }
}

impl<const LEAST: u64> fmt::Display for Size<LEAST> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Range(range) => range.fmt(f),
        }
    }
}

impl<const LEAST: u64> Serialize for Size<LEAST> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_u64(*number),
            Self::Range(range) => serializer.collect_str(range),
        }
    }
}

impl<'de, const LEAST: u64> Deserialize<'de> for Size<LEAST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let read = match &value {
            Value::Number(number) => number
                .as_u64()
                .filter(|number| (LEAST..=LARGEST).contains(number))
                .map(Self::Number),
            // In JSON a number is a number, so a range or a list has digits alone.
            Value::String(text) if text.bytes().all(|b| b.is_ascii_digit() || b":,x".contains(&b)) => text.parse().ok(),
            _ => None,
        };
        let read = read.filter(|size| match size {
            Self::Number(_) => value.is_number(),
            Self::Range(range) => range.values().count() <= MOST_VALUES,
        });
        read.ok_or_else(|| {
            let mut expected = format!("expected a whole number from {LEAST} to {LARGEST}");
            if !value.is_number() {
                expected += &format!(
                    ", or in a sweep a range of at most {MOST_VALUES} of them as START:END, START:END:STEP or START:END:xFACTOR, or a list \
                     such as 4096,8192"
                );
            }
            serde::de::Error::custom(expected)
        })
    }
}

impl<const LEAST: u64> PartialSchema for Size<LEAST> {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::Integer)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
            .minimum(Some(LEAST))
            .maximum(Some(LARGEST))
            .into()
    }
}

impl<const LEAST: u64> ToSchema for Size<LEAST> {
    fn name() -> Cow<'static, str> {
        match LEAST {
            0 => "SizeOrZero".into(),
            _ => "Size".into(),
        }
    }
}

/// What a request leaves open on one GPU: turns its sizes into numbers, notes which of them are ranges, and knows the
/// number format that is meant where none is named.
#[derive(Debug, Default)]
pub struct Sizes {
    usual_dtype: Dtype,
    /// What a range is at this point of its sweep; its start where none is given.
    value: Option<u64>,
    /// Every size that was turned into a number.
    keys: Vec<&'static str>,
    ranges: Vec<(&'static str, Range)>,
}

impl Sizes {
    /// Applies `make` to a request; fails if one of its sizes is a range.
    pub fn fixed<T>(gpu: &Gpu, make: impl FnOnce(&mut Self) -> error::Result<T>) -> error::Result<T> {
        let mut sizes = Self::on(gpu);
        let made = make(&mut sizes);
        match sizes.ranges.first() {
            None => made,
            Some((key, range)) => {
                let allowed = format!("a whole number up to {LARGEST}; only a sweep takes a range");
                Err(Error::field("request", key, range, &allowed))
            }
        }
    }

    /// The only range among the sizes that `make` asks for, with its key.
    pub fn swept<T>(
        gpu: &Gpu,
        make: impl FnOnce(&mut Self) -> error::Result<T>,
    ) -> error::Result<(&'static str, Range)> {
        let mut sizes = Self::on(gpu);
        // What is impossible at the start may be possible later on.
        let _ = make(&mut sizes);
        if let [only] = sizes.ranges[..] {
            return Ok(only);
        }
        let found: Vec<_> = sizes.ranges.iter().map(|(key, _)| *key).collect();
        let value = match &found[..] {
            [] => "absent".to_owned(),
            found => format!("in {}", found.join(" and ")),
        };
        Err(Error::usage(format!(
            "sweep: the range is {value}; allowed: exactly one of {} as START:END, START:END:STEP, START:END:xFACTOR or a list such as 4096,8192",
            sizes.keys.join(", ")
        )))
    }

    /// The sizes at the point of a sweep where the range has this value.
    pub fn at(gpu: &Gpu, value: u64) -> Self {
        Self {
            value: Some(value),
            ..Self::on(gpu)
        }
    }

    fn on(gpu: &Gpu) -> Self {
        Self {
            usual_dtype: gpu.usual_dtype(),
            ..Self::default()
        }
    }

    /// The number format that was asked for, else the usual one of the GPU.
    pub fn dtype(&self, asked: Option<Dtype>) -> Dtype {
        asked.unwrap_or(self.usual_dtype)
    }

    /// Whether one of them is a range.
    pub fn are_swept(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// The number that a size is.
    pub fn number<const LEAST: u64>(&mut self, key: &'static str, size: Size<LEAST>) -> u64 {
        self.keys.push(key);
        match size {
            Size::Number(number) => number,
            Size::Range(range) => {
                self.ranges.push((key, range));
                self.value.unwrap_or(range.start())
            }
        }
    }

    /// The number that a size is, if it was asked for.
    pub fn option<const LEAST: u64>(&mut self, key: &'static str, size: Option<Size<LEAST>>) -> Option<u64> {
        match size {
            Some(size) => Some(self.number(key, size)),
            None => {
                self.keys.push(key);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu() -> &'static Gpu {
        Gpu::find("h100").unwrap()
    }

    #[test]
    fn a_size_is_a_number_or_a_range() {
        let range = |start, end, step| Ok(Size::Range(Range::new(start, end, step).unwrap()));
        let read = |text: &str| text.parse::<Size>();
        assert_eq!(read("4096"), Ok(Size::Number(4096)));
        assert_eq!(read("16:64"), range(16, 64, 1));
        let listed = |values: &[u64]| Ok(Size::Range(Range::of(values).unwrap()));
        assert_eq!(read("4096,8192"), listed(&[4096, 8192]));
        assert_eq!(read("512,768"), listed(&[512, 768]));
        assert_eq!(Size::<1>::fixed("8,192"), Ok(Size::Number(8192)));
        assert_eq!(read("1:4096:x2"), Ok(Size::Range(Range::growing(1, 4096, 2).unwrap())));
        assert_eq!(read("1536:6144:64"), range(1536, 6144, 64));
        assert!(matches!("0:8:4".parse::<Size<0>>(), Ok(Size::Range(_))));
        for (text, part) in [
            ("", "whole number"),
            ("odd", "a list such as 4096,8192, or a range START:END"),
            ("0:8", "from 1"),
            ("0,8", "from 1"),
            ("8:", "START:END, START:END:STEP"),
            ("64:16", "at least the start, 64"),
            ("1:2:0", "from 1"),
            ("1:2:3:4", "START:END:STEP"),
            ("1:1000000:1", "at most 100000"),
            ("1:8:x1", "at least 2"),
        ] {
            let message = read(text).unwrap_err();
            assert!(message.contains(part), "{text}: {message}");
        }
    }

    #[test]
    fn in_json_a_number_is_a_number_and_a_range_a_string() {
        let read = |text| serde_json::from_str::<Size>(text);
        assert_eq!(read("8").unwrap(), Size::Number(8));
        for range in ["\"8:64:8\"", "\"8:64:x2\"", "\"8,64\""] {
            assert!(matches!(read(range).unwrap(), Size::Range(_)));
        }
        for text in [
            "0",
            "4294967297",
            "-1",
            "1.5",
            "1e3",
            "true",
            "null",
            "[1,2]",
            "\"8\"",
            "\"8:\"",
            "\"0:8\"",
            "\"1:20000:1\"",
        ] {
            let message = read(text).unwrap_err().to_string();
            let allowed = "expected a whole number from 1 to 4294967296";
            assert!(message.contains(allowed), "{text}: {message}");
            let is_number = text.parse::<f64>().is_ok();
            assert_ne!(message.contains("START:END:STEP"), is_number, "{text}: {message}");
        }
        assert_eq!(serde_json::from_str::<Size<0>>("0").unwrap(), Size::Number(0));
    }

    #[test]
    fn a_range_is_one_size_of_a_sweep_and_none_of_anything_else() {
        let range: Size = "2:8:2".parse().unwrap();
        let pair = |a: Size, b: Size| move |sizes: &mut Sizes| Ok((sizes.number("a", a), sizes.option("b", Some(b))));
        let eight = Size::Number(8);
        assert_eq!(Sizes::fixed(gpu(), pair(eight, eight)).unwrap(), (8, Some(8)));
        assert_eq!(pair(eight, range)(&mut Sizes::at(gpu(), 4)).unwrap(), (8, Some(4)));
        let (key, found) = Sizes::swept(gpu(), pair(eight, range)).unwrap();
        assert_eq!((key, found.values().count()), ("b", 4));
        let refused = Sizes::fixed(gpu(), pair(range, eight)).unwrap_err().to_string();
        assert!(
            refused.contains("`a` is 2:8:2") && refused.contains("only a sweep"),
            "{refused}"
        );
        assert!(Size::<1>::fixed("2:8:2").is_err() && Size::<1>::fixed("8").is_ok());
        for (first, second, part) in [(eight, eight, "absent"), (range, range, "in a and b")] {
            let refused = Sizes::swept(gpu(), pair(first, second)).unwrap_err().to_string();
            assert!(refused.contains(part) && refused.contains("one of a, b"), "{refused}");
        }
    }
}
