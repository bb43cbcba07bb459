"""MF-GP-UCB: the bound by its formula, the level by its rule, and thresholds as the history moves them."""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float

import bmbo
from bmbo.acquisition.baseline_search import CandidateSearch
from bmbo.acquisition.upper_confidence_bound import CHECKS, Bounds, Comparable, Rules, Suspect, UpperConfidence
from bmbo.history import Dataset, History, Outcome, Query
from bmbo.problem import Fidelity, Ladder, Problem, Space

KEY = jax.random.key(0)
SPACE = Space({"x": bmbo.Float(0, 1)})
PROBLEM = Problem(SPACE, Ladder([Fidelity(1, cost=1), Fidelity(2, cost=3), Fidelity(3, cost=9)]), maximise=True)
SEARCH = CandidateSearch(num_candidates=64, num_climbs=2, climb_steps=8, optimum_candidates=32, optimum_steps=2)
SELECT = UpperConfidence(search=SEARCH)


def rules(zeta=(0.0, 0.0), suspect=None):
    comparable = Comparable((1.0, 1.0, 1.0), (0.0, 0.0, 0.0))
    return Rules(beta=1.0, zeta=zeta, gamma=(0.01, 0.01), comparable=comparable, suspect=suspect)


def learnt(history):
    """The rules after a history whose first two trials of each level are its start."""
    return Rules.of(history, Dataset.of(history), num_startup=2)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Hills:
    """f_m(x) = -(x - 0.3)^2 + spread_m (a + b x), a and b standard Gaussian over the draws."""

    normal: Float[Array, "s m 2"]
    spread: Float[Array, " m"]

    def draw(self, unit):
        sway = self.normal[:, None, :, 0] + self.normal[:, None, :, 1] * unit[None]
        return -((unit[None] - 0.3) ** 2) + self.spread[None, None] * sway

    def draw_each(self, unit):
        sway = self.normal[:, None, :, 0] + self.normal[:, None, :, 1] * unit
        return -((unit - 0.3) ** 2) + self.spread[None, None] * sway

    @property
    def noise(self):
        return jnp.full(3, 1e-6)


def hills(*spread):
    return Hills(jax.random.normal(KEY, (256, 3, 2)), jnp.asarray(spread))


def history_of(*trials):
    """A history of (x, level, value, tag)."""
    history = History(PROBLEM)
    for x, level, value, *tag in trials:
        history = history.asked(Query((x,), level, tag[0] if tag else {}))
        cost = PROBLEM.ladder.costs[level]
        history = history.with_outcome(len(history.trials) - 1, Outcome.of(value, cost))
    return history


# Values of mean 0 and deviation 1 at every level: comparable values are the values.
START = [(x, level, value) for level in range(3) for x, value in ((0.1 + 0.1 * level, -1.0), (0.5, 1.0))]


def test_the_bound_is_the_smallest_over_levels_of_mean_deviations_and_zeta():
    bounds = Bounds(
        beta=jnp.asarray(4.0),
        zeta=jnp.asarray([0.5, 0.25, 0.0]),
        gamma=jnp.asarray([0.1, 0.1, 0.0]),
        scale=jnp.asarray([1.0, 2.0, 1.0]),
        shift=jnp.asarray([0.0, 1.0, -1.0]),
    )
    rng = np.random.default_rng(0)
    mean, std = rng.normal(size=(5, 3)), rng.uniform(0.01, 1.0, (5, 3))
    expected = np.min(
        [
            mean[:, 0] + 2 * std[:, 0] + 0.5,
            2 * mean[:, 1] + 1 + 2 * 2 * std[:, 1] + 0.25,
            mean[:, 2] - 1 + 2 * std[:, 2],
        ],
        axis=0,
    )
    assert np.allclose(bounds.upper(jnp.asarray(mean), jnp.asarray(std)), expected, atol=1e-5)
    uncertain = np.stack([2 * std[:, 0] > 0.1, 4 * std[:, 1] > 0.1, np.full(5, True)], axis=1)
    assert np.array_equal(bounds.uncertain(jnp.asarray(std)), uncertain)


