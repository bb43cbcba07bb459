"""The ledger: one record in any storage, whoever writes it and whenever they die."""

import logging
import math
import os
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import datetime

import optuna
import psutil
import pytest
from optuna.storages import InMemoryStorage, JournalStorage, RDBStorage
from optuna.storages.journal._base import BaseJournalBackend, BaseJournalSnapshot
from optuna.trial import TrialState

import servers
from bmbo.ledger import ASKED, Ledger, Owner, Watch, folder_of, open_storage, redacted
from bmbo.ledger.definition import Definition
from bmbo.ledger.identity import is_dead
from bmbo.ledger.storage import patiently
from bmbo.problem import Fidelity, Ladder, Problem
from bmbo.space import Categorical, Float, Int, Space
from bmbo.trial import Outcome, Query

# Fixtures of other files of tests too.
postgresql, postgresql_url = servers.postgresql, servers.postgresql_url

SPACE = Space(
    {
        "lr": Float(1e-5, 1e-1, log=True),
        "share": Float(0, 1),
        "grid": Float(0, 1, step=0.3),
        "n": Int(1, 9),
        "wide": Int(1, 1000, log=True),
        "even": Int(0, 11, step=4),
        "pool": Categorical(["max", "average", None, 3, 0.5, True]),
        "size": Categorical(["small", "large"], ordered=True),
    }
)
PROBLEM = Problem(SPACE, Ladder([Fidelity(1, cost=1), Fidelity(10, cost=10), Fidelity("full", cost=50)]))
DEFINITION = Definition(PROBLEM, 7)
GRACE = 5.0


def storage_of_kind(request, tmp_path):
    if request.param == "memory":
        return InMemoryStorage()
    if request.param == "postgresql":
        return request.getfixturevalue("postgresql_url")
    return {"sqlite": f"sqlite:///{tmp_path}/study.db", "journal": str(tmp_path / "study.log")}[request.param]


# What several processes can open.
@pytest.fixture(params=["sqlite", "journal", "postgresql"])
def storage_url(request, tmp_path):
    return storage_of_kind(request, tmp_path)


@pytest.fixture(params=["memory", "sqlite", "journal", "postgresql"])
def storage(request, tmp_path):
    return storage_of_kind(request, tmp_path)


def ledger_in(storage, definition=DEFINITION, name="study"):
    return Ledger.create(storage, name, definition, load_if_exists=True)


def query_at(share, level=0, **tag):
    """A query as the ledger gives it back."""
    return Query(SPACE.encode(SPACE.decode((share,) * SPACE.dim)), level, tag)


def always():
    return True


def planned(ledger, *queries):
    queries = queries or [query_at(0.1), query_at(0.4, 1), query_at(0.7, 2)]
    ledger.plan(ledger.read().next_batch, queries, always)
    return ledger.read().entries


def test_trials_of_every_kind_of_parameter_come_back_as_they_were(storage):
    ledger = ledger_in(storage)
    queries = [query_at(place / 16, place % 3, note=[place, "a"]) for place in range(17)]
    planned(ledger, *queries)
    again = ledger_in(storage)
    assert [entry.trial.query for entry in again.read().entries] == queries
    assert [SPACE.decode(t.query.unit) for t in again.read().history.trials] == [SPACE.decode(q.unit) for q in queries]
    assert {entry.state for entry in again.read().entries} == {"waiting"}
    assert {entry.batch for entry in again.read().entries} == {0}


def test_outcomes_come_back_as_they_were(storage):
    ledger = ledger_in(storage)
    outcomes = [Outcome(0.1 + 0.2, 1.0, 0.25), Outcome(-1e300, 10.0, 3.5), Outcome(None, 7.5, 0.5, error="it broke")]
    for entry, outcome in zip(planned(ledger), outcomes, strict=True):
        assert ledger.claim(entry, "me")
        assert ledger.finish(entry, outcome, "me") == entry.trial.number
    for reader in (ledger, ledger_in(storage)):
        assert [trial.outcome for trial in reader.read().history.trials] == outcomes
        assert [entry.state for entry in reader.read().entries] == ["complete", "complete", "failed"]


