"""Figures as plain SVG: lines with bands, and points with intervals. Needs nothing to be drawn with."""

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c6d31")
"""Told apart by colour-blind readers too (Okabe and Ito; the last instead of their yellow, which white swallows)."""

DASHES = ("", "6 3", "2 2", "8 3 2 3")

WIDTH, HEIGHT = 330, 260
"""Of the axes of one panel."""

LEFT, TOP, GAP, BOTTOM = 56, 30, 62, 44
LEGEND_WIDTH, LEGEND_STEP = 150, 17


@dataclass(frozen=True)
class Style:
    """How a line looks: the same for one method in every figure."""

    colour: str
    dash: str
    width: float = 1.6

    @classmethod
    def of(cls, place: int, bold: bool = False) -> "Style":
        """That of the method at a place: colours first, then dashes."""
        return cls(COLOURS[place % len(COLOURS)], DASHES[place // len(COLOURS) % len(DASHES)], 2.6 if bold else 1.4)


@dataclass(frozen=True)
class Line:
    """A median and its quartiles over x; infinite where there is nothing to draw."""

    name: str
    x: Floats
    low: Floats
    middle: Floats
    high: Floats
    style: Style


@dataclass(frozen=True)
class Panel:
    """Axes with lines; y is logarithmic where `log`."""

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    log: bool = True


@dataclass(frozen=True)
class Scale:
    """From values to places on an axis."""

    low: float
    high: float
    start: float
    length: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """The place, inside the axis."""
        share = (self._turned(value) - self.low) / (self.high - self.low)
        return self.start + self.length * min(max(share, 0.0), 1.0)

    def _turned(self, value: float) -> float:
        return math.log10(max(value, 10.0**self.low)) if self.log else value

    def ticks(self) -> list[tuple[float, str]]:
        """Round values with their labels."""
        if not self.log:
            return [(value, f"{value:g}") for value in _round_values(self.low, self.high)]
        first, last = math.ceil(self.low - 1e-9), math.floor(self.high + 1e-9)
        if last - first < 2:
            # Too few powers of ten to read a value by.
            return [(value, f"{value:g}") for value in _round_values(10.0**self.low, 10.0**self.high)]
        step = max(1, math.ceil((last - first + 1) / 7))
        return [(10.0**power, f"1e{power}") for power in range(first, last + 1, step)]


def _round_values(low: float, high: float) -> list[float]:
    """About five round values between two."""
    raw = (high - low) / 5
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= raw)
    first = math.ceil(low / step - 1e-9)
    count = math.floor(high / step + 1e-9) - first + 1
    return [step * (first + place) for place in range(count)]


def figure(title: str, panels: Sequence[Panel]) -> str:
    """Panels side by side with one legend."""
    names = {line.name: line.style for panel in panels for line in panel.lines}
    width = LEFT + len(panels) * (WIDTH + GAP) + LEGEND_WIDTH
    height = max(TOP + HEIGHT + BOTTOM, TOP + LEGEND_STEP * len(names) + 20)
    parts = _opening(title, width, height)
    for place, panel in enumerate(panels):
        parts += _panel(panel, LEFT + place * (WIDTH + GAP))
    x = LEFT + len(panels) * (WIDTH + GAP) - 30
    for place, (name, style) in enumerate(names.items()):
        y = TOP + 8 + LEGEND_STEP * place
        parts.append(f'<line x1="{x}" y1="{y}" x2="{x + 24}" y2="{y}" {_stroke(style)}/>')
        parts.append(f'<text x="{x + 30}" y="{y + 4}">{html.escape(name)}</text>')
    return "\n".join([*parts, "</svg>\n"])


def intervals(title: str, x_label: str, rows: Sequence[tuple[str, float, float, float]], *, log: bool = False) -> str:
    """A row for each name: a point and its interval, from (name, low, middle, high)."""
    left, step = 150, 20
    height = TOP + step * len(rows) + BOTTOM
    low, high = min(row[1] for row in rows), max(row[3] for row in rows)
    if log:
        low, high = math.log10(low), math.log10(high)
    margin = 0.05 * (high - low) or 0.5
    scale = Scale(low - margin, high + margin, left, 420, log)
    parts = _opening(title, left + 420 + 30, height)
    bottom = TOP + step * len(rows)
    for value, label in scale.ticks():
        x = scale(value)
        parts.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom}" stroke="#e5e5e5"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{label}</text>')
    for place, (name, start, middle, end) in enumerate(rows):
        y, colour = TOP + step * (place + 0.5), COLOURS[0]
        parts.append(f'<text x="{left - 8}" y="{y + 4}" text-anchor="end">{html.escape(name)}</text>')
        parts.append(f'<line x1="{scale(start):.1f}" y1="{y}" x2="{scale(end):.1f}" y2="{y}" stroke="{colour}"/>')
        parts.append(f'<circle cx="{scale(middle):.1f}" cy="{y}" r="4" fill="{colour}"/>')
    parts.append(f'<text x="{left + 210}" y="{bottom + 36}" text-anchor="middle">{html.escape(x_label)}</text>')
    return "\n".join([*parts, "</svg>\n"])


