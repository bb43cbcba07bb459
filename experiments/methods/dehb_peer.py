"""Run DEHB through its ask-and-tell interface."""

# Peers are imported where a run is made, and may be missing.
# ruff: noqa: PLC0415
# pyright: reportMissingImports=false

import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from bmbo import Problem
from experiments.harness.method_interface import Job, Start
from experiments.methods.peer_support import PeerSpace, Rungs, loss_of, require, rung_method, to_configspace

FAILED = sys.float_info.max
"""The fitness of a failure: the worst finite number. DEHB knows no failures, only compares fitness values, and reads
infinity as "not evaluated"."""


class _Run:
    """Run DEHB, with a temporary folder for its files."""

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
            # More workers would start Dask processes, which ask and tell do not use.
            n_workers=1,
            save_freq="end",
            output_path=self._folder.name,
        )
        # DEHB logs to the screen and, through a thread, to its folder.
        logger.remove()
        self._flying: list[Any] = []

    def ask(self) -> list[Job]:
        """Return the next jobs, see `Optimiser`."""
        self._flying = [self._dehb.ask() for _ in range(self._batch_size)]
        return [
            Job(self._space.from_peer(dict(info["config"])), self._rungs.level(info["fidelity"]))
            for info in self._flying
        ]

    def tell(self, jobs: list[Job], values: list[float]) -> None:
        """Tell the peer the values, see `Optimiser`."""
        for info, job, value in zip(self._flying, jobs, values, strict=True):
            loss = loss_of(self._problem, value)
            cost = self._problem.ladder.costs[job.level]
            self._dehb.tell(info, {"fitness": FAILED if loss is None else loss, "cost": cost})

    def recommend(self) -> None:
        """Return None, which stands for the best value observed; DEHB's own incumbent mixes all fidelities."""


def _make(problem: Problem, seed: int, batch_size: int, starts: Sequence[Start], total_cost: float) -> _Run:
    """Start a run. This is a `Factory`."""
    del starts, total_cost
    require("dehb", "ConfigSpace")
    return _Run(problem, seed, batch_size)


ENTRIES = (
    rung_method(
        "dehb",
        _make,
        paper="Awad et al. 2021, DEHB: Evolutionary Hyperband for Scalable, Robust and Efficient HPO",
        where="DEHB, ask and tell",
        differs="A failure is told as the worst finite fitness. A promoted configuration is "
        "evaluated again and charged in full. Takes no starts: the package refuses results that it did not ask for",
        packages=("DEHB", "ConfigSpace"),
    ),
)
