"""Say what another run of a configuration at the top earns, where values are noisy.

The answer of a study is the configuration with the best believed mean. A run moves what is believed of its own
configuration; so it earns what the best of all means rises by, on average over its outcomes. For a point that is not
the best, that is the expected improvement, as for a new point. The best one itself can only lose its place, and then
the second is the answer: it is worth a run as long as the second is near.
"""

import math

import numpy as np

from bmbo.acquisition.host_improvement import expected_improvement
from bmbo.acquisition.look_or_evaluate import Belief, evaluate_now
from bmbo.history.host_observations import Floats
from bmbo.protocols import Offer

TINY = 1e-300


def offer_to_run_again(belief: Belief, cost: float) -> Offer | None:
    """Return the configuration at the top that is worth another run most; None before any was run there.

    Configurations that are not believed to keep all constraints are left out.

    Args:
        belief: what is believed.
        cost: of a run at the top.
    """
    part = belief.posteriors.parts[0]
    known = np.unique(part.unit[part.level == belief.top], axis=0)
    if belief.feasibility is not None and len(known):
        known = known[belief.feasibility.log_probability(known) >= math.log(0.5)]
    if len(known) == 0:
        return None
    gains = rise_of_the_best(belief, known)
    place = int(gains.argmax())
    return Offer(belief.top, tuple(float(u) for u in known[place]), max(float(gains[place]), TINY), cost)


def rise_of_the_best(belief: Belief, known: Floats) -> Floats:
    """Return how far the best mean of all known points rises, on average, by a run of each of them at the top, [n].

    The means of the others are taken to stay, as the expected improvement takes the best value to stay.
    """
    gains = evaluate_now(belief, known)
    means = sum(
        weight * part.moments(known, belief.top)[0].mean(1)
        for part, weight in zip(belief.posteriors.parts, belief.posteriors.weights, strict=True)
    )
    first = int(np.argmax(means))
    others = np.delete(known, first, axis=0)
    gains[first] = _of_the_best(belief, known[first], others) if len(others) else 0.0
    if belief.weigh is not None:
        gains[first] *= float(np.exp(belief.weigh(known[first][None]))[0])
    return gains


def _of_the_best(belief: Belief, best: Floats, others: Floats) -> float:
    """Return what a run of the best point earns: the best of its new mean and the second, less what is best now."""
    total = 0.0
    for part, weight in zip(belief.posteriors.parts, belief.posteriors.weights, strict=True):
        mean, variance = part.moments(best[None], belief.top)
        second = part.moments(others, belief.top)[0].max(0)
        rises = expected_improvement(mean, belief.deviation(part, variance)[:, None], second)
        total += weight * float((second + rises - np.maximum(mean, second)).mean())
    return total
