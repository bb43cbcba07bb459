"""Test the development suite: its problems, its halves, and its table of reference values."""

import math
import os
import zlib
from pathlib import Path

import numpy as np
import pytest

from experiments import __main__ as program
from experiments.command_options import fill
from experiments.harness.single_run import starting_design
from experiments.problems import FAMILIES, PROBLEMS, function_variants, live_training, reference_values, suite
from experiments.problems.function_variants import Variant

HAS_DATA = all(
    (Path(os.environ.get("BMBO_DATA", "nowhere")) / name).is_file()
    for name in ("yahpo/lcbench/model.onnx", "20news_bydate.jsonl.xz")
)

FEWEST_VALUES = 4
"""Of eight random configurations, at least so many have a value at the top, or methods could learn nothing."""


def check_values(name):
    """Assert that a problem has values at all levels, and the same values again."""
    benchmark = PROBLEMS[name]()
    benchmark.prepare()
    design = starting_design(benchmark, 8, 0)
    ladder = benchmark.problem.ladder
    assert {job.level for job, _ in design} == set(range(ladder.num_levels))
    at_top = [value for job, value in design if job.level == ladder.top]
    assert sum(map(math.isfinite, at_top)) >= FEWEST_VALUES
    assert len(set(at_top)) > 1
    for job, value in design[:: len(design) // 6]:
        np.testing.assert_equal(benchmark.evaluate(job.config, job.level), value)


def test_the_suite_has_many_problems_whose_costs_rise():
    names = suite.names_of()
    assert len(names) == len(set(names)) == 85
    for name in names:
        benchmark = PROBLEMS[name]()
        assert benchmark.name == name
        assert benchmark.source
        costs = benchmark.problem.ladder.costs
        assert list(costs) == sorted(set(costs))
        assert suite.total_cost(benchmark) == 40 * costs[-1]


def test_no_two_families_have_a_problem_of_the_same_name():
    assert sum(map(len, FAMILIES.values())) == len(PROBLEMS)


@pytest.mark.parametrize("name", FAMILIES["functions"])
def test_functions_have_the_same_values_again(name):
    check_values(name)


@pytest.mark.parametrize("name", ["svc_wine", "sgd_cancer", "mlp_diabetes"])
def test_some_trainings_have_the_same_values_again(name):
    pytest.importorskip("sklearn")
    check_values(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*live_training.PROBLEMS, *FAMILIES["lcbench"], *FAMILIES["stand_ins"]])
def test_all_trainings_and_surrogates_have_the_same_values_again(name):
    pytest.importorskip("sklearn")
    if not HAS_DATA and (name in FAMILIES["lcbench"] or name.endswith("_news")):
        pytest.skip("BMBO_DATA names no folder with the data")
    check_values(name)


@pytest.mark.parametrize("name", function_variants.PROBLEMS)
def test_a_changed_function_keeps_its_optimum(name):
    benchmark, variant = PROBLEMS[name](), function_variants.PLANS[name].make(name)
    assert benchmark.optimum is not None
    for optimiser in variant.base.optimisers:
        assert benchmark.exact_top(optimiser) == pytest.approx(benchmark.optimum, abs=1e-9)
    space, generator = benchmark.problem.space, np.random.default_rng(0)
    values = [benchmark.exact_top(space.decode(tuple(unit))) for unit in generator.random((100, space.dim))]
    assert all(benchmark.regret(value) > -1e-9 for value in values)


def configs_of(variant, num):
    space = variant.base.problem.space
    return [space.decode(tuple(unit)) for unit in np.random.default_rng(1).random((num, space.dim))]


def test_noise_has_its_size_at_every_level_and_is_the_same_for_the_same_query():
    exact = function_variants.PLANS["branin_noise_10"].make("branin_noise_10").base
    noisy = Variant(exact, noise=0.1)
    configs = configs_of(noisy, 2000)
    for level in range(3):
        points = np.array([list(config.values()) for config in configs])
        clean = exact.values(points, level)
        added = np.array([noisy(config, level) for config in configs]) - clean
        low, high = np.quantile(clean, [0.01, 0.99])
        # The standard deviation of 2,000 draws has an error of 1.6 %, and the range is measured on other points.
        assert np.std(added) / (high - low) == pytest.approx(0.1, rel=0.1)
        assert abs(np.mean(added)) < 4 * np.std(added) / math.sqrt(len(added))
    assert noisy(configs[0], 0) == noisy(dict(configs[0]), 0)
    assert noisy.exact(configs[0]) == exact(configs[0], 2)


