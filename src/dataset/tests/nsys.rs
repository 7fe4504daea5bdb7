//! Traces of Nsight Systems, in small, as `nsys export --type sqlite` writes them.

#![cfg(feature = "dataset")]

use crate::dataset::Filter;
use crate::dataset::trace::{Recorder, Trace, read_trace};
use crate::error::Result;
use crate::ops::{Attention, Dtype, Gemm, Layout, Memory, MemoryKind, Op, Pass};
use rusqlite::{Connection, params};

/// The tables that matter here, with the columns of Nsight Systems 2025.3.
const SCHEMA: &str = "
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE TARGET_INFO_GPU (vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT NOT NULL, smCount INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL,
    globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL REFERENCES StringIds(id),
    returnValue INTEGER NOT NULL, callchainId INTEGER);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER,
    category INTEGER, color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER,
    textId INTEGER REFERENCES StringIds(id), domainId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
    contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER,
    globalPid INTEGER, demangledName INTEGER NOT NULL REFERENCES StringIds(id),
    shortName INTEGER NOT NULL REFERENCES StringIds(id), mangledName INTEGER, launchType INTEGER);
";

/// A trace in the making: ranges of one thread a process, 100 us apart, each with its kernels.
struct Tracer {
    folder: tempfile::TempDir,
    file: Connection,
    now: i64,
    /// The number of the last launch of a process.
    launch: i64,
    texts: i64,
}

impl Tracer {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = Connection::open(folder.path().join("report.sqlite")).unwrap();
        // Not every string that a row refers to matters here.
        file.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
        file.execute_batch(SCHEMA).unwrap();
        let gpu = "INSERT INTO TARGET_INFO_GPU VALUES (0, 0, 'NVIDIA H100 80GB HBM3', 132)";
        file.execute(gpu, ()).unwrap();
        Self {
            folder,
            file,
            now: 1_000_000_000,
            launch: 0,
            texts: 0,
        }
    }

    fn text(&mut self, text: &str) -> i64 {
        self.texts += 1;
        let insert = "INSERT INTO StringIds VALUES (?, ?)";
        self.file.execute(insert, params![self.texts, text]).unwrap();
        self.texts
    }

    /// A range, whose text is in the row or, every other time, among the strings.
    fn range(&mut self, process: i64, text: &str, nanos: i64) {
        let thread = process << 24 | 7;
        let at = self.texts % 2;
        let id = self.text(text);
        let (text, id) = if at == 0 { (Some(text), None) } else { (None, Some(id)) };
        self.file
            .execute(
                "INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, NULL, NULL, NULL, ?, ?, NULL, ?, 0)",
                params![self.now, self.now + nanos, text, thread, id],
            )
            .unwrap();
    }

    /// An operator that calls another one, with the kernels that it launches from within.
    fn operator(&mut self, process: i64, text: &str, kernels: &[(&str, i64)]) {
        self.now += 100_000;
        self.range(process, text, 60_000);
        self.range(process, "aten::as_strided, op_id = 3, sizes = [[2, 3], []]", 9_000);
        for (kernel, micros) in kernels {
            self.launch += 1;
            let (name, begin) = (self.text(kernel), self.now + 1_000_000);
            let (insert, launch) = ("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME", self.launch);
            let rows = format!("{insert} VALUES (?, ?, 0, ?, ?, 0, 0, NULL)");
            let thread = process << 24 | 7;
            let call = params![self.now + 20_000, self.now + 26_000, thread, launch];
            self.file.execute(&rows, call).unwrap();
            let insert = "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL";
            let rows = format!("{insert} VALUES (?, ?, 0, 1, NULL, 7, ?, ?, ?, ?, NULL, 1)");
            let kernel = params![begin, begin + micros * 1000, launch, process << 24, name, name];
            self.file.execute(&rows, kernel).unwrap();
        }
    }

    fn read(&self) -> Result<Trace> {
        let path = self.folder.path().join("report.sqlite");
        read_trace(Recorder::Nsys, &path, &Filter::default())
    }

    fn refusal(&self) -> String {
        self.read().err().expect("the trace is refused").to_string()
    }
}

