"""Take the mends out of a copy of the code, and see that their tests fail.

    python -m tests.faults.without_mends --report docs/results/mends.md

The lines are those of a campaign from outside, which found 20 faults and slow steps. A test that passes without its
mend would prove nothing. Mends whose tests have nothing to do with each other are taken out together.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

LONGEST_SECONDS, LONGEST_ALONE = 1200.0, 300.0
"""For the tests of one group, and of one mend alone: some do not end without it."""


@dataclass(frozen=True)
class Mend:
    """What was mended, and by which tests it is seen.

    Attributes:
        line: of the list of faults.
        what: holds since.
        group: of mends that are taken out together.
        file: of the package that the mend is in.
        changes: texts of the file, each with what takes the mend out.
        tests: fail without it.
    """

    line: str
    what: str
    group: int
    file: str
    changes: list[tuple[str, str]]
    tests: list[str]


MENDS = [Mend(**each) for each in json.loads(Path(__file__).with_name("mends.json").read_text(encoding="utf-8"))]

HEAD = """\
<!-- written by `python -m tests.faults.without_mends` -->
# Mends and their tests

Each line is a fault that a campaign from outside found, or a slow step. Its mend was taken out of the code, and the
tests beside it were run: "failed" is what they must do then. "Did not end" says the same of tests of waiting, which
were ended after five minutes. With the mend they pass, in `make test` or, where they are slow, in `make test-all`.

| line | what holds | tests | without the mend |
| --- | --- | --- | --- |
"""


def taken_out(mend, copy):
    """Takes a mend out of a copy; false if the code has changed since."""
    path = copy / "src" / "bmbo" / mend.file
    text = path.read_text(encoding="utf-8")
    for old, new in mend.changes:
        if old not in text and new not in text:
            return False
        text = text.replace(old, new, 1)
    path.write_text(text, encoding="utf-8")
    return True


def answers_without(mends, folder):
    """What the tests of mends say that are taken out together, in the order of the mends."""
    copy = Path(tempfile.mkdtemp(dir=folder))
    for name in ("src", "tests", "docs"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, copy / name)
    there = [taken_out(mend, copy) for mend in mends]
    tests = list(dict.fromkeys(test for mend in mends for test in mend.tests))
    options = ["-q", "-rf", "--tb=line", "-p", "no:cacheprovider", "-m", "slow or not slow"]
    with (copy / "said.txt").open("w+") as said:
        try:
            subprocess.run(
                [sys.executable, "-m", "pytest", *options, *tests],
                cwd=copy,
                env={**os.environ, "PYTHONPATH": str(copy / "src")},
                stdout=said,
                stderr=said,
                check=False,
                timeout=LONGEST_SECONDS if len(mends) > 1 else LONGEST_ALONE,
            )
        except subprocess.TimeoutExpired:
            return ["did not end" if is_out else "the code has changed" for is_out in there]
    output = (copy / "said.txt").read_text(errors="replace")
    print(output[-6000:], flush=True)
    whole = (
        re.search(r"\d+ (passed|failed).* in ", output) is not None
        and re.search(r"^ERROR ", output, re.MULTILINE) is None
    )
    failed = re.findall(r"^FAILED (\S+)", output, re.MULTILINE)

    def answer(mend, is_out):
        if not is_out or not whole:
            return "could not be run" if is_out else "the code has changed"
        return "failed" if all(any(each.startswith(test) for each in failed) for test in mend.tests) else "passed"

    return [answer(mend, is_out) for mend, is_out in zip(mends, there, strict=True)]


def row(mend, answer):
    """One line of the table."""
    tests = ", ".join(f"`{test.removeprefix('tests/')}`" for test in mend.tests)
    return f"| {mend.line} | {mend.what} | {tests} | {answer} |"


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.faults.without_mends", description=__doc__)
    parser.add_argument("--report", type=Path, help="a page of the answers, written after each group")
    parser.add_argument("--groups", nargs="*", type=int, help="only these groups")
    given = parser.parse_args()
    answers = {}
    with tempfile.TemporaryDirectory(prefix="bmbo-mends-") as folder:
        for group in given.groups or sorted({mend.group for mend in MENDS}):
            mends = [mend for mend in MENDS if mend.group == group]
            answers |= {mend.what: answer for mend, answer in zip(mends, answers_without(mends, folder), strict=True)}
            rows = [row(mend, answers[mend.what]) for mend in MENDS if mend.what in answers]
            print("\n".join(rows), flush=True)
            if given.report is not None:
                given.report.write_text(HEAD + "\n".join(rows) + "\n", encoding="utf-8")
    return 0 if set(answers.values()) <= {"failed", "did not end"} else 1


if __name__ == "__main__":
    sys.exit(main())
