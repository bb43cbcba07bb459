"""The ledger: one record in any storage, whoever writes it."""

import logging
import math
from dataclasses import replace

import optuna
import pytest
from optuna.storages import InMemoryStorage, JournalStorage, RDBStorage
from optuna.storages.journal._base import BaseJournalBackend, BaseJournalSnapshot
from optuna.trial import TrialState

from bmbo.history import Outcome, Query
from bmbo.ledger import Ledger, Owner, folder_of, open_storage, redacted
from bmbo.ledger.outages import StorageAwayError, with_retries
from bmbo.ledger.study_definition import StudyDefinition
from bmbo.problem import Fidelity, Int, Ladder, Space
from support import servers, study_ledgers
from support.study_ledgers import DEFINITION, PROBLEM, SPACE, ledger_in, planned, query_at

# Fixtures that other files of tests share.
storage = study_ledgers.storage
postgresql, postgresql_url = servers.postgresql, servers.postgresql_url


def test_trials_of_every_kind_of_parameter_come_back_as_they_were(storage):
    ledger = ledger_in(storage)
    queries = [query_at(place / 16, place % 3, note=[place, "a"]) for place in range(17)]
    planned(ledger, *queries)
    again = ledger_in(storage)
    assert [entry.trial.query for entry in again.read().entries] == queries
    assert [SPACE.decode(t.query.unit) for t in again.read().history.trials] == [SPACE.decode(q.unit) for q in queries]
    assert {entry.state for entry in again.read().entries} == {"waiting"}
    assert {entry.batch for entry in again.read().entries} == {0}


def test_outcomes_come_back_as_they_were(storage):
    ledger = ledger_in(storage)
    outcomes = [Outcome(0.1 + 0.2, 1.0, 0.25), Outcome(-1e300, 10.0, 3.5), Outcome(None, 7.5, 0.5, error="it broke")]
    for entry, outcome in zip(planned(ledger), outcomes, strict=True):
        assert ledger.claim(entry, "me")
        assert ledger.finish(entry, outcome, "me") == entry.trial.number
    for reader in (ledger, ledger_in(storage)):
        assert [trial.outcome for trial in reader.read().history.trials] == outcomes
        assert [entry.state for entry in reader.read().entries] == ["complete", "complete", "failed"]


def test_optuna_sees_the_best_at_the_top_and_results_below_as_pruned(storage):
    ledger = ledger_in(storage)
    values = {0: -5.0, 1: -4.0, 2: 1.0, 3: 0.5}
    for entry in planned(ledger, query_at(0.1, 0), query_at(0.2, 1), query_at(0.3, 2), query_at(0.4, 2)):
        ledger.claim(entry, "me")
        ledger.finish(entry, Outcome(values[entry.trial.number], 1.0))
    study = optuna.load_study(study_name="study", storage=open_storage(storage))
    assert study.best_trial.number == 3
    assert study.best_params == SPACE.decode(query_at(0.4).unit)
    assert [trial.state for trial in study.trials] == [TrialState.PRUNED] * 2 + [TrialState.COMPLETE] * 2
    assert study.trials[1].intermediate_values == {1: -4.0}
    assert study.trials[1].user_attrs["bmbo:fidelity"] == 10


def test_a_study_of_the_same_name_is_refused_unless_it_may_be_continued(storage):
    ledger_in(storage)
    with pytest.raises(ValueError, match=r"study 'study' exists already in .*load_if_exists=True"):
        Ledger.create(storage, "study", DEFINITION, load_if_exists=False)


def changed(**params):
    return replace(PROBLEM, space=Space({**dict(SPACE.params), **params}))


