"""Read and write the trials of one study in a storage: what has changed since the last look, and one step at a time.

`database_trials.py` does the same for databases, with fewer and larger steps.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState

from bmbo.ledger.attribute_keys import OWNER, WRITE_KEY
from bmbo.ledger.ledger_entries import StoredTrial
from bmbo.ledger.outages import with_retries
from bmbo.ledger.writing_once import claim_once, write_once


@dataclass(frozen=True)
class Changes:
    """Hold what has changed in a study since the last look.

    Attributes:
        attributes: all attributes of the study; the same object as before if none has changed.
        trials: the trials that are new or have changed, in the order of their numbers.
    """

    attributes: Mapping[str, Any]
    trials: Sequence[StoredTrial]


@dataclass(frozen=True)
class Ending:
    """Hold how a trial ends.

    Attributes:
        state: its last state.
        values: of all objectives; empty if there is nothing.
        step: where the first value is shown as an intermediate one; None for nowhere.
        attributes: what else is written.
        system: what is written for Optuna and its dashboard.
    """

    state: TrialState
    values: tuple[float, ...]
    step: int | None
    attributes: Mapping[str, Any]
    system: Mapping[str, Any] = field(default_factory=dict[str, Any])


Attributes = Callable[[int], Mapping[str, Any]]
"""What is written with the start of a trial, by its id."""


@runtime_checkable
class TrialStore(Protocol):
    """Read and write the trials of one study. A trial that has ended never changes."""

    @property
    def writes_batches(self) -> bool:
        """Return whether `create` writes several trials all or none."""
        ...

    def changes(self) -> Changes:
        """Return what has changed since the last call; at the first call all."""
        ...

    def trial(self, trial_id: int) -> StoredTrial:
        """Return one trial as it is now."""
        ...

    def state(self, trial_id: int) -> TrialState:
        """Return the state of one trial as it is now."""
        ...

    def oldest(self, states: Sequence[TrialState]) -> StoredTrial | None:
        """Return the oldest trial that is in one of some states; None if there is none."""
        ...

    def study_attributes(self) -> Mapping[str, Any]:
        """Return the attributes of the study as they are now."""
        ...

    def is_bare(self) -> bool:
        """Return whether the study has no attributes, and its trials neither parameters nor values."""
        ...

    def create(self, templates: Sequence[FrozenTrial], term: int | None = None, after: int | None = None) -> list[int]:
        """Write new trials and return their numbers.

        Args:
            templates: the trials.
            term: a term of office; if it has ended, nothing more is written.
            after: how many trials there are, as far as the caller knows; if there are more, nothing is written.
        """
        ...

    def claim(self, candidates: Sequence[int], attributes: Attributes) -> int | None:
        """Begin the first of some trials that still waits, and return its id; None if none of them waits any more.

        Of several processes that try, only one begins a trial.

        Args:
            candidates: the ids of the trials, in their order.
            attributes: returns what is written with the start of a trial, the owner among it.
        """
        ...

    def note(self, trial_id: int, attributes: Mapping[str, Any]) -> None:
        """Write attributes of a trial; raise UpdateFinishedTrialError if it has ended."""
        ...

    def requeue(self, trial_id: int, owner: str | None, attributes: Mapping[str, Any]) -> None:
        """Let a running trial of an owner wait again; do nothing if it has another owner or does not run."""
        ...

    def end(self, trial_id: int, ending: Ending) -> None:
        """End a trial; raise UpdateFinishedTrialError if it has ended."""
        ...


class AnyStorage:
    """Keep trials in a storage by the steps that every storage of Optuna has.

    Args:
        storage: where the study is kept. It must replace what it changes, as those of Optuna do.
        study_id: the study.
    """

    writes_batches = False

    def __init__(self, storage: BaseStorage, study_id: int) -> None:
        self._storage = storage
        self._study_id = study_id
        self._seen: list[FrozenTrial] = []

    def changes(self) -> Changes:
        """See `TrialStore`."""
        attributes = self.study_attributes()
        found = with_retries(lambda: self._storage.get_all_trials(self._study_id, deepcopy=False))
        known, self._seen = self._seen, list(found)
        pairs = zip(found, known, strict=False)
        changed = [now for now, before in pairs if now is not before and not before.state.is_finished()]
        return Changes(attributes, [StoredTrial.of(each) for each in [*changed, *found[len(known) :]]])

    def trial(self, trial_id: int) -> StoredTrial:
        """See `TrialStore`."""
        return StoredTrial.of(with_retries(lambda: self._storage.get_trial(trial_id)))

    def state(self, trial_id: int) -> TrialState:
        """See `TrialStore`."""
        return with_retries(lambda: self._storage.get_trial(trial_id)).state

    def oldest(self, states: Sequence[TrialState]) -> StoredTrial | None:
        """See `TrialStore`."""
        found = with_retries(lambda: self._storage.get_all_trials(self._study_id, deepcopy=False, states=tuple(states)))
        first = min(found, key=lambda trial: trial.number, default=None)
        return None if first is None else StoredTrial.of(first)

    def study_attributes(self) -> Mapping[str, Any]:
        """See `TrialStore`."""
        return with_retries(lambda: self._storage.get_study_user_attrs(self._study_id))

    def is_bare(self) -> bool:
        """See `TrialStore`."""
        trials = with_retries(lambda: self._storage.get_all_trials(self._study_id, deepcopy=False))
        holds = any(trial.params or trial.values or trial.system_attrs.keys() - {WRITE_KEY} for trial in trials)
        return not holds and not self.study_attributes()

    def create(self, templates: Sequence[FrozenTrial], term: int | None = None, after: int | None = None) -> list[int]:
        """See `TrialStore`; the last trials of several may be refused."""
        numbers: list[int] = []
        for place, template in enumerate(templates):
            made = write_once(self._storage, self._study_id, template, term, None if after is None else after + place)
            if made is None:
                break
            numbers.append(with_retries(lambda made=made: self._storage.get_trial(made)).number)
        return numbers

    def claim(self, candidates: Sequence[int], attributes: Attributes) -> int | None:
        """See `TrialStore`."""
        for place, trial_id in enumerate(candidates):
            # Others are about to take the same trials: a look costs less than a try.
            if place and self.state(trial_id) != TrialState.WAITING:
                continue
            with contextlib.suppress(UpdateFinishedTrialError):
                if claim_once(self._storage, trial_id):
                    self.note(trial_id, attributes(trial_id))
                    return trial_id
        return None

    def note(self, trial_id: int, attributes: Mapping[str, Any]) -> None:
        """See `TrialStore`."""
        for key, value in attributes.items():
            with_retries(lambda key=key, value=value: self._storage.set_trial_user_attr(trial_id, key, value))

    def requeue(self, trial_id: int, owner: str | None, attributes: Mapping[str, Any]) -> None:
        """See `TrialStore`."""
        stored = self.trial(trial_id)
        if stored.state != TrialState.RUNNING or stored.attributes.get(OWNER) != owner:
            return
        with contextlib.suppress(UpdateFinishedTrialError):
            # The owner is removed first, so that the next process that claims the trial is not taken for dead.
            self.note(trial_id, {OWNER: None, **attributes})
            with_retries(lambda: self._storage.set_trial_state_values(trial_id, TrialState.WAITING))

    def end(self, trial_id: int, ending: Ending) -> None:
        """See `TrialStore`; the outcome counts with the last step, which a storage allows only once for each trial."""
        self.note(trial_id, ending.attributes)
        for key, content in ending.system.items():
            with_retries(lambda key=key, content=content: self._storage.set_trial_system_attr(trial_id, key, content))
        values, step = list(ending.values) or None, ending.step
        if values is not None and step is not None:
            with_retries(lambda: self._storage.set_trial_intermediate_value(trial_id, step, values[0]))
        with_retries(lambda: self._storage.set_trial_state_values(trial_id, ending.state, values))
