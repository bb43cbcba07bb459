"""Storages that cannot be written, are damaged, or were changed by something else than bmbo."""

import json
import math
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from bmbo.history import Outcome
from bmbo.ledger import Ledger
from bmbo.ledger.attribute_keys import DEFINITION, METHOD, PLAN, RESUME_FROM, RUN
from bmbo.ledger.study_definition import StudyDefinition
from bmbo.study import load_study
from support.study_ledgers import PROBLEM, always, ledger_in, query_at

NAME = "study.db"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A file with a study of three finished trials, one at each level, and one that waits."""
    path = tmp_path_factory.mktemp("whole") / NAME
    ledger = ledger_in(f"sqlite:///{path}")
    for level in range(3):
        ledger.add(query_at(0.1 * level, level), Outcome(float(level), 1.0))
    ledger.add(query_at(0.5))
    ledger.note_run({"total_cost": 10.0})
    with closing(sqlite3.connect(path)) as connection:
        # What the log of the database still has is not in the file.
        connection.execute("pragma wal_checkpoint(truncate)")
    return path


@pytest.fixture
def change(whole, tmp_path):
    """Changes a copy of the file, and returns its URL."""
    shutil.copy(whole, tmp_path / NAME)

    def changed(statement, *values):
        with closing(sqlite3.connect(tmp_path / NAME)) as connection, connection:
            connection.execute(statement, values)
        return f"sqlite:///{tmp_path / NAME}"

    return changed


def of_trial(key, stored):
    """A statement that changes an attribute of the second trial, and its values."""
    statement = "update trial_user_attributes set value_json = ? where trial_id = 2 and key = ?"
    return statement, json.dumps(stored), key


@pytest.mark.parametrize(
    ("key", "stored"),
    [
        *(("bmbo:level", level) for level in (0, 2, 3, -1, 10**30, 1.0, True, [1], {}, None)),
        *(("bmbo:cost", cost) for cost in (-1, "x", [], True)),
        ("bmbo:cost", math.nan),
        ("bmbo:cost", math.inf),
        ("bmbo:seconds", -1.0),
        ("bmbo:fidelity", 1),
        ("bmbo:fidelity", "full"),
    ],
)
def test_an_attribute_that_bmbo_cannot_have_written_is_named(change, key, stored):
    with pytest.raises(ValueError, match="trial 1 in the storage was changed by something else than bmbo: its attr"):
        Ledger.load(change(*of_trial(key, stored)), "study").read()


def test_true_is_not_taken_for_the_number_1(change):
    statement, *values = of_trial("bmbo:fidelity", stored=True)
    with pytest.raises(ValueError, match="trial 0 in the storage was changed by something else than bmbo: its attr"):
        Ledger.load(change(statement.replace("= 2", "= 1"), *values), "study").read()


RARE = (
    *("tag", "owner", "beat", "retries", "batch", "resume_from", "duplicate_of", "retry_of"),
    *("apart", "told_by", "imported", "checkpoint"),
)


@pytest.mark.parametrize("key", RARE)
def test_an_attribute_that_few_trials_have_is_checked_too(change, key):
    statement = "insert into trial_user_attributes (trial_id, key, value_json) values (4, ?, ?)"
    url = change(statement, f"bmbo:{key}", "[3]")
    with pytest.raises(ValueError, match=f"trial 3 .* its attribute 'bmbo:{key}' is \\[3\\] and not"):
        Ledger.load(url, "study").read()


@pytest.mark.parametrize(
    "stored", ['{"half": ', '"text"', "[]", "{}", '{"format": 1}', '{"format": 1, "fidelities": 3, "space": [7]}']
)
def test_a_definition_that_makes_no_sense_is_refused(change, stored):
    url = change("update study_user_attributes set value_json = ? where key = ?", stored, DEFINITION)
    with pytest.raises(ValueError, match=r"study.* was written in format None|cannot be read|definition of the study"):
        Ledger.load(url, "study")


@pytest.mark.parametrize("stored", ['{"half": ', '"text"', "[]", '{"total_cost": "much"}', '{"total_cost": -1}'])
def test_options_of_a_run_that_make_no_sense_are_refused(change, stored):
    url = change("update study_user_attributes set value_json = ? where key = ?", stored, RUN)
    with pytest.raises(ValueError, match=r"cannot be read|the last run .*changed|total_cost must"):
        _ = load_study(study_name="study", storage=url).last_run


@pytest.mark.parametrize(
    "stored", ["text", [], {}, {"shown": "a", "name": 3, "settings": {}}, {"shown": "a", "name": "b"}]
)
def test_a_method_that_makes_no_sense_is_refused(change, stored):
    statement = "insert into study_user_attributes (study_id, key, value_json) values (1, ?, ?)"
    with pytest.raises(ValueError, match="the method of the study was changed by something else than bmbo"):
        load_study(study_name="study", storage=change(statement, METHOD, json.dumps(stored)))


@pytest.mark.parametrize("trial", [1, 3], ids=["below the top", "at the top"])
def test_a_value_that_is_gone_is_no_failure(change, trial):
    url = change("delete from trial_values where trial_id = ?", trial)
    with pytest.raises(ValueError, match=f"trial {trial - 1} in the storage has lost its value"):
        Ledger.load(url, "study").read()


@pytest.mark.parametrize("number", [1, 2, 9], ids=["itself", "the same level", "none"])
def test_a_trial_that_went_on_from_none_below_it_is_refused(number):
    ledger = ledger_in(None, StudyDefinition(replace(PROBLEM, continues=True), 7))
    for level in (0, 1, 1):
        ledger.add(query_at(0.1, level))
    ledger.storage.set_trial_user_attr(ledger.read().entries[1].trial_id, RESUME_FROM, number)
    with pytest.raises(ValueError, match=f"trial 1 .* 'bmbo:resume_from' is {number} and not a trial at a lower level"):
        ledger.read()


@pytest.mark.parametrize("plan", ["text", [], {"batch": 0}, {"batch": 0, "queries": [{"params": 1}]}])
def test_a_plan_that_makes_no_sense_is_refused(change, plan):
    statement = "insert into study_user_attributes (study_id, key, value_json) values (1, ?, ?)"
    with pytest.raises(ValueError, match="cannot be read"):
        Ledger.load(change(statement, PLAN, json.dumps(plan)), "study").complete_plan(always)


def test_a_mark_without_a_number_is_refused(change):
    statement = "insert into study_user_attributes (study_id, key, value_json) values (1, 'bmbo:dropped:all', 'true')"
    with pytest.raises(ValueError, match="it has an attribute 'bmbo:dropped:all'"):
        Ledger.load(change(statement), "study").read()


@pytest.mark.parametrize("table", ["studies", "trials", "trial_params", "trial_user_attributes", "trial_values"])
def test_a_missing_table_is_named_and_not_made_anew(change, table):
    url = change(f"drop table {table}")
    with pytest.raises(ValueError, match=f"is damaged: it has no table '{table}'"):
        Ledger.load(url, "study")
    with pytest.raises(sqlite3.OperationalError, match=f"no such table: {table}"):
        change(f"select * from {table}")


def test_a_file_that_cannot_be_written_is_read_and_not_changed(change, tmp_path):
    change("select 1")
    url = f"sqlite:///file:{tmp_path / NAME}?mode=ro&uri=true"
    ledger = Ledger.load(url, "study")
    assert len(ledger.read().entries) == 4
    for write in (lambda: ledger.add(query_at(0.2)), lambda: ledger.note_run({"total_cost": 11.0})):
        with pytest.raises(ValueError, match=r"study 'study' in .* cannot be written \(attempt to write a readonly"):
            write()
