"""Measure how well the surrogate predicts, by the protocol of the paper's Table 1, next to a plain Gaussian process.

    python benchmarks/surrogate_table.py --out docs/results/surrogate_table.md --json surrogate_table.json
    python benchmarks/surrogate_table.py --presets --methods --out docs/results/surrogate_table_presets.md

The second command makes the whole table of the paper. `--methods` takes names of other surrogates; without a name it
takes all of them.

Training points are uniformly random and independent at every level. Error and density are measured at uniformly random
test points of the top level, in units of that level's standardised training outputs.
"""

import argparse
import json
import math
import platform
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar, get_args

import blackjax
import jax
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from scipy.special import logsumexp
from tqdm import tqdm

import bmbo
from bmbo.history import Dataset
from bmbo.inference import MCLMC, Info, PaperHMC
from bmbo.protocols import Posterior, Surrogate
from bmbo.surrogates.darn import Darn, DarnPosterior, Preset
from bmbo.surrogates.dnn_mfbo import ChainedDarn, ChainedDarnPosterior
from bmbo.surrogates.gp import AutoRegressiveGP, CoregionalGP, IndependentGPs
from bmbo.surrogates.shared_basis import SharedBasis
from bmbo.surrogates.weighted_surrogates import Mixture
from bmbo.synthetic import Synthetic, branin, levy

Floats = NDArray[np.float64]
T = TypeVar("T")

FUNCTIONS: dict[str, Callable[[], Synthetic]] = {"levy": levy, "branin": branin}

SIZES = {"levy": (130, 65), "branin": (320, 130, 65)}
"""Training points of each level, lowest first, as in the paper."""

PAPER = {
    "levy": {
        "MF-GP-UCB": ("0.831 ± 0.195", "1.824 ± 0.276"),
        "MF-MES": ("0.581 ± 0.032", "1.401 ± 0.031"),
        "SHTL": ("0.443 ± 0.009", "1.208 ± 0.026"),
        "DNN-MFBO": ("0.365 ± 0.035", "1.081 ± 0.011"),
        "BMBO-DARN": ("0.348 ± 0.021", "1.072 ± 0.016"),
    },
    "branin": {
        "MF-GP-UCB": ("0.846 ± 0.147", "1.976 ± 0.208"),
        "MF-MES": ("0.719 ± 0.099", "1.796 ± 0.128"),
        "SHTL": ("0.835 ± 0.218", "1.958 ± 0.646"),
        "DNN-MFBO": ("0.182 ± 0.022", "0.973 ± 0.013"),
        "BMBO-DARN": ("0.158 ± 0.016", "0.965 ± 0.005"),
    },
}
"""nRMSE and MNLL in the paper's Table 1."""

METHODS: dict[str, Callable[[], Surrogate]] = {
    "MF-GP-UCB": IndependentGPs,
    "MF-MES": CoregionalGP,
    "SHTL": SharedBasis,
    "DNN-MFBO": lambda: ChainedDarn.preset("default"),
    "BMBO-DARN": lambda: Darn.preset("default"),
    "deep auto-regressive GP": AutoRegressiveGP,
    "mixture": lambda: Mixture((AutoRegressiveGP(), CoregionalGP())),
}
"""Surrogates of the paper's methods, with our inference, and two others."""

FROZEN = 0.01
"""A chain with a smaller acceptance has not sampled: fewer than 20 of the paper's 2,000 transitions after burn-in moved
it."""

SMALLEST_NOISE = 1e-8
"""Smallest noise variance of the Gaussian process. The functions have no noise, but double precision needs some."""


@dataclass(frozen=True)
class Sample:
    """Hold training observations of each level, lowest first, and the truth at test points of the top level.

    Larger values are better.
    """

    units: list[Floats]
    values: list[Floats]
    test_unit: Floats
    test_value: Floats

    def standardised(self, value: Floats) -> Floats:
        """Return values of the top level, standardised with its training set."""
        return (value - float(np.mean(self.values[-1]))) / float(np.std(self.values[-1]))


@dataclass(frozen=True)
class Prediction:
    """Hold a mixture of Gaussians at each of q points: s means per point, and variances that broadcast to them."""

    outputs: Floats
    variance: Floats

    def nrmse(self, value: Floats) -> float:
        """Return the root mean squared error of the mean over draws."""
        return float(np.sqrt(np.mean((np.mean(self.outputs, axis=0) - value) ** 2)))

    def mnll(self, value: Floats) -> float:
        """Return minus the mean log density."""
        each = -0.5 * ((value - self.outputs) ** 2 / self.variance + np.log(2 * math.pi * self.variance))
        mixture: Any = logsumexp(each, axis=0)  # SciPy's type also covers a result with signs
        return math.log(len(self.outputs)) - float(np.mean(mixture))


