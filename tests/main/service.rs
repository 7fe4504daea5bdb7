//! The HTTP service, asked without a socket: answers, problems, limits, the document of the API.

use crate::cli::data;
use crate::http::endless;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::{Value, json};
use shapewise::serve::App;
use shapewise::serve::limits::Limits;
use shapewise::serve::router;
use std::time::Duration;
use tower::ServiceExt;

/// An answer, whole.
struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    text: String,
}

impl Reply {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.map_or("", |value| value.to_str().unwrap())
    }
}

fn service() -> Router {
    with(Limits::default())
}

fn with(limits: Limits) -> Router {
    router(App::new(limits, |_| {}), &[]).unwrap()
}

async fn send(router: Router, request: Request<Body>) -> Reply {
    let response = router.oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let bytes = to_bytes(body, usize::MAX).await.unwrap();
    Reply {
        status: parts.status,
        headers: parts.headers,
        text: String::from_utf8(bytes.to_vec()).unwrap(),
    }
}

async fn get(path: &str) -> Reply {
    send(service(), Request::get(path).body(Body::empty()).unwrap()).await
}

async fn post(path: &str, body: &Value) -> Reply {
    send(service(), question(path, body.to_string())).await
}

fn question(path: &str, body: impl Into<Body>) -> Request<Body> {
    let request = Request::post(path).header("content-type", "application/json");
    request.body(body.into()).unwrap()
}

#[tokio::test]
async fn a_graph_is_answered_as_on_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let list = [
        json!({"kind": "gemm", "m": 4096, "n": 11008, "k": 4096, "count": 32, "name": "up"}),
        json!({"kind": "attention", "heads": 32, "kv_heads": 8, "seq_q": 1, "seq_kv": 4096, "head_dim": 128}),
    ];
    let lines = list.iter().map(|line| format!("{line}\n")).collect::<String>();
    let path = folder.path().join("ops.jsonl");
    std::fs::write(&path, &lines).unwrap();
    let name = path.display().to_string();
    let line = format!("predict graph {name} --gpu h100 --dtype fp16 --format json");
    let printed = data(&line);
    for ops in [json!(list), json!(lines)] {
        let body = json!({"ops": ops, "name": name, "gpu": "h100", "dtype": "fp16"});
        let reply = post("/v1/predict/graph", &body).await;
        assert_eq!(reply.text, printed, "{body}");
    }
    // `c = a b` in fp16, where a is (batch, 512) and b is (512, 1536).
    let path = folder.path().join("model.onnx");
    let model = "OlEKEQoBYQoBYhIBYyIGTWF0TXVsWh4KAWESGQoXCIqAgAASEAoHEgViYXRjaAoFCICEgABaHAoBYhIXChUIioCAABIOCgUIgISAAAoFCICMgAA=";
    std::fs::write(&path, BASE64_STANDARD.decode(model).unwrap()).unwrap();
    let name = path.display().to_string();
    let body = json!({"onnx": model, "name": name, "dims": {"batch": 8}});
    let line = format!("predict graph {name} --dim batch=8 --format json");
    assert_eq!(post("/v1/predict/graph", &body).await.text, data(&line));
    for (body, field, part) in [
        (json!({}), "onnx", "`ops`"),
        (json!({"onnx": "", "ops": []}), "onnx", "beside"),
        (json!({"onnx": "?"}), "onnx", "base64"),
        (json!({"onnx": model}), "dims", "batch=SIZE"),
        (
            json!({"ops": list, "dims": {"batch": 8}}),
            "dims",
            "no symbolic dimensions",
        ),
        (
            json!({"ops": [list[0], {"kind": "gemm", "m": 0}]}),
            "ops[1].m",
            "from 1",
        ),
        (json!({"ops": [{"kind": "conv"}]}), "ops[0].kind", "gemm, attention"),
        (json!({"ops": list, "dtype": "int3"}), "dtype", "bf16"),
        (json!({"ops": list, "file": "ops.jsonl"}), "file", "`onnx`"),
    ] {
        let reply = post("/v1/predict/graph", &body).await;
        let problem = reply.json();
        assert_eq!(
            (reply.status.as_u16(), &problem["field"]),
            (422, &field.into()),
            "{body} {problem}"
        );
        assert!(problem["detail"].as_str().unwrap().contains(part), "{problem}");
    }
    // Bytes that are no model, and a list without an operator, are wrong in no field of the request.
    for body in [
        json!({"onnx": ""}),
        json!({"onnx": "eA=="}),
        json!({"ops": []}),
        json!({"ops": "x"}),
    ] {
        let reply = post("/v1/predict/graph", &body).await;
        assert_eq!(reply.status.as_u16(), 422, "{body}");
        assert!(
            reply.json()["detail"].as_str().unwrap().contains("graph"),
            "{}",
            reply.text
        );
    }
}

