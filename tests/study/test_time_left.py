"""How long a run says that it will still take."""

import pytest

from bmbo.history import History, Outcome, Query
from bmbo.problem import Fidelity, Float, Ladder, Problem, Space
from bmbo.study.limits import Limits
from bmbo.study.time_left import TimeLeft

PROBLEM = Problem(Space({"x": Float(0, 1)}), Ladder([Fidelity(1, cost=1), Fidelity(10, cost=10)]))


def lived(*told):
    """A history of levels; those in brackets are under way."""
    history = History(PROBLEM)
    for number, each in enumerate(told):
        level = each[0] if isinstance(each, list) else each
        history = history.asked(Query((0.5,), level))
        if not isinstance(each, list):
            history = history.with_outcome(number, Outcome.of(0.5, PROBLEM.ladder.costs[level]))
    return history


def test_nobody_knows_before_the_first_result():
    time_left = TimeLeft(lived(), Limits(total_cost=100.0, n_trials=10))
    assert time_left.left(5.0) is None


def test_a_time_limit_is_known_at_once_and_is_never_exceeded():
    time_left = TimeLeft(lived(), Limits(total_cost=100.0, timeout=60.0))
    assert time_left.left(5.0) == 55.0
    time_left.note(lived(0), 10.0)
    assert time_left.left(10.0) == 50.0
    assert time_left.left(70.0) == 0.0


def test_the_cost_goes_on_at_the_pace_of_the_run():
    time_left = TimeLeft(lived(), Limits(total_cost=40.0))
    time_left.note(lived(1), 20.0)
    assert time_left.left(20.0) == pytest.approx(60.0)


def test_what_the_study_held_before_says_nothing_of_the_pace():
    time_left = TimeLeft(lived(1, 1), Limits(total_cost=40.0))
    assert time_left.left(1.0) is None
    time_left.note(lived(1, 1, 1), 20.0)
    assert time_left.left(20.0) == pytest.approx(20.0)


def test_it_shrinks_while_nothing_arrives_but_not_below_what_has_not_begun():
    time_left = TimeLeft(lived(), Limits(total_cost=40.0))
    time_left.note(lived(1, [1]), 20.0)
    assert time_left.left(30.0) == pytest.approx(50.0)
    assert time_left.left(40.0) == pytest.approx(40.0)
    assert time_left.left(400.0) == pytest.approx(40.0)


def test_cheap_trials_at_the_start_do_not_promise_too_much():
    time_left = TimeLeft(lived(), Limits(n_trials=12))
    for number in range(4):
        time_left.note(lived(*[0] * (number + 1)), number + 1.0)
    for number in range(4):
        time_left.note(lived(*[0] * 4, *[1] * (number + 1)), 4.0 + 10.0 * (number + 1))
    assert time_left.left(44.0) == pytest.approx(40.0)


def test_the_first_limit_that_is_reached_ends_a_run():
    time_left = TimeLeft(lived(), Limits(total_cost=1000.0, n_trials=3))
    time_left.note(lived(1, 1), 20.0)
    assert time_left.left(20.0) == pytest.approx(10.0)


def test_a_limit_that_is_passed_leaves_no_time():
    time_left = TimeLeft(lived(), Limits(total_cost=5.0))
    time_left.note(lived(1), 20.0)
    assert time_left.left(20.0) == 0.0
