"""The lists of steps.py, with what is predicted of every step before one is measured.

    lists.py make --program shapewise                               writes every list beside this file
    lists.py predict LIST.jsonl --gpu NAME --program shapewise      prints a list with the prediction for one more GPU
"""

import argparse
import csv
import datetime
import json
import pathlib
import random
import subprocess
import sys
import tempfile

KIT = pathlib.Path(__file__).resolve().parent
REPOSITORY = KIT.parent.parent
# Keys of a line that a prediction depends on.
ASKED = ("architecture", "batch", "seq", "microbatches", "recompute", "recipe")
STEP = {"batch": 4, "seq": 2048}
USUAL = ["--framework", "pytorch", "--optimizer-states", "bf16", "--batch", "4", "--seq", "2048", "--gpu", "h200", "--format", "json"]


def ask(program, *arguments):
    done = subprocess.run([program, *arguments], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{program} {' '.join(arguments)}: {done.stderr}")
    return json.loads(done.stdout)


def predict(rows, gpu, program, *options):
    """Adds to each line what the program predicts on that GPU; a line that it cannot answer stays without."""
    lines = []
    for row in rows:
        framework = "pytorch-compiled" if row.get("compiled") else "pytorch"
        lines.append({"kind": "model", "framework": framework, "optimizer_states": "bf16", **{k: row[k] for k in ASKED if k in row}})
        if "recipe" in row:
            lines[-1]["dtype"] = "fp8"
    text = "".join(json.dumps(line) + "\n" for line in lines)
    arguments = [program, "predict", "batch", "-", "--gpu", gpu, "--format", "json", *options]
    done = subprocess.run(arguments, input=text, capture_output=True, text=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if len(answers) != len(rows):
        sys.exit(done.stderr)
    for row, answer in zip(rows, answers):
        if "error" in answer:
            print(f"{row['name']}: {answer['error']}", file=sys.stderr)
            continue
        row["parameters"] = answer["parameters"]
        told = {key: round(answer[f"{key}_us"] / 1e6, 6) for key in ("time", "low", "high")}
        row["predicted"] = {name: other for name, other in row.get("predicted", {}).items() if name != answer["gpu"]}
        row["predicted"][answer["gpu"]] = {"seconds": told["time"], "low_s": told["low"], "high_s": told["high"]}


def plain(name, **sizes):
    """A published shape as steps.py builds it: without positions, biases and a tied head."""
    import tomllib  # from Python 3.11 on, which a machine with a GPU need not have

    known = tomllib.loads((REPOSITORY / f"data/architectures/{name}.toml").read_text())["architecture"]
    shape = {key: known[key] for key in ("name", "layers", "hidden", "heads", "kv_heads", "head_dim", "mlp", "vocab", "norm")}
    is_norm_biased = shape["norm"]["kind"] == "layer_norm"
    biases = {"qkv": False, "attention_output": False, "mlp": False, "norm": is_norm_biased}
    return {**shape, "tied_embeddings": False, "positions": "none", "biases": biases, **sizes}


def of_report(base, found):
    """The shape of a report in the family of `base`."""
    sizes = {key: found[key] for key in ("layers", "hidden", "heads", "kv_heads", "head_dim", "vocab")}
    return {**base, **sizes, "mlp": {"kind": found["mlp"], "d_ff": found["d_ff"]}}


def parameters(shape):
    of_layer = shape["hidden"] * (2 * shape["heads"] + 2 * shape["kv_heads"]) * shape["head_dim"]
    of_layer += shape["hidden"] * shape["mlp"]["d_ff"] * (3 if shape["mlp"]["kind"] == "swiglu" else 2)
    return shape["layers"] * of_layer + 2 * shape["hidden"] * shape["vocab"]


def resized(base, **sizes):
    """`base` with other sizes; the MLP, unless it is given, as wide as the parameters of `base` leave."""
    shape = {**base, **sizes}
    if "mlp" not in sizes:
        matrices = 3 if base["mlp"]["kind"] == "swiglu" else 2
        shape["mlp"] = {**base["mlp"], "d_ff": 0}
        room = (parameters(base) - parameters(shape)) / (shape["layers"] * matrices * shape["hidden"])
        shape["mlp"] = {**base["mlp"], "d_ff": round(room / 64) * 64}
    return shape


class List:
    """Shapes by what they are in the list for; equal ones are one line."""

    def __init__(self):
        self.roles = {}

    def add(self, role, shape):
        shape = {**shape, "name": self.title(shape)}
        self.roles.setdefault(json.dumps(shape), []).append(role)

    @staticmethod
    def title(shape):
        return (f"{shape['layers']} x {shape['hidden']}, {shape['heads']}/{shape['kv_heads']} heads of {shape['head_dim']}, "
                f"{shape['mlp']['kind']} {shape['mlp']['d_ff']}, vocabulary {shape['vocab']}")  # fmt: skip

    def lines(self, seed):
        """Baselines (`published`, `padded`) at the beginning, in the middle and at the end, all else at random between."""
        rows = [{"name": json.loads(shape)["name"], "roles": roles, "architecture": json.loads(shape), **STEP}
                for shape, roles in self.roles.items()]  # fmt: skip
        baselines = [row for row in rows if {"published", "padded"} & set(row["roles"])]
        others = [row for row in rows if row not in baselines]
        random.Random(seed).shuffle(others)
        again = [[{**row, "name": f"{row['name']}, {turn}"} for row in baselines] for turn in (1, 2, 3)]
        half = len(others) // 2
        return again[0] + others[:half] + again[1] + others[half:] + again[2]


def search_list(base, program, seed, first, drawn, forbidden=(), heads=(), others=()):
    listed = List()
    padded = {**base, "vocab": -(-base["vocab"] // 128) * 128}
    listed.add("published", base)
    listed.add("padded", padded)
    for count in heads:
        listed.add("heads", {**padded, "heads": count, "kv_heads": count, "head_dim": padded["hidden"] // count})
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(base, file)
        file.flush()
        found = ask(program, "search", "--like", file.name, "--top", str(first), *USUAL)["shapes"]
        fastest = ask(program, "search", "--like", file.name, "--objective", "throughput", "--top", "1000", *USUAL)["shapes"]
        checked = ask(program, "check", file.name, *USUAL)
    for shape in found:
        listed.add(f"search {shape['rank']}", of_report(base, shape["shape"]))
    listed.add("fastest", of_report(base, fastest[0]["shape"]))
    for shape in random.Random(seed).sample(fastest, drawn):
        listed.add("random", of_report(base, shape["shape"]))
    for shape in forbidden:
        listed.add("forbidden", resized(padded, **shape))
    for shape in others:
        listed.add(shape["name"], shape)
    fixes = [(f"{what} of {rule['id']}", rule[key]) for rule in checked["rules"] for key, what in (("fix", "fix"), ("faster", "faster fix"))]
    for role, fix in [*fixes, ("fix of all rules", checked["together"])]:
        if fix and fix["workload"] == checked["workload"]:
            listed.add(role, of_report(base, fix["architecture"]))
    return listed.lines(seed)


def measured_before():
    """The models of which steps of 2 and 6 layers were timed eager on an H200 and not compiled."""
    with open(REPOSITORY / "data/measurements/h200/pytorch-h200.csv") as file:
        runs = list(csv.DictReader(file))
    compiled = {run["configuration"] for run in runs if "compiled" in run["software"]}
    return [run for run in runs if run["autocast"] == "false" and run["configuration"] not in compiled]


def of_run(run, **more):
    architecture = json.loads(run["model"])
    name = ", ".join([architecture["name"], *map(str, more.pop("named", []))])
    return {"name": name, "architecture": architecture, "batch": int(run["batch"]), "seq": int(run["seq"]), **more}


def recomputing():
    for shape in (plain("gpt3-2.7b", layers=6, heads=20, kv_heads=20, head_dim=128, vocab=50304),
                  plain("llama-3-8b", layers=6), plain("qwen2.5-1.5b", layers=6), plain("llama-3.2-1b")):  # fmt: skip
        for how, options in (("full recomputation", {"recompute": "full"}), ("4 micro-batches", {"microbatches": 4}),
                             ("16384 tokens", {"batch": 1, "seq": 16384})):  # fmt: skip
            yield {"name": f"{shape['name']}, {how}", "architecture": shape, **STEP, **options}


def config(model_type, hidden, layers, heads, kv_heads, inner, vocab, **more):
    return {"model_type": model_type, "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads,
            "num_key_value_heads": kv_heads, "intermediate_size": inner, "vocab_size": vocab,
            "tie_word_embeddings": False, "max_position_embeddings": 8192, **more}  # fmt: skip


def by_transformers(program):
    searched = ask(program, "search", "--params", "1.3B", "--vocab", "50257", "--mlp", "swiglu", "--top", "2", *USUAL)["shapes"]
    searched = [one["shape"] for one in searched]
    models = {
        "llama-3-8b, 8 layers": config("llama", 4096, 8, 32, 8, 14336, 128256),
        "qwen2.5-1.5b": config("qwen2", 1536, 28, 12, 2, 8960, 151936, tie_word_embeddings=True),
        "llama-3.2-1b": config("llama", 2048, 16, 32, 8, 8192, 128256, head_dim=64, tie_word_embeddings=True),
        "gemma-3-1b": config("gemma3_text", 1152, 26, 4, 1, 6912, 262144, head_dim=256, sliding_window=512,
                             query_pre_attn_scalar=256, tie_word_embeddings=True),
        **{f"search {rank}": config("llama", s["hidden"], s["layers"], s["heads"], s["kv_heads"], s["d_ff"], s["vocab"],
                                    head_dim=s["head_dim"]) for rank, s in enumerate(searched, 1)},
        "olmoe-1b-7b": config("olmoe", 2048, 16, 16, 16, 1024, 50304, num_experts=64, num_experts_per_tok=8),
        "qwen3-30b-a3b, 6 layers": config("qwen3_moe", 2048, 6, 32, 4, 6144, 151936, head_dim=128, num_experts=128,
                                          num_experts_per_tok=8, moe_intermediate_size=768, norm_topk_prob=True),
        "mixtral-8x7b, 2 layers": config("mixtral", 4096, 2, 32, 8, 14336, 32000, num_local_experts=8, num_experts_per_tok=2),
    }  # fmt: skip
    long = [{"name": f"{name}, 1 x 4096", "architecture": model, "batch": 1, "seq": 4096} for name, model in models.items()]
    short = [{"name": f"{name}, 4 x 2048", "architecture": models[name], **STEP}
             for name in ("llama-3-8b, 8 layers", "qwen2.5-1.5b", "llama-3.2-1b", "search 1", "mixtral-8x7b, 2 layers")]  # fmt: skip
    return long + short


def make(program):
    gpt3 = plain("gpt3-2.7b")
    steps = search_list(
        gpt3, program, 1, first=10, drawn=14, heads=(16, 20, 40, 64), others=[plain("opt-2.7b")],
        forbidden=[{"hidden": 2592, "heads": 36, "kv_heads": 36, "head_dim": 72}, {"hidden": 2600, "heads": 26, "kv_heads": 26, "head_dim": 100},
                   {"hidden": 2500, "heads": 20, "kv_heads": 20, "head_dim": 125}, {"mlp": {"kind": "gelu", "d_ff": 10241}}],
    )  # fmt: skip
    again = {"published", "padded", "fastest", *(f"search {rank}" for rank in range(1, 6))}
    before = measured_before()
    quantized = [run for run in before if '"layers": 6' in run["model"] and run["seq"] != "512"][:6]
    lists = {
        "gate": [{"name": "gpt3-2.7b, 2 layers", "architecture": {**gpt3, "layers": 2}, **STEP}],
        "steps-2.7b": steps,
        "steps-1.3b": search_list(plain("gpt3-1.3b"), program, 2, first=8, drawn=5, forbidden=[{"mlp": {"kind": "gelu", "d_ff": 8193}}]),
        "steps-gated": search_list(plain("llama-3.2-3b"), program, 3, first=8, drawn=5),
        "steps-again": [row for row in steps if again & set(row["roles"])],
        "transformers": by_transformers(program),
        "compiled": [of_run(run, compiled=True, named=["compiled"]) for run in before],
        "recompute": list(recomputing()),
        "fp8": [of_run(run, compiled=True, recipe=recipe, named=[recipe]) for run in quantized for recipe in ("tensorwise", "rowwise")],
    }  # fmt: skip
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    revision = subprocess.run(["git", "-C", REPOSITORY, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    made = {"program": f"{version} {revision}", "date": str(datetime.date.today())}
    for name, rows in lists.items():
        for gpu in ("h200", "h100"):
            predict(rows, gpu, program)
        with open(KIT / f"{name}.jsonl", "w") as file:
            for row in rows:
                file.write(json.dumps({**row, **made}) + "\n")
        print(f"{name}: {len(rows)} steps, {sum(row.get('predicted', {}).get('h200', {}).get('seconds', 0) for row in rows):.1f} s a pass")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["make", "predict"])
    parser.add_argument("list", nargs="?")
    parser.add_argument("--gpu")
    parser.add_argument("--model", help="the model that predicts; that of the GPU if left out")
    parser.add_argument("--program", default="./shapewise")
    asked = parser.parse_args()
    if asked.what == "make":
        make(asked.program)
        return
    if not asked.list or not asked.gpu:
        parser.error("predict needs a list and --gpu")
    rows = [json.loads(line) for line in open(asked.list)]
    predict(rows, asked.gpu, asked.program, *(["--model", asked.model] if asked.model else []))
    for row in rows:
        print(json.dumps(row))


if __name__ == "__main__":
    main()