@pytest.mark.parametrize(
    ("problem", "sentence"),
    [
        (replace(PROBLEM, maximise=True), "its direction is 'minimize', not 'maximize'"),
        (changed(n=Int(1, 8)), r"its parameter 'n' is Int\(low=1, high=9.*not Int\(low=1, high=8"),
        (changed(new=Int(1, 8)), "its space has no parameter 'new'"),
        (
            replace(PROBLEM, space=Space(dict(SPACE.params[1:]))),
            "its space has a parameter 'lr', which is missing here",
        ),
        (replace(PROBLEM, space=Space(dict(SPACE.params[::-1]))), "its parameters are in the order"),
        (replace(PROBLEM, ladder=Ladder(PROBLEM.ladder.fidelities[1:])), "its fidelities are 1 .*, not 10 "),
        (
            replace(PROBLEM, ladder=Ladder([*PROBLEM.ladder.fidelities[:2], Fidelity("full", cost=51)])),
            r"full \(value 'full', cost 50.0\), not .*cost 51.0",
        ),
    ],
)
def test_another_problem_under_the_same_name_is_refused_with_what_differs(problem, sentence):
    storage = InMemoryStorage()
    planned(ledger_in(storage))
    with pytest.raises(ValueError, match=sentence):
        ledger_in(storage, StudyDefinition(problem, 7))
    assert len(ledger_in(storage).read().entries) == 3


def test_a_study_keeps_its_seed_and_says_so(caplog):
    storage = InMemoryStorage()
    ledger_in(storage)
    with caplog.at_level(logging.WARNING, logger="bmbo"):
        assert ledger_in(storage, StudyDefinition(PROBLEM, 8)).seed == 7
    assert "keeps its seed 7" in caplog.text


def test_loading_needs_a_study_that_is_there_and_ours(storage):
    opened = open_storage(storage)
    with pytest.raises(ValueError, match="there is no study 'other' in "):
        Ledger.load(storage, "other")
    foreign = optuna.create_study(study_name="foreign", storage=opened)
    foreign.add_trial(optuna.create_trial(value=1.0))
    with pytest.raises(ValueError, match=r"'foreign' in .* was not made by bmbo"):
        Ledger.load(opened, "foreign")
    with pytest.raises(ValueError, match=r"'foreign' in .* was not made by bmbo; choose another study_name"):
        ledger_in(opened, name="foreign")


def test_a_study_whose_maker_died_before_it_was_defined_is_defined_by_the_next(monkeypatch):
    monkeypatch.setattr("bmbo.ledger.found_study.BIRTH_SECONDS", 0.1)
    storage = InMemoryStorage()
    optuna.create_study(study_name="study", storage=storage)
    assert ledger_in(storage).problem == PROBLEM
    assert Ledger.load(storage, "study").problem == PROBLEM


@pytest.mark.parametrize("join", [ledger_in, lambda storage: Ledger.load(storage, "study")])
@pytest.mark.parametrize("question", ["get_study_user_attrs", "get_n_trials"])
def test_a_study_that_is_being_made_is_waited_for_and_not_called_foreign(monkeypatch, join, question):
    storage = InMemoryStorage()
    study = optuna.create_study(study_name="study", storage=storage)
    ask = getattr(storage, question)

    def made_after_the_answer(*args, **kwargs):
        answer = ask(*args, **kwargs)
        monkeypatch.setattr(storage, question, ask)
        # Whoever made the study goes on between two questions of whoever joins it.
        study.set_user_attr("bmbo:definition", DEFINITION.to_json())
        Ledger.load(storage, "study").add(query_at(0.5))
        return answer

    monkeypatch.setattr(storage, question, made_after_the_answer)
    assert len(join(storage).read().entries) == 1


def test_a_later_format_is_refused_in_words():
    storage = InMemoryStorage()
    study = optuna.create_study(study_name="study", storage=storage)
    study.set_user_attr("bmbo:definition", {**DEFINITION.to_json(), "format": 99, "version": "9.0"})
    with pytest.raises(ValueError, match=r"written in format 99 by bmbo 9.0, and this is bmbo .*reads format 1"):
        Ledger.load(storage, "study")


@pytest.mark.parametrize("query", [Query((0.5,), 0), query_at(0.5, 3), query_at(0.5, -1)])
def test_a_query_outside_the_problem_is_not_written(query):
    ledger = ledger_in(None)
    with pytest.raises(ValueError, match=r"coordinates|level"):
        ledger.add(query)
    assert ledger.read().entries == ()


