"""Train a convolutional network on CIFAR-10 (Krizhevsky 2009): the paper's first application.

There are 10,000 images for training (the official data_batch_1) and 10,000 for evaluation (the official test_batch).
The levels are 1, 10 and 50 epochs, at costs of 1, 10 and 50. The loss is the mean negative log-likelihood of the
evaluation images, which is minimised. The space has the ranges of the paper, with dropout on a log scale.

What the paper leaves open, and what is done here:

- 3x3 convolutions with zero padding, ReLU, then 2x2 pooling. Each convolution has twice the channels of the one before.
  So four of them end with 2x2 pixels and 8 times the channels of the first one.
- `dense_depth` hidden layers of `dense_width` units, each with ReLU and then dropout, and a linear output layer.
- Weights are drawn as in He et al. (2015), and biases begin at zero. Colours are standardised with the moments of the
  training images. There is no augmentation.
- Adam with a learning rate of 1e-3 and batches of 128. An epoch has 78 batches and leaves out the rest. Each epoch has
  a new order. There is no schedule and no early stopping: an epoch is the same at all levels, so that a training can
  continue from a lower level.
- Parameters are float32. Products have the default precision of the device (TensorFloat-32 on a GPU).

If a training diverges, its loss is not finite, and its value is CEILING.

    python -m experiments.applications.cnn 3 64 2 512 max 0.2

This command times one configuration (in the order of the space) at all levels.
"""

import argparse
import pickle
import tarfile
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import jax
import numpy as np

import bmbo
from experiments.applications import config_from_command_line
from experiments.applications.application import Application, Config, Deadline, States
from experiments.applications.convolutional_training import (
    NUM_COLOURS,
    SIDE,
    Architecture,
    Images,
    State,
    begin,
    evaluate,
    num_bytes,
    num_epochs,
    one_epoch,
)
from experiments.problems.benchmark import DataMissingError
from experiments.problems.data_files import find_converted

EPOCHS = (1, 10, 50)

SPACE = bmbo.Space(
    {
        "num_convolutions": bmbo.Int(1, 4),
        "channels": bmbo.Int(8, 136),
        "dense_depth": bmbo.Int(1, 8),
        "dense_width": bmbo.Int(32, 2080),
        "pooling": bmbo.Categorical(["max", "average"]),
        "dropout": bmbo.Float(1e-3, 0.99, log=True),
    }
)

CEILING = 10.0
"""A uniform guess has a loss of ln 10 = 2.3. A network with little dropout can have a larger one, because it becomes
too sure of its errors. One with 2 convolutions, 8 channels and 2 x 256 units had losses of 1.66, 1.69 and 3.89 after 1,
10 and 50 epochs, while its accuracy rose from 0.42 to 0.54. Methods should see such losses. Differences above 10 do not
matter."""

LARGEST_STATE = 256 << 20
"""Larger states, in bytes, are not kept. One convolution before wide dense layers has 72 million weights, and 0.9 GB
with the moments of Adam. Such states fill a disk, while repeating the epochs of a lower level is cheap."""

FILE = "cifar10_20k.npz"
SOURCE = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
DIGEST = "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce"
BATCHES = {"train": "cifar-10-batches-py/data_batch_1", "test": "cifar-10-batches-py/test_batch"}


def convert(archive: Path, made: Path) -> None:
    """Write two batches of the official archive as arrays. They are pickles, which is safe as the checksum is known."""
    arrays: dict[str, np.ndarray] = {}
    with tarfile.open(archive) as tar:
        for part, name in BATCHES.items():
            member = tar.extractfile(name)
            if member is None:
                raise DataMissingError(f"{SOURCE} has no {name}; set BMBO_DATA to a folder with {FILE}")
            batch = pickle.load(member, encoding="bytes")
            planes = np.asarray(batch[b"data"], np.uint8).reshape(-1, NUM_COLOURS, SIDE, SIDE)
            arrays[f"x_{part}"] = planes.transpose(0, 2, 3, 1)
            arrays[f"y_{part}"] = np.asarray(batch[b"labels"], np.uint8)
    # An open file, because NumPy would add .npz to a path without it.
    with made.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


@cache
def load() -> Images:
    """Return the images, on the device."""
    with np.load(find_converted(FILE, SOURCE, DIGEST, convert)) as arrays:
        return Images.of(dict(arrays))


def architecture_of(config: Config) -> Architecture:
    """Return the architecture of a configuration, which is all but its dropout."""
    return Architecture(
        config["num_convolutions"],
        config["channels"],
        config["dense_depth"],
        config["dense_width"],
        config["pooling"],
    )


def train_on(images: Images, config: Config, level: int, seed: int, *, states: States, deadline: Deadline) -> float:
    """Train on given images and return the loss, see `Train`."""
    architecture = architecture_of(config)
    found = states.load(level)
    state = State.from_bytes(architecture, found[1]) if found else begin(architecture, seed)
    for _ in range(num_epochs(state, images), EPOCHS[level]):
        deadline.check()
        state = one_epoch(architecture, state, images, config["dropout"], seed)
    if level + 1 < len(EPOCHS) and num_bytes(architecture) <= LARGEST_STATE:
        states.save(level, state.to_bytes())
    return float(evaluate(architecture, state.parameters, images)[0])


def train(config: Config, level: int, seed: int, states: States, deadline: Deadline) -> float:
    """Train on CIFAR-10 and return the loss, see `Train`."""
    return train_on(load(), config, level, seed, states=states, deadline=deadline)


APPLICATION = Application(
    name="cnn",
    problem=bmbo.Problem(SPACE, bmbo.Ladder(bmbo.Fidelity(n, cost=n, name=f"{n} epochs") for n in EPOCHS)),
    train=train,
    version="1",
    ceiling=CEILING,
    source="section 5.2 of the paper; Krizhevsky 2009, CIFAR-10",
    prepare=load,
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the times of one configuration: the compilation, and each level from the one below."""
    parser = argparse.ArgumentParser(prog="python -m experiments.applications.cnn")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--levels", type=int, default=len(EPOCHS), help="number of levels, from the lowest")
    config, options = config_from_command_line.parse_config(parser, SPACE, arguments)
    seed = options.seed
    architecture, images = architecture_of(config), jax.block_until_ready(load())

    def epochs(state: State, last: int) -> State:
        for _ in range(num_epochs(state, images), last):
            state = one_epoch(architecture, state, images, config["dropout"], seed)
        return state

    began = time.perf_counter()
    jax.block_until_ready(evaluate(architecture, epochs(begin(architecture, seed), 1).parameters, images))
    compiled, state = time.perf_counter(), begin(architecture, seed)
    print(f"{jax.devices()[0].device_kind}, a state of {num_bytes(architecture) / 1e6:.1f} MB")
    print(f"compilation, with one epoch and evaluation: {compiled - began:.1f} s")
    for last in EPOCHS[: options.levels]:
        began, before = time.perf_counter(), num_epochs(state, images)
        state = epochs(state, last)
        ended = time.perf_counter()
        loss, accuracy = (float(each) for each in evaluate(architecture, state.parameters, images))
        seconds = time.perf_counter() - ended
        print(f"epochs {before + 1} to {last}: {ended - began:.2f} s, evaluation {seconds:.2f} s, ", end="")
        print(f"loss {loss:.4f}, accuracy {accuracy:.4f}", flush=True)


if __name__ == "__main__":
    main()
