"""Laws of PyTorch's kernels, as data/memory.toml has them, from profiles of whole steps: laws.py RESULTS/torch.json

Of every profiled step, the bytes that `src/ops/memory.rs` counts for one operator are divided by the time of its kernels and
by the bandwidth of the GPU. A share is the median over the steps, where there are three or more; its error is the mean, its
half width the 90th percentile (at least 0.04), of what the median of all other models is off by. A profile holds no launch,
so the launch floor stands for it. A step whose kernels have other names is left out: 512 tokens have another gradient of an
embedding.
"""

import json
import math
import pathlib
import statistics
import sys

BYTES_PER_SECOND = {"h200": 4.8e12, "h100": 3.35e12}
DEPTH = 6  # of the steps that are profiled
EMBEDDING = ("sum_and_scatter", "compute_grad_weight", "radix_sort", "unique_by_key", "partial", "DeviceScan")

ALL = ["fused", "compiled", "eager"]  # no compiler and no library has a kernel of its own


class Sizes:
    """Elements of the tensors of a step of `torch_truth.py`."""

    def __init__(self, shape):
        vocabulary, batch, seq, hidden, heads, kv_heads, inner, gated = shape
        head_dim = hidden // heads
        norms = DEPTH * 2 * hidden * (1 if gated else 2)
        tokens = batch * seq
        self.embedding, self.residual, self.logits = vocabulary * hidden, tokens * hidden, tokens * vocabulary
        widths = [(heads + 2 * kv_heads) * head_dim, heads * head_dim, inner * (2 if gated else 1), inner]
        self.linears = DEPTH * [width * hidden for width in widths] + [self.embedding]
        self.parameters = sum(self.linears) + self.embedding + norms


# Kernel, pass, providers, precision of the step, bits of an element, names of the kernels, elements of each call, and bytes of one.
KINDS = [
    ("adam", "forward", ALL, "autocast", 32, ["multi_tensor_apply"], lambda of: [of.parameters], 28),
    ("plain_adam", "forward", ALL, "bf16", 16, ["multi_tensor_apply"], lambda of: [of.parameters], 14),
    ("downcast", "forward", ["eager"], "autocast", 16, ["bfloat16_copy_kernel"],
     lambda of: of.linears + (4 * DEPTH + 1) * [of.residual] + [of.logits], 6),
    ("upcast", "forward", ["eager"], "autocast", 16, ["direct_copy_kernel"],
     lambda of: of.linears + (2 * DEPTH + 1) * [of.residual] + [of.logits], 6),
    ("zero", "forward", ALL, "bf16", 16, ["FillFunctor"], lambda of: [of.embedding, of.logits], 2),
    ("zero", "forward", ALL, "autocast", 32, ["FillFunctor"], lambda of: [of.embedding, of.logits], 4),
    ("embedding", "backward", ALL, "bf16", 16, EMBEDDING, lambda of: [of.residual], 6),
    ("embedding", "backward", ALL, "autocast", 32, EMBEDDING, lambda of: [of.residual], 12),
]  # fmt: skip


def steps(rows):
    """The profiled eager steps."""
    for row in rows:
        if row["part"] == "layer" and row["how"] == "eager" and "kernels" in row:
            yield row


def main(path):
    rows = [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]
    environment = next(row for row in rows if row["part"] == "environment")
    gpu = next(name for name in BYTES_PER_SECOND if name in environment["gpu"].lower())
    torch = ".".join(environment["torch"].split(".")[:2])
    for kernel, direction, providers, precision, bits, names, elements, size in KINDS:
        found = []
        for row in steps(rows):
            # Attention with heads of this width fills tensors of its own.
            if row["precision"] != precision or (kernel, row["model"]) == ("zero", "width 4100"):
                continue
            micros = sum(us for name, _, us in row["kernels"] if any(part in name for part in names))
            calls = elements(Sizes(row["shape"]))
            if micros:
                share = size * sum(calls) / micros * 1e6 / BYTES_PER_SECOND[gpu]
                found.append((row["model"], calls, share, row["shape"][3]))
        if len(found) < 3:
            continue
        shares = [share for _, _, share, _ in found]
        others = [statistics.median(share for other, _, share, _ in found if other != model) for model, *_ in found]
        errors = sorted(abs(math.log(share / other)) for share, other in zip(shares, others))
        counts, widths = sum((calls for _, calls, *_ in found), []), [width for *_, width in found]
        is_optimizer = "adam" in kernel
        cols = [1, 10**12] if is_optimizer or kernel in ("downcast", "upcast", "zero") else [min(widths), max(widths)]
        print(f"""
[[law]]
kernel = "{kernel}"
pass = "{direction}"
providers = {json.dumps(providers)}
gpu = "{gpu}"
bits = {bits}
library = "PyTorch {torch}{", AdamW(fused=True)" if is_optimizer else ""}"
launch_us = 2.5
shares = [[{1 if cols[0] == 1 else round(math.sqrt(cols[0] * cols[1]))}, {statistics.median(shares):.3f}]]
elements = [{min(counts)}, {max(counts)}]
cols = {cols}
rows = {len(found)}
error = {statistics.mean(errors):.3f}
half_width = {max(0.04, statistics.quantiles(errors, n=10, method="inclusive")[-1]):.2f}
source = "docs/gpu-kit/torch_truth.py on an {gpu.upper()} (this project)\"""")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
