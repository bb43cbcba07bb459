"""Read what has changed among the trials of one study in Optuna's tables of a database."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from optuna.distributions import BaseDistribution, json_to_distribution
from optuna.trial import TrialState
from sqlalchemy import Connection, Engine, Table, exists, or_, select

from bmbo.ledger.attribute_keys import WRITE_KEY
from bmbo.ledger.ledger_entries import StoredTrial
from bmbo.ledger.optuna_private import ENQUEUED, optuna_tables
from bmbo.ledger.sqlite_files import READS
from bmbo.ledger.trial_store import Changes

CHUNK = 500
"""Trials that one statement names: SQLite allows 999 parameters in older versions."""

MANY = 2000
"""From so many trials on, their rows are fetched by the range of their ids."""

INFINITIES = {"INF_POS": math.inf, "INF_NEG": -math.inf}
"""What Optuna stores in words in place of a number."""

UNFINISHED = (TrialState.WAITING, TrialState.RUNNING)


class DatabaseReader:
    """Read the trials of a study; each trial that has ended is read once.

    Args:
        engine: of the database.
        study_id: the study.
    """

    def __init__(self, engine: Engine, study_id: int) -> None:
        self._engine = engine
        self._study_id = study_id
        self._tables = optuna_tables()
        self._last_id = -1
        # The trials that had not ended at the last look.
        self._open: dict[int, StoredTrial] = {}
        self._attribute_rows: list[tuple[str, str]] | None = None
        self._attributes: Mapping[str, Any] = {}
        self._distributions: dict[str, BaseDistribution] = {}

    def trial(self, trial_id: int) -> StoredTrial:
        """Return one trial as it is now."""
        with reading(self._engine) as connection:
            (found,) = self._details(connection, self._heads(connection, [trial_id]))
        return found

    def state(self, trial_id: int) -> TrialState:
        """Return the state of one trial as it is now."""
        trials = self._tables.trials
        with reading(self._engine) as connection:
            return connection.execute(select(trials.c.state).where(trials.c.trial_id == trial_id)).scalar_one()

    def oldest(self, states: Sequence[TrialState]) -> StoredTrial | None:
        """Return the oldest trial that is in one of some states; None if there is none."""
        trials = self._tables.trials
        some = _heads(trials).where(trials.c.study_id == self._study_id, trials.c.state.in_(states))
        with reading(self._engine) as connection:
            row = connection.execute(some.order_by(trials.c.trial_id).limit(1)).first()
            return None if row is None else self._details(connection, [row])[0]

    def study_attributes(self) -> Mapping[str, Any]:
        """Return the attributes of the study as they are now."""
        with reading(self._engine) as connection:
            return {key: json.loads(text) for key, text in self._study_attributes(connection)}

    def is_bare(self) -> bool:
        """Return whether the study has no attributes, and its trials neither parameters nor values."""
        tables, trials = self._tables, self._tables.trials
        system = tables.system_attributes
        own = select(trials.c.trial_id).where(trials.c.study_id == self._study_id)
        held = (
            tables.params.c.trial_id.in_(own),
            tables.values.c.trial_id.in_(own),
            system.c.trial_id.in_(own) & (system.c.key != WRITE_KEY),
            tables.study_attributes.c.study_id == self._study_id,
        )
        with reading(self._engine) as connection:
            return not connection.execute(select(or_(*(exists().where(each) for each in held)))).scalar_one()

    def changes(self) -> Changes:
        """Return what has changed since the last call; at the first call all."""
        trials = self._tables.trials
        with reading(self._engine) as connection:
            rows = self._study_attributes(connection)
            if not rows:
                raise KeyError(f"there is no study with the id {self._study_id}; was it deleted?")
            is_new = (trials.c.study_id == self._study_id) & (trials.c.trial_id > self._last_id)
            new = list(connection.execute(_heads(trials).where(is_new).order_by(trials.c.trial_id)))
            moved = self._moved(connection)
            found = self._details(connection, [*moved, *new])
        changed = [each for each in found if self._open.get(each.trial_id) != each]
        for each in found:
            self._last_id = max(self._last_id, each.trial_id)
            if each.state in UNFINISHED:
                self._open[each.trial_id] = each
            else:
                self._open.pop(each.trial_id, None)
        if rows != self._attribute_rows:
            self._attribute_rows, self._attributes = rows, {key: json.loads(text) for key, text in rows}
        return Changes(self._attributes, sorted(changed, key=lambda each: each.number))

    def _study_attributes(self, connection: Connection) -> list[tuple[str, str]]:
        table = self._tables.study_attributes
        own = select(table.c.key, table.c.value_json).where(table.c.study_id == self._study_id)
        return [(key, text) for key, text in connection.execute(own)]

    def _moved(self, connection: Connection) -> list[Any]:
        """Return the rows of known trials that have not ended as far as is known, and that may have changed since."""
        trials = self._tables.trials
        queued = [each.trial_id for each in self._open.values() if _is_queued(each.state, each.begun)]
        named = self._open.keys() if len(queued) < CHUNK else self._open.keys() - set(queued)
        rows = self._heads(connection, list(named))
        if len(named) < len(self._open):
            # Of many that wait, only those come back that wait no more: a queue is not read again for each trial.
            ranged = (trials.c.study_id == self._study_id) & trials.c.trial_id.between(min(queued), self._last_id)
            waits = (trials.c.state == TrialState.WAITING) & trials.c.datetime_start.is_(None)
            rows += [row for row in connection.execute(_heads(trials).where(ranged, ~waits)) if row[0] in self._open]
        moved = {row.trial_id: row for row in rows}.values()
        return [row for row in moved if row.state == TrialState.RUNNING or not _same(row, self._open[row.trial_id])]

    def _heads(self, connection: Connection, ids: Sequence[int]) -> list[Any]:
        """Return the rows of trials with these ids."""
        trials = self._tables.trials
        found: list[Any] = []
        for some in chunks(ids):
            found += connection.execute(_heads(trials).where(trials.c.trial_id.in_(some)))
        return found

    def _details(self, connection: Connection, heads: Sequence[Any]) -> list[StoredTrial]:
        """Return trials with all that belongs to them."""
        tables, ids = self._tables, [row.trial_id for row in heads]
        # The parameters of a trial never change.
        known = {each: self._open.get(each) for each in ids}
        params = {each: {} if trial is None else dict(trial.params) for each, trial in known.items()}
        attributes: dict[int, dict[str, Any]] = {each: {} for each in ids}
        values: dict[int, dict[int, float]] = {each: {} for each in ids}
        unknown = [each for each in ids if not params[each]]
        for place, name, value, text in self._rows(connection, tables.params, unknown):
            params[place][name] = self._distribution(text).to_external_repr(value)
        for place, key, text in self._rows(connection, tables.attributes, ids):
            attributes[place][key] = json.loads(text)
        ended = [row.trial_id for row in heads if row.state not in UNFINISHED]
        for place, value, kind, objective in self._rows(connection, tables.values, ended):
            found = INFINITIES.get(kind.name, value)
            if found is not None:
                values[place][objective] = found
        bare = [each for each in ids if not params[each]]
        for place, key, text in self._rows(connection, tables.system_attributes, bare):
            if key == ENQUEUED:
                params[place] = json.loads(text)
        return [
            StoredTrial(
                row.number,
                row.trial_id,
                row.state,
                params[row.trial_id],
                attributes[row.trial_id],
                tuple(values[row.trial_id][place] for place in sorted(values[row.trial_id])),
                _local(row.datetime_start),
                _local(row.datetime_complete),
            )
            for row in heads
        ]

    def _rows(self, connection: Connection, table: Table, ids: Sequence[int]) -> Iterable[Any]:
        """Yield the rows of trials in a table: the id of the trial, then the columns that the ledger reads."""
        columns = [table.c[name] for name in self._tables.read_columns[table.name]]
        if len(ids) < MANY:
            for some in chunks(ids):
                yield from connection.execute(select(*columns).where(table.c.trial_id.in_(some))).all()
            return
        trials, wanted = self._tables.trials, set(ids)
        ranged = (trials.c.study_id == self._study_id) & (trials.c.trial_id >= min(ids))
        within = select(*columns).where(table.c.trial_id.in_(select(trials.c.trial_id).where(ranged)))
        for row in connection.execute(within).all():
            if row[0] in wanted:
                yield row

    def _distribution(self, text: str) -> BaseDistribution:
        known = self._distributions.get(text)
        if known is None:
            known = self._distributions[text] = json_to_distribution(text)
        return known


def reading(engine: Engine) -> Connection:
    """Return a connection, to be closed, whose transactions only read."""
    return engine.connect().execution_options(**{READS: True})


def _heads(trials: Table) -> Any:
    columns = trials.c
    return select(columns.trial_id, columns.number, columns.state, columns.datetime_start, columns.datetime_complete)


def _is_queued(state: TrialState, begun: datetime | None) -> bool:
    """Return whether a trial waits and has never run."""
    return state == TrialState.WAITING and begun is None


def _same(row: Any, known: StoredTrial) -> bool:
    """Return whether a trial that does not run is as it was: every claim writes the time of its start."""
    return row.state == known.state and _local(row.datetime_start) == known.begun


def chunks(items: Sequence[Any]) -> Iterable[Sequence[Any]]:
    """Return the items in parts that one statement can name."""
    return (items[place : place + CHUNK] for place in range(0, len(items), CHUNK))


def _local(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.replace(tzinfo=UTC).astimezone().replace(tzinfo=None)
