"""Write a report, a Markdown page with figures, from the records alone."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from experiments.harness.method_interface import MethodEntry
from experiments.harness.run_record import FINISHED, Record
from experiments.reporting.curves import quartiles
from experiments.reporting.figures import Line, Panel, curves_svg, intervals_svg, styles_of
from experiments.reporting.ranks import FEWEST_PROBLEMS, Ranks, average_ranks
from experiments.reporting.summary import (
    DEFAULT,
    NUM_RIVALS,
    OURS,
    RANDOM,
    SHARES,
    Method,
    Problem,
    common_methods,
    determinism,
    grid,
    peers_among,
    problems_of,
    shown_default,
)


def number(value: float) -> str:
    """Return a number as text with three digits, or a dash if it is not finite."""
    return f"{value:.3g}" if math.isfinite(value) else "-"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [list(head), ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "/") for cell in line) + " |" for line in lines)


def write_report(
    records: Sequence[Record],
    entries: Mapping[str, MethodEntry],
    out: Path,
    figures: Path,
    *,
    charged: bool = True,
    command: str = "",
) -> None:
    """Write the page and its figures. Raise `ValueError` if there are no records with evaluations."""
    problems = problems_of(records, charged)
    if not problems:
        raise ValueError("there are no records to report on; `python -m experiments run` makes them")
    figures.mkdir(parents=True, exist_ok=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    names = sorted(
        {name for problem in problems for name in problem.methods}, key=lambda n: (not n.startswith(OURS), n)
    )
    link = _relative(figures, out.parent)
    parts = [_opening(problems, command, charged), *_ranks_section(problems, figures, link)]
    parts += [_seed_by_seed_section(problems, names), _cost_section(problems)]
    parts.append(_time_section(problems, figures, link))
    for problem in problems:
        (figures / f"{problem.name}.svg").write_text(_curves_figure(problem))
        parts.append(_problem_section(problem, f"{link}/{problem.name}.svg"))
    parts += [_failure_section(records, problems), _method_section(entries, names)]
    out.write_text("\n\n".join(part for part in parts if part) + "\n")


def _relative(target: Path, start: Path) -> str:
    target, start = target.resolve(), start.resolve()
    up = 0
    while not target.is_relative_to(start):
        start, up = start.parent, up + 1
    return "/".join([*[".."] * up, *target.relative_to(start).parts]) or "."


def _opening(problems: Sequence[Problem], command: str, charged: bool) -> str:
    seeds = {len(method.records) for problem in problems for method in problem.methods.values()}
    first = next(iter(problems[0].methods.values())).records[0].header["settings"]
    runs = [record for problem in problems for method in problem.methods.values() for record in method.records]
    hours = sum(record.seconds for record in runs) / 3600
    spread = f"{min(seeds)}" if len(seeds) == 1 else f"{min(seeds)} to {max(seeds)}"
    starts = (
        "methods that take no starts are charged their cost, so their curves begin there"
        if charged
        else "methods that take no starts are not charged their cost, so their curves begin at a cost of zero"
    )
    return "\n".join(
        [
            "# Comparison",
            "",
            *([f"    {command}", ""] if command else []),
            f"{spread} seeds per method and problem; batches of {first['batch_size']}, if a method can ask for them;",
            f"{first['num_starts']} random starts per level, the same for every method that takes them;",
            f"{starts}.",
            "The harness counts the costs, which include the starts. The loss is the distance of the value at the top",
            "to the optimum or, for LCBench, to the best known value. If no optimum is known, the loss is the value",
            "itself, with its sign turned if necessary, so that less is better. A run that crashed or timed out counts",
            "with what it had found. Tables show the median over seeds, and the quartiles in brackets.",
            f"The {len(runs)} runs took {hours:.1f} hours together, evaluations included.",
        ]
    )


def _ranks_section(problems: Sequence[Problem], figures: Path, link: str) -> list[str]:
    """Write the figure of average ranks, and return the section about methods that were run on all problems."""
    methods = common_methods(problems)
    if len(methods) < 2 or len(problems) < 2:
        few = (
            "No two methods have runs on two problems or more"
            if len(problems) < 2
            else "No two methods were run on all"
        )
        return [f"## Average ranks\n\n{few}: there are no average ranks. `--problems` and `--methods` choose."]
    columns = {f"at {share:.0%}": ("observed", share) for share in SHARES} | {"recommended": ("recommended", 1.0)}
    found: dict[str, Ranks] = {}
    for title, (kind, share) in columns.items():
        losses = {each.name: {m: each.methods[m].losses(kind, each.mark(share)) for m in methods} for each in problems}
        found[title] = average_ranks(losses, methods)
    last = found[f"at {SHARES[-1]:.0%}"]
    order = sorted(range(len(methods)), key=lambda place: last.mean[place])
    rows = [[methods[place], *[_interval(each, place) for each in found.values()]] for place in order]
    picture = [(methods[p], float(last.low[p]), float(last.mean[p]), float(last.high[p])) for p in order]
    best_first = [row[0] for row in picture]
    styles = styles_of(best_first, shown_default(best_first), _rivals(best_first, peers_among(best_first)), RANDOM)
    (figures / "ranks.svg").write_text(
        intervals_svg(_ranks_message(best_first, len(problems)), "average rank, 1 is best", picture, styles)
    )
    everywhere = f"Methods with runs on all {len(problems)} problems; 1 is best."
    left_out = sorted({name for problem in problems for name in problem.methods} - set(methods))
    if left_out:
        everywhere += f" These lack a problem and are left out: {', '.join(left_out)}."
    text = [
        "## Average ranks",
        "",
        "Methods are ranked by the median loss of the best observed value at the top, at shares of the cost after the",
        "starts. In the last column they are ranked by the median loss of the final recommendation.",
        f"{everywhere} Brackets hold 95 % bootstrap intervals over problems and seeds.",
        "",
        table(["method", *columns], rows),
        "",
        _test_sentence(last),
        "",
        f"![average ranks]({link}/ranks.svg)",
    ]
    return ["\n".join(text)]


def _rivals(best_first: Sequence[str], peers: Sequence[str]) -> list[str]:
    """Return which methods have a colour beside our default: the best peers, and the best of all, whatever it is."""
    named = list(peers[:NUM_RIVALS])
    return named if best_first[0] in (*named, shown_default(best_first), RANDOM) else [*named, best_first[0]]


def _ranks_message(best_first: Sequence[str], num_problems: int) -> str:
    own, best = shown_default(best_first), best_first[0]
    said = f"Over {num_problems} problems {best} has the best average rank"
    return said if own in (None, best) else f"{said}; {own} is {_place(own, best_first)}"


def _place(name: str, best_first: Sequence[str]) -> str:
    """Return which place a name has in a list, in words."""
    return f"number {best_first.index(name) + 1} of {len(best_first)}"


def _interval(ranks: Ranks, place: int) -> str:
    return f"{ranks.mean[place]:.2f} [{ranks.low[place]:.2f}, {ranks.high[place]:.2f}]"


def _test_sentence(ranks: Ranks) -> str:
    if ranks.p_value is None or ranks.distance is None:
        return f"Friedman's test needs three methods and {FEWEST_PROBLEMS} problems; there are {ranks.num_problems}."
    return (
        f"At the end: Friedman's test that all methods are alike has p = {ranks.p_value:.2g}; two average ranks differ "
        f"at 5 % if they are {ranks.distance:.2f} apart (Nemenyi)."
    )


def _seed_by_seed_section(problems: Sequence[Problem], names: Sequence[str]) -> str:
    """Return the section that compares every method with random search and with our default, seed by seed."""
    tables = [made for reference in (RANDOM, DEFAULT) if (made := _seed_by_seed_table(reference, problems, names))]
    if not tables:
        return ""
    text = [
        "## Seed by seed",
        "",
        "On how many common seeds a method ends with a better value at the top than the reference, with the same",
        "value, and with a worse one. The starts of a seed are the same for all methods that take them. So lucky",
        "starts do not matter here, unlike in medians over different numbers of seeds.",
    ]
    return "\n\n".join(["\n".join(text), *tables])


def _seed_by_seed_table(reference: str, problems: Sequence[Problem], names: Sequence[str]) -> str:
    """Return the table against one reference, the best method first, or an empty text if no seed is common."""
    met = [problem for problem in problems if reference in problem.methods]
    rows: list[tuple[float, list[str]]] = []
    for name in names:
        found = [problem.wins_ties_losses(name, reference) if name in problem.methods else (0, 0, 0) for problem in met]
        overall = tuple(sum(each) for each in zip(*found, strict=True))
        if name != reference and any(overall):
            better, _, worse = overall
            cells = [" / ".join(map(str, each)) if any(each) else "" for each in [*found, overall]]
            rows.append(((worse - better) / sum(overall), [name, *cells]))
    head = [f"against {reference}", *[problem.name for problem in met], "all"]
    return table(head, [row for _, row in sorted(rows)]) if rows else ""


def _cost_section(problems: Sequence[Problem]) -> str:
    """Return the section about the cost to reach the final loss of random search and of the best peer."""
    names = sorted({name for problem in problems for name in problem.methods})
    head = ["method", *[problem.name for problem in problems]]

    def rows(references: Sequence[str | None]) -> list[list[str]]:
        made: list[list[str]] = []
        for name in names:
            cells = [
                number(problem.cost_ratio(name, reference)) if reference and name in problem.methods else ""
                for problem, reference in zip(problems, references, strict=True)
            ]
            made.append([name, *cells])
        return made

    random = [RANDOM if RANDOM in problem.methods else None for problem in problems]
    peers = [problem.best_peer() for problem in problems]
    parts = ["## Cost to reach a given loss", ""]
    parts.append(
        "Costs include the starts. The loss is that of the best observed value at the top; - if it is never reached."
    )
    if any(random):
        parts += ["", "The loss that random search ends with, as a share of random search's cost to get there:", ""]
        parts.append(table(head, rows(random)))
    if any(peers):
        best = ", ".join(f"{problem.name}: {peer}" for problem, peer in zip(problems, peers, strict=True) if peer)
        parts += ["", f"The loss that the best peer ends with, as a share of that peer's cost ({best}):", ""]
        parts.append(table(head, rows(peers)))
    return "\n".join(parts)


def _time_section(problems: Sequence[Problem], figures: Path, link: str) -> str:
    """Write the figure of seconds per query (the paper's Figure 3), learning included, and return its section."""
    names = sorted({name for problem in problems for name in problem.methods})
    found = {
        name: [each.methods[name].seconds_per_query("cpu") if name in each.methods else math.nan for each in problems]
        for name in names
    }
    spent = {name: sorted(s for s in seconds if s > 0) for name, seconds in found.items()}
    picture = [(name, s[0], median(s), s[-1]) for name, s in spent.items() if s]
    picture.sort(key=lambda row: row[2])
    if picture:
        quick_first = [row[0] for row in picture]
        own = shown_default(quick_first)
        rivals = peers_among(problems[0].peers() if len(problems) == 1 else _rivals_everywhere(problems))
        styles = styles_of(quick_first, own, [name for name in rivals if name in quick_first][:NUM_RIVALS], RANDOM)
        seconds = {row[0]: row[2] for row in picture}
        said = (
            "Time to choose a query" if own is None else f"{own} takes {number(seconds[own])} CPU seconds for a query"
        )
        text = intervals_svg(f"{said} (median over problems)", "CPU seconds per query", picture, styles, log=True)
        (figures / "seconds.svg").write_text(text)
    rows = [[name, *[number(each) for each in seconds]] for name, seconds in found.items()]
    return "\n".join(
        [
            "## Time to generate queries",
            "",
            "CPU seconds of a method per query, learning and compiling included, as means over runs. The figure shows",
            "the median, the minimum and the maximum over problems. Runs were made on several machines.",
            "",
            table(["method", *[problem.name for problem in problems]], rows),
            *(["", f"![seconds per query]({link}/seconds.svg)"] if picture else []),
        ]
    )


def _rivals_everywhere(problems: Sequence[Problem]) -> list[str]:
    """Return the peers that were run on most problems, those with the best places there first."""
    places: dict[str, list[int]] = {}
    for problem in problems:
        for place, name in enumerate(problem.peers()):
            places.setdefault(name, []).append(place)
    return sorted(places, key=lambda name: (-len(places[name]), sum(places[name]) / len(places[name]), name))


def _curves_figure(problem: Problem) -> str:
    """Return the figure of the best value observed at the top: the curve that a user has."""
    costs, best_first = grid(problem), [method.name for method in problem.ordered()]
    styles = styles_of(best_first, shown_default(best_first), _rivals(best_first, problem.peers()), RANDOM)
    lines: list[Line] = []
    for name in best_first:
        low, middle, high = quartiles(problem.methods[name].curves["observed"], costs)
        lines.append(Line(name, costs, low, middle, high, styles[name]))
    label = "loss of the best observed at the top" if problem.has_optimum else "best value at the top, less is better"
    title = _curves_message(problem.name, best_first)
    return curves_svg(Panel(title, "cost, starts included", label, lines, log=problem.has_optimum))


def _curves_message(problem: str, best_first: Sequence[str]) -> str:
    own, best = shown_default(best_first), best_first[0]
    if own is None or own == best:
        return f"{problem}: {best} ends best of {len(best_first)} methods"
    return f"{problem}: {best} ends best; {own} is {_place(own, best_first)}"


def _problem_section(problem: Problem, picture: str) -> str:
    head = ["method", "seeds", *[f"at {problem.mark(share):g}" for share in SHARES], "recommended", "paper's curve"]
    rows = [_row(problem, method) for method in problem.ordered()]
    return "\n".join(
        [
            f"## {problem.name}",
            "",
            f"The starts cost {problem.start_cost:g} of {problem.total_cost:g}. Columns show the loss of the best",
            "observed value at the top at four costs, and at the end also the loss of the recommendation and of the",
            "best of all queried configurations (the paper's curve). The figure shows medians over seeds of the first,",
            "with quartiles where a line has a colour: our default (screening or, where it was not run, bmbo_gp, the",
            "default before), the three peers that end best, random search, and the method that ends best of all.",
            "",
            table([*head, "queries per level", "wall s per query", "CPU s per query"], rows),
            "",
            f"![{problem.name}]({picture})",
            *_values_below_top(problem),
        ]
    )


def _values_below_top(problem: Problem) -> list[str]:
    """Return lines about the values that methods found below the top."""
    below = [method for method in problem.ordered() if any(method.queries()[:-1])]
    if not below:
        return []
    # The starts of a seed are the same for all methods that take them.
    started = max(problem.methods.values(), key=lambda method: (_num_starts(method), method.name))
    rows = [["random starts", *[number(each) for each in started.median_values(of_starts=True)]]]
    rows += [[method.name, *[number(each) for each in method.median_values()]] for method in below]
    levels = [f"level {level}" for level in range(len(rows[0]) - 1)]
    said = "Median values of the queries at each level, over all seeds, for methods that asked below the top:"
    return ["", said, "", table(["method", *levels], rows)]


def _num_starts(method: Method) -> int:
    return sum(row.batch == 0 for record in method.records for row in record.evaluations)


def _row(problem: Problem, method: Method) -> list[str]:
    end = problem.mark(1.0)
    cells = [method.name, str(len(method.records))]
    for kind, mark in [*[("observed", problem.mark(share)) for share in SHARES], ("recommended", end), ("paper", end)]:
        low, middle, high = quartiles(method.curves[kind], [mark])[:, 0]
        cells.append(f"{number(middle)} [{number(low)}, {number(high)}]")
    cells.append(" / ".join(f"{count:.0f}" for count in method.queries()))
    return [*cells, number(method.seconds_per_query("wall")), number(method.seconds_per_query("cpu"))]


def _failure_section(records: Sequence[Record], problems: Sequence[Problem]) -> str:
    """Return the section about runs that crashed, timed out or did not repeat."""
    parts = ["## Crashes, hangs and repeatability", ""]
    ended = [record for record in records if record.status != FINISHED]
    if ended:
        rows = [[r.task.method, r.task.problem, f"{r.task.seed}", r.status, r.reason, number(r.seconds)] for r in ended]
        parts.append(table(["method", "problem", "seed", "ended", "reason", "after s"], rows))
    else:
        runs = sum(len(method.records) for problem in problems for method in problem.methods.values())
        parts.append(f"All {runs} runs finished.")
    short = [record for record in records if record.status == FINISHED and record.reason]
    if short:
        named = "; ".join(f"{record.task}: {record.reason}" for record in short[:20])
        more = f"; and {len(short) - 20} more" if len(short) > 20 else ""
        parts += ["", f"Runs that ended before the cost did: {named}{more}."]
    twice = determinism(records)
    if twice:
        parts += ["", "Run twice with one seed:", ""]
        rows = [
            [name, ", ".join(f"{p}: {'same' if s else 'DIFFERENT'}" for p, s in found.items())]
            for name, found in twice.items()
        ]
        parts.append(table(["method", "the two runs"], rows))
    return "\n".join(parts)


def _method_section(entries: Mapping[str, MethodEntry], names: Sequence[str]) -> str:
    rows: list[list[str]] = []
    for name in names:
        entry = entries.get(name)
        if entry is not None:
            starts, batch = "yes" if entry.takes_starts else "no", "yes" if entry.batch else "no"
            rows.append([name, entry.paper, entry.where, entry.differs, starts, batch])
    head = ["method", "published in", "what runs", "what differs", "takes starts", "batches"]
    return "\n".join(["## Methods", "", table(head, rows)])
