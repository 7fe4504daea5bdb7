//! `shapewise search`: the fastest architecture for a number of parameters.

use crate::arch::Architecture;
use crate::arch::MlpKind;
use crate::arch::config_json;
use crate::cli::args::Format;
use crate::cli::args::search::Free;
use crate::cli::args::search::SearchArgs;
use crate::cli::predict::bases;
use crate::cli::render;
use crate::cli::say;
use crate::cli::target::answering;
use crate::cli::workload::described;
use crate::error::Error;
use crate::error::Result;
use crate::error::write_atomically;
use crate::report::plot;
use crate::report::search::SearchReport;
use crate::search;
use crate::search::Found;
use crate::search::Method;
use crate::search::Progress;
use crate::search::Request;
use crate::search::StopReason;
use crate::search::USUAL_VOCABULARY;
use crate::search::shape::Fixed;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Positions that an exported config allows at least.
const LEAST_POSITIONS: u64 = 2048;

/// Set by Ctrl-C; the search then reports the best so far.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

pub(super) fn run(args: &SearchArgs, format: Format) -> Result<String> {
    // A plot that cannot be written is told before the search, not after it.
    args.plot.as_deref().map(plot::Format::of).transpose()?;
    let request = request(args)?;
    let predictor = answering(&args.target)?;
    // Without a handler Ctrl-C ends the program at once, as ever.
    let _ = ctrlc::set_handler(|| {
        INTERRUPTED.store(true, Ordering::Relaxed);
    });
    let bar = progress_bar();
    let watch = |progress: &Progress| {
        bar.set_length(progress.total);
        bar.set_position(progress.done);
        if let Some(cost) = progress.best_cost() {
            bar.set_message(format!(
                "one chain at {:.2} of the baseline's time",
                cost.exp()
            ));
        }
        if INTERRUPTED.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    };
    let found = search::search(&predictor, &request, &watch);
    bar.finish_and_clear();
    let found = found?;
    if found.stopped == StopReason::Interrupted {
        say("interrupted: the report shows the best so far");
    }
    if let Some(folder) = &args.export {
        export(&found, folder)?;
    }
    let lines = found.shapes[0].step.lines.iter();
    let basis = bases(&predictor, lines.map(|line| &line.item.op));
    let report = SearchReport::new(&predictor, &found, basis);
    if let Some(path) = &args.plot {
        let picture = plot::render(&report.chart(), plot::Format::of(path)?)?;
        write_atomically(path, &picture)?;
        say(&format!("wrote {}", path.display()));
    }
    Ok(render(&report, format))
}

/// Writes every shape as `FOLDER/RANK-…/config.json`: all of them or none, and over nothing that is there.
fn export(found: &Found, folder: &Path) -> Result<()> {
    let positions = found.request.workload.keys().max(LEAST_POSITIONS);
    let mut files = Vec::new();
    for (index, shape) in found.shapes.iter().enumerate() {
        let arch = &shape.ranked.architecture;
        let name = format!(
            "{:02}-{}-layers-{}-hidden-{}-heads-{}-kv-{}-d_ff",
            index + 1,
            arch.layers,
            arch.hidden,
            arch.heads,
            arch.kv_heads,
            arch.mlp.d_ff
        );
        let path = folder.join(name).join("config.json");
        if path.exists() {
            let allowed = "a folder without these files";
            return Err(Error::field(
                path.display(),
                "--export",
                "there already",
                allowed,
            ));
        }
        files.push((path, config_json(arch, positions)?));
    }
    for (path, text) in &files {
        write_atomically(path, text.as_bytes())?;
    }
    say(&format!(
        "wrote {} configs below {}",
        files.len(),
        folder.display()
    ));
    Ok(())
}

/// Whether a config file can hold fewer key/value heads than query heads for models of this style; fails where it
/// cannot hold them at all.
fn groups_can_be_written(base: &Architecture) -> Result<bool> {
    let with = |kv_heads| Architecture {
        hidden: 128,
        heads: 2,
        kv_heads,
        head_dim: 64,
        ..base.clone()
    };
    config_json(&with(2), LEAST_POSITIONS)?;
    Ok(config_json(&with(1), LEAST_POSITIONS).is_ok())
}

/// A bar on standard error where a person may be watching.
fn progress_bar() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("searching {bar:40} {percent} %  {elapsed}  {msg}")
        .expect("the template is valid");
    ProgressBar::new(1).with_style(style)
}

fn request(args: &SearchArgs) -> Result<Request> {
    let mut request = match &args.like {
        Some(model) => {
            let model = Architecture::find(model)?;
            let workload = described(&args.workload, &model)?;
            let parameters = args.params.unwrap_or_else(|| args.count.of(&model));
            Request {
                parameters,
                ..Request::like(&model, workload)
            }
        }
        None => {
            let kind = args.mlp.unwrap_or(MlpKind::Swiglu);
            let parameters = args
                .params
                .expect("clap asks for it where --like is missing");
            let base = search::usual_architecture(kind, parameters);
            let workload = described(&args.workload, &base)?;
            let vocab = args.vocab.unwrap_or(USUAL_VOCABULARY);
            Request::usual(parameters, kind, vocab, workload)?
        }
    };
    if let Some(kind) = args.mlp {
        request.base.mlp.kind = kind;
    }
    if let Some(vocab) = args.vocab {
        request.vocab = vocab;
    }
    for (free, option, given) in [
        (Free::MicroBatch, "--batch", args.workload.batch),
        (
            Free::Tp,
            "--tp",
            Some(args.workload.tp).filter(|&tp| tp > 1),
        ),
    ] {
        if let Some(value) = given.filter(|_| args.free.contains(&free)) {
            return Err(Error::field(
                "search",
                option,
                value,
                "nothing where --free varies it",
            ));
        }
    }
    let whole_groups = match args.export {
        Some(_) => !groups_can_be_written(&request.base)?,
        None => false,
    };
    if whole_groups {
        say("--export: every head keeps its own keys, as no config of this style holds fewer");
    }
    let powers = |name, most: u32| match args.free.contains(&name) {
        true => (0..=most).map(|power| 1 << power).collect(),
        false => Vec::new(),
    };
    Ok(Request {
        count: args.count,
        tolerance: args.tolerance,
        shard: !args.no_sharding,
        batches: powers(Free::MicroBatch, 6),
        ranks: powers(Free::Tp, 3),
        fixed: Fixed {
            layers: args.layers,
            hidden: args.hidden,
            heads: args.heads,
            kv_heads: args.kv_heads,
            head_dim: args.head_dim,
            d_ff: args.d_ff,
            kv_group: whole_groups.then_some(1),
        },
        relaxed: args.relax.clone(),
        method: match args.exhaustive {
            true => Method::Exhaustive,
            false => Method::Anneal { seed: args.seed },
        },
        top: args.top as usize,
        ..request
    })
}
