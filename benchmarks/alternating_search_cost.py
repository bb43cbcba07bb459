"""Measure how the cost of Algorithm 2 grows with levels and places: seconds and scored pairs of one sweep.

    python benchmarks/alternating_search_cost.py --out docs/results/alternating_search_cost.md

The functions are networks drawn from their prior, so nothing is fitted. The optimum f* is given. The time of one sweep
is the difference between many and few sweeps, so that only the sweeps are counted.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from bmbo.acquisition.alternating_search import Alternating, Selection, alternate
from bmbo.acquisition.batch_invariants import Pending
from bmbo.acquisition.sampled_optima import Optimum, find_optimum
from bmbo.problem import Fidelity, Float, Ladder, Problem, Space
from bmbo.surrogates.darn import Darn, DarnPosterior
from bmbo.surrogates.darn_networks import Weights
from surrogate_table import finite, heading, markdown, timed, write

FEW = 2
"""Sweeps of the shorter of the two runs whose times are subtracted."""

MORE_UPDATES = 1600
"""Updates of a level and place that the longer run makes more. They take about the same time in every row, well above
the noise."""

PRECISION = 1e4
"""Noise precision. The noise is a hundredth of the spread, as in a fit to a function without noise."""


@dataclass(frozen=True)
class Measured:
    """Hold the measurements for one number of levels and places. "Whole" means a default suggestion."""

    num_levels: int
    num_places: int
    seconds_sweep: float
    scored_sweep: float
    seconds_whole: float | None
    sweeps_whole: int | None


def random_posterior(key: jax.Array, num_draws: int, dim: int, num_levels: int) -> DarnPosterior:
    """Return a posterior of the default preset's networks, drawn from their prior."""
    model = Darn.preset("default").model
    # The last layers have different lengths, because the inputs of the networks have.
    shapes = [last.shape for last in model.start(key, dim, num_levels).last]

    def draw(key: jax.Array) -> tuple[Weights, ...]:
        key_hidden, key_last = jax.random.split(key)
        keys = jax.random.split(key_last, num_levels)
        last = [jax.random.normal(key, shape) for key, shape in zip(keys, shapes, strict=True)]
        return tuple(map(Weights, model.stack.draw(key_hidden, dim, num_levels), last))

    levels = jax.vmap(draw)(jax.random.split(key, num_draws))
    return DarnPosterior(levels, jnp.full((num_draws, num_levels), PRECISION), model.stack)


def problem(dim: int, num_levels: int) -> Problem:
    """Return a problem on a cube. Each level costs twice as much as the one below."""
    space = Space({f"x{i}": Float(0, 1) for i in range(dim)})
    return Problem(space, Ladder([Fidelity(level, cost=2.0**level) for level in range(num_levels)]), maximise=True)


@partial(jax.jit, static_argnames=("space", "num", "config"))
def _search(
    key: jax.Array,
    posterior: DarnPosterior,
    optimum: Optimum,
    costs: jax.Array,
    pending: Pending,
    *,
    space: Space,
    num: int,
    config: Alternating,
) -> Selection:
    return alternate(key, posterior, optimum, costs, pending, space=space, num=num, config=config)


