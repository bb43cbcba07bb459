"""Say how a run of `Bayes` begins: with random queries at each level, or with cheap points that climb the ladder."""

from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import jax
import numpy as np

from bmbo.history import History, Query
from bmbo.history.host_observations import Observations
from bmbo.history.same_point import point_key
from bmbo.policies.keyed_queries import keyed_queries
from bmbo.policies.ladder_start import LadderStart
from bmbo.policies.remaining_budget import RunLimits
from bmbo.problem import Problem


@runtime_checkable
class Start(Protocol):
    """Make the first queries of a run."""

    def sizes(self, problem: Problem, limits: RunLimits) -> tuple[int, ...]:
        """Return how many queries the start has at each level."""
        ...

    def queries(self, seed: int, history: History, num: int, limits: RunLimits) -> list[Query]:
        """Return at most `num` queries; none if the start is over, or if it waits for outcomes."""
        ...


@dataclass(frozen=True)
class RandomStart:
    """Begin with random queries at each level, the cheapest level first, as in the paper's experiments.

    Args:
        num_startup: random queries at each level.
    """

    num_startup: int = 5

    def __post_init__(self) -> None:
        if self.num_startup < 1:
            raise ValueError(f"num_startup must be at least 1, got {self.num_startup}")

    def sizes(self, problem: Problem, limits: RunLimits) -> tuple[int, ...]:
        """See `Start`; the limits change nothing."""
        del limits
        return (self.num_startup,) * problem.ladder.num_levels

    def queries(self, seed: int, history: History, num: int, limits: RunLimits) -> list[Query]:
        """See `Start`; the limits change nothing."""
        del limits
        asked = [trial.query.level for trial in history.kept]
        num_levels = history.problem.ladder.num_levels
        levels = [level for level in range(num_levels) for _ in range(self.num_startup - asked.count(level))]
        key_startup, _, _ = jax.random.split(jax.random.key(seed), 3)
        return keyed_queries(key_startup, history.problem, len(history.trials), levels[:num])


@dataclass(frozen=True)
class ClimbingStart:
    """Begin as `Screening` does: cheap points that fill the space, and the best of them up the ladder.

    The last batch of the start may be smaller than wanted. Another size of the batch that is chosen by the model would
    compile one more program.

    Args:
        plan: how many points there are, and which.
    """

    plan: LadderStart = field(default_factory=LadderStart)

    def sizes(self, problem: Problem, limits: RunLimits) -> tuple[int, ...]:
        """See `Start`."""
        num_params, ladder = len(problem.space.params), problem.ladder
        return tuple(self.plan.sizes_on(ladder, num_params, ladder.costs, limits.total_cost, limits.n_trials))

    def queries(self, seed: int, history: History, num: int, limits: RunLimits) -> list[Query]:
        """See `Start`. A query below the top is left out if no evaluation at the top could follow it."""
        priced, observations = history.priced, Observations.of(history)
        costs = priced.ladder.costs
        sizes = self.sizes(priced, limits)
        left = limits.remaining(history)
        trials = [trial.query for trial in history.trials]
        taken = {(point_key(np.asarray(query.unit, np.float64)), query.level) for query in trials}
        asked = [sum(query.level == level for query in trials) for level in range(len(costs))]
        found: list[Query] = []
        while len(found) < num:
            following = self.plan.next_query(sizes, observations, asked, taken, seed)
            if following is None:
                break
            unit, level = following
            if not left.allows(level):
                break
            found.append(Query(tuple(float(u) for u in unit), level))
            taken.add((point_key(unit), level))
            asked[level] += 1
            left = left.after(level)
        return found
