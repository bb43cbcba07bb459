"""What a point is expected to add to the hypervolume of a front."""

import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pytest

from bmbo.acquisition.front_improvement import FrontImprovement, directions_of, standardised
from bmbo.acquisition.host_improvement import expected_improvement
from bmbo.history.pareto_front import hypervolume_gain
from bmbo.protocols import WeightedPosteriors

ANGLES = np.linspace(0.1, 1.4, 6)
FRONT = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)


@dataclass
class Given:
    """A posterior with given moments: a point's first coordinate is the number of its row."""

    mean: np.ndarray
    variance: np.ndarray
    shift: float = 0.0
    noise: np.ndarray | None = None
    unit: np.ndarray | None = None
    level: np.ndarray | None = None

    def moments(self, unit, level):
        del level
        rows = np.rint(unit[:, 0]).astype(int)
        return self.mean[rows][:, None], self.variance[rows]

    def imagined(self, unit, level, white):
        raise NotImplementedError

    def covariance(self, unit, level, other, other_level):
        del level, other_level
        rows, others = (np.rint(each[:, 0]).astype(int) for each in (unit, other))
        same = rows[:, None] == others
        return self.shift * same * np.sqrt(np.outer(self.variance[rows], self.variance[others]))


def improvement_of(mean, deviation, num=64, shift=0.0):
    size = mean.shape[1]
    objectives = tuple(
        WeightedPosteriors(
            (cast(Any, Given(mean[:, place], deviation[:, place] ** 2, shift, np.zeros(2))),),
            np.ones(1),
            lambda value: value,
        )
        for place in range(size)
    )
    directions = directions_of(num, size, np.random.default_rng(0))
    reached = (FRONT[:, None, :] / directions).min(2).max(0) if size == 2 else np.zeros(num)
    return FrontImprovement(objectives, 1, directions, np.zeros(size), np.ones(size), reached, (None,) * size)


def exact(mean, deviation):
    """The expected gain of two objectives: a sum over the strips beside the front."""
    front = FRONT[np.argsort(FRONT[:, 0])]
    edges, floors = [0.0, *front[:, 0], math.inf], [*front[:, 1], 0.0]
    total = np.zeros(len(mean))
    for left, right, floor in zip(edges, edges[1:], floors, strict=False):
        width = expected_improvement(mean[:, 0], deviation[:, 0], left)
        if right < math.inf:
            width = width - expected_improvement(mean[:, 0], deviation[:, 0], right)
        total += width * expected_improvement(mean[:, 1], deviation[:, 1], floor)
    return total


def points(num):
    return np.arange(num, dtype=np.float64)[:, None]


def test_the_average_over_directions_is_the_expected_gain_of_hypervolume():
    rng = np.random.default_rng(1)
    mean, deviation = 1.1 * rng.random((200, 2)), 0.05 + 0.3 * rng.random((200, 2))
    found = improvement_of(mean, deviation).now(points(200)) * math.pi / 4  # the area of a quarter of a circle
    likely = exact(mean, deviation) > 1e-3
    # 64 directions and five nodes each.
    assert found[likely] == pytest.approx(exact(mean, deviation)[likely], rel=0.06, abs=2e-4)


@pytest.mark.parametrize("size", [3, 4])
def test_a_certain_point_adds_its_volume_if_there_is_no_front(size):
    mean = np.linspace(0.4, 0.9, size)[None]
    found = improvement_of(mean, np.full((1, size), 1e-4), num=4096).now(points(1))
    ball = math.pi ** (size / 2) / math.gamma(size / 2 + 1) / 2**size
    gain = hypervolume_gain(np.zeros((0, size)), mean[0], np.zeros(size))
    assert found[0] * ball == pytest.approx(gain, rel=0.05)  # random directions, and a step within the nodes


def test_far_behind_the_front_the_nearer_point_still_promises_more():
    mean = np.array([[-3.0, -3.0], [-4.0, -4.0], [-30.0, -30.0]])
    logs = improvement_of(mean, np.full((3, 2), 0.05)).log_now(points(3))
    assert np.isfinite(logs).all()
    assert logs[0] > logs[1] > logs[2]


def test_a_look_that_tells_nothing_changes_nothing_and_one_that_tells_something_keeps_the_mean():
    rng = np.random.default_rng(2)
    mean, deviation = 1.1 * rng.random((6, 2)), 0.1 + 0.3 * rng.random((6, 2))
    for shift in (0.0, 0.7):
        improvement = improvement_of(mean, deviation, shift=shift)
        heights = np.array(improvement.after_look(points(6), points(3), 0))
        now = improvement.now(points(6))
        assert heights.mean(0) == pytest.approx(np.repeat(now[:, None], 3, 1))
        best = heights.max(1).mean(0)
        assert best.min() >= now.max() * (1 - 1e-9)
        assert best.max() > 1.01 * now.max() if shift else best == pytest.approx(np.full(3, now.max()))


@pytest.mark.parametrize("size", [2, 3, 4])
def test_directions_are_positive_units_and_favour_no_objective(size):
    found = directions_of(256, size, np.random.default_rng(3))
    assert (found > 0).all()
    assert np.linalg.norm(found, axis=1) == pytest.approx(np.ones(256))
    assert (found**2).mean(0) == pytest.approx(np.full(size, 1 / size), abs=0.05)


def test_a_value_is_found_on_the_scale_of_its_posteriors():
    posteriors = WeightedPosteriors((), np.zeros(0), lambda value: 3.0 + 2.0 * value)
    assert standardised(posteriors, 5.0) == pytest.approx(1.0)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_directions_leave_no_wide_gap(size):
    found = directions_of(512, size, np.random.default_rng(4))
    wanted = np.abs(np.random.default_rng(5).normal(size=(500, size)))
    nearest = (wanted / np.linalg.norm(wanted, axis=1, keepdims=True) @ found.T).max(1)
    assert nearest.min() > math.cos(
        {2: 0.02, 3: 0.25, 4: 0.5}[size]
    )  # on a curve alone, gaps are half a radian and more
