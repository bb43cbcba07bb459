"""The model does not confuse a parameter that is absent with any of its values."""

import numpy as np
import pytest

from bmbo.history.host_observations import Observations
from bmbo.problem import Categorical, Float, Int, Space
from bmbo.surrogates.exact_gp.correlations import KERNELS
from bmbo.surrogates.exact_gp.distances import scaled, squares
from bmbo.surrogates.exact_gp.surrogate import JointGP

SPACE = Space(
    {
        "booster": Categorical(["tree", "dart", "linear"]),
        "depth": Int(1, 9, when={"booster": ["tree", "dart"]}),
        "rate": Float(0, 1, when={"booster": "dart"}),
        "kind": Categorical(["a", "b", "c"], when={"depth": [1, 2, 3]}),
        "x": Float(0, 1),
    }
)


def points(num, seed=0):
    return SPACE.snap(np.random.default_rng(seed).random((num, SPACE.dim)))


def distances(one, other, name):
    return squares(SPACE, np.array([SPACE.encode(one), SPACE.encode(other)]))[SPACE.names.index(name), 0, 1]


def test_what_both_lack_is_no_distance_and_what_one_lacks_is_always_the_same():
    linear = [{"booster": "linear", "x": x} for x in (0.0, 1.0)]
    assert distances(linear[0], linear[1], "rate") == 0.0
    for rate in (0.0, 0.3, 0.5, 1.0):
        dart = {"booster": "dart", "depth": 5, "rate": rate, "x": 0.0}
        assert distances(linear[0], dart, "rate") == pytest.approx(1.0)
    for kind in "abc":
        tree = {"booster": "tree", "depth": 2, "kind": kind, "x": 0.0}
        assert distances(linear[0], tree, "kind") == pytest.approx(1.0)
        assert distances({**tree, "kind": "a"}, tree, "kind") == pytest.approx(float(kind != "a"))


def test_values_that_both_have_are_nearly_as_far_apart_as_without_conditions():
    darts = [{"booster": "dart", "depth": 5, "rate": rate, "x": 0.0} for rate in (0.1, 0.4, 1.0)]
    assert distances(darts[0], darts[1], "rate") == pytest.approx(0.09, rel=0.12)
    assert distances(darts[0], darts[2], "rate") == pytest.approx(0.81, rel=0.02)


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_correlation_is_a_covariance_whatever_the_length_scales(kernel):
    for seed in range(10):
        log_length = np.random.default_rng(seed).normal(size=len(SPACE.params))
        unit = points(60, seed)
        square = np.einsum("p,pij->ij", np.exp(-2.0 * log_length), squares(SPACE, unit))
        correlation = KERNELS[kernel](square)[0]
        assert np.linalg.eigvalsh(correlation).min() > -1e-10
        placed = scaled(SPACE, unit, log_length)
        np.testing.assert_allclose(((placed[:, None] - placed[None]) ** 2).sum(-1), square, rtol=1e-9, atol=1e-12)


def test_the_model_predicts_the_same_whatever_stands_where_nothing_exists():
    unit = points(30)
    observations = Observations(SPACE, 1, unit, np.zeros(30, np.intp), np.sin(5 * unit[:, -1]) + unit[:, 0])
    posteriors, _ = JointGP().fit(observations)
    moved = points(20, 1)
    assert SPACE.tree is not None
    for block, exists in zip(SPACE.blocks, SPACE.tree.active(moved), strict=True):
        if exists is not None:
            moved[~exists, block] = 0.77
    for here, there in zip(posteriors.moments(moved, 0), posteriors.moments(SPACE.snap(moved), 0), strict=True):
        np.testing.assert_allclose(here, there, rtol=1e-9)
