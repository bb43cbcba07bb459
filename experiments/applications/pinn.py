"""The fourth application: physics-informed networks for Burgers' equation (Raissi et al. 2019), viscosity 0.01 / pi.

Three hyperparameters: hidden layers, their width, and one of eight activations (the paper names relu, tanh, sigmoid,
"their variants, etc."; here these three, elu, selu, softplus, swish and sine). The fidelity is the most iterations that
L-BFGS may take: 10, 100 and 50,000, at the paper's costs of 1:10:50; a training that has converged ends sooner, see
`burgers.WINDOW`.

The loss to minimise is the natural logarithm of the nRMSE, which is the RMSE over the root mean square of the reference
solution, that is the relative L2 error, at 10,000 points of its grid of 256 by 100.

Points, as Raissi et al. have them: 100 of the grid's initial and boundary points with their values, 10,000 collocation
points by Latin hypercube in [-1, 1] x [0, 1]. They are the same for every training; a seed draws the first weights
(Glorot normal; biases zero), the same ones for a network alone and among others.

In single precision, as Raissi's program; `solve` can also work in double precision, several times as slow, where the
line search is not lost in rounding near the end.

A training repeats to the last digit, on a GPU as well (`burgers.compiled`); networks trained side by side round
differently from one alone, and so do other devices, and thousands of iterations of L-BFGS make much of that
(docs/results/applications.md).
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
from experiments.applications import burgers, command_line
from experiments.applications.application import Application, Config, Deadline, OutOfTimeError, Pauses, States
from experiments.applications.burgers import Lanes, Points, Shape
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
"""Of the points: that of Raissi's program."""

FILES = {"burgers_shock.mat": "f4d11e6798b8d29b6829984952b04adcc470d9bf70dd7e56c7985cd8e316c4bf"}
SOURCE = "https://github.com/maziarraissi/PINNs/raw/master/appendix/Data/{file}"

PADDING = 32
"""Widths are padded to its multiples: two programs a depth instead of 64, and more lanes in each."""

MAX_LANES = 64
"""Networks trained side by side: of the largest, 64 fill a GPU many times over and take some 20 GB."""

TICKS = 500
"""Evaluations between two looks at the clock: half a second on a GPU for one network."""

CEILING = 1.0
"""Of the loss: an error of e times the solution; to predict zero everywhere has loss 0."""

Emit = Callable[[int, tuple[float, ...], int, float], None]
"""Takes the index of a configuration, its losses at the three levels, iterations, and its share of the seconds."""


@cache
def load() -> tuple[np.ndarray, ...]:
    """The fields of `Points`, in double precision."""
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
    """The width that a network is trained at."""
    return math.ceil(width / PADDING) * PADDING


