"""A part of the campaign of bad input, and a look at what it calls a fault."""

import pytest

from tests.fuzz.campaign import SHARES, campaign
from tests.fuzz.case import Case, fault, unclear


def test_bad_input_of_every_kind_is_answered_with_a_sentence():
    found = campaign(25)
    assert set(found.cases) == set(SHARES)
    assert [f"{case}: {wrong}" for case, wrong in found.faults] == []


def test_a_command_that_does_what_it_is_asked_is_a_fault():
    assert fault(Case("none", ("--version",))) == "SystemExit escaped: 0"


@pytest.mark.parametrize(
    "said", ["", "bmbo: one\ntwo\n", "Traceback", "bmbo: KeyError\n", "bmbo: a \x1b[2J b\n", "bmbo: a b" + "c" * 2000]
)
def test_what_is_no_clear_sentence_is_a_fault(said):
    assert unclear(said)
    assert unclear("bmbo: there is no study file none.toml\n") is None
