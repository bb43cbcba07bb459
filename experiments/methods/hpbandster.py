"""Hyperband and BOHB of HpBandSter, asked and told.

HpBandSter is built around a master that sends jobs to workers through a name server. What decides is apart from that:
configuration generators, iterations of successive halving and the master's two steps, "what runs next" and "a job has
ended". These are the original's code here; only the network between them is left out, which is where the package hangs
under NumPy 2 (its transport refuses NumPy's scalars in a thread of its own).
"""

# ruff: noqa: PLC0415 - peers are imported where a run is made

import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

from bmbo import Problem
from experiments.harness.contract import Job, MethodEntry, Start
from experiments.methods.peer_support import GlobalNumPy, PeerSpace, Rungs, loss_of, require, to_configspace


def _unplugged(optimiser: str) -> type:
    """The class HyperBand or BOHB over a master without a dispatcher: the order of bases puts ours under it."""
    from hpbandster import optimizers
    from hpbandster.core.master import Master

    class Unplugged(Master):
        def __init__(self, config_generator: Any) -> None:
            # What the original's steps read; its own __init__ would also start threads and look for a name server.
            self.config_generator = config_generator
            self.iterations: list[Any] = []
            self.config: dict[str, Any] = {}
            self.result_logger = None
            self.logger = config_generator.logger
            self.thread_cond = threading.Condition()
            self.num_running_jobs = 0
            self.job_queue_sizes = (0, 1)

    return type(f"Unplugged{optimiser}", (getattr(optimizers, optimiser), Unplugged), {})


class _Run:
    """One run; jobs of a batch are in flight together, as with `batch_size` workers of equal speed."""

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
        """See `Optimiser`."""
        with self._numpy.held():
            self._flying = [self._next() for _ in range(self._batch_size)]
        return [
            Job(self._space.from_peer(job.kwargs["config"]), self._rungs.level(job.kwargs["budget"]))
            for job in self._flying
        ]

    def tell(self, jobs: list[Job], values: list[float]) -> None:
        """See `Optimiser`."""
        with self._numpy.held():
            for flying, _, value in zip(self._flying, jobs, values, strict=True):
                loss = loss_of(self._problem, value)
                if loss is None:
                    flying.exception = "the evaluation failed"
                else:
                    flying.result = {"loss": loss, "info": {}}
                self._master.job_callback(flying)

    def recommend(self) -> None:
        """The best observed."""

    def _next(self) -> Any:
        """What `Master.run` would submit now; where all wait for results it opens the next iteration, as it does."""
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
    """A `Factory` but for the class of `hpbandster.optimizers`."""
    del starts, total_cost
    require("hpbandster", "ConfigSpace")
    space, rungs = PeerSpace(problem.space), Rungs.of(problem.ladder)
    master = _unplugged(optimiser)(
        configspace=to_configspace(space, seed),
        eta=rungs.eta,
        min_budget=rungs.smallest,
        max_budget=rungs.largest,
    )
    return _Run(master, problem, space, rungs, seed=seed, batch_size=batch_size)


DIFFERS = (
    "budgets eta^m for level m, eta the mean ratio of neighbouring costs as a whole number, so that rungs are levels; "
    "iterations follow one another without end. No name server and no workers: the original's generators, iterations "
    "and master's steps are called in this process, a batch in flight at once. A configuration promoted is evaluated "
    "anew and charged in full. Takes no starts"
)

ENTRIES = tuple(
    MethodEntry(
        name=name,
        factory=partial(_make, optimiser=optimiser),
        takes_starts=False,
        batch=True,
        paper=paper,
        where=f"HpBandSter, optimizers.{optimiser}",
        differs=DIFFERS,
        packages=("hpbandster", "ConfigSpace"),
    )
    for name, optimiser, paper in (
        ("hyperband", "HyperBand", "Li et al. 2018, Hyperband: A Novel Bandit-Based Approach"),
        ("bohb", "BOHB", "Falkner et al. 2018, BOHB: Robust and Efficient Hyperparameter Optimization at Scale"),
    )
)
