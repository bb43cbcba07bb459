"""A run that waits says for what, and what to do about it."""

import itertools
import logging
from dataclasses import dataclass, replace

import pytest

from bmbo import random_search
from bmbo.history import Query
from bmbo.ledger import Owner
from bmbo.study.waiting import WaitingNotice, next_pause, waiting_line
from support.quiet_runs import run, study_in
from support.small_policies import SPACE

QUERY = Query(SPACE.encode({"x": 0.5, "n": 3}), 1)


@dataclass(frozen=True)
class Patient:
    """Suggest nothing while anything is in flight."""

    def suggest(self, seed, history, num, carry=None):
        return random_search().suggest(seed, history, 0 if history.pending else num, carry)


class Teller(logging.Handler):
    """Tell the trial that a run says it waits for."""

    def __init__(self, study):
        super().__init__()
        self.study = study
        self.lines = []

    def emit(self, record):
        if record.getMessage().startswith("waiting"):
            self.lines.append((record.levelname, record.getMessage()))
            self.study.tell(0, 1.0)


def test_looks_at_the_ledger_are_rarer_the_longer_they_take():
    quick = list(itertools.accumulate(range(8), lambda pause, _: next_pause(pause, 0.001), initial=0.01))
    assert quick == sorted(quick)
    assert (quick[1], quick[-1]) == (0.02, 0.5)
    # As on a machine on which a hundred processes look.
    assert next_pause(0.5, 0.2) == pytest.approx(2.0)
    assert next_pause(0.5, 60.0) == 5.0


def test_a_run_that_waits_for_a_trial_that_was_asked_for_names_it_and_says_what_to_do(monkeypatch):
    monkeypatch.setattr("bmbo.study.waiting.FIRST_SECONDS", 0.05)
    study = study_in(method=Patient())
    study.ask(1)
    teller = Teller(study)
    logger = logging.getLogger("bmbo")
    logger.addHandler(teller)
    try:
        run(study, n_trials=3)
    finally:
        logger.removeHandler(teller)
    ((level, line),) = teller.lines
    assert level == "WARNING"
    for words in ("for trial 0, asked for", "study.tell(0, value)", "study.drop(0)", "bmbo drop --trials 0", "retry"):
        assert words in line
    assert [trial.state for trial in study.trials] == ["complete"] * 3


def test_what_others_run_and_what_nobody_can_afford_is_named():
    study = study_in()
    ledger = study._ledger
    assert "for the process that plans this study" in waiting_line(ledger.read())
    for _ in range(12):
        ledger.add(QUERY)
    owner = replace(Owner.new(), host="node7/x", pid=42)
    ledger.claim(ledger.read().entries[0], owner.text)
    line = waiting_line(ledger.read())
    assert "for trial 0, run by node7:42; and because the budget has no room for trials 1, 2, 3, 4, 5, 6, 7, 8" in line
    assert "8 and 3 more now: give a larger total_cost, or drop them" in line


@pytest.mark.parametrize(("idle", "lines"), [(29.0, 0), (31.0, 1), (89.0, 1), (91.0, 2), (3600.0, 9)])
def test_lines_come_less_and_less_often_and_begin_anew_after_work(idle, lines, caplog):
    snapshot, seconds = study_in()._ledger.read(), [0.0]
    notice = WaitingNotice(lambda: seconds[0])
    notice.idle(snapshot)
    notice.busy()
    with caplog.at_level(logging.INFO, logger="bmbo"):
        seconds[0] = begun = 1000.0
        while seconds[0] <= begun + idle:
            notice.idle(snapshot)
            seconds[0] += 0.5
    assert len(caplog.messages) == lines
