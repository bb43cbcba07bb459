"""Suggest a batch of five with one tool in a new process, and print what it took. `default_latency.py` starts this.

    python benchmarks/latency_tools.py TOOL SIZE

Each tool is used as its users do today, with stock settings. All see the same points of a function of six parameters
with three levels. Tools without levels see as many observations at the top.
"""

# The peers are no part of the development environment. They are imported inside functions, and may be missing.
# pyright: reportMissingImports=false
# ruff: noqa: PLC0415

import json
import math
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

BATCH = 5
NUM_PARAMS = 6
COSTS = (1.0, 5.0, 25.0)
TOP = len(COSTS) - 1
SHARES = (0.6, 0.3, 0.1)
"""Observations of each level."""
NAMES = tuple(f"x{place}" for place in range(NUM_PARAMS))

Point = tuple[float, ...]


def value_of(point: Sequence[float], level: int) -> float:
    """Return the loss of a point at a level."""
    loss = sum((1 + place) * (x - 0.3) ** 2 for place, x in enumerate(point)) + 0.3 * math.cos(6 * point[0])
    return loss + 0.2 * (TOP - level) * math.sin(4 * point[1])


def design(size: int, *, levels: bool) -> list[tuple[Point, int]]:
    """Return points with their levels, from an additive recurrence that fills the cube."""
    root = 2.0
    for _ in range(40):
        # The root of x ** (d + 1) = x + 1, of which the powers are the steps.
        root = (1 + root) ** (1 / (NUM_PARAMS + 1))
    counts = [round(share * size) for share in SHARES[1:]]
    found: list[tuple[Point, int]] = []
    for row in range(size):
        point = tuple((0.5 + (row + 1) * root ** -(place + 1)) % 1.0 for place in range(NUM_PARAMS))
        level = TOP if row < counts[1] else 1 if row < sum(counts) else 0
        found.append((point, level if levels else TOP))
    return found


class Tool(Protocol):
    """Describe a tool after it was imported, with its observations."""

    def ask(self) -> list[tuple[Any, Point, int]]:
        """Return a batch: what the tool needs to be told the result, the point and the level."""
        ...

    def tell(self, handle: Any, value: float) -> None:
        """Take a value."""
        ...


class Bmbo:
    """Use a study of this package, in memory, with the default method."""

    def __init__(self, size: int) -> None:
        import bmbo

        self._study = bmbo.create_study(
            space={name: bmbo.Float(0, 1) for name in NAMES},
            fidelities=[bmbo.Fidelity(level, cost=cost) for level, cost in enumerate(COSTS)],
            method=bmbo.screening(),
        )
        for point, level in design(size, levels=True):
            params = dict(zip(NAMES, point, strict=True))
            self._study.add_trial(params, value_of(point, level), level=level)

    def ask(self) -> list[tuple[Any, Point, int]]:
        """See `Tool`."""
        trials = self._study.ask(BATCH)
        return [(trial, tuple(trial.params[name] for name in NAMES), trial.level) for trial in trials]

    def tell(self, handle: Any, value: float) -> None:
        """See `Tool`."""
        self._study.tell(handle, value)


class Optuna:
    """Use Optuna's Gaussian process in memory. It has no levels."""

    def __init__(self, size: int) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._distributions = {name: optuna.distributions.FloatDistribution(0, 1) for name in NAMES}
        self._study = optuna.create_study(sampler=optuna.samplers.GPSampler(seed=0))
        self._study.add_trials(
            [
                optuna.trial.create_trial(
                    params=dict(zip(NAMES, point, strict=True)),
                    distributions=dict(self._distributions),
                    value=value_of(point, level),
                )
                for point, level in design(size, levels=False)
            ]
        )

    def ask(self) -> list[tuple[Any, Point, int]]:
        """See `Tool`."""
        trials = [self._study.ask(dict(self._distributions)) for _ in range(BATCH)]
        return [(trial, tuple(trial.params[name] for name in NAMES), TOP) for trial in trials]

    def tell(self, handle: Any, value: float) -> None:
        """See `Tool`."""
        self._study.tell(handle, value)


