"""Moments estimated from drawn functions, and the rule that looks or evaluates by them."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bmbo
from bmbo import History, Outcome, Query
from bmbo.acquisition.drawn_moments import CHANCE, DrawnMoments
from bmbo.acquisition.look_over_draws import LookOverDraws
from bmbo.history import Dataset
from bmbo.protocols import BudgetedSelect, ExactPosterior

NUM_DRAWS = 400


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Cubics:
    """Hold drawn cubics of the first coordinate; the top level is the lowest one plus `own` of something else."""

    weights: jax.Array
    own: float

    def draw(self, unit):
        powers = unit[:, :1] ** jnp.arange(4)[None]
        low, other = powers @ self.weights[0].T, powers @ self.weights[1].T
        return jnp.stack([low.T, (1 - self.own) * low.T + self.own * other.T], axis=-1)

    def draw_each(self, unit):
        return jax.vmap(lambda one: self.draw(one)[0])(unit)

    @property
    def noise(self):
        return jnp.asarray([0.01, 0.01])


def cubics(own=0.0, num=NUM_DRAWS):
    weights = jax.random.normal(jax.random.key(0), (2, num, 4))
    return Cubics(weights, own)


def some(num, seed=0):
    return np.random.default_rng(seed).random((num, 1))


def history(problem_costs=(0.01, 1.0), num=6):
    problem = bmbo.Problem(
        bmbo.Space({"x": bmbo.Float(0, 1)}),
        bmbo.Ladder(tuple(bmbo.Fidelity(m, cost=c) for m, c in enumerate(problem_costs))),
    )
    found = History(problem)
    for place, unit in enumerate(some(num)):
        level = place % 2
        found = found.asked(Query(tuple(unit), level))
        found = found.with_outcome(place, Outcome.of(float(np.sin(5 * unit[0]) + level), problem_costs[level]))
    return found


def test_moments_are_those_of_the_draws():
    functions, points = cubics(0.3), some(300)
    found = DrawnMoments.of(functions, points[:2], np.array([0, 1]))
    assert isinstance(found, ExactPosterior)
    drawn = np.asarray(functions.draw(jnp.asarray(points, jnp.float32)), np.float64)
    mean, variance = found.moments(points, 1)
    assert mean.shape == (300, 1)
    np.testing.assert_allclose(mean[:, 0], drawn[:, :, 1].mean(0), atol=1e-5)
    np.testing.assert_allclose(variance, drawn[:, :, 1].var(0, ddof=1), rtol=1e-4)


def test_an_imagined_outcome_conditions_as_a_gaussian():
    found, points, at = DrawnMoments.of(cubics(0.3), some(2), np.array([0, 1])), some(5), some(1, seed=3)[0]
    white = np.array([-1.0, 0.7])
    joint = np.cov(np.hstack([found._columns(points, 1)[1], found._columns(at[None], 0)[1]]).T) * (NUM_DRAWS - 1)
    seen = joint[-1, -1] + 0.01
    after = found.imagined(at, 0, white)
    mean, variance = after.moments(points, 1)
    np.testing.assert_allclose(variance, np.diag(joint)[:-1] - joint[:-1, -1] ** 2 / seen, rtol=1e-4)
    moved = joint[:-1, -1][:, None] / np.sqrt(seen) * white
    np.testing.assert_allclose(mean - found.moments(points, 1)[0], moved, rtol=1e-4, atol=1e-8)
    assert len(after.unit) == 3
    assert after.level[-1] == 0


@pytest.mark.parametrize("own", [0.0, 1.0], ids=["the same level", "an unrelated level"])
def test_a_correlation_by_chance_is_none(own):
    found, points = DrawnMoments.of(cubics(own), some(2), np.array([0, 1])), some(40)
    variances = [found.moments(points, level)[1] for level in (0, 1)]
    correlation = np.diag(found.covariance(points, 1, points, 0)) / np.sqrt(variances[0] * variances[1])
    if own == 0.0:
        np.testing.assert_allclose(correlation, 1.0, atol=1e-3)
    else:
        assert np.abs(correlation).max() < 2.0 * np.sqrt(CHANCE / NUM_DRAWS)
        assert np.mean(correlation == 0.0) > 0.5


@pytest.mark.parametrize(("own", "looks"), [(0.0, True), (1.0, False)])
def test_a_level_is_asked_if_it_tells_about_the_top(own, looks):
    past = history()
    select = LookOverDraws().with_left(10.0, 100.0)
    assert isinstance(select, BudgetedSelect)
    queries = select(jax.random.key(1), cubics(own), Dataset.of(past), past, 3)
    assert len(queries) == 3
    assert any(query.level == 0 for query in queries) == looks
    assert len({(query.unit, query.level) for query in queries}) == 3


def test_nothing_is_bought_that_no_evaluation_could_follow():
    past = history()
    data, functions = Dataset.of(past), cubics()
    assert LookOverDraws().with_left(0.5, 100.0)(jax.random.key(1), functions, data, past, 3) == []
    one = LookOverDraws().with_left(5.0, 1.0)(jax.random.key(1), functions, data, past, 3)
    assert [query.level for query in one] == [1]
