//! Golden predictions: every GPU with its own model and a dozen whole steps, bit for bit.
//!
//! A change that moves a prediction fails here and says which family moved by how much. Where the move is wanted,
//! `SHAPEWISE_BLESS=1 cargo test --test main goldens -- --nocapture` renews `tests/goldens/predictions.json` and prints
//! the same table.

use serde_json::{Map, Value, json};
use shapewise::arch::{AttentionKernel, Mode, Preset, Recompute, Workload};
use shapewise::families::Family;
use shapewise::framework::Framework;
use shapewise::gpu::Gpu;
use shapewise::ops::{Attention, Collective, CollectiveKind, Dtype, Gemm, Layout, Memory, MemoryKind, Op, Pass};
use shapewise::predict::Predictor;
use shapewise::predict::estimate::Caveats;
use shapewise::predict::step::estimate_step;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// GPUs whose steps are recorded: a Hopper, an Ampere and an Ada part.
const STEP_GPUS: [&str; 3] = ["h200", "a100", "l40s"];

/// Largest relative difference between vector instruction sets, whose sums round differently.
const OTHER_INSTRUCTIONS: f64 = 1e-4;

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/predictions.json")
}

/// About sixty operators of all families, formats and layouts, with odd sizes.
fn operators() -> Vec<Op> {
    let gemm = |m, n, k, batch, layout, dtype| {
        Op::Gemm(Gemm {
            m,
            n,
            k,
            batch,
            layout,
            dtype,
        })
    };
    let mut ops = Vec::new();
    for dtype in Dtype::ALL {
        for (m, n, k) in [(4096, 4096, 4096), (16, 8192, 28672), (3000, 5120, 1536)] {
            ops.push(gemm(m, n, k, 1, Layout::Tn, dtype));
        }
    }
    for layout in Layout::ALL {
        ops.push(gemm(2048, 11008, 4096, 1, layout, Dtype::Bf16));
        ops.push(gemm(8192, 2560, 10240, 1, layout, Dtype::Fp16));
    }
    ops.extend([
        gemm(1, 1, 1, 1, Layout::Tn, Dtype::Bf16),
        gemm(8192, 50257, 2560, 1, Layout::Tn, Dtype::Bf16),
        gemm(50257, 2560, 8192, 1, Layout::Nt, Dtype::Fp16),
        gemm(2047, 80, 2047, 128, Layout::Nn, Dtype::Bf16),
        gemm(2048, 2048, 64, 96, Layout::Tn, Dtype::Fp16),
        gemm(1 << 20, 1 << 16, 1 << 15, 1, Layout::Tn, Dtype::Bf16),
    ]);
    let attention = |batch, heads, kv_heads, seq_q, seq_kv, head_dim, causal, dtype| Attention {
        batch,
        heads,
        kv_heads,
        seq_q,
        seq_kv,
        head_dim,
        value_dim: head_dim,
        causal,
        window: 0,
        pass: Pass::Forward,
        dtype,
    };
    let usual = attention(4, 32, 8, 4096, 4096, 128, true, Dtype::Bf16);
    let decode = attention(32, 64, 8, 1, 6000, 128, true, Dtype::Bf16);
    ops.extend(
        [
            usual,
            attention(1, 40, 40, 2048, 2048, 64, true, Dtype::Fp16),
            attention(8, 16, 16, 511, 511, 80, false, Dtype::Bf16),
            attention(2, 24, 24, 1024, 1024, 96, true, Dtype::Fp16),
            attention(1, 8, 1, 131_072, 131_072, 256, true, Dtype::Bf16),
            attention(2, 32, 8, 512, 8192, 128, true, Dtype::Bf16),
            attention(4, 32, 32, 4096, 4096, 128, true, Dtype::Fp8),
            Attention { window: 1024, ..usual },
            Attention {
                head_dim: 192,
                kv_heads: 32,
                ..usual
            },
            Attention {
                pass: Pass::Backward,
                ..usual
            },
            decode,
            attention(1, 32, 8, 1, 1, 128, true, Dtype::Bf16),
            attention(200, 128, 1, 1, 20_000, 128, true, Dtype::Bf16),
            attention(7, 71, 71, 1, 2047, 64, false, Dtype::Fp16),
            Attention { window: 4096, ..decode },
            Attention {
                head_dim: 576,
                value_dim: 512,
                heads: 128,
                kv_heads: 1,
                ..decode
            },
        ]
        .map(Op::Attention),
    );
    for kind in [
        MemoryKind::Softmax,
        MemoryKind::Dropout,
        MemoryKind::RmsNorm,
        MemoryKind::Swiglu,
        MemoryKind::CrossEntropy,
        MemoryKind::Adam,
    ] {
        for pass in [Pass::Forward, Pass::Backward] {
            ops.push(Op::Memory(Memory {
                kind,
                rows: 8192,
                cols: 5120,
                pass,
                dtype: Dtype::Bf16,
            }));
        }
    }
    for kind in [CollectiveKind::AllReduce, CollectiveKind::AllToAll] {
        for ranks in [1, 8, 64] {
            ops.push(Op::Collective(Collective::new(kind, 100_000_000, ranks)));
        }
    }
    ops
}

