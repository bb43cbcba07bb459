"""BMBOSearchCV: a search of scikit-learn whose cheap runs have few samples or few iterations."""

import pickle
from typing import Any, ClassVar

import numpy as np
import pytest

pytest.importorskip("sklearn")

from scipy.stats import loguniform, norm, randint, uniform
from sklearn.base import BaseEstimator, clone
from sklearn.datasets import make_classification
from sklearn.model_selection import ShuffleSplit
from sklearn.neural_network import MLPRegressor
from sklearn.tree import DecisionTreeClassifier

import bmbo
from bmbo.integration.sklearn import BMBOSearchCV
from bmbo.integration.sklearn_space import SearchedSpace

DATA: Any = make_classification(n_samples=180, n_classes=3, n_informative=5, weights=[0.8, 0.1], random_state=0)
X, Y = DATA
DEPTHS = {"max_depth": randint(1, 9), "criterion": ["gini", "entropy"]}


def tree_search(**given: Any):
    """A quick search; random, so that nothing is fitted but trees."""
    options: dict[str, Any] = {"n_iter": 4, "cv": 3, "random_state": 0, "method": bmbo.random_search(), **given}
    return BMBOSearchCV(DecisionTreeClassifier(random_state=0), options.pop("space", DEPTHS), **options)


class Counts(BaseEstimator):
    """Remembers how many samples it was fitted to; its score is the parameter."""

    sizes: ClassVar[list[int]] = []
    fails: ClassVar[list[Any]] = []

    def __init__(self, level=0.0, steps=1):
        self.level = level
        self.steps = steps

    def fit(self, X, y=None):  # noqa: N803
        del y
        if self.fails and self.fails[0](self):
            raise ValueError("not with these")
        type(self).sizes.append(len(X))
        self.fitted_ = True
        return self

    def score(self, X, y=None):  # noqa: N803
        del y
        return self.level + 0.01 * len(X)


@pytest.fixture
def counts(monkeypatch):
    monkeypatch.setattr(Counts, "sizes", [])
    monkeypatch.setattr(Counts, "fails", [])
    return Counts


def counting(**given: Any):
    options: dict[str, Any] = {
        "n_iter": 3,
        "cv": 3,
        "random_state": 0,
        "refit": False,
        "method": bmbo.random_search(),
        **given,
    }
    return BMBOSearchCV(Counts(), {"level": uniform(0, 1)}, **options)


def test_a_search_has_what_searches_of_scikit_learn_have():
    search = tree_search(return_train_score=True).fit(X, Y)
    results = search.cv_results_
    top = results["n_resources"] == np.array(1.0)
    assert search.best_score_ == max(results["mean_test_score"][top])
    assert search.best_params_ == results["params"][search.best_index_]
    assert {"split2_test_score", "mean_train_score", "rank_test_score", "param_max_depth", "level"} <= set(results)
    assert search.predict(X[:5]).shape == (5,)
    assert search.best_estimator_.get_params()["max_depth"] == search.best_params_["max_depth"]
    assert search.best_score_ == results["mean_test_score"][search.best_index_]
    assert list(search.classes_) == [0, 1, 2]
    assert search.n_features_in_ == X.shape[1]


def test_the_budget_is_that_of_so_many_configurations_at_the_top():
    search = tree_search(n_iter=5).fit(X, Y)
    assert sum(search.cv_results_["n_resources"]) <= 5 + 1e-9
    assert len(search.study_.trials) == len(search.cv_results_["params"])


def test_levels_have_shares_of_the_training_samples_and_whole_test_folds(counts):
    search = counting(fidelities=[0.25, 1.0], n_iter=3).fit(np.zeros((120, 1)))
    assert set(counts.sizes) <= {20, 80}
    # The score holds the size of the test fold, which is 40.
    assert all(score >= 0.4 for score in search.cv_results_["mean_test_score"])


def test_levels_with_too_few_samples_are_left_out(counts):
    counting(fidelities=[0.01, 0.5, 1.0], n_iter=2).fit(np.zeros((60, 1)))
    assert set(counts.sizes) <= {20, 40}
    assert counts.sizes


def test_an_iteration_parameter_can_be_the_resource():
    data = np.random.default_rng(0).random((60, 3))
    network = MLPRegressor(hidden_layer_sizes=(2,), solver="lbfgs", random_state=0)
    options: dict[str, Any] = {
        "resource": "max_iter",
        "fidelities": [1, 3],
        "costs": [1, 2],
        "cv": 2,
        "n_iter": 3,
        "random_state": 0,
    }
    with pytest.warns(Warning, match="lbfgs"):
        search = BMBOSearchCV(network, {"alpha": loguniform(1e-4, 1)}, method=bmbo.random_search(), **options).fit(
            data, data.sum(axis=1)
        )
    assert search.best_params_["max_iter"] == 3
    assert search.best_estimator_.max_iter == 3
    assert search.study_.history.spent <= 3 * 2


