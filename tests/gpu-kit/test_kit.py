"""The kit for a GPU on a machine without one: test_kit.py, with SHAPEWISE the program."""

import importlib.util
import json
import math
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

KIT = pathlib.Path(__file__).resolve().parents[2] / "docs/gpu-kit"
SHAPEWISE = os.environ.get("SHAPEWISE")
sys.path.insert(0, str(KIT))
sys.dont_write_bytecode = True

import judge  # noqa: E402

LISTS = ["gate", "steps-2.7b", "steps-1.3b", "steps-gated", "steps-again", "transformers", "compiled", "recompute", "fp8"]


def lines(name):
    return [json.loads(line) for line in (KIT / f"{name}.jsonl").read_text().splitlines()]


def has_choices():
    return bool(SHAPEWISE) and b"--choices" in subprocess.run([SHAPEWISE, "measure", "--help"], capture_output=True).stdout


def shape(name, roles, parameters, predicted):
    told = {"h100": {"seconds": predicted, "low_s": predicted * 0.95, "high_s": predicted * 1.05}}
    return {"name": name, "roles": roles, "architecture": {"name": name}, "batch": 1, "seq": 1, "parameters": parameters, "predicted": told}


def timed(name, seconds):
    return {"name": name, "gpu": "NVIDIA H100 80GB HBM3", "seconds": seconds}


class Judge(unittest.TestCase):
    LIST = [
        shape("base", ["published"], 100, 1.0),
        {**shape("base", ["published"], 100, 1.0), "name": "base again"},
        shape("padded", ["padded", "fix of vocabulary"], 100, 0.9),
        shape("first", ["search 1"], 110, 0.8),
        shape("second", ["search 2"], 100, 0.75),
        shape("not measured", ["random"], 100, 0.7),
    ]
    RESULTS = [timed("base", 1.0), timed("base again", 1.02), timed("padded", 0.808), timed("first", 0.825), timed("second", 0.72),
               {"name": "not measured", "gpu": "NVIDIA H100 80GB HBM3", "error": "OutOfMemoryError"}]  # fmt: skip

    def setUp(self):
        self.found, self.gpu = judge.shapes(self.LIST, self.RESULTS)
        self.by_name = {one.name: one for one in self.found}

    def test_repeats_are_one_shape_with_their_median_and_spread(self):
        self.assertEqual((self.gpu, len(self.found)), ("h100", 4))
        self.assertAlmostEqual(self.by_name["base"].seconds, 1.01)
        self.assertAlmostEqual(self.by_name["base"].spread, 0.02)

    def test_gains_and_regret_are_at_equal_parameters(self):
        # 0.0101 s a parameter against 0.0075, and 0.0075 against 0.0072.
        self.assertAlmostEqual(judge.gain(self.by_name["first"], self.by_name["base"]), 0.0101 / 0.0075 - 1)
        self.assertAlmostEqual(judge.regret(self.by_name["first"], self.found), 0.0075 / 0.0072 - 1)

    def test_pairs_that_differ_by_under_two_percent_have_no_order(self):
        # Measured 1.01, 0.808, 0.825, 0.72: only the second and third are nearer than 2 %, at 2.1 % they count.
        self.assertEqual(judge.kendall(self.found), (4 / 6, 6))
        self.assertEqual(judge.kendall(self.found, least=0.03), (1.0, 5))
        self.assertTrue(math.isnan(judge.kendall(self.found[:1])[0]))

    def test_errors_are_of_shapes(self):
        told = judge.errors(self.found)
        # 1 / 1.01, 0.9 / 0.808, 0.8 / 0.825, 0.75 / 0.72, each less one: -0.99, 11.39, -3.03, 4.17 %.
        self.assertAlmostEqual(told["median"], (0.025 / 0.825 + 0.03 / 0.72) / 2)
        self.assertAlmostEqual(told["bias"], (-0.01 / 1.01 + 0.092 / 0.808 - 0.025 / 0.825 + 0.03 / 0.72) / 4)
        self.assertAlmostEqual(told["p90"], 0.3 * 0.03 / 0.72 + 0.7 * 0.092 / 0.808)
        self.assertEqual(told["inside"], 0.75)

    def test_the_verdict_names_gain_regret_and_each_fix(self):
        text = "\n".join(judge.judge(self.LIST, self.RESULTS))
        for line in ["4 of 5 shapes were measured, predictions for h100", "published: 1010.0 ms, 2 times, 2.0 % apart",
                     "  gain over published: +34.7 %, predicted +37.5 %", "  regret: +4.2 % of 2 shapes that cost no loss",
                     "fix of vocabulary (padded): +20.0 % of the time saved, predicted +10.0 %"]:  # fmt: skip
            self.assertIn(line, text)

    def test_a_gpu_is_the_longest_name_that_a_driver_says(self):
        names = {"b200", "gb200", "rtx-5090", "l40", "l40s"}
        titles = {"NVIDIA GB200": "gb200", "NVIDIA GeForce RTX 5090": "rtx-5090", "NVIDIA L40S": "l40s", "Tesla T4": None}
        self.assertEqual({title: judge.gpu_of(title, names) for title in titles}, titles)


