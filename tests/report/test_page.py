"""The page of a report: what it says, for studies of every size, and that nobody's text becomes code."""

import html
import json
import re
import time
from dataclasses import replace

import jax.numpy as jnp
import pytest
from threadpoolctl import threadpool_limits

import bmbo
from bmbo.history import Outcome, Query
from bmbo.inference import Info
from bmbo.protocols import Choice, Recommendation
from bmbo.report.headline import headline_of
from bmbo.report.model_view import ModelView
from bmbo.report.page import page, script_json
from bmbo.report.report_data import LastBatch
from bmbo.report.sampler_health import sampler_rows
from bmbo.report.sections import sections_of
from support.report_records import BEGUN, OWNERS, data_of, entry_of, evil_study, modelled, problem_of, record

ONE_LEVEL = problem_of(levels=(bmbo.Fidelity("full", cost=2),))


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """As a report is made."""
    with threadpool_limits(1, user_api="blas"):
        yield


def keys(data):
    return [section.key for section in sections_of(data, ModelView.of(data))]


def figures_in(text):
    """The figures that a page draws, by the places where it draws them."""
    stored = re.search(r'<script type="application/json" id="figures">(.*?)</script>', text, re.DOTALL)
    assert stored is not None
    return json.loads(stored[1])


def without_scripts(text):
    return re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)


def test_an_empty_study_has_a_page():
    data = modelled(data_of([]))
    assert keys(data) == []
    text = page(data)
    assert "No trial has given a value at the top fidelity yet." in text
    assert figures_in(text) == {}


def test_one_trial_has_progress_and_says_what_a_model_needs():
    data = modelled(data_of([entry_of(0, Query((0.5,) * 8, 2), Outcome.of(3.0, 9.0))]))
    assert keys(data) == ["progress", "spending", "timeline", "no-model"]
    text = without_scripts(page(data))
    assert "The best observed value at the top fidelity is 3, of trial 0." in text
    assert "A model needs at least 3 trials with a value." in text


def test_only_failures_have_their_reasons():
    data = modelled(record(12, fails=lambda _: True))
    assert keys(data) == ["spending", "timeline", "failures", "no-model"]
    text = without_scripts(page(data))
    assert "RuntimeError: 11 MB are not enough" in text
    assert "12 of the trials failed; their cost counts." in text


def test_one_level_has_nothing_to_compare():
    found = keys(modelled(record(30, ONE_LEVEL)))
    assert "levels" not in found
    assert found == ["progress", "importance", "slices", "pairs", "calibration", "timeline"]


def test_a_mixed_space_and_several_levels_have_all_figures_of_a_model():
    data = modelled(record(150))
    found = keys(data)
    assert found == ["progress", "spending", "levels", "importance", "slices", "pairs", "calibration", "timeline"]
    text = page(data)
    drawn = figures_in(text)
    assert set(drawn) == set(re.findall(r'<div class="figure" id="([\w-]+)"', text))
    # Four parameters: four slices, and the pairs of three of them.
    assert sum(name.startswith("slices-") for name in drawn) == 4
    assert sum(name.startswith("pairs-") for name in drawn) == 3


def test_a_single_parameter_has_no_pairs():
    alone = problem_of(bmbo.Space({"x": bmbo.Float(0, 1)}))
    assert "pairs" not in keys(modelled(record(20, alone)))


def test_a_page_can_do_without_a_model():
    data = record(20)
    assert keys(data) == ["progress", "spending", "timeline", "no-model"]
    assert "The page was made without a model." in page(data)


def test_a_fit_that_fails_leaves_its_figures_out(caplog):
    class Broken:
        def fit(self, *_):
            raise FloatingPointError("no digits left")

    data = replace(record(20), surrogate=Broken())
    assert "no-model" in keys(data)
    assert "no digits left" in caplog.text


