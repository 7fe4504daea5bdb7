"""Holds measured steps against what a list predicted of them: judge.py LIST.jsonl RESULTS.jsonl [--gpu NAME]

Prints the gain of the first recommendation over each baseline at equal parameters, its regret against the best shape,
Kendall's tau over pairs whose times differ by over 2 %, the error of the predictions, and each fix of `check`.
"""

import argparse
import itertools
import json
import math
import re
import statistics
import sys

BASELINES = ("published", "padded")


def letters(name):
    return re.sub("[^a-z0-9]", "", name.lower())


def gpu_of(title, names):
    """The longest name that the title of a driver holds."""
    held = [name for name in names if letters(name) in letters(title)]
    return max(held, key=len, default=None)


class Shape:
    """One shape with its runs."""

    def __init__(self, row, gpu, times):
        self.name, self.roles, self.parameters = row["architecture"].get("name", row["name"]), row.get("roles", []), row.get("parameters")
        told = row.get("predicted", {}).get(gpu)
        self.predicted = told and told["seconds"]
        self.interval = told and (told["low_s"], told["high_s"])
        self.times, self.seconds = times, statistics.median(times)
        self.spread = max(times) / min(times) - 1

    def of_one_parameter(self, seconds):
        return seconds / self.parameters

    def cost(self):
        return self.of_one_parameter(self.seconds)


def shapes(rows, results, gpu=None):
    """The shapes of a list that were measured, and the GPU's name in the predictions."""
    measured = [line for line in results if "seconds" in line]
    if not measured:
        sys.exit("no line has `seconds`; allowed: what steps.py wrote")
    names = {name for row in rows for name in row.get("predicted", {})}
    gpu = gpu or gpu_of(measured[0]["gpu"], names)
    times, first = {}, {}
    by_name = {line["name"]: line["seconds"] for line in measured}
    for row in rows:
        if row["name"] in by_name:
            key = json.dumps([row["architecture"], *(row.get(k) for k in ("batch", "seq", "microbatches", "recompute", "recipe"))])
            times.setdefault(key, []).append(by_name[row["name"]])
            first.setdefault(key, row)
    return [Shape(row, gpu, times[key]) for key, row in first.items()], gpu


def with_role(found, role):
    return next((shape for shape in found if role in shape.roles), None)


def gain(shape, baseline, seconds=lambda shape: shape.seconds):
    """How many times the parameters and tokens a second of the baseline, minus one."""
    return baseline.of_one_parameter(seconds(baseline)) / shape.of_one_parameter(seconds(shape)) - 1


def regret(chosen, found):
    """What the choice takes longer than the best, at equal parameters."""
    return chosen.cost() / min(shape.cost() for shape in found) - 1


def kendall(found, least=0.02):
    """Tau of measured and predicted times over the pairs of which the measured ones differ by more; and their number."""
    signs = []
    for a, b in itertools.combinations([shape for shape in found if shape.predicted], 2):
        if abs(math.log(a.seconds / b.seconds)) > math.log1p(least):
            order = (a.seconds - b.seconds) * (a.predicted - b.predicted)
            signs.append((order > 0) - (order < 0))
    return (sum(signs) / len(signs) if signs else math.nan), len(signs)


def errors(found):
    """Median, mean and 90th percentile of the error, the bias and the share inside the interval."""
    known = [shape for shape in found if shape.predicted]
    if not known:
        return None
    signed = [shape.predicted / shape.seconds - 1 for shape in known]
    sizes = sorted(map(abs, signed))
    inside = [shape.interval[0] <= shape.seconds <= shape.interval[1] for shape in known]
    at = 0.9 * (len(sizes) - 1)
    low, high = sizes[math.floor(at)], sizes[math.ceil(at)]
    return {"shapes": len(known), "median": statistics.median(sizes), "mean": statistics.mean(sizes),
            "p90": low + (high - low) * (at % 1), "bias": statistics.mean(signed), "inside": statistics.mean(inside)}  # fmt: skip


def percent(value):
    return f"{100 * value:+.1f} %"


def judge(rows, results, gpu=None):
    """The lines of the verdict."""
    found, gpu = shapes(rows, results, gpu)
    lines = [f"{len(found)} of {len({json.dumps(row['architecture']) for row in rows})} shapes were measured, predictions for {gpu or 'no GPU'}"]
    told = errors(found)
    if told:
        lines.append(
            f"predicted against measured: {100 * told['median']:.1f} / {100 * told['mean']:.1f} / {100 * told['p90']:.1f} % off (median, mean, p90), "
            f"bias {percent(told['bias'])}, {100 * told['inside']:.0f} % inside the interval"
        )
        tau, pairs = kendall(found)
        lines.append(f"Kendall's tau {tau:.2f} over {pairs} pairs that differ by over 2 %")
    baselines = [(role, shape) for role in BASELINES if (shape := with_role(found, role))]
    for role, baseline in baselines:
        lines.append(f"{role}: {1e3 * baseline.seconds:.1f} ms, {len(baseline.times)} times, {100 * baseline.spread:.1f} % apart")
    searched = [shape for shape in found if any(role.startswith("search ") for role in shape.roles)]
    for role, among in (("search 1", searched), ("fastest", found)):
        chosen = with_role(found, role)
        if not chosen:
            continue
        lines.append(f"{role}: {chosen.name}, {1e3 * chosen.seconds:.1f} ms")
        for against, baseline in baselines:
            predicted = ""
            if chosen.predicted and baseline.predicted:
                predicted = f", predicted {percent(gain(chosen, baseline, lambda shape: shape.predicted))}"
            lines.append(f"  gain over {against}: {percent(gain(chosen, baseline))}{predicted}")
        lines.append(f"  regret: {percent(regret(chosen, among))} of {len(among)} shapes {'that cost no loss' if among is searched else 'in all'}")
    published = with_role(found, "published")
    for shape in found:
        for role in shape.roles:
            if "fix of" in role and published:
                saved = 1 - shape.seconds / published.seconds
                predicted = f", predicted {percent(1 - shape.predicted / published.predicted)}" if shape.predicted else ""
                lines.append(f"{role} ({shape.name}): {percent(saved)} of the time saved{predicted}")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("list")
    parser.add_argument("results")
    parser.add_argument("--gpu", help="name of the GPU in the predictions; that of the results if left out")
    asked = parser.parse_args()
    rows, results = ([json.loads(line) for line in open(path)] for path in (asked.list, asked.results))
    print("\n".join(judge(rows, results, asked.gpu)))


if __name__ == "__main__":
    main()
