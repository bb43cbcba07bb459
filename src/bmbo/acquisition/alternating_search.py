"""Choose a batch of pairs of fidelity and input by Algorithm 2 of the paper, which updates one pair at a time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from bmbo.acquisition.batch_information import Taken, centre, gain, gain_of_products, score, take
from bmbo.acquisition.batch_invariants import BatchState, Pairs, Pending
from bmbo.acquisition.box_minimiser import minimise_box
from bmbo.acquisition.runnable_points import exact_points
from bmbo.acquisition.sampled_optima import (
    OPTIMUM_CANDIDATES,
    OPTIMUM_STARTS,
    OPTIMUM_STEPS,
    Optimum,
    find_optimum,
)
from bmbo.acquisition.top_level_climbs import NUM_CANDIDATES
from bmbo.history import Dataset, History, Query
from bmbo.problem import Problem, Space
from bmbo.protocols import Posterior, Select


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Selection:
    """Hold the batch that was chosen, and why.

    Attributes:
        unit, level: inputs and levels of the batch.
        value: a_batch of equation (7), with costs in units of the cheapest.
        information: information about f* from the batch beyond the pending queries, in nats; chance is not subtracted.
        chance: information that one useless place would show by chance, in nats; zero if it is not subtracted.
        level_value: a_batch of the best single place at each level.
        trace: a_batch of the first random batch and after each update of one place; NaN for updates that were not made.
        sweeps: how often all places were updated.
        num_scored: number of pairs of candidate and level that were scored.
    """

    unit: Float[Array, "q d"]
    level: Int[Array, " q"]
    value: Float[Array, ""]
    information: Float[Array, ""]
    chance: Float[Array, ""]
    level_value: Float[Array, " m"]
    trace: Float[Array, " t"]
    sweeps: Int[Array, ""]
    num_scored: Int[Array, ""]


@dataclass(frozen=True)
class Alternating(Select):
    """Choose the batch with the most information about f* per cost.

    Args:
        num_iterations: most sweeps over the batch: the paper's G.
        tolerance: sweeps end if a_batch rises by less than this share of itself: the paper's xi. It is relative,
            because a_batch is per cost and its size depends on the costs.
        num_candidates: number of random points at which every place is scored, on every level.
        num_optimisers: number of maximisers of drawn functions among the candidates.
        num_starts: number of random batches to begin from; the best one after the sweeps over the candidates is
            polished.
        num_polish: number of best candidates of each level that are improved by gradient.
        polish_steps: evaluations in each improvement; with zero, the batch consists of candidates.
        observation_noise: whether to score what is observed; without it, the noise-free outputs of the paper.
        subtract_chance: whether to subtract the information that useless places would show by chance, from as many
            draws; without it, the paper's formula.
        num_shifts: how often f* is moved among the draws to measure that; with zero, the bound for independent
            candidates.
        optimum_candidates, optimum_starts, optimum_steps: how f* is found for each draw, see `find_optimum`.
    """

    num_iterations: int = 100
    tolerance: float = 1e-3
    num_candidates: int = NUM_CANDIDATES
    num_optimisers: int = 64
    num_starts: int = 2
    num_polish: int = 2
    polish_steps: int = 10
    observation_noise: bool = True
    subtract_chance: bool = True
    num_shifts: int = 32
    optimum_candidates: int = OPTIMUM_CANDIDATES
    optimum_starts: int = OPTIMUM_STARTS
    optimum_steps: int = OPTIMUM_STEPS

    def __call__(
        self, key: PRNGKeyArray, posterior: Posterior, data: Dataset, history: History, num: int
    ) -> list[Query]:
        """See `Select`."""
        del data
        problem = history.priced
        selection = self.select(key, posterior, problem, [trial.query for trial in history.pending], num)
        points = exact_points(selection.unit, problem.space)
        return [Query(unit, int(level)) for unit, level in zip(points, np.asarray(selection.level), strict=True)]

    def select(
        self, key: PRNGKeyArray, posterior: Posterior, problem: Problem, pending: Sequence[Query], num: int
    ) -> Selection:
        """Return the batch with all that is known about it."""
        taken = Pending.of(pending, problem.space.dim)
        costs = jnp.asarray(problem.ladder.costs, jnp.result_type(float))
        return _select(key, posterior, costs, taken, space=problem.space, num=num, config=self)


@partial(jax.jit, static_argnames=("space", "num", "config"))
def _select(
    key: PRNGKeyArray,
    posterior: Posterior,
    costs: Float[Array, " m"],
    pending: Pending,
    *,
    space: Space,
    num: int,
    config: Alternating,
) -> Selection:
    key_optimum, key_search = jax.random.split(key)
    optimum = find_optimum(
        key_optimum,
        posterior,
        space.dim,
        num_candidates=config.optimum_candidates,
        num_starts=config.optimum_starts,
        max_steps=config.optimum_steps,
        snap=space.snap,
    )
    return alternate(key_search, posterior, optimum, costs, pending, space=space, num=num, config=config)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Batch:
    """Hold the current batch, its a_batch, and what the last sweep added to it.

    For each candidate and place, two things are kept: the products, and whether the two are the same point. Only one
    place changes at a time. If everything were computed again, the cost of a sweep would be quadratic in the size of
    the batch.
    """

    pairs: Pairs
    products: Float[Array, "q jm"]
    same: Bool[Array, "q jm"]
    value: Float[Array, ""]
    information: Float[Array, ""]
    rise: Float[Array, ""]
    trace: Float[Array, " t"]
    sweeps: Int[Array, ""]
    num_scored: Int[Array, ""]


_Polish = Callable[[Bool[Array, ""], Taken, Float[Array, " jm"], Pairs], Pairs]


def alternate(
    key: PRNGKeyArray,
    posterior: Posterior,
    optimum: Optimum,
    costs: Float[Array, " m"],
    pending: Pending,
    *,
    space: Space,
    num: int,
    config: Alternating,
) -> Selection:
    """Return the batch of Algorithm 2, given draws of f*.

    Sweeps over the candidates start from several random batches. The last sweeps polish the best batch.
    """
    key_state, key_levels = jax.random.split(key)
    state = BatchState.of(
        key_state,
        posterior,
        optimum,
        costs,
        pending,
        space=space,
        num_candidates=config.num_candidates,
        num_optimisers=config.num_optimisers,
        observation_noise=config.observation_noise,
        chance=(config.num_shifts or "bound") if config.subtract_chance else None,
    )
    polish = _polisher(state, posterior, space, config) if config.polish_steps > 0 else None

    def going(batch: _Batch) -> Bool[Array, ""]:
        return (batch.sweeps < config.num_iterations) & (batch.rise > config.tolerance * jnp.abs(batch.value))

    def run(best: _Batch, round_: tuple[Int[Array, ""], Int[Array, " q"]]) -> tuple[_Batch, None]:
        number, level = round_
        # Polishing moves a place by less than the distance between candidates. So only the last round does it, for the
        # best batch.
        polishing = number == config.num_starts
        start = _scored(state, _random_batch(state, number, level, config))
        start = _either(polishing, replace(best, rise=start.rise), start)
        batch = lax.while_loop(going, partial(_sweep, state, polish, polishing), start)
        # Not written as "at least as good": if the draws are NaN, a random batch must remain.
        return _either(batch.value < best.value, best, batch), None

    numbers = jnp.arange(config.num_starts + (polish is not None), dtype=jnp.int32)
    levels = (jax.random.bits(key_levels, (numbers.shape[0], num)) % costs.shape[0]).astype(jnp.int32)
    batch, _ = lax.scan(run, _random_batch(state, numbers[0], levels[0], config), (numbers, levels))
    alone = gain_of_products(state.before, state.products)
    return Selection(
        unit=batch.pairs.unit,
        level=batch.pairs.level,
        value=batch.value,
        information=batch.information,
        chance=state.chance,
        level_value=score(jnp.max(alone.reshape(-1, costs.shape[0]), axis=0), state.costs, 1, state.chance),
        trace=batch.trace,
        sweeps=batch.sweeps,
        num_scored=batch.num_scored,
    )


def _random_batch(state: BatchState, number: Int[Array, ""], level: Int[Array, " q"], config: Alternating) -> _Batch:
    """Return one of several random batches, not yet scored.

    The candidates are in random order, so it takes the next few of them.
    """
    num, num_levels = level.shape[0], state.costs.shape[0]
    place = number * num + jnp.arange(num, dtype=jnp.int32)
    pairs = state.candidates.at((place * num_levels + level) % state.candidates.level.shape[0])
    none, zero = jnp.full((), -jnp.inf, state.optimum.dtype), jnp.zeros((), jnp.int32)
    trace = jnp.full(config.num_iterations * num + 1, jnp.nan, none.dtype)
    return _Batch(
        pairs=pairs,
        products=state.with_candidates(pairs),
        same=pairs.same_as(state.candidates),
        value=none,
        information=none,
        rise=-none,
        trace=trace,
        sweeps=zero,
        num_scored=zero,
    )


def _scored(state: BatchState, batch: _Batch) -> _Batch:
    value, information = _value(state, batch.pairs)
    return replace(batch, value=value, information=information, trace=batch.trace.at[0].set(value))


def _either(condition: Bool[Array, ""], one: _Batch, other: _Batch) -> _Batch:
    return jax.tree.map(partial(jnp.where, condition), one, other)


def _taken(state: BatchState, pairs: Pairs, kept: Bool[Array, " q"]) -> Taken:
    """Return the pending queries and the kept places of a batch."""
    both = state.pending.joined(pairs)
    return take(both.outputs, state.noise[both.level], jnp.concatenate([state.in_flight, kept]), state.optimum)


def _value(state: BatchState, pairs: Pairs) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Return a_batch, equation (7), and its information.

    The information from pending queries counts as known, and their cost as spent.
    """
    num = pairs.level.shape[0]
    information = _taken(state, pairs, jnp.ones(num, bool)).information - state.before.information
    return score(information, jnp.sum(state.costs[pairs.level]), num, state.chance), information