class Lists(unittest.TestCase):
    def test_every_step_has_its_prediction_with_program_and_date(self):
        for name in LISTS:
            rows = lines(name)
            self.assertEqual(len({row["name"] for row in rows}), len(rows), name)
            for row in rows:
                self.assertEqual(set(row["predicted"]), {"h100", "h200"}, row["name"])
                self.assertTrue(row["program"].startswith("shapewise ") and row["date"].startswith("20"))

    def test_what_is_searched_has_the_parameters_of_what_is_published(self):
        for name in LISTS[1:4]:
            rows = lines(name)
            published = next(row for row in rows if "published" in row["roles"])
            for row in rows:
                self.assertLess(abs(row["parameters"] / published["parameters"] - 1), 0.011, row["name"])
            for turn in (0, len(rows) // 2, len(rows) - 1):
                near = rows[max(0, turn - 2) : turn + 3]
                self.assertTrue(any("published" in row["roles"] for row in near), f"{name}: no baseline at {turn}")

    @unittest.skipUnless(SHAPEWISE, "skipped: SHAPEWISE names no program")
    def test_a_prediction_can_be_made_for_another_gpu(self):
        command = [sys.executable, KIT / "lists.py", "predict", KIT / "gate.jsonl", "--gpu", "NVIDIA A100-SXM4-80GB", "--program", SHAPEWISE]
        row = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        self.assertEqual(list(row["predicted"])[-1], "a100")
        self.assertGreater(row["predicted"]["a100"]["seconds"], row["predicted"]["h200"]["seconds"])


class Tables(unittest.TestCase):
    @unittest.skipUnless(SHAPEWISE, "skipped: SHAPEWISE names no program")
    def test_measured_steps_are_runs_that_the_program_judges(self):
        with tempfile.TemporaryDirectory() as folder:
            results, table = pathlib.Path(folder, "steps.jsonl"), pathlib.Path(folder, "runs.csv")
            rows = lines("steps-1.3b") + lines("recompute") + lines("transformers")
            for row in rows:
                row |= {"gpu": "NVIDIA H200", "seconds": row["predicted"]["h200"]["seconds"], "software": "PyTorch eager 2.11.0"}
            results.write_text("".join(json.dumps(row) + "\n" for row in rows))
            table.write_bytes(subprocess.run([sys.executable, KIT / "tables.py", "runs", results], check=True, capture_output=True).stdout)
            command = [SHAPEWISE, "evaluate", "--runs", table, "--framework", "pytorch", "--format", "json"]
            told = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
            # The same program predicts what it predicted, so the whole of each step was written down.
            self.assertEqual(told["overall"]["n"], len(rows))
            self.assertLess(told["overall"]["p90_ape"], 1e-5)


# A part that counts the seconds of its life in a file, which it gives its name when it is interrupted.
COUNTER = """
import pathlib, sys, time
out, ticks = pathlib.Path(sys.argv[1]), int(sys.argv[2])
part = pathlib.Path(f"{out}.part")
try:
    for _ in range(ticks):
        with part.open("a") as file: file.write("tick\\n")
        time.sleep(0.1)
except KeyboardInterrupt:
    pass
part.rename(out)
"""

# The runner with parts of seconds in place of its own.
RUNNER = """
import json, os, sys
sys.path.insert(0, os.environ["KIT"])
import run
run.GRACE, run.ENDING = 4, 1
def count(name, least, limit, ticks, **more):
    return run.Part(name, least, limit, [sys.executable, "-c", os.environ["COUNTER"], "{results}/" + name, str(ticks)], name, (), **more)
run.PARTS = [count("beside", 1, 6, 20, beside=True), count("short", 1, 5, 5), count("endless", 1, 3, 10**6),
             run.Part("wrong", 0, 5, ["false"], "wrong", ()), run.Part("absent", 0, 5, ["true"], "absent", ("no_such_module",)),
             count("long", 100, 200, 1), count("later", 0, 5, 1, sitting=2)]
if "STEP_S" in os.environ:
    row = {**json.loads(open(run.KIT / "gate.jsonl").read()), "gpu": "NVIDIA H200", "seconds": float(os.environ["STEP_S"])}
    run.GATE = run.Part("gate", 0, 5, ["sh", "-c", "echo '" + json.dumps(row) + "' >{results}/gate.jsonl"], "gate.jsonl", ())
run.main()
"""


class Runner(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.results = pathlib.Path(self.folder.name, "results")
        self.environment = os.environ | {"DEVICE": "scripted", "RESULTS": str(self.results), "KIT": str(KIT), "COUNTER": COUNTER,
                                         "SHAPEWISE": SHAPEWISE or "true"}  # fmt: skip

    def start(self, *arguments, command=(sys.executable, "-c", RUNNER)):
        return subprocess.Popen([*command, *arguments], env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def ended(self, name):
        lines = (self.results / "parts.jsonl").read_text().splitlines()
        return [line for line in map(json.loads, lines) if line["part"] == name]

    def ticks(self, name):
        return (self.results / name).read_text().count("tick")

    def test_parts_end_at_their_limits_and_one_that_was_killed_goes_on(self):
        first = self.start("--seconds", "30")
        deadline = time.monotonic() + 20
        while not (self.results / "endless.part").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        first.send_signal(signal.SIGKILL)
        first.communicate()
        time.sleep(0.5)
        left = (self.results / "endless.part").read_text().count("tick")
        time.sleep(0.5)
        self.assertEqual((self.results / "endless.part").read_text().count("tick"), left, "a part outlived the runner")
        begin = time.monotonic()
        said, _ = self.start("--seconds", "30").communicate()
        self.assertLess(time.monotonic() - begin, 15)
        self.assertEqual(len(self.ended("short")), 1, "what is over is left out")
        self.assertGreater(self.ticks("endless"), left)
        self.assertTrue(2.9 < self.ended("endless")[0]["seconds"] < 5 and self.ended("endless")[0]["over"])
        self.assertIn("wrong: 0 s, failed, see wrong.log", said)
        self.assertIn("absent: left out, there is no no_such_module", said)
        self.assertIn("long: not started", said)
        self.assertIn("later: waits for the parts before it", said)

    def test_what_the_time_cuts_short_is_whole_and_goes_on_in_the_next_call(self):
        begin = time.monotonic()
        self.start("--seconds", "6", "endless").communicate()
        self.assertLess(time.monotonic() - begin, 6)
        self.assertFalse(self.ended("endless")[0]["over"])
        self.assertTrue((self.results / "endless").exists())
        self.start("--seconds", "30", "endless").communicate()
        self.assertTrue(self.ended("endless")[1]["over"])

    def test_a_part_that_is_none_is_refused_and_so_is_a_program_that_does_not_start(self):
        wrong = self.start("--seconds", "6", "short", "shrt")
        self.assertIn("no part is called shrt; allowed: beside, short", wrong.communicate()[1])
        self.assertEqual(wrong.returncode, 2)
        self.environment["SHAPEWISE"] = "/nowhere/shapewise"
        wrong = self.start("--seconds", "6", command=(KIT / "run.sh",))
        self.assertIn("STOP: the program does not start", wrong.communicate()[1])
        self.assertFalse((self.results / "parts.jsonl").exists())

    @unittest.skipUnless(has_choices(), "skipped: SHAPEWISE names no program with `measure --choices`")
    def test_the_scripted_device_gives_every_part_that_needs_no_pytorch(self):
        run = (KIT / "run.sh",)
        first = self.start("--seconds", "70", command=run)
        deadline = time.monotonic() + 30
        while not (self.results / "gaps.parquet.journal").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        first.send_signal(signal.SIGKILL)
        first.communicate()
        begin = time.monotonic()
        said, _ = self.start("--seconds", "60", command=run).communicate()
        self.assertLess(time.monotonic() - begin, 60)
        for part in ("choices", "gaps"):
            self.assertTrue((self.results / f"{part}.parquet").exists(), said)
            self.assertFalse((self.results / f"{part}.parquet.journal").exists(), said)
        self.assertIn("steps-2.7b: left out, there is no torch", said)

    @unittest.skipUnless(SHAPEWISE, "skipped: SHAPEWISE names no program")
    def test_a_step_far_from_its_prediction_ends_the_sitting(self):
        predicted = lines("gate")[0]["predicted"]["h200"]
        self.environment["STEP_S"] = str(predicted["high_s"] * 1.05)
        said, _ = self.start("--seconds", "30", "short").communicate()
        self.assertIn(f"{1e3 * predicted['seconds']:.1f} predicted", said)
        self.assertEqual(len(self.ended("short")), 1)
        self.environment["STEP_S"] = str(predicted["high_s"] * 1.2)
        self.assertIn("STOP: a step takes", self.start("--seconds", "30", "short").communicate()[1])


@unittest.skipUnless(shutil.which("objdump"), "skipped: there is no objdump")
class Pack(unittest.TestCase):
    def pack(self, out, **limits):
        environment = os.environ | {"SHAPEWISE": shutil.which("ls"), "VULKAN": shutil.which("ls")} | limits
        return subprocess.run([KIT / "pack.sh", out], env=environment, capture_output=True, text=True)

    def test_a_kit_that_is_too_large_or_needs_a_newer_c_library_is_not_written(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder, "kit.tar.xz")
            for limits, said in (({"GLIBC": "2.1"}, "allowed: 2.1 or older"), ({"GLIBC": "99", "MOST": "1000"}, "allowed: at most 1000")):
                told = self.pack(out, **limits)
                self.assertEqual(told.returncode, 1)
                self.assertIn(said, told.stderr)
                self.assertFalse(out.exists())
            self.assertEqual(self.pack(out, GLIBC="99").returncode, 0)
            self.assertGreater(out.stat().st_size, 1000)


@unittest.skipUnless(importlib.util.find_spec("torch"), "skipped: this Python has no PyTorch")
class Steps(unittest.TestCase):
    SHAPE = {"name": "small", "layers": 2, "hidden": 64, "heads": 4, "kv_heads": 2, "head_dim": 16, "mlp": {"kind": "swiglu", "d_ff": 128},
             "vocab": 257, "tied_embeddings": False, "positions": "none", "norm": {"kind": "rms_norm"}}  # fmt: skip

    def test_steps_of_a_list_are_timed_and_what_cannot_be_built_says_so(self):
        with tempfile.TemporaryDirectory() as folder:
            listed, out = pathlib.Path(folder, "list.jsonl"), pathlib.Path(folder, "out.jsonl")
            row = {"name": "plain", "architecture": self.SHAPE, "batch": 2, "seq": 32}
            rows = [row, {**row, "name": "recomputed", "microbatches": 2, "recompute": "full"},
                    {**row, "name": "tied", "architecture": {**self.SHAPE, "tied_embeddings": True}}]  # fmt: skip
            listed.write_text("".join(json.dumps(row) + "\n" for row in rows))
            # A line that was measured before, and one that a kill tore.
            pathlib.Path(f"{out}.part").write_text(json.dumps({**row, "gpu": "cpu", "seconds": 1.5}) + '\n{"name": "reco')
            subprocess.run([sys.executable, KIT / "steps.py", listed, "--out", out, "--device", "cpu"], check=True)
            told = [json.loads(line) for line in out.read_text().splitlines()]
            self.assertEqual([line["name"] for line in told], ["plain", "recomputed", "tied"])
            self.assertEqual(told[0]["seconds"], 1.5)
            self.assertEqual(told[1]["seconds"], sorted(told[1]["times_s"])[len(told[1]["times_s"]) // 2])
            self.assertIn("tied_embeddings", told[2]["error"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