@dataclass(frozen=True)
class Score:
    """Hold the time, the errors and the diagnostics of one fit; NaN if a quantity has no meaning."""

    function: str
    model: str
    seed: int
    nrmse: float
    mnll: float
    seconds: float
    acceptance: float = math.nan
    divergences: float = math.nan
    rhat: float = math.nan
    ess: float = math.nan


def evaluate(function: Synthetic, unit: Floats, level: int) -> Floats:
    """Return the values at points of the unit cube. Larger is better."""
    space = function.problem.space
    points = np.array([[config[name] for name in space.names] for config in map(space.decode, unit)])
    return function.problem.sign * function.values(points.reshape(-1, len(space.names)), level)


def draw_observations(
    generator: np.random.Generator, function: Synthetic, sizes: Sequence[int]
) -> tuple[list[Floats], list[Floats]]:
    """Return uniformly random points of each level, and their values."""
    units = [generator.random((size, function.problem.space.dim)) for size in sizes]
    return units, [evaluate(function, unit, level) for level, unit in enumerate(units)]


def draw_sample(function: Synthetic, sizes: Sequence[int], num_test: int, seed: int) -> Sample:
    """Return the training and test points of one seed."""
    generator = np.random.default_rng(seed)
    units, values = draw_observations(generator, function, sizes)
    test_unit = generator.random((num_test, function.problem.space.dim))
    return Sample(units, values, test_unit, evaluate(function, test_unit, len(sizes) - 1))


def timed(function: Callable[..., T], *arguments: Any) -> tuple[T, float]:
    """Call a function and return its result and the seconds until the result is ready."""
    started = time.perf_counter()
    result = jax.block_until_ready(function(*arguments))
    return result, time.perf_counter() - started


@jax.jit
def _top_level(posterior: Posterior, unit: jax.Array) -> jax.Array:
    return posterior.draw(unit)[..., -1]


def predict(posterior: Posterior, unit: Floats) -> Prediction:
    """Return the prediction at the top level of some points. Each draw has its own noise, if the surrogate has one."""
    outputs = np.asarray(_top_level(posterior, jax.numpy.asarray(unit, np.float32)), np.float64)
    networks = posterior.networks if isinstance(posterior, ChainedDarnPosterior) else posterior
    if isinstance(networks, DarnPosterior):
        return Prediction(outputs, 1.0 / np.asarray(networks.precision, np.float64)[:, -1:])
    return Prediction(outputs, np.full((1, 1), float(posterior.noise[-1])))


def fit_and_predict(surrogate: Surrogate, sample: Sample, seed: int) -> tuple[Prediction, dict[str, float]]:
    """Fit a sample and return the prediction at its test points, the seconds and the diagnostics."""
    data = Dataset.of_arrays(sample.units, sample.values)
    (posterior, _, info), seconds = timed(surrogate.fit, jax.random.key(seed), data)
    about = {"seconds": seconds}
    if isinstance(info, Info):
        about |= {
            # Converted to NumPy first, because a fit may use double precision while JAX's default is single.
            "acceptance": float(np.mean(np.asarray(info.acceptance))),
            "divergences": float(np.sum(np.asarray(info.divergences))),
            "rhat": float(info.rhat),
            "ess": float(info.ess),
        }
    return predict(posterior, sample.test_unit), about


def quick(surrogate: Darn) -> Darn:
    """Return the surrogate with a tiny budget, only to see that a script runs."""
    inference = surrogate.inference
    if isinstance(inference, MCLMC):
        inference = replace(inference, num_search_steps=20, num_warmup=20, num_warmup_warm=10, thinning=1)
    elif isinstance(inference, PaperHMC):
        inference = replace(inference, num_burnin=50, num_draws=20, thinning=1)
    return replace(surrogate, inference=inference)


def quick_method(surrogate: Surrogate) -> Surrogate:
    """Return any surrogate with a tiny budget. Gaussian processes stay as they are, because they are quick."""
    if isinstance(surrogate, Darn):
        return quick(surrogate)
    if isinstance(surrogate, ChainedDarn):
        return ChainedDarn(quick(surrogate.darn))
    return replace(surrogate, num_steps=20) if isinstance(surrogate, SharedBasis) else surrogate


def _loss(end: Any) -> float:
    return float(end.fun)


