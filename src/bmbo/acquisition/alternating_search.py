"""Algorithm 2 of the paper: a batch of fidelity-input pairs, one pair at a time in turn."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from bmbo.acquisition.batch_state import Pairs, Pending, Scene
from bmbo.acquisition.box_minimiser import minimise_box
from bmbo.acquisition.information import Taken, centre, gain, gain_of_products, score, take
from bmbo.acquisition.sampled_optima import Optimum, find_optimum
from bmbo.history import Query
from bmbo.problem import Problem, Space
from bmbo.protocols import Posterior, Select


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["unit", "level", "value", "information", "chance", "level_value", "trace", "sweeps", "num_scored"],
    meta_fields=[],
)
@dataclass(frozen=True)
class Selection:
    """The batch that was chosen, and why.

    Attributes:
        value: a_batch of equation (7), costs in units of the cheapest.
        information: what the batch tells of f* beyond the pending queries, in nats, chance not subtracted.
        chance: what one place that tells nothing would show, in nats; zero when it is not subtracted.
        level_value: a_batch of the best single place at each level.
        trace: a_batch of the first random batch and after each update of one place; NaN where there was none.
        sweeps: how often all places were updated in turn.
        num_scored: pairs of candidate and level that were scored on the way.
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
    """Chooses the batch that tells most of f* per cost.

    Args:
        num_iterations: most sweeps over the batch: the paper's G.
        tolerance: sweeps end when a_batch rises by less than this share of itself: the paper's xi, made relative since
            a_batch is per cost and its size depends on the costs.
        num_candidates: random points that every place is scored at, on every level.
        num_optimisers: maximisers of drawn functions among the candidates.
        num_starts: random batches to begin from; the best after sweeps over the candidates is polished.
        num_polish: best candidates of each level that are improved by gradient.
        polish_steps: evaluations in each improvement; zero leaves the batch on candidates.
        observation_noise: score what is observed; without it, the noise-free outputs of the paper.
        subtract_chance: take off what places that tell nothing would show from as many draws; without it, the paper's
            formula.
        num_shifts: times f* is moved among the draws to measure that; zero takes the bound for independent candidates.
        optimum_candidates, optimum_starts, optimum_steps: how f* is found for each draw, see `find_optimum`.
    """

    num_iterations: int = 100
    tolerance: float = 1e-3
    num_candidates: int = 512
    num_optimisers: int = 64
    num_starts: int = 2
    num_polish: int = 2
    polish_steps: int = 10
    observation_noise: bool = True
    subtract_chance: bool = True
    num_shifts: int = 32
    optimum_candidates: int = 512
    optimum_starts: int = 2
    optimum_steps: int = 20

    def __call__(
        self, key: PRNGKeyArray, posterior: Posterior, problem: Problem, pending: Sequence[Query], num: int
    ) -> list[Query]:
        """The batch as queries."""
        selection = self.select(key, posterior, problem, pending, num)
        # Once more on the host: there a grid's points are exact in float64.
        units = problem.space.snap(np.asarray(selection.unit, np.float64))
        return [
            Query(tuple(float(u) for u in unit), int(level))
            for unit, level in zip(units, np.asarray(selection.level), strict=True)
        ]

    def select(
        self, key: PRNGKeyArray, posterior: Posterior, problem: Problem, pending: Sequence[Query], num: int
    ) -> Selection:
        """The batch with what there is to say about it."""
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
    return search(key_search, posterior, optimum, costs, pending, space=space, num=num, config=config)


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["pairs", "products", "same", "value", "information", "rise", "trace", "sweeps", "num_scored"],
    meta_fields=[],
)
@dataclass(frozen=True)
class _Batch:
    """The batch as it stands, its a_batch, and what the last sweep added to that.

    What each candidate has to do with each place, its products and whether they are one, is kept: while one place
    changes the others stay, and forming it anew for all would make a sweep quadratic in the size of the batch.
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


def search(
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
    """Algorithm 2, given draws of f*: sweeps over the candidates from several random batches, then polished sweeps."""
    key_scene, key_levels = jax.random.split(key)
    scene = Scene.of(
        key_scene,
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
    polish = _polisher(scene, posterior, space, config) if config.polish_steps > 0 else None

    def going(batch: _Batch) -> Bool[Array, ""]:
        return (batch.sweeps < config.num_iterations) & (batch.rise > config.tolerance * jnp.abs(batch.value))

    def run(best: _Batch, round_: tuple[Int[Array, ""], Int[Array, " q"]]) -> tuple[_Batch, None]:
        number, level = round_
        # Polishing moves a place by less than the candidates' spacing: a last round does it, for the best batch alone.
        polishing = number == config.num_starts
        start = _scored(scene, _random_batch(scene, number, level, config))
        start = _either(polishing, replace(best, rise=start.rise), start)
        batch = lax.while_loop(going, partial(_sweep, scene, polish, polishing), start)
        # Not the same as at least as good: draws that are no numbers must leave a random batch, not none.
        return _either(batch.value < best.value, best, batch), None

    numbers = jnp.arange(config.num_starts + (polish is not None), dtype=jnp.int32)
    levels = (jax.random.bits(key_levels, (numbers.shape[0], num)) % costs.shape[0]).astype(jnp.int32)
    batch, _ = lax.scan(run, _random_batch(scene, numbers[0], levels[0], config), (numbers, levels))
    alone = gain_of_products(scene.before, scene.products)
    return Selection(
        unit=batch.pairs.unit,
        level=batch.pairs.level,
        value=batch.value,
        information=batch.information,
        chance=scene.chance,
        level_value=score(jnp.max(alone.reshape(-1, costs.shape[0]), axis=0), scene.costs, 1, scene.chance),
        trace=batch.trace,
        sweeps=batch.sweeps,
        num_scored=batch.num_scored,
    )


def _random_batch(scene: Scene, number: Int[Array, ""], level: Int[Array, " q"], config: Alternating) -> _Batch:
    """One of several random batches, not yet scored: the candidates are in random order, so the next few will do."""
    num, num_levels = level.shape[0], scene.costs.shape[0]
    place = number * num + jnp.arange(num, dtype=jnp.int32)
    pairs = scene.candidates.at((place * num_levels + level) % scene.candidates.level.shape[0])
    none, zero = jnp.full((), -jnp.inf, scene.optimum.dtype), jnp.zeros((), jnp.int32)
    trace = jnp.full(config.num_iterations * num + 1, jnp.nan, none.dtype)
    return _Batch(
        pairs=pairs,
        products=scene.with_candidates(pairs),
        same=pairs.same_as(scene.candidates),
        value=none,
        information=none,
        rise=-none,
        trace=trace,
        sweeps=zero,
        num_scored=zero,
    )


def _scored(scene: Scene, batch: _Batch) -> _Batch:
    value, information = _value(scene, batch.pairs)
    return replace(batch, value=value, information=information, trace=batch.trace.at[0].set(value))


def _either(condition: Bool[Array, ""], one: _Batch, other: _Batch) -> _Batch:
    return jax.tree.map(partial(jnp.where, condition), one, other)


def _taken(scene: Scene, pairs: Pairs, kept: Bool[Array, " q"]) -> Taken:
    """The pending queries and the kept places of a batch."""
    both = scene.pending.joined(pairs)
    return take(both.outputs, scene.noise[both.level], jnp.concatenate([scene.in_flight, kept]), scene.optimum)


def _value(scene: Scene, pairs: Pairs) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """a_batch, equation (7), and its information; what pending queries tell is known and their cost is spent."""
    num = pairs.level.shape[0]
    information = _taken(scene, pairs, jnp.ones(num, bool)).information - scene.before.information
    return score(information, jnp.sum(scene.costs[pairs.level]), num, scene.chance), information


def _sweep(scene: Scene, polish: _Polish | None, polishing: Bool[Array, ""], batch: _Batch) -> _Batch:
    """Updates every place of the batch in turn."""

    def update(place: Int[Array, ""], batch: _Batch) -> _Batch:
        return _update(scene, batch, place, polish, polishing)

    after = lax.fori_loop(0, batch.pairs.level.shape[0], update, batch)
    return replace(after, rise=after.value - batch.value, sweeps=batch.sweeps + 1)


def _update(
    scene: Scene, batch: _Batch, place: Int[Array, ""], polish: _Polish | None, polishing: Bool[Array, ""]
) -> _Batch:
    """Gives one place the best pair of input and level with the others fixed, equation (8), if a_batch rises."""
    num = batch.pairs.level.shape[0]
    kept = jnp.arange(num) != place
    taken = _taken(scene, batch.pairs, kept)
    rest = jnp.sum(jnp.where(kept, scene.costs[batch.pairs.level], 0.0))

    def scored(pairs: Pairs, gained: Float[Array, " j"], repeated: Bool[Array, " j"]) -> Float[Array, " j"]:
        information = taken.information - scene.before.information + gained
        value = score(information, rest + scene.costs[pairs.level], num, scene.chance)
        return jnp.where(repeated | jnp.isnan(value), -jnp.inf, value)

    products = replace(scene.products, with_places=jnp.concatenate([scene.products.with_places, batch.products]))
    repeated = scene.repeated | jnp.any(batch.same & kept[:, None], axis=0)
    value = scored(scene.candidates, gain_of_products(taken, products), repeated)
    proposal = scene.candidates.at(jnp.argmax(value)[None])
    num_scored = jnp.asarray(value.shape[0], jnp.int32)
    if polish is not None:
        both = proposal.joined(polish(polishing, taken, value, batch.pairs.at(place[None])))
        gained = gain(taken, both.outputs, scene.noise[both.level])
        others = jnp.concatenate([scene.in_flight, kept])
        repeated = jnp.any(scene.pending.joined(batch.pairs).same_as(both) & others[:, None], axis=0)
        proposal = both.at(jnp.argmax(scored(both, gained, repeated))[None])
    pairs = batch.pairs.joined(proposal).at(jnp.where(kept, jnp.arange(num), num))
    # Compared by one and the same formula, so that a_batch does not fall even by rounding.
    risen, information = _value(scene, pairs)
    rises = risen > batch.value
    changed = replace(
        batch,
        pairs=jax.tree.map(partial(jnp.where, rises), pairs, batch.pairs),
        # Row by row: a choice between two whole matrices would copy both.
        products=batch.products.at[place].set(
            jnp.where(rises, scene.with_candidates(proposal)[0], batch.products[place])
        ),
        same=batch.same.at[place].set(jnp.where(rises, proposal.same_as(scene.candidates)[0], batch.same[place])),
        value=jnp.where(rises, risen, batch.value),
        information=jnp.where(rises, information, batch.information),
        num_scored=batch.num_scored + num_scored,
    )
    return replace(changed, trace=batch.trace.at[batch.sweeps * num + place + 1].set(changed.value))


def _polisher(scene: Scene, posterior: Posterior, space: Space, config: Alternating) -> _Polish:
    """What improves one place by gradient, when it is time for that; until then it gives its starts as they are."""
    num_levels = scene.costs.shape[0]

    def outputs(unit: Float[Array, "b d"], level: Int[Array, " b"]) -> Float[Array, "s b"]:
        return centre(jnp.take_along_axis(posterior.draw(unit), level[None, :, None], axis=2)[..., 0])

    def polish(polishing: Bool[Array, ""], taken: Taken, value: Float[Array, " jm"], now: Pairs) -> Pairs:
        """A few of the best candidates of each level, and the place as it is, improved and snapped."""
        _, best = lax.top_k(value.reshape(-1, num_levels).T, config.num_polish)
        rows = (best * num_levels + jnp.arange(num_levels)[:, None]).reshape(-1)

        def loss(unit: Float[Array, "b d"], level: Int[Array, " b"]) -> Float[Array, " b"]:
            # At a fixed level equation (8) rises with the gain alone, which has the same scale whatever the costs.
            return -gain(taken, outputs(unit, level), scene.noise[level])

        def improved(start: Pairs) -> Pairs:
            function = partial(loss, level=start.level)
            unit = space.snap(minimise_box(function, start.unit, max_steps=config.polish_steps).unit)
            return Pairs(unit, start.level, outputs(unit, start.level))

        def unchanged(start: Pairs) -> Pairs:
            return start

        return lax.cond(polishing, improved, unchanged, scene.candidates.at(rows).joined(now))

    return polish
