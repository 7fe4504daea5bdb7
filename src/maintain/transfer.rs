//! Searches on GPUs as if they had no measurements, judged by the models of those GPUs.

use shapewise::arch::{MlpKind, Mode, Workload, parameters};
use shapewise::error::Result;
use shapewise::gpu::Gpu;
use shapewise::predict::step::estimate_step;
use shapewise::predict::{Predictor, library};
use shapewise::search::{Request, USUAL_VOCABULARY, search};
use shapewise::stats::median;
use std::fmt::Write;
use std::ops::ControlFlow;

/// Parameters, and the tensor-parallel ranks of each.
const BUDGETS: [(u64, u64); 5] = [
    (1_300_000_000, 1),
    (2_700_000_000, 1),
    (6_700_000_000, 1),
    (13_000_000_000, 2),
    (70_000_000_000, 8),
];

fn workload(mode: Mode) -> Workload {
    match mode {
        Mode::Train => Workload::train(4, 2048),
        Mode::Prefill => Workload::prefill(4, 2048),
        Mode::Decode => Workload::decode(64, 2048),
    }
}

/// How much slower than the shape that a search with all models of `gpu` puts first that of a search without any row of it is, by
/// the models of `gpu`; negative where it is faster. `None` where either finds nothing.
fn lost(own: &Predictor, without: &Predictor, mode: Mode, (budget, tp): (u64, u64)) -> Result<Option<f64>> {
    let workload = Workload { tp, ..workload(mode) };
    let request = Request {
        top: 1,
        ..Request::usual(budget, MlpKind::Swiglu, USUAL_VOCABULARY, workload)?
    };
    let first = |predictor: &Predictor| {
        let found = match search(predictor, &request, &|_| ControlFlow::Continue(())) {
            Err(error) if error.is_bad_input() => return Err(error),
            // Nothing fits, or nothing runs this.
            found => found.ok(),
        };
        let shape = found.map(|mut found| found.shapes.swap_remove(0));
        Ok(shape.map(|shape| (shape.ranked.architecture, shape.workload)))
    };
    let (Some((best, layout)), Some((found, _))) = (first(own)?, first(without)?) else {
        return Ok(None);
    };
    let rate = |arch| {
        let step = estimate_step(own, arch, &layout)?;
        Ok(step.tokens_per_s_per_gpu() * parameters(arch).total as f64)
    };
    Ok(Some(rate(&best)? / rate(&found)? - 1.0))
}

/// The table of all GPUs with a model of their own, in Markdown.
pub fn run() -> Result<String> {
    let modes = Mode::ALL;
    let mut text = "| GPU |".to_owned();
    for mode in modes {
        let _ = write!(text, " {mode} |");
    }
    text += "\n| --- | ---: | ---: | ---: |\n";
    let mut all = Vec::new();
    for name in library::names() {
        let Ok(gpu) = Gpu::find(name) else { continue };
        let (own, without) = (Predictor::new(gpu, None)?, Predictor::leaving_out(gpu)?);
        let mut cells = Vec::new();
        for mode in modes {
            let found = BUDGETS.map(|budget| lost(&own, &without, mode, budget));
            let found: Vec<f64> = found.into_iter().filter_map(Result::transpose).collect::<Result<_>>()?;
            let worst = found.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            cells.push(median(found.clone()).map(|middle| [middle, worst]));
            all.extend(found);
        }
        if cells.iter().all(Option::is_none) {
            continue;
        }
        let _ = write!(text, "| {name} |");
        for cell in cells {
            let _ = match cell {
                Some([middle, worst]) => write!(text, " {:.1} ({:.1}) |", 100.0 * middle, 100.0 * worst),
                None => write!(text, " - |"),
            };
        }
        text += "\n";
    }
    let near = all.iter().filter(|lost| **lost <= 0.03).count();
    let _ = writeln!(
        text,
        "\n{near} of {} searches within 3 %, median {:.1} %",
        all.len(),
        100.0 * median(all).unwrap_or_default()
    );
    Ok(text)
}
