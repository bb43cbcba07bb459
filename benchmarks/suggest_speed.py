"""Measure how long a suggestion takes: a batch of five on the paper's Branin, next to BoTorch if it is installed.

    python benchmarks/suggest_speed.py --out docs/results/speed.md --json suggest_speed.json
    python benchmarks/suggest_speed.py --sizes --hmc

The first call of a size compiles. A warm call is the round after five new observations: it is compiled, and its chains
continue from the round before. `--hmc` also runs the paper's own sampling budget, next to the same sampler in eager
PyTorch. Ours and the peers take turns in one process.
"""

# PyTorch is a peer and may be missing.
# pyright: reportMissingImports=false
# ruff: noqa: PLC0415

import argparse
import importlib.util
import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

import botorch_peer
from bmbo.acquisition.alternating_search import Alternating
from bmbo.history import Dataset, History, Query
from bmbo.inference import PaperHMC, Result
from bmbo.surrogates.darn import Darn
from bmbo.surrogates.darn_density import Parameters
from bmbo.surrogates.darn_networks import Hidden
from bmbo.synthetic import Synthetic, branin
from surrogate_table import SIZES, Floats, draw_observations, evaluate, finite, heading, markdown, quick, timed, write

BATCH = 5

LINEAR_FROM = 300
"""With fewer observations, fixed costs hide how the cost of a suggestion grows."""


@dataclass(frozen=True)
class Seconds:
    """Hold the seconds of one suggestion."""

    fit: float
    select: float

    @property
    def total(self) -> float:
        """Return the seconds of both."""
        return self.fit + self.select


@dataclass(frozen=True)
class Measured:
    """Hold all suggestions at one size. `recompiled` is the cost of a new shape; None if the shape stayed the same."""

    num: int
    rows: int
    first: Seconds
    cold: Seconds
    warm: list[Seconds]
    recompiled: float | None
    peers: dict[str, list[Seconds]] = field(default_factory=dict[str, list[Seconds]])


def split(num: int) -> tuple[int, int, int]:
    """Return the numbers of observations: half at the low level, a third at the middle level, the rest at the top."""
    return num // 2, num // 3, num - num // 2 - num // 3


def suggest(
    surrogate: Darn, key: jax.Array, units: list[Floats], values: list[Floats], warm: Any
) -> tuple[list[Query], Any, Seconds]:
    """Suggest a batch as a study does, and return the queries, the warm state and the seconds."""
    key_fit, key_select = jax.random.split(key)

    def fit() -> Any:
        data = Dataset.of_arrays(units, values)
        return data, surrogate.fit(key_fit, data, warm)

    (data, (posterior, warm, _)), seconds_fit = timed(fit)
    history = History(branin().problem)
    queries, seconds_select = timed(Alternating(), key_select, posterior, data, history, BATCH)
    return queries, warm, Seconds(seconds_fit, seconds_select)


def observed(
    function: Synthetic, units: list[Floats], values: list[Floats], queries: Sequence[Query]
) -> tuple[list[Floats], list[Floats]]:
    """Return the observations with those of a batch added."""
    units, values = list(units), list(values)
    for query in queries:
        unit = np.asarray([query.unit])
        units[query.level] = np.concatenate([units[query.level], unit])
        values[query.level] = np.concatenate([values[query.level], evaluate(function, unit, query.level)])
    return units, values


def peer_settings(threads: Sequence[str]) -> list[tuple[str, int, int]]:
    """Return the name, the threads and the refits of each way to run BoTorch, or nothing if it is not installed.

    A refit continues where the stock fit may stop early, see botorch_peer.py.
    """
    if not botorch_peer.is_installed():
        return []
    import torch

    counts = list(dict.fromkeys(torch.get_num_threads() if each == "default" else int(each) for each in threads))
    fits = {0: "stock fit", 1: "one refit"}
    return [(f"BoTorch, {fits[r]}, {c} thread{'s' * (c > 1)}", c, r) for c in counts for r in fits]


def ask_peer(units: list[Floats], values: list[Floats], *, seed: int, threads: int, refits: int) -> Seconds:
    """Return the seconds of a suggestion by BoTorch."""
    import torch

    torch.set_num_threads(threads)
    costs = branin().problem.ladder.costs
    _, _, fit, select = botorch_peer.suggest([*units], [*values], costs, BATCH, seed, num_refits=refits)
    return Seconds(fit, select)


