"""Search along a line for the weak Wolfe conditions, as a state machine with one evaluation per step.

The functions are for one lane, under `vmap`. Bracketing follows Lewis and Overton (2013), with a quadratic through the
bracket instead of its middle. The approximate decrease of Hager and Zhang (2006) is accepted too. Without it, single
precision would end a training early.
"""

from functools import partial
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

TRIALS = 20
"""Largest number of trials for one step, as in SciPy."""

DECREASE, CURVATURE = 1e-4, 0.9
"""Constants of the two conditions: the usual numbers for quasi-Newton directions."""

ROUNDING = 8
"""A loss may seem to rise by this many units in the last place although it falls. In single precision it is the
number of optax."""


class Search(NamedTuple):
    """Hold the state of a search.

    Attributes:
        step: the step of the next trial.
        slope: the slope along the direction at the start.
        low: a step that decreases enough but is too short, with its loss and slope; zero at first.
        high: a step that does not decrease enough, with its loss; infinite at first.
        trials: the number of trials so far.
    """

    step: Float[Array, "*l"]
    slope: Float[Array, "*l"]
    low: tuple[Float[Array, "*l"], Float[Array, "*l"], Float[Array, "*l"]]
    high: tuple[Float[Array, "*l"], Float[Array, "*l"]]
    trials: Int[Array, "*l"]


class Verdict(NamedTuple):
    """Judge a trial.

    Attributes:
        accept: whether the step is accepted.
        decreased: whether the loss decreased enough.
        curved: whether the step is long enough.
        exhausted: whether it was the last trial and is not accepted.
    """

    accept: Bool[Array, ""]
    decreased: Bool[Array, ""]
    curved: Bool[Array, ""]
    exhausted: Bool[Array, ""]


def begin(value: Float[Array, ""], slope: Float[Array, ""]) -> Search:
    """Return a new search from a loss and its slope. Its first trial is the full step."""
    one = jnp.ones_like(value)
    return Search(one, slope, (0 * one, value, slope), (jnp.inf * one, jnp.inf * one), jnp.zeros((), jnp.int32))


def judge(
    search: Search, before: Float[Array, ""], value: Float[Array, ""], slope: Float[Array, ""], grad: Float[Array, " p"]
) -> Verdict:
    """Return the verdict on a trial from its loss and its slope. A loss that is not finite is never a decrease."""
    enough = value <= before + DECREASE * search.step * search.slope
    rounding = ROUNDING * jnp.finfo(value.dtype).eps
    nearly = (value <= before * (1 + rounding)) & (slope <= (2 * DECREASE - 1) * search.slope)
    decreased = (enough | nearly) & jnp.isfinite(value) & jnp.all(jnp.isfinite(grad))
    curved = slope >= CURVATURE * search.slope
    last = search.trials + 1 >= TRIALS
    accept = decreased & (curved | last)
    return Verdict(accept, decreased, curved, last & ~accept)


def narrow(search: Search, verdict: Verdict, value: Float[Array, ""], slope: Float[Array, ""]) -> Search:
    """Return the search after a trial that was not accepted."""
    enough = partial(jnp.where, verdict.decreased)
    low, high = search.low, search.high
    low = (enough(search.step, low[0]), enough(value, low[1]), enough(slope, low[2]))
    high = (enough(high[0], search.step), enough(high[1], value))
    width = high[0] - low[0]
    lowest = -low[2] * width / (2 * (high[1] - low[1] - low[2] * width))  # as a share of the bracket
    # At least a tenth from each end, so that the bracket shrinks. The middle, if the quadratic has no minimum or the
    # loss is not finite.
    share = jnp.where(jnp.isfinite(lowest) & jnp.isfinite(high[1]), jnp.clip(lowest, 0.1, 0.9), 0.5)
    step = jnp.where(jnp.isfinite(high[0]), low[0] + share * width, 2 * search.step)
    # The last trial is a step that decreased the loss, if there was one.
    trials = search.trials + 1
    step = jnp.where((trials + 1 >= TRIALS) & (low[0] > 0), low[0], step)
    return Search(step, search.slope, low, high, trials)
