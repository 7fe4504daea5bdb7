"""Times training steps of whole models on this GPU: steps.py LIST.jsonl --out F.jsonl [--seconds N] [--device cuda|cpu]

A line of LIST.jsonl is one model, in the order of measurement:

    name            unique in the list
    architecture    the keys of `data/architectures` (built here, without positions), or a Hugging Face config with
                    `model_type` (built by transformers, SDPA)
    batch, seq      sequences of a micro-batch, and tokens of each
    microbatches    of a step; 1 if left out
    recompute       full: only the input of a block is kept; none if left out
    recipe          fp8 by torchao, tensorwise or rowwise; bf16 if left out
    compiled        whether each block is compiled; false if left out

Weights, gradients and AdamW's states are bf16, and everything is made on the device. A line of F.jsonl is a line of the
list with its time, or with `error`. F.jsonl.part holds the lines so far; a later call goes on with it.
"""

import argparse
import ctypes
import gc
import json
import pathlib
import signal
import statistics
import sys
import threading
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


class Log:
    """Lines of JSON that are flushed one by one, in a file that has its name only once the list is done."""

    def __init__(self, path, seconds=1e9):
        self.path, self.part = pathlib.Path(path), pathlib.Path(f"{path}.part")
        if self.path.exists():
            self.path.replace(self.part)
        self.end = time.monotonic() + seconds
        whole = self.part.read_bytes().rpartition(b"\n")[0] if self.part.exists() else b""
        self.known = [json.loads(line) for line in whole.splitlines()]
        self.part.write_bytes(whole + b"\n" if whole else b"")  # what a kill tore is measured again
        self.file = open(self.part, "a", buffering=1)

    def line(self, **row):
        self.file.write(json.dumps(row) + "\n")

    def measure(self, timed, **about):
        """One line: what `timed` returns, or why it failed; nothing once the time is used up, or where the file has it."""
        asked = json.loads(json.dumps(about))
        if time.monotonic() > self.end or any(asked.items() <= line.items() for line in self.known):
            return
        try:
            self.line(**about, **timed())
        except Exception as error:  # a shape that PyTorch refuses must not cost the others
            self.line(**about, error=f"{type(error).__name__}: {str(error)[:300]}")

    def __enter__(self):
        signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell turns off for what it runs beside
        return self

    def __exit__(self, kind, *_):
        """The list is done, or as much of it as an interrupt left time for."""
        self.file.close()
        if kind in (None, KeyboardInterrupt):
            self.part.replace(self.path)
        return kind is KeyboardInterrupt


class Watch(threading.Thread):
    """Clock and power every 20 ms, where the driver's NVML answers."""

    def __init__(self, uuid):
        super().__init__(daemon=True)
        self.uuid, self.readings = uuid.encode(), []

    def run(self):
        try:
            nvml = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            return
        device, value = ctypes.c_void_p(), ctypes.c_uint()

        def read(function, *arguments):
            return value.value if function(device, *arguments, ctypes.byref(value)) == 0 else None

        if nvml.nvmlInit_v2() or nvml.nvmlDeviceGetHandleByUUID(self.uuid, ctypes.byref(device)):
            return
        while True:
            # Of the multiprocessors, in MHz; milliwatts.
            clock, power = read(nvml.nvmlDeviceGetClockInfo, 1), read(nvml.nvmlDeviceGetPowerUsage)
            self.readings.append((time.monotonic(), clock, power))
            time.sleep(0.02)

    def last(self, seconds):
        late = [reading for reading in self.readings if reading[0] > time.monotonic() - seconds]
        told = {}
        for place, name, unit in ((1, "clock_hz", 1e6), (2, "power_watts", 1e-3)):
            values = [reading[place] for reading in late if reading[place] is not None]
            if values:
                told[name] = statistics.median(values) * unit
        return told


class Block(nn.Module):
    def __init__(self, shape):
        super().__init__()
        hidden, inner = shape["hidden"], shape["mlp"]["d_ff"]
        self.gated, self.head_dim = shape["mlp"]["kind"] == "swiglu", shape["head_dim"]
        self.heads, self.kv_heads = shape["heads"], shape["kv_heads"]
        norm = nn.RMSNorm if shape["norm"]["kind"] == "rms_norm" else nn.LayerNorm
        self.attention_norm, self.mlp_norm = norm(hidden), norm(hidden)
        self.qkv = nn.Linear(hidden, (self.heads + 2 * self.kv_heads) * self.head_dim, bias=False)
        self.projection = nn.Linear(self.heads * self.head_dim, hidden, bias=False)
        self.up = nn.Linear(hidden, inner * (2 if self.gated else 1), bias=False)
        self.down = nn.Linear(inner, hidden, bias=False)

    def forward(self, x):
        batch, seq, _ = x.shape
        qkv = self.qkv(self.attention_norm(x)).view(batch, seq, -1, self.head_dim)
        q, k, v = (part.transpose(1, 2) for part in qkv.split([self.heads, self.kv_heads, self.kv_heads], 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.heads != self.kv_heads)
        x = x + self.projection(y.transpose(1, 2).reshape(batch, seq, -1))
        inner = self.up(self.mlp_norm(x))
        if not self.gated:
            return x + self.down(F.gelu(inner, approximate="tanh"))
        gate, value = inner.chunk(2, -1)
        return x + self.down(F.silu(gate) * value)


class Model(nn.Module):
    def __init__(self, shape, recompute=False):
        super().__init__()
        self.recompute = recompute
        self.embedding = nn.Embedding(shape["vocab"], shape["hidden"])
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape["layers"]))
        self.norm = (nn.RMSNorm if shape["norm"]["kind"] == "rms_norm" else nn.LayerNorm)(shape["hidden"])
        self.head = nn.Linear(shape["hidden"], shape["vocab"], bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute else block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), tokens.flatten())


