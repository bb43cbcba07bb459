"""What a person sees while a study runs."""

import re
import threading
import time

import pytest

from bmbo.history import History, Outcome, Query
from bmbo.problem import Fidelity, Float, Ladder, Problem, Space
from bmbo.study.limits import Limits
from bmbo.study.progress import Progress, describe

PROBLEM = Problem(Space({"x": Float(0, 1)}), Ladder([Fidelity(1, cost=2), Fidelity(10, cost=8, name="full")]))


def lived(*told):
    """A history of levels and their values; None is still in flight."""
    history = History(PROBLEM)
    for number, (level, value) in enumerate(told):
        history = history.asked(Query((0.5,), level))
        if value is not None:
            history = history.with_outcome(number, Outcome.of(value, PROBLEM.ladder.costs[level]))
    return history


@pytest.mark.parametrize(
    ("told", "text"),
    [
        ([], "best -, 1:0 full:0"),
        ([(0, 0.5), (0, None)], "best -, 1:2 full:0"),
        ([(0, 0.5), (1, 0.123456789), (1, 2.0)], "best 0.12346, 1:1 full:2"),
    ],
)
def test_one_line_says_the_best_at_the_top_and_the_use_of_each_level(told, text):
    assert describe(lived(*told)) == text


def test_with_a_budget_the_bar_runs_over_cost(capsys):
    with Progress(lived(), Limits(10.0, 7), True) as progress:
        progress.show(lived((0, 1.0)))
        progress.show(lived((0, 1.0), (1, 0.25)))
    last = capsys.readouterr().err.split("\r")[-1]
    assert "100%" in last
    assert "10/10 cost" in last
    assert "best 0.25, 1:1 full:1" in last


def test_without_a_budget_the_bar_runs_over_trials(capsys):
    with Progress(lived(), Limits(None, 4), True) as progress:
        progress.show(lived((0, 1.0)))
        progress.show(lived((0, 1.0), (1, 0.25)))
    last = capsys.readouterr().err.split("\r")[-1]
    assert "50%" in last
    assert "2/4 trial" in last


def test_the_bar_begins_with_what_the_study_held_before(capsys):
    earlier = [(0, 1.0), (0, 2.0)]
    with Progress(lived(*earlier), Limits(10.0, None), True) as progress:
        assert "4/10 cost" in capsys.readouterr().err.split("\r")[-1]
        progress.show(lived(*earlier, (0, 1.0)))
    assert "6/10 cost" in capsys.readouterr().err.split("\r")[-1]


def test_with_a_time_limit_alone_there_is_a_count_and_no_share(capsys):
    with Progress(lived(), Limits(None, None), True) as progress:
        progress.show(lived((0, 1.0)))
    last = capsys.readouterr().err.split("\r")[-1]
    assert "1" in last.partition("trial")[0]
    assert "%" not in last


def test_the_bar_has_the_time_left_until_a_time_limit(capsys):
    for limits in (Limits(timeout=3600.0), Limits(10.0, timeout=3600.0)):
        with Progress(lived(), limits, True):
            pass
        assert "<1:00:00" in capsys.readouterr().err


def test_a_bar_that_is_not_wanted_prints_nothing(capsys):
    with Progress(lived(), Limits(10.0, None), False) as progress:
        progress.show(lived((0, 1.0)))
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("total_cost", "n_trials"), [(None, 1), (1.0, None)])
def test_a_study_that_holds_more_than_the_limit_is_shown_all_the_same(total_cost, n_trials, capsys):
    earlier = [(0, 1.0), (0, 2.0)]
    with Progress(lived(*earlier), Limits(total_cost, n_trials), True) as progress:
        progress.show(lived(*earlier, (0, 1.0)))
    assert "100%" in capsys.readouterr().err


def test_a_bar_moves_while_the_next_batch_is_chosen_and_its_clock_runs(capsys, monkeypatch):
    monkeypatch.setattr("bmbo.study.progress.TICK_SECONDS", 0.01)
    with Progress(lived(), Limits(10.0, None), True) as progress:
        with progress.choosing():
            deadline = time.monotonic() + 30
            # Whichever second a busy machine shows first.
            while not re.search(r"choosing the next batch \([1-9]\d* s\)", said := capsys.readouterr().err):
                assert time.monotonic() < deadline
                time.sleep(0.1)
            assert said.count("\r") > 1
        progress.show(lived((0, 1.0)))
    assert capsys.readouterr().err.split("\r")[-1].startswith("bmbo:  20%")
    assert not [thread for thread in threading.enumerate() if thread.name == "bmbo-bar"]


@pytest.mark.parametrize(("shown", "limit", "lines"), [(False, 0.0, 1), (True, 0.0, 0), (False, 60.0, 0)])
def test_a_choice_that_takes_long_is_mentioned_where_there_is_no_bar(shown, limit, lines, caplog, monkeypatch):
    monkeypatch.setattr("bmbo.study.progress.LONG_SECONDS", limit)
    with (
        caplog.at_level("INFO", logger="bmbo"),
        Progress(lived(), Limits(10.0, None), shown) as progress,
        progress.choosing(),
    ):
        pass
    assert caplog.messages == ["the next batch was chosen in 0.0 s"] * lines


def test_without_a_terminal_a_bar_is_drawn_only_if_it_is_asked_for(capsys):
    for show in (None, True):
        with Progress(lived(), Limits(10.0, None), show) as progress:
            progress.show(lived((0, 1.0)))
        assert ("20%" in capsys.readouterr().err) == bool(show)
