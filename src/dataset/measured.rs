//! How a row of our own was measured: what `measure` adds to a time.

use super::Kernel;
use crate::named_enum;
use crate::units::Seconds;

named_enum! {
    /// Where the operands are when a call begins.
    Cache {
        /// In memory: calls rotate over as many operand sets as three times the last-level cache holds, and one more.
        Cold = "cold",
        /// In the last-level cache as far as they fit: every call uses the same operands.
        Hot = "hot",
    }
}

named_enum! {
    /// Why a row was measured.
    Role {
        /// The plan asks for it.
        Plan = "plan",
        /// In old tables: asked for during the run, where a committee of forests disagreed.
        Active = "active",
        /// One of few cases that are timed again and again, to see the machine drift.
        Anchor = "anchor",
        /// A case of the plan once more, long after the first time, to see the noise from run to run.
        Repeat = "repeat",
    }
}

named_enum! {
    /// Why no more replays were taken.
    Stop {
        /// The interval of the median is as narrow as was asked for.
        Precise = "precise",
        /// The most replays were taken.
        Replays = "replays",
        /// The time for one case was used up.
        Time = "time",
        /// One call is so long that few replays must do: three over 5 ms, the plan's `fewest` over 1 ms; no interval is claimed.
        Long = "long",
    }
}

/// Set of the rows whose fp8 products are summed without fast accumulation.
pub const SLOW_SUMS: &str = "slow_sums";

/// How a row was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The set of the plan that it belongs to (`sobol`).
    pub set: String,
    /// Why it was measured.
    pub role: Role,
    /// Where the operands were.
    pub cache: Cache,
    /// Which of the library's algorithms; 0 is the one its heuristic puts first.
    pub rank: u32,
    /// Seconds since the run began, on the device's clock, over all continuations of the run.
    pub at_s: f64,
    /// Calls in the chain that one replay runs.
    pub calls: u32,
    /// The fastest replay, per call.
    pub min: Seconds,
    /// Lower and upper quartile of the replays, per call.
    pub quartiles: (Seconds, Seconds),
    /// Half the width of the 95 % interval of the median, over the median; `None` if there are too few replays.
    pub half_width: Option<f64>,
    /// Why no more replays were taken.
    pub stop: Stop,
    /// Whether the clock was well below the median of its class.
    pub throttled: bool,
    /// What held the clock back within the last second, if the device reports it.
    pub clock_reasons: Option<String>,
    /// Board power in watts, after the replays.
    pub power_watts: Option<f64>,
    /// Temperature in degrees Celsius, after the replays.
    pub temperature_celsius: Option<f64>,
    /// The algorithm that ran, if the library reports it.
    pub kernel: Option<Kernel>,
}

impl Measured {
    /// Whether fp8 products were promoted to single precision while they were summed, as frameworks sum gradients.
    pub fn has_slow_sums(&self) -> bool {
        self.set == SLOW_SUMS
    }
}
