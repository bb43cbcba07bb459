"""Write the trials of one study into Optuna's tables of an SQLite or PostgreSQL database.

Optuna's own calls read whole trials as objects and commit every attribute. Here every step of the ledger is one
transaction of a few statements, and reading fetches what may have changed. The rows are those that Optuna writes.
"""

import json
import uuid
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from optuna.distributions import distribution_to_json
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import BaseStorage, RDBStorage
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy import Connection, Table, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from bmbo.ledger.attribute_keys import OWNER, WRITE_KEY
from bmbo.ledger.database_reading import CHUNK, UNFINISHED, DatabaseReader, chunks, reading
from bmbo.ledger.ledger_entries import StoredTrial
from bmbo.ledger.optuna_private import optuna_tables, wrapped_backend
from bmbo.ledger.outages import with_retries
from bmbo.ledger.sqlite_files import DURABLE
from bmbo.ledger.trial_store import AnyStorage, Attributes, Changes, Ending, TrialStore

DIALECTS = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}


class DatabaseTrials:
    """Keep the trials of a study in a database; see `TrialStore` for the methods.

    Args:
        storage: the database, whose dialect is one of `DIALECTS`.
        study_id: the study.
    """

    writes_batches = True

    def __init__(self, storage: RDBStorage, study_id: int) -> None:
        self._engine = storage.engine
        self._study_id = study_id
        self._tables = optuna_tables()
        self._reader = DatabaseReader(storage.engine, study_id)
        self._upserts: dict[str, Any] = {}

    def changes(self) -> Changes:
        """See `TrialStore`."""
        return with_retries(self._reader.changes)

    def trial(self, trial_id: int) -> StoredTrial:
        """See `TrialStore`."""
        return with_retries(lambda: self._reader.trial(trial_id))

    def create(self, templates: Sequence[FrozenTrial], term: int | None = None, after: int | None = None) -> list[int]:
        """See `TrialStore`."""
        if not templates:
            return []
        rows = [(template, template.system_attrs.get(WRITE_KEY) or uuid.uuid4().hex) for template in templates]
        tried = False

        def write() -> list[int]:
            nonlocal tried
            durable = any(template.state.is_finished() for template in templates)
            with self._writing(durable) as connection:
                self._lock_study(connection)
                # The answer to the first try may have been lost.
                written = self._numbers(connection, [key for _, key in rows]) if tried else []
                tried = True
                if written:
                    return written
                if term is not None and self._state(connection, term, lock=True) != TrialState.RUNNING:
                    return []
                first = self._first_free(connection)
                return [] if after is not None and first > after else self._insert(connection, rows, first)

        return with_retries(write)

    def state(self, trial_id: int) -> TrialState:
        """See `TrialStore`."""
        return with_retries(lambda: self._reader.state(trial_id))

    def oldest(self, states: Sequence[TrialState]) -> StoredTrial | None:
        """See `TrialStore`."""
        return with_retries(lambda: self._reader.oldest(states))

    def study_attributes(self) -> Mapping[str, Any]:
        """See `TrialStore`."""
        return with_retries(self._reader.study_attributes)

    def is_bare(self) -> bool:
        """See `TrialStore`."""
        return with_retries(self._reader.is_bare)

    def claim(self, candidates: Sequence[int], attributes: Attributes) -> int | None:
        """See `TrialStore`; a trial that another process is just about to take is passed over."""
        trials, tried = self._tables.trials, False
        waits = trials.c.state == TrialState.WAITING
        first = select(trials.c.trial_id).where(trials.c.trial_id.in_(candidates[:CHUNK]), waits)
        first = first.order_by(trials.c.trial_id).limit(1).with_for_update(skip_locked=True)
        begins = update(trials).where(trials.c.trial_id == first.scalar_subquery(), waits).returning(trials.c.trial_id)

        def take() -> int | None:
            nonlocal tried
            with self._writing() as connection:
                # The answer to the first try may have been lost.
                taken = self._taken(connection, candidates, attributes) if tried else None
                tried = True
                if taken is None:
                    now = begins.values(state=TrialState.RUNNING, datetime_start=_now())
                    taken = connection.execute(now).scalar()
                    if taken is not None:
                        self._put(connection, taken, attributes(taken))
                return taken

        return with_retries(take)

    def note(self, trial_id: int, attributes: Mapping[str, Any]) -> None:
        """See `TrialStore`."""

        def write() -> None:
            with self._writing() as connection:
                if self._state(connection, trial_id, lock=True) not in UNFINISHED:
                    raise UpdateFinishedTrialError(f"trial {trial_id} has ended")
                self._put(connection, trial_id, attributes)

        with_retries(write)

    def requeue(self, trial_id: int, owner: str | None, attributes: Mapping[str, Any]) -> None:
        """See `TrialStore`."""
        trials = self._tables.trials

        def write() -> None:
            with self._writing() as connection:
                self._state(connection, trial_id, lock=True)
                if self._is_run_by(connection, trial_id, owner):
                    waits = update(trials).where(trials.c.trial_id == trial_id).values(state=TrialState.WAITING)
                    connection.execute(waits)
                    self._put(connection, trial_id, {OWNER: None, **attributes})

        with_retries(write)

    def end(self, trial_id: int, ending: Ending) -> None:
        """See `TrialStore`."""
        trials = self._tables.trials
        runs = (trials.c.trial_id == trial_id) & trials.c.state.in_(UNFINISHED)

        def write() -> None:
            # Terms of office, which have nothing more to say, need not outlive a loss of power.
            with self._writing(durable=bool(ending.attributes)) as connection:
                ends = update(trials).where(runs).values(state=ending.state, datetime_complete=_now())
                if not connection.execute(ends).rowcount:
                    raise UpdateFinishedTrialError(f"trial {trial_id} has ended")
                self._put(connection, trial_id, ending.attributes)
                rows = _attribute_rows(trial_id, ending.system)
                self._upsert(connection, self._tables.system_attributes, ("trial_id", "key"), rows)
                if ending.values:
                    steps = {} if ending.step is None else {ending.step: ending.values[0]}
                    self._put_values(connection, [(trial_id, ending.values, steps)])

        with_retries(write)

    # Inside a transaction.

    def _state(self, connection: Connection, trial_id: int, *, lock: bool = False) -> TrialState | None:
        trials = self._tables.trials
        asked = select(trials.c.state).where(trials.c.trial_id == trial_id)
        return connection.execute(asked.with_for_update() if lock else asked).scalar()

    def _is_run_by(self, connection: Connection, trial_id: int, owner: object) -> bool:
        table = self._tables.attributes
        is_owner = (table.c.trial_id == trial_id) & (table.c.key == OWNER)
        text = connection.execute(select(table.c.value_json).where(is_owner)).scalar()
        runs = self._state(connection, trial_id) == TrialState.RUNNING
        return runs and (None if text is None else json.loads(text)) == owner

    def _taken(self, connection: Connection, candidates: Sequence[int], attributes: Attributes) -> int | None:
        """Return which of some trials runs for the owner that would take it now."""
        mine = (each for each in candidates if self._is_run_by(connection, each, attributes(each).get(OWNER)))
        return next(mine, None)

    def _lock_study(self, connection: Connection) -> None:
        """Let only one process at a time write new trials of the study, so that their numbers follow each other."""
        studies = self._tables.studies
        own = select(studies.c.study_id).where(studies.c.study_id == self._study_id).with_for_update()
        if connection.execute(own).scalar() is None:
            raise KeyError(f"there is no study with the id {self._study_id}")

    def _numbers(self, connection: Connection, keys: Sequence[str]) -> list[int]:
        """Return the numbers of the trials that were written with these keys."""
        trials, table = self._tables.trials, self._tables.system_attributes
        texts = [json.dumps(key) for key in keys]
        found: list[int] = []
        for some in chunks(texts):
            by_key = (table.c.key == WRITE_KEY) & table.c.value_json.in_(some)
            joined = select(trials.c.number).join(table, table.c.trial_id == trials.c.trial_id)
            found += connection.execute(joined.where(trials.c.study_id == self._study_id, by_key)).scalars()
        return sorted(found)

    def _first_free(self, connection: Connection) -> int:
        """Return the number of the next trial of the study."""
        trials = self._tables.trials
        newest = select(trials.c.number).where(trials.c.study_id == self._study_id)
        last = connection.execute(newest.order_by(trials.c.trial_id.desc()).limit(1)).scalar()
        return 0 if last is None else last + 1

    def _insert(self, connection: Connection, rows: Sequence[tuple[FrozenTrial, str]], first: int) -> list[int]:
        tables, trials = self._tables, self._tables.trials
        heads = [
            {
                "number": first + place,
                "study_id": self._study_id,
                "state": template.state,
                "datetime_start": _stored_time(template.datetime_start),
                "datetime_complete": _stored_time(template.datetime_complete),
            }
            for place, (template, _) in enumerate(rows)
        ]
        made = connection.execute(insert(trials).returning(trials.c.number, trials.c.trial_id), heads)
        ids = {row.number: row.trial_id for row in made}
        params: list[dict[str, Any]] = []
        attributes: list[dict[str, Any]] = []
        system: list[dict[str, Any]] = []
        outcomes: list[tuple[int, Sequence[float], Mapping[int, float]]] = []
        for place, (template, key) in enumerate(rows):
            trial_id = ids[first + place]
            params += [
                {
                    "trial_id": trial_id,
                    "param_name": name,
                    "param_value": template.distributions[name].to_internal_repr(value),
                    "distribution_json": distribution_to_json(template.distributions[name]),
                }
                for name, value in template.params.items()
            ]
            attributes += _attribute_rows(trial_id, template.user_attrs)
            system += _attribute_rows(trial_id, {**template.system_attrs, WRITE_KEY: key})
            if template.values:
                outcomes.append((trial_id, template.values, template.intermediate_values))
        for table, new in (
            (tables.params, params),
            (tables.attributes, attributes),
            (tables.system_attributes, system),
        ):
            if new:
                connection.execute(insert(table), new)
        self._put_values(connection, outcomes)
        return sorted(ids)

    def _put(self, connection: Connection, trial_id: int, attributes: Mapping[str, Any]) -> None:
        """Write attributes of a trial, in place of those with the same keys."""
        self._upsert(connection, self._tables.attributes, ("trial_id", "key"), _attribute_rows(trial_id, attributes))

    def _put_values(
        self, connection: Connection, outcomes: Iterable[tuple[int, Sequence[float], Mapping[int, float]]]
    ) -> None:
        """Write values of trials and their intermediate values by step; all are finite."""
        finals: list[dict[str, Any]] = []
        steps: list[dict[str, Any]] = []
        for trial_id, values, shown in outcomes:
            finals += [
                {"trial_id": trial_id, "objective": place, "value": value, "value_type": "FINITE"}
                for place, value in enumerate(values)
            ]
            steps += [
                {"trial_id": trial_id, "step": step, "intermediate_value": each, "intermediate_value_type": "FINITE"}
                for step, each in shown.items()
            ]
        self._upsert(connection, self._tables.values, ("trial_id", "objective"), finals)
        self._upsert(connection, self._tables.intermediate_values, ("trial_id", "step"), steps)

    def _upsert(
        self, connection: Connection, table: Table, keys: Sequence[str], rows: Sequence[dict[str, Any]]
    ) -> None:
        if not rows:
            return
        statement = self._upserts.get(table.name)
        if statement is None:
            new = DIALECTS[self._engine.dialect.name](table)
            changed = {name: new.excluded[name] for name in rows[0] if name not in keys}
            statement = self._upserts[table.name] = new.on_conflict_do_update(index_elements=list(keys), set_=changed)
        connection.execute(statement, list(rows))

    # Transactions.

    @contextmanager
    def _writing(self, durable: bool = False) -> Generator[Connection, None, None]:
        """Make a transaction; one that is durable outlives a loss of power as soon as it has ended."""
        with self._engine.connect().execution_options(**{DURABLE: durable}) as connection, connection.begin():
            yield connection


