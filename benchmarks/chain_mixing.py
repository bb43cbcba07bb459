"""Measure whether chains over networks mix, judged by predictions: weights of networks are not identified.

    python benchmarks/chain_mixing.py
    python benchmarks/chain_mixing.py --counts 60 40 30 --ways paper paper_adapted

Prints a Markdown table: R-hat of the log density, of tau and of predictions at 100 new points at the top; the noise and
the error there; and seconds. The data are random points of Branin at its three levels.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from bmbo.history import Dataset
from bmbo.inference.diagnostics import rhat
from bmbo.inference.hmc import AdaptiveHMC
from bmbo.surrogates.darn import ADAPTED, Darn
from bmbo.surrogates.darn_density import CollapsedModel, SampledModel
from bmbo.surrogates.darn_networks import Network, Stack
from bmbo.synthetic import branin

NUM_NEW = 100
PAPER = Stack(Network())


def _collapsed(b0: float, inference: AdaptiveHMC = ADAPTED) -> Darn:
    return Darn(CollapsedModel(PAPER, b0=b0), inference, double=True)


WAYS: dict[str, Callable[[], Darn]] = {
    "paper": lambda: Darn.preset("paper"),
    "all weights sampled, b0 = 1": lambda: Darn(SampledModel(PAPER), ADAPTED),
    "collapsed, b0 = 1": lambda: _collapsed(1.0),
    "paper_adapted": lambda: Darn.preset("paper_adapted"),
    "collapsed, b0 = 0.0001": lambda: _collapsed(1e-4),
    "paper_adapted, 40 leapfrog steps": lambda: _collapsed(0.01, replace(ADAPTED, num_leapfrog=40)),
    "default": lambda: Darn.preset("default"),
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", nargs=3, type=int, default=[10, 10, 10], help="points at each level, lowest first")
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    function = branin()
    units = [rng.random((count, 2)) for count in arguments.counts]
    data = Dataset.of_arrays(units, [-function.values(unit, level) for level, unit in enumerate(units)])
    new = rng.random((NUM_NEW, 2))
    truth = np.asarray(data.scales[-1].standardise(-function.values(new, 2)))
    print(f"{arguments.counts} points of Branin, seed {arguments.seed}, jax {jax.__version__}\n")
    print(
        "| way | acceptance | R-hat log density | R-hat tau | R-hat predictions, largest | median | noise | nRMSE | s |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for name in arguments.ways:
        print(f"| {name} | {' | '.join(_measured(WAYS[name](), data, new, truth, arguments.seed))} |", flush=True)


def _measured(surrogate: Darn, data: Dataset, new: np.ndarray, truth: np.ndarray, seed: int) -> list[str]:
    with jax.enable_x64(surrogate.double):
        unravel = surrogate._unravel(data)

        def seen(flat: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
            parameters = unravel(flat)
            height, levels = surrogate.model.log_joint(parameters, data)
            outputs = surrogate.model.stack.outputs(levels, jnp.asarray(new, jnp.float32))
            return height[None], parameters.log_precision, outputs[:, -1]

        @jax.jit
        def fitted(key: jax.Array, start: jax.Array):
            result = surrogate.inference.run(key, surrogate.target(data), start, jnp.asarray(False))
            return result.info, jax.lax.map(seen, result.draws)

        key_start, key_fit = jax.random.split(jax.random.key(seed))
        start = surrogate.starts(key_start, data)
        jax.block_until_ready(fitted(key_fit, start))
        before = time.perf_counter()
        info, drawn = jax.block_until_ready(fitted(key_fit, start))
        seconds = time.perf_counter() - before
        num_chains = surrogate.inference.num_chains
        height, tau, outputs = (np.asarray(each).reshape(num_chains, -1, each.shape[-1]) for each in drawn)
        between = np.asarray(rhat(jnp.asarray(outputs)))
        error = outputs.reshape(-1, NUM_NEW).mean(0) - truth
        return [
            f"{float(np.mean(np.asarray(info.acceptance))):.3f}",
            f"{float(rhat(jnp.asarray(height))[0]):.2f}",
            f"{float(np.max(np.asarray(rhat(jnp.asarray(tau))))):.2f}",
            f"{between.max():.2f}",
            f"{np.median(between):.2f}",
            f"{np.exp(-tau[..., -1]).mean():.3f}",
            f"{np.sqrt(np.mean(error**2) / np.var(truth)):.2f}",
            f"{seconds:.1f}",
        ]


if __name__ == "__main__":
    main()
