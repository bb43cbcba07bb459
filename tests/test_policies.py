"""Policies: pure in key and history whatever the carry, and never without an answer."""

import logging
import math
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float

import bmbo
from bmbo import runtime
from bmbo.acquisition.alternating import Alternating
from bmbo.data import Dataset
from bmbo.inference import MCLMC, Info
from bmbo.nets import Network, Stack
from bmbo.policies import Bayes, Random
from bmbo.policies.bayes import IMPROVES
from bmbo.problem import Fidelity, Ladder, Problem
from bmbo.space import Categorical, Int, Space
from bmbo.surrogates import darn
from bmbo.surrogates.darn import Darn
from bmbo.surrogates.model import CollapsedModel
from bmbo.testing import check_policy, check_surrogate
from bmbo.trial import History, Outcome, Query

# One space, and batches of two throughout: every test shares the same few compilations.
SPACE = Space({"x": bmbo.Float(0, 1), "n": Int(1, 9)})
PROBLEM = Problem(SPACE, Ladder([Fidelity(1, cost=1), Fidelity(10, cost=10)]))
KEY = jax.random.key(0)
SURROGATE = Darn(
    CollapsedModel(Stack(Network(width=8, depth=1, activation="cosine", scaling="learned"))),
    MCLMC(num_chains=2, num_search_steps=10, num_warmup=10, num_warmup_warm=5, num_draws_per_chain=4, thinning=1),
    num_replicas=4,
    double=True,
)
SELECT = Alternating(
    num_candidates=32,
    num_optimisers=8,
    num_starts=1,
    num_polish=1,
    polish_steps=2,
    num_shifts=4,
    optimum_candidates=32,
    optimum_starts=1,
    optimum_steps=5,
)
SMALL = Bayes(SURROGATE, SELECT, num_startup=2)
INFORMED = replace(SMALL, improve=0.0)


def value_of(query):
    return (query.unit[0] - 0.3) ** 2 + 0.5 * query.unit[1] + 0.1 * query.level


def told(history, number, value=None):
    query = history.trials[number].query
    cost = history.problem.ladder[query.level].cost
    return history.with_outcome(number, Outcome.of(value_of(query) if value is None else value, cost))


def failed(history, number):
    return history.with_outcome(number, Outcome(None, 1.0, error="it broke"))


def asked(history, *queries):
    for query in queries:
        history = history.asked(query)
    return history


def started(policy=INFORMED, problem=PROBLEM):
    """A history whose random queries have all been asked for and none told."""
    num = policy.num_startup * problem.ladder.num_levels
    return asked(History(problem), *policy.suggest(KEY, History(problem), num)[0])


def run(policy, rounds, num=2, problem=PROBLEM):
    """The history before each round and the queries of that round, with the carry handed on."""
    history, carry, seen = History(problem), None, []
    for _ in range(rounds):
        queries, carry = policy.suggest(KEY, history, num, carry)
        seen.append((history, queries))
        for query in queries:
            history = told(history.asked(query), len(history.trials))
    return seen


def valid(queries, problem=PROBLEM):
    for query in queries:
        assert tuple(problem.space.snap(np.asarray(query.unit))) == query.unit
        assert 0 <= query.level <= problem.ladder.top
    return bool(queries)


@partial(jax.tree_util.register_dataclass, data_fields=["slope"], meta_fields=[])
@dataclass(frozen=True)
class Lines:
    """Linear functions: a posterior that compiles in no time."""

    slope: Float[Array, "s d m"]

    def draw(self, unit):
        return jnp.einsum("qd,sdm->sqm", unit, self.slope)

    def draw_each(self, unit):
        return jnp.einsum("sqd,sdm->sqm", unit, self.slope)

    @property
    def noise(self):
        return jnp.full(self.slope.shape[2], 0.1, self.slope.dtype)


INFO = Info.unknown(2)


@dataclass(frozen=True)
class Fake:
    """A surrogate of random lines that notes how much data and which warm start each fit had."""

    fits: list
    scale: float = 1.0

    def fit(self, key, data, warm=None):
        num = int(jnp.sum(data.mask))
        self.fits.append((num, warm))
        slope = self.scale * jax.random.normal(key, (6, data.unit.shape[1], data.num_levels))
        return Lines(slope), num, INFO