def _sweep(state: BatchState, polish: _Polish | None, polishing: Bool[Array, ""], batch: _Batch) -> _Batch:
    """Return the batch after every place was updated once."""

    def update(place: Int[Array, ""], batch: _Batch) -> _Batch:
        return _update(state, batch, place, polish, polishing)

    after = lax.fori_loop(0, batch.pairs.level.shape[0], update, batch)
    return replace(after, rise=after.value - batch.value, sweeps=batch.sweeps + 1)


def _update(
    state: BatchState, batch: _Batch, place: Int[Array, ""], polish: _Polish | None, polishing: Bool[Array, ""]
) -> _Batch:
    """Return the batch with the best pair of input and level at one place, equation (8), if a_batch rises.

    The other places stay fixed.
    """
    num = batch.pairs.level.shape[0]
    kept = jnp.arange(num) != place
    taken = _taken(state, batch.pairs, kept)
    rest = jnp.sum(jnp.where(kept, state.costs[batch.pairs.level], 0.0))

    def scored(pairs: Pairs, gained: Float[Array, " j"], repeated: Bool[Array, " j"]) -> Float[Array, " j"]:
        information = taken.information - state.before.information + gained
        value = score(information, rest + state.costs[pairs.level], num, state.chance)
        return jnp.where(repeated | jnp.isnan(value), -jnp.inf, value)

    products = replace(state.products, with_places=jnp.concatenate([state.products.with_places, batch.products]))
    repeated = state.repeated | jnp.any(batch.same & kept[:, None], axis=0)
    value = scored(state.candidates, gain_of_products(taken, products), repeated)
    proposal = state.candidates.at(jnp.argmax(value)[None])
    num_scored = jnp.asarray(value.shape[0], jnp.int32)
    if polish is not None:
        both = proposal.joined(polish(polishing, taken, value, batch.pairs.at(place[None])))
        gained = gain(taken, both.outputs, state.noise[both.level])
        others = jnp.concatenate([state.in_flight, kept])
        repeated = jnp.any(state.pending.joined(batch.pairs).same_as(both) & others[:, None], axis=0)
        proposal = both.at(jnp.argmax(scored(both, gained, repeated))[None])
    pairs = batch.pairs.joined(proposal).at(jnp.where(kept, jnp.arange(num), num))
    # Both values come from the same formula, so that a_batch never falls, not even by rounding.
    risen, information = _value(state, pairs)
    rises = risen > batch.value
    changed = replace(
        batch,
        pairs=jax.tree.map(partial(jnp.where, rises), pairs, batch.pairs),
        # Row by row: a choice between two whole matrices would copy both.
        products=batch.products.at[place].set(
            jnp.where(rises, state.with_candidates(proposal)[0], batch.products[place])
        ),
        same=batch.same.at[place].set(jnp.where(rises, proposal.same_as(state.candidates)[0], batch.same[place])),
        value=jnp.where(rises, risen, batch.value),
        information=jnp.where(rises, information, batch.information),
        num_scored=batch.num_scored + num_scored,
    )
    return replace(changed, trace=batch.trace.at[batch.sweeps * num + place + 1].set(changed.value))


