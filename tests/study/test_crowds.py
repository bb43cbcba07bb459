"""Many processes that run one study: none holds the lease only to learn that the run is over."""

import pytest

from bmbo import random_search
from bmbo.ledger import Owner
from bmbo.study.limits import Limits
from bmbo.study.planner import Planner
from bmbo.study.run_options import LoopOptions
from support import quiet_runs
from support.quiet_runs import run, study_in

# A fixture that several files of tests share.
storage = quiet_runs.storage


@pytest.fixture
def planner(storage):
    study = study_in(storage)
    options = LoopOptions(Limits(n_trials=3))
    return study, Planner(study._ledger, Owner.new(), options, policy=random_search(), is_stopping=lambda: False)


def terms(study):
    storage = study._ledger.storage
    return storage.get_n_trials(storage.get_study_id_from_name("study/lease"))


def test_who_has_followed_another_planner_ends_without_a_term_of_its_own(planner):
    study, follower = planner
    other = study._ledger.lease(Owner.new(), 60.0)
    assert other.acquire()
    follower.tend(study._ledger.read(), (), 1)
    assert follower.over is None
    other.release()
    run(study, n_trials=3)
    before = terms(study)
    follower.tend(study._ledger.read(), (), 1)
    assert follower.over == "the limits are reached"
    assert terms(study) == before


def test_who_has_followed_a_planner_that_has_not_left_goes_on_looking(planner):
    study, follower = planner
    run(study, n_trials=3)
    other = study._ledger.lease(Owner.new(), 60.0)
    assert other.acquire()
    for _ in range(2):
        follower.tend(study._ledger.read(), (), 1)
        assert follower.over is None
    other.release()
    follower.tend(study._ledger.read(), (), 1)
    assert follower.over is not None
