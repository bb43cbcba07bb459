"""Write the problem and the seed of a study as JSON, and check them when a study is opened again."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from bmbo.problem import Fidelity, Ladder, Parameter, Problem, Space

FORMAT = 1
"""The version of everything that is stored; this version of bmbo reads no other."""


@dataclass(frozen=True)
class StudyDefinition:
    """Hold the problem of a study and the seed of its random choices."""

    problem: Problem
    seed: int

    def to_json(self) -> dict[str, Any]:
        """Return the definition in the types of JSON, with the version of bmbo that wrote it."""
        fidelities = [
            {"value": fidelity.value, "cost": fidelity.cost, "name": fidelity.name}
            for fidelity in self.problem.ladder.fidelities
        ]
        return {
            "format": FORMAT,
            "version": _version(),
            "space": self.problem.space.to_json(),
            "fidelities": fidelities,
            "direction": direction_of(self.problem),
            "seed": self.seed,
        }

    @classmethod
    def from_json(cls, described: Mapping[str, Any]) -> "StudyDefinition":
        """Return the definition that `to_json` described; raise ValueError if another format was used."""
        if described.get("format") != FORMAT:
            raise ValueError(
                f"the study was written in format {described.get('format')!r} by bmbo {described.get('version')}, and "
                f"this is bmbo {_version()}, which reads format {FORMAT}"
            )
        ladder = Ladder(Fidelity(**fidelity) for fidelity in described["fidelities"])
        problem = Problem(Space.from_json(described["space"]), ladder, described["direction"] == "maximize")
        return cls(problem, int(described["seed"]))


def direction_of(problem: Problem) -> str:
    """Return the direction of a problem as users write it: "minimize" or "maximize"."""
    return "maximize" if problem.maximise else "minimize"


def difference(stored: Problem, given: Problem) -> str | None:
    """Return in words the first difference between a given and a stored problem, or None if they are the same."""
    if direction_of(stored) != direction_of(given):
        return f"its direction is {direction_of(stored)!r}, not {direction_of(given)!r}"
    if repr(stored.ladder) != repr(given.ladder):
        return f"its fidelities are {_ladder_text(stored.ladder)}, not {_ladder_text(given.ladder)}"
    return _space_difference(dict(stored.space.params), dict(given.space.params))


def _space_difference(before: Mapping[str, Parameter], now: Mapping[str, Parameter]) -> str | None:
    for name in [*before, *now]:
        if name not in now:
            return f"its space has a parameter {name!r}, which is missing here"
        if name not in before:
            return f"its space has no parameter {name!r}"
        # Compared as text, because True == 1 in Python, but they are different choices.
        if repr(before[name]) != repr(now[name]):
            return f"its parameter {name!r} is {before[name]}, not {now[name]}"
    return None if list(before) == list(now) else f"its parameters are in the order {list(before)}, not {list(now)}"


def _ladder_text(ladder: Ladder) -> str:
    return ", ".join(
        f"{fidelity.name} (value {fidelity.value!r}, cost {fidelity.cost})" for fidelity in ladder.fidelities
    )


def _version() -> str:
    try:
        return metadata.version("bmbo")
    except metadata.PackageNotFoundError:
        return "unknown"
