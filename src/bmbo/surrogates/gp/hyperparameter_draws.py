"""Draw hyperparameters of rival models: maxima from several starts, then draws weighted by evidence.

Around its maximum, a posterior is close to a Gaussian (Laplace). Draws come from a slightly wider Gaussian. Their
importance weights give the evidence of the model and draws of its hyperparameters at once.
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
"""Width of the proposal, in widths of the Laplace approximation: too wide wastes draws, too narrow gives wrong
weights."""

DIFFERENCE = 1e-3
"""Step for differences of the gradient in log hyperparameters: large compared with rounding, and still local."""

HOPELESS = 15.0
"""A maximum this far, in nats, below the best one needs no evidence: the widths of two posteriors differ by less."""

NOT_FINITE = 1e12
"""Loss that a search receives at a place without a value."""


def check_num_hyper(num_hyper: int, num_functions: int) -> None:
    """Raise ValueError unless the functions divide evenly among the draws of the hyperparameters."""
    if num_functions % num_hyper:
        raise ValueError(f"num_hyper must divide num_functions, got {num_hyper} and {num_functions}")


@runtime_checkable
class Density(Protocol):
    """Describe a log joint density over vectors of hyperparameters."""

    def __call__(self, flat: Floats) -> float:
        """Return the log density."""
        ...

    def with_gradient(self, flat: Floats) -> tuple[float, Floats]:
        """Return the log density and its gradient."""
        ...


@dataclass(frozen=True)
class Rival:
    """Describe one model.

    Attributes:
        density: joint density of data and hyperparameters.
        free: which coordinates the model has.
        starts: where searches begin.
        deviation: prior deviation of each coordinate.
        log_odds: log prior probability, up to a constant shared by all rivals.
    """

    density: Density
    free: NDArray[np.bool_]
    starts: Sequence[Floats]
    deviation: Floats
    log_odds: float = 0.0


@dataclass(frozen=True)
class Draws:
    """Hold hyperparameters drawn in proportion to evidence.

    Attributes:
        flat: the drawn vectors.
        owner: the rival of each vector.
        shares: posterior probability of each rival.
        modes: the best maximum of each rival.
        log_evidence: log evidence of all rivals together, each with its prior probability.
    """

    flat: Floats
    owner: NDArray[np.int64]
    shares: Floats
    modes: Floats
    log_evidence: float


def search(rng: np.random.Generator, rivals: Sequence[Rival], *, num: int, num_proposals: int, max_steps: int) -> Draws:
    """Return hyperparameters drawn from all rivals; a single draw is the maximum of the most probable rival."""
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
    # Systematic resampling follows the weights to within one draw. Random order, so that the levels of a chain combine
    # draws at random.
    places = (rng.uniform() + np.arange(num)) / num
    chosen = rng.permutation(np.minimum(np.searchsorted(np.cumsum(weights), places), weights.size - 1))
    return Draws(draws.reshape(-1, modes.shape[1])[chosen], chosen // num_proposals, shares, modes, evidence)


def maximise(rival: Rival, max_steps: int) -> tuple[Floats, float]:
    """Return the best local maximum over the free coordinates and its value; other coordinates stay at their start."""
    free, best, best_value = rival.free, rival.starts[0], -np.inf

    def loss(part: Floats, start: Floats) -> tuple[float, Floats]:
        value, gradient = rival.density.with_gradient(_with(start, free, part))
        if not (np.isfinite(value) and np.all(np.isfinite(gradient))):
            return NOT_FINITE, np.zeros_like(part)
        return -value, -gradient[free]

    for start in rival.starts:
        # The search ends if a step gains less than a hundred-thousandth: a hundredth of a nat out of a thousand.
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
    """Return draws around a maximum, and the logarithms of their importance weights."""
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
    """Return minus the Hessian, by differences of the gradient."""
    _, here = rival.density.with_gradient(mode)
    steps = DIFFERENCE * np.eye(len(mode))[rival.free]
    rows = np.asarray([(here - rival.density.with_gradient(mode + step)[1])[rival.free] for step in steps])
    precision = np.where(np.isfinite(rows), rows, 0.0) / DIFFERENCE
    return 0.5 * (precision + precision.T)


def _weighed(log_weights: Floats) -> tuple[Floats, Floats]:
    """Return the share of each rival, and the weights of all draws in one flat array.

    Weights are truncated at their mean times the square root of their number (Ionides 2008), so that one lucky draw is
    not the whole ensemble.
    """
    top = np.max(log_weights)
    weights = np.exp(log_weights - top) if np.isfinite(top) else np.ones_like(log_weights)
    shares = np.mean(weights, axis=1)
    weights = np.minimum(weights, np.sqrt(weights.shape[1]) * shares[:, None])
    shares = shares / np.sum(shares)
    sums = np.maximum(np.sum(weights, axis=1, keepdims=True), np.finfo(float).tiny)
    return shares, (shares[:, None] * weights / sums).reshape(-1)