/// Every kind of question, with the command line that asks the same.
fn equal_questions() -> Vec<(&'static str, Value, &'static str)> {
    vec![
        (
            "/v1/plan",
            json!({"architecture": "llama-3-8b", "gpu": "h100", "gpus": 64, "global_batch": "4M", "tokens": "1T", "usd_per_gpu_hour": 2.5}),
            "plan llama-3-8b --gpu h100 --gpus 64 --global-batch 4M --tokens 1T --usd-per-gpu-hour 2.5",
        ),
        (
            "/v1/plan",
            json!({"architecture": "llama-3-70b", "gpu": "h200", "gpus": "8:32", "mode": "decode", "tpot_ms": 40.0, "tp": 8, "concurrency": 50, "confidence": 0.6}),
            "plan llama-3-70b --gpu h200 --gpus 8:32 --mode decode --tpot-ms 40 --tp 8 --max-concurrency 50 --confidence 60%",
        ),
        (
            "/v1/compare",
            json!({"architecture": "llama-3-8b", "gpu": "t4,a100,h100", "gpus": 8, "seq": 2048, "usd_per_gpu_hour": "a100=1.5,h100=2.5"}),
            "compare llama-3-8b --gpu t4,a100,h100 --gpus 8 --seq 2048 --usd-per-gpu-hour a100=1.5,h100=2.5",
        ),
        (
            "/v1/predict/gemm",
            json!({"m": 8192, "n": 50257, "k": 2560}),
            "predict gemm -m 8192 -n 50257 -k 2560",
        ),
        (
            "/v1/predict/gemm",
            json!({"m": 512, "n": 512, "k": 64, "batch": 8, "dtype": "fp16", "layout": "nt", "gpu": "a100"}),
            "predict gemm -m 512 -n 512 -k 64 --batch-count 8 --dtype fp16 --layout nt --gpu a100",
        ),
        (
            "/v1/predict/gemm",
            json!({"m": 512, "n": 512, "k": 64, "gpu": "h200", "model": "a100"}),
            "predict gemm -m 512 -n 512 -k 64 --model a100 --gpu h200",
        ),
        (
            "/v1/predict/attention",
            json!({"batch": 4, "heads": 32, "kv_heads": 8, "seq_q": 1, "seq_kv": 4096, "head_dim": 128}),
            "predict attention --batch 4 --heads 32 --kv-heads 8 --seq 1 --kv-seq 4096 --head-dim 128",
        ),
        (
            "/v1/predict/attention",
            json!({"batch": 4, "heads": 32, "seq_q": 2048, "head_dim": 80, "causal": true, "pass": "backward"}),
            "predict attention --batch 4 --heads 32 --seq 2048 --head-dim 80 --causal --pass backward",
        ),
        (
            "/v1/predict/attention",
            json!({
                "batch": 2, "heads": 16, "seq_q": 1024, "seq_kv": 4096, "head_dim": 192, "value_dim": 128, "causal": true,
                "window": 512, "dtype": "fp16",
            }),
            "predict attention --batch 2 --heads 16 --seq 1024 --kv-seq 4096 --head-dim 192 --value-dim 128 --causal \
             --window 512 --dtype fp16",
        ),
        (
            "/v1/predict/model",
            json!({"architecture": "gpt3-2.7b"}),
            "predict model gpt3-2.7b",
        ),
        (
            "/v1/predict/model",
            json!({"architecture": "gpt3-2.7b", "heads": 20, "layers": 16}),
            "predict model gpt3-2.7b --heads 20 --layers 16",
        ),
        (
            "/v1/predict/model",
            json!({"architecture": "mixtral-8x7b", "gpu": "b200", "workload": {
                "mode": "decode", "batch": 64, "context": 1000, "tp": 2, "dtype": "fp8",
            }}),
            "predict model mixtral-8x7b --gpu b200 --mode decode --batch 64 --context 1000 --tp 2 --dtype fp8",
        ),
        (
            "/v1/predict/model",
            json!({"architecture": "llama-2-7b", "workload": {
                "seq": 1024, "pp": 2, "dp": 8, "zero": 1, "recompute": "full", "attention": "unfused",
                "microbatches": 16, "tp": 2, "sequence_parallel": true,
            }}),
            "predict model llama-2-7b --seq 1024 --pp 2 --dp 8 --zero 1 --recompute full --attention unfused \
             --microbatches 16 --tp 2 --sequence-parallel",
        ),
        (
            "/v1/check",
            json!({"architecture": "gpt2", "gpu": "a100"}),
            "check gpt2 --gpu a100",
        ),
        (
            "/v1/check/gemm",
            json!({"m": 4096, "n": 11006, "k": 4096, "gpu": "h100"}),
            "check gemm -m 4096 -n 11006 -k 4096 --gpu h100",
        ),
        (
            "/v1/check/attention",
            json!({"batch": 4, "heads": 32, "seq_q": 4096, "head_dim": 136, "pass": "backward"}),
            "check attention --batch 4 --heads 32 --seq 4096 --head-dim 136 --pass backward",
        ),
        ("/v1/search", json!({"params": "350M"}), "search --params 350M"),
        (
            "/v1/search",
            json!({
                "params": 1.3e9, "count": "non-embedding", "tolerance": 0.02, "like": "gpt3-2.7b", "vocab": 32000,
                "free": ["micro-batch"], "relax": ["aspect_ratio"], "head_dim": 128, "top": 3, "seed": 7,
                "no_sharding": true, "workload": {"mode": "prefill"},
            }),
            "search --params 1.3e9 --count non-embedding --tolerance 0.02 --like gpt3-2.7b --vocab 32000 \
             --free micro-batch --relax aspect_ratio --head-dim 128 --top 3 --seed 7 --no-sharding --mode prefill",
        ),
        (
            "/v1/search",
            json!({"params": "125M", "exhaustive": true, "mlp": "gelu", "layers": 12, "heads": 12, "kv_heads": 12, "vocab": 50257}),
            "search --params 125M --exhaustive --mlp gelu --layers 12 --heads 12 --kv-heads 12 --vocab 50257",
        ),
        (
            "/v1/sweep/gemm",
            json!({"m": 2304, "n": "1536:6144:64", "k": 4096, "gpu": "a100"}),
            "sweep gemm -m 2304 -n 1536:6144:64 -k 4096 --gpu a100",
        ),
        (
            "/v1/sweep/attention",
            json!({"batch": 4, "heads": "8:32:8", "seq_q": 2048, "head_dim": 128, "causal": true}),
            "sweep attention --batch 4 --heads 8:32:8 --seq 2048 --head-dim 128 --causal",
        ),
        (
            "/v1/sweep/model",
            json!({"architecture": "gpt2", "layers": "6:12:6"}),
            "sweep model gpt2 --layers 6:12:6",
        ),
        (
            "/v1/sweep/model",
            json!({"architecture": "gpt2", "vocab": "50257:50304:47", "workload": {"mode": "decode"}}),
            "sweep model gpt2 --vocab 50257:50304:47 --mode decode",
        ),
        (
            "/v1/sweep/attention",
            json!({"batch": 1, "heads": 8, "seq_q": 2048, "head_dim": 64, "causal": true, "window": "0:1024:512"}),
            "sweep attention --batch 1 --heads 8 --seq 2048 --head-dim 64 --causal --window 0:1024:512",
        ),
        (
            "/v1/sweep/model",
            json!({"architecture": "llama-3-8b", "workload": {"mode": "decode", "context": "0:1024:512"}}),
            "sweep model llama-3-8b --mode decode --context 0:1024:512",
        ),
    ]
}

