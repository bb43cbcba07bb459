"""Noise from repeated runs: the pooled deviation, its interval, and the standard error of a mean."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bmbo
from bmbo.history import History, Outcome, Query
from bmbo.history.repeated_runs import repeated_noise, runs_of, standard_error
from bmbo.problem import Ladder, Problem, Space

PROBLEM = Problem(
    Space({"x": bmbo.Float(0, 1)}), Ladder([bmbo.Fidelity(1, cost=1), bmbo.Fidelity(9, cost=9)]), noisy=True
)


def told(rows):
    """A history of points, levels and values; None is a failure."""
    history = History(PROBLEM)
    for number, (x, level, value) in enumerate(rows):
        outcome = Outcome(None, 1.0, error="it failed") if value is None else Outcome(value, 1.0)
        history = history.asked(Query((x,), level)).with_outcome(number, outcome)
    return history


def test_all_configurations_of_a_level_tell_its_noise_and_failures_do_not():
    rows = [(0.1, 1, 1.0), (0.1, 1, 3.0), (0.5, 1, 10.0), (0.5, 1, 10.0), (0.5, 1, None), (0.9, 1, 7.0), (0.1, 0, 9.0)]
    history = told(rows)
    noise = repeated_noise(history, 1)
    assert noise is not None
    assert (noise.configurations, noise.freedom) == (2, 2)
    assert noise.deviation == pytest.approx(1.0)  # squares of 2 over 2 degrees of freedom
    assert noise.low < noise.deviation < noise.high
    assert repeated_noise(history, 0) is None
    assert standard_error(history, runs_of(history, [(0.1,)], 1)) == pytest.approx(1.0 / np.sqrt(2.0))
    assert standard_error(history, ()) is None


def test_the_interval_holds_the_true_noise_in_19_of_20_histories():
    rng, inside = np.random.default_rng(0), 0
    for _ in range(400):
        noise = repeated_noise(told([(0.5, 1, value) for value in 3.0 + 0.5 * rng.normal(size=5)]), 1)
        inside += noise is not None and noise.low <= 0.5 <= noise.high
    # The number of hits is binomial with a deviation of 4.4 around 380.
    assert 366 <= inside <= 394


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([0.0, 0.25, 1.0]), st.sampled_from([0, 1])), max_size=12))
def test_repeats_count_the_trials_before(asked):
    history = told([(x, level, 0.0) for x, level in asked])
    for trial in history.trials:
        before = asked[: trial.number].count(asked[trial.number])
        assert history.repeats.get(trial.number, 0) == before
