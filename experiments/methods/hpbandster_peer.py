"""Run Hyperband and BOHB of HpBandSter without its network.

HpBandSter has a master that sends jobs to workers through a name server. The decisions are made in other parts: the
configuration generators, the iterations of successive halving, and two steps of the master ("what runs next" and "a job
has ended"). This module calls the original code of these parts. It leaves out the network, because that hangs under
NumPy 2: the transport refuses NumPy's scalars in one of its threads.
"""

# Peers are imported where a run is made, and may be missing.
# ruff: noqa: PLC0415
# pyright: reportMissingImports=false, reportUntypedBaseClass=false

import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

from bmbo import Problem
from experiments.harness.method_interface import Job, Start
from experiments.methods.peer_support import (
    GlobalNumPy,
    PeerSpace,
    Rungs,
    loss_of,
    require,
    rung_method,
    to_configspace,
)


def _without_network(optimiser: str) -> type:
    """Return the class HyperBand or BOHB with a master that has no dispatcher as its base class."""
    from hpbandster import optimizers
    from hpbandster.core.master import Master

    class MasterWithoutNetwork(Master):
        def __init__(self, config_generator: Any) -> None:
            # These are the attributes that the original's steps read. The original __init__ would also start threads
            # and look for a name server.
            self.config_generator = config_generator
            self.iterations: list[Any] = []
            self.config: dict[str, Any] = {}
            self.result_logger = None
            self.logger = config_generator.logger
            self.thread_cond = threading.Condition()
            self.num_running_jobs = 0
            self.job_queue_sizes = (0, 1)

    # The order of the base classes puts our master below the optimiser.
    return type(f"{optimiser}WithoutNetwork", (getattr(optimizers, optimiser), MasterWithoutNetwork), {})


class _Run:
    """Run HpBandSter. The jobs of a batch run together, as with `batch_size` workers of equal speed."""

    def __init__(
        self, master: Any, problem: Problem, space: PeerSpace, rungs: Rungs, *, seed: int, batch_size: int
    ) -> None:
        self._master = master
        self._problem = problem
        self._space = space
        self._rungs = rungs
        self._batch_size = batch_size
        self._numpy = GlobalNumPy(seed)
        self._flying: list[Any] = []

    def ask(self) -> list[Job]:
        """Return the next jobs, see `Optimiser`."""
        with self._numpy.held():
            self._flying = [self._next() for _ in range(self._batch_size)]
        return [
            Job(self._space.from_peer(job.kwargs["config"]), self._rungs.level(job.kwargs["budget"]))
            for job in self._flying
        ]

    def tell(self, jobs: list[Job], values: list[float]) -> None:
        """Tell the peer the values, see `Optimiser`."""
        with self._numpy.held():
            for flying, _, value in zip(self._flying, jobs, values, strict=True):
                loss = loss_of(self._problem, value)
                if loss is None:
                    flying.exception = "the evaluation failed"
                else:
                    flying.result = {"loss": loss, "info": {}}
                self._master.job_callback(flying)

    def recommend(self) -> None:
        """Return None, which stands for the best value observed."""

    def _next(self) -> Any:
        """Return the job that `Master.run` would submit now. Like it, open a new iteration if all others wait."""
        from hpbandster.core.dispatcher import Job as PeerJob

        while True:
            for index in self._master.active_iterations():
                found = self._master.iterations[index].get_next_run()
                if found is not None:
                    config_id, config, budget = found
                    self._master.num_running_jobs += 1
                    return PeerJob(config_id, config=config, budget=budget)
            self._master.iterations.append(self._master.get_next_iteration(len(self._master.iterations), {}))


def _make(
    problem: Problem, seed: int, batch_size: int, starts: Sequence[Start], total_cost: float, *, optimiser: str
) -> _Run:
    """Start a run. With `optimiser`, the class of `hpbandster.optimizers`, fixed this is a `Factory`."""
    del starts, total_cost
    require("hpbandster", "ConfigSpace")
    space, rungs = PeerSpace(problem.space), Rungs.of(problem.ladder)
    master = _without_network(optimiser)(
        configspace=to_configspace(space, seed),
        eta=rungs.eta,
        min_budget=rungs.smallest,
        max_budget=rungs.largest,
    )
    return _Run(master, problem, space, rungs, seed=seed, batch_size=batch_size)


DIFFERS = (
    "Iterations follow one another without end. There is no name server and there are no workers: the generators, "
    "iterations and master's steps of the original are called in this process, and a batch runs at once. A "
    "promoted configuration is evaluated again and charged in full. Takes no starts"
)

PACKAGES = ("hpbandster", "ConfigSpace")

ENTRIES = tuple(
    rung_method(
        name,
        partial(_make, optimiser=optimiser),
        paper,
        f"HpBandSter, optimizers.{optimiser}",
        DIFFERS,
        packages=PACKAGES,
    )
    for name, optimiser, paper in (
        ("hyperband", "HyperBand", "Li et al. 2018, Hyperband: A Novel Bandit-Based Approach"),
        ("bohb", "BOHB", "Falkner et al. 2018, BOHB: Robust and Efficient Hyperparameter Optimization at Scale"),
    )
)
