"""Measures this GPU for N seconds: run.sh --seconds N [PART...]

The parts are started in the order of PARTS, or only those that are named. One that is over is left out, one that needs
more time than is left is not started, and one that reaches its limit is ended with its file whole. Started again, it
goes on. DEVICE is the device of `shapewise measure` (cuda:0), RESULTS the folder of all that is written (results beside
this file), SHAPEWISE the program.
"""

import argparse
import ctypes
import functools
import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from typing import NamedTuple

KIT = pathlib.Path(__file__).resolve().parent
DEVICE = os.environ.get("DEVICE", "cuda:0")
RESULTS = pathlib.Path(os.environ.get("RESULTS", KIT / "results")).resolve()
PROGRAM = os.environ.get("SHAPEWISE", str(KIT / "shapewise"))
# What a part gets to end by itself after an interrupt.
GRACE = 15
# What it leaves of its limit for a row in flight.
ENDING = 10
# Parts end with this process, however that ends.
LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


class Part(NamedTuple):
    name: str
    least: int  # seconds without which it is not started
    limit: int
    command: list  # {budget} is its time in seconds, {results} and {kit} are folders
    out: str  # the file in the results that shows that it is done
    needs: tuple = ("cuda",)  # modules of Python, and `cuda` or `torch` on CUDA
    beside: bool = False  # runs while the next ones do
    sitting: int = 1


def steps(name, least, limit, of=None, **more):
    command = [sys.executable, "{kit}/steps.py", f"{{kit}}/{of or name}.jsonl", "--out", f"{{results}}/{name}.jsonl", "--seconds", "{budget}"]
    return Part(name, least, limit, command, f"{name}.jsonl", **{"needs": ("torch",), **more})


def measure(name, least, limit, *options, device=DEVICE, **more):
    command = [PROGRAM, "measure", "--device", device, *options, "--budget", "{budget}s", "--out", f"{{results}}/{name}.parquet", "--format", "json"]
    return Part(name, least, limit, command, f"{name}.parquet", **{"needs": (), **more})


def train(name, limit, backend):
    command = [PROGRAM, "train", "--data", "{results}/wgpu.parquet", "--backend", backend, "--out", f"{{results}}/{name}", "--force"]
    return Part(name, 20, limit, command, f"{name}/card.json")


LINEAR = [sys.executable, "{kit}/torch_linear.py"]
COMPILERS = "for i in 1 2 3 4 5 6 7 8 9 10; do '%s' '{kit}/torch_linear.py' --compile --seconds {budget} & done; touch '{results}/linear.compiled'; wait"

PARTS = [
    measure("choices", 15, 240, "--choices", "1000000", beside=True),
    steps("steps-2.7b", 40, 185),
    steps("steps-1.3b", 20, 70),
    steps("steps-gated", 20, 85),
    measure("gaps", 40, 110, "--plan", "gaps"),
    steps("transformers", 30, 90, needs=("torch", "transformers")),
    measure("wgpu", 40, 120, "--plan", "quick", device="wgpu:0", needs=("cuda",)),
    train("wgpu-model", 60, "wgpu"),
    train("cpu-model", 90, "cpu"),
    Part("linear-compile", 60, 300, ["sh", "-c", COMPILERS % sys.executable], "linear.compiled", ("torch", "fla", "mamba_ssm"), True, 2),
    steps("steps-again", 15, 50, sitting=2),
    steps("compiled", 60, 140, sitting=2),
    steps("recompute", 20, 60, sitting=2),
    Part("linear", 60, 200, [*LINEAR, "{results}/linear.jsonl", "--seconds", "{budget}"], "linear.jsonl", ("torch", "fla", "mamba_ssm"), False, 2),
    steps("fp8", 40, 120, needs=("torch", "torchao"), sitting=2),
]
GATE = steps("gate", 0, 60)


def lacking(part):
    """What of the needs of a part is not there."""
    known = {"cuda": lambda: DEVICE.startswith("cuda"), "torch": has_torch}
    return [need for need in part.needs if not known.get(need, lambda: importlib.util.find_spec(need))()]


@functools.cache
def has_torch():
    """Whether this Python has PyTorch with CUDA, on the device that is asked for."""
    check = [sys.executable, "-c", "import torch; assert torch.cuda.is_available()"]
    return DEVICE.startswith("cuda") and subprocess.run(check, capture_output=True).returncode == 0


