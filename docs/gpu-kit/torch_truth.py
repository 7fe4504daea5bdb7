"""What PyTorch reaches on this GPU: torch_truth.py OUT.json PART [--seconds N]

Parts: `operators` (GEMMs, attention and memory-bound kernels, one graph of back-to-back calls each),
`sustained` (GEMMs for three seconds each, with clock and power), `layers` (training steps of small
models; a layer is the difference between two depths). Each measurement is a JSON line as soon as it
is made, a failed one a line with `error`. Keys are those of our own tables.
"""

import argparse
import json
import statistics
import threading
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile

BF16 = torch.bfloat16
CACHE_BYTES = 180 << 20


class Log:
    def __init__(self, path, seconds):
        self.file = open(path, "a+", buffering=1)
        self.end = time.monotonic() + seconds
        self.file.seek(0)
        self.known = [json.loads(line) for line in self.file]

    def line(self, **row):
        self.file.write(json.dumps(row) + "\n")

    def measure(self, part, timed, **about):
        """One line: what `timed` returns, or why it failed; nothing once the time is used up, or where the file has it."""
        asked = json.loads(json.dumps(dict(about, part=part)))
        if time.monotonic() > self.end or any(asked.items() <= line.items() for line in self.known):
            return
        try:
            self.line(part=part, **about, **timed())
        except Exception as error:  # a shape that PyTorch refuses must not cost the others
            self.line(part=part, **about, error=f"{type(error).__name__}: {str(error)[:160]}")
            torch.cuda.synchronize()


def between(run):
    """Microseconds of the device between two events around `run`."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e3


flushed = None


def flush():
    global flushed
    if flushed is None:
        flushed = torch.empty(200 << 20, dtype=torch.uint8, device="cuda")
    flushed.sum()


def chain(call, sets, replays=9, stream=None):
    """Median time of a call in a graph of calls that rotate over `sets` sets of operands; backward passes run on the stream of forward."""
    stream = stream or torch.cuda.Stream()
    with torch.cuda.stream(stream):
        call(0)
        stream.synchronize()
        once = between(lambda: call(0))
        calls = max(1, min(64, round(1000 / max(1.0, once))))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for number in range(calls):
                call(number % sets)
        times = []
        for _ in range(replays + 1):
            if calls < sets:
                flush()
            torch.cuda._sleep(120_000)  # the whole graph is enqueued before it begins
            times.append(between(graph.replay) / calls)
    return {"time_us": statistics.median(times[1:]), "min_us": min(times), "calls": calls, "samples": replays}


def eager(call, replays=12, hold=0):
    """Median time of an eager call after a flush of the cache, its launches hidden behind `hold` cycles of waiting."""
    for _ in range(3):
        call()
    times = []
    for _ in range(replays):
        flush()
        if hold:
            torch.cuda._sleep(hold)
        times.append(between(call))
    return {"time_us": statistics.median(times), "min_us": min(times), "calls": 1}


def normal(*shape, gradient=False):
    return torch.randn(*shape, device="cuda", dtype=BF16, requires_grad=gradient)


def zeros(*shape):
    return torch.zeros(*shape, device="cuda", dtype=BF16)


def gemm(m, n, k, layout, operand=normal):
    sets = max(1, min(64, CACHE_BYTES // ((m * k + k * n + m * n) * 2) + 2))
    a = [operand(k, m).t() if layout == "nt" else operand(m, k) for _ in range(sets)]
    b = [operand(n, k).t() if layout == "tn" else operand(k, n) for _ in range(sets)]
    out = [torch.empty(m, n, device="cuda", dtype=BF16) for _ in range(sets)]
    return chain(lambda one: torch.mm(a[one], b[one], out=out[one]), sets)


def attention(batch, heads, kv_heads, seq, head_dim, causal, backend, direction):
    q = normal(batch, seq, heads, head_dim).transpose(1, 2).requires_grad_()
    k, v = (normal(batch, seq, kv_heads, head_dim).transpose(1, 2).requires_grad_() for _ in range(2))

    def forward():
        with sdpa_kernel([backend]):
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=heads != kv_heads)

    if direction == "forward":
        return eager(forward)
    out = forward()
    gradient = torch.randn_like(out)
    return eager(lambda: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True))


def rotate(x, angles):
    """Rotary embedding as Llama's code writes it: halves of a head turned by angles of their position."""
    heads = x.view(x.shape[0], -1, 128)
    low, high = heads.chunk(2, -1)
    cosine, sine = angles.cos()[:, None].to(x.dtype), angles.sin()[:, None].to(x.dtype)
    return (heads * cosine + torch.cat((-high, low), -1) * sine).flatten(1)


def swiglu(x):
    gate, value = x.chunk(2, -1)
    return F.silu(gate) * value


