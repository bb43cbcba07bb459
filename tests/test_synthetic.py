"""Synthetic problems: the paper's formulas and their optima."""

import math
import pickle

import numpy as np
import pytest
from scipy.optimize import minimize

from bmbo.synthetic import branin, levy

PROBLEMS = pytest.mark.parametrize("synthetic", [branin(), levy()], ids=["branin", "levy"])


def inside(synthetic, num, seed):
    """Uniform points of the domain."""
    bounds = [(param.low, param.high) for _, param in synthetic.problem.space.params]
    low, high = np.array(bounds).T
    return low + (high - low) * np.random.default_rng(seed).random((num, len(bounds))), bounds


@PROBLEMS
def test_every_optimiser_lies_in_the_domain_and_reaches_the_optimum(synthetic):
    for config in synthetic.optimisers:
        synthetic.problem.space.encode(config)
        assert synthetic(config, synthetic.problem.ladder.top) == pytest.approx(synthetic.optimum, abs=1e-12)


@PROBLEMS
def test_no_point_of_a_search_beats_the_optimum(synthetic):
    top = synthetic.problem.ladder.top
    points, bounds = inside(synthetic, 200_000, seed=0)
    values = synthetic.values(points, top)
    assert synthetic.regret(float(values.max())) >= -1e-12
    ends = []
    for start in points[np.argsort(-values)[:30]]:
        found = minimize(lambda x: -synthetic.values(x[None, :], top)[0], start, bounds=bounds, tol=1e-12)
        assert synthetic.regret(-float(found.fun)) >= -1e-12
        ends.append((-float(found.fun), found.x))
    assert synthetic.regret(max(value for value, _ in ends)) < 1e-8
    # The best starts of a large sample lie in every basin: no optimiser is missing and none is made up.
    reached = [x for value, x in ends if synthetic.regret(value) < 1e-8]
    known = np.array([list(config.values()) for config in synthetic.optimisers])
    nearest = [np.linalg.norm(known - x, axis=1) for x in reached]
    assert all(distances.min() < 1e-3 for distances in nearest)
    assert {int(distances.argmin()) for distances in nearest} == set(range(len(known)))


def test_the_optimum_of_branin_is_the_published_one():
    assert branin().optimum == pytest.approx(-0.397887, abs=1e-6)
    published = [(-math.pi, 12.275), (math.pi, 2.275), (9.42478, 2.475)]
    assert [tuple(config.values()) for config in branin().optimisers] == [pytest.approx(p, abs=1e-5) for p in published]


def test_branin_is_the_formula_of_the_appendix_written_out_at_one_point():
    x1, x2 = 2.0, 3.0

    def f3(a, b):
        square = (-1.275 * a * a / math.pi**2 + 5 * a / math.pi + b - 6) ** 2
        return -square - (10 - 5 / (4 * math.pi)) * math.cos(a) - 10

    def f2(a, b):
        return -10 * math.sqrt(-f3(a - 2, b - 2)) - 2 * (a - 0.5) + 3 * (3 * b - 1) + 1

    f1 = -f2(1.2 * (x1 + 2), 1.2 * (x2 + 2)) + 3 * x2 - 1
    expected = [f1, f2(x1, x2), f3(x1, x2)]
    assert [branin()({"x1": x1, "x2": x2}, level) for level in range(3)] == pytest.approx(expected, rel=1e-12)


def test_levy_is_the_formula_of_the_appendix_at_points_with_known_sines():
    # At (0.5, 0.5): sin^2(3 pi / 2) = 1, (0.5)^2 (1 + 1), (0.5)^2 (1 + sin^2 pi) = 0.25: f_2 = -1.75.
    assert levy()({"x1": 0.5, "x2": 0.5}, 1) == pytest.approx(-1.75, rel=1e-12)
    assert levy()({"x1": 0.5, "x2": 0.5}, 0) == pytest.approx(-math.sqrt(1 + 1.75**2), rel=1e-12)
    assert levy()({"x1": 1.0, "x2": 1.0}, 0) == pytest.approx(-1.0, rel=1e-12)


@PROBLEMS
def test_every_level_is_finite_all_over_the_domain(synthetic):
    points, _ = inside(synthetic, 100_000, seed=1)
    for level in range(synthetic.problem.ladder.num_levels):
        assert np.isfinite(synthetic.values(points, level)).all()


@PROBLEMS
def test_many_points_at_once_equal_one_at_a_time(synthetic):
    points, _ = inside(synthetic, 5, seed=2)
    names = synthetic.problem.space.names
    for level in range(synthetic.problem.ladder.num_levels):
        singly = [synthetic(dict(zip(names, map(float, point), strict=True)), level) for point in points]
        np.testing.assert_allclose(synthetic.values(points, level), singly, rtol=1e-12)


def test_the_ladders_are_those_of_the_benchmarks():
    assert branin().problem.ladder.costs == (1.0, 10.0, 50.0)
    assert [fidelity.name for fidelity in branin().problem.ladder.fidelities] == ["low", "middle", "high"]
    assert levy().problem.ladder.costs == (1.0, 10.0)
    assert branin().problem.maximise
    assert levy().problem.maximise


def test_the_cheap_levels_of_branin_mislead():
    points, _ = inside(branin(), 20_000, seed=3)
    low, middle, high = (branin().values(points, level) for level in range(3))
    assert np.corrcoef(low, high)[0, 1] < -0.5
    assert abs(np.corrcoef(middle, high)[0, 1]) < 0.3


@PROBLEMS
def test_a_problem_can_be_sent_to_another_process_and_be_a_static_argument(synthetic):
    assert pickle.loads(pickle.dumps(synthetic)) == synthetic
    assert hash(pickle.loads(pickle.dumps(synthetic.problem))) == hash(synthetic.problem)


def test_regret_grows_as_the_value_gets_worse():
    assert branin().regret(branin().optimum) == 0.0
    assert branin().regret(branin().optimum - 2.0) == pytest.approx(2.0)
