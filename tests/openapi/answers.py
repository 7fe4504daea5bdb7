"""Holds answers that generated questions rarely reach against the document of the API: `answers.py BASE`."""

import sys

import requests
import schemathesis

BASE = sys.argv[1]

CONFIG = {
    "model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32,
    "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 8192, "vocab_size": 128256,
    "max_position_embeddings": 131072,
}
WORKLOAD = {
    "mode": "train", "batch": 2, "seq": 512, "dtype": "bf16", "tp": 2, "pp": 2, "dp": 4, "zero": 1,
    "recompute": "full", "attention": "unfused", "microbatches": 4, "sequence_parallel": True,
}
# `c = a b` in fp16, where a is (batch, 512) and b is (512, 1536), as an ONNX file.
MODEL = (
    "OlEKEQoBYQoBYhIBYyIGTWF0TXVsWh4KAWESGQoXCIqAgAASEAoHEgViYXRjaAoFCICEgABaHAoBYhIX"
    "ChUIioCAABIOCgUIgISAAAoFCICMgAA="
)
DECODE = {"mode": "decode", "batch": 8, "context": 1000}

RUNS = [
    {"model": model, "gpu": "h100", "mode": "train", "batch": 1, "seq": seq, "seconds": seconds}
    for model, seq, seconds in [("llama-3.2-1b", 2048, 0.06), ("llama-3.2-3b", 4096, 0.3), ("qwen3-4b", 4096, 0.4)]
]
OWN = 'name = "own"\ntitle = "own"\ninherits = "fsdp2"\nmodes = ["train"]\n'

PRESETS = [preset["name"] for preset in requests.get(f"{BASE}/v1/presets").json()["presets"]]
GPUS = [gpu["name"] for gpu in requests.get(f"{BASE}/v1/gpus").json()["gpus"]]

QUESTIONS = [
    ("/v1/predict/gemm", {"m": 512, "n": 512, "k": 64, "batch": 8, "dtype": "fp16", "layout": "nt"}),
    ("/v1/predict/attention", {"batch": 4, "heads": 32, "seq_q": 2048, "head_dim": 80, "pass": "backward"}),
    ("/v1/predict/batch", {"ops": [{"kind": "gemm", "m": 1, "n": 1, "k": 1}]}),
    ("/v1/predict/graph", {"ops": [{"kind": "gemm", "m": 4096, "n": 11008, "k": 4096, "count": 32}], "dtype": "fp8", "gpu": "h100"}),
    ("/v1/predict/graph", {"onnx": MODEL, "dims": {"batch": 8}}),
    ("/v1/predict/model", {"architecture": "llama-2-7b", "workload": WORKLOAD}),
    ("/v1/predict/model", CONFIG),
    ("/v1/check", CONFIG),
    ("/v1/check", {"architecture": "gpt2", "workload": {"tp": 5}}),
    ("/v1/calibrate", {"runs": RUNS, "framework": "fsdp2"}),
    ("/v1/calibrate", {"runs": RUNS, "framework": {"toml": OWN}}),
    ("/v1/predict/model", {"architecture": "llama-3-8b", "framework": {"toml": OWN}}),
    ("/v1/plan", {"architecture": "llama-3-8b", "gpu": "h100", "gpus": 64, "tokens": "1T", "usd_per_gpu_hour": 2.5}),
    ("/v1/plan", {"architecture": "deepseek-v3", "gpu": "gb200", "gpus": "64:256", "dtype": "fp8", "seq": 4096}),
    ("/v1/plan", {"architecture": "llama-3-70b", "gpu": "h100", "gpus": 8, "mode": "decode", "tpot_ms": 50}),
    ("/v1/plan", {"architecture": "llama-3-70b", "gpu": "h100", "gpus": 8, "mode": "prefill"}),
    ("/v1/compare", {"architecture": "llama-3-8b", "gpu": "all", "gpus": 8}),
    ("/v1/search", {"params": "350M", "export": True}),
    ("/v1/search", {"params": 1.3e9, "count": "non-embedding", "like": "gpt3-2.7b", "vocab": 32000, "tolerance": 0.02,
                    "free": ["micro-batch", "tp"], "relax": ["aspect_ratio"], "workload": {"mode": "prefill"}}),
    ("/v1/search", {"params": "70B"}),
    ("/v1/search", {"params": "125M", "exhaustive": True, "mlp": "gelu", "layers": 12, "heads": 12, "kv_heads": 12}),
    ("/v1/search", {"params": "100B", "workload": {"mode": "decode"}}),
    ("/v1/sweep/gemm", {"m": 2304, "n": "1536:6144:64", "k": 4096}),
    ("/v1/sweep/attention", {"batch": 4, "heads": "8:32:8", "seq_q": 2048, "head_dim": 128, "kv_heads": 16}),
    ("/v1/sweep/model", {"architecture": "gpt2", "vocab": "50257:50304:47", "workload": {"mode": "decode"}}),
    ("/v1/sweep/model", {"architecture": CONFIG, "heads": "8:64:8"}),
    *(("/v1/predict/gemm", {"m": 100, "n": 300, "k": 500, "gpu": gpu}) for gpu in GPUS),
    *((path, {"architecture": preset, "workload": workload})
      for path in ("/v1/predict/model", "/v1/check") for preset in PRESETS for workload in ({}, DECODE)),
]

schema = schemathesis.openapi.from_url(f"{BASE}/openapi.json")
answered = 0
for path, question in QUESTIONS:
    response = requests.post(f"{BASE}{path}", json=question)
    schema[path]["POST"].validate_response(response)
    answered += response.ok
for path in ("/v1/gpus", "/v1/models", "/v1/presets"):
    schema[path]["GET"].validate_response(requests.get(f"{BASE}{path}"))
for gpu in GPUS:
    schema["/v1/gpus/{name}"]["GET"].validate_response(requests.get(f"{BASE}/v1/gpus/{gpu}"))
print(f"{len(QUESTIONS)} questions, {answered} answers: as the document says")
# A question that is refused says little about the schemas of answers.
assert answered > 0.8 * len(QUESTIONS)