#[tokio::test]
async fn the_service_answers_what_the_command_line_answers() {
    for (path, body, line) in equal_questions() {
        let reply = post(path, &body).await;
        assert_eq!(reply.status, StatusCode::OK, "{body}: {}", reply.text);
        assert_eq!(reply.header("content-type"), "application/json");
        let printed = data(&format!("{line} --format json"));
        assert_eq!(reply.text, printed, "{line}");
    }
    for (path, line) in [
        ("/v1/gpus", "gpus"),
        ("/v1/gpus/a100", "gpus a100"),
        ("/v1/models", "models"),
        ("/v1/presets", "presets"),
    ] {
        let printed = data(&format!("{line} --format json"));
        assert_eq!(get(path).await.text, printed, "{line}");
    }
}

#[tokio::test]
async fn a_batch_answers_each_operator_as_if_it_were_alone() {
    let gemm = json!({"m": 4096, "n": 4096, "k": 128});
    let attention = json!({"batch": 1, "heads": 8, "seq_q": 512, "head_dim": 64});
    let kind = |kind: &str, op: &Value| {
        let mut op = op.clone();
        op["kind"] = kind.into();
        op
    };
    let ops = [kind("gemm", &gemm), kind("attention", &attention)];
    let reply = post("/v1/predict/batch", &json!({"ops": ops, "gpu": "l40s"})).await;
    let batch = reply.json();
    for (at, (path, mut alone)) in [("gemm", gemm), ("attention", attention)].into_iter().enumerate() {
        alone["gpu"] = "l40s".into();
        let mut single = post(&format!("/v1/predict/{path}"), &alone).await.json();
        // What bounds it is worked out for an operator that is asked for alone.
        for key in ["schema", "bound_by", "bound_detail", "faster"] {
            single.as_object_mut().unwrap().remove(key);
        }
        assert_eq!(batch["ops"][at], single, "{path}");
    }
    let most: Vec<_> = std::iter::repeat_n(&ops[0], 10_000).collect();
    let reply = post("/v1/predict/batch", &json!({"ops": most})).await;
    assert_eq!(reply.json()["ops"].as_array().unwrap().len(), 10_000);
    let more: Vec<_> = std::iter::repeat_n(&ops[0], 10_001).collect();
    for (ops, field, allowed) in [
        (json!(more), "ops", "1 to 10000"),
        (json!([]), "ops", "1 to 10000"),
        (
            json!([ops[0], {"kind": "gemm", "m": 0, "n": 1, "k": 1}]),
            "ops[1].m",
            "from 1",
        ),
        (json!([{"kind": "adam"}]), "ops[0].kind", "`gemm`"),
        (json!([7]), "ops[0].kind", "`gemm`"),
        (
            json!([{"kind": "attention", "batch": 1, "heads": 8, "kv_heads": 3, "seq_q": 1, "head_dim": 64}]),
            "ops[0].kv_heads",
            "divisor",
        ),
    ] {
        let problem = post("/v1/predict/batch", &json!({"ops": ops})).await.json();
        assert_eq!(problem["field"], field, "{problem}");
        let printed = problem["allowed"].as_str().unwrap();
        assert!(printed.contains(allowed), "{problem}");
    }
}

