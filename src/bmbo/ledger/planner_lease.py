"""Let one process at a time plan a study.

The right to plan is kept as terms of office: trials of a second study in the same storage.
"""

import contextlib
import time
from collections.abc import Callable

import optuna
from optuna.exceptions import DuplicatedStudyError, UpdateFinishedTrialError
from optuna.storages import BaseStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from bmbo.ledger.allowed_names import LEASE_ENDING, lease_name
from bmbo.ledger.attribute_keys import BEAT, OWNER
from bmbo.ledger.database_trials import state_of
from bmbo.ledger.optuna_private import trial_id
from bmbo.ledger.outages import with_retries
from bmbo.ledger.owners import Owner, SilenceWatch, is_dead
from bmbo.ledger.storages import quiet_optuna
from bmbo.ledger.writing_once import claim_once
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
        self._study_id: int | None = None
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
            study_id = with_retries(self._study)
            term = _first_term(self._storage, study_id, (TrialState.WAITING, TrialState.RUNNING))
            if term is None:
                template = optuna.trial.create_trial(state=TrialState.WAITING)
                with_retries(lambda template=template: self._storage.create_new_trial(self._study(), template))
            elif term.state == TrialState.WAITING:
                return self._claim(term)
            elif self._is_abandoned(term):
                self._end(term)
            else:
                return False
        return False

    @property
    def term(self) -> int | None:
        """Return the id of the term that this process believes to hold, or None."""
        return self._term

    def held(self) -> bool:
        """Return whether this process still holds the lease according to the storage."""
        if self._term is None:
            return False
        if state_of(self._storage, self._term) != TrialState.RUNNING:
            self._term = None
        return self._term is not None

    def beat(self) -> None:
        """Write a sign of life into the storage, if this process holds the lease."""
        term = self._term
        if term is None:
            return
        self._beats += 1
        try:
            with_retries(lambda: self._storage.set_trial_user_attr(term, BEAT, self._beats))
        except UpdateFinishedTrialError:
            self._term = None

    def release(self) -> None:
        """Give the lease back, so that another process can plan at once."""
        if self._term is None:
            return
        term = self._term
        self._term = None
        with contextlib.suppress(UpdateFinishedTrialError):
            with_retries(lambda: self._storage.set_trial_state_values(term, TrialState.PRUNED))

    def _claim(self, term: FrozenTrial) -> bool:
        term_id = trial_id(term)
        try:
            if not claim_once(self._storage, term_id):
                return False
            with_retries(lambda: self._storage.set_trial_user_attr(term_id, OWNER, self._owner.text))
        except UpdateFinishedTrialError:
            return False
        self._term = term_id
        return True

    def _is_abandoned(self, term: FrozenTrial) -> bool:
        attributes = term.user_attrs
        silent = self._watch.is_silent(term.number, (attributes.get(OWNER), attributes.get(BEAT)))
        return silent or is_dead(attributes.get(OWNER))

    def _end(self, term: FrozenTrial) -> None:
        term_id = trial_id(term)
        with contextlib.suppress(UpdateFinishedTrialError):
            with_retries(lambda: self._storage.set_trial_state_values(term_id, TrialState.FAIL))

    def _study(self) -> int:
        """Return the id of the study that holds the terms; make that study if it does not exist."""
        if self._study_id is None:
            try:
                self._study_id = self._storage.get_study_id_from_name(self._name)
            except KeyError:
                with quiet_optuna(), contextlib.suppress(DuplicatedStudyError):
                    self._storage.create_new_study([StudyDirection.MINIMIZE], self._name)
                self._study_id = self._storage.get_study_id_from_name(self._name)
            _refuse_foreign(self._storage, self._study_id, self._name)
        return self._study_id


def current_term(storage: BaseStorage, study_name: str) -> FrozenTrial | None:
    """Return the term of the process that plans a study now, or None if no process does; change nothing."""
    try:
        study_id = with_retries(lambda: storage.get_study_id_from_name(lease_name(study_name)))
    except KeyError:
        # No process has ever planned this study.
        return None
    return _first_term(storage, study_id, (TrialState.RUNNING,))


def delete_terms(storage: BaseStorage, study_name: str) -> None:
    """Delete the record of who planned a study, if there is one."""
    with contextlib.suppress(KeyError):
        study_id = with_retries(lambda: storage.get_study_id_from_name(lease_name(study_name)))
        if not _is_foreign(storage, study_id):
            with_retries(lambda: storage.delete_study(study_id))


def _refuse_foreign(storage: BaseStorage, study_id: int, name: str) -> None:
    """Raise ValueError if a study that should hold terms holds something else."""
    if _is_foreign(storage, study_id):
        raise ValueError(
            f"the storage has a study {name!r} with results of its own, but under this name must be kept who plans the "
            f"study {name.removesuffix(LEASE_ENDING)!r}: copy one of the two to another name or storage"
        )


def _is_foreign(storage: BaseStorage, study_id: int) -> bool:
    """Return whether a study holds something else than terms, which have no parameters and no values."""
    if with_retries(lambda: storage.get_study_user_attrs(study_id)):
        return True
    trials = with_retries(lambda: storage.get_all_trials(study_id, deepcopy=False))
    return any(trial.params or trial.values or trial.system_attrs for trial in trials)


def _first_term(storage: BaseStorage, study_id: int, states: tuple[TrialState, ...]) -> FrozenTrial | None:
    terms = with_retries(lambda: storage.get_all_trials(study_id, deepcopy=False, states=states))
    return min(terms, key=lambda term: term.number, default=None)
