"""Make untrained scikit-learn models from configurations, and define the spaces that they are searched in.

Every function takes a configuration and an amount of the fidelity, which is the number of epochs, iterations or trees.
Functions that ignore the amount make models whose fidelity is the number of samples.
"""

# scikit-learn is imported where it is used, because it may be missing.
# ruff: noqa: PLC0415

from collections.abc import Callable, Mapping
from typing import Any

import bmbo

Config = Mapping[str, Any]
Model = Any
"""An estimator of scikit-learn, whose types are incomplete."""

SEED = 0
"""Seed of all models. It is fixed, so that values can be compared."""

ENDLESS_PATIENCE = 10**9
"""Epochs without progress after which a training may stop early: never, so that an epoch costs the same everywhere."""


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


def svc(config: Config, _: int) -> Model:
    from sklearn.svm import SVC

    return SVC(**config, max_iter=LONGEST_SVM, random_state=SEED)


SVC_WINE_SPACE = bmbo.Space({"C": bmbo.Float(1e-3, 1e4, log=True), "gamma": bmbo.Float(1e-6, 1e1, log=True)})

NU_SVC_SPACE = bmbo.Space(
    {
        "nu": bmbo.Float(1e-3, 0.9, log=True),
        "gamma": bmbo.Float(1e-6, 1e0, log=True),
        "kernel": bmbo.Categorical(("rbf", "poly", "sigmoid")),
        "scaling": SCALING,
    }
)


def nu_svc(config: Config, _: int) -> Model:
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


def svr(config: Config, _: int) -> Model:
    from sklearn.svm import SVR

    return SVR(**config, max_iter=LONGEST_SVM)


RIDGE_SPACE = bmbo.Space(
    {
        "alpha": bmbo.Float(1e-8, 1e3, log=True),
        "gamma": bmbo.Float(1e-6, 1e1, log=True),
        "kernel": bmbo.Categorical(("rbf", "laplacian", "polynomial")),
    }
)


def kernel_ridge(config: Config, _: int) -> Model:
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


def mlp(config: Config, epochs: int) -> Model:
    from sklearn.neural_network import MLPClassifier

    model = MLPClassifier(**_mlp_arguments(config, epochs))
    return _scaled(config, model) if "scaling" in config else model


EPOCHS_OF_SAMPLES = 15
"""Epochs of a network whose fidelity is the number of samples."""


def mlp_on_samples(config: Config, samples: int) -> Model:
    # A batch cannot be larger than the samples; scikit-learn would cut it and warn.
    return mlp({**config, "batch_size": min(config["batch_size"], samples)}, EPOCHS_OF_SAMPLES)


def mlp_regressor(config: Config, epochs: int) -> Model:
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


def sgd(config: Config, epochs: int) -> Model:
    from sklearn.linear_model import SGDClassifier

    return SGDClassifier(**config, **_sgd_fixed(epochs))


def sgd_cancer(config: Config, epochs: int) -> Model:
    given = {name: config[name] for name in ("alpha", "eta0", "learning_rate")}
    return _scaled(config, sgd({**given, "loss": "log_loss"}, epochs))


def _behind_weights(config: Config, model: Model) -> Model:
    """Return a model of texts behind the weighting of word counts that the configuration names."""
    from sklearn.feature_extraction.text import TfidfTransformer
    from sklearn.pipeline import make_pipeline

    given = {name: config[name] for name in ("norm", "use_idf", "sublinear_tf")}
    return make_pipeline(TfidfTransformer(**given), model)


def sgd_news(config: Config, epochs: int) -> Model:
    given = {name: config[name] for name in ("loss", "alpha", "eta0", "learning_rate")}
    return _behind_weights(config, sgd(given, epochs))


def sgd_regressor(config: Config, epochs: int) -> Model:
    from sklearn.linear_model import SGDRegressor

    return SGDRegressor(**config, **_sgd_fixed(epochs))


def sgd_expanded(config: Config, epochs: int) -> Model:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures

    given = {name: config[name] for name in ("alpha", "eta0", "power_t")}
    return make_pipeline(PolynomialFeatures(config["degree"], include_bias=False), sgd_regressor(given, epochs))


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


def boosting(config: Config, trees: int) -> Model:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(**_boosting_arguments(config, trees))


def boosting_regressor(config: Config, trees: int) -> Model:
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


def forest(config: Config, trees: int) -> Model:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(trees, **config, random_state=SEED, n_jobs=1)


def forest_on_samples(config: Config, _: int) -> Model:
    return forest(config, NUM_TREES)


def extra_trees(config: Config, trees: int) -> Model:
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


def neighbours(config: Config, _: int) -> Model:
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    given = {name: config[name] for name in ("n_neighbors", "weights", "metric")}
    model = KNeighborsClassifier(**given, algorithm="brute", n_jobs=1)
    return make_pipeline(FunctionTransformer(_raised, kw_args={"power": config["power"]}), model)


def neighbours_regressor(config: Config, _: int) -> Model:
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


def logistic(config: Config, iterations: int) -> Model:
    from sklearn.linear_model import LogisticRegression

    # A tolerance of zero: as many iterations as the fidelity says.
    return LogisticRegression(**config, solver="lbfgs", tol=0.0, max_iter=iterations, random_state=SEED)


def logistic_news(config: Config, _: int) -> Model:
    given = {name: config[name] for name in ("C", "fit_intercept")}
    return _behind_weights(config, logistic(given, ITERATIONS_OF_SAMPLES))
