"""Train convolutional networks for small images in plain JAX, one epoch at a time.

The state after an epoch is all that the next epoch needs. The random parts of an epoch (the order of images and
dropout) depend on the seed and the number of the epoch only, and there is no schedule. So a training that is stopped
and continued gives the same result as one that is not, to the last bit on one device.

Two programs are compiled for an architecture: one for a step and one for evaluation. The data are on the device, as
bytes. The dropout rate is an argument, and the dense layers after the first are one loop. So neither the rate nor the
depth makes a program larger.
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
"""Pixels along the edge of an image."""

NUM_COLOURS = 3
NUM_CLASSES = 10

BATCH = 128
"""Images per step. An epoch leaves out the images after its last whole batch; the next epoch has another order."""

SLICE = 500
"""Images that are evaluated at once. The widest network needs 0.3 GB of activations, so several trainings can share a
GPU."""

LEARNING_RATE = 1e-3
"""The usual learning rate of Adam."""

REPEATABLE: dict[str, bool | int | float | str] = {"xla_gpu_deterministic_ops": True}
"""On a GPU, sums have a fixed order, and algorithms are not chosen by timing them, which also saves time. Other devices
ignore this option."""

Pooling = Literal["max", "average"]
Parameters = dict[str, Any]


@dataclass(frozen=True)
class Architecture:
    """Describe what a program is compiled for. It is hashable and holds no arrays.

    Attributes:
        num_convolutions: the number of 3x3 convolutions, each followed by 2x2 pooling.
        channels: the channels of the first convolution. Each further one has twice as many as the one before.
        depth: the number of dense hidden layers.
        width: the units of each dense hidden layer.
        pooling: how four pixels become one.
    """

    num_convolutions: int
    channels: int
    depth: int
    width: int
    pooling: Pooling

    @property
    def features(self) -> int:
        """Return the number of outputs of the convolutions, which are the inputs of the dense layers."""
        side = SIDE >> self.num_convolutions
        return side * side * (self.channels << (self.num_convolutions - 1))


@register_dataclass
@dataclass(frozen=True)
class Labelled:
    """Hold images with their classes."""

    pixels: UInt8[Array, "n 32 32 3"]
    labels: Int[Array, " n"]


@register_dataclass
@dataclass(frozen=True)
class Images:
    """Hold the data, and the mean and deviation of each colour over the training images."""

    training: Labelled
    evaluation: Labelled
    mean: Float[Array, "1 1 1 3"]
    deviation: Float[Array, "1 1 1 3"]

    @classmethod
    def of(cls, arrays: dict[str, np.ndarray]) -> "Images":
        """Return the data from `x_train`, `y_train`, `x_test` and `y_test`, on the device."""
        moments = [f(arrays["x_train"], axis=(0, 1, 2), keepdims=True, dtype=np.float64) for f in (np.mean, np.std)]
        mean, deviation = (jnp.asarray(each, jnp.float32) for each in moments)
        training, evaluation = (
            Labelled(jnp.asarray(arrays[f"x_{part}"]), jnp.asarray(arrays[f"y_{part}"], jnp.int32))
            for part in ("train", "test")
        )
        return cls(training, evaluation, mean, deviation)

    def standardised(self, pixels: UInt8[Array, "n 32 32 3"]) -> Float[Array, "n 32 32 3"]:
        """Return pixels as a network sees them, standardised for each colour."""
        return (pixels.astype(jnp.float32) - self.mean) / self.deviation


@register_dataclass
@dataclass(frozen=True)
class State:
    """Hold a training after a number of steps."""

    parameters: Parameters
    optimiser: Any
    step: Int[Array, ""]

    def to_bytes(self) -> bytes:
        """Return the exact state as bytes."""
        buffer = io.BytesIO()
        np.savez(buffer, *(np.asarray(leaf) for leaf in jax.tree.leaves(self)))
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, architecture: Architecture, content: bytes) -> "State":
        """Return the state in some bytes. Raise `ValueError` if it belongs to another architecture."""
        shapes, structure = jax.tree.flatten(shape_of_state(architecture))
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            leaves = [arrays[name] for name in arrays.files]
        if [leaf.shape for leaf in leaves] != [each.shape for each in shapes]:
            raise ValueError(f"this state is not one of {architecture}; remove it to train from the start")
        return jax.device_put(jax.tree.unflatten(structure, leaves))


def _adam() -> optax.GradientTransformation:
    return optax.adam(LEARNING_RATE)


def _parameters(architecture: Architecture, draw: Callable[[tuple[int, ...]], np.ndarray]) -> Parameters:
    """Return a network from standard normal draws: weights [..., outputs] scaled as in He et al., and zero biases."""

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
    """Return an untrained network. It is drawn on the host, which needs no compilation."""
    draw = partial(np.random.default_rng(seed).standard_normal, dtype=np.float32)
    zeros = jax.tree.map(lambda each: np.zeros(each.shape, each.dtype), shape_of_state(architecture))
    return jax.device_put(replace(zeros, parameters=_parameters(architecture, draw)))


@cache
def shape_of_state(architecture: Architecture) -> State:
    """Return a state with shapes and types in place of arrays."""
    draw = cast(Callable[..., np.ndarray], partial(jnp.zeros, dtype=jnp.float32))

    def start() -> State:
        parameters = _parameters(architecture, draw)
        return State(parameters, _adam().init(parameters), jnp.int32(0))

    return jax.eval_shape(start)


def num_bytes(architecture: Architecture) -> int:
    """Return the size of a state in bytes."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(shape_of_state(architecture)))


