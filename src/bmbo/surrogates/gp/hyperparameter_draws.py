"""Hyperparameters of rival models: maxima from several starts, then draws weighted by evidence.

Around its maximum a posterior is close to a Gaussian (Laplace). Draws from a slightly wider one, each weighted by how
much more likely the model holds it, give the model's evidence and draws of its hyperparameters at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp

from bmbo.surrogates.gp.kernels import Floats

WIDER = 1.2
"""How much wider than the Laplace approximation draws are proposed: too wide wastes some, too narrow misleads."""

DIFFERENCE = 1e-3
"""Step of differences of the gradient in log hyperparameters: past rounding, and still local."""

HOPELESS = 15.0
"""A maximum this far, in nats, below a rival's needs no evidence: the widths of two posteriors differ by less."""

NOT_FINITE = 1e12
"""What a search is told of a place without a value."""


@runtime_checkable
class Density(Protocol):
    """A log joint density over vectors of hyperparameters."""

    def __call__(self, flat: Floats) -> float:
        """The log density."""
        ...

    def with_gradient(self, flat: Floats) -> tuple[float, Floats]:
        """The log density and its gradient."""
        ...


@dataclass(frozen=True)
class Rival:
    """One model.

    Attributes:
        density: of data and hyperparameters.
        free: which coordinates it has.
        starts: where a search begins.
        deviation: how far the prior of each coordinate reaches.
        log_odds: log prior probability, up to a constant shared by all rivals.
    """

    density: Density
    free: NDArray[np.bool_]
    starts: Sequence[Floats]
    deviation: Floats
    log_odds: float = 0.0


@dataclass(frozen=True)
class Draws:
    """Hyperparameters in proportion to evidence.

    Attributes:
        flat: the drawn vectors.
        owner: which rival each is of.
        shares: posterior probability of each rival.
        modes: the best maximum of each rival.
        log_evidence: of all rivals together, each with its prior probability.
    """

    flat: Floats
    owner: NDArray[np.int64]
    shares: Floats
    modes: Floats
    log_evidence: float


def search(rng: np.random.Generator, rivals: Sequence[Rival], *, num: int, num_proposals: int, max_steps: int) -> Draws:
    """Draws hyperparameters of all rivals; a single draw is the likeliest rival's maximum itself."""
    found = [maximise(rival, max_steps) for rival in rivals]
    modes, best = np.stack([mode for mode, _ in found]), max(value for _, value in found)
    draws, log_weights = (
        np.repeat(modes[:, None], num_proposals, axis=1),
        np.full((len(rivals), num_proposals), -np.inf),
    )
    for place, (rival, (mode, value)) in enumerate(zip(rivals, found, strict=True)):
        if value > best - HOPELESS:
            draws[place], log_weights[place] = _proposed(rng, rival, mode, num_proposals)
            log_weights[place] += rival.log_odds
    shares, weights = _weighed(log_weights)
    odds = np.asarray([rival.log_odds for rival in rivals])
    evidence = float(logsumexp(log_weights) - np.log(num_proposals) - logsumexp(odds))
    if num == 1 or not np.isfinite(evidence):
        winner = np.full(num, np.argmax(shares))
        return Draws(modes[winner], winner, shares, modes, evidence)
    # Systematic resampling meets the weights to within one draw; then in random order, for the next level's sake.
    places = (rng.uniform() + np.arange(num)) / num
    chosen = rng.permutation(np.minimum(np.searchsorted(np.cumsum(weights), places), weights.size - 1))
    return Draws(draws.reshape(-1, modes.shape[1])[chosen], chosen // num_proposals, shares, modes, evidence)


def maximise(rival: Rival, max_steps: int) -> tuple[Floats, float]:
    """The best local maximum over the free coordinates; the others stay as they start."""
    free, best, best_value = rival.free, rival.starts[0], -np.inf

    def loss(part: Floats, start: Floats) -> tuple[float, Floats]:
        value, gradient = rival.density.with_gradient(_with(start, free, part))
        if not (np.isfinite(value) and np.all(np.isfinite(gradient))):
            return NOT_FINITE, np.zeros_like(part)
        return -value, -gradient[free]

    for start in rival.starts:
        # Ends where a step gains less than a hundred-thousandth: a hundredth of a nat out of a thousand.
        options = {"maxiter": max_steps, "ftol": 1e-5, "gtol": 1e-2}
        found = minimize(loss, start[free], (start,), jac=True, method="L-BFGS-B", options=options)
        if -float(found.fun) > best_value:
            best, best_value = _with(start, free, found.x), -float(found.fun)
    return best, best_value


def _with(whole: Floats, free: NDArray[np.bool_], part: Floats) -> Floats:
    changed = whole.copy()
    changed[free] = part
    return changed


def _proposed(rng: np.random.Generator, rival: Rival, mode: Floats, num: int) -> tuple[Floats, Floats]:
    """Draws around a maximum, and the logs of their importance weights."""
    scale = rival.deviation[rival.free]
    values, vectors = np.linalg.eigh(_precision(rival, mode) * np.outer(scale, scale))
    # A direction that the data leave open, or a saddle, is no wider than the prior.
    widths = WIDER / np.sqrt(np.maximum(values, 1.0))
    white = rng.standard_normal((num, len(scale)))
    draws = np.repeat(mode[None], num, axis=0)
    draws[:, rival.free] += scale * ((white * widths) @ vectors.T)
    constant = np.sum(np.log(scale * widths)) + 0.5 * len(scale) * np.log(2.0 * np.pi)
    log_weights = np.asarray([rival.density(draw) for draw in draws]) + 0.5 * np.sum(white**2, axis=1) + constant
    return draws, np.where(np.isfinite(log_weights), log_weights, -np.inf)


def _precision(rival: Rival, mode: Floats) -> Floats:
    """Minus the Hessian, by differences of the gradient."""
    _, here = rival.density.with_gradient(mode)
    steps = DIFFERENCE * np.eye(len(mode))[rival.free]
    rows = np.asarray([(here - rival.density.with_gradient(mode + step)[1])[rival.free] for step in steps])
    precision = np.where(np.isfinite(rows), rows, 0.0) / DIFFERENCE
    return 0.5 * (precision + precision.T)


def _weighed(log_weights: Floats) -> tuple[Floats, Floats]:
    """Each rival's share, and the weight of each of its draws, flat.

    Weights are truncated at root-num times their mean (Ionides 2008): one lucky draw must not be the whole ensemble.
    """
    top = np.max(log_weights)
    weights = np.exp(log_weights - top) if np.isfinite(top) else np.ones_like(log_weights)
    shares = np.mean(weights, axis=1)
    weights = np.minimum(weights, np.sqrt(weights.shape[1]) * shares[:, None])
    shares = shares / np.sum(shares)
    sums = np.maximum(np.sum(weights, axis=1, keepdims=True), np.finfo(float).tiny)
    return shares, (shares[:, None] * weights / sums).reshape(-1)
