"""Give the dashboard a storage that holds one study as readers want to see it, and that changes nothing."""

import copy
import re
from collections.abc import Callable, Container, Mapping
from typing import Any, NoReturn

from optuna.storages import BaseStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from bmbo.dashboard.shown_trials import shown_trial, with_climbs
from bmbo.ledger import Ledger
from bmbo.ledger.attribute_keys import PREFIX
from bmbo.ledger.marks import Marks
from bmbo.ledger.optuna_private import trial_id
from bmbo.problem.spread_levels import ladder_text

NOTE = re.compile(r"dashboard:(\d+:)?note_(ver|str:\d+)")
"""Attributes in which the dashboard keeps the notes that a user writes."""
NOTE_VERSION = "dashboard:note_ver"
"""Is there if the study has a note of its own."""


class ShownStorage(BaseStorage):
    """Show one study of a storage: no other studies, trials with short attributes, and figures and a note of ours.

    Notes of users are written into the storage. Everything else that would change it is refused.

    Args:
        ledger: of the study.
        additions: returns the attributes of the dashboard that hold our figures and our note.
    """

    def __init__(self, ledger: Ledger, additions: Callable[[], Mapping[str, Any]]) -> None:
        self._ledger = ledger
        self._storage = ledger.storage
        self._additions = additions
        self._study_id = self._storage.get_study_id_from_name(ledger.name)
        # Finished trials change no more, except that they are dropped.
        self._finished: dict[tuple[int, bool], FrozenTrial] = {}

    @property
    def study_id(self) -> int:
        """Return the number of the study in addresses of the dashboard."""
        return self._study_id

    def get_all_studies(self) -> list[Any]:
        """Return the study alone."""
        shown: list[Any] = []
        for study in self._storage.get_all_studies():
            if study.study_name == self._ledger.name:
                one = copy.copy(study)
                one.user_attrs = self.get_study_user_attrs(self._study_id)
                one.system_attrs = self.get_study_system_attrs(self._study_id)
                shown.append(one)
        return shown

    def get_study_id_from_name(self, study_name: str) -> int:
        """Return the id of the study; raise KeyError for all others."""
        if study_name != self._ledger.name:
            raise KeyError(study_name)
        return self._study_id

    def get_study_name_from_id(self, study_id: int) -> str:
        """Return the name of the study."""
        self._check(study_id)
        return self._ledger.name

    def get_study_directions(self, study_id: int) -> list[StudyDirection]:
        """Return the direction of the study."""
        self._check(study_id)
        return self._storage.get_study_directions(study_id)

    def get_study_user_attrs(self, study_id: int) -> dict[str, Any]:
        """Return the levels with their costs, and the attributes of users."""
        self._check(study_id)
        stored = self._storage.get_study_user_attrs(study_id)
        own = {name: value for name, value in stored.items() if not name.startswith(PREFIX)}
        return {**own, "fidelities": ladder_text(self._ledger.problem.ladder), "seed": self._ledger.seed}

    def get_study_system_attrs(self, study_id: int) -> dict[str, Any]:
        """Return the attributes of the dashboard: figures, and notes."""
        self._check(study_id)
        stored = self._storage.get_study_system_attrs(study_id)
        added = dict(self._additions())
        if NOTE_VERSION in stored:
            added = {name: value for name, value in added.items() if not NOTE.fullmatch(name)}
        return {**stored, **added}

    def get_all_trials(
        self, study_id: int, deepcopy: bool = True, states: Container[TrialState] | None = None
    ) -> list[FrozenTrial]:
        """Return all trials as they are shown."""
        self._check(study_id)
        marks = Marks.of(self._storage.get_study_user_attrs(study_id))
        stored = self._storage.get_all_trials(study_id, deepcopy=False)
        shown = with_climbs(self._shown(each, marks) for each in stored)
        return [
            copy.deepcopy(trial) if deepcopy else trial for trial in shown if states is None or trial.state in states
        ]

    def get_trial(self, trial_id: int) -> FrozenTrial:
        """Return a trial as it is shown."""
        return self._shown(
            self._storage.get_trial(trial_id), Marks.of(self._storage.get_study_user_attrs(self._study_id))
        )

    def set_study_system_attr(self, study_id: int, key: str, value: Any) -> None:
        """Write a note of a user; refuse everything else."""
        self._check(study_id)
        if not NOTE.fullmatch(key):
            self._refuse()
        self._storage.set_study_system_attr(study_id, key, value)

    def _refuse(self, *arguments: Any, **options: Any) -> NoReturn:
        """Refuse to change the storage."""
        del arguments, options
        raise RuntimeError("the dashboard of bmbo shows a study and does not change it, apart from notes")

    create_new_study = delete_study = set_study_user_attr = _refuse
    create_new_trial = set_trial_param = set_trial_state_values = set_trial_intermediate_value = _refuse
    set_trial_user_attr = set_trial_system_attr = _refuse

    def _check(self, study_id: int) -> None:
        if study_id != self._study_id:
            raise KeyError(study_id)

    def _shown(self, stored: FrozenTrial, marks: Marks) -> FrozenTrial:
        key = trial_id(stored), stored.number in marks.dropped
        found = self._finished.get(key)
        if found is None:
            found = shown_trial(stored, self._ledger.problem.ladder, marks)
            if stored.state.is_finished():
                self._finished[key] = found
        return found
