"""Measure how long the default makes a user wait, and its memory, beside other tools, each in a new process.

    python benchmarks/default_latency.py --out docs/results/latency.md
    python benchmarks/default_latency.py --tools bmbo --repeats 5

Tools that are not installed are left out, and named. Peers are in requirements.txt; SMAC is in
experiments/requirements-peers.txt.
"""

import argparse
import importlib.util
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from latency_tools import BATCH, PACKAGES, TOOLS

SIZES = (0, 150, 1000)

OURS = "bmbo"

BARS = (
    ("from the first import to the first batch, s", 0, "start", 2.0),
    ("a batch at 150 observations, the first of a process, s", 150, "first", 0.5),
    ("a batch at 150 observations, the next one, s", 150, "second", 0.5),
    ("a batch at 1,000 observations, the first of a process, s", 1000, "first", 5.0),
    ("a batch at 1,000 observations, the next one, s", 1000, "second", 5.0),
    ("peak memory at 1,000 observations, MiB", 1000, "MiB", 1024.0),
)
"""The goals of the default: what is measured, the number of observations, its name, and the most it may be."""

Measured = Mapping[tuple[str, int], Sequence[Mapping[str, float]]]


def measured(tool: str, size: int, timeout: float) -> dict[str, float] | None:
    """Return what one new process measured, or None if it took longer than the timeout or failed."""
    command = [sys.executable, str(Path(__file__).with_name("latency_tools.py")), tool, str(size)]
    environment = {**os.environ, "BMBO_CACHE": "off"}
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment, timeout=timeout)
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
        print(f"{tool} at {size}: {type(error).__name__}", file=sys.stderr)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def installed(tool: str) -> bool:
    """Return whether a tool can be imported here."""
    return all(importlib.util.find_spec(name) is not None for name in PACKAGES[tool])


def cell(runs: Sequence[Mapping[str, float]], name: str) -> str:
    """Return the median of a measurement with the least and the largest, or a dash if there is none."""
    values = [run[name] for run in runs]
    if not values:
        return "-"
    low, middle, high = np.quantile(values, (0.0, 0.5, 1.0))
    return f"{middle:.3g} [{low:.3g}, {high:.3g}]"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows))


def versions() -> str:
    """Return the versions of what took part."""
    said = [f"Python {platform.python_version()}"]
    for name in ("numpy", "scipy", "optuna", "torch", "botorch", "smac"):
        try:
            said.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return ", ".join(said)


def verdict(runs: Sequence[Mapping[str, float]], name: str, cpu: str, most: float) -> str:
    """Return whether a goal is met, by the medians."""
    if np.median([run[name] for run in runs]) <= most:
        return "met"
    if cpu and np.median([run[cpu] for run in runs]) <= most:
        return "open: more, but fewer CPU seconds"
    return "failed"


def bars_section(found: Measured) -> str:
    """Return the table of the goals."""
    rows: list[list[str]] = []
    for said, size, name, most in BARS:
        runs = found.get((OURS, size), ())
        if runs:
            cpu = f"{name} cpu" if f"{name} cpu" in runs[0] else ""
            rows.append(
                [said, f"{most:g}", cell(runs, name), cell(runs, cpu) if cpu else "-", verdict(runs, name, cpu, most)]
            )
    head = ["of the default", "at most", "measured", "CPU seconds", "verdict"]
    return "\n".join(["## Goals", "", table(head, rows)])


def tools_section(found: Measured, size: int) -> str:
    """Return the table of all tools at a number of observations."""
    columns = {"start": "import and all", "first": f"first batch of {BATCH}", "second": "the next one"}
    head = ["tool", *(part for said in columns.values() for part in (f"{said}, s", "CPU, s")), "peak memory, MiB"]
    rows = [
        [tool, *(cell(runs, part) for name in columns for part in (name, f"{name} cpu")), cell(runs, "MiB")]
        for (tool, each), runs in found.items()
        if each == size
    ]
    return "\n".join([f"## {size:,} observations", "", table(head, rows)])


def page(found: Measured, missing: Sequence[str], command: str, timeout: float) -> str:
    """Return the page."""
    opening = [
        "# Latency and memory",
        "",
        f"    {command}",
        "",
        f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {versions()}.",
        "",
        "Each measurement is a new process: median [least, largest]. A function of six parameters has three levels.",
        "SMAC and Optuna have no levels here, and see as many observations at the top. The first column holds imports,",
        "the observations and the first batch. BoTorch has no start of its own. On a machine that does other work,",
        "read CPU seconds and the least. CPU seconds count all threads. A dash stands for a process that failed or",
        f"took longer than {timeout:g} s.",
    ]
    if missing:
        opening += ["", f"Not installed here: {', '.join(missing)}."]
    sizes = sorted({size for _, size in found})
    return "\n\n".join(["\n".join(opening), bars_section(found), *(tools_section(found, size) for size in sizes)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", nargs="+", choices=list(TOOLS), default=list(TOOLS))
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES), help="numbers of observations")
    parser.add_argument("--repeats", type=int, default=3, help="processes for each measurement")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds after which a process is given up")
    parser.add_argument("--out", type=Path, help="also write the page to this file")
    options = parser.parse_args()
    missing = [tool for tool in options.tools if not installed(tool)]
    found: dict[tuple[str, int], list[dict[str, float]]] = {}
    for size in options.sizes:
        for tool in options.tools:
            if tool in missing or (tool == "botorch" and size == 0):
                continue
            found[tool, size] = []
            for _ in range(options.repeats):
                run = measured(tool, size, options.timeout)
                if run is None:
                    break
                found[tool, size].append(run)
    text = page(found, missing, " ".join(["python benchmarks/default_latency.py", *sys.argv[1:]]), options.timeout)
    print(text)
    if options.out:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
