//! Our own files: what is written is read back; what is broken is named.

use super::{gemm_row, measured_row, write_columns};
use crate::dataset::columns::Parquet;
use crate::dataset::{
    Cache, Measured, Origin, Role, Row, Stop, described_gpus, digest, line, property, read, read_many, write,
    write_with,
};
use crate::gpu::{Gpu, GpuCatalog};
use crate::ops::{
    Attention, Collective, CollectiveKind, Dtype, Experts, Gemm, Layout, Memory, MemoryKind, Op, Pass, RouterLoad,
};
use crate::random::Random;
use crate::units::{Hertz, Seconds};
use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use proptest::prelude::*;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

#[test]
fn a_file_of_more_rows_than_memory_takes_is_refused_by_its_footer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    write(&path, &vec![gemm_row(64, 64, 64); 12]).unwrap();
    assert!(Parquet::open_limited(&path, 12).is_ok());
    let refused = Parquet::open_limited(&path, 11).err().unwrap().to_string();
    for part in ["rows.parquet", "has 12 rows", "at most 11"] {
        assert!(refused.contains(part), "{refused}");
    }
}

fn dtype() -> impl Strategy<Value = Dtype> {
    prop::sample::select(Dtype::ELEMENTS.to_vec())
}

fn pass() -> impl Strategy<Value = Pass> {
    prop::sample::select(vec![Pass::Forward, Pass::Backward])
}

fn op() -> impl Strategy<Value = Op> {
    let size = || 1u64..1 << 53;
    let layout = prop::sample::select(Layout::ALL.to_vec());
    let of_gemms = prop::sample::select(Dtype::ALL.to_vec());
    let gemm = (size(), size(), size(), size(), layout, of_gemms);
    let gemm = gemm.prop_map(|(m, n, k, batch, layout, dtype)| {
        Op::Gemm(Gemm {
            m,
            n,
            k,
            batch,
            layout,
            dtype,
        })
    });
    let sizes = prop::array::uniform3(size());
    let heads = prop::array::uniform2(1u64..1 << 26);
    let widths = prop::array::uniform2(1u64..=4096);
    let flags = (0u64..9, any::<bool>(), pass(), dtype());
    let attention = (sizes, heads, widths, flags);
    let attention = attention.prop_map(|(sizes, heads, widths, flags)| {
        let [batch, seq_q, cached] = sizes;
        let [kv_heads, group] = heads;
        let [head_dim, value_dim] = widths;
        let (window, causal, pass, dtype) = flags;
        Op::Attention(Attention {
            batch,
            heads: kv_heads * group,
            kv_heads,
            seq_q,
            seq_kv: if causal { seq_q.max(cached) } else { cached },
            head_dim,
            value_dim,
            causal,
            window,
            pass,
            dtype,
        })
    });
    use MemoryKind::*;
    let kind = prop::sample::select(vec![
        Softmax,
        Mask,
        Dropout,
        LayerNorm,
        RmsNorm,
        Gelu,
        Swiglu,
        Rotary,
        Add,
        Embedding,
        CrossEntropy,
        Adam,
        Permute,
        Copy,
    ]);
    let memory = (kind, size(), size(), pass(), dtype());
    let memory = memory.prop_map(|(kind, rows, cols, pass, dtype)| {
        Op::Memory(Memory {
            kind,
            rows,
            cols,
            pass,
            dtype,
        })
    });
    use CollectiveKind::*;
    let kind = prop::sample::select(vec![AllReduce, AllGather, ReduceScatter, AllToAll, SendReceive]);
    let collective =
        (kind, size(), size()).prop_map(|(kind, bytes, ranks)| Op::Collective(Collective::new(kind, bytes, ranks)));
    let load = prop::sample::select(RouterLoad::ALL.to_vec());
    let experts = (size(), size(), size(), 1u64..999, any::<bool>(), load, dtype());
    let experts = experts.prop_map(|(tokens, hidden, width, experts, gated, load, dtype)| {
        Op::Experts(Experts {
            gated,
            load,
            dtype,
            ..Experts::new(tokens, hidden, width, experts, 1)
        })
    });
    prop_oneof![gemm, attention, memory, collective, experts]
}