const GEMM: &str = "aten::mm, op_id = 12, sizes = [[8192, 4096], [4096, 12288]], input_op_ids = [[3,0], [5,0]]";

#[test]
fn ranges_with_sizes_are_rows_whose_formats_layouts_and_masks_are_those_of_their_kernels() {
    let mut trace = Tracer::new();
    let heads = "[4, 32, 2048, 128], [4, 8, 2048, 128], [4, 8, 2048, 128]";
    let flash = "aten::_scaled_dot_product_flash_attention";
    let forward = format!("{flash}, seq = 9, op_id = 14, sizes = [{heads}, [], [], [], []]");
    let backward = format!("{flash}_backward, seq = 9, op_id = 15, sizes = [[4, 32, 2048, 128], {heads}]");
    let templates = |causal, local| {
        let traits = "pytorch_flash::Flash_fwd_kernel_traits<(int)128, (bool)1, cutlass::bfloat16_t>";
        format!("<{traits}, (bool)0, (bool){causal}, (bool){local}, (bool)0, (bool)1, (bool)1>(Flash_fwd_params)")
    };
    let fwd = |causal, local| format!("void pytorch_flash::flash_fwd_kernel{}", templates(causal, local));
    let bwd = format!("void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel{}", templates(1, 0));
    let norm = "aten::native_layer_norm, op_id = 16, sizes = [[4, 2048, 4096], [], [4096], [4096], []]";
    for step in 0..5 {
        let start = trace.now;
        trace.operator(1, GEMM, &[("nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT", 1200 + step)]);
        let split = [
            ("splitKreduce_kernel<32, 16>", 10),
            ("ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_nt", 90),
        ];
        trace.operator(
            1,
            "aten::bmm, op_id = 13, sizes = [[64, 128, 64], [64, 64, 256]]",
            &split,
        );
        trace.operator(1, &forward, &[(&fwd(1, 0), 900)]);
        trace.operator(1, &backward, &[("flash_bwd_dot_do_o_kernel<true>", 30), (&bwd, 2000)]);
        trace.operator(
            1,
            norm,
            &[("void at::native::vectorized_layer_norm_kernel<float, float>(int)", 90)],
        );
        trace.operator(
            1,
            "aten::copy_, op_id = 17, sizes = [[4096], [4096], []]",
            &[("void copy_kernel<4>(int)", 3)],
        );
        // Neither says enough.
        trace.operator(1, &forward, &[(&fwd(0, 1), 700)]);
        trace.operator(1, GEMM, &[("triton_mm_kernel", 1000)]);
        trace.operator(1, "aten::mm", &[("nvjet_tst_TNT", 1000)]);
        let (end, length) = (trace.now, trace.now - start + 70_000);
        trace.now = start + 50_000;
        trace.range(1, &format!("iteration {step}"), length);
        trace.now = end;
    }
    let trace = trace.read().unwrap();
    assert_eq!((&*trace.gpu.name, &*trace.stack), ("h100", "pytorch"));
    let found: Vec<_> = trace
        .table
        .rows
        .iter()
        .map(|row| (row.op, row.time.micros().round()))
        .collect();
    let attention = Attention {
        kv_heads: 8,
        ..Attention::new(4, 32, 2048, 128)
    };
    let transposed = Op::Gemm(Gemm {
        layout: Layout::Nt,
        batch: 64,
        dtype: Dtype::Fp16,
        ..Gemm::new(128, 256, 64)
    });
    let back = Attention {
        pass: Pass::Backward,
        ..attention
    };
    for wanted in [
        (Op::Gemm(Gemm::new(8192, 12_288, 4096)), 1202.0),
        (transposed, 100.0),
        (Op::Attention(attention), 900.0),
        (Op::Attention(back), 2030.0),
        (
            Op::Memory(Memory::forward(MemoryKind::LayerNorm, 8192, 4096, Dtype::Fp32)),
            90.0,
        ),
    ] {
        assert!(found.contains(&wanted), "{wanted:?} is not in {found:?}");
    }
    assert_eq!(found.len(), 5);
    let row = &trace.table.rows[0];
    assert_eq!((row.samples, &*row.origin.source), (Some(5), "Nsight Systems"));
    let reasons: Vec<_> = trace.table.skipped.iter().collect();
    let wanted = [
        (
            "aten::_scaled_dot_product_flash_attention: a sliding window or a soft cap",
            5,
        ),
        ("aten::mm: no formats, and a kernel whose name has none", 5),
        ("aten::mm: no shapes; record with record_shapes=True", 5),
        ("kernels copy_kernel", 5),
    ];
    assert_eq!(reasons, wanted);
    let steps: Vec<f64> = trace.steps.iter().map(|step| step.micros().round()).collect();
    assert_eq!(steps, [970.0; 5]);
}

