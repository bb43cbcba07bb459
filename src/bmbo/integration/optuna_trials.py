"""Read the trials of an Optuna study as a history.

One trial of Optuna passes the fidelities one after the other. It becomes one record for each fidelity that it has
reached, and one more for the fidelity that it is still on its way to, or failed to reach.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.search_space import intersection_search_space
from optuna.trial import FrozenTrial, TrialState

from bmbo.history import History, Outcome, Query, TrialRecord
from bmbo.integration.optuna_branches import branches_of, distributions_of
from bmbo.ledger.attribute_keys import SAMPLER_PLAN
from bmbo.ledger.optuna_private import enqueued_params
from bmbo.problem import Fidelity, Ladder, Objective, Problem, Space
from bmbo.problem.foreign_spaces import as_space
from bmbo.problem.number_checks import Number, is_real, is_whole


@dataclass(frozen=True)
class TrialPlan:
    """Hold what the sampler chose for a trial before it began.

    Attributes:
        params: values of the common parameters; empty if there were none.
        level: the fidelity that it is to reach.
        stop: the step at which it ends; None if it runs to its end.
    """

    params: Mapping[str, Any]
    level: int
    stop: int | None

    @classmethod
    def of(cls, trial: FrozenTrial) -> "TrialPlan | None":
        """Return what was chosen for a trial; None if nothing was."""
        stored = trial.system_attrs.get(SAMPLER_PLAN)
        return None if stored is None else cls(**stored)

    @property
    def stored(self) -> dict[str, Any]:
        """Return the plan as a value of JSON."""
        return {"params": dict(self.params), "level": self.level, "stop": self.stop}

    def is_over(self, trial: FrozenTrial) -> bool:
        """Return whether a trial has reported at its last step or behind it."""
        return self.stop is not None and trial.last_step is not None and trial.last_step >= self.stop


@dataclass(frozen=True)
class Steps:
    """Hold the steps of a trial that count as fidelities, with the cost of a trial from its beginning to each of them.

    A step is reached by the first report at it or behind it. The last one is reached when the objective returns.
    """

    steps: tuple[int, ...]
    costs: tuple[float, ...]

    @classmethod
    def of(cls, given: Mapping[int, Number] | Iterable[int] | None) -> "Steps":
        """Return the steps that a user gave; raise ValueError or TypeError if they make no ladder.

        Args:
            given: costs by step; or steps alone, which cost as much as their number; or None for one fidelity.
        """
        if given is None:
            return cls((1,), (1.0,))
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise TypeError(f"fidelities must be a mapping from steps to costs, or a list of steps, got {given!r}")
        costs = dict(given) if isinstance(given, Mapping) else {step: step for step in given}
        if not costs:
            raise ValueError("fidelities: at least one step is needed, got none; leave them out for a single fidelity")
        for step, cost in costs.items():
            if not is_whole(step) or step < 0:
                raise ValueError(f"fidelities: a step must be a whole number of at least 0, got {step!r}")
            if not is_real(cost):
                raise TypeError(f"fidelities: the cost of step {step} must be a number, got {cost!r}")
        found = cls(tuple(sorted(costs)), tuple(float(costs[step]) for step in sorted(costs)))
        if any(later <= earlier for earlier, later in zip((0.0, *found.costs), found.costs, strict=False)):
            raise ValueError(
                f"fidelities: costs must be positive and grow with the step, because a trial begins at the first one, "
                f"got {costs}"
            )
        return found

    @property
    def ladder(self) -> Ladder:
        """Return the steps as fidelities."""
        return Ladder(Fidelity(step, cost) for step, cost in zip(self.steps, self.costs, strict=True))

    @property
    def top(self) -> int:
        """Return the level of a trial that runs to its end."""
        return len(self.steps) - 1

    def reached(self, trial: FrozenTrial) -> dict[int, tuple[float, ...]]:
        """Return the values of the objectives at each level that a trial has reached."""
        values: dict[int, tuple[float, ...]] = {}
        for level, (step, following) in enumerate(zip(self.steps, self.steps[1:], strict=False)):
            reported = [at for at in trial.intermediate_values if step <= at < following]
            if reported:
                values[level] = (trial.intermediate_values[min(reported)],)
        if trial.state == TrialState.COMPLETE and trial.values:
            values[self.top] = tuple(trial.values)
        return values

    def plan(self, params: Mapping[str, Any], level: int) -> TrialPlan:
        """Return the plan of a trial with these parameters that is to reach a level."""
        return TrialPlan(params, level, self.steps[level] if level < self.top else None)

    def cost(self, trial: FrozenTrial) -> float:
        """Return what a trial costs: up to the level that it has reached, or is to reach if it has not ended well."""
        if trial.state == TrialState.RUNNING and TrialPlan.of(trial) is None:
            return 0.0  # how far it goes will be chosen with what is left
        reached, goal = max(self.reached(trial), default=-1), self._goal(trial)
        ended_well = trial.state in (TrialState.COMPLETE, TrialState.PRUNED)
        return self.costs[reached if ended_well and reached >= 0 else max(reached, goal)]

    def records(self, trial: FrozenTrial, unit: tuple[float, ...]) -> Iterator[tuple[Query, Outcome | None]]:
        """Yield what a trial says about its point: an outcome for each level, or None for what is in flight."""
        reached, paid = self.reached(trial), 0.0
        for level, values in reached.items():
            yield Query(unit, level), Outcome.of_several(values, self.costs[level] - paid)
            paid = self.costs[level]
        goal = self._goal(trial)
        if goal <= max(reached, default=-1):
            return
        if not trial.state.is_finished():
            yield Query(unit, goal), None
        elif trial.state == TrialState.FAIL:
            yield Query(unit, goal), Outcome(None, self.costs[goal] - paid, error="the trial failed")
        elif not reached:
            yield Query(unit, goal), Outcome(None, self.costs[goal], error="the trial was pruned without a value")

    def _goal(self, trial: FrozenTrial) -> int:
        plan = TrialPlan.of(trial)
        return self.top if plan is None else min(plan.level, self.top)


def usable(space: Mapping[str, BaseDistribution]) -> dict[str, BaseDistribution]:
    """Return the distributions that a `Space` can express, without those of a single value."""

    def expressible(name: str, distribution: BaseDistribution) -> bool:
        try:
            as_space({name: distribution})
        except (TypeError, ValueError):
            return False
        return True

    return {name: each for name, each in space.items() if not each.single() and expressible(name, each)}


def history_of(
    trials: Sequence[FrozenTrial],
    space: Mapping[str, BaseDistribution],
    steps: Steps,
    *,
    maximise: bool,
    objectives: tuple[Objective, ...] = (),
) -> History:
    """Return what the trials of a study say about the known parameters; trials that lie outside are left out."""
    problem = Problem(_space(trials, space), steps.ladder, maximise, objectives=objectives)
    records: list[TrialRecord] = []
    for trial in trials:
        unit = _point(problem, space, trial)
        if unit is not None:
            for query, outcome in steps.records(trial, unit):
                records.append(TrialRecord(len(records), query, outcome))
    return History(problem, tuple(records))


def _space(trials: Sequence[FrozenTrial], space: Mapping[str, BaseDistribution]) -> Space:
    """Return the space of known parameters, with the conditions of those that only some trials have."""
    common, known = common_space(trials), as_space(space)
    if space.keys() <= common.keys():
        return known
    branches = branches_of(trials, common)
    params = {
        name: replace(param, when={branches[name][0]: branches[name][1]})
        if name in branches and branches[name][0] in space
        else param
        for name, param in known.params
    }
    return Space(params)


def common_space(trials: Sequence[FrozenTrial]) -> dict[str, BaseDistribution]:
    """Return the parameters that all finished trials have with the same range, as far as a `Space` can express them."""
    return usable(intersection_search_space(list(trials), include_pruned=True))


def known_space(trials: Sequence[FrozenTrial]) -> dict[str, BaseDistribution]:
    """Return the common parameters, and those of branches whose condition is known."""
    common = common_space(trials)
    branches = branches_of(trials, common)
    found = usable(distributions_of(trials, branches)) if branches else {}
    # A parent that cannot be expressed takes its children with it.
    while any(branches[name][0] not in common and branches[name][0] not in found for name in found):
        found = {name: each for name, each in found.items() if branches[name][0] in {**common, **found}}
    return {**common, **found}


def needed_names(
    trials: Sequence[FrozenTrial], space: Mapping[str, BaseDistribution], params: Mapping[str, Any]
) -> AbstractSet[str]:
    """Return which of the known parameters exist beside some values."""
    built = _space(trials, space) if space else None
    return space.keys() if built is None or built.tree is None else built.tree.existing(params)


def known_params(trial: FrozenTrial) -> dict[str, Any]:
    """Return the parameters of a trial as far as they are known, also those that it has not asked for yet."""
    plan = TrialPlan.of(trial)
    return {**({} if plan is None else plan.params), **enqueued_params(trial), **trial.params}


def _point(problem: Problem, space: Mapping[str, BaseDistribution], trial: FrozenTrial) -> tuple[float, ...] | None:
    """Return the point of a trial; None if a parameter is missing, or had or has another range."""
    if any(trial.distributions.get(name, each) != each for name, each in space.items()):
        return None
    # A trial that has ended may have been planned with what it then did not ask for.
    has_branches = problem.space.tree is not None
    params = trial.params if has_branches and trial.state.is_finished() else known_params(trial)
    try:
        return problem.space.encode(
            {name: params[name] for name in problem.space.names if not has_branches or name in params}
        )
    except (KeyError, TypeError, ValueError):
        return None
