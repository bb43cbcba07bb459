"""The maximum of every drawn function."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float

from bmbo.acquisition.sampled_optima import find_optimum
from bmbo.problem import Categorical, Int, Space


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Hills:
    """Each draw a sum of narrow hills over a broad slope; level 0 is the negative of level 1."""

    centre: Float[Array, "s h d"]
    height: Float[Array, "s h"]

    def _top(self, unit):
        away = jnp.sum((unit[:, :, None] - self.centre[:, None]) ** 2, axis=-1)
        return jnp.sum(self.height[:, None] * jnp.exp(-0.5 * away / 0.1**2), axis=-1)

    def draw_each(self, unit):
        top = self._top(unit)
        return jnp.stack([-top, top], axis=-1)

    def draw(self, unit):
        return self.draw_each(jnp.broadcast_to(unit[None], (self.centre.shape[0], *unit.shape)))

    @property
    def noise(self):
        return jnp.zeros(2)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Bowls:
    """Each draw a quadratic with its own centre, which may lie outside of the cube; one level."""

    centre: Float[Array, "s d"]
    steep: Float[Array, "s d"]

    def draw_each(self, unit):
        away = (unit - self.centre[:, None]) ** 2
        return -jnp.sum(self.steep[:, None] * away, axis=-1)[..., None]

    def draw(self, unit):
        return self.draw_each(jnp.broadcast_to(unit[None], (self.centre.shape[0], *unit.shape)))

    @property
    def noise(self):
        return jnp.zeros(1)


def bowls(num, dim):
    key_centre, key_steep = jax.random.split(jax.random.key(0))
    centre = jax.random.uniform(key_centre, (num, dim), minval=-0.5, maxval=1.5)
    return Bowls(centre, jax.random.uniform(key_steep, (num, dim), minval=0.2, maxval=5.0))


def hills(num):
    """Four hills that hardly overlap, so that the highest is where the maximum is."""
    spots = jnp.asarray([[0.15, 0.2], [0.8, 0.25], [0.2, 0.85], [0.85, 0.8]])
    key_jitter, key_height = jax.random.split(jax.random.key(1))
    centre = spots[None] + 0.05 * jax.random.uniform(key_jitter, (num, 4, 2), minval=-1.0)
    return Hills(centre, jax.random.uniform(key_height, (num, 4), minval=0.5, maxval=2.0))


@jax.jit
def found_on_hills(key, posterior):
    return find_optimum(key, posterior, 2)


def test_every_quadratic_is_maximised_inside_and_on_the_boundary():
    posterior = bowls(64, 3)
    found = jax.jit(lambda key: find_optimum(key, posterior, 3))(jax.random.key(2))
    exact = jnp.clip(posterior.centre, 0.0, 1.0)
    assert np.mean(np.any(np.asarray(exact) != np.asarray(posterior.centre), axis=1)) > 0.5
    np.testing.assert_allclose(found.unit, exact, atol=1e-3)
    np.testing.assert_allclose(found.value, posterior.draw_each(exact[:, None])[:, 0, 0], atol=1e-4)


@pytest.mark.slow
def test_every_draw_finds_the_highest_of_its_hills():
    posterior = hills(128)
    found = found_on_hills(jax.random.key(3), posterior)
    grid = jnp.stack(jnp.meshgrid(jnp.linspace(0, 1, 101), jnp.linspace(0, 1, 101)), axis=-1).reshape(-1, 2)
    best = jnp.max(posterior.draw(grid)[..., -1], axis=1)
    # At least the best of a fine grid, and no more than the grid may have missed.
    assert np.all(np.asarray(found.value) >= np.asarray(best) - 1e-3)
    assert np.all(np.asarray(found.value) <= np.asarray(best) + 0.02)
    np.testing.assert_allclose(found.value, posterior.draw_each(found.unit[:, None])[:, 0, -1], atol=1e-5)


def test_the_level_can_be_chosen():
    posterior = hills(8)
    found = jax.jit(lambda key: find_optimum(key, posterior, 2, level=0, num_candidates=128))(jax.random.key(4))
    # The highest point of the lower level is where there is no hill.
    np.testing.assert_allclose(found.value, 0.0, atol=1e-3)


def test_an_extra_point_is_never_beaten_by_what_is_returned():
    posterior = bowls(16, 6)
    extra = jnp.clip(posterior.centre, 0.0, 1.0)
    options: dict[str, Any] = {"num_candidates": 4, "num_starts": 1, "max_steps": 1}
    found = jax.jit(lambda key: find_optimum(key, posterior, 6, extra=extra, **options))(jax.random.key(5))
    own = posterior.draw_each(extra[:, None])[:, 0, 0]
    np.testing.assert_allclose(found.value, own, atol=1e-5)


@pytest.mark.slow
def test_with_a_space_the_optimum_is_a_point_that_can_be_run():
    space = Space({"layers": Int(1, 4), "kind": Categorical(["a", "b", "c"])})
    posterior = bowls(32, space.dim)
    found = jax.jit(lambda key: find_optimum(key, posterior, space.dim, snap=space.snap))(jax.random.key(6))
    np.testing.assert_allclose(space.snap(found.unit), found.unit, atol=1e-6)
    configurations = [{"layers": layers, "kind": kind} for layers in range(1, 5) for kind in "abc"]
    every = jnp.asarray([space.encode(configuration) for configuration in configurations], jnp.float32)
    np.testing.assert_allclose(found.value, jnp.max(posterior.draw(every)[..., 0], axis=1), atol=1e-5)


def test_the_same_key_gives_the_same_optimum():
    posterior = hills(128)
    one, other = (found_on_hills(jax.random.key(7), posterior) for _ in range(2))
    np.testing.assert_array_equal(one.unit, other.unit)
