"""Collect what the report of a study is made from: its record, and what its method says of it."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from bmbo.history import History, Query, TrialRecord
from bmbo.history.same_point import same_configuration
from bmbo.ledger import Ledger, LedgerEntry, redacted
from bmbo.methods import screening
from bmbo.protocols import Choice, Explaining, Policy, Recommendation, Recommending
from bmbo.report import LastBatch, ReportData, check_report, report_path, write_report
from bmbo.study.limits import ADDED, Limits
from bmbo.study.next_queries import CONFIRMS, within_limits

logger = logging.getLogger("bmbo")


def report(ledger: Ledger, policy: Policy, seed: int, carry: Any, *, path: str | Path | None, model: bool) -> Path:
    """Write the report of a study and return its path. For errors see `Study.report`.

    Nothing is written into the study, and the policy's cache stays as it is.
    """
    target = report_path(ledger.name) if path is None else Path(path)
    # Before anything is computed.
    check_report(target)
    with threadpool_limits(1, user_api="blas"):  # matrices are small: more threads would only wait for each other
        return write_report(report_data(ledger, policy, seed, carry, model=model), target)


def report_data(ledger: Ledger, policy: Policy, seed: int, carry: Any, *, model: bool) -> ReportData:
    """Return what the report of a study is made from; `carry` is the policy's cache."""
    snapshot, run = ledger.read(), ledger.last_run or {}
    limits = Limits(run.get("total_cost"), run.get("n_trials"))
    data = ReportData(
        ledger.name,
        redacted(ledger.storage),
        snapshot.history,
        snapshot.entries,
        datetime.now(),
        limits.total_cost,
        limits.n_trials,
    )
    if not model:
        return data
    found, carry = _recommendation(policy, seed, snapshot.history, carry)
    data = replace(
        data,
        recommendation=found,
        # The cache of a method that draws samples says how the last fit went.
        info=getattr(carry, "info", None),
        surrogate=policy.surrogate if isinstance(policy, Explaining) else screening().surrogate,
        is_own_model=isinstance(policy, Explaining),
        carry=carry if isinstance(policy, Explaining) else None,
    )
    if isinstance(policy, Explaining):
        data = replace(data, last_batch=last_batch(policy, seed, snapshot.history, snapshot.entries, limits))
    return data


def last_batch(
    policy: Policy, seed: int, history: History, entries: Sequence[LedgerEntry], limits: Limits
) -> LastBatch | None:
    """Return the last batch that a method chose, and ask the method for it once more; None if it chose none.

    Trials of users, and the one that confirms the recommendation, were not chosen by the method.
    """
    chosen = [entry for entry in entries if entry.batch is not None and not _is_foreign(entry.trial.query)]
    if not chosen or (history.problem.feasible is not None and history.problem.feasible.function is None):
        return None
    batch = [entry for entry in chosen if entry.batch == chosen[-1].batch]
    asked = within_limits(policy, limits, history_before(history, entries, batch))
    if not isinstance(asked, Explaining):
        return None
    choices, _ = asked.explain(seed, history_before(history, entries, batch), len(batch))
    numbers = tuple(entry.trial.number for entry in batch)
    return LastBatch(numbers, tuple(choices), _are_the_same(choices, [entry.trial.query for entry in batch], history))


def history_before(history: History, entries: Sequence[LedgerEntry], batch: Sequence[LedgerEntry]) -> History:
    """Return what was known when a batch was chosen, as far as the record tells.

    The record does not hold when a trial was planned. A trial that ended after the batch began is taken as in flight.
    """
    begun = min((entry.begun for entry in batch if entry.begun is not None), default=None)

    def then(entry: LedgerEntry) -> TrialRecord:
        is_later = begun is not None and entry.ended is not None and entry.ended > begun
        return replace(entry.trial, outcome=None) if is_later else entry.trial

    return replace(history, trials=tuple(then(entry) for entry in entries[: batch[0].trial.number]))


def _recommendation(policy: Policy, seed: int, history: History, carry: Any) -> tuple[Recommendation | None, Any]:
    """Return what the policy recommends; None if it recommends nothing, or if its fit fails."""
    if not isinstance(policy, Recommending) or history.problem.objectives:
        return None, carry
    if not history.done or (history.at_top and history.best is None):
        return None, carry
    try:
        return policy.recommendation(seed, history, carry)
    except (ArithmeticError, ValueError, RuntimeError) as error:  # NumPy's, SciPy's and XLA's are all of these
        logger.warning("the report does without a recommendation: %s", error)
        return None, carry


def _is_foreign(query: Query) -> bool:
    return ADDED in query.tag or CONFIRMS in query.tag


def _are_the_same(choices: Sequence[Choice], queries: Sequence[Query], history: History) -> bool:
    space = history.problem.space
    # As the ledger has the points, which may differ in the last digits from those of the method.
    again = [(space.encode(space.decode(choice.query.unit)), choice.query.level) for choice in choices]
    return len(again) == len(queries) and all(
        level == query.level and same_configuration(unit, query.unit)
        for (unit, level), query in zip(again, queries, strict=True)
    )