/// Two processes count their launches alike.
#[test]
fn a_launch_is_that_of_the_process_of_its_kernel() {
    let mut trace = Tracer::new();
    trace.operator(1, GEMM, &[("nvjet_tst_TNT", 1200)]);
    trace.launch = 0;
    trace.operator(
        2,
        "aten::mm, op_id = 1, sizes = [[64, 64], [64, 64]]",
        &[("nvjet_hsh_NNN", 9)],
    );
    let trace = trace.read().unwrap();
    let times: Vec<_> = trace
        .table
        .rows
        .iter()
        .map(|row| (row.op.dtype(), row.time.micros().round()))
        .collect();
    assert_eq!(times.len(), 2);
    for wanted in [(Some(Dtype::Bf16), 1200.0), (Some(Dtype::Fp16), 9.0)] {
        assert!(times.contains(&wanted), "{wanted:?} is not in {times:?}");
    }
}

#[test]
fn the_gpu_is_the_one_that_ran_the_kernels() {
    let traced = |sql: &str| {
        let mut trace = Tracer::new();
        trace.operator(1, GEMM, &[("nvjet_tst_TNT", 1200)]);
        trace.file.execute_batch(sql).unwrap();
        trace
    };
    let gpu = |sql: &str| traced(sql).read().unwrap().gpu.name.clone();
    let (second, moved) = (
        "INSERT INTO TARGET_INFO_GPU VALUES (0, 1, 'NVIDIA A100-SXM4-80GB', 108);",
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET deviceId = 1;",
    );
    let seen = |process: i64| {
        format!(
            "{second} CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER NOT NULL, cudaId INTEGER NOT NULL,
            pid INTEGER NOT NULL); INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (1, 0, {process});"
        )
    };
    assert_eq!(gpu(second), "h100");
    assert_eq!(gpu(&format!("{second} {moved}")), "a100");
    // The first device that the process saw was the second of the machine, or another process saw it so.
    assert_eq!(gpu(&seen(1)), "a100");
    assert_eq!(gpu(&seen(2)), "h100");
    let mut two = traced(&format!("{second} {moved}"));
    two.operator(1, GEMM, &[("nvjet_tst_TNT", 1200)]);
    let kinds = "several kinds of GPU, NVIDIA A100-SXM4-80GB and NVIDIA H100 80GB HBM3; allowed";
    assert!(two.refusal().contains(kinds), "{}", two.refusal());
    let of_one = Filter {
        gpus: Some(vec!["h100".to_owned()]),
        ..Filter::default()
    };
    let path = two.folder.path().join("report.sqlite");
    let read = read_trace(Recorder::Nsys, &path, &of_one).unwrap();
    assert_eq!((&*read.gpu.name, read.table.rows.len()), ("h100", 1));
    let without = "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN deviceId;";
    assert_eq!(gpu(without), "h100");
    assert!(
        traced(&format!("{second} {without}"))
            .refusal()
            .contains("several kinds of GPU")
    );
    let unnamed = "DROP TABLE TARGET_INFO_GPU; CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT);
        INSERT INTO TARGET_INFO_GPU VALUES (0, NULL);";
    for sql in [unnamed, "DROP TABLE TARGET_INFO_GPU;", moved] {
        let trace = traced(sql);
        let refusal = trace.refusal();
        assert!(refusal.contains("`TARGET_INFO_GPU` is missing"), "{sql}: {refusal}");
        let filter = Filter {
            gpus: Some(vec!["b200".to_owned()]),
            ..Filter::default()
        };
        let path = trace.folder.path().join("report.sqlite");
        let read = read_trace(Recorder::Nsys, &path, &filter).unwrap();
        assert_eq!((&*read.gpu.name, read.table.rows.len()), ("b200", 1));
    }
}

