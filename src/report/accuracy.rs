//! `docs/accuracy.md`: how far off every built-in model is, beside simple predictors, and how far
//! off whole models are. Markdown, because it is read in a repository.

use crate::arch::Workload;
use crate::dataset::runs::Publisher;
use crate::evaluate::Evaluation;
use crate::evaluate::baselines::Ape;
use crate::evaluate::baselines::Baselines;
use crate::evaluate::layouts::{BEHIND, Planned};
use crate::evaluate::runs::Comparison;
use crate::evaluate::runs::RunErrors;
use crate::evaluate::runs::RunGroup;
use crate::framework::Framework;
use crate::regressor::artifact::ANY_GPU;
use crate::regressor::artifact::Artifact;
use crate::regressor::artifact::GroupErrors;
use crate::regressor::artifact::Submodel;
use crate::report::grouped;
use crate::report::percent;
use crate::report::plan_text::{layout_text, recompute_text};
use crate::report::signed;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fmt::Write;

/// A head with the simple predictors on its split; none where its rows were not given.
pub struct HeadAccuracy<'a> {
    /// What was trained.
    pub head: &'a Submodel,
    /// What it is compared with.
    pub baselines: Option<Baselines>,
}

/// A built-in model as the document shows it.
pub struct ModelAccuracy<'a> {
    /// The model.
    pub artifact: &'a Artifact,
    /// Its heads, in order.
    pub heads: Vec<HeadAccuracy<'a>>,
}

/// Whole models and what plans make of their GPUs.
pub struct WholeModels {
    /// Their errors.
    pub comparison: Comparison,
    /// Published layouts beside plans.
    pub planned: Vec<Planned>,
}

const PREAMBLE: &str = "\
# Accuracy

Written by `shapewise evaluate --accuracy`; do not edit by hand. Errors are absolute percentage errors of the time,
`|predicted / measured - 1|`: the median, the mean and the 90th percentile.

What the tables of the models are:

* Every sub-model was fitted twice. The errors are those of the held-out fit: nets that never saw the held-out keys (12 %
  of all `(n, k)` pairs of GEMM or head configurations of attention, all rows of a key together). Where a table has fewer
  than 20 keys (model sizes of layers of experts, head counts of latent attention) four fits hold out a quarter of the
  keys each, so that every row counts once, judged by a fit that did not see its key. The nets that are
  shipped learned from all rows, the held-out ones included; on unseen shapes of the same grid they should be no worse.
* The held-out keys lie on the same grid as the others, on the same GPU and the same software. Other software, sizes
  outside the grid, odd sizes and backward passes are further off; predictions of those say `transferred`.
* The half width is the median of half the 90 % interval of `ln(time)`. The interval is calibrated on the very rows
  that the coverage is counted on, so 90 % there is so by construction and no evidence; rows that neither training nor
  calibration saw are what can test it.
* The simple predictors have the same split: the roofline `max(flops / peak, bytes / bandwidth)`; a roofline with three
  constants fitted to the training keys (reached shares of peak and bandwidth, and a floor); and log-linear interpolation
  of `time / roofline` between the training keys along `n` and `k`, or along the heads. Cells: median (p90).
";

