"""Test that adapters to peers follow the interface of methods. A peer that is not installed is skipped."""

import math

import numpy as np
import pytest

import bmbo
from experiments.harness.method_interface import Job, NotInstalledError
from experiments.methods import METHODS
from experiments.methods.peer_support import Climb, GlobalNumPy, PeerSpace, Rungs

# Peers use functions that their dependencies are going to remove.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

SINGLE = ["smac", "optuna_gp", "optuna_tpe"]
MULTI = ["smac_mf", "hyperband", "bohb", "optuna_tpe_hyperband", "dehb", "syne_asha", "syne_bohb"]
ENTROPY = ["botorch_mes_1", "botorch_mes_5"]
PEERS = [*SINGLE, *MULTI, *ENTROPY]

BOWL = bmbo.Problem(
    bmbo.Space({"x": bmbo.Float(-1, 2), "y": bmbo.Float(0, 1)}),
    bmbo.Ladder([bmbo.Fidelity("rough", cost=1), bmbo.Fidelity("exact", cost=5)]),
    maximise=True,
)
MIXED = bmbo.Problem(
    bmbo.Space(
        {
            "rate": bmbo.Float(1e-4, 1e-1, log=True),
            "momentum": bmbo.Float(0, 0.9, step=0.3),
            "width": bmbo.Int(16, 512, log=True),
            "depth": bmbo.Int(1, 9, step=2),
            "size": bmbo.Categorical(["small", "medium", "large"], ordered=True),
            "kind": bmbo.Categorical(["a", None, 3]),
            "fixed": bmbo.Categorical(["only"]),
        }
    ),
    bmbo.Ladder([bmbo.Fidelity(1, cost=1), bmbo.Fidelity(3, cost=3), bmbo.Fidelity(9, cost=9)]),
)


def bowl(job):
    return -((job.config["x"] - 0.3) ** 2) - (job.config["y"] - 0.6) ** 2 - 0.1 * (1 - job.level)


def mixed(job):
    """Return a value, or NaN, a failure, for one of three choices."""
    if job.config["kind"] is None:
        return math.nan
    return math.log(job.config["rate"] / 1e-2) ** 2 + abs(job.config["width"] - 64) / 64 + job.config["momentum"]


def begin(name, problem, value, *, seed=0, batch_size=3):
    """Start a run, with four starts per level if the method takes starts."""
    entry = METHODS[name]
    rng = np.random.default_rng(7)
    jobs = [
        Job(problem.space.decode(rng.random(problem.space.dim).tolist()), level)
        for level in range(problem.ladder.num_levels)
        for _ in range(4)
    ]
    starts = [(job, value(job)) for job in jobs] if entry.takes_starts else []
    try:
        return entry.factory(problem, seed, batch_size if entry.batch else 1, starts, 100.0)
    except NotInstalledError as error:
        pytest.skip(str(error))


def drive(optimiser, value, num_asks):
    """Ask and tell some rounds, and return the jobs of each round."""
    rounds = []
    for _ in range(num_asks):
        jobs = optimiser.ask()
        optimiser.tell(jobs, [value(job) for job in jobs])
        rounds.append(jobs)
    return rounds


def num_asks(name):
    """Return the number of rounds, which is smaller for slow peers."""
    return {"botorch_mes_1": 1, "botorch_mes_5": 1, "smac": 2, "smac_mf": 3, "optuna_gp": 2}.get(name, 8)


def assert_valid(problem, job):
    # Encoding raises an error outside the space. Decoding must give the same configuration again.
    unit = problem.space.encode(job.config)
    again = problem.space.decode(unit)
    for name, value in job.config.items():
        assert type(value) is type(again[name])
        assert value == pytest.approx(again[name]) if isinstance(value, float) else value == again[name]
    assert 0 <= job.level <= problem.ladder.top


def test_every_peer_is_registered():
    assert set(PEERS) <= set(METHODS)
    for name in PEERS:
        entry = METHODS[name]
        assert entry.paper
        assert entry.where
        assert entry.differs
        assert entry.packages


@pytest.mark.parametrize("name", PEERS)
def test_a_peer_asks_valid_jobs_and_the_same_again_with_the_same_seed(name):
    asked = []
    # The global generator differs between the two runs. A peer that draws from it must not depend on that.
    for outside in (1, 2):
        np.random.seed(outside)  # noqa: NPY002
        asked.append(drive(begin(name, BOWL, bowl, seed=4, batch_size=2), bowl, num_asks(name)))
    assert asked[0] == asked[1]
    limit = 2 if METHODS[name].batch else 1
    assert {len(jobs) for jobs in asked[0]} == {limit}
    for jobs in asked[0]:
        for job in jobs:
            assert_valid(BOWL, job)
    if name in SINGLE:
        assert {job.level for jobs in asked[0] for job in jobs} == {1}


@pytest.mark.parametrize("name", ["optuna_tpe", *MULTI])
def test_another_seed_asks_otherwise(name):
    one = begin(name, BOWL, bowl, seed=0, batch_size=1).ask()
    other = begin(name, BOWL, bowl, seed=1, batch_size=1).ask()
    assert one != other


@pytest.mark.parametrize("name", [*SINGLE, *MULTI, "botorch_mes_1"])
def test_a_peer_goes_on_in_a_mixed_space_where_evaluations_fail(name):
    rounds = drive(begin(name, MIXED, mixed), mixed, num_asks(name))
    for jobs in rounds:
        for job in jobs:
            assert_valid(MIXED, job)


