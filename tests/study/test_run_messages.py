"""What is said of a run: its start, each trial, and its answer."""

from dataclasses import dataclass

import pytest

import bmbo
from bmbo.history import History, Outcome, Query
from bmbo.policies import OnDevice, TopOnly
from bmbo.problem import Fidelity, Float, Ladder, Problem, Space
from bmbo.study import StudyRecommendation
from bmbo.study.budget_messages import start_line
from bmbo.study.limits import ADDED, Limits
from bmbo.study.run_messages import answer, trial_line
from support.small_policies import QUICK
from support.small_studies import InTurn, study_of

SPACE = Space({"x": Float(0, 1)})
PROBLEM = Problem(SPACE, Ladder([Fidelity(1, cost=1, name="1 epoch"), Fidelity(10, cost=10, name="10 epochs")]))
FLAT = Problem(SPACE, Ladder([Fidelity("full", cost=2)]))
BUDGET = Limits(total_cost=100.0)


def lived(*told, problem=PROBLEM):
    """A history of x, level and value; a text is the reason of a failure."""
    history = History(problem)
    for number, (x, level, value) in enumerate(told):
        cost = problem.ladder.costs[level]
        failed = isinstance(value, str)
        outcome = Outcome(None, cost, 3.14, error=value) if failed else Outcome(value, cost, 3.14)
        history = history.asked(Query((x,), level)).with_outcome(number, outcome)
    return history


@pytest.mark.parametrize(
    ("told", "line"),
    [
        ([(0.5, 0, 0.25)], 'level "1 epoch" value 0.25 in 3.1 s (nothing at the top yet, cost 1 of 100)'),
        ([(0.5, 1, 0.25)], 'level "10 epochs" value 0.25 in 3.1 s (the best at the top so far, cost 10 of 100)'),
        (
            [(0.5, 1, 0.123456789), (0.25, 0, 0.01)],
            'level "1 epoch" value 0.01 in 3.1 s (best at the top 0.123457, cost 11 of 100)',
        ),
        (
            [(0.5, 1, 0.25), (0.25, 1, "ValueError: no")],
            'level "10 epochs" failed after 3.1 s: ValueError: no (cost 20 of 100)',
        ),
    ],
)
def test_a_trial_is_told_in_one_line(told, line):
    history = lived(*told)
    number = len(told) - 1
    assert trial_line(history, number, BUDGET) == f"trial {number}: {line}"


@pytest.mark.parametrize(
    ("limits", "spent"),
    [
        (Limits(n_trials=9), "1 of 9 trials, cost 2"),
        (Limits(total_cost=8.0, n_trials=9), "1 of 9 trials, cost 2 of 8"),
        (Limits(timeout=60.0), "cost 2"),
    ],
)
def test_with_one_fidelity_none_is_named_and_the_limits_are_those_of_the_run(limits, spent):
    history = lived((0.5, 0, 0.25), problem=FLAT).asked(Query((0.25,), 0))
    assert trial_line(history, 0, limits) == f"trial 0: value 0.25 in 3.1 s (the best so far, {spent})"
    with pytest.raises(ValueError, match="trial 1 has not finished"):
        trial_line(history, 1, limits)