def inputs_of(kind, rows, cols):
    """The operands of a kernel whose output is (rows, cols): tensors with a gradient first, then the others."""
    if kind == "add":
        return [normal(rows, cols, gradient=True), normal(rows, cols, gradient=True)], []
    if kind == "swiglu":
        return [normal(rows, 2 * cols, gradient=True)], []
    if "norm" in kind:
        return [normal(rows, cols, gradient=True), normal(cols, gradient=True)], []
    if kind == "rotary":
        return [normal(rows, cols, gradient=True)], [torch.randn(rows, 128, device="cuda")]
    if kind == "embedding":
        return [normal(65536, cols, gradient=True)], [torch.randint(65536, (rows,), device="cuda")]
    if kind == "cross_entropy":
        return [normal(rows, cols, gradient=True)], [torch.randint(cols, (rows,), device="cuda")]
    return [normal(rows, cols, gradient=True)], []


KERNELS = {
    "add": lambda x, y: x + y,
    "copy": lambda x: x.clone(),
    "gelu": lambda x: F.gelu(x, approximate="tanh"),
    "swiglu": swiglu,
    "softmax": lambda x: F.softmax(x, -1),
    "layer_norm": lambda x, w: F.layer_norm(x, x.shape[-1:], w),
    "rms_norm": lambda x, w: F.rms_norm(x, x.shape[-1:], w),
    "rotary": rotate,
    "embedding": lambda w, i: F.embedding(i, w),
    "cross_entropy": lambda x, y: F.cross_entropy(x, y),
}


def kernel(kind, rows, cols, how, direction, hold=0):
    function = KERNELS[kind]
    learned, fixed = inputs_of(kind, rows, cols)
    if how == "compiled":
        torch._dynamo.reset()  # no size of an earlier kernel becomes dynamic
        function = torch.compile(function)
    if direction == "forward":
        with torch.no_grad():
            return eager(lambda: function(*learned, *fixed), hold=hold)
    y = function(*learned, *fixed)
    gradient = torch.randn_like(y)
    return eager(lambda: torch.autograd.grad(y, learned, gradient, retain_graph=True), hold=hold)


def adam(rows):
    weight = nn.Parameter(torch.randn(rows, device="cuda"))
    weight.grad = torch.randn_like(weight)
    return eager(torch.optim.AdamW([weight], fused=True).step)


def quantize(rows, cols):
    x = normal(rows, cols)
    scale = torch.full((), 64.0, device="cuda")

    @torch.compile
    def cast():
        y = (x * scale).clamp(-448, 448).to(torch.float8_e4m3fn)
        return y, y.t().contiguous(), x.abs().amax()

    return eager(cast)


def operators(log):
    # The anchors of `measure`, then shapes of training steps.
    anchors = [(4096, 4096, 4096, "tn"), (8192, 4096, 11008, "nn"), (4096, 4096, 8192, "nt"),
               (16, 8192, 8192, "tn"), (1024, 1024, 1024, "tn"), (2048, 2049, 2050, "tn")]  # fmt: skip
    sizes = [(8192, 8192, 8192), (8192, 12288, 4096), (8192, 4096, 11008), (2048, 10240, 2560), (8192, 50257, 2560),
             (8192, 50304, 2560), (4096, 4097, 4096), (4096, 4100, 4096), (4096, 4104, 4096), (4096, 4096, 4097),
             (512, 1000, 2049), (256, 256, 8192)]  # fmt: skip
    for m, n, k, layout in anchors + [(*size, layout) for size in sizes for layout in ("tn", "nn", "nt")]:
        about = dict(family="gemm", dtype="bf16", m=m, n=n, k=k, batch=1, layout=layout, how="mm")
        log.measure("operator", lambda: gemm(m, n, k, layout), **about)
    square = dict(family="gemm", dtype="bf16", m=8192, n=8192, k=8192, batch=1, layout="tn")
    log.measure("zeros", lambda: gemm(8192, 8192, 8192, "tn", zeros), **square, how="mm")
    backends = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}
    shapes = [(2, 32, 32, 2048, 128, True)]
    shapes += [(batch, 32, 8, seq, d, causal) for d in (64, 80, 96, 112, 128, 192, 256)
               for seq, batch in ((1024, 8), (4096, 2)) for causal in (True, False)]  # fmt: skip
    for batch, heads, kv_heads, seq, d, causal in shapes:
        for how, backend in backends.items():
            for direction in ("forward", "backward"):
                about = {"family": "attention", "dtype": "bf16", "batch": batch, "heads": heads, "kv_heads": kv_heads,
                         "seq_q": seq, "seq_kv": seq, "head_dim": d, "causal": causal, "pass": direction,
                         "how": how}  # fmt: skip
                run = lambda: attention(batch, heads, kv_heads, seq, d, causal, backend, direction)  # noqa: E731
                log.measure("operator", run, **about)
    small = [("rms_norm", 8192, 4096), ("gelu", 8192, 11008), ("copy", 16384, 8192), ("softmax", 256, 1024),
             ("layer_norm", 16384, 2560), ("rms_norm", 8192, 11008)]  # fmt: skip
    for kind, rows, cols in small:
        for how in ("eager", "compiled"):
            for direction in ("forward", "backward"):
                about = {"family": "memory", "dtype": "bf16", "kind": kind, "rows": rows, "cols": cols,
                         "pass": direction, "how": how}  # fmt: skip
                log.measure("operator", lambda: kernel(kind, rows, cols, how, direction), **about)
    for cols in (32000, 50257, 128256):
        for direction in ("forward", "backward"):
            about = {"family": "memory", "dtype": "bf16", "kind": "cross_entropy", "rows": 8192, "cols": cols,
                     "pass": direction, "how": "eager"}  # fmt: skip
            log.measure("operator", lambda: kernel("cross_entropy", 8192, cols, "eager", direction), **about)
    once = {"family": "memory", "pass": "forward"}
    log.measure("operator", lambda: adam(1 << 26), dtype="fp32", kind="adam", rows=1 << 26, cols=1, how="fused", **once)
    log.measure("operator", lambda: quantize(8192, 4096), dtype="bf16", kind="quantize", rows=8192, cols=4096,
                how="compiled", **once)  # fmt: skip


