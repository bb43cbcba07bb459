"""Problems whose parameters exist only in some branches: a function with a known minimum, and a choice of models."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import bmbo
from bmbo import Categorical, Fidelity, Float, Int

SPLIT = (400, 700)
"""Images of handwritten digits: so many for training at the top, and the end of those for testing."""


@dataclass(frozen=True)
class Branching:
    """Hold a problem with branches; small values are good.

    Attributes:
        name: of the problem.
        space: its parameters with their conditions.
        fidelities: its levels.
        evaluate: the value of a configuration at the value of a fidelity.
    """

    name: str
    space: Mapping[str, Any]
    fidelities: tuple[Fidelity, ...]
    evaluate: Callable[[Mapping[str, Any], Any], float]

    @property
    def top(self) -> Fidelity:
        """Return the level that counts."""
        return self.fidelities[-1]


def three_branches(config: Mapping[str, Any], effort: float) -> float:
    """Return a value that is 0 at best, in the branch "net" with two layers; "tree" is nearly as good."""
    common = 2.0 * (config["shared"] - 0.6) ** 2
    if config["model"] == "line":
        found = 0.4 + (config["slope"] - 0.2) ** 2
    elif config["model"] == "tree":
        found = 0.05 + 0.01 * (config["depth"] - 5) ** 2 + (np.log10(config["leaf"]) + 2.0) ** 2 / 4
    else:
        found = 0.3 * abs(config["layers"] - 2) + 2.0 * (np.log10(config["rate"]) + 2.5) ** 2 / 4
        found += (config["first"] - 0.7) ** 2
        if config["layers"] >= 2:
            found += (config["second"] - 0.3) ** 2
        if config["layers"] >= 3:
            found += (config["third"] - 0.5) ** 2
    return float(common + found + 0.15 / effort * (1.0 + config["shared"]))


FUNCTION = Branching(
    "three branches",
    {
        "model": Categorical(["line", "tree", "net"]),
        "shared": Float(0, 1),
        "slope": Float(0, 1, when={"model": "line"}),
        "depth": Int(1, 12, when={"model": "tree"}),
        "leaf": Float(1e-4, 1e-1, log=True, when={"model": "tree"}),
        "layers": Int(1, 3, when={"model": "net"}),
        "rate": Float(1e-4, 1.0, log=True, when={"model": "net"}),
        "first": Float(0, 1, when={"model": "net"}),
        "second": Float(0, 1, when={"layers": [2, 3]}),
        "third": Float(0, 1, when={"layers": 3}),
    },
    (Fidelity(1, cost=1), Fidelity(10, cost=10)),
    three_branches,
)


@cache
def _digits() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits  # noqa: PLC0415 - only this problem needs scikit-learn

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    return np.asarray(images, np.float64)[order] / 16.0, np.asarray(labels)[order]


def _model(config: Mapping[str, Any]) -> Any:
    from sklearn.ensemble import RandomForestClassifier  # noqa: PLC0415
    from sklearn.neighbors import KNeighborsClassifier  # noqa: PLC0415
    from sklearn.svm import SVC  # noqa: PLC0415

    if config["model"] == "forest":
        return RandomForestClassifier(
            config["trees"], max_features=config["share"], min_samples_leaf=config["leaf"], random_state=0
        )
    if config["model"] == "neighbours":
        return KNeighborsClassifier(config["k"], weights=config["weights"], p=config["p"])
    more = {name: config[name] for name in ("gamma", "degree") if name in config}
    return SVC(C=config["c"], kernel=config["kernel"], max_iter=20000, **more)


def digits(config: Mapping[str, Any], size: float) -> float:
    """Return the share of wrong digits of a model that has seen `size` images."""
    images, labels = _digits()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = _model(config).fit(images[: int(size)], labels[: int(size)])
        return float(1.0 - model.score(images[-SPLIT[1] :], labels[-SPLIT[1] :]))


DIGITS = Branching(
    "models of digits",
    {
        "model": Categorical(["svm", "forest", "neighbours"]),
        "c": Float(1e-3, 1e3, log=True, when={"model": "svm"}),
        "kernel": Categorical(["linear", "rbf", "poly"], when={"model": "svm"}),
        "gamma": Float(1e-4, 1e1, log=True, when={"kernel": ["rbf", "poly"]}),
        "degree": Int(2, 5, when={"kernel": "poly"}),
        "trees": Int(5, 50, log=True, when={"model": "forest"}),
        "share": Float(0.05, 1.0, when={"model": "forest"}),
        "leaf": Int(1, 20, log=True, when={"model": "forest"}),
        "k": Int(1, 30, log=True, when={"model": "neighbours"}),
        "weights": Categorical(["uniform", "distance"], when={"model": "neighbours"}),
        "p": Int(1, 3, when={"model": "neighbours"}),
    },
    (Fidelity(100, cost=1), Fidelity(SPLIT[0], cost=4)),
    digits,
)

PROBLEMS = {each.name: each for each in (FUNCTION, DIGITS)}


def without_conditions(space: Mapping[str, Any]) -> bmbo.Space:
    """Return a space in which every parameter always exists; an objective ignores what does not apply."""
    described = [
        {name: value for name, value in entry.items() if name != "when"} for entry in bmbo.Space(space).to_json()
    ]
    return bmbo.Space.from_json(described)