fn row() -> impl Strategy<Value = Row> {
    let micros = || 1e-3f64..1e9;
    let optional = (
        prop::option::of(micros()),
        prop::option::of(micros()),
        prop::option::of(any::<u32>()),
        prop::option::of(1e6f64..1e11),
        prop::option::of(0u64..1 << 53),
        prop::option::of("[a-z ]{0,9}"),
    );
    let texts = ("[a-z0-9]{1,3}", ".{1,9}", ".{1,9}", ".{1,9}");
    (op(), micros(), optional, texts).prop_map(|(op, time, optional, texts)| {
        let (p10, p90, samples, clock, group, libraries) = optional;
        let (gpu, stack, source, licence) = texts;
        Row {
            op,
            gpu: gpu.into(),
            stack: stack.into(),
            time: Seconds::from_micros(time),
            p10: p10.map(Seconds::from_micros),
            p90: p90.map(Seconds::from_micros),
            samples,
            clock: clock.map(Hertz::from_hertz),
            group,
            origin: Arc::new(Origin {
                source,
                licence,
                libraries,
            }),
            measured: None,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn every_row_reads_back(rows in prop::collection::vec(row(), 0..40)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.parquet");
        write(&path, &rows).unwrap();
        let back = read(&path).unwrap();
        prop_assert_eq!(digest(&back), digest(&rows));
        // Times are kept to nine digits, everything else exactly; a second pass changes nothing.
        for (back, row) in back.iter().zip(&rows) {
            prop_assert!((back.time / row.time - 1.0).abs() < 1e-8);
            let (p10, p90) = (row.p10, row.p90);
            let timeless = Row { time: row.time, p10, p90, ..back.clone() };
            prop_assert_eq!(&timeless, row);
        }
        write(&path, &back).unwrap();
        prop_assert_eq!(read(&path).unwrap(), back);
    }
}

#[test]
fn several_files_are_read_in_their_order_and_share_texts() {
    let folder = tempfile::tempdir().unwrap();
    let paths = [folder.path().join("a"), folder.path().join("b")];
    write(&paths[0], &[gemm_row(1, 2, 3), gemm_row(4, 5, 6)]).unwrap();
    write(&paths[1], &[gemm_row(1, 2, 3)]).unwrap();
    let rows = read_many(&paths).unwrap();
    assert_eq!(rows, [1, 4, 1].map(|m| gemm_row(m, m + 1, m + 2)));
    assert!(Arc::ptr_eq(&rows[0].gpu, &rows[1].gpu));
    assert!(Arc::ptr_eq(&rows[0].origin, &rows[1].origin));
}

/// The one sentence that reading this file answers with.
fn complaint(path: &Path) -> String {
    let error = read(path).expect_err("the file is broken");
    assert!(error.is_bad_input(), "{error}");
    let sentence = error.to_string();
    assert!(sentence.contains(&path.display().to_string()), "{sentence}");
    assert!(!sentence.contains('\n'), "{sentence}");
    assert!(sentence.contains("allowed: "), "{sentence}");
    sentence
}

#[test]
fn a_truncated_file_is_named_wherever_it_was_cut() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.parquet");
    write(&path, &[gemm_row(1, 2, 3), gemm_row(4, 5, 6)]).unwrap();
    let whole = fs::read(&path).unwrap();
    let cuts = (0..whole.len()).step_by(37).chain(whole.len() - 12..whole.len());
    for cut in cuts {
        fs::write(&path, &whole[..cut]).unwrap();
        complaint(&path);
    }
    fs::write(&path, b"").unwrap();
    assert!(complaint(&path).contains("is empty"));
    assert!(complaint(folder.path()).contains("is a folder"));
    assert!(read(&folder.path().join("absent")).unwrap_err().is_io());
}

#[test]
fn a_damaged_byte_is_an_error_or_harmless() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged.parquet");
    write(&path, &[gemm_row(1, 2, 3), gemm_row(4, 5, 6)]).unwrap();
    let whole = fs::read(&path).unwrap();
    for (at, flipped) in (0..whole.len()).step_by(7).flat_map(|at| [(at, 0x80), (at, 0xff)]) {
        let mut damaged = whole.clone();
        damaged[at] ^= flipped;
        fs::write(&path, &damaged).unwrap();
        // Some bytes carry nothing that a reader looks at, or another value that is allowed.
        if read(&path).is_err() {
            complaint(&path);
        }
    }
}

#[test]
fn foreign_files_are_told_from_ours() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("foreign.parquet");
    let column: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    write_columns(&path, vec![("m", column)]);
    assert!(complaint(&path).contains("not a shapewise table"));
    fs::write(&path, b"m,n,k\n1,2,3\n").unwrap();
    assert!(complaint(&path).contains("not a whole Parquet file"));
}