def gaussian_process(unit: Floats, value: Floats, test: Floats, seed: int) -> Prediction:
    """Predict with a zero-mean Gaussian process: a length per coordinate, learnt noise, the best of five maxima."""
    num, dim = unit.shape

    def kernel(theta: Floats, one: Floats, other: Floats) -> tuple[Floats, Floats]:
        distance = (one[:, None] - other[None]) ** 2 / np.exp(2 * theta[:dim])
        return np.exp(theta[dim] - 0.5 * np.sum(distance, axis=2)), distance

    def factor(theta: Floats, covariance: Floats) -> Any:
        # The share of the amplitude makes the factorisation possible in double precision.
        return cho_factor(covariance + (np.exp(theta[-1]) + 1e-10 * np.exp(theta[dim])) * np.eye(num), lower=True)

    def loss(theta: Floats) -> tuple[float, Floats]:
        covariance, distance = kernel(theta, unit, unit)
        solver = factor(theta, covariance)
        weights = cho_solve(solver, value)
        slope = cho_solve(solver, np.eye(num)) - np.outer(weights, weights)
        parts = [covariance * distance[..., i] for i in range(dim)] + [covariance, np.exp(theta[-1]) * np.eye(num)]
        minus_log = 0.5 * value @ weights + float(np.sum(np.log(np.diag(solver[0]))))
        return minus_log, 0.5 * np.array([np.sum(slope * part) for part in parts])

    bounds = [(math.log(1e-2), math.log(1e2))] * dim + [(math.log(1e-2), math.log(1e4)), (math.log(SMALLEST_NOISE), 0)]
    generator = np.random.default_rng(seed)
    starts = [generator.normal([math.log(0.3)] * dim + [0.0, math.log(1e-3)], 1.0) for _ in range(5)]
    found: Any = min((minimize(loss, s, jac=True, bounds=bounds) for s in starts), key=_loss)
    solver, (cross, _) = factor(found.x, kernel(found.x, unit, unit)[0]), kernel(found.x, test, unit)
    explained = np.sum(cross * cho_solve(solver, cross.T).T, axis=1)
    variance = np.maximum(np.exp(found.x[dim]) - explained, 0.0) + np.exp(found.x[-1])
    return Prediction((cross @ cho_solve(solver, value))[None], variance[None])


def score_surrogate(name: str, preset: str, surrogate: Surrogate, num_test: int, seed: int) -> Score:
    """Fit a surrogate to one seed of a function and return its score."""
    sample = draw_sample(FUNCTIONS[name](), SIZES[name], num_test, seed)
    prediction, about = fit_and_predict(surrogate, sample, seed)
    truth = sample.standardised(sample.test_value)
    return Score(name, preset, seed, prediction.nrmse(truth), prediction.mnll(truth), **about)


def score_gaussian_process(name: str, num_test: int, seed: int) -> Score:
    """Return the score of the reference: a Gaussian process that sees the top level only."""
    sample = draw_sample(FUNCTIONS[name](), SIZES[name], num_test, seed)
    value = sample.standardised(sample.values[-1])
    prediction, seconds = timed(gaussian_process, sample.units[-1], value, sample.test_unit, seed)
    truth = sample.standardised(sample.test_value)
    return Score(name, "GP, top level alone", seed, prediction.nrmse(truth), prediction.mnll(truth), seconds)


def spread(numbers: Sequence[float], digits: int = 3) -> str:
    """Return the mean and the standard deviation as text, or a dash if a number is missing."""
    if not np.all(np.isfinite(numbers)):
        return "-" if np.any(np.isnan(numbers)) else "∞"
    deviation = f" ± {np.std(numbers, ddof=1):.{digits}f}" if len(numbers) > 1 else ""
    return f"{np.mean(numbers):.{digits}f}{deviation}"


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    return "\n".join("| " + " | ".join(row) + " |" for row in (header, ["---"] * len(header), *rows))


def table(scores: Sequence[Score]) -> str:
    """Return a table of means over seeds, next to the paper's. The first fit, which compiles, has its own column."""
    rows: list[list[str]] = []
    for name in dict.fromkeys(score.function for score in scores):
        models = list(dict.fromkeys(score.model for score in scores))
        papers = [model for model in models if model in PAPER[name]] or ["BMBO-DARN"]
        rows += [[name, f"paper, {model}", *PAPER[name][model], *["-"] * 6] for model in papers]
        for model in models:
            group = [score for score in scores if (score.function, score.model) == (name, model)]
            later = [score.seconds for score in group[1:]]
            rows.append(
                [
                    name,
                    model,
                    spread([score.nrmse for score in group], 4),
                    spread([score.mnll for score in group]),
                    f"{group[0].seconds:.2f}",
                    f"{np.median(later):.2f}" if later else "-",
                    spread([score.acceptance for score in group]),
                    spread([score.divergences for score in group], 1),
                    spread([score.rhat for score in group], 2),
                    spread([score.ess for score in group], 0),
                ]
            )
    header = ["function", "model", "nRMSE", "MNLL", "first fit, s", "later fits, s", "acceptance"]
    return markdown([*header, "divergences", "worst R-hat", "worst ESS"], rows)