@dataclass(frozen=True)
class Noted:
    """A way to select that notes what is pending and goes to fixed levels."""

    pending: list
    level: int = 1

    def __call__(self, key, posterior, problem, pending, num):
        del posterior
        self.pending.append(list(pending))
        units = np.asarray(jax.random.uniform(key, (num, problem.space.dim)), np.float64)
        return [Query(tuple(float(u) for u in problem.space.snap(unit)), self.level) for unit in units]


@pytest.fixture(scope="module")
def ten_rounds():
    before = darn._fit._cache_size()
    seen = run(INFORMED, 10)
    return seen, darn._fit._cache_size() - before


def test_random_search_keeps_the_contract_on_every_kind_of_parameter():
    mixed = Space({"x": bmbo.Float(1e-3, 1, log=True), "n": Int(1, 9), "c": Categorical(["a", "b", "c"])})
    check_policy(Random(), Problem(mixed, PROBLEM.ladder))


def test_the_method_keeps_the_contract():
    check_policy(SMALL, PROBLEM, num=2, rounds=4)


def test_the_surrogate_keeps_the_contract():
    rng = np.random.default_rng(0)
    units = [rng.uniform(size=(count, 2)) for count in (7, 4)]
    data = Dataset.of_arrays(units, [np.sin(3 * unit.sum(axis=1)) for unit in units])
    # The device is part of what JAX compiles for: on the one that policies choose, their compilations serve again.
    with runtime.computing_on("auto"):
        check_surrogate(SURROGATE, data)


@dataclass(frozen=True)
class Broken:
    """A policy with one fault."""

    fault: str

    def suggest(self, key, history, num, carry=None):
        if self.fault == "none":
            return [], None
        queries, _ = Random().suggest(key, history, num + (self.fault == "many"))
        if self.fault == "carry" and carry is not None:
            queries = queries[::-1]
        if self.fault == "unsnapped":
            queries = [replace(query, unit=(query.unit[0], 0.5001)) for query in queries]
        if self.fault == "level":
            queries = [replace(query, level=2) for query in queries]
        return queries, 1


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("none", "nothing is in flight"),
        ("many", "were asked for"),
        ("carry", "the same key and history gave"),
        ("unsnapped", "not snapped"),
        ("level", "no level from 0 to 1"),
    ],
)
def test_the_conformance_suite_names_the_fault_of_a_policy(fault, sentence):
    with pytest.raises(AssertionError, match=sentence):
        check_policy(Broken(fault), PROBLEM)


@dataclass(frozen=True)
class Forgetful(Fake):
    """A surrogate that is no function of its key."""

    def fit(self, key, data, warm=None):
        return super().fit(jax.random.fold_in(key, len(self.fits)), data, warm)


def test_the_conformance_suite_names_the_fault_of_a_surrogate():
    data = Dataset.of_arrays([np.full((3, 2), 0.5)] * 2, [np.arange(3.0)] * 2)
    check_surrogate(Fake([]), data)
    with pytest.raises(AssertionError, match="not finite"):
        check_surrogate(Fake([], scale=math.nan), data)
    with pytest.raises(AssertionError, match="differ"):
        check_surrogate(Forgetful([]), data)


def test_a_study_that_resumes_at_any_point_goes_on_as_if_it_had_never_stopped(ten_rounds):
    seen, _ = ten_rounds
    for history, queries in seen:
        assert INFORMED.suggest(KEY, history, 2)[0] == queries


def test_a_run_compiles_one_fit_for_each_shape_of_the_data(ten_rounds):
    seen, grown = ten_rounds
    shapes = {Dataset.of(history).sizes for history, _ in seen}
    assert len(shapes) == 1
    assert grown <= 1


# Lines and no polish compile in seconds, the whole method takes a minute where cores are shared.
IN_ANOTHER_PROCESS = {
    "lines": replace(INFORMED, surrogate=Fake([]), select=replace(SELECT, polish_steps=0)),
    "whole": INFORMED,
}


