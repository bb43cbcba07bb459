"""Read and check a study file such as study.toml; every error names the line that is wrong."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast, get_args

from bmbo import methods
from bmbo.cli.command_objective import LAST_LINE, CommandObjective
from bmbo.cli.toml_with_lines import Kinds, Place, TomlError, TomlSource, suggestion, table_title
from bmbo.problem import (
    Categorical,
    Constraint,
    Fidelity,
    FidelityRange,
    Float,
    Int,
    Ladder,
    Number,
    Parameter,
    Problem,
    Space,
    as_constraints,
    as_objectives,
)
from bmbo.problem.number_checks import seed_number
from bmbo.protocols import Policy
from bmbo.study.readable_study import Direction
from bmbo.study.run_options import RunOptions, run_option_kinds

FUNCTION = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
"""The form of the name of an objective: module:function."""

NUMBER: Kinds = (int, float)
STUDY_FIELDS: Mapping[str, Kinds] = {
    "name": (str,),
    "storage": (str,),
    "direction": (str,),
    "seed": (int,),
    "method": (str,),
    "continues": (bool,),
    "feasible": (str,),
    "early_stopping": (bool,),
    "directions": (list, dict),
    "reference_point": (list,),
    "noisy": (bool,),
}
EVERY_KIND: Mapping[str, Kinds] = {"when": (dict,), "prior": (dict,)}
PARAMETER_KINDS: Mapping[str, tuple[Callable[..., Parameter], Mapping[str, Kinds], tuple[str, ...]]] = {
    "float": (Float, {"low": NUMBER, "high": NUMBER, "log": (bool,), "step": NUMBER, **EVERY_KIND}, ("low", "high")),
    "int": (Int, {"low": (int,), "high": (int,), "log": (bool,), "step": (int,), **EVERY_KIND}, ("low", "high")),
    "categorical": (Categorical, {"choices": (list,), "ordered": (bool,), **EVERY_KIND}, ("choices",)),
}
FIDELITY_FIELDS: Mapping[str, Kinds] = {"value": (int, float, str, bool), "cost": (int, float, str), "name": (str,)}
RANGE_FIELDS: Mapping[str, Kinds] = {
    "low": NUMBER,
    "high": NUMBER,
    "log": (bool,),
    "cost": (str,),
    "power": NUMBER,
    "levels": (int,),
}
"""The fields of [fidelities], a range in place of a list."""
OBJECTIVE_FIELDS: Mapping[str, Kinds] = {
    "function": (str,),
    "command": (str, list),
    "result": (str,),
    "workdir": (str,),
    "env": (dict,),
}
REQUIRED_TABLES = ("study", "space", "fidelities", "objective")
TABLES = (*REQUIRED_TABLES, "constraints", "run")
METHOD_NAMES: tuple[str, ...] = tuple(methods.__all__)
"""The names of all methods, which are those of their functions."""


@dataclass(frozen=True)
class StudyFile:
    """Hold the content of a study file; `objective` is the name of a function, or a command."""

    path: Path
    name: str
    space: Space
    ladder: Ladder
    objective: str | CommandObjective
    # Not shown, because it may contain a password.
    storage: str | None = field(default=None, repr=False)
    direction: Direction = "minimize"
    seed: int = 0
    method: str | None = None
    continues: bool = False
    feasible: str | None = None
    constraints: Mapping[str, tuple[str, Number]] = field(default_factory=dict[str, tuple[str, Number]])
    early_stopping: bool = False
    directions: Sequence[Direction] | Mapping[str, Direction] | None = None
    reference_point: Sequence[Number] | None = None
    noisy: bool = False
    run: RunOptions = field(default_factory=RunOptions)

    @classmethod
    def read(cls, path: str | Path) -> "StudyFile":
        """Return the study in a TOML file; raise TomlError, in one sentence, if the file is missing or wrong."""
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise TomlError(f"there is no study file {path}") from None
        except OSError as error:
            # Without the path, which may be too long for a message to be repeated in it.
            raise TomlError(f"{path} cannot be read: {error.strerror or error}") from None
        except UnicodeDecodeError as error:
            raise TomlError(f"{path} cannot be read: {error}") from None
        return _study(TomlSource(path, text))


def method_of(name: str) -> Policy:
    """Return the method with one of `METHOD_NAMES`; only this loads what the method needs."""
    make: Callable[[], Policy] = getattr(methods, name)
    return make()


def _study(source: TomlSource) -> StudyFile:
    for name in source.values:
        if name not in TABLES:
            raise source.error((name,), f"unknown table [{name}]{suggestion(name, TABLES)}")
    for name in REQUIRED_TABLES:
        if name not in source.values:
            raise source.error((), f"{'[[fidelities]]' if name == 'fidelities' else f'[{name}]'} is missing")
    study = source.table(("study",), source.values["study"], STUDY_FIELDS, ("name",))
    for name in ("name", "storage"):
        if name in study and not study[name].strip():
            raise source.error(("study", name), f"{name} in [study] must not be empty")
    if study.get("direction", "minimize") not in get_args(Direction):
        message = f"direction in [study] must be 'minimize' or 'maximize', got {study['direction']!r}"
        raise source.error(("study", "direction"), message)
    if "direction" in study and "directions" in study:
        raise source.error(("study", "directions"), "[study] needs direction or directions, not both")
    objectives = source.build(
        ("study", "directions" if "directions" in study else "reference_point"),
        lambda: as_objectives(study.get("directions"), study.get("reference_point")),
    )
    source.build(("study",), seed_number, value=study.get("seed", 0))
    if "method" in study and study["method"] not in METHOD_NAMES:
        message = f"unknown method {study['method']!r} in [study]{suggestion(study['method'], METHOD_NAMES)}"
        raise source.error(("study", "method"), message)
    space, ladder, continues = _space(source), _ladder(source), study.get("continues", False)
    source.build(("study", "continues"), lambda: Problem(space, ladder, continues=continues))
    if "feasible" in study and not FUNCTION.fullmatch(study["feasible"]):
        raise source.error(
            ("study", "feasible"), f"feasible in [study] must be 'module:name', got {study['feasible']!r}"
        )
    stops = study.get("early_stopping", False)
    several = objectives if len(objectives) > 1 else ()
    maximise = bool(several) and several[0].maximise
    source.build(
        ("study", "early_stopping"),
        lambda: Problem(space, ladder, maximise, early_stopping=stops, objectives=several),
    )
    noisy = study.get("noisy", False)
    source.build(
        ("study", "noisy"),
        lambda: Problem(space, ladder, maximise, continues=continues, noisy=noisy, objectives=several),
    )
    run = source.table(("run",), source.values.get("run", {}), run_option_kinds())
    return StudyFile(
        path=source.path,
        space=space,
        ladder=ladder,
        objective=_objective(source, space),
        constraints=_constraints(source),
        run=source.build(("run",), RunOptions, **run),
        **study,
    )


def _space(source: TomlSource) -> Space:
    described = source.values["space"]
    if not isinstance(described, dict) or not described:
        raise source.error(("space",), "[space] needs at least one parameter, as a table [space.NAME]")
    parameters: dict[str, Parameter] = {}
    for name, values in cast(dict[str, Any], described).items():
        place: Place = ("space", name)
        every = {field: kinds for _, fields, _ in PARAMETER_KINDS.values() for field, kinds in fields.items()}
        kind = source.table(place, values, {"type": (str,), **every, "low": NUMBER, "high": NUMBER}, ("type",))["type"]
        if kind not in PARAMETER_KINDS:
            message = f"type in {table_title(place)} must be float, int or categorical, got {kind!r}"
            raise source.error((*place, "type"), message + suggestion(kind, PARAMETER_KINDS))
        make, fields, required = PARAMETER_KINDS[kind]
        table = source.table(place, values, {"type": (str,), **fields}, required)
        chosen = {field: value for field, value in table.items() if field != "type"}
        parameters[name] = source.build(place, make, **chosen)
    return source.build(("space",), lambda: Space(parameters))


def _ladder(source: TomlSource) -> Ladder:
    described = cast(list[Any], source.values["fidelities"])
    if isinstance(described, dict) and described:
        table = source.table(("fidelities",), described, RANGE_FIELDS, ("low", "high"))
        return source.build(("fidelities",), lambda **fields: Ladder(FidelityRange(**fields)), **table)
    if not isinstance(described, list) or not described:
        raise source.error(("fidelities",), "at least one fidelity is needed, as a table [[fidelities]]")
    fidelities: list[Fidelity] = []
    for level, values in enumerate(described):
        place: Place = ("fidelities", level)
        table = source.table(place, values, FIDELITY_FIELDS, ("value", "cost"))
        if isinstance(table["cost"], str) and table["cost"] != "measure":
            message = f"cost in {table_title(place)} must be a number or 'measure', got {table['cost']!r}"
            raise source.error((*place, "cost"), message)
        fidelities.append(source.build(place, Fidelity, **table))
    return source.build(("fidelities",), lambda: Ladder(fidelities))


def _constraints(source: TomlSource) -> Mapping[str, tuple[str, Number]]:
    described = source.values.get("constraints", {})
    if not isinstance(described, dict):
        raise source.error(("constraints",), f"[constraints] must be a table, got {described!r}")
    limits: tuple[Constraint, ...] = source.build(("constraints",), lambda: as_constraints(described))
    return {limit.name: (limit.relation, limit.bound) for limit in limits}


def _objective(source: TomlSource, space: Space) -> str | CommandObjective:
    place: Place = ("objective",)
    table = source.table(place, source.values["objective"], OBJECTIVE_FIELDS)
    if ("function" in table) == ("command" in table):
        raise source.error(place, "[objective] needs either function = 'module:name' or a command")
    if "function" in table:
        extra = next((name for name in table if name != "function"), None)
        if extra is not None:
            raise source.error((*place, extra), f"{extra} in [objective] belongs to a command, not to a function")
        if not FUNCTION.fullmatch(table["function"]):
            message = f"function in [objective] must be 'module:name', got {table['function']!r}"
            raise source.error((*place, "function"), message)
        return cast(str, table["function"])
    for name, words in (("command", table["command"]), ("env", list(table.get("env", {}).values()))):
        if isinstance(words, list) and not all(isinstance(word, str) for word in cast(list[Any], words)):
            raise source.error((*place, name), f"{name} in [objective] must be made of strings, got {words!r}")
    return source.build(
        place,
        lambda: CommandObjective(
            table["command"],
            table.get("result", LAST_LINE),
            table.get("workdir"),
            table.get("env"),
            names=space.names,
        ),
    )
