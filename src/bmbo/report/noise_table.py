"""Say how noisy each fidelity is: what repeated runs show, and what the model believes."""

import math
from dataclasses import dataclass

import numpy as np

from bmbo.history.repeated_runs import RepeatedNoise, repeated_noise
from bmbo.history.shown_levels import shown_levels
from bmbo.report.model_view import ModelView
from bmbo.report.report_data import ReportData, short_number

CLEAR = 10
"""Degrees of freedom from which on repeated runs tell the noise to about a quarter."""
HEAD = ("fidelity", "trials with a value", "run again", "noise by repeated runs", "noise by the model")


@dataclass(frozen=True)
class LevelNoise:
    """Hold what is known of the noise of one level, as standard deviations in the objective's unit.

    Attributes:
        name: of the fidelity.
        num_values: trials with a value.
        repeated: what repeated runs show; None if there are none.
        believed: what the model believes; None if there is no model or it knows no scale.
    """

    name: str
    num_values: int
    repeated: RepeatedNoise | None
    believed: float | None

    @property
    def row(self) -> tuple[str, ...]:
        """Return the cells of a table, in the order of `HEAD`."""
        seen = "-"
        if self.repeated is not None:
            low, high = short_number(self.repeated.low), short_number(self.repeated.high)
            seen = f"{short_number(self.repeated.deviation)} ({low} to {high})"
        again = "-" if self.repeated is None else str(self.repeated.freedom)
        believed = "-" if self.believed is None else short_number(self.believed)
        return self.name, str(self.num_values), again, seen, believed


def noise_of(data: ReportData, view: ModelView | None) -> tuple[LevelNoise, ...]:
    """Return what is known of the noise of each level that has values."""
    counts = [sum(trial.query.level == level for trial in data.history.done) for level in range(len(data.level_names))]
    return tuple(
        LevelNoise(data.level_names[level], counts[level], repeated_noise(data.history, level), _believed(view, level))
        for level in shown_levels(data.history)
        if counts[level]
    )


def noise_notes(found: tuple[LevelNoise, ...]) -> tuple[str, ...]:
    """Return in words at which levels noise cannot be told from what configurations do."""
    without = [each.name for each in found if each.repeated is None]
    few = [each.name for each in found if each.repeated is not None and each.repeated.freedom < CLEAR]
    notes: list[str] = []
    if without:
        notes.append(
            f"Nothing was run twice at {', '.join(without)}: there the model's number is a guess, because noise cannot "
            "be told from differences between neighbouring configurations."
        )
    if few:
        notes.append(f"There are few repeated runs at {', '.join(few)}: the interval shows how little they say.")
    return tuple(notes)


def _believed(view: ModelView | None, level: int) -> float | None:
    """Return the deviation of the noise that a model believes in, over all its parts."""
    units = None if view is None else view.posteriors.units
    if view is None or units is None or not math.isfinite(units[level]):
        return None
    variances = np.array([part.noise[level] for part in view.posteriors.parts])
    return math.sqrt(float(view.posteriors.weights @ variances)) * units[level]
