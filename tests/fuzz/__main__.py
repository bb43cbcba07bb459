"""Run the campaign, write what it found, and end with 1 if anything was wrong."""

import argparse
import sys
import time
from pathlib import Path

from tests.fuzz.campaign import Found, campaign

PAGE = Path("docs/results/bad_input.md")


def page(command: str, found: Found, seconds: float) -> str:
    """Return the page about a campaign."""
    rows = [f"| {name} | {number} | {_faults_of(found, name)} |" for name, number in found.cases.items()]
    total = sum(found.cases.values())
    return "\n".join(
        [
            f"<!-- written by `{command}` -->",
            "# Bad input",
            "",
            "Each case is a command that must fail: the file, the words, the table or the storage has a mistake that",
            "hypothesis put there. The answer must be one sentence on standard error and an exit code other than 0,",
            "and no file may have changed. `tests/fuzz` has the cases; `make test` runs a part of them.",
            "",
            f"`{command}` ran {total:,} cases in {seconds:.0f} s.",
            "",
            "| kind | cases | wrong answers |",
            "|---|---:|---:|",
            *rows,
            f"| all | {total} | {len(found.faults)} |",
            "",
        ]
    )


def _faults_of(found: Found, name: str) -> int:
    kinds = {"study files": "study file", "command lines": "command line", "tables": "table"}
    kinds |= {"databases": "stored attribute", "journals": "journal record"}
    return sum(case.kind == kinds[name] for case, _ in found.faults)


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=PAGE)
    parser.add_argument("--show", type=int, default=20, help="how many wrong answers to print")
    arguments = parser.parse_args()
    begun = time.monotonic()
    found = campaign(arguments.cases, arguments.seed)
    for case, wrong in found.faults[: arguments.show]:
        print(f"{case.kind}: {case.words} {case.changes}\n  {wrong[:600]}")
    if arguments.out.name != "-":
        more = f" --seed {arguments.seed}" if arguments.seed else ""
        command = f"python -m tests.fuzz --cases {arguments.cases}{more}"
        arguments.out.write_text(page(command, found, time.monotonic() - begun), encoding="utf-8")
    print(f"{sum(found.cases.values())} cases, {len(found.faults)} wrong answers")
    return 1 if found.faults else 0


if __name__ == "__main__":
    sys.exit(main())
