"""Walk from nothing to the answer of an own objective, as a new user does, and time each step.

    python benchmarks/timed_walk.py --pythons python3.11 python3.13
    python benchmarks/timed_walk.py --pythons python3.11 --commits 1a2b3c4 HEAD
    python benchmarks/timed_walk.py --clone

For each interpreter and commit a wheel is built and installed into an empty environment, with nothing but what it
needs. Then a script with an objective is run, and a command looks at the study. With `--clone`, the way begins with a
clone of this repository and `make demo` in its place. pip uses its own settings: what it
downloads, and from where, is part of the time. CPU seconds include child processes; on a machine that does other work,
read those.
"""

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from io import BytesIO
from pathlib import Path

SCRIPT = """\
import bmbo

def objective(trial):
    x, y = trial.params["x"], trial.params["y"]
    return (x - 0.3) ** 2 + (y - 0.7) ** 2 + 0.1 * x / trial.fidelity

study = bmbo.create_study(
    study_name="mine", storage="sqlite:///mine.db",
    space={"x": bmbo.Float(0.0, 1.0), "y": bmbo.Float(0.0, 1.0)},
    fidelities=[bmbo.Fidelity(1, cost=1), bmbo.Fidelity(10, cost=10)],
)
study.optimize(objective, n_trials=15, batch_size=5)
print(study.best_params, study.best_value)
"""
IMPORTS = 5
"""How often the import is timed; the least counts."""
ROOT = Path(__file__).parent.parent


def timed(command: list[str], folder: Path) -> tuple[float, float]:
    """Run a command and return its seconds and CPU seconds; raise if it fails."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    before, begun = os.times(), time.monotonic()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    after, ended = os.times(), time.monotonic()
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr}")
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return ended - begun, cpu


def wheel_of(commit: str, folder: Path) -> Path:
    """Build the wheel of a commit and return its path."""
    packed = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True).stdout
    source = folder / "source"
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extractall(source, filter="data")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", ".", "./source"]
    timed(build, folder)
    return next(folder.glob("bmbo-*.whl"))


def walk(python: str, commit: str) -> list[list[str]]:
    """Return a row for each step."""
    rows: list[list[str]] = []
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        wheel = wheel_of(commit, folder)
        (folder / "mine.py").write_text(SCRIPT, encoding="utf-8")
        tools = folder / "empty" / "bin"
        own = str(tools / "python")
        steps = {
            "make an empty environment": [python, "-m", "venv", "empty"],
            "pip install the wheel": [own, "-m", "pip", "install", "--quiet", "--no-compile", str(wheel)],
            "run the script, 15 trials": [own, "mine.py"],
            "bmbo status": [str(tools / "bmbo"), "status", "--storage", "sqlite:///mine.db", "--study", "mine"],
        }
        for step, command in steps.items():
            seconds, cpu = timed(command, folder)
            rows.append([step, f"{seconds:.1f}", f"{cpu:.1f}"])
        imports = [timed([own, "-c", "import bmbo; bmbo.create_study"], folder) for _ in range(IMPORTS)]
        least = [min(each) for each in zip(*imports, strict=True)]
        rows.append(["import bmbo, and create_study from it", f"{least[0]:.2f}", f"{least[1]:.2f}"])
        packages = next((folder / "empty" / "lib").glob("python*")) / "site-packages"
        files = [path for path in packages.rglob("*") if path.is_file() and path.suffix != ".pyc"]
        size = sum(path.stat().st_size for path in files if "pip" not in path.relative_to(packages).parts[0])
        rows.append(["MB installed, without pip", f"{size / 1e6:.0f}", ""])
    return rows


def walk_from_clone(python: str, commit: str) -> list[list[str]]:
    """Return a row for each step of the way that begins with the repository."""
    rows: list[list[str]] = []
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "mine.py").write_text(SCRIPT, encoding="utf-8")
        steps = {
            "git clone": ["git", "clone", "--quiet", str(ROOT), "bmbo"],
            "take the commit": ["git", "-C", "bmbo", "checkout", "--quiet", commit],
            "make demo, which installs all tools": ["make", "-C", "bmbo", "demo", f"PYTHON={python}"],
            "make demo once more": ["make", "-C", "bmbo", "demo"],
            "run the script, 15 trials": [str(folder / "bmbo" / ".venv" / "bin" / "python"), "mine.py"],
        }
        for step, command in steps.items():
            seconds, cpu = timed(command, folder)
            rows.append([step, f"{seconds:.1f}", f"{cpu:.1f}"])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pythons", nargs="+", default=[sys.executable], metavar="PYTHON")
    parser.add_argument("--commits", nargs="+", default=["HEAD"], metavar="COMMIT")
    parser.add_argument("--clone", action="store_true", help="begin with a clone of the repository and make demo")
    given = parser.parse_args()
    for python in given.pythons:
        for commit in given.commits:
            version = subprocess.run([python, "--version"], capture_output=True, text=True, check=True).stdout.strip()
            name = subprocess.run(
                ["git", "rev-parse", "--short", commit], cwd=ROOT, capture_output=True, text=True, check=True
            ).stdout.strip()
            print(f"\n{version}, commit {name}\n\n| step | seconds | CPU seconds |\n| --- | --- | --- |")
            for row in (walk_from_clone if given.clone else walk)(python, name):
                print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
