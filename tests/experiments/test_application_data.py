"""Test boosting and LDA on their real data, at the lowest fidelity and on a small slice."""

import itertools
import json
import lzma
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="boosting and lda need scikit-learn")

import bmbo
from experiments.applications import boosting, lda
from experiments.applications.application import Deadline, OutOfTimeError
from experiments.applications.cached_evaluation import evaluate
from experiments.applications.training_cache import MemoryStore, StoredStates
from experiments.problems import PROBLEMS, DataMissingError, newsgroups

# The applications read large data sets and train models.
pytestmark = pytest.mark.slow

GOOD: dict[str, Any] = {
    "alpha": 0.1,
    "ccp_alpha": 0.01,
    "subsample": 0.6,
    "max_features": 0.3,
    "criterion": "MSE",
    "min_samples_split": 5,
    "max_depth": 3,
}


def train(application, config, level, seed=0, states=None):
    return application.train(config, level, seed, states or StoredStates(MemoryStore(), "k"), Deadline.after(300))


def test_boosting_has_the_space_and_the_costs_of_the_paper():
    assert dict(boosting.SPACE.params) == {
        "alpha": bmbo.Float(0.01, 0.1),
        "ccp_alpha": bmbo.Float(0.01, 100.0, log=True),
        "subsample": bmbo.Float(0.1, 1.0),
        "max_features": bmbo.Float(0.01, 1.0),
        "criterion": bmbo.Categorical(("MAE", "MSE")),
        "min_samples_split": bmbo.Int(2, 9),
        "max_depth": bmbo.Int(1, 16),
    }
    assert boosting.APPLICATION.problem.ladder.costs == (1, 5, 50)
    assert [part.inputs.shape for part in boosting.parts()] == [(295, 10), (147, 10)]


def test_boosting_is_that_of_scikit_learn_where_that_still_has_the_criterion():
    from sklearn.ensemble import GradientBoostingRegressor  # noqa: PLC0415

    training, evaluation = boosting.parts()
    config: dict[str, Any] = {**GOOD, "subsample": 1.0, "max_features": 0.5, "ccp_alpha": 0.5}
    theirs = GradientBoostingRegressor(
        loss="huber",
        alpha=config["alpha"],
        ccp_alpha=config["ccp_alpha"],
        max_features=config["max_features"],
        min_samples_split=config["min_samples_split"],
        max_depth=config["max_depth"],
        n_estimators=20,
        random_state=np.random.RandomState(3),
    ).fit(training.inputs, training.targets)
    ours = next(itertools.islice(boosting.boosted(config, training, evaluation.inputs, 3), 19, None))
    assert np.std(ours) > 10
    assert ours == pytest.approx(theirs.predict(evaluation.inputs), rel=1e-9)


def test_boosting_gets_better_with_trees_and_is_the_same_each_time():
    values = [train(boosting.APPLICATION, GOOD, level) for level in range(3)]
    assert values == sorted(values, reverse=True)
    # Published results on these data explain about 45 % of the variance: log(sqrt(0.55)) = -0.3.
    assert values[2] == pytest.approx(-0.28, abs=0.06)
    assert values == [train(boosting.APPLICATION, GOOD, level) for level in range(3)]
    assert train(boosting.APPLICATION, GOOD, 0, seed=1) != values[0]


def test_every_parameter_of_boosting_matters():
    deep = {**GOOD, "max_depth": 6}
    value = train(boosting.APPLICATION, deep, 1)
    for name, other in [
        ("alpha", 0.02),
        ("ccp_alpha", 50.0),
        ("subsample", 0.3),
        ("max_features", 0.9),
        ("criterion", "MAE"),
        ("min_samples_split", 9),
        ("max_depth", 8),
    ]:
        assert train(boosting.APPLICATION, {**deep, name: other}, 1) != value, name


def test_boosting_has_finite_values_in_the_corners_of_its_space():
    for corner in itertools.product((0.0, 1.0), repeat=boosting.SPACE.dim):
        config = boosting.SPACE.decode(corner)
        assert train(boosting.APPLICATION, config, 0) < 0.1


def test_boosting_is_a_problem(monkeypatch):
    monkeypatch.setenv("BMBO_EXPERIMENTS_CACHE", "off")
    benchmark = PROBLEMS["boosting"]()
    benchmark.prepare()
    assert benchmark.evaluate(GOOD, 0) == train(boosting.APPLICATION, GOOD, 0)


def test_lda_has_the_space_and_the_costs_of_the_paper():
    assert dict(lda.SPACE.params) == {
        "doc_topic_prior": bmbo.Float(1e-3, 1.0, log=True),
        "topic_word_prior": bmbo.Float(1e-3, 1.0, log=True),
        "learning_decay": bmbo.Float(0.51, 1.0, log=True),
        "learning_offset": bmbo.Categorical((1, 2, 5, 10, 20, 50, 100, 200), ordered=True),
        "mean_change_tol": bmbo.Float(1e-5, 1e-1, log=True),
        "batch_size": bmbo.Categorical((2, 4, 8, 16, 32, 64, 128, 256), ordered=True),
        "n_components": bmbo.Int(1, 64),
    }
    assert lda.APPLICATION.problem.ladder.costs == (1, 10, 50)
    assert lda.APPLICATION.problem.ladder.fidelities[2].value == 50
    assert not lda.APPLICATION.problem.maximise


