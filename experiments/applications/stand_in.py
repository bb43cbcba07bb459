"""Replace applications that are too expensive for a whole comparison by regressions on tables of their losses.

A stand-in maps a configuration to the losses of all levels at once, so that it keeps what levels have in common. The
configuration is a point of the space's unit cube, with a coordinate for every category. Losses that are all positive
and differ by more than a factor of `LOG_RATIO` are learnt as logarithms.

All candidates come from scikit-learn. bmbo's own surrogates are no candidates, because a method would then optimise its
own model. Several of the compared methods use Gaussian processes, and ours uses networks. So the rule takes forests of
trees, unless another candidate is clearly better on held-out rows. `IN_USE` says why one case does not follow the rule.
"""

# scikit-learn is imported where it is used, because it may be missing.
# ruff: noqa: PLC0415

import importlib.util
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

import bmbo
from experiments.applications import fill_training_table as table
from experiments.applications.cached_evaluation import get_application
from experiments.problems.benchmark import Benchmark, DataMissingError

Floats = NDArray[np.float64]
Predict = Callable[[Floats], Floats]
"""Maps points [n d] to standardised losses [n m]."""

NUM_TREES = 100
"""With so many trees, a query takes about a millisecond."""

NUM_NETWORKS = 4
NUM_FOLDS = 10
SEED = 0

LOG_RATIO = 3.0
"""Below this ratio of the largest to the smallest loss, a logarithm changes too little to matter."""

TOLERANCE = 1.1
"""A candidate is near enough to the best if its error is at most this many times the smallest error."""

BEST_SHARE = 0.2
"""The share of the rows with the best losses at the top. Optimisers spend their time there."""

NUM_RANDOM = 10_000
"""Random points that measure how much of the cube has the best loss of the table."""

FEWEST_ROWS = 20
"""With fewer rows, there are not enough to hold some out."""


def _forest(points: Floats, losses: Floats) -> Predict:
    from sklearn.ensemble import ExtraTreesRegressor

    fitted = ExtraTreesRegressor(NUM_TREES, random_state=SEED, n_jobs=1).fit(points, losses)
    trees = [each.tree_ for each in fitted.estimators_]
    shape = losses.shape[1]

    def predict(asked: Floats) -> Floats:
        # This avoids scikit-learn's checks of every tree, which take ten times as long as the trees.
        single = np.ascontiguousarray(asked, np.float32)
        return np.mean([tree.predict(single).reshape(len(single), shape) for tree in trees], axis=0)

    return predict


def _boosting(points: Floats, losses: Floats) -> Predict:
    """Return a model that predicts each level from the point and the predicted losses of the levels below."""
    from sklearn.ensemble import GradientBoostingRegressor

    fitted = [
        GradientBoostingRegressor(n_estimators=200, max_depth=3, subsample=0.7, random_state=SEED).fit(
            np.column_stack([points, losses[:, :level]]), losses[:, level]
        )
        for level in range(losses.shape[1])
    ]

    def predict(asked: Floats) -> Floats:
        found = asked
        for each in fitted:
            found = np.column_stack([found, each.predict(found)])
        return found[:, asked.shape[1] :]

    return predict


def _networks(points: Floats, losses: Floats) -> Predict:
    from sklearn.neural_network import MLPRegressor

    members: list[Any] = [
        MLPRegressor(hidden_layer_sizes=(32, 32), alpha=1e-2, solver="lbfgs", max_iter=200, random_state=member).fit(
            points, losses
        )
        for member in range(NUM_NETWORKS)
    ]
    return lambda asked: np.mean([each.predict(asked).reshape(len(asked), -1) for each in members], axis=0)


def _process(points: Floats, losses: Floats) -> Predict:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    lengths: Any = np.ones(points.shape[1])
    kernel = ConstantKernel(1.0) * Matern(lengths, (1e-1, 1e2), nu=2.5) + WhiteKernel(1e-2)
    fitted: Any = GaussianProcessRegressor(kernel, random_state=SEED).fit(points, losses)
    return lambda asked: fitted.predict(asked).reshape(len(asked), -1)


CANDIDATES: Mapping[str, Callable[[Floats, Floats], Predict]] = {
    "extra trees": _forest,
    "gradient boosting": _boosting,
    "networks": _networks,
    "Gaussian process": _process,
}
"""Candidates, the preferred one first."""

IN_USE = next(iter(CANDIDATES))
"""The candidate that is used for all applications. On the table of LDA the rule takes the Gaussian process. But its
loss keeps falling between rows, so that one random point in forty has the best loss of the table (`share_at_best`), and
nothing is left to search for. Forests stay between the losses that they have seen."""


