"""Outcomes as plain arrays: larger is better, and a failure is NaN."""

import numpy as np

from bmbo.history import History, Outcome, Query
from bmbo.history.host_observations import Observations
from support.small_policies import PROBLEM


def test_outcomes_are_in_the_order_of_trials_and_what_is_in_flight_is_left_out():
    history = History(PROBLEM)
    for place, level in enumerate((0, 1, 0, 1)):
        history = history.asked(Query((place / 4, 0.5), level))
    history = history.with_outcome(3, Outcome(2.0, 10.0)).with_outcome(0, Outcome(5.0, 1.0))
    history = history.with_outcome(2, Outcome(None, 1.0, error="it broke"))
    found = Observations.of(history)
    assert np.array_equal(found.value, [-5.0, np.nan, -2.0], equal_nan=True)  # smaller values are better here
    assert found.level.tolist() == [0, 0, 1]
    assert found.unit[:, 0].tolist() == [0.0, 0.5, 0.75]
    assert found.top == 1
    assert len(found.rows(np.array([2]))) == 1


def test_a_history_without_outcomes_has_no_rows():
    assert Observations.of(History(PROBLEM)).unit.shape == (0, 2)


def test_a_failure_that_a_value_has_replaced_is_left_out():
    history = History(PROBLEM).asked(Query((0.5, 0.5), 1)).with_outcome(0, Outcome(None, 1.0, error="it broke"))
    assert np.isnan(Observations.of(history).value).all()
    history = history.asked(Query((0.5, 0.5), 1)).with_outcome(1, Outcome(2.0, 10.0))
    assert Observations.of(history).value.tolist() == [-2.0]
