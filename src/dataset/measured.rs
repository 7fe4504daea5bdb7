//! How a row of our own was measured: the columns that `measure` adds, and what they may hold.

use super::Kernel;
use super::cells::{Problem, micros};
use crate::units::Seconds;

/// Where the operands are when a call begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cache {
    /// In memory: calls rotate over as many operand sets as three times the last-level cache holds, and one more.
    Cold,
    /// In the last-level cache as far as they fit: every call uses the same operands.
    Hot,
}

impl Cache {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Cold, Self::Hot];

    /// The name used on disk.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Hot => "hot",
        }
    }
}

/// Why a row was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// The plan asks for it.
    Plan,
    /// Asked for during the run, where the rows so far disagreed.
    Active,
    /// One of few cases that are timed again and again, to see the machine drift.
    Anchor,
    /// A case of the plan once more, long after the first time, to see the noise from run to run.
    Repeat,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Plan, Self::Active, Self::Anchor, Self::Repeat];

    /// The name used on disk.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Active => "active",
            Self::Anchor => "anchor",
            Self::Repeat => "repeat",
        }
    }
}

/// Why no more replays were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stop {
    /// The interval of the median is as narrow as was asked for.
    Precise,
    /// The most replays were taken.
    Replays,
    /// The time for one case was used up.
    Time,
    /// One call is so long that three replays must do; no interval is claimed.
    Long,
}

impl Stop {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Precise, Self::Replays, Self::Time, Self::Long];

    /// The name used on disk.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Precise => "precise",
            Self::Replays => "replays",
            Self::Time => "time",
            Self::Long => "long",
        }
    }
}

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
    /// Half the width of the 95 % interval of the median, over the median; none where too few replays can tell.
    pub half_width: Option<f64>,
    /// Why no more replays were taken.
    pub stop: Stop,
    /// Whether the clock had dropped, so that the case was timed a second time; the row is the second time.
    pub remeasured: bool,
    /// Board power in watts, after the replays.
    pub power_watts: Option<f64>,
    /// Temperature in degrees Celsius, after the replays.
    pub temperature_celsius: Option<f64>,
    /// The algorithm that ran, where the library tells.
    pub kernel: Option<Kernel>,
}

/// Columns that hold a text; null in rows of other tables.
pub(super) const TEXTS: [&str; 5] = ["set", "role", "cache", "stop", "kernel"];

/// Columns that hold a real number.
pub(super) const REALS: [&str; 8] = [
    "at_s",
    "min_us",
    "p25_us",
    "p75_us",
    "half_width",
    "power_watts",
    "temperature_celsius",
    "waves",
];

/// Columns that hold a whole number.
pub(super) const WHOLES: [&str; 9] = [
    "rank",
    "calls",
    "tile_rows",
    "tile_cols",
    "stages",
    "split_k",
    "cluster_rows",
    "cluster_cols",
    "workspace_bytes",
];

/// The column that holds whether a case was timed a second time.
pub(super) const REMEASURED: &str = "remeasured";

/// The content of one of [`TEXTS`].
pub(super) fn text<'a>(measured: &'a Measured, column: &str) -> Option<&'a str> {
    match column {
        "set" => Some(&measured.set),
        "role" => Some(measured.role.name()),
        "cache" => Some(measured.cache.name()),
        "stop" => Some(measured.stop.name()),
        _ => measured.kernel.as_ref()?.name.as_deref(),
    }
}

/// The content of one of [`REALS`].
pub(super) fn real(measured: &Measured, column: &str) -> Option<f64> {
    match column {
        "at_s" => Some(measured.at_s),
        "min_us" => Some(micros(measured.min)),
        "p25_us" => Some(micros(measured.quartiles.0)),
        "p75_us" => Some(micros(measured.quartiles.1)),
        "half_width" => measured.half_width,
        "power_watts" => measured.power_watts,
        "temperature_celsius" => measured.temperature_celsius,
        _ => measured.kernel.as_ref()?.waves,
    }
}

/// The content of one of [`WHOLES`].
pub(super) fn whole(measured: &Measured, column: &str) -> Option<u64> {
    let kernel = measured.kernel.as_ref();
    let small = match column {
        "rank" => Some(measured.rank),
        "calls" => Some(measured.calls),
        "tile_rows" => kernel?.tile.map(|tile| tile.0),
        "tile_cols" => kernel?.tile.map(|tile| tile.1),
        "stages" => kernel?.stages,
        "split_k" => kernel?.split_k,
        "cluster_rows" => kernel?.cluster.map(|cluster| cluster.0),
        "cluster_cols" => kernel?.cluster.map(|cluster| cluster.1),
        _ => return kernel?.workspace_bytes,
    };
    small.map(u64::from)
}

