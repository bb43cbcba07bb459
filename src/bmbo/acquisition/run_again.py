"""Say what another run of a configuration at the top earns, where values are noisy.

The answer of a study is the configuration with the best believed mean. A run of a configuration moves what is believed
of it, and of the best one as far as they go together. So it earns what the better of the two rises by, on average over
its outcomes: the knowledge gradient of two points, which is an expected improvement. The best one itself earns what it
saves if it loses its place to another.
"""

import math

import numpy as np

from bmbo.acquisition.host_improvement import expected_improvement
from bmbo.acquisition.look_or_evaluate import Belief, evaluate_now, moved_apart
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
    """Return how far the best mean of two known points rises, on average, by a run of one at the top, [n].

    One of the two is the best point. For the others this is what an evaluation earns; for the best, the other is that
    of the known points which makes most of it.
    """
    gains = evaluate_now(belief, known)
    of_best = np.zeros(len(known))
    firsts: list[int] = []
    for part, weight, best in zip(belief.posteriors.parts, belief.posteriors.weights, belief.answers, strict=True):
        mean, variance = part.moments(known, belief.top)
        first = int(mean.mean(1).argmax())
        firsts.append(first)
        shared = part.covariance(known, belief.top, best, belief.top)[:, 0]
        moves = moved_apart(variance[first : first + 1], shared, part.noise[belief.top])
        rises = expected_improvement(mean, moves[:, None], mean[first]).mean(1)
        rises[first] = 0.0
        of_best += weight * rises
    gains[firsts[0]] = of_best.max()
    if belief.weigh is not None:
        gains[firsts[0]] *= float(np.exp(belief.weigh(known[firsts[:1]]))[0])
    return gains
