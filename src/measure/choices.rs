//! Asking a library which algorithm it puts first for many GEMMs, without running any: threads with a handle each.

use super::device::Device;
use super::journal::Existing;
use super::run::Ended;
use crate::dataset::choices::{Asked, Choice, read_choices, write_choices};
use crate::dataset::{Kernel, Skipped};
use crate::error::{Error, Result};
use crate::measure::plan::sobol::log_between;
use crate::ops::{Dtype, Gemm, Layout};
use crate::random::Random;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Answers the kernel of a GEMM, on the thread that opened it.
pub type Chooser = Box<dyn FnMut(&Gemm) -> Result<Kernel>>;

/// Opens a chooser on the calling thread.
pub type OpenChooser = Box<dyn Fn() -> Result<Chooser> + Send + Sync>;

/// Most threads: more only wait for the library's locks.
const MOST_THREADS: usize = 8;

/// Shapes that a thread asks about between two looks at the clock and the watcher.
const PART: u64 = 256;

/// Their answers, or the reason for the lack of one.
type Part = Vec<std::result::Result<Choice, String>>;

/// Time between two writes of the file.
const WRITTEN_EVERY: Duration = Duration::from_secs(30);

/// Largest dimension.
const LARGEST: f64 = 131_072.0;

/// What to ask, and the file for it.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// The Parquet file.
    pub out: &'a Path,
    /// What to do with a file that exists.
    pub existing: Existing,
    /// Shapes to ask about in all, those of earlier runs included.
    pub shapes: u64,
    /// Time that this run may take.
    pub budget: Option<Duration>,
    /// Threads; one a processor but one where none are given.
    pub threads: Option<usize>,
    /// Seed of the shapes.
    pub seed: u64,
}

/// Result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Description of the table.
    pub asked: Asked,
    /// Answers in the file.
    pub answers: usize,
    /// Shapes of this run.
    pub added: u64,
    /// Shapes without an answer, by reason.
    pub skipped: Skipped,
    /// Threads that asked.
    pub threads: usize,
    /// Time of the questions.
    pub spent: Duration,
    /// Why it ended.
    pub ended: Ended,
}

/// The shape with this number: six tenths bf16, three fp8, one fp16; half layers of transformers, a third log-uniform, the
/// rest near powers of two times an odd number.
pub fn shape(seed: u64, number: u64) -> Gemm {
    let mut random = Random::new(seed, &format!("choice {number}"));
    let dtype = match random.below(10) {
        0..6 => Dtype::Bf16,
        6..9 => Dtype::Fp8,
        _ => Dtype::Fp16,
    };
    let layout = match dtype {
        Dtype::Fp8 => Layout::Tn,
        _ => random.pick(&[Layout::Tn, Layout::Nn, Layout::Nt]),
    };
    let unit = match dtype {
        Dtype::Fp8 => 16,
        _ => random.pick(&[1, 8, 64]),
    };
    let size = |at: f64, unit: u64| {
        let exact = log_between((1.0, LARGEST), at);
        ((exact / unit as f64).round().max(1.0)) as u64 * unit
    };
    let sizes = match random.below(6) {
        0..3 => {
            let hidden = 64 * (8 + random.below(184) as u64);
            let ranks = random.pick(&[1, 1, 2, 4, 8]);
            let wide = random.pick(&[
                hidden,
                3 * hidden,
                4 * hidden,
                (8 * hidden / 3).next_multiple_of(64),
                7 * hidden / 2,
            ]);
            let (out, input) = random.pick(&[(wide / ranks, hidden), (hidden, wide / ranks)]);
            let tokens = log_between((1.0, 32_768.0), random.uniform()).round() as u64;
            let tokens = tokens.next_multiple_of(random.pick(&[1, 1, 8, 128]));
            match layout {
                Layout::Nn => [tokens, input, out],
                Layout::Nt => [out, input, tokens],
                _ => [tokens, out, input],
            }
        }
        3..5 => [
            size(random.uniform(), 1),
            size(random.uniform(), unit),
            size(random.uniform(), unit),
        ],
        _ => {
            let mut near = || {
                let class = 1 << random.below(8);
                let base = log_between((256.0, 16_384.0), random.uniform()) as u64;
                ((base / class) | 1) * class
            };
            [near(), near(), near()]
        }
    };
    // fp8 takes multiples of 16 alone.
    let [m, n, k] = match dtype {
        Dtype::Fp8 => [sizes[0], sizes[1].next_multiple_of(16), sizes[2].next_multiple_of(16)],
        _ => sizes,
    };
    Gemm {
        layout,
        dtype,
        ..Gemm::new(m.max(1), n.max(1), k.max(1))
    }
}

