//! A scripted device: times from a script, on a clock of its own, to test runs.
//!
//! Its rows carry the GPU name [`SCRIPTED`], which no model is trained on.

use super::device::{Case, Chain, Checked, Device, DriverInfo, Identity, Replay, Sensors};
use crate::dataset::{Kernel, SCRIPTED};
use crate::error::{Error, Result};
use crate::ops::{Dtype, Op};
use crate::random::{Random, fnv1a};
use crate::units::{Bytes, BytesPerSecond, FlopsPerSecond, Hertz, Seconds};
use std::ops::Range;
use std::time::Duration;

named_enum! {
    /// Distribution of the times of replays.
    Noise {
        /// Normal around the true time.
        Normal = "normal",
        /// Lognormal, with a tail to long times.
        Lognormal = "lognormal",
        /// Two modes, with a third of the replays in the upper one.
        Bimodal = "bimodal",
    }
}

/// Behaviour of the device.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// Seed of the noise.
    pub seed: u64,
    /// Distribution of the noise.
    pub noise: Noise,
    /// Relative size of the noise.
    pub spread: f64,
    /// Growth of all times per hour of the device's clock, relative.
    pub drift_per_hour: f64,
    /// Interval of the device's clock in which it is throttled to 70 % of its frequency.
    pub throttled: Option<Range<Duration>>,
    /// Numbers of the cases that fail, counted from 0 as they are set up.
    pub failing: Vec<u64>,
    /// Whether one kernel gives wrong results.
    pub wrong: bool,
    /// Supported formats.
    pub dtypes: Vec<Dtype>,
    /// Whether fused attention is supported.
    pub attention: bool,
    /// Algorithms per GEMM.
    pub ranks: u32,
    /// Device time to set up a case.
    pub set_up: Duration,
    /// Device time to set up attention, which libraries compile for each shape.
    pub attention_set_up: Duration,
    /// Real time that setting up a case takes, for tests that interrupt a run.
    pub sleep: Duration,
    /// Time of an empty call.
    pub floor: Seconds,
    /// Rate of GEMMs in 16 bits; that of other formats is inverse to the size of an element.
    pub rate: FlopsPerSecond,
    /// Bandwidth of the memory.
    pub bandwidth: BytesPerSecond,
    /// Name of the stack.
    pub stack: String,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            seed: 0,
            noise: Noise::Normal,
            spread: 0.003,
            drift_per_hour: 0.0,
            throttled: None,
            failing: Vec::new(),
            wrong: false,
            dtypes: vec![Dtype::Bf16, Dtype::Fp32],
            attention: true,
            ranks: 4,
            set_up: Duration::from_micros(1500),
            attention_set_up: Duration::from_micros(1500),
            sleep: Duration::ZERO,
            floor: Seconds::from_micros(2.5),
            // Probed rates are rounded to powers of two: this one is far from where the rounding
            // turns.
            rate: FlopsPerSecond::from_flops_per_sec(3e14),
            bandwidth: BytesPerSecond::from_bytes_per_sec(3e12),
            stack: "scripted 1".to_owned(),
        }
    }
}

/// The options of `--device scripted:KEY=VALUE,…`.
const KEYS: &str = "seed=N, spread=FRACTION, drift_per_hour=FRACTION, sleep_us=N, set_up_us=N, fail=N, \
     wrong=true, noise=normal|lognormal|bimodal, stack=NAME";

impl Script {
    /// Parses `KEY=VALUE,KEY=VALUE`; the empty text is the default script.
    pub fn parse(text: &str) -> Result<Self> {
        let mut script = Self::default();
        for option in text.split(',').filter(|option| !option.is_empty()) {
            let refuse =
                || Error::field("--device scripted", "option", format!("`{option}`"), KEYS);
            let (key, value) = option.split_once('=').ok_or_else(refuse)?;
            let whole = || value.parse::<u64>().map_err(|_| refuse());
            let real = || {
                let number = value.parse().ok();
                number.filter(|n: &f64| n.is_finite()).ok_or_else(refuse)
            };
            match key {
                "seed" => script.seed = whole()?,
                "spread" => script.spread = real()?,
                "drift_per_hour" => script.drift_per_hour = real()?,
                "sleep_us" => script.sleep = Duration::from_micros(whole()?),
                "set_up_us" => script.set_up = Duration::from_micros(whole()?),
                "fail" => script.failing.push(whole()?),
                "wrong" => script.wrong = value == "true",
                "stack" => script.stack = value.to_owned(),
                "noise" => script.noise = Noise::parse(value).ok_or_else(refuse)?,
                _ => return Err(refuse()),
            }
        }
        Ok(script)
    }
}

/// The device.
#[derive(Debug)]
pub struct Scripted {
    script: Script,
    identity: Identity,
    now: Duration,
    opened: u64,
    random: Random,
}

impl Scripted {
    /// A device whose clock is at zero.
    pub fn new(script: Script) -> Self {
        Self {
            identity: Identity {
                gpu: SCRIPTED.to_owned(),
                stack: script.stack.clone(),
                libraries: "none".to_owned(),
                driver: DriverInfo {
                    title: "a script, no device".to_owned(),
                    processors: Some(100),
                    clock_hz: Some(CLOCK.hertz()),
                    memory_bytes: Some(64.0 * 2f64.powi(30)),
                    cache_bytes: Some(32.0 * 2f64.powi(20)),
                },
            },
            now: Duration::ZERO,
            opened: 0,
            random: Random::new(script.seed, "scripted device"),
            script,
        }
    }

