//! `docs/accuracy.md`: how far off the built-in models and frameworks are, on one page. Markdown, because it is read in a
//! repository.

use shapewise::evaluate::Errors;
use shapewise::framework::{Framework, Kind};
use shapewise::regressor::artifact::Artifact;
use shapewise::report::{grouped, percent, signed};
use std::collections::{BTreeMap, BTreeSet};

/// What published tables and runs say beyond the cards.
#[derive(Default)]
pub struct Judged {
    /// Each GPU as if it had no table, by GPU and class of operator.
    pub left_out: BTreeMap<[String; 2], Errors>,
    /// Frameworks with the errors of fits without the runs of the judged model, and the half widths as shipped.
    pub by_model: Vec<Framework>,
    /// Runs that no constant was fitted to, by what was timed, kind of step and framework.
    pub unfitted: BTreeMap<[String; 3], Errors>,
    /// By how much published layouts are predicted to take longer than the best of a plan; `None` if none of a plan fits.
    pub behind: Vec<(Kind, Option<f64>)>,
}

const PREAMBLE: &str = "\
# Accuracy

Written by `shapewise-maintain accuracy`. Errors are `|predicted / measured - 1|`. *Inside* is the share of measured times inside the
90 % interval, *bias* the median of `predicted / measured - 1`.

* *Held out by key*: errors of nets that saw no row of the `(n, k)` pair, head configuration or model size that they are judged on
  (12 % of the keys; of fewer than 20 keys, four fits hold out a quarter each). GPU, software and grid are those of the
  training rows. The shipped nets learned from all rows. Of experts in w4a16, whose tables have one to eight models, pairs of tensor- and
  expert-parallel ranks are held out instead.
* *Held out by configuration*: errors of constants fitted without the runs of the judged model, GPU and format. Other runs of the same
  model stay in the fit.
* *Kept out by model*: errors of constants fitted without any run of the judged model.

No net was trained on whole runs. Errors by size and interval of each sub-model are in `models/*/*/card.json`
(`shapewise models NAME`); `shapewise evaluate --csv` writes every row and run with its prediction.
";

/// Choices that were made on rows that judge them, from the notes beside the figures in `data/`.
const CHOSEN: &str = "
## Chosen on the rows that judge them

These figures were chosen by looking at the rows that the errors above count, so they make those errors smaller than errors elsewhere:

* The interval of a sub-model is calibrated on its held-out rows: 90 % of them are inside by construction.
* `data/alignment.toml`: the widths and additions for misaligned sizes follow from our own rows, which the shipped nets saw.
* The share of the bandwidth that attention reaches where it is not fused (`src/core/predict/assume.rs`) was solved from one run.
* The fade of attention beyond the longest runs, the 3.3 ms that a decoding step of vLLM takes at least, the 75 us of a
  collective over nodes and the 35 % for nodes that no run of a fit reached.
* The half width of `unknown-server`.
* `data/attention.toml`, `data/layouts.toml`: ratios between kernels and the share of memory that a plan fills were taken from all published rows.
* Which GPUs of other generations answer for a GPU without a table was chosen on the GPUs of that table above.
* Constants of the memory model were chosen on runs of the sources that judge it. Its test holds the median error of the peak
  memory of at least 40 published training settings below 6 %.
";

/// The whole page.
pub fn markdown(models: &[&Artifact], judged: &Judged) -> String {
    let parts = [operators(models), left_out(judged), steps(), kept_out(judged)];
    format!("{PREAMBLE}{}{CHOSEN}", parts.concat())
}

const OPERATORS: &str = "
## Operators, held out by key

Cells: format, then median/mean/p90 in percent. The GPU `any` is the model for GPUs without a table.

| GPU | stack | GEMM | attention | experts |
| --- | --- | --- | --- | --- |
";

const OTHERS: &str = "
Other operators, from the best to the worst sub-model, in percent:

| operators | sub-models | median | mean | p90 |
| --- | --: | --: | --: | --: |
";

