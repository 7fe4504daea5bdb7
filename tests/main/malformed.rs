//! Malformed bodies: whatever comes, the service answers, says what is wrong and stays as small as it was.

use crate::http::{Client, Server};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many are sent; this variable asks for another number.
const NUMBER: &str = "SHAPEWISE_MALFORMED_BODIES";
const USUALLY: usize = 3000;

/// Connections at once.
const CLIENTS: usize = 8;

/// Growth that allocators and caches may show after the first fifth.
const SLACK: u64 = 64 << 20;

/// Numbers without a pattern (SplitMix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// Bodies that are right, with how often each is spoilt: searches take longest.
fn right() -> Vec<(&'static str, Value, usize)> {
    let llama = json!({
        "model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32,
        "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 8192, "vocab_size": 128_256,
        "max_position_embeddings": 131_072, "hidden_act": "silu", "tie_word_embeddings": true,
        "rms_norm_eps": 1e-5, "rope_theta": 500_000.0, "attention_bias": false, "mlp_bias": false,
    });
    let gpt2 = json!({
        "model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024, "n_ctx": 1024,
        "n_inner": null, "vocab_size": 50_257, "activation_function": "gelu_new",
    });
    let mixtral = json!({
        "model_type": "mixtral", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "intermediate_size": 14_336, "vocab_size": 32_000, "num_local_experts": 8,
        "num_experts_per_tok": 2, "sliding_window": null, "max_position_embeddings": 32_768,
    });
    let deepseek = json!({
        "model_type": "deepseek_v3", "hidden_size": 7168, "num_hidden_layers": 61, "num_attention_heads": 128,
        "num_key_value_heads": 128, "intermediate_size": 18_432, "moe_intermediate_size": 2048,
        "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3,
        "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
        "vocab_size": 129_280, "max_position_embeddings": 163_840,
    });
    let work = json!({
        "mode": "train", "batch": 2, "seq": 512, "context": 0, "dtype": "bf16", "tp": 2, "pp": 2, "dp": 4, "zero": 1,
        "recompute": "full", "attention": "unfused", "microbatches": 4, "sequence_parallel": true,
    });
    let decode = json!({"mode": "decode", "batch": 8, "context": 1000});
    vec![
        (
            "/v1/predict/gemm",
            json!({"m": 512, "n": 512, "k": 64, "batch": 8, "dtype": "fp16", "layout": "nt", "gpu": "a100", "model": "a100"}),
            40,
        ),
        (
            "/v1/predict/attention",
            json!({"batch": 4, "heads": 32, "kv_heads": 8, "seq_q": 128, "seq_kv": 4096, "head_dim": 128, "causal": true, "pass": "forward"}),
            40,
        ),
        (
            "/v1/predict/batch",
            json!({"gpu": "l40s", "ops": [
                {"kind": "gemm", "m": 4096, "n": 4096, "k": 128},
                {"kind": "attention", "batch": 1, "heads": 8, "seq_q": 512, "head_dim": 64},
            ]}),
            40,
        ),
        (
            "/v1/predict/graph",
            json!({"gpu": "h100", "name": "layer", "causal": true, "dtype": "bf16", "ops": [
                {"kind": "gemm", "m": 4096, "n": 4096, "k": 128, "count": 3},
                {"kind": "memory", "function": "rms_norm", "rows": 512, "cols": 512},
            ]}),
            40,
        ),
        (
            "/v1/predict/graph",
            json!({"onnx": "OlEKEQoBYQoBYhIBYyIGTWF0TXVsWh4KAWESGQoXCIqAgAASEAoHEgViYXRjaAoFCICEgABaHAoBYhIXChUIioCAABIOCgUIgISAAAoFCICMgAA=", "dims": {"batch": 8}}),
            40,
        ),
        (
            "/v1/predict/model",
            json!({"architecture": "llama-2-7b", "workload": work}),
            30,
        ),
        (
            "/v1/predict/model",
            json!({"architecture": deepseek, "gpu": "b200", "workload": decode}),
            30,
        ),
        ("/v1/predict/model?gpu=a100&batch=8", llama.clone(), 30),
        ("/v1/predict/model?mode=decode", mixtral, 20),
        ("/v1/check", gpt2.clone(), 10),
        ("/v1/check", json!({"architecture": gpt2, "gpu": "a100"}), 10),
        (
            "/v1/search",
            json!({"params": "125M", "count": "non-embedding", "tolerance": 0.02, "like": llama, "vocab": 32000,
                "free": ["micro-batch"], "relax": ["aspect_ratio"], "head_dim": 64, "top": 3, "seed": 7,
                "no_sharding": true, "export": true, "workload": {"mode": "prefill"}}),
            6,
        ),
        (
            "/v1/search",
            json!({"params": 125e6, "exhaustive": true, "mlp": "gelu", "layers": 12, "heads": 12, "kv_heads": 12}),
            3,
        ),
        (
            "/v1/sweep/gemm",
            json!({"m": 2304, "n": "1536:6144:512", "k": 4096, "gpu": "a100"}),
            20,
        ),
        (
            "/v1/sweep/attention",
            json!({"batch": 4, "heads": "8:32:8", "seq_q": 2048, "head_dim": 128, "causal": true}),
            20,
        ),
        (
            "/v1/sweep/model",
            json!({"architecture": "gpt2", "vocab": "50257:50304:47", "workload": {"mode": "decode"}}),
            10,
        ),
    ]
}