TOPICS: dict[str, Any] = {
    "doc_topic_prior": 0.1,
    "topic_word_prior": 0.1,
    "learning_decay": 0.7,
    "learning_offset": 10,
    "mean_change_tol": 1e-3,
    "batch_size": 32,
    "n_components": 5,
}


def texts(split, num):
    path = Path(os.environ.get("BMBO_DATA", "nowhere")) / newsgroups.CORPUS
    if not path.is_file():
        pytest.skip(f"BMBO_DATA names no folder with {newsgroups.CORPUS}")
    with lzma.open(path, "rt", encoding="utf-8") as file:
        posts = (json.loads(line) for line in file)
        return [post["text"] for post in itertools.islice((p for p in posts if p["split"] == split), num)]


@pytest.fixture(scope="module")
def slice_of_corpus():
    return lda.counted(texts("train", 400), texts("test", 100), num_words=200)


def test_topics_of_real_documents_have_a_perplexity_that_repeats(slice_of_corpus):
    objective = lda.Perplexity(slice_of_corpus)
    found = objective(TOPICS, 0, 0, StoredStates(MemoryStore(), "k"), Deadline.after(100))
    # There are 200 words. With so few documents, the prior of the topics has much weight.
    assert 100 < found < 300
    assert found == objective(TOPICS, 0, 0, StoredStates(MemoryStore(), "k"), Deadline.after(100))
    assert found != objective(TOPICS, 0, 1, StoredStates(MemoryStore(), "k"), Deadline.after(100))


def test_topics_that_go_on_equal_those_trained_at_once(slice_of_corpus):
    objective = lda.Perplexity(slice_of_corpus, epochs=(1, 2, 4))
    deadline, shared = Deadline.after(100), StoredStates(MemoryStore(), "k")
    steps = [objective(TOPICS, level, 3, shared, deadline) for level in range(3)]
    at_once = [objective(TOPICS, level, 3, StoredStates(MemoryStore(), "k"), deadline) for level in range(3)]
    assert steps == at_once
    assert len(set(steps)) == 3


def test_an_epoch_is_what_fit_does_in_one_iteration(slice_of_corpus, monkeypatch):
    from sklearn.decomposition import LatentDirichletAllocation  # noqa: PLC0415

    class InOrder:
        def permutation(self, num):
            return np.arange(num)

    monkeypatch.setattr(lda.np.random, "default_rng", lambda *_: InOrder())
    theirs = LatentDirichletAllocation(**TOPICS, learning_method="online", max_iter=2, random_state=0)
    theirs.fit(slice_of_corpus.training)
    objective = lda.Perplexity(slice_of_corpus, epochs=(1, 2))
    found = objective(TOPICS, 1, 0, StoredStates(MemoryStore(), "k"), Deadline.after(100))
    assert found == pytest.approx(theirs.perplexity(slice_of_corpus.evaluation), rel=1e-12)


def test_topics_stop_at_their_deadline(slice_of_corpus):
    with pytest.raises(OutOfTimeError):
        lda.Perplexity(slice_of_corpus)(TOPICS, 0, 0, StoredStates(MemoryStore(), "k"), Deadline.after(-1.0))


def test_headers_do_not_count():
    counts = lda.counted(["Subject: secret\n\nword word zebra", "From: me\n\nword"], ["Subject: word\n\nzebra"])
    assert counts.training.toarray().tolist() == [[2, 1], [1, 0]]
    assert counts.evaluation.toarray().tolist() == [[0, 1]]


def test_missing_documents_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("BMBO_DATA", str(tmp_path))
    lda.corpus.cache_clear()
    with pytest.raises(DataMissingError, match=r"BMBO_DATA has no 20news_bydate"):
        PROBLEMS["lda"]().prepare()


def test_counts_are_made_once_and_kept(tmp_path, monkeypatch):
    posts = [
        {"split": split, "id": f"g/{number}", "label": 0, "text": f"\n\nword other{'s' * (number % 3)} more"}
        for split in ("train", "test")
        for number in range(20)
    ]
    (tmp_path / newsgroups.CORPUS).write_bytes(lzma.compress("\n".join(map(json.dumps, posts)).encode()))
    monkeypatch.setenv("BMBO_DATA", str(tmp_path))
    monkeypatch.setenv("BMBO_EXPERIMENTS_CACHE", str(tmp_path / "kept"))
    lda.corpus.cache_clear()
    made = lda.corpus()
    assert made.training.shape[0] == made.evaluation.shape[0] == 20
    monkeypatch.setattr(newsgroups, "posts", lambda _: pytest.fail("the texts were read again"))
    lda.corpus.cache_clear()
    again = lda.corpus()
    assert (again.training != made.training).nnz == (again.evaluation != made.evaluation).nnz == 0
    value = evaluate(lda.APPLICATION, {**TOPICS, "n_components": 2}, 0)
    assert math.isfinite(value)
    lda.corpus.cache_clear()
