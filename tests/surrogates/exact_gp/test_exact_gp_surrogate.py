"""Fitting of the joint process: scales, rows that are kept, the schedule, and what is learned."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import bmbo
from bmbo.history.host_observations import Observations
from bmbo.problem import Space
from bmbo.protocols import ExactSurrogate
from bmbo.surrogates.exact_gp import JointGP
from bmbo.surrogates.exact_gp.kept_rows import kept_rows
from bmbo.surrogates.exact_gp.level_and_tail_scaling import DEPTH, scales_of, standardised
from bmbo.surrogates.exact_gp.surrogate import scheduled
from support.joint_process import some_observations

PLANE = Space({"x": bmbo.Float(0, 1), "y": bmbo.Float(0, 1)})


def in_plane(value, level=None, num_levels=1, seed=0):
    value = np.asarray(value, np.float64)
    unit = np.random.default_rng(seed).random((len(value), 2))
    return Observations(PLANE, num_levels, unit, np.zeros(len(value), int) if level is None else level, value)


def on_one_scale(observations):
    return standardised(observations, scales_of(observations)).value


def test_scaling_keeps_the_order_and_draws_in_divergence():
    value = np.concatenate([np.random.default_rng(0).normal(size=20), [-1e3, -1e30, np.nan]])
    found = on_one_scale(in_plane(value))
    assert (np.diff(found[np.argsort(value[:20])]) > 0).all()
    assert found.min() > -6
    assert found[-1] == found[-2] == found.min()


def test_scaling_does_not_depend_on_units():
    data = some_observations(30)
    other = replace(data, value=1e4 * data.value - 3e5)
    assert np.allclose(on_one_scale(data), on_one_scale(other), atol=1e-6)


def test_restoring_is_the_inverse_of_standardising():
    value = np.concatenate([np.random.default_rng(0).normal(size=20), [-6.0]])
    scale = scales_of(in_plane(value))[0]
    assert np.allclose(scale.restore(scale.standardise(value)), value)
    deepest = scale.restore(scale.standardise(np.array([-1e9])))
    assert -scale.spread * (3.0 + np.expm1(DEPTH)) < deepest[0] - scale.centre < 0


@pytest.mark.parametrize("value", [[2.0] * 6, [np.nan] * 6, [1e308, -1e308, 1.0, 2.0, 3.0, 4.0], [5.0]])
def test_ties_failures_and_huge_values_have_finite_scales(value):
    assert np.isfinite(on_one_scale(in_plane(value))).all()


def test_points_of_two_levels_have_one_mean_and_deviation_on_both():
    rng = np.random.default_rng(1)
    unit, low = rng.random((12, 2)), rng.normal(size=12)
    good = np.argsort(-low)[:5]
    value = np.concatenate([low, 100.0 + 7.0 * low[good]])
    level = np.repeat([0, 1], [12, 5])
    found = on_one_scale(Observations(PLANE, 2, np.vstack([unit, unit[good]]), level, value))
    assert found[12:].mean() == pytest.approx(found[good].mean())
    assert found[12:].std() == pytest.approx(found[good].std())


def test_kept_rows_have_the_best_and_the_newest_and_no_more_than_wanted():
    data = some_observations(300)
    rows = kept_rows(data.unit, data.level, data.value, 2, 100)
    assert len(rows) == len(set(rows.tolist())) == 100
    top = np.flatnonzero(data.level == 2)
    assert top[data.value[top].argmax()] in rows
    assert top[-1] in rows
    assert np.array_equal(kept_rows(data.unit, data.level, data.value, 2, 300), np.arange(300))


def test_kept_rows_fill_the_space():
    rng = np.random.default_rng(0)
    crowd, lonely = 0.5 + 0.01 * rng.random((200, 2)), np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    unit = np.vstack([lonely, crowd])
    # The lonely points have a rank in the middle, where an even spread over the values would pass them over.
    value = np.concatenate([[0.5, 0.501, 0.502], rng.random(200)])
    rows = kept_rows(unit, np.zeros(203, int), value, 0, 20)
    assert set(rows.tolist()) >= {0, 1, 2}


def test_points_that_are_all_equal_can_be_thinned_out():
    rows = kept_rows(np.full((50, 2), 0.5), np.zeros(50, int), np.arange(50.0), 0, 20)
    assert len(set(rows.tolist())) == 20


def test_beyond_its_limit_the_process_is_as_good_as_at_it():
    rng = np.random.default_rng(0)
    space = Space({f"x{place}": bmbo.Float(0, 1) for place in range(5)})
    unit, level = rng.random((995, 5)), np.tile([0, 0, 0, 1, 2], 199)
    value = -((unit - 0.4) ** 2).sum(1) * (1.0 + 0.1 * level)
    points = 0.2 + 0.4 * rng.random((50, 5))
    truth = -((points - 0.4) ** 2).sum(1) * 1.2
    surrogate, errors = JointGP(kernels=("gaussian",), steps=15, max_fit=50, max_rows=200), []
    for num in (200, 201, 995):
        learned, _ = surrogate.fit(Observations(space, 3, unit[:num], level[:num], value[:num]))
        mean = learned.restore(learned.moments(points, 2)[0])
        errors.append(float(np.sqrt(np.mean((mean - truth) ** 2))) / truth.std())
    assert errors[0] < 0.4
    assert max(errors) < 1.2 * errors[0]


def test_the_schedule_grows_and_never_passes_what_is_there():
    found = [scheduled(num, 0.1) for num in range(1, 200)]
    assert all(0 < before <= after for before, after in pairwise(found))
    assert all(number <= num for num, number in enumerate(found, start=1))
    assert len(set(found)) < 40


def test_a_smooth_function_is_learned_and_a_level_that_helps_is_used():
    rng = np.random.default_rng(0)
    unit = rng.random((40, 2))
    level = np.repeat([0, 1], [32, 8])
    value = -((unit - 0.3) ** 2).sum(1) + 0.1 * level
    learned, found = JointGP().fit(Observations(PLANE, 2, unit, level, value))
    assert isinstance(JointGP(), ExactSurrogate)
    assert learned.weights.sum() == pytest.approx(1.0)
    points = rng.random((20, 2))
    mean = learned.weights @ np.array([part.moments(points, 1)[0][:, 0] for part in learned.parts])
    truth = 0.1 - ((points - 0.3) ** 2).sum(1)
    # Where it is bad, the top has no outcomes, and lower levels have theirs drawn in.
    good = truth > -0.5
    assert np.abs(learned.restore(mean) - truth)[good].max() < 0.02
    again, cached = JointGP().fit(Observations(PLANE, 2, unit, level, value), found)
    assert cached is found
    assert np.array_equal(again.parts[0].moments(points, 1)[0], learned.parts[0].moments(points, 1)[0])