class Smac:
    """Use SMAC's facade for hyperparameters. It has no levels."""

    def __init__(self, size: int) -> None:
        from ConfigSpace import Configuration, ConfigurationSpace
        from smac import HyperparameterOptimizationFacade as Facade
        from smac import Scenario
        from smac.runhistory.dataclasses import TrialInfo

        space = ConfigurationSpace(dict.fromkeys(NAMES, (0.0, 1.0)))
        # The folder is removed when the process ends.
        self._folder = tempfile.TemporaryDirectory(prefix="smac-")
        scenario = Scenario(
            space, deterministic=True, seed=0, n_trials=10 * max(size, 10), output_directory=self._folder.name
        )
        known = [
            (Configuration(space, values=dict(zip(NAMES, point, strict=True))), value_of(point, level))
            for point, level in design(size, levels=False)
        ]
        options: dict[str, Any] = {"n_configs": 0, "additional_configs": [each for each, _ in known]} if known else {}
        initial = Facade.get_initial_design(scenario, **options)
        self._facade = Facade(scenario, initial_design=initial, logging_level=False, overwrite=True)
        for config, value in known:
            self.tell(TrialInfo(config=config, seed=0), value)

    def ask(self) -> list[tuple[Any, Point, int]]:
        """See `Tool`."""
        asked = [self._facade.ask() for _ in range(BATCH)]
        return [(info, tuple(float(info.config[name]) for name in NAMES), TOP) for info in asked]

    def tell(self, handle: Any, value: float) -> None:
        """See `Tool`."""
        from smac.runhistory.dataclasses import TrialValue

        self._facade.tell(handle, TrialValue(cost=value), save=False)


class BoTorch:
    """Use BoTorch's multi-fidelity entropy search as its tutorial does, see `botorch_peer`."""

    def __init__(self, size: int) -> None:
        import botorch_peer

        if not size:
            raise SystemExit("BoTorch has no start of its own")
        self._peer = botorch_peer
        self._known = [(point, level, value_of(point, level)) for point, level in design(size, levels=True)]

    def ask(self) -> list[tuple[Any, Point, int]]:
        """See `Tool`."""
        import numpy as np

        by_level = [[row for row in self._known if row[1] == level] for level in range(len(COSTS))]
        units = [np.array([row[0] for row in rows]) for rows in by_level]
        # Larger values are better there.
        values = [-np.array([row[2] for row in rows]) for rows in by_level]
        points, levels, _, _ = self._peer.suggest(units, values, COSTS, BATCH, 0)
        chosen = [(tuple(map(float, point)), int(level)) for point, level in zip(points, levels, strict=True)]
        return [(each, *each) for each in chosen]

    def tell(self, handle: Any, value: float) -> None:
        """See `Tool`."""
        self._known.append((*handle, value))


TOOLS: Mapping[str, Callable[[int], Tool]] = {
    "bmbo": Bmbo,
    "optuna_gp": Optuna,
    "smac": Smac,
    "botorch": BoTorch,
}

PACKAGES: Mapping[str, tuple[str, ...]] = {
    "bmbo": ("bmbo",),
    "optuna_gp": ("optuna", "torch"),
    "smac": ("smac",),
    "botorch": ("torch", "botorch"),
}
"""What a tool needs, by the names of its modules."""


def measured(tool: str, size: int) -> dict[str, float]:
    """Return the seconds to the first batch with and without imports, those of a second batch, and the peak memory."""
    begun, used = time.perf_counter(), time.process_time()
    made = TOOLS[tool](size)
    ready, busy = time.perf_counter(), time.process_time()
    batch = made.ask()
    first, first_cpu = time.perf_counter(), time.process_time()
    for handle, point, level in batch:
        made.tell(handle, value_of(point, level))
    told, told_cpu = time.perf_counter(), time.process_time()
    made.ask()
    second, second_cpu = time.perf_counter(), time.process_time()
    unit = 1 if sys.platform == "darwin" else 1024
    return {
        "start": first - begun,
        "start cpu": first_cpu - used,
        "first": first - ready,
        "first cpu": first_cpu - busy,
        "second": second - told,
        "second cpu": second_cpu - told_cpu,
        "MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20,
    }


if __name__ == "__main__":
    print(json.dumps(measured(sys.argv[1], int(sys.argv[2]))))
