//! `shapewise import`: public timing tables to our own schema.

use crate::cli::args::{ImportArgs, NATIVE, View};
use crate::cli::output::refuse_existing;
use crate::cli::{render, rows};
use crate::dataset;
use crate::dataset::runs::{read_object, write_runs};
use crate::dataset::steps::steps_path;
use crate::dataset::trace::{Recorder, read_trace};
use crate::dataset::{Filter, Role, Row, Table, anchor_change, line};
use crate::error::{Error, Result};
use crate::evaluate::family;
use crate::gpu::GpuCatalog;
use crate::report::tables::import::{FileDrift, ImportReport, KeptRows, TraceSteps};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashSet};
use std::path::Path;

pub(super) fn run(args: &ImportArgs, view: View) -> Result<String> {
    dataset::check_target(&args.out)?;
    let mut gpus = GpuCatalog::default();
    let recorder = Recorder::parse(&args.source);
    let of_traces = Recorder::NAMES.map(|name| format!("`import {name}`")).join(" and ");
    let stated = [("source", &args.stated.source), ("licence", &args.stated.licence)];
    if let Some((option, text)) = stated.into_iter().find_map(|(name, text)| Some((name, text.as_ref()?)))
        && args.source != NATIVE
        && recorder.is_none()
    {
        return Err(Error::bad_input(format!(
            "`--{option}` is `{text}`, and tables of {} have their own; allowed: with `import {NATIVE}`, {of_traces}",
            args.source
        )));
    }
    let filter = Filter {
        stated: rows::stated(&args.stated, None, None),
        ..rows::filter(&args.filter)
    };
    if !args.run.is_empty() && recorder.is_none() {
        return Err(Error::bad_input(format!(
            "`--run` is `{}`, and tables of {} have no steps; allowed: with {of_traces}",
            args.run.join(","),
            args.source
        )));
    }
    let (mut drift, mut steps) = (Vec::new(), Vec::new());
    let table = match recorder {
        Some(recorder) => traces(recorder, args, &filter, &mut steps)?,
        None if args.source == NATIVE => {
            let (table, changes) = merge(args, &filter, &mut gpus)?;
            drift = changes;
            table
        }
        None => rows::read(&args.source, &args.paths, &filter, &mut gpus)?,
    };
    dataset::write_with(&args.out, &table.rows, &gpus, &[])?;
    let report = ImportReport {
        out: args.out.display().to_string(),
        kept_rows: table.rows.len() as u64,
        kept: kept(&table.rows),
        drift,
        steps,
        skipped: rows::skipped(&table.skipped),
    };
    Ok(render(&report, view))
}

/// Files of our own in one, without exact duplicates: shards of a plan, runs of several days.
///
/// Rows of two GPUs or stacks in one file would be taken for one machine's, so they must be asked for.
fn merge(args: &ImportArgs, filter: &Filter, gpus: &mut GpuCatalog) -> Result<(Table, Vec<FileDrift>)> {
    let mut merged = Table::default();
    let mut known = HashSet::new();
    let mut first: Option<(&Path, Row)> = None;
    let mut files: Vec<(&Path, Vec<Row>)> = Vec::new();
    for path in &args.paths {
        let table = rows::native(std::slice::from_ref(path), filter, gpus)?;
        merged.skipped.merge(&table.skipped);
        files.push((path, table.rows.iter().filter(|row| is_anchor(row)).cloned().collect()));
        for row in table.rows {
            let (before, other) = first.get_or_insert_with(|| (path, row.clone()));
            let asked = [
                ("gpu", &other.gpu, &row.gpu, &args.filter.gpu),
                ("stack", &other.stack, &row.stack, &args.filter.stack),
            ];
            for (field, one, two, names) in asked {
                if one != two && names.is_empty() {
                    let allowed = format!("`{one}`, as in {}, or both named after --{field}", before.display());
                    return Err(Error::field(path.display(), field, format!("`{two}`"), &allowed));
                }
            }
            match known.insert(identity(&row)?) {
                true => merged.rows.push(row),
                false => merged.skipped.add("the same measurement once more", 1),
            }
        }
    }
    let merged = rows::filled(merged, &rows::named(&args.paths))?;
    Ok((merged, drift(&files)))
}