@dataclass(frozen=True)
class Scale:
    """Standardise the losses of each level, and restore them."""

    logs: tuple[bool, ...]
    means: Floats
    deviations: Floats

    @classmethod
    def of(cls, losses: Floats) -> "Scale":
        """Return the scale of losses [n m]."""
        logs = tuple(bool(each.min() > 0 and each.max() > LOG_RATIO * each.min()) for each in losses.T)
        learnt = _with_logs(losses, logs)
        return cls(logs, learnt.mean(axis=0), np.maximum(learnt.std(axis=0), 1e-12))

    def standardise(self, losses: Floats) -> Floats:
        """Return losses [n m] on the scale on which they are learnt."""
        return (_with_logs(losses, self.logs) - self.means) / self.deviations

    def restore(self, standardised: Floats) -> Floats:
        """Return losses from standardised ones."""
        learnt = standardised * self.deviations + self.means
        return np.where(np.array(self.logs), np.exp(np.where(np.array(self.logs), learnt, 0.0)), learnt)


def _with_logs(losses: Floats, logs: Sequence[bool]) -> Floats:
    return np.column_stack([np.log(each) if log else each for each, log in zip(losses.T, logs, strict=True)])


@dataclass(frozen=True)
class StandIn:
    """Predict the losses of any configuration from a table, within the range of the table's losses."""

    space: bmbo.Space
    scale: Scale
    low: Floats
    high: Floats
    predict: Predict

    @classmethod
    def fit(cls, space: bmbo.Space, points: Floats, losses: Floats, kind: str) -> "StandIn":
        """Return a stand-in that is fitted to points of the cube [n d] and losses [n m]."""
        scale = Scale.of(losses)
        with warnings.catch_warnings():
            # Warnings about a length scale at its bound, or a network that could be trained longer. The held-out error
            # judges both.
            warnings.simplefilter("ignore")
            predict = CANDIDATES[kind](points, scale.standardise(losses))
        return cls(space, scale, losses.min(axis=0), losses.max(axis=0), predict)

    def losses(self, points: Floats) -> Floats:
        """Return the losses at points of the cube: [n m]."""
        return np.clip(self.scale.restore(self.predict(points)), self.low, self.high)

    def __call__(self, config: Mapping[str, Any], level: int) -> float:
        """Return the loss of a configuration at a level."""
        return float(self.losses(np.array([self.space.encode(config)], np.float64))[0, level])


def arrays(rows: Sequence[table.Row], space: bmbo.Space) -> tuple[Floats, Floats]:
    """Return the points [n d] and losses [n m] of complete rows. Raise `DataMissingError` if there are too few."""
    whole = [row for row in rows if all(math.isfinite(loss) for loss in row.losses)]
    if len(whole) < FEWEST_ROWS:
        raise DataMissingError(f"the table has {len(whole)} whole rows; a stand-in needs {FEWEST_ROWS} or more")
    points = np.array([space.encode(row.config) for row in whole], np.float64)
    return points, np.array([row.losses for row in whole], np.float64)


@cache
def _fitted(name: str) -> StandIn:
    path, problem = table.path_of(name), get_application(name).problem
    if not path.is_file():
        raise DataMissingError(f"there is no table of {name}; make it: python -m experiments table {name} --rows 0:300")
    if importlib.util.find_spec("sklearn") is None:
        raise DataMissingError("stand-ins need scikit-learn: pip install scikit-learn")
    points, losses = arrays(table.read(path, problem), problem.space)
    return StandIn.fit(problem.space, points, losses, IN_USE)


@dataclass(frozen=True)
class Objective:
    """Evaluate the stand-in of an application. It is fitted at the first call."""

    name: str

    def __call__(self, config: Mapping[str, Any], level: int) -> float:
        """Return the loss of a configuration at a level."""
        return _fitted(self.name)(config, level)

    def at_top(self, configs: Sequence[Mapping[str, Any]]) -> list[float]:
        """Return the losses of many configurations at the top, far quicker than one by one."""
        fitted = _fitted(self.name)
        points = np.array([fitted.space.encode(config) for config in configs], np.float64)
        return fitted.losses(points)[:, -1].tolist()


def benchmark(name: str) -> Benchmark:
    """Return the stand-in of an application as a problem of the comparisons. Its optimum is not known."""
    application = get_application(name)
    source = f"a regression on a table of {name}: not the application itself"
    objective = Objective(name)
    return Benchmark(
        f"{name}_standin",
        application.problem,
        objective,
        None,
        source,
        lambda: _fitted(name),
        many_at_top=objective.at_top,
    )


