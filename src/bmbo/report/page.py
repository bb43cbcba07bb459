"""Render the page: one file of HTML with everything in it."""

import base64
import hashlib
import json
from importlib import resources
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

import bmbo
from bmbo.report.headline import headline_of
from bmbo.report.model_view import ModelView
from bmbo.report.report_data import ReportData
from bmbo.report.sections import sections_of

DRAW = """
"use strict";
const figures = JSON.parse(document.getElementById("figures").textContent);
const touch = matchMedia("(pointer: coarse)").matches;
const config = {responsive: true, displaylogo: false, displayModeBar: touch ? false : "hover"};
const drawn = Object.entries(figures).map(([name, figure]) => {
  // A finger that scrolls the page must not zoom.
  if (touch) figure.layout.dragmode = false;
  return Plotly.newPlot(name, figure.data, figure.layout, config);
});
Promise.all(drawn).then(() => { document.body.dataset.drawn = drawn.length; });
const fit = () => document.querySelectorAll(".js-plotly-plot").forEach((each) => Plotly.Plots.resize(each));
window.addEventListener("beforeprint", fit);
window.addEventListener("afterprint", fit);
"""
"""Draw all figures. The body then has an attribute with their number."""


def page(data: ReportData) -> str:
    """Return the page of a study as HTML."""
    view = ModelView.of(data)
    sections = sections_of(data, view)
    named = [
        (section, [(f"{section.key}-{place}", figure) for place, figure in enumerate(section.figures)])
        for section in sections
    ]
    figures = {name: json.loads(figure.to_json()) for _, own in named for name, figure in own}
    scripts = [get_plotlyjs(), DRAW]
    template = _template()
    return template.render(
        data=data,
        version=bmbo.__version__,
        headline=headline_of(data, view),
        sections=[(section, [(name, figure.layout.height) for name, figure in own]) for section, own in named],
        figures=script_json(figures),
        scripts=[Markup(script) for script in scripts],  # noqa: S704 - plotly's and our own
        hashes=[script_hash(script) for script in scripts],
    )


def script_json(value: Any) -> Markup:
    """Return JSON that can stand inside a script element: no text in it can end the element."""
    text = json.dumps(value, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))  # noqa: S704


def script_hash(script: str) -> str:
    """Return the hash by which the page's rules allow a script; no other script runs."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _template() -> Any:
    # Escapes everything that is not marked as markup.
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(resources.files("bmbo.report").joinpath("page.html").read_text(encoding="utf-8"))
