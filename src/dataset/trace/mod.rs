//! Traces of `torch.profiler` and Nsight Systems: the operators of a job of one's own, with the time of the kernels that
//! each call launched, and its steps.
//!
//! A kernel belongs to the operator whose time on the thread encloses the launch. Calls of equal operators become one row:
//! the median of their times.

mod chrome;
mod event;
mod objects;
mod operators;

pub(super) use self::event::Details;
use self::operators::Mapped;
use super::alarms::objection;
use super::formats::nsys;
use super::import::Filter;
use super::schema;
use super::{Origin, Row, Skipped, Table};
use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::named_enum;
use crate::ops::Op;
use crate::stats::{median, quantile};
use crate::units::Seconds;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// The stack of rows, where no other is named.
const STACK: &str = "pytorch";

/// Calls of an operator from which on a row has their spread.
const SPREAD_FROM: usize = 5;

named_enum! {
    /// What recorded a trace.
    Recorder {
        /// A file of `export_chrome_trace` or `tensorboard_trace_handler`, packed by gzip or not.
        TorchProfiler = "torch-profiler",
        /// A file of `nsys export --type sqlite`.
        Nsys = "nsys",
    }
}

/// What a recorder calls things, for messages and rows.
struct Words {
    source: &'static str,
    /// Where the GPU is named.
    device: &'static str,
    /// How a trace is recorded that has kernels, and steps or shapes.
    kernels: &'static str,
    shapes: &'static str,
}

impl Recorder {
    const fn words(self) -> Words {
        match self {
            Self::TorchProfiler => Words {
                source: "torch.profiler",
                device: "deviceProperties",
                kernels: "with ProfilerActivity.CUDA among its activities",
                shapes: "with record_shapes=True, or with a call of step() after each step",
            },
            Self::Nsys => Words {
                source: "Nsight Systems",
                device: "TARGET_INFO_GPU",
                kernels: "with --trace=cuda,nvtx",
                shapes: "with --pytorch=autograd-shapes-nvtx, or with ranges named step or iteration",
            },
        }
    }
}

/// What a trace holds.
pub struct Trace {
    /// Our name of the GPU.
    pub gpu: &'static Gpu,
    /// The software, as rows name it.
    pub stack: String,
    /// A row an operator, and what was left out.
    pub table: Table,
    /// Times of its steps above 0, in order.
    pub steps: Vec<Seconds>,
}

impl Trace {
    /// The median step; `None` if the trace has none.
    pub fn median_step(&self) -> Option<Seconds> {
        median(self.steps.iter().map(|step| step.secs()).collect()).map(Seconds::from_secs)
    }
}

/// Where on the host something happened: thread, and microseconds.
pub(super) type Place = ((u64, u64), f64);

/// A call of an operator that may be one of ours.
struct Call {
    begin: Place,
    end: f64,
    name: usize,
    mapped: std::result::Result<Mapped, &'static str>,
    /// Microseconds of its kernels.
    time: f64,
    /// Name and microseconds of the longest.
    kernel: Option<(usize, f64)>,
}

pub(super) struct Kernel {
    pub launch: Option<i64>,
    pub operator: Option<i64>,
    pub name: usize,
    pub micros: f64,
    /// Number of the GPU that ran it.
    pub gpu: Option<i64>,
}

/// What is kept of the events.
#[derive(Default)]
pub(super) struct Events {
    /// Names of the GPUs by their numbers.
    pub gpus: FxHashMap<i64, String>,
    names: Vec<String>,
    known: FxHashMap<String, usize>,
    calls: Vec<Call>,
    /// Operators by their number, and launches by theirs.
    operators: FxHashMap<i64, (Place, usize)>,
    pub launches: FxHashMap<i64, Place>,
    pub kernels: Vec<Kernel>,
    /// Steps of the profiler's schedule, and ranges that a program names so.
    steps: Vec<(f64, Seconds)>,
    ranges: Vec<(f64, Seconds)>,
    pub unreadable: u64,
}