def test_optuna_sees_the_best_at_the_top_and_results_below_as_pruned(storage):
    ledger = ledger_in(storage)
    values = {0: -5.0, 1: -4.0, 2: 1.0, 3: 0.5}
    for entry in planned(ledger, query_at(0.1, 0), query_at(0.2, 1), query_at(0.3, 2), query_at(0.4, 2)):
        ledger.claim(entry, "me")
        ledger.finish(entry, Outcome(values[entry.trial.number], 1.0))
    study = optuna.load_study(study_name="study", storage=open_storage(storage))
    assert study.best_trial.number == 3
    assert study.best_params == SPACE.decode(query_at(0.4).unit)
    assert [trial.state for trial in study.trials] == [TrialState.PRUNED] * 2 + [TrialState.COMPLETE] * 2
    assert study.trials[1].intermediate_values == {1: -4.0}
    assert study.trials[1].user_attrs["bmbo:fidelity"] == 10


def test_a_study_of_the_same_name_is_refused_unless_it_may_be_continued(storage):
    ledger_in(storage)
    with pytest.raises(ValueError, match=r"study 'study' exists already in .*load_if_exists=True"):
        Ledger.create(storage, "study", DEFINITION, load_if_exists=False)


def changed(**params):
    return replace(PROBLEM, space=Space({**dict(SPACE.params), **params}))


@pytest.mark.parametrize(
    ("problem", "sentence"),
    [
        (replace(PROBLEM, maximise=True), "its direction is 'minimize', not 'maximize'"),
        (changed(n=Int(1, 8)), r"its parameter 'n' is Int\(low=1, high=9.*not Int\(low=1, high=8"),
        (changed(new=Int(1, 8)), "its space has no parameter 'new'"),
        (
            replace(PROBLEM, space=Space(dict(SPACE.params[1:]))),
            "its space has a parameter 'lr', which is missing here",
        ),
        (replace(PROBLEM, space=Space(dict(SPACE.params[::-1]))), "its parameters are in the order"),
        (replace(PROBLEM, ladder=Ladder(PROBLEM.ladder.fidelities[1:])), "its fidelities are 1 .*, not 10 "),
        (
            replace(PROBLEM, ladder=Ladder([*PROBLEM.ladder.fidelities[:2], Fidelity("full", cost=51)])),
            r"full \(value 'full', cost 50.0\), not .*cost 51.0",
        ),
    ],
)
def test_another_problem_under_the_same_name_is_refused_with_what_differs(problem, sentence):
    storage = InMemoryStorage()
    planned(ledger_in(storage))
    with pytest.raises(ValueError, match=sentence):
        ledger_in(storage, Definition(problem, 7))
    assert len(ledger_in(storage).read().entries) == 3


def test_a_study_keeps_its_seed_and_says_so(caplog):
    storage = InMemoryStorage()
    ledger_in(storage)
    with caplog.at_level(logging.WARNING, logger="bmbo"):
        assert ledger_in(storage, Definition(PROBLEM, 8)).seed == 7
    assert "keeps its seed 7" in caplog.text


def test_loading_needs_a_study_that_is_there_and_ours(storage):
    with pytest.raises(ValueError, match="there is no study 'other' in "):
        Ledger.load(storage, "other")
    opened = open_storage(storage)
    foreign = optuna.create_study(study_name="foreign", storage=opened)
    foreign.add_trial(optuna.create_trial(value=1.0))
    with pytest.raises(ValueError, match=r"'foreign' in .* was not made by bmbo"):
        Ledger.load(opened, "foreign")
    with pytest.raises(ValueError, match=r"'foreign' in .* was not made by bmbo; choose another study_name"):
        ledger_in(opened, name="foreign")


def test_a_study_whose_maker_died_before_it_was_defined_is_defined_by_the_next(monkeypatch):
    monkeypatch.setattr("bmbo.ledger.book.BIRTH_SECONDS", 0.1)
    storage = InMemoryStorage()
    optuna.create_study(study_name="study", storage=storage)
    assert ledger_in(storage).problem == PROBLEM
    assert Ledger.load(storage, "study").problem == PROBLEM


def test_a_later_format_is_refused_in_words():
    storage = InMemoryStorage()
    study = optuna.create_study(study_name="study", storage=storage)
    study.set_user_attr("bmbo:definition", {**DEFINITION.to_json(), "format": 99, "version": "9.0"})
    with pytest.raises(ValueError, match=r"written in format 99 by bmbo 9.0, and this is bmbo .*reads format 1"):
        Ledger.load(storage, "study")