/// The cells of one row that `measure` adds; nothing where a cell is null.
pub(super) trait Readings {
    /// A cell of one of [`TEXTS`].
    fn text(&self, column: &str) -> Option<&str>;
    /// A cell of one of [`REALS`].
    fn real(&self, column: &str) -> Option<f64>;
    /// A cell of one of [`WHOLES`].
    fn whole(&self, column: &str) -> Option<i64>;
    /// The cell of [`REMEASURED`].
    fn remeasured(&self) -> Option<bool>;
}

/// Puts together how a row was measured; nothing where the row has no set, as rows of other tables.
pub(super) fn read(readings: &impl Readings) -> Result<Option<Box<Measured>>, Problem> {
    let Some(set) = readings.text("set") else {
        return Ok(None);
    };
    let needed = |column| {
        let value = readings.real(column);
        value.ok_or_else(|| Problem::new(column, "null", "a number where there is a `set`"))
    };
    let time = |column| needed(column).map(Seconds::from_micros);
    let optional = |column| {
        let value = readings.whole(column);
        let fits = value.map(|value| {
            u32::try_from(value).map_err(|_| Problem::new(column, value, "0 to 2^32 - 1"))
        });
        fits.transpose()
    };
    let count = |column| {
        optional(column)?
            .ok_or_else(|| Problem::new(column, "null", "a number where there is a `set`"))
    };
    let workspace_bytes = readings.whole("workspace_bytes").map(|bytes| {
        u64::try_from(bytes).map_err(|_| Problem::new("workspace_bytes", bytes, "0 to 2^63 - 1"))
    });
    let both = |pair: (Option<u32>, Option<u32>)| pair.0.zip(pair.1);
    let kernel = Kernel {
        name: readings.text("kernel").map(str::to_owned),
        tile: both((optional("tile_rows")?, optional("tile_cols")?)),
        stages: optional("stages")?,
        split_k: optional("split_k")?,
        cluster: both((optional("cluster_rows")?, optional("cluster_cols")?)),
        waves: readings.real("waves"),
        workspace_bytes: workspace_bytes.transpose()?,
    };
    let measured = Measured {
        set: set.to_owned(),
        role: named(readings, "role", Role::ALL.map(|role| (role.name(), role)))?,
        cache: named(
            readings,
            "cache",
            Cache::ALL.map(|cache| (cache.name(), cache)),
        )?,
        rank: count("rank")?,
        at_s: needed("at_s")?,
        calls: count("calls")?,
        min: time("min_us")?,
        quartiles: (time("p25_us")?, time("p75_us")?),
        half_width: readings.real("half_width"),
        stop: named(readings, "stop", Stop::ALL.map(|stop| (stop.name(), stop)))?,
        remeasured: readings
            .remeasured()
            .ok_or_else(|| Problem::new(REMEASURED, "null", "true or false"))?,
        power_watts: readings.real("power_watts"),
        temperature_celsius: readings.real("temperature_celsius"),
        kernel: (kernel != Kernel::default()).then_some(kernel),
    };
    Ok(Some(Box::new(measured)))
}

/// One of a few names.
fn named<T: Copy, const N: usize>(
    readings: &impl Readings,
    column: &'static str,
    names: [(&str, T); N],
) -> Result<T, Problem> {
    let text = readings.text(column).unwrap_or("null");
    let found = names.iter().find(|(name, _)| *name == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let allowed = names.map(|(name, _)| name).join(", ");
        Problem::new(column, format!("`{text}`"), allowed)
    })
}

/// Checks everything that a reader relies on.
pub(super) fn check(measured: &Measured) -> Result<(), Problem> {
    if measured.set.is_empty() {
        return Err(Problem::new("set", "empty", "a text"));
    }
    let bounds = [
        ("at_s", 0.0, 1e9),
        ("min_us", f64::MIN_POSITIVE, 1e9),
        ("p25_us", f64::MIN_POSITIVE, 1e9),
        ("p75_us", f64::MIN_POSITIVE, 1e9),
        ("half_width", 0.0, 1e3),
        ("power_watts", 0.0, 1e5),
        ("temperature_celsius", -100.0, 300.0),
        ("waves", 0.0, 1e12),
    ];
    for (column, least, most) in bounds {
        if let Some(value) = real(measured, column)
            && !(least..=most).contains(&value)
        {
            let least = if least == f64::MIN_POSITIVE {
                "more than 0".into()
            } else {
                least.to_string()
            };
            return Err(Problem::new(column, value, format!("{least} to {most}")));
        }
    }
    match measured.calls {
        0 => Err(Problem::new("calls", 0, "1 to 2^32 - 1")),
        _ => Ok(()),
    }
}
