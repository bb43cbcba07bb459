"""A study whose processes are killed a few times; `make test-faults` does it a hundred times."""

import os

import pytest

from faults.audit import audit
from faults.evaluation import write
from faults.fleet import Fleet


@pytest.mark.slow
def test_a_study_survives_a_handful_of_kills_and_a_wrong_record_would_be_noticed(tmp_path):
    options = ["--batch-size", "3", "--marked", "--seconds", "0.05"]
    storage = f"sqlite:///{tmp_path}/study.db"
    with Fleet(
        tmp_path, storage, name="short", size=2, n_trials=9, seed=1, options=options, hidden=False, grace=1.5
    ) as fleet:
        fleet.kill(4)
        fleet.finish()
    tally = audit(fleet)
    assert tally.problems == []
    assert tally.kills >= 1
    assert tally.trials == 9
    # As if these had been run, and said to be kept, by a process that was not killed.
    run = {"number": 3, "worker": os.getpid(), "pid": os.getpid(), "value": 0.5}
    write(fleet.log.path, event="start", **run)
    write(fleet.log.path, event="end", level=0, params={}, **run)
    write(fleet.log.path, event="kept", **run)
    write(fleet.log.path, event="start", **run)
    told = " ".join(audit(fleet).problems)
    for sentence in ("said to be kept is lost", "its worker was not killed", "lives, and never ended"):
        assert sentence in told
