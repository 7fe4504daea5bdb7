"""Whole steps of PyTorch as runs of our schema: runs.py RESULTS/torch.json >torch.csv

`shapewise evaluate --runs torch.csv` judges predictions by them, `calibrate --runs torch.csv` fits constants to them.
"""

import csv
import json
import pathlib
import sys

COLUMNS = ["model", "gpu", "mode", "batch", "seq", "seconds", "dtype", "optimizer_states", "autocast", "software", "configuration"]


def architecture(name, depth, shape):
    """The transformer of `torch_truth.py`, as `data/architectures` writes one."""
    vocabulary, _, _, hidden, heads, kv_heads, inner, gated = shape
    return {
        "name": f"{name}, {depth} layers", "layers": depth, "hidden": hidden, "heads": heads, "kv_heads": kv_heads,
        "head_dim": hidden // heads, "mlp": {"kind": "swiglu" if gated else "gelu", "d_ff": inner},
        "vocab": vocabulary, "tied_embeddings": False, "positions": "none",
        "norm": {"kind": "rms_norm" if gated else "layer_norm"},
        "biases": {"qkv": False, "attention_output": False, "mlp": False, "norm": not gated},
    }  # fmt: skip


def main(path):
    table = csv.DictWriter(sys.stdout, COLUMNS)
    table.writeheader()
    torch, gpu = "", ""
    for line in pathlib.Path(path).read_text().splitlines():
        row = json.loads(line)
        if row["part"] == "environment":
            torch, gpu = row["torch"], row["gpu"].removeprefix("NVIDIA ").lower()
        if row["part"] != "layer" or "layer_ms" not in row:
            continue
        for depth in (2, 6):
            table.writerow({
                "model": json.dumps(architecture(row["model"], depth, row["shape"])), "gpu": gpu, "mode": "train",
                "batch": row["shape"][1], "seq": row["shape"][2], "seconds": row[f"step_{depth}_ms"] / 1e3,
                "dtype": "bf16", "optimizer_states": "bf16" if row["precision"] == "bf16" else "fp32",
                "autocast": str(row["precision"] == "autocast").lower(), "software": f"PyTorch {row['how']} {torch}",
                "configuration": row["model"],
            })  # fmt: skip


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