def test_a_trial_that_optuna_has_enqueued_can_be_run(storage):
    ledger = ledger_in(storage)
    optuna.load_study(study_name="study", storage=open_storage(storage)).enqueue_trial(SPACE.decode(query_at(0.3).unit))
    (entry,) = ledger.read().waiting
    assert entry.trial.query == query_at(0.3, 2)
    assert ledger.claim(entry, "me")
    ledger.finish(entry, Outcome(1.0, 50.0), "me")
    assert ledger_in(storage).read().history.best == replace(entry.trial, outcome=Outcome(1.0, 50.0))


def test_a_trial_without_parameters_is_named(storage):
    ledger = ledger_in(storage)
    optuna.load_study(study_name="study", storage=open_storage(storage)).ask()
    for _ in range(2):
        with pytest.raises(ValueError, match="trial 0 in the storage is none of this study's space, was it made by"):
            ledger.read()


def test_a_whole_trial_of_optunas_counts_at_the_top(storage):
    ledger = ledger_in(storage)
    planned(ledger, query_at(0.5))
    study = optuna.load_study(study_name="study", storage=open_storage(storage))
    params, distributions = SPACE.decode(query_at(0.3).unit), study.trials[0].distributions
    study.add_trial(optuna.create_trial(params=params, distributions=distributions, value=2.0))
    best = ledger.read().history.best
    assert best is not None
    assert best.outcome is not None
    assert (best.number, best.value, best.query.level, best.outcome.cost) == (1, 2.0, 2, 50.0)


def test_dropped_and_refunded_trials_are_marked_for_every_reader_and_nothing_is_lost(storage):
    ledger = ledger_in(storage)
    first, second, third = planned(ledger)
    for entry in (first, second):
        assert ledger.claim(entry, "me")
        ledger.finish(entry, Outcome(None, 2.0, error="it broke"), "me")
    assert ledger.drop(ledger.read().entries[0])
    ledger.refund(second)
    assert ledger.drop(third), "a trial that waits is taken out of the queue"
    for reader in (ledger, ledger_in(storage)):
        entries, history = reader.read().entries, reader.read().history
        assert [entry.state for entry in entries] == ["dropped", "failed", "dropped"]
        assert [trial.dropped for trial in history.trials] == [True, False, True]
        assert [trial.refunded for trial in history.trials] == [False, True, True]
        assert [trial.outcome and trial.outcome.error for trial in history.trials][:2] == ["it broke"] * 2
        assert history.spent == 2.0
        assert reader.read().waiting == ()
    seen = optuna.load_study(study_name="study", storage=open_storage(storage))
    assert [trial.state for trial in seen.trials] == [TrialState.FAIL] * 3


def test_a_running_trial_is_not_dropped(storage):
    ledger = ledger_in(storage)
    entry, waiting, _ = planned(ledger)
    assert ledger.claim(entry, "me")
    assert not ledger.drop(ledger.read().entries[0])
    # Another process is quicker than one that still sees the trial waiting.
    assert ledger.claim(waiting, "me")
    assert not ledger.drop(waiting)
    assert [entry.state for entry in ledger.read().entries] == ["running", "running", "waiting"]


def test_a_deleted_study_and_the_record_of_its_planners_are_gone(storage):
    ledger, other = ledger_in(storage), ledger_in(storage, name="other")
    planned(ledger)
    lease = ledger.lease(Owner.new(), 60.0)
    assert lease.acquire()
    planned(other)
    ledger.delete()
    ledger.delete()
    opened = open_storage(storage)
    assert [study.study_name for study in opened.get_all_studies()] == ["other"]
    assert len(other.read().entries) == 3
    with pytest.raises(ValueError, match="there is no study 'study'"):
        Ledger.load(opened, "study")


# Storages.