def test_runs_see_the_same_folds_even_if_the_splitter_shuffles_anew():
    cv = ShuffleSplit(n_splits=1, test_size=0.5)
    seen = []
    search = counting(cv=cv, fidelities=[1.0], n_iter=3, scoring=lambda _, data: seen.append(data.copy()) or 0.5)
    search.fit(np.arange(40.0)[:, None])
    assert len(seen) == 3
    assert all(np.array_equal(each, seen[0]) for each in seen)


def test_the_same_seed_gives_the_same_search():
    first, second = (tree_search(method=None, n_iter=2).fit(X, Y).cv_results_["params"] for _ in range(2))
    assert first == second


def test_a_failed_configuration_is_avoided_and_costs_nothing_but_itself(counts):
    counts.fails = [lambda self: self.level > 0.7]
    search = counting(n_iter=8, fidelities=[1.0]).fit(np.zeros((40, 1)))
    states = [trial.state for trial in search.study_.trials]
    assert "failed" in states
    assert states.count("complete") == len(search.cv_results_["params"]) > 0
    assert search.best_params_["level"] <= 0.7


def test_if_everything_fails_the_reason_is_said(counts):
    counts.fails = [lambda _: True]
    with pytest.raises(ValueError, match="not with these"):
        counting(n_iter=9).fit(np.zeros((40, 1)))
    with pytest.raises(ValueError, match="not with these"):
        counting(n_iter=9, error_score="raise").fit(np.zeros((40, 1)))


def test_refit_may_choose_the_row_itself():
    search = counting(refit=lambda _: 1).fit(np.zeros((40, 1)))
    assert search.best_index_ == 1
    assert search.best_params_ == search.cv_results_["params"][1]


def test_a_search_can_be_cloned_and_pickled():
    search = tree_search(n_iter=1).fit(X, Y)
    again = pickle.loads(pickle.dumps(search))
    assert np.array_equal(again.predict(X), search.predict(X))
    assert not hasattr(again, "study_")
    assert not hasattr(clone(search), "best_params_")


def test_nothing_is_said_unless_it_is_wanted(caplog):
    tree_search(n_iter=1).fit(X, Y)
    assert caplog.records == []
    tree_search(n_iter=1, verbose=1).fit(X, Y)
    assert any("trial 0" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scoring": ["accuracy", "f1"]}, "one metric"),
        ({"fidelities": [0.5, 0.9]}, r"end with 1\.0, got \[0\.5, 0\.9\]"),
        ({"fidelities": [10, 100]}, "shares of the training samples"),
        ({"resource": "max_leaf_nodes"}, "needs fidelities, whole numbers such as"),
        ({"resource": "max_leaf_nodes", "fidelities": [0.5, 1.0]}, "whole numbers"),
        ({"resource": "n_trees", "fidelities": [1, 2]}, "DecisionTreeClassifier has no parameter 'n_trees'"),
        ({"resource": "max_depth", "fidelities": [1, 2]}, "is the resource"),
        ({"costs": [1.0]}, "3 fidelities and 1 costs"),
        ({"n_iter": 0}, "n_iter"),
    ],
)
def test_a_mistake_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        tree_search(**options).fit(X, Y)


def test_parameters_may_be_written_as_for_scikit_learn():
    searched = SearchedSpace(
        {
            "a": uniform(1, 2),
            "b": loguniform(1e-3, 1e1),
            "c": randint(1, 5),
            "d": [1, None, "x"],
            "e": [(5,), (5, 5)],
            "f": bmbo.Float(0, 1),
            "g": np.array([0.1, 0.2]),
        }
    )
    params = dict(searched.space.params)
    assert params["a"] == bmbo.Float(1.0, 3.0)
    assert params["b"] == bmbo.Float(1e-3, 1e1, log=True)
    assert params["c"] == bmbo.Int(1, 4)
    assert params["d"] == bmbo.Categorical([1, None, "x"])
    assert params["g"] == bmbo.Categorical([0.1, 0.2])
    assert searched.values({"d": None, "e": "(5, 5)"}) == {"d": None, "e": (5, 5)}
    for wrong, message in (({"a": norm(0, 1)}, "got norm"), ([{"a": [1]}], "mapping from names"), ({}, "mapping")):
        with pytest.raises(TypeError, match=message):
            SearchedSpace(wrong)
