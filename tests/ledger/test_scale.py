"""What a large study costs, counted: transactions, statements, rows and conversions, never seconds."""

from contextlib import contextmanager

import pytest
from optuna.storages import BaseStorage
from sqlalchemy import event

from bmbo import load_study, random_search
from bmbo.history import Outcome
from bmbo.ledger import Owner, stored_trials
from bmbo.ledger.trial_store import AnyStorage
from support import servers, study_ledgers
from support.quiet_runs import run, study_in
from support.study_ledgers import always, ledger_in, query_at

# A fixture that several files of tests share.
storage = study_ledgers.storage
postgresql, postgresql_url = servers.postgresql, servers.postgresql_url


class Counted:
    """What a database was asked for."""

    def __init__(self):
        self.transactions = self.statements = self.parameters = 0


def engine_of(ledger):
    return ledger._trials._engine


@contextmanager
def counting(ledger):
    """Count what goes to the database of a ledger."""
    engine, counted = engine_of(ledger), Counted()

    def executed(*about):
        _, _, _, parameters, _, _ = about
        counted.statements += 1
        counted.parameters += len(parameters)

    def committed(connection):
        del connection
        counted.transactions += 1

    event.listen(engine, "before_cursor_execute", executed)
    event.listen(engine, "commit", committed)
    try:
        yield counted
    finally:
        event.remove(engine, "before_cursor_execute", executed)
        event.remove(engine, "commit", committed)


@contextmanager
def converting(monkeypatch):
    """Count the trials that are converted."""
    numbers, convert = [], stored_trials.entry_from_trial

    def converted(problem, stored):
        numbers.append(stored.number)
        return convert(problem, stored)

    with monkeypatch.context() as patch:
        patch.setattr(stored_trials, "entry_from_trial", converted)
        yield numbers


def filled(ledger, num, *, waiting=False):
    if waiting:
        ledger.plan(0, [query_at(0.5)] * num, always)
    else:
        ledger.add_rows([(str(place), query_at(0.5), Outcome(1.0, 1.0)) for place in range(num)])


def sqlite_in(tmp_path):
    return ledger_in(f"sqlite:///{tmp_path}/study.db")


def test_a_trial_is_three_transactions(tmp_path):
    ledger = sqlite_in(tmp_path)
    with counting(ledger) as counted:
        ledger.plan(0, [query_at(0.5)], always)
        (entry,) = ledger.read().waiting
        assert ledger.claim(entry, Owner.new().text)
        ledger.finish(entry, Outcome(1.0, 1.0, 0.5), "me")
        ledger.read()
    assert counted.transactions == 3
    assert counted.statements <= 40


def test_a_whole_batch_is_one_transaction(tmp_path):
    ledger = sqlite_in(tmp_path)
    with counting(ledger) as counted:
        ledger.plan(0, [query_at(place / 20) for place in range(20)], always)
    assert counted.transactions == 1
    assert counted.statements <= 12


def test_a_run_asks_a_database_a_bounded_number_of_times_for_each_trial(tmp_path):
    study = study_in(f"sqlite:///{tmp_path}/study.db")
    run(study, n_trials=2)
    with counting(study._ledger) as counted:
        run(study, n_trials=12)
    assert counted.transactions <= 3 * 10 + 15
    assert counted.statements <= 45 * 10 + 60


@pytest.mark.parametrize("waiting", [False, True], ids=["finished", "waiting"])
def test_one_more_trial_costs_the_same_however_many_there_are(tmp_path, monkeypatch, waiting):
    monkeypatch.setattr("bmbo.ledger.database_reading.CHUNK", 20)
    asked = []
    for num in (30, 90):
        ledger = ledger_in(f"sqlite:///{tmp_path}/study.db", name=str(num))
        filled(ledger, num, waiting=waiting)
        ledger.read()
        with counting(ledger) as counted, converting(monkeypatch) as numbers:
            ledger.add(query_at(0.3))
            ledger.read()
            ledger.read()
        assert numbers == [num]
        asked.append((counted.transactions, counted.statements, counted.parameters))
    assert asked[0] == asked[1]


def test_a_queue_is_not_read_again_for_each_of_its_trials(tmp_path, monkeypatch):
    ledger = sqlite_in(tmp_path)
    monkeypatch.setattr("bmbo.ledger.database_reading.CHUNK", 20)
    filled(ledger, 60, waiting=True)
    snapshot = ledger.read()
    with converting(monkeypatch) as numbers, counting(ledger) as counted:
        for entry in snapshot.waiting[:5]:
            assert ledger.claim(entry, "me")
            ledger.finish(entry, Outcome(1.0, 1.0), "me")
            ledger.read()
    assert numbers == [0, 1, 2, 3, 4]
    assert counted.parameters < 5 * 60


def test_a_ledger_that_has_not_changed_gives_the_same_record(storage, monkeypatch):
    ledger = ledger_in(storage)
    filled(ledger, 5)
    first = ledger.read()
    with converting(monkeypatch) as numbers:
        assert ledger.read() is first
        ledger.refund(first.entries[2])
        assert [trial.refunded for trial in ledger.read().history.trials] == [False, False, True, False, False]
    assert numbers == []


