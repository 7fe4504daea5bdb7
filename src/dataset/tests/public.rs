//! The importers on the public tables themselves, where `SHAPEWISE_PUBLIC_DATA` names their folder.

use crate::dataset::{Filter, Key, Row, Source, Table, import, key};
use crate::ops::{Dtype, Op, Pass};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The folder of the public tables, unless this machine has none: then the test says so and ends.
pub(super) fn public_folder() -> Option<PathBuf> {
    let folder = std::env::var_os("SHAPEWISE_PUBLIC_DATA").map(PathBuf::from);
    if folder.is_none() {
        crate::skip::skip("tables", "SHAPEWISE_PUBLIC_DATA names no folder");
    }
    folder
}

/// A public table, where [`public_folder`] has it.
fn public(source: Source, file: &str, filter: &Filter) -> Option<Table> {
    let path = public_folder()?.join(file).with_extension("parquet");
    Some(import(source, &[path], filter).unwrap())
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
        let Some(table) = public(Source::Aiconfigurator, file, &filter) else {
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
fn alarms_are_rare_wherever_the_source_raised_none() {
    for (file, dtypes) in [
        ("aic_gemm_bf16", &[Dtype::Bf16][..]),
        ("aic_gemm_fp8", &[Dtype::Fp8, Dtype::Fp8Block]),
        ("aic_context_attention_bf16", &[Dtype::Bf16]),
        ("aic_context_attention_fp8", &[Dtype::Fp8]),
        ("aic_generation_attention_bf16", &[Dtype::Bf16]),
    ] {
        let Some(table) = public(Source::Aiconfigurator, file, &Filter::default()) else {
            return;
        };
        let share = alarms(&table) as f64 / table.rows.len() as f64;
        assert!(share < 0.005, "{file}: {share}\n{}", table.skipped);
        let is_of = |row: &Row| row.op.dtype().is_some_and(|dtype| dtypes.contains(&dtype));
        assert!(table.rows.iter().all(is_of));
    }
}

#[test]
fn gemms_with_quantized_weights_are_read() {
    let file = "aic_gemm_fp4_int";
    let Some(table) = public(Source::Aiconfigurator, file, &Filter::default()) else {
        return;
    };
    assert!(table.rows.len() > 500_000, "{}", table.skipped);
    assert!(table.skipped.total() < 1000, "{}", table.skipped);
    let quantized = |row: &Row| row.op.dtype().is_some_and(|dtype| !dtype.is_element());
    assert!(table.rows.iter().all(quantized));
}

#[test]
fn layers_of_experts_are_read() {
    let Some(table) = public(Source::Aiconfigurator, "aic_moe", &Filter::default()) else {
        return;
    };
    assert!(table.rows.len() > 10_000, "{}", table.skipped);
    assert!(table.rows.iter().all(|row| matches!(row.op, Op::Experts(_))));
}

#[test]
fn memory_bound_kernels_of_both_passes_are_read() {
    let filter = Filter::default();
    let Some(table) = public(Source::Publications, "training_kernels", &filter) else {
        return;
    };
    let of = |pass| {
        let of_pass = |row: &&Row| matches!(row.op, Op::Memory(op) if op.pass == pass);
        table.rows.iter().filter(of_pass).count()
    };
    let (forward, backward) = (of(Pass::Forward), of(Pass::Backward));
    assert!(forward > 400 && backward > 150, "{}", table.skipped);
    assert_eq!(forward + backward, table.rows.len());
    assert!(alarms(&table) < 10, "{}", table.skipped);
    let table = public(Source::Vidur, "vidur_mlp", &filter).unwrap();
    assert!(table.rows.len() > 40_000, "{}", table.skipped);
}

#[test]
fn a_cookbook_hidden_size_is_one_group_with_all_roles() {
    let Some(table) = public(Source::Cookbook, "cookbook_gemm_bmm", &Filter::default()) else {
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

#[test]
fn neusight_tables_are_single_precision() {
    for (file, rows) in [
        ("neusight_bmm", 101_084),
        ("neusight_linear", 40_478),
        ("neusight_layernorm", 7_533),
        ("neusight_softmax", 9_283),
        ("neusight_elementwise", 100_808),
    ] {
        let Some(table) = public(Source::Neusight, file, &Filter::default()) else {
            return;
        };
        assert_eq!(table.rows.len() as u64 + table.skipped.total(), rows, "{file}");
        assert_eq!(alarms(&table), 0, "{file}");
        assert!(table.rows.iter().all(|row| row.op.dtype() == Some(Dtype::Fp32)));
    }
}