/// Steps on an H100 that take longer than fsdp2 predicts, as objects and as CSV.
async fn slower_runs(slower: f64) -> (Vec<Value>, String) {
    let (mut runs, mut csv) = (Vec::new(), "model,gpu,mode,batch,seq,seconds\n".to_owned());
    for (model, batch, seq) in [
        ("llama-3.2-1b", 4, 2048),
        ("llama-3.2-3b", 2, 4096),
        ("qwen3-4b", 2, 4096),
        ("qwen2.5-1.5b", 8, 2048),
        ("qwen2.5-3b", 1, 8192),
    ] {
        let asked = json!({
            "architecture": model, "gpu": "h100", "framework": "fsdp2", "workload": {"batch": batch, "seq": seq},
        });
        let step = post("/v1/predict/model", &asked).await.json();
        let seconds = slower * step["time_us"].as_f64().unwrap() * 1e-6;
        runs.push(json!({
            "model": model, "gpu": "h100", "mode": "train", "batch": batch, "seq": seq, "seconds": seconds,
        }));
        csv += &format!("{model},h100,train,{batch},{seq},{seconds}\n");
    }
    (runs, csv)
}

#[tokio::test]
async fn runs_in_the_body_become_a_framework_of_other_requests() {
    let (runs, csv) = slower_runs(1.3).await;
    let path = "/v1/calibrate";
    let reply = post(path, &json!({"runs": runs, "framework": "fsdp2"})).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    let of_csv = post(path, &json!({"csv": csv, "framework": "fsdp2"})).await;
    assert_eq!(reply.text, of_csv.text);
    let fitted = reply.json();
    assert_eq!(fitted["framework"], "calibrated");
    assert_eq!(fitted["fits"]["train_dense"]["runs"], 5);
    assert_eq!(fitted["fits"]["train_dense"]["runs_from"], "the request");

    // The command line reads the same runs from a file, which names the framework.
    let folder = tempfile::tempdir().unwrap();
    let [file, out] = ["runs.csv", "calibrated.toml"].map(|name| folder.path().join(name));
    std::fs::write(&file, csv).unwrap();
    let (file, out) = (file.to_str().unwrap(), out.to_str().unwrap());
    let line = format!("calibrate --runs {file} --framework fsdp2 --out {out} --force -q --format json");
    let printed: Value = serde_json::from_str(&data(&line)).unwrap();
    for key in ["constants", "half_widths", "base_mean_ape"] {
        assert_eq!(printed[key], fitted[key], "{key}");
    }
    assert_eq!(printed["toml"], std::fs::read_to_string(out).unwrap());

    let own = json!({"toml": fitted["toml"]});
    let time = async |framework: &Value| {
        let asked = json!({
            "architecture": "llama-3-8b", "gpu": "h100", "framework": framework, "workload": {"batch": 1},
        });
        post("/v1/predict/model", &asked).await.json()["time_us"]
            .as_f64()
            .unwrap()
    };
    let ratio = time(&own).await / time(&json!("fsdp2")).await;
    assert!((1.2..1.4).contains(&ratio), "{ratio}");
    for (path, mut asked, name) in [
        ("/v1/check", json!({"architecture": "gpt2"}), "/predicted/framework"),
        (
            "/v1/plan",
            json!({"architecture": "llama-3-8b", "gpus": 8}),
            "/framework/name",
        ),
        ("/v1/search", json!({"params": "125M"}), "/framework"),
    ] {
        asked["gpu"] = json!("h100");
        asked["framework"] = own.clone();
        let reply = post(path, &asked).await;
        let document = reply.json();
        assert_eq!(reply.status, StatusCode::OK, "{path}: {document}");
        assert_eq!(document.pointer(name), Some(&json!("calibrated")), "{path}: {document}");
    }
}

