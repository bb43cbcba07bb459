"""Run Optuna through ask and tell: its Gaussian process and TPE at the top fidelity, and TPE with Hyperband."""

# Peers are imported where a run is made, and may be missing.
# ruff: noqa: PLC0415

import math
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from bmbo import Problem
from experiments.harness.method_interface import MethodEntry, Start
from experiments.methods.peer_support import Climb, PeerSpace, Rungs, require


class _Run:
    """Run an Optuna study in memory. Results below the top are intermediate values of its trials."""

    def __init__(self, problem: Problem, study: Any, space: PeerSpace, rungs: Rungs) -> None:
        self._study = study
        self._space = space
        self._rungs = rungs
        self._top = problem.ladder.top
        self._distributions = _distributions(space)

    def begin(self) -> tuple[Any, Mapping[str, Any]]:
        """Return a new trial of the study and its configuration."""
        trial = self._study.ask(self._distributions)
        return trial, self._space.from_peer(trial.params)

    def report(self, trial: Any, level: int, value: float) -> bool:
        """Tell Optuna a value, and return whether the trial goes on. The top level ends a trial."""
        from optuna.trial import TrialState

        if not math.isfinite(value):
            self._study.tell(trial, state=TrialState.FAIL)
        elif level == self._top:
            self._study.tell(trial, value)
        else:
            trial.report(value, step=self._rungs.budget(level))
            if not trial.should_prune():
                return True
            self._study.tell(trial, state=TrialState.PRUNED)
        return False

    def add_start(self, start: Start) -> None:
        """Add an evaluation of the starting design: complete at the top, and pruned at its level otherwise."""
        from optuna.trial import TrialState, create_trial

        job, value = start
        known: dict[str, Any] = {"state": TrialState.FAIL}
        if math.isfinite(value) and job.level == self._top:
            known = {"state": TrialState.COMPLETE, "value": value}
        elif math.isfinite(value):
            step = self._rungs.budget(job.level)
            known = {"state": TrialState.PRUNED, "intermediate_values": {step: value}}
        params = self._space.to_peer(job.config)
        self._study.add_trial(create_trial(params=params, distributions=self._distributions, **known))


def _distributions(space: PeerSpace) -> dict[str, Any]:
    from optuna import distributions

    found: dict[str, Any] = {}
    for name, shown in space.ranges.items():
        if shown.kind == "choice":
            found[name] = distributions.CategoricalDistribution(list(range(shown.num_choices)))
        elif shown.kind == "integer":
            found[name] = distributions.IntDistribution(int(shown.low), int(shown.high), log=shown.log)
        else:
            found[name] = distributions.FloatDistribution(shown.low, shown.high, log=shown.log)
    return found


def _make(
    problem: Problem,
    seed: int,
    batch_size: int,
    starts: Sequence[Start],
    total_cost: float,
    *,
    sampler: str,
    climbs: bool = False,
) -> Climb:
    """Start a run. With `sampler`, a class, and `climbs` fixed this is a `Factory`.

    `climbs` says whether trials begin at the lowest level.
    """
    del total_cost
    require("optuna", *(["torch"] if sampler == "GPSampler" else []))
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    rungs = Rungs.of(problem.ladder)
    pruner = optuna.pruners.NopPruner()
    if climbs:
        pruner = optuna.pruners.HyperbandPruner(min_resource=1, max_resource=rungs.largest, reduction_factor=rungs.eta)
    with warnings.catch_warnings():
        # We know that the sampler is experimental.
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        made = getattr(optuna.samplers, sampler)(seed=seed)
    study = optuna.create_study(
        # The pruner assigns trials to brackets by a hash of this name. Without a name, Optuna draws a random one.
        study_name=f"seed-{seed}",
        sampler=made,
        pruner=pruner,
        direction="maximize" if problem.maximise else "minimize",
    )
    run = _Run(problem, study, PeerSpace(problem.space), rungs)
    levels = range(problem.ladder.num_levels) if climbs else [problem.ladder.top]
    for start in starts:
        if start[0].level in levels:
            run.add_start(start)
    return Climb(levels, batch_size, run.begin, run.report)


TPE = "Bergstra et al. 2011, Algorithms for Hyper-Parameter Optimization"
TOP_ONLY = (
    "stock settings; top fidelity alone, so that of the starts it uses those at the top; a batch is asked one after "
    "the other, running trials known to the sampler"
)

ENTRIES = (
    MethodEntry(
        name="optuna_gp",
        factory=partial(_make, sampler="GPSampler"),
        takes_starts=True,
        batch=True,
        paper="Gaussian process with log expected improvement (Ament et al. 2023)",
        where="Optuna, samplers.GPSampler",
        differs=TOP_ONLY,
        packages=("optuna", "torch"),
    ),
    MethodEntry(
        name="optuna_tpe",
        factory=partial(_make, sampler="TPESampler"),
        takes_starts=True,
        batch=True,
        paper=TPE,
        where="Optuna, samplers.TPESampler",
        differs=TOP_ONLY,
        packages=("optuna",),
    ),
    MethodEntry(
        name="optuna_tpe_hyperband",
        factory=partial(_make, sampler="TPESampler", climbs=True),
        takes_starts=True,
        batch=True,
        paper=f"{TPE}; Li et al. 2018, Hyperband",
        where="Optuna, samplers.TPESampler and pruners.HyperbandPruner",
        differs="level m is reported as step eta^m, eta the mean ratio of neighbouring costs as a whole number, so "
        "that rungs are levels. A trial starts at the lowest level whatever its bracket, as an objective that reports "
        "at every step does, and each level is charged in full: nothing is continued. Starts below the top are added "
        "as pruned trials, which the sampler learns from and the pruner does not rank",
        packages=("optuna",),
    ),
)
