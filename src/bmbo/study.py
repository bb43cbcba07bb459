"""Ask and tell, in memory: a study joins a problem, a policy and their history."""

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import jax
import numpy as np

from bmbo.methods import bmbo_darn
from bmbo.policies import Bayes
from bmbo.problem import Fidelity, Ladder, Problem
from bmbo.progress import Progress
from bmbo.protocols import Policy
from bmbo.space import Categorical, Float, Int, Space
from bmbo.trial import History, Outcome, Query, Trial

Direction = Literal["minimize", "maximize"]


@dataclass(frozen=True)
class StudyTrial:
    """What an objective receives, and what is known of it afterwards.

    Attributes:
        number: of the trial in its study.
        params: the configuration to run.
        fidelity: the value of the fidelity to run it at.
        level: the fidelity's place, 0 the roughest.
        value: what was observed; None while it runs, or when it failed.
        error: why it failed.
        cost: what it cost.
    """

    number: int
    params: Mapping[str, Any]
    fidelity: int | float | str | bool
    level: int
    value: float | None = None
    error: str | None = None
    cost: float | None = None


@dataclass(frozen=True)
class StudyRecommendation:
    """The surrogate's choice at the top fidelity, with the value it predicts there and the uncertainty of that."""

    params: Mapping[str, Any]
    value: float
    std: float


class Study:
    """A search in progress; made by `create_study`."""

    def __init__(self, problem: Problem, policy: Policy, seed: int) -> None:
        self.problem = problem
        self.policy = policy
        self._key = jax.random.key(seed)
        self._history = History(problem)
        self._carry: Any = None

    @property
    def history(self) -> History:
        """All that is known, as one immutable value."""
        return self._history

    @property
    def trials(self) -> list[StudyTrial]:
        """Every trial, in the order in which they were asked for."""
        return [self._view(trial) for trial in self._history.trials]

    @property
    def best_trial(self) -> StudyTrial:
        """The best observed at the top fidelity."""
        best = self._history.best
        if best is None:
            top = self.problem.ladder[self.problem.ladder.top].name
            raise ValueError(f"no trial at the top fidelity ({top}) has finished yet")
        return self._view(best)

    @property
    def best_params(self) -> Mapping[str, Any]:
        """Configuration of the best trial."""
        return self.best_trial.params

    @property
    def best_value(self) -> float:
        """Value of the best trial."""
        return float(self.best_trial.value or 0.0)

    def ask(self, n: int = 1) -> list[StudyTrial]:
        """The next `n` trials to run, chosen jointly; fewer only while the policy waits for trials in flight."""
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise ValueError(f"ask needs a whole number of at least 1, got {n!r}")
        return [self._admit(query) for query in self._suggest(n)]

    def enqueue(self, params: Mapping[str, Any], level: int | None = None) -> StudyTrial:
        """A trial of your own choice, at the top fidelity unless a level is given; run it and tell its value."""
        level = self.problem.ladder.top if level is None else level
        return self._admit(Query(self.problem.space.encode(params), level))

    def tell(self, trial: StudyTrial | int, value: float | None = None, *, error: str | None = None) -> StudyTrial:
        """Records what a trial gave: a number, or the reason why there is none. NaN and infinities are failures."""
        number = trial.number if isinstance(trial, StudyTrial) else trial
        if isinstance(number, bool) or not isinstance(number, int):
            raise TypeError(f"tell needs a trial or its number, got {trial!r}")
        if (value is None) == (error is None):
            raise ValueError(f"trial {number}: tell needs either a value or an error")
        if not 0 <= number < len(self._history.trials):
            raise KeyError(f"there is no trial {number}; the study has {len(self._history.trials)}")
        cost = self.problem.ladder[self._history.trials[number].query.level].cost
        outcome = Outcome.of(as_number(value), cost) if error is None else Outcome(None, cost, error=error)
        self._history = self._history.with_outcome(number, outcome)
        return self._view(self._history.trials[number])

    def recommendation(self) -> StudyRecommendation:
        """The surrogate's choice; needs a policy with a surrogate and at least one finished trial."""
        if not isinstance(self.policy, Bayes):
            raise TypeError("this study's method has no surrogate to recommend from; see best_trial")
        if not self._history.done:
            raise ValueError("no trial has finished yet")
        found, self._carry = self.policy.recommendation(self._key, self._history, self._carry)
        return StudyRecommendation(self.problem.space.decode(found.unit), found.mean, found.std)

    def optimize(
        self,
        objective: Callable[[StudyTrial], float],
        *,
        total_cost: float | None = None,
        n_trials: int | None = None,
        timeout: float | None = None,
        batch_size: int = 1,
        catch: tuple[type[Exception], ...] = (),
        show_progress_bar: bool = True,
    ) -> None:
        """Runs batches one after the other in this process until a limit is reached.

        With `total_cost`, the price of one evaluation at the top is kept for the end, to confirm the recommendation.
        Exceptions of the kinds in `catch` fail their trial; others end the run, their trial failed and nothing lost.
        """
        limits = Limits.checked(total_cost, n_trials, timeout)
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
            raise ValueError(f"batch_size must be a whole number of at least 1, got {batch_size!r}")
        dearest = self.problem.ladder.costs[-1]
        if total_cost is not None and total_cost < dearest:
            raise ValueError(
                f"total_cost {total_cost:g} does not pay for one evaluation at the top, which is {dearest:g}"
            )
        reserve = dearest if isinstance(self.policy, Bayes) else 0.0
        begun, first, spent = time.monotonic(), len(self._history.trials), self._history.spent
        with Progress(self.problem, limits.total_cost, limits.n_trials, show_progress_bar) as progress:
            while True:
                num = limits.room(batch_size, len(self._history.trials) - first, time.monotonic() - begun)
                budget = limits.budget(self._history.spent - spent, reserve)
                queries = affordable(self._suggest(num), self.problem.ladder.costs, budget) if num else []
                for query in queries:
                    self._run(objective, self._admit(query), catch)
                    progress.show(self._history)
                if not queries:
                    break
            if limits.total_cost is not None and self._history.done and isinstance(self.policy, Bayes):
                self._confirm(objective, catch, limits.total_cost - (self._history.spent - spent))
                progress.show(self._history)

    def _confirm(
        self, objective: Callable[[StudyTrial], float], catch: tuple[type[Exception], ...], left: float
    ) -> None:
        """Evaluates the recommendation at the top, unless it was or the budget is spent."""
        found = self.recommendation()
        query = Query(self.problem.space.encode(found.params), self.problem.ladder.top)
        observed = {(trial.query.unit, trial.query.level) for trial in self._history.trials}
        if self.problem.ladder.costs[-1] <= left and (query.unit, query.level) not in observed:
            self._run(objective, self._admit(query), catch)

    def _run(
        self, objective: Callable[[StudyTrial], float], trial: StudyTrial, catch: tuple[type[Exception], ...]
    ) -> None:
        try:
            value = as_number(objective(trial))
        except BaseException as error:
            self.tell(trial, error=f"{type(error).__name__}: {error}")
            if not isinstance(error, catch):
                raise
        else:
            self.tell(trial, value)

    def _suggest(self, num: int) -> list[Query]:
        queries, self._carry = self.policy.suggest(self._key, self._history, num, self._carry)
        return queries

    def _admit(self, query: Query) -> StudyTrial:
        self._history = self._history.asked(query)
        return self._view(self._history.trials[-1])

    def _view(self, trial: Trial) -> StudyTrial:
        outcome = trial.outcome
        return StudyTrial(
            number=trial.number,
            params=self.problem.space.decode(trial.query.unit),
            fidelity=self.problem.ladder[trial.query.level].value,
            level=trial.query.level,
            value=trial.value,
            error=None if outcome is None else outcome.error,
            cost=None if outcome is None else outcome.cost,
        )


