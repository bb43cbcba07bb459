"""A hundred kills of planners and workers: nothing is lost, nothing counted twice, nothing pending for ever.

`BMBO_FAULTS_REPORT=FILE make test-faults` keeps the figures.
"""

import os
from pathlib import Path

import pytest

from faults.fleet import Fleet, summary
from support import servers

pytestmark = pytest.mark.faults

postgresql, postgresql_url = servers.postgresql, servers.postgresql_url

N_TRIALS, KILLS, PAUSES = 40, 30, 6
GRACE = 3.0

tallies = []


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request):
    return request.param


@pytest.fixture
def storage(kind, tmp_path, request):
    return f"sqlite:///{tmp_path}/study.db" if kind == "sqlite" else request.getfixturevalue("postgresql_url")


def fleet_of(folder, storage, name, seed, *options):
    common = ["--marked", "--batch-size", "4", "--grace", str(GRACE), "--seconds", "0.2", *options]
    return Fleet(folder, storage, name=name, size=4, n_trials=N_TRIALS, seed=seed, options=common)


@pytest.mark.parametrize("mode", ["synchronous", "asynchronous"])
def test_planners_and_workers_are_killed_and_the_record_is_what_was_run(kind, storage, mode, tmp_path):
    options = ["--asynchronous"] if mode == "asynchronous" else []
    with fleet_of(tmp_path, storage, f"{kind}, {mode}", 7, *options) as fleet:
        fleet.kill(KILLS)
        fleet.finish()
    tallies.append(fleet.check())
    assert fleet.tally.problems == []
    # The last ones may have come too late.
    assert fleet.tally.kills >= KILLS - 3


def test_processes_that_hang_and_come_back_lose_nothing(kind, storage, tmp_path):
    with fleet_of(tmp_path, storage, f"{kind}, paused", 8, "--asynchronous") as fleet:
        fleet.pause(PAUSES, 1.5 * GRACE)
        fleet.finish()
    tallies.append(fleet.check())
    assert fleet.tally.problems == []
    assert fleet.tally.pauses >= 1


def test_there_were_a_hundred_kills_in_all(capsys):
    if len({tally.name for tally in tallies}) < 6:
        pytest.skip("needs all of the other tests, in one run")
    text = summary(tallies)
    with capsys.disabled():
        print(f"\n\n{text}\n")
    if "BMBO_FAULTS_REPORT" in os.environ:
        Path(os.environ["BMBO_FAULTS_REPORT"]).write_text(text + "\n")
    assert sum(tally.kills for tally in tallies) >= 100
    assert sum(tally.planner_kills for tally in tallies) >= 20
