"""Say in words what came out of a study."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bmbo.history import TrialRecord
from bmbo.history.continued_share import ContinuedShare
from bmbo.history.repeated_runs import standard_error
from bmbo.history.same_point import same_configuration
from bmbo.problem.likely import prior_text
from bmbo.problem.spread_levels import ladder_text
from bmbo.protocols import Recommendation
from bmbo.report.front_sections import front_text
from bmbo.report.model_view import ModelView
from bmbo.report.report_data import ReportData, short_number, short_value, with_deviation


@dataclass(frozen=True)
class Headline:
    """Hold the top of the page.

    Attributes:
        facts: names and values.
        best: what the best observed trial is, in a sentence.
        recommended: what is recommended and why; None if the method recommends nothing.
        configurations: for each parameter its name, its best observed value and its recommended value.
        believed_first: whether the recommendation comes before the best observed trial, because values are noisy.
    """

    facts: tuple[tuple[str, str], ...]
    best: str
    recommended: str | None
    configurations: tuple[tuple[str, str, str], ...]
    believed_first: bool = False


def headline_of(data: ReportData, view: ModelView | None) -> Headline:
    """Return the top of the page of a study."""
    best, found = data.history.best, data.recommendation
    return Headline(
        _facts(data),
        _best_text(data, best),
        None if found is None else _recommended_text(data, found, best, view),
        _configurations(data, best, found),
        data.problem.noisy and found is not None,
    )


def _facts(data: ReportData) -> tuple[tuple[str, str], ...]:
    history, ladder = data.history, data.problem.ladder
    unit = " seconds" if history.problem.ladder.measured else ""
    limit = f" of {short_number(data.total_cost)}" if data.total_cost is not None else ""
    share = f" ({history.spent / data.total_cost:.0%})" if data.total_cost else ""
    most = "" if data.n_trials is None else f" of {data.n_trials}"
    goal = "large values" if data.problem.maximise else "small values"
    if data.problem.objectives:
        goal = " and ".join(f"{'large' if own.maximise else 'small'} {own.label}" for own in data.problem.objectives)
    parts = [f"{len(history.done)} with a value", f"{len(history.failed)} failed", f"{len(history.pending)} in flight"]
    if refunded := sum(trial.refunded for trial in history.trials):
        parts.append(f"{refunded} given back, which limits do not count")
    stopped = sum(entry.stopped_from is not None for entry in data.entries)
    reports = sum(len(known) for known in history.reports.values())
    on_the_way = (("Reported on the way", f"{reports} values, and {stopped} trials stopped early"),) if reports else ()
    continued = (("Continued", ContinuedShare.of(history).text),) if history.problem.continues else ()
    space = data.problem.space
    beliefs = [(name, prior) for name, param in space.params if (prior := getattr(param, "prior", None)) is not None]
    believed = (("Believed", "; ".join(f"{name} {prior_text(prior)}" for name, prior in beliefs)),) if beliefs else ()
    return (
        ("Goal", f"{goal} at {ladder[ladder.top].name}, the top fidelity"),
        ("Fidelities", ladder_text(ladder)),
        ("Parameters", str(len(data.problem.space.params))),
        *believed,
        ("Cost", f"{short_number(history.spent)}{limit}{unit} spent{share}"),
        ("Trials", f"{len(history.trials)}{most}: {', '.join(parts)}"),
        *continued,
        *_noise(data),
        *_constraints(data),
        *on_the_way,
        ("Kept in", data.storage),
        ("Page made", f"{data.made:%Y-%m-%d %H:%M}"),
    )


def _noise(data: ReportData) -> tuple[tuple[str, str], ...]:
    """Return how many trials ran a configuration again, where values are noisy."""
    if not data.problem.noisy:
        return ()
    again = len(data.history.repeats)
    return (("Noisy", f"{again} of {len(data.history.trials)} trials ran a configuration again"),)


def _constraints(data: ReportData) -> tuple[tuple[str, str], ...]:
    """Return what must be kept, and how many trials at the top keep it."""
    history, problem = data.history, data.problem
    found: list[tuple[str, str]] = []
    if problem.constraints:
        kept = sum(history.keeps_constraints(trial) for trial in history.at_top)
        limits = ", ".join(map(str, problem.constraints))
        found.append(("Constraints", f"{limits}; kept by {kept} of {len(history.at_top)} trials at the top"))
    if problem.feasible is not None:
        found.append(("Feasible", f"only what {problem.feasible.name} allows"))
    return tuple(found)


def _best_text(data: ReportData, best: TrialRecord | None) -> str:
    if data.history.front and data.problem.objectives:
        return front_text(data)
    nearest = data.history.least_infeasible if data.problem.constraints and best is None else None
    if nearest is not None:
        measured = zip(data.problem.constraints, nearest.outcome.measured if nearest.outcome else (), strict=False)
        shown = ", ".join(f"{limit.name} = {short_number(value)}" for limit, value in measured)
        return f"No trial at the top fidelity keeps all constraints; trial {nearest.number} comes nearest ({shown})."
    if best is None or best.value is None:
        return "No trial has given a value at the top fidelity yet."
    return f"The best observed value at the top fidelity is {short_number(best.value)}, of trial {best.number}."


def _recommended_text(data: ReportData, found: Recommendation, best: TrialRecord | None, view: ModelView | None) -> str:
    """Return what is recommended, and why it is or is not the best observed configuration."""
    predicted = with_deviation(found.mean, found.std)
    if best is None or best.value is None:
        return f"The recommendation rests on cheaper trials alone: {predicted} is expected at the top."
    at_top = [trial for trial in data.history.at_top if data.history.keeps_constraints(trial)]
    unit = _recorded(data, found)
    runs = [trial for trial in at_top if same_configuration(trial.query.unit, unit)]
    if data.problem.noisy and runs:
        return _noisy_text(data, runs, best, predicted, view)
    if any(trial.number == best.number for trial in runs):
        return f"The recommendation is the best observed configuration; {predicted} is expected of it."
    value = short_number(best.value)
    luck = f"trial {best.number} gave {value}, but the model takes a part of that for luck"
    if view is not None and data.is_own_model:
        there = view.at_top(np.asarray([best.query.unit], np.float64))
        luck += f" and expects {short_number(float(there.mean[0]))} of it"
    if runs:
        gave = ", ".join(short_number(trial.value or 0.0) for trial in runs)
        numbers = ", ".join(str(trial.number) for trial in runs)
        name = "trial" if len(runs) == 1 else "trials"
        return f"The recommendation is {name} {numbers}, which gave {gave}; {predicted} is expected of it. Here {luck}."
    is_better = data.problem.sign * (found.mean - best.value) > 0
    why = f"better than the best observed {value}" if is_better else f"here {luck}"
    return f"The recommendation has not been run at the top. {predicted} is expected of it: {why}."


def _noisy_text(
    data: ReportData, runs: Sequence[TrialRecord], best: TrialRecord, predicted: str, view: ModelView | None
) -> str:
    """Return what is recommended where values are noisy: what is believed, how often it was run, and what luck did."""
    values = [trial.value for trial in runs if trial.value is not None]
    error = standard_error(data.history, runs)
    known = "" if error is None else f" (standard error {short_number(error)})"
    times = "once" if len(runs) == 1 else f"{len(runs)} times"
    mean = short_number(math.fsum(values) / len(values))
    text = f"{predicted} is believed of the recommendation. It was run {times} at the top, which gave {mean}"
    text += "" if len(runs) == 1 else f" on average{known}"
    if any(trial.number == best.number for trial in runs):
        return f"{text}; one of these runs is the best observed."
    value = short_number(best.value or 0.0)
    if view is None or not data.is_own_model:
        return f"{text}. Trial {best.number} gave {value}, but the model takes a part of that for luck."
    there = view.at_top(np.asarray([best.query.unit], np.float64))
    believed = short_number(float(there.mean[0]))
    return f"{text}. Trial {best.number} gave {value}, but the model takes that for luck and believes {believed} of it."


def _configurations(
    data: ReportData, best: TrialRecord | None, found: Recommendation | None
) -> tuple[tuple[str, str, str], ...]:
    space = data.problem.space
    observed = {} if best is None else space.decode(best.query.unit)
    wanted = {} if found is None else space.decode(found.unit)
    if not observed and not wanted:
        return ()
    return tuple((name, _shown(observed, name), _shown(wanted, name)) for name in space.names)


def _shown(config: Mapping[str, Any], name: str) -> str:
    return short_value(config[name]) if name in config else "-"


def _recorded(data: ReportData, found: Recommendation) -> tuple[float, ...]:
    """Return a recommended point as the ledger has it, which may differ in the last digits."""
    space = data.problem.space
    return space.encode(space.decode(found.unit))
