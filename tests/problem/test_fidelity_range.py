"""Ranges of fidelities, and the few levels that stand for many."""

import math
from itertools import pairwise
from typing import Any

import pytest

import bmbo
from bmbo.problem import Fidelity, FidelityRange, Ladder
from bmbo.problem.spread_levels import ladder_text, spread_levels

ANY: Any = FidelityRange
BAD = [
    (lambda: ANY(81, 1), "from a lower to a higher number, got 81 to 1"),
    (lambda: ANY(1, 1), "from a lower to a higher number, got 1 to 1"),
    (lambda: ANY("1", 81), "low of a range of fidelities must be a finite number, got '1'"),
    (lambda: ANY(1, math.inf), "high of a range of fidelities must be a finite number, got inf"),
    (lambda: ANY(1, math.nan), "high of a range of fidelities must be a finite number, got nan"),
    (lambda: ANY(True, 81), "low of a range of fidelities must be a finite number, got True"),
    (lambda: ANY(0, 81, log=True, cost="measure"), "log=True needs fidelities above 0, got low=0"),
    (lambda: ANY(0, 81), "needs fidelities above 0, got low=0; give cost a function of the fidelity"),
    (lambda: ANY(1, 81, log=1), "log must be True or False, got 1"),
    (lambda: ANY(1, 81, levels=1), "levels must be a whole number from 2 to 100, got 1"),
    (lambda: ANY(1, 81, levels=1000), "levels must be a whole number from 2 to 100, got 1000"),
    (lambda: ANY(1, 81, cost=3), 'must be "proportional", "measure" or a function'),
    (lambda: ANY(1, 81, power=0), "power must be a positive number, got 0"),
    (lambda: ANY(1, 81, power=2, cost="measure"), 'power belongs to cost="proportional", got power=2'),
    (lambda: Ladder(ANY(1, 81, power=1000)), "fidelity"),
    (lambda: Ladder(ANY(1, 81, cost=lambda _: 0.0)), "fidelity 1: cost must be positive and finite"),
    (lambda: Ladder(ANY(1, 81, cost=lambda _: "dear")), "fidelity 1: cost must be a number"),
]


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(("make", "sentence"), BAD, ids=[sentence for _, sentence in BAD])
def test_a_bad_range_is_refused_in_one_sentence(make, sentence):
    with pytest.raises((TypeError, ValueError)) as refusal:
        make()
    assert sentence in str(refusal.value)


@pytest.mark.parametrize(
    ("given", "num", "kind"),
    [
        (FidelityRange(1, 81), 81, int),
        (FidelityRange(1, 1000), 100, int),
        (FidelityRange(1, 1000, log=True), 60, int),
        (FidelityRange(3, 5, log=True), 3, int),
        (FidelityRange(0.1, 1.0, log=True), 100, float),
        (FidelityRange(-1.0, 1, levels=5, cost=lambda value: 2.0 + value), 5, float),
        (FidelityRange(1, 81, levels=2), 2, int),
    ],
)
def test_a_range_is_a_ladder_that_rises_from_its_low_to_its_high_bound(given, num, kind):
    ladder = Ladder(given)
    values = [fidelity.value for fidelity in ladder.fidelities]
    assert values == sorted(set(values))
    assert (values[0], values[-1]) == (given.low, given.high)
    assert {type(value) for value in values} == {kind}
    assert len(values) == num or (given.log and kind is int and num <= len(values) <= 100)


def test_costs_are_in_proportion_to_a_power_given_by_a_function_or_measured():
    assert Ladder(FidelityRange(1, 4)).costs == (1.0, 2.0, 3.0, 4.0)
    assert Ladder(FidelityRange(2, 4, power=2)).costs == (4.0, 9.0, 16.0)
    assert Ladder(FidelityRange(1, 3, cost=lambda epochs: 5 + epochs)).costs == (6.0, 7.0, 8.0)
    assert Ladder(FidelityRange(1, 3, cost="measure")).measured


def test_few_levels_stand_for_many_each_about_twice_as_dear_as_the_one_before():
    ladder = Ladder(FidelityRange(1, 81, log=True))
    found = spread_levels(ladder)
    costs = [ladder.costs[level] for level in found]
    assert (found[0], found[-1]) == (0, ladder.top)
    assert all(1.5 < high / low < 3.0 for low, high in pairwise(costs))
    equal = Ladder([Fidelity(place, cost=1) for place in range(50)])
    assert spread_levels(equal) == (0, 8, 16, 24, 33, 41, 49)
    assert spread_levels(Ladder(FidelityRange(1, 100, cost="measure")))[0] == 0


def test_a_long_ladder_is_shown_by_its_ends():
    assert ladder_text(Ladder(FidelityRange(1, 81))) == "1 (cost 1) to 81 (cost 81), 81 levels"
    assert ladder_text(Ladder([Fidelity(1, cost=1), Fidelity(9, cost=9)])) == "1 (cost 1), 9 (cost 9)"


def test_a_study_keeps_its_range_as_a_list_of_levels(tmp_path):
    given: dict[str, Any] = {
        "study_name": "range",
        "storage": f"sqlite:///{tmp_path / 'range.db'}",
        "load_if_exists": True,
        "space": {"x": bmbo.Float(0, 1)},
        "fidelities": FidelityRange(0.05, 1.0, log=True, levels=20),
    }
    ladder = bmbo.create_study(**given).problem.ladder
    assert bmbo.create_study(**given).problem.ladder == ladder
    assert bmbo.load_study(study_name="range", storage=given["storage"]).problem.ladder == ladder
