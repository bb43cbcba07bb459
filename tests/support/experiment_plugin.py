"""Provide methods, good and bad, and a problem for the tests of the comparisons. They write to a folder of the test."""

import os
import signal
import time
from pathlib import Path

import bmbo
from experiments.harness.method_interface import Job, MethodEntry, NotInstalledError
from experiments.problems import Benchmark


def folder():
    return Path(os.environ["EXPERIMENT_PLUGIN_FOLDER"])


class Even:
    """Ask for evenly spaced points at the top."""

    def __init__(self, _problem, seed, *_):
        self.seed, self.asked = seed, 0

    def ask(self):
        self.asked += 1
        return [Job({"x": (0.1 * self.asked + 0.01 * self.seed) % 1.0}, 1)]

    def tell(self, jobs, values):
        pass

    def recommend(self):
        return None


class Wild(Even):
    def ask(self):
        return [Job({"x": int.from_bytes(os.urandom(4), "big") / 2**32}, 1)]


class Raises(Even):
    def ask(self):
        if self.asked == 2:
            raise ArithmeticError("no more of this")
        return super().ask()


class Dies(Even):
    def ask(self):
        if self.asked == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().ask()


class Hangs(Even):
    def ask(self):
        (folder() / "hanging").write_text(str(os.getpid()))
        time.sleep(3600)
        return super().ask()


class Gated(Even):
    def ask(self):
        if self.seed == 1 and self.asked == 2:
            (folder() / "waiting").write_text(str(os.getpid()))
            until = time.monotonic() + 120
            while not (folder() / "gate").exists() and time.monotonic() < until:
                time.sleep(0.05)
        return super().ask()


def absent(*_):
    raise NotInstalledError("the package absent is missing; pip install absent")


def line():
    ladder = bmbo.Ladder([bmbo.Fidelity(1, cost=1), bmbo.Fidelity(2, cost=4)])
    problem = bmbo.Problem(bmbo.Space({"x": bmbo.Float(0, 1)}), ladder, maximise=False)
    return Benchmark("line", problem, lambda config, level: (config["x"] - 0.5) ** 2 + (1 - level), 0.0)


FACTORIES = {"even": Even, "wild": Wild, "raises": Raises, "dies": Dies, "hangs": Hangs, "gated": Gated}
ENTRIES = [
    MethodEntry(name, factory, takes_starts=True, batch=False, paper="", where="")
    for name, factory in {**FACTORIES, "absent": absent}.items()
]
PROBLEMS = {"line": line}
