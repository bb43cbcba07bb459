"""Offer bmbo as a search of scikit-learn, with the number of samples or an iteration parameter as the fidelity."""

import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

# The name of the module has an underscore, but scikit-learn asks authors of searches to override `_run_search`.
from sklearn.model_selection._search import BaseSearchCV  # pyright: ignore[reportPrivateImportUsage]
from sklearn.utils import check_random_state, indexable, resample

from bmbo.integration.sklearn_space import SearchedSpace
from bmbo.problem import Fidelity, Number
from bmbo.problem.number_checks import is_real, is_whole, positive_number
from bmbo.protocols import Policy
from bmbo.study import Study, TooManyFailuresError, Trial, create_study

__all__ = ["BMBOSearchCV"]

SAMPLES = "n_samples"

DEFAULT_SHARES = (1 / 9, 1 / 3, 1.0)
"""Shares of the training samples: each level is three times as dear as the one below it."""

FEWEST_SAMPLES = 10
"""A level with fewer training samples than this, or than two of each class, says nothing and is left out."""

Indices = NDArray[np.intp]


class BMBOSearchCV(BaseSearchCV):
    """Search the parameters of an estimator with cross-validation, and spend less on those that are not worth it.

    A configuration is first tried with few training samples or few iterations, and the better ones with more. Test
    folds are always whole. `best_params_`, `best_score_` and `best_estimator_` are those of the best configuration that
    was run at the highest fidelity. `cv_results_` has a row for each run, and the columns `n_resources` and `level` say
    at which fidelity it was.

    Args:
        estimator: what to fit.
        param_distributions: names of parameters with lists of choices, distributions of SciPy (`uniform`, `loguniform`,
            `randint`), or parameters of bmbo or Optuna.
        n_iter: what the search may cost, counted in configurations at the highest fidelity.
        resource: "n_samples", or the name of a parameter such as "n_estimators" or "max_iter".
        fidelities: the amounts of the resource, the last of which counts. Shares of the training samples, by default a
            ninth, a third and all; or whole numbers, which a parameter needs.
        costs: what a run with each amount costs; by default as much as the amount.
        method: what suggests; `bmbo.screening()` by default.
        scoring: one metric, as a name or a function.
        n_jobs: how many folds are fitted at the same time. Configurations are tried one after the other.
        refit: whether to fit the best configuration to all samples; or a function of `cv_results_` that returns the row
            of the best, as in scikit-learn.
        cv: folds, as in scikit-learn. All runs have the same ones.
        verbose: 0 is silent; 1 has a line for each run; more is scikit-learn's.
        pre_dispatch: as in scikit-learn.
        random_state: for the method and the subsets of samples.
        error_score: the score of a fit that fails. NaN makes it a failure, which the method avoids; "raise" raises.
        return_train_score: whether `cv_results_` has the scores on training folds.

    Attributes:
        study_: the study, for `study_.report()` and the like. Pickles leave it out.

    Example:
        >>> search = BMBOSearchCV(SVC(), {"C": loguniform(1e-2, 1e3), "kernel": ["rbf", "linear"]}, n_iter=15)
        >>> search.fit(X, y).best_params_
    """

    def __init__(
        self,
        estimator: Any,
        param_distributions: Mapping[str, Any],
        *,
        n_iter: int = 10,
        resource: str = SAMPLES,
        fidelities: Sequence[Number] | None = None,
        costs: Sequence[Number] | None = None,
        method: Policy | None = None,
        scoring: Any = None,
        n_jobs: int | None = None,
        refit: bool | Callable[..., int] = True,
        cv: Any = None,
        verbose: int = 0,
        pre_dispatch: int | str = "2*n_jobs",
        random_state: Any = None,
        error_score: float | str = np.nan,
        return_train_score: bool = False,
    ) -> None:
        # scikit-learn's types know fewer values than its texts.
        base: Any = super()
        base.__init__(
            estimator=estimator,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=refit,
            cv=cv,
            verbose=verbose,
            pre_dispatch=pre_dispatch,
            error_score=error_score,
            return_train_score=return_train_score,
        )
        # As scikit-learn wants it, arguments are kept as they are and checked by `fit`.
        self.param_distributions = param_distributions
        self.n_iter = n_iter
        self.resource = resource
        self.fidelities = fidelities
        self.costs = costs
        self.method = method
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, **params: Any) -> "BMBOSearchCV":  # noqa: N803 - scikit-learn's names
        """Search, and fit the best configuration to all samples.

        Args:
            X: the samples.
            y: the targets.
            params: for `fit` of the estimator, the splitter and the scorer, as in scikit-learn.

        Raises:
            ValueError: An argument does not fit, or the first runs all failed.
        """
        if self.scoring is not None and not isinstance(self.scoring, str) and not callable(self.scoring):
            raise ValueError(f"BMBOSearchCV optimises one metric: scoring must be one, got {self.scoring!r}")
        self._data_size = _size_of(X, y if is_classifier(self.estimator) else None)
        super().fit(X, y, **params)
        if not callable(self.refit):
            self.best_score_ = self.cv_results_["mean_test_score"][self.best_index_]
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Return what a pickle holds: all but the study, which may be in a database."""
        state: Any = super().__getstate__()
        return {name: value for name, value in state.items() if name != "study_"}

    def _run_search(  # pyright: ignore[reportIncompatibleMethodOverride] (callbacks of the newest version: optional)
        self, evaluate_candidates: Callable[..., Any]
    ) -> None:
        """Run the study; `evaluate_candidates` fits and scores configurations. scikit-learn calls this."""
        searched, ladder = SearchedSpace(self.param_distributions), self._ladder()
        random = check_random_state(self.random_state)
        seed = int(random.randint(2**31 - 1))
        self.study_: Study = create_study(
            study_name=type(self.estimator).__name__,
            space=searched.space,
            fidelities=ladder,
            direction="maximize",
            seed=seed,
            method=self.method,
        )
        self.study_.answers = self.verbose > 0
        folds = _Folds(self._checked_cv_orig)

        errors: list[Exception] = []

        def objective(trial: Trial) -> float:
            try:
                return score(trial)
            except Exception as error:
                errors.append(error)
                raise

        def score(trial: Trial) -> float:
            params, cv = searched.values(trial.params), folds.all
            if self.resource == SAMPLES:
                cv = folds.subset(float(trial.fidelity), seed, is_classifier(self.estimator))
            else:
                params[self.resource] = trial.fidelity
            more = {"n_resources": [trial.fidelity], "level": [trial.level]}
            return float(evaluate_candidates([params], cv, more_results=more)["mean_test_score"][-1])

        is_strict = isinstance(self.error_score, str)
        with _quiet(self.verbose == 0):
            try:
                self.study_.optimize(
                    objective,
                    total_cost=positive_number("n_iter", self.n_iter) * float(ladder[-1].cost),
                    catch=() if is_strict else Exception,
                    show_progress_bar=False,
                )
            except TooManyFailuresError:
                # The error of the estimator says more.
                raise errors[-1] from None
        if errors and not any(
            trial.fidelity == ladder[-1].value for trial in self.study_.trials if trial.error is None
        ):
            raise errors[-1]

    def _ladder(self) -> list[Fidelity]:
        """Return the fidelities; raise ValueError if they do not fit the resource."""
        amounts: Iterable[Any] = DEFAULT_SHARES if self.fidelities is None else self.fidelities
        amounts = list(amounts)
        if self.resource == SAMPLES:
            if not amounts or any(not is_real(each) or not 0 < each <= 1 for each in amounts) or amounts[-1] != 1:
                raise ValueError(
                    f"fidelities of n_samples are shares of the training samples that end with 1.0, got {amounts}"
                )
        elif self.resource in self.param_distributions:
            raise ValueError(f"{self.resource!r} is the resource, so that param_distributions must not have it")
        elif self.resource not in self.estimator.get_params():
            name = type(self.estimator).__name__
            raise ValueError(f"{name} has no parameter {self.resource!r} to use as the resource")
        elif self.fidelities is None or not amounts or not all(map(is_whole, amounts)):
            raise ValueError(
                f"resource={self.resource!r} needs fidelities, whole numbers such as [10, 30, 90], "
                f"got {self.fidelities}"
            )
        costs = amounts if self.costs is None else list(self.costs)
        if len(costs) != len(amounts):
            raise ValueError(f"there are {len(amounts)} fidelities and {len(costs)} costs; give one for each")
        pairs = list(zip(amounts, costs, strict=True))
        if self.resource == SAMPLES:
            samples, classes = self._data_size
            least = max(FEWEST_SAMPLES, 2 * classes)
            pairs = [*(pair for pair in pairs[:-1] if pair[0] * samples >= least), pairs[-1]]
        return [Fidelity(amount, cost=float(cost)) for amount, cost in pairs]

    @staticmethod
    def _select_best_index(refit: Any, refit_metric: str, results: Mapping[str, Any]) -> int:
        """Return the row of the best score at the highest fidelity. scikit-learn calls this."""
        if callable(refit):
            base: Any = BaseSearchCV
            return int(base._select_best_index(refit, refit_metric, results))
        level, score = np.asarray(results["level"]), np.asarray(results["mean_test_score"])
        rows = np.flatnonzero(level == level.max())
        return int(rows[np.nan_to_num(score[rows], nan=-np.inf).argmax()])


class _Folds:
    """Split the same way at every call, also with a splitter that shuffles anew, and with fewer training samples."""

    def __init__(self, splitter: Any) -> None:
        self._splitter = splitter
        self._known: list[tuple[Indices, Indices]] | None = None

    @property
    def all(self) -> "_Subset":
        """Return the folds with all training samples."""
        return _Subset(self, 1.0, 0, False)

    def subset(self, share: float, seed: int, stratified: bool) -> "_Subset":
        """Return the folds with a share of the training samples."""
        return _Subset(self, share, seed, stratified)

    def split(self, X: Any, y: Any, **params: Any) -> list[tuple[Indices, Indices]]:  # noqa: N803
        """Return the folds."""
        if self._known is None:
            self._known = list(self._splitter.split(X, y, **params))
        return self._known


class _Subset:
    """A splitter of scikit-learn that takes a share of the training samples of each fold."""

    def __init__(self, folds: _Folds, share: float, seed: int, stratified: bool) -> None:
        self._folds, self._share, self._seed, self._stratified = folds, share, seed, stratified

    def split(self, X: Any, y: Any = None, **params: Any) -> Iterator[tuple[Indices, Indices]]:  # noqa: N803
        """Yield the folds: training samples and test samples."""
        for train, test in self._folds.split(X, y, **params):
            num = max(1, round(self._share * len(train)))
            if num < len(train):
                classes = np.asarray(y)[train] if self._stratified else None
                chosen: Any = resample(train, replace=False, n_samples=num, random_state=self._seed, stratify=classes)
                yield chosen, test
            else:
                yield train, test


def _size_of(data: Any, targets: Any) -> tuple[int, int]:
    """Return the number of samples and, for classifiers, of classes."""
    data, targets = indexable(data, targets)
    samples = data.shape[0] if hasattr(data, "shape") else len(data)
    return samples, 0 if targets is None else len(np.unique(np.asarray(targets)))


@contextmanager
def _quiet(silent: bool) -> Generator[None]:
    """Leave out the messages of the study inside this context, if wanted."""
    logger = logging.getLogger("bmbo")
    before = logger.level
    if silent:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)