def measure(num: int, surrogate: Darn, peers: Sequence[tuple[str, int, int]], repeats: int) -> Measured:
    """Measure first, cold and warm suggestions at one size. In the warm round, the peers take turns with ours."""
    function = branin()
    units, values = draw_observations(np.random.default_rng(num), function, split(num))
    sizes = Dataset.of_arrays(units, values).sizes
    # As in a new process, nothing of an earlier size is kept.
    jax.clear_caches()
    queries, warm, first = suggest(surrogate, jax.random.key(0), units, values, None)
    _, _, cold = suggest(surrogate, jax.random.key(1), units, values, None)
    units, values = observed(function, units, values, queries)
    new_sizes, recompiled = Dataset.of_arrays(units, values).sizes, None
    if new_sizes != sizes:
        # Padding makes this rare: the block of a level doubles. The time of this one compilation is reported apart.
        recompiled = suggest(surrogate, jax.random.key(1), units, values, warm)[2].total
    result = Measured(num, sum(new_sizes), first, cold, [], recompiled, {name: [] for name, _, _ in peers})
    for repeat in range(repeats):
        result.warm.append(suggest(surrogate, jax.random.key(2 + repeat), units, values, warm)[2])
        for name, threads, refits in peers:
            result.peers[name].append(ask_peer(units, values, seed=repeat, threads=threads, refits=refits))
    return result


def median(each: Sequence[Seconds]) -> Seconds:
    """Return the medians of fit and selection."""
    return Seconds(float(np.median([s.fit for s in each])), float(np.median([s.select for s in each])))


def table(measured: Sequence[Measured]) -> str:
    """Return a table with the ratios first, and seconds as fit + selection = total."""

    def shown(seconds: Seconds) -> str:
        return f"{seconds.fit:.2f} + {seconds.select:.2f} = {seconds.total:.2f}"

    names = list(dict.fromkeys(name for each in measured for name in each.peers))
    rows: list[list[str]] = []
    for each in measured:
        warm = median(each.warm)
        peers = [median(each.peers[name]) if each.peers.get(name) else None for name in names]
        ratios = ["-" if peer is None else f"{peer.total / warm.total:.1f}" for peer in peers]
        ours = [shown(warm), shown(each.cold), shown(each.first)]
        recompiled = "-" if each.recompiled is None else f"{each.recompiled:.2f}"
        theirs = ["-" if peer is None else shown(peer) for peer in peers]
        rows.append([str(each.num), *ratios, *ours, recompiled, *theirs, str(each.rows)])
    ratios = [f"times faster than {name}" for name in names]
    ours = ["ours, warm", "ours, cold but compiled", "ours, first (compiles)", "new shape, once"]
    return markdown(["observations", *ratios, *ours, *names, "padded rows"], rows)


def growth(measured: Sequence[Measured]) -> list[str]:
    """Return a sentence with the growth of the seconds: the slope of log seconds over log n. One is linear."""
    large = [each for each in measured if each.num >= LINEAR_FROM]
    if len(large) < 2:
        return []
    size = np.log([each.num for each in large])
    seconds = {
        "warm suggestion": [median(each.warm).total for each in large],
        "warm fit": [median(each.warm).fit for each in large],
        "cold fit": [each.cold.fit for each in large],
    }
    slopes = [f"{what} n^{np.polyfit(size, np.log(taken), 1)[0]:.2f}" for what, taken in seconds.items()]
    return [f"Growth from {large[0].num} to {large[-1].num} observations: {', '.join(slopes)} (n^1 is linear)."]


@partial(jax.jit, static_argnames=("surrogate",))
def _sample(key: jax.Array, data: Dataset, start: jax.Array, *, surrogate: Darn) -> Result:
    return surrogate.inference.run(key, surrogate.target(data), start, jnp.asarray(False))


def paper_hmc(num_transitions: int) -> Darn:
    """Return the paper's preset with a number of transitions. The paper has 7,000, of which 5,000 are burn-in."""
    num_draws = num_transitions // 35
    inference = PaperHMC(num_burnin=num_transitions - 10 * num_draws, num_draws=num_draws, thinning=10)
    return replace(Darn.preset("paper"), inference=inference)


def real_rows(surrogate: Darn, data: Dataset) -> tuple[list[Floats], list[Floats]]:
    """Return the inputs of the networks and the standardised values of each level without padding, for eager_hmc."""
    inputs, value = np.asarray(surrogate.model.stack.first_inputs(data.unit)), np.asarray(data.value)
    kept = [np.flatnonzero(np.asarray(data.mask)[data.rows(m)]) + data.rows(m).start for m in range(data.num_levels)]
    return [inputs[rows].astype(np.float64) for rows in kept], [value[rows].astype(np.float64) for rows in kept]


