"""Show a study in a notebook."""

from collections.abc import Sequence

from bmbo.history import History
from bmbo.history.shown_levels import shown_levels
from bmbo.problem.html_table import html_table
from bmbo.study.front_messages import front_line
from bmbo.study.short_text import params_line, short_text
from bmbo.study.trial import Trial


def study_html(name: str, storage: str, history: History, trials: Sequence[Trial]) -> str:
    """Return a study as a table of HTML: how far each level is, and the best trial or the front."""
    best, problem = history.best, history.problem
    states = sorted({trial.state for trial in trials})
    rows: list[list[object]] = [
        [
            fidelity.name,
            fidelity.cost,
            *(sum(t.level == level and t.state == state for t in trials) for state in states),
        ]
        for level in shown_levels(history)
        for fidelity in [problem.ladder[level]]
    ]
    title = f"Study {name} in {storage}: {len(trials)} trials, cost {short_text(history.spent)}; "
    found = "nothing at the top fidelity yet"
    if problem.objectives and history.front:
        found = front_line(history)
    elif best is not None:
        kind = "best observed" if problem.noisy else "best"
        found = f"{kind} {short_text(best.value)} (trial {best.number}): {params_line(trials[best.number].params)}"
    return html_table(title + found, ["fidelity", "cost", *states], rows)