def sweep_cost(
    posterior: DarnPosterior, optimum: Optimum, what: Problem, num: int, repeats: int
) -> tuple[float, float]:
    """Return the seconds and the scored pairs of one sweep over the candidates."""
    costs, pending = jnp.asarray(what.ladder.costs), Pending.of((), what.space.dim)
    more = max(10, MORE_UPDATES // (what.ladder.num_levels * num))
    least: list[float] = []
    scored: list[int] = []
    for num_sweeps in (FEW, FEW + more):
        # With a negative tolerance every sweep is made, even if it improves nothing.
        config = Alternating(num_iterations=num_sweeps, tolerance=-1.0, num_starts=1, polish_steps=0)
        run = partial(_search, space=what.space, num=num, config=config)
        # The first call compiles.
        selection, _ = timed(run, jax.random.key(0), posterior, optimum, costs, pending)
        times = [timed(run, jax.random.key(0), posterior, optimum, costs, pending)[1] for _ in range(repeats)]
        if int(selection.sweeps) != num_sweeps:
            raise RuntimeError(f"{num_sweeps} sweeps were asked for, {int(selection.sweeps)} made")
        # The smallest time, because other work on the machine only adds to it.
        least.append(min(times))
        scored.append(int(selection.num_scored))
    return (least[1] - least[0]) / more, (scored[1] - scored[0]) / more


def measure(num_levels: int, places: Sequence[int], arguments: argparse.Namespace) -> list[Measured]:
    """Return the measurements of all batch sizes for one number of levels."""
    what = problem(arguments.dim, num_levels)
    posterior = random_posterior(jax.random.key(num_levels), arguments.draws, arguments.dim, num_levels)
    optimum = jax.jit(find_optimum, static_argnames="dim")(jax.random.key(0), posterior, dim=arguments.dim)
    measured: list[Measured] = []
    for num in places:
        seconds, scored = sweep_cost(posterior, optimum, what, num, arguments.repeats)
        whole, sweeps = None, None
        if arguments.whole:
            select = Alternating().select
            times = [timed(select, jax.random.key(1), posterior, what, (), num) for _ in range(1 + arguments.repeats)]
            whole, sweeps = min(taken for _, taken in times[1:]), int(times[0][0].sweeps)
        measured.append(Measured(num_levels, num, seconds, scored, whole, sweeps))
    return measured


def table(measured: Sequence[Measured]) -> str:
    """Return a table of costs, and of their ratios to growth in proportion to M * B; below one is better."""
    first = measured[0]
    rows: list[list[str]] = []
    for each in measured:
        growth = each.num_levels * each.num_places / (first.num_levels * first.num_places)
        row = [str(each.num_levels), str(each.num_places), f"{each.scored_sweep:.0f}"]
        row.append(f"{each.scored_sweep / first.scored_sweep / growth:.2f}")
        row.append(f"{1e3 * each.seconds_sweep:.2f}")
        row.append(f"{each.seconds_sweep / first.seconds_sweep / growth:.2f}")
        if each.seconds_whole is not None:
            row += [f"{each.seconds_whole:.2f}", str(each.sweeps_whole)]
        rows.append(row)
    header = ["M", "B", "pairs scored per sweep", "ratio to linear", "ms per sweep", "ratio to linear"]
    whole = ["whole suggestion, s", "sweeps of its best batch"] if first.seconds_whole is not None else []
    return markdown([*header, *whole], rows)


def exponents(measured: Sequence[Measured]) -> list[str]:
    """Return a sentence with the exponents a, b of seconds ~ M^a B^b, if both M and B vary."""
    if len({each.num_levels for each in measured}) < 2 or len({each.num_places for each in measured}) < 2:
        return []
    columns = [[1.0, np.log(each.num_levels), np.log(each.num_places)] for each in measured]
    # The measured time of a very short sweep can be negative.
    seconds = np.log([max(each.seconds_sweep, 1e-9) for each in measured])
    _, levels, places = np.linalg.lstsq(np.asarray(columns), seconds, rcond=None)[0]
    return [f"Over all rows, seconds of a sweep grow as M^{levels:.2f} B^{places:.2f} (1 is linear)."]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--levels", nargs="+", type=int, default=[1, 2, 4, 8], help="the paper's M")
    parser.add_argument("--places", nargs="+", type=int, default=[1, 2, 5, 10, 20], help="the paper's B")
    parser.add_argument("--dim", type=int, default=4)
    parser.add_argument("--draws", type=int, default=512, help="number of functions; the default preset has 512")
    parser.add_argument("--repeats", type=int, default=5, help="number of timings; the smallest one is taken")
    parser.add_argument("--whole", action="store_true", help="also time a whole suggestion; compiles for minutes")
    parser.add_argument("--out", type=Path, help="Markdown file for the table")
    parser.add_argument("--json", type=Path, help="JSON file for every row")
    arguments = parser.parse_args()
    measured: list[Measured] = []
    for num_levels in tqdm(arguments.levels, unit="level"):
        measured += measure(num_levels, arguments.places, arguments)
    text = "\n\n".join([heading("alternating_search_cost.py"), table(measured), *exponents(measured)])
    print(text)
    write(arguments.out, text)
    write(arguments.json, json.dumps(finite([asdict(each) for each in measured]), indent=1))


if __name__ == "__main__":
    main()
