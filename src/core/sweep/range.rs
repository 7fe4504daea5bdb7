//! The values of a sweep: `START:END:STEP` with both ends included, `START:END:xFACTOR`, or a list.

use crate::error::Error;
use crate::error::Result;
use std::fmt;

/// Points that a range without a step has at most.
const POINTS: u64 = 100;

/// Values from a first to a last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    start: u64,
    end: u64,
    steps: Steps,
}

/// How one value follows another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Steps {
    /// So much more.
    By(u64),
    /// The next multiple of a power of two, between both ends.
    Multiples(u64),
    /// So many times as much.
    Times(u64),
    /// These values, rising, the last one repeated.
    Listed([u64; Range::LONGEST]),
}

impl Range {
    /// The most values that one sweep may have.
    pub const MOST: u64 = 100_000;

    /// The most values of a list.
    pub const LONGEST: usize = 16;

    /// From `start` to `end` in steps of `step`.
    pub fn new(start: u64, end: u64, step: u64) -> Result<Self> {
        if step == 0 {
            return refuse("step", step, "at least 1");
        }
        let range = Self::between(start, end, Steps::By(step))?;
        let values = (end - start) / step + 1;
        if values > Self::MOST {
            return refuse("number of values", values, &format!("at most {}", Self::MOST));
        }
        Ok(range)
    }

    /// From `start` to `end` in about a hundred points: every value, or both ends and the multiples of a power of two.
    pub fn usual(start: u64, end: u64) -> Result<Self> {
        let range = Self::between(start, end, Steps::By(1))?;
        let step = ((end - start) / POINTS + 1).next_power_of_two();
        Ok(match step {
            1 => range,
            step => Self {
                steps: Steps::Multiples(step),
                ..range
            },
        })
    }

    /// `start`, `factor` times that, and so on up to `end`.
    pub fn growing(start: u64, end: u64, factor: u64) -> Result<Self> {
        if factor < 2 {
            return refuse("factor", factor, "at least 2");
        }
        if start == 0 {
            return refuse("start", start, "at least 1 where a factor is given");
        }
        Self::between(start, end, Steps::Times(factor))
    }

    /// These values, in rising order.
    pub fn of(values: &[u64]) -> Result<Self> {
        let mut values = values.to_vec();
        values.sort_unstable();
        values.dedup();
        let (Some(&start), Some(&end)) = (values.first(), values.last()) else {
            return refuse("number of values", 0, "at least 1");
        };
        if values.len() > Self::LONGEST {
            let most = format!("at most {} in a list", Self::LONGEST);
            return refuse("number of values", values.len() as u64, &most);
        }
        let mut listed = [end; Self::LONGEST];
        listed[..values.len()].copy_from_slice(&values);
        Self::between(start, end, Steps::Listed(listed))
    }

    fn between(start: u64, end: u64, steps: Steps) -> Result<Self> {
        if end < start {
            return refuse("end", end, &format!("at least the start, {start}"));
        }
        Ok(Self { start, end, steps })
    }

    /// The first value.
    pub fn start(self) -> u64 {
        self.start
    }

    /// The end, which is the last value where the steps meet it.
    pub fn end(self) -> u64 {
        self.end
    }

    /// The distance of two values; `None` if it varies.
    pub fn step(self) -> Option<u64> {
        match self.steps {
            Steps::By(step) | Steps::Multiples(step) => Some(step),
            Steps::Times(_) | Steps::Listed(_) => None,
        }
    }

    /// Every value, rising.
    pub fn values(self) -> impl Iterator<Item = u64> {
        let next = move |value: &u64| {
            let next = match self.steps {
                Steps::By(step) => value.checked_add(step)?,
                Steps::Multiples(step) => (value + 1).next_multiple_of(step).min(self.end),
                Steps::Times(factor) => value.checked_mul(factor)?,
                Steps::Listed(values) => values.into_iter().find(|next| next > value)?,
            };
            (next > *value && next <= self.end).then_some(next)
        };
        std::iter::successors(Some(self.start), next)
    }

    /// Whether a value lies between the ends.
    pub fn contains(self, value: u64) -> bool {
        (self.start..=self.end).contains(&value)
    }
}

fn refuse<T>(field: &str, value: u64, allowed: &str) -> Result<T> {
    Err(Error::field("range", field, value, allowed))
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { start, end, steps } = self;
        match steps {
            Steps::By(step) => write!(f, "{start}:{end}:{step}"),
            Steps::Multiples(_) => write!(f, "{start}:{end}"),
            Steps::Times(factor) => write!(f, "{start}:{end}:x{factor}"),
            Steps::Listed(_) => {
                let values: Vec<_> = self.values().map(|value| value.to_string()).collect();
                f.write_str(&values.join(","))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_belong_to_a_range() {
        let values = |start, end, step| -> Vec<_> { Range::new(start, end, step).unwrap().values().collect() };
        assert_eq!(values(16, 18, 1), [16, 17, 18]);
        assert_eq!(values(10, 35, 10), [10, 20, 30]);
        assert_eq!(values(7, 7, 64), [7]);
        assert_eq!(Range::new(1536, 6144, 64).unwrap().values().count(), 73);
        assert!(Range::new(1, 100_000, 1).is_ok());
        for (start, end, step, part) in [
            (1, 100_001, 1, "at most 100000"),
            (5, 4, 1, "at least the start, 5"),
            (1, 2, 0, "`step` is 0"),
        ] {
            let message = Range::new(start, end, step).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn without_a_step_there_are_about_a_hundred_points_at_round_multiples() {
        let values = |start, end| -> Vec<_> { Range::usual(start, end).unwrap().values().collect() };
        assert_eq!(values(1, 5), [1, 2, 3, 4, 5]);
        let wide = values(4096, 8192);
        assert_eq!((wide[0], wide[1], wide[64], wide.len()), (4096, 4160, 8192, 65));
        let odd = values(1, 4097);
        assert_eq!((odd[0], odd[1], odd[2], odd[odd.len() - 1]), (1, 64, 128, 4097));
        let largest = values(1, 1 << 32);
        assert!(largest.len() <= 102 && largest.is_sorted());
    }

    #[test]
    fn a_range_may_grow_by_a_factor_or_be_a_list() {
        let grown: Vec<_> = Range::growing(1, 4096, 2).unwrap().values().collect();
        assert_eq!((grown.len(), grown[12]), (13, 4096));
        assert_eq!(Range::growing(3, 20, 2).unwrap().values().last(), Some(12));
        let listed = Range::of(&[8192, 4096, 11008, 4096]).unwrap();
        assert_eq!(listed.values().collect::<Vec<_>>(), [4096, 8192, 11008]);
        assert_eq!(listed.to_string(), "4096,8192,11008");
        assert!(Range::growing(1, 2, 1).is_err() && Range::growing(0, 2, 2).is_err());
        assert!(Range::of(&[]).is_err() && Range::of(&[1; 40]).is_ok());
        assert!(Range::of(&(1..20).collect::<Vec<_>>()).is_err());
    }
}
