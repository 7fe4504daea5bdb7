//! A scripted device: times from a script, on a clock of its own, to test runs.
//!
//! Its rows carry the GPU name [`SCRIPTED`], which no model is trained on.

use crate::arch::{Architecture, Workload, lower};
use crate::dataset::{Kernel, SCRIPTED};
use crate::error::{Error, Result};
use crate::measure::choices::OpenChooser;
use crate::measure::device::{
    Chain, Checked, Checks, ClockReasons, Device, DriverInfo, Identity, Replay, Sensors, Step, canonical,
};
use crate::measure::path::{KernelPath, Refusals};
use crate::named_enum;
use crate::ops::{Attention, Dtype, Gemm, Layout, Memory, MemoryKind, Op, Pass};
use crate::random::{Random, fnv1a};
use crate::units::{Bytes, BytesPerSecond, FlopsPerSecond, Hertz, Seconds};
use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

/// The device of a script such as `seed=4,fail=2`.
pub fn device(script: &str) -> Option<Result<Box<dyn Device>>> {
    let opened = |script| Ok(Box::new(Scripted::new(script)) as Box<dyn Device>);
    Some(Script::parse(script).and_then(opened))
}

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
    /// Number of the case that the device is lost with, counted like those that fail.
    pub dies: Option<u64>,
    /// Number of paths with wrong results, the last of those that are checked.
    pub wrong: usize,
    /// Supported formats.
    pub dtypes: Vec<Dtype>,
    /// Whether fused attention is supported.
    pub attention: bool,
    /// Device time to set up a case.
    pub set_up: Duration,
    /// Device time of every trial and replay beyond its calls: flush of the cache, hold of the
    /// stream, launch, reading back.
    pub launch: Duration,
    /// Device time to compile the plan of an attention, which libraries do for each shape.
    pub compile: Duration,
    /// Workers that compile in the background; without any, opening a case compiles.
    pub workers: usize,
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
            dies: None,
            wrong: 0,
            dtypes: vec![Dtype::Bf16, Dtype::Fp32],
            attention: true,
            set_up: Duration::from_micros(1500),
            launch: Duration::ZERO,
            compile: Duration::ZERO,
            workers: 0,
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
const KEYS: &str = "seed=N, spread=FRACTION, drift_per_hour=FRACTION, sleep_us=N, set_up_us=N, launch_us=N, \
     compile_us=N, workers=0..64, fail=N, dies=N, wrong=N, noise=normal|lognormal|bimodal, stack=NAME";

impl Script {
    /// What one H200 with 16 processor cores is expected to cost: 1 ms to set a case up besides a first
    /// call (heuristic, capture of up to 64 nodes), 0.18 ms a trial or replay (flush 0.06, hold 0.06,
    /// launch and reading back 0.06), 0.8 s to compile a plan of attention, 12 workers.
    pub fn h200() -> Self {
        Self {
            dtypes: vec![Dtype::Bf16, Dtype::Fp16, Dtype::Fp8, Dtype::Fp32, Dtype::Tf32],
            set_up: Duration::from_micros(1000),
            launch: Duration::from_micros(180),
            compile: Duration::from_millis(800),
            workers: 12,
            floor: Seconds::from_micros(2.0),
            rate: FlopsPerSecond::from_flops_per_sec(7e14),
            bandwidth: BytesPerSecond::from_bytes_per_sec(4e12),
            ..Self::default()
        }
    }

