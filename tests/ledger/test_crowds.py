"""Many processes that want the same trials: each takes another one, and who only looks waits for nobody."""

from optuna.trial import TrialState

from bmbo.ledger import Owner
from bmbo.ledger.planner_lease import current_term
from support import servers, study_ledgers
from support.outages import engine_of
from support.study_ledgers import ledger_in, planned, query_at

# Fixtures that several files of tests share.
storage = study_ledgers.storage
postgresql, postgresql_url = servers.postgresql, servers.postgresql_url


def nothing(entry):
    del entry


def test_of_trials_that_others_take_meanwhile_the_first_that_still_waits_is_taken(storage):
    first, second, third = (ledger_in(storage) for _ in range(3))
    planned(first)
    # All have read before any takes one.
    seen = [ledger.read().waiting for ledger in (first, second, third)]
    taken = [
        ledger.claim_first(waiting, owner, nothing)
        for ledger, waiting, owner in zip((first, second, third), seen, "abc", strict=True)
    ]
    assert [entry and (entry.trial.number, entry.state) for entry in taken] == [
        (number, "running") for number in range(3)
    ]
    assert [entry.owner for entry in first.read().entries] == ["a", "b", "c"]
    assert second.claim_first(seen[1], "d", nothing) is None


def test_what_a_trial_goes_on_from_is_asked_for_the_trial_that_is_taken_only(tmp_path):
    ledger, other = (ledger_in(f"sqlite:///{tmp_path}/study.db") for _ in range(2))
    planned(ledger, query_at(0.1), query_at(0.1, 1), query_at(0.1, 2))
    waiting = ledger.read().waiting
    assert other.claim(waiting[0], "other")
    asked = []

    def source(entry):
        asked.append(entry.trial.number)
        return 0

    taken = ledger.claim_first(waiting, "me", source, apart=True)
    assert asked == [1]
    assert taken is not None
    assert (taken.trial.number, taken.resume_from) == (1, 0)
    stored = ledger.read().entries[1]
    assert (stored.resume_from, stored.apart) == (0, True)


def test_who_looks_at_a_study_does_not_wait_for_who_writes(tmp_path):
    path = tmp_path / "study.db"
    ledger = ledger_in(f"sqlite:///{path}")
    ledger.note_run({"n_trials": 3})
    lease, mine = ledger.lease(Owner.new(), 60.0), ledger.lease(Owner.new(), 60.0)
    assert lease.acquire()
    assert not mine.acquire()
    # As a process that writes: WAL lets others read meanwhile.
    with engine_of(ledger.storage).connect() as writing, writing.begin():
        assert not mine.acquire()
        assert not mine.is_free()
        assert lease.held()
        assert ledger.last_run == {"n_trials": 3}
        term = current_term(ledger.storage, "study")
        assert term is not None
        assert term.state == TrialState.RUNNING
        assert ledger.read().entries == ()
