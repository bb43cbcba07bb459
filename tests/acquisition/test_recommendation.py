"""Points that are good in themselves, on posteriors whose best points are known."""

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float
from scipy.special import erfcx
from scipy.stats import norm

import bmbo
from bmbo.acquisition.expected_improvement import log_expected_improvement, most_improving
from bmbo.acquisition.recommendation import recommend
from bmbo.history.value_scaling import Scale
from bmbo.problem import Categorical, Fidelity, Int, Ladder, Problem, Space

KEY = jax.random.key(0)
LADDER = Ladder([Fidelity("low", cost=1), Fidelity("high", cost=10)])
PLANE = Problem(Space({"x": bmbo.Float(0, 1), "y": bmbo.Float(0, 1)}), LADDER, maximise=True)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Bumps:
    """Sums of bumps at the top, and something misleading below."""

    height: Float[Array, "s k"]
    centre: Float[Array, "k d"]
    width: float = field(metadata={"static": True})

    def draw(self, unit):
        return jax.vmap(self._one, (0, None))(self.height, unit)

    def draw_each(self, unit):
        return jax.vmap(self._one)(self.height, unit)

    def _one(self, height, unit):
        distance = jnp.sum((unit[:, None] - self.centre[None]) ** 2, axis=-1)
        top = jnp.exp(-distance / (2 * self.width**2)) @ height
        return jnp.stack([unit[:, 0], top], axis=1)

    @property
    def noise(self):
        return jnp.full(2, 0.01, self.height.dtype)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Parabola:
    """A quadratic top level known up to an offset."""

    best: Float[Array, " d"]
    offset: Float[Array, " s"]

    def draw(self, unit):
        return jax.vmap(self._one, (0, None))(self.offset, unit)

    def draw_each(self, unit):
        return jax.vmap(self._one)(self.offset, unit)

    def _one(self, offset, unit):
        top = offset - jnp.sum((unit - self.best[None]) ** 2, axis=1)
        return jnp.stack([unit[:, 0], top], axis=1)

    @property
    def noise(self):
        return jnp.full(2, 0.01, self.best.dtype)


def scale(top=(0.0, 2.0)):
    return Scale.linear(np.asarray(top))


OFFSETS = jnp.asarray([-0.1, 0.1, -0.1, 0.1], jnp.float32)


def test_the_safest_point_of_a_known_quadratic_is_its_maximum():
    found = recommend(KEY, Parabola(jnp.asarray([0.3, 0.8]), OFFSETS), PLANE, scale(), [])
    assert found.unit == pytest.approx((0.3, 0.8), abs=2e-3)


def test_a_prediction_is_in_the_units_and_the_direction_of_the_objective():
    # The top's values have mean 5 and standard deviation 2: a standardised 0 with deviation 0.1.
    posterior, observed = Parabola(jnp.asarray([0.3, 0.8]), OFFSETS), scale(top=(3.0, 7.0))
    up = recommend(KEY, posterior, PLANE, observed, [])
    assert (up.mean, up.std) == pytest.approx((5.0, 0.2), abs=1e-3)
    down = recommend(KEY, posterior, Problem(PLANE.space, LADDER), observed, [])
    assert (down.mean, down.std) == pytest.approx((-5.0, 0.2), abs=1e-3)
    assert down.unit == up.unit


def test_a_maximum_on_the_edge_is_reached():
    found = recommend(KEY, Parabola(jnp.asarray([1.4, -0.2]), OFFSETS), PLANE, scale(), [])
    assert found.unit == pytest.approx((1.0, 0.0), abs=1e-5)


def test_a_certain_point_beats_an_uncertain_one_of_a_higher_mean():
    height = jnp.asarray([[2.0, 0.81], [0.0, 0.79], [2.0, 0.79], [0.0, 0.81]], jnp.float32)
    posterior = Bumps(height, jnp.asarray([[0.2, 0.2], [0.8, 0.8]]), 0.1)
    found = recommend(KEY, posterior, PLANE, scale(), [])
    assert found.unit == pytest.approx((0.8, 0.8), abs=5e-3)


def test_a_narrow_peak_is_found_from_a_known_point_on_it():
    posterior = Bumps(jnp.ones((4, 1)), jnp.asarray([[0.123, 0.456]]), 0.002)
    found = recommend(KEY, posterior, PLANE, scale(), [(0.5, 0.5), (0.124, 0.457)])
    assert found.unit == pytest.approx((0.123, 0.456), abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("best", [-0.5, 0.4, 1.2])
def test_expected_improvement_is_no_smaller_than_anywhere_on_a_fine_grid(best):
    height = jax.random.normal(jax.random.key(1), (16, 3)) + jnp.asarray([[0.5, 0.0, 0.2]])
    posterior = Bumps(height, jnp.asarray([[0.2, 0.3], [0.7, 0.8], [0.8, 0.2]]), 0.15)

    def improvement(unit):
        drawn = posterior.draw(unit)[..., -1]
        std = jnp.sqrt(jnp.var(drawn, axis=0, ddof=1) + 1e-12)
        return log_expected_improvement(jnp.mean(drawn, axis=0) - best, std)

    side = np.linspace(0, 1, 101, dtype=np.float32)
    grid = jnp.asarray(np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2))
    found = most_improving(KEY, posterior, PLANE, best, known=[])
    assert float(improvement(jnp.asarray([found], jnp.float32))[0]) >= float(jnp.max(improvement(grid))) - 1e-4


