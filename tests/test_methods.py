"""The paper's baselines: every one keeps the contract of a policy, and each does what makes it what it is."""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float

import bmbo
from bmbo import methods
from bmbo.acquisition.alternating_search import Alternating
from bmbo.acquisition.baseline_search import CandidateSearch
from bmbo.acquisition.chained_max_value_entropy import ChainQuadrature
from bmbo.acquisition.expected_improvement import ImproveAtTop, Improvement, standardised_best, units_at_top
from bmbo.acquisition.max_value_entropy import MaxValue
from bmbo.acquisition.one_at_a_time import OneAtATime
from bmbo.acquisition.thompson_sampling import Thompson
from bmbo.acquisition.upper_confidence_bound import UpperConfidence
from bmbo.history import Dataset, History, Outcome, Query
from bmbo.inference import DeepEnsemble
from bmbo.policies import Bayes, TopOnly, WarmStart
from bmbo.policies.first_queries import RandomStart
from bmbo.policies.top_fidelity_only import top_of
from bmbo.problem import Categorical, Fidelity, Int, Ladder, Problem, Space
from bmbo.surrogates.darn import Darn
from bmbo.surrogates.darn_density import CollapsedModel
from bmbo.surrogates.darn_networks import Network, Stack
from bmbo.surrogates.dnn_mfbo import ChainedDarn
from bmbo.surrogates.gp import CoregionalGP, IndependentGPs
from bmbo.surrogates.shared_basis import SharedBasis
from bmbo.testing import check_policy

SEED = 0
KEY = jax.random.key(SEED)
SPACE = Space({"x": bmbo.Float(0, 1), "n": Int(1, 9)})
PROBLEM = Problem(SPACE, Ladder([Fidelity(1, cost=1), Fidelity(10, cost=10)]))

SEARCH = CandidateSearch(num_candidates=32, num_climbs=1, climb_steps=2, optimum_candidates=32, optimum_steps=2)
GPS = IndependentGPs(kernels=("rbf",), num_functions=16, num_hyper=2, num_features=32)
COREGIONAL = CoregionalGP(
    kernels=("rbf",), num_functions=16, num_hyper=2, num_features=16, num_proposals=4, max_steps=10
)
MES = MaxValue(num_optima=4, num_shifts=2, search=SEARCH)
INFERENCE = DeepEnsemble(num_members=4, num_steps=5, num_steps_warm=2)
NETWORK = Network(width=8, depth=1, activation="cosine", scaling="learned")
CHAIN = ChainedDarn(
    Darn(CollapsedModel(Stack(NETWORK, links="previous")), INFERENCE, num_replicas=4, double=True),
)
SELECT = Alternating(
    num_candidates=32,
    num_optimisers=8,
    num_starts=1,
    polish_steps=0,
    num_shifts=4,
    optimum_candidates=32,
    optimum_starts=1,
    optimum_steps=5,
)

# The methods, each with parts too small to be good and quick to compile.
PARTS = {
    "mf_gp_ucb": (GPS, UpperConfidence(2, SEARCH)),
    "mf_mes": (COREGIONAL, OneAtATime(MES)),
    "mf_mes_batch": (COREGIONAL, MES),
    "shtl": (SharedBasis(widths=(8, 4), num_steps=5, num_steps_warm=2, num_functions=16), Improvement()),
    "dnn_mfbo": (CHAIN, ChainQuadrature(num_nodes=4, num_optima=4, search=SEARCH)),
    "sf_batch": (GPS, Thompson(num_candidates=32, num_starts=1, num_steps=3)),
    "bmbo_darn_1": (CHAIN.darn, OneAtATime(SELECT)),
}
# These take most of the time to compile. Their parts have quick tests of their own.
SLOW = ("bmbo_darn_1", "dnn_mfbo", "mf_gp_ucb", "mf_mes", "mf_mes_batch", "shtl")


def marked(*names):
    return [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in names]


ONE_AT_A_TIME = ("mf_gp_ucb", "mf_mes", "shtl", "dnn_mfbo", "bmbo_darn_1")


def small(name):
    """Return a method with its small parts put in place of the parts that it is made of."""
    whole = getattr(methods, name)(num_startup=2)
    surrogate, select = PARTS[name]
    bayes = Bayes(WarmStart(surrogate), select, RandomStart(2))
    return replace(whole, policy=TopOnly(bayes) if isinstance(whole.policy, TopOnly) else bayes)


def parts_of(name):
    """Return the types of the surrogate and of the way to select of a method."""
    policy = getattr(methods, name)().policy
    bayes = policy.policy if isinstance(policy, TopOnly) else policy
    assert isinstance(bayes, Bayes)
    assert isinstance(bayes.learner, WarmStart)
    select = bayes.select.select if isinstance(bayes.select, ImproveAtTop) else bayes.select
    return type(bayes.learner.surrogate), type(select)


def value_of(query):
    return (query.unit[0] - 0.3) ** 2 + 0.5 * query.unit[1] + 0.1 * query.level


def asked_and_told(history, query, value=None):
    number = len(history.trials)
    cost = history.problem.ladder.costs[query.level]
    return history.asked(query).with_outcome(number, Outcome.of(value_of(query) if value is None else value, cost))


def started(problem=PROBLEM, num=4):
    """A history with so many observations at each level."""
    history, rng = History(problem), np.random.default_rng(0)
    for level in range(problem.ladder.num_levels):
        for _ in range(num):
            unit = problem.space.snap(rng.random(problem.space.dim))
            history = asked_and_told(history, Query(tuple(map(float, unit)), level))
    return history


@pytest.mark.parametrize("name", PARTS)
def test_the_small_parts_are_of_the_kinds_that_the_method_has(name):
    assert parts_of(name) == tuple(type(part) for part in PARTS[name])