def test_a_bad_tail_keeps_the_order_and_the_good_half():
    base = function_variants.PLANS["levy_tail"].make("levy_tail").base
    stretched = Variant(base, tail=20.0)
    configs = configs_of(stretched, 500)
    plain, changed = (np.array([each(config, 1) for config in configs]) for each in (base, stretched))
    np.testing.assert_array_equal(np.argsort(plain), np.argsort(changed))
    assert 0.4 < np.mean(plain == changed) < 0.6
    assert changed.min() < 1e3 * plain.min()


def test_a_function_diverges_in_its_corner_only_and_less_at_low_levels():
    variant = function_variants.PLANS["rosenbrock_5_corner"].make("rosenbrock_5_corner")
    configs = configs_of(variant, 500)
    for level in range(3):
        diverges = np.array([math.isinf(variant(config, level)) for config in configs])
        units = np.array([variant.base.problem.space.encode(config)[:2] for config in configs])
        np.testing.assert_array_equal(diverges, units.mean(axis=1) > variant.corner + 0.05 * (2 - level))
        assert diverges.any()
    assert all(variant(config, 2) > 0 for config in configs)


def test_halves_are_every_other_name_in_the_order_of_checksums():
    names = ["one", "two", "three", "four", "five"]
    ordered = sorted(names, key=lambda name: zlib.crc32(name.encode()))
    assert suite.half_of(names, "tuning") == ordered[0::2]
    assert suite.half_of(reversed(names), "report") == ordered[1::2]


def test_halves_are_those_of_earlier_results():
    # Another problem moves others to the other half. Then methods were tuned on problems that are to judge them.
    halves = {half: suite.names_of(half) for half in suite.HALVES}
    assert sorted([*halves["tuning"], *halves["report"]]) == sorted(suite.names_of())
    assert {half: zlib.crc32(" ".join(sorted(names)).encode()) for half, names in halves.items()} == {
        "tuning": 1545946974,
        "report": 601556648,
    }
    for family in suite.SUITE_FAMILIES:
        sizes = [sum(suite.family_of(name) == family for name in names) for names in halves.values()]
        assert abs(sizes[0] - sizes[1]) <= 1


def test_the_committed_reference_values_cover_the_suite():
    found = reference_values.read()
    assert set(found) == {*suite.names_of(), *suite.names_of(chosen="robust")}
    for name, values in found.items():
        benchmark = PROBLEMS[name]()
        assert reference_values.is_usable(values)
        assert benchmark.problem.sign * (values.best - values.median) > 0
        if benchmark.optimum is not None:
            assert values.best == pytest.approx(benchmark.optimum, rel=1e-9)
        assert values.regret(values.best) == 0
        assert values.regret(values.median) == 1


def test_the_rules_of_the_suite_are_filled_in_and_can_be_overridden(capsys):
    def filled(*options):
        arguments = program._parser().parse_args(["run", "--methods", "random", *options])
        fill(arguments)
        return arguments

    found = filled("--suite", "development", "--half", "tuning")
    assert (found.batch_size, found.seeds, found.num_starts, found.unjudged) == (1, 10, 0, True)
    assert found.problems == suite.names_of("tuning")
    assert found.records == Path("experiments/records/development-b1")
    assert program._total_cost(found, PROBLEMS["branin"]()) == 2000
    found = filled("--suite", "development", "--batch-size", "5", "--seeds", "2", "--problems", "branin")
    assert (found.batch_size, found.seeds, found.problems) == (5, 2, ["branin"])
    assert found.records == Path("experiments/records/development-b5")
    found = filled("--problems", "branin")
    assert (found.batch_size, found.seeds, found.num_starts, found.unjudged) == (5, 5, 10, False)
    assert found.records == Path("experiments/records")
    assert program._total_cost(found, PROBLEMS["branin"]()) == PROBLEMS["branin"]().default_total_cost
    assert program.main(["run", "--methods", "random"]) == 2
    assert "name some with --problems" in capsys.readouterr().err
    assert program.main(["run", "--methods", "random", "--half", "tuning", "--problems", "branin"]) == 2
    assert "--half tuning is half of a suite" in capsys.readouterr().err
