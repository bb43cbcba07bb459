"""Old results that are added twice, or half: each is there once in the end."""

import pandas as pd
import pytest

from support import quiet_runs
from support.quiet_runs import study_in

# A fixture that several files of tests share.
storage = quiet_runs.storage

TABLE = pd.DataFrame({"x": [0.1, 0.2, 0.1, 0.4, 0.5], "n": [1, 2, 1, 4, 5], "value": [3.0, 4.0, 3.0, 6.0, 7.0]})


def results(study):
    return [(trial.params["x"], trial.value) for trial in study.trials]


def test_an_import_that_was_cut_short_is_finished_by_the_same_call(storage, monkeypatch):
    monkeypatch.setattr("bmbo.ledger.planned_ledger.ROWS_AT_ONCE", 2)
    study = study_in(storage)
    trials, write, calls = study._ledger._trials, study._ledger._trials.create, []

    def killed(templates, term=None):
        calls.append(len(templates))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return write(templates, term)

    monkeypatch.setattr(trials, "create", killed)
    with pytest.raises(KeyboardInterrupt):
        study.add_trials(TABLE)
    assert results(study_in(storage)) == [(0.1, 3.0), (0.2, 4.0)]
    added = study_in(storage).add_trials(TABLE)
    expected = list(zip(TABLE["x"], TABLE["value"], strict=True))
    assert [(trial.params["x"], trial.value) for trial in added] == expected
    # The row that the table has twice is there twice.
    assert results(study_in(storage)) == expected


def test_a_table_that_has_grown_adds_its_new_rows_only_and_a_dropped_row_can_be_added_again():
    study = study_in()
    study.add_trials(TABLE[:2])
    study.add_trials(TABLE)
    assert len(study.trials) == 5
    study.drop(1)
    (_, again, *_) = study.add_trials(TABLE)
    assert (again.number, again.value) == (5, 4.0)
    # Single results are added as often as somebody says so.
    for _ in range(2):
        study.add_trial({"x": 0.1, "n": 1}, 3.0)
    assert len(study.trials) == 8