/// A value in the wrong place.
fn odd(dice: &mut Dice) -> Value {
    let nested = |depth| (0..depth).fold(json!(1), |inner, _| json!([inner]));
    match dice.below(22) {
        0 => json!(0),
        1 => json!(-1),
        2 => json!(1),
        3 => json!(4_294_967_296_u64),
        4 => json!(4_294_967_295_u64),
        5 => json!(4_294_967_297_u64),
        6 => json!(u64::MAX),
        7 => json!(i64::MIN),
        8 => json!(1e308),
        9 => json!(5e-324),
        10 => json!(1.5),
        11 => json!(dice.next() >> dice.below(64)),
        12 => Value::Null,
        13 => json!(dice.below(2) == 0),
        14 => json!([]),
        15 => json!({}),
        16 => nested(dice.below(120)),
        17 => json!("x".repeat(dice.below(5000))),
        18 => json!(["", "\u{0}", "\u{202e}é", "NaN", "1:2:3:4", "0:0:0", "1e999B"][dice.below(7)]),
        19 => json!("1:4294967296:429497"),
        20 => json!("4294967295:4294967296"),
        _ => json!([1, "2", {"m": 3}]),
    }
}

/// Spoils one part of a value.
fn spoil(value: &mut Value, dice: &mut Dice) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let keys: Vec<_> = fields.keys().cloned().collect();
            let key = dice.pick(&keys).clone();
            match dice.below(12) {
                0 => drop(fields.remove(&key)),
                1 => drop(fields.insert(format!("{key}s"), odd(dice))),
                2 => {
                    let other = dice.pick(&keys).clone();
                    let moved = fields[&other].clone();
                    fields[&key] = moved;
                }
                _ => spoil(&mut fields[&key], dice),
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let at = dice.below(items.len());
            match dice.below(4) {
                0 => drop(items.remove(at)),
                1 => items.push(odd(dice)),
                _ => spoil(&mut items[at], dice),
            }
        }
        leaf => *leaf = odd(dice),
    }
}

/// A body of this kind that is probably wrong.
fn malformed(right: &Value, dice: &mut Dice) -> Vec<u8> {
    let mut value = right.clone();
    let parts = dice.below(4);
    for _ in 0..parts {
        spoil(&mut value, dice);
    }
    let mut bytes = value.to_string().into_bytes();
    match dice.below(14) {
        0 => {
            for _ in 0..=dice.below(4) {
                let at = dice.below(bytes.len());
                bytes[at] ^= 1 << dice.below(8);
            }
        }
        1 => bytes.truncate(dice.below(bytes.len())),
        2 => {
            let at = dice.below(bytes.len());
            let noise: Vec<u8> = (0..dice.below(20)).map(|_| dice.next() as u8).collect();
            bytes.splice(at..at, noise);
        }
        3 => {
            let [a, b] = [dice.below(bytes.len()), dice.below(bytes.len())];
            let twice = bytes[a.min(b)..a.max(b)].to_vec();
            bytes.splice(a..a, twice);
        }
        4 => bytes = (0..dice.below(300)).map(|_| dice.next() as u8).collect(),
        5 => {
            bytes = dice
                .pick(&[&b"["[..], b"{\"a\":", b"[{\"m\":"])
                .repeat(dice.below(20_000))
        }
        6 => {
            // The same key twice.
            let inner = bytes[1..].to_vec();
            bytes.truncate(bytes.len() - 1);
            bytes.push(b',');
            bytes.extend(inner);
        }
        7 if parts == 0 => {
            let object: Map<String, Value> = (0..dice.below(2000))
                .map(|number| (format!("key{number}"), odd(dice)))
                .collect();
            bytes = Value::Object(object).to_string().into_bytes();
        }
        _ => {}
    }
    bytes
}