def frozen_chains(scores: Sequence[Score]) -> list[str]:
    """Return a sentence for every function on which the chains of a preset did not accept."""
    sentences: list[str] = []
    for name, model in dict.fromkeys((score.function, score.model) for score in scores):
        group = [score for score in scores if (score.function, score.model) == (name, model)]
        frozen = [score for score in group if score.acceptance < FROZEN]
        if frozen:
            sentences.append(
                f"On {name} the chain of preset {model!r} did not accept: acceptance below {FROZEN} for"
                f" {len(frozen)} of {len(group)} seeds. Its draws are (nearly) one point, no sample of the posterior."
            )
    return sentences


def heading(script: str, packages: Sequence[str] = ("jax", "jaxlib", "numpy", "scipy")) -> str:
    """Return the command, without its output files, and the versions that it ran with."""
    kept: list[str] = []
    arguments = iter(sys.argv[1:])
    for argument in arguments:
        if argument in ("--json", "--out", "--out-svg", "--out-html"):
            next(arguments, None)
        else:
            kept.append(argument)
    device = jax.devices()[0]
    versions = ", ".join(f"{package} {version(package)}" for package in packages)
    note = (
        "\n\n**A quick run, only to see that the script works. Its numbers mean nothing.**" if "--quick" in kept else ""
    )
    command = " ".join(["python", f"benchmarks/{script}", shlex.join(kept)]).strip()
    where = f"on {device.platform} ({device.device_kind})"
    # These two report their version themselves, because they may be importable without being installed.
    ours = f"bmbo {bmbo.__version__}, blackjax {blackjax.__version__}"
    return f"`{command}`\n\nPython {platform.python_version()}, {ours}, {versions}; {where}.{note}"


def finite(value: Any) -> Any:
    """Return the value with None in place of numbers that JSON does not have."""
    if isinstance(value, dict):
        return {key: finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write(path: Path | None, text: str) -> None:
    """Write a file, if a path is given."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.rstrip("\n") + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--functions", nargs="+", choices=list(FUNCTIONS), default=list(FUNCTIONS))
    parser.add_argument("--presets", nargs="*", choices=get_args(Preset), default=list(get_args(Preset)))
    parser.add_argument("--methods", nargs="*", choices=list(METHODS), help="other surrogates; all without a name")
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds, from 0 on")
    parser.add_argument("--num-test", type=int, default=100, help="test points per seed")
    parser.add_argument("--quick", action="store_true", help="use a tiny budget, only to see that the script runs")
    parser.add_argument("--out", type=Path, help="Markdown file for the table")
    parser.add_argument("--json", type=Path, help="JSON file for every fit")
    arguments = parser.parse_args()
    # The option without a name means all methods. Without the option there are none.
    methods = [] if arguments.methods is None else arguments.methods or list(METHODS)
    surrogates: dict[str, Surrogate] = {name: Darn.preset(name) for name in arguments.presets}
    surrogates |= {name: METHODS[name]() for name in methods}
    if arguments.quick:
        surrogates = {name: quick_method(surrogate) for name, surrogate in surrogates.items()}
    scores: list[Score] = []
    with tqdm(total=len(arguments.functions) * (len(surrogates) + 1) * arguments.seeds, unit="fit") as bar:
        for name in arguments.functions:
            for seed in range(arguments.seeds):
                bar.set_postfix_str(f"{name}, seed {seed}")
                for preset, surrogate in surrogates.items():
                    scores.append(score_surrogate(name, preset, surrogate, arguments.num_test, seed))
                    bar.update()
                scores.append(score_gaussian_process(name, arguments.num_test, seed))
                bar.update()
    parts = [heading("surrogate_table.py"), table(scores), *frozen_chains(scores)]
    text = "\n\n".join(parts)
    print(text)
    write(arguments.out, text)
    write(arguments.json, json.dumps(finite([asdict(score) for score in scores]), indent=1))


if __name__ == "__main__":
    main()
