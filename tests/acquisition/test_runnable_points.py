"""Points that leave the device are exact in double precision."""

import jax.numpy as jnp
import numpy as np

from bmbo.acquisition.runnable_points import exact_point, exact_points
from bmbo.problem import Categorical, Float, Int, Space

SPACE = Space({"x": Float(0, 1), "layers": Int(1, 7), "solver": Categorical(["sgd", "adam"])})


def test_points_of_a_grid_are_what_the_space_encodes():
    configs = [{"x": 0.5, "layers": layers, "solver": "adam"} for layers in range(1, 8)]
    units = [SPACE.encode(config) for config in configs]
    assert exact_points(jnp.asarray(units, jnp.float32), SPACE) == units
    assert exact_points(np.asarray(units), SPACE) == units


def test_one_point_is_treated_like_many():
    unit = jnp.asarray([0.25, 0.4, 0.9], jnp.float32)
    assert exact_point(unit, SPACE) == exact_points(unit[None], SPACE)[0]