/// Asks, and writes the file at the end and now and then before it.
pub fn choices(
    device: &dyn Device,
    options: &Options<'_>,
    watch: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Outcome> {
    let open = device.chooser()?;
    let identity = device.identity();
    let mut asked = Asked {
        gpu: identity.gpu.clone(),
        stack: identity.stack.clone(),
        libraries: identity.libraries.clone(),
        seed: options.seed,
        asked: 0,
    };
    let mut answers = Vec::new();
    if options.out.exists() && options.existing == Existing::Resume {
        let (earlier, known) = read_choices(options.out)?;
        asked.asked = earlier.asked;
        if earlier != asked {
            let allowed = "the GPU, libraries and --seed of this run, or --force to begin anew";
            let held = format!("of {} with {}, seed {}", earlier.gpu, earlier.stack, earlier.seed);
            return Err(Error::field(options.out.display(), "run", held, allowed));
        }
        answers = known;
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = options.threads.unwrap_or((cores - 1).clamp(1, MOST_THREADS));
    let (begin, before) = (Instant::now(), asked.asked);
    let (mut written, mut skipped, mut ended) = (begin, Skipped::default(), Ended::Complete);
    let parts = options.shapes.saturating_sub(before).div_ceil(PART);
    let (next, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let shapes_of = |part: u64| {
        let first = before + part * PART;
        first..(first + PART).min(options.shapes)
    };
    let work = |results: &mpsc::Sender<Result<(u64, Part)>>| -> Result<()> {
        let mut choose = open()?;
        while !is_over.load(Ordering::Relaxed) {
            let part = next.fetch_add(1, Ordering::Relaxed);
            if part >= parts {
                break;
            }
            let answers = shapes_of(part).map(|number| {
                let gemm = shape(options.seed, number);
                let kernel = choose(&gemm).map_err(|error| error.to_string().replace('\n', " "));
                kernel.map(|kernel| Choice { gemm, kernel })
            });
            let answers = answers.collect();
            if results.send(Ok((part, answers))).is_err() {
                break;
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| -> Result<()> {
        let (send, receive) = mpsc::channel();
        for _ in 0..threads {
            let (send, work) = (send.clone(), &work);
            scope.spawn(move || {
                if let Err(error) = work(&send) {
                    let _ = send.send(Err(error));
                }
            });
        }
        drop(send);
        // Parts come in any order, and the file holds a beginning of them.
        let (mut waiting, mut taken) = (BTreeMap::<u64, Part>::new(), 0);
        'received: for result in receive {
            let (part, found) = result.inspect_err(|_| is_over.store(true, Ordering::Relaxed))?;
            waiting.insert(part, found);
            while let Some(found) = waiting.remove(&taken) {
                for answer in found {
                    match answer {
                        Ok(choice) => answers.push(choice),
                        Err(reason) => skipped.add(&reason, 1),
                    }
                }
                asked.asked = shapes_of(taken).end;
                taken += 1;
                // After every part: many may have waited for a slow one.
                if watch(asked.asked).is_break() {
                    ended = Ended::Interrupted;
                } else if options.budget.is_some_and(|budget| begin.elapsed() >= budget) {
                    ended = Ended::Budget;
                }
                if ended != Ended::Complete {
                    is_over.store(true, Ordering::Relaxed);
                    break 'received;
                }
            }
            if written.elapsed() > WRITTEN_EVERY && !answers.is_empty() {
                write_choices(options.out, &answers, &asked)?;
                written = Instant::now();
            }
        }
        Ok(())
    })?;
    let spent = begin.elapsed();
    if answers.is_empty() {
        return Err(Error::infeasible(format!(
            "the library chose no kernel, so {} is not written ({skipped})",
            options.out.display()
        )));
    }
    write_choices(options.out, &answers, &asked)?;
    Ok(Outcome {
        answers: answers.len(),
        added: asked.asked - before,
        asked,
        skipped,
        threads,
        spent,
        ended,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::scripted::{Script, Scripted};

    fn asked(out: &Path, existing: Existing, shapes: u64, most: u64) -> Result<Outcome> {
        let options = Options {
            out,
            existing,
            shapes,
            budget: None,
            threads: Some(3),
            seed: 5,
        };
        let mut watch = |asked: u64| match asked >= most {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        choices(&Scripted::new(Script::h200()), &options, &mut watch)
    }

    #[test]
    fn an_interrupted_run_is_a_whole_file_that_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let (whole, cut) = (folder.path().join("whole.parquet"), folder.path().join("cut.parquet"));
        let all = asked(&whole, Existing::Refuse, 5000, u64::MAX).unwrap();
        assert_eq!((all.ended, all.asked.asked, all.added), (Ended::Complete, 5000, 5000));
        let first = asked(&cut, Existing::Refuse, 5000, 1000).unwrap();
        assert_eq!(first.ended, Ended::Interrupted);
        assert_eq!(
            first.asked.asked, 1024,
            "the part in which the watcher ended it is the last"
        );
        let (about, begun) = read_choices(&cut).unwrap();
        assert_eq!((about, begun.len()), (first.asked.clone(), first.answers));
        let rest = asked(&cut, Existing::Resume, 5000, u64::MAX).unwrap();
        assert_eq!(rest.added, 5000 - first.asked.asked);
        // Threads do not change the order.
        assert_eq!(read_choices(&cut).unwrap(), read_choices(&whole).unwrap());
        let again = asked(&cut, Existing::Resume, 5000, u64::MAX).unwrap();
        assert_eq!((again.added, again.answers), (0, all.answers));
    }

    #[test]
    fn shapes_are_of_the_shares_that_are_told_and_a_million_is_a_small_file() {
        let shapes: Vec<Gemm> = (0..20_000).map(|number| shape(0, number)).collect();
        let share = |holds: &dyn Fn(&Gemm) -> bool| {
            shapes.iter().filter(|gemm| holds(gemm)).count() as f64 / shapes.len() as f64
        };
        for (dtype, wanted) in [(Dtype::Bf16, 0.6), (Dtype::Fp8, 0.3), (Dtype::Fp16, 0.1)] {
            assert!((share(&|gemm| gemm.dtype == dtype) - wanted).abs() < 0.02);
        }
        let of_bf16 = |layout| share(&|gemm| gemm.dtype == Dtype::Bf16 && gemm.layout == layout);
        for layout in [Layout::Tn, Layout::Nn, Layout::Nt] {
            assert!((of_bf16(layout) - 0.2).abs() < 0.02);
        }
        let eight = |gemm: &Gemm| gemm.dtype == Dtype::Fp8;
        assert_eq!(share(&|gemm| eight(gemm) && (gemm.n % 16 > 0 || gemm.k % 16 > 0)), 0.0);
        let distinct: std::collections::HashSet<&Gemm> = shapes.iter().collect();
        assert!(distinct.len() * 100 > shapes.len() * 95, "{}", distinct.len());
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("many.parquet");
        let outcome = asked(&out, Existing::Refuse, 20_000, u64::MAX).unwrap();
        let bytes = std::fs::metadata(&out).unwrap().len() as f64 / outcome.answers as f64;
        assert!(bytes < 16.0, "{bytes} bytes an answer");
    }
}
