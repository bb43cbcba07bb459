"""Run BoTorch's multi-fidelity max-value entropy search, one query at a time or in greedy batches of five."""

# Peers are imported where a run is made, and may be missing.
# ruff: noqa: PLC0415
# pyright: reportMissingImports=false

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks import botorch_peer
from bmbo import Problem
from experiments.harness.method_interface import Job, MethodEntry, Start
from experiments.methods.peer_support import require

NUM_RESTARTS, RAW_SAMPLES = 10, 512
"""The search for the recommendation, as in BoTorch's tutorial."""


class _Run:
    """Run BoTorch. It holds points [n d + 1] of the unit cube with the fidelity last, their values, and the model.

    Larger values are better.
    """

    def __init__(self, problem: Problem, seed: int, num: int, starts: Sequence[Start]) -> None:
        self._problem = problem
        self._seed = seed
        self._num = num
        self._fidelities = botorch_peer.rank_fidelities(problem.ladder.num_levels)
        self._rows: list[list[float]] = []
        self._levels: list[int] = []
        self._values: list[float | None] = []
        self._model: Any = None
        self.tell([job for job, _ in starts], [value for _, value in starts])
        if not any(value is not None for value in self._values):
            raise ValueError("BoTorch's model needs an evaluated point to begin from; give it a start that succeeds")

    def ask(self) -> list[Job]:
        """Return the next jobs, see `Optimiser`."""
        from botorch.utils.sampling import manual_seed

        with manual_seed(self._next_seed()):
            model = self._fitted()
            rows = botorch_peer.select(model, self._fidelities, self._problem.ladder.costs, self._num)
        levels = np.abs(rows[:, -1:] - self._fidelities).argmin(axis=1)
        return [
            Job(self._problem.space.decode(row[:-1].tolist()), int(level))
            for row, level in zip(rows, levels, strict=True)
        ]

    def tell(self, jobs: list[Job], values: list[float]) -> None:
        """Tell the peer the values, see `Optimiser`."""
        for job, value in zip(jobs, values, strict=True):
            self._rows.append([*self._problem.space.encode(job.config), float(self._fidelities[job.level])])
            self._levels.append(job.level)
            self._values.append(self._problem.sign * value if math.isfinite(value) else None)
        self._model = None

    def recommend(self) -> Mapping[str, Any]:
        """Return the configuration with the largest posterior mean at the top, as in BoTorch's tutorial."""
        import torch
        from botorch.acquisition import PosteriorMean
        from botorch.acquisition.fixed_feature import FixedFeatureAcquisitionFunction
        from botorch.optim.optimize import optimize_acqf
        from botorch.utils.sampling import manual_seed

        dim = self._problem.space.dim
        with manual_seed(self._next_seed()):
            mean = FixedFeatureAcquisitionFunction(
                PosteriorMean(self._fitted()), d=dim + 1, columns=[dim], values=[1.0]
            )
            best, _ = optimize_acqf(
                mean,
                bounds=torch.tensor([[0.0] * dim, [1.0] * dim], dtype=torch.double),
                q=1,
                num_restarts=NUM_RESTARTS,
                raw_samples=RAW_SAMPLES,
                options=botorch_peer.OPTIONS,
            )
        return self._problem.space.decode(best[0].tolist())

    def _fitted(self) -> Any:
        """Return the model of all values. A failure counts as the worst value of its level, or of all levels."""
        import torch

        if self._model is None:
            known = [
                (level, value) for level, value in zip(self._levels, self._values, strict=True) if value is not None
            ]
            worst = {level: min(v for other, v in known if other == level) for level, _ in known}
            lowest = min(worst.values())
            values = [
                worst.get(level, lowest) if value is None else value
                for level, value in zip(self._levels, self._values, strict=True)
            ]
            rows = torch.tensor(self._rows, dtype=torch.double)
            self._model = botorch_peer.fit(rows, torch.tensor(values, dtype=torch.double))
        return self._model

    def _next_seed(self) -> int:
        return int(np.random.SeedSequence((self._seed, len(self._rows))).generate_state(1)[0])


def _make(
    problem: Problem, seed: int, batch_size: int, starts: Sequence[Start], total_cost: float, *, num: int
) -> _Run:
    """Start a run. With `num`, the largest batch, fixed this is a `Factory`."""
    del total_cost
    require("torch", "botorch")
    return _Run(problem, seed, min(num, batch_size), starts)


PAPER = "Takeno et al. 2020, Multi-fidelity Bayesian Optimization with Max-value Entropy Search"
DIFFERS = (
    "BoTorch's tutorial on discrete fidelities with max-value entropy in place of the knowledge gradient and exact "
    "costs, nothing tuned. Levels are evenly spaced by rank in the fidelity's column. Steps, integers and choices are "
    "searched as reals of the unit cube (a choice has a coordinate each) and rounded when evaluated. A failure counts "
    "as the worst value of its level. Recommends the largest posterior mean at the top"
)

ENTRIES = tuple(
    MethodEntry(
        name=f"botorch_mes_{num}",
        factory=partial(_make, num=num),
        takes_starts=True,
        batch=num > 1,
        paper=PAPER,
        where="BoTorch, qMultiFidelityMaxValueEntropy and optimize_acqf_mixed",
        differs=f"{DIFFERS}; {how}",
        packages=("botorch", "gpytorch", "torch"),
    )
    for num, how in ((1, "one at a time"), (5, "batches of up to five, chosen greedily with fantasies"))
)