@dataclass(frozen=True)
class Errors:
    """Hold the errors of predictions for held-out rows, for each level.

    Attributes:
        rmse: the root of the mean squared error, in the units of the loss.
        r2: the explained share of the variance, on the scale on which losses are learnt.
        spearman: the rank correlation.
        best_rmse: the RMSE of the rows that are best at the top.
        scaled: the RMSE of standardised losses over all levels. The candidate is chosen by this.
    """

    rmse: Floats
    r2: Floats
    spearman: Floats
    best_rmse: Floats
    scaled: float


def held_out(space: bmbo.Space, points: Floats, losses: Floats, kind: str) -> Floats:
    """Return the prediction of every row by a stand-in that was fitted without it: [n m]."""
    folds = np.random.default_rng(SEED).permutation(len(points)) % NUM_FOLDS
    found = np.empty_like(losses)
    for fold in range(NUM_FOLDS):
        out = folds == fold
        found[out] = StandIn.fit(space, points[~out], losses[~out], kind).losses(points[out])
    return found


def _spearman(one: Floats, other: Floats) -> float:
    found: Any = spearmanr(one, other)
    return float(found.statistic)


def errors(losses: Floats, predicted: Floats, sign: float) -> Errors:
    """Return the errors of predictions."""
    scale = Scale.of(losses)
    residuals = scale.standardise(predicted) - scale.standardise(losses)
    best = np.argsort(-sign * losses[:, -1], kind="stable")[: max(2, round(BEST_SHARE * len(losses)))]
    return Errors(
        rmse=np.sqrt(np.mean((predicted - losses) ** 2, axis=0)),
        r2=1 - np.mean(residuals**2, axis=0),
        spearman=np.array([_spearman(a, b) for a, b in zip(losses.T, predicted.T, strict=True)]),
        best_rmse=np.sqrt(np.mean((predicted - losses)[best] ** 2, axis=0)),
        scaled=float(np.sqrt(np.mean(residuals**2))),
    )


def chosen(found: Mapping[str, Errors]) -> str:
    """Return the first candidate whose error is near the smallest."""
    least = min(each.scaled for each in found.values())
    return next(kind for kind in CANDIDATES if kind in found and found[kind].scaled <= TOLERANCE * least)


def share_at_best(space: bmbo.Space, points: Floats, losses: Floats, kind: str, sign: float) -> Floats:
    """Return the share of random points where a stand-in has the best loss of its table, for each level: [m]."""
    fitted = StandIn.fit(space, points, losses, kind)
    random = space.snap(np.random.default_rng(SEED).random((NUM_RANDOM, space.dim)))
    return np.mean(fitted.losses(random) == (fitted.low if sign < 0 else fitted.high), axis=0)


def accuracy_page(name: str, path: Path | None = None) -> str:
    """Return a Markdown page with the errors of all candidates on held-out rows."""
    path, problem = path or table.path_of(name), get_application(name).problem
    if not path.is_file():
        raise DataMissingError(f"there is no {path}; make it: python -m experiments table {name} --rows 0:300")
    points, losses = arrays(table.read(path, problem), problem.space)
    found = {kind: errors(losses, held_out(problem.space, points, losses, kind), problem.sign) for kind in CANDIDATES}
    head = ["candidate", "level", "RMSE", "R²", "Spearman", f"RMSE of the best {BEST_SHARE:.0%}", "scaled error"]
    head.append("random points at the best loss")
    rows = [head, ["---"] * len(head)]
    for kind, each in found.items():
        shares = share_at_best(problem.space, points, losses, kind, problem.sign)
        for level, fidelity in enumerate(problem.ladder.fidelities):
            numbers = (each.rmse, each.r2, each.spearman, each.best_rmse)
            cells = [f"{values[level]:.3g}" for values in numbers]
            rows.append([kind, fidelity.name, *cells, f"{each.scaled:.3g}", f"{shares[level]:.2%}"])
    spread = ", ".join(f"{deviation:.3g}" for deviation in losses.std(axis=0))
    return "\n".join(
        [
            f"# The stand-in of {name}",
            "",
            f"{len(losses)} rows, {NUM_FOLDS} folds; standard deviations of the losses {spread}. "
            f"Taken by the rule: {chosen(found)}; in use: {IN_USE}.",
            "",
            *("| " + " | ".join(row) + " |" for row in rows),
        ]
    )
