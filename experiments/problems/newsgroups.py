"""Read the posts of 20 Newsgroups, from the folder that BMBO_DATA names or from scikit-learn's official source."""

# scikit-learn is imported where it is used, because it may be missing.
# ruff: noqa: PLC0415

import json
import lzma
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
from numpy.typing import NDArray

from experiments.problems.benchmark import DataMissingError
from experiments.problems.data_files import VARIABLE

CORPUS = "20news_bydate.jsonl.xz"

WORDS = r"(?u)\b[a-z][a-z]+\b"
"""Words have two letters or more, because numbers and the remains of pictures tell nothing about a topic."""

Counts = Any
"""A sparse matrix of SciPy, whose types are incomplete."""


@dataclass(frozen=True)
class Post:
    """Hold a post: its name in the corpus, the number of its group in alphabetical order, and its whole text."""

    name: str
    group: int
    text: str


def without_headers(text: str) -> str:
    """Return the text of a post without its headers, because headers reveal the group."""
    return text.partition("\n\n")[2]


def corpus_file() -> Path | None:
    """Return the file below BMBO_DATA, or None if that variable is not set. Raise `DataMissingError` without a file."""
    given = os.environ.get(VARIABLE)
    if not given:
        return None
    path = Path(given) / CORPUS
    if not path.is_file():
        raise DataMissingError(f"{VARIABLE} has no {CORPUS}; put it there, or unset {VARIABLE} to fetch it")
    return path


def posts(path: Path | None) -> tuple[Sequence[Post], Sequence[Post]]:
    """Return the posts for training and for testing in the order of their names, from a file or the source."""
    return _posts_of_source() if path is None else _posts_of_file(path)


def _posts_of_file(path: Path) -> tuple[Sequence[Post], Sequence[Post]]:
    with lzma.open(path, "rt", encoding="utf-8") as file:
        rows = sorted((json.loads(line) for line in file), key=lambda row: row["id"])
    training, testing = (
        [Post(row["id"], row["label"], row["text"]) for row in rows if row["split"] == split]
        for split in ("train", "test")
    )
    return training, testing


def _posts_of_source() -> tuple[Sequence[Post], Sequence[Post]]:
    """Return the posts that scikit-learn downloads and checks. Raise `DataMissingError` if that fails."""
    from sklearn.datasets import fetch_20newsgroups

    home = os.path.join(platformdirs.user_cache_dir("bmbo"), "data", "20news")
    found: list[Sequence[Post]] = []
    for subset in ("train", "test"):
        try:
            bunch: Any = fetch_20newsgroups(data_home=home, subset=subset, shuffle=False)
        except OSError as error:
            raise DataMissingError(
                f"20 Newsgroups cannot be fetched ({error}); set {VARIABLE} to a folder with {CORPUS}"
            ) from error
        # The group and the number, as in the file, so that both sources give the same order.
        names = ["/".join(Path(name).parts[-2:]) for name in bunch.filenames]
        rows = zip(names, bunch.target.tolist(), bunch.data, strict=True)
        found.append([Post(*row) for row in sorted(rows)])
    return found[0], found[1]


Labelled = tuple[Counts, NDArray[np.int64]]
"""Counts of words [posts words], and the number of each post's group."""


def word_counts(
    path: Path | None, groups: Sequence[int], num_posts: int, num_words: int, seed: int
) -> tuple[Labelled, Labelled]:
    """Return the counts of the most frequent words in some posts of some groups, for training and for testing."""
    from sklearn.feature_extraction.text import CountVectorizer

    drawn: list[list[Post]] = []
    for part in posts(path):
        of_groups = [post for post in part if post.group in groups]
        order = np.random.default_rng(seed).permutation(len(of_groups))
        drawn.append([of_groups[int(place)] for place in order[:num_posts]])
    words = CountVectorizer(stop_words="english", max_features=num_words, token_pattern=WORDS)
    texts = [[without_headers(post.text) for post in part] for part in drawn]
    counts = [words.fit_transform(texts[0]), words.transform(texts[1])]
    labels = [np.array([post.group for post in part], np.int64) for part in drawn]
    return (counts[0], labels[0]), (counts[1], labels[1])
