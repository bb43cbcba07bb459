"""Hold small real data sets for problems that train scikit-learn models, each with one fixed split.

Classes take turns in the training part, so that a small number of first samples has all of them.
"""

# scikit-learn is imported where it is used, because it may be missing.
# ruff: noqa: PLC0415

import hashlib
import importlib.util
import json
import pickle
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.applications.training_cache import default_store
from experiments.problems import newsgroups
from experiments.problems.benchmark import DataMissingError

SPLIT_SEED = 0
"""Seed of the split into training and validation. It is fixed, so that values can be compared."""

NUM_POSTS = 900
"""Posts of 20 Newsgroups for training and again for validation: few, so that one training takes a fraction of a
second."""

GROUPS = (1, 5, 8, 11, 14, 17)
"""Six groups of 20 Newsgroups by their number: graphics, Windows, motorcycles, cryptography, space, the Middle East."""

NUM_WORDS = 1500

Inputs = Any
"""A matrix [samples features]: an array, or a sparse matrix of SciPy, whose types are incomplete."""


@dataclass(frozen=True)
class Part:
    """Hold inputs [n d] and their targets [n]."""

    inputs: Inputs
    targets: NDArray[Any]

    def first(self, num: int) -> "Part":
        """Return the first samples."""
        return replace(self, inputs=self.inputs[:num], targets=self.targets[:num])


@dataclass(frozen=True)
class Data:
    """Hold the part that models are trained on and the part that judges them."""

    training: Part
    validation: Part


def _needs_scikit_learn() -> None:
    if importlib.util.find_spec("sklearn") is None:
        raise DataMissingError("problems that train models need scikit-learn: pip install scikit-learn")


def _split(inputs: Inputs, targets: NDArray[Any], num_training: int, num_validation: int) -> Data:
    order = np.random.default_rng(SPLIT_SEED).permutation(len(targets))
    training, validation = order[:num_training], order[num_training : num_training + num_validation]
    return Data(Part(inputs[training], targets[training]), Part(inputs[validation], targets[validation]))


def _taking_turns(part: Part) -> Part:
    places: defaultdict[Any, list[int]] = defaultdict(list)
    for place, target in enumerate(part.targets.tolist()):
        places[target].append(place)
    rounds = zip_longest(*(places[target] for target in sorted(places)))
    order = np.array([place for place in chain.from_iterable(rounds) if place is not None])
    return Part(part.inputs[order], part.targets[order])


def _classes(loader: str, num_training: int, num_validation: int) -> Data:
    _needs_scikit_learn()
    from sklearn import datasets

    inputs, targets = getattr(datasets, loader)(return_X_y=True)
    found = _split(np.asarray(inputs, np.float64), np.asarray(targets), num_training, num_validation)
    return replace(found, training=_taking_turns(found.training))


@cache
def digits() -> Data:
    """Return images of ten digits, 8 x 8 pixels between 0 and 1: 800 for training, 900 for validation."""
    found = _classes("load_digits", 800, 900)
    parts = (replace(part, inputs=part.inputs / 16.0) for part in (found.training, found.validation))
    return Data(*parts)


@cache
def cancer() -> Data:
    """Return 30 measurements of tumours, two classes, on their own scales: 340 for training, 229 for validation."""
    return _classes("load_breast_cancer", 340, 229)


@cache
def wine() -> Data:
    """Return 13 measurements of wines, three classes, on their own scales: 90 for training, 88 for validation."""
    return _classes("load_wine", 90, 88)


@cache
def diabetes() -> Data:
    """Return ten measurements of people with their progress, both standardised: 295 for training, 147 others."""
    _needs_scikit_learn()
    from sklearn.datasets import load_diabetes

    inputs, targets = load_diabetes(return_X_y=True)
    found = _split(np.asarray(inputs, np.float64), np.asarray(targets, np.float64), 295, 147)
    kept = found.training

    def standard(part: Part) -> Part:
        inputs = (part.inputs - kept.inputs.mean(axis=0)) / kept.inputs.std(axis=0)
        return Part(inputs, (part.targets - kept.targets.mean()) / kept.targets.std())

    return Data(standard(found.training), standard(found.validation))


@cache
def news() -> Data:
    """Return counts of words in the posts of six groups of 20 Newsgroups: 900 for training, 900 for validation.

    They are stored, so that other processes need not read the texts, which takes seconds.
    """
    _needs_scikit_learn()
    import sklearn

    path = newsgroups.corpus_file()
    origin = "scikit-learn" if path is None else hashlib.sha256(path.read_bytes()).hexdigest()
    made_by = ["news counts", origin, GROUPS, NUM_POSTS, NUM_WORDS, SPLIT_SEED, sklearn.__version__]
    name = f"{hashlib.sha256(json.dumps(made_by).encode()).hexdigest()}.counts"
    kept = default_store().read(name)
    if kept is None:
        kept = pickle.dumps(newsgroups.word_counts(path, GROUPS, NUM_POSTS, NUM_WORDS, SPLIT_SEED))
        default_store().write(name, kept)
    # The store checks a digest, and only this function writes under this name.
    training, validation = pickle.loads(kept)
    return Data(_taking_turns(Part(*training)), Part(*validation))
