"""Make problems that train a scikit-learn model on small real data at every evaluation.

A value depends on the configuration and the level only: data, split, and seeds are fixed, and one thread computes. A
training at the top takes a quarter of a second at most. Fidelities are samples, epochs or trees. Costs are given, not
measured: they are in proportion to the fidelity.

Nothing is repaired. A configuration that diverges has the value that comes out, however large. If that is not a finite
number, or if scikit-learn refuses the configuration, the value is NaN, and methods are told of a failure.
"""

# scikit-learn is imported where it is used, because it may be missing.
# ruff: noqa: PLC0415

import math
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

import bmbo
from experiments.problems import live_data
from experiments.problems.benchmark import Benchmark
from experiments.problems.live_data import Data, Part

Config = Mapping[str, Any]
Model = Any
"""An estimator of scikit-learn, whose types are incomplete."""

Make = Callable[[Config, int], Model]
"""Returns an untrained model for a configuration and an amount of the fidelity."""

SEED = 0
"""Seed of all models. It is fixed, so that values can be compared."""

ENDLESS_PATIENCE = 10**9
"""Epochs without progress after which a training may stop early: never, so that an epoch costs the same everywhere."""


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
def _thread_pools() -> Any:
    """Return the handle of all thread pools in this process. scikit-learn must have been imported before."""
    from threadpoolctl import ThreadpoolController

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