@pytest.mark.parametrize("name", ["lines", pytest.param("whole", marks=pytest.mark.slow)])
def test_another_process_gives_the_same_suggestion(name):
    script = """
import test_policies as here
history = here.History(here.PROBLEM)
for query in {queries}:
    history = here.told(history.asked(here.Query(*query)), len(history.trials))
queries, _ = here.IN_ANOTHER_PROCESS[{name!r}].suggest(here.KEY, history, 2)
print([(query.unit, query.level) for query in queries])
"""
    history, queries = run(IN_ANOTHER_PROCESS[name], 4)[-1]
    script = script.format(queries=[(trial.query.unit, trial.query.level) for trial in history.trials], name=name)
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent,
        env={**os.environ, "BMBO_CACHE": "off", "PYTHONHASHSEED": "7"},
    )
    assert done.stdout.splitlines()[-1] == str([(query.unit, query.level) for query in queries])


def test_values_that_arrive_in_another_order_give_the_same_suggestion():
    forth, back = started(), started()
    for number in range(4):
        forth, back = told(forth, number), told(back, 3 - number)
    assert back == forth
    queries, _ = INFORMED.suggest(KEY, forth, 2)
    assert valid(queries)
    assert INFORMED.suggest(KEY, back, 2)[0] == queries


def test_a_value_that_arrives_late_before_others_is_no_trouble_for_the_carry():
    late = started()
    for number in (1, 2, 3):
        late = told(late, number)
    _, carry = INFORMED.suggest(KEY, late, 2)
    whole = told(late, 0)
    assert INFORMED.suggest(KEY, whole, 2, carry)[0] == INFORMED.suggest(KEY, whole, 2)[0]


def test_what_selects_sees_measured_costs_as_numbers():
    noted = []

    @dataclass(frozen=True)
    class Costs(Noted):
        def __call__(self, key, posterior, problem, pending, num):
            noted.append(problem.ladder.costs)
            return super().__call__(key, posterior, problem, pending, num)

    problem = Problem(SPACE, Ladder([Fidelity(1, cost="measure"), Fidelity(10, cost="measure")]))
    history = started(problem=problem)
    for number in range(4):
        seconds = 2.0 + 5.0 * history.trials[number].query.level
        history = history.with_outcome(number, Outcome(1.0, seconds, seconds))
    replace(INFORMED, surrogate=Fake([]), select=Costs([])).suggest(KEY, history, 2)
    assert noted == [(2.0, 7.0)]


def test_queries_in_flight_are_told_to_the_selection_and_not_asked_for_again():
    history = started()
    for number in range(4):
        history = told(history, number)
    first, carry = INFORMED.suggest(KEY, history, 2)
    history = asked(history, *first)
    second, _ = INFORMED.suggest(KEY, history, 2, carry)
    assert valid(second)
    assert not {(query.unit, query.level) for query in first} & {(query.unit, query.level) for query in second}
    noted = Noted([])
    replace(INFORMED, surrogate=Fake([]), select=noted).suggest(KEY, history, 2)
    assert noted.pending == [first]


def test_random_queries_come_first_the_cheapest_level_first_and_once_each():
    queries, _ = SMALL.suggest(KEY, History(PROBLEM), 3)
    assert [query.level for query in queries] == [0, 0, 1]
    rest, _ = SMALL.suggest(KEY, asked(History(PROBLEM), *queries), 3)
    assert [query.level for query in rest] == [1]


def test_while_nothing_is_known_and_all_is_in_flight_the_policy_waits():
    assert SMALL.suggest(KEY, started(), 2)[0] == []


def test_when_every_trial_failed_random_queries_come():
    history = started()
    for number in range(4):
        history = failed(history, number)
    queries, _ = SMALL.suggest(KEY, history, 2)
    assert valid(queries)
    assert len(queries) == 2
    assert {query.unit for query in queries}.isdisjoint(trial.query.unit for trial in history.trials)


def test_one_observation_and_a_level_without_data_are_enough_to_go_on():
    history = told(started(), 0)
    for number in range(1, 4):
        history = failed(history, number)
    queries, _ = INFORMED.suggest(KEY, history, 2)
    assert valid(queries)
    assert len(queries) == 2


