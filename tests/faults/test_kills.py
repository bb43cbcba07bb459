"""Rounds of the campaign, one of each kind on each storage: nothing is lost, doubled or pending for ever."""

import os

import pytest

from faults.rounds import ROUNDS, on_ray, run_round
from support import servers

pytestmark = pytest.mark.faults

KILLS = int(os.environ.get("BMBO_FAULTS_KILLS", "12"))
"""Of each round: all take about half an hour."""

NAMES = [(kind, name) for kind, rounds in ROUNDS.items() for name in dict.fromkeys(each.__name__ for each in rounds)]


@pytest.mark.parametrize(("kind", "name"), NAMES)
def test_a_study_that_is_disturbed_has_the_record_of_what_was_run(kind, name):
    if kind == "postgresql":
        server = servers.the_server()
        if isinstance(server, str):
            pytest.skip(server)
    if name == on_ray.__name__:
        pytest.importorskip("ray")
    tally = run_round(kind, NAMES.index((kind, name)), KILLS, name)
    assert tally.problems == []
    # How many come in time depends on the machine; what is wrong does not.
    assert tally.kills >= 1
