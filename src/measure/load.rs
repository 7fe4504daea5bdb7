//! Sustained load: a list of operators runs in windows of 20 ms for 1.5 s, until the clock has
//! settled where the power limit holds it.

use super::device::Device;
use crate::dataset::loads::Window;
use crate::error::{Error, Result};
use crate::ops::Op;
use crate::stats::median;
use crate::units::{Hertz, Seconds};
use std::time::Duration;

/// Time of a load.
const LOAD: Seconds = Seconds::from_micros(1.5e6);

/// Target time of a window.
const WINDOW: Seconds = Seconds::from_micros(20_000.0);

/// Largest number of operators in a graph.
const MOST_CALLS: usize = 4096;

/// Time that a load takes on the device's clock, the set-up of its operators excluded.
pub const COST: Duration = Duration::from_millis(1600);

/// What a load measured.
#[derive(Clone, Debug)]
pub struct Sustained {
    /// The windows in order.
    pub windows: Vec<Window>,
    /// Median time of each operator of the list over the settled windows.
    pub operators: Vec<Seconds>,
}

/// Runs the list until 1.5 s of load have passed; a window holds as many passes as fill it.
///
/// # Errors
///
/// Fails where the device cannot hold or run the list, or tells a time that no list can take.
pub fn sustain(device: &mut dyn Device, ops: &[Op]) -> Result<Sustained> {
    let mut sequence = device.open_sequence(ops)?;
    // The first pass pays for whatever is loaded lazily; the second one sizes the windows.
    sequence.record(1)?;
    positive(sequence.replay()?.elapsed)?;
    let pass = positive(sequence.replay()?.elapsed)?;
    let most = (MOST_CALLS / ops.len().max(1)).max(1) as u32;
    let passes = ((WINDOW / pass).round() as u32).clamp(1, most);
    sequence.record(passes)?;
    let (mut at, mut windows, mut times) = (Seconds::ZERO, Vec::new(), Vec::new());
    while at < LOAD {
        let span = sequence.replay()?;
        let elapsed = positive(span.elapsed)?;
        windows.push(Window {
            at_s: at.secs(),
            passes,
            time_us: (elapsed / f64::from(passes)).micros(),
            clock_hz: span.clock.map(Hertz::hertz),
            power_watts: span.sensors.power_watts,
            temperature_celsius: span.sensors.temperature_celsius,
        });
        times.push(span.operators);
        at += elapsed;
    }
    let settled = &times[times.len() * 2 / 3..];
    let time = |place: usize| {
        let times = settled.iter().filter_map(|span| span.get(place));
        let times: Vec<f64> = times.map(|time| time.secs()).collect();
        positive(Seconds::from_secs(median(times).unwrap_or(f64::NAN)))
    };
    Ok(Sustained {
        operators: (0..ops.len()).map(time).collect::<Result<_>>()?,
        windows,
    })
}

/// Refuses a time that is not positive and finite.
fn positive(time: Seconds) -> Result<Seconds> {
    if time > Seconds::ZERO && time.secs().is_finite() {
        return Ok(time);
    }
    Err(Error::infeasible(format!(
        "the device timed a sustained load at {} s, which none can take",
        time.secs()
    )))
}
