"""One planner at a time: terms of office, as trials of a study beside the one that is planned."""

import contextlib
import time
from collections.abc import Callable

import optuna
from optuna.exceptions import DuplicatedStudyError, UpdateFinishedTrialError
from optuna.storages import BaseStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from bmbo.ledger.owners import Owner, Watch, is_dead
from bmbo.ledger.storages import id_of, patiently, quiet
from bmbo.problem import Number

OWNER, BEAT = "bmbo:owner", "bmbo:beat"


class Lease:
    """The right to plan.

    The planner is who holds the first term that has not ended. To claim a waiting term and to end a running one are
    the two steps that a storage lets only one caller succeed in, and a term that has ended stays so; a term is claimed
    only by who has seen all earlier ones ended. So two planners never hold office together.

    Args:
        storage: where the study is.
        study_name: the study that is planned.
        owner: who asks for the lease.
        grace: seconds without a sign of life after which a planner is replaced.
        clock: the seconds of this process.
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
        self._name = f"{study_name}/lease"
        self._owner = owner
        self._watch = Watch(grace, clock)
        self._study_id: int | None = None
        self._term: int | None = None
        self._beats = 0

    @property
    def believed(self) -> bool:
        """Whether this process took the lease and has not seen it lost; `held` looks."""
        return self._term is not None

    def acquire(self) -> bool:
        """Takes the lease where it is free or its holder is gone; whether it is held now."""
        if self._term is not None:
            return True
        # A term may have to be ended, and another one made, before one can be claimed.
        for _ in range(3):
            term = self._current()
            if term is None:
                template = optuna.trial.create_trial(state=TrialState.WAITING)
                patiently(lambda template=template: self._storage.create_new_trial(self._study(), template))
            elif term.state == TrialState.WAITING:
                return self._claim(term)
            elif self._is_abandoned(term):
                self._end(term)
            else:
                return False
        return False

    def held(self) -> bool:
        """Whether this process still holds the lease, as the storage has it."""
        if self._term is None:
            return False
        term = self._term
        if patiently(lambda: self._storage.get_trial(term)).state != TrialState.RUNNING:
            self._term = None
        return self._term is not None

    def beat(self) -> None:
        """A sign of life."""
        term = self._term
        if term is None:
            return
        self._beats += 1
        try:
            patiently(lambda: self._storage.set_trial_user_attr(term, BEAT, self._beats))
        except UpdateFinishedTrialError:
            self._term = None

    def release(self) -> None:
        """Gives the lease back."""
        if self._term is None:
            return
        term = self._term
        self._term = None
        with contextlib.suppress(UpdateFinishedTrialError):
            patiently(lambda: self._storage.set_trial_state_values(term, TrialState.PRUNED))

    def _current(self) -> FrozenTrial | None:
        """The first term that has not ended."""
        states = (TrialState.WAITING, TrialState.RUNNING)
        terms = patiently(lambda: self._storage.get_all_trials(self._study(), deepcopy=False, states=states))
        return min(terms, key=lambda term: term.number, default=None)

    def _claim(self, term: FrozenTrial) -> bool:
        number = id_of(term)
        try:
            if not patiently(lambda: self._storage.set_trial_state_values(number, TrialState.RUNNING)):
                return False
            patiently(lambda: self._storage.set_trial_user_attr(number, OWNER, self._owner.text))
        except UpdateFinishedTrialError:
            return False
        self._term = number
        return True

    def _is_abandoned(self, term: FrozenTrial) -> bool:
        marks = term.user_attrs
        silent = self._watch.is_silent(term.number, (marks.get(OWNER), marks.get(BEAT)))
        return silent or is_dead(marks.get(OWNER))

    def _end(self, term: FrozenTrial) -> None:
        number = id_of(term)
        with contextlib.suppress(UpdateFinishedTrialError):
            patiently(lambda: self._storage.set_trial_state_values(number, TrialState.FAIL))

    def _study(self) -> int:
        if self._study_id is None:
            try:
                self._study_id = self._storage.get_study_id_from_name(self._name)
            except KeyError:
                with quiet(), contextlib.suppress(DuplicatedStudyError):
                    self._storage.create_new_study([StudyDirection.MINIMIZE], self._name)
                self._study_id = self._storage.get_study_id_from_name(self._name)
        return self._study_id
