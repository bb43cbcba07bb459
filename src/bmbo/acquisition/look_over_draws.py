"""Choose a batch by the rule "evaluate now, or look more cheaply first", over moments of drawn functions."""

import math
from dataclasses import dataclass, field, replace

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from bmbo.acquisition.drawn_moments import DrawnMoments
from bmbo.acquisition.look_or_evaluate import Belief, LookOrEvaluate, Taken
from bmbo.history import Dataset, History, Query
from bmbo.history.host_observations import Observations
from bmbo.history.same_point import point_key
from bmbo.protocols import BudgetedSelect, Posterior, WeightedPosteriors


@dataclass(frozen=True)
class LookOverDraws(BudgetedSelect):
    """Choose each place of a batch by `LookOrEvaluate`; outcomes of the places before it, and in flight, are imagined.

    Args:
        rule: for points and levels.
        budget: what all further queries may cost.
        trials: how many there may be.
    """

    rule: LookOrEvaluate = field(default_factory=LookOrEvaluate)
    budget: float = math.inf
    trials: float = math.inf

    def with_left(self, budget: float, trials: float) -> "LookOverDraws":
        """See `BudgetedSelect`."""
        return replace(self, budget=budget, trials=trials)

    def __call__(
        self, key: PRNGKeyArray, posterior: Posterior, data: Dataset, history: History, num: int
    ) -> list[Query]:
        """See `Select`."""
        space, costs = history.problem.space, history.priced.ladder.costs
        observations = Observations.of(history)
        top = observations.top
        rng = np.random.default_rng(np.asarray(jax.random.bits(key, (4,))))
        taken: Taken = {(point_key(np.asarray(t.query.unit, np.float64)), t.query.level) for t in history.kept}
        learned = DrawnMoments.of(posterior, observations.unit, observations.level)
        belief = Belief.of(WeightedPosteriors((learned,), np.ones(1), data.scales[top].restore), top)
        for trial in history.pending:
            belief = belief.imagined(rng, np.asarray(trial.query.unit, np.float64), trial.query.level)
        queries: list[Query] = []
        budget, trials = self.budget, self.trials
        while len(queries) < num and budget >= costs[top] * (1.0 - 1e-9) and trials >= 1:
            remaining = budget if trials >= 2 else min(budget, costs[top])
            unit, level = self.rule.choose(rng, belief, space, costs, taken=taken, remaining=remaining)
            queries.append(Query(tuple(float(u) for u in unit), level))
            taken.add((point_key(unit), level))
            belief = belief.imagined(rng, unit, level)
            budget, trials = budget - costs[level], trials - 1
        return queries