def disagreement(surrogate: Darn, data: Dataset) -> float:
    """Return the relative error of our log density against eager_hmc's, in its difference between two random points."""
    import torch

    import eager_hmc

    units, values = real_rows(surrogate, data)
    peer = eager_hmc.Data.of(units, values, a0=1.0, b0=1.0)
    places = [
        0.3 * np.random.default_rng(seed).standard_normal(eager_hmc.num_parameters(peer)).astype(np.float32)
        for seed in range(2)
    ]
    theirs = [float(eager_hmc.logdensity(torch.as_tensor(place), peer)) for place in places]
    nets = eager_hmc.layer_shapes(peer)
    ours = [float(surrogate.model.log_joint(_parameters(place, nets), data)[0]) for place in places]
    return abs((ours[1] - ours[0]) / (theirs[1] - theirs[0]) - 1.0)


def _parameters(vector: NDArray[np.float32], nets: Sequence[Sequence[tuple[int, int]]]) -> Parameters:
    """Return our parameters from a vector of eager_hmc. `eager_hmc.logdensity` describes its order."""
    hidden: list[Hidden] = []
    last: list[jax.Array] = []
    start = 0
    for net in nets:
        weights: list[jax.Array] = []
        biases: list[jax.Array] = []
        for rows, columns in net:
            middle, end = start + rows * columns, start + (rows + 1) * columns
            weights.append(jnp.asarray(vector[start:middle].reshape(rows, columns)))
            biases.append(jnp.asarray(vector[middle:end]))
            start = end
        hidden.append(Hidden(tuple(weights[:-1]), tuple(biases[:-1]), None, None, None))
        last.append(jnp.concatenate([weights[-1][:, 0], biases[-1]]))
    return Parameters(tuple(hidden), tuple(last), jnp.asarray(vector[start:]))


def compare_hmc(num_transitions: int, num_eager: int, repeats: int) -> tuple[str, dict[str, Any]]:
    """Run the paper's sampler compiled and eager, in turn, on the same density, and return a text and the times.

    The time of the eager one may be scaled from a part of the transitions.
    """
    surrogate, function = paper_hmc(num_transitions), branin()
    units, values = draw_observations(np.random.default_rng(0), function, SIZES["branin"])
    data = Dataset.of_arrays(units, values)
    start = surrogate.starts(jax.random.key(0), data)
    arguments = (jax.random.key(1), data, start)
    compiled, seconds_compile = timed(lambda: _sample.lower(*arguments, surrogate=surrogate).compile())
    record: dict[str, Any] = {"transitions": num_transitions, "eager_transitions": num_eager}
    record |= {"compile": seconds_compile, "ours": [], "eager": [], "acceptance": [], "eager_acceptance": []}
    has_torch = importlib.util.find_spec("torch") is not None
    if has_torch:
        record["disagreement"] = disagreement(surrogate, data)
    for repeat in range(repeats):
        result, seconds = timed(compiled, *arguments)
        record["ours"].append(seconds)
        record["acceptance"].append(float(np.mean(np.asarray(result.info.acceptance))))
        if has_torch:
            seconds, acceptance = _eager(surrogate, data, num_eager, repeat)
            record["eager"].append(seconds * num_transitions / num_eager)
            record["eager_acceptance"].append(acceptance)
    return _describe_hmc(record, sum(map(len, values))), record


def _eager(surrogate: Darn, data: Dataset, num_transitions: int, seed: int) -> tuple[float, float]:
    import torch

    import eager_hmc

    # One thread is the fastest for such small networks, see eager_hmc.py.
    torch.set_num_threads(1)
    units, values = real_rows(surrogate, data)
    # The device is the same as ours. The first run is short and not counted, because a GPU loads its libraries then.
    device = "cuda" if jax.devices()[0].platform == "gpu" else "cpu"
    for num in (3, num_transitions):
        seconds, acceptance, _ = eager_hmc.run(
            units, values, num_transitions=num, seed=seed, a0=1.0, b0=1.0, device=device
        )
    return seconds, acceptance


