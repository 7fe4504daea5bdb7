//! A device that exists on paper: times from a script, on a clock of its own, to rehearse and to test a run.
//!
//! Its rows carry the GPU name [`REHEARSAL`], which no model is trained on, so they cannot be taken for a measurement.

use super::device::{Case, Chain, Checked, Device, Facts, Identity, Replay, Sensors};
use crate::dataset::Kernel;
use crate::dataset::REHEARSAL;
use crate::error::Error;
use crate::error::Result;
use crate::ops::Dtype;
use crate::ops::Op;
use crate::random::{Random, fnv1a};
use crate::units::Bytes;
use crate::units::BytesPerSecond;
use crate::units::FlopsPerSecond;
use crate::units::Hertz;
use crate::units::Seconds;
use std::ops::Range;
use std::time::Duration;

/// How the times of replays scatter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noise {
    /// Around the true time.
    Normal,
    /// With a tail to long times.
    Lognormal,
    /// In two modes, a third of the replays in the upper one.
    Bimodal,
}

/// What the device does.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// Seed of the noise.
    pub seed: u64,
    /// Its shape.
    pub noise: Noise,
    /// Its relative size.
    pub spread: f64,
    /// Growth of all times per hour of the device's clock, relative.
    pub drift_per_hour: f64,
    /// While the clock of the device is in here, it runs at 70 % of its frequency.
    pub throttled: Option<Range<Duration>>,
    /// Cases, counted as they are set up from 0, that fail.
    pub failing: Vec<u64>,
    /// Whether one kernel gives wrong results.
    pub wrong: bool,
    /// Formats of products, attention and kernels.
    pub dtypes: Vec<Dtype>,
    /// Whether there is fused attention.
    pub attention: bool,
    /// Algorithms per product.
    pub ranks: u32,
    /// Device time to set up a case.
    pub set_up: Duration,
    /// The same for attention, which libraries compile for each shape.
    pub attention_set_up: Duration,
    /// Real time that setting up a case takes, for tests that interrupt a run.
    pub sleep: Duration,
    /// Time of an empty call.
    pub floor: Seconds,
    /// Rate of products in 16 bits; others follow from the size of an element.
    pub rate: FlopsPerSecond,
    /// Bandwidth of the memory.
    pub bandwidth: BytesPerSecond,
    /// Another stack than usual.
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
            rate: FlopsPerSecond::from_flops_per_sec(4e14),
            bandwidth: BytesPerSecond::from_bytes_per_sec(3e12),
            stack: "rehearsal 1".to_owned(),
        }
    }
}

/// The options of `--device scripted:KEY=VALUE,…`.
const KEYS: &str = "seed=N, spread=FRACTION, drift_per_hour=FRACTION, sleep_us=N, set_up_us=N, fail=N, \
     wrong=true, noise=normal|lognormal|bimodal, stack=NAME";

impl Script {
    /// Reads `KEY=VALUE,KEY=VALUE`; nothing changes where the text is empty.
    pub fn parse(text: &str) -> Result<Self> {
        let mut script = Self::default();
        for option in text.split(',').filter(|option| !option.is_empty()) {
            let refuse =
                || Error::field("--device scripted", "option", format!("`{option}`"), KEYS);
            let (key, value) = option.split_once('=').ok_or_else(refuse)?;
            let whole = || value.parse::<u64>().map_err(|_| refuse());
            let real = || {
                let number = value.parse::<f64>().map_err(|_| refuse())?;
                if number.is_finite() {
                    Ok(number)
                } else {
                    Err(refuse())
                }
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
                "noise" => {
                    script.noise = match value {
                        "normal" => Noise::Normal,
                        "lognormal" => Noise::Lognormal,
                        "bimodal" => Noise::Bimodal,
                        _ => return Err(refuse()),
                    }
                }
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
    /// A device whose clock stands at zero.
    pub fn new(script: Script) -> Self {
        Self {
            identity: Identity {
                gpu: REHEARSAL.to_owned(),
                stack: script.stack.clone(),
                libraries: "none".to_owned(),
                facts: Facts {
                    title: "a script, no device".to_owned(),
                    processors: Some(100),
                    clock: Some(CLOCK),
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
        // Every algorithm after the first is a little slower, every shape a little off the roofline.
        let rank = 1.0 + 0.07 * f64::from(case.rank);
        let text = format!("{:?}", case.op);
        let quirk = 1.0 + 0.1 * Random::new(fnv1a(text.as_bytes()), "quirk").uniform();
        script.floor + arithmetic.max(traffic) * (rank * quirk)
    }

    fn is_throttled(&self) -> bool {
        let throttled = self.script.throttled.as_ref();
        throttled.is_some_and(|times| times.contains(&self.now))
    }

    /// One call as it turns out now.
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

/// Share of the clock that is left while the device is throttled.
const THROTTLED: f64 = 0.7;

/// Most bytes that a case may hold.
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
