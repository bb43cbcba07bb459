"""Help adapters to peers: translate spaces and levels, let trials climb, fix seeds, and name missing packages."""

import importlib.util
import math
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from bmbo import Categorical, Float, Int, Ladder, Problem, Space
from experiments.harness.method_interface import Factory, Job, MethodEntry, NotInstalledError

Parameter = Float | Int | Categorical

RUNGS_ARE_LEVELS = (
    "budgets eta^m for level m, eta the mean ratio of neighbouring costs as a whole number, so that rungs are levels"
)
"""How all peers with geometric budgets see levels. See `Rungs`."""


def require(*modules: str) -> None:
    """Raise `NotInstalledError` if a module of a peer is missing."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        names = ", ".join(missing)
        raise NotInstalledError(f"{names} cannot be imported; install experiments/requirements-peers.txt as it says")


def loss_of(problem: Problem, value: float) -> float | None:
    """Return a value as a loss to minimise, or None for a failure."""
    return -problem.sign * float(value) if math.isfinite(value) else None


@dataclass(frozen=True)
class Range:
    """Describe one parameter as every peer understands it: reals, integers, or indices of choices."""

    kind: Literal["real", "integer", "choice"]
    low: float
    high: float
    log: bool = False

    @property
    def num_choices(self) -> int:
        """Return the number of integers or choices."""
        return int(self.high) - int(self.low) + 1


class PeerSpace:
    """Hold a space as ranges, and translate configurations in both directions.

    Choices and values with a step become indices, because some peers take neither mixed choices nor steps. Ordered
    choices keep their order. A parameter with a single value is not shown to the peer.
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        self.ranges: dict[str, Range] = {}
        for name, param in space.params:
            if (found := _range(param)) is not None:
                self.ranges[name] = found
        if not self.ranges:
            raise ValueError("the space has a single configuration; there is nothing to optimise")

    def to_peer(self, config: Mapping[str, Any]) -> dict[str, float | int]:
        """Return a configuration as values of the ranges."""
        return {name: _into_range(self._space[name], config[name]) for name in self.ranges}

    def from_peer(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the configuration nearest to a peer's values. Some peers exceed bounds by rounding."""
        config: dict[str, Any] = {}
        for name, param in self._space.params:
            shown = self.ranges.get(name)
            config[name] = (
                param.decode((0.5,) * param.dim) if shown is None else _from_range(param, shown, values[name])
            )
        return config


def _range(param: Parameter) -> Range | None:
    if isinstance(param, Float) and param.step is None:
        return Range("real", param.low, param.high, param.log)
    if isinstance(param, Int) and param.step == 1:
        return Range("integer", param.low, param.high, param.log) if param.low < param.high else None
    num = _num_values(param)
    kind = "choice" if isinstance(param, Categorical) and not param.ordered else "integer"
    return Range(kind, 0, num - 1) if num > 1 else None


def _num_values(param: Parameter) -> int:
    if isinstance(param, Categorical):
        return len(param.choices)
    # The last value of the grid may be below the bound.
    return round((param.decode((1.0,)) - param.low) / (param.step or 1)) + 1


def _into_range(param: Parameter, value: Any) -> float | int:
    if isinstance(param, Categorical):
        # Compare codes, because True and 1 are different choices but equal in Python.
        codes = [param.encode(choice) for choice in param.choices]
        return codes.index(param.encode(value))
    if isinstance(param, Float) and param.step is None:
        return float(value)
    return int(value) if isinstance(param, Int) and param.step == 1 else round((value - param.low) / (param.step or 1))


def _from_range(param: Parameter, shown: Range, value: Any) -> Any:
    if shown.kind == "real":
        return float(min(max(float(value), shown.low), shown.high))
    index = int(min(max(round(float(value)), shown.low), shown.high))
    if isinstance(param, Categorical):
        return param.choices[index]
    if isinstance(param, Int):
        return index if param.step == 1 else param.low + param.step * index
    return param.decode(((index + 0.5) / shown.num_choices,))


def to_configspace(space: PeerSpace, seed: int) -> Any:
    """Return the ranges as a ConfigSpace."""
    import ConfigSpace  # noqa: PLC0415 (only some peers need it)

    kinds = {"real": ConfigSpace.UniformFloatHyperparameter, "integer": ConfigSpace.UniformIntegerHyperparameter}
    config_space = ConfigSpace.ConfigurationSpace(seed=seed)
    for name, shown in space.ranges.items():
        if shown.kind == "choice":
            config_space.add(ConfigSpace.CategoricalHyperparameter(name, list(range(shown.num_choices))))
        else:
            config_space.add(kinds[shown.kind](name, shown.low, shown.high, log=shown.log))
    return config_space


@dataclass(frozen=True)
class Rungs:
    """Describe a ladder for peers with geometric budgets: level m has the budget eta ** m, so that rungs are levels.

    `eta` is the mean ratio of the costs of neighbouring levels, as a whole number. So Hyperband spends about the same
    on each rung. Costs are used and not the values of the levels, because these may differ: a training of at most
    50,000 iterations may end after 5,000.
    """

    eta: int
    num: int

    @classmethod
    def of(cls, ladder: Ladder) -> "Rungs":
        """Return the rungs of a ladder."""
        ratio = (ladder.costs[-1] / ladder.costs[0]) ** (1 / max(ladder.top, 1))
        return cls(max(2, round(ratio)), ladder.num_levels)

    @property
    def smallest(self) -> float:
        """Return the smallest budget, with a margin: peers count rungs with a quotient of logarithms, rounded down."""
        return 1 - 1e-9

    @property
    def largest(self) -> int:
        """Return the budget of the top level."""
        return self.budget(self.num - 1)

    def budget(self, level: int) -> int:
        """Return the budget of a level."""
        return self.eta**level

    def level(self, budget: float) -> int:
        """Return the level of a budget."""
        return min(max(round(math.log(budget, self.eta)), 0), self.num - 1)


def rung_method(
    name: str, factory: Factory, paper: str, where: str, differs: str, *, packages: tuple[str, ...]
) -> MethodEntry:
    """Return the entry of a method with geometric budgets, see `MethodEntry`. It takes batches and no starts."""
    return MethodEntry(
        name,
        factory,
        takes_starts=False,
        batch=True,
        paper=paper,
        where=where,
        differs=f"{RUNGS_ARE_LEVELS}. {differs}",
        packages=packages,
    )


class Climb:
    """Run trials that begin at the first level and go on to the next while the peer allows it.

    Args:
        levels: the levels of a trial, lowest first.
        batch_size: the number of trials at the same time.
        begin: returns a new trial of the peer and its configuration, or None if there is none.
        report: tells the peer a trial's value at a level (NaN for a failure), and returns whether the trial goes on.
    """

    def __init__(
        self,
        levels: Sequence[int],
        batch_size: int,
        begin: Callable[[], tuple[Any, Mapping[str, Any]] | None],
        report: Callable[[Any, int, float], bool],
    ) -> None:
        self._levels = list(levels)
        self._batch_size = batch_size
        self._begin = begin
        self._report = report
        self._running: list[tuple[Any, Job]] = []
        self._by_number: dict[int, tuple[Any, Job]] = {}
        self._num_started = 0

    def start(self, num: int) -> dict[int, Job]:
        """Return trials that go on and then new ones, see `Asynchronous`."""
        found: dict[int, Job] = {}
        while len(found) < num:
            if self._running:
                trial, job = self._running.pop(0)
            elif (new := self._begin()) is not None:
                trial, job = new[0], Job(new[1], self._levels[0])
            else:
                break
            self._by_number[self._num_started] = (trial, job)
            found[self._num_started] = job
            self._num_started += 1
        return found

    def finish(self, number: int, value: float) -> None:
        """Tell the peer the value of one trial."""
        trial, job = self._by_number.pop(number)
        self._running += self._going([(trial, job)], [value])

    def ask(self) -> list[Job]:
        """Return the next jobs, see `Optimiser`."""
        while len(self._running) < self._batch_size and (new := self._begin()) is not None:
            trial, config = new
            self._running.append((trial, Job(config, self._levels[0])))
        return [job for _, job in self._running]

    def tell(self, jobs: list[Job], values: list[float]) -> None:
        """Tell the peer the values, see `Optimiser`."""
        del jobs
        self._running = self._going(self._running, values)

    def _going(self, ended: Sequence[tuple[Any, Job]], values: Sequence[float]) -> list[tuple[Any, Job]]:
        """Report values, and return the next jobs of the trials that go on."""
        going: list[tuple[Any, Job]] = []
        for (trial, job), value in zip(ended, values, strict=True):
            if self._report(trial, job.level, value):
                going.append((trial, Job(job.config, self._levels[self._levels.index(job.level) + 1])))
        return going

    def recommend(self) -> None:
        """Return None, which stands for the best value observed."""


class GlobalNumPy:
    """Give a peer its own state of NumPy's global random generator."""

    def __init__(self, seed: int) -> None:
        self._state = np.random.RandomState(seed).get_state()

    @contextmanager
    def held(self) -> Generator[None]:
        """Use the peer's state inside the block, and restore the outer state afterwards."""
        outside = np.random.get_state()  # noqa: NPY002
        np.random.set_state(self._state)  # noqa: NPY002
        try:
            yield
        finally:
            self._state = np.random.get_state()  # noqa: NPY002
            np.random.set_state(outside)  # noqa: NPY002