#[tokio::test]
async fn a_calibration_reads_no_file_and_names_what_is_wrong() {
    let (runs, _) = slower_runs(1.0).await;
    let with = |key: &str, value: Value| {
        let mut runs = runs.clone();
        runs[1][key] = value;
        json!({ "runs": runs })
    };
    for (body, field, part) in [
        (with("batch", json!(0)), json!("runs[1].batch"), "whole number"),
        (with("bach", json!(1)), json!("runs[1].bach"), "batch"),
        (with("seconds", json!(null)), json!("runs[1].seconds"), "above 0"),
        (with("model", json!("/etc/passwd")), json!("runs[1].model"), "a preset"),
        (with("model", json!(["gpt2"])), json!("runs[1].model"), "a preset"),
        (json!({"runs": ["runs.csv"]}), json!("runs[0]"), "an object"),
        (
            json!({"runs": runs, "framework": "mine.toml"}),
            json!("framework"),
            "megatron",
        ),
        (
            json!({"runs": runs, "framework": {"toml": 3}}),
            json!("framework"),
            "text of its file",
        ),
        (json!({"runs": runs, "out": "mine.toml"}), json!("out"), "`csv`"),
        (json!({"runs": runs, "gpu": "h100"}), json!("gpu"), "`csv`"),
        (json!({"runs": vec![&runs[0]; 1001]}), json!("runs"), "up to 1000"),
        (json!({"csv": "model\n".repeat(1002)}), json!("csv"), "up to 1000"),
    ] {
        let reply = post("/v1/calibrate", &body).await;
        let problem = reply.json();
        assert_eq!(reply.status.as_u16(), 422, "{problem}");
        assert_eq!(problem["field"], field, "{problem}");
        let allowed = problem["allowed"].as_str().unwrap();
        assert!(allowed.contains(part), "{problem}");
    }
    for (body, part) in [
        (json!({"runs": runs[..2]}), "at least 3 are needed"),
        (json!({"csv": "model,gpu\ngpt2,h100"}), "`mode` is missing"),
        (
            json!({"runs": runs, "framework": {"toml": "name = 3"}}),
            "framework.toml",
        ),
    ] {
        let reply = post("/v1/calibrate", &body).await;
        assert_eq!(reply.status.as_u16(), 422, "{}", reply.text);
        let problem = reply.json();
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(part), "{problem}");
    }
}

