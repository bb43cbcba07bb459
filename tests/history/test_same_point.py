"""One rule says which points are the same."""

import jax
import jax.numpy as jnp
import numpy as np

from bmbo.history.same_point import is_among, point_key, same_configuration, same_points


def test_a_point_is_itself_after_a_trip_through_single_precision():
    units = np.random.default_rng(0).uniform(size=(50, 3))
    back = units.astype(np.float32).astype(np.float64)
    np.testing.assert_array_equal(same_points(units, back), np.eye(50, dtype=bool))


def test_numpy_and_jax_agree_also_inside_jit():
    one, other = np.asarray([[0.5, 0.25], [1.0, 0.0]]), np.asarray([[0.5, 0.25 + 1e-7], [0.5, 0.2501], [1.0, 0.0]])
    wanted = [[True, False, False], [False, False, True]]
    assert same_points(one, other).tolist() == wanted
    assert jax.jit(same_points)(jnp.asarray(one), jnp.asarray(other)).tolist() == wanted


def test_no_point_is_among_none():
    assert not is_among((0.5,), [])
    assert is_among((0.5,), [(0.1,), (0.5 + 1e-8,)])
    assert not is_among((0.5,), [(0.1,), (0.51,)])


def test_recorded_points_are_the_same_only_if_they_are_equal():
    assert same_configuration((0.5, 0.25), [0.5, 0.25])
    assert not same_configuration((0.5, 0.25), (0.5, 0.25 + 1e-9))


def test_keys_of_points_are_the_same_after_rounding_alone():
    unit = np.array([0.3, 0.0, 1.0])
    assert point_key(unit) == point_key(np.nextafter(unit, 2.0)) == point_key(np.array([0.3, -0.0, 1.0]))
    assert point_key(unit) != point_key(unit + 1e-9)
