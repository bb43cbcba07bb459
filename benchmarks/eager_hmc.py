"""Run the paper's sampler in eager PyTorch, to measure what a fit costs without compilation.

Hamiltorch, the library of the paper's authors, works in the same way: autograd through a log density, and a leapfrog
loop in Python. This module does a little less work. It keeps the gradient of the last state, and gets the log density
together with each gradient. So a transition of L leapfrog steps costs exactly L gradients. Hamiltorch computes the
first gradient and both log densities of a transition again.

This module needs PyTorch (see requirements.txt).
"""

# PyTorch is a peer and not part of the development environment.
# pyright: reportMissingImports=false

import itertools
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

HIDDEN = (40, 40)
"""Widths of the hidden layers of every network: two layers of 40 units with tanh."""

LOG_TWO_PI = math.log(2.0 * math.pi)


@dataclass(frozen=True)
class Data:
    """Hold the observations and the prior of the log density.

    Attributes:
        unit: the points of all levels, the top level first, so that the rows of level >= m are a prefix (a view).
        value: the values of the points, standardised by the caller.
        sizes: the number of rows of each level, lowest level first.
        a0: the shape of the Gamma prior on every noise precision.
        b0: the rate of this prior.
    """

    unit: Tensor
    value: Tensor
    sizes: tuple[int, ...]
    a0: float
    b0: float

    @classmethod
    def of(
        cls,
        units: Sequence[NDArray[np.floating]],
        values: Sequence[NDArray[np.floating]],
        *,
        a0: float,
        b0: float,
        dtype: torch.dtype = torch.float32,
        device: str = "cpu",
    ) -> "Data":
        """Return the data from the observations of each level, lowest first."""
        return cls(
            unit=torch.as_tensor(np.concatenate(units[::-1]), dtype=dtype, device=device),
            value=torch.as_tensor(np.concatenate(values[::-1]), dtype=dtype, device=device),
            sizes=tuple(len(seen) for seen in values),
            a0=a0,
            b0=b0,
        )


def layer_shapes(data: Data) -> list[list[tuple[int, int]]]:
    """Return (inputs, outputs) of each layer. Network m takes the point and the m - 1 lower outputs, as in (3)."""
    dim = data.unit.shape[1]
    widths = [(dim + level, *HIDDEN, 1) for level in range(len(data.sizes))]
    return [list(itertools.pairwise(width)) for width in widths]


def num_parameters(data: Data) -> int:
    """Return the length of the parameter vector: all weights and biases, and a log precision for each level."""
    return sum((rows + 1) * columns for net in layer_shapes(data) for rows, columns in net) + len(data.sizes)


def logdensity(vector: Tensor, data: Data) -> Tensor:
    """Return the log density (4) of the paper, with all constants, in the weights and log tau.

    So it includes the Jacobian of the logarithm. The vector holds, for each network from the lowest level and each of
    its layers, the weights [inputs, outputs] row by row and then the biases. The log precisions of all levels follow at
    the end.
    """
    num_levels = len(data.sizes)
    weights, log_tau = vector[:-num_levels], vector[-num_levels:]
    tau = log_tau.exp()
    normaliser = data.a0 * math.log(data.b0) - math.lgamma(data.a0)
    # a0 - 1 from the Gamma density and 1 from the Jacobian.
    prior_tau = (data.a0 * log_tau - data.b0 * tau + normaliser).sum()
    prior_weights = -0.5 * (weights.dot(weights) + len(weights) * LOG_TWO_PI)
    counts = tau.new_tensor(data.sizes)
    likelihood = 0.5 * (counts * (log_tau - LOG_TWO_PI) - tau * _squared_errors(weights, data)).sum()
    return prior_weights + prior_tau + likelihood


def _squared_errors(weights: Tensor, data: Data) -> Tensor:
    """Return the sum of squared residuals of each level, lowest first. A network sees only rows that need it."""
    inputs, start, errors = data.unit, 0, []
    for level, net in enumerate(layer_shapes(data)):
        inputs = inputs[: sum(data.sizes[level:])]
        hidden = inputs
        for depth, (rows, columns) in enumerate(net):
            bias_at = start + rows * columns
            matrix, bias = weights[start:bias_at].view(rows, columns), weights[bias_at : bias_at + columns]
            hidden = torch.addmm(bias, hidden, matrix)
            if depth < len(net) - 1:
                hidden = torch.tanh(hidden)
            start = bias_at + columns
        # This level's rows are the last of those with level >= m.
        first = sum(data.sizes[level + 1 :])
        residual = data.value[first : first + data.sizes[level]] - hidden[first:, 0]
        errors.append(residual.dot(residual))
        inputs = torch.cat([inputs, hidden], dim=1)
    return torch.stack(errors)


def value_and_gradient(vector: Tensor, data: Data) -> tuple[Tensor, Tensor]:
    """Return the log density and its gradient, by autograd."""
    vector = vector.detach().requires_grad_()
    value = logdensity(vector, data)
    (gradient,) = torch.autograd.grad(value, vector)
    return value.detach(), gradient


def run(
    units: Sequence[NDArray[np.floating]],
    values: Sequence[NDArray[np.floating]],
    *,
    num_transitions: int,
    num_leapfrog: int = 10,
    step_size: float = 0.012,
    seed: int,
    a0: float,
    b0: float,
    device: str = "cpu",
) -> tuple[float, float, float]:
    """Run one chain and return its seconds, its share of accepted transitions, and its last log density.

    The chain starts at a draw of the weights' prior, with tau at its prior mean. Values must be standardised for each
    level. Ten steps of 0.012 are the paper's. torch.set_num_threads sets the number of threads. One thread is best
    here: a second one gains nothing on such small networks, and it slows everything down when another process needs the
    core.
    """
    data = Data.of(units, values, a0=a0, b0=b0, device=device)
    generator = torch.Generator(device).manual_seed(seed)
    vector = torch.randn(num_parameters(data), generator=generator, device=device)
    vector[-len(data.sizes) :] = math.log(a0 / b0)

    started = time.perf_counter()
    value, gradient = value_and_gradient(vector, data)
    num_accepted = 0
    for _ in range(num_transitions):
        momentum = torch.randn(vector.shape, generator=generator, device=device)
        energy = 0.5 * momentum.dot(momentum) - value
        new_vector, new_value, new_gradient = vector, value, gradient
        momentum = momentum + 0.5 * step_size * gradient
        for step in range(num_leapfrog):
            new_vector = new_vector + step_size * momentum
            new_value, new_gradient = value_and_gradient(new_vector, data)
            # A whole step of the momentum between positions, and half a step at the end.
            kick = step_size if step < num_leapfrog - 1 else 0.5 * step_size
            momentum = momentum + kick * new_gradient
        new_energy = 0.5 * momentum.dot(momentum) - new_value
        # A divergence gives NaN. Comparisons with NaN are false, so the proposal is rejected.
        if torch.rand((), generator=generator, device=device).log() < energy - new_energy:
            vector, value, gradient = new_vector, new_value, new_gradient
            num_accepted += 1
    seconds = time.perf_counter() - started
    return seconds, num_accepted / num_transitions, float(value)
