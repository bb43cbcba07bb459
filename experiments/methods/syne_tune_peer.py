"""Run ASHA and BOHB of Syne Tune: call its schedulers as its tuner does, without a backend."""

# Peers are imported where a run is made, and may be missing.
# ruff: noqa: PLC0415
# pyright: reportMissingImports=false

import datetime
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from bmbo import Problem
from experiments.harness.method_interface import Start
from experiments.methods.peer_support import Climb, GlobalNumPy, PeerSpace, Rungs, loss_of, require, rung_method

METRIC, RESOURCE = "loss", "resource"


class _Run:
    """Run one scheduler of Syne Tune."""

    def __init__(self, problem: Problem, scheduler: Any, space: PeerSpace, rungs: Rungs, seed: int) -> None:
        self._problem = problem
        self._scheduler = scheduler
        self._space = space
        self._rungs = rungs
        # Brackets and some random configurations are drawn from NumPy's global generator.
        self._numpy = GlobalNumPy(seed)
        self._num_trials = 0

    def begin(self) -> tuple[Any, Mapping[str, Any]] | None:
        """Return a new trial and its configuration, or None if the space is exhausted."""
        from syne_tune.backend.trial_status import Trial

        with self._numpy.held():
            suggestion = self._scheduler.suggest()
            if suggestion is None:
                return None
            trial = Trial(self._num_trials, suggestion.config, datetime.datetime.now(tz=datetime.UTC))
            self._num_trials += 1
            self._scheduler.on_trial_add(trial)
        return trial, self._space.from_peer(trial.config)

    def report(self, trial: Any, level: int, value: float) -> bool:
        """Tell the scheduler a value, and return whether the trial goes on."""
        from syne_tune.optimizer.scheduler import SchedulerDecision

        loss = loss_of(self._problem, value)
        with self._numpy.held():
            if loss is None:
                self._scheduler.on_trial_error(trial)
                return False
            result = {METRIC: loss, RESOURCE: self._rungs.budget(level)}
            going = self._scheduler.on_trial_result(trial, result) == SchedulerDecision.CONTINUE
            if not going:
                self._scheduler.on_trial_remove(trial)
        return going


def _config_space(space: PeerSpace) -> dict[str, Any]:
    from syne_tune import config_space

    found: dict[str, Any] = {}
    for name, shown in space.ranges.items():
        if shown.kind == "choice":
            found[name] = config_space.choice(list(range(shown.num_choices)))
        elif shown.kind == "integer":
            kind = config_space.lograndint if shown.log else config_space.randint
            found[name] = kind(int(shown.low), int(shown.high))
        else:
            found[name] = (config_space.loguniform if shown.log else config_space.uniform)(shown.low, shown.high)
    return found


def _make(
    problem: Problem, seed: int, batch_size: int, starts: Sequence[Start], total_cost: float, *, scheduler: str
) -> Climb:
    """Start a run. With `scheduler`, a class of `syne_tune.optimizer.baselines`, fixed this is a `Factory`."""
    del starts, total_cost
    require("syne_tune")
    from syne_tune.optimizer import baselines

    logging.getLogger("syne_tune").setLevel(logging.ERROR)
    space, rungs = PeerSpace(problem.space), Rungs.of(problem.ladder)
    made = getattr(baselines, scheduler)(
        config_space=_config_space(space),
        metric=METRIC,
        time_attr=RESOURCE,
        max_t=rungs.largest,
        grace_period=rungs.smallest,
        reduction_factor=rungs.eta,
        do_minimize=True,
        random_seed=seed,
    )
    run = _Run(problem, made, space, rungs, seed)
    return Climb(range(problem.ladder.num_levels), batch_size, run.begin, run.report)


DIFFERS = (
    "One bracket, which is the default. The stopping variant, because the package has no other any more. A trial that "
    "goes on is charged each level in full: nothing is continued. Values outside their bounds, which the density "
    "estimator gives for integers, are moved to the nearest bound. Takes no starts"
)

PACKAGES = ("syne-tune",)

ENTRIES = tuple(
    rung_method(
        name,
        partial(_make, scheduler=scheduler),
        paper,
        f"Syne Tune, optimizer.baselines.{scheduler}",
        DIFFERS,
        packages=PACKAGES,
    )
    for name, scheduler, paper in (
        ("syne_asha", "ASHA", "Li et al. 2020, A System for Massively Parallel Hyperparameter Tuning"),
        ("syne_bohb", "BOHB", "Falkner et al. 2018, BOHB, over ASHA"),
    )
)
