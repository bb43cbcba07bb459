"""Train physics-informed networks for Burgers' equation (Raissi et al. 2019): the paper's fourth application.

The viscosity is 0.01 / pi. There are three hyperparameters: the number of hidden layers, their width, and one of eight
activations. The paper names relu, tanh, sigmoid, "their variants, etc."; here these three are used, and elu, selu,
softplus, swish and sine. The fidelity is the largest number of L-BFGS iterations: 10, 100 and 50,000, at the paper's
costs of 1:10:50. A training that has converged ends earlier, see `WINDOW` in burgers_training.py.

The loss to minimise is the natural logarithm of the nRMSE, at 10,000 points of the reference solution's grid of 256 by
100. The nRMSE is the RMSE over the root mean square of the reference solution, which is the relative L2 error.

The points are chosen as by Raissi et al.: 100 of the grid's initial and boundary points with their values, and 10,000
collocation points by Latin hypercube in [-1, 1] x [0, 1]. They are the same for every training. A seed draws the first
weights (Glorot normal, with zero biases), which are the same whether a network is trained alone or with others.

Trainings use single precision, like the program of Raissi et al. `solve` can use double precision, which is several
times slower. Then rounding does not disturb the line search near the end.

A training repeats to the last digit, also on a GPU (see `compiled` in burgers_training.py). Networks that are trained
side by side round differently from one that is trained alone, and other devices round differently too. Thousands of
iterations of L-BFGS amplify this (docs/results/applications.md).
"""

import argparse
import io
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from operator import itemgetter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.io
from scipy.stats import qmc

import bmbo
from experiments.applications import burgers_training as burgers
from experiments.applications import config_from_command_line
from experiments.applications.application import Application, Config, Deadline, OutOfTimeError, Pauses, States
from experiments.applications.burgers_training import Lanes, Points, Shape
from experiments.problems.data_files import find

ITERATIONS = (10, 100, 50_000)
COSTS = (1, 10, 50)

SPACE = bmbo.Space(
    {
        "depth": bmbo.Int(1, 8),
        "width": bmbo.Int(1, 64),
        "activation": bmbo.Categorical(list(burgers.ACTIVATIONS)),
    }
)

NUM_BOUNDARY, NUM_COLLOCATION, NUM_EVALUATION = 100, 10_000, 10_000

DATA_SEED = 1234
"""Seed of the points, as in the program of Raissi et al."""

FILES = {"burgers_shock.mat": "f4d11e6798b8d29b6829984952b04adcc470d9bf70dd7e56c7985cd8e316c4bf"}
SOURCE = "https://github.com/maziarraissi/PINNs/raw/master/appendix/Data/{file}"

PADDING = 32
"""Widths are padded to multiples of this. So there are two programs per depth, not 64, with more lanes in each."""

MAX_LANES = 64
"""Largest number of networks that are trained side by side. 64 of the largest networks need about 20 GB."""

TICKS = 500
"""Evaluations between two checks of the deadline: half a second on a GPU for one network."""

CEILING = 1.0
"""Largest loss: an error of e times the solution. Predicting zero everywhere has a loss of 0."""

Emit = Callable[[int, tuple[float, ...], int, float], None]
"""Takes the index of a configuration, its losses at the three levels, its iterations, and its share of the seconds."""


@cache
def load() -> tuple[np.ndarray, ...]:
    """Return the fields of `Points`, in double precision."""
    content = scipy.io.loadmat(find(".", FILES, SOURCE) / "burgers_shock.mat")
    x, t, solution = content["x"].ravel(), content["t"].ravel(), np.real(content["usol"])
    grid = np.stack(np.meshgrid(x, t, indexing="ij"), axis=-1)
    generator = np.random.default_rng(DATA_SEED)
    edges = np.concatenate([grid[:, 0], grid[0], grid[-1]])
    edge_values = np.concatenate([solution[:, 0], solution[0], solution[-1]])
    chosen = generator.choice(len(edges), NUM_BOUNDARY, replace=False)
    collocation = qmc.LatinHypercube(2, rng=generator).random(NUM_COLLOCATION) * [2, 1] - [1, 0]
    judged = generator.choice(solution.size, NUM_EVALUATION, replace=False)
    return collocation, edges[chosen], edge_values[chosen], grid.reshape(-1, 2)[judged], solution.ravel()[judged]


def _points() -> Points:
    return _points_in(jnp.result_type(float))


@cache
def _points_in(precision: Any) -> Points:
    return Points(*(jnp.asarray(field, precision) for field in load()))


def padded(width: int) -> int:
    """Return the width that a network is padded to."""
    return math.ceil(width / PADDING) * PADDING