#[test]
fn rows_without_what_others_have_are_counted_and_views_are_not_read() {
    let mut trace = Tracer::new();
    for _ in 0..3 {
        trace.operator(1, GEMM, &[("nvjet_tst_TNT", 1200)]);
    }
    let first = "WHERE rowid = 1";
    for table in ["CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"] {
        let update = format!("UPDATE {table} SET globalTid = NULL {first}");
        assert_eq!(trace.file.execute(&update, ()).unwrap(), 1);
    }
    let update = format!("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET globalPid = NULL {first}");
    assert_eq!(trace.file.execute(&update, ()).unwrap(), 1);
    let read = trace.read().unwrap();
    assert_eq!(read.table.rows.len(), 1);
    let reasons: Vec<_> = read.table.skipped.iter().collect();
    assert_eq!(reasons, [("events that are not as their recorder writes them", 3)]);
    for (table, wanted) in [
        ("CUPTI_ACTIVITY_KIND_KERNEL", "no kernels"),
        ("StringIds", "nsys export --type sqlite"),
    ] {
        let endless = format!(
            "DROP TABLE {table}; CREATE VIEW {table} AS WITH RECURSIVE endless(id) AS
            (SELECT 1 UNION ALL SELECT id + 1 FROM endless) SELECT id, 'x' AS value FROM endless"
        );
        trace.file.execute_batch(&endless).unwrap();
        let refusal = trace.refusal();
        assert!(refusal.contains(wanted), "{refusal}");
    }
    let folder = trace.folder.path();
    let refusal = read_trace(Recorder::Nsys, folder, &Filter::default());
    let refusal = refusal.err().unwrap().to_string();
    assert!(refusal.ends_with("this is a folder; allowed: a file"), "{refusal}");
}

#[test]
fn other_files_and_traces_without_kernels_or_ranges_are_refused_in_a_sentence() {
    let mut trace = Tracer::new();
    assert!(
        trace
            .refusal()
            .contains("no kernels of a GPU; allowed: one that was recorded with --trace=cuda,nvtx")
    );
    trace.operator(1, "forward", &[("nvjet_tst_TNT", 9)]);
    assert!(trace.refusal().contains("neither steps nor operators with shapes"));
    trace.file.execute_batch("DROP TABLE NVTX_EVENTS").unwrap();
    assert!(trace.refusal().contains("neither steps nor operators with shapes"));
    trace
        .file
        .execute_batch("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN globalPid")
        .unwrap();
    assert!(trace.refusal().contains("globalPid"));
    for (name, content) in [
        ("report.nsys-rep", Some("no database at all, whatever its name")),
        ("none.sqlite", None),
    ] {
        let path = trace.folder.path().join(name);
        content
            .into_iter()
            .for_each(|content| std::fs::write(&path, content).unwrap());
        let refusal = read_trace(Recorder::Nsys, &path, &Filter::default())
            .err()
            .unwrap()
            .to_string();
        let expected = if content.is_some() {
            "nsys export --type sqlite"
        } else {
            "No such file"
        };
        assert!(refusal.contains(name) && refusal.contains(expected), "{refusal}");
    }
}
