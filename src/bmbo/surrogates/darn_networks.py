"""Build the networks: one per level, chained so that each receives the input and the outputs of lower levels.

This is equation (3) of the paper.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from bmbo.problem.number_checks import whole_number

Links = Literal["all", "previous"]
"""Which lower outputs a network receives: all of them (the paper's), or only the last (DNN-MFBO's)."""

Scaling = Literal["unit", "learned"]
"""Prior standard deviation of a weight: 1 (the paper's), or a learned factor per layer divided by the root of
fan-in."""

# Minimax fit of cos(2 pi y) in powers of y^2 over |y| <= 1/2. Its error, 1e-8, is below single precision.
_COSINE = (
    0.9999999890754406,
    -19.739204500993164,
    64.93911749956462,
    -85.4501399434354,
    60.16763282474156,
    -25.967602439566363,
    6.528658636404154,
)


def cosine(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Return the cosine times the square root of two, by a polynomial.

    On a CPU, XLA calls the scalar library function once per number. The polynomial is vectorised, and was 26 times
    faster.
    """
    turns = x * (0.5 / np.pi)
    turns = turns - jnp.round(turns)
    square = turns * turns
    value = jnp.full_like(square, _COSINE[-1])
    for coefficient in _COSINE[-2::-1]:
        value = value * square + coefficient
    return np.sqrt(2.0).item() * value


ACTIVATIONS: dict[str, Callable[[Float[Array, "*shape"]], Float[Array, "*shape"]]] = {
    "tanh": jnp.tanh,
    "silu": jax.nn.silu,
    "gelu": jax.nn.gelu,
    "relu": jax.nn.relu,
    "cosine": cosine,
    "identity": lambda x: x,
}


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Hidden:
    """Hold the parameters of a network up to its last layer, each with a standard Gaussian prior.

    Attributes:
        weights, biases: of each hidden layer.
        log_scales: learned factors of each layer's weights and biases, [layers 2]; None with unit scaling.
        log_relevance: learned factor of each input, for each half of the first layer's units; None with unit scaling.
        log_amplitude: learned factor of each half of the last hidden layer's units; None with unit scaling.
    """

    weights: tuple[Float[Array, "..."], ...]
    biases: tuple[Float[Array, "..."], ...]
    log_scales: Float[Array, "..."] | None
    log_relevance: Float[Array, "..."] | None
    log_amplitude: Float[Array, "..."] | None


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Weights:
    """Hold a whole network: its hidden layers, and the weights of its last layer with the bias at the end."""

    hidden: Hidden
    last: Float[Array, "..."]


@dataclass(frozen=True)
class Network:
    """Describe the shape of one level's network, the paper's psi.

    Args:
        width: number of units of each hidden layer.
        depth: number of hidden layers.
        activation: one of `ACTIVATIONS`.
        scaling: see `Scaling`.
    """

    width: int = 40
    depth: int = 2
    activation: str = "tanh"
    scaling: Scaling = "unit"

    def __post_init__(self) -> None:
        whole_number("width", self.width)
        whole_number("depth", self.depth)
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"unknown activation {self.activation!r}; choose from {', '.join(ACTIVATIONS)}")
        if self.scaling not in ("unit", "learned"):
            raise ValueError(f"unknown scaling {self.scaling!r}; choose 'unit' or 'learned'")

    def num_features(self, num_inputs: int) -> int:
        """Return the number of inputs of the last layer, including the constant that carries its bias."""
        return self.width + 1 + (num_inputs if self.scaling == "learned" else 0)

    def draw(self, key: PRNGKeyArray, num_inputs: int) -> Hidden:
        """Return hidden parameters drawn from their standard Gaussian prior."""
        sizes = (num_inputs, *[self.width] * self.depth)
        key_weights, key_biases, key_scales, key_relevance, key_amplitude = jax.random.split(key, 5)
        keys_weights, keys_biases = (jax.random.split(k, self.depth) for k in (key_weights, key_biases))
        shapes = list(pairwise(sizes))
        learned = self.scaling == "learned"
        return Hidden(
            weights=tuple(jax.random.normal(k, shape) for k, shape in zip(keys_weights, shapes, strict=True)),
            biases=tuple(jax.random.normal(k, shape[1:]) for k, shape in zip(keys_biases, shapes, strict=True)),
            log_scales=jax.random.normal(key_scales, (self.depth, 2)) if learned else None,
            log_relevance=jax.random.normal(key_relevance, (2, num_inputs)) if learned else None,
            log_amplitude=jax.random.normal(key_amplitude, (2,)) if learned else None,
        )

    def features(self, hidden: Hidden, inputs: Float[Array, "q i"], dim: int) -> Float[Array, "q k"]:
        """Return the features in which the last layer is linear, followed by a one.

        The first `dim` inputs are the coordinates of the cube.
        """
        activation = ACTIVATIONS[self.activation]
        values = inputs
        for layer in range(self.depth):
            weight, bias = self.layer(hidden, layer, dim)
            values = activation(values @ weight + bias[None])
        one = jnp.ones_like(values[:, :1])
        if hidden.log_amplitude is None or hidden.log_relevance is None:
            return jnp.concatenate([values, one], axis=1)
        values = values * (self._halves(jnp.exp(hidden.log_amplitude)) / np.sqrt(self.width).item())[None]
        linear = inputs * jnp.exp(hidden.log_relevance)[1].at[:dim].set(1.0)[None]
        return jnp.concatenate([values, linear, one], axis=1)

    def layer(self, hidden: Hidden, layer: int, dim: int) -> tuple[Float[Array, "i o"], Float[Array, " o"]]:
        """Return the weights and biases of a hidden layer as they are applied."""
        weight, bias = hidden.weights[layer], hidden.biases[layer]
        if hidden.log_scales is None or hidden.log_relevance is None:
            return weight, bias
        scales = jnp.exp(hidden.log_scales[layer])
        weight = weight * (scales[0] / np.sqrt(weight.shape[0]).item())
        if layer == 0:
            # Half of the units see the cube only. So the network can ignore or correct the lower levels at no cost.
            relevance = jnp.exp(hidden.log_relevance).at[0, dim:].set(0.0)
            weight = weight * self._halves(relevance.T)
        return weight, bias * scales[1]

    def _halves(self, pair: Float[Array, "*shape 2"]) -> Float[Array, "*shape o"]:
        """Return the first number for the first half of the units, and the second for the rest."""
        return jnp.repeat(pair, np.array([self.width // 2, self.width - self.width // 2]), axis=-1)


@dataclass(frozen=True)
class Stack:
    """Chain the networks, equation (3)."""

    network: Network
    links: Links = "all"

    def __post_init__(self) -> None:
        if self.links not in ("all", "previous"):
            raise ValueError(f"unknown links {self.links!r}; choose 'all' or 'previous'")

    def num_inputs(self, dim: int, level: int) -> int:
        """Return the number of inputs of one level's network."""
        return dim + (level if self.links == "all" else min(level, 1))

    def num_features(self, dim: int, level: int) -> int:
        """Return the number of weights of one level's last layer, including its bias."""
        return self.network.num_features(self.num_inputs(dim, level))

    def draw(self, key: PRNGKeyArray, dim: int, num_levels: int) -> tuple[Hidden, ...]:
        """Return hidden parameters of every level, drawn from their prior."""
        keys = jax.random.split(key, num_levels)
        return tuple(self.network.draw(keys[m], self.num_inputs(dim, m)) for m in range(num_levels))

    def first_inputs(self, unit: Float[Array, "q d"]) -> Float[Array, "q d"]:
        """Return points of the cube, centred and scaled like the outputs: mean zero, variance one."""
        return (unit - 0.5) * np.sqrt(12.0).item()

    def next_inputs(self, inputs: Float[Array, "q i"], output: Float[Array, " q"], dim: int) -> Float[Array, "q j"]:
        """Return the inputs of the next level's network: x_m = [x; f_1; ...; f_(m-1)]."""
        kept = inputs if self.links == "all" else inputs[:, :dim]
        return jnp.concatenate([kept, output[:, None]], axis=1)

    def outputs(self, levels: tuple[Weights, ...], unit: Float[Array, "q d"]) -> Float[Array, "q m"]:
        """Return f_1(x) to f_M(x)."""
        inputs = self.first_inputs(unit)
        columns: list[Float[Array, " q"]] = []
        for weights in levels:
            output = self.network.features(weights.hidden, inputs, unit.shape[1]) @ weights.last
            columns.append(output)
            inputs = self.next_inputs(inputs, output, unit.shape[1])
        return jnp.stack(columns, axis=1)
