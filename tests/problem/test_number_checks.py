"""Numbers of users are checked by one set of rules."""

import math
from fractions import Fraction

import numpy as np
import pytest

from bmbo.problem.number_checks import (
    finite_amount,
    is_real,
    is_whole,
    positive_number,
    seed_number,
    short,
    whole_number,
)


@pytest.mark.parametrize("value", [0, -3, 2**70, np.int32(4), np.uint8(1)])
def test_whole_numbers_may_come_from_numpy(value):
    assert is_whole(value)
    assert is_real(value)


@pytest.mark.parametrize("value", [True, np.True_, "1", None, 1.0, np.float32(2), 1j])
def test_booleans_and_others_are_no_whole_numbers(value):
    assert not is_whole(value)


@pytest.mark.parametrize("value", [True, np.True_, "1", None, 1j])
def test_booleans_and_others_are_no_real_numbers(value):
    assert not is_real(value)


def test_a_whole_number_is_returned_as_a_plain_one():
    assert type(whole_number("n_trials", np.int64(3))) is int
    assert whole_number("n_trials", 0, at_least=0) == 0


@pytest.mark.parametrize("value", [0, -1, 2.0, True, "3"])
def test_a_refusal_names_the_argument_and_the_value(value):
    with pytest.raises(ValueError, match=f"n_trials must be a whole number of at least 1, got {value!r}"):
        whole_number("n_trials", value)


def test_positive_numbers_may_be_infinite():
    assert positive_number("timeout", math.inf) == math.inf
    for value, sentence in ((0, "must be positive, got 0"), ("1", "must be a number, got '1'"), (math.nan, "positive")):
        with pytest.raises(ValueError, match=f"timeout .*{sentence}"):
            positive_number("timeout", value)


def test_amounts_are_finite_and_may_be_zero():
    assert finite_amount("cost", 0) == 0.0
    for value in (-1, math.inf, math.nan, True, "1"):
        with pytest.raises(ValueError, match="cost must be a finite number of at least 0"):
            finite_amount("cost", value)


HUGE = 10**400


@pytest.mark.parametrize(
    "value", [HUGE, 10**5000, -HUGE, Fraction(HUGE)], ids=["huge", "longer", "negative", "fraction"]
)
def test_a_number_that_fits_into_no_float_is_refused_in_a_sentence(value):
    for check in (whole_number, positive_number, finite_amount):
        with pytest.raises(ValueError, match=r"^cost must [^:]*, got .{1,110}$"):
            check("cost", value)


def test_the_largest_seed_is_that_of_64_bits():
    assert seed_number(2**63 - 1) == 2**63 - 1
    for seed in (2**63, -1):
        with pytest.raises(ValueError, match="seed must be"):
            seed_number(seed)


def test_a_value_that_cannot_be_written_is_named_by_its_type():
    class Mute:
        def __repr__(self):
            raise RuntimeError("no words")

    assert short(Mute()) == "a value of type Mute"
    assert short("a" * 1000) == "'" + "a" * 99 + "..."
