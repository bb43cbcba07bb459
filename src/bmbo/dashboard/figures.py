"""Put our figures, and a note on how to read the page, into the form in which optuna-dashboard finds them."""

from collections.abc import Mapping
from typing import Any

import optuna
from optuna.storages import InMemoryStorage
from optuna_dashboard import save_note, save_plotly_graph_object
from threadpoolctl import threadpool_limits

from bmbo.ledger import Ledger
from bmbo.ledger.storages import quiet_optuna
from bmbo.protocols import Policy
from bmbo.report.model_view import ModelView
from bmbo.report.report_data import ReportData
from bmbo.report.sections import sections_of
from bmbo.study.reporting import report_data

TITLE, LEGEND_ROW = 45, 20
"""Pixels above a figure: for its title, and for each name of its legend. In a narrow window each has its own row."""

NOTE = """\
Shown by `bmbo dashboard`. Nothing but this note can be changed here.

- *Complete* trials ran at the highest fidelity, *pruned* ones at a lower one. The best trial is always one at the top.
- **Intermediate values** are those of one configuration at each level: step 0 is the lowest.
- With several objectives, the front is that of the *complete* trials, and there are no intermediate values.
- The attributes `fidelity`, `level` and `cost` of a trial can be sorted in the table of trials.
- The figures of bmbo are among those on the page of the study. They are made anew while the study runs.
"""


def study_attributes(ledger: Ledger, policy: Policy, *, model: bool) -> Mapping[str, Any]:
    """Return the attributes for a study as it is now; with a model, its figures show what a model says too."""
    with threadpool_limits(1, user_api="blas"):  # matrices are small: more threads would wait for each other
        return dashboard_attributes(report_data(ledger, policy, ledger.seed, None, model=model))


def dashboard_attributes(data: ReportData) -> dict[str, Any]:
    """Return the attributes of a study in which the dashboard finds our figures, and a note on how to read it."""
    scratch = InMemoryStorage()
    with quiet_optuna():
        study = optuna.create_study(storage=scratch)
    save_note(study, NOTE)
    for section in sections_of(data, ModelView.of(data)):
        for place, figure in enumerate(section.figures):
            named = [trace for trace in figure.data if trace.name and trace.showlegend is not False]
            # The dashboard gives every figure the same height, and no title of its own.
            title = {"text": section.title, "x": 0.01, "y": 0.98, "yanchor": "top", "font": {"size": 15}}
            figure.update_layout(height=None, margin_t=TITLE + LEGEND_ROW * len(named), title=title)
            save_plotly_graph_object(study, figure, graph_object_id=f"bmbo-{section.key}-{place}")
    return scratch.get_study_system_attrs(scratch.get_study_id_from_name(study.study_name))