def store_of(storage: BaseStorage, study_id: int) -> TrialStore:
    """Return how the trials of a study are read and written in a storage."""
    backend = wrapped_backend(storage)
    if isinstance(backend, RDBStorage) and backend.engine.dialect.name in DIALECTS:
        return DatabaseTrials(backend, study_id)
    return AnyStorage(storage, study_id)


def study_id_of(storage: BaseStorage, name: str) -> int:
    """Return the id of a study, and raise KeyError if there is none; Optuna's own look waits for who writes."""
    backend = wrapped_backend(storage)
    if not isinstance(backend, RDBStorage) or backend.engine.dialect.name not in DIALECTS:
        return with_retries(lambda: storage.get_study_id_from_name(name))
    studies = optuna_tables().studies

    def read() -> int | None:
        with reading(backend.engine) as connection:
            return connection.execute(select(studies.c.study_id).where(studies.c.study_name == name)).scalar()

    found = with_retries(read)
    if found is None:
        raise KeyError(name)
    return found


def _attribute_rows(trial_id: int, attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"trial_id": trial_id, "key": key, "value_json": json.dumps(value)} for key, value in attributes.items()]


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)


def _stored_time(moment: datetime | None) -> datetime | None:
    """Return a local time as Optuna stores it: in UTC."""
    return None if moment is None else moment.astimezone(UTC).replace(tzinfo=None)
