"""Take one mend after the other out of a copy of the code, and see that its tests fail.

    python -m tests.faults.without_mends --report docs/results/mends.md

The lines are those of a campaign from outside, which found 20 faults and slow steps. A test that passes without its
mend would prove nothing. It takes about ten minutes on a quiet machine.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

LONGEST_SECONDS = 900.0
"""For the tests of one mend; some do not end without it."""


@dataclass(frozen=True)
class Mend:
    """What was mended, and by which tests it is seen.

    Attributes:
        line: of the list of faults.
        what: holds since.
        file: of the package that the mend is in.
        changes: texts of the file, each with what takes the mend out.
        tests: fail without it.
    """

    line: str
    what: str
    file: str
    changes: list[tuple[str, str]]
    tests: list[str]


MENDS = [Mend(**each) for each in json.loads(Path(__file__).with_name("mends.json").read_text(encoding="utf-8"))]

HEAD = """\
<!-- written by `python -m tests.faults.without_mends` -->
# Mends and their tests

Each line is a fault that a campaign from outside found, or a slow step. Its mend was taken out of the code, and the
tests beside it were run: "failed" is what they must do then. With the mend they pass, in `make test` or, where they are
slow, in `make test-all`.

| line | what holds | tests | without the mend |
| --- | --- | --- | --- |
"""


def answer_without(mend, copy):
    """What the tests of a mend say when it is taken out: failed, passed, did not end, or why there is no answer."""
    path = copy / "src" / "bmbo" / mend.file
    whole = text = path.read_text(encoding="utf-8")
    for old, new in mend.changes:
        if old not in text:
            return f"no such text any more: {old.strip()}"
        text = text.replace(old, new, 1)
    path.write_text(text, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "slow or not slow", *mend.tests]
    try:
        done = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True, check=False, timeout=LONGEST_SECONDS
        )
    except subprocess.TimeoutExpired:
        return "did not end"
    finally:
        path.write_text(whole, encoding="utf-8")
    is_whole = "ERROR" not in done.stdout and (" failed" in done.stdout or done.returncode == 0)
    return {0: "passed", 1: "failed"}.get(done.returncode if is_whole else -1, "could not be run")


def row(mend, answer):
    """One line of the table."""
    tests = ", ".join(f"`{test.removeprefix('tests/')}`" for test in mend.tests)
    return f"| {mend.line} | {mend.what} | {tests} | {answer} |"


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.faults.without_mends", description=__doc__)
    parser.add_argument("--report", type=Path, help="a page of the answers, written after each")
    parser.add_argument("--lines", nargs="*", help="only these lines")
    given = parser.parse_args()
    rows, all_failed = [], True
    with tempfile.TemporaryDirectory(prefix="bmbo-mends-") as folder:
        copy = Path(folder)
        for name in ("src", "tests", "docs"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "README.md"):
            shutil.copy(ROOT / name, copy / name)
        for mend in MENDS:
            if given.lines is None or mend.line in given.lines:
                answer = answer_without(mend, copy)
                all_failed &= answer in ("failed", "did not end")
                rows.append(row(mend, answer))
                print(rows[-1], flush=True)
                if given.report is not None:
                    given.report.write_text(HEAD + "\n".join(rows) + "\n", encoding="utf-8")
    return 0 if all_failed else 1


if __name__ == "__main__":
    sys.exit(main())
