"""Many at one ledger: a trial and the lease have one owner at a time, who is replaced when it dies."""

import os
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import psutil
import pytest

from bmbo.history import Outcome
from bmbo.ledger import ASKED, Ledger, Owner, SilenceWatch
from bmbo.ledger.owners import TICKS, is_dead, start_of
from bmbo.ledger.trial_store import AnyStorage
from support import servers, study_ledgers
from support.study_ledgers import always, ledger_in, planned, query_at, storage_of_kind

# Fixtures that other files of tests share.
storage = study_ledgers.storage
postgresql, postgresql_url = servers.postgresql, servers.postgresql_url

GRACE = 5.0


# What several processes can open.
@pytest.fixture(params=["sqlite", "journal", pytest.param("postgresql", marks=pytest.mark.slow)])
def storage_url(request, tmp_path):
    return storage_of_kind(request, tmp_path)


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
    assert ledger.beat(entry, "me", 3)
    assert not ledger.beat(entry, "you", 3)
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


def test_two_attempts_that_give_the_same_value_are_both_counted_and_each_once(storage):
    ledger = ledger_in(storage)
    (slow,) = planned(ledger, query_at(0.5, 1))
    ledger.claim(slow, "slow")
    ledger.requeue(ledger.read().entries[0], "slow")
    quick = ledger.read().entries[0]
    ledger.claim(quick, "quick")
    # The first result comes while the second attempt has the trial, and a deterministic objective repeats it.
    same = Outcome(2.0, 10.0)
    assert ledger.finish(slow, same, "slow") == 0
    assert ledger.finish(quick, same, "quick") == 1
    for _ in range(2):
        # The storage kept these before, but its answers were lost.
        assert ledger.finish(slow, same, "slow") == 0
        assert ledger.finish(quick, same, "quick") == 1
    record = ledger_in(storage).read()
    assert [trial.value for trial in record.history.trials] == [2.0, 2.0]
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
    # In single steps, as every storage can and as earlier versions did.
    cut._trials = AnyStorage(cut.storage, cut._study_id)
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
        lease._watch = SilenceWatch(GRACE, clock)
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
    dead = replace(Owner.new(), pid=process.pid, started=str(start_of(process.pid)))
    holder = lease_of(storage, dead)
    assert holder.acquire()
    assert not lease_of(storage, Owner.new()).acquire()
    process.kill()
    # Not waited for: a zombie is dead too.
    contender = lease_of(storage, Owner.new())
    deadline = datetime.now().timestamp() + 60
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
    assert is_dead(replace(mine, pid=os.getppid(), started=f"{TICKS}1").text)
    assert not is_dead(ASKED)
    assert not is_dead(None)
    mine.leave()
    assert is_dead(mine.text)


def test_a_step_of_the_clock_makes_nobody_look_dead(monkeypatch):
    mine, parents = Owner.new(), replace(Owner.new(), pid=os.getppid(), started=str(start_of(os.getppid())))
    begun = psutil.Process.create_time
    # The system computes it from the time of its start, which moves with the clock.
    monkeypatch.setattr(psutil.Process, "create_time", lambda process: begun(process) + 3600.0)
    assert not is_dead(mine.text)
    assert not is_dead(parents.text)
    # As a development version wrote it: nothing is known then.
    assert not is_dead(replace(parents, started="1700000000.12").text)


def test_a_system_without_ticks_is_asked_for_its_clock(monkeypatch):
    monkeypatch.setattr("bmbo.ledger.owners.Path", lambda path: Path("/nowhere", str(path).strip("/")))
    mine = Owner.new()
    assert float(mine.started) == pytest.approx(psutil.Process().create_time(), abs=0.01)
    assert not is_dead(mine.text)
    parents = replace(mine, pid=os.getppid(), started=str(start_of(os.getppid())))
    assert not is_dead(parents.text)
    assert is_dead(replace(parents, started="1.0").text)
    assert start_of(2**22 - 1) is None


def test_silence_is_counted_from_the_first_look_and_anew_with_every_change():
    clock = Clock()
    watch = SilenceWatch(GRACE, clock)
    clock.now = 100.0
    assert not watch.is_silent("a", 1)
    clock.now += GRACE - 0.1
    assert not watch.is_silent("a", 1)
    assert not watch.is_silent("a", 2)
    clock.now += GRACE
    assert watch.is_silent("a", 2)
    assert not watch.is_silent("b", 2)