def _opening(title: str, width: float, height: float) -> list[str]:
    frame = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" {frame} font-family="sans-serif" font-size="12">',
        f"<title>{html.escape(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]


def _stroke(style: Style) -> str:
    dash = f' stroke-dasharray="{style.dash}"' if style.dash else ""
    return f'fill="none" stroke="{style.colour}" stroke-width="{style.width}"{dash}'


def _panel(panel: Panel, left: float) -> list[str]:
    x_scale, y_scale = _scales(panel, left)
    parts: list[str] = []
    for value, label in x_scale.ticks():
        x = x_scale(value)
        parts.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{TOP + HEIGHT}" stroke="#e5e5e5"/>')
        parts.append(f'<text x="{x:.1f}" y="{TOP + HEIGHT + 16}" text-anchor="middle">{label}</text>')
    for value, label in y_scale.ticks():
        y = y_scale(value)
        parts.append(f'<line x1="{left}" y1="{y:.1f}" x2="{left + WIDTH}" y2="{y:.1f}" stroke="#e5e5e5"/>')
        parts.append(f'<text x="{left - 5}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    for line in panel.lines:
        parts += _line(line, x_scale, y_scale)
    middle = left + WIDTH / 2
    parts.append(f'<text x="{middle}" y="{TOP - 10}" text-anchor="middle" font-weight="bold">{panel.title}</text>')
    parts.append(f'<text x="{middle}" y="{TOP + HEIGHT + 36}" text-anchor="middle">{panel.x_label}</text>')
    x, y = left - 46, TOP + HEIGHT / 2
    parts.append(f'<text x="{x}" y="{y}" text-anchor="middle" transform="rotate(-90 {x} {y})">{panel.y_label}</text>')
    return parts


def _scales(panel: Panel, left: float) -> tuple[Scale, Scale]:
    every_x = np.concatenate([line.x for line in panel.lines])
    every_y = np.concatenate([line.middle for line in panel.lines])
    seen = every_y[np.isfinite(every_y) & ((every_y > 0) | (not panel.log))]
    low, high = (float(seen.min()), float(seen.max())) if len(seen) else (0.1, 1.0)
    if panel.log:
        low, high = math.log10(low), math.log10(high)
    margin = 0.04 * (high - low) or 0.5
    low, high = low - margin, high + margin
    x_scale = Scale(float(every_x.min()), float(every_x.max()) or 1.0, left, WIDTH)
    return x_scale, Scale(low, high, TOP + HEIGHT, -HEIGHT, panel.log)


def _line(line: Line, x_scale: Scale, y_scale: Scale) -> list[str]:
    """The median as steps, and the band between the quartiles, where there is something to draw."""
    shown = np.isfinite(line.middle)
    if not shown.any():
        return []

    def steps(values: Floats) -> list[str]:
        points: list[str] = []
        before: float | None = None
        for x, value in zip(line.x[shown], values[shown], strict=True):
            place, height = x_scale(float(x)), y_scale(float(value))
            if before is not None and height != before:
                points.append(f"{place:.1f},{before:.1f}")
            if height != before:
                points.append(f"{place:.1f},{height:.1f}")
            before = height
        points.append(f"{x_scale(float(line.x[shown][-1])):.1f},{before:.1f}")
        return points

    # An infinite quartile is drawn to the edge.
    edge = 10.0**y_scale.high if y_scale.log else y_scale.high
    band = steps(line.low) + steps(np.where(np.isfinite(line.high), line.high, edge))[::-1]
    return [
        f'<polygon points="{" ".join(band)}" fill="{line.style.colour}" fill-opacity="0.07"/>',
        f'<polyline points="{" ".join(steps(line.middle))}" {_stroke(line.style)}/>',
    ]
