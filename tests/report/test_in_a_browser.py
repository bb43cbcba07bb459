"""Reports in a real browser: everything is drawn, nothing complains, nothing is fetched, nobody's text runs."""

from dataclasses import replace

import pytest
from threadpoolctl import threadpool_limits

import bmbo
from bmbo.protocols import Choice, Offer, Recommendation
from bmbo.report import LastBatch, write_report
from support.browser import SIZES, browser_of_tests, visit
from support.report_records import EVIL, evil_study, modelled, problem_of, record

# Every test starts a browser.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser():
    with browser_of_tests() as opened:
        yield opened


def explained(data):
    """With a recommendation and a last batch, as studies of our own method have them."""
    best = max(data.done, key=lambda entry: (entry.trial.query.level, -(entry.trial.value or 0.0)), default=None)
    if best is None:
        return modelled(data)
    unit, top = best.trial.query.unit, data.problem.ladder.top
    offers = (Offer(top, unit, 1.0, 9.0), *(Offer(level, unit, 0.5, 10.0) for level in range(top)))
    batch = LastBatch((0, 1), (Choice(best.trial.query, offers), Choice(best.trial.query, offers)), is_same=True)
    return modelled(data, recommendation=Recommendation(unit, 0.5, 0.1), last_batch=batch)


STUDIES = {
    "five trials": lambda: explained(record(5)),
    "five thousand trials": lambda: explained(record(5000, fails=lambda number: number % 7 == 3)),
    "failures": lambda: explained(record(60, fails=lambda number: number % 3 == 0)),
    "only failures": lambda: explained(record(10, fails=lambda _: True)),
    "one level": lambda: explained(record(40, problem_of(levels=(bmbo.Fidelity("full", cost=2),)))),
    "one level, five trials": lambda: explained(record(5, problem_of(levels=(bmbo.Fidelity("full", cost=2),)))),
    "large is good": lambda: explained(record(40, problem_of(maximise=True))),
    "a value that exploded": lambda: explained(record(40, objective=lambda unit, _: 10.0 ** (12 * unit[0]))),
}


@pytest.fixture(scope="module", params=STUDIES)
def report(request, tmp_path_factory):
    with threadpool_limits(1, user_api="blas"):
        return write_report(STUDIES[request.param](), tmp_path_factory.mktemp("report") / "study.html")


@pytest.mark.parametrize("size", SIZES)
def test_every_figure_is_drawn_and_nothing_complains(browser, report, size):
    with visit(browser, report.as_uri(), size) as seen:
        places = seen.page.locator(".figure").count()
        assert places > 0
        assert seen.page.locator("body").get_attribute("data-drawn") == str(places)
        # Plotly draws a figure in layers, of which the first is never missing.
        assert seen.page.locator(".figure > .js-plotly-plot, .figure.js-plotly-plot").count() == places
        # Marks of data, without axes and grids.
        marks = "figure => figure.querySelectorAll('.points path, .point path, .lines path, .hm image').length"
        assert all(figure.evaluate(marks) for figure in seen.page.locator(".figure").all())
        assert seen.said == []
        assert seen.fetched == [report.as_uri()]
        # No label of a bar stands on its end.
        turned = "figure => figure.querySelectorAll('.bartext[transform*=\"rotate(-90\"]').length"
        assert not any(figure.evaluate(turned) for figure in seen.page.locator(".figure").all())
        # A page that is wider than its window scrolls sideways.
        width = seen.page.evaluate("document.documentElement.scrollWidth")
        assert width <= SIZES[size][0]
        wide = seen.page.evaluate(
            "[...document.querySelectorAll('.figure')].filter(f => f.getBoundingClientRect().right > innerWidth).length"
        )
        assert wide == 0


def test_a_page_can_be_printed(browser, report, tmp_path):
    with visit(browser, report.as_uri()) as seen:
        seen.page.pdf(path=tmp_path / "study.pdf", format="A4")
        assert (tmp_path / "study.pdf").stat().st_size > 10_000
        assert seen.said == []


def test_a_finger_scrolls_the_page_and_zooms_no_figure(browser, tmp_path):
    path = write_report(record(20), tmp_path / "study.html")
    with visit(browser, path.as_uri(), "phone") as seen:
        assert seen.page.locator("#progress-0").evaluate("figure => figure.layout.dragmode") is False


def test_no_text_of_users_runs_and_all_of_it_is_seen(browser, tmp_path):
    with threadpool_limits(1, user_api="blas"):
        path = write_report(replace(evil_study(), storage="memory"), tmp_path / "study.html")
    with visit(browser, path.as_uri()) as seen:
        assert seen.said == []
        assert seen.fetched == [path.as_uri()]
        assert seen.page.title().startswith(EVIL)
        assert seen.page.locator("h1").text_content() == EVIL
        assert seen.page.locator("img").count() == 0
        assert EVIL in seen.page.locator("#failures").text_content()
        # Plotly would take tags in the title of an axis for its own.
        axis = seen.page.locator("#slices .xtitle").all_text_contents()
        assert any("</script><script>" in text for text in axis)


def test_the_rules_of_the_page_stop_a_script_that_came_in(browser, tmp_path):
    path = write_report(record(5), tmp_path / "study.html")
    path.write_text(path.read_text().replace("<footer>", "<script>document.title = 'taken'</script><footer>"))
    with visit(browser, path.as_uri()) as seen:
        assert seen.page.title() != "taken"
        assert any("Content Security Policy" in message for message in seen.said)
