"""Write new trials into the ledger: planned, asked for, queued, or run elsewhere."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from optuna.trial import FrozenTrial

from bmbo.history import History, Outcome, Query
from bmbo.ledger import attribute_keys as keys
from bmbo.ledger import stored_trials as mapping
from bmbo.ledger.damage import tells_of_damage, tells_of_failed_writing
from bmbo.ledger.ledger_entries import ASKED
from bmbo.ledger.optuna_private import enqueued_params
from bmbo.ledger.outages import with_retries
from bmbo.ledger.owners import Owner
from bmbo.ledger.planner_lease import PlannerLease
from bmbo.ledger.readable_ledger import ReadableLedger
from bmbo.ledger.writing_once import write_if
from bmbo.problem import Number

ROWS_AT_ONCE = 500
"""How many old results a database takes in one transaction: other processes wait for less than a second."""


class PlannedLedger(ReadableLedger):
    """Write new trials; the ledger is consistent after each step."""

    def lease(self, owner: Owner, grace: Number) -> PlannerLease:
        """Return the right to plan this study, not taken yet."""
        return PlannerLease(self.storage, self.name, owner, grace)

    @tells_of_failed_writing
    def plan(
        self, batch: int, queries: Sequence[Query], permitted: Callable[[], bool], term: int | None = None
    ) -> None:
        """Write a new batch of waiting trials.

        A database writes all of it or nothing. In other storages, `complete_plan` writes the rest if this process dies
        before the end.

        Args:
            batch: the number of the batch.
            queries: what the trials run.
            permitted: returns whether this process may still plan.
            term: the term of office of this planner. If it has ended, databases and journals write nothing, also if
                the planner stood still after it was permitted.
        """
        # Checked before anything is written: a planner that was replaced meanwhile must leave no plan behind.
        if not permitted():
            return
        if self._trials.writes_batches:
            self._trials.create(self._batch(batch, queries), term)
            return
        described = [{"params": self._params(query), "level": query.level, "tag": dict(query.tag)} for query in queries]
        # A single trial needs no plan, because a storage writes it wholly or not at all.
        if len(described) > 1:
            plan = {"batch": batch, "queries": described}
            with_retries(lambda: self.storage.set_study_user_attr(self._study_id, keys.PLAN, plan))
        self._write(batch, queries, permitted, term, stored=0)

    @tells_of_damage
    def complete_plan(self, permitted: Callable[[], bool], term: int | None = None) -> None:
        """Write the missing trials of the last batch, in case its planner died while it wrote them; see `plan`."""
        plan = self._trials.study_attributes().get(keys.PLAN)
        if plan is None:
            return
        queries = [
            Query(self.problem.space.encode(query["params"]), query["level"], query["tag"]) for query in plan["queries"]
        ]
        self._write(plan["batch"], queries, permitted, term, stored=None)

    @tells_of_failed_writing
    def add(
        self,
        query: Query,
        outcome: Outcome | None = None,
        *,
        owner: str | None = None,
        duplicate_of: int | None = None,
        retry_of: int | None = None,
        told_by: str | None = None,
        params: Mapping[str, Any] | None = None,
        resume_from: int | None = None,
    ) -> int:
        """Write one trial in one step and return its number.

        The trial is finished if it has an outcome, running if it has an owner, and waiting otherwise.

        Args:
            query: what the trial runs.
            outcome: its result.
            owner: the process that runs it.
            duplicate_of: the number of the trial that it repeats.
            retry_of: the number of the failed trial that it runs again.
            told_by: the attempt that gave the outcome.
            params: the configuration, if it is to be kept more exactly than the query can say it.
            resume_from: the number of the trial whose checkpoint it continues.

        Raises:
            ValueError: The query or the outcome does not fit the problem.
        """
        checked = History(self.problem).asked(query)
        if outcome is not None:
            checked.with_outcome(0, outcome)
        attributes = {
            keys.OWNER: owner,
            keys.DUPLICATE_OF: duplicate_of,
            keys.RETRY_OF: retry_of,
            keys.TOLD_BY: told_by,
            keys.RESUME_FROM: resume_from,
        }
        extra = {key: value for key, value in attributes.items() if value is not None}
        exact = self._params(query) if params is None else params
        (number,) = self._trials.create([mapping.trial_template(self.problem, query, extra, outcome, exact)])
        return number

    @tells_of_failed_writing
    def add_asked(self, queries: Sequence[Query], resume_from: Sequence[int | None], after: int | None) -> list[int]:
        """Write trials that a user asked for, and return their numbers.

        Args:
            queries: what the trials run.
            resume_from: for each, the number of the trial whose checkpoint it continues.
            after: how many trials the study had when the queries were chosen; if it has more by now, databases write
                nothing, and journals no more. None to write in any case.
        """
        templates: list[FrozenTrial] = []
        for query, source in zip(queries, resume_from, strict=True):
            History(self.problem).asked(query)
            extra = {keys.OWNER: ASKED} | ({} if source is None else {keys.RESUME_FROM: source})
            templates.append(mapping.trial_template(self.problem, query, extra, params=self._params(query)))
        return self._trials.create(templates, after=after)

    @tells_of_failed_writing
    def add_rows(self, rows: Sequence[tuple[str, Query, Outcome]]) -> list[int]:
        """Write old results that are not there yet, and return the numbers of the trials that hold them.

        Args:
            rows: a key of its own, the query and the outcome of each. A row whose key is there already is not written,
                unless its trial was dropped.
        """
        entries = self.read().entries
        known = {entry.imported: entry.trial.number for entry in entries if entry.imported and entry.state != "dropped"}
        missing = [row for row in rows if row[0] not in known]
        for first in range(0, len(missing), ROWS_AT_ONCE):
            some = missing[first : first + ROWS_AT_ONCE]
            templates = [
                mapping.trial_template(self.problem, query, {keys.IMPORTED: key}, outcome)
                for key, query, outcome in some
            ]
            numbers = self._trials.create(templates)
            known.update(zip((key for key, _, _ in some), numbers, strict=True))
        return [known[key] for key, _, _ in rows]

    def _write(
        self,
        batch: int,
        queries: Sequence[Query],
        permitted: Callable[[], bool],
        term: int | None,
        *,
        stored: int | None,
    ) -> None:
        """Write the trials of a batch that are not stored yet, one by one, while this process may plan.

        Args:
            batch: the number of the batch.
            queries: all queries of the batch.
            permitted: returns whether this process may still plan.
            term: of this planner.
            stored: how many trials of the batch are stored already; None if this must be counted.
        """
        trials = self._batch(batch, queries)

        def next_one() -> bool:
            nonlocal stored
            # Unknown also after an error, because the storage may have written the trial before it failed.
            place = sum(entry.batch == batch for entry in self.read().entries) if stored is None else stored
            stored = None
            if place >= len(trials) or not permitted():
                return False
            written = write_if(self.storage, self._study_id, trials[place], term, None)
            stored = place + 1
            return written is not None

        while with_retries(next_one):
            pass

    def _batch(self, batch: int, queries: Sequence[Query]) -> list[FrozenTrial]:
        extra = {keys.BATCH: batch}
        return [mapping.trial_template(self.problem, each, extra, params=self._params(each)) for each in queries]

    def _params(self, query: Query) -> Mapping[str, Any]:
        """Return the configuration of a query; where training continues, to the last digit that of a known trial.

        A point that is decoded and encoded again may differ in its last digits, and would not be the same point then.
        """
        known = self.read().entries if self.problem.continues else ()
        same = next((entry for entry in known if entry.trial.query.unit == query.unit), None)
        if same is None:
            return self.problem.space.decode(query.unit)
        stored = with_retries(lambda: self.storage.get_trial(same.trial_id))
        return stored.params or enqueued_params(stored)
