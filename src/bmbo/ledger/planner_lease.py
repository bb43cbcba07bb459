"""Let one process at a time plan a study.

The right to plan is kept as terms of office: trials of a second study in the same storage.
"""

import contextlib
import time
from collections.abc import Callable
from functools import cached_property

import optuna
from optuna.exceptions import DuplicatedStudyError, UpdateFinishedTrialError
from optuna.storages import BaseStorage
from optuna.study import StudyDirection
from optuna.trial import TrialState

from bmbo.ledger.allowed_names import LEASE_ENDING, lease_name
from bmbo.ledger.attribute_keys import BEAT, OWNER
from bmbo.ledger.database_reading import UNFINISHED
from bmbo.ledger.database_trials import store_of, study_id_of
from bmbo.ledger.ledger_entries import StoredTrial
from bmbo.ledger.outages import with_retries
from bmbo.ledger.owners import Owner, SilenceWatch, is_dead
from bmbo.ledger.storages import quiet_optuna
from bmbo.ledger.trial_store import Ending, TrialStore
from bmbo.problem import Number


class PlannerLease:
    """Hold the right to plan a study, for one process at a time.

    The planner is the owner of the first term that has not ended. A term begins as a waiting trial, runs while its
    owner plans, and is finished when it ends. Two planners never hold the lease together, for three reasons: a storage
    lets only one caller claim a waiting trial, a finished trial never runs again, and a process claims a term only
    after it has seen that all earlier terms have ended.

    No library is used for this, because the lock must live in the storage that the processes share, and must pass to
    another process when its holder dies.

    Args:
        storage: where the study is kept.
        study_name: the study that is planned.
        owner: the process that asks for the lease.
        grace: seconds without a sign of life after which a planner is replaced.
        clock: returns the time of this process in seconds.
    """

    def __init__(
        self,
        storage: BaseStorage,
        study_name: str,
        owner: Owner,
        grace: Number,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._storage = storage
        self._name = lease_name(study_name)
        self._owner = owner
        self._watch = SilenceWatch(grace, clock)
        self._term: int | None = None
        self._beats = 0

    @property
    def believed(self) -> bool:
        """Return whether this process took the lease and has not noticed its loss; `held` asks the storage."""
        return self._term is not None

    def acquire(self) -> bool:
        """Take the lease if it is free or its holder is gone; return whether this process holds it now."""
        if self._term is not None:
            return True
        # A term may have to be ended, and another one made, before one can be claimed.
        for _ in range(3):
            term = self._terms.oldest(UNFINISHED)
            if term is None:
                self._terms.create([optuna.trial.create_trial(state=TrialState.WAITING)])
            elif term.state == TrialState.WAITING:
                return self._claim(term)
            elif self._is_abandoned(term):
                self._end(term.trial_id, TrialState.FAIL)
            else:
                return False
        return False

    def is_free(self) -> bool:
        """Return whether no process plans now."""
        return self._terms.oldest((TrialState.RUNNING,)) is None

    @property
    def term(self) -> int | None:
        """Return the id of the term that this process believes to hold, or None."""
        return self._term

    def held(self) -> bool:
        """Return whether this process still holds the lease according to the storage."""
        if self._term is None:
            return False
        if self._terms.state(self._term) != TrialState.RUNNING:
            self._term = None
        return self._term is not None

    def beat(self) -> None:
        """Write a sign of life into the storage, if this process holds the lease."""
        term = self._term
        if term is None:
            return
        self._beats += 1
        try:
            self._terms.note(term, {BEAT: self._beats})
        except UpdateFinishedTrialError:
            self._term = None

    def release(self) -> None:
        """Give the lease back, so that another process can plan at once."""
        if self._term is None:
            return
        term = self._term
        self._term = None
        self._end(term, TrialState.PRUNED)

    def _claim(self, term: StoredTrial) -> bool:
        self._term = self._terms.claim([term.trial_id], lambda _: {OWNER: self._owner.text})
        return self._term is not None

    def _is_abandoned(self, term: StoredTrial) -> bool:
        attributes = term.attributes
        silent = self._watch.is_silent(term.number, (attributes.get(OWNER), attributes.get(BEAT)))
        return silent or is_dead(attributes.get(OWNER))

    def _end(self, term: int, state: TrialState) -> None:
        with contextlib.suppress(UpdateFinishedTrialError):
            self._terms.end(term, Ending(state, (), None, {}))

    @cached_property
    def _terms(self) -> TrialStore:
        """Return the study that holds the terms; make it if it does not exist."""
        try:
            study_id = study_id_of(self._storage, self._name)
        except KeyError:
            with quiet_optuna(), contextlib.suppress(DuplicatedStudyError):
                with_retries(lambda: self._storage.create_new_study([StudyDirection.MINIMIZE], self._name))
            study_id = study_id_of(self._storage, self._name)
        terms = store_of(self._storage, study_id)
        if not terms.is_bare():
            raise ValueError(
                f"the storage has a study {self._name!r} with results of its own, but under this name must be kept who "
                f"plans the study {self._name.removesuffix(LEASE_ENDING)!r}: copy one of the two to another name or "
                "storage"
            )
        return terms


def current_term(storage: BaseStorage, study_name: str) -> StoredTrial | None:
    """Return the term of the process that plans a study now, or None if no process does; change nothing."""
    try:
        study_id = study_id_of(storage, lease_name(study_name))
    except KeyError:
        # No process has ever planned this study.
        return None
    return store_of(storage, study_id).oldest((TrialState.RUNNING,))


def delete_terms(storage: BaseStorage, study_name: str) -> None:
    """Delete the record of who planned a study, if there is one."""
    with contextlib.suppress(KeyError):
        study_id = study_id_of(storage, lease_name(study_name))
        if store_of(storage, study_id).is_bare():
            with_retries(lambda: storage.delete_study(study_id))
