"""Write the page on what lower levels cost or save, from the records of the suite on judgement."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.harness.run_record import Record
from experiments.problems.judged_levels import BASES, CONDITIONS, EXACT, MISLEADING, TIMES, USELESS
from experiments.reporting.judgement import (
    TARGETS,
    Comparison,
    against_itself,
    compared,
    runs_of,
    same_courses,
)
from experiments.reporting.paired_statistics import Interval
from experiments.reporting.report import table

LIMITS = {USELESS: 1.1, MISLEADING: 1.1, EXACT: 0.5}
"""The goals: useless and misleading levels cost at most a tenth more, exact ones halve the cost."""


def write_page(records: Sequence[Record], method: str, out: Path, *, command: str) -> None:
    """Write the page. Raise `ValueError` if nothing can be compared."""
    runs = runs_of(records, method)
    found = compared(runs)
    if not found:
        raise ValueError(
            f"there are no runs of {method} to compare; `python -m experiments run --suite judgement --engine shared "
            f"--methods {method}` makes them"
        )
    counts = {len(each.logs) for bases in found.values() for each in bases.values()}
    seeds = f"{min(counts)}" if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
    parts = [
        _opening(method, command, seeds, [base for base in BASES if any(base in bases for bases in found.values())]),
        _goals_section(found),
        _conditions_section(found, against_itself(runs)),
        _bases_section(found),
        _costs_section(same_courses(records, method)),
    ]
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("\n\n".join(parts) + "\n")


def _opening(method: str, command: str, seeds: str, bases: Sequence[str]) -> str:
    shares = ", ".join(f"{share:.0%}" for share in TARGETS)
    return "\n".join(
        [
            "# Judgement about levels",
            "",
            f"    {command}",
            "",
            f"`{method}` with lower levels of several kinds, against itself with the top level alone. The top is the",
            f"same function: {', '.join(bases)}. Each has {seeds} seeds, one query at a time, and a budget of 30",
            "evaluations at the top.",
            "",
            "A ratio is the cost at which a run with lower levels reaches a regret, over the cost at which the run",
            "with the same seed and the top alone does. The regrets are the medians over seeds that the top alone has",
            f"at {shares} of the budget. A run that does not reach a regret counts with its whole budget, so large",
            "ratios are larger than they look. Ratios are geometric means over regrets, seeds and functions, with",
            "95 % bootstrap intervals over pairs of runs.",
        ]
    )


def _shown(found: Interval) -> str:
    return f"{found.mean:.2f} [{found.low:.2f}, {found.high:.2f}]"


def _verdict(found: Interval, limit: float) -> str:
    if found.high <= limit:
        return "met"
    if found.low > limit:
        return "failed"
    return f"open, the mean {'meets' if found.mean <= limit else 'fails'} it"


def _goals_section(found: Mapping[str, Mapping[str, Comparison]]) -> str:
    rows: list[list[str]] = []
    for group, limit in LIMITS.items():
        parts = [each for name, bases in found.items() if CONDITIONS[name].group == group for each in bases.values()]
        if parts:
            ratio = Comparison.joined(parts).ratio
            rows.append([group, f"at most {limit:g}", _shown(ratio), _verdict(ratio, limit)])
    return "\n".join(["## Goals", "", table(["lower levels", "goal", "cost ratio", "verdict"], rows)])


def _conditions_section(found: Mapping[str, Mapping[str, Comparison]], itself: Comparison | None) -> str:
    head = [
        "below the top",
        "costs",
        "cost ratio",
        "verdict",
        "at the top alone",
        "reached",
        "reached without",
        "spent below the top",
    ]
    rows: list[list[str]] = []
    for name, bases in found.items():
        condition, joined = CONDITIONS[name], Comparison.joined(list(bases.values()))
        rows.append(
            [
                name.replace("_", " "),
                ":".join(f"{cost:g}" for cost in condition.costs),
                _shown(joined.ratio),
                _verdict(joined.ratio, LIMITS[condition.group]),
                _shown(joined.top_ratio),
                *(f"{share:.0%}" for share in (*joined.reached, joined.below)),
            ]
        )
    if itself is not None:
        shares = [f"{share:.0%}" for share in (*itself.reached, itself.below)]
        rows.append(
            ["(the top alone, with the next seed)", "1", _shown(itself.ratio), "", _shown(itself.top_ratio), *shares]
        )
    return "\n".join(
        [
            "## By what is below the top",
            "",
            "`noise` is drawn anew at each point. `waves` is smooth and unrelated. `negated` has the opposite sign.",
            "`elsewhere` is the top moved by a fifth of the cube. `exact` is the top and a constant.",
            "",
            "`at the top alone` is the ratio of the numbers of evaluations at the top: what is above 1 there is not",
            "the money for lower levels, but worse choices at the top. `reached` is the share of the regrets that were",
            "reached within the budget. The last row has the width of an interval that only chance makes.",
            "",
            table(head, rows),
        ]
    )


def _bases_section(found: Mapping[str, Mapping[str, Comparison]]) -> str:
    bases = [base for base in BASES if any(base in each for each in found.values())]
    rows = [
        [name.replace("_", " "), *(_shown(each[base].ratio) if base in each else "-" for base in bases)]
        for name, each in found.items()
    ]
    return "\n".join(["## By function", "", table(["below the top", *bases], rows)])


def _costs_section(courses: Sequence[tuple[str, int, bool]]) -> str:
    different = [f"{problem} (seed {seed})" for problem, seed, same in courses if not same]
    said = f"All costs multiplied by {TIMES:g} must give the same runs."
    if not courses:
        return f"## Costs in another unit\n\n{said} There are no runs to compare."
    said += f" {len(courses) - len(different)} of {len(courses)} runs have the same levels and values, query by query."
    if different:
        said += f"\n\nNot the same: {', '.join(different)}."
    return f"## Costs in another unit\n\n{said}"
