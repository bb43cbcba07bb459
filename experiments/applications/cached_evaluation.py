"""Evaluate applications, and keep the values, so that a known value is not trained again.

A training that diverges, or ends above the application's ceiling, has the ceiling as its value. A training that passes
its deadline has no value. It counts as a failure (NaN) and is tried again the next time, because this depends on the
machine and not on the configuration alone.
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
from experiments.applications.training_cache import Store, StoredStates, default_store
from experiments.problems.benchmark import Benchmark, DataMissingError

TIMEOUT = 3600.0
"""Seconds for one training: many times what the slowest one takes on one core."""

_NUMBER = struct.Struct("<d")

SEED = 0
"""Seed of the trainings in comparisons. It is fixed, so that all methods and runs have the same objective."""


def module_of(name: str) -> ModuleType:
    """Return the module of an application. Raise `DataMissingError` if it cannot be imported."""
    try:
        return importlib.import_module(f"experiments.applications.{name}")
    except ImportError as error:
        raise DataMissingError(f"{name} cannot be used here ({error}); install the packages of experiments") from error


def get_application(name: str) -> Application:
    """Return an application by its name."""
    return module_of(name).APPLICATION


def canonical(config: Config) -> str:
    """Return a configuration as text that does not depend on the order of names or on number types."""
    plain = {name: value.item() if hasattr(value, "item") else value for name, value in config.items()}
    return json.dumps(plain, sort_keys=True, separators=(",", ":"))


def key_of(application: Application, config: Config, seed: int) -> str:
    """Return the key under which the states and values of a training are stored."""
    described = json.dumps([application.name, application.version, canonical(config), seed])
    return hashlib.sha256(described.encode()).hexdigest()


def capped(application: Application, loss: float) -> float:
    """Return the loss, or the ceiling if the loss is beyond it or not finite."""
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
    store: Store | None = None,
) -> float:
    """Return the value of a configuration at a level, or NaN if the time was not enough."""
    store = store or default_store()
    key = key_of(application, config, seed)
    name = f"{key}.{level}.value"
    known = store.read(name)
    if known is not None:
        return _NUMBER.unpack_from(known)[0]
    states = StoredStates(store, key)
    try:
        value = capped(application, application.train(config, level, seed, states, Deadline.after(timeout)))
    except OutOfTimeError:
        return math.nan
    # The configuration is stored too, because the key does not reveal it, and `visited_configs` needs it.
    described = json.dumps({"application": application.name, "seed": seed, "config": json.loads(canonical(config))})
    store.write(name, _NUMBER.pack(value) + described.encode())
    top = application.problem.ladder.top
    if level == top:
        # States of large networks take hundreds of megabytes, and lower levels are quick to train again.
        states.drop(range(top + 1))
    return value


def visited_configs(application: Application, *, seed: int = SEED, store: Store | None = None) -> list[Config]:
    """Return all configurations whose value at the top is known, the best first."""
    store, found = store or default_store(), list[tuple[float, str, Config]]()
    for name in store.names(f".{application.problem.ladder.top}.value"):
        kept = store.read(name)
        # Old values were stored without their configuration.
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
    """Evaluate an application as the objective of a benchmark."""

    application: Application
    seed: int = SEED
    timeout: float = TIMEOUT

    def __call__(self, config: Mapping[str, Any], level: int) -> float:
        """Return the value of a configuration at a level."""
        return evaluate(self.application, config, level, seed=self.seed, timeout=self.timeout)


def benchmark(application: Application, seed: int = SEED, timeout: float = TIMEOUT) -> Benchmark:
    """Return an application as a problem of the comparisons. Its optimum is not known."""
    objective = Objective(application, seed, timeout)
    return Benchmark(application.name, application.problem, objective, None, application.source, application.prepare)