#[tokio::test]
async fn a_model_is_asked_about_with_its_config() {
    let found = post("/v1/search", &json!({"params": "350M", "top": 1, "export": true}))
        .await
        .json();
    let config = &found["configs"][0];
    assert_eq!(config["model_type"], "llama");
    let asked = json!({"architecture": config, "gpu": "a100", "workload": {"mode": "decode", "batch": 8}});
    let answer = post("/v1/predict/model", &asked).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    let mut wrong = config.clone();
    wrong["hidden_size"] = json!("wide");
    let problem = post("/v1/check", &json!({"architecture": wrong})).await.json();
    assert_eq!(problem["field"], "architecture.hidden_size");
    let problem = post("/v1/search/from", &json!({"from": wrong, "target": ["0.7x-latency"]}))
        .await
        .json();
    assert_eq!(problem["field"], "from.hidden_size");
    let problem = post("/v1/check?gpu=a100", &asked).await.json();
    assert_eq!(problem["field"], "query string");
    assert_eq!(problem["value"], "gpu=a100");
}

#[tokio::test]
async fn problems_say_field_value_and_what_is_allowed() {
    let gemm = "/v1/predict/gemm";
    for (path, body, status, field) in [
        (gemm, json!({"m": 8, "n": 8}), 422, json!("k")),
        (gemm, json!({"m": 8, "n": 8, "k": 8, "gpu": "x"}), 422, json!("gpu")),
        (gemm, json!({"m": 8, "n": 8, "k": 8, "model": "x"}), 422, json!("model")),
        (
            gemm,
            json!({"m": 8, "n": 8, "k": 8, "model": "models/h200"}),
            422,
            json!("model"),
        ),
        (
            "/v1/predict/model",
            json!({"architecture": "/etc/passwd"}),
            422,
            json!("architecture"),
        ),
        (
            "/v1/predict/model",
            json!({"architecture": "gpt2", "workload": {"seq": 5000}}),
            422,
            json!("workload.seq"),
        ),
        (gemm, json!({"m": "8:16:8", "n": 8, "k": 8}), 422, json!("m")),
        (
            gemm,
            json!({"m": 8, "n": 8, "k": 8, "batch_count": 2}),
            422,
            json!("batch_count"),
        ),
        (
            "/v1/check",
            json!({"architecture": "gpt2", "workload": {"tp": "1:4"}}),
            422,
            json!("workload.tp"),
        ),
        (
            "/v1/predict/model",
            json!({"architecture": "gpt2", "workload": {"zero": 4}}),
            422,
            json!("workload.zero"),
        ),
        (
            "/v1/search",
            json!({"params": "1B", "heads": "8:16:8"}),
            422,
            json!("heads"),
        ),
        ("/v1/search", json!({}), 422, json!("params")),
        ("/v1/search", json!({"params": "1B", "like": "x"}), 422, json!("like")),
        (
            "/v1/search",
            json!({"params": "100B", "workload": {"mode": "decode"}}),
            422,
            Value::Null,
        ),
        ("/v1/sweep/gemm", json!({"m": 1, "n": 2, "k": 3}), 422, Value::Null),
        (
            "/v1/sweep/gemm",
            json!({"m": 1, "n": "1:20000:1", "k": 3}),
            422,
            json!("n"),
        ),
    ] {
        let reply = post(path, &body).await;
        let problem = reply.json();
        assert_eq!(reply.status.as_u16(), status, "{body}: {problem}");
        assert_eq!(reply.header("content-type"), "application/problem+json");
        assert_eq!(problem["status"], status);
        assert_eq!(problem["field"], field, "{problem}");
        assert!(!problem["detail"].as_str().unwrap().is_empty());
    }
    assert_eq!(get("/v1/gpus/gtx").await.status, StatusCode::NOT_FOUND);
    assert_eq!(get("/v2").await.header("content-type"), "application/problem+json");
    let wrong_method = get(gemm).await;
    assert_eq!(wrong_method.status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(wrong_method.header("allow"), "POST");
    let undeclared = Request::post(gemm).body(Body::from("{}")).unwrap();
    assert_eq!(send(service(), undeclared).await.status.as_u16(), 415);
    let broken = send(service(), question(gemm, "{\"m\":")).await;
    assert_eq!(broken.status.as_u16(), 400);
    let large = send(service(), question(gemm, vec![b' '; (1 << 20) + 1])).await;
    assert_eq!(large.status.as_u16(), 413);
}

#[tokio::test]
async fn what_would_free_a_search_is_said_in_keys() {
    let body = json!({"params": "100B", "workload": {"mode": "decode"}});
    let problem = post("/v1/search", &body).await.json();
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("`\"tp\": 8`") && !detail.contains("--"), "{detail}");
}

