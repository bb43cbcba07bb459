"""A line search for the weak Wolfe conditions as a machine of one evaluation a step, for one lane under `vmap`.

Bracketing as Lewis and Overton (2013), with a quadratic through the bracket in place of its middle, and the approximate
decrease of Hager and Zhang (2006), without which single precision ends a training early.
"""

from functools import partial
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

TRIALS = 20
"""At most, for one step: SciPy's number."""

DECREASE, CURVATURE = 1e-4, 0.9
"""Of the conditions: the usual numbers for quasi-Newton directions."""

ROUNDING = 8
"""By how many units in the last place a loss may seem to rise where it falls: in single precision, optax's number."""


class Search(NamedTuple):
    """A search under way.

    Attributes:
        step: of the trial to evaluate next.
        slope: along the direction, at its beginning.
        low: a step that decreases enough but is too short, with its loss and slope; zero at first.
        high: a step that does not decrease enough, with its loss; infinite at first.
        trials: evaluated so far.
    """

    step: Float[Array, "*l"]
    slope: Float[Array, "*l"]
    low: tuple[Float[Array, "*l"], Float[Array, "*l"], Float[Array, "*l"]]
    high: tuple[Float[Array, "*l"], Float[Array, "*l"]]
    trials: Int[Array, "*l"]


class Verdict(NamedTuple):
    """What a trial was: to be accepted; decreasing enough; long enough; the last one, and not accepted."""

    accept: Bool[Array, ""]
    decreased: Bool[Array, ""]
    curved: Bool[Array, ""]
    exhausted: Bool[Array, ""]


def begin(value: Float[Array, ""], slope: Float[Array, ""]) -> Search:
    """A search from a loss and its slope, with the full step first."""
    one = jnp.ones_like(value)
    return Search(one, slope, (0 * one, value, slope), (jnp.inf * one, jnp.inf * one), jnp.zeros((), jnp.int32))


def judge(
    search: Search, before: Float[Array, ""], value: Float[Array, ""], slope: Float[Array, ""], grad: Float[Array, " p"]
) -> Verdict:
    """What the trial is, by its loss and the slope there; one that is not finite never decreases."""
    enough = value <= before + DECREASE * search.step * search.slope
    rounding = ROUNDING * jnp.finfo(value.dtype).eps
    nearly = (value <= before * (1 + rounding)) & (slope <= (2 * DECREASE - 1) * search.slope)
    decreased = (enough | nearly) & jnp.isfinite(value) & jnp.all(jnp.isfinite(grad))
    curved = slope >= CURVATURE * search.slope
    last = search.trials + 1 >= TRIALS
    accept = decreased & (curved | last)
    return Verdict(accept, decreased, curved, last & ~accept)


def narrow(search: Search, verdict: Verdict, value: Float[Array, ""], slope: Float[Array, ""]) -> Search:
    """The search after a trial that was not accepted."""
    enough = partial(jnp.where, verdict.decreased)
    low, high = search.low, search.high
    low = (enough(search.step, low[0]), enough(value, low[1]), enough(slope, low[2]))
    high = (enough(high[0], search.step), enough(high[1], value))
    width = high[0] - low[0]
    lowest = -low[2] * width / (2 * (high[1] - low[1] - low[2] * width))  # as a share of the bracket
    # A tenth: never so close to an end that the bracket hardly shrinks. Half, where the quadratic has no minimum or the
    # loss is not finite.
    share = jnp.where(jnp.isfinite(lowest) & jnp.isfinite(high[1]), jnp.clip(lowest, 0.1, 0.9), 0.5)
    step = jnp.where(jnp.isfinite(high[0]), low[0] + share * width, 2 * search.step)
    # The last trial goes back to what decreased the loss, if anything did.
    trials = search.trials + 1
    step = jnp.where((trials + 1 >= TRIALS) & (low[0] > 0), low[0], step)
    return Search(step, search.slope, low, high, trials)
