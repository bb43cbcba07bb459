"""Test the convolutional network on CIFAR-10: its space, its training and its data."""

import hashlib
import io
import math
import os
import pickle
import tarfile
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bmbo
from experiments.applications import cnn
from experiments.applications.application import Deadline, OutOfTimeError
from experiments.applications.convolutional_training import (
    Architecture,
    Images,
    State,
    begin,
    evaluate,
    logits_of,
    num_bytes,
)
from experiments.problems import DataMissingError
from experiments.problems.data_files import find_converted

# The application trains networks.
pytestmark = pytest.mark.slow

SMALL = {
    "num_convolutions": 2,
    "channels": 8,
    "dense_depth": 3,
    "dense_width": 32,
    "pooling": "max",
    "dropout": 0.3,
}


class Kept:
    """Keep states in memory."""

    def __init__(self):
        self.states = {}

    def load(self, below):
        levels = [level for level in self.states if level < below]
        return (max(levels), self.states[max(levels)]) if levels else None

    def save(self, level, state):
        self.states[level] = state


def some_arrays(num_train=256, num_test=70):
    """Return images of noise, in which one of the two classes is brighter."""
    generator = np.random.default_rng(0)
    arrays = {}
    for part, num in (("train", num_train), ("test", num_test)):
        labels = generator.integers(0, 2, num)
        noise = generator.integers(0, 200, (num, 32, 32, 3))
        arrays[f"x_{part}"] = (noise + 50 * labels[:, None, None, None]).astype(np.uint8)
        arrays[f"y_{part}"] = labels.astype(np.uint8)
    return arrays


@pytest.fixture(scope="module")
def images():
    return Images.of(some_arrays())


def trained(images, config, level=0, seed=0, states=None):
    return cnn.train_on(images, config, level, seed, states=states or Kept(), deadline=Deadline.after(600.0))


def test_the_space_is_the_papers():
    assert dict(cnn.SPACE.params) == {
        "num_convolutions": bmbo.Int(1, 4),
        "channels": bmbo.Int(8, 136),
        "dense_depth": bmbo.Int(1, 8),
        "dense_width": bmbo.Int(32, 2080),
        "pooling": bmbo.Categorical(["max", "average"]),
        "dropout": bmbo.Float(1e-3, 0.99, log=True),
    }
    ladder = cnn.APPLICATION.problem.ladder
    assert [fidelity.value for fidelity in ladder.fidelities] == [1, 10, 50]
    assert ladder.costs == (1.0, 10.0, 50.0)
    assert not cnn.APPLICATION.problem.maximise


@pytest.mark.parametrize("pooling", ["max", "average"])
@pytest.mark.parametrize(("num_convolutions", "features"), [(1, 16 * 16 * 8), (4, 2 * 2 * 64)])
def test_every_convolution_halves_the_pixels_and_doubles_the_channels(pooling, num_convolutions, features):
    architecture = Architecture(num_convolutions, 8, 1, 32, pooling)
    state = begin(architecture, 0)
    assert architecture.features == features
    assert state.parameters["first"]["weights"].shape == (features, 32)
    assert logits_of(architecture, state.parameters, jnp.ones((2, 32, 32, 3))).shape == (2, 10)


def test_the_largest_state_is_known_without_making_it():
    # 16 x 16 x 136 features and 2,080 units, three times with the two moments of Adam, with four bytes for each number.
    assert 3 * 4 * 16 * 16 * 136 * 2080 < num_bytes(Architecture(1, 136, 1, 2080, "max")) < 0.9e9


def test_a_training_learns_and_is_the_same_twice(images):
    first = trained(images, SMALL, level=1)
    assert first == trained(images, SMALL, level=1)
    # log(2) is the loss of a guess between the two classes.
    assert first < 0.5 * math.log(2)
    assert first != trained(images, SMALL, level=1, seed=1)


def test_a_continued_training_equals_one_go(images):
    kept = Kept()
    lower = trained(images, SMALL, level=0, states=kept)
    continued = trained(images, SMALL, level=1, states=kept)
    assert sorted(kept.states) == [0, 1]
    assert lower != continued
    fresh = Kept()
    assert continued == trained(images, SMALL, level=1, states=fresh)
    assert kept.states[1] == fresh.states[1]


def test_a_large_state_is_not_kept(images, monkeypatch):
    monkeypatch.setattr(cnn, "LARGEST_STATE", 1000)
    kept = Kept()
    trained(images, SMALL, states=kept)
    assert not kept.states


