"""Say how the last inference of a network's parameters went."""

import numpy as np

from bmbo.inference import Info, complaints
from bmbo.report.report_data import short_number


def sampler_rows(info: object) -> tuple[tuple[str, str], ...]:
    """Return what is known of the chains: names and values; nothing if no chains were run.

    What has no meaning for the way of inference is left out.
    """
    if not isinstance(info, Info):
        return ()
    acceptance, divergences = np.asarray(info.acceptance, np.float64), np.asarray(info.divergences, np.float64)
    steps = np.asarray(info.step_size, np.float64)
    rows: list[tuple[str, str]] = [("chains", str(acceptance.size))]
    if np.isfinite(acceptance).any():
        low, high = np.nanmin(acceptance), np.nanmax(acceptance)
        rows.append(("accepted proposals, worst and best chain", f"{low:.0%} and {high:.0%}"))
    if np.isfinite(divergences).any():
        rows.append(("transitions that diverged", f"{np.nansum(divergences):.0f}"))
    if np.isfinite(steps).any():
        rows.append(("mean step size", short_number(float(np.nanmean(steps)))))
    for name, value in (("largest R-hat (1 is best)", info.rhat), ("smallest effective number of draws", info.ess)):
        if not np.isnan(float(np.asarray(value))):
            rows.append((name, short_number(float(np.asarray(value)))))
    return tuple(rows) if len(rows) > 1 else ()


def sampler_complaints(info: object) -> list[str]:
    """Return what is wrong with the chains, one sentence each."""
    if not isinstance(info, Info):
        return []
    return [f"{sentence[:1].upper()}{sentence[1:]}." for sentence in complaints(info)]
