"""Create studies, and find them again."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bmbo import methods
from bmbo.ledger import Ledger, Storage, folder_of
from bmbo.ledger.study_definition import StudyDefinition
from bmbo.problem import Fidelity, Ladder, Problem
from bmbo.problem.foreign_spaces import as_space
from bmbo.problem.number_checks import whole_number
from bmbo.protocols import Policy
from bmbo.study import validation
from bmbo.study.checkpoints import root_in
from bmbo.study.study import Direction, Study


def create_study(
    *,
    study_name: str | None = None,
    storage: Storage = None,
    load_if_exists: bool = False,
    direction: Direction = "minimize",
    space: Any,
    fidelities: Iterable[Fidelity],
    seed: int = 0,
    method: Policy | None = None,
    checkpoints: str | Path | None = None,
) -> Study:
    """Return a new study, or one to go on with.

    Args:
        study_name: its name in the storage; made up if none is given.
        storage: a database URL ("sqlite:///study.db", "postgresql+psycopg://..."), a path ending in .log or .journal
            for a journal file, an Optuna storage, or None for memory.
        load_if_exists: go on with the study of this name, if there is one. It must be about the same problem.
        direction: "minimize" or "maximize".
        space: a `Space`, a mapping from names to bmbo's or Optuna's distributions, or a ConfigurationSpace.
        fidelities: from the roughest to the one that counts.
        seed: for all random choices.
        method: what chooses trials; `screening()` by default.
        checkpoints: where checkpoint folders are made; by default beside a storage that is a file, else in the working
            directory.

    Example:
        >>> study = bmbo.create_study(
        ...     space={"lr": bmbo.Float(1e-5, 1e-1, log=True), "layers": bmbo.Int(1, 4)},
        ...     fidelities=[bmbo.Fidelity(1, cost=1), bmbo.Fidelity(10, cost=10)],
        ... )
    """
    if direction not in ("minimize", "maximize"):
        raise ValueError(f"direction must be 'minimize' or 'maximize', got {direction!r}")
    seed = whole_number("seed", seed, at_least=0)
    if study_name is not None and (not isinstance(study_name, str) or not study_name):
        raise ValueError(f"study_name must be a name that is not empty, got {study_name!r}")
    if load_if_exists and study_name is None:
        raise ValueError("load_if_exists=True needs a study_name: by what else should the study be found?")
    validation.check_method(method)
    problem = Problem(as_space(space), Ladder(fidelities), maximise=direction == "maximize")
    ledger = Ledger.create(storage, study_name, StudyDefinition(problem, seed), load_if_exists)
    return _study(ledger, method, checkpoints)


def load_study(
    *,
    study_name: str,
    storage: Storage,
    method: Policy | None = None,
    checkpoints: str | Path | None = None,
) -> Study:
    """Return the study of a name, as it was made. For the arguments see `create_study`."""
    validation.check_method(method)
    return _study(Ledger.load(storage, study_name), method, checkpoints)


def delete_study(*, study_name: str, storage: Storage) -> None:
    """Delete a study with all its trials; its checkpoint folders stay. Raise ValueError if there is no such study."""
    Ledger.load(storage, study_name).delete()


def _study(ledger: Ledger, method: Policy | None, root: str | Path | None) -> Study:
    folder = root_in(folder_of(ledger.storage), ledger.name) if root is None else Path(root)
    return Study(ledger, methods.screening() if method is None else method, folder)
