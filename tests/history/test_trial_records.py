"""Queries, outcomes and the history."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmbo.history import History, Outcome, Query
from bmbo.problem import Fidelity, Float, Ladder, Problem, Space

SPACE = Space({"x": Float(0, 1), "y": Float(0, 1)})
LADDER = Ladder([Fidelity(1, cost=1), Fidelity(10, cost=10)])
EMPTY = History(Problem(SPACE, LADDER))
TOP = LADDER.top


def history_of(problem, *results):
    """A history of (level, outcome or None) in this order."""
    history = History(problem)
    for level, outcome in results:
        number = len(history.trials)
        history = history.asked(Query((0.5, 0.5), level))
        if outcome is not None:
            history = history.with_outcome(number, outcome)
    return history


def test_asking_and_telling_leave_the_old_history_as_it_was():
    asked = EMPTY.asked(Query((0.1, 0.2), 0))
    told = asked.with_outcome(0, Outcome(3.0, 1.0))
    assert EMPTY.trials == ()
    assert [t.number for t in asked.pending] == [0]
    assert told.pending == ()
    assert [t.value for t in told.done] == [3.0]


def test_a_second_outcome_is_refused():
    told = history_of(EMPTY.problem, (0, Outcome(3.0, 1.0)))
    with pytest.raises(ValueError, match="trial 0 has an outcome already: "):
        told.with_outcome(0, Outcome(3.0, 1.0))


@pytest.mark.parametrize("number", [-1, 1, 7])
def test_an_unknown_number_is_refused(number):
    asked = EMPTY.asked(Query((0.1, 0.2), 0))
    with pytest.raises(KeyError, match=f"there is no trial {number}; the history has 1"):
        asked.with_outcome(number, Outcome(1.0, 1.0))


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        (Query((0.5,), 0), "a query needs 2 coordinates, got 1"),
        (Query((0.5, 1.01), 0), "must lie in the unit cube"),
        (Query((0.5, math.nan), 0), "must lie in the unit cube"),
        (Query((0.5, 0.5), 2), "level 2 is not one of 0 to 1"),
        (Query((0.5, 0.5), -1), "level -1 is not one of 0 to 1"),
    ],
)
def test_a_query_outside_the_problem_is_refused(query, sentence):
    with pytest.raises(ValueError, match=sentence):
        EMPTY.asked(query)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_is_a_failure_with_its_reason(value):
    outcome = Outcome.of(value, 2.0, seconds=1.5)
    assert (outcome.value, outcome.cost, outcome.seconds) == (None, 2.0, 1.5)
    assert repr(value) in (outcome.error or "")
    with pytest.raises(ValueError, match=r"must be finite, got .*Outcome.of makes it a failure"):
        Outcome(value, 2.0)


@pytest.mark.parametrize("cost", [-1.0, math.nan, math.inf])
def test_a_cost_that_is_no_price_is_refused(cost):
    with pytest.raises(ValueError, match="cost must be finite and not negative"):
        Outcome(1.0, cost)


def test_an_outcome_has_a_value_or_an_error_but_not_both():
    for value, error in ((None, None), (1.0, "boom")):
        with pytest.raises(ValueError, match="either a value or an error"):
            Outcome(value, 1.0, error=error)


@pytest.mark.parametrize(("maximise", "best"), [(False, -1.0), (True, 2.0)])
def test_the_best_is_at_the_top_level_and_by_direction(maximise, best):
    problem = Problem(SPACE, LADDER, maximise)
    results = [(0, -9.0), (TOP, 2.0), (TOP, -1.0), (0, 9.0), (TOP, 0.0)]
    history = history_of(problem, *((level, Outcome(value, 1.0)) for level, value in results))
    assert history.best is not None
    assert history.best.value == best


def test_of_equal_bests_the_one_asked_first_is_the_best():
    history = EMPTY.asked(Query((0.1, 0.1), TOP)).asked(Query((0.2, 0.2), TOP))
    history = history.with_outcome(1, Outcome(1.0, 1.0)).with_outcome(0, Outcome(1.0, 1.0))
    assert history.best == history.trials[0]


def test_there_is_no_best_without_a_value_at_the_top():
    failed = Outcome(None, 10.0, error="boom")
    assert EMPTY.best is None
    assert history_of(EMPTY.problem, (0, Outcome(1.0, 1.0)), (TOP, failed), (TOP, None)).best is None


def test_failures_are_paid_for_and_pending_trials_not_yet():
    history = history_of(
        EMPTY.problem,
        (0, Outcome(1.0, 1.5)),
        (TOP, Outcome(None, 10.0, error="boom")),
        (TOP, None),
        (0, Outcome(0.0, 1.0)),
    )
    assert history.spent == 12.5
    assert [t.number for t in history.failed] == [1]
    assert [t.number for t in history.pending] == [2]
    assert [t.number for t in history.done] == [0, 3]


values = st.one_of(st.floats(allow_nan=True, allow_infinity=True), st.just(math.nan))


@given(st.data())
def test_any_interleaving_of_asked_and_told_replays_to_the_same_history(data):
    history, events = EMPTY, []
    for _ in range(data.draw(st.integers(0, 15))):
        waiting = [t.number for t in history.pending]
        if waiting and data.draw(st.booleans()):
            number = data.draw(st.sampled_from(waiting))
            outcome = Outcome.of(data.draw(values), data.draw(st.floats(0, 100)))
            events.append((number, outcome))
            history = history.with_outcome(number, outcome)
        else:
            unit = (data.draw(st.floats(0, 1)), data.draw(st.floats(0, 1)))
            query = Query(unit, data.draw(st.integers(0, TOP)), {"bracket": len(events)})
            events.append((None, query))
            history = history.asked(query)
    replayed = EMPTY
    for number, event in events:
        replayed = replayed.asked(event) if isinstance(event, Query) else replayed.with_outcome(number, event)
    assert replayed == history
    check_invariants(history, [number for number, _ in events if number is not None])


def check_invariants(history, told):
    """What holds of every history, with the numbers of trials that have an outcome."""
    assert [t.number for t in history.trials] == list(range(len(history.trials)))
    assert [t.number for t in history.told] == sorted(told)
    assert sorted(t.number for t in (*history.done, *history.failed, *history.pending)) == list(
        range(len(history.trials))
    )
    assert history.spent == pytest.approx(sum(t.outcome.cost for t in history.told))
    at_the_top = [t.value for t in history.done if t.query.level == TOP]
    assert (history.best.value if history.best else None) == min(at_the_top, default=None)


@given(st.permutations(range(6)))
def test_the_order_in_which_outcomes_arrive_changes_nothing(order):
    history = EMPTY
    for number in range(6):
        history = history.asked(Query((number / 10, 0.5), number % 2))
    in_turn = shuffled = history
    for number in range(6):
        in_turn = in_turn.with_outcome(number, Outcome(float(number), 1.0))
    for number in order:
        shuffled = shuffled.with_outcome(number, Outcome(float(number), 1.0))
    assert shuffled == in_turn
    assert [t.number for t in shuffled.told] == list(range(6))
    assert shuffled.best == shuffled.trials[1]


def measured(*values):
    return Problem(SPACE, Ladder([Fidelity(value, cost="measure") for value in values]))


def test_given_costs_are_the_price_whatever_the_durations():
    history = history_of(EMPTY.problem, (0, Outcome(1.0, 1.0, seconds=99.0)))
    assert history.priced == history.problem


def test_a_measured_price_is_the_mean_duration_of_the_trials_with_a_value():
    told = [Outcome(1.0, 2.0, seconds=2.0), Outcome(1.0, 4.0, seconds=4.0), Outcome(None, 0.1, 0.1, error="boom")]
    history = history_of(measured(1, 10), *((0, outcome) for outcome in told), (TOP, Outcome(1.0, 50.0, seconds=50.0)))
    assert history.priced.ladder.costs == (3.0, 50.0)
    assert history.priced.space is history.problem.space


def test_where_only_failures_are_known_their_duration_is_the_price():
    history = history_of(measured(1, 10), (0, Outcome(None, 3.0, 3.0, error="boom")))
    assert history.priced.ladder.costs == (3.0, 30.0)


@pytest.mark.parametrize(
    ("values", "told", "costs"),
    [
        ((1, 10, 50), {}, (1.0, 1.0, 1.0)),
        ((1, 10, 50), {0: 2.0}, (2.0, 20.0, 100.0)),
        ((1, 10, 50), {0: 2.0, 1: 40.0}, (2.0, 40.0, 150.0)),
        (("coarse", "fine"), {0: 2.0}, (2.0, 2.0)),
        ((0, 10, 20), {1: 5.0}, (5.0, 5.0, 10.0)),
        ((1, 2), {0: 0.0}, (1.0, 1.0)),
    ],
)
def test_a_level_that_nothing_is_known_of_is_priced_like_the_others(values, told, costs):
    history = history_of(measured(*values), *((at, Outcome(1.0, secs, seconds=secs)) for at, secs in told.items()))
    assert history.priced.ladder.costs == pytest.approx(costs)


def marked(history, **marks):
    """The history with marks on some of its trials: names of marks and lists of numbers."""
    trials = [replace(t, **{mark: t.number in numbers for mark, numbers in marks.items()}) for t in history.trials]
    return replace(history, trials=tuple(trials))


BROKEN = Outcome(None, 3.0, error="boom")


def test_a_dropped_trial_is_known_to_nobody_and_its_cost_stays_spent():
    history = history_of(EMPTY.problem, (TOP, Outcome(1.0, 10.0)), (TOP, Outcome(2.0, 10.0)), (0, BROKEN))
    less = marked(history, dropped=[0, 2])
    assert [t.number for t in less.kept] == [1]
    assert less.told == less.done == less.learned_from == less.kept
    assert less.failed == ()
    assert less.best is not None
    assert less.best.number == 1
    assert len(less.trials) == 3
    assert less.spent == history.spent == 23.0


def test_a_cost_that_was_given_back_is_not_spent():
    history = history_of(EMPTY.problem, (TOP, Outcome(1.0, 10.0)), (0, BROKEN))
    assert marked(history, refunded=[1]).spent == 10.0
    assert marked(history, refunded=[1]).failed == marked(history, refunded=[1]).trials[1:]


@pytest.mark.parametrize("value_first", [True, False])
def test_a_model_does_not_see_failures_that_a_value_has_replaced(value_first):
    results = [(TOP, Outcome(1.0, 10.0)), (TOP, BROKEN)]
    history = history_of(EMPTY.problem, *(results if value_first else results[::-1]), (0, BROKEN))
    # The failure at the other level is one still.
    assert [(t.query.level, t.value) for t in history.learned_from] == [(TOP, 1.0), (0, None)]
    assert len(history.failed) == 2
    elsewhere = EMPTY.asked(Query((0.5, 0.25), TOP)).asked(Query((0.5, 0.5), TOP))
    elsewhere = elsewhere.with_outcome(0, BROKEN).with_outcome(1, Outcome(1.0, 10.0))
    assert elsewhere.learned_from == elsewhere.trials
    # A dropped value replaces nothing.
    number = next(t.number for t in history.trials if t.value is not None)
    assert [t.value for t in marked(history, dropped=[number]).learned_from] == [None, None]
