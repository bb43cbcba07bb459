"""The lock of a journal: one holder at a time, and nobody waits for a holder that is dead."""

import os
import subprocess
import sys
import threading
import time

import pytest
from optuna.storages.journal import JournalFileSymlinkLock

from bmbo.ledger import Ledger, Owner, owners
from bmbo.ledger.journal_lock import JournalLock
from support.study_ledgers import ledger_in, query_at

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such locks")

SHORT = 25.0
"""Seconds: less than the half minute after which Optuna takes a lock away."""

KILLED_HOLDER = """
import os, signal, sys
from bmbo.ledger.journal_lock import JournalLock
JournalLock(sys.argv[1]).acquire()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "study.log"
    path.touch()
    return str(path)


def test_the_lock_of_a_process_that_was_killed_is_free_at_once(path):
    subprocess.run([sys.executable, "-c", KILLED_HOLDER, path], check=False)
    assert os.path.lexists(f"{path}.lock")
    begun = time.monotonic()
    lock = JournalLock(path)
    lock.acquire()
    assert time.monotonic() - begun < SHORT
    lock.release()
    assert not os.path.lexists(f"{path}.lock")


@pytest.mark.parametrize("held_by", ["optuna", "another machine"])
def test_a_lock_that_may_have_a_living_holder_is_waited_for(held_by, path, monkeypatch):
    if held_by == "another machine":
        monkeypatch.setattr(owners, "this_host", lambda: "elsewhere")
        dead = JournalLock(path)
        dead.acquire()
        # Its file is given back, as when it had died, and its link stays.
        dead._leave_queue()
        monkeypatch.undo()
    else:
        # The file is that of a process that left long ago.
        left = JournalLock(path)
        left.acquire()
        left._leave_queue()
        JournalFileSymlinkLock(path).release()
        JournalFileSymlinkLock(path).acquire()
    got, lock = threading.Event(), JournalLock(path)

    def take():
        lock.acquire()
        got.set()

    thread = threading.Thread(target=take)
    thread.start()
    assert not got.wait(0.3)
    JournalFileSymlinkLock(path).release()
    assert got.wait(SHORT)
    thread.join()
    lock.release()


def test_one_at_a_time_holds_the_lock(path):
    inside, most = [0], [0]

    def work():
        lock = JournalLock(path)
        for _ in range(20):
            lock.acquire()
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            time.sleep(0.0005)
            inside[0] -= 1
            lock.release()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most[0] == 1


def test_where_the_second_file_cannot_be_made_the_rule_of_optuna_holds(path):
    os.mkdir(f"{path}.holder")
    lock = JournalLock(path)
    lock.acquire()
    assert os.path.lexists(f"{path}.lock")
    lock.release()
    assert not os.path.lexists(f"{path}.lock")


def test_a_holder_that_stands_still_is_not_waited_for_in_the_queue(path, monkeypatch):
    monkeypatch.setattr("bmbo.ledger.journal_lock.QUEUE_SECONDS", 0.05)
    frozen, other = JournalLock(path), JournalLock(path)
    frozen.acquire()
    # Half a minute later, by the rule of Optuna.
    JournalFileSymlinkLock(path).release()
    other.acquire()
    frozen.release()
    assert os.path.lexists(f"{path}.lock")
    other.release()
    assert not os.path.lexists(f"{path}.lock")


@pytest.mark.parametrize("num", [1, 2])
def test_a_planner_that_stood_still_until_its_term_had_ended_writes_nothing(num, tmp_path):
    ledger = ledger_in(str(tmp_path / "study.log"))
    lease = ledger.lease(Owner.new(), 60.0)
    assert lease.acquire()
    term, looks = lease.term, []

    def permitted():
        looks.append(lease.held())
        # Somebody else ends the term just after the last look at it before the write.
        if len(looks) == 2:
            lease.release()
        return looks[-1]

    ledger.plan(0, [query_at(0.1), query_at(0.2)][:num], permitted, term)
    assert looks[:2] == [True, True]
    assert ledger.read().entries == ()
    # What others write is not concerned.
    ledger.add(query_at(0.3))
    assert len(Ledger.load(str(tmp_path / "study.log"), "study").read().entries) == 1