# Cycles of waiting behind which autograd launches a backward pass.
HOLD = 400_000


def memory_kernels(log):
    """Memory-bound kernels of PyTorch, eager and compiled, both passes, over widths and sizes."""

    for how in ("eager", "compiled"):
        for elements in (1 << 25, 1 << 27, 1 << 23):
            for kind in KERNELS:
                widths = (1024, 2560, 4096, 8192, 16384) if kind != "cross_entropy" else (32000, 50304, 128256)
                widths = widths if how == "eager" else (widths[0], widths[2])
                for cols in widths:
                    rows = elements // cols
                    # No training step looks up so few tokens, and compiled blocks hold no embedding.
                    if kind == "embedding" and (how == "compiled" or rows < 1024):
                        continue
                    for direction in ("forward", "backward"):
                        log.measure("memory", lambda: kernel(kind, rows, cols, how, direction, HOLD), family="memory", dtype="bf16",
                                    kind=kind, rows=rows, cols=cols, how=how, **{"pass": direction})  # fmt: skip


class Watch(threading.Thread):
    """Clock and power every 10 ms, where NVML's bindings are installed."""

    def __init__(self):
        super().__init__(daemon=True)
        self.readings, self.done = [], threading.Event()

    def run(self):
        try:
            import pynvml
        except ImportError:
            return
        pynvml.nvmlInit()
        device = pynvml.nvmlDeviceGetHandleByIndex(0)
        while not self.done.wait(0.01):
            clock = pynvml.nvmlDeviceGetClockInfo(device, pynvml.NVML_CLOCK_SM)
            watts = pynvml.nvmlDeviceGetPowerUsage(device) / 1e3
            self.readings.append((time.monotonic(), clock * 1e6, watts))

    def median_since(self, begin):
        late = [reading for reading in self.readings if reading[0] >= begin]
        if not late:
            return {}
        return {"clock_hz": statistics.median(r[1] for r in late), "power_watts": statistics.median(r[2] for r in late)}


def sustained(log):
    watch = Watch()
    watch.start()

    def load(m, n, k):
        a, b = normal(m, k), normal(n, k).t()
        out = torch.empty(m, n, device="cuda", dtype=BF16)
        call = lambda: torch.mm(a, b, out=out)  # noqa: E731
        call()
        torch.cuda.synchronize()
        time.sleep(0.5)
        burst = between(call)
        calls, windows, begin = max(1, int(1e5 / burst)), [], time.monotonic()
        while time.monotonic() < begin + 3:
            windows.append(between(lambda: [call() for _ in range(calls)]) / calls)
        return {"burst_us": burst, "time_us": statistics.median(windows[-5:]), "windows_us": windows,
                **watch.median_since(begin + 2)}  # fmt: skip

    sizes = [(8192, 8192, 8192), (8192, 12288, 4096), (8192, 4096, 11008), (4096, 4096, 4096), (2048, 2048, 2048),
             (16384, 16384, 1024), (8192, 2560, 2560)]  # fmt: skip
    for m, n, k in sizes:
        log.measure("sustained", lambda: load(m, n, k), family="gemm", dtype="bf16", m=m, n=n, k=k, layout="tn")
    watch.done.set()


