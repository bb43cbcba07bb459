"""Chain Gaussian processes as the paper chains its networks, and decide how far each link can be trusted.

The levels are learned one after the other, each from its own observations and the outputs of the lower levels there.
Rival models of a level are weighed by their evidence: without lower outputs, linear in them, or bent in them; smooth or
rough. So a useless lower level does no harm, and a good one is used.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray
from threadpoolctl import threadpool_limits

from bmbo.history import Dataset
from bmbo.surrogates.gp import level_model as model
from bmbo.surrogates.gp.chained_draws import ChainPosterior, Links, seen
from bmbo.surrogates.gp.hyperparameter_draws import Draws, Rival, check_num_hyper, search
from bmbo.surrogates.gp.kernels import ROUGHNESS, Floats, Kernel, check_kernels
from bmbo.surrogates.gp.pathwise_draws import LevelDraws, condition, drawn_rows

Coupling = Literal["alone", "linear", "bent"]

LINK_ODDS = 3.0
"""Log prior odds against a link, twenty to one: this is called strong evidence (Kass and Raftery 1995).

With even odds, Branin's misleading levels cost 0.45 nats per test point at 25 observations. With these odds they cost
0.09. On Levy, where the link is real, nothing changed.
"""

Warm = tuple[Floats, ...]
"""The best hyperparameters of every rival model, one row each, for every level."""


@dataclass(frozen=True)
class ChainInfo:
    """Describe what a fit found.

    Attributes:
        rivals: kernel and coupling of each rival model, for each level.
        shares: their posterior probabilities.
        log_evidence: log evidence of each level's values given the lower levels, without the constant of Gaussians.
    """

    rivals: tuple[tuple[tuple[Kernel, Coupling], ...], ...]
    shares: tuple[tuple[float, ...], ...]
    log_evidence: tuple[float, ...]


@dataclass(frozen=True)
class AutoRegressiveGP:
    """Learn with a deep auto-regressive Gaussian process.

    Args:
        kernels: kernels of the processes over the cube, weighed by evidence.
        couplings: how lower outputs may enter, weighed by evidence too.
        links: which lower levels a level sees.
        num_functions: number of draws in the posterior.
        num_hyper: number of draws of the hyperparameters among them; must divide `num_functions`. With 1, the best
            maximum is used.
        num_features: number of random Fourier features of a prior draw.
        num_proposals: number of draws that weigh each rival.
        num_lower: number of draws of the lower outputs over which their explanation of the values is averaged.
        max_steps: most steps of a search for a maximum.
    """

    kernels: tuple[Kernel, ...] = ("rbf", "matern52")
    couplings: tuple[Coupling, ...] = ("alone", "linear", "bent")
    links: Links = "all"
    num_functions: int = 256
    num_hyper: int = 16
    num_features: int = 512
    num_proposals: int = 32
    num_lower: int = 8
    max_steps: int = 60

    def __post_init__(self) -> None:
        check_kernels(self.kernels)
        if not self.couplings or not set(self.couplings) <= set(get_args(Coupling)):
            raise ValueError(f"couplings must be some of {', '.join(get_args(Coupling))}; got {self.couplings!r}")
        if self.links not in get_args(Links):
            raise ValueError(f"links must be one of {', '.join(get_args(Links))}; got {self.links!r}")
        check_num_hyper(self.num_hyper, self.num_functions)

    def fit(self, key: PRNGKeyArray, data: Dataset, warm: Warm | None = None) -> tuple[ChainPosterior, Warm, ChainInfo]:
        """See `Surrogate`; `warm` holds the best hyperparameters of each rival model."""
        with threadpool_limits(1, user_api="blas"):  # matrices are small: more threads would only wait for each other
            return self._fit(np.random.default_rng(np.asarray(jax.random.bits(key, (4,)))), data, warm)

    def _fit(
        self, rng: np.random.Generator, data: Dataset, warm: Warm | None
    ) -> tuple[ChainPosterior, Warm, ChainInfo]:
        posterior = ChainPosterior((), self.links)
        found: list[Draws] = []
        for level in range(data.num_levels):
            draws, hyper = self._fit_level(rng, data, posterior, None if warm is None else warm[level])
            posterior = ChainPosterior((*posterior.levels, draws), self.links)
            found.append(hyper)
        info = ChainInfo(
            rivals=tuple(self._rivals(level) for level in range(data.num_levels)),
            shares=tuple(tuple(float(share) for share in level.shares) for level in found),
            log_evidence=tuple(level.log_evidence for level in found),
        )
        return posterior, tuple(level.modes for level in found), info

    def _fit_level(
        self, rng: np.random.Generator, data: Dataset, below: ChainPosterior, warm: Floats | None
    ) -> tuple[LevelDraws, Draws]:
        """Return the functions and the hyperparameters of the next level above the given ones."""
        level = len(below.levels)
        rows = data.rows(level)
        mask = np.asarray(data.mask[rows])
        unit, value = (np.asarray(part[rows], np.float64)[mask] for part in (data.unit, data.value))
        num_rows, lower = drawn_rows(len(value)), np.zeros((self.num_functions, len(value), 0))
        if below.levels:
            room = np.zeros((num_rows, unit.shape[1]), np.float32)
            room[: len(value)] = unit
            outputs = np.asarray(below.draw(jnp.asarray(room)), np.float64)
            lower = outputs[:, : len(value), seen(level, self.links)]
        dim, num_lower = unit.shape[1], lower.shape[-1]
        rivals = self._rivals(level)
        structures = [
            model.Structure(ROUGHNESS[kernel], coupling != "alone", coupling == "bent") for kernel, coupling in rivals
        ]
        some = lower[:: max(1, self.num_functions // self.num_lower)]
        models = [
            Rival(
                model.Evidence(unit, some, value, structure),
                model.free(structure, dim, num_lower),
                model.starts(dim, num_lower) if warm is None else [warm[place]],
                model.prior(dim, num_lower)[1],
                -LINK_ODDS if structure.linked else 0.0,
            )
            for place, structure in enumerate(structures)
        ]
        found = search(rng, models, num=self.num_hyper, num_proposals=self.num_proposals, max_steps=self.max_steps)
        drawn = zip(found.flat, found.owner, strict=True)
        hypers = [model.Hyper.of(flat, dim, structures[owner]) for flat, owner in drawn]
        draws = condition(rng, unit, lower, value, hypers, num_features=self.num_features, num_rows=num_rows)
        return draws, found

    def _rivals(self, level: int) -> tuple[tuple[Kernel, Coupling], ...]:
        """Return the kernels and couplings that a level weighs; a level that sees no other has nothing to couple."""
        alone = seen(level, self.links) == slice(level, level) or level == 0
        couplings: Sequence[Coupling] = ("alone",) if alone else self.couplings
        return tuple((kernel, coupling) for coupling in couplings for kernel in self.kernels)
