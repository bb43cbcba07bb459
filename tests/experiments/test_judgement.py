"""Test the problems and the statistics that show what lower levels cost or save, on cases computed by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest

from experiments import __main__ as program
from experiments.harness import run_record as records
from experiments.harness.run_record import Evaluation
from experiments.harness.run_settings import Settings, Task
from experiments.problems import PROBLEMS, suite
from experiments.problems.judged_levels import BASES, CONDITIONS, name_of
from experiments.reporting.judgement import Judged, against_itself, compared, runs_of, same_courses, targets_of
from support.experiment_records import record_of


def record_with(problem, seed, rows, costs=(1.0, 10.0), total=40.0):
    """Return a record of levels and losses."""
    plain = record_of()
    head = plain.header | {"costs": list(costs), "settings": Settings(total, 1, 0).to_json(), "start_cost": 0.0}
    evaluations = tuple(Evaluation(place + 1, level, loss, None) for place, (level, loss) in enumerate(rows))
    return replace(plain, task=Task(problem, "a", seed), header=head, evaluations=evaluations)


def alone(problem, seed, *losses):
    return record_with(problem, seed, [(0, loss) for loss in losses], costs=(1.0,), total=float(len(losses)))


def with_exact(problem, seed, rows):
    return record_with(problem, seed, rows)


def units_of(name, num):
    space = PROBLEMS[name]().problem.space
    return [space.decode(tuple(unit)) for unit in np.random.default_rng(0).random((num, space.dim))]


@pytest.mark.parametrize("base", BASES)
def test_the_top_is_the_same_below_every_kind_of_level(base):
    configs = units_of(name_of(base, "alone"), 5)
    wanted = [PROBLEMS[name_of(base, "alone")]().evaluate(config, 0) for config in configs]
    for condition, told in CONDITIONS.items():
        benchmark = PROBLEMS[name_of(base, condition)]()
        assert benchmark.problem.ladder.costs == pytest.approx(told.costs)
        assert [benchmark.exact_top(config) for config in configs] == wanted
        low = np.array([benchmark.evaluate(config, 0) for config in configs])
        if told.kind == "exact":
            assert np.ptp(low - wanted) < 1e-9
        elif told.kind == "negated":
            np.testing.assert_allclose(low, -np.array(wanted))
        else:
            assert np.abs(low - wanted).min() > 1e-6


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("condition", ["noise_10", "waves_10"])
def test_useless_levels_tell_nearly_nothing_and_repeat_themselves(base, condition):
    benchmark = PROBLEMS[name_of(base, condition)]()
    configs = units_of(benchmark.name, 400)
    low, top = (np.array([benchmark.evaluate(config, level) for config in configs]) for level in (0, 1))
    # The standard error of a correlation of 400 values is 0.05.
    assert abs(np.corrcoef(low, top)[0, 1]) < 0.25
    assert benchmark.evaluate(configs[0], 0) == low[0]


def test_the_noise_of_two_levels_differs():
    configs = units_of("levels_hartmann3_noise_3_levels", 1)
    levels = PROBLEMS["levels_hartmann3_noise_3_levels"]()
    assert levels.evaluate(configs[0], 0) != levels.evaluate(configs[0], 1)


def test_costs_are_counted_in_evaluations_at_the_top():
    run = Judged.of(with_exact("p", 0, [(0, 9.0), (1, 5.0), (0, 1.0), (1, 2.0)]))
    np.testing.assert_allclose(run.curve.cost, [0.1, 1.1, 1.2, 2.2])
    assert run.below == pytest.approx(2 / 22)
    assert run.cost_to(5.0) == (pytest.approx(1.1), True)
    assert run.cost_to(2.0) == (pytest.approx(2.2), True)
    # Never reached: it counts with the budget of 40, which is that of four evaluations.
    assert run.cost_to(1.0) == (4.0, False)


def branin_records():
    """Return two seeds without lower levels, which have 8, 4, 2, 1 and 6, 4, 2, 1, and exact levels for one seed."""
    return [
        alone("levels_branin_alone", 0, 8.0, 4.0, 2.0, 1.0),
        alone("levels_branin_alone", 1, 6.0, 4.0, 2.0, 1.0),
        with_exact("levels_branin_exact_10", 0, [(0, 9.0), (0, 9.0), (1, 2.0)]),
    ]


def test_ratios_are_means_over_targets_of_the_costs_to_reach_them():
    runs = runs_of(branin_records(), "a")
    # Medians at costs 1, 2 and 3 of 4.
    np.testing.assert_allclose(targets_of(runs["levels_branin_alone"]), [7.0, 4.0, 2.0])
    found = compared(runs)
    assert list(found) == ["exact_10"]
    comparison = found["exact_10"]["branin"]
    # The run with exact levels reaches all targets at 1.2. Without them, seed 0 has 7 at 2, 4 at 2 and 2 at 3.
    wanted = (1.2 / 2 * 1.2 / 2 * 1.2 / 3) ** (1 / 3)
    assert comparison.ratio.mean == pytest.approx(wanted)
    assert comparison.logs == pytest.approx([math.log(wanted)])
    # It takes one evaluation at the top, where the others take 2, 2 and 3.
    assert comparison.top_ratio.mean == pytest.approx((1 / 12) ** (1 / 3))
    assert comparison.reached == (1.0, 1.0)
    assert comparison.below == pytest.approx(2 / 12)


def test_a_method_against_itself_with_other_seeds_has_the_ratio_one():
    found = against_itself(runs_of(branin_records(), "a"))
    assert found is not None
    assert found.ratio.mean == pytest.approx(1.0)
    assert found.ratio.low < 1.0 < found.ratio.high
    assert against_itself(runs_of(branin_records()[:1], "a")) is None


def test_runs_with_multiplied_costs_are_compared_query_by_query():
    rows = [(0, 9.0), (1, 5.0)]
    plain = [record_with("levels_branin_exact_10", seed, rows) for seed in (0, 1)]
    costlier = [
        record_with("levels_branin_exact_10_costs_times_1000", 0, rows, costs=(1e3, 1e4), total=4e4),
        record_with("levels_branin_exact_10_costs_times_1000", 1, rows[:1], costs=(1e3, 1e4), total=4e4),
    ]
    found = same_courses([*plain, *costlier], "a")
    assert found == [
        ("levels_branin_exact_10_costs_times_1000", 0, True),
        ("levels_branin_exact_10_costs_times_1000", 1, False),
    ]


def test_the_page_says_which_goals_are_met(tmp_path, capsys):
    folder, packed = tmp_path / "records", tmp_path / "packed"
    common = ["judgement", "--method", "a", "--records", str(folder), "--packed", str(packed)]
    assert program.main(common) == 2
    assert "--suite judgement" in capsys.readouterr().err
    for record in branin_records():
        records.write(folder, record.task, records.lines(record))
    page = tmp_path / "page.md"
    assert program.main([*common, "--out", str(page)]) == 0
    text = page.read_text()
    assert "| exact | at most 0.5 | 0.52 [0.52, 0.52] | failed |" in text
    assert "There are no runs to compare." in text


def test_the_suite_on_judgement_has_no_halves():
    names = suite.names_of(chosen="judgement")
    assert set(names).isdisjoint(suite.names_of())
    assert suite.total_cost(PROBLEMS["levels_branin_exact_10"](), "judgement") == 300
    with pytest.raises(ValueError, match="the suite judgement has no halves"):
        suite.names_of("tuning", "judgement")


@pytest.mark.slow
def test_runs_that_share_a_process_are_those_of_processes_of_their_own(tmp_path):
    found = []
    for engine in ("local", "shared"):
        folder = tmp_path / engine
        where = ["--records", str(folder), "--engine", engine, "--quiet"]
        common = [
            "run",
            "--suite",
            "judgement",
            "--problems",
            "levels_branin_alone",
            "levels_branin_exact_10",
            "--seeds",
            "1",
        ]
        assert program.main([*common, "--methods", "screening", "--total-cost", "6", *where]) == 0
        found.append(records.read_all(folder))
    assert len(found[0]) == 2
    assert all(one.same_course(other) for one, other in zip(*found, strict=True))
