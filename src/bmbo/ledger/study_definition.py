"""What a study is about, in JSON: written once, checked by everyone who opens it."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from bmbo.problem import Fidelity, Ladder, Parameter, Problem, Space

FORMAT = 1
"""Of all that is stored; a later format can be read by later versions only."""


@dataclass(frozen=True)
class Definition:
    """A problem and the seed of its search."""

    problem: Problem
    seed: int

    def to_json(self) -> dict[str, Any]:
        """In JSON's types, with the version that wrote it."""
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
    def from_json(cls, described: Mapping[str, Any]) -> "Definition":
        """What `to_json` described."""
        if described.get("format") != FORMAT:
            raise ValueError(
                f"the study was written in format {described.get('format')!r} by bmbo {described.get('version')}, and "
                f"this is bmbo {_version()}, which reads format {FORMAT}"
            )
        ladder = Ladder(Fidelity(**fidelity) for fidelity in described["fidelities"])
        problem = Problem(Space.from_json(described["space"]), ladder, described["direction"] == "maximize")
        return cls(problem, int(described["seed"]))


def direction_of(problem: Problem) -> str:
    """The direction in a user's word."""
    return "maximize" if problem.maximise else "minimize"


def difference(stored: Problem, given: Problem) -> str | None:
    """In what a given problem differs from a stored one, in words; None where they are the same."""
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
        # Compared as text: True and 1 are equal, but not the same choice.
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
