"""Make problems from LCBench (Zimmer, Lindauer, Hutter 2021), with the surrogate of YAHPO Gym 1.0.2.

LCBench tunes networks on tabular data. There are seven hyperparameters, with the bounds and scales of YAHPO's
config_space.json. The objective is the validation accuracy in per cent, which is maximised. One bound differs: YAHPO
allows five layers. But the surrogate was fitted to one to four (the scaling in its file shows this), and at five layers
it predicts accuracies that no network had.

The fidelity is the number of epochs: 3, 13 and 51. Each is about four times the one below. Costs are the epochs. Epoch
1 is an untrained network, and epoch 52, the last one, does not fit to the epochs before it.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bmbo
from experiments.problems import reference_values
from experiments.problems.benchmark import Benchmark, DataMissingError
from experiments.problems.data_files import find

Floats = NDArray[np.float64]

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
"""The order is that of the surrogate's inputs, which follow the epoch."""

ACCURACY = 1
"""The column of the surrogate's output with the validation accuracy."""

FILES = {
    "model.onnx": "b45c0d85ae39abf8820c8bea5ac82f415763afcbaf3b725e36af452b09cb6dcd",
    "encoding.json": "d8af928f412bbeb07e58ecd69877fcab35fbc595333d1c1c3f76120d2f2508da",
}

SOURCE = "https://github.com/slds-lmu/yahpo_data/raw/v1.0.2/lcbench/{file}"

TASKS: dict[str, str] = {
    "3945": "KDDCup09 appetency",
    "7593": "covertype",
    "34539": "Amazon employee access",
    "126025": "adult",
    "126026": "nomao",
    "126029": "bank marketing",
    "146212": "shuttle",
    "167104": "Australian",
    "167149": "kr-vs-kp",
    "167152": "mfeat factors",
    "167161": "credit-g",
    "167168": "vehicle",
    "167181": "kc1",
    "167184": "blood transfusion",
    "167185": "cnae-9",
    "167190": "phoneme",
    "167200": "higgs",
    "167201": "connect-4",
    "168329": "helena",
    "168330": "jannis",
    "168331": "volkert",
    "168335": "MiniBooNE",
    "168868": "APS failure",
    "168908": "christine",
    "168910": "fabert",
    "189354": "airlines",
    "189862": "jasmine",
    "189865": "sylvine",
    "189866": "albert",
    "189873": "dionis",
    "189905": "car",
    "189906": "segment",
    "189908": "Fashion-MNIST",
    "189909": "jungle chess",
}
"""The data sets by their OpenML task. adult has the weakest low fidelities of the first eight that were used, with rank
correlations of 0.37 and 0.74 to the top. Fashion-MNIST has strong ones, with 0.86 and 0.93.

The best known values belong to the surrogate, not to the data set: the best configurations lie in corners (large
learning rate and momentum, small batches) where few networks were trained.
"""


@cache
def _surrogate() -> tuple[Any, dict[str, int]]:
    """Return the surrogate and its codes of the data sets. Both are loaded once per process."""
    # The import is here, because other problems do not need the package.
    try:
        import onnxruntime  # noqa: PLC0415
    except ImportError as error:
        raise DataMissingError("lcbench needs ONNX Runtime: pip install onnxruntime") from error
    folder = find("yahpo/lcbench", FILES, SOURCE)
    codes = json.loads((folder / "encoding.json").read_text())["OpenML_task_id"]
    options = onnxruntime.SessionOptions()
    # A query has one row. More threads cost more than they gain, and runs share the cores.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])
    return session, codes


def accuracies(task: str, points: Floats, epoch: int) -> Floats:
    """Return the validation accuracies of many configurations [n 7], with columns in the order of the space."""
    return predicted(task, points, epoch)[:, ACCURACY]


def predicted(task: str, points: Floats, epoch: int) -> Floats:
    """Return all outputs of the surrogate for many configurations [n 7]: the seconds first, then the accuracy."""
    session, codes = _surrogate()
    category = np.full((len(points), 1), codes[task], np.int32)
    continuous = np.column_stack([np.full(len(points), epoch), points]).astype(np.float32)
    (output,) = session.run(None, {"x_cat": category, "x_cont": continuous})
    return np.asarray(output, np.float64)


@dataclass(frozen=True)
class Accuracy:
    """Evaluate the validation accuracy on one data set."""

    task: str

    def at_top(self, configs: Sequence[Mapping[str, Any]]) -> list[float]:
        """Return the validation accuracies of many configurations at the top, far quicker than one by one."""
        points = np.array([[config[name] for name in SPACE.names] for config in configs], dtype=np.float64)
        return accuracies(self.task, points, EPOCHS[-1]).tolist()

    def __call__(self, config: Mapping[str, Any], level: int) -> float:
        """Return the validation accuracy of a configuration at a level."""
        point = np.array([[config[name] for name in SPACE.names]], dtype=np.float64)
        return float(accuracies(self.task, point, EPOCHS[level])[0])


def _make(task: str) -> Benchmark:
    ladder = bmbo.Ladder(bmbo.Fidelity(epoch, cost=epoch, name=f"{epoch} epochs") for epoch in EPOCHS)
    problem = bmbo.Problem(SPACE, ladder, maximise=True)
    name, accuracy = f"lcbench_{task}", Accuracy(task)
    known = reference_values.read().get(name)
    optimum = None if known is None else known.best
    source = f"YAHPO's LCBench, OpenML task {task}, {TASKS[task]}"
    return Benchmark(name, problem, accuracy, optimum, source, _surrogate, many_at_top=accuracy.at_top)


PROBLEMS: dict[str, Callable[[], Benchmark]] = {f"lcbench_{task}": partial(_make, task) for task in TASKS}
