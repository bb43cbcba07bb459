"""Write the page that compares methods on a suite, from the records and the table of reference values."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.harness.run_record import FINISHED, Record
from experiments.problems import FAMILIES, suite
from experiments.problems.reference_values import Reference
from experiments.reporting.paired_statistics import (
    LARGEST,
    SAME,
    SHARES,
    WITHOUT_VALUE,
    Interval,
    Runs,
    Scored,
    best_of,
    interval,
    mean_regrets,
    paired,
    ranks,
    scored,
    seconds_per_query,
)
from experiments.reporting.report import number, table

NUM_WORST = 12
"""Problems in the list of those where the chosen method is worst."""


@dataclass(frozen=True)
class Page:
    """Hold what the page shows.

    Attributes:
        runs: all runs on the scales of their problems.
        methods: the names of the methods, the chosen one first.
        beaten: problems where a record is better than the table: the value of the table and the better one.
        short: runs that crashed or timed out.
        settings: the settings that all runs share.
    """

    runs: Runs
    methods: tuple[str, ...]
    beaten: Mapping[str, tuple[float, float]]
    short: tuple[Record, ...]
    settings: Mapping[str, object]

    @property
    def chosen(self) -> str:
        """Return the method that is compared with every other."""
        return self.methods[0]

    def common(self, family: str | None = None) -> Runs:
        """Return the runs on problems that all methods have, of one family or of all."""
        return {
            name: methods
            for name, methods in self.runs.items()
            if family in (None, suite.family_of(name)) and all(method in methods for method in self.methods)
        }

    def all_of(self, family: str | None = None) -> Runs:
        """Return the runs on all problems of one family or of all."""
        return {name: methods for name, methods in self.runs.items() if family in (None, suite.family_of(name))}


def collect(records: Sequence[Record], references: Mapping[str, Reference], of: str | None = None) -> Page:
    """Return what the page shows. Raise `ValueError` if records and reference values do not go together."""
    used = [record for record in records if not record.task.repeat and record.evaluations]
    if not used:
        raise ValueError("there are no records to report on; `python -m experiments run --suite` makes them")
    names = sorted({record.task.method for record in used})
    chosen = of or names[0]
    if chosen not in names:
        raise ValueError(f"there is no run of {chosen!r}; there are runs of {', '.join(names)}")
    by_problem: dict[str, list[Record]] = {}
    for record in used:
        by_problem.setdefault(record.task.problem, []).append(record)
    missing = sorted(by_problem.keys() - references.keys())
    if missing:
        which = " ".join(missing)
        raise ValueError(f"there are no reference values; run `python -m experiments reference --problems {which}`")
    runs: dict[str, dict[str, dict[int, Scored]]] = {}
    beaten: dict[str, tuple[float, float]] = {}
    for name, found in sorted(by_problem.items()):
        _check_settings(name, found)
        reference = references[name]
        best = best_of(found, reference, found[0].header["maximise"])
        if best != reference.best:
            beaten[name] = (reference.best, best)
        for record in found:
            runs.setdefault(name, {}).setdefault(record.task.method, {})[record.task.seed] = scored(
                record, reference, best
            )
    settings = {name: used[0].header["settings"][name] for name in ("batch_size", "num_starts")}
    short = tuple(record for record in used if record.status != FINISHED)
    return Page(runs, (chosen, *(name for name in names if name != chosen)), beaten, short, settings)


def _check_settings(name: str, records: Sequence[Record]) -> None:
    """Raise `ValueError` if records of a problem do not have the same rules."""
    rules = {tuple(sorted(record.header["settings"].items())) for record in records}
    if len(rules) > 1:
        said = " and ".join(str(dict(each)) for each in sorted(rules))
        raise ValueError(f"the records of {name} were made with {said}; report on records with the same settings")


def write_page(page: Page, out: Path, *, command: str = "") -> None:
    """Write the page."""
    families = [family for family in (*FAMILIES, "other") if page.all_of(family)]
    parts = [_opening(page, command), _section(page, None)]
    parts += [_section(page, family) for family in families if len(families) > 1]
    parts += [_worst_section(page), _notes_section(page)]
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("\n\n".join(part for part in parts if part) + "\n")


def _opening(page: Page, command: str) -> str:
    counts = {len(seeds) for methods in page.runs.values() for seeds in methods.values()}
    seeds = f"{min(counts)}" if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
    others = ", ".join(page.methods[1:]) or "none"
    return "\n".join(
        [
            "# Suite",
            "",
            *([f"    {command}", ""] if command else []),
            f"{len(page.runs)} problems, {seeds} seeds for each method and problem, batches of",
            f"{page.settings['batch_size']}, {page.settings['num_starts']} common starts. All runs of a problem have",
            f"the same total cost. {page.chosen} is compared with: {others}.",
            "",
            "The regret is that of the best value observed at the top so far, without noise. It is 0 at the best known",
            "value and 1 at the median of random configurations. The best known value is the better of",
            "`experiments/tables/reference_values.json` and of all records on this page.",
            f"Before its first value at the top, a run has a regret of {WITHOUT_VALUE:g}: a random configuration could",
            f"be had at any time. Regrets are cut at {LARGEST:g}. Seeds are averaged inside a problem, and every",
            "problem counts once. Brackets hold 95 % bootstrap intervals over problems.",
        ]
    )


def _section(page: Page, family: str | None) -> str:
    common, whole = page.common(family), page.all_of(family)
    parts = [f"## {'All problems' if family is None else family.replace('_', ' ')}", ""]
    if common:
        parts += [f"{len(common)} of {len(whole)} problems have runs of all methods. These are averaged:", ""]
        parts.append(_averages_table(common, page.methods))
    else:
        parts.append(f"None of {len(whole)} problems has runs of all methods, so there are no averages.")
    if len(page.methods) > 1:
        parts += [
            "",
            f"{page.chosen} minus another method, on the problems and seeds that both have; below zero,",
            f"{page.chosen} is better. The columns after the shares count problems at the whole cost; regrets that",
            f"differ by less than {SAME:g} are the same:",
            "",
            _differences_table(whole, page.methods),
            "",
            f"The cost at which {page.chosen} reaches the other's final value, over the cost at which the other did;",
            "then the same the other way round. Medians over problems and seeds; never counts as infinite, and a dash",
            "is an infinite median:",
            "",
            _costs_table(whole, page.methods),
        ]
    return "\n".join(parts)


def _averages_table(common: Runs, methods: Sequence[str]) -> str:
    found = ranks(common, methods)
    head = ["method", *(f"regret at {share:.0%}" for share in SHARES), *(f"rank at {share:.0%}" for share in SHARES)]
    rows: list[tuple[float, list[str]]] = []
    for place, method in enumerate(methods):
        regrets = mean_regrets(common, method)
        cells = [f"{mean:.4f}" for mean in regrets.mean(axis=0)]
        cells += [_shown(interval(found[:, place, share]), 2) for share in range(len(SHARES))]
        rows.append((regrets[:, -1].mean(), [method, *cells, number(seconds_per_query(common, method))]))
    return table([*head, "CPU s per query"], [row for _, row in sorted(rows)])


def _shown(found: Interval, digits: int) -> str:
    return f"{found.mean:.{digits}f} [{found.low:.{digits}f}, {found.high:.{digits}f}]"


def _differences_table(runs: Runs, methods: Sequence[str]) -> str:
    head = ["against", "problems", *(f"at {share:.0%}" for share in SHARES), "better / same / worse"]
    rows: list[list[str]] = []
    for other in methods[1:]:
        found = paired(runs, methods[0], other)
        if len(found.differences):
            cells = [_shown(interval(found.differences[:, share]), 4) for share in range(len(SHARES))]
            rows.append([other, f"{len(found.differences)}", *cells, " / ".join(map(str, found.counts()))])
    return table(head, rows)


def _costs_table(runs: Runs, methods: Sequence[str]) -> str:
    head = ["against", "pairs", "cost ratio", "never", "the other's cost ratio", "the other never"]
    rows: list[list[str]] = []
    for other in methods[1:]:
        ways = (paired(runs, methods[0], other), paired(runs, other, methods[0]))
        if len(ways[0].ratios):
            cells = [cell for way in ways for cell in (number(way.median_ratio()), f"{way.share_never():.0%}")]
            rows.append([other, f"{len(ways[0].ratios)}", *cells])
    return table(head, rows)


def _worst_section(page: Page) -> str:
    """Return the list of the problems where the chosen method is worst, relative to the best other method."""
    rows: list[tuple[float, list[str]]] = []
    for name, methods in page.common().items():
        means = {method: mean_regrets({name: methods}, method)[0] for method in page.methods}
        others = {method: each[-1] for method, each in means.items() if method != page.chosen}
        if not others:
            return ""
        best = min(others, key=lambda method: others[method])
        own = means[page.chosen]
        gap = float(own[-1] - others[best])
        cells = [name, suite.family_of(name), best, f"{gap:+.4f}", f"{own[-1]:.4f}", f"{others[best]:.4f}"]
        rows.append((-gap, [*cells, f"{own[1] - means[best][1]:+.4f}"]))
    head = ["problem", "family", "best other", "difference", f"{page.chosen}", "best other's", "difference at 25%"]
    worst = [row for _, row in sorted(rows, key=lambda row: row[0])[:NUM_WORST]]
    if not rows:
        return ""
    return "\n".join(
        [
            f"## Where {page.chosen} is worst",
            "",
            "Mean regrets at the whole cost, against the other method that is best on the problem. The best of many is",
            "chosen with luck, so a method that is as good as the others also has differences above zero here.",
            "",
            table(head, worst),
        ]
    )


def _notes_section(page: Page) -> str:
    parts = ["## Notes", ""]
    if page.beaten:
        parts += ["Problems where a run is better than the table of reference values:", ""]
        rows = [[name, f"{old:.8g}", f"{new:.8g}"] for name, (old, new) in page.beaten.items()]
        parts.append(table(["problem", "table", "best of all runs"], rows))
    else:
        parts.append("No run is better than the table of reference values.")
    if page.short:
        rows = [[r.task.method, r.task.problem, f"{r.task.seed}", r.status, r.reason] for r in page.short]
        parts += ["", "Runs that did not finish count with what they had found:", ""]
        parts.append(table(["method", "problem", "seed", "ended", "reason"], rows))
    else:
        parts += ["", "All runs finished."]
    empty = {
        method: sum(
            math.isinf(run.final()) for methods in page.runs.values() for run in methods.get(method, {}).values()
        )
        for method in page.methods
    }
    if any(empty.values()):
        said = ", ".join(f"{method}: {count}" for method, count in empty.items() if count)
        parts += ["", f"Runs without any value at the top: {said}."]
    return "\n".join(parts)
