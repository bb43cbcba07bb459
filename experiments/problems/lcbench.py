"""LCBench (Zimmer, Lindauer, Hutter 2021): networks tuned on tables, through the surrogate of YAHPO Gym 1.0.2.

Seven hyperparameters with the bounds and scales of YAHPO's config_space.json; validation accuracy in per cent,
maximised. One bound differs: YAHPO allows five layers, but the surrogate was fitted to one to four (as the scaling in
its file says), and at five it promises accuracies that no network had.

The fidelity is the number of epochs: 3, 13 and 51, each about four times the one below, with epochs as costs. Epoch 1
is untrained and 52, the last, is out of line with those before it.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

import bmbo
from experiments.problems.benchmark import Benchmark
from experiments.problems.data_files import find
from experiments.problems.onnxfile import Graph

EPOCHS = (3, 13, 51)

SPACE = bmbo.Space(
    {
        "batch_size": bmbo.Int(16, 512, log=True),
        "learning_rate": bmbo.Float(1e-4, 1e-1, log=True),
        "momentum": bmbo.Float(0.1, 0.99),
        "weight_decay": bmbo.Float(1e-5, 1e-1),
        "num_layers": bmbo.Int(1, 4),
        "max_units": bmbo.Int(64, 1024, log=True),
        "max_dropout": bmbo.Float(0.0, 1.0),
    }
)
"""In the order in which the surrogate takes them, after the epoch."""

ACCURACY = 1
"""Column of the surrogate's output: validation accuracy."""

FILES = {
    "model.onnx": "b45c0d85ae39abf8820c8bea5ac82f415763afcbaf3b725e36af452b09cb6dcd",
    "encoding.json": "d8af928f412bbeb07e58ecd69877fcab35fbc595333d1c1c3f76120d2f2508da",
}

SOURCE = "https://github.com/slds-lmu/yahpo_data/raw/v1.0.2/lcbench/{file}"

BEST_KNOWN: dict[str, float] = {
    "126025": 98.38985,  # adult: the weakest low fidelity of all, rank correlations 0.37 and 0.74 with the top
    "189354": 91.54655,  # airlines
    "167181": 86.02103,  # kc1
    "168908": 89.07724,  # christine
    "168330": 72.14095,  # jannis
    "189909": 85.47314,  # jungle_chess
    "167184": 85.51815,  # blood transfusion
    "189908": 94.4558,  # Fashion-MNIST: a strong low fidelity, 0.86 and 0.93
}
"""The data sets, by their OpenML task, and the best value at the top that is known of each.

Found by climbing from the best 32 of 40,000 random configurations; of the surrogate, not of the data set: the best lie
in corners (large learning rate and momentum, small batches) where few networks were trained.
"""


@cache
def _surrogate() -> tuple[Graph, dict[str, int]]:
    folder = find("yahpo/lcbench", FILES, SOURCE)
    codes = json.loads((folder / "encoding.json").read_text())["OpenML_task_id"]
    return Graph.read(folder / "model.onnx"), codes


def accuracies(task: str, points: Any, epoch: int) -> Any:
    """Validation accuracy of many configurations [n 7], columns in the order of the space."""
    graph, codes = _surrogate()
    category = np.full((len(points), 1), codes[task], np.int32)
    continuous = np.column_stack([np.full(len(points), epoch), points]).astype(np.float32)
    return graph(x_cat=category, x_cont=continuous)[:, ACCURACY].astype(np.float64)


@dataclass(frozen=True)
class Accuracy:
    """The objective on one data set."""

    task: str

    def __call__(self, config: Mapping[str, Any], level: int) -> float:
        """See `Benchmark.evaluate`."""
        point = np.array([[config[name] for name in SPACE.names]], dtype=np.float64)
        return float(accuracies(self.task, point, EPOCHS[level])[0])


def _make(task: str) -> Benchmark:
    ladder = bmbo.Ladder(bmbo.Fidelity(epoch, cost=epoch, name=f"{epoch} epochs") for epoch in EPOCHS)
    problem = bmbo.Problem(SPACE, ladder, maximise=True)
    source = f"YAHPO's LCBench, OpenML task {task}"
    return Benchmark(f"lcbench_{task}", problem, Accuracy(task), BEST_KNOWN[task], source, _surrogate)


PROBLEMS: dict[str, Callable[[], Benchmark]] = {f"lcbench_{task}": partial(_make, task) for task in BEST_KNOWN}
