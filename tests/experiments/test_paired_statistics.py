"""Test the statistics of a suite on small cases that were computed by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest

from experiments import __main__ as program
from experiments.harness import run_record as records
from experiments.harness.run_record import Evaluation
from experiments.problems.reference_values import Reference
from experiments.reporting import suite_page
from experiments.reporting.curves import Curve, observed_values
from experiments.reporting.paired_statistics import (
    Scored,
    best_of,
    interval,
    mean_regrets,
    paired,
    ranks,
    scored,
    seconds_per_query,
)
from support.experiment_records import record_of

SCALE = Reference(best=0.0, median=10.0, num_random=1, num_climbing=0)


def run(costs, losses, total=100.0):
    return Scored(Curve(np.array(costs, float), np.array(losses, float)), total, (1.0, 4))


def test_regrets_wait_for_a_value_and_are_cut():
    # Shares of 10, 25, 50 and 100 % of a cost of 100.
    np.testing.assert_allclose(run([20, 30, 60], [9.0, 1.5, 0.25]).regrets, [1.0, 2.0, 1.5, 0.25])
    np.testing.assert_allclose(run([5, 110], [math.inf, 0.1]).regrets, [1.0, 1.0, 1.0, 1.0])


def test_a_record_is_put_on_the_scale_of_its_problem():
    rows = (Evaluation(1, 0, 1.0, None, cpu=0.5), Evaluation(2, 1, 8.0, 8.0, cpu=1.0), Evaluation(3, 1, 5.0, 5.0))
    record = replace(record_of(takes_starts=False, losses=(1, 2)), evaluations=rows)
    record = replace(record, header=record.header | {"start_cost": 0.0})
    found = scored(record, SCALE, best=0.0)
    np.testing.assert_allclose(found.curve.loss, [math.inf, 0.8, 0.5])
    np.testing.assert_allclose(found.curve.cost, [1, 11, 21])
    assert found.total_cost == 31.0
    assert found.cpu == (1.5, 3)


def test_the_value_without_noise_of_the_point_that_looks_best_counts():
    rows = (
        Evaluation(1, 1, 5.0, 6.0),
        Evaluation(2, 1, 4.0, 7.0),
        Evaluation(3, 1, 4.5, 1.0),
        Evaluation(4, 1, None, None),
    )
    record = replace(record_of(), evaluations=rows)
    assert observed_values(record) == [6.0, 7.0, 7.0, 7.0]
    upwards = replace(record, header=record.header | {"maximise": True})
    assert observed_values(upwards) == [6.0, 6.0, 6.0, 6.0]
    assert best_of([record], replace(SCALE, best=3.0), maximise=False) == 1.0
    assert best_of([record], replace(SCALE, best=3.0), maximise=True) == 7.0
    assert best_of([record], SCALE, maximise=False) == 0.0


def two_methods():
    """Return two problems with two seeds of two methods; regrets are constant over the cost."""
    return {
        "p": {"a": {0: run([1], [0.1]), 1: run([1], [0.3])}, "b": {0: run([1], [0.4]), 1: run([1], [0.6])}},
        "q": {"a": {0: run([1], [0.9]), 1: run([1], [0.7])}, "b": {0: run([1], [0.6]), 2: run([1], [0.0])}},
    }


def test_seeds_are_averaged_inside_a_problem():
    np.testing.assert_allclose(mean_regrets(two_methods(), "a")[:, -1], [0.2, 0.8])
    np.testing.assert_allclose(mean_regrets(two_methods(), "b")[:, -1], [0.5, 0.3])
    np.testing.assert_allclose(ranks(two_methods(), ["a", "b"])[:, :, -1], [[1, 2], [2, 1]])
    assert seconds_per_query(two_methods(), "a") == 0.25


def test_equal_regrets_share_a_rank():
    runs = {"p": {name: {0: run([1], [loss])} for name, loss in (("a", 0.5), ("b", 0.5 + 1e-12), ("c", 0.1))}}
    np.testing.assert_allclose(ranks(runs, ["a", "b", "c"])[0, :, -1], [2.5, 2.5, 1.0])


def test_differences_are_paired_by_common_seeds():
    found = paired(two_methods(), "a", "b")
    # On p -0.3 and -0.3. On q only seed 0 is common: 0.3.
    np.testing.assert_allclose(found.differences[:, -1], [-0.3, 0.3])
    assert found.counts() == (1, 0, 1)
    close = {"p": {"a": {0: run([1], [0.5])}, "b": {0: run([1], [0.5004])}}}
    assert paired(close, "a", "b").counts() == (0, 1, 0)
    assert paired(close, "a", "absent").differences.shape == (0, 4)


def test_the_cost_to_the_final_value_of_the_other():
    runs = {
        "p": {
            "a": {0: run([10, 20, 40], [0.9, 0.5, 0.1]), 1: run([10], [0.9]), 2: run([10], [0.9])},
            "b": {0: run([10, 80], [0.9, 0.5]), 1: run([10, 50], [0.9, 0.2]), 2: run([10], [math.inf])},
        }
    }
    found = paired(runs, "a", "b")
    # Seed 0: 20 of 80. Seed 1: never. Seed 2: the other has no value after the whole cost of 100.
    np.testing.assert_allclose(found.ratios, [0.25, math.inf, 0.1])
    assert found.median_ratio() == 0.25
    assert found.share_never() == pytest.approx(1 / 3)
    np.testing.assert_allclose(paired(runs, "b", "a").ratios, [math.inf, 1.0, math.inf])


def test_a_value_beyond_the_total_cost_is_never_reached():
    assert run([10, 101], [0.9, 0.1]).cost_to(0.5) == math.inf
    assert run([10, 100], [0.9, 0.1]).cost_to(0.5) == 100


def test_an_interval_of_many_problems_is_that_of_the_mean():
    values = np.random.default_rng(0).normal(2.0, 1.0, size=400)
    found = interval(values)
    assert found.mean == pytest.approx(values.mean())
    # 1.96 standard errors of 0.05; the bootstrap's own error is a few per cent of it.
    assert found.high - found.mean == pytest.approx(1.96 * values.std() / 20, rel=0.1)
    assert found.mean - found.low == pytest.approx(1.96 * values.std() / 20, rel=0.1)
    assert interval(np.array([3.0])).low == 3.0
    assert math.isnan(interval(np.zeros(0)).mean)


def suite_records(folder):
    """Write records of two methods on two problems of the suite and return the options of a report on them."""
    for problem, worst in (("branin", -40.0), ("levy", -100.0)):
        for seed in range(2):
            for method, part in (("good", 0.1), ("random", 0.5)):
                made = record_of(method, problem, seed, losses=(worst, part * worst), takes_starts=False)
                settings = made.header["settings"] | {"total_cost": 20.0, "num_starts": 0, "batch_size": 1}
                header = made.header | {"maximise": True, "start_cost": 0.0, "settings": settings}
                made = replace(made, header=header)
                records.write(folder / "records", made.task, records.lines(made))
    return [
        "report",
        "--suite",
        "development",
        "--records",
        str(folder / "records"),
        "--packed",
        str(folder / "packed"),
        "--out",
        str(folder / "page.md"),
    ]


def test_the_page_of_a_suite_is_made_from_the_records_alone(tmp_path, capsys):
    options = suite_records(tmp_path)
    assert program.main([*options, "--of", "good"]) == 0
    page = (tmp_path / "page.md").read_text()
    assert "2 problems, 2 seeds for each method and problem" in page
    assert "python -m experiments report --suite development --batch-size 1 --of good" in page
    assert "| random | 2 | " in page
    assert "2 / 0 / 0" in page
    assert "## Where good is worst" in page
    assert "No run is better than the table" in page
    assert program.main([*options, "--of", "good"]) == 0
    assert (tmp_path / "page.md").read_text() == page
    assert program.main([*options, "--of", "absent"]) == 2
    assert "there is no run of 'absent'; there are runs of good, random" in capsys.readouterr().err


def test_a_half_without_records_and_mixed_settings_are_refused(tmp_path, capsys):
    options = suite_records(tmp_path)
    assert program.main([*options, "--problems", "park"]) == 2
    assert "there are no records to report on" in capsys.readouterr().err
    odd = record_of("good", "branin", 7, takes_starts=False)
    records.write(tmp_path / "records", odd.task, records.lines(odd))
    assert program.main(options) == 2
    assert "the records of branin were made with" in capsys.readouterr().err


def test_methods_without_a_common_problem_have_no_averages(tmp_path):
    made = [record_of("good", "branin", losses=(5.0,)), record_of("random", "levy", losses=(5.0,))]
    suite_page.write_page(suite_page.collect(made, {"branin": SCALE, "levy": SCALE}), tmp_path / "page.md")
    page = (tmp_path / "page.md").read_text()
    assert "None of 2 problems has runs of all methods" in page
    assert "is worst" not in page


def test_a_better_record_than_the_table_is_named():
    lucky = record_of("good", "p", losses=(-5.0,))
    page = suite_page.collect([lucky, record_of("random", "p", losses=(5.0,))], {"p": SCALE}, "good")
    assert page.beaten == {"p": (0.0, -5.0)}
    assert page.runs["p"]["good"][0].final() == 0.0
    assert page.runs["p"]["random"][0].curve.loss[-1] == pytest.approx(9 / 15)