#[tokio::test]
async fn a_body_that_does_not_arrive_is_given_up() {
    let router = with(Limits {
        body_time: Duration::from_millis(20),
        ..Limits::default()
    });
    let never = futures_util::stream::pending::<Result<Vec<u8>, std::io::Error>>();
    let reply = send(router, question("/v1/check", Body::from_stream(never))).await;
    assert_eq!(reply.status, StatusCode::REQUEST_TIMEOUT, "{}", reply.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn searches_beyond_the_queue_are_sent_away_and_abandoned_ones_stop() {
    let router = with(Limits {
        searches: 1,
        waiting_searches: 0,
        ..Limits::default()
    });
    let ask = |router: &Router| {
        let request = question("/v1/search", endless().to_string());
        tokio::spawn(send(router.clone(), request))
    };
    let working = |text: &str| text.contains("working{work=\"search\"} 1");
    let count = async || {
        let request = Request::get("/metrics").body(Body::empty()).unwrap();
        send(router.clone(), request).await.text
    };
    let first = ask(&router);
    while !working(&count().await) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let refused = ask(&router).await.unwrap();
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.header("retry-after"), "1");
    let mut watched = question("/v1/search", endless().to_string());
    let events = "text/event-stream".parse().unwrap();
    watched.headers_mut().insert("accept", events);
    let refused = send(router.clone(), watched).await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    first.abort();
    let begun = std::time::Instant::now();
    while working(&count().await) {
        assert!(begun.elapsed() < Duration::from_secs(20), "it goes on");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_over_time_is_told_so() {
    let router = with(Limits {
        answer_time: Duration::from_millis(100),
        ..Limits::default()
    });
    let reply = send(router, question("/v1/search", endless().to_string())).await;
    assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(reply.json()["type"], "/api#over-time");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_can_be_watched() {
    let ask = async |body: Value| {
        let mut request = question("/v1/search", body.to_string());
        let events = "text/event-stream".parse().unwrap();
        request.headers_mut().insert("accept", events);
        send(service(), request).await
    };
    let body = json!({"params": "6.7B"});
    let reply = ask(body.clone()).await;
    assert_eq!(reply.header("content-type"), "text/event-stream");
    let events: Vec<(&str, String)> = reply.text.split("\n\n").filter_map(event).collect();
    let (last, before) = events.split_last().unwrap();
    assert!(!before.is_empty(), "{}", reply.text);
    for (name, data) in before {
        assert_eq!(*name, "progress");
        let step: Value = serde_json::from_str(data).unwrap();
        assert!(step["done"].as_u64() <= step["total"].as_u64(), "{step}");
    }
    assert_eq!(last.0, "result");
    let document: Value = serde_json::from_str(&last.1).unwrap();
    assert_eq!(document, post("/v1/search", &body).await.json());

    let hopeless = json!({"params": "1.3B", "layers": 400});
    let reply = ask(hopeless).await;
    let problem = reply.text.split("\n\n").filter_map(event).last().unwrap();
    assert_eq!(problem.0, "problem", "{}", reply.text);
    assert!(problem.1.contains("/api#infeasible"));
}

/// The name and the data of one event.
fn event(text: &str) -> Option<(&str, String)> {
    let name = text.lines().find_map(|line| line.strip_prefix("event: "))?;
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    Some((name, data.collect::<Vec<_>>().join("\n")))
}

#[tokio::test]
async fn pages_may_only_use_what_is_served_here() {
    for path in ["/", "/api", "/v1/gpus", "/nowhere"] {
        let reply = get(path).await;
        let policy = reply.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'"), "{path}");
        assert_eq!(reply.header("x-content-type-options"), "nosniff");
        assert_eq!(reply.header("access-control-allow-origin"), "", "{path}");
    }
    assert_eq!(get("/page/../mod.rs").await.status, StatusCode::NOT_FOUND);
    assert_eq!(get("/page/..%2Fmod.rs").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn other_pages_may_ask_where_that_is_allowed() {
    let asks = |origin: &str| {
        let request = Request::get("/v1/gpus").header("origin", origin);
        request.body(Body::empty()).unwrap()
    };
    let allowing = |origins: &[&str]| {
        let origins: Vec<_> = origins.iter().map(ToString::to_string).collect();
        router(App::new(Limits::default(), |_| {}), &origins)
    };
    let origin = "https://example.org";
    for (origins, allowed) in [(&["*"][..], "*"), (&[origin], origin), (&["http://a.b"], "")] {
        let reply = send(allowing(origins).unwrap(), asks(origin)).await;
        assert_eq!(reply.header("access-control-allow-origin"), allowed);
    }
    for wrong in ["example.org", "https://example.org/page", "https://*", ""] {
        let error = allowing(&[wrong]).err().unwrap().to_string();
        assert!(error.contains("origins such as"), "{error}");
    }
}

#[tokio::test]
async fn the_document_of_the_api_names_every_address_and_every_unit() {
    let document = get("/openapi.json").await.json();
    assert!(document["openapi"].as_str().unwrap().starts_with("3."));
    let paths = document["paths"].as_object().unwrap();
    let paths_asked = equal_questions().into_iter().map(|(path, _, _)| path);
    for path in paths_asked.chain(["/v1/predict/graph"]) {
        assert!(paths[path]["post"]["requestBody"].is_object(), "{path}");
    }
    for path in [
        "/v1/gpus",
        "/v1/gpus/{name}",
        "/v1/models",
        "/healthz",
        "/readyz",
        "/metrics",
    ] {
        assert!(paths[path]["get"]["responses"]["200"].is_object(), "{path}");
    }
    // Every reference leads somewhere.
    let text = document.to_string();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    for part in text.split("#/components/schemas/").skip(1) {
        let name = part.split('"').next().unwrap();
        assert!(schemas.contains_key(name), "{name}");
    }
}

#[tokio::test]
async fn what_happens_is_counted() {
    let router = service();
    for body in ["{}", "{\"m\":1,\"n\":1,\"k\":1}"] {
        send(router.clone(), question("/v1/predict/gemm", body)).await;
    }
    let request = Request::get("/metrics").body(Body::empty()).unwrap();
    let counted = send(router, request).await.text;
    for line in [
        "shapewise_requests_total{path=\"/v1/predict/gemm\",status=\"200\"} 1",
        "shapewise_requests_total{path=\"/v1/predict/gemm\",status=\"422\"} 1",
        "shapewise_answer_time_seconds_count{path=\"/v1/predict/gemm\"} 2",
        "shapewise_waiting{work=\"search\"} 0",
        "# EOF",
    ] {
        assert!(counted.contains(line), "{line}\n{counted}");
    }
    assert_eq!(get("/healthz").await.text, "ok\n");
    assert_eq!(get("/readyz").await.text, "ready\n");
}
