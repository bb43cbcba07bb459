"""Describe the options of a run: as they are written down in a file or in the record, and as the run loop uses them."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Any, get_args, get_type_hints

from bmbo.executors import EXECUTOR_NAMES
from bmbo.ledger.outages import PATIENCE_SECONDS
from bmbo.problem import Number
from bmbo.problem.number_checks import positive_number, whole_number
from bmbo.study.checkpoints import KEEPS
from bmbo.study.limits import Limits

RUN_CHOICES: Mapping[str, tuple[str, ...]] = {"executor": EXECUTOR_NAMES, "keep_checkpoints": KEEPS}
"""The run options that must be one of some words."""

STORED = ("total_cost", "n_trials", "batch_size", "asynchronous")
"""The run options that are written into the record, so that other processes can join with the same ones."""

MAX_FAILURES = 5
"""Failures after which a run without a success ends. If one trial in three fails, one run in 240 begins like that."""

GRACE_SECONDS = 120.0
"""Silence after which a planner or a worker counts as dead. It is longer than any pause of a healthy machine."""


@dataclass(frozen=True)
class RunOptions:
    """Describe how a study is run: those arguments of `Study.optimize` that can be written in a file.

    This is the only list of them. The fields of `[run]` in a study file, the options of the command line and what the
    record stores of a run are derived from it.

    Attributes:
        total_cost: the cost at which the study ends.
        n_trials: the number of trials at which the study ends.
        batch_size: how many trials are chosen together.
        asynchronous: whether a trial is chosen as soon as a worker is free.
        timeout: seconds after which the run starts nothing more.
        n_workers: how many trials run at once.
        executor: where trials run, one of `EXECUTOR_NAMES`.
        trial_timeout: seconds after which a trial is killed.
        catch: whether the run continues after a failed trial.
        max_failures: failures after which a run that had no success ends; 0 or None for never.
        keep_checkpoints: which checkpoint folders are kept.
        patience: seconds that the run waits for a storage that is away.

    Raises:
        ValueError: A number is too small, or a word is not known.
    """

    total_cost: Number | None = None
    n_trials: int | None = None
    batch_size: int = 1
    asynchronous: bool = False
    timeout: Number | None = None
    n_workers: int = 1
    executor: str = "auto"
    trial_timeout: Number | None = None
    # A run of several days should not end with its first failing configuration.
    catch: bool = True
    max_failures: int | None = MAX_FAILURES
    keep_checkpoints: str = "all"
    patience: Number = PATIENCE_SECONDS

    def __post_init__(self) -> None:
        for name, kinds in run_option_kinds().items():
            value = getattr(self, name)
            if value is not None and int in kinds:
                if float in kinds:
                    positive_number(name, value)
                else:
                    whole_number(name, value, at_least=least_of(name))
        for name, known in RUN_CHOICES.items():
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, got {getattr(self, name)!r}")

    @property
    def stored(self) -> dict[str, Any]:
        """Return what the record keeps of these options."""
        return {name: getattr(self, name) for name in STORED}

    @classmethod
    def of_stored(cls, stored: Mapping[str, Any]) -> "RunOptions":
        """Return the options that a record keeps; raise ValueError if no version of bmbo has written them."""
        kinds = run_option_kinds()
        for name in STORED:
            value = stored.get(name)
            if not isinstance(value, (*kinds[name], NoneType)):
                raise ValueError(
                    f"the options of the last run were changed by something else than bmbo: {name}={value!r}"
                )
        # What a newer version stores beyond them is of no use here.
        return cls(**{name: stored[name] for name in STORED if stored.get(name) is not None})


def run_option_kinds() -> dict[str, tuple[type, ...]]:
    """Return the types that each run option may have, without None, from the annotations of `RunOptions`."""
    return {
        name: tuple(kind for kind in get_args(hint) or (hint,) if kind is not NoneType)
        for name, hint in get_type_hints(RunOptions).items()
    }


def least_of(name: str) -> int:
    """Return the smallest whole number that a run option may have."""
    return 0 if name == "max_failures" else 1


@dataclass(frozen=True)
class LoopOptions:
    """Hold what the run loop and the planner need to know of a run.

    Attributes:
        limits: when it ends.
        batch_size: trials planned together; in an asynchronous run, trials kept in flight, at least one per worker.
        asynchronous: plan as soon as a worker is free, not when a batch is over.
        catch: exceptions that fail their trial and do not end the run.
        max_failures: failures after which a run that had no success ends; 0 or None for never.
        grace: seconds of silence after which other processes count as dead.
        patience: seconds that the run waits for a storage that is away.
    """

    limits: Limits
    batch_size: int = 1
    asynchronous: bool = False
    catch: tuple[type[BaseException], ...] = ()
    max_failures: int | None = MAX_FAILURES
    grace: Number = GRACE_SECONDS
    patience: Number = PATIENCE_SECONDS

    def __post_init__(self) -> None:
        whole_number("batch_size", self.batch_size)
        if self.max_failures is not None:
            whole_number("max_failures", self.max_failures, at_least=least_of("max_failures"))
        positive_number("grace", self.grace)
        positive_number("patience", self.patience)