/// Reads a trace.
pub fn read_trace(recorder: Recorder, path: &Path, filter: &Filter) -> Result<Trace> {
    let filter = &filter.resolved(|name| Gpu::find(name).map(|gpu| gpu.name.clone()))?;
    let words = recorder.words();
    let mut events = match recorder {
        Recorder::TorchProfiler => chrome::read(path),
        Recorder::Nsys => nsys::read(path),
    }?;
    let lacks = |what: &str, allowed: &str| {
        let place = path.display();
        Error::bad_input(format!(
            "{place}: the trace has {what}; allowed: one that was recorded {allowed}"
        ))
    };
    if events.kernels.is_empty() {
        return Err(lacks("no kernels of a GPU", words.kernels));
    }
    let steps = events.steps();
    if !events.calls.iter().any(|call| call.mapped.is_ok()) && steps.is_empty() {
        return Err(lacks("neither steps nor operators with shapes", words.shapes));
    }
    let device = events.of_one_kind(filter, path)?;
    let gpu = filter.gpu_of(path, words.device, device.as_deref())?;
    let stack = filter.only_stack().unwrap_or(STACK).to_owned();
    if let Some(objection) = filter.objection(&gpu.name, &stack) {
        return Err(Error::bad_input(format!(
            "{}: {objection}; allowed: those of the trace",
            path.display()
        )));
    }
    let origin = Origin {
        source: filter.stated.source.clone().unwrap_or_else(|| words.source.to_owned()),
        licence: filter
            .stated
            .licence
            .clone()
            .unwrap_or_else(|| "LicenseRef-own".to_owned()),
        libraries: None,
    };
    let table = events.table(gpu, &stack, Arc::new(origin));
    Ok(Trace {
        gpu,
        stack,
        table,
        steps,
    })
}

impl Events {
    /// Keeps the range of a step.
    pub fn add_step(&mut self, name: &str, begin: f64, micros: f64) {
        let steps = match name.starts_with("ProfilerStep") {
            true => &mut self.steps,
            false => &mut self.ranges,
        };
        if micros > 0.0 {
            steps.push((begin, Seconds::from_micros(micros)));
        }
    }

    /// Keeps a call, if its operator may be one of ours.
    pub fn add_call(&mut self, name: &str, begin: Place, micros: f64, details: impl FnOnce() -> Details) {
        if let Some(mapping) = operators::mapping(name) {
            let known = self.named(name);
            self.calls.push(Call {
                begin,
                end: begin.1 + micros,
                name: known,
                mapped: mapping.read(&details()),
                time: 0.0,
                kernel: None,
            });
        }
    }

    /// Keeps the kernels of one kind of GPU, and answers its name: of the only one, or of the one that the caller names.
    fn of_one_kind(&mut self, filter: &Filter, path: &Path) -> Result<Option<String>> {
        let Self { kernels, gpus, .. } = self;
        let name = |gpu: Option<i64>| gpus.get(&gpu?);
        let ran: FxHashSet<Option<i64>> = kernels.iter().map(|kernel| kernel.gpu).collect();
        let says = ran.iter().any(Option::is_some);
        let kinds: BTreeSet<Option<&String>> = match says {
            true => ran.into_iter().map(name).collect(),
            false => gpus.values().map(Some).collect(),
        };
        if kinds.len() < 2 {
            return Ok(kinds.into_iter().next().flatten().cloned());
        }
        let is_wanted = |kind: &&String| Gpu::find(kind).is_ok_and(|gpu| filter.only_gpu() == Some(&gpu.name));
        if let Some(wanted) = kinds.iter().copied().flatten().find(is_wanted).filter(|_| says) {
            kernels.retain(|kernel| name(kernel.gpu) == Some(wanted));
            return Ok(Some(wanted.clone()));
        }
        let names = kinds
            .iter()
            .map(|kind| kind.map_or("one without a name", String::as_str));
        Err(Error::bad_input(format!(
            "{}: the trace has several kinds of GPU, {}; allowed: one that was recorded on one kind, or --gpu with the one whose \
             kernels are wanted",
            path.display(),
            names.collect::<Vec<_>>().join(" and ")
        )))
    }

    pub fn named(&mut self, name: &str) -> usize {
        if let Some(&known) = self.known.get(name) {
            return known;
        }
        self.names.push(name.to_owned());
        self.known.insert(name.to_owned(), self.names.len() - 1);
        self.names.len() - 1
    }

    /// Those of the profiler's schedule, else the ranges of the program.
    fn steps(&self) -> Vec<Seconds> {
        let mut steps = match self.steps.is_empty() {
            true => self.ranges.clone(),
            false => self.steps.clone(),
        };
        steps.sort_by(|a, b| a.0.total_cmp(&b.0));
        steps.into_iter().map(|(_, time)| time).collect()
    }

