//! The importers on the public tables themselves, where `SHAPEWISE_PUBLIC_DATA` names their folder.

use crate::dataset::runs::read_runs;
use crate::dataset::{Filter, Key, Source, Table, digest, import, key};
use crate::gpu::GpuCatalog;
use crate::ops::Op;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The folder of the public tables, unless this machine has none: then the test says so and ends.
pub(super) fn public_folder() -> Option<PathBuf> {
    let folder = std::env::var_os("SHAPEWISE_PUBLIC_DATA").map(PathBuf::from);
    if folder.is_none() {
        crate::skip::skip("tables", "SHAPEWISE_PUBLIC_DATA names no folder");
    }
    folder
}

/// A public table, where [`public_folder`] has it.
fn public(source: &str, file: &str, filter: &Filter) -> Option<Table> {
    let path = public_folder()?.join(file).with_extension("parquet");
    Some(import(Source::find(source).unwrap(), &[path], filter).unwrap())
}

/// Rows that were left out because physics rules them out.
fn alarms(table: &Table) -> u64 {
    let alarms = table
        .skipped
        .iter()
        .filter(|(reason, _)| reason.starts_with("faster than"));
    alarms.map(|(_, rows)| rows).sum()
}

#[test]
fn the_main_h200_table_is_kept_whole() {
    let filter = Filter {
        gpus: Some(vec!["h200_sxm".to_owned()]),
        stacks: Some(vec!["trtllm 1.3.0rc20".to_owned()]),
        ..Filter::default()
    };
    for (file, rows, total) in [
        ("aic_gemm_bf16", 30_380, 2_313_285),
        ("aic_gemm_fp8", 55_512, 1_507_128),
        ("aic_context_attention_bf16", 21_458, 1_082_318),
        ("aic_generation_attention_bf16", 26_357, 1_173_362),
        ("aic_encoder_attention", 7_679, 182_932),
    ] {
        let Some(table) = public("aiconfigurator", file, &filter) else {
            return;
        };
        assert_eq!(table.rows.len(), rows, "{file}\n{}", table.skipped);
        assert_eq!(alarms(&table), 0, "{file}\n{}", table.skipped);
        assert_eq!(rows as u64 + table.skipped.total(), total, "{file}");
        for row in &table.rows {
            assert_eq!((&*row.gpu, &*row.stack), ("h200", "trtllm 1.3.0rc20"));
            let share = row.op.flops().flops() / row.time.secs() / 1.978e15;
            assert!(share < 1.0, "{:?}", row.op);
        }
    }
}

#[test]
fn a_cookbook_hidden_size_is_one_group_with_all_roles() {
    let Some(table) = public("cookbook", "cookbook_gemm_bmm", &Filter::default()) else {
        return;
    };
    assert_eq!(table.rows.len() as u64 + table.skipped.total(), 5_361);
    let mut groups: BTreeMap<u64, usize> = BTreeMap::new();
    for row in &table.rows {
        assert!(matches!(row.op, Op::Gemm(_)));
        if let Key::Group(hidden) = key(row) {
            *groups.entry(hidden).or_default() += 1;
        }
    }
    // Six roles for each hidden size and tensor-parallel degree; every hidden size fits 128 heads.
    for (hidden, rows) in groups {
        assert_eq!((hidden % 128, rows % 6), (0, 0), "hidden size {hidden}");
    }
}

/// Bytes of the largest file that is read unless `SHAPEWISE_ALL_TABLES` is set: all take minutes in a debug build.
const LARGEST_FILE: u64 = 1_000_000;

/// What every public table reads as: the fingerprint of its rows, how many are of which operator and format, how many
/// are left out and why.
#[test]
fn public_tables_read_as_written_down() {
    let Some(folder) = public_folder() else {
        return;
    };
    let is_set = |name| std::env::var_os(name).is_some();
    let all = is_set("SHAPEWISE_ALL_TABLES");
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let (read, large): (Vec<_>, Vec<_>) =
        entries.partition(|entry| all || entry.metadata().unwrap().len() <= LARGEST_FILE);
    let large: BTreeSet<String> = large
        .iter()
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    let found: BTreeMap<String, String> = read.iter().filter_map(|entry| written_down(&entry.path())).collect();
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/public-tables.txt");
    let written = std::fs::read_to_string(&file).unwrap();
    let tables = written
        .split_terminator("\n\n")
        .filter_map(|table| table.split_once(": "));
    let mut written: BTreeMap<String, String> = tables.map(|(name, lines)| (name.into(), lines.into())).collect();
    if is_set("SHAPEWISE_BLESS") {
        written.extend(found.clone());
        let tables = written.iter().map(|(name, lines)| format!("{name}: {lines}\n\n"));
        std::fs::write(&file, tables.collect::<String>()).unwrap();
    }
    for (name, lines) in &found {
        assert_eq!(Some(lines), written.get(name), "{name}");
    }
    let mut names = written.keys();
    let lacking = |name: &&String| !found.contains_key(*name) && !large.contains(*name);
    assert_eq!(names.find(lacking), None, "a table that is written down was not read");
    let names = written.keys().map(String::as_str);
    let names: Vec<&str> = names.filter(|name| large.contains(*name)).collect();
    if !names.is_empty() {
        crate::skip::skip(
            "all-tables",
            format_args!("SHAPEWISE_ALL_TABLES is not set, which reads {}", names.join(", ")),
        );
    }
}

/// The name of a file and what it reads as; `None` if it is no table of operators or runs.
fn written_down(path: &Path) -> Option<(String, String)> {
    let short = |digest: &str| digest[..16].to_owned();
    let mut kept: BTreeMap<String, u64> = BTreeMap::new();
    let mut count = |what: String| *kept.entry(what).or_default() += 1;
    let (publisher, rows, skipped) = match Source::recognise(path, &Filter::default()) {
        Ok(Some(source)) => {
            let table = import(source, &[path], &Filter::default()).unwrap();
            for row in &table.rows {
                let name = row.op.kind().name();
                count(
                    row.op
                        .dtype()
                        .map_or(name.to_owned(), |dtype| format!("{name} {dtype}")),
                );
            }
            (source.name(), short(&digest(&table.rows)), table.skipped)
        }
        _ => {
            let table = read_runs(&[path], &GpuCatalog::built_in()).ok()?;
            let mut whole = Sha256::new();
            for run in &table.runs {
                count("runs".to_owned());
                whole.update(format!("{run:?}\n"));
            }
            let digest = format!("{:x}", whole.finalize());
            (table.runs.first()?.publisher.name(), short(&digest), table.skipped)
        }
    };
    let kept = kept.iter().map(|(what, rows)| format!("{rows:>9}  {what}\n"));
    let lines = format!("{publisher} {rows}\n{}left out:\n{skipped}", kept.collect::<String>());
    let lines = lines.trim_end().to_owned();
    Some((path.file_name()?.to_str()?.to_owned(), lines))
}
