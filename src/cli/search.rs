//! `shapewise search`: the fastest architecture for a number of parameters, or what an existing model loses.

use crate::answer::search::{search, serving};
use crate::answer::{predictors, question};
use crate::cli::args::{PruneArgs, Search, SearchArgs, View};
use crate::cli::output::{ReplaceArgs, draw, write, write_all};
use crate::cli::target::{answer_to, answering};
use crate::cli::{Answer, DONE, FAILED, note, progress_bar, render, say};
use crate::error::{Error, Result, read_text};
use crate::gpu::GpuCatalog;
use crate::prune::Score;
use crate::report::Report;
use crate::report::search::shard::ShardReport;
use crate::request::{ArchitectureRequest, PruneRequest, SearchRequest, TargetRequest};
use crate::search::{Progress, Request, Seen, look};
use serde_json::Value;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Shells know a program that a signal ended by this and the signal's number.
const ENDED_BY_SIGNAL: usize = 128;

pub(super) fn run(args: &Search, view: View) -> Result<Answer> {
    match args {
        Search::Shapes(args) => shapes(args, view),
        Search::From(args) => prune(args, view).map(Answer::from),
    }
}

/// What an existing model loses.
fn prune(args: &PruneArgs, view: View) -> Result<String> {
    let PruneArgs { subject, scores, .. } = args;
    let request = PruneRequest {
        export: args.export.is_some(),
        scores: scores.as_deref().map_or_else(|| Ok(Vec::new()), read_scores)?,
        ..subject.request.clone()
    };
    let report = answer_to(question::prune, request, &subject.target)?;
    if let Some(folder) = &args.export {
        export(report.configs(), folder, args.replace)?;
    }
    Ok(render(&report, view))
}

/// Scores of blocks: CSV, or a JSON array of objects.
fn read_scores(path: &Path) -> Result<Vec<Score>> {
    let text = read_text(path)?;
    let read = match text.trim_start().starts_with('[') {
        true => serde_json::from_str(&text).map_err(|error| error.to_string()),
        false if text.lines().next().is_some_and(|names| names.contains(';')) => {
            Err("its columns are separated by `;`, not by commas".to_owned())
        }
        false => {
            let mut rows = csv::ReaderBuilder::new()
                .trim(csv::Trim::All)
                .from_reader(text.as_bytes());
            let read: Result<Vec<Score>, _> = rows.deserialize().collect();
            read.map_err(|error| error.to_string())
        }
    };
    match read {
        Ok(scores) if scores.is_empty() => Err("no score in it".to_owned()),
        read => read,
    }
    .map_err(|error| {
        let allowed = "allowed: layer, part, choice and score of each block";
        Error::bad_input(format!("{}: {error}; {allowed}", path.display()))
    })
}

fn shapes(args: &SearchArgs, view: View) -> Result<Answer> {
    let asked = SearchRequest {
        export: args.export.is_some(),
        ..args.subject.request.clone()
    };
    let like = asked.like.as_ref().map(ArchitectureRequest::find);
    let predictor = answering(&args.subject.target)?;
    let request = Request {
        seen: args.merge.iter().map(|path| seen(path)).collect::<Result<_>>()?,
        ..asked.request(like.transpose()?.as_ref(), predictor.gpu())?
    };
    if request.fixed.kv_group.is_some() {
        note("--export: every head keeps its own keys, as no config of this style holds fewer");
    }
    let signal = signal();
    let bar = progress_bar("searching {bar:40} {percent} %  {elapsed}  {msg}");
    let watch = |progress: &Progress| {
        bar.set_length(progress.total);
        bar.set_position(progress.done);
        if let Some(cost) = progress.best_cost() {
            bar.set_message(format!("one chain at {:.2} of the baseline's time", cost.exp()));
        }
        match signal.load(Ordering::Relaxed) {
            0 => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    };
    let target = &args.subject.target.request;
    let of = |target: &TargetRequest| predictors::find(target, GpuCatalog::built_in());
    let code = || match signal.load(Ordering::Relaxed) {
        0 => DONE,
        ended => u8::try_from(ENDED_BY_SIGNAL + ended).unwrap_or(FAILED),
    };
    if let Some((shard, out)) = args.shard.zip(args.out.as_deref()) {
        let request = serving(predictor.gpu(), &asked, &request, target, of)?;
        let seen = look(&predictor, &request, shard, &watch);
        bar.finish_and_clear();
        if let (Err(error), true) = (&seen, code() != DONE) {
            return Ok(interrupted(error, code()));
        }
        let seen = seen?;
        write(out, seen.text().as_bytes())?;
        let report = ShardReport::new(&seen, out);
        return Ok(Answer::from(render(&report, view)));
    }
    let report = search(&predictor, &asked, &request, target, of, &watch);
    bar.finish_and_clear();
    let code = code();
    let report = match report {
        Err(error) if code != DONE => return Ok(interrupted(&error, code)),
        report => report?,
    };
    if report.is_interrupted() {
        say("interrupted: the report shows the best so far");
    }
    if let Some(folder) = &args.export {
        export(report.configs(), folder, args.replace)?;
    }
    draw(report.drawn(), args.plot.as_deref())?;
    draw(Some(report.loss_chart()), args.loss_plot.as_deref())?;
    let text = render(&report, view);
    Ok(Answer { text, code })
}

/// The end of a search that a signal ended before any answer.
fn interrupted(error: &Error, code: u8) -> Answer {
    say(&format!("error: {error}"));
    let text = String::new();
    Answer { text, code }
}

/// What the shard of a file has seen.
fn seen(path: &Path) -> Result<Seen> {
    let seen = Seen::read(&read_text(path)?);
    seen.map_err(|error| Error::bad_input(format!("{}: {error}", path.display())))
}

/// The number of the signal that asked for an end, 0 before; the search then reports the best so far.
#[cfg(unix)]
fn signal() -> Arc<AtomicUsize> {
    let received = Arc::default();
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // Without a handler the signal ends the program at once.
        let _ = signal_hook::flag::register_usize(signal, Arc::clone(&received), signal as usize);
    }
    received
}

/// The same where only Ctrl-C is known.
#[cfg(not(unix))]
fn signal() -> Arc<AtomicUsize> {
    const INTERRUPT: usize = 2;
    let received: Arc<AtomicUsize> = Arc::default();
    let signal = Arc::clone(&received);
    let _ = ctrlc::set_handler(move || signal.store(INTERRUPT, Ordering::Relaxed));
    received
}

/// Writes every shape as `FOLDER/RANK-…/config.json`.
fn export<'a>(configs: impl Iterator<Item = (String, &'a Value)>, folder: &Path, replace: ReplaceArgs) -> Result<()> {
    let mut files = Vec::new();
    for (name, config) in configs {
        let path = folder.join(name).join("config.json");
        files.push((path, format!("{config:#}\n").into_bytes()));
    }
    write_all("--export", &files, replace)?;
    note(&format!("wrote {} configs below {}", files.len(), folder.display()));
    Ok(())
}
