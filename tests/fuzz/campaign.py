"""Make cases of every kind, run them, and count what went wrong."""

import logging
import warnings
from collections import Counter
from dataclasses import dataclass, field

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

from bmbo.ledger import storages
from tests.fuzz import bad_storages, bad_study_files, bad_tables
from tests.fuzz.case import Case, fault

SHARES = {"study files": 0.4, "command lines": 0.3, "tables": 0.2, "databases": 0.06, "journals": 0.04}
"""Which part of all cases is of each kind; opening a database takes the longest."""

UNCHECKED = (
    HealthCheck.data_too_large,
    HealthCheck.filter_too_much,
    HealthCheck.large_base_example,
    HealthCheck.too_slow,
)
"""What Hypothesis need not check: cases are large, and take as long as commands do."""


@dataclass
class Found:
    """Hold how many cases were run of each kind, and what was wrong."""

    cases: Counter[str] = field(default_factory=Counter[str])
    faults: list[tuple[Case, str]] = field(default_factory=list[tuple[Case, str]])


def campaign(cases: int, first: int = 0) -> Found:
    """Run so many cases; the same numbers give the same cases."""
    whole = bad_storages.originals()
    kinds = {
        "study files": bad_study_files.study_files(),
        "command lines": bad_study_files.command_lines(),
        "tables": bad_tables.tables(whole.journal, whole.journal_file),
        "databases": bad_storages.of_database(whole),
        "journals": bad_storages.of_journal(whole),
    }
    found = Found()
    before = storages.OPENING_SECONDS, storages.SERVER_SECONDS
    storages.OPENING_SECONDS = storages.SERVER_SECONDS = 0.0
    logger = logging.getLogger("bmbo")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name, strategy in kinds.items():
                _run(name, strategy, max(1, round(SHARES[name] * cases)), first, found)
            # Of some kinds there are not so many different cases.
            missing = cases - sum(found.cases.values())
            if missing > 0:
                _run("study files", kinds["study files"], missing, first + 1, found)
    finally:
        storages.OPENING_SECONDS, storages.SERVER_SECONDS = before
        logger.setLevel(level)
    return found


def _run(name: str, strategy: SearchStrategy[Case], cases: int, first: int, found: Found) -> None:
    """Run so many cases of one kind, and add what is wrong to what was found."""

    @seed(first)
    @settings(
        max_examples=cases,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        derandomize=False,
        suppress_health_check=UNCHECKED,
    )
    @given(strategy)
    def run(case: Case) -> None:
        found.cases[name] += 1
        wrong = fault(case)
        if wrong is not None:
            found.faults.append((case, wrong))

    run()