/// A dozen steps that use every number of a workload.
fn steps() -> Vec<(&'static str, Workload)> {
    let train = Workload::train(2, 4096);
    vec![
        ("llama-3-8b", train),
        ("llama-3-8b", Workload::prefill(4, 2048)),
        ("llama-3-8b", Workload::decode(32, 4096)),
        (
            "llama-2-70b",
            Workload {
                tp: 8,
                pp: 2,
                dp: 16,
                zero: 1,
                microbatches: 8,
                sequence_parallel: true,
                ..train
            },
        ),
        (
            "llama-2-70b",
            Workload {
                tp: 4,
                dtype: Dtype::Fp8,
                ..Workload::decode(64, 8192)
            },
        ),
        (
            "gpt3-2.7b",
            Workload {
                attention: AttentionKernel::Unfused,
                dtype: Dtype::Fp16,
                ..Workload::train(1, 2048)
            },
        ),
        (
            "gpt3-2.7b",
            Workload {
                recompute: Recompute::Full,
                dp: 64,
                zero: 3,
                ..Workload::train(4, 2048)
            },
        ),
        ("mixtral-8x7b", Workload::prefill(1, 8192)),
        ("mixtral-8x7b", Workload::decode(16, 1024)),
        ("deepseek-v3", Workload { tp: 8, ..train }),
        (
            "deepseek-v3",
            Workload {
                tp: 8,
                ..Workload::decode(128, 4096)
            },
        ),
        ("mistral-7b-v0.1", Workload::prefill(1, 16_384)),
    ]
}

/// The vector instructions that evaluate the nets here.
fn instructions() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            return "avx512";
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            return "avx2";
        }
    }
    "portable"
}

fn caveats(caveats: Caveats) -> Value {
    json!(caveats.iter().collect::<Vec<_>>())
}

fn family(op: &Op) -> &'static str {
    match op {
        Op::Memory(_) => "memory",
        Op::Collective(_) => "collective",
        _ => Family::of(op).name(),
    }
}

/// The key of an operator: its place in the list keeps apart what is written alike.
fn key(index: usize, op: &Op) -> String {
    let pass = match op {
        Op::Attention(op) => op.pass.name(),
        Op::Memory(op) => op.pass.name(),
        _ => "",
    };
    format!("{index:02} {} {op} {pass}", family(op)).trim().to_owned()
}

fn step_lines(predictor: &Predictor) -> Value {
    let line = |(index, (model, workload)): (usize, (&str, Workload))| {
        let preset = Preset::find(model).unwrap();
        let step = estimate_step(predictor, &preset.architecture, &workload).unwrap();
        let line = json!([
            step.time.secs(),
            step.low.secs(),
            step.high.secs(),
            step.memory.total().bytes(),
            step.tier_shares.0,
            caveats(step.caveats),
        ]);
        (format!("{index:02} step {model} {}", workload.mode), line)
    };
    steps().into_iter().enumerate().map(line).collect::<Map<_, _>>().into()
}

