"""What the figures of a report show, against records that are small enough to work out by hand."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import bmbo
from bmbo.history import Outcome, Query
from bmbo.protocols import Choice, Offer, Recommendation
from bmbo.report.calibration_figure import Calibration, Prediction, calibrate, calibration_figure, predict
from bmbo.report.failures import failure_groups
from bmbo.report.last_batch_figure import last_batch_figure, relative_rates
from bmbo.report.levels_figure import levels_figure
from bmbo.report.model_view import ModelView, centre_of, importances, level_correlations, shared_points
from bmbo.report.parameter_axes import axis_of
from bmbo.report.plot_style import axis_layout, level_colours, safe, value_range
from bmbo.report.progress_figure import hidden_dots, new_bests, progress_figure, progress_of, shown_dots
from bmbo.report.report_data import LastBatch, short_number, spread_out, with_deviation
from bmbo.report.slice_figures import common_range, pair_figure, pair_of, slice_figure, slice_of
from bmbo.report.spending_figure import spending_figure, spending_of
from bmbo.report.timeline_figure import Run, side_by_side, timeline_figure, timeline_of
from support.report_records import BEGUN, MIXED, OWNERS, data_of, entry_of, modelled, problem_of, record

LINE = bmbo.Space({"x": bmbo.Float(0, 1), "y": bmbo.Float(0, 1)})
TWO = (bmbo.Fidelity(1, cost=1), bmbo.Fidelity(10, cost=10, name="full"))
PLANE = problem_of(LINE, TWO)


def view_of(data):
    found = ModelView.of(data)
    assert found is not None
    return found


def centre(data):
    found = centre_of(data)
    assert found is not None
    return found


def traces(figure) -> Any:
    return figure.data


def layout(figure) -> Any:
    return figure.layout


def told(number, unit, level, value, **more):
    cost = PLANE.ladder.costs[level]
    outcome = Outcome(None, cost, error="it broke") if value is None else Outcome.of(value, cost)
    return entry_of(number, Query(unit, level), outcome, **more)


def story():
    """Cheap, dear, failed, dear and better, cheap and best of all."""
    return [
        told(0, (0.1, 0.1), 0, 5.0),
        told(1, (0.1, 0.1), 1, 4.0, begun=BEGUN + timedelta(seconds=2), seconds=3),
        told(2, (0.9, 0.1), 0, None, begun=BEGUN + timedelta(seconds=3), seconds=1),
        told(3, (0.4, 0.4), 1, 2.0, begun=BEGUN + timedelta(seconds=9)),
        told(4, (0.3, 0.3), 0, 1.0, begun=BEGUN + timedelta(seconds=11), owner=OWNERS[1]),
    ]


def test_progress_counts_every_cost_in_the_order_in_which_trials_ended():
    progress = progress_of(data_of(story(), PLANE))
    # Trial 2 ended before trial 1; it failed, but it cost.
    assert progress.number.tolist() == [0, 1, 3, 4]
    assert progress.spent.tolist() == [1.0, 12.0, 22.0, 23.0]
    assert progress.best[1:].tolist() == [4.0, 2.0, 2.0]
    assert np.isnan(progress.best[0])
    assert new_bests(progress).tolist() == [1, 2]


def test_the_best_is_the_largest_when_large_values_are_wanted():
    progress = progress_of(data_of(story(), replace(PLANE, maximise=True)))
    assert progress.best[1:].tolist() == [4.0, 4.0, 4.0]


def test_the_line_of_the_best_ends_at_what_was_spent_and_the_recommendation_stands_there():
    data = data_of(story(), PLANE, recommendation=Recommendation((0.4, 0.4), 2.1, 0.3))
    dots, more, line, star = traces(progress_figure(data, progress_of(data)))
    assert (dots.name, more.name) == ("1", "full")
    assert list(line.x) == [12.0, 22.0, 23.0]
    assert list(line.y) == [4.0, 2.0, 2.0]
    assert (star.x[0], star.y[0], star.error_y.array[0]) == (23.0, 2.1, 0.3)
    assert "trial 3 at full" in more.hovertext[1]


def test_of_many_trials_those_of_the_top_and_the_best_are_drawn():
    data = record(3000)
    progress, top = progress_of(data), data.problem.ladder.top
    shown = shown_dots(progress, top, most=300)
    assert len(shown) <= 300 + len(new_bests(progress))
    assert set(new_bests(progress)) <= set(shown)
    assert set(np.flatnonzero(progress.level == top)) <= set(shown)
    assert any("3000 trials are drawn" in note for note in hidden_dots(progress, top, -1.0))
    assert not hidden_dots(progress_of(record(50)), top, -1.0)


def test_an_axis_leaves_out_the_few_values_that_are_far_worse():
    values = np.append(np.linspace(-1.0, 0.0, 60), [1e9, 1e7])
    scale, bounds, outside = value_range(values, -1.0)
    assert (scale, outside) == ("linear", 2)
    _, mirrored, _ = value_range(-values, 1.0)
    assert bounds is not None
    assert bounds[0] < -1.0 < bounds[1] < 1e3
    assert mirrored == pytest.approx([-bounds[1], -bounds[0]])
    assert value_range(np.array([1e-6, 1e-3, 1.0]), -1.0)[0] == "log"
    for plain in ([], [2.0], [1.0, 1.0, 1.0], [1.0, 2.0, 3.0]):
        assert value_range(np.array(plain), -1.0) == ("linear", None, 0)


def test_spending_counts_cost_trials_failures_and_what_is_in_flight():
    entries = [*story(), entry_of(5, Query((0.5, 0.5), 1), None)]
    data = data_of(entries, PLANE)
    spending = spending_of(data)
    assert spending.cost == (3.0, 20.0)
    assert spending.trials == (3, 2)
    assert spending.failed == (1, 0)
    assert spending.in_flight == (0, 1)
    cost, trials = traces(spending_figure(data, spending))
    assert list(cost.x) == pytest.approx([100 * 3 / 23, 100 * 20 / 23])
    assert list(trials.x) == pytest.approx([60.0, 40.0])


def test_a_timeline_has_a_lane_for_each_worker_and_for_what_it_runs_side_by_side():
    lanes = timeline_of(data_of(story(), PLANE))
    # Trial 2 ran while trial 1 did.
    assert [(lane.worker, [run.number for run in lane.runs]) for lane in lanes] == [
        ("one:11", [0, 1, 3]),
        ("one:11", [2]),
        ("two:22", [4]),
    ]
    assert lanes[1].runs[0].failed


def test_a_timeline_ends_what_still_runs_now_and_leaves_out_what_took_no_time():
    running = entry_of(0, Query((0.5, 0.5), 0), None)
    waiting = replace(entry_of(1, Query((0.5, 0.5), 0), None, state="waiting"), begun=None)
    added = told(2, (0.1, 0.2), 1, 3.0, seconds=0)
    asked = replace(told(3, (0.1, 0.3), 1, 3.0, owner="asked", seconds=2))
    data = data_of([running, waiting, added, asked], PLANE)
    first, second = timeline_of(data)
    assert (first.runs[0].number, first.runs[0].ended) == (0, data.made)
    assert (second.worker, second.runs[0].number) == ("you (by ask)", 3)


def test_runs_share_a_lane_exactly_if_they_do_not_overlap():
    def run(number, begun, ended):
        return Run(number, 0, False, BEGUN + timedelta(seconds=begun), BEGUN + timedelta(seconds=ended))

    lanes = side_by_side([run(0, 0, 4), run(1, 1, 2), run(2, 2, 3), run(3, 4, 5)])
    assert [[each.number for each in lane] for lane in lanes] == [[0, 3], [1, 2]]


def test_a_timeline_draws_each_run_as_one_line_of_its_level():
    data = data_of(story(), PLANE)
    figure = timeline_figure(data, timeline_of(data))
    assert [trace.name for trace in traces(figure)] == ["1", "full", "failed"]
    assert list(traces(figure)[0].y) == [0, 0, None, 2, 2, None]
    assert traces(figure)[0].x[1] - traces(figure)[0].x[0] == timedelta(seconds=1)
    assert len(traces(figure)[2].x) == 3


def test_failures_that_differ_in_numbers_are_one_group():
    def failure(number, error, level=0):
        return entry_of(number, Query((0.5, 0.5), level), Outcome(None, 2.0, error=error)).trial

    groups = failure_groups(
        [
            failure(0, "MemoryError: 12 MB at 0x7f00"),
            failure(1, "ValueError: odd"),
            failure(2, "MemoryError: 1.5e3 MB at 0x7fff", level=1),
            told(3, (0.1, 0.1), 0, 1.0).trial,
        ]
    )
    assert [(group.reason, group.numbers, group.levels, group.cost) for group in groups] == [
        ("MemoryError: 1.5e3 MB at 0x7fff", (0, 2), (0, 1), 4.0),
        ("ValueError: odd", (1,), (0,), 2.0),
    ]
    many = failure_groups([failure(number, "no") for number in range(100)])
    assert many[0].named == "…, 95, 96, 97, 98, 99"


def test_levels_are_compared_by_ranks_at_the_points_that_both_have():
    entries = []
    for place, x in enumerate((0.1, 0.2, 0.3, 0.4)):
        entries.append(told(2 * place, (x, 0.5), 0, x))
        entries.append(told(2 * place + 1, (x, 0.5), 1, 1.0 - x**3))
    entries.append(told(8, (0.9, 0.5), 0, 7.0))
    shared = shared_points(data_of(entries, PLANE).history)
    assert shared.num.tolist() == [[5, 4], [4, 4]]
    assert shared.rank[0, 1] == pytest.approx(-1.0)
    assert np.isnan(shared_points(data_of(entries[:5], PLANE).history).rank[0, 1])
    text = traces(levels_figure(data_of(entries, PLANE), None, shared))[2].text
    assert "-1.00<br>4 shared" in text


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """As a report is made: matrices are small, and on a busy machine more threads wait for each other."""
    with threadpool_limits(1, user_api="blas"):
        yield


@pytest.fixture(scope="module")
def data():
    """A study whose values depend on x alone; the levels agree."""
    seen = record(40, PLANE, lambda unit, level: (unit[0] - 0.3) ** 2 + 0.01 * level)
    return modelled(seen, recommendation=Recommendation((0.3, 0.6), 0.01, 0.001))


@pytest.fixture(scope="module")
def view(data):
    return view_of(data)


def test_a_model_sees_how_the_levels_relate(view):
    found = level_correlations(view)
    assert found[0, 1] == pytest.approx(found[1, 0])
    assert found[0, 1] > 0.9
    assert found.diagonal() == pytest.approx(np.ones(2))


def test_levels_that_have_nothing_in_common_are_not_called_alike():
    apart = record(80, PLANE, lambda unit, level: float(np.sin(9 * unit[level])))
    found = level_correlations(view_of(modelled(apart)))
    assert abs(found[0, 1]) < 0.5


def test_what_is_unknown_but_the_same_everywhere_does_not_relate_levels(view):
    class Constant:
        """Two levels with unrelated shapes, and one large unknown constant that both share."""

        unit, level, noise = np.zeros((1, 2)), np.zeros(1, np.intp), np.zeros(2)

        def imagined(self, unit, level, white):
            raise NotImplementedError

        def moments(self, unit, level):
            return np.sin(9 * unit[:, level])[:, None], np.full(len(unit), 101.0)

        def covariance(self, unit, level, other, other_level):
            own = np.eye(len(unit)) if level == other_level else np.zeros((len(unit), len(other)))
            return 100.0 + own

    shared = replace(view.posteriors, parts=(Constant(),), weights=np.ones(1))
    assert abs(level_correlations(replace(view, posteriors=shared))[0, 1]) < 0.1


def test_importance_goes_to_the_parameter_that_matters(view):
    found = importances(view)
    assert list(found) == ["x", "y"]
    assert sum(found.values()) == pytest.approx(1.0)
    assert found["x"] > 0.95


def test_nothing_is_important_where_all_values_are_equal():
    flat = view_of(modelled(record(12, PLANE, lambda *_: 1.0)))
    assert sum(importances(flat).values()) in (pytest.approx(0.0), pytest.approx(1.0))


def test_a_slice_follows_the_values_and_goes_through_the_recommendation(view, data):
    found = slice_of(view, centre(data), "x")
    assert found.centre == pytest.approx(0.3)
    assert found.axis.places[found.band.mean.argmin()] == pytest.approx(0.3, abs=0.06)
    truth = (found.axis.places - 0.3) ** 2 + 0.01
    assert np.abs(found.band.mean - truth).max() < 0.05
    assert (found.band.low <= found.band.mean).all()
    assert (found.band.mean <= found.band.high).all()
    bounds = common_range(data, [found])
    figure = slice_figure(data, found, bounds)
    assert list(layout(figure).yaxis.range) == bounds
    assert bounds[0] < found.band.low.min()
    assert len(traces(figure)[1].x) == len(data.at_top)


def test_bands_are_in_the_unit_of_the_objective_also_when_large_is_good():
    problem = replace(PLANE, maximise=True)
    seen = modelled(record(40, problem, lambda unit, _: 100 * (unit[0] - 0.3) ** 2))
    view = view_of(seen)
    found = slice_of(view, (0.3, 0.5), "x")
    # `record` turns the sign of the objective when large values are wanted.
    assert found.band.mean.max() == pytest.approx(0.0, abs=3.0)
    assert found.axis.places[found.band.mean.argmax()] == pytest.approx(0.3, abs=0.06)
    assert (found.band.low <= found.band.high).all()


def test_a_pair_has_one_row_for_each_value_of_its_second_parameter(view, data):
    found = pair_of(view, centre(data), ("x", "y"))
    assert found.mean.shape == (len(found.second.places), len(found.first.places))
    row = slice_of(view, (0.5, found.second.places[3]), "x")
    expected = np.interp(found.first.places, row.axis.places, row.band.mean)
    assert found.mean[3] == pytest.approx(expected, abs=0.01)
    assert traces(pair_figure(data, found))[0].type == "contour"


def test_a_pair_with_choices_is_drawn_in_squares():
    seen = modelled(record(30))
    view = view_of(seen)
    found = pair_of(view, centre(seen), ("kind", "rate"))
    figure = pair_figure(seen, found)
    assert traces(figure)[0].type == "heatmap"
    assert list(layout(figure).xaxis.ticktext) == ["a", "None", "True", "1", "b"]
    assert layout(figure).yaxis.type == "log"


def test_slices_go_through_the_best_of_the_highest_level_without_a_recommendation():
    assert centre_of(data_of(story(), PLANE)) == (0.4, 0.4)
    assert centre_of(data_of(story()[:1], PLANE)) == (0.1, 0.1)
    assert centre_of(data_of([], PLANE)) is None


def test_the_axis_of_a_parameter_has_its_values():
    whole = axis_of(MIXED, "n", 41)
    assert whole.places.tolist() == list(range(1, 10))
    rate = axis_of(MIXED, "rate", 41)
    assert (rate.is_log, len(rate.places)) == (True, 41)
    assert (rate.places[0], rate.places[-1]) == (1e-5, 1e-1)
    kind = axis_of(MIXED, "kind", 3)
    assert kind.labels == ("a", "None", "True", "1", "b")
    assert [kind.place(value) for value in ("a", None, True, 1, "b")] == [0, 1, 2, 3, 4]
    moved = whole.through(MIXED.encode({"x": 0.5, "rate": 1e-3, "n": 2, "kind": 1}))
    configs = [MIXED.decode(tuple(row)) for row in moved.tolist()]
    assert [config["n"] for config in configs] == list(range(1, 10))
    assert {config["kind"] for config in configs} == {1}


def offer(level, gain, cost):
    return Offer(level, (0.5, 0.5), gain, cost)


def test_the_last_batch_compares_gains_per_cost_and_frames_what_was_taken():
    choices = (
        Choice(Query((0.5, 0.5), 0), (offer(1, 2.0, 10.0), offer(0, 4.4, 11.0))),
        Choice(Query((0.5, 0.5), 1), (offer(1, 3.0, 10.0),)),
        Choice(Query((0.5, 0.5), 1)),
    )
    batch = LastBatch((7, 8, 9), choices, is_same=True)
    first, second, third = relative_rates(batch)
    assert first == {1: pytest.approx(0.5), 0: 1.0}
    assert (second, third) == ({1: 1.0}, {})
    low, high = traces(last_batch_figure(data_of(story(), PLANE), batch))
    assert list(low.y) == [100.0, 0.0, 0.0]
    assert list(low.marker.line.width) == [2.5, 0, 0]
    assert list(high.marker.line.width) == [0, 2.5, 2.5]


def test_a_prediction_uses_the_trials_before_alone(data):
    top = data.problem.ladder.top
    trial = [each for each in data.history.done if each.query.level == top][-1]
    found, _ = predict(data.surrogate, data.history, trial, None)
    later = replace(data.history, trials=data.history.trials[: trial.number + 1])
    assert predict(data.surrogate, later, trial, None)[0] == found
    assert found.mean == pytest.approx(found.value, abs=0.1)


def test_a_residual_counts_deviations_and_is_positive_if_better(data):
    top = data.problem.ladder.top
    trial = [each for each in data.history.done if each.query.level == top][-1]
    found, _ = predict(data.surrogate, data.history, trial, None)

    def residual(value):
        return predict(data.surrogate, data.history, replace(trial, outcome=Outcome.of(value, 1.0)), None)[0].residual

    assert residual(found.mean) == pytest.approx(0.0, abs=0.01)
    # Small values are wanted here.
    assert residual(found.mean - 0.5) > 1.0 > -1.0 > residual(found.mean + 0.5)
    assert residual(1e12) == -8.0


def test_calibration_takes_the_last_half_and_stops_when_its_time_is_over(data):
    full = calibrate(data)
    assert full.possible == len(data.at_top) - max(len(data.at_top) // 2, 2)
    assert [each.number for each in full.predictions] == [
        entry.trial.number for entry in sorted(data.at_top, key=lambda e: e.trial.number)[-full.possible :]
    ]
    times = iter([0.0, 0.0, 1.0, 99.0])
    short = calibrate(data, seconds=10.0, clock=lambda: next(times))
    # The newest ones come first.
    assert short.predictions == full.predictions[-2:]
    assert calibrate(data_of(story(), PLANE)).predictions == ()


def test_coverage_is_the_share_inside_the_interval():
    residuals = (0.1, -0.9, 1.2, -3.0)
    calibration = Calibration(tuple(Prediction(n, 0.0, 0.0, r) for n, r in enumerate(residuals)), 9)
    assert (calibration.covered(0.683), calibration.covered(0.954)) == (0.5, 0.75)
    figure = calibration_figure(calibration)
    assert list(traces(figure)[0].y) == list(residuals)
    assert layout(figure).yaxis.range[1] >= 3.0


def test_text_of_users_is_shown_as_it_is():
    assert safe("<b>a</b> & <script>") == "&lt;b&gt;a&lt;/b&gt; &amp; &lt;script&gt;"
    assert safe("a\nb " + 50 * "x").startswith("a b xxx")
    assert len(safe("x" * 99)) == 40


def test_every_level_has_its_own_colour_and_the_top_always_the_same():
    for num in range(1, 7):
        colours = level_colours(num)
        assert len(set(colours)) == num
        assert colours[-1] == level_colours(1)[0]


def test_an_even_spread_has_the_first_and_the_last():
    assert spread_out(5, 9).tolist() == [0, 1, 2, 3, 4]
    assert spread_out(100, 3).tolist() == [0, 50, 99]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (15004.0, "15004"),
        (123456789.0, "123456789"),
        (1e9, "1e+09"),
        (0.123456, "0.1235"),
        (9999.4, "9999"),
        (-2e4, "-20000"),
    ],
)
def test_large_numbers_are_written_out(number, text):
    assert short_number(number) == text


@pytest.mark.parametrize(
    ("mean", "std", "text"),
    [
        (-0.2594, 0.911, "-0.26 ± 0.91"),
        (0.0170459, 0.0015, "0.0170 ± 0.0015"),
        (1234.5, 120.0, "1234 ± 120"),
        (0.5, 0.0, "0.5 ± 0"),
        (1e8, 2e7, "100000000 ± 2e+07"),
    ],
)
def test_a_prediction_has_no_more_digits_than_its_deviation_leaves(mean, std, text):
    assert with_deviation(mean, std) == text


@pytest.mark.parametrize(("low", "high", "step"), [(1e-5, 1e-1, 1), (1e-9, 1.0, 2), (0.1, 0.5, None)])
def test_a_logarithmic_axis_has_ticks_at_powers_of_ten_alone_if_it_has_some(low, high, step):
    axis = axis_of(bmbo.Space({"rate": bmbo.Float(low, high, log=True)}), "rate", 41)
    assert axis_layout(axis).get("dtick") == step
