"""A study written down: study.toml, read and checked, with the offending line in every error."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import isfunction
from pathlib import Path
from typing import Any, Literal, cast

from bmbo import methods
from bmbo.cli.command_objective import LAST_LINE, Command
from bmbo.cli.toml_source import Kinds, Place, TomlError, TomlSource, nearest, shown
from bmbo.problem import Categorical, Fidelity, Float, Int, Ladder, Parameter, Space
from bmbo.protocols import Policy
from bmbo.study.checkpoints import KEEPS

FUNCTION = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
"""How an objective is named: module:function."""

NUMBER: Kinds = (int, float)
STUDY: Mapping[str, Kinds] = {
    "name": (str,),
    "storage": (str,),
    "direction": (str,),
    "seed": (int,),
    "method": (str,),
}
PARAMETERS: Mapping[str, tuple[Callable[..., Parameter], Mapping[str, Kinds], tuple[str, ...]]] = {
    "float": (Float, {"low": NUMBER, "high": NUMBER, "log": (bool,), "step": NUMBER}, ("low", "high")),
    "int": (Int, {"low": (int,), "high": (int,), "log": (bool,), "step": (int,)}, ("low", "high")),
    "categorical": (Categorical, {"choices": (list,), "ordered": (bool,)}, ("choices",)),
}
FIDELITY: Mapping[str, Kinds] = {"value": (int, float, str, bool), "cost": (int, float, str), "name": (str,)}
OBJECTIVE: Mapping[str, Kinds] = {
    "function": (str,),
    "command": (str, list),
    "result": (str,),
    "workdir": (str,),
    "env": (dict,),
}
RUN: Mapping[str, Kinds] = {
    "total_cost": NUMBER,
    "n_trials": (int,),
    "timeout": NUMBER,
    "batch_size": (int,),
    "n_workers": (int,),
    "executor": (str,),
    "asynchronous": (bool,),
    "trial_timeout": NUMBER,
    "catch": (bool,),
    "keep_checkpoints": (str,),
}
TABLES: Mapping[str, Kinds] = {
    "study": (dict,),
    "space": (dict,),
    "fidelities": (list,),
    "objective": (dict,),
    "run": (dict,),
}
METHODS: Mapping[str, Callable[[], Policy]] = {
    name: make
    for name, make in vars(methods).items()
    if isfunction(make) and make.__module__ == methods.__name__ and not name.startswith("_")
}
"""Every recipe, by the name of its function."""
EXECUTORS = ("auto", "inline", "process", "ray")


@dataclass(frozen=True)
class RunOptions:
    """How a study is run: the arguments of `Study.optimize` that can be written down."""

    total_cost: int | float | None = None
    n_trials: int | None = None
    timeout: int | float | None = None
    batch_size: int = 1
    n_workers: int = 1
    executor: str = "auto"
    asynchronous: bool = False
    trial_timeout: int | float | None = None
    # A run of days should not end with its first failing configuration.
    catch: bool = True
    keep_checkpoints: str = "all"

    def __post_init__(self) -> None:
        for name in ("total_cost", "n_trials", "timeout", "trial_timeout", "batch_size", "n_workers"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be positive, got {value!r}")
        for name, known in (("executor", EXECUTORS), ("keep_checkpoints", KEEPS)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, got {getattr(self, name)!r}")


@dataclass(frozen=True)
class StudyFile:
    """All that a study file says; `objective` is the name of a function, or a command."""

    path: Path
    name: str
    space: Space
    ladder: Ladder
    objective: str | Command
    # Not shown: it may have a password in it.
    storage: str | None = field(default=None, repr=False)
    direction: Literal["minimize", "maximize"] = "minimize"
    seed: int = 0
    method: str = "bmbo_gp"
    run: RunOptions = field(default_factory=RunOptions)

    @classmethod
    def read(cls, path: str | Path) -> "StudyFile":
        """The study in a TOML file; a TomlError in one sentence if anything in it is not as it should be."""
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise TomlError(f"there is no study file {path}") from None
        except (OSError, UnicodeDecodeError) as error:
            raise TomlError(f"{path} cannot be read: {error}") from None
        return _study(TomlSource(path, text))


def _study(source: TomlSource) -> StudyFile:
    for name in source.values:
        if name not in TABLES:
            raise source.error((name,), f"unknown table [{name}]{nearest(name, TABLES)}")
    for name in ("study", "space", "fidelities", "objective"):
        if name not in source.values:
            raise source.error((), f"{'[[fidelities]]' if name == 'fidelities' else f'[{name}]'} is missing")
    study = source.table(("study",), source.values["study"], STUDY, ("name",))
    for name in ("name", "storage"):
        if name in study and not study[name].strip():
            raise source.error(("study", name), f"{name} in [study] must not be empty")
    if study.get("direction", "minimize") not in ("minimize", "maximize"):
        message = f"direction in [study] must be 'minimize' or 'maximize', got {study['direction']!r}"
        raise source.error(("study", "direction"), message)
    if study.get("seed", 0) < 0:
        raise source.error(("study", "seed"), f"seed in [study] must be at least 0, got {study['seed']}")
    if study.get("method", "bmbo_gp") not in METHODS:
        message = f"unknown method {study['method']!r} in [study]{nearest(study['method'], METHODS)}"
        raise source.error(("study", "method"), message)
    space = _space(source)
    run = source.table(("run",), source.values.get("run", {}), RUN)
    return StudyFile(
        path=source.path,
        space=space,
        ladder=_ladder(source),
        objective=_objective(source, space),
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
        every = {field: kinds for _, fields, _ in PARAMETERS.values() for field, kinds in fields.items()}
        kind = source.table(place, values, {"type": (str,), **every, "low": NUMBER, "high": NUMBER}, ("type",))["type"]
        if kind not in PARAMETERS:
            message = f"type in {shown(place)} must be float, int or categorical, got {kind!r}"
            raise source.error((*place, "type"), message + nearest(kind, PARAMETERS))
        make, fields, required = PARAMETERS[kind]
        table = source.table(place, values, {"type": (str,), **fields}, required)
        chosen = {field: value for field, value in table.items() if field != "type"}
        parameters[name] = source.build(place, make, **chosen)
    return Space(parameters)


def _ladder(source: TomlSource) -> Ladder:
    described = cast(list[Any], source.values["fidelities"])
    if not isinstance(described, list) or not described:
        raise source.error(("fidelities",), "at least one fidelity is needed, as a table [[fidelities]]")
    fidelities: list[Fidelity] = []
    for level, values in enumerate(described):
        place: Place = ("fidelities", level)
        table = source.table(place, values, FIDELITY, ("value", "cost"))
        if isinstance(table["cost"], str) and table["cost"] != "measure":
            message = f"cost in {shown(place)} must be a number or 'measure', got {table['cost']!r}"
            raise source.error((*place, "cost"), message)
        fidelities.append(source.build(place, Fidelity, **table))
    return source.build(("fidelities",), lambda: Ladder(fidelities))


def _objective(source: TomlSource, space: Space) -> str | Command:
    place: Place = ("objective",)
    table = source.table(place, source.values["objective"], OBJECTIVE)
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
        lambda: Command(
            table["command"],
            table.get("result", LAST_LINE),
            table.get("workdir"),
            table.get("env"),
            names=space.names,
        ),
    )
