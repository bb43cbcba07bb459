"""Offer bmbo as a sampler of Optuna, with a pruner that stops each trial at the fidelity that was chosen for it."""

import copy
import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.pruners import BasePruner
from optuna.samplers import BaseSampler, RandomSampler
from optuna.trial import FrozenTrial, TrialState

from bmbo.history import History, Query
from bmbo.integration.optuna_trials import Steps, TrialPlan, history_of, known_params, known_space, needed_names
from bmbo.ledger.attribute_keys import SAMPLER_PLAN
from bmbo.ledger.optuna_private import enqueued_params, set_system_attribute
from bmbo.ledger.outages import with_retries
from bmbo.methods import screening
from bmbo.problem import as_objectives
from bmbo.problem.number_checks import Number, positive_number, whole_number
from bmbo.protocols import Budgeted, Policy
from bmbo.study.validation import check_demands

logger = logging.getLogger("bmbo")

__all__ = ["BMBOPruner", "BMBOSampler"]

ROUNDING = 1e-9
"""Share of a cost that may be missing because sums of costs are rounded."""


class BMBOSampler(BaseSampler):
    """Choose the parameters of a trial, and the step at which it stops, with a method of bmbo.

    The method sees the parameters that all finished trials have in common, and those that trials have only where a
    choice or an integer has certain values, as in the branches of a script. The first trials of a study, the first of a
    branch, and other parameters that only some trials have or whose range changes, are sampled independently.

    Studies may have two to four objectives, but no fidelities then.

    With fidelities, the objective reports a value at their steps and asks `trial.should_prune()`, and the study has a
    `BMBOPruner`. Reported values are outcomes at lower fidelities. The last step is that of the value which the
    objective returns.

    Args:
        fidelities: the steps that count as fidelities, with what a trial costs from its beginning to each of them; or
            steps alone, which cost as much as their number. By default there is one fidelity.
        total_cost: what all trials may cost together, in the unit of the fidelities; the study stops when no trial to
            the last step can be paid any more. None is no limit.
        method: what suggests; `bmbo.screening()` by default.
        seed: for all random choices; drawn at random by default.
        independent_sampler: for parameters that are sampled independently; a `RandomSampler` by default.
        warn_independent_sampling: whether a warning says which parameters the method does not see.

    Example:
        >>> sampler = BMBOSampler(fidelities={1: 1.0, 9: 9.0, 27: 27.0})
        >>> study = optuna.create_study(sampler=sampler, pruner=BMBOPruner())
    """

    def __init__(
        self,
        *,
        fidelities: Mapping[int, Number] | Iterable[int] | None = None,
        total_cost: Number | None = None,
        method: Policy | None = None,
        seed: int | None = None,
        independent_sampler: BaseSampler | None = None,
        warn_independent_sampling: bool = True,
    ) -> None:
        self._steps = Steps.of(fidelities)
        self._total_cost = None if total_cost is None else positive_number("total_cost", total_cost)
        if method is not None and not isinstance(method, Policy):
            raise TypeError(f"method must be a method of bmbo, such as bmbo.screening(), got {method!r}")
        policy = screening() if method is None else method
        if self._total_cost is not None and isinstance(policy, Budgeted):
            policy = policy.within(self._total_cost, None)
        self._policy = policy
        if seed is not None:
            seed = whole_number("seed", seed, at_least=0)
        self._seed = int(np.random.default_rng().integers(2**31)) if seed is None else seed
        self._independent = RandomSampler(seed) if independent_sampler is None else independent_sampler
        self._warns = warn_independent_sampling
        self._warned: set[str] = set()
        self._forget()

    def _forget(self) -> None:
        """Drop what only saves time, and what cannot be copied."""
        self._lock = threading.RLock()
        self._carry: Any = None
        self._last: tuple[History, Query | None] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_lock", "_carry", "_last")}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
        self._forget()

    @property
    def has_fidelities(self) -> bool:
        """Return whether trials may stop before their end."""
        return self._steps.top > 0

    def reseed_rng(self) -> None:
        """Draw another seed for independent sampling; the method itself sees which trials run at the same time."""
        self._independent.reseed_rng()

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        """Tell the independent sampler that a trial begins, and the user if trials will not stop where they should."""
        self._independent.before_trial(study, trial)
        if self.has_fidelities and not isinstance(study.pruner, BMBOPruner) and BMBOPruner.__name__ not in self._warned:
            self._warned.add(BMBOPruner.__name__)
            logger.warning(
                "trials do not stop at the fidelity that is chosen for them, because the pruner of the study is a %s; "
                "give optuna.create_study(pruner=BMBOPruner())",
                type(study.pruner).__name__,
            )

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return the parameters that the method sees: those of all finished trials, and those of known branches."""
        del trial
        _check_objectives(study, self._steps)
        return known_space(_trials_of(study))

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return values for the parameters that the method sees, and note them for other processes with the level."""
        _check_objectives(study, self._steps)
        with self._lock:
            plan = self._planned(study, trial, search_space)
            with_retries(lambda: set_system_attribute(study, trial, SAMPLER_PLAN, plan.stored))
        return dict(plan.params)

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Return a value for a parameter that the method does not see."""
        _check_objectives(study, self._steps)
        if self._warns and param_name not in self._warned and any(map(_ended_well, _trials_of(study))):
            self._warned.add(param_name)
            logger.warning(
                "parameter %r is sampled independently by %s: not all finished trials have it with the range %s, or "
                "bmbo cannot express it; BMBOSampler(warn_independent_sampling=False) leaves this message out",
                param_name,
                type(self._independent).__name__,
                param_distribution,
            )
        return self._independent.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(
        self, study: optuna.Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        """Stop the study if no trial to the last step can be paid any more."""
        self._independent.after_trial(study, trial, state, values)
        if self._total_cost is None:
            return
        ended = copy.copy(trial)
        ended.state, ended.values = state, None if values is None else list(values)
        others = [each for each in _trials_of(study) if each.number != trial.number]
        spent = sum(self._steps.cost(each) for each in (ended, *others))
        if self._total_cost - spent < self._steps.costs[-1] * (1.0 - ROUNDING):
            _stop(study, spent, self._total_cost)

    def is_to_stop(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        """Return whether a trial has gone far enough; if it is to go on, note how far. `BMBOPruner` asks this."""
        plan = TrialPlan.of(trial)
        if plan is None or not plan.is_over(trial):
            return False
        with self._lock:
            trials = _trials_of(study)
            space, params = known_space(trials), known_params(trial)
            if not space:
                return True
            needed = needed_names(trials, space, params)
            if not params.keys() >= needed:
                return True
            history = self._history(study, trials, space)
            query = self._suggested(history)
            if query is None or query.level <= plan.level:
                return True
            if history.problem.space.decode(query.unit) != {name: params[name] for name in needed}:
                return True
            set_system_attribute(study, trial, SAMPLER_PLAN, self._steps.plan(plan.params, query.level).stored)
            return False

    def _planned(self, study: optuna.Study, trial: FrozenTrial, space: dict[str, BaseDistribution]) -> TrialPlan:
        """Return the parameters and the level of a trial that begins."""
        steps, queued = self._steps, enqueued_params(trial)
        if queued and queued.keys() >= needed_names(_trials_of(study), space, queued):
            # What a user queues runs to its end. What is repeated after a crash runs as far as it was to run.
            return TrialPlan.of(trial) or steps.plan({}, steps.top)
        trials = [each for each in _trials_of(study) if each.number != trial.number]
        if any(each.constraints for each in trials):
            raise ValueError("BMBOSampler knows no constraints, but trials of this study have some; use GPSampler")
        if not space:
            # Nothing is known before the first trial has ended. Without common parameters, nothing can be learned.
            return steps.plan({}, steps.top if any(map(_ended_well, trials)) else 0)
        history = self._history(study, trials, space)
        query = self._suggested(history)
        if query is None:
            return steps.plan({}, 0)
        return steps.plan(history.problem.space.decode(query.unit), steps.top if queued else query.level)

    def _history(
        self, study: optuna.Study, trials: Sequence[FrozenTrial], space: Mapping[str, BaseDistribution]
    ) -> History:
        first, *further = as_objectives(study.directions)
        several = (first, *further) if further else ()
        history = history_of(trials, space, self._steps, maximise=first.maximise, objectives=several)
        check_demands(self._policy, history.problem)
        return history

    def _suggested(self, history: History) -> Query | None:
        """Return what to run next; None while the method waits for what is in flight, or can pay for nothing."""
        if self._last is None or self._last[0] != history:
            carry = self._carry if self._last is not None and self._last[0].problem == history.problem else None
            queries, self._carry = self._policy.suggest(self._seed, history, 1, carry)
            self._last = history, queries[0] if queries else None
        return self._last[1]


class BMBOPruner(BasePruner):
    """Stop a trial at the fidelity that `BMBOSampler` chose for it, unless the method then wants the trial to go on.

    When a trial has reported at the step of its fidelity, the method is asked what to run next. If that is the same
    configuration at a higher fidelity, the trial goes on to there. Otherwise it is pruned.

    Example:
        >>> study = optuna.create_study(sampler=BMBOSampler(fidelities=[1, 9, 27]), pruner=BMBOPruner())
    """

    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        """Return whether a trial has gone far enough."""
        sampler, plan = study.sampler, TrialPlan.of(trial)
        if isinstance(sampler, BMBOSampler):
            if not sampler.has_fidelities:
                raise ValueError(
                    "BMBOPruner stops trials at fidelities, but the sampler has only one; write for example "
                    "BMBOSampler(fidelities={1: 1.0, 9: 9.0, 27: 27.0}), or choose another pruner"
                )
            return sampler.is_to_stop(study, trial)
        if plan is None:
            raise ValueError(
                f"BMBOPruner stops trials where BMBOSampler says, but the sampler of this study is a "
                f"{type(sampler).__name__}; give sampler=BMBOSampler(fidelities=...)"
            )
        return plan.is_over(trial)  # a sampler that wraps ours, such as PartialFixedSampler


def _ended_well(trial: FrozenTrial) -> bool:
    return trial.state in (TrialState.COMPLETE, TrialState.PRUNED)


def _trials_of(study: optuna.Study) -> list[FrozenTrial]:
    """Return all trials of a study; wait for its storage if that is away."""
    return with_retries(lambda: study.get_trials(deepcopy=False))


def _check_objectives(study: optuna.Study, steps: Steps) -> None:
    """Raise ValueError if there are too many objectives, or several with fidelities: Optuna takes no reports then."""
    if len(study.directions) == 1:
        return
    as_objectives(study.directions)
    if steps.top:
        raise ValueError(
            f"BMBOSampler has fidelities, and the study has {len(study.directions)} objectives, for which trials of "
            "Optuna cannot report; leave the fidelities out, or use bmbo.create_study(directions=[...]), which has both"
        )


def _stop(study: optuna.Study, spent: float, total_cost: float) -> None:
    logger.info("the study ends: its trials cost %g of %g, too much for one more to the last step", spent, total_cost)
    try:
        study.stop()
    except RuntimeError:
        logger.warning("nothing is left of total_cost=%g; ask for no more trials", total_cost)  # ask and tell