def test_a_state_of_another_network_is_refused():
    content = begin(Architecture(1, 8, 1, 32, "max"), 0).to_bytes()
    with pytest.raises(ValueError, match="is not one of"):
        State.from_bytes(Architecture(1, 9, 1, 32, "max"), content)


def test_a_training_stops_at_its_deadline(images):
    with pytest.raises(OutOfTimeError):
        cnn.train_on(images, SMALL, 2, 0, states=Kept(), deadline=Deadline.after(0.0))


def test_the_highest_dropout_gives_a_finite_loss(images):
    loss = trained(images, {**SMALL, "dropout": 0.99})
    assert math.isfinite(loss)
    assert loss != trained(images, SMALL)


def test_kinds_of_pooling_differ(images):
    assert trained(images, SMALL) != trained(images, {**SMALL, "pooling": "average"})


def test_an_evaluation_takes_every_image_once(monkeypatch):
    # 67 images in slices of 32, so that the last slice reaches beyond the end.
    monkeypatch.setattr("experiments.applications.convolutional_training.SLICE", 32)
    images = Images.of(some_arrays(num_test=67))
    architecture = cnn.architecture_of(SMALL)
    state = begin(architecture, 0)
    logits = logits_of(architecture, state.parameters, images.standardised(images.evaluation.pixels))
    losses = -jax.nn.log_softmax(logits)[jnp.arange(67), images.evaluation.labels]
    loss, accuracy = evaluate(architecture, state.parameters, images)
    assert float(loss) == pytest.approx(float(losses.mean()), rel=1e-4)
    assert float(accuracy) == pytest.approx(float((logits.argmax(1) == images.evaluation.labels).mean()))


def test_weights_that_diverged_give_a_loss_that_is_not_finite(images):
    architecture = cnn.architecture_of(SMALL)
    state = begin(architecture, 0)
    broken = replace(state, parameters=jax.tree.map(lambda leaf: leaf * jnp.nan, state.parameters))
    assert not math.isfinite(float(evaluate(architecture, broken.parameters, images)[0]))
    assert math.isfinite(cnn.APPLICATION.ceiling)


@pytest.mark.skipif(
    not (Path(os.environ.get("BMBO_DATA", "nowhere")) / cnn.FILE).is_file(),
    reason=f"BMBO_DATA names no folder with {cnn.FILE}",
)
def test_the_lowest_fidelity_on_a_slice_of_the_real_images():
    with np.load(Path(os.environ["BMBO_DATA"]) / cnn.FILE) as arrays:
        assert {name: arrays[name].shape[0] for name in arrays.files} == dict.fromkeys(arrays.files, 10_000)
        some = Images.of({name: arrays[name][:512] for name in arrays.files})
    loss = trained(some, SMALL)
    assert loss == trained(some, SMALL)
    # Four steps learn little, so the loss is near that of a uniform guess.
    assert 0.5 * math.log(10) < loss < 2 * math.log(10)


def an_archive(path):
    """Write a small archive like the official one, with planes of red, green and blue, and return its arrays."""
    arrays = some_arrays(5, 3)
    with tarfile.open(path, "w:gz") as tar:
        for part, name in cnn.BATCHES.items():
            planes = arrays[f"x_{part}"].transpose(0, 3, 1, 2).reshape(-1, 3072)
            content = pickle.dumps({b"data": planes, b"labels": [int(label) for label in arrays[f"y_{part}"]]})
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return arrays


def test_the_official_archive_is_fetched_once_and_converted(tmp_path, monkeypatch):
    monkeypatch.delenv("BMBO_DATA", raising=False)
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda _: str(tmp_path / "cache"))
    archive = tmp_path / "archive.tar.gz"
    arrays = an_archive(archive)
    with pytest.raises(DataMissingError, match="is not the file"):
        find_converted(cnn.FILE, archive.as_uri(), "0" * 64, cnn.convert)
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    path = find_converted(cnn.FILE, archive.as_uri(), digest, cnn.convert)
    with np.load(path) as made:
        assert all(np.array_equal(made[name], arrays[name]) for name in arrays)
    # Only the result is left, and it is found without its source.
    assert list(path.parent.iterdir()) == [path]
    archive.unlink()
    assert find_converted(cnn.FILE, archive.as_uri(), digest, cnn.convert) == path


def test_missing_images_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("BMBO_DATA", str(tmp_path))
    with pytest.raises(DataMissingError, match=r"BMBO_DATA has no cifar10_20k\.npz"):
        find_converted(cnn.FILE, cnn.SOURCE, cnn.DIGEST, cnn.convert)
