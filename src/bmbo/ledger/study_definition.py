"""Write the problem and the seed of a study as JSON, and check them when a study is opened again."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import metadata
from typing import Any, cast

from bmbo.problem import Feasible, Fidelity, Ladder, Parameter, Problem, Space
from bmbo.problem.conditions import When, when_text
from bmbo.problem.constraints import checked_constraint
from bmbo.problem.likely import Likely, prior_text
from bmbo.problem.number_checks import is_whole, short
from bmbo.problem.objectives import checked_objective

FORMAT = 1
"""The version of everything that is stored; this version of bmbo reads no other."""

FLAGS = ("continues", "early_stopping", "noisy")
"""What a study can be made with, yes or no."""

DAMAGED = "something else than bmbo changed it; go on with a backup of the storage"


@dataclass(frozen=True)
class StudyDefinition:
    """Hold the problem of a study and the seed of its random choices.

    Attributes:
        problem: what is optimised.
        seed: of the random choices.
        key: random text that no other study has; empty for a study that an earlier version made.
    """

    problem: Problem
    seed: int
    key: str = ""

    def with_feasible(self, feasible: Feasible | None) -> "StudyDefinition":
        """Return the definition with another function that says what may be run."""
        return replace(self, problem=replace(self.problem, feasible=feasible))

    def to_json(self) -> dict[str, Any]:
        """Return the definition in the types of JSON, with the version of bmbo that wrote it."""
        fidelities = [
            {"value": fidelity.value, "cost": fidelity.cost, "name": fidelity.name}
            for fidelity in self.problem.ladder.fidelities
        ]
        # Written only where it is used, so that other studies are stored as ever.
        used: dict[str, Any] = {"continues": True} if self.problem.continues else {}
        if self.problem.constraints:
            used["constraints"] = [vars(limit) for limit in self.problem.constraints]
        if self.problem.feasible is not None:
            used["feasible"] = self.problem.feasible.name
        if self.problem.early_stopping:
            used["early_stopping"] = True
        if self.problem.objectives:
            used["objectives"] = [vars(objective) for objective in self.problem.objectives]
        if self.problem.noisy:
            used["noisy"] = True
        return {
            "format": FORMAT,
            "version": _version(),
            "space": self.problem.space.to_json(),
            "fidelities": fidelities,
            "direction": directions_of(self.problem)[0],
            "seed": self.seed,
            "key": self.key,
            **used,
        }

    @classmethod
    def from_json(cls, described: object) -> "StudyDefinition":
        """Return the definition that `to_json` described.

        Raises:
            ValueError: Another format was used, or something else than bmbo changed the definition.
        """
        if not isinstance(described, Mapping):
            raise ValueError(f"the definition of the study is {short(described)} and no table: {DAMAGED}")
        described = cast(Mapping[str, Any], described)
        if described.get("format") != FORMAT:
            raise ValueError(
                f"the study was written in format {described.get('format')!r} by bmbo {described.get('version')}, and "
                f"this is bmbo {_version()}, which reads format {FORMAT}"
            )
        try:
            ladder = Ladder(Fidelity(**fidelity) for fidelity in described["fidelities"])
            space, seed, direction = Space.from_json(described["space"]), described["seed"], described["direction"]
            # Studies that were made before training could continue do not have it.
            limits = tuple(checked_constraint(**limit) for limit in described.get("constraints", ()))
            feasible = Feasible.known_as(described["feasible"]) if "feasible" in described else None
            flags = {name: described[name] for name in FLAGS if name in described}
            maximise = direction == "maximize"
            several = tuple(checked_objective(**each) for each in described.get("objectives", ()))
            problem = Problem(
                space, ladder, maximise, constraints=limits, feasible=feasible, objectives=several, **flags
            )
        except KeyError as error:
            raise ValueError(f"the definition of the study has no field {error}: {DAMAGED}") from None
        except (AttributeError, TypeError, ValueError) as error:
            raise ValueError(f"the definition of the study cannot be read ({error}): {DAMAGED}") from None
        if not is_whole(seed) or seed < 0:
            raise ValueError(f"the definition of the study has the seed {short(seed)}: {DAMAGED}")
        if direction not in ("minimize", "maximize"):
            raise ValueError(f"the definition of the study has the direction {short(direction)}: {DAMAGED}")
        return cls(problem, int(seed), str(described.get("key", "")))


def direction_of(problem: Problem) -> str:
    """Return the direction of a problem as users write it: "minimize" or "maximize"; that of each objective if several.

    These are shown with the names of the objectives.
    """
    if problem.objectives:
        return ", ".join(f"{each.direction} {each.label}" for each in problem.objectives)
    return "maximize" if problem.maximise else "minimize"


def directions_of(problem: Problem) -> tuple[str, ...]:
    """Return the direction of each objective: "minimize" or "maximize"."""
    return tuple(each.direction for each in problem.objectives) or (direction_of(problem),)


def difference(stored: Problem, given: Problem) -> str | None:
    """Return in words the first difference between a given and a stored problem, or None if they are the same."""
    aims = _aims_difference(stored, given)
    if aims is not None:
        return aims
    if repr(stored.ladder) != repr(given.ladder):
        return f"its fidelities are {_ladder_text(stored.ladder)}, not {_ladder_text(given.ladder)}"
    for flag in FLAGS:
        before, now = getattr(stored, flag), getattr(given, flag)
        if before != now:
            return f"it was made with {flag}={before}, not {flag}={now}"
    if stored.constraints != given.constraints:
        return f"its constraints are {_limits_text(stored)}, not {_limits_text(given)}"
    if stored.feasible != given.feasible:
        before, now = (None if each.feasible is None else each.feasible.name for each in (stored, given))
        return f"it was made with feasible={before}, not feasible={now}"
    return _space_difference(dict(stored.space.params), dict(given.space.params))


def _aims_difference(stored: Problem, given: Problem) -> str | None:
    if stored.num_objectives != given.num_objectives:
        return f"it has {stored.num_objectives} objectives, not {given.num_objectives}"
    if direction_of(stored) != direction_of(given):
        return f"its direction is {direction_of(stored)!r}, not {direction_of(given)!r}"
    if stored.objectives != given.objectives:
        before, now = (tuple(each.reference for each in problem.objectives) for problem in (stored, given))
        return f"its reference_point is {before}, not {now}"
    return None


def _space_difference(before: Mapping[str, Parameter], now: Mapping[str, Parameter]) -> str | None:
    for name in [*before, *now]:
        if name not in now:
            return f"its space has a parameter {name!r}, which is missing here"
        if name not in before:
            return f"its space has no parameter {name!r}"
        # Compared as text, because True == 1 in Python, but they are different choices.
        if _written(before[name]) != _written(now[name]):
            return f"its parameter {name!r} is {_written(before[name])}, not {_written(now[name])}"
    return None if list(before) == list(now) else f"its parameters are in the order {list(before)}, not {list(now)}"


def _written(param: Parameter) -> str:
    when: When = getattr(param, "when", ())
    prior: Likely | None = getattr(param, "prior", None)
    condition = f" when {when_text(when)}" if when else ""
    return repr(param) + condition + ("" if prior is None else f", {prior_text(prior)}")


def _ladder_text(ladder: Ladder) -> str:
    return ", ".join(
        f"{fidelity.name} (value {fidelity.value!r}, cost {fidelity.cost})" for fidelity in ladder.fidelities
    )


def _limits_text(problem: Problem) -> str:
    return ", ".join(map(str, problem.constraints)) or "none"


def _version() -> str:
    try:
        return metadata.version("bmbo")
    except metadata.PackageNotFoundError:
        return "unknown"