def _pool(pooling: Pooling, maps: Float[Array, "n h w c"]) -> Float[Array, "n h/2 w/2 c"]:
    """Return the pooled maps, by reshaping: the gradient of a window's maximum is a scatter, slow in a fixed order."""
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
    """Return the logits of standardised images, with dropout (a key and a rate) in training."""

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
    # A product with ones and zeros, because the gradient of an index is a scatter.
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
    """Return the state after a step on the next batch of an epoch's order. The given state is consumed.

    The loop over an epoch is not part of the program. A step takes longer than its dispatch, and on CPUs the gradient
    of a convolution was measured to be seven times slower inside an XLA loop than outside.
    """
    chosen = order[state.step % order.shape[0]]
    seen, labels = images.standardised(images.training.pixels[chosen]), images.training.labels[chosen]
    noise = (jax.random.fold_in(jax.random.key(seed), state.step), dropout)
    gradient = jax.grad(lambda p: _losses(logits_of(architecture, p, seen, noise), labels).mean())(state.parameters)
    updates, optimiser = _adam().update(gradient, state.optimiser)
    parameters = cast(Parameters, optax.apply_updates(state.parameters, updates))
    return State(parameters, optimiser, state.step + 1)


def steps_per_epoch(images: Images) -> int:
    """Return the number of whole batches in the training images."""
    return max(1, images.training.labels.shape[0] // BATCH)


def num_epochs(state: State, images: Images) -> int:
    """Return the number of finished epochs."""
    return int(state.step) // steps_per_epoch(images)


def one_epoch(architecture: Architecture, state: State, images: Images, dropout: float, seed: int) -> State:
    """Return the state after a pass over the training images in a new order. The given state is consumed."""
    num, num_steps = images.training.labels.shape[0], steps_per_epoch(images)
    # The number of the epoch is part of the seed, so a state needs no random key.
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
    """Return the mean negative log-likelihood and the accuracy on the evaluation images."""
    pixels, labels = images.evaluation.pixels, images.evaluation.labels
    num = labels.shape[0]
    size = min(SLICE, num)

    def one_slice(start: Int[Array, ""]) -> tuple[Array, Array]:
        places = start + jnp.arange(size)
        # The last slice may reach beyond the end. These indices do not count.
        counts, places = places < num, jnp.minimum(places, num - 1)
        logits = logits_of(architecture, parameters, images.standardised(pixels[places]))
        right = logits.argmax(1) == labels[places]
        return jnp.where(counts, _losses(logits, labels[places]), 0).sum(), (counts & right).sum()

    losses, right = jax.lax.map(one_slice, jnp.arange(0, num, size))
    return losses.sum() / num, right.sum() / num