/// Writes one good row as another version of the program might have, with one column changed or left out.
fn forge(path: &Path, schema: &str, change: impl Fn(&str, ArrayRef) -> Option<ArrayRef>) {
    write(path, &[gemm_row(1, 2, 3), gemm_row(4, 5, 6)]).unwrap();
    let good = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap();
    let good = good.build().unwrap().next().unwrap().unwrap();
    let columns = good.schema_ref().fields().iter().zip(good.columns());
    let columns =
        columns.filter_map(|(field, column)| Some((field.name(), change(field.name(), column.clone())?, true)));
    let forged = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let version = KeyValue::new("shapewise.schema".to_owned(), schema.to_owned());
    let properties = WriterProperties::builder().set_key_value_metadata(Some(vec![version]));
    let file = File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, forged.schema(), Some(properties.build())).unwrap();
    writer.write(&forged).unwrap();
    writer.close().unwrap();
}

#[test]
fn schemas_and_columns_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("forged.parquet");
    forge(&path, "7", |_, column| Some(column));
    let sentence = complaint(&path);
    assert!(sentence.contains("`shapewise.schema` is 7"), "{sentence}");
    assert!(sentence.contains("newer"), "{sentence}");
    forge(&path, "one", |_, column| Some(column));
    assert!(complaint(&path).contains("`shapewise.schema` is `one`"));
    forge(&path, "1", |_, column| Some(column));
    assert_eq!(read(&path).unwrap().len(), 2);
    // A file of that time has no column of later families, of those that two of them share neither.
    let later = "tokens hidden width experts top_k width_shards expert_shards load key_heads latent index_heads";
    forge(&path, "1", |name, column| {
        let is_later = later.split(' ').any(|other| other == name);
        (!is_later).then_some(column)
    });
    assert_eq!(read(&path).unwrap().len(), 2);
    for missing in ["time_us", "m", "family", "gpu", "causal", "libraries"] {
        forge(&path, "1", |name, column| (name != missing).then_some(column));
        let sentence = complaint(&path);
        let expected = format!("the column `{missing}` is missing");
        assert!(sentence.contains(&expected), "{sentence}");
    }
    forge(&path, "1", |name, column| {
        let text: ArrayRef = Arc::new(StringArray::from(vec!["10", "10"]));
        Some(if name == "time_us" { text } else { column })
    });
    assert!(complaint(&path).contains("the column `time_us` holds"));
}

#[test]
fn values_out_of_range_are_named_with_their_row() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("forged.parquet");
    let real = |good: f64, bad: Option<f64>| -> ArrayRef { Arc::new(Float64Array::from(vec![Some(good), bad])) };
    let whole = |value: Option<i64>| -> ArrayRef { Arc::new(Int64Array::from(vec![Some(1), value])) };
    let text = |good: &str, bad: Option<&str>| -> ArrayRef { Arc::new(StringArray::from(vec![Some(good), bad])) };
    for (column, values, value) in [
        ("time_us", real(10.0, Some(0.0)), "0"),
        ("time_us", real(10.0, Some(-1.0)), "-1"),
        ("time_us", real(10.0, Some(f64::NAN)), "NaN"),
        ("time_us", real(10.0, Some(f64::INFINITY)), "inf"),
        ("time_us", real(10.0, None), "0"),
        ("p90_us", real(10.0, Some(0.0)), "0"),
        ("clock_hz", real(2e9, Some(1980.0)), "1980"),
        ("m", whole(Some(0)), "0"),
        ("m", whole(Some(-4)), "-4"),
        ("m", whole(None), "null"),
        ("batch", whole(Some(i64::MAX)), "9223372036854775807"),
        ("group", whole(Some(-1)), "-1"),
        ("samples", whole(Some(1 << 40)), "1099511627776"),
        ("family", text("gemm", Some("conv")), "`conv`"),
        ("dtype", text("bf16", Some("int3")), "`int3`"),
        ("layout", text("tn", None), "`null`"),
        ("gpu", text("h200", Some("")), "empty"),
        ("stack", text("s", None), "empty"),
    ] {
        assert_eq!(values.len(), 2);
        forge(&path, "1", |name, good| {
            Some(if name == column { values.clone() } else { good })
        });
        let sentence = complaint(&path);
        let expected = format!(": row 2: `{column}` is {value}; allowed: ");
        assert!(sentence.contains(&expected), "{sentence}");
    }
}

