"""Compare how fast methods enlarge the front of several objectives.

    python -m experiments.several_objectives --seeds 5 --records docs/results/records/several_objectives.csv.gz \
        --out docs/results/several_objectives.md

All methods may spend the same. BoTorch's qNEHVI needs a reference point and is told it, the default is run with it and
without, and the others know none. The peers have no fidelities, and evaluate at the top alone. BoTorch, and Optuna's
GPSampler, which needs PyTorch, are left out if they are not installed. Runs that the records have already are not made
again.
"""

# Peers are imported where runs are made, and may be missing.
# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import argparse
import csv
import gzip
import io
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from tqdm import tqdm

import bmbo
from bmbo.history import History, Outcome
from bmbo.history.pareto_front import hypervolume
from bmbo.policies import Screening
from bmbo.problem import Ladder
from bmbo.problem.foreign_spaces import to_optuna
from experiments.problems.several_objectives import PROBLEMS, Floats, SeveralObjectives
from experiments.reporting.paired_statistics import interval

TOP_EVALUATIONS = 25
"""The total cost of a run, in evaluations at the top."""

MARKS = (0.25, 0.5, 1.0)
"""Shares of the total cost at which methods are compared."""

FIRST_POINTS = 5
"""Points that fill the space before BoTorch's model chooses."""

Run = list[tuple[float, tuple[float, ...]]]
"""After each evaluation, the cost of all so far and its values at the top; none below the top."""


def _ours(case: SeveralObjectives, seed: int, *, policy: Screening, levels: bool, told: bool = False) -> Run:
    """Run the default of bmbo, with a policy of it; it may be told the reference point."""
    problem = case.problem_with(case.reference if told else None)
    problem = problem if levels else replace(problem, ladder=Ladder([case.top]))
    total = TOP_EVALUATIONS * problem.ladder.costs[-1]
    limited = policy.within(total, None)
    history, carry = History(problem), None
    run: Run = []
    while True:
        queries, carry = limited.suggest(seed, history, 1, carry)
        if not queries:
            return run
        level = queries[0].level
        values = case.values(problem.space.decode(queries[0].unit), problem.ladder[level].value)
        outcome = Outcome.of_several(values, problem.ladder.costs[level])
        number = len(history.trials)
        history = history.asked(queries[0]).with_outcome(number, outcome)
        run.append((history.spent, values if level == problem.ladder.top else ()))


def _optuna(case: SeveralObjectives, seed: int, *, sampler: str) -> Run:
    """Run a sampler of Optuna, at the top alone."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    made: Any = getattr(optuna.samplers, sampler)(seed=seed)
    directions = [optuna.study.StudyDirection.MINIMIZE] * case.num_objectives
    study = optuna.create_study(directions=directions, sampler=made)
    run: Run = []
    for place in range(TOP_EVALUATIONS):
        trial = study.ask(dict(to_optuna(case.space)))
        values = case.values(trial.params, case.top.value)
        study.tell(trial, values)
        run.append(((place + 1) * case.problem.ladder.costs[-1], values))
    return run


def _qnehvi(case: SeveralObjectives, seed: int) -> Run:
    """Run BoTorch's noisy expected hypervolume improvement, at the top alone; it is told the reference point."""
    import torch  # noqa: PLC0415
    from botorch.acquisition.multi_objective.logei import qLogNoisyExpectedHypervolumeImprovement  # noqa: PLC0415
    from botorch.fit import fit_gpytorch_mll  # noqa: PLC0415
    from botorch.models import ModelListGP, SingleTaskGP  # noqa: PLC0415
    from botorch.optim import optimize_acqf  # noqa: PLC0415
    from gpytorch.mlls import SumMarginalLogLikelihood  # noqa: PLC0415

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    dim, space = case.space.dim, case.space
    units = torch.quasirandom.SobolEngine(dim, scramble=True, seed=seed).draw(FIRST_POINTS).double()
    seen: list[Floats] = []
    known = torch.zeros((0, dim), dtype=torch.double)
    run: Run = []
    while len(run) < TOP_EVALUATIONS:
        if len(run) >= len(units):
            values = torch.tensor(-np.array(seen))
            scaled = (values - values.mean(0)) / values.std(0).clamp_min(1e-9)
            point = (torch.tensor(-np.array(case.reference)) - values.mean(0)) / values.std(0).clamp_min(1e-9)
            model = ModelListGP(*(SingleTaskGP(known, scaled[:, [place]]) for place in range(scaled.shape[1])))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fit_gpytorch_mll(SumMarginalLogLikelihood(model.likelihood, model))
                acquisition = qLogNoisyExpectedHypervolumeImprovement(model, point.tolist(), known, prune_baseline=True)
                box = torch.stack([torch.zeros(dim), torch.ones(dim)]).double()
                found, _ = optimize_acqf(acquisition, box, q=1, num_restarts=4, raw_samples=128)
            units = torch.cat([units, found.detach()])
        unit = space.snap(units[len(run)].numpy())
        values_here = case.values(space.decode(tuple(float(u) for u in unit)), case.top.value)
        seen.append(np.array(values_here))
        known = torch.cat([known, torch.tensor(unit)[None]])
        run.append(((len(run) + 1) * case.problem.ladder.costs[-1], values_here))
    return run