def first_params(shape: Shape, width: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first weights and biases of one network [p], padded with zeros, and its mask [w]."""
    generator, parts = np.random.default_rng(seed), []
    own = Shape(shape.depth, width, ())
    for (fan_in, fan_out), (rows, columns) in zip(own.layers, shape.layers, strict=True):
        weights = np.zeros((rows, columns))
        weights[:fan_in, :fan_out] = generator.normal(0, math.sqrt(2 / (fan_in + fan_out)), (fan_in, fan_out))
        parts += [weights.ravel(), np.zeros(columns)]
    return np.concatenate(parts), (np.arange(shape.width) < width).astype(float)


def shape_of(configs: Sequence[Config]) -> Shape:
    """Return the shape of configurations that have one depth and one padded width and are sorted by activation."""
    ((depth, width),) = {kind(config) for config in configs}
    runs = groupby(config["activation"] for config in configs)
    return Shape(depth, width, tuple((activation, len(list(run))) for activation, run in runs))


def begin(shape: Shape, configs: Sequence[Config], seed: int) -> tuple[Any, Any]:
    """Return the first parameters [l p] and the masks [l w] of some configurations."""
    drawn = [first_params(shape, config["width"], seed) for config in configs]
    params, masks = (jnp.asarray(np.stack(part), jnp.result_type(float)) for part in zip(*drawn, strict=True))
    return params, masks


def _reach(shape: Shape, lanes: Lanes, mask: Any, limit: int, deadline: Deadline) -> Lanes:
    """Return the lanes when each has stopped or reached the limit of iterations."""
    while bool(jnp.any(burgers.active(lanes, limit))):
        deadline.check()
        lanes = burgers.advance(shape, lanes, mask, _points(), limit=limit, ticks=TICKS)
    return lanes


def _judge(shape: Shape, lanes: Lanes, mask: Any) -> np.ndarray:
    """Return the loss of each lane, or NaN if it had no finite loss at its start."""
    errors = np.asarray(burgers.relative_errors(shape, lanes.params, mask, _points()), np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.asarray(lanes.status) == burgers.NOT_FINITE, np.nan, np.log(errors))


def pack(lanes: Lanes, **more: Any) -> bytes:
    """Return lanes and more arrays as bytes."""
    content = io.BytesIO()
    np.savez(content, *(np.asarray(leaf) for leaf in jax.tree.leaves(lanes)), **more)
    return content.getvalue()


def unpack(shape: Shape, params: Any, mask: Any, state: bytes) -> Lanes:
    """Return the lanes in bytes of `pack`. The shape, the parameters and the mask must fit to them."""
    like = burgers.start.eval_shape(shape, params, mask, _points())
    with np.load(io.BytesIO(state)) as content:
        leaves = [jnp.asarray(content[name]) for name in content.files]
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


def train(config: Config, level: int, seed: int, states: States, deadline: Deadline) -> float:
    """Train one network up to a level and return its loss, see `Train`."""
    shape = shape_of([config])
    params, mask = begin(shape, [config], seed)
    found = states.load(level)
    lanes = unpack(shape, params, mask, found[1]) if found else burgers.start(shape, params, mask, _points())
    lanes = _reach(shape, lanes, mask, ITERATIONS[level], deadline)
    # The top level needs no state, because no level follows.
    if level < len(ITERATIONS) - 1:
        states.save(level, pack(lanes))
    return float(_judge(shape, lanes, mask)[0])


def solve(config: Config, seed: int, iterations: int, *, double: bool = False) -> tuple[float, int, float]:
    """Train one network and return its relative error, its iterations, and the seconds with compilation."""
    began = time.monotonic()
    with jax.enable_x64(double):
        shape = shape_of([config])
        params, mask = begin(shape, [config], seed)
        lanes = burgers.start(shape, params, mask, _points())
        lanes = _reach(shape, lanes, mask, iterations, Deadline(math.inf))
        error = float(np.exp(_judge(shape, lanes, mask)[0]))
    return error, int(lanes.iterations[0]), time.monotonic() - began


def kind(config: Config) -> tuple[int, int]:
    """Return the kind of a configuration. Those of one kind can be trained side by side."""
    return config["depth"], padded(config["width"])


def train_many(configs: Sequence[Config], seed: int, deadline: Deadline, emit: Emit, pauses: Pauses) -> None:
    """Train configurations through all levels, side by side on one device, and emit each as it finishes.

    Raise `OutOfTimeError` if the deadline passes. Emitted results stay valid, and unfinished trainings are saved, to be
    continued later.
    """

    def place(index: int) -> tuple[tuple[int, int], str]:
        return kind(configs[index]), configs[index]["activation"]

    for _, alike in groupby(sorted(range(len(configs)), key=place), key=lambda index: kind(configs[index])):
        indices = list(alike)
        for first in range(0, len(indices), MAX_LANES):
            batch = Batch.begun(indices[first : first + MAX_LANES], configs, seed, pauses)
            try:
                batch.finish(deadline, emit)
            except OutOfTimeError:
                batch.pause()
                raise


@dataclass
class Batch:
    """Train networks of one depth and padded width side by side.

    Attributes:
        configs: all configurations.
        pauses: keeps unfinished trainings.
        going: the indices of the configurations that have lanes, in the order of the lanes.
        shape: the shape of the networks.
        lanes: the state of the trainings.
        mask: the units that belong to each network.
        seconds: the share of the seconds of each running training.
        early: the losses of the lower levels, for trainings that are past them.
    """

    configs: Sequence[Config]
    pauses: Pauses
    going: np.ndarray
    shape: Shape
    lanes: Lanes
    mask: Any
    seconds: dict[int, float]
    early: dict[int, tuple[float, ...]] = field(default_factory=dict[int, tuple[float, ...]])

    @classmethod
    def begun(cls, indices: Sequence[int], configs: Sequence[Config], seed: int, pauses: Pauses) -> "Batch":
        """Return a batch at the first parameters, or where trainings were paused."""
        shape = shape_of([configs[index] for index in indices])
        params, mask = begin(shape, [configs[index] for index in indices], seed)
        lanes = burgers.start(shape, params, mask, _points())
        made = cls(configs, pauses, np.array(indices), shape, lanes, mask, dict.fromkeys(indices, 0.0))
        for lane, index in enumerate(indices):
            state = pauses.load(index)
            if state is not None:
                made._resume(lane, index, state)
        return made

    def _resume(self, lane: int, index: int, state: bytes) -> None:
        with np.load(io.BytesIO(state)) as content:
            saved = [content[f"arr_{place}"] for place in range(len(jax.tree.leaves(self.lanes)))]
            self.early[index], self.seconds[index] = tuple(content["early"].tolist()), float(content["seconds"])
        leaves, structure = jax.tree.flatten(self.lanes)
        placed = [leaf.at[lane].set(one) for leaf, one in zip(leaves, saved, strict=True)]
        self.lanes = jax.tree.unflatten(structure, placed)

    def pause(self) -> None:
        """Save the running trainings that are past the lower levels."""
        for lane, index in enumerate(self.going.tolist()):
            if index in self.seconds and index in self.early:
                own = jax.tree.map(itemgetter(lane), self.lanes)
                self.pauses.save(index, pack(own, early=np.array(self.early[index]), seconds=self.seconds[index]))

    def finish(self, deadline: Deadline, emit: Emit) -> None:
        """Train to the top. When three quarters of the lanes have ended, the others continue in a smaller program."""
        clock = time.monotonic()
        reached: list[np.ndarray] = []
        for limit in ITERATIONS[:-1]:
            # A resumed lane is past this limit and does not change.
            self.lanes = _reach(self.shape, self.lanes, self.mask, limit, deadline)
            reached.append(_judge(self.shape, self.lanes, self.mask))
        fresh = dict(zip(self.going.tolist(), np.stack(reached, axis=1).tolist(), strict=True))
        self.early = {index: tuple(losses) for index, losses in fresh.items()} | self.early
        while self.seconds:
            deadline.check()
            self.lanes = burgers.advance(
                self.shape, self.lanes, self.mask, _points(), limit=ITERATIONS[-1], ticks=TICKS
            )
            now = time.monotonic()
            share, clock = (now - clock) / len(self.seconds), now
            self.seconds = {index: spent + share for index, spent in self.seconds.items()}
            self._tell(emit)

    def _tell(self, emit: Emit) -> None:
        running = np.asarray(burgers.active(self.lanes, ITERATIONS[-1]))
        ended = [lane for lane, index in enumerate(self.going) if not running[lane] and index in self.seconds]
        final = _judge(self.shape, self.lanes, self.mask) if ended else np.empty(0)
        for lane in ended:
            index = int(self.going[lane])
            losses = (*self.early[index], float(final[lane]))
            emit(index, losses, int(self.lanes.iterations[lane]), self.seconds.pop(index))
            self.pauses.drop(index)
        if 0 < 4 * len(self.seconds) <= len(self.going):
            kept = jax.tree.map(itemgetter(running), (self.lanes, self.mask, self.going))
            self.lanes, self.mask, self.going = kept
            self.shape = shape_of([self.configs[index] for index in self.going])


APPLICATION = Application(
    name="pinn",
    problem=bmbo.Problem(
        SPACE,
        bmbo.Ladder(
            bmbo.Fidelity(most, cost=cost, name=f"{most} iterations")
            for most, cost in zip(ITERATIONS, COSTS, strict=True)
        ),
    ),
    train=train,
    version="2",
    ceiling=CEILING,
    source="Raissi, Perdikaris, Karniadakis 2019, Physics-informed neural networks; their burgers_shock.mat",
    prepare=load,
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train one network and print its error. The same command must print the same error again."""
    parser = argparse.ArgumentParser(prog="python -m experiments.applications.pinn")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--iterations", type=int, default=ITERATIONS[-1], help="largest number; default: of the top")
    parser.add_argument("--double", action="store_true", help="use double precision")
    config, options = config_from_command_line.parse_config(parser, SPACE, arguments)
    error, taken, seconds = solve(config, options.seed, options.iterations, double=options.double)
    print(f"{jax.devices()[0].device_kind}: relative error {error!r} after {taken} iterations, ", end="")
    print(f"{seconds:.1f} s with compiling", flush=True)


if __name__ == "__main__":
    main()
