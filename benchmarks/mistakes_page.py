"""Make the thirty most likely mistakes and write down what is said: `python benchmarks/mistakes_page.py --out FILE`.

docs/mistakes.md is what this prints. tests/test_mistakes.py makes the mistakes again and compares.
"""

import argparse
import contextlib
import io
import logging
import os
import shlex
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np

import bmbo
from bmbo.cli import main as command

HEAD = """\
# Likely mistakes

Thirty mistakes that are easy to make, and what bmbo says or does. This page is made by
`python benchmarks/mistakes_page.py --out docs/mistakes.md`, which makes every one of them;
`tests/test_mistakes.py` does so again and compares. In all of them:

```python
import bmbo

space = {"x": bmbo.Float(0, 1)}
fidelities = [bmbo.Fidelity(1, cost=1), bmbo.Fidelity(10, cost=10)]


def objective(trial):
    return trial.params["x"]


study = bmbo.create_study(space=space, fidelities=fidelities)
```

Each has a study of its own. Where "nothing" is said, it simply works.
"""

MISTAKES = {
    "Storages": [
        ("Two slashes", 'bmbo.create_study(space=space, fidelities=fidelities, storage="sqlite://study.db")'),
        ("A file without a URL", 'bmbo.create_study(space=space, fidelities=fidelities, storage="study.db")'),
        ("The wrong folder", 'bmbo.load_study(study_name="cnn", storage="sqlite:///cnn.db")'),
        ("A name that is taken", 'bmbo.create_study(study_name="cnn", storage=there, **problem)'),
        (
            "Another space than before",
            'bmbo.create_study(study_name="cnn", storage=there, load_if_exists=True,\n'
            '                  space={"x": bmbo.Float(0, 2)}, fidelities=fidelities)',
        ),
        (
            "Another method than before",
            'bmbo.create_study(study_name="cnn", storage=there, load_if_exists=True,\n'
            "                  method=bmbo.screening(looks=False), **problem)",
        ),
    ],
    "Spaces and fidelities": [
        ("A tuple as a range", 'bmbo.create_study(space={"x": (0, 1)}, fidelities=fidelities)'),
        ("A logarithm from 0", "bmbo.Float(0, 1, log=True)"),
        ("Choices that are none", "bmbo.Categorical(None)"),
        ("Choices without an order", 'bmbo.Categorical({"adam"})'),
        ("Numbers as fidelities", "bmbo.create_study(space=space, fidelities=[1, 10])"),
        ("One fidelity without a list", "bmbo.create_study(space=space, fidelities=bmbo.Fidelity(1, cost=1))"),
        (
            "Scalars of NumPy",
            "bmbo.create_study(space=space, fidelities=[bmbo.Fidelity(np.int64(3), cost=np.float32(1))], "
            "seed=np.int64(1))",
        ),
        (
            "The wrong order",
            "bmbo.create_study(space=space, fidelities=[bmbo.Fidelity(10, cost=10), bmbo.Fidelity(1, cost=1)])",
        ),
        ("The name of a method", 'bmbo.create_study(space=space, fidelities=fidelities, method="bmbo_gp")'),
        ("Optuna's sampler", "bmbo.create_study(space=space, fidelities=fidelities, sampler=None)"),
    ],
    "Runs": [
        ("No limit", "study.optimize(objective)"),
        ("A number of trials by position", "study.optimize(objective, 8)"),
        ("Optuna's word for workers", "study.optimize(objective, n_trials=8, n_jobs=4)"),
        ("A limit that is reached", "study.optimize(objective, n_trials=8)\nstudy.optimize(objective, n_trials=8)"),
        ("A budget below one evaluation", "study.optimize(objective, total_cost=5)"),
        ("A budget that is too small", "study.optimize(objective, total_cost=20)"),
        ("`catch=True`", "study.optimize(objective, n_trials=8, catch=True)"),
    ],
    "Objectives and trials": [
        ("A suggestion in the objective", 'study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=8)'),
        ("Nothing returned", "study.optimize(lambda trial: None, n_trials=8)"),
        ("NaN, always", 'study.optimize(lambda trial: float("nan"), n_trials=8, max_failures=None)\nstudy.best_trial'),
        ("A list told", "study.tell(study.ask(2), 0.5)"),
        ("A value outside of the space", 'study.enqueue({"x": 2})'),
    ],
    "Commands": [
        ("A study without its name", "$ bmbo status --storage sqlite:///there.db"),
        (
            "A worker before there is a study",
            "$ bmbo worker --storage sqlite:///new.db --study cnn --objective math:sin",
        ),
    ],
}


class _Warnings(logging.Handler):
    """Keep what is warned of."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one message."""
        self.lines.append(f"warning: {record.getMessage()}")


def answer_to(mistake: str) -> str:
    """Return what is said about a mistake, in a folder of its own; `there.db` has a study if it is named."""
    problem: dict[str, Any] = {
        "space": {"x": bmbo.Float(0, 1)},
        "fidelities": [bmbo.Fidelity(1, cost=1), bmbo.Fidelity(10, cost=10)],
    }
    with _in_empty_folder(), _warnings() as heard:
        if "there" in mistake:
            bmbo.create_study(study_name="cnn", storage="sqlite:///there.db", **problem)
        if mistake.startswith("$ bmbo "):
            return _command_output(shlex.split(mistake)[2:])
        names = {
            "bmbo": bmbo,
            "np": np,
            "problem": problem,
            **problem,
            "there": "sqlite:///there.db",
            "study": bmbo.create_study(**problem),
            "objective": lambda trial: trial.params["x"],
        }
        try:
            exec(mistake, names)  # the mistakes above
        # Every kind: what is raised is what the page shows.
        except Exception as error:
            said = error.args[0] if isinstance(error, KeyError) else error
            return f"{type(error).__name__}: {said}"
        return "\n".join(heard.lines) or "nothing"


def page() -> str:
    """Return the whole page."""
    parts = [HEAD]
    number = 0
    for section, mistakes in MISTAKES.items():
        parts.append(f"## {section}\n")
        for title, mistake in mistakes:
            number += 1
            language = "sh" if mistake.startswith("$") else "text"
            shown = mistake.removeprefix("$ ")
            parts.append(
                f"### {number}. {title}\n\n```{language}\n{shown}\n```\n\n```text\n{answer_to(mistake)}\n```\n"
            )
    return "\n".join(parts)


@contextlib.contextmanager
def _in_empty_folder() -> Generator[None, None, None]:
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


@contextlib.contextmanager
def _warnings() -> Generator[_Warnings, None, None]:
    """Yield what is warned of inside this context, and write nothing to standard error."""
    heard, logger = _Warnings(), logging.getLogger("bmbo")
    bmbo.logging.disable_default_handler()
    logger.addHandler(heard)
    try:
        yield heard
    finally:
        logger.removeHandler(heard)
        bmbo.logging.enable_default_handler()


def _command_output(words: list[str]) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        command(words)
    return out.getvalue().rstrip()


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.parse_args().out.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
