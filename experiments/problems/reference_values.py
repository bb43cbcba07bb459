"""Read and write the reference values of problems: the best known value at the top and that of random configurations.

`python -m experiments reference` computes them. The normalised regret of a value is 0 at the best known value and 1 at
the median of random configurations, so that problems with different units can be averaged.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

PATH = Path(__file__).resolve().parents[1] / "tables" / "reference_values.json"


@dataclass(frozen=True)
class Reference:
    """Hold the reference values of a problem, in the units of its objective and without noise.

    Attributes:
        best: the optimum or, if it is not known, the best value that was found.
        median: the median of random configurations; a failure counts as worse than any value.
        num_random: the number of random configurations.
        num_climbing: the number of evaluations of the local search; 0 if the optimum is known.
    """

    best: float
    median: float
    num_random: int
    num_climbing: int

    def regret(self, value: float, best: float | None = None) -> float:
        """Return the normalised regret of a value at the top; `best` is a better value than the table's."""
        lowest = self.best if best is None else best
        return (value - lowest) / (self.median - lowest)


@cache
def read(path: Path = PATH) -> Mapping[str, Reference]:
    """Return the table, by the name of the problem. It is empty if there is no file."""
    if not path.is_file():
        return {}
    return {name: Reference(**values) for name, values in json.loads(path.read_text()).items()}


def write(found: Mapping[str, Reference], path: Path = PATH) -> None:
    """Write the table, sorted, with one line for each problem. What it had about other problems stays."""
    read.cache_clear()
    kept = dict(sorted({**read(path), **found}.items()))
    rows = [f"  {json.dumps(name)}: {json.dumps(_rounded(values))}" for name, values in kept.items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{\n" + ",\n".join(rows) + "\n}\n")
    read.cache_clear()


def _rounded(values: Reference) -> dict[str, float | int]:
    # Ten digits, as in the records.
    return {name: float(f"{v:.10g}") if isinstance(v, float) else v for name, v in asdict(values).items()}


def is_usable(values: Reference) -> bool:
    """Return whether a regret can be normalised: both values are finite and differ."""
    return math.isfinite(values.best) and math.isfinite(values.median) and values.best != values.median
