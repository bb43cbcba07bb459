"""Convolutional networks for small images, and their training an epoch at a time, in plain JAX.

The state after an epoch is all that the next one needs: what is random in an epoch (the order of images, dropout) is a
function of the seed and the number of the epoch, and no schedule looks ahead. So a training that is stopped and
continued gives what one go gives, to the last bit on one device.

Two programs are compiled for an architecture, one for a step and one for evaluation. The data lie on the device, as
bytes. The dropout rate is an argument, and dense layers after the first are one loop, so that neither the rate nor
the depth makes a program larger.
"""

import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import pairwise
from typing import Any, Literal, cast

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.tree_util import register_dataclass
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt8

SIDE = 32
"""Pixels along an image's edge."""

NUM_COLOURS = 3
NUM_CLASSES = 10

BATCH = 128
"""Images a step; those beyond the last whole batch of an epoch wait for another epoch's order."""

SLICE = 500
"""Images evaluated at once: 0.3 GB of activations in the widest network, so that several trainings share a GPU."""

LEARNING_RATE = 1e-3
"""Adam's usual one."""

REPEATABLE: dict[str, bool | int | float | str] = {"xla_gpu_deterministic_ops": True}
"""Sums on a GPU in a fixed order, by algorithms that are not chosen by a race; which also saves the time of the race.
Other devices have no such choice and ignore it."""

Pooling = Literal["max", "average"]
Parameters = dict[str, Any]


@dataclass(frozen=True)
class Architecture:
    """What a program is compiled for: hashable, no arrays.

    Attributes:
        num_convolutions: 3x3 convolutions, each with 2x2 pooling after it.
        channels: of the first convolution; every further one has twice as many as the one before.
        depth: dense hidden layers.
        width: units of each of them.
        pooling: how four pixels become one.
    """

    num_convolutions: int
    channels: int
    depth: int
    width: int
    pooling: Pooling

    @property
    def features(self) -> int:
        """Numbers that the convolutions hand to the dense layers."""
        side = SIDE >> self.num_convolutions
        return side * side * (self.channels << (self.num_convolutions - 1))


@partial(register_dataclass, data_fields=["pixels", "labels"], meta_fields=[])
@dataclass(frozen=True)
class Labelled:
    """Images with their classes."""

    pixels: UInt8[Array, "n 32 32 3"]
    labels: Int[Array, " n"]


@partial(register_dataclass, data_fields=["training", "evaluation", "mean", "deviation"], meta_fields=[])
@dataclass(frozen=True)
class Images:
    """The data, and what its pixels are standardised by: moments of each colour over the training images."""

    training: Labelled
    evaluation: Labelled
    mean: Float[Array, "1 1 1 3"]
    deviation: Float[Array, "1 1 1 3"]

    @classmethod
    def of(cls, arrays: dict[str, np.ndarray]) -> "Images":
        """From `x_train`, `y_train`, `x_test` and `y_test`, put on the device."""
        moments = [f(arrays["x_train"], axis=(0, 1, 2), keepdims=True, dtype=np.float64) for f in (np.mean, np.std)]
        mean, deviation = (jnp.asarray(each, jnp.float32) for each in moments)
        training, evaluation = (
            Labelled(jnp.asarray(arrays[f"x_{part}"]), jnp.asarray(arrays[f"y_{part}"], jnp.int32))
            for part in ("train", "test")
        )
        return cls(training, evaluation, mean, deviation)

    def standardised(self, pixels: UInt8[Array, "n 32 32 3"]) -> Float[Array, "n 32 32 3"]:
        """What a network sees of some images."""
        return (pixels.astype(jnp.float32) - self.mean) / self.deviation


