"""Times linear attention on this GPU: Mamba-2 by mamba_ssm's kernels, Gated DeltaNet and Kimi Delta Attention by fla's.

    torch_linear.py OUT.jsonl --seconds N          writes one JSON line a measurement
    torch_linear.py --compile --seconds N          only compiles: several such processes fill Triton's cache together

Needs PyTorch, `fla-core` and the folder `mamba_ssm` of its source release, of which no module that is compiled ahead is imported.
"""

import argparse
import importlib.metadata
import itertools
import os
import pathlib
import random
import re
import statistics
import sys
import time
import types

import torch

from steps import Log, between

BF16 = torch.bfloat16
CACHE_BYTES = 180 << 20
DEVICE = "cuda"
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


def without_extensions():
    """Makes the subpackages of mamba_ssm importable without `mamba_ssm/__init__.py`, which loads compiled extensions."""
    for folder in sys.path:
        if os.path.isdir(os.path.join(folder, "mamba_ssm")):
            package = types.ModuleType("mamba_ssm")
            package.__path__ = [os.path.join(folder, "mamba_ssm")]
            sys.modules["mamba_ssm"] = package
            return


def compiling_only():
    """Triton compiles what would be tuned or launched, in an order of this process's own, and launches nothing."""
    from triton.runtime import autotuner, jit

    run, prune = jit.JITFunction.run, autotuner.Autotuner.prune_configs
    order = random.Random(os.getpid())

    def compiled(self, *args, grid, warmup, **options):
        return run(self, *args, grid=grid, warmup=True, **options)

    def shuffled(self, options):
        configurations = list(prune(self, options))
        order.shuffle(configurations)
        return configurations

    def untimed(self, *args, config, **options):
        try:
            self.fn.run(*args, **options, **config.all_kwargs())
        except Exception:  # a configuration that does not compile is not taken in the timed run either
            pass
        return [order.random()] * 3

    jit.JITFunction.run = compiled
    autotuner.Autotuner.prune_configs = shuffled
    autotuner.Autotuner._bench = untimed


def brief_tuning():
    """A configuration is tried for 8 ms in place of 100."""
    from triton.runtime import autotuner
    from triton.testing import do_bench

    autotuner.Autotuner.do_bench = property(
        lambda self: lambda call, quantiles: do_bench(call, warmup=2, rep=8, quantiles=quantiles)
    )


def draw(*shape, dtype=BF16, gradient=True):
    return torch.randn(*shape, device=DEVICE, dtype=dtype).requires_grad_(gradient)


# Each kind: inputs of a sequence, the call on them, inputs of one token, the call on them, and the recurrence token by token in fp32.


def mamba2_inputs(batch, heads, groups, seq, state, width):
    rate = draw(heads, dtype=torch.float32).detach().exp().neg().requires_grad_()
    wide = [draw(batch, seq, groups, state) for _ in "bc"]
    bias, skip = (draw(heads, dtype=torch.float32) for _ in range(2))
    return [draw(batch, seq, heads, width), draw(batch, seq, heads), rate, *wide, bias, skip]


def mamba2(x, step, rate, b, c, bias, skip):
    from mamba_ssm.ops.triton.ssd_combined import mamba_chunk_scan_combined

    return mamba_chunk_scan_combined(x, step, rate, b, c, 128, D=skip, dt_bias=bias, dt_softplus=True)


def mamba2_token_inputs(batch, heads, groups, state, width):
    rate = draw(heads, dtype=torch.float32, gradient=False).exp().neg()
    step, bias, skip = draw(batch, heads, gradient=False), *(draw(heads, dtype=torch.float32, gradient=False) for _ in "bd")
    widen = lambda x: x[..., None].expand(*x.shape, width)  # noqa: E731
    return [draw(batch, heads, width, state, dtype=torch.float32, gradient=False), draw(batch, heads, width, gradient=False),
            widen(step), rate[:, None, None].expand(heads, width, state), *(draw(batch, groups, state, gradient=False) for _ in "bc"),
            widen(bias), widen(skip)]  # fmt: skip


def mamba2_token(state, x, step, rate, b, c, bias, skip):
    from mamba_ssm.ops.triton.selective_state_update import selective_state_update

    return selective_state_update(state, x, step, rate, b, c, D=skip, dt_bias=bias, dt_softplus=True)