def test_what_follows_from_a_history_is_computed_once():
    ledger = ledger_in(None)
    filled(ledger, 3)
    history = ledger.read().history
    for name in ("kept", "told", "learned_from", "done", "failed", "pending", "best", "priced"):
        assert getattr(history, name) is getattr(history, name)


def test_an_interrupt_while_a_record_is_read_loses_nothing(storage, monkeypatch):
    ledger, other = ledger_in(storage), ledger_in(storage)
    filled(other, 2)
    ledger.read()
    filled(other, 3)

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(stored_trials, "entry_from_trial", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ledger.read()
    assert ledger.read() == other.read()
    assert len(ledger.read().entries) == 3


def test_a_study_that_another_process_has_deleted_is_not_read_on(storage):
    ledger, other = ledger_in(storage), ledger_in(storage)
    filled(ledger, 2)
    ledger.read()
    other.delete()
    with pytest.raises(KeyError, match=r"there is no study 'study' in .*; was it deleted\?"):
        ledger.read()


def test_every_change_by_another_process_is_seen(storage):
    ledger, other = ledger_in(storage), ledger_in(storage)
    filled(other, 3, waiting=True)
    ledger.read()
    one, two, three = other.read().entries
    assert other.claim(one, "them", apart=True)
    other.beat(one, "them", 4)
    assert other.claim(two, "them")
    other.requeue(other.read().entries[1], "them")
    other.finish(three, Outcome(2.0, 1.0), "them")
    other.add(query_at(0.9))
    assert ledger.read() == other.read() == ledger_in(storage).read()
    assert [entry.state for entry in ledger.read().entries] == ["running", "waiting", "complete", "waiting"]
    assert (ledger.read().entries[0].beat, ledger.read().entries[1].retries) == (4, 1)


def test_a_database_holds_what_single_steps_of_optuna_would_write(tmp_path):
    written = []
    for kind in ("tables", "steps"):
        ledger = ledger_in(f"sqlite:///{tmp_path}/{kind}.db")
        if kind == "steps":
            ledger._trials = AnyStorage(ledger.storage, ledger._study_id)
        low, top, failed, waits = [ledger.add(query_at(0.3, level, note="a")) for level in (0, 2, 1, 1)]
        entries = ledger.read().entries
        for number, outcome in (
            (low, Outcome(1.0, 1.0)),
            (top, Outcome(2.0, 50.0)),
            (failed, Outcome(None, 1.0, 0.0, "x")),
        ):
            assert ledger.claim(entries[number], "me", 0)
            ledger.finish(entries[number], outcome, "me")
        assert ledger.claim(entries[waits], "me")
        ledger.requeue(ledger.read().entries[waits], "me")
        ledger.add(query_at(0.4), Outcome(3.0, 1.0))
        opened = ledger_in(f"sqlite:///{tmp_path}/{kind}.db").storage
        assert isinstance(opened, BaseStorage)
        written.append(
            [
                (
                    t.number,
                    t.state,
                    t.values,
                    t.params,
                    t.distributions,
                    t.user_attrs,
                    t.intermediate_values,
                    t.datetime_start is None,
                    t.datetime_complete is None,
                )
                for t in opened.get_all_trials(ledger._study_id)
            ]
        )
    assert written[0] == written[1]


def test_a_planner_that_stood_still_until_its_term_had_ended_writes_nothing(tmp_path):
    ledger = sqlite_in(tmp_path)
    lease = ledger.lease(Owner.new(), 60.0)
    assert lease.acquire()
    term = lease.term

    def permitted():
        assert lease.held()
        # Somebody else ends the term just after this look at it.
        lease.release()
        return True

    ledger.plan(0, [query_at(0.1), query_at(0.2)], permitted, term)
    assert ledger.read().entries == ()


def test_a_result_waits_for_the_disk_and_a_plan_does_not(tmp_path):
    ledger = sqlite_in(tmp_path)
    said = []

    def executed(*about):
        connection, _, statement, *_ = about
        if statement.startswith(("UPDATE", "INSERT")):
            level = connection.connection.dbapi_connection.execute("PRAGMA synchronous").fetchone()[0]
            said.append({1: "NORMAL", 2: "FULL"}[level])

    engine = engine_of(ledger)
    event.listen(engine, "before_cursor_execute", executed)
    for _ in range(2):
        said.clear()
        number = ledger.add(query_at(0.5))
        entry = ledger.read().entries[number]
        assert ledger.claim(entry, "me")
        assert set(said) == {"NORMAL"}
        said.clear()
        ledger.finish(entry, Outcome(1.0, 1.0), "me")
        assert set(said) == {"FULL"}
        said.clear()
        ledger.add(query_at(0.5), Outcome(1.0, 1.0))
        assert set(said) == {"FULL"}


def test_a_study_with_another_study_beside_it_reads_only_its_own(tmp_path):
    url = f"sqlite:///{tmp_path}/study.db"
    one, other = study_in(url, name="one"), study_in(url, name="other")
    run(one, n_trials=2)
    run(other, n_trials=3)
    run(one, n_trials=4)
    for name, num in (("one", 4), ("other", 3)):
        again = load_study(study_name=name, storage=url, method=random_search())
        assert [trial.number for trial in again.trials] == list(range(num))
