"""Entropy search over levels: the entropies against numerical integration, and what the scores are made of."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float
from scipy.integrate import quad
from scipy.stats import norm

import bmbo
from bmbo.acquisition.baseline_search import CandidateSearch, in_flight, moments
from bmbo.acquisition.batch_information import take
from bmbo.acquisition.batch_invariants import Pending
from bmbo.acquisition.chained_max_value_entropy import ChainQuadrature, conditional_variance, hermite
from bmbo.acquisition.max_value_entropy import MaxValue, chance_correlation, entropy_reduction, spread
from bmbo.history import Dataset, History, Query
from bmbo.problem import Fidelity, Ladder, Problem, Space

KEY = jax.random.key(0)
SPACE = Space({"x": bmbo.Float(0, 1)})
SEARCH = CandidateSearch(num_candidates=64, num_climbs=2, climb_steps=6, optimum_candidates=64, optimum_steps=4)


def entropy_given_below(gamma, rho):
    """Entropy of y given f <= gamma, for standard Gaussian y and f of correlation rho, by numerical integration."""
    width = np.sqrt(1.0 - rho**2)

    def density(y):
        return norm.pdf(y) * norm.cdf((gamma - rho * y) / width) / norm.cdf(gamma)

    def minus_log(y):
        value = density(y)
        return -value * np.log(value) if value > 1e-300 else 0.0

    step = gamma / rho if rho else 0.0
    return quad(minus_log, -9.0, 9.0, points=sorted({step - 3 * width, step, step + 3 * width}), limit=400)[0]


@pytest.mark.parametrize("gamma", [-1.5, 0.0, 0.7, 2.5])
@pytest.mark.parametrize("rho", [0.1, 0.5, 0.9, 0.99])
def test_the_entropy_that_f_star_takes_is_that_of_numerical_integration(gamma, rho):
    expected = norm.entropy() - entropy_given_below(gamma, rho)
    found = entropy_reduction(jnp.asarray([gamma]), jnp.asarray([rho**2]))
    assert float(found[0]) == pytest.approx(expected, abs=2e-4)


@pytest.mark.parametrize("squared", [0.996, 0.999])
def test_near_full_correlation_it_is_interpolated_to_the_closed_form(squared):
    expected = norm.entropy() - entropy_given_below(0.5, np.sqrt(squared))
    found = entropy_reduction(jnp.asarray([0.5]), jnp.asarray([squared]))
    assert float(found[0]) == pytest.approx(expected, rel=0.03)


def test_at_full_correlation_it_is_the_closed_form_of_max_value_entropy_search():
    gamma = np.linspace(-2.0, 3.0, 11)
    ratio = norm.pdf(gamma) / norm.cdf(gamma)
    found = entropy_reduction(jnp.asarray(gamma, jnp.float32), jnp.ones(11))
    assert np.allclose(found, gamma * ratio / 2 - norm.logcdf(gamma), atol=1e-4)


@pytest.mark.slow
def test_without_correlation_nothing_is_taken_and_the_slope_is_finite():
    gamma = jnp.asarray([-1.0, 1.0])
    assert np.allclose(entropy_reduction(gamma, jnp.zeros(2)), 0.0, atol=1e-5)
    for squared in (0.0, 0.5, 1.0):
        slope = jax.grad(lambda s: jnp.sum(entropy_reduction(gamma, s)))(jnp.full(2, squared))
        assert np.all(np.isfinite(slope))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Waves:
    """Two levels of cosines; the upper is `link` times the lower plus functions of its own."""

    weights: Float[Array, "s 2 k"]
    link: Float[Array, ""]

    def draw(self, unit):
        return self._levels(jnp.einsum("stk,qk->sqt", self.weights, self._basis(unit)))

    def draw_each(self, unit):
        return self._levels(jnp.einsum("stk,sqk->sqt", self.weights, self._basis(unit)))

    def _basis(self, unit):
        return jnp.cos(unit * (1.0 + jnp.arange(self.weights.shape[2])).reshape([1] * (unit.ndim - 1) + [-1]))

    def _levels(self, both):
        own = jnp.sqrt(1.0 - self.link**2) * both[..., 1]
        return jnp.stack([both[..., 0], self.link * both[..., 0] + own], axis=-1)

    def top_given(self, unit, level, output):
        assert level == 0
        own = jnp.sqrt(1.0 - self.link**2) * jnp.einsum("sk,qk->sq", self.weights[:, 1], self._basis(unit))
        return self.link * output[None] + own[..., None]

    @property
    def noise(self):
        return jnp.full(2, 1e-4)


def waves(link, num=256):
    return Waves(jax.random.normal(KEY, (num, 2, 4)), jnp.asarray(link))


def problem(cost):
    return Problem(SPACE, Ladder([Fidelity(1, cost=1), Fidelity(2, cost=cost)]))


def choose(select, key, posterior, problem, num, *, pending=()):
    """Queries for a problem of which nothing but some queries in flight is known."""
    history = History(problem)
    for query in pending:
        history = history.asked(query)
    return select(key, posterior, Dataset.of(history), history, num)


@pytest.mark.slow
@pytest.mark.parametrize("select", [MaxValue(search=SEARCH), ChainQuadrature(search=SEARCH)])
def test_a_cheap_level_is_asked_where_it_tells_of_the_top_and_not_where_it_does_not(select):
    close = choose(select, KEY, waves(0.99), problem(10.0), 1)[0]
    assert close.level == 0
    useless = choose(select, KEY, waves(0.0), problem(10.0), 1)[0]
    assert useless.level == 1
    dear = choose(select, KEY, waves(0.7), problem(1.0), 1)[0]
    assert dear.level == 1


@pytest.mark.slow
def test_a_batch_keeps_its_places_apart_and_away_from_what_is_in_flight():
    select, posterior = MaxValue(search=SEARCH), waves(0.99)
    queries = choose(select, KEY, posterior, problem(10.0), 3)
    points = [query.unit[0] for query in queries]
    assert min(abs(one - other) for one in points for other in points if one is not other) > 0.05
    later = choose(select, KEY, posterior, problem(10.0), 1, pending=queries[:1])[0]
    assert abs(later.unit[0] - queries[0].unit[0]) > 0.05


def test_moments_given_what_is_in_flight_are_those_of_a_conditional_gaussian():
    posterior = waves(0.9)
    pending = Pending.of([Query((0.2,), 0), Query((0.6,), 1)], 1)
    _, taken = in_flight(posterior, pending)
    unit = jnp.asarray([[0.1], [0.45], [0.9]])
    at = moments(posterior.draw(unit), taken)
    drawn = np.asarray(posterior.draw(jnp.concatenate([unit, jnp.asarray([[0.2], [0.6]])])), np.float64)
    joint = np.concatenate([drawn[:, :3].reshape(len(drawn), 6), drawn[:, 3, :1], drawn[:, 4, 1:]], axis=1)
    covariance = np.cov(joint, rowvar=False)
    seen = covariance[6:, 6:] + 1e-4 * np.eye(2)
    left = covariance[:6, :6] - covariance[:6, 6:] @ np.linalg.solve(seen, covariance[6:, :6])
    assert np.allclose(at.variance.reshape(-1), np.diag(left), atol=2e-4)
    assert np.allclose(at.with_top[:, 0], [left[2 * i, 2 * i + 1] for i in range(3)], atol=2e-4)


def test_chance_correlation_is_what_unrelated_levels_show():
    normal = jax.random.normal(KEY, (500, 64, 2))
    chance = chance_correlation(normal, num_shifts=8)
    centred = np.asarray(normal) - np.mean(np.asarray(normal), axis=0)
    squared = np.sum(centred[..., 0] * centred[..., 1], axis=0) ** 2 / np.prod(np.sum(centred**2, axis=0), axis=-1)
    assert float(chance[0]) == pytest.approx(np.max(squared), rel=0.6)
    assert np.allclose(chance_correlation(normal, num_shifts=0), 0.0)


def test_the_draws_that_stand_for_a_distribution_lie_evenly_in_it():
    value = jax.random.permutation(KEY, jnp.arange(100.0))
    assert np.asarray(value[spread(value, 4)]).tolist() == [12.0, 37.0, 62.0, 87.0]
    assert spread(value[:3], 10).shape == (3,)


def test_quadrature_gives_the_variance_of_a_truncated_gaussian():
    # f given v is N(v, s^2): f <= 0 weighs v by Phi(-v / s), and (v, f) is jointly Gaussian.
    nodes, log_weight = hermite(20)
    deviation = 0.8
    log_share = jnp.asarray(norm.logcdf(-np.asarray(nodes) / deviation))[None, None]
    found = float(conditional_variance(log_share, nodes, log_weight)[0, 0])
    squared = 1.0 / (1.0 + deviation**2)
    # Var(v | f <= 0) = 1 - rho^2 r (gamma + r) with gamma = 0.
    ratio = norm.pdf(0.0) / norm.cdf(0.0)
    assert found == pytest.approx(1.0 - squared * ratio**2, rel=1e-3)


def test_nothing_taken_leaves_moments_as_they_are():
    posterior = waves(0.9)
    _, taken = in_flight(posterior, Pending.of([], 1))
    drawn = posterior.draw(jnp.asarray([[0.3], [0.8]]))
    at = moments(drawn, taken)
    assert np.allclose(at.variance, np.var(drawn, axis=0, ddof=1), rtol=1e-4)
    assert float(take(jnp.zeros((4, 1)), jnp.zeros(1), jnp.zeros(1, bool), jnp.zeros(4)).information) == 0.0