/// The whole document.
pub fn markdown(
    models: &[ModelAccuracy<'_>],
    left_out: &Evaluation,
    whole: Option<&WholeModels>,
) -> String {
    let mut text = PREAMBLE.to_owned();
    for model in models {
        write_model(&mut text, model);
    }
    if !left_out.groups.is_empty() {
        write_left_out(&mut text, left_out);
    }
    if let Some(whole) = whole {
        write_runs(&mut text, &whole.comparison);
        write_layouts(&mut text, &whole.planned);
    }
    write_sources(&mut text, models, whole.map(|whole| &whole.comparison));
    text
}

fn write_model(text: &mut String, model: &ModelAccuracy<'_>) {
    line(text, &format!("\n## {}\n", model.artifact.card.name));
    if model.heads.iter().any(|head| head.head.key.gpu == ANY_GPU) {
        line(
            text,
            "Trained over all GPUs, for GPUs that nobody measured; there it is far worse than on the GPUs below, \
             whose other rows it has seen.\n",
        );
    }
    row(
        text,
        &[
            "family",
            "format",
            "stack",
            "rows",
            "median",
            "mean",
            "p90",
            "half width",
            "coverage on the calibration rows",
            "roofline",
            "fitted roofline",
            "interpolation",
        ],
    );
    row(
        text,
        &[
            "---", "---", "---", "--:", "--:", "--:", "--:", "--:", "--:", "--:", "--:", "--:",
        ],
    );
    for head in &model.heads {
        write_head(text, head);
    }
    for note in model.heads.iter().filter_map(note) {
        line(text, &format!("\n{note}"));
    }
    line(
        text,
        "\nBy reference time (launch term plus roofline) and by size:\n",
    );
    row(
        text,
        &[
            "family",
            "format",
            "stack",
            "group",
            "rows",
            "median",
            "mean",
            "p90",
            "half width",
            "coverage on the calibration rows",
        ],
    );
    row(
        text,
        &[
            "---", "---", "---", "---", "--:", "--:", "--:", "--:", "--:", "--:",
        ],
    );
    for HeadAccuracy { head, .. } in &model.heads {
        for errors in head.held_out.iter().filter(|errors| errors.group != ALL) {
            let mut cells = vec![
                head.key.family.name().to_owned(),
                head.key.variant.to_string(),
                head.key.stack.clone(),
                errors.group.clone(),
            ];
            cells.extend(error_cells(errors));
            cells.push(percent(errors.interval_half_width_median));
            cells.push(percent(errors.coverage_90));
            row(text, &cells);
        }
    }
}

/// Name of the group of a card that holds every held-out row.
const ALL: &str = "all";

fn overall(head: &Submodel) -> Option<&GroupErrors> {
    head.held_out.iter().find(|errors| errors.group == ALL)
}

fn write_head(text: &mut String, accuracy: &HeadAccuracy<'_>) {
    let HeadAccuracy { head, baselines } = accuracy;
    let mut cells = vec![
        head.key.family.name().to_owned(),
        head.key.variant.to_string(),
        head.key.stack.clone(),
    ];
    match overall(head) {
        Some(errors) => {
            cells.extend(error_cells(errors));
            cells.push(percent(errors.interval_half_width_median));
            cells.push(percent(errors.coverage_90));
        }
        None => cells.extend(["-"; 6].map(str::to_owned)),
    }
    let simple = baselines
        .as_ref()
        .map(|b| [b.roofline, b.fitted, b.interpolation]);
    cells.extend(match simple {
        Some(simple) => simple.map(|ape| median_p90(&ape)),
        None => ["-"; 3].map(str::to_owned),
    });
    row(text, &cells);
}

/// What a reader of the first table has to know about one head, if anything.
fn note(accuracy: &HeadAccuracy<'_>) -> Option<String> {
    let HeadAccuracy { head, baselines } = accuracy;
    let key = &head.key;
    let name = format!("{} {}, {}", key.family.name(), key.variant, key.stack);
    let Some(baselines) = baselines else {
        return (head.key.gpu != ANY_GPU).then(|| {
            format!("{name}: no rows of this stack were given, so no simple predictors.")
        });
    };
    let rows = overall(head).map_or(0, |errors| errors.n);
    if rows != baselines.held_out {
        return Some(format!(
            "{name}: the simple predictors are judged on {} held-out rows, the head on {}: other tables.",
            grouped(baselines.held_out as u64),
            grouped(rows as u64)
        ));
    }
    (baselines.without_neighbours > 0).then(|| {
        format!(
            "{name}: {} of {} held-out rows have no neighbour to interpolate from and take the fitted roofline.",
            grouped(baselines.without_neighbours as u64),
            grouped(baselines.held_out as u64)
        )
    })
}

fn error_cells(errors: &GroupErrors) -> [String; 4] {
    [
        grouped(errors.n as u64),
        percent(errors.median_ape),
        percent(errors.mean_ape),
        percent(errors.p90_ape),
    ]
}

fn median_p90(ape: &Ape) -> String {
    format!("{} ({})", percent(ape.median), percent(ape.p90))
}

const LEFT_OUT: &str = "
## GPUs that nobody measured

Leave-one-GPU-out: all rows of each table above, predicted without any model that saw a row of that GPU, whether its own
or through a teacher (`shapewise evaluate --leave-out GPU`). What answers is the nearest GPU of the generation, else
GEMMs the mean of two of other generations, anything else the nearest of another one. This is what to expect of a GPU
without a table.
";

fn write_left_out(text: &mut String, left_out: &Evaluation) {
    text.push_str(LEFT_OUT);
    line(text, "");
    let headings = [
        "GPU",
        "family",
        "format",
        "rows",
        "answered by",
        "median",
        "mean",
        "p90",
        "inside",
        "half width",
    ];
    row(text, &headings);
    row(
        text,
        &[
            "---", "---", "---", "--:", "---", "--:", "--:", "--:", "--:", "--:",
        ],
    );
    for group in &left_out.groups {
        let (key, errors) = (&group.key, &group.errors);
        let format = key.dtype.map_or("-", |dtype| dtype.name());
        let mut cells = vec![
            key.gpu.to_string(),
            key.op.to_owned(),
            format.to_owned(),
            grouped(errors.n as u64),
            group.basis.clone().unwrap_or_else(|| "roofline".to_owned()),
        ];
        let shares = [
            errors.median_ape,
            errors.mean_ape,
            errors.p90_ape,
            errors.coverage_90,
            errors.interval_half_width_median,
        ];
        cells.extend(shares.map(|share| share.map_or_else(|| "-".to_owned(), percent)));
        row(text, &cells);
    }
}

const RUNS: &str = "
## Whole models

Published whole-model measurements. The constants of the frameworks were fitted to runs of these tables, so what counts
as evidence is the first table: every error in it is of a fit without the run's own configuration (model, GPU and
format; the model's size for llm-foundry and vTrain), and the interval is split-conformal over configurations. No net was
trained on them.
";

const IN_SAMPLE: &str = "
The frameworks as they are shipped, constants fitted to all configurations, by publisher. A run is predicted with the
framework that its software names, else with `unknown`. Bias is the geometric mean of predicted over measured time, less
1: above zero is too slow.
";

fn write_runs(text: &mut String, runs: &Comparison) {
    text.push_str(RUNS);
    line(text, "");
    let headings = [
        "framework",
        "kind",
        "runs",
        "configurations",
        "median",
        "mean",
        "p90",
        "inside",
        "half width",
    ];
    row(text, &headings);
    row(
        text,
        &[
            "---", "---", "--:", "--:", "--:", "--:", "--:", "--:", "--:",
        ],
    );
    for framework in Framework::all() {
        for (kind, fit) in &framework.fits {
            let half_width = framework.half_width(*kind);
            row(
                text,
                &[
                    framework.name.clone(),
                    kind.name().to_owned(),
                    grouped(fit.runs),
                    grouped(fit.configurations),
                    percent(fit.median_ape),
                    percent(fit.mean_ape),
                    percent(fit.p90_ape),
                    percent(fit.coverage_90),
                    half_width.map_or_else(|| "-".to_owned(), percent),
                ],
            );
        }
    }
    text.push_str(IN_SAMPLE);
    for publisher in Publisher::ALL {
        let groups = runs.groups.iter();
        let groups: Vec<&RunGroup> = groups
            .filter(|group| group.key.publisher == publisher)
            .collect();
        if groups.is_empty() {
            continue;
        }
        line(text, &format!("\n### {}\n", publisher.name()));
        line(text, &format!("Read as: {}.\n", publisher.assumptions()));
        row(
            text,
            &[
                "measure",
                "kind",
                "framework",
                "GPU",
                "format",
                "n",
                "median",
                "mean",
                "p90",
                "bias",
                "Spearman",
                "inside",
                "half width",
                "furthest off",
            ],
        );
        row(
            text,
            &[
                "---", "---", "---", "---", "---", "--:", "--:", "--:", "--:", "--:", "--:", "--:",
                "--:", "---",
            ],
        );
        for group in groups {
            write_group(text, group);
        }
    }
    if runs.skipped.total() > 0 {
        line(text, "\nRows that were left out:\n");
        row(text, &["rows", "why"]);
        row(text, &["--:", "---"]);
        for (reason, rows) in runs.skipped.iter() {
            row(text, &[grouped(rows), reason.to_owned()]);
        }
    }
}

fn write_group(text: &mut String, group: &RunGroup) {
    let RunErrors { errors, bias } = group.errors;
    let share = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), percent);
    let correlation = errors
        .spearman
        .map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
    let key = &group.key;
    row(
        text,
        &[
            key.measure.name().to_owned(),
            key.kind.name().to_owned(),
            key.framework.clone(),
            key.gpu.clone(),
            key.dtype.to_owned(),
            grouped(errors.n as u64),
            share(errors.median_ape),
            share(errors.mean_ape),
            share(errors.p90_ape),
            signed(bias),
            correlation,
            share(errors.coverage_90),
            share(errors.interval_half_width_median),
            group.worst.clone(),
        ],
    );
}