#[test]
fn writing_refuses_what_could_not_be_read_and_keeps_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    write(&path, &[gemm_row(1, 2, 3)]).unwrap();
    let refused = write(&path, &[gemm_row(1, 2, 3), gemm_row(0, 2, 3)]).unwrap_err();
    let sentence = refused.to_string();
    assert!(sentence.contains("row 2: `m` is 0; allowed: 1 to 2^53"), "{sentence}");
    assert_eq!(read(&path).unwrap(), [gemm_row(1, 2, 3)]);

    let sentence = write(&folder.path().join("no/rows"), &[]).unwrap_err().to_string();
    assert!(sentence.contains("which does not exist; allowed: "), "{sentence}");
    assert!(!folder.path().join("no").exists());
    let sentence = write(folder.path(), &[]).unwrap_err().to_string();
    assert!(sentence.contains("is a folder; allowed: "), "{sentence}");
    let sentence = write(&folder.path().join("rows.csv"), &[]).unwrap_err().to_string();
    assert!(sentence.contains("is the name of a CSV table; allowed: "), "{sentence}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn how_a_row_was_measured_reads_back_from_files_and_lines() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.parquet");
    let mut second = measured_row(4, 5, 6);
    let about = second.measured.as_mut().unwrap();
    (about.role, about.cache, about.stop) = (Role::Anchor, Cache::Hot, Stop::Long);
    (about.half_width, about.kernel, about.power_watts) = (None, None, None);
    let rows = [measured_row(1, 2, 3), second, gemm_row(7, 8, 9)];
    write_with(&path, &rows, &GpuCatalog::default(), &[("a key", "a value".to_owned())]).unwrap();
    assert_eq!(read(&path).unwrap(), rows);
    assert_eq!(property(&path, "a key").unwrap().as_deref(), Some("a value"));
    assert_eq!(property(&path, "another").unwrap(), None);

    for row in rows {
        let shared = line::Shared {
            gpu: row.gpu.clone(),
            stack: row.stack.clone(),
            origin: row.origin.clone(),
        };
        let text = serde_json::to_string(&line::to_object(&row).unwrap()).unwrap();
        let object = serde_json::from_str(&text).unwrap();
        assert_eq!(line::from_object(&object, &shared, "line 1").unwrap(), row);
    }
    let object = serde_json::from_str(r#"{"family": "gemm", "layout": "tn", "dtype": "bf16", "m": 0}"#).unwrap();
    let shared = line::Shared {
        gpu: "h200".into(),
        stack: "stack 1.0".into(),
        origin: Arc::default(),
    };
    let sentence = line::from_object(&object, &shared, "a.journal: line 2").unwrap_err();
    assert!(
        sentence.to_string().starts_with("a.journal: line 2: `n` is null"),
        "{sentence}"
    );
}

#[test]
fn a_file_carries_the_descriptions_of_those_gpus_that_its_rows_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.parquet");
    let figures = || Gpu::find("h200").unwrap().figures();
    let described = |name: &str| {
        let figures = figures().map(|(key, figure)| (key.to_owned(), figure.clone()));
        Gpu::described(name, "A GPU of mine", figures.collect()).unwrap()
    };
    let mut gpus = GpuCatalog::default();
    gpus.extend([described("mine"), described("not-in-the-rows")]);
    let mut row = gemm_row(1, 2, 3);
    row.gpu = "mine".into();
    write_with(&path, &[row, gemm_row(4, 5, 6)], &gpus, &[]).unwrap();
    assert_eq!(described_gpus(&path).unwrap(), [described("mine")]);
    assert_eq!(read(&path).unwrap().len(), 2);
    assert!(Gpu::find("mine").is_err());
    write(&path, &[gemm_row(1, 2, 3)]).unwrap();
    assert_eq!(described_gpus(&path).unwrap(), []);
}

