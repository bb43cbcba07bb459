"""Test the problems that make trouble: each has its trouble, and its optimum can be found in spite of it."""

import itertools
import math

import numpy as np
import pytest

from bmbo import Categorical
from experiments.problems import FAMILIES, PROBLEMS, suite
from experiments.problems.function_variants import Variant
from experiments.problems.mixed_spaces import PROBLEMS as MIXED
from experiments.problems.troubled_functions import Troubled

NAMES = suite.names_of(chosen="robust")


def configs_of(benchmark, num):
    space = benchmark.problem.space
    units = space.snap(np.random.default_rng(0).random((num, space.dim)))
    return [space.decode(tuple(map(float, unit))) for unit in units]


def values_of(name, num=200, level=1):
    benchmark = PROBLEMS[name]()
    return benchmark, np.array([benchmark.evaluate(config, level) for config in configs_of(benchmark, num)])


def test_the_suite_belongs_to_neither_half():
    assert len(NAMES) == len(set(NAMES))
    assert set(NAMES).isdisjoint([*suite.names_of("tuning"), *suite.names_of("report")])
    assert suite.total_cost(PROBLEMS["robust_mixed"](), "robust") == 200
    assert {len(PROBLEMS[name]().problem.space.params) for name in FAMILIES["robust_dimensions"]} >= {1, 20, 50}


@pytest.mark.parametrize("name", NAMES)
def test_no_point_is_better_than_the_optimum_and_values_repeat(name):
    benchmark, values = values_of(name, 60)
    configs = configs_of(benchmark, 60)
    np.testing.assert_equal([benchmark.evaluate(config, 1) for config in configs[:5]], values[:5])
    exact = np.array([benchmark.exact_top(config) for config in configs])
    assert all(benchmark.regret(value) >= -1e-9 for value in exact[np.isfinite(exact)])
    assert np.isfinite(values).sum() >= 10


@pytest.mark.parametrize("name", [name for name in NAMES if name not in MIXED])
def test_the_optimum_can_be_reached_in_spite_of_the_trouble(name):
    # Draws near an optimiser, because single queries may fail at random.
    benchmark = PROBLEMS[name]()
    objective = benchmark.evaluate
    assert isinstance(objective, Troubled | Variant)
    best = math.inf
    for place in range(20):
        near = {key: value * (1 - 1e-4 * place) for key, value in objective.base.optimisers[0].items()}
        if math.isfinite(objective(near, 1)):
            best = min(best, benchmark.regret(benchmark.exact_top(near)))
    assert 0 <= best + 1e-9 < 0.05


@pytest.mark.parametrize(
    ("trouble", "low", "high"), [("corner_inf", 0.2, 0.5), ("random_nan", 0.2, 0.4), ("wall_nan", 0.2, 0.4)]
)
@pytest.mark.parametrize("base", ["hartmann3", "ackley_4"])
def test_a_share_of_the_runs_fails(base, trouble, low, high):
    _, values = values_of(f"robust_{base}_{trouble}", 300)
    assert low < np.mean(~np.isfinite(values)) < high


@pytest.mark.parametrize("base", ["hartmann3", "ackley_4"])
def test_an_overflow_looks_better_than_any_value(base):
    benchmark, values = values_of(f"robust_{base}_wrong_inf", 300)
    infinite = values[~np.isfinite(values)]
    assert len(infinite) > 5
    assert set(infinite) == {benchmark.problem.sign * math.inf}


@pytest.mark.parametrize("base", ["hartmann3", "ackley_4"])
def test_outliers_are_judged_without_noise_and_are_far_away(base):
    benchmark, values = values_of(f"robust_{base}_outliers", 400)
    exact = np.array([benchmark.exact_top(config) for config in configs_of(benchmark, 400)])
    errors = np.abs(values - exact) / np.ptp(exact)
    # The median of |t| with 1.5 degrees of freedom is 0.88, and 1 % are beyond 17.
    assert 0.01 < np.median(errors) < 0.1
    assert errors.max() > 10 * np.median(errors)


def test_steps_and_plateaus_make_ties():
    for base in ("hartmann3", "ackley_4"):
        benchmark, values = values_of(f"robust_{base}_plateau", 300)
        worst = -benchmark.problem.sign * max(-benchmark.problem.sign * values)
        assert 0.35 < np.mean(values == worst) < 0.65
        _, values = values_of(f"robust_{base}_steps", 300)
        assert 4 <= len(np.unique(np.round(values, 9))) <= 16


def test_rounding_moves_values_away_from_the_optimum_by_less_than_a_step():
    for name, sign in (("robust_hartmann3_steps", 1), ("robust_ackley_4_steps", -1)):
        stepped = PROBLEMS[name]().evaluate
        assert isinstance(stepped, Troubled)
        configs = configs_of(PROBLEMS[name](), 100)
        lost = np.array([sign * (stepped.base(config, 1) - stepped(config, 1)) for config in configs])
        assert lost.min() > -1e-4
        assert lost.max() < 0.2 * np.ptp([stepped.base(config, 1) for config in configs])


@pytest.mark.parametrize("name", ["robust_few_points", "robust_choices_6_of_5"])
def test_the_optimum_of_a_space_of_choices_is_zero_by_trying_all(name):
    benchmark = PROBLEMS[name]()
    space = benchmark.problem.space
    grids = [param.choices if isinstance(param, Categorical) else range(1, 5) for _, param in space.params]
    values = [benchmark.exact_top(dict(zip(space.names, row, strict=True))) for row in itertools.product(*grids)]
    assert min(values) == pytest.approx(0.0, abs=1e-12)
    assert sum(value < 1e-12 for value in values) == 1