    /// Gives every kernel to its operator, and makes rows of equal ones.
    fn table(mut self, gpu: &Gpu, stack: &str, origin: Arc<Origin>) -> Table {
        let mut skipped = Skipped::default();
        skipped.add("events that are not as their recorder writes them", self.unreadable);
        let later = |a: &Place, b: &Place| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1));
        self.calls.sort_by(|a, b| later(&a.begin, &b.begin));
        for kernel in &self.kernels {
            let operator = kernel.operator.and_then(|operator| self.operators.get(&operator));
            let launch = kernel.launch.and_then(|launch| self.launches.get(&launch)).copied();
            let place = launch.or_else(|| operator.map(|(place, _)| *place));
            let call = place.and_then(|place| {
                let behind = self.calls.partition_point(|call| later(&call.begin, &place).is_le());
                let call = self.calls[..behind].last_mut()?;
                (call.begin.0 == place.0 && place.1 <= call.end).then_some(call)
            });
            match call {
                Some(call) => {
                    call.time += kernel.micros;
                    if call.kernel.is_none_or(|(_, longest)| kernel.micros > longest) {
                        call.kernel = Some((kernel.name, kernel.micros));
                    }
                }
                None => {
                    let what = match operator {
                        Some((_, name)) => format!("kernels of {}", self.names[*name]),
                        None => format!("kernels {}", short(&self.names[kernel.name])),
                    };
                    skipped.add(&what, 1);
                }
            }
        }
        let mut times: FxHashMap<Op, Vec<f64>> = FxHashMap::default();
        for call in self.calls {
            let name = &self.names[call.name];
            let mapped = match call.kernel {
                Some((kernel, _)) => call.mapped.and_then(|mapped| mapped.with_kernel(&self.names[kernel])),
                None => Err("no kernel in the trace"),
            };
            match mapped {
                Ok(op) => times.entry(op).or_default().push(call.time),
                Err(reason) => skipped.add(&format!("{name}: {reason}"), 1),
            }
        }
        let mut times: Vec<_> = times.into_iter().collect();
        times.sort_by_key(|(op, _)| *op);
        let mut table = Table::default();
        for (op, mut times) in times {
            times.sort_by(f64::total_cmp);
            let spread = |share| (times.len() >= SPREAD_FROM).then(|| Seconds::from_micros(quantile(&times, share)));
            let row = Row {
                p10: spread(0.1),
                p90: spread(0.9),
                samples: u32::try_from(times.len()).ok(),
                origin: Arc::clone(&origin),
                ..Row::new(
                    op,
                    gpu.name.as_str(),
                    stack,
                    Seconds::from_micros(median(times.clone()).unwrap_or(0.0)),
                )
            };
            let checked =
                schema::check(&row).map_err(|problem| format!("`{}` is not {}", problem.column, problem.allowed));
            match checked.and_then(|()| objection(&row, gpu).map_or(Ok(()), Err)) {
                Ok(()) => table.rows.push(row),
                Err(reason) => skipped.add(&reason, times.len() as u64),
            }
        }
        table.skipped = skipped;
        table
    }
}

/// Whether this is the range of a step: of the profiler's schedule, or one that a program names `step` or `iteration`.
pub(super) fn is_step(name: &str) -> bool {
    let numbered = |rest: &str| {
        rest.trim_start_matches([' ', '#', '_', ':', '='])
            .bytes()
            .all(|byte| byte.is_ascii_digit())
    };
    let lower = name.to_ascii_lowercase();
    ["profilerstep", "iteration", "step"]
        .iter()
        .any(|word| lower.strip_prefix(word).is_some_and(numbered))
}

/// The name of a kernel without its template arguments and parameters.
fn short(name: &str) -> &str {
    let name = name.strip_prefix("void ").unwrap_or(name);
    let end = name.find(['<', '(']).filter(|end| *end > 0).unwrap_or(name.len());
    &name[..end]
}

impl Filter {
    /// The GPU that a trace names, else the one that the caller does.
    fn gpu_of(&self, path: &Path, place: &str, device: Option<&str>) -> Result<&'static Gpu> {
        if let Some(gpu) = device.and_then(|device| Gpu::find(device).ok()) {
            return Ok(gpu);
        }
        match self.only_gpu() {
            Some(name) => Gpu::find(name),
            None => {
                let found = device.map_or_else(
                    || "missing".to_owned(),
                    |device| format!("`{device}`, which is not in data/gpus"),
                );
                Err(Error::field(
                    path.display(),
                    place,
                    found,
                    "a known GPU, or its name after --gpu",
                ))
            }
        }
    }
}