#[test]
fn files_from_before_there_were_measured_columns_still_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.parquet");
    let new = [
        "set",
        "role",
        "cache",
        "stop",
        "kernel",
        "at_s",
        "min_us",
        "p25_us",
        "p75_us",
        "half_width",
        "power_watts",
        "temperature_celsius",
        "waves",
        "rank",
        "calls",
        "tile_rows",
        "tile_cols",
        "stages",
        "split_k",
        "cluster_rows",
        "cluster_cols",
        "workspace_bytes",
        "throttled",
        "clock_reasons",
    ];
    forge(&path, "1", |name, column| (!new.contains(&name)).then_some(column));
    assert_eq!(read(&path).unwrap(), [gemm_row(1, 2, 3), gemm_row(4, 5, 6)]);
    forge(&path, "2", |name, column| (name != "set").then_some(column));
    assert!(complaint(&path).contains("the column `set` is missing"));
}

#[test]
fn measured_columns_out_of_range_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.parquet");
    type Change = fn(&mut Measured);
    let changes: [(Change, &str); 5] = [
        (|about| about.set.clear(), "`set` is empty"),
        (|about| about.calls = 0, "`calls` is 0"),
        (|about| about.at_s = -1.0, "`at_s` is -1"),
        (|about| about.half_width = Some(f64::NAN), "`half_width` is NaN"),
        (|about| about.min = Seconds::ZERO, "`min_us` is 0; allowed: more than 0"),
    ];
    for (change, expected) in changes {
        let mut row = measured_row(1, 2, 3);
        change(row.measured.as_mut().unwrap());
        let sentence = write(&path, &[row]).unwrap_err().to_string();
        assert!(sentence.contains(expected), "{sentence}");
    }
    assert!(!path.exists());
}

/// A GPU may be at hand for minutes behind a slow line: its table must come back.
#[test]
fn a_table_of_25_000_measured_rows_has_under_two_megabytes() {
    let mut random = Random::new(0, "size of a table");
    let rows: Vec<Row> = (0..25_000)
        .map(|index| {
            let size = |random: &mut Random| (64.0 * 256f64.powf(random.uniform())) as u64;
            let sizes = [size(&mut random), size(&mut random), size(&mut random)];
            let mut row = measured_row(sizes[0], sizes[1], sizes[2]);
            // Every figure differs as it does where a device measures: nothing repeats by chance.
            let micros = 2.0 * 3000f64.powf(random.uniform());
            let mut spread = || Seconds::from_micros(micros * (1.0 + 0.01 * random.normal()));
            row.time = spread();
            (row.p10, row.p90) = (Some(spread()), Some(spread()));
            let about = row.measured.as_mut().unwrap();
            (about.min, about.quartiles) = (spread(), (spread(), spread()));
            about.half_width = Some(f64::from((0.003 * random.uniform()) as f32));
            about.at_s = (20.48 * (f64::from(index) + random.uniform())).round() / 1024.0;
            about.calls = 1 + random.below(64) as u32;
            about.power_watts = Some((random.uniform() * 700_000.0).round() / 1000.0);
            about.temperature_celsius = Some(40.0 + random.below(30) as f64);
            let kernel = about.kernel.as_mut().unwrap();
            kernel.name = Some(format!("algorithm {}", random.below(60)));
            kernel.waves = Some(f64::from((random.uniform() * 100.0) as f32));
            row.clock = Some(Hertz::from_hertz((1.4e9 + 5e8 * random.uniform()).round()));
            row
        })
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.parquet");
    write(&path, &rows).unwrap();
    let bytes = std::fs::metadata(&path).unwrap().len();
    println!("25,000 rows have {bytes} bytes");
    assert!(bytes < 2_000_000, "{bytes}");
    assert_eq!(read(&path).unwrap().len(), rows.len());
}

