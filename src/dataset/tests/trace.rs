//! Traces of torch.profiler, in small, as libkineto writes them.

use crate::dataset::trace::{Recorder, Trace, read_trace};
use crate::dataset::{Filter, Stated};
use crate::error::Result;
use crate::ops::{Attention, Dtype, Gemm, Layout, Memory, MemoryKind, Op, Pass};
use crate::units::Seconds;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fmt::Write as _;
use std::io::Write as _;

/// A trace in the making: operators of one thread, 100 us apart, each with its kernels.
struct Tracer {
    device: Option<&'static str>,
    events: Vec<String>,
    now: f64,
    number: u64,
}

impl Tracer {
    fn new(device: Option<&'static str>) -> Self {
        Self {
            device,
            events: Vec::new(),
            now: 5_888_649_824_000.0,
            number: 0,
        }
    }

    /// An operator inside its caller, with the shapes of its inputs and the kernels that it launches.
    fn operator(&mut self, name: &str, inputs: &str, kernels: &[(&str, f64)]) {
        self.now += 100.0;
        self.number += 2;
        let (now, outer, inner) = (self.now, self.number, self.number + 1);
        let separator = if inputs.is_empty() { "" } else { ", " };
        self.events.push(format!(
            r#"{{"ph": "X", "cat": "cpu_op", "name": "{name}", "pid": 51105, "tid": 51105, "ts": {now:.3}, "dur": 60.488,
            "args": {{"External id": {outer},"Sequence number": 0, "Fwd thread id": 0{separator}{inputs}, "Ev Idx": {outer}}}}}"#
        ));
        self.events.push(format!(
            r#"{{"ph": "X", "cat": "cpu_op", "name": "aten::as_strided", "pid": 51105, "tid": 51105, "ts": {:.3}, "dur": 9.414,
            "args": {{"External id": {inner},"Concrete Inputs": ["", "[1, \"]}}\"]"], "Ev Idx": {inner}}}}}"#,
            now + 5.0
        ));
        let owner = if name.contains("attention") { inner } else { outer };
        for (kernel, micros) in kernels {
            self.number += 1;
            let launch = self.number;
            self.events.push(format!(
                r#"{{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 51105, "tid": 51105,
                "ts": {:.3}, "dur": 6.089, "args": {{"External id": {owner}, "cbid": 211, "correlation": {launch}}}}}"#,
                now + 20.0
            ));
            self.events.push(format!(
                r#"{{"ph": "s", "id": {launch}, "pid": 51105, "tid": 51105, "ts": {now}, "cat": "ac2g", "name": "ac2g"}}"#
            ));
            self.events.push(format!(
                r#"{{"ph": "X", "cat": "kernel", "name": "{kernel}", "pid": 0, "tid": 7, "ts": {:.3}, "dur": {micros},
                "args": {{"External id": {owner}, "device": 0, "stream": 7, "correlation": {launch}, "grid": [64, 1, 1]}}}}"#,
                now + 1000.0
            ));
        }
    }

    fn step(&mut self, number: u64, micros: f64) {
        for cat in ["user_annotation", "gpu_user_annotation"] {
            let now = self.now;
            self.events.push(format!(
                r#"{{"ph": "X", "cat": "{cat}", "name": "ProfilerStep#{number}", "pid": 51105, "tid": 51105, "ts": {now},
                "dur": {micros}, "args": {{"External id": 1}}}}"#
            ));
        }
        self.now += micros;
    }

    fn text(&self) -> String {
        let mut text = r#"{"schemaVersion": 1, "#.to_owned();
        if let Some(device) = self.device {
            let device =
                format!(r#"{{"id": 0, "name": "{device}", "computeMajor": 9, "computeMinor": 0, "numSms": 132}}"#);
            write!(text, r#""deviceProperties": [{device}, {device}], "#).unwrap();
        }
        let events = self.events.join(",\n");
        let group = r#""distributedInfo": {"backend": "nccl", "rank": 0, "pg_config": [{"pg_name": "0"}]}"#;
        text + &format!(r#"{group}, "traceEvents": [{events}], "traceName": "trace.json"}}"#)
    }
}

/// A step of a small model on an H100, forward and backward.
fn training() -> Tracer {
    let mut trace = Tracer::new(Some("NVIDIA H100 80GB HBM3"));
    for step in 0..6 {
        let longer = step as f64;
        trace.operator(
            "aten::mm",
            r#""Input type": ["c10::BFloat16", "c10::BFloat16"], "Input Strides": [[4096, 1], [1, 4096]],
            "Input Dims": [[8192, 4096], [4096, 12288]]"#,
            &[("nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT", 1200.0 + longer)],
        );
        // A weight gradient, split over two kernels.
        trace.operator(
            "aten::mm",
            r#""Input type": ["c10::BFloat16", "c10::BFloat16"], "Input Strides": [[1, 12288], [4096, 1]],
            "Input Dims": [[12288, 8192], [8192, 4096]]"#,
            &[("nvjet_tst_NTN", 1300.0), ("splitKreduce_kernel<32, 16>", 10.0)],
        );
        trace.operator(
            "aten::_scaled_dot_product_flash_attention",
            r#""Concrete Inputs": ["", "", "", "0.", "True", "False", "0.0883"],
            "Input type": ["c10::BFloat16", "c10::BFloat16", "c10::BFloat16", "Scalar", "Scalar", "Scalar", "Scalar"],
            "Input Dims": [[4, 32, 2048, 128], [4, 8, 2048, 128], [4, 8, 2048, 128], [], [], [], []]"#,
            &[(
                "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128> >(Flash_fwd_params)",
                900.0,
            )],
        );
        trace.operator(
            "aten::native_layer_norm",
            r#""Concrete Inputs": ["", "[4096]", ""], "Input type": ["c10::BFloat16", "ScalarList", "c10::BFloat16"],
            "Input Dims": [[4, 2048, 4096], [], [4096]]"#,
            &[(
                "void at::native::vectorized_layer_norm_kernel<c10::BFloat16>(int)",
                60.0,
            )],
        );
        trace.operator(
            "aten::copy_",
            r#""Input Dims": [[4096], [4096], []]"#,
            &[("void copy_kernel<4>(int)", 3.0)],
        );
        trace.operator(
            "aten::mul",
            "",
            &[("void mul_kernel(int)", 3.0), ("void mul_kernel(int)", 3.0)],
        );
        trace.step(step + 3, 40_000.0 + 10.0 * longer);
    }
    trace
}

fn read(content: &[u8], name: &str, filter: &Filter) -> Result<Trace> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    read_trace(Recorder::TorchProfiler, &path, filter)
}

fn refusal(text: &str) -> String {
    let read = read(text.as_bytes(), "trace.json", &Filter::default());
    read.err().expect("the trace is refused").to_string()
}

/// Microseconds, to the nanosecond.
fn micros(time: Seconds) -> f64 {
    (time.micros() * 1e3).round() / 1e3
}

fn reasons(trace: &Trace) -> Vec<(&str, u64)> {
    trace.table.skipped.iter().collect()
}

#[test]
fn calls_of_equal_operators_are_one_row_of_their_median() {
    let trace = read(training().text().as_bytes(), "trace.json", &Filter::default()).unwrap();
    assert_eq!((&*trace.gpu.name, &*trace.stack), ("h100", "pytorch"));
    let found: Vec<_> = trace.table.rows.iter().map(|row| (row.op, micros(row.time))).collect();
    let gemm = |m, n, k, layout| {
        Op::Gemm(Gemm {
            layout,
            ..Gemm::new(m, n, k)
        })
    };
    let attention = Attention {
        kv_heads: 8,
        ..Attention::new(4, 32, 2048, 128)
    };
    let norm = Memory::forward(MemoryKind::LayerNorm, 8192, 4096, Dtype::Bf16);
    for wanted in [
        (gemm(8192, 12_288, 4096, Layout::Tn), 1202.5),
        (gemm(12_288, 4096, 8192, Layout::Nt), 1310.0),
        (Op::Attention(attention), 900.0),
        (Op::Memory(norm), 60.0),
    ] {
        assert!(found.contains(&wanted), "{wanted:?} is not in {found:?}");
    }
    assert_eq!(found.len(), 4);
    let row = &trace.table.rows.iter().find(|row| micros(row.time) == 1202.5).unwrap();
    assert_eq!(row.samples, Some(6));
    assert_eq!([row.p10, row.p90].map(|time| micros(time.unwrap())), [1200.5, 1204.5]);
    assert_eq!(
        (&*row.origin.source, &*row.origin.licence),
        ("torch.profiler", "LicenseRef-own")
    );
    assert_eq!(
        reasons(&trace),
        [("kernels of aten::copy_", 6), ("kernels of aten::mul", 12)]
    );
    let steps: Vec<f64> = trace.steps.iter().map(|step| micros(*step) / 1e3).collect();
    assert_eq!(steps, [40.0, 40.01, 40.02, 40.03, 40.04, 40.05]);
}

#[test]
fn a_gpu_is_asked_for_by_any_of_its_names() {
    for name in ["h100", "H100-SXM", "h100_sxm"] {
        let filter = Filter {
            gpus: Some(vec![name.to_owned()]),
            ..Filter::default()
        };
        let trace = read(training().text().as_bytes(), "trace.json", &filter).unwrap();
        assert_eq!((&*trace.gpu.name, trace.table.rows.len()), ("h100", 4), "{name}");
    }
}

#[test]
fn a_packed_trace_is_read_alike_and_names_what_the_caller_knows() {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(training().text().as_bytes()).unwrap();
    let filter = Filter {
        stacks: Some(vec!["my trainer 1.2".to_owned()]),
        stated: Stated {
            source: Some("a job".to_owned()),
            licence: Some("MIT".to_owned()),
            ..Stated::default()
        },
        ..Filter::default()
    };
    let packed = packed.finish().unwrap();
    let trace = read(&packed, "trace.json.gz", &filter).unwrap();
    assert_eq!((trace.table.rows.len(), trace.steps.len()), (4, 6));
    let row = &trace.table.rows[0];
    assert_eq!(
        (&*row.stack, &*row.origin.source, &*row.origin.licence),
        ("my trainer 1.2", "a job", "MIT")
    );
    let cut = read(&packed[..packed.len() / 2], "trace.json.gz", &filter)
        .err()
        .unwrap()
        .to_string();
    assert!(cut.contains("trace.json.gz: the file is cut off after event "), "{cut}");
    let other = Filter {
        gpus: Some(vec!["a100".to_owned()]),
        ..filter
    };
    let sentence = read(&packed, "trace.json.gz", &other).err().unwrap().to_string();
    assert!(sentence.contains("GPU `h100` was not asked for"), "{sentence}");
}

/// Traces of ROCm 6 name no device, no strides and no correlations.
#[test]
fn layouts_are_read_from_kernels_where_there_are_no_strides() {
    let inputs = r#""Input type": ["c10::BFloat16", "c10::BFloat16"], "Input Dims": [[4097, 4097], [4097, 4097]]"#;
    let mut trace = Tracer::new(None);
    trace.operator(
        "aten::mm",
        inputs,
        &[("Cijk_Alik_Bljk_BBS_BH_MT256x112x64_MI16x16x16x1_SN", 370.0)],
    );
    trace.operator(
        "aten::mm",
        inputs,
        &[("Cijk_Ailk_Bjlk_BBS_BH_MT256x112x64_MI16x16x16x1_SN", 371.0)],
    );
    trace.operator("aten::mm", inputs, &[("gemm_kernel", 371.0)]);
    let text = trace.text().replace("\"correlation\": ", "\"stream\": ");
    let filter = Filter {
        gpus: Some(vec!["mi300x".to_owned()]),
        ..Filter::default()
    };
    let read = read(text.as_bytes(), "trace.json", &filter).unwrap();
    let layouts: Vec<Layout> = read
        .table
        .rows
        .iter()
        .map(|row| match row.op {
            Op::Gemm(gemm) => gemm.layout,
            _ => panic!("{}", row.op),
        })
        .collect();
    assert_eq!(layouts, [Layout::Tn, Layout::Nt]);
    assert_eq!(
        reasons(&read),
        [("aten::mm: no strides, and a kernel whose name has no layout", 1)]
    );
    let sentence = refusal(&text);
    assert!(
        sentence.contains("deviceProperties") && sentence.contains("its name after --gpu"),
        "{sentence}"
    );
}

#[test]
fn of_several_kinds_of_gpu_the_one_that_is_named_has_the_rows() {
    let mut trace = Tracer::new(Some("NVIDIA H100 80GB HBM3"));
    let inputs = r#""Input Dims": [[512, 1024], [1024, 4096]], "Input type": ["c10::BFloat16", "c10::BFloat16"],
        "Input Strides": [[1024, 1], [4096, 1]]"#;
    trace.operator("aten::mm", inputs, &[("nvjet_tst_NNT", 370.0)]);
    let text = trace.text();
    let both = text.replacen(
        r#"{"id": 0, "name": "NVIDIA H100 80GB HBM3""#,
        r#"{"id": 1, "name": "NVIDIA A100-SXM4-80GB""#,
        1,
    );
    let gpu =
        |text: &str, filter: &Filter| read(text.as_bytes(), "trace.json", filter).map(|read| read.gpu.name.clone());
    assert_eq!(gpu(&both, &Filter::default()).unwrap(), "h100");
    let moved = both.replace(r#""device": 0"#, r#""device": 1"#);
    assert_eq!(gpu(&moved, &Filter::default()).unwrap(), "a100");
    trace.operator("aten::mm", inputs, &[("nvjet_tst_NNT", 370.0)]);
    let mixed = trace.text().replacen(
        r#"{"id": 0, "name": "NVIDIA H100 80GB HBM3""#,
        r#"{"id": 1, "name": "NVIDIA A100-SXM4-80GB""#,
        1,
    );
    let mixed = mixed.replacen(r#""device": 0"#, r#""device": 1"#, 1);
    let sentence = refusal(&mixed);
    assert!(
        sentence.contains("several kinds of GPU, NVIDIA A100-SXM4-80GB and NVIDIA H100"),
        "{sentence}"
    );
    for name in ["a100", "h100"] {
        let filter = Filter {
            gpus: Some(vec![name.to_owned()]),
            ..Filter::default()
        };
        let read = read(mixed.as_bytes(), "trace.json", &filter).unwrap();
        let samples: Vec<_> = read.table.rows.iter().map(|row| row.samples).collect();
        assert_eq!((&*read.gpu.name, &*samples), (name, &[Some(1)][..]));
    }
}

#[test]
fn backward_passes_masks_and_other_kinds_are_told_apart() {
    let heads = r#"[2, 16, 1024, 64], [2, 16, 1024, 64], [2, 16, 1024, 64]"#;
    let types = r#""Input type": ["c10::Half", "c10::Half", "c10::Half", "c10::Half"]"#;
    let backward = |causal| {
        format!(
            r#"{types}, "Concrete Inputs": ["", "", "", "", "", "", "", "", "", "", "0.", "{causal}", "", "", "0.125"],
        "Input Dims": [[2, 16, 1024, 64], {heads}]"#
        )
    };
    let masked = format!(
        r#"{types}, "Concrete Inputs": ["", "", "", "", "True", "0.", "False"], "Input Dims": [{heads}, [2, 1, 1024, 1024]]"#
    );
    let mut trace = Tracer::new(Some("NVIDIA H200"));
    trace.operator(
        "aten::_scaled_dot_product_flash_attention_backward",
        &backward("False"),
        &[("a", 100.0), ("b", 20.0)],
    );
    trace.operator(
        "aten::_scaled_dot_product_efficient_attention",
        &masked,
        &[("fmha_cutlassF", 50.0)],
    );
    trace.operator(
        "aten::add",
        r#""Input type": ["float", "float"], "Input Dims": [[64, 64], [64]]"#,
        &[("add", 9.0)],
    );
    trace.operator("aten::mm", "", &[("nvjet_TNT", 10.0)]);
    trace.operator(
        "aten::gelu",
        r#""Input type": ["float"], "Input Dims": [[4294967296, 4294967296, 8]]"#,
        &[("gelu", 9.0)],
    );
    trace.operator(
        "aten::bmm",
        r#""Input type": ["float", "float"], "Input Strides": [[6, 3, 1], [12, 4, 1]],
        "Input Dims": [[64, 2, 3], [64, 3, 4]]"#,
        &[("cutlass_80_tensorop_s1688gemm_tf32_nn", 10.0)],
    );
    let read = read(trace.text().as_bytes(), "trace.json", &Filter::default()).unwrap();
    let batched = Op::Gemm(Gemm {
        batch: 64,
        layout: Layout::Nn,
        dtype: Dtype::Tf32,
        ..Gemm::new(2, 4, 3)
    });
    let attention = Op::Attention(Attention {
        causal: false,
        pass: Pass::Backward,
        dtype: Dtype::Fp16,
        ..Attention::new(2, 16, 1024, 64)
    });
    let mut found: Vec<_> = read.table.rows.iter().map(|row| (row.op, micros(row.time))).collect();
    found.sort_by(|a, b| a.1.total_cmp(&b.1));
    assert_eq!(found, [(batched, 10.0), (attention, 120.0)]);
    assert_eq!(
        reasons(&read),
        [
            ("aten::_scaled_dot_product_efficient_attention: a mask of its own", 1),
            ("aten::add: operands of two shapes", 1),
            ("aten::gelu: sizes whose product is above 2^64 - 1", 1),
            ("aten::mm: no shapes; record with record_shapes=True", 1),
        ]
    );
}

#[test]
fn softmax_and_norms_are_rows_over_the_last_axis_alone() {
    let mut trace = Tracer::new(Some("NVIDIA H200"));
    for (name, axes) in [
        ("aten::_softmax", [r#""1""#, r#""-1""#, r#""2""#]),
        (
            "aten::_softmax_backward_data",
            [r#""", "-2""#, r#""", "-1""#, r#""", "2""#],
        ),
        ("aten::native_layer_norm", [r#""[16, 64]""#, r#""[64]""#, r#""[64]""#]),
        (
            "aten::_fused_rms_norm_backward",
            [r#""", "[16, 64]""#, r#""", "[64]""#, r#""""#],
        ),
    ] {
        for axis in axes {
            let inputs = format!(
                r#""Concrete Inputs": ["", {axis}], "Input type": ["float", "float"],
                "Input Dims": [[8, 16, 64], [8, 16, 64]]"#
            );
            trace.operator(name, &inputs, &[("rows", 9.0)]);
        }
    }
    let read = read(trace.text().as_bytes(), "trace.json", &Filter::default()).unwrap();
    let calls: u32 = read.table.rows.iter().map(|row| row.samples.unwrap()).sum();
    assert_eq!((read.table.rows.len(), calls), (4, 7));
    let left_out: u64 = reasons(&read)
        .iter()
        .map(|(reason, calls)| {
            if reason.ends_with("no word that its axis is the last one") {
                *calls
            } else {
                0
            }
        })
        .sum();
    assert_eq!(left_out, 5, "{:?}", reasons(&read));
}

/// Inputs of `flash_attn`: the window left and right, the soft cap and the slopes of ALiBi follow the mask.
#[test]
fn windows_soft_caps_and_slopes_of_flash_attn_are_left_out() {
    let types = ["c10::BFloat16"; 4].map(|name| format!("\"{name}\"")).join(", ");
    let mut trace = Tracer::new(Some("NVIDIA H200"));
    for (pass, tensors, unused) in [("forward", 3, 0), ("backward", 4, 5)] {
        for (rest, slopes) in [
            (r#""-1", "-1", "0.""#, "[]"),
            (r#""1023", "0", "0.""#, "[]"),
            (r#""-1", "128", "0.""#, "[]"),
            (r#""-1", "-1", "30.""#, "[]"),
            (r#""-1", "-1", "0.""#, "[16]"),
        ] {
            let (heads, blank) = (
                "[2, 1024, 16, 64], ".repeat(tensors),
                r#""", "#.repeat(tensors + unused),
            );
            let none = "[], ".repeat(unused + 6);
            let inputs = format!(
                r#""Input type": [{types}], "Concrete Inputs": [{blank}"0.", "0.125", "True", {rest}, ""],
                "Input Dims": [{heads}{none}{slopes}]"#
            );
            trace.operator(&format!("flash_attn::_flash_attn_{pass}"), &inputs, &[("flash", 50.0)]);
        }
    }
    let read = read(trace.text().as_bytes(), "trace.json", &Filter::default()).unwrap();
    let ops: Vec<Op> = read.table.rows.iter().map(|row| row.op).collect();
    let forward = Attention::new(2, 16, 1024, 64);
    let backward = Attention {
        pass: Pass::Backward,
        ..forward
    };
    assert_eq!(ops, [forward, backward].map(Op::Attention));
    let mut reasons: Vec<_> = reasons(&read);
    reasons.sort_unstable();
    let wanted = ["backward", "forward"].map(|pass| {
        [("a mask of its own", 1), ("a sliding window", 2), ("a soft cap", 1)]
            .map(|(reason, calls)| (format!("flash_attn::_flash_attn_{pass}: {reason}"), calls))
    });
    let wanted: Vec<_> = wanted
        .as_flattened()
        .iter()
        .map(|(reason, calls)| (reason.as_str(), *calls))
        .collect();
    assert_eq!(reasons, wanted);
}

#[test]
fn damaged_traces_and_those_without_kernels_or_shapes_are_refused_in_a_sentence() {
    let whole = training().text();
    let cut = refusal(&whole[..whole.len() / 2]);
    assert!(cut.contains("trace.json: the file is cut off after event "), "{cut}");
    let sentence = refusal("not a trace");
    assert!(sentence.contains("no kernels of a GPU; allowed: "), "{sentence}");
    let mut host = Tracer::new(None);
    host.operator("aten::mm", r#""Input Dims": [[2, 3], [3, 4]]"#, &[]);
    assert!(refusal(&host.text()).contains("with ProfilerActivity.CUDA among its activities"));
    let mut shapeless = Tracer::new(Some("NVIDIA H100"));
    shapeless.operator("aten::mm", "", &[("nvjet_TNT", 10.0)]);
    assert!(refusal(&shapeless.text()).contains("neither steps nor operators with shapes; allowed: "));
    shapeless.step(1, 9000.0);
    let read = read(shapeless.text().as_bytes(), "trace.json", &Filter::default()).unwrap();
    assert_eq!((read.table.rows.len(), read.steps.len()), (0, 1));
    // A program's ranges are steps where the profiler has none.
    let both = shapeless.text().replace("ProfilerStep#1", "iteration 1");
    let ranges = self::read(both.as_bytes(), "trace.json", &Filter::default()).unwrap();
    assert_eq!(ranges.steps, read.steps);
    shapeless.step(3, 9000.0);
    let both = shapeless.text().replace("ProfilerStep#1", "iteration 1");
    let read = self::read(both.as_bytes(), "trace.json", &Filter::default()).unwrap();
    assert_eq!(read.steps.len(), 1);
    shapeless.events.truncate(shapeless.events.len() - 2);
    // A step that took no time is not counted.
    shapeless.step(2, 0.0);
    let read = self::read(shapeless.text().as_bytes(), "trace.json", &Filter::default()).unwrap();
    assert_eq!(read.steps.len(), 1);
    let unknown = Tracer {
        device: Some("NVIDIA Z9"),
        ..training()
    };
    assert!(refusal(&unknown.text()).contains("`NVIDIA Z9`, which is not in data/gpus; allowed: a known GPU"));
}