/// Sends bodies until `left` is used up; counts the answers by status.
fn send(server: &Server, seed: u64, left: &AtomicUsize, counts: &mut BTreeMap<u16, usize>) {
    let right = right();
    let weights: Vec<usize> = right
        .iter()
        .enumerate()
        .flat_map(|(at, (_, _, weight))| std::iter::repeat_n(at, *weight))
        .collect();
    let mut dice = Dice(seed);
    let mut client = server.client();
    let take = |left: usize| left.checked_sub(1);
    while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
        let (path, body, _) = &right[*dice.pick(&weights)];
        let bytes = malformed(body, &mut dice);
        let shown = || {
            let text = String::from_utf8_lossy(&bytes);
            format!("{path} {}", text.chars().take(2000).collect::<String>())
        };
        let reply = client.post(path, &bytes);
        let reply = reply.unwrap_or_else(|error| panic!("{error}: {}", shown()));
        let known = matches!(reply.status, 200 | 400 | 413 | 422 | 429 | 503);
        let text: String = reply.text.chars().take(2000).collect();
        assert!(known, "{}: {text}\n{}", reply.status, shown());
        let document = reply.json();
        if reply.status != 200 {
            assert_eq!(document["status"], reply.status, "{}", shown());
            let detail = document["detail"].as_str().unwrap();
            assert!(reply.text.len() < 4000, "{detail}\n{}", shown());
        }
        *counts.entry(reply.status).or_default() += 1;
        if reply.closes() {
            client = server.client();
        }
    }
}

#[test]
fn malformed_bodies_are_answered_and_leave_nothing_behind() {
    let number = std::env::var(NUMBER).map_or(USUALLY, |text| text.parse().unwrap());
    let server = Server::start();
    let mut counts = BTreeMap::new();
    let mut used = Vec::new();
    for (round, part) in [(0, number / 5), (1, number - number / 5)] {
        let left = AtomicUsize::new(part);
        std::thread::scope(|scope| {
            let clients = (0..CLIENTS as u64).map(|client| {
                let (server, left) = (&server, &left);
                scope.spawn(move || {
                    let mut counts = BTreeMap::new();
                    send(server, round << 32 | client, left, &mut counts);
                    counts
                })
            });
            for client in clients.collect::<Vec<_>>() {
                for (status, seen) in client.join().unwrap() {
                    *counts.entry(status).or_default() += seen;
                }
            }
        });
        used.extend(server.memory());
    }
    eprintln!("{number} bodies, by status: {counts:?}; bytes of memory: {used:?}");
    assert_eq!(counts.values().sum::<usize>(), number);
    assert!(counts[&400] > 0 && counts[&422] > counts[&200], "{counts:?}");
    if let [warm, end] = used[..] {
        assert!(end < warm + SLACK, "{used:?}");
    }
    let said = server.said();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert_eq!(server.get("/readyz").status, 200);
}

#[test]
fn what_is_no_http_ends_the_connection_alone() {
    let server = Server::start();
    let mut dice = Dice(1);
    let head = |line: &str| format!("{line}\r\nhost: a\r\n\r\n").into_bytes();
    let long = "a".repeat(1 << 20);
    let mut openings = vec![
        head("GET"),
        head("GET / HTTP/9.9"),
        head(&format!("GET /{long} HTTP/1.1")),
        head(&format!("GET / HTTP/1.1\r\nx: {long}")),
        head(&format!("GET / HTTP/1.1{}", "\r\nx: y".repeat(5000))),
        head("POST /v1/check HTTP/1.1\r\ncontent-length: -1"),
        head("POST /v1/check HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2"),
        head("POST /v1/check HTTP/1.1\r\ncontent-length: 99999999999999999999"),
        head("POST /v1/check HTTP/1.1\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nxyz"),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
    ];
    for _ in 0..50 {
        let length = 1 + dice.below(2000);
        let mut noise: Vec<u8> = (0..length).map(|_| dice.next() as u8).collect();
        noise.extend(b"\r\n\r\n");
        openings.push(noise);
    }
    for opening in openings {
        let mut client = server.client();
        // The other side may end before all is sent.
        let _ = client.write(&opening);
        let _ = client.stream.get_mut().shutdown(std::net::Shutdown::Write);
        let mut rest = Vec::new();
        let _ = client.stream.read_to_end(&mut rest);
        let line = String::from_utf8_lossy(&rest);
        let line = line.lines().next().unwrap_or("");
        assert!(
            line.is_empty() || line.starts_with("HTTP/1.1 4"),
            "{line}: {}",
            String::from_utf8_lossy(&opening[..opening.len().min(100)])
        );
    }
    assert_eq!(server.get("/readyz").status, 200);
    assert_eq!(server.said().lines().count(), 1, "{}", server.said());
    assert!(Client::connect(&server.address).is_ok());
}
