//! A probe of a device: whether it is right and how fast a few operators are, in well under two
//! minutes, before a run is asked for.

use super::checks::Verdict;
use super::device::{Cache, Case, Device, Identity, Sensors};
use super::protocol::warmed;
use crate::error::{Error, Result};
use crate::ops::{Attention, Dtype, Gemm, Layout, Memory, MemoryKind, Op, Pass};
use crate::stats::median;
use crate::units::{Hertz, Seconds};
use std::time::Duration;

/// Replays of each chain.
const REPLAYS: usize = 11;

/// Time after which no further operator is timed.
const ENOUGH: Duration = Duration::from_secs(90);

/// Warm-up between the checks and the timings.
const SOAK: Duration = Duration::from_secs(5);

/// What a probe has found.
#[derive(Clone, Debug)]
pub struct Probe {
    /// Device and software.
    pub identity: Identity,
    /// Outcome of the checks, in every format.
    pub verdict: Verdict,
    /// Time that they took.
    pub checks_took: Duration,
    /// Sensors before the warm-up.
    pub before: Sensors,
    /// Sensors after it.
    pub after: Sensors,
    /// Why the warm-up failed, if it did.
    pub soak_failed: Option<String>,
    /// Operators, each timed or with the reason why not.
    pub timed: Vec<(Case, std::result::Result<Timed, String>)>,
    /// How the device was lost, if it was.
    pub lost: Option<String>,
    /// Time of the whole probe.
    pub spent: Duration,
}

/// Times of one operator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timed {
    /// From opening the case to a recorded chain.
    pub set_up: Duration,
    /// One call on its own.
    pub alone: Seconds,
    /// One call in a chain, median of the replays.
    pub chained: Seconds,
    /// Median clock, if any replay reports it.
    pub clock: Option<Hertz>,
    /// Share of the replays that report the clock.
    pub clocked: f64,
}

/// Checks and times a device; what fails is a line of the outcome.
///
/// # Errors
///
/// Fails where the device is lost before anything was compared.
pub fn probe(device: &mut dyn Device) -> Result<Probe> {
    let start = device.now();
    let verdict = Verdict::of(&device.check(&Dtype::ELEMENTS)?);
    let checks_took = device.now().saturating_sub(start);
    let before = device.sensors();
    let soak_failed = device.soak(SOAK).err().map(|error| error.to_string());
    let mut probe = Probe {
        identity: device.identity().clone(),
        verdict,
        checks_took,
        before,
        after: device.sensors(),
        soak_failed,
        timed: Vec::new(),
        lost: None,
        spent: Duration::ZERO,
    };
    for case in cases() {
        let outcome = match device.refuses(&case) {
            Some(reason) => Err(reason),
            None if probe.lost.is_some() => Err("the device is lost".to_owned()),
            None if device.now().saturating_sub(start) > ENOUGH => {
                Err(format!("not reached within {} s", ENOUGH.as_secs()))
            }
            None => timed(device, &case).map_err(|error| {
                probe.lost = device.lost();
                error.to_string()
            }),
        };
        probe.timed.push((case, outcome));
    }
    probe.spent = device.now().saturating_sub(start);
    Ok(probe)
}

/// The operators of a probe, the cheapest to set up first.
pub fn cases() -> Vec<Case> {
    let square = |size, dtype| Op::Gemm(Gemm::square(size, Layout::Tn, dtype));
    let mut ops: Vec<Op> = [256, 1024, 4096, 8192].map(|size| square(size, Dtype::Bf16)).to_vec();
    ops.extend([Dtype::Fp16, Dtype::Tf32, Dtype::Fp8, Dtype::Fp32].map(|dtype| square(4096, dtype)));
    ops.extend([1u64 << 20, 64 << 20, 1 << 30].map(|bytes| {
        let (dtype, cols) = (Dtype::Bf16, 4096);
        let rows = bytes / cols / dtype.size();
        Op::Memory(Memory::forward(MemoryKind::Copy, rows, cols, dtype))
    }));
    for seq in [2048, 8192] {
        ops.extend(Pass::ALL.map(|pass| {
            Op::Attention(Attention {
                kv_heads: 8,
                pass,
                ..Attention::new(1, 64, seq, 128)
            })
        }));
    }
    let both = ops.into_iter().flat_map(|op| {
        Cache::ALL.map(|cache| Case {
            cache,
            ..Case::cold(op)
        })
    });
    both.collect()
}

fn timed(device: &mut dyn Device, case: &Case) -> Result<Timed> {
    let begin = device.now();
    let (alone, calls, replays) = {
        let (mut chain, alone, calls) = warmed(device, case)?;
        let replays = (0..REPLAYS).map(|_| chain.replay());
        let replays = replays.collect::<Result<Vec<_>>>()?;
        (alone, calls, replays)
    };
    let calls = f64::from(calls);
    let busy: f64 = replays.iter().map(|replay| replay.elapsed.secs()).sum();
    let took = device.now().saturating_sub(begin).as_secs_f64() - busy;
    let clocks: Vec<_> = replays.iter().filter_map(|replay| replay.clock).collect();
    let chained = median(replays.iter().map(|replay| replay.elapsed.secs()).collect());
    let chained = chained.filter(|time| *time > 0.0 && time.is_finite());
    let chained = chained.ok_or_else(|| Error::infeasible("the device reported no time"))?;
    Ok(Timed {
        set_up: Duration::try_from_secs_f64(took).unwrap_or_default(),
        alone,
        chained: Seconds::from_secs(chained) / calls,
        clocked: clocks.len() as f64 / replays.len() as f64,
        clock: median(clocks.into_iter().map(Hertz::hertz).collect()).map(Hertz::from_hertz),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::scripted::{Script, Scripted};

    #[test]
    fn a_probe_answers_what_it_can_and_says_why_not_else() {
        let probe = probe(&mut Scripted::new(Script::default())).unwrap();
        assert_eq!(probe.timed.len(), cases().len());
        for (case, outcome) in &probe.timed {
            let runs = [Some(Dtype::Bf16), Some(Dtype::Fp32)].contains(&case.op.dtype());
            assert_eq!(outcome.is_ok(), runs, "{case:?}: {outcome:?}");
            let truth = Scripted::new(Script::default()).truth(case);
            if let Ok(timed) = outcome {
                assert!((timed.chained / truth - 1.0).abs() < 0.02, "{case:?}");
                assert_eq!(timed.clocked, 1.0);
            }
        }
        assert!(probe.spent > SOAK && probe.spent < ENOUGH);
        let dies = Script {
            dies: Some(3),
            ..Script::default()
        };
        let probe = super::probe(&mut Scripted::new(dies)).unwrap();
        assert!(probe.lost.is_some());
        assert_eq!(probe.timed.iter().filter(|(_, at)| at.is_ok()).count(), 3);
    }
}
