"""Run SMAC3 through ask and tell: its hyperparameter facade at the top fidelity, and its multi-fidelity facade."""

# Peers are imported where a run is made, and may be missing.
# ruff: noqa: PLC0415
# pyright: reportMissingImports=false

import math
import tempfile
from collections.abc import Sequence
from typing import Any

from bmbo import Problem
from experiments.harness.method_interface import Job, MethodEntry, Start
from experiments.methods.peer_support import PeerSpace, Rungs, loss_of, require, rung_method, to_configspace

SEED = 0
"""SMAC's seed for a deterministic objective."""

FEWEST_TRIALS = 4
"""SMAC allows its initial design a quarter of all trials, and the design needs one trial."""


class _Run:
    """Run one facade of SMAC. `rungs` is None if the facade uses no budgets."""

    def __init__(
        self, facade: Any, problem: Problem, space: PeerSpace, rungs: Rungs | None, *, batch_size: int, folder: Any
    ) -> None:
        self._facade = facade
        # A reference to the temporary folder, which is removed together with this object.
        self._folder = folder
        self._problem = problem
        self._space = space
        self._rungs = rungs
        self._batch_size = batch_size
        self._flying: list[Any] = []
        self._worst: dict[int, float] = {}

    def ask(self) -> list[Job]:
        """Return the next jobs, see `Optimiser`."""
        from smac.main.exceptions import ConfigurationSpaceExhaustedException

        self._flying = []
        while len(self._flying) < self._batch_size:
            try:
                self._flying.append(self._facade.ask())
            except (StopIteration, ConfigurationSpaceExhaustedException):
                break
        top = self._problem.ladder.top
        return [
            Job(
                self._space.from_peer(dict(info.config)), top if self._rungs is None else self._rungs.level(info.budget)
            )
            for info in self._flying
        ]

    def tell(self, jobs: list[Job], values: list[float]) -> None:
        """Tell the peer the values, see `Optimiser`."""
        for info, job, value in zip(self._flying, jobs, values, strict=True):
            self.tell_one(info, job.level, value)

    def tell_one(self, info: Any, level: int, value: float) -> None:
        """Tell SMAC one result, whether it has asked for it or not."""
        from smac.runhistory.dataclasses import TrialValue
        from smac.runhistory.enumerations import StatusType

        loss = loss_of(self._problem, value)
        if loss is None:
            # SMAC's default cost of a crash is infinity, which spoils the scaling of its surrogate's targets.
            told = TrialValue(cost=self._worst.get(level, 0.0), status=StatusType.CRASHED)
        else:
            self._worst[level] = max(loss, self._worst.get(level, loss))
            told = TrialValue(cost=loss)
        self._facade.tell(info, told, save=False)

    def recommend(self) -> None:
        """Return None, which stands for the best value observed."""


def _scenario(space: PeerSpace, seed: int, num_trials: float, folder: Any, **budgets: Any) -> Any:
    from smac import Scenario

    return Scenario(
        to_configspace(space, seed),
        deterministic=True,
        seed=seed,
        n_trials=max(math.ceil(num_trials), FEWEST_TRIALS),
        output_directory=folder.name,
        **budgets,
    )


def _single(problem: Problem, seed: int, batch_size: int, starts: Sequence[Start], total_cost: float) -> _Run:
    """Start a run at the top fidelity only. This is a `Factory`."""
    require("smac")
    from ConfigSpace import Configuration
    from smac import HyperparameterOptimizationFacade as Facade
    from smac.runhistory.dataclasses import TrialInfo

    top, space = problem.ladder.top, PeerSpace(problem.space)
    folder = tempfile.TemporaryDirectory(prefix="smac-")
    at_top = [(job, value) for job, value in starts if job.level == top]
    num_trials = len(at_top) + total_cost / problem.ladder.costs[top]
    scenario = _scenario(space, seed, num_trials, folder)
    configs = [Configuration(scenario.configspace, values=space.to_peer(job.config)) for job, _ in at_top]
    # As in SMAC's example of a warm start: the design is the evaluated configurations, and their results are told.
    design = Facade.get_initial_design(scenario, n_configs=0 if configs else None, additional_configs=list(configs))
    facade = Facade(scenario, initial_design=design, logging_level=False, overwrite=True)
    run = _Run(facade, problem, space, None, batch_size=batch_size, folder=folder)
    for config, (_, value) in zip(configs, at_top, strict=True):
        run.tell_one(TrialInfo(config=config, seed=SEED), top, value)
    return run


def _multi(problem: Problem, seed: int, batch_size: int, starts: Sequence[Start], total_cost: float) -> _Run:
    """Start a run with all fidelities. This is a `Factory`."""
    del starts
    require("smac")
    from smac import MultiFidelityFacade as Facade

    space, rungs = PeerSpace(problem.space), Rungs.of(problem.ladder)
    folder = tempfile.TemporaryDirectory(prefix="smac-")
    # Hyperband spends about the same on every level.
    num_trials = sum(total_cost / rungs.num / cost for cost in problem.ladder.costs)
    budgets = {"min_budget": rungs.smallest, "max_budget": rungs.largest}
    scenario = _scenario(space, seed, num_trials, folder, **budgets)
    intensifier = Facade.get_intensifier(scenario, eta=rungs.eta)
    facade = Facade(scenario, intensifier=intensifier, logging_level=False, overwrite=True)
    return _Run(facade, problem, space, rungs, batch_size=batch_size, folder=folder)


PAPER = "Lindauer et al. 2022, SMAC3: A Versatile Bayesian Optimization Package for Hyperparameter Optimization"
BOTH = (
    "A failure is told as a crash with the worst value seen at its level: the default, infinity, spoils the model. "
    "Repeats itself only where PYTHONHASHSEED is fixed: its local search walks a set of configurations hashed as text"
)

ENTRIES = (
    MethodEntry(
        name="smac",
        factory=_single,
        takes_starts=True,
        batch=True,
        paper=PAPER,
        where="SMAC3, HyperparameterOptimizationFacade",
        differs="stock settings (random forest, log expected improvement, model trained after every 8 configurations); "
        "top fidelity alone, so that of the starts it uses those at the top, in place of its own initial design. "
        f"{BOTH}",
        packages=("smac", "ConfigSpace"),
    ),
    rung_method(
        "smac_mf",
        _multi,
        paper=PAPER,
        where="SMAC3, MultiFidelityFacade",
        differs="Otherwise stock settings: its model learns from the highest budget with any result. "
        f"A promoted configuration is evaluated again and charged in full. Takes no starts. {BOTH}",
        packages=("smac", "ConfigSpace"),
    ),
)
