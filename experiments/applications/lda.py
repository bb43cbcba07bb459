"""Train online latent Dirichlet allocation (Hoffman et al. 2010) on 20 Newsgroups: the paper's second application.

What the paper leaves open:

- Documents: 5,000 of the training part and 2,000 of the test part of the corpus by date, drawn once. Headers are
  removed, because they reveal the group. English stop words are removed, and the 1,000 most frequent words of letters
  are kept, as in scikit-learn's own example of topics.
- Perplexity: scikit-learn's `perplexity` of the evaluation documents. Its bound includes the prior of the topics. A
  uniform guess over 1,000 words has a perplexity of 1,000.

An epoch is one pass of `partial_fit` over all documents, in an order that depends on the seed and the epoch. With
total_samples set to the number of documents, one iteration of `fit` does the same, except for the order.
"""

# scikit-learn is imported where it is used, because it may be missing.
# ruff: noqa: PLC0415

import hashlib
import io
import json
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, load_npz, save_npz

import bmbo
from experiments.applications.application import Application, Config, Deadline, States
from experiments.applications.training_cache import default_store
from experiments.problems import newsgroups
from experiments.problems.benchmark import DataMissingError

EPOCHS = (1, 10, 50)

NUM_TRAINING, NUM_EVALUATION, NUM_WORDS = 5000, 2000, 1000

DRAW_SEED = 0
"""Seed of the choice of documents. It is fixed, so that losses can be compared."""

SLICE = 256
"""Documents between two checks of the deadline: the largest batch size. All other batch sizes divide it."""

SPACE = bmbo.Space(
    {
        "doc_topic_prior": bmbo.Float(1e-3, 1.0, log=True),
        "topic_word_prior": bmbo.Float(1e-3, 1.0, log=True),
        "learning_decay": bmbo.Float(0.51, 1.0, log=True),
        "learning_offset": bmbo.Categorical((1, 2, 5, 10, 20, 50, 100, 200), ordered=True),
        "mean_change_tol": bmbo.Float(1e-5, 1e-1, log=True),
        "batch_size": bmbo.Categorical((2, 4, 8, 16, 32, 64, 128, 256), ordered=True),
        "n_components": bmbo.Int(1, 64),
    }
)
"""The names are those of scikit-learn's arguments."""

Texts = Sequence[str]
Counts = Any
"""A sparse matrix of SciPy, whose types are incomplete."""


@dataclass(frozen=True)
class Corpus:
    """Hold the counts of words in the documents for training and for evaluation: [documents words]."""

    training: Counts
    evaluation: Counts


def counted(training: Texts, evaluation: Texts, num_words: int = NUM_WORDS) -> Corpus:
    """Return the counts of the words that are most frequent in the training documents."""
    from sklearn.feature_extraction.text import CountVectorizer

    words = CountVectorizer(stop_words="english", max_features=num_words, token_pattern=newsgroups.WORDS)
    counts = words.fit_transform([newsgroups.without_headers(text) for text in training])
    others = words.transform([newsgroups.without_headers(text) for text in evaluation])
    return Corpus(csr_matrix(counts, dtype=np.float64), csr_matrix(others, dtype=np.float64))


def _drawn(texts: Texts, num: int) -> Texts:
    order = np.random.default_rng(DRAW_SEED).permutation(len(texts))
    return [texts[int(place)] for place in order[:num]]


def _packed(counts: Counts) -> bytes:
    content = io.BytesIO()
    save_npz(content, counts)
    return content.getvalue()


@cache
def corpus() -> Corpus:
    """Return the documents as counts. They are stored, so that other processes need not read the texts."""
    try:
        import sklearn
    except ImportError as error:
        raise DataMissingError("lda needs scikit-learn: pip install scikit-learn") from error
    path = newsgroups.corpus_file()
    origin = "scikit-learn" if path is None else hashlib.sha256(path.read_bytes()).hexdigest()
    made_by = ["lda counts", APPLICATION.version, origin, NUM_TRAINING, NUM_EVALUATION, NUM_WORDS, sklearn.__version__]
    key = hashlib.sha256(json.dumps(made_by).encode()).hexdigest()
    names = (f"{key}.training.npz", f"{key}.evaluation.npz")
    kept = [default_store().read(name) for name in names]
    if kept[0] is not None and kept[1] is not None:
        return Corpus(load_npz(io.BytesIO(kept[0])), load_npz(io.BytesIO(kept[1])))
    training, evaluation = ([post.text for post in part] for part in newsgroups.posts(path))
    found = counted(_drawn(training, NUM_TRAINING), _drawn(evaluation, NUM_EVALUATION))
    for name, counts in zip(names, (found.training, found.evaluation), strict=True):
        default_store().write(name, _packed(counts))
    return found


@dataclass(frozen=True)
class Perplexity:
    """Train and evaluate on given documents, or on the corpus if none are given."""

    documents: Corpus | None = None
    epochs: tuple[int, ...] = EPOCHS

    def __call__(self, config: Config, level: int, seed: int, states: States, deadline: Deadline) -> float:
        """Return the perplexity of the evaluation documents, see `Train`."""
        documents = self.documents or corpus()
        model, done = _begun(config, seed, states, level, documents.training.shape[0])
        for each in range(0 if done is None else done + 1, level + 1):
            for epoch in range(self.epochs[each - 1] if each else 0, self.epochs[each]):
                _pass(model, documents.training, seed, epoch, deadline)
            states.save(each, _state(model))
        return float(model.perplexity(documents.evaluation))


def _begun(config: Config, seed: int, states: States, level: int, num_documents: int) -> tuple[Any, int | None]:
    """Return a model and the level that it was trained to, or None for a new model."""
    import sklearn
    from sklearn.decomposition import LatentDirichletAllocation

    found = states.load(level)
    if found is not None:
        version, model = pickle.loads(found[1])
        # A model of another version may continue in another way.
        if version == sklearn.__version__:
            return model, found[0]
    fresh = LatentDirichletAllocation(
        **config, learning_method="online", total_samples=num_documents, random_state=seed, n_jobs=1
    )
    return fresh, None


def _state(model: Any) -> bytes:
    """Return a model as bytes, with the state of its random numbers."""
    import sklearn

    return pickle.dumps((sklearn.__version__, model))


def _pass(model: Any, counts: Counts, seed: int, epoch: int, deadline: Deadline) -> None:
    order = np.random.default_rng([seed, epoch]).permutation(counts.shape[0])
    for start in range(0, len(order), SLICE):
        deadline.check()
        model.partial_fit(counts[order[start : start + SLICE]])


APPLICATION = Application(
    name="lda",
    problem=bmbo.Problem(
        SPACE,
        bmbo.Ladder(bmbo.Fidelity(epochs, cost=epochs, name=f"{epochs} epochs") for epochs in EPOCHS),
        maximise=False,
    ),
    train=Perplexity(),
    version="1",
    # Twice a uniform guess. Larger numbers, up to 1e12, only say that a configuration is bad.
    ceiling=2.0 * NUM_WORDS,
    source="online LDA on 20 Newsgroups, the paper's second application",
    prepare=corpus,
)
