//! Peak memory of published training runs, and runs that ran out of it, against the memory model.

use crate::arch::{MemoryVerdict, memory_use};
use crate::dataset::runs::{Publisher, read_rows, read_runs};
use crate::framework::Framework;
use crate::gpu::GpuCatalog;
use crate::plan::memory_share;
use crate::stats;
use std::collections::BTreeMap;
use std::path::Path;

/// A setting that was run: its readings, and what is predicted of it.
struct Setting {
    readings: Vec<f64>,
    reads_live: bool,
    ran_out: bool,
    configuration: String,
    adapts: bool,
    live: f64,
    fits: bool,
    shown: String,
}

/// Every setting of the table once, however many releases ran it.
fn settings(file: &Path) -> Vec<Setting> {
    let mut settings: BTreeMap<String, Setting> = BTreeMap::new();
    for (run, values) in read_rows(file, Publisher::TuningRuns).unwrap() {
        let (work, gpu) = (&run.workload, &run.gpu);
        let framework = Framework::recognise(&run.software, work.mode, gpu.generation).unwrap();
        let mut practice = framework.practice.clone();
        practice.foreach = values["trainer"]["foreach"] == true;
        let memory = memory_use(&run.architecture, work, &practice).unwrap();
        let [ran_out, reads_live] = ["ran_out", "reads_live"].map(|name| values[name] == true);
        let name = format!("{} {work} {ran_out} {reads_live}", run.configuration);
        let setting = settings.entry(name.clone()).or_insert_with(|| Setting {
            readings: Vec::new(),
            reads_live,
            ran_out,
            configuration: run.configuration.clone(),
            adapts: work.has_adapters(),
            live: memory.total().bytes(),
            fits: memory.verdict(gpu) != MemoryVerdict::DoesNotFit,
            shown: format!("{name}: {} at {}", memory.total(), memory.peak),
        });
        let peak = values["peak_gib"].as_f64().filter(|peak| *peak > 0.0);
        setting.readings.extend(peak.map(|gib| gib * f64::from(1 << 30)));
    }
    settings.into_values().collect()
}

/// Of the memory of adapters two terms were chosen on these rows (docs/method/memory.md); bytes a logit and the room of an allocator were chosen on a part of
/// those that train all weights.
#[test]
fn peak_memory_of_published_runs_is_near_and_verdicts_are_right() {
    let Some(folder) = std::env::var_os("SHAPEWISE_PUBLIC_DATA") else {
        eprintln!("SKIPPED: SHAPEWISE_PUBLIC_DATA does not name the folder of the public tables");
        return;
    };
    let settings = settings(&Path::new(&folder).join("tuning_runs.csv"));
    for (adapts, readings, most, least_right) in [(false, 40, 0.06, [0.87, 0.97]), (true, 140, 0.05, [0.99, 0.8])] {
        let mut errors: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        let mut right = [[0; 2]; 2];
        for setting in settings.iter().filter(|setting| setting.adapts == adapts) {
            right[usize::from(setting.ran_out)][usize::from(setting.fits != setting.ran_out)] += 1;
            let measured = stats::median(setting.readings.clone()).filter(|_| !setting.ran_out);
            let error = measured.map(|measured| setting.live / measured - 1.0);
            eprintln!("{}: {error:?}, fits {}", setting.shown, setting.fits);
            if let Some(error) = error.filter(|_| setting.reads_live) {
                errors.entry(&setting.configuration).or_default().push(error.abs());
            }
        }
        let all: Vec<f64> = errors.values().flatten().copied().collect();
        let count = all.len();
        let median = stats::median(all).unwrap();
        let configurations = errors.into_values().filter_map(stats::median).collect();
        let of_configurations = stats::median(configurations).unwrap();
        eprintln!(
            "adapters {adapts}: {count} readings, median {median:.4}, by configuration {of_configurations:.4}; [wrong, right] of runs \
             and of failures: {right:?}"
        );
        assert!(
            count >= readings && median < most && of_configurations < 1.5 * most,
            "{median} {of_configurations}"
        );
        for ([wrong, right], least) in right.into_iter().zip(least_right) {
            assert!(
                f64::from(right) >= least * f64::from(right + wrong),
                "{wrong} wrong, {right} right"
            );
        }
    }
}

/// The share of memory that published layouts take, which `data/layouts.toml` holds plans to.
#[test]
fn plans_fill_as_much_as_published_layouts_do() {
    let Some(folder) = std::env::var_os("SHAPEWISE_PUBLIC_DATA") else {
        eprintln!("SKIPPED: SHAPEWISE_PUBLIC_DATA does not name the folder of the public tables");
        return;
    };
    let table = Path::new(&folder).join("training_steps.parquet");
    let runs = read_runs(&[table], &GpuCatalog::default()).unwrap();
    let mut filled: BTreeMap<String, f64> = BTreeMap::new();
    for run in runs.runs.iter().filter(|run| run.recompute_stated) {
        let (mode, generation) = (run.workload.mode, run.gpu.generation);
        let framework = Framework::recognise(&run.software, mode, generation);
        let framework = framework.unwrap_or_else(|| Framework::default_for(mode));
        let Ok(memory) = memory_use(&run.architecture, &run.workload, &framework.practice) else {
            continue;
        };
        let name = format!(
            "{} {} {} {}",
            framework.name, run.architecture.name, run.gpu.name, run.workload
        );
        filled.insert(name, memory.total() / run.gpu.memory());
    }
    let mut shares: Vec<f64> = filled.values().copied().collect();
    shares.sort_by(f64::total_cmp);
    let mut fullest: Vec<_> = filled.iter().collect();
    fullest.sort_by(|a, b| b.1.total_cmp(a.1));
    for (name, share) in fullest.iter().take(30) {
        eprintln!("{share:.3} {name}");
    }
    let [half, most] = [0.5, 0.95].map(|share| stats::quantile(&shares, share));
    eprintln!("{} layouts: {half:.3}, {most:.3}", shares.len());
    assert!((most - memory_share()).abs() < 0.01, "{most}");
}
