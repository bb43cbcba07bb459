"""Measure from how many observations a GPU is faster than the CPU of the same machine.

    python benchmarks/device_choice.py --sizes 150 1000 5000

The script prints the seconds of a warm fit and of choosing a batch of five on the paper's Branin, on every device that
JAX sees. The default of `bmbo.policies.device_and_cache.choose_device` comes from this table.
"""

import argparse
import time

import jax
import numpy as np

from bmbo.acquisition.alternating_search import Alternating
from bmbo.history import Dataset, History
from bmbo.surrogates.darn import Darn
from bmbo.synthetic import branin


def observations(num: int, seed: int = 0) -> Dataset:
    """Return random observations: half at the low level, a third at the middle level, the rest at the top."""
    function, generator = branin(), np.random.default_rng(seed)
    bounds = np.array([[-5.0, 10.0], [0.0, 15.0]])
    counts = (num // 2, num // 3, num - num // 2 - num // 3)
    units = [generator.random((count, 2)) for count in counts]
    points = [bounds[:, 0] + unit * (bounds[:, 1] - bounds[:, 0]) for unit in units]
    return Dataset.of_arrays(units, [function.values(at, level) for level, at in enumerate(points)])


def measure(device: jax.Device, num: int, repeats: int) -> tuple[float, float, float]:
    """Return the seconds of the first fit and choice, of a warm fit, and of a warm choice."""
    surrogate, select, history = Darn.preset(), Alternating(), History(branin().problem)
    with jax.default_device(device):
        data = observations(num)
        begun = time.perf_counter()
        posterior, chains, _ = surrogate.fit(jax.random.key(0), data)
        select(jax.random.key(1), posterior, data, history, 5)
        first = time.perf_counter() - begun
        fits: list[float] = []
        choices: list[float] = []
        for repeat in range(repeats):
            begun = time.perf_counter()
            posterior, _, _ = jax.block_until_ready(surrogate.fit(jax.random.key(repeat), data, chains))
            fits.append(time.perf_counter() - begun)
            begun = time.perf_counter()
            select(jax.random.key(repeat), posterior, data, history, 5)
            choices.append(time.perf_counter() - begun)
    return first, float(np.median(fits)), float(np.median(choices))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[150, 1000, 5000])
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    try:
        devices = [jax.devices("cpu")[0], jax.devices("gpu")[0]]
    except RuntimeError:
        devices = [jax.devices("cpu")[0]]
        print("JAX sees no GPU: the CPU alone")
    print("| observations | device | first, s | warm fit, s | warm choice, s |")
    print("|---|---|---|---|---|")
    for num in options.sizes:
        for device in devices:
            first, fit, choice = measure(device, num, options.repeats)
            print(f"| {num} | {device.device_kind} | {first:.1f} | {fit:.2f} | {choice:.2f} |", flush=True)


if __name__ == "__main__":
    main()
