"""Make a study in a storage, or find it again."""

import json
import logging
import time
import uuid
from dataclasses import replace
from typing import Any, NamedTuple

from optuna.exceptions import DuplicatedStudyError
from optuna.storages import BaseStorage
from optuna.study import StudyDirection

from bmbo.ledger import attribute_keys as keys
from bmbo.ledger import stored_trials as mapping
from bmbo.ledger.allowed_names import check_new_name
from bmbo.ledger.damage import opened_whole, unreadable
from bmbo.ledger.database_trials import study_id_of
from bmbo.ledger.optuna_private import OBJECTIVE_NAMES
from bmbo.ledger.outages import with_retries
from bmbo.ledger.storages import Storage, check_exists, quiet_optuna, redacted
from bmbo.ledger.study_definition import StudyDefinition, difference, directions_of

logger = logging.getLogger("bmbo")

BIRTH_SECONDS = 5.0
"""How long to wait for the definition of a study that exists: its maker writes the definition right after it."""


class FoundStudy(NamedTuple):
    """Hold where a study is kept, and what it is about."""

    storage: BaseStorage
    name: str
    study_id: int
    definition: StudyDefinition


def made_study(storage: Storage, name: str | None, definition: StudyDefinition, load_if_exists: bool) -> FoundStudy:
    """Make a study, or with `load_if_exists` return the one with this name.

    Raises:
        ValueError: The name is taken, or the study of this name has another problem.
    """
    if name is not None:
        check_new_name(name)
    definition = replace(definition, key=uuid.uuid4().hex)
    # Checked before anything is written, because not every space can be stored.
    mapping.optuna_distributions(definition.problem.space)
    opened = opened_whole(storage)
    directions = [StudyDirection[each.upper()] for each in directions_of(definition.problem)]
    try:
        with quiet_optuna():
            study_id = with_retries(lambda: opened.create_new_study(directions, name))
    except DuplicatedStudyError:
        if not load_if_exists:
            raise ValueError(
                f"study {name!r} exists already in {redacted(opened)}: choose another study_name, or continue it "
                "with load_if_exists=True"
            ) from None
        return _joined(opened, str(name), definition)
    with_retries(lambda: opened.set_study_user_attr(study_id, keys.DEFINITION, definition.to_json()))
    if any(not each.name.isdecimal() for each in definition.problem.objectives):
        names = [each.name for each in definition.problem.objectives]
        with_retries(lambda: opened.set_study_system_attr(study_id, OBJECTIVE_NAMES, names))
    return FoundStudy(opened, with_retries(lambda: opened.get_study_name_from_id(study_id)), study_id, definition)


def found_study(storage: Storage, name: str) -> FoundStudy:
    """Return the study with this name; raise ValueError if bmbo made no such study."""
    check_exists(storage)
    opened = opened_whole(storage, must_exist=True)
    study_id = _study_id(opened, name)
    stored, _ = _awaited_definition(opened, study_id)
    if stored is None:
        raise ValueError(f"study {name!r} in {redacted(opened)} was not made by bmbo; bmbo.create_study makes one")
    return FoundStudy(opened, name, study_id, StudyDefinition.from_json(stored))


def _joined(opened: BaseStorage, name: str, definition: StudyDefinition) -> FoundStudy:
    study_id = _study_id(opened, name)
    stored, in_use = _awaited_definition(opened, study_id)
    if stored is None and in_use:
        raise ValueError(f"study {name!r} in {redacted(opened)} was not made by bmbo; choose another study_name")
    if stored is None:
        # The process that made the study died before it could write the definition.
        with_retries(lambda: opened.set_study_user_attr(study_id, keys.DEFINITION, definition.to_json()))
        stored, _ = _awaited_definition(opened, study_id)
    known = StudyDefinition.from_json(stored)
    differs = difference(known.problem, definition.problem)
    if differs is not None:
        raise ValueError(f"study {name!r} in {redacted(opened)} is another one: {differs}; choose another study_name")
    if known.seed != definition.seed:
        logger.warning("study %r keeps its seed %d; %d is not used", name, known.seed, definition.seed)
    # The record holds no code: the function is the given one.
    return FoundStudy(opened, name, study_id, known.with_feasible(definition.problem.feasible))


def _study_id(storage: BaseStorage, name: str) -> int:
    try:
        return study_id_of(storage, name)
    except KeyError:
        raise ValueError(f"there is no study {name!r} in {redacted(storage)}") from None


def _awaited_definition(storage: BaseStorage, study_id: int) -> tuple[Any, bool]:
    """Return the stored definition of a study, or None, and whether the study has trials but no definition.

    A new study has no definition for a moment, so this function waits a short time for it.
    """
    deadline, in_use = time.monotonic() + BIRTH_SECONDS, False

    def definition() -> Any:
        try:
            return with_retries(lambda: storage.get_study_user_attrs(study_id)).get(keys.DEFINITION)
        except (json.JSONDecodeError, AttributeError, TypeError) as error:
            raise unreadable(f"a study in {redacted(storage)}", error) from error

    while (stored := definition()) is None:
        # bmbo writes the definition before the first trial. A study with trials that has still no definition on a
        # second look was not made by bmbo.
        if in_use or time.monotonic() > deadline:
            break
        in_use = with_retries(lambda: storage.get_n_trials(study_id)) > 0
        if not in_use:
            time.sleep(0.05)
    return stored, in_use