def _describe_hmc(record: dict[str, Any], num: int) -> str:
    ours, transitions = float(np.median(record["ours"])), record["transitions"]
    what = f"{transitions:,} HMC transitions of 10 leapfrog steps at {num} observations"
    mine = f"ours {ours:.1f} s (and {record['compile']:.1f} s to compile, once)"
    accepted = f"Acceptance: ours {np.mean(record['acceptance']):.3f}"
    if not record["eager"]:
        return f"{what}: {mine}; PyTorch is not installed, no eager run beside it. {accepted}."
    eager = float(np.median(record["eager"]))
    scaled = "" if record["eager_transitions"] == transitions else f", scaled from {record['eager_transitions']:,}"
    return (
        f"**{eager / ours:.1f} times faster than eager PyTorch**: {what}: {mine},"
        f" eager {eager:.1f} s on the same device{scaled} (on a CPU, with one thread)."
        f" {accepted}, eager {np.mean(record['eager_acceptance']):.3f}."
        f" The two log densities agree to {record['disagreement']:.0e}."
    )


def machine() -> str:
    """Return a description of the machine."""
    model = platform.processor()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), model)
    device = jax.devices()[0]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    text = (
        f"Device: {device.platform} ({device.device_kind}); CPU {model}, {cores} cores usable."
        " Ours leaves the number of its threads to XLA."
    )
    if importlib.util.find_spec("torch") is None:
        return f"{text} PyTorch is not installed."
    import torch

    peers = " and ".join(f"{name} {version(name)}" for name in ("torch", "botorch") if importlib.util.find_spec(name))
    return f"{text} Peers: {peers}; PyTorch's default number of threads is {torch.get_num_threads()}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="*", type=int, default=[60, 150, 300, 1000, 5000], help="observations")
    parser.add_argument("--repeats", type=int, default=3, help="number of warm rounds; the median is shown")
    parser.add_argument("--peer-limit", type=int, default=300, help="largest size at which BoTorch runs; 0: never")
    parser.add_argument("--torch-threads", nargs="+", default=["1"], help="numbers, or 'default' for PyTorch's own")
    parser.add_argument("--hmc", action="store_true", help="also run the paper's sampler, compiled and eager")
    parser.add_argument("--hmc-transitions", type=int, default=7000, help="its transitions; the paper has 7000")
    parser.add_argument("--hmc-eager", type=int, default=300, help="transitions of the eager sampler")
    parser.add_argument("--full", action="store_true", help="run the eager sampler on all transitions")
    parser.add_argument("--quick", action="store_true", help="use a tiny budget, only to see that the script runs")
    parser.add_argument("--out", type=Path, help="Markdown file for the tables")
    parser.add_argument("--json", type=Path, help="JSON file for every time")
    arguments = parser.parse_args()
    # This comes before anything sets the number of PyTorch's threads.
    parts = [heading("suggest_speed.py"), machine()]
    surrogate = quick(Darn.preset("default")) if arguments.quick else Darn.preset("default")
    peers = peer_settings(arguments.torch_threads) if arguments.sizes and arguments.peer_limit > 0 else []
    if peers:
        # BoTorch imports most of its modules in the first call, which must not count.
        few = draw_observations(np.random.default_rng(0), branin(), (6, 4, 4))
        ask_peer(*few, seed=0, threads=peers[0][1], refits=0)
    record: dict[str, Any] = {"suggestions": []}
    measured: list[Measured] = []
    for num in tqdm(arguments.sizes, unit="size", disable=not arguments.sizes):
        here = peers if num <= arguments.peer_limit else []
        measured.append(measure(num, surrogate, here, arguments.repeats))
        record["suggestions"].append(asdict(measured[-1]))
        # Saved after every size, because the largest takes the longest.
        save(arguments, [*parts, *described(measured)], record)
    parts += described(measured)
    if arguments.hmc:
        num_eager = arguments.hmc_transitions if arguments.full else arguments.hmc_eager
        text, record["hmc"] = compare_hmc(arguments.hmc_transitions, num_eager, arguments.repeats)
        parts.append(text)
    print("\n\n".join(parts))
    save(arguments, parts, record)


def described(measured: Sequence[Measured]) -> list[str]:
    """Return the part about suggestions, or nothing if there were none."""
    if not measured:
        return []
    return [f"Seconds to suggest a batch of {BATCH}, fit + selection = total.", table(measured), *growth(measured)]


def save(arguments: argparse.Namespace, parts: Sequence[str], record: dict[str, Any]) -> None:
    """Write the results to the given files."""
    write(arguments.out, "\n\n".join(parts))
    write(arguments.json, json.dumps(finite(record), indent=1))


if __name__ == "__main__":
    main()