@dataclass(frozen=True)
class Limits:
    """When a run ends."""

    total_cost: float | None
    n_trials: int | None
    timeout: float | None

    @classmethod
    def checked(cls, total_cost: float | None, n_trials: int | None, timeout: float | None) -> "Limits":
        """At least one limit, each positive."""
        given = {"total_cost": total_cost, "n_trials": n_trials, "timeout": timeout}
        if all(limit is None for limit in given.values()):
            raise ValueError("give at least one of total_cost, n_trials and timeout, or the run would never end")
        for name, limit in given.items():
            if limit is not None and not limit > 0:
                raise ValueError(f"{name} must be positive, got {limit!r}")
        return cls(total_cost, n_trials, timeout)

    def room(self, batch_size: int, num_asked: int, seconds: float) -> int:
        """How many queries the next batch may have."""
        if self.timeout is not None and seconds >= self.timeout:
            return 0
        return batch_size if self.n_trials is None else min(batch_size, self.n_trials - num_asked)

    def budget(self, spent: float, reserve: float) -> float:
        """What the next batch may cost."""
        return math.inf if self.total_cost is None else self.total_cost - spent - reserve


def affordable(queries: Iterable[Query], costs: tuple[float, ...], budget: float) -> list[Query]:
    """Those of a batch that the budget pays for, in their order."""
    kept: list[Query] = []
    for query in queries:
        if costs[query.level] <= budget:
            budget -= costs[query.level]
            kept.append(query)
    return kept


def as_number(value: object) -> float:
    """A plain float; a clear error for what is no real number."""
    if isinstance(value, bool | str | bytes | complex | np.bool_ | np.complexfloating) or value is None:
        raise TypeError(f"an objective must return a real number, got {value!r}")
    try:
        return float(value)  # pyright: ignore[reportArgumentType] (anything with __float__ will do)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"an objective must return a real number, got {value!r}") from None


def create_study(
    *,
    space: Space | Mapping[str, Float | Int | Categorical],
    fidelities: Iterable[Fidelity],
    direction: Direction = "minimize",
    seed: int = 0,
    method: Policy | None = None,
) -> Study:
    """A new study; `fidelities` run from the roughest to the one that counts."""
    if direction not in ("minimize", "maximize"):
        raise ValueError(f"direction must be 'minimize' or 'maximize', got {direction!r}")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ValueError(f"seed must be a whole number of at least 0, got {seed!r}")
    whole = space if isinstance(space, Space) else Space(space)
    problem = Problem(whole, Ladder(fidelities), maximise=direction == "maximize")
    return Study(problem, bmbo_darn() if method is None else method, seed)
