"""Our own rows beside PyTorch's: compare.py RESULTS

Reads RESULTS/torch.json and the Parquet tables there; needs pyarrow. Prints the ratio of both times for
each operator that both measured (the anchors of `measure` are among PyTorch's shapes), and the medians.
"""

import json
import pathlib
import statistics
import sys

import pyarrow.parquet as parquet

SHAPE = {
    "gemm": ("m", "n", "k", "batch", "layout"),
    "attention": ("batch", "heads", "kv_heads", "seq_q", "seq_kv", "head_dim", "causal", "pass"),
    "memory": ("kind", "rows", "cols", "pass"),
}


def key(row):
    return (row["family"], row["dtype"], *(row[name] for name in SHAPE[row["family"]]))


def main(folder):
    ours = {}
    for path in sorted(pathlib.Path(folder).glob("*.parquet")):
        if path.name.endswith((".loads.parquet", ".steps.parquet")):
            continue
        for row in parquet.read_table(path).to_pylist():
            if row["family"] in SHAPE and row["cache"] == "cold" and row["rank"] == 0:
                ours.setdefault(key(row), []).append(row["time_us"])
    ratios = {}
    for line in pathlib.Path(folder, "torch.json").read_text().splitlines():
        row = json.loads(line)
        if row.get("part") != "operator" or "time_us" not in row or key(row) not in ours:
            continue
        ratio = statistics.median(ours[key(row)]) / row["time_us"]
        ratios.setdefault((row["family"], row["how"]), []).append(ratio)
        print(f"{ratio:6.3f}  {row['how']:9}", *key(row))
    for (family, how), values in sorted(ratios.items()):
        print(f"median of {len(values)} {family} against {how}: {statistics.median(values):.3f}")
    if not ratios:
        sys.exit("no operator is in both; allowed: results of run-1.sh with PyTorch")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