@pytest.mark.parametrize("z", [-300.0, -21.0, -19.0, -3.0, -0.5, 0.0, 0.5, 3.0, 30.0])
def test_the_log_of_expected_improvement_is_the_closed_form_with_its_slope(z):
    def value(shift):
        return log_expected_improvement(jnp.asarray([2.0 * z], jnp.float32) + shift, jnp.asarray([2.0]))[0]

    # phi(z) + z Phi(z) by the scaled complementary error function, exact far to the left.
    if z < 0:
        exact = -0.5 * z**2 - 0.5 * np.log(2 * np.pi) + np.log1p(z * np.sqrt(np.pi / 2) * erfcx(-z / np.sqrt(2)))
    else:
        exact = np.log(norm.pdf(z) + z * norm.cdf(z))
    assert float(value(0.0)) == pytest.approx(np.log(2.0) + exact, rel=1e-5, abs=5e-3)
    slope = np.exp(norm.logcdf(z) - exact) / 2.0
    assert float(jax.grad(value)(0.0)) == pytest.approx(slope, rel=0.03)


@pytest.mark.slow
def test_what_is_taken_must_be_improved_upon_as_well():
    # Two peaks of equal expectation, the second surer: once the first is taken, the other is what is left to gain.
    height = jnp.asarray([[2.0, 1.0], [0.0, 1.1], [2.1, 0.9], [0.1, 1.0]], jnp.float32)
    posterior = Bumps(height, jnp.asarray([[0.2, 0.2], [0.8, 0.8]]), 0.1)
    first = most_improving(KEY, posterior, PLANE, 0.5, known=[])
    assert first == pytest.approx((0.2, 0.2), abs=2e-2)
    second = most_improving(KEY, posterior, PLANE, 0.5, known=[], taken=[first])
    assert second == pytest.approx((0.8, 0.8), abs=5e-2)


@pytest.mark.slow
def test_places_of_a_batch_keep_apart_where_improvement_is_unlikely():
    # One hill whose height is uncertain and far below the best, and a lower one that knows nothing of it: beside the
    # first place on the high hill there is nothing more to learn, though its draws there are as wide as ever.
    high, low = jax.random.normal(jax.random.key(3), (2, 64))
    posterior = Bumps(jnp.stack([high, low - 0.5], axis=1), jnp.asarray([[0.2, 0.2], [0.8, 0.8]]), 0.1)
    first = most_improving(KEY, posterior, PLANE, 3.0, known=[])
    assert first == pytest.approx((0.2, 0.2), abs=2e-2)
    second = most_improving(KEY, posterior, PLANE, 3.0, known=[], taken=[first])
    assert second == pytest.approx((0.8, 0.8), abs=2e-2)


@pytest.mark.slow
def test_points_of_discrete_spaces_are_points_that_can_be_run():
    space = Space({"n": Int(1, 7), "c": Categorical(["a", "b", "c"])})
    problem = Problem(space, LADDER, maximise=True)
    posterior = Parabola(jnp.asarray([0.37, 0.1, 0.9, 0.2]), OFFSETS)
    known = [space.encode({"n": 5, "c": "a"})]
    for unit in (
        recommend(KEY, posterior, problem, scale(), known).unit,
        most_improving(KEY, posterior, problem, -1.0, known=known),
    ):
        assert space.encode(space.decode(unit)) == unit
        assert space.decode(unit) == {"n": 3, "c": "b"}


@pytest.mark.slow
def test_what_was_tried_or_is_taken_is_not_asked_for_again_while_there_is_anything_else():
    space = Space({"n": Int(1, 7), "c": Categorical(["a", "b", "c"])})
    problem = Problem(space, LADDER, maximise=True)
    # All draws agree on the best point: expected improvement alone would ask for it for ever.
    posterior = Parabola(jnp.asarray([0.37, 0.1, 0.9, 0.2]), OFFSETS)
    tried, taken = list[tuple[float, ...]](), list[tuple[float, ...]]()
    for _ in range(10):
        tried.append(most_improving(KEY, posterior, problem, -1.0, known=tried, taken=taken))
        taken.append(most_improving(KEY, posterior, problem, -1.0, known=tried, taken=taken))
    assert len({*tried, *taken}) == 20
    last = most_improving(KEY, posterior, problem, -1.0, known=[*tried, *taken])
    everything = [*tried, *taken, last]
    assert len(set(everything)) == 21
    assert most_improving(KEY, posterior, problem, -1.0, known=everything) in everything


@pytest.mark.slow
def test_the_middle_of_the_space_is_not_taken_for_a_point_that_was_tried():
    space = Space({"n": Int(1, 3)})
    posterior = Parabola(jnp.asarray([0.5]), OFFSETS)
    found = most_improving(KEY, posterior, Problem(space, LADDER, maximise=True), -1.0, known=[])
    assert space.decode(found) == {"n": 2}
