"""What a report shows of several objectives."""

import numpy as np
import pytest

import bmbo
from bmbo.history import Outcome, Query
from bmbo.problem import Ladder, Problem, Space, as_objectives
from bmbo.report.headline import headline_of
from bmbo.report.model_view import ModelView
from bmbo.report.sections import sections_of
from support.report_records import data_of, entry_of, modelled

SPACE = Space({"x": bmbo.Float(0, 1), "y": bmbo.Float(0, 1)})
LADDER = Ladder([bmbo.Fidelity(1, cost=1), bmbo.Fidelity(10, cost=10)])


def study_of(size, num=16):
    """Random trials at both levels; the objectives are distances from corners, the last one is to be large."""
    names = {f"goal {place}": "minimize" for place in range(size - 1)} | {"gain": "maximize"}
    objectives = as_objectives(names)
    problem = Problem(SPACE, LADDER, objectives=objectives)
    rng = np.random.default_rng(0)
    entries = []
    for number in range(num):
        unit, level = tuple(float(u) for u in rng.random(2)), number % 2
        corners = [(0, 0), (1, 0), (0, 1), (1, 1)][:size]
        values = [
            own.sign * -np.hypot(unit[0] - a, unit[1] - b) for own, (a, b) in zip(objectives, corners, strict=True)
        ]
        entries.append(entry_of(number, Query(unit, level), Outcome.of_several(values, LADDER.costs[level])))
    return data_of(entries, problem)


def sections(data):
    return {section.key: section for section in sections_of(data, ModelView.of(data))}


def test_the_front_takes_the_place_of_progress_and_each_objective_has_a_model():
    data = modelled(study_of(2))
    shown = sections(data)
    assert list(shown)[:3] == ["front", "volume", "spending"]
    assert not {"progress", "slices", "pairs", "calibration", "no-model"} & set(shown)
    for key in ("levels", "importance"):
        assert [figure.layout.title.text for figure in shown[key].figures] == ["goal 0", "gain"]
    assert [row[0] for row in shown["front"].rows] == [
        str(trial.number) for trial in sorted(data.history.front, key=lambda trial: trial.values[0])
    ]
    assert shown["front"].head == ("trial", "goal 0", "gain", "x", "y")
    best = headline_of(data, None).best
    assert f"{len(data.history.front)} configurations form the front" in best
    assert dict(headline_of(data, None).facts)["Goal"].startswith("small goal 0 and large gain at")


@pytest.mark.parametrize(("size", "pairs"), [(2, 1), (3, 3), (4, 6)])
def test_each_pair_of_objectives_has_a_figure_with_the_front_framed(size, pairs):
    data = study_of(size)
    figures = sections(data)["front"].figures
    assert len(figures) == pairs
    top = next(trace for trace in figures[0].data if trace.name == "10")
    assert sum(width > 0 for width in top.marker.line.width) == len(data.history.front)
    assert [trace.name for trace in figures[0].data].count("front") == (1 if size == 2 else 0)


def test_the_hypervolume_rises_with_cost_to_that_of_the_front():
    data = study_of(3)
    (line,) = sections(data)["volume"].figures[0].data
    assert list(line.y) == sorted(line.y)
    assert line.y[-1] > 0
    assert line.x[-1] == data.history.spent


def test_without_a_value_or_a_model_it_is_said():
    empty = modelled(data_of([], study_of(2).problem))
    assert sections(empty) == {}
    assert headline_of(empty, None).best == "No trial has given a value at the top fidelity yet."
    assert "no-model" in sections(modelled(study_of(2, num=2)))
