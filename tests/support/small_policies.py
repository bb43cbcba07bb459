"""Offer a policy that compiles in seconds, fakes of its parts, and histories to ask it with."""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float

import bmbo
from bmbo.acquisition.alternating_search import Alternating
from bmbo.acquisition.expected_improvement import ImproveAtTop
from bmbo.history import History, Outcome, Query
from bmbo.inference import MCLMC, Info
from bmbo.policies import Bayes, WarmStart
from bmbo.policies.first_queries import RandomStart
from bmbo.problem import Fidelity, Int, Ladder, Problem, Space
from bmbo.surrogates.darn import Darn
from bmbo.surrogates.darn_density import CollapsedModel
from bmbo.surrogates.darn_networks import Network, Stack

# One space, and batches of two throughout: every test shares the same few compilations.
SPACE = Space({"x": bmbo.Float(0, 1), "n": Int(1, 9)})
PROBLEM = Problem(SPACE, Ladder([Fidelity(1, cost=1), Fidelity(10, cost=10)]))
SEED = 0
KEY = jax.random.key(SEED)
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
INFORMED = Bayes(WarmStart(SURROGATE), SELECT, RandomStart(2))
SMALL = replace(INFORMED, select=ImproveAtTop(SELECT))


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
    assert isinstance(policy.start, RandomStart)
    num = policy.start.num_startup * problem.ladder.num_levels
    return asked(History(problem), *policy.suggest(SEED, History(problem), num)[0])


def run(policy, rounds, num=2, problem=PROBLEM):
    """The history before each round and the queries of that round, with the carry handed on."""
    history, carry, seen = History(problem), None, []
    for _ in range(rounds):
        queries, carry = policy.suggest(SEED, history, num, carry)
        seen.append((history, queries))
        for query in queries:
            history = told(history.asked(query), len(history.trials))
    return seen


def valid(queries, problem=PROBLEM):
    for query in queries:
        assert tuple(problem.space.snap(np.asarray(query.unit))) == query.unit
        assert 0 <= query.level <= problem.ladder.top
    return bool(queries)


@jax.tree_util.register_dataclass
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
    """Note what is pending, and go to one level."""

    pending: list
    level: int = 1

    def __call__(self, key, posterior, data, history, num):
        del posterior, data
        self.pending.append([trial.query for trial in history.pending])
        space = history.problem.space
        units = np.asarray(jax.random.uniform(key, (num, space.dim)), np.float64)
        return [Query(tuple(float(u) for u in space.snap(unit)), self.level) for unit in units]


# All but the surrogate and the search is real, so that it is quick to compile.
QUICK = Bayes(WarmStart(Fake([])), Noted([]), RandomStart(2))


# Lines and no polish compile in seconds, the whole method takes a minute where cores are shared.
LINES = replace(QUICK, select=replace(SELECT, polish_steps=0))
POLICIES = {"quick": QUICK, "lines": LINES, "networks": INFORMED}
POLICY_NAMES = ["lines", pytest.param("networks", marks=pytest.mark.slow)]