def _polisher(state: BatchState, posterior: Posterior, space: Space, config: Alternating) -> _Polish:
    """Return the function that improves one place by gradient; until it is time, that function returns its starts."""
    num_levels = state.costs.shape[0]

    def outputs(unit: Float[Array, "b d"], level: Int[Array, " b"]) -> Float[Array, "s b"]:
        return centre(jnp.take_along_axis(posterior.draw(unit), level[None, :, None], axis=2)[..., 0])

    def polish(polishing: Bool[Array, ""], taken: Taken, value: Float[Array, " jm"], now: Pairs) -> Pairs:
        """Return a few of the best candidates of each level and the present place, improved and snapped."""
        _, best = lax.top_k(value.reshape(-1, num_levels).T, config.num_polish)
        rows = (best * num_levels + jnp.arange(num_levels)[:, None]).reshape(-1)

        def loss(unit: Float[Array, "b d"], level: Int[Array, " b"]) -> Float[Array, " b"]:
            # At a fixed level, equation (8) rises with the gain alone, which has the same scale for all costs.
            return -gain(taken, outputs(unit, level), state.noise[level])

        def improved(start: Pairs) -> Pairs:
            function = partial(loss, level=start.level)
            unit = space.snap(minimise_box(function, start.unit, max_steps=config.polish_steps).unit)
            return Pairs(unit, start.level, outputs(unit, start.level))

        def unchanged(start: Pairs) -> Pairs:
            return start

        return lax.cond(polishing, improved, unchanged, state.candidates.at(rows).joined(now))

    return polish
