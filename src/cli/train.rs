//! `shapewise train`: timing tables to a model, with progress on standard error.

use crate::answer::predictors::{artifact, described_by};
use crate::cli::args::{Backend, NATIVE, TrainArgs, View};
use crate::cli::output::refuse_existing;
use crate::cli::{note, progress_bar, render, rows};
use crate::dataset;
use crate::dataset::choices::read_rows;
use crate::dataset::{Filter, Row, RunToRun};
use crate::error::Result;
use crate::families::{Family, Variant};
use crate::gpu::GpuCatalog;
use crate::regressor::artifact::{CARD_FILE, Key};
use crate::report::tables::training::TrainingReport;
use crate::train::{Event, Options, fit, train};
use indicatif::ProgressBar;

pub(super) fn run(args: &TrainArgs, view: View) -> Result<String> {
    let backend = match args.backend {
        Backend::Cpu => fit::Backend::Cpu,
        Backend::Wgpu => fit::Backend::Wgpu,
    };
    // Opened early: one that is missing is said before tables are read.
    backend.device()?;
    if !args.replace.force {
        refuse_existing("--out", &args.out.join(CARD_FILE))?;
    }
    let mut gpus = GpuCatalog::default();
    let known = Filter {
        stated: rows::stated(&args.stated, args.gpu.as_ref(), args.stack.as_ref()),
        ..Filter::default()
    };
    let table = rows::read_all(NATIVE, &args.data, &known, &mut gpus)?;
    let base = args.base.as_deref().map(artifact).transpose()?;
    gpus.extend(described_by(base.as_deref()));
    let options = Options {
        out: args.out.clone(),
        gpus,
        gpu: args.gpu.clone(),
        across: args.across,
        choices: read_rows(&args.choices)?,
        base: base.map(|base| base.into_owned()),
        seed: args.seed,
        backend,
        epochs: args.epochs.map(|epochs| epochs as usize),
        labels: args.labels.map(|labels| labels as usize),
        keep_out: args.keep_out,
    };
    let bar = progress_bar("{msg} {wide_bar} {pos}/{len} [{elapsed}]");
    let trained = train(&table.rows, &options, &|event| show(&event, &bar));
    bar.finish_and_clear();
    Ok(render(
        &TrainingReport::new(&args.out, &trained?.card, &|key| noise(&table.rows, key)),
        view,
    ))
}

/// The noise from run to run that these rows measured themselves, for one sub-model.
fn noise(rows: &[Row], key: &Key) -> Option<RunToRun> {
    let own = rows.iter().filter(|row| {
        *row.gpu == *key.gpu
            && *row.stack == *key.stack
            && Family::of(&row.op) == key.family
            && Variant::of(&row.op) == key.variant
    });
    dataset::run_to_run(own)
}

/// Progress for people: a bar on a terminal, a line per milestone anywhere.
fn show(event: &Event<'_>, bar: &ProgressBar) {
    let milestone = |line: String| bar.suspend(|| note(&line));
    match event {
        Event::SubmodelStarted { key, rows, held_out } => {
            milestone(format!("{key}: {rows} rows, {held_out} of them held out"))
        }
        Event::Tree { tree, of } => {
            bar.set_message("teacher, tree");
            bar.set_length(*of as u64);
            bar.set_position(*tree as u64);
        }
        Event::TeacherHeldOut { median_ape, p90_ape } => milestone(format!(
            "  teacher: held-out median {:.2} %, p90 {:.2} %",
            100.0 * median_ape,
            100.0 * p90_ape
        )),
        Event::Epoch {
            net,
            epoch,
            of,
            loss,
            held_out,
        } => {
            bar.set_message(format!("{net}, epoch"));
            bar.set_length(*of as u64);
            bar.set_position(*epoch as u64 + 1);
            if let Some(error) = held_out {
                let error = 100.0 * error;
                milestone(format!(
                    "  {net} epoch {} loss {loss:.4} held-out median {error:.2} %",
                    epoch + 1
                ));
            }
        }
        Event::SubmodelHeldOut { errors } => {
            if let Some(all) = errors.first() {
                milestone(format!(
                    "  held out: median {:.2} %, mean {:.2} %, p90 {:.2} %",
                    100.0 * all.median_ape,
                    100.0 * all.mean_ape,
                    100.0 * all.p90_ape
                ));
            }
        }
        Event::BaseKept { base, learned, .. } => milestone(format!(
            "  the base is kept: off by {:.2} % in the mean on held-out keys, what was learned by {:.2} %",
            100.0 * base,
            100.0 * learned
        )),
        Event::Resumed { net } => milestone(format!("  {net}: finished in an earlier run")),
        Event::SubmodelSkipped { reason } => milestone(format!("skipped: {reason}")),
    }
}