def die_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Running:
    """A part that was started; it ends by itself, at its limit, or where the time of the whole ends."""

    def __init__(self, part, left):
        self.part, self.begin = part, time.monotonic()
        self.cut = left - GRACE < part.limit
        self.seconds = int(min(part.limit, left - GRACE))
        command = part.command
        for word, meant in (("{budget}", max(1, self.seconds - ENDING)), ("{results}", RESULTS), ("{kit}", KIT)):
            command = [text.replace(word, str(meant)) for text in command]
        known = [RESULTS / part.out, RESULTS / f"{part.out}.journal"]
        if "measure" in command and any(path.exists() for path in known):
            command.append("--resume")
        environment = os.environ | {"PYTHONUNBUFFERED": "1", "VIRTUAL_ENV": sys.prefix}
        # The loader of Vulkan is part of no driver.
        environment["LD_LIBRARY_PATH"] = ":".join(filter(None, [environment.get("LD_LIBRARY_PATH"), str(KIT / "lib")]))
        with open(RESULTS / f"{part.name}.out", "w") as out, open(RESULTS / f"{part.name}.log", "a") as log:
            self.process = subprocess.Popen(command, stdout=out, stderr=log, env=environment, start_new_session=True, preexec_fn=die_with_parent)
        self.signals = [(self.seconds, signal.SIGINT), (self.seconds + GRACE - 3, signal.SIGKILL)]

    def is_over(self):
        """Whether it ended; one past its limit is told to."""
        code, spent = self.process.poll(), time.monotonic() - self.begin
        if code is None:
            while self.signals and spent > self.signals[0][0]:
                self.end(self.signals.pop(0)[1])
            return False
        self.end(signal.SIGKILL)  # what it started and left behind
        is_there = (RESULTS / self.part.out).exists()
        has_all = is_there and not (self.cut and spent > self.seconds - ENDING)
        with open(RESULTS / "parts.jsonl", "a") as log:
            log.write(json.dumps({"part": self.part.name, "seconds": round(spent, 1), "code": code, "over": has_all}) + "\n")
        how = "done" if has_all else "cut short" if is_there else f"failed, see {self.part.name}.log"
        print(f"{self.part.name}: {spent:.0f} s, {how}", flush=True)
        return True

    def end(self, how):
        try:
            os.killpg(self.process.pid, how)
        except ProcessLookupError:
            pass


def wait(running, which):
    """Until these of the running parts are over."""
    while any(one in running for one in which):
        for one in [one for one in running if one.is_over()]:
            running.remove(one)
        time.sleep(0.1)


def gate(running):
    """Why nothing else is to be started; two layers of a model have to take what is predicted, within its interval and a tenth."""
    try:
        subprocess.run([PROGRAM, "--version"], check=True, stdout=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError) as error:
        return f"the program does not start ({error}); allowed: a glibc not older than where it was built"
    if lacking(GATE):
        print("gate: the program starts; no PyTorch with CUDA, so no step is compared")
        return None
    (RESULTS / GATE.out).unlink(missing_ok=True)
    one = Running(GATE, 1000)
    running.append(one)
    wait(running, [one])
    rows = [json.loads(line) for line in (RESULTS / GATE.out).read_text().splitlines()] if (RESULTS / GATE.out).exists() else []
    if not rows or "seconds" not in rows[0]:
        return f"a small step does not run: {rows[0]['error'] if rows else 'see gate.log'}"
    command = [sys.executable, KIT / "lists.py", "predict", RESULTS / GATE.out, "--gpu", rows[0]["gpu"], "--program", PROGRAM]
    told = subprocess.run(command, capture_output=True, text=True)
    if told.returncode:
        print(f"gate: {rows[0]['gpu']} has no prediction: {told.stderr.strip()}")
        return None
    # The prediction that was made here comes after those of the list.
    predicted = list(json.loads(told.stdout)["predicted"].values())[-1]
    low, high, seconds = predicted["low_s"] / 1.1, predicted["high_s"] * 1.1, rows[0]["seconds"]
    print(f"gate: {1e3 * seconds:.1f} ms, {1e3 * predicted['seconds']:.1f} predicted")
    if low <= seconds <= high:
        return None
    return f"a step takes {1e3 * seconds:.1f} ms; allowed: {1e3 * low:.1f} to {1e3 * high:.1f}, so this GPU is busy, throttled or another one"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(part.name for part in PARTS))
    asked = parser.parse_args()
    wrong = set(asked.parts) - {part.name for part in PARTS}
    if wrong:
        parser.error(f"no part is called {', '.join(sorted(wrong))}; allowed: {', '.join(part.name for part in PARTS)}")
    deadline = time.monotonic() + asked.seconds
    RESULTS.mkdir(parents=True, exist_ok=True)
    running = []
    # However it ends, no part outlives it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    try:
        stop = gate(running)
        if stop:
            sys.exit(f"STOP: {stop}")
        ended = RESULTS / "parts.jsonl"
        over = {line["part"] for line in map(json.loads, ended.read_text().splitlines()) if line["over"]} if ended.exists() else set()
        is_first_over = True
        for part in PARTS:
            if part.name in over or asked.parts and part.name not in asked.parts:
                continue
            left = deadline - time.monotonic()
            if lacking(part):
                print(f"{part.name}: left out, there is no {' and no '.join(lacking(part))}")
            elif part.sitting == 2 and not is_first_over and not asked.parts:
                print(f"{part.name}: waits for the parts before it")
            elif part.least + GRACE > left:
                is_first_over = False
                print(f"{part.name}: not started, {max(0, left):.0f} s are left of {part.least + GRACE} needed")
            else:
                one = Running(part, left)
                running.append(one)
                if not part.beside:
                    wait(running, [one])
        wait(running, list(running))
    finally:
        for one in running:
            one.end(signal.SIGINT)
        for one in running:
            try:
                one.process.wait(5)
            except subprocess.TimeoutExpired:
                one.end(signal.SIGKILL)
    size = sum(path.stat().st_size for path in RESULTS.rglob("*") if path.is_file())
    print(f"{RESULTS} holds {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