    /// The time of one call without noise.
    pub fn truth(&self, case: &Case) -> Seconds {
        let script = &self.script;
        let wide = case
            .op
            .dtype()
            .map_or(1.0, |dtype| dtype.size() as f64 / 2.0);
        let arithmetic = case.op.flops() / (script.rate * (1.0 / wide));
        let traffic = case.op.bytes() / script.bandwidth;
        // Every algorithm after the first is slower, and every shape up to 10 % off the roofline.
        let rank = 1.0 + 0.07 * f64::from(case.rank);
        let shape = fnv1a(Case::cold(case.op).canonical().as_bytes());
        let offset = 1.0 + 0.1 * Random::new(shape, "offset").uniform();
        script.floor + arithmetic.max(traffic) * (rank * offset)
    }

    fn is_throttled(&self) -> bool {
        let throttled = self.script.throttled.as_ref();
        throttled.is_some_and(|times| times.contains(&self.now))
    }

    /// Draws the time of one call.
    fn sample(&mut self, truth: Seconds) -> Seconds {
        let spread = self.script.spread;
        let noise = match self.script.noise {
            Noise::Normal => 1.0 + spread * self.random.normal(),
            Noise::Lognormal => (1.5 * spread * self.random.normal()).exp(),
            Noise::Bimodal => {
                let upper = self.random.uniform() < 1.0 / 3.0;
                let mode = if upper { 4.0 * spread } else { 0.0 };
                1.0 + mode + 0.5 * spread * self.random.normal()
            }
        };
        let drift = 1.0 + self.script.drift_per_hour * self.now.as_secs_f64() / 3600.0;
        let slow = if self.is_throttled() {
            1.0 / THROTTLED
        } else {
            1.0
        };
        truth * (noise.max(0.1) * drift * slow)
    }

    fn pass(&mut self, time: Seconds) {
        self.now += Duration::try_from_secs_f64(time.secs()).unwrap_or_default();
    }
}

const CLOCK: Hertz = Hertz::from_hertz(1.5e9);

/// Share of the clock while the device is throttled.
const THROTTLED: f64 = 0.7;

/// Largest size of a case's operands.
const MOST: Bytes = Bytes::from_bytes(8.0 * 1024.0 * 1024.0 * 1024.0);

impl Device for Scripted {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn refuses(&self, case: &Case) -> Option<String> {
        let Some(dtype) = case.op.dtype() else {
            return Some("collectives need several devices".to_owned());
        };
        if !self.script.dtypes.contains(&dtype) {
            return Some(format!("{} does not run here", dtype.name()));
        }
        if !self.script.attention && matches!(case.op, Op::Attention(_)) {
            return Some("there is no fused attention here".to_owned());
        }
        if case.rank >= self.script.ranks {
            return Some("the library offers fewer algorithms".to_owned());
        }
        (case.op.bytes() > MOST).then(|| "the operands do not fit".to_owned())
    }

    fn open(&mut self, case: &Case) -> Result<Box<dyn Chain + '_>> {
        std::thread::sleep(self.script.sleep);
        self.now += match case.op {
            Op::Attention(_) => self.script.attention_set_up,
            _ => self.script.set_up,
        };
        let number = self.opened;
        self.opened += 1;
        if self.script.failing.contains(&number) {
            return Err(Error::infeasible(format!(
                "the script lets case {number} fail"
            )));
        }
        let truth = self.truth(case);
        let kernel = matches!(case.op, Op::Gemm(_)).then(|| Kernel {
            name: Some(format!("algorithm {}", case.rank)),
            tile: Some((128, 128)),
            ..Kernel::default()
        });
        Ok(Box::new(ScriptedChain {
            device: self,
            truth,
            calls: 1,
            kernel,
        }))
    }

    fn check(&mut self) -> Result<Vec<Checked>> {
        let path = |path: &str, error| Checked {
            path: path.to_owned(),
            error,
            allowed: 1e-2,
        };
        let error = if self.script.wrong { 0.5 } else { 1e-3 };
        Ok(vec![
            path("gemm tn bf16 33x65x17", 1e-3),
            path("softmax forward bf16 7x129", error),
        ])
    }

    fn soak(&mut self, duration: Duration) -> Result<()> {
        self.now += duration;
        Ok(())
    }

    fn rest(&mut self, duration: Duration) {
        self.now += duration;
    }

    fn now(&self) -> Duration {
        self.now
    }

    fn sensors(&self) -> Sensors {
        Sensors {
            power_watts: Some(400.0),
            temperature_celsius: Some(55.0),
        }
    }
}

struct ScriptedChain<'a> {
    device: &'a mut Scripted,
    truth: Seconds,
    calls: u32,
    kernel: Option<Kernel>,
}

impl Chain for ScriptedChain<'_> {
    fn trial(&mut self) -> Result<Seconds> {
        let time = self.device.sample(self.truth);
        self.device.pass(time);
        Ok(time)
    }

    fn record(&mut self, calls: u32) -> Result<()> {
        self.calls = calls;
        Ok(())
    }

    fn replay(&mut self) -> Result<Replay> {
        let elapsed = self.device.sample(self.truth) * f64::from(self.calls);
        let share = if self.device.is_throttled() {
            THROTTLED
        } else {
            1.0
        };
        self.device.pass(elapsed);
        Ok(Replay {
            elapsed,
            clock: Some(CLOCK * share),
        })
    }

    fn kernel(&self) -> Option<Kernel> {
        self.kernel.clone()
    }
}
