"""Train gradient boosting on the diabetes data (Efron et al. 2004, 442 people): the paper's third application.

What the paper leaves open, or what has changed since:

- The two criteria for splits, "MAE" and "MSE". `GradientBoostingRegressor` lost the first one in scikit-learn 1.1, and
  since 1.9 the criterion cannot be chosen. So the loop around the trees is written here. The trees are scikit-learn's
  `DecisionTreeRegressor` with the criterion "absolute_error" or "squared_error", as they were then. With the second
  one, results equal those of `GradientBoostingRegressor(loss="huber")`, and a test compares them. Everything else is
  the default of that class: a learning rate of 0.1, and one sample per leaf.
- The scale of the pruning parameter is logarithmic. Trees are fitted to gradients of the Huber loss. The small
  quantiles of the paper bound these to a few units. On a linear scale, most of [0.01, 100] would prune every tree to
  its root.
- nRMSE is the root of the mean squared error on the evaluation part, divided by the standard deviation of its targets.
  So predicting the mean has a natural logarithm of 0.

All seeds have the same split. A seed draws the subsamples and the features of splits. The trees of one seed are nested:
the first 10 of 100 trees are those of a training with 10 trees.
"""

# scikit-learn is imported where it is used, because it may be missing.
# ruff: noqa: PLC0415

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bmbo
from experiments.applications.application import Application, Config, Deadline, States
from experiments.problems.benchmark import DataMissingError

Floats = NDArray[np.float64]

TREES = (2, 10, 100)

LEARNING_RATE = 0.1

SPLIT_SEED = 0
"""Seed of the split into training and evaluation. It is fixed, so that losses can be compared."""

CRITERIA: Mapping[str, str] = {"MAE": "absolute_error", "MSE": "squared_error"}
"""Maps the names of the paper to those of scikit-learn."""

SPACE = bmbo.Space(
    {
        "alpha": bmbo.Float(0.01, 0.1),
        "ccp_alpha": bmbo.Float(0.01, 100.0, log=True),
        "subsample": bmbo.Float(0.1, 1.0),
        "max_features": bmbo.Float(0.01, 1.0),
        "criterion": bmbo.Categorical(tuple(CRITERIA)),
        "min_samples_split": bmbo.Int(2, 9),
        "max_depth": bmbo.Int(1, 16),
    }
)


@dataclass(frozen=True)
class Part:
    """Hold measurements [n 10] and targets [n]."""

    inputs: Floats
    targets: Floats


@cache
def parts() -> tuple[Part, Part]:
    """Return the training part (two thirds) and the evaluation part. Raise `DataMissingError` without scikit-learn."""
    try:
        from sklearn.datasets import load_diabetes
    except ImportError as error:
        raise DataMissingError("boosting needs scikit-learn: pip install scikit-learn") from error
    data: Any = load_diabetes()
    inputs, targets = np.asarray(data.data, np.float64), np.asarray(data.target, np.float64)
    order = np.random.default_rng(SPLIT_SEED).permutation(len(targets))
    # Rounded up: 295 of 442.
    training, evaluation = np.split(order, [math.ceil(2 * len(order) / 3)])
    return Part(inputs[training], targets[training]), Part(inputs[evaluation], targets[evaluation])


def _quantile(values: Floats, share: float) -> float:
    # The method of scikit-learn's boosting, which returns one of the values.
    return float(np.quantile(values, share, method="inverted_cdf"))


def _leaf_values(leaves: NDArray[np.intp], residuals: Floats, delta: float, num_nodes: int) -> Floats:
    """Return the step of every leaf (Friedman 2001, algorithm 4), by the number of its node in the tree."""
    order = np.lexsort((residuals, leaves))
    found, starts, counts = np.unique(leaves[order], return_index=True, return_counts=True)
    medians = np.zeros(num_nodes)
    medians[found] = residuals[order][starts + (counts + 1) // 2 - 1]
    rest = np.clip(residuals - medians[leaves], -delta, delta)
    return medians + np.bincount(leaves, rest, num_nodes) / np.maximum(1, np.bincount(leaves, minlength=num_nodes))


def boosted(config: Config, training: Part, inputs: Floats, seed: int) -> Iterator[Floats]:
    """Yield the predictions at some inputs [n] after 1, 2, 3, ... trees."""
    from sklearn.tree import DecisionTreeRegressor

    generator = np.random.RandomState(seed)
    num = len(training.targets)
    num_bagged = max(1, int(config["subsample"] * num))
    fitted = np.full(num, np.median(training.targets))
    predicted = np.full(len(inputs), np.median(training.targets))
    while True:
        residuals = training.targets - fitted
        delta = _quantile(np.abs(residuals), config["alpha"])
        gradients = np.clip(residuals, -delta, delta)
        bag = np.sort(generator.permutation(num)[:num_bagged]) if num_bagged < num else np.arange(num)
        tree = DecisionTreeRegressor(
            criterion=CRITERIA[config["criterion"]],
            max_depth=config["max_depth"],
            min_samples_split=config["min_samples_split"],
            # scikit-learn converts a fraction in the same way, to at least one.
            max_features=max(1, int(config["max_features"] * training.inputs.shape[1])),
            ccp_alpha=config["ccp_alpha"],
            random_state=generator,
        ).fit(training.inputs[bag], gradients[bag])
        leaves = tree.apply(training.inputs)
        steps = _leaf_values(leaves[bag], residuals[bag], delta, tree.tree_.node_count)
        fitted = fitted + LEARNING_RATE * steps[leaves]
        predicted = predicted + LEARNING_RATE * steps[tree.apply(inputs)]
        yield predicted


def train(config: Config, level: int, seed: int, states: States, deadline: Deadline) -> float:
    """Return the logarithm of the nRMSE, see `Train`. It is so quick that no states are kept."""
    del states
    training, evaluation = parts()
    predictions = boosted(config, training, evaluation.inputs, seed)
    predicted: Any = None
    for _ in range(TREES[level]):
        predicted = next(predictions)
        deadline.check()
    error = math.sqrt(float(np.mean((predicted - evaluation.targets) ** 2)))
    return math.log(error / float(np.std(evaluation.targets)))


APPLICATION = Application(
    name="boosting",
    problem=bmbo.Problem(
        SPACE,
        # The paper's costs, in proportion to the number of trees.
        bmbo.Ladder(bmbo.Fidelity(trees, cost=trees / 2, name=f"{trees} trees") for trees in TREES),
        maximise=False,
    ),
    train=train,
    version="1",
    # An error e times that of predicting the mean. Averages over leaves do not get so bad.
    ceiling=1.0,
    source="gradient boosting on diabetes, the paper's third application",
    prepare=parts,
)
