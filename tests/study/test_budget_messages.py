"""What is said of the limits of a run: reached already, too small, partly used, and what is left at the end."""

import logging

import pytest

import bmbo
from bmbo.history import History, Outcome, Query
from bmbo.policies.ladder_start import LadderStart
from bmbo.problem import Fidelity, Float, Ladder, Problem, Space
from bmbo.study.budget_messages import counted_line, reached_line, remains_text, too_small_line
from bmbo.study.limits import Limits
from support import command_line
from support.command_line import STUDY
from support.small_studies import InTurn, bowl, quiet, study_of

PROBLEM = Problem(Space({"x": Float(0, 1)}), Ladder([Fidelity(1, cost=1), Fidelity(10, cost=10)]))
FLAT = Problem(Space({"x": Float(0, 1)}), Ladder([Fidelity("full", cost=2)]))

# Fixtures of the tests of the command line.
folder, said = command_line.folder, command_line.said


def after(*levels, problem=PROBLEM):
    history = History(problem)
    for number, level in enumerate(levels):
        outcome = Outcome(0.5, problem.ladder.costs[level])
        history = history.asked(Query((0.5,), level)).with_outcome(number, outcome)
    return history


@pytest.mark.parametrize(
    ("limits", "line"),
    [
        (
            Limits(n_trials=2),
            "n_trials=2 is reached already: it counts all trials of the study, which has 3; n_trials=5",
        ),
        (
            Limits(total_cost=12.0),
            "total_cost=12 is spent already: it counts all trials of the study, which cost 12; t",
        ),
        (Limits(total_cost=21.0), "total_cost=21 is spent already"),
        (Limits(total_cost=22.0), None),
        (Limits(n_trials=4), None),
        (Limits(timeout=5.0), None),
    ],
    ids=str,
)
def test_a_limit_that_is_reached_already_is_named_with_what_would_do(limits, line):
    found = reached_line(bmbo.screening(), after(0, 0, 1), limits)
    assert found is None if line is None else (found or "").startswith(line)


def test_a_limit_is_not_reached_while_something_is_in_flight():
    assert reached_line(bmbo.screening(), after(0).asked(Query((0.2,), 0)), Limits(n_trials=1)) is None


@pytest.mark.parametrize("batch_size", [1, 4])
def test_a_method_without_a_plan_for_its_budget_may_still_buy_the_lowest_level(batch_size):
    assert reached_line(InTurn(), after(1), Limits(total_cost=15.0)) is None
    study = quiet(study_of(InTurn()), bowl, total_cost=15, batch_size=batch_size)
    assert study.history.spent > 10


def test_a_study_that_goes_on_is_told_what_the_limits_count():
    limits = Limits(n_trials=20, total_cost=100.0)
    assert counted_line(after(0, 1), limits) == (
        "n_trials=20 counts the 2 trials that the study has; total_cost=100 counts the 11 that was spent, so that 89 "
        "is left"
    )
    assert counted_line(after(), limits) is None


@pytest.mark.parametrize(
    ("limits", "would"),
    [
        (Limits(total_cost=20.0), "total_cost=43"),
        (Limits(n_trials=4), "n_trials=7"),
        (Limits(total_cost=30.0, n_trials=5), "total_cost=43 and n_trials=7"),
        (Limits(total_cost=100.0), None),
        (Limits(timeout=1.0), None),
    ],
    ids=str,
)
def test_a_budget_in_which_nothing_can_be_learned_is_named_with_one_that_would_do(limits, would):
    line = too_small_line(bmbo.screening(), History(PROBLEM), limits)
    assert (line is None) if would is None else (line or "").endswith(f"{would} would do")


@pytest.mark.parametrize("problem", [PROBLEM, FLAT], ids=["two levels", "one level"])
@pytest.mark.parametrize("total", range(10, 60, 5))
def test_what_would_do_does(problem, total):
    limits = Limits(total_cost=float(total))
    line = too_small_line(bmbo.screening(), History(problem), limits)
    if line is not None:
        enough = float(line.split("; total_cost=")[1].split()[0])
        assert too_small_line(bmbo.screening(), History(problem), Limits(total_cost=enough)) is None
        study = bmbo.create_study(space=problem.space, fidelities=problem.ladder.fidelities)
        quiet(study, lambda trial: trial.params["x"], total_cost=enough)
        sizes = bmbo.screening().within(enough, None).start_sizes(problem)
        assert len(study.trials) - sum(sizes) >= 3


def test_nothing_is_foretold_of_costs_that_are_measured():
    measured = Problem(PROBLEM.space, Ladder([Fidelity(1, cost="measure"), Fidelity(10, cost="measure")]))
    assert too_small_line(bmbo.screening(), History(measured), Limits(total_cost=5.0)) is None


@pytest.mark.parametrize("total_cost", [2.0, 6.0, 10.0, 40.0])
def test_the_start_of_a_single_level_takes_at_most_half_of_its_budget(total_cost):
    assert LadderStart().sizes(2, [1.0], total_cost, None)[0] <= total_cost / 2


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        (Limits(total_cost=20.0), "; 9 is left, and an evaluation at the top costs 10"),
        (Limits(total_cost=50.0, n_trials=2), "; 39 is left because n_trials=2 is reached"),
        (Limits(total_cost=50.0), "; 39 is left, for which the method asks nothing more"),
        (Limits(total_cost=11.0), ""),
        (Limits(n_trials=2), ""),
    ],
    ids=str,
)
def test_what_is_left_is_said_with_the_reason(limits, text):
    assert remains_text(after(0, 1), limits) == text


def test_a_run_says_these_things(caplog):
    study = bmbo.create_study(space=PROBLEM.space, fidelities=PROBLEM.ladder.fidelities)
    with caplog.at_level(logging.INFO, logger="bmbo"):
        quiet(study, lambda trial: trial.params["x"], total_cost=25)
        assert "total_cost=43 would do" in caplog.text
        assert f"; {25 - study.history.spent:g} is left, and an evaluation at the top costs 10" in caplog.text
        quiet(study, lambda trial: trial.params["x"], total_cost=25)
    warned = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warned[-1].startswith("total_cost=25 is spent already")


@pytest.mark.parametrize("costs", [(10, 1), (1, 10, 5), (20, 5, 10)], ids=str)
def test_costs_that_fall_are_doubted(costs, caplog):
    fidelities = [Fidelity(level, cost=cost) for level, cost in enumerate(costs)]
    bmbo.create_study(space=PROBLEM.space, fidelities=fidelities)
    (record,) = caplog.records
    assert "costs fall: fidelity" in record.getMessage()
    assert f"which is '{len(costs) - 1}' here" in record.getMessage()


def test_a_command_that_is_not_told_its_fidelity_is_doubted(folder, said):
    text = STUDY.replace('function = "objective_of_test:train"', "command = ['echo', '0.5', '{kind}', '{x}']")
    (folder / "study.toml").write_text(text)
    _, _, err = said("run", "study.toml", "--n-trials", "1")
    assert "the command uses neither {fidelity} nor {level}" in err
    (folder / "study.toml").write_text(text.replace("'{kind}'", "'{kind} {level}'"))
    _, _, err = said("run", "study.toml", "--n-trials", "2")
    assert "neither" not in err