def test_some_failed_random_queries_are_not_repeated():
    history = failed(started(), 0)
    for number in range(1, 4):
        history = told(history, number)
    queries, carry = INFORMED.suggest(KEY, history, 2)
    assert valid(queries)
    assert [number for number, _ in carry.seen] == [0, 1, 2, 3]


def test_fifty_dimensions_are_no_obstacle():
    problem = Problem(Space({f"x{place}": bmbo.Float(0, 1) for place in range(50)}), PROBLEM.ladder)
    # Without polish, which takes as long to compile as all the rest.
    policy = replace(INFORMED, select=replace(SELECT, polish_steps=0), num_startup=1)
    history = started(policy, problem)
    history = told(told(history, 0, 1.0), 1, 2.0)
    queries, _ = policy.suggest(KEY, history, 2)
    assert valid(queries, problem)
    assert len(queries[0].unit) == 50


def test_a_fit_that_is_not_finite_gives_random_queries_and_a_warning(caplog):
    policy = replace(SMALL, surrogate=Fake([], scale=math.nan))
    history = started()
    for number in range(4):
        history = told(history, number)
    with caplog.at_level(logging.WARNING, logger="bmbo"):
        queries, _ = policy.suggest(KEY, history, 2)
    assert valid(queries)
    assert len(queries) == 2
    assert "not finite" in caplog.text


@dataclass(frozen=True)
class Failing:
    """A surrogate whose numbers fail."""

    error: Exception

    def fit(self, *_):
        raise self.error


@pytest.mark.parametrize("error", [np.linalg.LinAlgError("not positive definite"), RuntimeError("out of memory")])
def test_a_fit_that_fails_leaves_random_queries_and_says_so(error, caplog):
    with caplog.at_level(logging.WARNING, logger="bmbo"):
        rounds = run(replace(SMALL, surrogate=Failing(error)), 4)
    assert all(len(queries) == 2 and valid(queries) for _, queries in rounds)
    assert str(error) in caplog.text


def test_the_wanted_share_of_queries_at_the_top_goes_where_improvement_is_expected(monkeypatch):
    monkeypatch.setattr("bmbo.policies.bayes.most_improving", lambda *_, **__: SPACE.encode({"x": 0.25, "n": 5}))
    policy = replace(SMALL, surrogate=Fake([]), select=Noted([]), improve=0.5)
    tagged = [IMPROVES in query.tag for _, queries in run(policy, 8)[2:] for query in queries]
    assert tagged == [False, True] * 6
    single = [IMPROVES in query.tag for _, queries in run(policy, 10, num=1)[4:] for query in queries]
    assert single == [False, True] * 3
    without = run(replace(policy, improve=0.0), 6)
    assert not any(query.tag for _, queries in without for query in queries)


def test_queries_below_the_top_are_never_replaced_by_improving_ones():
    policy = replace(SMALL, surrogate=Fake([]), select=Noted([], level=0))
    assert all(query.level == 0 and not query.tag for _, queries in run(policy, 5)[2:] for query in queries)


@pytest.mark.parametrize(
    ("num_told", "anchor"), [(1, 1), (7, 7), (8, 8), (11, 8), (12, 12), (17, 12), (18, 18), (27, 27), (39, 27)]
)
def test_anchors_are_fixed_numbers_of_outcomes(num_told, anchor):
    assert SMALL._anchor(num_told) == anchor
    assert replace(SMALL, anchor_growth=None)._anchor(num_told) == num_told


def test_with_the_carry_each_round_takes_one_fit_from_the_chains_of_its_anchor():
    fits = []
    run(replace(INFORMED, surrogate=Fake(fits), select=Noted([])), 9)
    # 4 random ones; 4 and 6 come before the first anchor; 8, 12 and 16 (12) begin or follow one.
    assert fits == [(4, None), (6, None), (8, None), (10, 8), (12, None), (14, 12), (16, 12)]


@pytest.mark.parametrize("fields", [{"num_startup": 0}, {"anchor_growth": 1.0}, {"improve": 1.5}])
def test_settings_that_make_no_sense_are_named(fields):
    with pytest.raises(ValueError, match=next(iter(fields))):
        replace(SMALL, **fields)