    /// Parses `KEY=VALUE,KEY=VALUE`; the empty text is the default script.
    pub fn parse(text: &str) -> Result<Self> {
        let mut script = Self::default();
        for option in text.split(',').filter(|option| !option.is_empty()) {
            let refuse = || Error::field("--device scripted", "option", format!("`{option}`"), KEYS);
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
                "launch_us" => script.launch = Duration::from_micros(whole()?),
                "compile_us" => script.compile = Duration::from_micros(whole()?),
                "workers" => {
                    let workers = usize::try_from(whole()?).ok();
                    script.workers = workers.filter(|&n| n <= 64).ok_or_else(refuse)?;
                }
                "fail" => script.failing.push(whole()?),
                "dies" => script.dies = Some(whole()?),
                "wrong" => script.wrong = whole()? as usize,
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
    /// When the plan of each attention is or was compiled.
    compiled: HashMap<Attention, Duration>,
    /// When each worker has nothing left to compile.
    free: Vec<Duration>,
    refusals: Refusals,
}

impl Scripted {
    /// A device whose clock is at zero.
    pub fn new(script: Script) -> Self {
        Self {
            identity: Identity {
                gpu: SCRIPTED.to_owned(),
                stack: script.stack.clone(),
                libraries: "none".to_owned(),
                files: Vec::new(),
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
            refusals: Refusals::default(),
            random: Random::new(script.seed, "scripted device"),
            compiled: HashMap::new(),
            free: vec![Duration::ZERO; script.workers],
            script,
        }
    }

    /// The time of one call without noise.
    pub fn truth(&self, op: &Op) -> Seconds {
        let script = &self.script;
        let wide = op.dtype().map_or(1.0, |dtype| dtype.size() as f64 / 2.0);
        let arithmetic = op.flops() / (script.rate * (1.0 / wide));
        let traffic = op.bytes() / script.bandwidth;
        // Every shape is up to 10 % off the roofline.
        let shape = fnv1a(canonical(op).as_bytes());
        let offset = 1.0 + 0.1 * Random::new(shape, "offset").uniform();
        script.floor + arithmetic.max(traffic) * offset
    }

    /// One operator of each path in these formats, the first format of the script last.
    fn checked(&self, formats: &[Dtype]) -> Vec<Op> {
        let mut ops = Vec::new();
        for &dtype in self.script.dtypes.iter().rev() {
            if !formats.contains(&dtype) {
                continue;
            }
            ops.extend(Layout::ALL.map(|layout| {
                Op::Gemm(Gemm {
                    layout,
                    dtype,
                    ..Gemm::new(33, 65, 17)
                })
            }));
            ops.extend(Pass::ALL.map(|pass| {
                Op::Attention(Attention {
                    pass,
                    dtype,
                    ..Attention::new(1, 4, 128, 64)
                })
            }));
            let kinds = [MemoryKind::Copy, MemoryKind::Add, MemoryKind::Softmax];
            ops.extend(kinds.map(|kind| {
                Op::Memory(Memory {
                    kind,
                    rows: 7,
                    cols: 129,
                    pass: Pass::Forward,
                    dtype,
                })
            }));
        }
        ops
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
        let slow = if self.is_throttled() { 1.0 / THROTTLED } else { 1.0 };
        truth * (noise.max(0.1) * drift * slow)
    }

    fn pass(&mut self, time: Seconds) {
        self.now += Duration::try_from_secs_f64(time.secs()).unwrap_or_default();
    }
}

const CLOCK: Hertz = Hertz::from_hertz(1.5e9);

/// Share of the clock while the device is throttled.
const THROTTLED: f64 = 0.7;

/// The plan that an operator compiles, if it is attention.
fn plan_of(op: &Op) -> Option<Attention> {
    match *op {
        Op::Attention(op) => Some(op),
        _ => None,
    }
}

/// The kernel of the made-up heuristic.
fn made_up(gemm: &Gemm) -> Kernel {
    const TILES: [(u32, u32); 4] = [(256, 128), (128, 128), (64, 128), (64, 64)];
    let blocks = |(rows, cols): (u32, u32)| gemm.batch * gemm.m.div_ceil(rows.into()) * gemm.n.div_ceil(cols.into());
    let place = TILES.iter().position(|&tile| blocks(tile) >= 100);
    let place = place.unwrap_or(TILES.len() - 1);
    let missing = 100 / blocks(TILES[place]).max(1);
    let split = missing.clamp(1, gemm.k.div_ceil(512).min(16)) as u32;
    Kernel {
        name: Some(format!("algorithm {}", 60 + place)),
        tile: Some(TILES[place]),
        stages: Some(3 + u32::from(gemm.k >= 1024)),
        split_k: Some(split),
        cluster: Some((1 + u32::from(gemm.m >= 512), 1)),
        waves: None,
        workspace_bytes: Some(if split > 1 { 4 * gemm.m * gemm.n } else { 0 }),
    }
}

/// Largest size of a case's operands.
const MOST: Bytes = Bytes::from_bytes(8.0 * 1024.0 * 1024.0 * 1024.0);

impl Device for Scripted {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn refuses(&self, op: &Op) -> Option<String> {
        let Some(dtype) = op.dtype() else {
            return Some("collectives need several devices".to_owned());
        };
        if !self.script.dtypes.contains(&dtype) {
            return Some(format!("{} does not run here", dtype.name()));
        }
        if !self.script.attention && matches!(op, Op::Attention(_)) {
            return Some("there is no fused attention here".to_owned());
        }
        if let Some(reason) = self.refusals.reason(op) {
            return Some(reason);
        }
        (op.bytes() > MOST).then(|| "the operands do not fit".to_owned())
    }

    fn open(&mut self, op: &Op) -> Result<Box<dyn Chain + '_>> {
        std::thread::sleep(self.script.sleep);
        self.now += self.script.set_up;
        if let Some(plan) = plan_of(op) {
            let in_line = self.now + self.script.compile;
            let compiled = *self.compiled.entry(plan).or_insert(in_line);
            self.now = self.now.max(compiled);
        }
        let number = self.opened;
        self.opened += 1;
        if let Some(lost) = self.lost() {
            return Err(Error::infeasible(lost));
        }
        if self.script.failing.contains(&number) {
            return Err(Error::infeasible(format!("the script lets case {number} fail")));
        }
        let truth = self.truth(op);
        // The first call, which no event times.
        self.pass(truth);
        let kernel = matches!(op, Op::Gemm(_)).then(|| Kernel {
            name: Some("algorithm 0".to_owned()),
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

    /// The sum of the operators that the step consists of.
    fn open_step(&mut self, architecture: &Architecture, workload: &Workload) -> Result<Box<Step<'_>>> {
        let items = lower(architecture, workload)?.items;
        if let Some(reason) = items.iter().find_map(|item| self.refuses(&item.op)) {
            return Err(Error::infeasible(reason));
        }
        let truth = items.iter().map(|item| self.truth(&item.op) * item.count as f64);
        let truth: Seconds = truth.sum();
        self.now += self.script.set_up * items.len() as u32;
        Ok(Box::new(move || {
            let time = self.sample(truth);
            self.pass(time);
            Ok(time)
        }))
    }

    /// A made-up heuristic: the largest tile of a list that leaves a block for each processor, split along `k` where none does.
    fn chooser(&self) -> Result<OpenChooser> {
        let dtypes = self.script.dtypes.clone();
        Ok(Box::new(move || {
            let dtypes = dtypes.clone();
            Ok(Box::new(move |gemm: &Gemm| {
                if !dtypes.contains(&gemm.dtype) {
                    let reason = format!("{} does not run here", gemm.dtype);
                    return Err(Error::infeasible(reason));
                }
                Ok(made_up(gemm))
            }))
        }))
    }

    fn check(&mut self, formats: &[Dtype]) -> Result<Checks> {
        let ops = self.checked(formats);
        let right = ops.len().saturating_sub(self.script.wrong);
        let compare = |(number, op): (usize, Op)| Checked {
            path: KernelPath::of(&op),
            name: op.to_string(),
            error: if number < right { 1e-3 } else { 0.5 },
            allowed: 1e-2,
        };
        Ok(Checks {
            compared: ops.into_iter().enumerate().map(compare).collect(),
            not_run: Vec::new(),
        })
    }

    fn refuse(&mut self, path: KernelPath, reason: String) {
        self.refusals.add(path, reason);
    }

    fn lost(&mut self) -> Option<String> {
        let dies = self.script.dies.filter(|dies| self.opened > *dies);
        dies.map(|number| format!("the script lets the device die with case {number}"))
    }

    fn soak(&mut self, duration: Duration) -> Result<()> {
        self.now += duration;
        Ok(())
    }

    fn look_ahead(&mut self, ops: &mut dyn Iterator<Item = &Op>) {
        for plan in ops.filter_map(plan_of) {
            let Some(worker) = self.free.iter_mut().min() else {
                return;
            };
            self.compiled.entry(plan).or_insert_with(|| {
                *worker = self.now.max(*worker) + self.script.compile;
                *worker
            });
        }
    }

    fn is_ready(&self, op: &Op) -> bool {
        let compiled = plan_of(op).and_then(|plan| self.compiled.get(&plan));
        self.free.is_empty() || compiled.is_none_or(|&at| at <= self.now)
    }

    fn now(&self) -> Duration {
        self.now
    }

    fn sensors(&self) -> Sensors {
        Sensors {
            power_watts: Some(400.0),
            temperature_celsius: Some(55.0),
            // The cap on power while it is throttled.
            clock_reasons: Some(ClockReasons(u64::from(self.is_throttled()) << 2)),
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
        self.device.now += self.device.script.launch;
        Ok(time)
    }

    fn record(&mut self, calls: u32) -> Result<()> {
        self.calls = calls;
        Ok(())
    }

    fn replay(&mut self) -> Result<Replay> {
        let elapsed = self.device.sample(self.truth) * f64::from(self.calls);
        let share = if self.device.is_throttled() { THROTTLED } else { 1.0 };
        self.device.pass(elapsed);
        self.device.now += self.device.script.launch;
        Ok(Replay {
            elapsed,
            clock: Some(CLOCK * share),
        })
    }

    fn kernel(&self) -> Option<Kernel> {
        self.kernel.clone()
    }
}