def _scaled(config: Config, model: Model) -> Model:
    """Return a model behind the scaling of its inputs that the configuration names."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler, StandardScaler

    scalers: dict[str, Callable[[], Any]] = {"standard": StandardScaler, "range": MinMaxScaler}
    return model if config["scaling"] == "none" else make_pipeline(scalers[config["scaling"]](), model)


SCALING = bmbo.Categorical(("none", "standard", "range"))

LONGEST_SVM = 20_000
"""Iterations of a support vector machine at most. Inputs without scaling would take minutes."""

SVC_SPACE = bmbo.Space(
    {
        "C": bmbo.Float(1e-3, 1e4, log=True),
        "gamma": bmbo.Float(1e-6, 1e1, log=True),
        "kernel": bmbo.Categorical(("rbf", "poly", "sigmoid")),
        "degree": bmbo.Int(2, 5),
        "coef0": bmbo.Float(-1.0, 1.0),
    }
)


def _svc(config: Config, _: int) -> Model:
    from sklearn.svm import SVC

    return SVC(**config, max_iter=LONGEST_SVM, random_state=SEED)


SVC_WINE_SPACE = bmbo.Space({"C": bmbo.Float(1e-3, 1e4, log=True), "gamma": bmbo.Float(1e-6, 1e1, log=True)})


class _Margin:
    """Judge a classifier by the mean hinge loss of its margins, which tells apart models with the same accuracy."""

    def __call__(self, model: Model, part: Part) -> float:
        """Return the mean of the largest violation of each sample."""
        margins = np.asarray(model.decision_function(part.inputs), np.float64)
        place = np.searchsorted(model.classes_, part.targets)
        rows = np.arange(len(place))
        own = margins[rows, place]
        margins[rows, place] = -np.inf
        return float(np.mean(np.maximum(0.0, 1.0 - own + margins.max(axis=1))))


HINGE = Score("hinge loss", _Margin(), maximise=False)

NU_SVC_SPACE = bmbo.Space(
    {
        "nu": bmbo.Float(1e-3, 0.9, log=True),
        "gamma": bmbo.Float(1e-6, 1e0, log=True),
        "kernel": bmbo.Categorical(("rbf", "poly", "sigmoid")),
        "scaling": SCALING,
    }
)


def _nu_svc(config: Config, _: int) -> Model:
    from sklearn.svm import NuSVC

    given = {name: config[name] for name in ("nu", "gamma", "kernel")}
    return _scaled(config, NuSVC(**given, max_iter=LONGEST_SVM, random_state=SEED))


SVR_SPACE = bmbo.Space(
    {
        "C": bmbo.Float(1e-3, 1e5, log=True),
        "epsilon": bmbo.Float(1e-4, 3.0, log=True),
        "gamma": bmbo.Float(1e-5, 1e1, log=True),
        "kernel": bmbo.Categorical(("rbf", "poly", "sigmoid", "linear")),
        "degree": bmbo.Int(2, 6),
        "coef0": bmbo.Float(-1.0, 1.0),
    }
)


def _svr(config: Config, _: int) -> Model:
    from sklearn.svm import SVR

    return SVR(**config, max_iter=LONGEST_SVM)


RIDGE_SPACE = bmbo.Space(
    {
        "alpha": bmbo.Float(1e-8, 1e3, log=True),
        "gamma": bmbo.Float(1e-6, 1e1, log=True),
        "kernel": bmbo.Categorical(("rbf", "laplacian", "polynomial")),
    }
)


def _kernel_ridge(config: Config, _: int) -> Model:
    from sklearn.kernel_ridge import KernelRidge

    return KernelRidge(**config)


MLP_SPACE = bmbo.Space(
    {
        "learning_rate": bmbo.Float(1e-5, 1.0, log=True),
        "batch_size": bmbo.Int(16, 128, log=True),
        "units": bmbo.Int(4, 96, log=True),
        "layers": bmbo.Int(1, 2),
        "alpha": bmbo.Float(1e-7, 1e0, log=True),
        "solver": bmbo.Categorical(("sgd", "adam")),
        "momentum": bmbo.Float(0.0, 0.99),
        "activation": bmbo.Categorical(("relu", "tanh", "logistic")),
    }
)

MLP_CANCER_SPACE = bmbo.Space(
    {
        **dict(MLP_SPACE.params),
        "scaling": SCALING,
        "nesterov": bmbo.Categorical((False, True)),
        "beta_1": bmbo.Float(0.5, 0.999),
        "beta_2": bmbo.Float(0.9, 0.9999),
    }
)
"""Twelve parameters, some of which matter for one solver only."""

MLP_SMALL_SPACE = bmbo.Space(
    {
        # Large rates diverge, and some of them until no number is finite.
        "learning_rate": bmbo.Float(1e-4, 1e1, log=True),
        "units": bmbo.Int(4, 64, log=True),
        "alpha": bmbo.Float(1e-6, 1e1, log=True),
        "momentum": bmbo.Float(0.0, 0.99),
    }
)


def _mlp_arguments(config: Config, epochs: int) -> dict[str, Any]:
    return {
        "hidden_layer_sizes": (config["units"],) * config.get("layers", 1),
        "learning_rate_init": config["learning_rate"],
        "batch_size": config.get("batch_size", 32),
        "alpha": config["alpha"],
        "solver": config.get("solver", "sgd"),
        "momentum": config["momentum"],
        "activation": config.get("activation", "relu"),
        "nesterovs_momentum": config.get("nesterov", True),
        "beta_1": config.get("beta_1", 0.9),
        "beta_2": config.get("beta_2", 0.999),
        "max_iter": epochs,
        "n_iter_no_change": ENDLESS_PATIENCE,
        "random_state": SEED,
    }


def _mlp(config: Config, epochs: int) -> Model:
    from sklearn.neural_network import MLPClassifier

    model = MLPClassifier(**_mlp_arguments(config, epochs))
    return _scaled(config, model) if "scaling" in config else model


EPOCHS_OF_SAMPLES = 15
"""Epochs of a network whose fidelity is the number of samples."""


def _mlp_on_samples(config: Config, samples: int) -> Model:
    # A batch cannot be larger than the samples; scikit-learn would cut it and warn.
    return _mlp({**config, "batch_size": min(config["batch_size"], samples)}, EPOCHS_OF_SAMPLES)


def _mlp_regressor(config: Config, epochs: int) -> Model:
    from sklearn.neural_network import MLPRegressor

    return MLPRegressor(**_mlp_arguments(config, epochs))


SGD_SPACE = bmbo.Space(
    {
        "loss": bmbo.Categorical(("hinge", "log_loss", "modified_huber", "squared_hinge", "perceptron")),
        "penalty": bmbo.Categorical(("l2", "l1", "elasticnet")),
        "alpha": bmbo.Float(1e-8, 1e0, log=True),
        "l1_ratio": bmbo.Float(0.0, 1.0),
        "learning_rate": bmbo.Categorical(("optimal", "constant", "invscaling", "adaptive")),
        "eta0": bmbo.Float(1e-5, 1e2, log=True),
        "power_t": bmbo.Float(0.1, 1.0),
        "average": bmbo.Categorical((False, True)),
    }
)

SGD_CANCER_SPACE = bmbo.Space(
    {
        "alpha": bmbo.Float(1e-8, 1e0, log=True),
        "eta0": bmbo.Float(1e-6, 1e2, log=True),
        "learning_rate": bmbo.Categorical(("constant", "invscaling", "adaptive")),
        "scaling": SCALING,
    }
)

SGD_NEWS_SPACE = bmbo.Space(
    {
        "loss": bmbo.Categorical(("log_loss", "modified_huber")),
        "alpha": bmbo.Float(1e-8, 1e-1, log=True),
        "eta0": bmbo.Float(1e-4, 1e3, log=True),
        "learning_rate": bmbo.Categorical(("optimal", "constant", "invscaling", "adaptive")),
        "norm": bmbo.Categorical(("l1", "l2", None)),
        "use_idf": bmbo.Categorical((False, True)),
        "sublinear_tf": bmbo.Categorical((False, True)),
    }
)

SGD_REGRESSOR_SPACE = bmbo.Space(
    {
        "loss": bmbo.Categorical(("squared_error", "huber", "epsilon_insensitive", "squared_epsilon_insensitive")),
        "penalty": bmbo.Categorical(("l2", "l1", "elasticnet")),
        "alpha": bmbo.Float(1e-8, 1e1, log=True),
        "epsilon": bmbo.Float(1e-3, 3.0, log=True),
        "learning_rate": bmbo.Categorical(("constant", "invscaling", "adaptive")),
        "eta0": bmbo.Float(1e-6, 1e1, log=True),
    }
)

SGD_EXPANDED_SPACE = bmbo.Space(
    {
        "alpha": bmbo.Float(1e-8, 1e1, log=True),
        "eta0": bmbo.Float(1e-7, 1e0, log=True),
        "degree": bmbo.Int(1, 3),
        "power_t": bmbo.Float(0.0, 1.0),
    }
)


def _sgd_fixed(epochs: int) -> dict[str, Any]:
    return {"max_iter": epochs, "tol": None, "random_state": SEED}


def _sgd(config: Config, epochs: int) -> Model:
    from sklearn.linear_model import SGDClassifier

    return SGDClassifier(**config, **_sgd_fixed(epochs))


def _sgd_cancer(config: Config, epochs: int) -> Model:
    given = {name: config[name] for name in ("alpha", "eta0", "learning_rate")}
    return _scaled(config, _sgd({**given, "loss": "log_loss"}, epochs))


def _behind_weights(config: Config, model: Model) -> Model:
    """Return a model of texts behind the weighting of word counts that the configuration names."""
    from sklearn.feature_extraction.text import TfidfTransformer
    from sklearn.pipeline import make_pipeline

    given = {name: config[name] for name in ("norm", "use_idf", "sublinear_tf")}
    return make_pipeline(TfidfTransformer(**given), model)


def _sgd_news(config: Config, epochs: int) -> Model:
    given = {name: config[name] for name in ("loss", "alpha", "eta0", "learning_rate")}
    return _behind_weights(config, _sgd(given, epochs))


def _sgd_regressor(config: Config, epochs: int) -> Model:
    from sklearn.linear_model import SGDRegressor

    return SGDRegressor(**config, **_sgd_fixed(epochs))


def _sgd_expanded(config: Config, epochs: int) -> Model:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures

    given = {name: config[name] for name in ("alpha", "eta0", "power_t")}
    return make_pipeline(PolynomialFeatures(config["degree"], include_bias=False), _sgd_regressor(given, epochs))


BOOSTING_SPACE = bmbo.Space(
    {
        "learning_rate": bmbo.Float(1e-3, 1e1, log=True),
        "max_leaf_nodes": bmbo.Int(2, 64, log=True),
        "min_samples_leaf": bmbo.Int(1, 100, log=True),
        "l2_regularization": bmbo.Float(1e-8, 1e3, log=True),
        "max_features": bmbo.Float(0.05, 1.0),
        "max_bins": bmbo.Int(4, 255, log=True),
    }
)

BOOSTING_REGRESSOR_SPACE = bmbo.Space(
    {
        "loss": bmbo.Categorical(("squared_error", "absolute_error")),
        "learning_rate": bmbo.Float(1e-3, 1e1, log=True),
        "max_leaf_nodes": bmbo.Int(2, 64, log=True),
        "min_samples_leaf": bmbo.Int(1, 100, log=True),
        "l2_regularization": bmbo.Float(1e-8, 1e3, log=True),
    }
)


def _boosting_arguments(config: Config, trees: int) -> dict[str, Any]:
    return {**config, "max_iter": trees, "early_stopping": False, "random_state": SEED}


def _boosting(config: Config, trees: int) -> Model:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(**_boosting_arguments(config, trees))


def _boosting_regressor(config: Config, trees: int) -> Model:
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(**_boosting_arguments(config, trees))


FOREST_SPACE = bmbo.Space(
    {
        "max_depth": bmbo.Int(1, 30, log=True),
        "min_samples_split": bmbo.Int(2, 60, log=True),
        "min_samples_leaf": bmbo.Int(1, 40, log=True),
        "max_features": bmbo.Float(0.02, 1.0, log=True),
        "criterion": bmbo.Categorical(("gini", "entropy")),
        "bootstrap": bmbo.Categorical((False, True)),
    }
)

EXTRA_TREES_SPACE = bmbo.Space(
    {
        "max_depth": bmbo.Int(1, 30, log=True),
        "min_samples_leaf": bmbo.Int(1, 60, log=True),
        "max_features": bmbo.Float(0.05, 1.0),
        "min_samples_split": bmbo.Int(2, 60, log=True),
        "bootstrap": bmbo.Categorical((False, True)),
        "ccp_alpha": bmbo.Float(1e-5, 1e0, log=True),
    }
)

NUM_TREES = 24
"""Trees of a forest whose fidelity is the number of samples."""


def _forest(config: Config, trees: int) -> Model:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(trees, **config, random_state=SEED, n_jobs=1)


def _forest_on_samples(config: Config, _: int) -> Model:
    return _forest(config, NUM_TREES)


def _extra_trees(config: Config, trees: int) -> Model:
    from sklearn.ensemble import ExtraTreesRegressor

    return ExtraTreesRegressor(trees, **config, random_state=SEED, n_jobs=1)


NEIGHBOURS_SPACE = bmbo.Space(
    {
        "n_neighbors": bmbo.Int(1, 100, log=True),
        "weights": bmbo.Categorical(("uniform", "distance")),
        "metric": bmbo.Categorical(("euclidean", "manhattan", "chebyshev", "cosine")),
        "power": bmbo.Float(0.1, 4.0, log=True),
    }
)

NEIGHBOURS_REGRESSOR_SPACE = bmbo.Space(
    {
        "n_neighbors": bmbo.Int(1, 100, log=True),
        "weights": bmbo.Categorical(("uniform", "distance")),
        "components": bmbo.Int(1, 10),
        "whiten": bmbo.Categorical((False, True)),
    }
)


def _raised(inputs: Any, power: float) -> Any:
    return inputs**power


def _neighbours(config: Config, _: int) -> Model:
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    given = {name: config[name] for name in ("n_neighbors", "weights", "metric")}
    model = KNeighborsClassifier(**given, algorithm="brute", n_jobs=1)
    return make_pipeline(FunctionTransformer(_raised, kw_args={"power": config["power"]}), model)


def _neighbours_regressor(config: Config, _: int) -> Model:
    from sklearn.decomposition import PCA
    from sklearn.neighbors import KNeighborsRegressor
    from sklearn.pipeline import make_pipeline

    turned = PCA(config["components"], whiten=config["whiten"], svd_solver="full")
    return make_pipeline(turned, KNeighborsRegressor(config["n_neighbors"], weights=config["weights"], n_jobs=1))


LOGISTIC_NEWS_SPACE = bmbo.Space(
    {
        "C": bmbo.Float(1e-5, 1e6, log=True),
        "norm": bmbo.Categorical(("l1", "l2", None)),
        "use_idf": bmbo.Categorical((False, True)),
        "sublinear_tf": bmbo.Categorical((False, True)),
        "fit_intercept": bmbo.Categorical((False, True)),
    }
)

ITERATIONS_OF_SAMPLES = 30
"""Iterations of a logistic regression whose fidelity is the number of samples."""


def _logistic(config: Config, iterations: int) -> Model:
    from sklearn.linear_model import LogisticRegression

    # A tolerance of zero: as many iterations as the fidelity says.
    return LogisticRegression(**config, solver="lbfgs", tol=0.0, max_iter=iterations, random_state=SEED)


def _logistic_news(config: Config, _: int) -> Model:
    given = {name: config[name] for name in ("C", "fit_intercept")}
    return _behind_weights(config, _logistic(given, ITERATIONS_OF_SAMPLES))


@dataclass(frozen=True)
class _Plan:
    space: bmbo.Space
    training: Training
    source: str


_digits, _cancer, _wine = live_data.digits, live_data.cancer, live_data.wine
_diabetes, _news = live_data.diabetes, live_data.news

PLANS: Mapping[str, _Plan] = {
    "svc_digits": _Plan(
        SVC_SPACE, Training(_digits, _svc, ACCURACY, "samples", (50, 200, 800)), "support vectors on digits"
    ),
    "svc_wine": _Plan(
        SVC_WINE_SPACE, Training(_wine, _svc, HINGE, "samples", (30, 90)), "support vectors on wine, not scaled"
    ),
    "nu_svc_cancer": _Plan(
        NU_SVC_SPACE,
        Training(_cancer, _nu_svc, ACCURACY, "samples", (85, 340)),
        "nu support vectors on tumours; some refuse",
    ),
    "svr_diabetes": _Plan(
        SVR_SPACE,
        Training(_diabetes, _svr, SQUARED_ERROR, "samples", (40, 110, 295)),
        "support vector regression on diabetes",
    ),
    "ridge_diabetes": _Plan(
        RIDGE_SPACE,
        Training(_diabetes, _kernel_ridge, SQUARED_ERROR, "samples", (148, 295)),
        "kernel ridge on diabetes",
    ),
    "mlp_digits": _Plan(
        MLP_SPACE, Training(_digits, _mlp, LOG_LOSS, "epochs", (1, 3, 9)), "a network on digits, by epochs"
    ),
    "mlp_digits_samples": _Plan(
        MLP_SPACE,
        Training(_digits, _mlp_on_samples, ACCURACY, "samples", (60, 200, 600)),
        "a network on digits, by samples",
    ),
    "mlp_cancer": _Plan(
        MLP_CANCER_SPACE,
        Training(_cancer, _mlp, LOG_LOSS, "epochs", (1, 3, 8, 24)),
        "a network on tumours, 12 parameters",
    ),
    "mlp_diabetes": _Plan(
        MLP_SMALL_SPACE,
        Training(_diabetes, _mlp_regressor, SQUARED_ERROR, "epochs", (2, 10, 60)),
        "a network on diabetes",
    ),
    "sgd_digits": _Plan(
        SGD_SPACE, Training(_digits, _sgd, ACCURACY, "epochs", (1, 5, 25)), "gradient descent on digits"
    ),
    "sgd_cancer": _Plan(
        SGD_CANCER_SPACE,
        Training(_cancer, _sgd_cancer, LOG_LOSS, "epochs", (2, 8, 30, 60)),
        "gradient descent on tumours",
    ),
    "sgd_news": _Plan(
        SGD_NEWS_SPACE, Training(_news, _sgd_news, LOG_LOSS, "epochs", (1, 5, 20)), "gradient descent on texts"
    ),
    "sgd_diabetes": _Plan(
        SGD_REGRESSOR_SPACE,
        Training(_diabetes, _sgd_regressor, SQUARED_ERROR, "epochs", (2, 10, 50)),
        "descent on diabetes",
    ),
    "sgd_expanded": _Plan(
        SGD_EXPANDED_SPACE,
        Training(_diabetes, _sgd_expanded, SQUARED_ERROR, "epochs", (2, 8, 40)),
        "descent on polynomials",
    ),
    "boosting_cancer": _Plan(
        BOOSTING_SPACE, Training(_cancer, _boosting, LOG_LOSS, "trees", (3, 10, 60)), "histogram boosting on tumours"
    ),
    "boosting_diabetes": _Plan(
        BOOSTING_REGRESSOR_SPACE,
        Training(_diabetes, _boosting_regressor, SQUARED_ERROR, "trees", (3, 15, 90)),
        "histogram boosting on diabetes",
    ),
    "forest_digits": _Plan(
        FOREST_SPACE, Training(_digits, _forest, LOG_LOSS, "trees", (2, 8, 32)), "a forest on digits"
    ),
    "forest_cancer": _Plan(
        FOREST_SPACE, Training(_cancer, _forest_on_samples, LOG_LOSS, "samples", (40, 120, 340)), "a forest on tumours"
    ),
    "trees_diabetes": _Plan(
        EXTRA_TREES_SPACE,
        Training(_diabetes, _extra_trees, SQUARED_ERROR, "trees", (2, 10, 60)),
        "extra trees on diabetes",
    ),
    "neighbours_digits": _Plan(
        NEIGHBOURS_SPACE, Training(_digits, _neighbours, ACCURACY, "samples", (80, 250, 800)), "neighbours on digits"
    ),
    "neighbours_diabetes": _Plan(
        NEIGHBOURS_REGRESSOR_SPACE,
        Training(_diabetes, _neighbours_regressor, SQUARED_ERROR, "samples", (60, 295)),
        "neighbours on diabetes",
    ),
    "logistic_news": _Plan(
        LOGISTIC_NEWS_SPACE,
        Training(_news, _logistic_news, LOG_LOSS, "samples", (90, 300, 900)),
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
