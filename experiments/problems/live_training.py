"""Make problems that train a scikit-learn model on small real data at every evaluation.

A value depends on the configuration and the level only: data, split, and seeds are fixed, and one thread computes. A
training at the top takes a quarter of a second at most. Fidelities are samples, epochs or trees. Costs are given, not
measured: they are in proportion to the fidelity.

Nothing is repaired. A configuration that diverges has the value that comes out, however large. If that is not a finite
number, or if scikit-learn refuses the configuration, the value is NaN, and methods are told of a failure.
"""

import math
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from threadpoolctl import ThreadpoolController

import bmbo
from experiments.problems import live_data
from experiments.problems import live_models as models
from experiments.problems.benchmark import Benchmark
from experiments.problems.live_data import Data, Part
from experiments.problems.live_models import Config, Model

Make = Callable[[Config, int], Model]
"""Returns an untrained model for a configuration and an amount of the fidelity."""


def _accuracy(model: Model, part: Part) -> float:
    return float(np.mean(model.predict(part.inputs) == part.targets))


def _log_loss(model: Model, part: Part) -> float:
    shares = np.asarray(model.predict_proba(part.inputs), np.float64)
    own = shares[np.arange(len(part.targets)), np.searchsorted(model.classes_, part.targets)]
    # The smallest share is that of scikit-learn's own function: a wrong answer given with certainty costs 36.
    return float(-np.mean(np.log(np.maximum(own, np.finfo(np.float64).eps))))


def _squared_error(model: Model, part: Part) -> float:
    return float(np.mean((model.predict(part.inputs) - part.targets) ** 2))


@dataclass(frozen=True)
class Score:
    """Judge a trained model on the validation part.

    Attributes:
        name: what is measured.
        of: returns the value.
        maximise: whether larger values are better.
    """

    name: str
    of: Callable[[Model, Part], float]
    maximise: bool


ACCURACY = Score("accuracy", _accuracy, maximise=True)

LOG_LOSS = Score("log loss", _log_loss, maximise=False)

SQUARED_ERROR = Score("mean squared error", _squared_error, maximise=False)


@cache
def _thread_pools() -> ThreadpoolController:
    """Return the handle of all thread pools in this process. scikit-learn must have been imported before."""
    return ThreadpoolController()


@contextmanager
def _alone_and_quiet() -> Generator[None]:
    """Compute in one thread, and keep the warnings of trainings that diverge or stop before they converge."""
    with _thread_pools().limit(limits=1), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@dataclass(frozen=True)
class Training:
    """Train a model on real data and judge it.

    Attributes:
        data: returns the data.
        make: returns the untrained model.
        score: judges the trained model.
        unit: what the fidelity counts: "samples", "epochs" or "trees".
        amounts: the amount at each level.
    """

    data: Callable[[], Data]
    make: Make
    score: Score
    unit: str
    amounts: tuple[int, ...]

    def __call__(self, config: Config, level: int) -> float:
        """Return the value of a configuration at a level, or NaN if there is none."""
        data, amount = self.data(), self.amounts[level]
        part = data.training.first(amount) if self.unit == "samples" else data.training
        model = self.make(config, amount)
        with _alone_and_quiet():
            try:
                value = self.score.of(model.fit(part.inputs, part.targets), data.validation)
            except ValueError:
                # This is how scikit-learn reports numbers that overflow, and choices that do not go together.
                return math.nan
        return value if math.isfinite(value) else math.nan


class Margin:
    """Judge a classifier by the mean hinge loss of its margins, which tells apart models with the same accuracy."""

    def __call__(self, model: Model, part: Part) -> float:
        """Return the mean of the largest violation of each sample."""
        margins = np.asarray(model.decision_function(part.inputs), np.float64)
        place = np.searchsorted(model.classes_, part.targets)
        rows = np.arange(len(place))
        own = margins[rows, place]
        margins[rows, place] = -np.inf
        return float(np.mean(np.maximum(0.0, 1.0 - own + margins.max(axis=1))))


HINGE = Score("hinge loss", Margin(), maximise=False)


@dataclass(frozen=True)
class _Plan:
    space: bmbo.Space
    training: Training
    source: str


_digits, _cancer, _wine = live_data.digits, live_data.cancer, live_data.wine

_diabetes, _news = live_data.diabetes, live_data.news

