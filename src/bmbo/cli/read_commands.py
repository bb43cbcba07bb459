"""Carry out the commands that only read a study: status, best, trials, export."""

import argparse
import csv
import io
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from bmbo.cli.arguments import STATES, ChosenStudy
from bmbo.cli.text_output import text_table
from bmbo.history.continued_share import ContinuedShare
from bmbo.history.shown_levels import shown_levels
from bmbo.ledger import Ledger, LedgerEntry, redacted, shown_owner
from bmbo.ledger.attribute_keys import OWNER
from bmbo.ledger.planner_lease import current_term
from bmbo.ledger.study_definition import direction_of
from bmbo.problem import Problem
from bmbo.protocols import Recommending
from bmbo.study import load_study
from bmbo.study.believed_best import luck_text, runs_text
from bmbo.study.front_messages import front_line
from bmbo.study.import_export import values_by_column
from bmbo.study.run_messages import no_best_line
from bmbo.study.short_text import duration, params_line, short_text
from bmbo.study.trial import StudyRecommendation, measured_of

_OWN_COLUMNS = ("params", "user_attrs", "measured", "values")
"""What has a column for each of its parts in a table."""


@dataclass(frozen=True)
class StudyReading:
    """Hold what a study contained when it was read."""

    chosen: ChosenStudy
    ledger: Ledger
    problem: Problem
    entries: tuple[LedgerEntry, ...]
    spent: float
    best: LedgerEntry | None
    continued: ContinuedShare | None = None
    nearest: str | None = None
    shown_levels: tuple[int, ...] = ()
    front: tuple[LedgerEntry, ...] = ()
    front_text: str = ""
    repeats: Mapping[int, int] = field(default_factory=dict[int, int])

    @classmethod
    def of(cls, chosen: ChosenStudy) -> "StudyReading":
        """Return what a study contains; raise ValueError if it does not exist, and create nothing."""
        ledger = Ledger.load(chosen.storage, chosen.name)
        record = ledger.read()
        best = record.history.best
        return cls(
            chosen,
            ledger,
            record.history.priced,
            record.entries,
            record.history.spent,
            None if best is None else record.entries[best.number],
            ContinuedShare.of(record.history) if ledger.problem.continues else None,
            no_best_line(record.history) if not record.history.front and record.history.at_top else None,
            shown_levels(record.history),
            tuple(record.entries[trial.number] for trial in record.history.front),
            front_line(record.history) if ledger.problem.objectives else "",
            record.history.repeats if ledger.problem.noisy else {},
        )

    @property
    def stopped(self) -> int:
        """Return how many trials were stopped early."""
        return sum(entry.stopped_from is not None for entry in self.entries)

    @property
    def planner(self) -> str | None:
        """Return the owner of the planner's lease, or None if no process holds it."""
        term = current_term(self.ledger.storage, self.chosen.name)
        return None if term is None else term.attributes.get(OWNER)

    def described(self, entry: LedgerEntry) -> dict[str, Any]:
        """Return a trial in the types of JSON."""
        query, outcome = entry.trial.query, entry.trial.outcome
        return {
            "number": entry.trial.number,
            "state": entry.state,
            "level": query.level,
            "fidelity": self.problem.ladder[query.level].value,
            "params": dict(entry.params),
            "user_attrs": dict(entry.user_attrs),
            **({"repeat": self.repeats.get(entry.trial.number, 0)} if self.problem.noisy else {}),
            **({"values": list(entry.trial.values)} if self.problem.objectives else {"value": entry.trial.value}),
            **({"measured": dict(measured_of(self.problem, entry.trial))} if self.problem.constraints else {}),
            "cost": None if outcome is None else outcome.cost,
            "refunded": entry.trial.refunded,
            "seconds": None if outcome is None else outcome.seconds,
            "error": None if outcome is None else outcome.error,
            "owner": None if entry.owner is None else shown_owner(entry.owner),
            "batch": entry.batch,
            "retries": entry.retries,
            "resume_from": entry.resume_from,
            "duplicate_of": entry.duplicate_of,
            "retry_of": entry.retry_of,
            "begun": None if entry.begun is None else entry.begun.isoformat(),
            "ended": None if entry.ended is None else entry.ended.isoformat(),
        }