/// The rows of traces; their steps are noted in `steps`, and written as runs where `--run` says what they are.
fn traces(recorder: Recorder, args: &ImportArgs, filter: &Filter, steps: &mut Vec<TraceSteps>) -> Result<Table> {
    let target = steps_path(&args.out);
    if !args.run.is_empty() && !args.replace.force {
        refuse_existing("--out", &target)?;
    }
    let (mut all, mut runs) = (Table::default(), Vec::new());
    for path in &args.paths {
        let mut trace = read_trace(recorder, path, filter)?;
        let step = trace.median_step();
        if let Some(step) = step {
            steps.push(TraceSteps {
                file: path.display().to_string(),
                steps: trace.steps.len() as u64,
                median_ms: step.millis(),
                run: (!args.run.is_empty()).then(|| target.display().to_string()),
            });
        }
        if !args.run.is_empty() {
            let step = step.ok_or_else(|| {
                let allowed =
                    "a trace with steps above 0 us: a call of step() after each, or ranges named step or iteration";
                Error::field(path.display(), "steps", "none", allowed)
            })?;
            let mut keys = Map::new();
            keys.insert("mode".to_owned(), "train".into());
            keys.insert("software".to_owned(), trace.stack.as_str().into());
            let mut stated = HashSet::from(["gpu", "seconds"]);
            for pair in &args.run {
                let (key, value) = pair.split_once('=').ok_or_else(|| {
                    Error::field(
                        "command line",
                        "--run",
                        format!("`{pair}`"),
                        "COLUMN=VALUE, such as batch=4",
                    )
                })?;
                if !stated.insert(key.trim()) {
                    let allowed = "each column once, without gpu and seconds, which are those of the trace";
                    return Err(Error::field("command line", "--run", format!("`{pair}`"), allowed));
                }
                keys.insert(key.trim().to_owned(), Value::from(value));
            }
            keys.insert("gpu".to_owned(), trace.gpu.name.as_str().into());
            keys.insert("seconds".to_owned(), step.secs().into());
            // A config is looked for from where the command runs.
            runs.push(read_object(&keys, "--run", Some(Path::new("run")))?);
        }
        all.rows.append(&mut trace.table.rows);
        all.skipped.merge(&trace.table.skipped);
    }
    if !runs.is_empty() {
        write_runs(&target, &runs)?;
    }
    // A trace without shapes still has steps.
    match runs.is_empty() {
        true => rows::filled(all, &rows::named(&args.paths)),
        false => Ok(all),
    }
}

fn is_anchor(row: &Row) -> bool {
    let role = row.measured.as_ref().map(|about| about.role);
    role == Some(Role::Anchor)
}

/// The change of the anchors of each further file against those of the first that has some in common.
fn drift(files: &[(&Path, Vec<Row>)]) -> Vec<FileDrift> {
    let changes = files.iter().enumerate().filter_map(|(place, (file, rows))| {
        let mut before = files[..place].iter();
        before.find_map(|(first, earlier)| {
            let change = anchor_change(earlier, rows)?;
            Some(FileDrift {
                file: file.display().to_string(),
                against: first.display().to_string(),
                anchors: change.anchors as u64,
                change: change.change,
            })
        })
    });
    changes.collect()
}

/// Everything that a row says.
fn identity(row: &Row) -> Result<String> {
    let object = serde_json::Value::Object(line::to_object(row)?);
    Ok(format!("{object} {} {} {:?}", row.gpu, row.stack, row.origin))
}

fn kept(rows: &[Row]) -> Vec<KeptRows> {
    let mut groups = BTreeMap::new();
    for row in rows {
        let key = (&row.gpu, &row.stack, family(&row.op), row.op.dtype());
        *groups.entry(key).or_default() += 1;
    }
    groups
        .into_iter()
        .map(|((gpu, stack, op, dtype), rows)| KeptRows {
            gpu: gpu.to_string(),
            stack: stack.to_string(),
            op: op.to_owned(),
            dtype,
            rows,
        })
        .collect()
}