class Block(nn.Module):
    def __init__(self, hidden, heads, kv_heads, inner, gated):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim, self.gated = heads, kv_heads, hidden // heads, gated
        norm = nn.RMSNorm if gated else nn.LayerNorm
        self.attention_norm, self.mlp_norm = norm(hidden), norm(hidden)
        self.qkv = nn.Linear(hidden, (heads + 2 * kv_heads) * self.head_dim, bias=False)
        self.projection = nn.Linear(heads * self.head_dim, hidden, bias=False)
        self.up = nn.Linear(hidden, inner * (2 if gated else 1), bias=False)
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
    def __init__(self, depth, vocabulary, *shape):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, shape[0])
        self.blocks = nn.ModuleList(Block(*shape) for _ in range(depth))
        self.head = nn.Linear(shape[0], vocabulary, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(x).flatten(0, 1), tokens.flatten())


def step(depth, how, precision, profiled, vocabulary, batch, seq, *shape):
    """Median milliseconds of forward, backward and optimizer, the most memory, and the kernels of one step."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    model = Model(depth, vocabulary, *shape).to("cuda", BF16 if precision == "bf16" else torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    tokens = torch.randint(vocabulary, (batch, seq), device="cuda")
    if how == "compiled":
        torch._dynamo.reset()  # no size of an earlier model becomes dynamic
        for block in model.blocks:
            block.compile()

    def run():
        with torch.autocast("cuda", BF16, enabled=precision == "autocast"):
            loss = model(tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(4):
        run()
    told = {"ms": statistics.median(between(run) for _ in range(10)) / 1e3,
            "peak_bytes": torch.cuda.max_memory_allocated()}  # fmt: skip
    if profiled:
        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            run()
            torch.cuda.synchronize()
        events = [(event.key[:100], event.count, event.self_device_time_total) for event in profiler.key_averages()]
        told["kernels_us"] = sum(time_us for _, _, time_us in events)
        told["launches"] = sum(count for _, count, _ in events)
        told["kernels"] = sorted(events, key=lambda event: -event[2])[:40]
    return told


def layers(log):
    models = [
        # name, vocabulary, batch, sequence, hidden, heads, key/value heads, inner width, gated
        ("gpt3-2.7b", 50257, 4, 2048, 2560, 32, 32, 10240, False),
        ("llama-3-8b", 128256, 1, 8192, 4096, 32, 8, 14336, True),
        ("gpt3-2.7b with 20 heads", 50304, 4, 2048, 2560, 20, 20, 10240, False),
        ("qwen2.5-1.5b", 151936, 4, 4096, 1536, 12, 2, 8960, True),
        ("gpt3-2.7b with 40 heads", 50304, 4, 2048, 2560, 40, 40, 10240, False),
        ("llama-2-7b", 32000, 2, 4096, 4096, 32, 32, 11008, True),
        ("gpt2-xl", 50257, 8, 1024, 1600, 25, 25, 6400, False),
        ("heads of 112", 50304, 4, 2048, 3584, 32, 8, 9472, True),
        ("width 4100", 32000, 4, 2048, 4100, 41, 41, 10933, True),
        ("gpt2", 50304, 8, 1024, 768, 12, 12, 3072, False),
        ("gpt3-350m", 50304, 4, 1024, 1024, 16, 16, 4096, False),
        ("llama-3.2-1b", 128256, 2, 2048, 2048, 32, 8, 8192, True),
        ("llama-3-8b, 512 tokens", 128256, 1, 512, 4096, 32, 8, 14336, True),
        ("qwen2.5-0.5b", 151936, 2, 2048, 896, 14, 2, 4864, True),
        ("opt-6.7b", 50272, 2, 2048, 4096, 32, 32, 16384, False),
    ]
    # A list that time cuts short holds every model the first ways.
    for how, precision in (("eager", "bf16"), ("eager", "autocast"), ("compiled", "bf16")):
        for name, *shape in models:

            def timed():
                short = step(2, how, precision, False, *shape)
                long = step(6, how, precision, True, *shape)
                return {"step_2_ms": short["ms"], "step_6_ms": long["ms"], "layer_ms": (long.pop("ms") - short["ms"]) / 4,
                        "peak_2_bytes": short["peak_bytes"], **long}  # fmt: skip

            log.measure("layer", timed, model=name, shape=shape, how=how, precision=precision)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("part", choices=["operators", "memory", "sustained", "layers"])
    parser.add_argument("--seconds", type=float, default=1e9)
    asked = parser.parse_args()
    log = Log(asked.out, asked.seconds)
    properties = torch.cuda.get_device_properties(0)
    log.line(part="environment", torch=torch.__version__, cuda=torch.version.cuda, gpu=properties.name,
             cudnn=torch.backends.cudnn.version(), processors=properties.multi_processor_count)  # fmt: skip
    parts = {"operators": operators, "memory": memory_kernels, "sustained": sustained, "layers": layers}
    parts[asked.part](log)


if __name__ == "__main__":
    main()