@partial(register_dataclass, data_fields=["parameters", "optimiser", "step"], meta_fields=[])
@dataclass(frozen=True)
class State:
    """A training after so many steps."""

    parameters: Parameters
    optimiser: Any
    step: Int[Array, ""]

    def to_bytes(self) -> bytes:
        """All of it, exactly."""
        buffer = io.BytesIO()
        np.savez(buffer, *(np.asarray(leaf) for leaf in jax.tree.leaves(self)))
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, architecture: Architecture, content: bytes) -> "State":
        """What `to_bytes` wrote of a network of this architecture."""
        shapes, structure = jax.tree.flatten(shape_of_state(architecture))
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            leaves = [arrays[name] for name in arrays.files]
        if [leaf.shape for leaf in leaves] != [each.shape for each in shapes]:
            raise ValueError(f"this state is not one of {architecture}; remove it to train from the start")
        return jax.device_put(jax.tree.unflatten(structure, leaves))


def _adam() -> optax.GradientTransformation:
    return optax.adam(LEARNING_RATE)


def _parameters(architecture: Architecture, draw: Callable[[tuple[int, ...]], np.ndarray]) -> Parameters:
    """A network from standard normal draws: weights [..., outputs] scaled as He et al. do, and no bias yet."""

    def layer(*shape: int, fan_in: int, bias: tuple[int, ...]) -> Parameters:
        return {"weights": draw(shape) * np.float32(np.sqrt(2 / fan_in)), "bias": np.zeros(bias, np.float32)}

    sizes = [NUM_COLOURS, *(architecture.channels << index for index in range(architecture.num_convolutions))]
    features, width, deeper = architecture.features, architecture.width, architecture.depth - 1
    return {
        "convolutions": [
            layer(3, 3, below, above, fan_in=9 * below, bias=(1, 1, 1, above)) for below, above in pairwise(sizes)
        ],
        "first": layer(features, width, fan_in=features, bias=(1, width)),
        "deeper": layer(deeper, width, width, fan_in=width, bias=(deeper, 1, width)),
        "output": layer(width, NUM_CLASSES, fan_in=width, bias=(1, NUM_CLASSES)),
    }


def begin(architecture: Architecture, seed: int) -> State:
    """An untrained network; drawn on the host, which costs no compilation."""
    draw = partial(np.random.default_rng(seed).standard_normal, dtype=np.float32)
    zeros = jax.tree.map(lambda each: np.zeros(each.shape, each.dtype), shape_of_state(architecture))
    return jax.device_put(replace(zeros, parameters=_parameters(architecture, draw)))


@cache
def shape_of_state(architecture: Architecture) -> State:
    """Shapes and types in place of a state's arrays."""
    draw = cast(Callable[..., np.ndarray], partial(jnp.zeros, dtype=jnp.float32))

    def start() -> State:
        parameters = _parameters(architecture, draw)
        return State(parameters, _adam().init(parameters), jnp.int32(0))

    return jax.eval_shape(start)