/// Held-out errors of every sub-model, from the cards alone: a row for each GPU and software stack, and one for each family of
/// operators that fewer tables time.
fn operators(models: &[&Artifact]) -> String {
    let mut rows: BTreeMap<[&str; 2], BTreeMap<&str, Vec<String>>> = BTreeMap::new();
    let mut others: BTreeMap<String, Vec<[f64; 3]>> = BTreeMap::new();
    for submodel in models.iter().flat_map(|model| &model.card.submodels) {
        let (key, variant) = (&submodel.key, submodel.key.variant.to_string());
        let mut groups = submodel.held_out.iter();
        // `None` if no row of the sub-model was held out.
        let Some(errors) = groups.find(|errors| errors.group == "all") else {
            continue;
        };
        let errors = [errors.median_ape, errors.mean_ape, errors.p90_ape];
        let class = class(key.family.name());
        let name = match class {
            GEMM | EXPERTS => variant,
            _ => format!("{} {variant}", key.family),
        };
        if class == OTHER {
            others.entry(name).or_default().push(errors);
            continue;
        }
        let cells = rows.entry([&key.gpu, &key.stack]).or_default();
        let cell = format!("{name} {}", errors.map(bare).join("/"));
        cells.entry(class).or_default().push(cell);
    }
    let mut text = OPERATORS.to_owned();
    for ([gpu, stack], cells) in rows {
        let cell = |class| cells.get(class).map_or_else(String::new, |cells| cells.join(", "));
        let [gemm, attention, experts] = [GEMM, ATTENTION, EXPERTS].map(cell);
        line(&mut text, &[gpu, stack, &gemm, &attention, &experts]);
    }
    text.push_str(OTHERS);
    for (name, errors) in others {
        let range = |figure: usize| {
            let of = errors.iter().map(|errors| errors[figure]);
            let least = bare(of.clone().fold(f64::INFINITY, f64::min));
            let most = bare(of.fold(0.0, f64::max));
            if least == most {
                least
            } else {
                format!("{least} to {most}")
            }
        };
        line(
            &mut text,
            &[&name, &errors.len().to_string(), &range(0), &range(1), &range(2)],
        );
    }
    text
}

const GEMM: &str = "GEMM";
const ATTENTION: &str = "attention";
const EXPERTS: &str = "experts";
const OTHER: &str = "other";

/// The column that a family belongs to.
pub fn class(family: &str) -> &'static str {
    match family {
        "gemm" => GEMM,
        "experts" => EXPERTS,
        "memory" | "collective" | "linear_prefill" | "linear_decode" => OTHER,
        _ => ATTENTION,
    }
}

/// Percent without the sign.
fn bare(fraction: f64) -> String {
    percent(fraction).trim_end_matches(" %").to_owned()
}

const LEFT_OUT: &str = "
## GPUs without a table

A seventh of the rows of the tables of a GPU, drawn by a hash of the operator, predicted by models that saw no row of it:
GEMMs in bf16 and fp8, attention and experts in bf16, of the stacks above. Cells: median/mean/p90
in percent, share inside.

| GPU | rows | GEMM | attention | experts |
| --- | --: | --- | --- | --- |
";

fn left_out(judged: &Judged) -> String {
    let mut text = LEFT_OUT.to_owned();
    let gpus: BTreeSet<&String> = judged.left_out.keys().map(|[gpu, _]| gpu).collect();
    for gpu in gpus {
        let of = |class: &str| judged.left_out.get(&[gpu.clone(), class.to_owned()]);
        let classes = [GEMM, ATTENTION, EXPERTS];
        let rows: usize = classes
            .iter()
            .filter_map(|class| of(class))
            .map(|errors| errors.n)
            .sum();
        let [gemm, attention, experts] = classes.map(|class| match of(class).copied() {
            Some(errors) => {
                let apes = [errors.median_ape, errors.mean_ape, errors.p90_ape];
                let apes = apes.map(|ape| ape.map_or_else(String::new, bare)).join("/");
                format!("{apes}, {}", shown(errors.coverage_90, percent))
            }
            None => String::new(),
        });
        line(&mut text, &[gpu, &grouped(rows as u64), &gemm, &attention, &experts]);
    }
    text
}

/// Errors of steps on held-out configurations, from the files of the frameworks alone.
fn steps() -> String {
    let head = "
## Steps, held out by configuration

Servers share the constants of `unknown`. First tokens are mostly queueing: their half width is that of what is waited for besides the request's own
prompt pass, whose share of the time has that of `prefill`.
";
    fits(head, fitted())
}

/// Frameworks with a fit of their own.
pub fn fitted() -> Vec<&'static Framework> {
    let mut fitted: Vec<&Framework> = Vec::new();
    for framework in Framework::all() {
        if !framework.fits.is_empty() && fitted.iter().all(|other| other.fits != framework.fits) {
            fitted.push(framework);
        }
    }
    fitted
}

const FITS: &str = "
| framework | kind | GPUs | runs | held out together | median | mean | p90 | half width |
| --- | --- | --- | --: | --: | --: | --: | --: | --: |
";