def status(arguments: argparse.Namespace) -> int:
    """Print how far a study has come, and return the exit code."""
    reading = StudyReading.of(ChosenStudy.of(arguments))
    counts = {
        state: [
            sum(entry.state == state and entry.trial.query.level == level for entry in reading.entries)
            for level in range(reading.problem.ladder.num_levels)
        ]
        for state in STATES
    }
    running = [entry for entry in reading.entries if entry.state == "running"]
    if arguments.json:
        print(json.dumps(_status_json(reading, counts, running), indent=2))
        return 0
    print(f"study {reading.chosen.name} in {redacted(reading.chosen.storage)} ({direction_of(reading.problem)})")
    costs = "cost (mean seconds)" if reading.ledger.problem.ladder.measured else "cost"
    shown = [state for state in STATES if state != "dropped" or any(counts[state])]
    rows = [
        [level, fidelity.name, fidelity.cost, *(counts[state][level] for state in shown)]
        for level in reading.shown_levels
        for fidelity in [reading.problem.ladder[level]]
    ]
    print(text_table(["level", "fidelity", costs, *shown], rows))
    print(f"cost spent: {short_text(reading.spent)}{_budget_text(reading)}")
    if reading.continued is not None:
        print(f"continued: {reading.continued.text}")
    if reading.problem.constraints:
        print(f"constraints: {', '.join(map(str, reading.problem.constraints))}")
    if reading.stopped:
        print(f"stopped early: {reading.stopped} trials, which count at the fidelity that they reached")
    none = "none at the top fidelity yet" if reading.nearest is None else reading.nearest
    label = "best observed" if reading.problem.noisy else "best"
    if reading.front and reading.front_text:
        print(f"front: {reading.front_text}; bmbo best shows them")
    else:
        print(f"{label}: {none if reading.best is None else _trial_line(reading.best)}")
    if reading.problem.noisy and reading.best is not None:
        print("values are noisy: bmbo best says which configuration is believed to be best")
    if (method := reading.ledger.method) is not None:
        print(f"method: {method['shown']}")
    # A failure that was queued again speaks through the trial that repeats it.
    retried = {entry.retry_of for entry in reading.entries}
    failed = [e for e in reading.entries if e.state == "failed" and e.trial.number not in retried]
    if failed and (last := failed[-1].trial).outcome is not None:
        print(f"last failure: trial {last.number}: {last.outcome.error}; bmbo retry queues failed trials again")
    print(f"planner: {'nobody at the moment' if (who := reading.planner) is None else shown_owner(who)}")
    if running:
        print("running:")
        ages = [[e.trial.number, e.trial.query.level, shown_owner(e.owner or "?"), _age(e)] for e in running]
        print(text_table(["trial", "level", "owner", "for"], ages))
    return 0


def _status_json(reading: StudyReading, counts: dict[str, list[int]], running: Sequence[LedgerEntry]) -> dict[str, Any]:
    planner = reading.planner
    levels = [
        {"level": level, "fidelity": fidelity.value, "name": fidelity.name, "cost": fidelity.cost}
        | {state: counts[state][level] for state in STATES}
        for level, fidelity in enumerate(reading.problem.ladder.fidelities)
    ]
    return {
        "study": reading.chosen.name,
        "storage": redacted(reading.chosen.storage),
        **_directions_json(reading.problem),
        "method": (reading.ledger.method or {}).get("shown"),
        "trials": {state: sum(numbers) for state, numbers in counts.items()},
        "levels": levels,
        "spent": reading.spent,
        "continued": None if reading.continued is None else asdict(reading.continued),
        **_best_json(reading),
        "planner": None if planner is None else shown_owner(planner),
        "running": [reading.described(entry) | {"seconds": _seconds(entry)} for entry in running],
    }


def _directions_json(problem: Problem) -> dict[str, Any]:
    """Return the direction, or the names and directions of several objectives, in the types of JSON."""
    if not problem.objectives:
        return {"direction": direction_of(problem)}
    return {"directions": [{"name": each.name, "direction": each.direction} for each in problem.objectives]}


def _best_json(reading: StudyReading) -> dict[str, Any]:
    """Return the best trial, or those on the front of several objectives, in the types of JSON."""
    if reading.problem.objectives:
        return {"front": [reading.described(entry) for entry in reading.front]}
    return {"best": None if reading.best is None else reading.described(reading.best)}


def _print_front(reading: StudyReading) -> None:
    """Print the trials on the front, the best first values first."""
    objectives, names = reading.problem.objectives, reading.problem.space.names
    first = objectives[0].sign
    ordered = sorted(reading.front, key=lambda entry: -first * entry.trial.values[0])
    rows = [
        [entry.trial.number, *entry.trial.values, *(entry.params.get(name, "") for name in names)] for entry in ordered
    ]
    print(reading.front_text)
    print(text_table(["trial", *(each.label for each in objectives), *names], rows))


def best(arguments: argparse.Namespace) -> int:
    """Print the best configuration, or the front of several objectives; raise ValueError if there is nothing yet."""
    reading = StudyReading.of(ChosenStudy.of(arguments))
    if reading.problem.objectives and reading.front:
        if arguments.json:
            print(json.dumps(_best_json(reading)["front"], indent=2))
        else:
            _print_front(reading)
        return 0
    if reading.best is None:
        if reading.nearest is not None:
            raise ValueError(f"study {reading.chosen.name!r} has no feasible trial: {reading.nearest}")
        top = reading.problem.ladder[reading.problem.ladder.top].name
        raise ValueError(f"study {reading.chosen.name!r} has no finished trial at the top fidelity ({top}) yet")
    believed = _believed(reading) if reading.problem.noisy else None
    if believed is not None:
        _print_believed(reading, believed, reading.best, as_json=arguments.json)
    elif arguments.json:
        print(json.dumps(reading.described(reading.best), indent=2))
    else:
        print(f"value  {reading.best.trial.value!r}  (trial {reading.best.trial.number})")
        print(text_table(["parameter", "value"], [[name, repr(value)] for name, value in reading.best.params.items()]))
    return 0