def mamba2_by_token(x, step, rate, b, c, bias, skip):
    x, step, b, c = (tensor.float() for tensor in (x, step, b, c))
    heads = x.shape[2]
    b, c = (tensor.repeat_interleave(heads // tensor.shape[2], 2) for tensor in (b, c))
    step = torch.nn.functional.softplus(step + bias)
    state, out = x.new_zeros(*x.shape[:1], heads, x.shape[3], b.shape[3]), []
    for t in range(x.shape[1]):
        decay = (step[:, t] * rate).exp()[..., None, None]
        state = state * decay + (step[:, t, :, None] * x[:, t])[..., None] * b[:, t, :, None]
        out.append((state * c[:, t, :, None]).sum(-1) + skip[:, None] * x[:, t])
    return torch.stack(out, 1)


def delta_inputs(batch, heads, key_heads, seq, key, value, each):
    decays = draw(batch, seq, heads, key) if each else draw(batch, seq, heads, dtype=torch.float32)
    return [*(draw(batch, seq, key_heads, key) for _ in "qk"), draw(batch, seq, heads, value), decays, draw(batch, seq, heads)]


def gated_delta_net(q, k, v, decay, beta):
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule

    decay, beta = torch.nn.functional.logsigmoid(decay), beta.sigmoid()
    return chunk_gated_delta_rule(q, k, v, decay, beta, use_qk_l2norm_in_kernel=True)[0]


def kimi_delta(q, k, v, decay, beta):
    from fla.ops.kda import chunk_kda

    decay, beta = torch.nn.functional.logsigmoid(decay.float()), beta.sigmoid()
    return chunk_kda(q, k, v, decay, beta, use_qk_l2norm_in_kernel=True)[0]


def delta_by_token(q, k, v, decay, beta):
    q, k, v, decay, beta = (tensor.float() for tensor in (q, k, v, decay, beta))
    q, k = (torch.nn.functional.normalize(tensor, dim=-1).repeat_interleave(v.shape[2] // tensor.shape[2], 2) for tensor in (q, k))
    decay, beta = torch.nn.functional.logsigmoid(decay).exp(), beta.sigmoid()
    decay = decay[..., None] if decay.dim() == 3 else decay
    state, out = v.new_zeros(*v.shape[:1], v.shape[2], k.shape[3], v.shape[3]), []
    for t in range(v.shape[1]):
        state = state * decay[:, t, :, :, None]
        missing = (v[:, t] - (state * k[:, t, ..., None]).sum(-2)) * beta[:, t, :, None]
        state = state + k[:, t, ..., None] * missing[:, :, None]
        out.append((state * q[:, t, ..., None]).sum(-2) * q.shape[-1] ** -0.5)
    return torch.stack(out, 1)


def delta_token_inputs(batch, heads, key_heads, key, value, each):
    inputs = delta_inputs(batch, heads, key_heads, 1, key, value, each)
    inputs = [tensor.detach() for tensor in inputs]
    return [*inputs, draw(batch, heads, key, value, dtype=torch.float32, gradient=False)]


def gated_delta_net_token(q, k, v, decay, beta, state):
    from fla.ops.gated_delta_rule import fused_recurrent_gated_delta_rule

    return fused_recurrent_gated_delta_rule(q, k, v, decay, beta=beta, initial_state=state, output_final_state=True,
                                            use_qk_l2norm_in_kernel=True)[0]  # fmt: skip


def kimi_delta_token(q, k, v, decay, beta, state):
    from fla.ops.kda import fused_recurrent_kda

    return fused_recurrent_kda(q, k, v, decay, beta=beta, initial_state=state, output_final_state=True,
                               use_qk_l2norm_in_kernel=True)[0]  # fmt: skip


# Heads and key heads (groups) of the kernels, the state's keys and values.
KINDS = {
    "mamba2": {
        "heads": [(128, 8), (64, 8), (32, 8), (256, 8), (16, 1), (80, 1), (96, 8), (8, 1), (48, 1), (128, 1), (64, 1), (32, 4), (16, 2), (112, 8)],
        "dims": (128, 64), "sequence": (mamba2_inputs, mamba2), "token": (mamba2_token_inputs, mamba2_token),
        "by_token": mamba2_by_token, "each": (), "passes": ("forward", "backward"),
    },
    "gated_delta_net": {
        "heads": [(32, 16), (16, 8)], "dims": (128, 128), "sequence": (delta_inputs, gated_delta_net),
        "token": (delta_token_inputs, gated_delta_net_token), "by_token": delta_by_token, "each": (False,),
        # fla refuses the backward pass on Hopper with Triton 3.4 to 3.7.0, which compile it wrongly.
        "passes": ("forward",),
    },
    "kimi_delta": {
        "heads": [(32, 32), (16, 16)], "dims": (128, 128), "sequence": (delta_inputs, kimi_delta),
        "token": (delta_token_inputs, kimi_delta_token), "by_token": delta_by_token, "each": (True,), "passes": ("forward", "backward"),
    },
}  # fmt: skip
SEQUENCES = [(1, 4096), (1, 1024), (2, 2048), (1, 8192), (8, 1024), (1, 256), (4, 4096), (16, 512), (1, 32768), (1, 2048), (8, 4096), (32, 256), (1, 512)]
TOKENS = [1, 2, 4, 8, 16, 32, 64, 128, 256]


def sets_of(make):
    """As many sets of operands as do not stay in the cache."""
    first = make()
    size = sum(tensor.numel() * tensor.element_size() for tensor in first)
    return [first] + [make() for _ in range(min(15, CACHE_BYTES // size))]


def timed(call, sets, backward):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        if backward:
            outs = [call(*inputs) for inputs in sets]
            gradients = [torch.randn_like(out) for out in outs]
            asked = [[tensor for tensor in inputs if tensor.requires_grad] for inputs in sets]
            run = lambda i: torch.autograd.grad(outs[i], asked[i], gradients[i], retain_graph=True)  # noqa: E731
        else:
            run = lambda i: call(*sets[i])  # noqa: E731
        with torch.set_grad_enabled(backward):
            return chain(run, len(sets), stream=stream)


def cases():
    """Every case, its kind first, so that a list that time cuts short holds all kinds."""
    of_kinds = ([(name, heads, *sequence) for sequence in SEQUENCES for heads in kind["heads"]] for name, kind in KINDS.items())
    for turn in itertools.zip_longest(*of_kinds):
        yield from filter(None, turn)


def about(name, heads, batch, seq, direction):
    key, value = KINDS[name]["dims"]
    return {"family": "linear_attention", "dtype": "bf16", "kind": name, "batch": batch, "heads": heads[0], "key_heads": heads[1],
            "seq_q": seq, "head_dim": key, "value_dim": value, "pass": direction}  # fmt: skip


def check(name):
    """The greatest difference between kernels and recurrence, over the largest value."""
    kind = KINDS[name]
    make, call = kind["sequence"]
    inputs = make(2, *kind["heads"][0], 256, *kind["dims"], *kind["each"])
    with torch.no_grad():
        ours, exact = call(*inputs).float(), kind["by_token"](*inputs)
    return {"difference": float((ours - exact).abs().max() / exact.abs().max())}


def environment():
    """Which libraries run, by kind of layer."""
    import triton

    folder = next(iter(sys.modules["mamba_ssm"].__path__))
    stated = re.search(r'__version__ = "(.+?)"', pathlib.Path(folder, "__init__.py").read_text())
    mamba, fla = f"mamba-ssm {stated[1]}", f"fla {importlib.metadata.version('fla-core')}"
    return {"libraries": f"torch {torch.__version__}, triton {triton.__version__}",
            "stacks": {"mamba2": mamba, "gated_delta_net": fla, "kimi_delta": fla}}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", default=os.devnull)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--compile", action="store_true")
    asked = parser.parse_args()
    without_extensions()
    if asked.compile:
        compiling_only()
        compile_all(asked.seconds)
        return
    brief_tuning()
    with Log(asked.out, asked.seconds) as log:
        measure(log)


def measure(log):
    log.line(part="environment", **environment())
    for name in KINDS:
        log.measure(lambda: check(name), part="check", kind=name)
    for name, kind in KINDS.items():
        make, call = kind["token"]
        for heads in kind["heads"]:
            for batch in TOKENS:
                one = lambda: timed(call, sets_of(lambda: make(batch, *heads, *kind["dims"], *kind["each"])), False)  # noqa: E731
                log.measure(one, part="linear", **about(name, heads, batch, 1, "forward"))
    for name, heads, batch, seq in cases():
        make, call = KINDS[name]["sequence"]
        for direction in KINDS[name]["passes"]:

            def one():
                torch.cuda.empty_cache()
                sets = sets_of(lambda: make(batch, *heads, seq, *KINDS[name]["dims"], *KINDS[name]["each"]))
                return timed(call, sets, direction == "backward")

            log.measure(one, part="linear", **about(name, heads, batch, seq, direction))


def compile_all(seconds):
    end = time.monotonic() + seconds
    kinds = list(KINDS.items())
    random.Random(os.getpid()).shuffle(kinds)
    for name, kind in kinds:
        # Kernels of mamba_ssm take the number of heads as an argument, those of fla as a constant.
        for heads in kind["heads"][: 1 if name == "mamba2" else 2]:
            if time.monotonic() > end:
                return
            try:
                make, call = kind["token"]
                call(*make(1, *heads, *kind["dims"], *kind["each"]))
                make, call = kind["sequence"]
                inputs = make(1, *heads, 1024, *kind["dims"], *kind["each"])
                with torch.set_grad_enabled("backward" in kind["passes"]):
                    out = call(*inputs)
                if "backward" in kind["passes"]:
                    torch.autograd.grad(out, [tensor for tensor in inputs if tensor.requires_grad], torch.ones_like(out))
            except Exception as error:  # the timed run says so, too
                print(name, heads, f"{type(error).__name__}: {str(error)[:300]}", flush=True)
    print("compiled", flush=True)


if __name__ == "__main__":
    main()
