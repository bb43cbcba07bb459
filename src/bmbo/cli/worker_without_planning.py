"""Workers that only run what others plan."""

from collections.abc import Callable

from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState

from bmbo.ledger import Lease, Ledger, Owner, Watch, folder_of
from bmbo.ledger.planner_lease import BEAT, OWNER
from bmbo.methods import random_search
from bmbo.problem import Number
from bmbo.study import Study
from bmbo.study.checkpoints import root_in
from bmbo.study.planning import Limits


def current_term(storage: BaseStorage, study_name: str) -> FrozenTrial | None:
    """The term of office of who plans a study, if anyone does."""
    try:
        study_id = storage.get_study_id_from_name(f"{study_name}/lease")
    except KeyError:
        # Nobody has ever planned.
        return None
    terms = storage.get_all_trials(study_id, deepcopy=False, states=(TrialState.RUNNING,))
    return min(terms, key=lambda term: term.number, default=None)


class FollowingLedger(Ledger):
    """A ledger from which the lease to plan cannot be had."""

    limits = Limits()
    on_over: Callable[[], None] | None = None

    def lease(self, owner: Owner, grace: Number) -> Lease:
        """A lease that is never taken."""
        return _NoLease(self, owner, grace)


class _NoLease(Lease):
    """Is asked for at every turn of a run, and so sees when there is nobody left to follow."""

    def __init__(self, ledger: FollowingLedger, owner: Owner, grace: Number) -> None:
        super().__init__(ledger.storage, ledger.name, owner, grace)
        self._ledger = ledger
        self._silence = Watch(grace)

    def acquire(self) -> bool:
        """Never; ends the run where the study is over or its planner has been silent for the grace period."""
        term = current_term(self._ledger.storage, self._ledger.name)
        mark = None if term is None else (term.number, term.user_attrs.get(OWNER), term.user_attrs.get(BEAT))
        silent = self._silence.is_silent("planner", mark)
        if (silent or self._is_over()) and self._ledger.on_over is not None and not self._ledger.read().waiting:
            self._ledger.on_over()
        return False

    def _is_over(self) -> bool:
        history, limits = self._ledger.read().history, self._ledger.limits
        return not history.pending and (
            limits.room(history) < 1 or limits.left(history) < min(history.priced.ladder.costs)
        )


def following_study(storage: str, name: str, limits: Limits) -> Study:
    """A study whose runs in this process plan nothing, and end with the last planner."""
    ledger = FollowingLedger.load(storage, name)
    # What is never asked costs nothing.
    study = Study(ledger, random_search(), root_in(folder_of(ledger.storage), name))
    if isinstance(ledger, FollowingLedger):
        ledger.limits = limits
        ledger.on_over = study.stop
    return study
