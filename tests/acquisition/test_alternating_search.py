"""Algorithm 2: batches of fidelity-input pairs."""

from dataclasses import dataclass, replace
from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float

import bmbo.problem
from bmbo.acquisition.alternating_search import Alternating, alternate
from bmbo.acquisition.batch_information import batch_information
from bmbo.acquisition.batch_invariants import Pending
from bmbo.acquisition.sampled_optima import Optimum
from bmbo.history import Dataset, History, Query
from bmbo.problem import Categorical, Fidelity, Int, Ladder, Problem, Space


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Waves:
    """Random Fourier features with random weights for each draw and level."""

    frequency: Float[Array, "f d"]
    phase: Float[Array, " f"]
    weight: Float[Array, "s f m"]
    noise: Float[Array, " m"]

    def draw_each(self, unit):
        features = jnp.cos(unit @ self.frequency.T + self.phase[None, None])
        return jnp.einsum("sqf,sfm->sqm", features, self.weight)

    def draw(self, unit):
        return self.draw_each(jnp.broadcast_to(unit[None], (self.weight.shape[0], *unit.shape)))


def waves(seed, *, num_draws=128, dim=2, mixing=((1.0, 0.0), (0.8, 0.6)), noise=0.01):
    """Levels are mixtures of independent functions; each row of `mixing` is a level, the last the top."""
    keys = jax.random.split(jax.random.key(seed), 3)
    num_features = 24
    weight = jax.random.normal(keys[2], (num_draws, num_features, len(mixing[0]))) * np.sqrt(2 / num_features)
    return Waves(
        frequency=4.0 * jax.random.normal(keys[0], (num_features, dim)),
        phase=jax.random.uniform(keys[1], (num_features,), maxval=2 * np.pi),
        weight=weight @ jnp.asarray(mixing).T,
        noise=jnp.full(len(mixing), noise),
    )


def problem(costs=(1.0, 5.0), space=None):
    space = space or Space({"x": bmbo.problem.Float(0.0, 1.0), "y": bmbo.problem.Float(-1.0, 1.0)})
    return Problem(space, Ladder([Fidelity(f"level {level}", cost) for level, cost in enumerate(costs)]))


def choose(select, key, posterior, problem, num, *, pending=()):
    """Queries for a problem of which nothing but some queries in flight is known."""
    history = History(problem)
    for query in pending:
        history = history.asked(query)
    return select(key, posterior, Dataset.of(history), history, num)


# Small enough that every test runs in a second; few different shapes, for each is compiled anew.
SMALL = Alternating(num_candidates=64, num_optimisers=16, num_starts=2, optimum_candidates=64, optimum_starts=2)
PAPER = replace(SMALL, observation_noise=False, subtract_chance=False)
ROUGH = replace(SMALL, polish_steps=0)
# Every point of a small grid is among a hundred random candidates.
GRID = replace(PAPER, polish_steps=0, num_optimisers=0, num_candidates=100, num_starts=4)
NUM_GRID = 12


def traced(selection):
    trace = np.asarray(selection.trace)
    return trace[~np.isnan(trace)]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Table:
    """Functions on a grid of one coordinate."""

    outputs: Float[Array, "s g m"]
    noise: Float[Array, " m"]

    def draw(self, unit):
        size = self.outputs.shape[1]
        return self.outputs[:, jnp.clip(jnp.floor(unit[:, 0] * size).astype(int), 0, size - 1)]

    def draw_each(self, unit):
        return jax.vmap(lambda table, own: Table(table[None], self.noise).draw(own)[0])(self.outputs, unit)


jitted_search = jax.jit(alternate, static_argnames=("space", "num", "config"))


def grid_search(config, posterior, costs, num, *, pending=()):
    """The search over a grid, where f* is the best of the grid, with what is needed to check it."""
    unit = jax.random.uniform(jax.random.key(0), (NUM_GRID, 2))
    space = Space({"place": Int(0, NUM_GRID - 1)})
    lookup = Table(posterior.draw(unit), posterior.noise)
    top = lookup.outputs[..., -1]
    optimum = Optimum(jnp.argmax(top, axis=1)[:, None] / NUM_GRID, jnp.max(top, axis=1))
    taken = Pending.of(list(pending), 1)
    key, price = jax.random.key(1), jnp.asarray(costs)
    found = jitted_search(key, lookup, optimum, price, taken, space=space, num=num, config=config)
    places = np.floor(np.asarray(found.unit)[:, 0] * NUM_GRID).astype(int)
    return found, lookup.outputs, optimum.value, list(zip(places, np.asarray(found.level), strict=True))