@pytest.mark.parametrize("name", MULTI)
def test_a_configuration_comes_to_the_top_because_it_was_good_below(name):
    optimiser = begin(name, BOWL, bowl, batch_size=1)
    rounds = drive(optimiser, bowl, 30)
    jobs = [job for (job,) in rounds]
    assert jobs[0].level == 0
    promoted = [job for job in jobs if job.level == 1 and Job(job.config, 0) in jobs]
    assert promoted
    below = [bowl(job) for job in jobs if job.level == 0]
    # Most promoted configurations are in the better half. The median is used, because ASHA always promotes the first
    # few.
    assert np.median([np.mean(np.array(below) <= bowl(Job(job.config, 0))) for job in promoted]) > 0.5


@pytest.mark.parametrize("name", [*MULTI, "optuna_tpe"])
def test_a_space_of_six_configurations_ends_a_run_at_most(name):
    space = bmbo.Space({"x": bmbo.Int(0, 2), "y": bmbo.Categorical([0, 1])})
    problem = bmbo.Problem(space, BOWL.ladder, maximise=True)
    for jobs in drive(begin(name, problem, bowl), bowl, 12):
        for job in jobs:
            assert_valid(problem, job)


@pytest.mark.parametrize("name", ["optuna_gp", "smac", "botorch_mes_1"])
def test_a_model_comes_near_the_optimum_of_a_bowl(name):
    optimiser = begin(name, BOWL, bowl, batch_size=1)
    rounds = drive(optimiser, bowl, 3 if name in ENTROPY else 12)
    top = [bowl(job) for jobs in rounds for job in jobs if job.level == 1]
    if (recommended := optimiser.recommend()) is not None:
        top.append(bowl(Job(recommended, 1)))
    # Three of four random points are worse than this.
    assert max(top) > -0.2


@pytest.mark.parametrize("name", ["hyperband", "bohb"])
def test_hpbandster_runs_its_own_schedule(name):
    rounds = drive(
        begin(name, MIXED, lambda job: job.config["width"], batch_size=1), lambda job: job.config["width"], 22
    )
    levels = [job.level for (job,) in rounds]
    # With eta = 3 and three rungs, the first iterations have 9, 3 and 1 configurations, then 3 and 1, then 3 at the
    # top.
    assert levels == [0] * 9 + [1] * 3 + [2] + [1] * 3 + [2] + [2] * 3 + [0] * 2


def test_a_missing_peer_says_what_to_install(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(NotInstalledError, match=r"dehb.*requirements-peers"):
        METHODS["dehb"].factory(BOWL, 0, 1, [], 10.0)


def test_ranges_and_configurations_agree():
    space = PeerSpace(MIXED.space)
    assert "fixed" not in space.ranges
    rng = np.random.default_rng(0)
    for _ in range(50):
        config = MIXED.space.decode(rng.random(MIXED.space.dim).tolist())
        assert space.from_peer(space.to_peer(config)) == config


def test_values_beyond_a_bound_are_moved_to_it():
    space = PeerSpace(
        bmbo.Space({"x": bmbo.Float(0.1, 0.3), "n": bmbo.Int(2, 5), "c": bmbo.Categorical([True, 1, "z"])})
    )
    assert space.from_peer({"x": 0.30000001, "n": 1, "c": np.int64(1)}) == {"x": 0.3, "n": 2, "c": 1}


@pytest.mark.parametrize("sizes", [(1, 10, 50), (1, 3, 9, 27), (1, 1000), (1, 10, 100, 1000), (5,), (1, 1.1)])
def test_rungs_are_levels(sizes):
    rungs = Rungs.of(bmbo.Ladder([bmbo.Fidelity(f"{size} h", cost=size) for size in sizes]))
    assert [rungs.level(rungs.budget(level)) for level in range(len(sizes))] == list(range(len(sizes)))
    # HpBandSter, DEHB and SMAC count rungs in this way.
    assert int(math.log(rungs.largest / rungs.smallest) / math.log(rungs.eta)) + 1 == len(sizes)


def test_the_ratio_of_rungs_is_that_of_costs_whatever_the_values_of_levels():
    assert Rungs.of(bmbo.Ladder([bmbo.Fidelity(10, cost=1), bmbo.Fidelity(50_000, cost=8)])).eta == 8
    assert Rungs.of(bmbo.Ladder([bmbo.Fidelity("a", cost=1), bmbo.Fidelity("b", cost=6)])).eta == 6


def test_a_climbing_trial_goes_on_while_it_is_let():
    told = []
    names = iter("abc")

    def report(trial, level, value):
        told.append((trial, level, value))
        return level < 2 and value > 0

    climb = Climb(range(3), 2, lambda: (name := next(names), {"name": name}), report)
    first = climb.ask()
    assert first == [Job({"name": "a"}, 0), Job({"name": "b"}, 0)]
    climb.tell(first, [1.0, -1.0])
    second = climb.ask()
    assert second == [Job({"name": "a"}, 1), Job({"name": "c"}, 0)]
    climb.tell(second, [1.0, 1.0])
    assert told == [("a", 0, 1.0), ("b", 0, -1.0), ("a", 1, 1.0), ("c", 0, 1.0)]


def test_the_global_generator_is_as_it_was():
    np.random.seed(3)  # noqa: NPY002
    expected = np.random.rand(4)  # noqa: NPY002
    np.random.seed(3)  # noqa: NPY002
    numpy_state = GlobalNumPy(0)
    seen = [np.random.rand()]  # noqa: NPY002
    with numpy_state.held():
        inside = np.random.rand()  # noqa: NPY002
    seen += [*np.random.rand(3)]  # noqa: NPY002
    assert seen == pytest.approx(expected)
    assert inside == np.random.RandomState(0).rand()