def test_levels_are_compared_without_a_model_where_points_are_shared():
    twice = [entry_of(n, Query((0.1 * (n // 2),) * 8, n % 2), Outcome.of(1.0 * n, 1.0)) for n in range(8)]
    assert "levels" in keys(data_of(twice))
    # Fewer say nothing.
    assert "levels" not in keys(data_of(twice[:6]))


def test_it_says_whose_model_it_is():
    own = modelled(record(30))
    assert "The model is the method&#39;s own." in page(own)
    assert "The method has no exact model" in page(replace(own, is_own_model=False))


@pytest.mark.parametrize("is_same", [True, False])
def test_a_batch_of_the_start_has_words_and_no_figure(is_same):
    batch = LastBatch((3, 4), (Choice(Query((0.5,) * 8, 0)),), is_same)
    data = replace(record(6), last_batch=batch)
    (found,) = [section for section in sections_of(data, None) if section.key == "last-batch"]
    assert found.figures == ()
    assert "start of the search" in found.look_for
    assert ("in the same way" in found.notes[0]) == is_same
    assert "trials 3 to 4" in found.notes[0]


def test_the_health_of_chains_is_told_where_there_are_any():
    info = Info(jnp.array([0.5, 0.001]), jnp.array([0.0, 3.0]), jnp.array([0.1, 0.3]), jnp.array(1.2), jnp.array(40.0))
    (found,) = [each for each in sections_of(replace(record(6), info=info), None) if each.key == "sampler"]
    assert {row[0]: row[1] for row in found.rows} == {
        "chains": "2",
        "accepted proposals, worst and best chain": "0% and 50%",
        "transitions that diverged": "3",
        "mean step size": "0.2",
        "largest R-hat (1 is best)": "1.2",
        "smallest effective number of draws": "40",
    }
    assert found.notes[0].startswith("1 of 2 chains accepted fewer than 1 in 100 proposals")
    for silent in (Info.unknown(3), "a report of another kind"):
        assert sampler_rows(silent) == ()
        assert "sampler" not in keys(replace(record(6), info=silent))


def headline(data):
    return headline_of(data, ModelView.of(data))


def test_the_header_says_what_was_spent_and_of_what():
    entries = [entry_of(0, Query((0.5,) * 8, 2), Outcome.of(3.0, 9.0)), entry_of(1, Query((0.1,) * 8, 0), None)]
    facts = dict(headline(data_of(entries, total_cost=36.0, n_trials=10)).facts)
    assert facts["Cost"] == "9 of 36 spent (25%)"
    assert facts["Trials"] == "2 of 10: 1 with a value, 0 failed, 1 in flight"
    assert facts["Fidelities"] == "1 (cost 1), 3 (cost 3), full (cost 9)"
    assert facts["Goal"] == "small values at full, the top fidelity"
    assert dict(headline(data_of(entries)).facts)["Cost"] == "9 spent"
    entries[0] = replace(entries[0], trial=replace(entries[0].trial, refunded=True))
    assert dict(headline(data_of(entries, n_trials=1)).facts)["Trials"] == (
        "2 of 1: 1 with a value, 0 failed, 1 in flight, 1 given back, which limits do not count"
    )


def test_the_header_says_why_something_else_than_the_best_is_recommended():
    best, other, new = (0.5,) * 8, (0.1,) * 8, (0.7,) * 8
    space = problem_of().space
    best, other, new = (space.encode(space.decode(unit)) for unit in (best, other, new))
    entries = [
        entry_of(0, Query(best, 2), Outcome.of(1.0, 9.0)),
        entry_of(1, Query(other, 2), Outcome.of(1.5, 9.0)),
        entry_of(2, Query(new, 0), Outcome.of(0.5, 1.0)),
    ]

    def said(unit, mean, known=entries, **more):
        found = headline(data_of(known, recommendation=Recommendation(unit, mean, 0.25), **more)).recommended
        assert found is not None
        return found

    assert said(best, 1.1) == "The recommendation is the best observed configuration; 1.10 ± 0.25 is expected of it."
    assert said(other, 1.2) == (
        "The recommendation is trial 1, which gave 1.5; 1.20 ± 0.25 is expected of it. Here trial 0 gave 1, but the "
        "model takes a part of that for luck."
    )
    assert "not been run at the top. 0.80 ± 0.25 is expected of it: better than the best observed 1." in said(new, 0.8)
    assert "1.30 ± 0.25 is expected of it: here trial 0 gave 1, but the model" in said(new, 1.3)
    assert "rests on cheaper trials alone" in said(new, 1.3, known=entries[2:])
    own = modelled(data_of(entries, recommendation=Recommendation(other, 1.2, 0.25)))
    assert re.search(r"for luck and expects [\d.]+ of it", headline(own).recommended or "")


def test_the_header_has_a_row_for_each_parameter():
    entry = entry_of(0, Query((0.5,) * 8, 2), Outcome.of(3.0, 9.0))
    rows = headline(data_of([entry], recommendation=Recommendation((0.0,) * 8, 1.0, 0.1))).configurations
    assert rows[0] == ("x", "0.5", "0")
    assert rows[1] == ("rate", "0.001", "1e-05")
    assert [row[0] for row in rows] == ["x", "rate", "n", "kind"]


def test_nothing_that_users_write_becomes_a_part_of_the_page():
    text = page(evil_study())
    outside = without_scripts(text)
    assert "<img" not in outside
    assert "alert" in outside  # It is shown.
    # The rules of the page allow two scripts by their hashes: plotly's and our own.
    assert len(re.findall(r"<script>", text)) == 2
    assert len(re.findall(r"'sha256-[\w+/=]+'", html.unescape(outside))) == 2
    assert "</script><script>alert" not in text
    for figure in figures_in(text).values():
        shown = json.dumps({"layout": figure["layout"], "data": figure["data"]})
        assert "<img" not in shown
        assert "<script" not in shown


def test_json_in_a_script_cannot_end_it_and_is_read_as_it_was():
    value = {"</script>": "<!-- & >", "line": "a\u2028b"}
    text = str(script_json(value))
    assert not re.search("[<>&\u2028]", text)
    assert json.loads(text) == value


def test_a_page_fetches_nothing():
    text = without_scripts(page(modelled(record(20))))
    assert not re.search(r"""(src|href)\s*=|url\(|@import""", text)
    assert "default-src 'none'" in text


def test_workers_of_the_timeline_are_people_s_names_for_them():
    data = record(8)
    assert OWNERS[0] not in page(data)
    assert "one:11" in page(data)
    assert BEGUN.isoformat() in page(data)


@pytest.mark.slow
def test_five_thousand_trials_make_a_page_of_less_than_ten_megabytes_within_twenty_seconds():
    data = modelled(record(5000, fails=lambda number: number % 17 == 3))
    begun = time.process_time()
    text = page(data)
    assert time.process_time() - begun < 20.0
    assert len(text.encode()) < 10e6
    assert "trials are drawn" in text