PLANS: Mapping[str, _Plan] = {
    "svc_digits": _Plan(
        models.SVC_SPACE,
        Training(_digits, models.svc, ACCURACY, "samples", (50, 200, 800)),
        "support vectors on digits",
    ),
    "svc_wine": _Plan(
        models.SVC_WINE_SPACE,
        Training(_wine, models.svc, HINGE, "samples", (30, 90)),
        "support vectors on wine, not scaled",
    ),
    "nu_svc_cancer": _Plan(
        models.NU_SVC_SPACE,
        Training(_cancer, models.nu_svc, ACCURACY, "samples", (85, 340)),
        "nu support vectors on tumours; some refuse",
    ),
    "svr_diabetes": _Plan(
        models.SVR_SPACE,
        Training(_diabetes, models.svr, SQUARED_ERROR, "samples", (40, 110, 295)),
        "support vector regression on diabetes",
    ),
    "ridge_diabetes": _Plan(
        models.RIDGE_SPACE,
        Training(_diabetes, models.kernel_ridge, SQUARED_ERROR, "samples", (148, 295)),
        "kernel ridge on diabetes",
    ),
    "mlp_digits": _Plan(
        models.MLP_SPACE, Training(_digits, models.mlp, LOG_LOSS, "epochs", (1, 3, 9)), "a network on digits, by epochs"
    ),
    "mlp_digits_samples": _Plan(
        models.MLP_SPACE,
        Training(_digits, models.mlp_on_samples, ACCURACY, "samples", (60, 200, 600)),
        "a network on digits, by samples",
    ),
    "mlp_cancer": _Plan(
        models.MLP_CANCER_SPACE,
        Training(_cancer, models.mlp, LOG_LOSS, "epochs", (1, 3, 8, 24)),
        "a network on tumours, 12 parameters",
    ),
    "mlp_diabetes": _Plan(
        models.MLP_SMALL_SPACE,
        Training(_diabetes, models.mlp_regressor, SQUARED_ERROR, "epochs", (2, 10, 60)),
        "a network on diabetes",
    ),
    "sgd_digits": _Plan(
        models.SGD_SPACE, Training(_digits, models.sgd, ACCURACY, "epochs", (1, 5, 25)), "gradient descent on digits"
    ),
    "sgd_cancer": _Plan(
        models.SGD_CANCER_SPACE,
        Training(_cancer, models.sgd_cancer, LOG_LOSS, "epochs", (2, 8, 30, 60)),
        "gradient descent on tumours",
    ),
    "sgd_news": _Plan(
        models.SGD_NEWS_SPACE,
        Training(_news, models.sgd_news, LOG_LOSS, "epochs", (1, 5, 20)),
        "gradient descent on texts",
    ),
    "sgd_diabetes": _Plan(
        models.SGD_REGRESSOR_SPACE,
        Training(_diabetes, models.sgd_regressor, SQUARED_ERROR, "epochs", (2, 10, 50)),
        "descent on diabetes",
    ),
    "sgd_expanded": _Plan(
        models.SGD_EXPANDED_SPACE,
        Training(_diabetes, models.sgd_expanded, SQUARED_ERROR, "epochs", (2, 8, 40)),
        "descent on polynomials",
    ),
    "boosting_cancer": _Plan(
        models.BOOSTING_SPACE,
        Training(_cancer, models.boosting, LOG_LOSS, "trees", (3, 10, 60)),
        "histogram boosting on tumours",
    ),
    "boosting_diabetes": _Plan(
        models.BOOSTING_REGRESSOR_SPACE,
        Training(_diabetes, models.boosting_regressor, SQUARED_ERROR, "trees", (3, 15, 90)),
        "histogram boosting on diabetes",
    ),
    "forest_digits": _Plan(
        models.FOREST_SPACE, Training(_digits, models.forest, LOG_LOSS, "trees", (2, 8, 32)), "a forest on digits"
    ),
    "forest_cancer": _Plan(
        models.FOREST_SPACE,
        Training(_cancer, models.forest_on_samples, LOG_LOSS, "samples", (40, 120, 340)),
        "a forest on tumours",
    ),
    "trees_diabetes": _Plan(
        models.EXTRA_TREES_SPACE,
        Training(_diabetes, models.extra_trees, SQUARED_ERROR, "trees", (2, 10, 60)),
        "extra trees on diabetes",
    ),
    "neighbours_digits": _Plan(
        models.NEIGHBOURS_SPACE,
        Training(_digits, models.neighbours, ACCURACY, "samples", (80, 250, 800)),
        "neighbours on digits",
    ),
    "neighbours_diabetes": _Plan(
        models.NEIGHBOURS_REGRESSOR_SPACE,
        Training(_diabetes, models.neighbours_regressor, SQUARED_ERROR, "samples", (60, 295)),
        "neighbours on diabetes",
    ),
    "logistic_news": _Plan(
        models.LOGISTIC_NEWS_SPACE,
        Training(_news, models.logistic_news, LOG_LOSS, "samples", (90, 300, 900)),
        "logistic regression on texts",
    ),
}


def _make(name: str) -> Benchmark:
    plan = PLANS[name]
    training = plan.training
    ladder = bmbo.Ladder(
        bmbo.Fidelity(amount, cost=amount / training.amounts[0], name=f"{amount} {training.unit}")
        for amount in training.amounts
    )
    problem = bmbo.Problem(plan.space, ladder, maximise=training.score.maximise)
    source = f"{plan.source}: {training.score.name}"
    return Benchmark(name, problem, training, None, source, training.data)


PROBLEMS: dict[str, Callable[[], Benchmark]] = {name: partial(_make, name) for name in PLANS}