@pytest.mark.parametrize(
    ("storage", "shown"),
    [
        (None, "memory"),
        ("postgresql+psycopg://me:secret@host:5432/studies", "postgresql+psycopg://me:***@host:5432/studies"),
        ("sqlite:///study.db", "sqlite:///study.db"),
        ("study.log", "study.log"),
        ("postgresql//me:secret@host", "***@host"),
    ],
)
def test_a_storage_is_never_shown_with_its_password(storage, shown):
    assert redacted(storage) == shown


def test_errors_of_opening_never_show_a_password():
    with pytest.raises(ValueError, match=r"cannot be opened|not installed") as refusal:
        open_storage("mysql+pymysql://me:secret@127.0.0.1:1/none")
    assert "secret" not in str(refusal.value)
    assert refusal.value.__cause__ is None


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("storage", "kind", "sentence"),
    [
        ("study.db", ValueError, "must be a URL such as sqlite:///study.db or a path ending in .log"),
        ("sqlite:///", ValueError, "in memory cannot be shared"),
        ("sqlite:///:memory:", ValueError, "in memory cannot be shared"),
        ("sqlite:////no/such/folder/study.db", ValueError, "cannot be opened: unable to open database file"),
        ("nosuch://host/db", ValueError, "needs the driver of 'nosuch'"),
        (3, TypeError, "storage must be a URL, a path, an Optuna storage or None, got 3"),
    ],
)
def test_a_storage_that_is_none_is_refused_in_one_sentence(storage, kind, sentence, monkeypatch):
    monkeypatch.setattr("bmbo.ledger.storages.OPENING_SECONDS", 0.1)
    with pytest.raises(kind) as refusal:
        open_storage(storage)
    assert sentence in str(refusal.value)


class Snapshots(BaseJournalBackend, BaseJournalSnapshot):
    """A journal that would have its snapshot unpickled."""

    def read_logs(self, log_number_from):
        del log_number_from
        return iter(())

    def append_logs(self, logs):
        pass

    def save_snapshot(self, snapshot):
        pass

    def load_snapshot(self):
        return None


def test_a_journal_with_pickled_snapshots_is_refused():
    with pytest.raises(ValueError, match="pickled snapshots, which bmbo never loads"):
        open_storage(JournalStorage(Snapshots()))


def test_a_database_that_optuna_opened_is_made_safe_too(tmp_path):
    storage = RDBStorage(f"sqlite:///{tmp_path}/study.db")
    planned(ledger_in(storage))
    with storage.engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    assert len(ledger_in(storage).read().entries) == 3


def test_files_of_a_study_are_beside_its_storage(tmp_path):
    assert folder_of(None).resolve() == folder_of("postgresql+psycopg://me@host/db").resolve()
    assert folder_of(f"sqlite:///{tmp_path}/study.db") == tmp_path
    assert folder_of(str(tmp_path / "study.log")) == tmp_path
    for kept in (f"sqlite:///{tmp_path}/study.db", str(tmp_path / "study.log")):
        assert folder_of(open_storage(kept)) == tmp_path


def test_a_call_is_tried_again_while_the_storage_is_away():
    answers = iter([OSError("away"), OSError("away"), 3])

    def call():
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return answer

    assert with_retries(call) == 3
    with pytest.raises(StorageAwayError, match="for ever"):
        with_retries(lambda: (_ for _ in ()).throw(OSError("for ever")), seconds=0.2)


def test_optunas_own_messages_come_back_after_we_made_a_study(capsys):
    before = optuna.logging.get_verbosity()
    ledger_in(InMemoryStorage())
    assert optuna.logging.get_verbosity() == before
    assert capsys.readouterr().err == ""


def test_a_value_that_is_not_finite_is_stored_as_a_failure(storage):
    ledger = ledger_in(storage)
    (entry,) = planned(ledger, query_at(0.5, 2))
    ledger.finish(entry, Outcome.of(math.inf, 50.0))
    (known,) = ledger_in(storage).read().entries
    assert known.state == "failed"
    assert known.trial.outcome == Outcome.of(math.inf, 50.0)
    assert optuna.load_study(study_name="study", storage=open_storage(storage)).trials[0].state == TrialState.FAIL