def ratio(outputs, optimum, noise, costs, pairs):
    """Equation (7) for pairs of place and level."""
    columns = jnp.stack([outputs[:, place, level] for place, level in pairs], axis=1)
    information = batch_information(columns, optimum, noise[jnp.asarray([level for _, level in pairs])])
    return float(information) / sum(costs[level] for _, level in pairs)


@pytest.mark.slow
@pytest.mark.parametrize("config", [SMALL, PAPER], ids=["ours", "paper"])
def test_a_batch_never_gets_worse_on_the_way(config):
    for seed in range(4):
        trace = traced(config.select(jax.random.key(seed), waves(seed), problem(), [], 2))
        assert len(trace) > 4
        assert np.all(np.diff(trace) >= 0.0)
        assert trace[-1] > trace[0]


def test_the_value_is_equation_7_of_the_batch_that_is_returned():
    for config, noise in [(GRID, 0.0), (replace(GRID, observation_noise=True), 0.2)]:
        found, outputs, optimum, pairs = grid_search(config, waves(1, noise=0.2), (1.0, 3.0), 2)
        expected = ratio(outputs, optimum, jnp.full(2, noise), (1.0, 3.0), pairs)
        np.testing.assert_allclose(found.value, expected, rtol=2e-3)


def test_a_batch_of_one_is_the_best_of_all_pairs():
    costs = (1.0, 2.0)
    for seed in range(3):
        found, outputs, optimum, _ = grid_search(GRID, waves(seed), costs, 1)
        every = [
            [ratio(outputs, optimum, jnp.zeros(2), costs, [(place, level)]) for place in range(NUM_GRID)]
            for level in range(2)
        ]
        np.testing.assert_allclose(found.value, np.max(every), rtol=2e-3)
        np.testing.assert_allclose(found.level_value, np.max(every, axis=1), rtol=2e-3)


def test_a_batch_of_two_reaches_what_exhaustive_search_finds():
    costs = (1.0, 2.5)
    pairs = [(place, level) for place in range(NUM_GRID) for level in range(2)]
    both = jnp.asarray(list(combinations(range(len(pairs)), 2)))
    price = jnp.asarray([costs[level] for _, level in pairs])[both].sum(axis=1)

    @jax.jit
    def best(outputs, optimum):
        columns = outputs.reshape(outputs.shape[0], -1)
        return jnp.max(jax.vmap(lambda two: batch_information(columns[:, two], optimum))(both) / price)

    for seed in range(6):
        found, outputs, optimum, _ = grid_search(GRID, waves(seed), costs, 2)
        exhaustive = float(best(outputs, optimum))
        assert 0.95 * exhaustive <= float(found.value) <= 1.001 * exhaustive


@pytest.mark.slow
def test_equal_costs_are_no_costs_and_the_unit_of_cost_does_not_matter():
    posterior = waves(3)
    chosen = [choose(ROUGH, jax.random.key(0), posterior, problem(costs), 2) for costs in [(1.0, 1.0), (7.0, 7.0)]]
    assert chosen[0] == chosen[1]
    equal = ROUGH.select(jax.random.key(0), posterior, problem((1.0, 1.0)), [], 2)
    net = float(equal.information - 2 * equal.chance)
    assert net > 0.0
    np.testing.assert_allclose(equal.value, net / 2, rtol=1e-3)
    chosen = [choose(ROUGH, jax.random.key(0), posterior, problem(costs), 2) for costs in [(1.0, 4.0), (64.0, 256.0)]]
    assert chosen[0] == chosen[1]


@pytest.mark.slow
def test_a_dear_level_is_left_alone_when_a_cheap_one_tells_nearly_as_much():
    posterior = waves(4, mixing=((0.99, 0.14), (1.0, 0.0)))
    dear = choose(ROUGH, jax.random.key(0), posterior, problem((1.0, 50.0)), 2)
    assert [query.level for query in dear] == [0, 0]