DEFAULT, TOLD = "screening", "screening, reference point"
ONE, TOP_ALONE = "screening, one direction", "screening, top alone"
METHODS: Mapping[str, Callable[[SeveralObjectives, int], Run]] = {
    DEFAULT: partial(_ours, policy=bmbo.screening(), levels=True),
    TOLD: partial(_ours, policy=bmbo.screening(), levels=True, told=True),
    ONE: partial(_ours, policy=replace(bmbo.screening(), num_directions=1), levels=True),
    TOP_ALONE: partial(_ours, policy=bmbo.screening(), levels=False),
    "Optuna NSGAIISampler": partial(_optuna, sampler="NSGAIISampler"),
    "Optuna TPESampler": partial(_optuna, sampler="TPESampler"),
    "Optuna GPSampler": partial(_optuna, sampler="GPSampler"),
    "BoTorch qLogNEHVI": _qnehvi,
}
NEEDS = {"Optuna GPSampler": "torch", "BoTorch qLogNEHVI": "botorch"}

Key = tuple[str, str, int]


def shares(case: SeveralObjectives, run: Run) -> tuple[float, ...]:
    """Return which share of the whole front's hypervolume a run has not reached, at each mark."""
    total, reference = TOP_EVALUATIONS * case.problem.ladder.costs[-1], -np.array(case.reference)
    found: list[float] = []
    for mark in MARKS:
        rows = [values for spent, values in run if values and spent <= mark * total * (1 + 1e-9)]
        found.append(1.0 - (hypervolume(-np.array(rows), reference) if rows else 0.0) / case.best_volume)
    return tuple(found)


def read_records(path: Path | None) -> dict[Key, tuple[float, ...]]:
    """Return the runs of a file; none if there is no file."""
    if path is None or not path.exists():
        return {}
    rows = csv.DictReader(io.StringIO(gzip.decompress(path.read_bytes()).decode()))
    return {
        (row["problem"], row["method"], int(row["seed"])): tuple(float(row[f"missing_at_{mark:g}"]) for mark in MARKS)
        for row in rows
    }


def write_records(path: Path, found: Mapping[Key, Sequence[float]]) -> None:
    """Write runs into a file, the same bytes for the same runs."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["problem", "method", "seed", *(f"missing_at_{mark:g}" for mark in MARKS)])
    writer.writerows([*key, *(f"{value:.10g}" for value in values)] for key, values in sorted(found.items()))
    path.write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))


def page(found: Mapping[Key, Sequence[float]], seeds: int) -> str:
    """Return the page."""
    names = [name for name in METHODS if any(key[1] == name for key in found)]
    problems = [name for name in PROBLEMS if any(key[0] == name for key in found)]

    def of(problem: str, method: str, mark: int) -> Floats:
        return np.array([found.get((problem, method, seed), (math.nan,) * 3)[mark] for seed in range(seeds)])

    rows = [
        [name, *(f"{np.mean([of(problem, name, mark).mean() for problem in problems]):.3f}" for mark in range(3))]
        for name in names
    ]
    heads = [f"at {mark:.0%}" for mark in MARKS]
    ends = [[name, *(f"{of(problem, name, 2).mean():.3f}" for problem in problems)] for name in names]
    paired: list[list[str]] = []
    for name in names[1:]:
        line = [name]
        for mark in range(3):
            gaps = np.concatenate([of(problem, name, mark) - of(problem, DEFAULT, mark) for problem in problems])
            mean = interval(gaps)
            line.append(f"{mean.mean:+.3f} ({mean.low:+.3f} to {mean.high:+.3f})")
        paired.append(line)
    versions = ", ".join(
        f"{name} {metadata.version(name)}" for name in ("optuna", "botorch", "torch") if find_spec(name) is not None
    )
    return f"""# Several objectives

Made by `python -m experiments.several_objectives --seeds {seeds} --records
docs/results/records/several_objectives.csv.gz --out docs/results/several_objectives.md` with {versions}. Each run may
spend as much as {TOP_EVALUATIONS} evaluations at the top, and there are {seeds} seeds. A number is the share of the
whole front's hypervolume that a run has not reached: 0 is perfect, and 1 is nothing.

The problems (`experiments/problems/several_objectives.py`) have two to four objectives and two or three fidelities. The
peers have no fidelities and evaluate at the top alone, as `screening, top alone` does. `screening, reference point` and
qLogNEHVI are told the reference point; the others are not. `one direction` measures the front along one random
direction for each query, as ParEGO does, in place of the average over 16.

The mean over the {len(problems)} problems:

| method | {" | ".join(heads)} |
| --- | --- | --- | --- |
{_lines(rows)}

How much more each method misses than `screening`, seed by seed, with the 95 % interval of a bootstrap over all runs; an
interval that contains zero shows no difference:

| method | {" | ".join(heads)} |
| --- | --- | --- | --- |
{_lines(paired)}

At the end, problem by problem:

| method | {" | ".join(problems)} |
|{" --- |" * (len(problems) + 1)}
{_lines(ends)}
"""


def _lines(rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, print the page, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="also write the page to this file")
    parser.add_argument("--records", type=Path, help="keep the runs in this file, and make none that it has")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args(arguments)
    found = read_records(options.records)
    methods = [name for name in METHODS if name not in NEEDS or find_spec(NEEDS[name]) is not None]
    wanted = [(problem, name, seed) for seed in range(options.seeds) for problem in PROBLEMS for name in methods]
    for problem, name, seed in tqdm([key for key in wanted if key not in found]):
        case = PROBLEMS[problem]
        found[problem, name, seed] = shares(case, METHODS[name](case, seed))
        if options.records is not None:
            write_records(options.records, found)
    text = page(found, options.seeds)
    print(text)
    if options.out is not None:
        options.out.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
