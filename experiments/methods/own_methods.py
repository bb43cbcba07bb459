"""The package's own methods: a policy over a history, as a study runs it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import jax

from bmbo import History, Outcome, Problem, Query, methods
from experiments.harness.contract import Job, MethodEntry, Start


@runtime_checkable
class Recommending(Protocol):
    """A policy with a surrogate to recommend from."""

    def recommendation(self, key: Any, history: History, carry: Any = None) -> tuple[Any, Any]:
        """A point of the cube with what is predicted there, and the policy's cache."""
        ...


class Native:
    """A policy, its history and its cache.

    As in `Study.optimize`, one evaluation at the top is kept of the total cost to confirm the recommendation.
    """

    def __init__(
        self,
        policy: Any,
        problem: Problem,
        *,
        seed: int,
        batch_size: int,
        starts: Sequence[Start],
        total_cost: float,
    ) -> None:
        self._policy = policy
        self._key = jax.random.key(seed)
        self._batch_size = batch_size
        self._history = History(problem)
        self._carry: Any = None
        for job, value in starts:
            self._add(Query(problem.space.encode(job.config), job.level))
            self._finish(value)
        self._total_cost = self._history.spent + total_cost
        self._confirmed = not isinstance(policy, Recommending)

    def ask(self) -> list[Job]:
        """A batch of the policy within the total cost; in the end the recommendation at the top, once."""
        costs = self._history.problem.ladder.costs
        left = self._total_cost - self._history.spent
        if self._confirmed and left < costs[-1]:
            return []  # what is cheap can no longer lead to anything at the top
        budget = left if self._confirmed else left - costs[-1]
        kept: list[Query] = []
        if budget >= min(costs):
            queries, self._carry = self._policy.suggest(self._key, self._history, self._batch_size, self._carry)
            for query in queries:
                if costs[query.level] <= budget:
                    budget -= costs[query.level]
                    kept.append(query)
        if not kept and not self._confirmed:
            kept = self._confirmation(left)
            if not kept:
                return self.ask()  # nothing to confirm: what was kept for it is there to search with
        return [self._add(query) for query in kept]

    def tell(self, jobs: list[Job], values: list[float]) -> None:
        """See `Optimiser`."""
        for _, value in zip(jobs, values, strict=True):
            self._finish(value)

    def recommend(self) -> Mapping[str, Any] | None:
        """The surrogate's choice; None without one."""
        if not isinstance(self._policy, Recommending) or not self._history.done:
            return None
        found, self._carry = self._policy.recommendation(self._key, self._history, self._carry)
        return self._history.problem.space.decode(found.unit)

    def _confirmation(self, left: float) -> list[Query]:
        problem = self._history.problem
        config = None if self._confirmed or left < problem.ladder.costs[-1] else self.recommend()
        self._confirmed = True
        if config is None:
            return []
        unit = problem.space.encode(config)
        known = {trial.query.unit for trial in self._history.trials if trial.query.level == problem.ladder.top}
        return [] if unit in known else [Query(unit, problem.ladder.top)]

    def _add(self, query: Query) -> Job:
        self._history = self._history.asked(query)
        return Job(self._history.problem.space.decode(query.unit), query.level)

    def _finish(self, value: float) -> None:
        """The outcome of the first trial in flight."""
        trial = self._history.pending[0]
        cost = self._history.problem.ladder.costs[trial.query.level]
        self._history = self._history.with_outcome(trial.number, Outcome.of(value, cost))


@dataclass(frozen=True)
class Recipe:
    """How one of `bmbo.methods` is run: its name there, how it is made, and what the tables say of it."""

    name: str
    attribute: str
    make: Callable[[Any], Any]
    paper: str
    differs: str
    batch: bool = True

    def run(self, problem: Problem, seed: int, batch_size: int, starts: Sequence[Start], total_cost: float) -> Native:
        """A `Factory`."""
        return Native(
            self.make(methods), problem, seed=seed, batch_size=batch_size, starts=starts, total_cost=total_cost
        )

    def entry(self) -> MethodEntry:
        """What the registry lists."""
        return MethodEntry(
            name=self.name,
            factory=self.run,
            takes_starts=True,
            batch=self.batch,
            paper=self.paper,
            where=f"bmbo.methods.{self.attribute}",
            differs=self.differs,
            packages=("bmbo", "jax"),
        )


DARN = "Li, Kirby, Zhe 2021, Batch Multi-Fidelity Bayesian Optimization with Deep Auto-Regressive Networks"

RECIPES = (
    Recipe("random", "random_search", lambda m: m.random_search(), "", "uniform, at the top fidelity alone"),
    Recipe(
        "bmbo_darn",
        "bmbo_darn",
        lambda m: m.bmbo_darn(),
        DARN,
        "the default preset: surrogate, noise and confirmation as docs/design.md says",
    ),
    Recipe("bmbo_darn_paper", "bmbo_darn", lambda m: m.bmbo_darn("paper"), DARN, "the paper to the letter"),
    Recipe("bmbo_darn_1", "bmbo_darn_1", lambda m: m.bmbo_darn_1(), DARN, "one query at a time", batch=False),
    Recipe(
        "bmbo_gp",
        "bmbo_gp",
        lambda m: m.bmbo_gp(),
        DARN,
        "the same acquisition over a deep auto-regressive Gaussian process",
    ),
    Recipe(
        "bmbo_gp_1",
        "bmbo_gp",
        lambda m: m.bmbo_gp(),
        DARN,
        "as bmbo_gp, one query at a time",
        batch=False,
    ),
    Recipe(
        "bmbo_mixture",
        "bmbo_mixture",
        lambda m: m.bmbo_mixture(),
        DARN,
        "the same acquisition over a mixture of surrogates weighted by held-out density",
    ),
    Recipe(
        "mf_gp_ucb",
        "mf_gp_ucb",
        lambda m: m.mf_gp_ucb(),
        "Kandasamy et al. 2016, Gaussian Process Bandit Optimisation with Multi-fidelity Evaluations",
        "hyperparameters by our fitting of Gaussian processes",
        batch=False,
    ),
    Recipe(
        "mf_mes",
        "mf_mes",
        lambda m: m.mf_mes(),
        "Takeno et al. 2020, Multi-fidelity Bayesian Optimization with Max-value Entropy Search",
        "hyperparameters by our fitting of Gaussian processes",
        batch=False,
    ),
    Recipe(
        "mf_mes_batch",
        "mf_mes_batch",
        lambda m: m.mf_mes_batch(),
        "Takeno et al. 2020, the parallel version",
        "places of a batch one after the other, as if each began a worker",
    ),
    Recipe(
        "shtl",
        "shtl",
        lambda m: m.shtl(),
        "Perrone et al. 2018, Scalable Hyperparameter Transfer Learning",
        "levels as tasks, as the paper used it",
        batch=False,
    ),
    Recipe(
        "dnn_mfbo",
        "dnn_mfbo",
        lambda m: m.dnn_mfbo(),
        "Li et al. 2020, Multi-Fidelity Bayesian Optimization via Deep Neural Networks",
        "our inference for the networks",
        batch=False,
    ),
    Recipe(
        "sf_batch",
        "sf_batch",
        lambda m: m.sf_batch(),
        "Kandasamy et al. 2018, Parallelised Bayesian Optimisation via Thompson Sampling",
        "synchronous batches, top fidelity alone",
    ),
)

ENTRIES = tuple(recipe.entry() for recipe in RECIPES)