def first_params(shape: Shape, width: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Weights and biases of one network [p], padded with zeros, and its mask [w]."""
    generator, parts = np.random.default_rng(seed), []
    own = Shape(shape.depth, width, ())
    for (fan_in, fan_out), (rows, columns) in zip(own.layers, shape.layers, strict=True):
        weights = np.zeros((rows, columns))
        weights[:fan_in, :fan_out] = generator.normal(0, math.sqrt(2 / (fan_in + fan_out)), (fan_in, fan_out))
        parts += [weights.ravel(), np.zeros(columns)]
    return np.concatenate(parts), (np.arange(shape.width) < width).astype(float)


def shape_of(configs: Sequence[Config]) -> Shape:
    """What configurations of one depth and one padded width, sorted by activation, are trained as."""
    ((depth, width),) = {kind(config) for config in configs}
    runs = groupby(config["activation"] for config in configs)
    return Shape(depth, width, tuple((activation, len(list(run))) for activation, run in runs))


def begin(shape: Shape, configs: Sequence[Config], seed: int) -> tuple[Any, Any]:
    """The first parameters [l p] and the masks [l w] of some configurations."""
    drawn = [first_params(shape, config["width"], seed) for config in configs]
    params, masks = (jnp.asarray(np.stack(part), jnp.result_type(float)) for part in zip(*drawn, strict=True))
    return params, masks


def _reach(shape: Shape, lanes: Lanes, mask: Any, limit: int, deadline: Deadline) -> Lanes:
    """All lanes at the limit, or stopped."""
    while bool(jnp.any(burgers.active(lanes, limit))):
        deadline.check()
        lanes = burgers.advance(shape, lanes, mask, _points(), limit=limit, ticks=TICKS)
    return lanes


def _judge(shape: Shape, lanes: Lanes, mask: Any) -> np.ndarray:
    """The loss of each lane; NaN where there was none to train by."""
    errors = np.asarray(burgers.relative_errors(shape, lanes.params, mask, _points()), np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.asarray(lanes.status) == burgers.NOT_FINITE, np.nan, np.log(errors))


def pack(lanes: Lanes, **more: Any) -> bytes:
    """A state's arrays, and what else is to be kept with it."""
    content = io.BytesIO()
    np.savez(content, *(np.asarray(leaf) for leaf in jax.tree.leaves(lanes)), **more)
    return content.getvalue()


def unpack(shape: Shape, params: Any, mask: Any, state: bytes) -> Lanes:
    """The lanes that `pack` was given, which had these shapes."""
    like = burgers.start.eval_shape(shape, params, mask, _points())
    with np.load(io.BytesIO(state)) as content:
        leaves = [jnp.asarray(content[name]) for name in content.files]
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


def train(config: Config, level: int, seed: int, states: States, deadline: Deadline) -> float:
    """See `Train`."""
    shape = shape_of([config])
    params, mask = begin(shape, [config], seed)
    found = states.load(level)
    lanes = unpack(shape, params, mask, found[1]) if found else burgers.start(shape, params, mask, _points())
    lanes = _reach(shape, lanes, mask, ITERATIONS[level], deadline)
    # Nothing continues from the top.
    if level < len(ITERATIONS) - 1:
        states.save(level, pack(lanes))
    return float(_judge(shape, lanes, mask)[0])


def solve(config: Config, seed: int, iterations: int, *, double: bool = False) -> tuple[float, int, float]:
    """The relative error of one network after at most so many iterations, those it took, and seconds with compiling."""
    began = time.monotonic()
    with jax.enable_x64(double):
        shape = shape_of([config])
        params, mask = begin(shape, [config], seed)
        lanes = burgers.start(shape, params, mask, _points())
        lanes = _reach(shape, lanes, mask, iterations, Deadline(math.inf))
        error = float(np.exp(_judge(shape, lanes, mask)[0]))
    return error, int(lanes.iterations[0]), time.monotonic() - began


def kind(config: Config) -> tuple[int, int]:
    """Configurations of one kind can be trained side by side."""
    return config["depth"], padded(config["width"])


def train_many(configs: Sequence[Config], seed: int, deadline: Deadline, emit: Emit, pauses: Pauses) -> None:
    """Trains any configurations through all levels, side by side on one device; emits each as it finishes.

    Past the deadline it raises `OutOfTimeError`; what was emitted stands, and what was under way is saved, to go on
    from there another time.
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
    """Networks of one depth and padded width that are trained side by side.

    Attributes:
        going: indices of the configurations that have lanes, in their order.
        seconds: each training's share so far; those that have ended are no longer in it.
        early: losses at the ends of the lower levels, of the trainings that are past them.
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
        """From the first parameters, or from where trainings were paused."""
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
        """Saves what is under way and past the lower levels."""
        for lane, index in enumerate(self.going.tolist()):
            if index in self.seconds and index in self.early:
                own = jax.tree.map(itemgetter(lane), self.lanes)
                self.pauses.save(index, pack(own, early=np.array(self.early[index]), seconds=self.seconds[index]))

    def finish(self, deadline: Deadline, emit: Emit) -> None:
        """Trains to the top; whenever three quarters of the lanes have ended, the others go on alone."""
        clock = time.monotonic()
        reached: list[np.ndarray] = []
        for limit in ITERATIONS[:-1]:
            # A lane that was resumed is past it and stays as it is.
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
    """Trains one network; twice the same command must print the same error."""
    parser = argparse.ArgumentParser(prog="python -m experiments.applications.pinn")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--iterations", type=int, default=ITERATIONS[-1], help="at most; default: those of the top")
    parser.add_argument("--double", action="store_true", help="in double precision")
    config, options = command_line.parse(parser, SPACE, arguments)
    error, taken, seconds = solve(config, options.seed, options.iterations, double=options.double)
    print(f"{jax.devices()[0].device_kind}: relative error {error!r} after {taken} iterations, ", end="")
    print(f"{seconds:.1f} s with compiling", flush=True)


if __name__ == "__main__":
    main()
