//! `START:END:STEP`, both ends included.

use crate::error::Error;
use crate::error::Result;
use std::fmt;

/// Values from a first to a last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    start: u64,
    end: u64,
    step: u64,
}

impl Range {
    /// The most values that one sweep may have.
    pub const MOST: u64 = 100_000;

    /// From `start` to `end` in steps of `step`.
    pub fn new(start: u64, end: u64, step: u64) -> Result<Self> {
        let refuse =
            |field, value, allowed: &str| Err(Error::field("range", field, value, allowed));
        if step == 0 {
            return refuse("step", step, "at least 1");
        }
        if end < start {
            return refuse("end", end, &format!("at least the start, {start}"));
        }
        let values = (end - start) / step + 1;
        if values > Self::MOST {
            return refuse(
                "number of values",
                values,
                &format!("at most {}", Self::MOST),
            );
        }
        Ok(Self { start, end, step })
    }

    /// The first value.
    pub fn start(self) -> u64 {
        self.start
    }

    /// The end, which is the last value where the steps meet it.
    pub fn end(self) -> u64 {
        self.end
    }

    /// The distance of two values.
    pub fn step(self) -> u64 {
        self.step
    }

    /// Every value, rising.
    pub fn values(self) -> impl Iterator<Item = u64> {
        let count = (self.end - self.start) / self.step;
        (0..=count).map(move |at| self.start + at * self.step)
    }

    /// Whether a value lies between the ends.
    pub fn contains(self, value: u64) -> bool {
        (self.start..=self.end).contains(&value)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.start, self.end, self.step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_belong_to_a_range() {
        let values = |start, end, step| -> Vec<_> {
            Range::new(start, end, step).unwrap().values().collect()
        };
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
}