#[test]
fn a_table_in_csv_is_read_with_the_columns_that_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.csv");
    let write_text = |text: &str| fs::write(&path, text).unwrap();
    // An empty cell is null; pandas writes whole numbers of such a column as reals.
    write_text(
        "gpu, stack, family, dtype, layout, batch, m, n, k, rows, cols, kind, pass, time_us, source, licence\n\
         h200,\"torch 2.9, CUDA 13\", gemm, bf16, tn, 1.0, 4096.0, 1024.0, 512.0, , , , , 12, a script, MIT\n\
         h200,\"torch 2.9, CUDA 13\", memory, bf16, , , , , , 4096, 8192, rms_norm, forward, 40.5, a script, MIT\n",
    );
    let [gemm, norm] = &read(&path).unwrap()[..] else {
        panic!("two rows");
    };
    assert_eq!(gemm.op, gemm_row(4096, 1024, 512).op);
    assert_eq!((&*gemm.stack, gemm.time.micros()), ("torch 2.9, CUDA 13", 12.0));
    let expected = Memory {
        kind: MemoryKind::RmsNorm,
        rows: 4096,
        cols: 8192,
        pass: Pass::Forward,
        dtype: Dtype::Bf16,
    };
    assert_eq!((norm.op, norm.time), (Op::Memory(expected), Seconds::from_micros(40.5)));
    assert_eq!((norm.samples, &norm.measured), (None, &None));
    // What it writes as Parquet is the same table.
    let parquet = folder.path().join("mine.parquet");
    let rows = read(&path).unwrap();
    write(&parquet, &rows).unwrap();
    assert_eq!(read(&parquet).unwrap(), rows);

    // A family follows from its columns; what is usual need not be said.
    write_text("gpu,stack,m,n,k,time_us,source,licence\nh200,s,4096,1024,512,12,s,MIT\n");
    assert_eq!(read(&path).unwrap()[0].op, gemm_row(4096, 1024, 512).op);
    write_text("gpu,stack,kind,rows,cols,time_us,source,licence\nh200,s,rms_norm,4096,8192,12,s,MIT\n");
    assert_eq!(read(&path).unwrap()[0].op, Op::Memory(expected));

    let head = "gpu,stack,family,dtype,layout,batch,m,n,k,time_us,source,licence";
    for (text, parts) in [
        (
            format!("{head}\nh200,s,gemm,bf16,tn,1,8,8,8.5,1,s,MIT\n"),
            ["the column `k` holds `8.5`", "64-bit integers"],
        ),
        (
            format!("{head}\nh200,s,gemm,bf16,tn,1,8,8,8,1 us,s,MIT\n"),
            ["the column `time_us` holds `1 us`", "allowed: numbers"],
        ),
        (
            format!("{head}\nh200,s,gemm,bf16,tn,1,8,8,,1,s,MIT\n"),
            ["row 1: `k` is ", "1 to 2^53"],
        ),
        (
            format!("{head}\nh200,s,gemm,bf16,tn,1,8,8,8,1,s\n"),
            ["is not a table", "as many cells a row"],
        ),
        (
            head.replace("time_us", "time_ms"),
            ["the column `time_ms` is not known", "time_us"],
        ),
        (
            head.replace("time_us,", ""),
            ["the column `time_us` is missing", "licence"],
        ),
        (
            "m,n\n8,8\n".to_owned(),
            [
                "the column `k` is missing, nor are there `gpu`, `stack`, `time_us`, `source`, `licence`;",
                "`--gpu`, `--stack`",
            ],
        ),
        (
            "gpu,stack,m,rows,time_us,source,licence\nh200,s,8,8,1,s,MIT\n".to_owned(),
            ["the column `family` is missing", "columns of one family alone"],
        ),
        (format!("{head},m"), ["the column `m` occurs twice", "once"]),
        (
            "gpu,stack,family,dtype,batch,heads,kv_heads,seq_q,seq_kv,head_dim,value_dim,causal,window,pass,time_us,source,licence\n\
             h200,s,attention,bf16,1,8,3,64,64,64,64,true,0,forward,1,s,MIT\n"
                .to_owned(),
            ["row 1: `kv_heads` is 3", "a divisor of heads, 8"],
        ),
        (String::new(), ["the file is empty", ".csv"]),
    ] {
        write_text(&text);
        let refused = read(&path).unwrap_err().to_string();
        for part in parts {
            assert!(refused.contains(part), "{refused}");
        }
        assert!(refused.contains("mine.csv"), "{refused}");
    }
}
