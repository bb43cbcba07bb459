"""Ask whether the model's predictions came true: predict trials at the top from the trials before them."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import plotly.graph_objects as go
from scipy.special import ndtri

from bmbo.history import History, TrialRecord
from bmbo.history.host_observations import Observations
from bmbo.protocols import ExactSurrogate
from bmbo.report.plot_style import GREY, TOP_COLOUR, figure_of
from bmbo.report.report_data import ReportData, short_number, spread_out

MOST_FITS = 30
FEWEST_PREDICTIONS = 3
FEWEST_AT_TOP = 2
"""Values at the top that a prediction there needs."""
FARTHEST = 8.0
"""Deviations up to which a residual is measured."""
NUM_STEPS = 801
SECONDS = 6.0
"""Time for all fits together."""


@dataclass(frozen=True)
class Prediction:
    """Hold what was predicted of a trial from the trials before it, and what it gave.

    Attributes:
        number: of the trial.
        value: that it gave.
        mean: that was predicted, in the objective's unit.
        residual: how many deviations the value lies from the prediction, positive if it is better.
    """

    number: int
    value: float
    mean: float
    residual: float


@dataclass(frozen=True)
class Calibration:
    """Hold predictions, in the order of their trials, and of how many trials they could have been made."""

    predictions: tuple[Prediction, ...]
    possible: int

    def covered(self, share: float) -> float:
        """Return the part of the values that lie inside the interval that should hold this share of them."""
        reach = float(ndtri(0.5 + share / 2))
        return float(np.mean([abs(each.residual) <= reach for each in self.predictions]))


def calibrate(data: ReportData, seconds: float = SECONDS, clock: Callable[[], float] = time.monotonic) -> Calibration:
    """Return predictions of the last half of the trials at the top, the newest first while the time lasts."""
    top = data.problem.ladder.top
    at_top = [trial for trial in data.history.done if trial.query.level == top]
    last_half = at_top[max(len(at_top) // 2, FEWEST_AT_TOP) :]
    if data.surrogate is None or not last_half:
        return Calibration((), len(last_half))
    chosen = [last_half[place] for place in spread_out(len(last_half), MOST_FITS)]
    found: list[Prediction] = []
    begun, carry = clock(), None
    for trial in reversed(chosen):
        if clock() - begun > seconds:
            break
        try:
            predicted, carry = predict(data.surrogate, data.history, trial, carry)
        except (ArithmeticError, ValueError):
            continue
        found.append(predicted)
    return Calibration(tuple(reversed(found)), len(last_half))


def predict(surrogate: ExactSurrogate, history: History, trial: TrialRecord, carry: Any) -> tuple[Prediction, Any]:
    """Return what is predicted of a trial with a value from the trials before it, and a cache for the next fit."""
    before = Observations.of(replace(history, trials=history.trials[: trial.number]))
    posteriors, carry = surrogate.fit(before, carry)
    level, sign = trial.query.level, history.problem.sign
    mean, variance = posteriors.moments(np.asarray([trial.query.unit], np.float64), level)
    noise = float(posteriors.weights @ np.array([part.noise[level] for part in posteriors.parts]))
    steps = np.linspace(-FARTHEST, FARTHEST, NUM_STEPS)
    # The scale of the values is not linear. The value is looked up among the values of many quantiles.
    ladder = posteriors.restore(mean[0] + steps * math.sqrt(max(float(variance[0]), 0.0) + noise))
    value = float(trial.value or 0.0)
    residual = float(np.interp(sign * value, ladder, steps))
    return Prediction(trial.number, value, sign * float(ladder[NUM_STEPS // 2]), residual), carry


def calibration_figure(calibration: Calibration) -> go.Figure:
    """Return the figure: the standardised residual of each prediction, with bands of one and two deviations."""
    shown = calibration.predictions
    dots = go.Scatter(
        x=[each.number for each in shown],
        y=[each.residual for each in shown],
        mode="markers",
        marker={"color": TOP_COLOUR, "size": 8},
        hovertext=[
            f"trial {each.number}<br>predicted {short_number(each.mean)}<br>gave {short_number(each.value)}"
            for each in shown
        ],
        hoverinfo="text",
    )
    reach = max(3.0, *(abs(each.residual) + 0.4 for each in shown))
    figure = figure_of([dots], 320, showlegend=False)
    for deviations, opacity in ((2, 0.25), (1, 0.35)):
        figure.add_hrect(
            y0=-deviations, y1=deviations, fillcolor="#9ec5e8", opacity=opacity, line_width=0, layer="below"
        )
    figure.add_hline(y=0, line={"color": GREY, "width": 1})
    figure.update_xaxes(title={"text": "trial"})
    figure.update_yaxes(title={"text": "deviations (above 0: better)"}, range=[-reach, reach])
    return figure
