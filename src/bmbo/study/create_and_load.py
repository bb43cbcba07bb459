"""Create studies, and find them again."""

import inspect
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bmbo.ledger import Ledger, Storage
from bmbo.ledger.study_definition import StudyDefinition
from bmbo.problem import Feasible, Fidelity, Ladder, Number, Problem, as_constraints, as_objectives
from bmbo.problem.foreign_spaces import as_space
from bmbo.problem.number_checks import seed_number
from bmbo.protocols import Policy
from bmbo.study import validation
from bmbo.study.checkpoints import root_of
from bmbo.study.names_of_optuna import NoSuchArgument, refuse_arguments
from bmbo.study.readable_study import Direction
from bmbo.study.stored_method import method_for
from bmbo.study.study import Study

logger = logging.getLogger("bmbo")


def create_study(
    *,
    study_name: str | None = None,
    storage: Storage = None,
    load_if_exists: bool = False,
    direction: Direction = "minimize",
    space: Any,
    fidelities: Iterable[Fidelity] | Fidelity,
    seed: int = 0,
    method: Policy | None = None,
    checkpoints: str | Path | None = None,
    continues: bool = False,
    constraints: Mapping[str, tuple[str, Number]] | None = None,
    feasible: Callable[[Mapping[str, Any]], bool] | None = None,
    early_stopping: bool = False,
    directions: Sequence[Direction] | Mapping[str, Direction] | None = None,
    reference_point: Sequence[Number] | None = None,
    noisy: bool = False,
    **mistaken: NoSuchArgument,
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
        method: what chooses trials; by default that of a study that exists, and `screening()` for a new one.
        checkpoints: where checkpoint folders are made; by default beside a storage that is a file, for one in memory in
            a temporary folder that is removed when the process ends, else in the working directory.
        continues: whether the objective goes on from `trial.resume_from`, so that a level costs only the difference to
            the lower one that it continues. The costs of `fidelities` are then those of the whole training, and rise.
        constraints: limits of values that the objective measures at every fidelity, as {"memory_gb": ("<=", 16)}. It
            then returns `value, {"memory_gb": 11.2}`.
        feasible: a function of a configuration that says whether it may be run; nothing else is ever asked for.
        early_stopping: whether `trial.should_stop()` may say True: where a trial reports a value at a lower fidelity
            that is worse than the median of the others there. It then counts, and is paid, at the fidelity it reached.
        directions: of several objectives, two to four: a list, or a mapping from their names. The objective then
            returns as many values. `direction` is left out.
        reference_point: for each of several objectives the value that is just not good enough.
        noisy: whether the same configuration gives another value each time. Then it may be run again (`trial.repeat`
            counts), and the answer is what is believed to be best rather than what was lucky.
        mistaken: no further argument is known; an error says which one is meant.

    Example:
        >>> study = bmbo.create_study(
        ...     space={"lr": bmbo.Float(1e-5, 1e-1, log=True), "layers": bmbo.Int(1, 4)},
        ...     fidelities=[bmbo.Fidelity(1, cost=1), bmbo.Fidelity(10, cost=10)],
        ... )
    """
    refuse_arguments("create_study", mistaken, inspect.signature(create_study).parameters)
    if direction not in ("minimize", "maximize"):
        raise ValueError(f"direction must be 'minimize' or 'maximize', got {direction!r}")
    objectives = as_objectives(directions, reference_point)
    if objectives and direction != "minimize":
        raise ValueError("give direction for one objective, or directions for several, not both")
    seed = seed_number(seed)
    if study_name is not None and (not isinstance(study_name, str) or not study_name):
        raise ValueError(f"study_name must be a name that is not empty, got {study_name!r}")
    if load_if_exists and study_name is None:
        raise ValueError("load_if_exists=True needs a study_name: by what else should the study be found?")
    validation.check_method(method)
    problem = Problem(
        as_space(space),
        Ladder(fidelities),
        direction == "maximize" or (bool(objectives) and objectives[0].maximise),
        continues,
        as_constraints(constraints),
        None if feasible is None else Feasible.of(feasible),
        early_stopping,
        objectives if len(objectives) > 1 else (),
        noisy,
    )
    validation.check_demands(method, problem)
    doubts = validation.doubts_about(problem.ladder)
    if doubts is not None:
        logger.warning("%s", doubts)
    ledger = Ledger.create(storage, study_name, StudyDefinition(problem, seed), load_if_exists)
    return _study(ledger, method, checkpoints)


def load_study(
    *,
    study_name: str,
    storage: Storage,
    method: Policy | None = None,
    checkpoints: str | Path | None = None,
    feasible: Callable[[Mapping[str, Any]], bool] | None = None,
) -> Study:
    """Return the study of a name, as it was made. For the arguments see `create_study`.

    A study that was made with `feasible` needs the function again before it asks for anything.
    """
    validation.check_method(method)
    ledger = Ledger.load(storage, study_name)
    if feasible is not None:
        ledger = ledger.with_feasible(Feasible.of(feasible))
    validation.check_demands(method, ledger.problem)
    return _study(ledger, method, checkpoints)


def delete_study(*, study_name: str, storage: Storage) -> None:
    """Delete a study with all its trials; its checkpoint folders stay. Raise ValueError if there is no such study."""
    Ledger.load(storage, study_name).delete()


def _study(ledger: Ledger, method: Policy | None, root: str | Path | None) -> Study:
    folder = root_of(ledger) if root is None else Path(root)
    return Study(ledger, method_for(ledger, method), folder)