fn fits<'a>(head: &str, frameworks: impl IntoIterator<Item = &'a Framework>) -> String {
    let mut text = format!("{head}{FITS}");
    for framework in frameworks {
        for (kind, fit) in &framework.fits {
            let generations = fit.groups.iter().map(|group| group.generation.name());
            let generations: BTreeSet<&str> = generations.collect();
            let generations = generations.into_iter().collect::<Vec<_>>().join(", ");
            let [runs, together] = [fit.runs, fit.configurations].map(grouped);
            let [median, mean, p90] = [fit.median_ape, fit.mean_ape, fit.p90_ape].map(percent);
            let half_width = shown(framework.half_width(*kind), percent);
            let names = [framework.name.as_str(), kind.name(), &generations, &runs, &together];
            line(&mut text, &[&names[..], &[&median, &mean, &p90, &half_width]].concat());
        }
    }
    text
}

const UNFITTED: &str = "
## Runs that no constant was fitted to

A run is predicted with the framework that its software names, else with `unknown`. `batch` is a static batch of servers of 2024.

| measure | kind | framework | runs | median | mean | p90 | bias | inside |
| --- | --- | --- | --: | --: | --: | --: | --: | --: |
";

/// How far published layouts may be behind the best of a plan: of dense models, of mixtures of experts.
const BEHIND: [(Kind, f64); 2] = [(Kind::TrainDense, 0.05), (Kind::TrainMoe, 0.10)];

const LAYOUTS: &str = "
Layouts that NVIDIA, MLPerf Training and InternEvo published for Megatron, against plans of the same GPUs and batch:

";

fn kept_out(judged: &Judged) -> String {
    let head = "
## Steps, kept out by model

The half width is the shipped one.
";
    let mut text = fits(head, &judged.by_model);
    text.push_str(UNFITTED);
    for (key, errors) in &judged.unfitted {
        let mut cells = key.to_vec();
        cells.push(grouped(errors.n as u64));
        cells.extend([errors.median_ape, errors.mean_ape, errors.p90_ape].map(|ape| shown(ape, percent)));
        cells.extend([shown(errors.bias, signed), shown(errors.coverage_90, percent)]);
        line(&mut text, &cells);
    }
    text.push_str(LAYOUTS);
    for (kind, most) in BEHIND {
        let of_kind = judged.behind.iter().filter(|(known, _)| *known == kind);
        let all: Vec<Option<f64>> = of_kind.map(|(_, behind)| *behind).collect();
        let near = all.iter().flatten().filter(|behind| **behind <= most).count();
        let share = percent(near as f64 / all.len().max(1) as f64);
        let (count, most) = (grouped(all.len() as u64), percent(most));
        text.push_str(&format!(
            "* {kind}: {share} of {count} are predicted within {most} of the plan's best.\n"
        ));
    }
    text
}

fn shown(value: Option<f64>, show: fn(f64) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), show)
}

fn line(text: &mut String, cells: &[impl AsRef<str>]) {
    for cell in cells {
        text.push_str("| ");
        text.push_str(&cell.as_ref().replace('|', "\\|"));
        text.push(' ');
    }
    text.push_str("|\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What needs no published table is always compared.
    #[test]
    fn the_page_is_that_of_the_cards_and_frameworks() {
        let page = include_str!("../../../docs/accuracy.md");
        let models = shapewise::predict::library::all().unwrap();
        for part in [operators(&models), steps()] {
            assert!(page.contains(&part), "docs/accuracy.md lacks:\n{part}");
        }
    }

    #[test]
    fn published_rows_runs_and_layouts_are_on_the_page() {
        let errors = Errors {
            n: 3,
            median_ape: Some(0.25),
            mean_ape: Some(0.5),
            p90_ape: Some(1.25),
            bias: Some(-0.125),
            coverage_90: Some(1.0),
            ..Errors::default()
        };
        let judged = Judged {
            left_out: [(["h100", GEMM].map(str::to_owned), errors)].into(),
            by_model: vec![
                Framework::find(
                    "megatron",
                    shapewise::arch::Mode::Train,
                    shapewise::gpu::Generation::Hopper,
                )
                .unwrap()
                .clone(),
            ],
            unfitted: [(["step", "train_dense", "ddp"].map(str::to_owned), errors)].into(),
            behind: [0.0625, 0.25, 0.03]
                .map(|behind| (Kind::TrainDense, Some(behind)))
                .to_vec(),
        };
        let text = markdown(&[], &judged);
        for part in [
            "| h100 | 3 | 25/50/125, 100 % |  |  |",
            "| step | train_dense | ddp | 3 | 25 % | 50 % | 125 % | -12 % | 100 % |",
            "* train_dense: 33 % of 3 are predicted within 5.0 % of the plan's best.",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert_eq!(text.matches("| megatron | train_dense |").count(), 2, "{text}");
    }
}