const LAYOUTS: &str = "
### Published layouts beside plans

The GPUs, batch, format and length of each training configuration of training-steps that Megatron ran were planned: NVIDIA's
own benchmarks, MLPerf Training, and a sweep of InternEvo's.
";

const FAR: &str = "
What is further off: *behind* is the predicted time of the published layout over that of the plan's best, less 1, *slower* its
measured time a token over that of the fastest published layout on as many of these GPUs, at most. Replicas fill the GPUs.
[method.md](method.md#plans) says what these groups have in common.
";

/// Published layouts of one model that differ in the number of replicas alone.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct LayoutKey<'a> {
    kind: &'static str,
    model: &'a str,
    gpu: &'a str,
    format: &'static str,
    layout: String,
}

fn write_layouts(text: &mut String, planned: &[Planned]) {
    if planned.is_empty() {
        return;
    }
    text.push_str(LAYOUTS);
    for (kind, most) in BEHIND {
        let all: Vec<&Planned> = planned.iter().filter(|plan| plan.kind == kind).collect();
        let near = all.iter().filter(|plan| !plan.is_far()).count();
        let share = percent(near as f64 / all.len().max(1) as f64);
        line(
            text,
            &format!(
                "\n{kind}: {share} of {} layouts are predicted within {} of the plan's best.",
                grouped(all.len() as u64),
                percent(most)
            ),
        );
    }
    let mut far: BTreeMap<LayoutKey<'_>, Vec<&Planned>> = BTreeMap::new();
    for plan in planned.iter().filter(|plan| plan.is_far()) {
        let key = LayoutKey {
            kind: plan.kind.name(),
            model: &plan.model,
            gpu: &plan.gpu,
            format: plan.published.format_name(),
            layout: unreplicated(&plan.published),
        };
        far.entry(key).or_default().push(plan);
    }
    text.push_str(FAR);
    line(text, "");
    let headings = [
        "model",
        "GPU",
        "format",
        "GPUs",
        "runs",
        "published",
        "best of the plan",
        "behind",
        "slower",
    ];
    row(text, &headings);
    row(
        text,
        &[
            "---", "---", "---", "--:", "--:", "---", "---", "--:", "--:",
        ],
    );
    for (key, plans) in far {
        let range = |of: &dyn Fn(&Planned) -> f64, show: &dyn Fn(f64) -> String| {
            let (least, most) = plans
                .iter()
                .map(|plan| of(plan))
                .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), each| {
                    (least.min(each), most.max(each))
                });
            let [least, most] = [least, most].map(show);
            if least == most {
                least
            } else {
                format!("{least} to {most}")
            }
        };
        let best = plans[0].best;
        let slower = plans.iter().map(|plan| plan.slower).fold(0.0, f64::max);
        let cells = [
            key.model.to_owned(),
            key.gpu.to_owned(),
            key.format.to_owned(),
            range(&|plan| plan.published.gpus() as f64, &|gpus| {
                grouped(gpus as u64)
            }),
            grouped(plans.len() as u64),
            key.layout,
            best.map_or_else(|| "none fits".to_owned(), |best| unreplicated(&best)),
            range(&|plan| plan.behind.unwrap_or(f64::INFINITY), &percent),
            if slower > 0.01 {
                percent(slower)
            } else {
                String::new()
            },
        ];
        row(text, &cells);
    }
}