@dataclass(frozen=True)
class Expensive:
    """A policy that begins with a number of trials that depends on its budget."""

    total_cost: float | None = None
    n_trials: int | None = None

    def within(self, total_cost, n_trials):
        return Expensive(total_cost, n_trials)

    def start_sizes(self, problem):
        assert problem.ladder.costs
        return (int((self.total_cost or 0) // 4), self.n_trials or 2)

    def suggest(self, seed, history, num, carry=None):
        del seed, history, num, carry
        raise AssertionError("nothing is suggested before a run")


@pytest.mark.parametrize(
    ("policy", "limits", "line"),
    [
        (
            QUICK,
            BUDGET,
            '4 trials (2 at "1 epoch", 2 at "10 epochs"), cost 22 of 100, 22 % of the budget',
        ),
        (OnDevice(QUICK), Limits(n_trials=9), '4 trials (2 at "1 epoch", 2 at "10 epochs"), 4 of 9 trials'),
        (TopOnly(QUICK), Limits(timeout=5.0), '2 trials (2 at "10 epochs")'),
        (Expensive(), Limits(total_cost=12.0), '5 trials (3 at "1 epoch", 2 at "10 epochs"), cost 23 of 12, 192 % of'),
        (Expensive(), Limits(n_trials=7), '7 trials (7 at "10 epochs"), 7 of 7 trials'),
    ],
    ids=str,
)
def test_the_start_of_a_new_study_is_announced_with_its_share(policy, limits, line):
    assert (start_line(policy, History(PROBLEM), limits) or "").startswith(f"the start: {line}")


def test_screening_begins_as_it_says():
    policy, history = bmbo.screening(), History(PROBLEM)
    line = start_line(policy, history, BUDGET) or ""
    sizes = policy.within(BUDGET.total_cost, None).start_sizes(PROBLEM)
    assert line.startswith(f'the start: {sum(sizes)} trials ({sizes[0]} at "1 epoch", 1 at "10 epochs"), cost ')
    study = bmbo.create_study(space=SPACE, fidelities=PROBLEM.ladder.fidelities, method=policy)

    def stop(study, trial):
        if trial.number == sum(sizes) - 1:
            study.stop()

    study.optimize(lambda trial: trial.params["x"], total_cost=100, callbacks=[stop], show_progress_bar=False)
    assert [trial.level for trial in study.trials] == [0] * sizes[0] + [1]


def test_a_start_that_has_begun_or_that_nobody_makes_is_not_announced():
    assert start_line(InTurn(), History(PROBLEM), BUDGET) is None
    assert start_line(OnDevice(bmbo.bmbo_gp().policy), lived((0.5, 0, 1.0)), BUDGET) is None
    added = History(PROBLEM).asked(Query((0.5,), 1, {ADDED: True})).with_outcome(0, Outcome(1.0, 0.0))
    assert start_line(QUICK, added, BUDGET) is not None


def test_costs_that_are_measured_have_no_share_yet():
    measured = Problem(SPACE, Ladder([Fidelity(1, cost="measure"), Fidelity(10, cost="measure")]))
    line = start_line(QUICK, History(measured), BUDGET)
    assert line == 'the start: 4 trials (2 at "1", 2 at "10"); after that the model chooses'


# Answers.

TOLD = [(0.25, 0, 0.1), (0.5, 1, 0.3), (0.75, 1, 0.2)]


@pytest.mark.parametrize(
    ("told", "recommended", "text"),
    [
        ([], None, "no trial has given a value, so there is no answer"),
        (
            [(0.5, 1, "ValueError: no")],
            None,
            "no trial has given a value, so there is no answer; trial 0: ValueError: no",
        ),
        (TOLD[:1], None, "no trial at the top has given a value, so there is no answer yet"),
        (
            TOLD[:1],
            (0.25, 0.15),
            "use x=0.25: the model expects 0.15 ± 0.012 at the top, where no trial has given a value yet",
        ),
        (
            TOLD,
            None,
            "use x=0.75: trial 2 gave 0.2, the best value at the top; the method has no model, so how much of that is "
            "chance is not known",
        ),
        (
            TOLD,
            (0.75, 0.21),
            "use x=0.75: trial 2 gave 0.2, the best value at the top, and the model expects 0.21 ± 0.012",
        ),
        (
            TOLD,
            (0.5, 0.25),
            "use x=0.5: the model expects 0.25 ± 0.012 at the top; trial 1 gave 0.3 there; trial 2 gave 0.2, the best "
            "value at the top, but the model trusts that less: the best of many values is often luck",
        ),
        (
            TOLD,
            (0.625, 0.15),
            "use x=0.625: the model expects 0.15 ± 0.012 at the top; it was not run there; trial 2 gave 0.2, the best "
            "value at the top",
        ),
        (
            TOLD,
            (0.625, 0.21),
            "use x=0.625: the model expects 0.21 ± 0.012 at the top; it was not run there; trial 2 gave 0.2, the best "
            "value at the top, but the model trusts that less: the best of many values is often luck",
        ),
    ],
)
def test_the_answer_says_what_to_use_how_sure_that_is_and_why_it_is_or_is_not_the_best(told, recommended, text):
    found = None if recommended is None else StudyRecommendation({"x": recommended[0]}, recommended[1], 0.0123)
    assert answer(lived(*told), found) == text


def test_with_one_fidelity_the_answer_names_none():
    text = answer(lived((0.5, 0, 0.25), problem=FLAT), StudyRecommendation({"x": 0.5}, 0.26, 0.01))
    assert text == "use x=0.5: trial 0 gave 0.25, the best value, and the model expects 0.26 ± 0.01"


@dataclass(frozen=True)
class Unfit(InTurn):
    """A method whose model breaks."""

    def recommendation(self, seed, history, carry=None):
        del seed, history, carry
        raise ArithmeticError("not positive definite")


def test_a_model_that_breaks_leaves_the_best_observed_as_the_answer(caplog):
    study = study_of(Unfit())
    study.add_trial({"x": 0.5, "n": 2}, 0.25)
    assert study.answer().startswith("use x=0.5, n=2: trial 0 gave 0.25, the best value at the top")
    assert "the model cannot recommend anything: not positive definite" in caplog.text