@pytest.mark.parametrize(
    ("spread", "level"), [((0.1, 0.1, 0.1), 0), ((1e-4, 0.1, 0.1), 1), ((1e-4, 1e-4, 0.1), 2), ((1e-4,) * 3, 2)]
)
def test_the_level_is_the_lowest_that_is_not_known_well_enough(spread, level):
    (query,) = SELECT.choose(KEY, hills(*spread), PROBLEM, rules(), [])
    assert query.level == level


def test_the_point_is_where_the_smallest_bound_is_largest():
    posterior = hills(1e-4, 0.5, 0.5)
    (query,) = SELECT.choose(KEY, posterior, PROBLEM, rules(), [])
    grid = jnp.linspace(0.0, 1.0, 1001)[:, None]
    drawn = posterior.draw(grid)
    upper = np.min(np.mean(drawn, axis=0) + np.std(drawn, axis=0, ddof=1), axis=1)
    assert query.unit[0] == pytest.approx(float(grid[np.argmax(upper), 0]), abs=5e-3)


def test_what_is_in_flight_is_as_good_as_known():
    posterior = hills(0.1, 0.1, 0.1)
    pending = [Query((x,), 0) for x in (0.0, 0.5, 1.0)]
    (query,) = SELECT.choose(KEY, posterior, PROBLEM, rules(), pending)
    assert query.level == 1


def test_a_top_observation_too_far_from_the_level_below_is_checked_there():
    posterior = hills(1e-4, 1e-4, 0.1)
    suspect = Suspect((0.3,), 2, 0.5)
    broken, kept = rules(zeta=(0.1, 0.4), suspect=suspect), rules(zeta=(0.1, 0.6), suspect=suspect)
    assert SELECT.choose(KEY, posterior, PROBLEM, broken, []) == [Query((0.3,), 1, {CHECKS: True})]
    assert CHECKS not in SELECT.choose(KEY, posterior, PROBLEM, kept, [])[0].tag


def test_levels_are_made_comparable_by_their_starts_alone():
    trials = [(x, level, (5.0 + level) * value + 10.0 * level) for x, level, value in START]
    history = history_of(*trials, (0.9, 2, 6.0 * 2 + 20.0 + 35.0))
    given = learnt(history)
    seen = np.array([13.0, 27.0, 67.0])
    standardised = (seen - np.mean(seen)) / np.std(seen)
    comparable = given.comparable.scale[2] * standardised + given.comparable.shift[2]
    assert comparable == pytest.approx([-1.0, 1.0, (67.0 - 20.0) / 7.0], rel=1e-4)
    assert given.suspect is not None
    assert (given.suspect.unit, given.suspect.level) == ((0.9,), 2)
    assert given.suspect.value == pytest.approx(47.0 / 7.0, rel=1e-4)


def test_beta_grows_with_the_queries_after_the_start():
    assert learnt(history_of(*START)).beta == pytest.approx(0.2 * math.log(2.0))
    later = history_of(*START, (0.7, 0, 0.0), (0.8, 0, 0.0))
    assert learnt(later).beta == pytest.approx(0.2 * math.log(6.0))


def test_a_bound_that_is_broken_becomes_twice_what_broke_it_and_raises_the_others():
    # The starts share a point, where all levels agree.
    assert learnt(history_of(*START)).zeta == (0.0, 0.0)
    pair = [(0.8, 2, 0.75), (0.8, 1, 0.25, {CHECKS: True})]
    given = learnt(history_of(*START, *pair))
    assert given.zeta == pytest.approx((1.0, 1.0), rel=1e-4)
    assert given.suspect is None


def test_a_search_that_stays_low_for_longer_than_costs_justify_raises_its_threshold():
    first = learnt(history_of(*START)).gamma
    assert first == pytest.approx((0.02, 0.02), rel=1e-4)
    two = learnt(history_of(*START, *[(0.6 + 0.1 * i, 0, 0.0) for i in range(2)])).gamma
    assert two == first
    three = learnt(history_of(*START, *[(0.6 + 0.1 * i, 0, 0.0) for i in range(3)])).gamma
    assert three == pytest.approx((0.1, 0.1), rel=1e-4)


def test_without_any_value_there_are_bounds_all_the_same():
    given = learnt(History(PROBLEM))
    assert given.comparable == Comparable((1.0, 1.0, 1.0), (0.0, 0.0, 0.0))
    assert all(threshold > 0 for threshold in given.gamma)
