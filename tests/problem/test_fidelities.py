"""Fidelities, ladders and problems."""

import math

import pytest

from bmbo.problem import Fidelity, Float, Ladder, Problem, Space

BAD = [
    (lambda: Fidelity(1, cost=0), ValueError, "fidelity 1: cost must be positive and finite, got 0"),
    (lambda: Fidelity(1, cost=-2.0), ValueError, "fidelity 1: cost must be positive and finite, got -2.0"),
    (lambda: Fidelity("full", cost=math.inf), ValueError, "fidelity 'full': cost must be positive and finite, got inf"),
    (lambda: Fidelity("full", cost=math.nan), ValueError, "fidelity 'full': cost must be positive and finite, got nan"),
    (
        lambda: Fidelity(1, cost="1"),  # pyright: ignore[reportArgumentType]
        TypeError,
        "fidelity 1: cost must be a number or \"measure\", got '1'",
    ),
    (lambda: Fidelity(1, cost=True), TypeError, 'fidelity 1: cost must be a number or "measure", got True'),
    (
        lambda: Fidelity([1], cost=1),  # pyright: ignore[reportArgumentType]
        TypeError,
        "must be a number, a string or a boolean, got [1]",
    ),
    (lambda: Ladder([]), ValueError, "at least one fidelity is needed"),
    (
        lambda: Ladder([1, 10]),  # pyright: ignore[reportArgumentType]
        TypeError,
        "fidelities must be bmbo.Fidelity objects, got 1",
    ),
    (
        lambda: Ladder([Fidelity(1, cost="measure"), Fidelity(2, cost=2)]),
        ValueError,
        "costs must be given for all fidelities or measured for all, got 1: measure, 2: 2.0",
    ),
    (lambda: Ladder([Fidelity(1, cost="measure")]).costs, ValueError, "these costs are measured: history.priced"),
    (
        lambda: Ladder([Fidelity(1, cost=1), Fidelity("1", cost=2), Fidelity(2, cost=3)]),
        ValueError,
        "fidelity names must differ, '1' given more than once",
    ),
]


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(("make", "kind", "sentence"), BAD, ids=[sentence for *_, sentence in BAD])
def test_a_bad_fidelity_or_ladder_is_refused_in_one_sentence(make, kind, sentence):
    with pytest.raises(kind) as refusal:
        make()
    assert sentence in str(refusal.value)


def test_a_fidelity_is_named_after_its_value_unless_it_has_a_name():
    assert Fidelity(50, cost=1).name == "50"
    assert Fidelity(50, cost=1, name="full").name == "full"


def test_a_cost_given_as_an_integer_is_kept_as_a_float():
    assert type(Fidelity(1, cost=3).cost) is float
    assert Fidelity(1, cost=3) == Fidelity(1, cost=3.0)


def test_a_ladder_knows_whether_its_costs_are_measured():
    assert Ladder([Fidelity(1, cost="measure"), Fidelity(2, cost="measure")]).measured
    assert not Ladder([Fidelity(1, cost=1), Fidelity(2, cost=2)]).measured


def test_the_last_fidelity_is_the_top():
    ladder = Ladder(Fidelity(epochs, cost=epochs) for epochs in (1, 10, 50))
    assert (ladder.num_levels, ladder.top, ladder.costs) == (3, 2, (1.0, 10.0, 50.0))
    assert ladder[ladder.top].value == 50


def test_a_ladder_of_one_is_a_plain_problem():
    ladder = Ladder([Fidelity("full", cost=1)])
    assert (ladder.num_levels, ladder.top) == (1, 0)


def test_the_sign_makes_larger_better_and_minimising_is_the_default():
    space, ladder = Space({"x": Float(0, 1)}), Ladder([Fidelity("full", cost=1)])
    assert Problem(space, ladder).sign == -1.0
    assert Problem(space, ladder, maximise=True).sign == 1.0


def test_equal_problems_have_equal_hashes():
    def make():
        return Problem(Space({"x": Float(0, 1)}), Ladder([Fidelity(1, cost=1), Fidelity(2, cost=5)]))

    assert make() == make()
    assert hash(make()) == hash(make())


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize("cost", [10**400, 5e-324, 1e300, -(10**400)])
def test_a_cost_whose_ratios_would_overflow_is_refused(cost):
    with pytest.raises(ValueError, match="cost must"):
        Fidelity(1, cost=cost)


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize("value", [10**400, math.inf, math.nan])
def test_a_value_that_is_no_finite_number_is_refused(value):
    with pytest.raises(ValueError, match="a fidelity's value must lie between"):
        Fidelity(value, cost=1)
