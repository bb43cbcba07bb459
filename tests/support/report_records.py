"""Records of studies that were never run, for the tests of reports: any number of trials in no time."""

from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np

import bmbo
from bmbo.history import History, Outcome, Query, TrialRecord
from bmbo.ledger import LedgerEntry
from bmbo.problem import Fidelity, Ladder, Problem, Space
from bmbo.protocols import Recommendation
from bmbo.report import ReportData

MIXED = Space(
    {
        "x": bmbo.Float(0, 1),
        "rate": bmbo.Float(1e-5, 1e-1, log=True),
        "n": bmbo.Int(1, 9),
        "kind": bmbo.Categorical(["a", None, True, 1, "b"]),
    }
)
LEVELS = (Fidelity(1, cost=1), Fidelity(3, cost=3), Fidelity(9, cost=9, name="full"))
BEGUN = datetime(2026, 3, 1, 12)
EVIL = "</script><script>alert('x')</script><img src=x onerror=alert(1)>"
OWNERS = ("one/0000/1|11|1.0|aaaa", "two/0000/1|22|1.0|bbbb")


def problem_of(space=MIXED, levels=LEVELS, maximise=False):
    return Problem(space, Ladder(levels), maximise)


def bowl(unit, level):
    """Small at 0.3 everywhere; every level below the top is a little off."""
    return sum((u - 0.3) ** 2 for u in unit) + 0.05 * level * unit[0]


def entry_of(number, query, outcome, *, owner=OWNERS[0], begun=BEGUN, seconds=1.0, state=None, batch=None):
    ended = None if outcome is None else begun + timedelta(seconds=seconds)
    known = "running" if outcome is None else "failed" if outcome.value is None else "complete"
    trial = TrialRecord(number, query, outcome)
    return LedgerEntry(trial, number, state or known, owner, batch=batch, begun=begun, ended=ended)


def data_of(entries, problem=None, **more):
    problem = problem or problem_of()
    history = History(problem, tuple(entry.trial for entry in entries))
    return ReportData("a study", "memory", history, tuple(entries), BEGUN + timedelta(hours=1), **more)


def record(num, problem=None, objective=bowl, fails=lambda _: False, seed=0, **more):
    """A study of random trials, most of them cheap; two workers run them in turn."""
    problem = problem or problem_of()
    ladder, rng = problem.ladder, np.random.default_rng(seed)
    weights = np.array([4.0 ** (ladder.top - level) for level in range(ladder.num_levels)])
    levels = rng.choice(ladder.num_levels, size=num, p=weights / weights.sum())
    units = problem.space.snap(rng.random((num, problem.space.dim)))
    entries = []
    for number, (unit, level) in enumerate(zip(units, levels, strict=True)):
        query = Query(tuple(float(u) for u in unit), int(level))
        cost = ladder.costs[level]
        value = problem.sign * -objective(query.unit, query.level)
        failed = Outcome(None, cost, cost, error=f"RuntimeError: {number} MB are not enough")
        outcome = failed if fails(number) else Outcome.of(value, cost, cost)
        begun = BEGUN + timedelta(seconds=(number // 2) * 9.0)
        owner = OWNERS[number % 2]
        entries.append(entry_of(number, query, outcome, owner=owner, begun=begun, seconds=cost, batch=number // 2))
    return data_of(entries, problem, **more)


def modelled(data, **more):
    """The same study, with the model of the default page."""
    return replace(data, surrogate=bmbo.screening().surrogate, is_own_model=True, **more)


def evil_study():
    """A study whose every name tries to become code."""
    space = bmbo.Space({EVIL: bmbo.Float(0, 1), "kind": bmbo.Categorical([EVIL, "b", "c"])})
    problem = problem_of(space, (bmbo.Fidelity(1, cost=1, name=EVIL), bmbo.Fidelity(2, cost=2, name=EVIL + "2")))
    data = record(24, problem, fails=lambda number: number == 5)
    entries = list(data.entries)
    failed = replace(entries[5].trial, outcome=Outcome(None, 1.0, error=f"ValueError: {EVIL}"))
    entries[5] = replace(entries[5], trial=failed, owner=EVIL)
    again = modelled(data_of(entries, problem))
    return replace(
        again, study_name=EVIL, storage=EVIL, recommendation=Recommendation(entries[0].trial.query.unit, 1.0, 1.0)
    )