def _believed(reading: StudyReading) -> StudyRecommendation | None:
    """Return what the model of a noisy study believes to be best; None if its method has no model."""
    study = load_study(study_name=reading.chosen.name, storage=reading.chosen.storage)
    return study.recommendation() if isinstance(study.policy, Recommending) else None


def _print_believed(
    reading: StudyReading, believed: StudyRecommendation, observed: LedgerEntry, *, as_json: bool
) -> None:
    """Print the configuration that is believed best, what was observed of it, and the best observed trial."""
    if as_json:
        print(json.dumps({**asdict(believed), "observed": reading.described(observed)}, indent=2))
        return
    print(f"value  {short_text(believed.value)} ± {believed.std:.2g}  (believed; {runs_text(believed)})")
    print(luck_text(believed, observed.trial))
    print(text_table(["parameter", "value"], [[name, repr(value)] for name, value in believed.params.items()]))


def trials(arguments: argparse.Namespace) -> int:
    """Print all trials, or those of one state or level, and return the exit code."""
    reading = StudyReading.of(ChosenStudy.of(arguments))
    chosen = [
        reading.described(entry)
        for entry in reading.entries
        if arguments.state in (None, entry.state) and arguments.level in (None, entry.trial.query.level)
    ]
    if arguments.json:
        print(json.dumps(chosen, indent=2))
        return 0
    names = reading.problem.space.names
    limited = [limit.name for limit in reading.problem.constraints]
    repeat = ("repeat",) if reading.problem.noisy else ()
    objectives, known = reading.problem.objectives, ("number", "state", "level", "fidelity", *repeat, "cost")
    values = [each.label for each in objectives] or ["value"]
    rows = [
        [
            *(t[each] for each in known[:-1]),
            *((t["values"] or [None] * len(objectives)) if objectives else [t["value"]]),
            t["cost"],
            *(t["measured"].get(name) for name in limited),
            *(t["params"].get(name, "") for name in names),
            t["error"],
        ]
        for t in chosen
    ]
    head = ["trial", *known[1:-1], *values, "cost", *limited, *names, "error"]
    print(text_table(head, rows))
    return 0


def export(arguments: argparse.Namespace) -> int:
    """Write all trials as CSV or JSON and return the exit code."""
    reading = StudyReading.of(ChosenStudy.of(arguments))
    output: Path | None = arguments.output
    chosen = arguments.format or ("json" if output is not None and output.suffix == ".json" else "csv")
    described = [reading.described(entry) for entry in reading.entries]
    if chosen == "json":
        written = json.dumps(described, indent=2) + "\n"
    else:
        flat = [
            {
                **{name: value for name, value in trial.items() if name not in _OWN_COLUMNS},
                **values_by_column(reading.problem.objectives, trial.get("values", [])),
                **_named("params", trial["params"]),
                **_named("measured", trial.get("measured", {})),
                **_named("user_attrs", trial["user_attrs"]),
            }
            for trial in described
        ]
        head = list(dict.fromkeys(name for trial in flat for name in trial)) or ["number"]
        buffer = io.StringIO()
        writer = csv.DictWriter(buffer, head, lineterminator="\n")
        writer.writeheader()
        writer.writerows(flat)
        written = buffer.getvalue()
    if output is None:
        sys.stdout.write(written)
    else:
        output.write_text(written, encoding="utf-8")
        print(f"{len(described)} trials written to {output}", file=sys.stderr)
    return 0


def _named(kind: str, values: dict[str, Any]) -> dict[str, Any]:
    # Named as in Optuna's trials_dataframe, because a parameter may be called "value".
    return {f"{kind}_{name}": value for name, value in values.items()}


def _trial_line(entry: LedgerEntry) -> str:
    params = params_line(entry.params)
    return f"{short_text(entry.trial.value)} (trial {entry.trial.number}): {params}"


def _budget_text(reading: StudyReading) -> str:
    total = (reading.ledger.last_run or {}).get("total_cost")
    return "" if total is None else f" of {short_text(float(total))}"


def _seconds(entry: LedgerEntry) -> float | None:
    return None if entry.begun is None else (datetime.now() - entry.begun).total_seconds()


def _age(entry: LedgerEntry) -> str:
    seconds = _seconds(entry)
    return "-" if seconds is None else duration(seconds)
