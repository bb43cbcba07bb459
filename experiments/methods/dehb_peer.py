"""DEHB, asked and told."""

# ruff: noqa: PLC0415 - peers are imported where a run is made

import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from bmbo import Problem
from experiments.harness.contract import Job, MethodEntry, Start
from experiments.methods.peer_support import PeerSpace, Rungs, loss_of, require, to_configspace

FAILED = sys.float_info.max
"""The worst finite fitness: DEHB has no failures, compares only, and takes infinity for "not evaluated"."""


class _Run:
    """One run, with the folder that DEHB wants for its files."""

    def __init__(self, problem: Problem, seed: int, batch_size: int) -> None:
        from dehb import DEHB
        from loguru import logger

        self._problem = problem
        self._space = PeerSpace(problem.space)
        self._rungs = Rungs.of(problem.ladder)
        self._batch_size = batch_size
        self._folder = tempfile.TemporaryDirectory(prefix="dehb-")
        self._dehb = DEHB(
            cs=to_configspace(self._space, seed),
            f=None,
            min_fidelity=self._rungs.smallest,
            max_fidelity=self._rungs.largest,
            eta=self._rungs.eta,
            seed=seed,
            # More would start processes of Dask, which asking and telling does not use.
            n_workers=1,
            save_freq="end",
            output_path=self._folder.name,
        )
        # It logs to the screen and, through a thread, to its folder.
        logger.remove()
        self._flying: list[Any] = []

    def ask(self) -> list[Job]:
        """See `Optimiser`."""
        self._flying = [self._dehb.ask() for _ in range(self._batch_size)]
        return [
            Job(self._space.from_peer(dict(info["config"])), self._rungs.level(info["fidelity"]))
            for info in self._flying
        ]

    def tell(self, jobs: list[Job], values: list[float]) -> None:
        """See `Optimiser`."""
        for info, job, value in zip(self._flying, jobs, values, strict=True):
            loss = loss_of(self._problem, value)
            cost = self._problem.ladder.costs[job.level]
            self._dehb.tell(info, {"fitness": FAILED if loss is None else loss, "cost": cost})

    def recommend(self) -> None:
        """The best observed: DEHB's own incumbent is the best over all fidelities."""


def _make(problem: Problem, seed: int, batch_size: int, starts: Sequence[Start], total_cost: float) -> _Run:
    """A `Factory`."""
    del starts, total_cost
    require("dehb", "ConfigSpace")
    return _Run(problem, seed, batch_size)


ENTRIES = (
    MethodEntry(
        name="dehb",
        factory=_make,
        takes_starts=False,
        batch=True,
        paper="Awad et al. 2021, DEHB: Evolutionary Hyperband for Scalable, Robust and Efficient HPO",
        where="DEHB, ask and tell",
        differs="budgets eta^m for level m, eta the mean ratio of neighbouring costs as a whole number, so that rungs "
        "are levels. A failure is told as the worst finite fitness. A configuration promoted is evaluated anew and "
        "charged in full. Takes no starts: the package refuses results that it did not ask for",
        packages=("DEHB", "ConfigSpace"),
    ),
)