@pytest.mark.parametrize("name", marked(*PARTS))
def test_every_baseline_keeps_the_contract_of_a_policy(name):
    check_policy(small(name), PROBLEM, num=2, rounds=4)


@pytest.mark.parametrize("name", marked(*ONE_AT_A_TIME))
def test_sequential_methods_give_one_query_however_many_are_asked_for(name):
    queries, _ = small(name).suggest(SEED, started(), 3)
    assert len(queries) == 1


@pytest.mark.parametrize("name", marked("mf_mes_batch", "sf_batch"))
def test_batch_methods_give_as_many_distinct_queries_as_asked_for(name):
    queries, _ = small(name).suggest(SEED, started(), 3)
    assert len({(query.unit, query.level) for query in queries}) == 3


@pytest.mark.parametrize("name", marked("mf_gp_ucb", "mf_mes", "sf_batch"))
def test_one_level_a_categorical_and_maximisation_are_enough(name):
    space = Space({"x": bmbo.Float(0, 1), "kind": Categorical(["a", "b", "c"])})
    problem = Problem(space, Ladder([Fidelity("full", cost=2)]), maximise=True)
    queries, _ = small(name).suggest(SEED, started(problem), 2)
    assert all(query.level == 0 and query.unit == tuple(space.snap(np.asarray(query.unit))) for query in queries)
    assert queries


def test_a_single_fidelity_method_starts_and_stays_at_the_top():
    policy = small("sf_batch")
    queries, _ = policy.suggest(SEED, History(PROBLEM), 4)
    assert [query.level for query in queries] == [1, 1]
    queries, _ = policy.suggest(SEED, started(), 2)
    assert [query.level for query in queries] == [1, 1]


def test_a_single_fidelity_method_does_not_see_what_lower_levels_gave():
    history = started()
    changed = History(PROBLEM)
    for trial in history.trials:
        changed = asked_and_told(changed, trial.query, 100.0 if trial.query.level == 0 else None)
    policy = small("sf_batch")
    assert policy.suggest(SEED, history, 2)[0] == policy.suggest(SEED, changed, 2)[0]


def test_the_top_of_a_history_keeps_its_trials_in_order_and_in_flight():
    history = started().asked(Query((0.5, 0.5), 1)).asked(Query((0.25, 0.5), 0))
    top = top_of(history)
    assert [trial.number for trial in top.trials] == list(range(5))
    assert [trial.value for trial in top.trials[:4]] == [trial.value for trial in history.trials[4:8]]
    assert top.problem.ladder.num_levels == 1
    assert len(top.pending) == 1


def test_expected_improvement_is_over_the_best_value_at_the_top():
    history = started()
    best = standardised_best(Dataset.of(history), history)
    top = np.array([trial.value for trial in history.trials if trial.query.level == 1])
    assert best == pytest.approx((np.mean(top) - np.min(top)) / np.std(top), rel=1e-4)
    assert len(units_at_top(history, history.told)) == 4
    assert standardised_best(Dataset.of(History(PROBLEM)), History(PROBLEM)) is None


@pytest.mark.usefixtures("as_a_user")
def test_a_chain_that_sees_all_lower_levels_is_refused():
    with pytest.raises(ValueError, match="previous"):
        ChainedDarn(Darn.preset("default"))


def test_the_chain_of_dnn_mfbo_is_the_default_one_with_other_links():
    bayes = methods.dnn_mfbo().policy
    assert isinstance(bayes, Bayes)
    assert isinstance(bayes.learner, WarmStart)
    surrogate = bayes.learner.surrogate
    assert isinstance(surrogate, ChainedDarn)
    default = Darn.preset("default")
    assert surrogate.darn.model.stack == replace(default.model.stack, links="previous")
    assert surrogate.darn.inference == default.inference


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Lines:
    """Linear functions: a posterior that compiles in no time."""

    slope: Float[Array, "s d"]

    def draw(self, unit):
        return (unit @ self.slope.T).T[..., None]

    def draw_each(self, unit):
        return jnp.einsum("sqd,sd->sq", unit, self.slope)[..., None]

    @property
    def noise(self):
        return jnp.zeros(1)


def test_thompson_places_are_maximisers_of_distinct_draws():
    posterior = Lines(jax.random.normal(KEY, (8, 2)))
    space = Space({"x": bmbo.Float(0, 1), "y": bmbo.Float(0, 1)})
    unit, order = Thompson(num_candidates=32).maximisers(KEY, posterior, space)
    assert sorted(np.asarray(order).tolist()) == list(range(8))
    # A line is largest at the corner that its slopes point to.
    assert np.array_equal(np.asarray(unit), np.asarray(posterior.slope[order] > 0, np.float32))
    problem = Problem(space, Ladder([Fidelity("full", cost=1)]))
    history = History(problem).asked(Query((1.0, 1.0), 0))
    queries = Thompson(num_candidates=32)(KEY, posterior, Dataset.of(history), history, 3)
    corners = {tuple(row) for row in np.asarray(unit).tolist()} - {(1.0, 1.0)}
    assert {query.unit for query in queries} == corners if len(corners) == 3 else len(queries) == 3


@pytest.mark.slow
def test_given_its_own_lower_output_a_chain_has_its_own_top():
    posterior, _, _ = CHAIN.fit(KEY, Dataset.of(started()))
    unit = jnp.asarray([[0.2, 0.5], [0.7, 0.25]])
    drawn = posterior.draw(unit)
    for draw in range(0, drawn.shape[0], 5):
        given = posterior.top_given(unit, 0, drawn[draw, :, :1])
        assert np.allclose(given[draw, :, 0], drawn[draw, :, 1], atol=1e-4)