def num_bytes(architecture: Architecture) -> int:
    """Of a state."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(shape_of_state(architecture)))


def _pool(pooling: Pooling, maps: Float[Array, "n h w c"]) -> Float[Array, "n h/2 w/2 c"]:
    """By reshaping, not by windows: the gradient of a window's maximum is a scatter, which is slow in a fixed order."""
    num, height, width, channels = maps.shape
    squares = maps.reshape(num, height // 2, 2, width // 2, 2, channels)
    return squares.max((2, 4)) if pooling == "max" else squares.mean((2, 4))


def _convolved(architecture: Architecture, parameters: Parameters, seen: Float[Array, "n 32 32 3"]) -> Array:
    maps = seen
    for layer in parameters["convolutions"]:
        convolved = jax.lax.conv_general_dilated(
            maps, layer["weights"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        maps = _pool(architecture.pooling, jax.nn.relu(convolved + layer["bias"]))
    return maps.reshape(maps.shape[0], -1)


def logits_of(
    architecture: Architecture,
    parameters: Parameters,
    seen: Float[Array, "n 32 32 3"],
    dropout: tuple[PRNGKeyArray, Float[Array, ""]] | None = None,
) -> Float[Array, "n 10"]:
    """What the network says of standardised images; with dropout (a key and a rate) as in training."""

    def dense(hidden: Array, layer: Parameters, index: Int[Array, ""] | int) -> Array:
        active = jax.nn.relu(hidden @ layer["weights"] + layer["bias"])
        if dropout is None:
            return active
        key, rate = dropout
        kept = jax.random.bernoulli(jax.random.fold_in(key, index), 1 - rate, active.shape)
        return jnp.where(kept, active / (1 - rate), 0)

    hidden = dense(_convolved(architecture, parameters, seen), parameters["first"], 0)
    if architecture.depth > 1:
        deeper = (parameters["deeper"], jnp.arange(1, architecture.depth))
        hidden, _ = jax.lax.scan(lambda below, each: (dense(below, *each), None), hidden, deeper)
    return hidden @ parameters["output"]["weights"] + parameters["output"]["bias"]


def _losses(logits: Float[Array, "n 10"], labels: Int[Array, " n"]) -> Float[Array, " n"]:
    # By a product with ones and zeros: the gradient of an indexed choice is a scatter.
    return -(jax.nn.one_hot(labels, NUM_CLASSES) * jax.nn.log_softmax(logits)).sum(1)


@partial(jax.jit, static_argnames="architecture", donate_argnames="state", compiler_options=REPEATABLE)
def one_step(
    architecture: Architecture,
    state: State,
    images: Images,
    *,
    order: Int[Array, "steps batch"],
    dropout: Float[Array, ""],
    seed: Int[Array, ""],
) -> State:
    """A step on the batch whose turn it is in an epoch's order; uses up the state that it is given.

    Epochs are not a loop inside the program: a step takes longer than its dispatch, and on CPUs the gradient of a
    convolution was measured to be seven times slower in a loop of XLA's than outside.
    """
    chosen = order[state.step % order.shape[0]]
    seen, labels = images.standardised(images.training.pixels[chosen]), images.training.labels[chosen]
    noise = (jax.random.fold_in(jax.random.key(seed), state.step), dropout)
    gradient = jax.grad(lambda p: _losses(logits_of(architecture, p, seen, noise), labels).mean())(state.parameters)
    updates, optimiser = _adam().update(gradient, state.optimiser)
    parameters = cast(Parameters, optax.apply_updates(state.parameters, updates))
    return State(parameters, optimiser, state.step + 1)


def steps_per_epoch(images: Images) -> int:
    """Whole batches in the training images."""
    return max(1, images.training.labels.shape[0] // BATCH)


def num_epochs(state: State, images: Images) -> int:
    """Epochs that a training has done."""
    return int(state.step) // steps_per_epoch(images)


def one_epoch(architecture: Architecture, state: State, images: Images, dropout: float, seed: int) -> State:
    """A pass over the training images, in an order of its own; uses up the state that it is given, and waits."""
    num, num_steps = images.training.labels.shape[0], steps_per_epoch(images)
    # The number of the epoch is part of the seed: nothing random need be kept in a state.
    order = np.random.default_rng((seed, num_epochs(state, images))).permutation(num).astype(np.int32)
    batches = order[: num_steps * BATCH].reshape(num_steps, -1)
    arguments = jax.device_put({"order": batches, "dropout": np.float32(dropout), "seed": np.uint32(seed)})
    for _ in range(num_steps):
        state = one_step(architecture, state, images, **arguments)
    return jax.block_until_ready(state)


@partial(jax.jit, static_argnames="architecture", compiler_options=REPEATABLE)
def evaluate(
    architecture: Architecture, parameters: Parameters, images: Images
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Mean negative log-likelihood and accuracy on the evaluation images."""
    pixels, labels = images.evaluation.pixels, images.evaluation.labels
    num = labels.shape[0]
    size = min(SLICE, num)

    def one_slice(start: Int[Array, ""]) -> tuple[Array, Array]:
        places = start + jnp.arange(size)
        # The last slice may reach beyond the end: those places count for nothing.
        counts, places = places < num, jnp.minimum(places, num - 1)
        logits = logits_of(architecture, parameters, images.standardised(pixels[places]))
        right = logits.argmax(1) == labels[places]
        return jnp.where(counts, _losses(logits, labels[places]), 0).sum(), (counts & right).sum()

    losses, right = jax.lax.map(one_slice, jnp.arange(0, num, size))
    return losses.sum() / num, right.sum() / num
