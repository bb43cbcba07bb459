"""Run the campaign of kills: `python -m tests.faults --kills 1000 --report docs/results/faults.md`."""

import argparse
import signal
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]


def main():
    sys.path.insert(0, str(TESTS))
    from faults.campaign import KILLS_A_ROUND, campaign, page, tallies_in  # noqa: PLC0415 (not importable before)
    from faults.rounds import STORAGES  # noqa: PLC0415 (as above)

    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--kills", type=int, default=100, help="of each storage")
    parser.add_argument("--storages", nargs="+", choices=STORAGES, default=list(STORAGES))
    parser.add_argument("--kills-a-round", type=int, default=KILLS_A_ROUND)
    parser.add_argument("--first", type=int, default=0, help="the number, and seed, of the first round")
    parser.add_argument("--only", help="the function of rounds.py whose rounds are run")
    parser.add_argument("--record", type=Path, help="a file of all rounds: what is in it is not run again")
    parser.add_argument("--report", type=Path, help="a page of the figures, written after each round")
    parser.add_argument("--page-only", action="store_true", help="write the page of what is recorded, and run nothing")
    parser.add_argument("--note", default="", help="what else is to be said on that page")
    given = parser.parse_args()
    command = f"python -m tests.faults --kills {given.kills}"
    if given.page_only:
        given.report.write_text(page(tallies_in(given.record), command, given.note), encoding="utf-8")
        return 0
    # Whoever stops it finds what was found so far on the page.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    found = campaign(
        given.storages,
        given.kills,
        kills_a_round=given.kills_a_round,
        first=given.first,
        only=given.only,
        record=given.record,
        report=given.report,
        command=command,
    )
    return 1 if any(tally.problems for tally in found) else 0


if __name__ == "__main__":
    sys.exit(main())