fn predicted() -> Value {
    let mut gpus = Map::new();
    for name in shapewise::predict::library::names() {
        let Ok(gpu) = Gpu::find(name) else {
            continue; // a base that no single GPU answers with
        };
        let predictor = Predictor::new(gpu, None).unwrap();
        let ops = operators();
        let estimates = predictor.predict(&ops);
        let lines = ops.iter().zip(estimates).enumerate().map(|(index, (op, estimate))| {
            let line = json!([
                estimate.time.secs(),
                estimate.half_width,
                estimate.shared,
                estimate.tier,
                caveats(estimate.caveats),
            ]);
            (key(index, op), line)
        });
        gpus.insert(name.to_owned(), lines.collect::<Map<_, _>>().into());
        if STEP_GPUS.contains(&name) {
            let kernels = Framework::find(Framework::KERNELS, Mode::Train, gpu.generation).unwrap();
            let plain = Predictor::new(gpu, None).unwrap().with_framework(kernels.clone());
            gpus.insert(format!("{name} steps"), step_lines(&plain));
            gpus.insert(
                format!("{name} steps of the default frameworks"),
                step_lines(&predictor),
            );
        }
    }
    json!({ "instructions": instructions(), "predictions": gpus })
}

/// The largest difference between two documents of the same form; infinite where anything but a number differs.
fn difference(old: &Value, new: &Value) -> f64 {
    match (old, new) {
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            let each = old.iter().zip(new).map(|(old, new)| difference(old, new));
            each.fold(0.0, f64::max)
        }
        (Value::Number(old), Value::Number(new)) => {
            let [old, new] = [old, new].map(|number| number.as_f64().unwrap());
            if old.to_bits() == new.to_bits() {
                0.0
            } else {
                (new / old).ln().abs().max(f64::MIN_POSITIVE)
            }
        }
        (old, new) if old == new => 0.0,
        _ => f64::INFINITY,
    }
}

/// Number of predictions, number that moved and the largest move by GPU and family.
fn moves(old: &Value, new: &Value) -> BTreeMap<(String, String), (usize, usize, f64)> {
    let lines = |document: &Value| -> BTreeMap<(String, String), Value> {
        let gpus = document["predictions"].as_object().cloned().unwrap_or_default();
        let lines = gpus.into_iter().flat_map(|(gpu, lines)| {
            let lines = lines.as_object().cloned().unwrap_or_default();
            lines.into_iter().map(move |(key, line)| ((gpu.clone(), key), line))
        });
        lines.collect()
    };
    let (old, new) = (lines(old), lines(new));
    let mut moves = BTreeMap::new();
    for place in old.keys().chain(new.keys().filter(|place| !old.contains_key(*place))) {
        let moved = match (old.get(place), new.get(place)) {
            (Some(old), Some(new)) => difference(old, new),
            _ => f64::INFINITY,
        };
        let family = place.1.split(' ').nth(1).unwrap_or_default();
        let group = moves.entry((place.0.clone(), family.to_owned())).or_insert((0, 0, 0.0));
        group.0 += 1;
        group.1 += usize::from(moved > 0.0);
        group.2 = f64::max(group.2, moved);
    }
    moves
}

#[test]
fn goldens_predictions_are_those_of_the_last_blessing() {
    let new = predicted();
    let old: Value = std::fs::read_to_string(path())
        .ok()
        .map_or(Value::Null, |text| serde_json::from_str(&text).unwrap());
    let allowed = match old["instructions"] == new["instructions"] {
        true => 0.0,
        false => OTHER_INSTRUCTIONS,
    };
    let moved: Vec<String> = moves(&old, &new)
        .into_iter()
        .filter(|(_, (_, _, largest))| *largest > allowed)
        .map(|((gpu, family), (lines, moved, largest))| {
            format!("{gpu}, {family}: {moved} of {lines} moved, ln(new / old) at most {largest:.2e}")
        })
        .collect();
    if crate::files::blessing() {
        eprintln!("{}", moved.join("\n"));
        let text = serde_json::to_string(&new).unwrap();
        // One prediction a line, so that a diff names what moved.
        let text = text.replace("],\"", "],\n\"").replace("{\"0", "{\n\"0");
        std::fs::create_dir_all(path().parent().unwrap()).unwrap();
        std::fs::write(path(), text + "\n").unwrap();
        return;
    }
    assert!(
        moved.is_empty(),
        "predictions moved; bless them where that is wanted:\n{}",
        moved.join("\n")
    );
}
