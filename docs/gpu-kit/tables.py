"""Results of the kit as tables that `shapewise` reads, on standard output.

    tables.py runs RESULTS.jsonl...     steps as runs: `evaluate --runs`, `calibrate --runs`
    tables.py rows linear.jsonl GPU     linear attention as timings: `train --data`, `import native`
"""

import csv
import json
import pathlib
import sys

# Columns of a run that a line of steps.py holds under the same name.
SAME = ("gpu", "batch", "seq", "microbatches", "recompute", "recipe", "seconds", "software")


def lines(path):
    return [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]


def runs(paths):
    table = csv.DictWriter(sys.stdout, ["model", "mode", "dtype", "optimizer_states", "configuration", *SAME])
    table.writeheader()
    for row in (row for path in paths for row in lines(path) if "seconds" in row):
        model = row["architecture"]
        # Depths and repeats of one shape are held out together.
        configuration = ", ".join(str(value) for key, value in model.items() if "layers" not in key and key != "name")
        table.writerow({
            "model": json.dumps(model), "mode": "train", "dtype": "fp8" if "recipe" in row else "bf16",
            "optimizer_states": "bf16", "configuration": configuration, **{key: row[key] for key in SAME if key in row},
        })  # fmt: skip


def rows(path, gpu):
    results = lines(path)
    ran = next((row for row in results if row["part"] == "environment"), None)
    if ran is None:
        sys.exit(f"{path}: no line has the part `environment`; allowed: what torch_linear.py wrote")
    timed = [row for row in results if row["part"] == "linear" and "time_us" in row]
    about = {"gpu": gpu, "source": "docs/gpu-kit/torch_linear.py", "licence": "MIT OR Apache-2.0", "libraries": ran["libraries"]}
    columns = [*about, "stack", *(key for key in timed[0] if key not in ("part", "min_us", "calls"))]
    table = csv.DictWriter(sys.stdout, columns, extrasaction="ignore")
    table.writeheader()
    for row in timed:
        table.writerow({**row, **about, "stack": ran["stacks"][row["kind"]]})


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["runs", *paths] if paths:
            runs(paths)
        case ["rows", path, gpu]:
            rows(path, gpu)
        case _:
            sys.exit(__doc__)