def test_a_level_that_tells_nothing_is_not_chosen_at_equal_costs():
    for seed in range(5, 10):
        posterior = waves(seed, mixing=((1.0, 0.0), (0.0, 1.0)))
        chosen = choose(ROUGH, jax.random.key(0), posterior, problem((1.0, 1.0)), 2)
        assert all(query.level == 1 for query in chosen)


def test_no_pair_is_chosen_twice_in_a_batch_or_while_it_is_in_flight():
    discrete = problem((1.0, 1.0), Space({"layers": Int(0, 4)}))
    # Noise makes a second look at the same pair worth something; a new pair is still preferred.
    posterior = waves(8, dim=1, noise=1.0)
    first = choose(ROUGH, jax.random.key(0), posterior, discrete, 2)
    second = choose(ROUGH, jax.random.key(0), posterior, discrete, 2, pending=first)
    assert len({(query.unit, query.level) for query in first + second}) == 4


def test_what_is_in_flight_is_known_and_paid_for():
    costs = (1.0, 2.0)
    pending = [Query((2.5 / NUM_GRID,), 1), Query((7.5 / NUM_GRID,), 0)]
    found, outputs, optimum, pairs = grid_search(GRID, waves(7), costs, 2, pending=pending)
    drawn = jnp.stack([outputs[:, place, level] for place, level in [(2, 1), (7, 0), *pairs]], axis=1)
    expected = batch_information(drawn, optimum) - batch_information(drawn[:, :2], optimum)
    np.testing.assert_allclose(found.information, expected, rtol=5e-3)
    np.testing.assert_allclose(found.value, expected / sum(costs[level] for _, level in pairs), rtol=5e-3)


@pytest.mark.slow
def test_queries_are_in_the_cube_snapped_and_the_same_for_the_same_key():
    space = Space({"x": bmbo.problem.Float(0.0, 1.0), "layers": Int(1, 5), "kind": Categorical(["a", "b", "c"])})
    posterior, mixed = waves(9, dim=space.dim), problem(space=space)
    chosen = choose(SMALL, jax.random.key(2), posterior, mixed, 3)
    assert len(chosen) == 3
    for query in chosen:
        assert all(isinstance(coordinate, float) and 0.0 <= coordinate <= 1.0 for coordinate in query.unit)
        assert query.level in (0, 1)
        np.testing.assert_allclose(space.encode(space.decode(query.unit)), query.unit, atol=1e-6)
    assert choose(SMALL, jax.random.key(2), posterior, mixed, 3) == chosen


@pytest.mark.slow
def test_polishing_improves_on_the_candidates():
    for seed in range(10, 13):
        rough = ROUGH.select(jax.random.key(seed), waves(seed), problem(), [], 2)
        fine = SMALL.select(jax.random.key(seed), waves(seed), problem(), [], 2)
        assert float(fine.value) > float(rough.value)


@pytest.mark.slow
def test_draws_that_are_no_numbers_leave_a_random_batch():
    broken = replace(waves(11), weight=waves(11).weight * jnp.nan)
    chosen = choose(SMALL, jax.random.key(0), broken, problem(), 2)
    assert len({query.unit for query in chosen}) == 2


@pytest.mark.slow
def test_a_sweep_scores_every_pair_once_a_place():
    for num, mixing in [(2, ((1.0, 0.0), (0.5, 0.5))), (4, ((1.0, 0.0), (0.5, 0.5), (0.2, 0.8)))]:
        found, *_ = grid_search(GRID, waves(12, mixing=mixing), (1.0, 2.0, 4.0)[: len(mixing)], num)
        assert int(found.num_scored) == int(found.sweeps) * num * len(mixing) * GRID.num_candidates
        assert len(traced(found)) == int(found.sweeps) * num + 1
        assert int(found.sweeps) < 20


def test_pending_queries_are_padded_to_few_shapes():
    sizes = [Pending.of([Query((0.5, 0.5), 1)] * count, 2).mask.shape[0] for count in range(10)]
    assert sizes == [4, 4, 4, 4, 4, 8, 8, 8, 8, 16]
    assert int(Pending.of([Query((0.5, 0.5), 1)] * 3, 2).mask.sum()) == 3
