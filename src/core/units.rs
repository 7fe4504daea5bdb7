//! Physical quantities as types, so that a time can never be added to a byte count.
//!
//! Each type wraps one `f64` in its SI base unit. Constructors and getters name the unit;
//! a division that has a physical meaning yields the right type. On disk and on the wire the
//! key names the unit (`time_us`, `memory_bytes`); there a duration is in microseconds, all else in its base unit.

use serde::{Serialize, Serializer};
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub};
use std::time::Duration;
use utoipa::ToSchema;

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident, $new:ident, $get:ident, $on_the_wire:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, ToSchema)]
        pub struct $name(f64);

        impl $name {
            /// The quantity zero.
            pub const ZERO: Self = Self(0.0);

            /// Wraps a value given in the base unit.
            pub const fn $new(value: f64) -> Self {
                Self(value)
            }

            /// The value in the base unit.
            pub const fn $get(self) -> f64 {
                self.0
            }

            /// The larger of two quantities.
            pub fn max(self, other: Self) -> Self {
                Self(self.0.max(other.0))
            }

            /// The smaller of two quantities.
            pub fn min(self, other: Self) -> Self {
                Self(self.0.min(other.0))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_f64(self.$on_the_wire())
            }
        }

        impl Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }

        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                self.0 += other.0;
            }
        }

        impl Sub for $name {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }

        impl Mul<f64> for $name {
            type Output = Self;
            fn mul(self, factor: f64) -> Self {
                Self(self.0 * factor)
            }
        }

        impl Div<f64> for $name {
            type Output = Self;
            fn div(self, divisor: f64) -> Self {
                Self(self.0 / divisor)
            }
        }

        /// A ratio of two equal quantities has no unit.
        impl Div for $name {
            type Output = f64;
            fn div(self, other: Self) -> f64 {
                self.0 / other.0
            }
        }

        impl Sum for $name {
            fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
                Self(items.map(|item| item.0).sum())
            }
        }
    };
}

quantity!(
    /// A duration.
    Seconds, from_secs, secs, micros
);
quantity!(
    /// An amount of memory in bytes.
    Bytes, from_bytes, bytes, bytes
);
quantity!(
    /// A count of floating-point operations; a fused multiply-add counts as two.
    Flops, from_flops, flops, flops
);
quantity!(
    /// A memory or link bandwidth in bytes per second.
    BytesPerSecond, from_bytes_per_sec, bytes_per_sec, bytes_per_sec
);
quantity!(
    /// An arithmetic rate in floating-point operations per second.
    FlopsPerSecond, from_flops_per_sec, flops_per_sec, flops_per_sec
);
quantity!(
    /// A frequency in hertz.
    Hertz, from_hertz, hertz, hertz
);

impl Seconds {
    /// Wraps a duration given in microseconds.
    pub const fn from_micros(micros: f64) -> Self {
        Self(micros * 1e-6)
    }

    /// The duration in microseconds.
    pub const fn micros(self) -> f64 {
        self.0 * 1e6
    }

    /// The duration in milliseconds.
    pub const fn millis(self) -> f64 {
        self.0 * 1e3
    }
}

impl Div<BytesPerSecond> for Bytes {
    type Output = Seconds;
    fn div(self, rate: BytesPerSecond) -> Seconds {
        Seconds(self.0 / rate.0)
    }
}

impl Div<FlopsPerSecond> for Flops {
    type Output = Seconds;
    fn div(self, rate: FlopsPerSecond) -> Seconds {
        Seconds(self.0 / rate.0)
    }
}

impl Div<Seconds> for Flops {
    type Output = FlopsPerSecond;
    fn div(self, time: Seconds) -> FlopsPerSecond {
        FlopsPerSecond(self.0 / time.0)
    }
}

impl Div<Seconds> for Bytes {
    type Output = BytesPerSecond;
    fn div(self, time: Seconds) -> BytesPerSecond {
        BytesPerSecond(self.0 / time.0)
    }
}

/// Prints with the unit that keeps the number between 1 and 1000, to four significant digits.
impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self.0.abs() {
            s if s >= 1.0 => (self.0, "s"),
            s if s >= 1e-3 => (self.0 * 1e3, "ms"),
            _ => (self.0 * 1e6, "us"),
        };
        f.pad(&format!("{} {unit}", significant(value)))
    }
}

/// Prints in binary multiples (`13.48 GiB`).
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut value = self.0;
        let mut unit = "B";
        for next in ["KiB", "MiB", "GiB", "TiB"] {
            if value.abs() < 1024.0 {
                break;
            }
            value /= 1024.0;
            unit = next;
        }
        f.pad(&format!("{} {unit}", significant(value)))
    }
}

/// Prints in TFLOP/s.
impl fmt::Display for FlopsPerSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{} TFLOP/s", significant(self.0 / 1e12)))
    }
}

/// A number with four significant digits and no exponent.
pub fn significant(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let digits = (3 - value.abs().log10().floor() as i32).clamp(0, 6) as usize;
    format!("{value:.digits$}")
}

/// Reads a duration such as `90s`, `9m` or `1h`; the error says what is allowed.
pub fn duration(text: &str) -> Result<Duration, String> {
    let allowed = || "a number with its unit, such as 500ms, 90s, 9m or 1h, up to 100h".to_owned();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(allowed()),
    };
    let number: f64 = digits.parse().map_err(|_| allowed())?;
    let seconds = number * factor;
    match (0.0..=3.6e5).contains(&seconds) {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err(allowed()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(duration("9m"), Ok(Duration::from_secs(540)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        for wrong in ["", "9", "m", "-1s", "9d", "1e9h", "NaNs"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn dividing_quantities_gives_the_physical_type() {
        let time: Seconds = Bytes::from_bytes(4.8e12) / BytesPerSecond::from_bytes_per_sec(4.8e12);
        assert_eq!(time, Seconds::from_secs(1.0));
        let rate: FlopsPerSecond = Flops::from_flops(2e12) / Seconds::from_secs(2.0);
        assert_eq!(rate.flops_per_sec(), 1e12);
        assert_eq!(Seconds::from_secs(3.0) / Seconds::from_secs(2.0), 1.5);
    }

    #[test]
    fn quantities_print_in_the_unit_a_person_would_choose() {
        for (shown, expected) in [
            (Seconds::from_secs(2.5).to_string(), "2.500 s"),
            (Seconds::from_micros(1234.5).to_string(), "1.234 ms"),
            (Seconds::from_micros(7.25).to_string(), "7.250 us"),
            (Bytes::from_bytes(3.0 * 1024.0 * 1024.0).to_string(), "3.000 MiB"),
            (FlopsPerSecond::from_flops_per_sec(7.5e14).to_string(), "750.0 TFLOP/s"),
            (significant(0.0), "0"),
            (significant(123_456.0), "123456"),
        ] {
            assert_eq!(shown, expected);
        }
    }
}