/// `tp 4, pp 8, ZeRO 1; batch 1; recompute pointwise`: the layout of one replica.
fn unreplicated(work: &Workload) -> String {
    let layout = layout_text(&Workload { dp: 1, ..*work });
    let recompute = recompute_text(work);
    match recompute.is_empty() {
        true => format!("{layout}; batch {}", work.batch),
        false => format!("{layout}; batch {}; {recompute}", work.batch),
    }
}

fn write_sources(text: &mut String, models: &[ModelAccuracy<'_>], runs: Option<&Comparison>) {
    let mut sources: BTreeMap<(String, String), usize> = BTreeMap::new();
    let tables: BTreeSet<_> = models
        .iter()
        .flat_map(|model| &model.heads)
        .flat_map(|head| &head.head.data)
        .map(|data| (&data.source, &data.licence, &data.sha256, data.rows))
        .collect();
    for (source, licence, _, rows) in tables {
        *sources
            .entry((source.clone(), licence.clone()))
            .or_default() += rows;
    }
    for group in runs.iter().flat_map(|runs| &runs.groups) {
        let (source, licence) = group.key.publisher.citation();
        let runs = sources
            .entry((source.to_owned(), licence.to_owned()))
            .or_default();
        *runs += group.errors.errors.n;
    }
    line(text, "\n## Sources\n");
    row(text, &["source", "licence", "rows"]);
    row(text, &["---", "---", "--:"]);
    for ((source, licence), rows) in sources {
        row(text, &[source, licence, grouped(rows as u64)]);
    }
}

fn line(text: &mut String, content: &str) {
    writeln!(text, "{content}").expect("writing to a text cannot fail");
}

fn row(text: &mut String, cells: &[impl AsRef<str>]) {
    let cells: Vec<String> = cells
        .iter()
        .map(|cell| cell.as_ref().replace('|', "\\|"))
        .collect();
    line(text, &format!("| {} |", cells.join(" | ")));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::Skipped;
    use crate::dataset::runs::Measure;
    use crate::evaluate::Errors;
    use crate::evaluate::runs::RunKey;
    use crate::framework::Kind;

    fn whole() -> WholeModels {
        let published = Workload {
            tp: 4,
            dp: 16,
            ..Workload::train(1, 8192)
        };
        let planned = |dp, behind| Planned {
            label: "a run".to_owned(),
            kind: Kind::TrainDense,
            model: "llama-3-8b".to_owned(),
            gpu: "h100".to_owned(),
            published: Workload { dp, ..published },
            best: Some(Workload { tp: 2, ..published }),
            behind: Some(behind),
            slower: 0.125,
            listed: true,
        };
        WholeModels {
            comparison: comparison(),
            planned: vec![planned(16, 0.0625), planned(8, 0.25), planned(4, 0.03)],
        }
    }

    fn comparison() -> Comparison {
        let errors = RunErrors {
            errors: Errors {
                n: 3,
                median_ape: Some(0.25),
                mean_ape: Some(0.5),
                p90_ape: Some(1.25),
                coverage_90: Some(1.0),
                interval_half_width_median: Some(0.2),
                ..Errors::default()
            },
            bias: -0.125,
        };
        let mut skipped = Skipped::default();
        skipped.add("GPU `L20` is not in data/gpus", 20);
        Comparison {
            order: Vec::new(),
            overall: errors,
            groups: vec![RunGroup {
                key: RunKey {
                    measure: Measure::Step,
                    kind: Kind::TrainDense,
                    framework: "megatron-deepspeed".to_owned(),
                    gpu: "a100".to_owned(),
                    dtype: "fp16",
                    publisher: Publisher::Vtrain,
                },
                errors,
                worst: "gpt-1024x12".to_owned(),
                misfits: 0,
            }],
            skipped,
        }
    }

    #[test]
    fn whole_models_show_their_errors_assumptions_and_skipped_rows() {
        let text = markdown(&[], &Evaluation::default(), Some(&whole()));
        for part in [
            "train_dense: 33 % of 3 layouts are predicted within 5.0 % of the plan's best.",
            "| llama-3-8b | h100 | bf16 | 32 to 64 | 2 | tp 4; batch 1 | tp 2; batch 1 | 6.2 % to 25 % | 12 % |",
            "### vtrain",
            "unfused attention with dropout",
            "| step | train_dense | megatron-deepspeed | a100 | fp16 | 3 | 25 % | 50 % | 125 % | -12 % | - | \
             100 % | 20 % | gpt-1024x12 |",
            "| 20 | GPU `L20` is not in data/gpus |",
            "| VIA-Research/vTrain@f8dda84 | MIT | 3 |",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(!text.contains("### pipeweave"));
        assert!(!markdown(&[], &Evaluation::default(), None).contains("## Whole models"));
    }

    #[test]
    fn every_built_in_model_has_a_table_with_one_row_per_head() {
        for name in crate::predict::library::names() {
            let artifact = crate::predict::library::find(name).unwrap().unwrap();
            let heads = artifact.card.submodels.iter();
            let model = ModelAccuracy {
                artifact,
                heads: heads
                    .map(|head| HeadAccuracy {
                        head,
                        baselines: None,
                    })
                    .collect(),
            };
            let text = markdown(&[model], &Evaluation::default(), None);
            assert!(text.contains(&format!("## {name}\n")), "{text}");
            for head in &artifact.card.submodels {
                let variant = head.key.variant.to_string();
                let cells = [head.key.family.name(), &variant, &head.key.stack];
                assert!(
                    text.contains(&format!("| {} |", cells.join(" | "))),
                    "{text}"
                );
            }
        }
    }
}
