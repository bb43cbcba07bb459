"""A rule that sees a few levels of many."""

from functools import cache

import numpy as np

import bmbo
from bmbo.acquisition.few_of_many_levels import FewLevels
from bmbo.acquisition.look_or_evaluate import Belief, LookOrEvaluate
from bmbo.history.host_observations import Observations
from bmbo.history.prices import Prices
from bmbo.protocols import ExactPosterior, Offer
from bmbo.surrogates.fidelity_gp import FidelityGP

FEW = FewLevels((0, 4, 10, 19))
PLANE = bmbo.Space({"x": bmbo.Float(0, 1), "y": bmbo.Float(0, 1)})


@cache
def belief():
    rng = np.random.default_rng(0)
    unit, level = rng.random((24, 2)), np.append(rng.integers(0, 19, 22), [19, 19])
    value = -((unit - 0.3) ** 2).sum(1) - 0.01 * (19 - level)
    return Belief.of(
        FidelityGP(kernels=("gaussian",), steps=10).fit(Observations(PLANE, 20, unit, level, value))[0], 19
    )


def test_a_level_between_two_counts_as_the_lower_one():
    assert [FEW.below(level) for level in (0, 3, 4, 9, 18, 19)] == [0, 0, 1, 1, 2, 3]
    assert FEW.taken({(b"a", 5), (b"a", 19)}) == {(b"a", 1), (b"a", 3)}
    assert FEW.costs([float(level) for level in range(20)]) == (0.0, 4.0, 10.0, 19.0)


def test_of_two_checkpoints_that_count_as_one_level_the_higher_is_gone_on_from():
    few = FEW.prices(Prices(tuple(map(float, range(20))), {(0.5, 0.5): {9: 7, 5: 8, 12: 9}}))
    assert few.resumable == {(0.5, 0.5): {1: 7, 2: 9}}
    assert few.costs == (0.0, 4.0, 10.0, 19.0)


def test_the_few_levels_are_those_of_the_whole_posterior():
    whole = belief()
    few = FEW.belief(whole)
    points = np.random.default_rng(1).random((5, 2))
    part, whole_part = few.posteriors.parts[0], whole.posteriors.parts[0]
    assert isinstance(part, ExactPosterior)
    assert np.array_equal(part.moments(points, 2)[0], whole_part.moments(points, 10)[0])
    assert np.array_equal(part.covariance(points, 3, points, 1), whole_part.covariance(points, 19, points, 4))
    assert np.array_equal(part.noise, whole_part.noise[[0, 4, 10, 19]])
    assert (part.level == 3).sum() == 2
    later = part.imagined(points[0], 1, np.array([0.0]))
    assert np.allclose(
        later.moments(points, 3)[1], whole_part.imagined(points[0], 4, np.zeros(1)).moments(points, 19)[1]
    )


def test_offers_are_made_at_the_few_levels_alone():
    offers = LookOrEvaluate().offers(
        np.random.default_rng(0), FEW.belief(belief()), PLANE, (1.0, 5.0, 11.0, 20.0), taken=set(), remaining=100.0
    )
    found = FEW.offers(offers)
    assert [offer.level for offer in found] == [19, 0, 4, 10]
    assert all(isinstance(offer, Offer) for offer in found)
