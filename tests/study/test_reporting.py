"""What a report takes from a study: its record, its limits, its method; and that a report changes nothing."""

import re
from dataclasses import dataclass
from datetime import timedelta

import pytest

import bmbo
from bmbo.history import Outcome, Query
from bmbo.policies.random_search import Random
from bmbo.protocols import Recommendation
from bmbo.study import reporting
from bmbo.study.limits import Limits
from bmbo.study.next_queries import CONFIRMS
from support.report_records import BEGUN, data_of, entry_of, problem_of
from support.small_policies import SEED, SMALL
from support.small_studies import InTurn, bowl, quiet, study_of

OTHER_SEED = 99


def data_from(study, model=True):
    return reporting.report_data(study._ledger, study.policy, study._ledger.seed, study._carry, model=model)


@pytest.fixture(scope="module")
def screened():
    """A run of our own method whose last batch the model chose."""
    study = study_of(bmbo.screening(), study_name="screened", storage=None)
    return quiet(study, bowl, n_trials=30, total_cost=150, batch_size=3)


def test_a_report_is_written_where_it_is_wanted(screened, tmp_path, monkeypatch):
    path = screened.report(tmp_path / "study.html")
    text = path.read_text()
    assert path == tmp_path / "study.html"
    assert "<h1>screened</h1>" in text
    assert 'id="last-batch-0"' in text
    monkeypatch.chdir(tmp_path)
    assert str(screened.report(model=False)) == "screened.html"
    assert "The page was made without a model." in (tmp_path / "screened.html").read_text()


def test_a_report_changes_nothing(screened, tmp_path):
    trials, carry = screened.trials, screened._carry
    screened.report(tmp_path / "study.html")
    assert screened.trials == trials
    assert screened._carry is carry


def test_it_has_the_limits_the_recommendation_and_the_model_of_the_method(screened):
    data = data_from(screened)
    assert (data.total_cost, data.n_trials) == (150, 30)
    assert data.is_own_model
    assert data.recommendation is not None
    assert screened.problem.space.decode(data.recommendation.unit) == screened.recommendation().params
    assert data.info is None


def test_the_method_chooses_the_last_batch_again(screened):
    batch = data_from(screened).last_batch
    assert batch is not None
    assert batch.is_same
    trials = screened.trials
    for number, choice in zip(batch.numbers, batch.choices, strict=True):
        assert choice.query.level == trials[number].level
        assert screened.problem.space.decode(choice.query.unit) == trials[number].params
        # The model chose: what was taken is among the offers.
        assert (choice.query.level, choice.query.unit) in [(offer.level, offer.unit) for offer in choice.offers]


def test_another_seed_chooses_another_batch(screened):
    entries = screened._ledger.read().entries
    found = reporting.last_batch(screened.policy, OTHER_SEED, screened.history, entries, Limits(150.0, 30))
    assert found is not None
    assert not found.is_same


def test_a_method_without_a_model_gets_that_of_the_page():
    study = quiet(study_of(InTurn()), bowl, n_trials=8)
    data = data_from(study)
    assert (data.recommendation, data.last_batch, data.is_own_model) == (None, None, False)
    assert data.surrogate is not None
    assert data_from(study, model=False).surrogate is None


def test_an_empty_study_is_reported(tmp_path):
    text = study_of(bmbo.screening()).report(tmp_path / "study.html").read_text()
    assert "No trial has given a value at the top fidelity yet." in text


def test_a_recommendation_that_fails_is_left_out(tmp_path, caplog):
    @dataclass(frozen=True)
    class Fails(Random):
        def recommendation(self, *_):
            raise ValueError("not finite")

    study = quiet(study_of(InTurn()), bowl, n_trials=8)
    study.policy = Fails()
    assert data_from(study).recommendation is None
    assert "the report does without a recommendation: not finite" in caplog.text
    assert "recommendation is" not in study.report(tmp_path / "study.html").read_text().split("<script")[0]


def test_the_cache_of_a_method_says_how_its_last_fit_went():
    @dataclass(frozen=True)
    class Cache:
        info: str

    @dataclass(frozen=True)
    class Samples(Random):
        def recommendation(self, _, history, *__):
            return Recommendation(history.done[0].query.unit, 0.1, 0.1), Cache("good")

    study = quiet(study_of(InTurn()), bowl, n_trials=4)
    study.policy = Samples()
    assert data_from(study).info == "good"


def test_a_file_of_another_kind_is_refused_before_anything_is_computed(screened, tmp_path, monkeypatch):
    path = tmp_path / "study.html"
    path.write_text("my own page")
    monkeypatch.setattr(reporting, "report_data", None)
    with pytest.raises(ValueError, match="is no report of bmbo"):
        screened.report(path)


# What was known when the last batch was chosen.

PROBLEM = problem_of(bmbo.Space({"x": bmbo.Float(0, 1)}), (bmbo.Fidelity(1, cost=1),))


def told(number, seconds, batch, tag=(), **more):
    query = Query((number / 10,), 0, dict(tag))
    begun = BEGUN + timedelta(seconds=2 * number)
    return entry_of(number, query, Outcome.of(1.0, 1.0), begun=begun, seconds=seconds, batch=batch, **more)


def test_what_ended_after_the_batch_began_was_in_flight():
    entries = [told(0, 1, 0), told(1, 60, 1), told(2, 1, 2), told(3, 1, 3), told(4, 1, 3)]
    history = data_of(entries, PROBLEM).history
    before = reporting.history_before(history, entries, entries[3:])
    assert [trial.number for trial in before.trials] == [0, 1, 2]
    assert [trial.number for trial in before.pending] == [1]


@dataclass(frozen=True)
class Asked:
    """Note what it is asked."""

    calls: list
    surrogate: object = bmbo.screening().surrogate

    def suggest(self, seed, history, num, carry=None):
        del seed, history, num
        return [], carry

    def explain(self, seed, history, num, carry=None):
        del seed
        self.calls.append((len(history.trials), num))
        return [], carry


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        # The batch is whole, and what comes after it was not chosen by the method.
        ([told(2, 1, 1), told(3, 1, 1)], (2, 2)),
        ([told(2, 1, 1), told(3, 1, 2, {CONFIRMS: True})], (2, 1)),
        ([told(2, 1, 1), told(3, 1, None, {"added": True})], (2, 1)),
        ([told(2, 1, 1), told(3, 1, None)], (2, 1)),
    ],
)
def test_the_last_batch_is_the_last_one_that_the_method_chose(last, expected):
    entries, policy = [told(0, 1, 0), told(1, 1, 0), *last], Asked([])
    found = reporting.last_batch(policy, SEED, data_of(entries, PROBLEM).history, entries, Limits())
    assert policy.calls == [expected]
    assert found is not None
    assert not found.is_same


def test_there_is_no_last_batch_where_users_chose_everything():
    entries = [told(0, 1, None), told(1, 1, None)]
    assert reporting.last_batch(Asked([]), SEED, data_of(entries, PROBLEM).history, entries, Limits()) is None


@pytest.mark.slow
def test_a_study_of_networks_tells_of_its_sampler(tmp_path):
    study = quiet(study_of(SMALL), bowl, n_trials=8, batch_size=2)
    text = study.report(tmp_path / "study.html").read_text().split("<script")[0]
    assert "Health of the sampler" in text
    assert re.search(r"chains</td><td>2<", text)