def test_of_two_claims_one_succeeds(storage):
    ledger = ledger_in(storage)
    (entry,) = planned(ledger, query_at(0.5))
    assert ledger.claim(entry, "one")
    assert not ledger_in(storage).claim(entry, "two")
    assert ledger.read().entries[0].owner == "one"


def test_many_who_claim_at_once_share_the_trials_without_one_twice(storage_url):
    planned(ledger_in(storage_url), *(query_at(place / 40) for place in range(24)))
    claims, start = [], threading.Barrier(6)

    def work(name):
        ledger = Ledger.load(storage_url, "study")
        entries = ledger.read().entries
        start.wait()
        claims.extend(entry.trial.number for entry in entries if ledger.claim(entry, name))

    threads = [threading.Thread(target=work, args=(str(name),)) for name in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(claims) == list(range(24))


def test_studies_that_are_made_at_once_are_one(storage_url):
    ledgers, start = [], threading.Barrier(4)

    def work():
        start.wait()
        ledgers.append(ledger_in(storage_url))
        ledgers[-1].add(query_at(0.5))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [trial.number for trial in ledgers[0].read().history.trials] == [0, 1, 2, 3]


def test_a_finished_trial_can_be_neither_claimed_nor_queued_again(storage):
    ledger = ledger_in(storage)
    (entry,) = planned(ledger, query_at(0.5))
    ledger.claim(entry, "me")
    ledger.finish(entry, Outcome(1.0, 1.0), "me")
    assert not ledger.claim(entry, "you")
    ledger.requeue(entry, "me")
    ledger.beat(entry, 3)
    assert [known.state for known in ledger.read().entries] == ["complete"]


def test_a_trial_that_is_queued_again_keeps_its_number_and_counts_its_retries(storage):
    ledger = ledger_in(storage)
    planned(ledger)
    for retries in range(2):
        entry = ledger.read().entries[1]
        assert (entry.state, entry.retries) == ("waiting", retries)
        assert ledger.claim(entry, "me")
        ledger.requeue(ledger.read().entries[1], "me")
    entry = ledger.read().entries[1]
    assert (entry.state, entry.retries, entry.owner, entry.trial.number) == ("waiting", 2, None, 1)
    ledger.claim(entry, "me")
    ledger.requeue(ledger.read().entries[1], "me")
    entry = ledger.read().entries[1]
    assert entry.state == "failed"
    assert entry.trial.outcome == Outcome(None, 10.0, error="its worker died 3 times")
    assert len(ledger.read().entries) == 3


def test_a_trial_with_a_new_owner_is_not_taken_from_it(storage):
    ledger = ledger_in(storage)
    (entry,) = planned(ledger, query_at(0.5))
    ledger.claim(entry, "slow")
    ledger.requeue(entry, "slow")
    ledger.claim(entry, "quick")
    # What the old owner, or who saw it die, still does.
    ledger.requeue(entry, "slow", died=False)
    ledger.requeue(entry, "slow")
    (known,) = ledger.read().entries
    assert (known.state, known.owner, known.retries) == ("running", "quick", 1)


def test_a_result_that_comes_when_a_trial_is_given_up_is_not_followed_by_a_failure(storage, monkeypatch):
    ledger = ledger_in(storage)
    (entry,) = planned(ledger, query_at(0.5))
    ledger.claim(entry, "slow")
    seen = ledger.read().entries[0]
    ledger.finish(entry, Outcome(1.0, 1.0), "slow")
    # As one who looked just before sees it.
    monkeypatch.setattr(ledger, "_stored", lambda _: replace(seen, retries=2))
    ledger.requeue(entry, "slow")
    (known,) = ledger.read().entries
    assert known.trial.value == 1.0


def test_being_stopped_is_no_death(storage):
    ledger = ledger_in(storage)
    (entry,) = planned(ledger, query_at(0.5))
    for _ in range(5):
        assert ledger.claim(entry, "me")
        ledger.requeue(ledger.read().entries[0], "me", died=False)
    assert (ledger.read().entries[0].state, ledger.read().entries[0].retries) == ("waiting", 0)


def test_a_late_result_before_the_retry_finished_is_the_trials_result(storage):
    ledger = ledger_in(storage)
    (entry,) = planned(ledger, query_at(0.5))
    ledger.claim(entry, "slow")
    ledger.requeue(ledger.read().entries[0], "slow")
    assert ledger.finish(entry, Outcome(1.0, 1.0), "slow") == 0
    (known,) = ledger.read().entries
    assert known.trial.value == 1.0
    assert not ledger.claim(known, "other")


def test_a_late_result_after_the_retry_finished_is_one_more_trial(storage):
    ledger = ledger_in(storage)
    (entry,) = planned(ledger, query_at(0.5, 1))
    ledger.claim(entry, "slow")
    ledger.requeue(ledger.read().entries[0], "slow")
    ledger.claim(entry, "quick")
    assert ledger.finish(entry, Outcome(2.0, 10.0), "quick") == 0
    assert ledger.finish(entry, Outcome(1.0, 10.0), "slow") == 1
    record = ledger_in(storage).read()
    assert [trial.value for trial in record.history.trials] == [2.0, 1.0]
    assert [known.duplicate_of for known in record.entries] == [None, 0]
    assert record.history.trials[1].query == entry.trial.query
    assert record.history.spent == 20.0


def test_an_answer_that_the_storage_kept_and_lost_is_not_counted_twice(storage):
    ledger = ledger_in(storage)
    (entry,) = planned(ledger, query_at(0.5))
    ledger.claim(entry, "me")
    assert ledger.finish(entry, Outcome(1.0, 1.0), "me") == 0
    assert ledger.finish(entry, Outcome(1.0, 1.0), "me") == 0
    assert len(ledger.read().entries) == 1


def test_a_plan_that_was_cut_short_is_completed_as_it_was(storage):
    queries = [query_at(place / 8, place % 3, place=place) for place in range(5)]
    whole = ledger_in(storage, name="whole")
    whole.plan(0, queries, always)
    cut = ledger_in(storage, name="cut")
    # Once before the plan is noted, and once before each trial.
    permits = iter([True, True, True, False])
    cut.plan(0, queries, lambda: next(permits))
    assert len(cut.read().entries) == 2
    another = ledger_in(storage, name="cut")
    another.complete_plan(always)
    another.complete_plan(always)
    assert another.read().history == whole.read().history
    another.plan(1, [query_at(0.9)], always)
    another.complete_plan(always)
    assert [entry.batch for entry in another.read().entries] == [0] * 5 + [1]


def test_a_planner_that_lost_its_lease_before_it_wrote_leaves_no_plan_to_be_completed(storage):
    ledger = ledger_in(storage)
    ledger.plan(0, [query_at(0.1), query_at(0.2)], lambda: False)
    ledger.complete_plan(always)
    assert ledger.read().entries == ()


def test_a_trial_that_is_asked_for_is_the_users_own(storage):
    ledger = ledger_in(storage)
    assert ledger.add(query_at(0.5), owner=ASKED) == 0
    record = ledger.read()
    assert (record.running, record.waiting) == ((), ())
    assert [trial.number for trial in record.history.pending] == [0]
    assert isinstance(record.entries[0].begun, datetime)


@pytest.mark.parametrize("query", [Query((0.5,), 0), query_at(0.5, 3), query_at(0.5, -1)])
def test_a_query_outside_the_problem_is_not_written(query):
    ledger = ledger_in(None)
    with pytest.raises(ValueError, match=r"coordinates|level"):
        ledger.add(query)
    assert ledger.read().entries == ()


def test_a_trial_that_optuna_has_enqueued_can_be_run(storage):
    ledger = ledger_in(storage)
    optuna.load_study(study_name="study", storage=open_storage(storage)).enqueue_trial(SPACE.decode(query_at(0.3).unit))
    (entry,) = ledger.read().waiting
    assert entry.trial.query == query_at(0.3, 2)
    assert ledger.claim(entry, "me")
    ledger.finish(entry, Outcome(1.0, 50.0), "me")
    assert ledger_in(storage).read().history.best == replace(entry.trial, outcome=Outcome(1.0, 50.0))


def test_a_trial_without_parameters_is_named(storage):
    ledger = ledger_in(storage)
    optuna.load_study(study_name="study", storage=open_storage(storage)).ask()
    with pytest.raises(ValueError, match="trial 0 in the storage is none of this study's space, was it made by Optuna"):
        ledger.read()


def test_a_whole_trial_of_optunas_counts_at_the_top(storage):
    ledger = ledger_in(storage)
    planned(ledger, query_at(0.5))
    study = optuna.load_study(study_name="study", storage=open_storage(storage))
    params, distributions = SPACE.decode(query_at(0.3).unit), study.trials[0].distributions
    study.add_trial(optuna.create_trial(params=params, distributions=distributions, value=2.0))
    best = ledger.read().history.best
    assert best is not None
    assert (best.number, best.value, best.query.level, best.outcome.cost) == (1, 2.0, 2, 50.0)


# Terms of office.


class Clock:
    """Seconds that pass when told to."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def elsewhere():
    """An owner on a machine of which nothing can be known."""
    return replace(Owner.new(), host="elsewhere")


def lease_of(storage, owner, clock=None):
    lease = ledger_in(storage).lease(owner, GRACE)
    if clock is not None:
        lease._watch = Watch(GRACE, clock)
    return lease


def test_only_one_holds_the_lease_and_it_can_be_handed_on(storage):
    first, second = lease_of(storage, Owner.new()), lease_of(storage, Owner.new())
    assert first.acquire()
    assert first.acquire()
    assert not second.acquire()
    first.release()
    assert not first.held()
    assert second.acquire()
    assert second.held()
    assert not first.acquire()


def test_of_many_who_want_the_lease_at_once_one_gets_it(storage_url):
    ledger_in(storage_url)
    held, start = [], threading.Barrier(6)

    def work():
        lease = ledger_in(storage_url).lease(elsewhere(), GRACE)
        start.wait()
        held.append(lease.acquire() and lease.held())

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(held) == 1


def test_the_lease_of_a_dead_process_is_free_at_once(storage):
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    dead = replace(Owner.new(), pid=process.pid, started=psutil.Process(process.pid).create_time())
    holder = lease_of(storage, dead)
    assert holder.acquire()
    assert not lease_of(storage, Owner.new()).acquire()
    process.kill()
    # Not waited for: a zombie is dead too.
    contender = lease_of(storage, Owner.new())
    deadline = datetime.now().timestamp() + 20
    while not contender.acquire():
        assert datetime.now().timestamp() < deadline
    assert not holder.held()
    assert not holder.believed
    process.wait()


def test_a_lease_without_a_sign_of_life_is_lost_after_the_grace_period(storage):
    clock = Clock()
    holder, contender = lease_of(storage, elsewhere()), lease_of(storage, elsewhere(), clock)
    assert holder.acquire()
    for _ in range(3):
        assert not contender.acquire()
        clock.now += 0.9 * GRACE
        holder.beat()
    assert not contender.acquire()
    clock.now += GRACE
    assert contender.acquire()
    assert contender.held()
    assert not holder.held()
    # What the old one still does changes nothing.
    holder.beat()
    holder.release()
    assert contender.held()


def test_a_planner_that_learns_from_its_beat_that_it_is_replaced_steps_down(storage):
    clock = Clock()
    holder, contender = lease_of(storage, elsewhere()), lease_of(storage, elsewhere(), clock)
    holder.acquire()
    contender.acquire()
    clock.now += GRACE
    assert contender.acquire()
    holder.beat()
    assert not holder.believed


def test_an_owner_is_dead_when_its_process_is_gone_and_only_on_this_machine():
    mine = Owner.new()
    assert Owner.of(mine.text) == mine
    assert not is_dead(mine.text)
    assert is_dead(replace(mine, pid=2**22 - 1).text)
    assert not is_dead(replace(mine, pid=2**22 - 1, host="elsewhere").text)
    # The same number, but a process that began at another time.
    assert is_dead(replace(mine, pid=os.getppid(), started=1.0).text)
    assert not is_dead(ASKED)
    assert not is_dead(None)
    mine.leave()
    assert is_dead(mine.text)


def test_silence_is_counted_from_the_first_look_and_anew_with_every_change():
    clock = Clock()
    watch = Watch(GRACE, clock)
    clock.now = 100.0
    assert not watch.is_silent("a", 1)
    clock.now += GRACE - 0.1
    assert not watch.is_silent("a", 1)
    assert not watch.is_silent("a", 2)
    clock.now += GRACE
    assert watch.is_silent("a", 2)
    assert not watch.is_silent("b", 2)


# Storages.


@pytest.mark.parametrize(
    ("storage", "shown"),
    [
        (None, "memory"),
        ("postgresql+psycopg://me:secret@host:5432/studies", "postgresql+psycopg://me:***@host:5432/studies"),
        ("sqlite:///study.db", "sqlite:///study.db"),
        ("study.log", "study.log"),
        ("postgresql//me:secret@host", "***@host"),
    ],
)
def test_a_storage_is_never_shown_with_its_password(storage, shown):
    assert redacted(storage) == shown


def test_errors_of_opening_never_show_a_password():
    with pytest.raises(ValueError, match=r"cannot be opened|not installed") as refusal:
        open_storage("mysql+pymysql://me:secret@127.0.0.1:1/none")
    assert "secret" not in str(refusal.value)
    assert refusal.value.__cause__ is None


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("storage", "kind", "sentence"),
    [
        ("study.db", ValueError, "must be a URL such as sqlite:///study.db or a path ending in .log"),
        ("sqlite:///", ValueError, "in memory cannot be shared"),
        ("sqlite:///:memory:", ValueError, "in memory cannot be shared"),
        ("sqlite:////no/such/folder/study.db", ValueError, "cannot be opened: unable to open database file"),
        ("nosuch://host/db", ValueError, "needs the driver of 'nosuch'"),
        (3, TypeError, "storage must be a URL, a path, an Optuna storage or None, got 3"),
    ],
)
def test_a_storage_that_is_none_is_refused_in_one_sentence(storage, kind, sentence, monkeypatch):
    monkeypatch.setattr("bmbo.ledger.storage.OPENING_SECONDS", 0.1)
    with pytest.raises(kind) as refusal:
        open_storage(storage)
    assert sentence in str(refusal.value)


class Snapshots(BaseJournalBackend, BaseJournalSnapshot):
    """A journal that would have its snapshot unpickled."""

    def read_logs(self, log_number_from):
        del log_number_from
        return iter(())

    def append_logs(self, logs):
        pass

    def save_snapshot(self, snapshot):
        pass

    def load_snapshot(self):
        return None


def test_a_journal_with_pickled_snapshots_is_refused():
    with pytest.raises(ValueError, match="pickled snapshots, which bmbo never loads"):
        open_storage(JournalStorage(Snapshots()))


def test_a_database_that_optuna_opened_is_made_safe_too(tmp_path):
    storage = RDBStorage(f"sqlite:///{tmp_path}/study.db")
    planned(ledger_in(storage))
    with storage.engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    assert len(ledger_in(storage).read().entries) == 3


def test_files_of_a_study_are_beside_its_storage(tmp_path):
    assert folder_of(None).resolve() == folder_of("postgresql+psycopg://me@host/db").resolve()
    assert folder_of(f"sqlite:///{tmp_path}/study.db") == tmp_path
    assert folder_of(str(tmp_path / "study.log")) == tmp_path
    for kept in (f"sqlite:///{tmp_path}/study.db", str(tmp_path / "study.log")):
        assert folder_of(open_storage(kept)) == tmp_path


def test_a_call_is_tried_again_while_the_storage_is_away():
    answers = iter([OSError("away"), OSError("away"), 3])

    def call():
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return answer

    assert patiently(call) == 3
    with pytest.raises(OSError, match="for ever"):
        patiently(lambda: (_ for _ in ()).throw(OSError("for ever")), seconds=0.2)


def test_optunas_own_messages_come_back_after_we_made_a_study(capsys):
    before = optuna.logging.get_verbosity()
    ledger_in(InMemoryStorage())
    assert optuna.logging.get_verbosity() == before
    assert capsys.readouterr().err == ""


def test_a_value_that_is_not_finite_is_stored_as_a_failure(storage):
    ledger = ledger_in(storage)
    (entry,) = planned(ledger, query_at(0.5, 2))
    ledger.finish(entry, Outcome.of(math.inf, 50.0))
    (known,) = ledger_in(storage).read().entries
    assert known.state == "failed"
    assert known.trial.outcome == Outcome.of(math.inf, 50.0)
    assert optuna.load_study(study_name="study", storage=open_storage(storage)).trials[0].state == TrialState.FAIL
