"""Applications as objectives: values that are known are not trained for again, and all others are real numbers.

A training that diverges, or ends beyond the application's ceiling, has the ceiling as its value. One that passes its
deadline has none: it counts as a failure (NaN) and is tried anew the next time, for how far a machine gets is not a
property of a configuration.
"""

import hashlib
import importlib
import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from experiments.applications.application import Application, Config, Deadline, OutOfTimeError
from experiments.applications.training_cache import KeptStates, Shelf, shelf
from experiments.problems.benchmark import Benchmark, DataMissingError

TIMEOUT = 3600.0
"""Seconds of one training: many times what the slowest takes on one core."""

_NUMBER = struct.Struct("<d")

SEED = 0
"""Of trainings in comparisons: their objective is one function for all methods and all runs."""


def module_of(name: str) -> ModuleType:
    """The module of an application, with what it needs."""
    try:
        return importlib.import_module(f"experiments.applications.{name}")
    except ImportError as error:
        raise DataMissingError(f"{name} cannot be used here ({error}); install the packages of experiments") from error


def get(name: str) -> Application:
    """An application by its name."""
    return module_of(name).APPLICATION


def canonical(config: Config) -> str:
    """The same text for the same configuration, whatever the order of its names and the types of its numbers."""
    plain = {name: value.item() if hasattr(value, "item") else value for name, value in config.items()}
    return json.dumps(plain, sort_keys=True, separators=(",", ":"))


def key_of(application: Application, config: Config, seed: int) -> str:
    """Under which states and values of a training are kept."""
    described = json.dumps([application.name, application.version, canonical(config), seed])
    return hashlib.sha256(described.encode()).hexdigest()


def capped(application: Application, loss: float) -> float:
    """The ceiling for what is not finite or beyond it."""
    sign = application.problem.sign
    within = math.isfinite(loss) and sign * loss >= sign * application.ceiling
    return loss if within else application.ceiling


def evaluate(
    application: Application,
    config: Config,
    level: int,
    *,
    seed: int = SEED,
    timeout: float = TIMEOUT,
    where: Shelf | None = None,
) -> float:
    """The value of a configuration at a level; NaN where the time was not enough."""
    where = where or shelf()
    key = key_of(application, config, seed)
    name = f"{key}.{level}.value"
    known = where.read(name)
    if known is not None:
        return _NUMBER.unpack_from(known)[0]
    states = KeptStates(where, key)
    try:
        value = capped(application, application.train(config, level, seed, states, Deadline.after(timeout)))
    except OutOfTimeError:
        return math.nan
    # With its configuration: a name tells nothing, and what runs have visited is worth a row of a table.
    described = json.dumps({"application": application.name, "seed": seed, "config": json.loads(canonical(config))})
    where.write(name, _NUMBER.pack(value) + described.encode())
    top = application.problem.ladder.top
    if level == top:
        # States of large networks are hundreds of megabytes, and lower levels are quick to do again.
        states.drop(range(top + 1))
    return value


def visited(application: Application, *, seed: int = SEED, where: Shelf | None = None) -> list[Config]:
    """All configurations whose value at the top is known, the best first."""
    where, found = where or shelf(), list[tuple[float, str, Config]]()
    for name in where.names(f".{application.problem.ladder.top}.value"):
        kept = where.read(name)
        # Values of before configurations were kept with them say nothing of theirs.
        if kept is None or len(kept) == _NUMBER.size:
            continue
        described = json.loads(kept[_NUMBER.size :])
        same = described["application"] == application.name and described["seed"] == seed
        if same and name.startswith(key_of(application, described["config"], seed)):
            value = application.problem.sign * _NUMBER.unpack_from(kept)[0]
            found.append((-value, name, described["config"]))
    return [config for _, _, config in sorted(found, key=lambda each: each[:2])]


@dataclass(frozen=True)
class Objective:
    """What a benchmark evaluates."""

    application: Application
    seed: int = SEED
    timeout: float = TIMEOUT

    def __call__(self, config: Mapping[str, Any], level: int) -> float:
        """See `Benchmark.evaluate`."""
        return evaluate(self.application, config, level, seed=self.seed, timeout=self.timeout)


def benchmark(application: Application, seed: int = SEED, timeout: float = TIMEOUT) -> Benchmark:
    """An application as a problem of the comparisons; no one knows its optimum."""
    objective = Objective(application, seed, timeout)
    return Benchmark(application.name, application.problem, objective, None, application.source, application.prepare)
