"""The search for points asks nothing twice and moves nothing that does not exist."""

import numpy as np

from bmbo.acquisition.host_search import candidates, climbed, moved
from bmbo.problem import Categorical, Float, Int, Space

SPACE = Space(
    {
        "booster": Categorical(["tree", "linear"]),
        "depth": Int(1, 9, when={"booster": "tree"}),
        "rate": Float(0, 1, when={"booster": "tree"}),
        "offset": Float(0, 1, when={"booster": "linear"}),
    }
)


def test_most_neighbours_of_a_point_are_other_configurations():
    centre = np.array([SPACE.encode({"booster": "linear", "offset": 0.4})])
    near = moved(SPACE, np.random.default_rng(0), centre, 0.1, 200)
    np.testing.assert_array_equal(SPACE.snap(near), near)
    # A step over the end of an ordered parameter stays where it is.
    assert (np.abs(near - centre).max(axis=1) == 0).mean() < 0.2


def test_what_a_move_brings_to_life_takes_values_of_its_whole_range():
    centre = np.array([SPACE.encode({"booster": "linear", "offset": 0.4})])
    near = moved(SPACE, np.random.default_rng(0), centre, 0.1, 400)
    trees = [config for unit in near.tolist() if (config := SPACE.decode(unit))["booster"] == "tree"]
    assert {config["depth"] for config in trees} == set(range(1, 10))
    assert min(config["rate"] for config in trees) < 0.1
    assert max(config["rate"] for config in trees) > 0.9


def test_candidates_are_snapped_and_none_comes_twice():
    rng, known = np.random.default_rng(0), SPACE.snap(np.full((1, SPACE.dim), 0.3))
    pool = candidates(SPACE, rng, known, known)
    np.testing.assert_array_equal(SPACE.snap(pool), pool)
    assert len({tuple(SPACE.decode(unit).items()) for unit in pool.tolist()}) == len(pool)


def test_climbs_end_higher_also_in_another_branch():
    def height(points):
        found = [SPACE.decode(unit) for unit in points.tolist()]
        return np.array([1 - abs(c["rate"] - 0.7) if "rate" in c else 0.5 - abs(c["offset"] - 0.2) for c in found])

    rng = np.random.default_rng(0)
    start = np.array([SPACE.encode({"booster": "linear", "offset": offset}) for offset in (0.1, 0.9)])
    ends, reached = climbed(SPACE, rng, height, start, height(start))
    assert reached.max() > 0.95
    assert SPACE.decode(ends[reached.argmax()].tolist())["booster"] == "tree"
