"""Measure how long a new process takes to its first answer, and how much memory it needs.

    python benchmarks/first_answer.py
    python benchmarks/first_answer.py --methods screening bmbo_gp --repeats 3

Each measurement is a process of its own, so that nothing is loaded or compiled before. Nothing is read from the cache
of compiled programs.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version

import numpy as np

CHILD = """
import json, resource, sys, time
begun = time.perf_counter()
import bmbo
imported = time.perf_counter()
study = bmbo.create_study(
    space={"x": bmbo.Float(0, 1), "y": bmbo.Float(0, 1)},
    fidelities=[bmbo.Fidelity(1, cost=1), bmbo.Fidelity(10, cost=10)],
    method=getattr(bmbo.methods, sys.argv[1])(),
)
made = time.perf_counter()
trials = study.ask(5)
first, used = time.perf_counter(), time.process_time()
# Past the start of every method, so that the model chooses the second batch.
while len(study.trials) < 20:
    for trial in trials:
        study.tell(trial, (trial.params["x"] - 0.3) ** 2 + trial.params["y"] / trial.fidelity)
    before = time.perf_counter()
    trials = study.ask(5)
learned = time.perf_counter()
unit = 1 if sys.platform == "darwin" else 1024
print(json.dumps({
    "import": imported - begun,
    "study": made - begun,
    "first batch": first - begun,
    "CPU": used,
    "batch by the model": learned - before,
    "MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6,
}))
"""
COLUMNS = {
    "import": "`import bmbo`",
    "study": "to a study",
    "first batch": "to the first batch of 5",
    "CPU": "the same, CPU",
    "batch by the model": "a batch after 15 outcomes",
    "MB": "peak memory, MB",
}


def measured(method: str) -> dict[str, float]:
    """Return what one new process measured, in seconds and MB."""
    environment = {**os.environ, "BMBO_CACHE": "off"}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    command = [sys.executable, "-c", CHILD, method]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return json.loads(done.stdout)


def shown(values: Sequence[float]) -> str:
    """Return the median of several values, with the least and the largest."""
    low, middle, high = np.quantile(values, (0.0, 0.5, 1.0))
    return f"{middle:.3g} [{low:.3g}, {high:.3g}]"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    return "\n".join("| " + " | ".join(row) + " |" for row in (header, ["---"] * len(header), *rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=["screening"], help="names of functions of bmbo.methods")
    parser.add_argument("--repeats", type=int, default=5, help="processes for each method")
    options = parser.parse_args()
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "optuna", "scipy"))
    command = " ".join(["python benchmarks/first_answer.py", *sys.argv[1:]])
    print(f"`{command}`, {platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f},")
    print(f"Python {platform.python_version()}, {packages}.\n")
    print("Seconds since the first line of a new process: median [least, largest].\n")
    rows: list[list[str]] = []
    for method in options.methods:
        runs = [measured(method) for _ in range(options.repeats)]
        rows.append([method, *(shown([run[name] for run in runs]) for name in COLUMNS)])
    print(table(["method", *COLUMNS.values()], rows))


if __name__ == "__main__":
    main()