# What `Model` builds; other keys of an architecture would be predicted and not built.
BUILT = {"tied_embeddings": False, "positions": "none", "parallel_layers": False, "output_gate": False}
PLAIN = {"name", "layers", "hidden", "heads", "kv_heads", "head_dim", "mlp", "vocab", "norm", "biases"} | BUILT.keys()


def build(row, device):
    """The model in bf16 on the device, and a function from tokens to the loss."""
    shape, recompute, recipe = row["architecture"], row.get("recompute") == "full", row.get("recipe")
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device(device):
            if "model_type" in shape:
                from transformers import AutoConfig, AutoModelForCausalLM

                model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**shape), attn_implementation="sdpa")
                if recompute:
                    model.gradient_checkpointing_enable()
                blocks = model.get_decoder().layers
            else:
                if any(on for part, on in shape.get("biases", {}).items() if part != "norm"):
                    raise ValueError("`architecture` has biases of linear maps; allowed: none")
                other = {key for key in shape if shape[key] != BUILT.get(key, shape[key]) or key not in PLAIN and shape[key]}
                if other:
                    raise ValueError(f"`architecture` has {', '.join(sorted(other))}; allowed: a plain decoder")
                model = Model(shape, recompute)
                blocks = model.blocks
    finally:
        torch.set_default_dtype(torch.float32)
    if recipe:
        from torchao.float8 import Float8LinearConfig, convert_to_float8_training

        for block in blocks:
            convert_to_float8_training(block, config=Float8LinearConfig.from_recipe_name(recipe))
    if row.get("compiled"):
        for block in blocks:
            block.compile()
    model.train()
    if "model_type" in shape:
        return model, lambda tokens: model(input_ids=tokens, labels=tokens, use_cache=False).loss
    return model, model


def between(run, device="cuda"):
    """Microseconds around `run`: of the device between two events, of a CPU by the clock on the wall."""
    if device == "cpu":
        begin = time.perf_counter()
        run()
        return (time.perf_counter() - begin) * 1e6
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e3


def step(row, device, watch):
    """Median seconds of a step after three that warm up, with the clock and power of its last two seconds."""
    is_gpu = device != "cpu"
    model, loss_of = build(row, device)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    vocabulary = row["architecture"].get("vocab") or row["architecture"]["vocab_size"]
    tokens = torch.randint(vocabulary, (row["batch"], row["seq"]), device=device)

    def run():
        for _ in range(row.get("microbatches", 1)):
            loss_of(tokens).backward()
        optimizer.step()
        optimizer.zero_grad()

    if is_gpu:
        torch.cuda.reset_peak_memory_stats()
    warm = [between(run, device) for _ in range(3)]
    times = [between(run, device) / 1e6 for _ in range(5 if warm[-1] > 5e5 else 9)]
    software = f"PyTorch {'compiled' if row.get('compiled') else 'eager'} {torch.__version__}"
    if "transformers" in sys.modules and "model_type" in row["architecture"]:
        software = f"transformers {sys.modules['transformers'].__version__}, {software}"
    told = {"software": software, "seconds": statistics.median(times), "times_s": times,
            "warm_s": [micros / 1e6 for micros in warm]}  # fmt: skip
    if is_gpu:
        told |= {"peak_bytes": torch.cuda.max_memory_allocated(), **watch.last(min(2.0, sum(times)))}
    return told


def clean(device):
    gc.collect()
    if device != "cpu":
        torch.cuda.empty_cache()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("list")
    parser.add_argument("--out", required=True)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    asked = parser.parse_args()
    rows = [json.loads(line) for line in open(asked.list)]
    gpu, watch = "cpu", None
    if asked.device != "cpu":
        properties = torch.cuda.get_device_properties(0)
        gpu, watch = properties.name, Watch(f"GPU-{getattr(properties, 'uuid', '')}")
        watch.start()
    shape = None
    with Log(asked.out, asked.seconds) as log:
        for row in rows:
            # Depths of one shape share what is compiled; no size of another shape becomes dynamic.
            previous, shape = shape, {key: row["architecture"].get(key) for key in ("hidden", "mlp", "heads", "kv_heads")}
            if shape != previous:
                torch._dynamo.reset()
            log.measure(lambda: step(row, asked.device, watch), gpu=gpu, **row)
            clean(asked.device)


if __name__ == "__main__":
    main()
