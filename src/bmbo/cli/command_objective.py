"""Run any program as an objective: fill in a template of its command line, and read its result."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import IO, Any, cast

from bmbo.cli.reports_of_program import ReportsOfProgram
from bmbo.problem.number_checks import is_real
from bmbo.problem.objectives import plain_numbers
from bmbo.study.trial import Trial

LAST_LINE = "last line"
"""The result is the last line that the program prints."""

FILE = "file:"
"""Before the name of the file in which the program writes the result."""

SPECIAL: Mapping[str, Callable[[Trial], object]] = {
    "fidelity": lambda trial: trial.fidelity,
    "level": lambda trial: trial.level,
    "number": lambda trial: trial.number,
    "repeat": lambda trial: trial.repeat,
    "checkpoint_dir": lambda trial: trial.checkpoint_dir,
    "resume_from": lambda trial: trial.resume_from or "",
    "params_json": lambda trial: json.dumps(dict(trial.params)),
    "python": lambda _: sys.executable,
}
"""The placeholders beside the parameters and {result_file}."""

_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
Returned = float | tuple[float, ...]
"""What a program gave: a number, or one for each objective."""

# Only the end of the output is read, which is enough for one line of JSON.
_STDOUT_TAIL, _STDERR_TAIL = 1 << 18, 1 << 12
# The last lines of a traceback say what failed and where.
_ERROR_LINES = 3
# Waits until its parent ends and the pipe closes, then kills the process group; this also works after a kill -9.
_WATCHDOG = "import os, sys; sys.stdin.read(); os.killpg(int(sys.argv[1]), 9)"


class CommandError(RuntimeError):
    """Report that a program failed, or that its result could not be read."""


@dataclass(frozen=True)
class CommandObjective:
    """Run a program as an objective and read its result.

    The template may have these placeholders: {name} for each parameter, {fidelity}, {level}, {number}, {repeat},
    {checkpoint_dir}, {resume_from} (empty if there is no checkpoint), {params_json} (all parameters as one JSON
    object), {result_file} and {python} (this interpreter). Write {{ and }} for single braces. Numbers are written
    without loss, booleans as true and false. A word with a parameter that the configuration does not have is left out,
    and before a word that is nothing else also an option such as --depth.

    Args:
        template: the program and its arguments; a string is split like in a shell, but no shell runs it.
        result: "last line" if the last line of the output is a JSON number or an object with "value", or "file:NAME" if
            a file contains it. NAME may have placeholders. Without {number} or {checkpoint_dir} in NAME, the file is in
            a new folder for each trial, and {result_file} is its path.
        workdir: the folder in which the program runs; the working directory by default.
        env: environment variables to add; their values may have placeholders.
        names: the parameters of the study, to check the template now and not at the first trial; needed where
            parameters exist only sometimes.

    Raises:
        ValueError: The template or `result` cannot be used.

    Example:
        >>> objective = CommandObjective("./train --lr {lr} --epochs {fidelity}")
    """

    template: tuple[str, ...]
    result: str
    workdir: str | None
    env: tuple[tuple[str, str], ...]
    names: tuple[str, ...] = field(compare=False)

    def __init__(
        self,
        template: Iterable[str] | str,
        result: str = LAST_LINE,
        workdir: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        *,
        names: Iterable[str] | None = None,
    ) -> None:
        object.__setattr__(self, "template", _words(template))
        object.__setattr__(self, "result", result)
        object.__setattr__(self, "workdir", None if workdir is None else os.fspath(workdir))
        object.__setattr__(self, "env", tuple(sorted((env or {}).items())))
        object.__setattr__(self, "names", tuple(names or ()))
        if not (result == LAST_LINE or (result.startswith(FILE) and len(result) > len(FILE))):
            raise ValueError(f"result must be {LAST_LINE!r} or 'file:NAME', got {result!r}")
        used = self.placeholders
        if "result_file" in used and result == LAST_LINE:
            raise ValueError("{result_file} needs result = 'file:NAME', got result = 'last line'")
        if result != LAST_LINE and "result_file" not in used and not _is_own(result):
            raise ValueError(
                f"result {result!r} would be one file for all trials: "
                "pass {result_file} to the program, or put {number} or {checkpoint_dir} into its name"
            )
        if self.names:
            self.check(self.names)

    @property
    def placeholders(self) -> tuple[str, ...]:
        """Return all placeholders of the command line and the environment, in the order in which they are written."""
        texts = [*self.template, *(value for _, value in self.env)]
        return tuple(dict.fromkeys(name for text in texts for name in _placeholders(text)))

    @property
    def knows_its_level(self) -> bool:
        """Return whether the program is told at which fidelity it runs."""
        return not {"fidelity", "level"}.isdisjoint(self.placeholders)

    def check(self, names: Iterable[str]) -> None:
        """Raise ValueError if the template does not fit the parameters of a study."""
        names = list(names)
        taken = [name for name in names if name in SPECIAL or name == "result_file"]
        if taken:
            raise ValueError(f"parameter {taken[0]!r} has the name of a placeholder of bmbo's own: call it otherwise")
        known = [*names, *SPECIAL, "result_file"]
        for name in (*self.placeholders, *_placeholders(self.result)):
            if name not in known:
                near = get_close_matches(name, known, n=1)
                hint = f"; did you mean {{{near[0]}}}?" if near else ""
                listed = ", ".join(f"{{{other}}}" for other in known)
                raise ValueError(f"the command uses {{{name}}}, but there is only {listed}{hint}")
        unused = [name for name in names if name not in self.placeholders]
        if unused and "params_json" not in self.placeholders:
            raise ValueError(
                f"the command never uses parameter {', '.join(map(repr, unused))}: "
                f"add {{{unused[0]}}}, or {{params_json}} for all of them"
            )

    def __call__(self, trial: Trial) -> Returned:
        """Run the program for one trial and return its value; raise CommandError if it fails."""
        self.check(self.names or trial.params)
        absent = frozenset(self.names).difference(trial.params)
        with self._values(trial) as values, _output() as out, _output() as err:
            words = [_filled(word, values) for word in _without(self.template, absent)]
            env = {name: _filled(value, values) for name, value in self.env if absent.isdisjoint(_placeholders(value))}
            reports = ReportsOfProgram(trial, out)
            code = _run(words, self.workdir, {**os.environ, **env}, err, reports)
            if reports.last is not None and trial.stopped_at is not None:
                return reports.last
            if code:
                raise CommandError(f"the command {_ending(code)}{_said(err)}")
            if self.result == LAST_LINE:
                return _noted(
                    trial, *_value(_tail(out, _STDOUT_TAIL), "the last line it printed", trial.num_objectives)
                )
            path = Path(str(values["result_file"]))
            if not path.is_file():
                raise CommandError(f"the command ended well but wrote no {path.name}{_said(err)}")
            return _noted(trial, *_value(path.read_text(errors="replace"), path.name, trial.num_objectives))

    @contextmanager
    def _values(self, trial: Trial) -> Generator[dict[str, object], None, None]:
        """Yield the values of the placeholders for one trial."""
        values: dict[str, object] = dict(trial.params)
        needed = {*self.placeholders, *_placeholders(self.result)}
        # Only those that are used, because asking for the checkpoint folder makes it.
        values |= {name: value(trial) for name, value in SPECIAL.items() if name in needed}
        with tempfile.TemporaryDirectory(prefix="bmbo-") as folder:
            if self.result != LAST_LINE:
                name = self._file_name(values)
                base = Path(self.workdir or ".") if _is_own(self.result) else Path(folder)
                path = (base / name).absolute()
                path.parent.mkdir(parents=True, exist_ok=True)
                # An earlier attempt at this trial may have left a result.
                path.unlink(missing_ok=True)
                values["result_file"] = path
            yield values

    def _file_name(self, values: Mapping[str, object]) -> str:
        """Return the name of the result file; raise CommandError if a value would move it to another folder."""
        template = self.result.removeprefix(FILE)
        for name in _placeholders(template):
            value = _written(values.get(name, ""))
            if name != "checkpoint_dir" and (not value or re.search(r"[/\\\0]", value)):
                raise CommandError(f"the result file {template!r} cannot be made with {name}={value!r}")
        filled = _filled(template, values)
        # A folder above may be meant by the template, but not by values.
        if Path(filled).parts.count("..") > Path(template).parts.count("..") or Path(filled).name in ("", ".", ".."):
            raise CommandError(f"the result file {template!r} would be {filled!r}, which is no file in its folder")
        return filled


def _without(template: Sequence[str], absent: frozenset[str]) -> list[str]:
    """Return the words without those of absent parameters, and without the options that only such a word follows."""
    words: list[str] = []
    for word in template:
        if absent.isdisjoint(_placeholders(word)):
            words.append(word)
        elif word in {f"{{{name}}}" for name in absent} and len(words) > 1 and words[-1].startswith("-"):
            words.pop()
    return words


def _words(template: Iterable[str] | str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(template) if isinstance(template, str) else template)
    except ValueError as error:
        raise ValueError(f"the command {template!r} cannot be split into words: {error}") from None
    if not words or not words[0]:
        raise ValueError(f"a command needs at least the name of a program, got {template!r}")
    return words


def _is_own(result: str) -> bool:
    """Return whether the name of the result file differs from trial to trial."""
    return not {"number", "checkpoint_dir"}.isdisjoint(_placeholders(result))


def _placeholders(text: str) -> Iterator[str]:
    for token in _TOKEN.finditer(text):
        if token.group() in ("{", "}"):
            raise ValueError(f"a single {token.group()!r} in {text!r}: double it, unless it belongs to a placeholder")
        if token.group(1) is not None:
            yield token.group(1)


def _filled(text: str, values: Mapping[str, object]) -> str:
    def meant(token: re.Match[str]) -> str:
        return token.group()[0] if token.group(1) is None else _written(values[token.group(1)])

    return _TOKEN.sub(meant, text)


def _written(value: object) -> str:
    return json.dumps(value) if value is None or isinstance(value, bool | int | float) else str(value)


@contextmanager
def _output() -> Generator[IO[bytes], None, None]:
    # A file and not a pipe, because children of the program may keep a pipe open, and the output may be long.
    with tempfile.TemporaryFile() as file:
        yield file


def _run(
    words: list[str],
    workdir: str | None,
    env: Mapping[str, str],
    err: IO[bytes],
    reports: ReportsOfProgram,
) -> int:
    """Run a program and return its exit code; its process group ends with this call or with this process."""
    if workdir is not None and not Path(workdir).is_dir():
        raise CommandError(f"the command's workdir {workdir!r} is not a folder")
    try:
        # A session of its own, so that Ctrl-C in the terminal does not reach it: running trials may finish.
        process = subprocess.Popen(  # noqa: S603 - the user's own command, without a shell
            words,
            cwd=workdir,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=reports.out,
            stderr=err,
            start_new_session=True,
        )
    except FileNotFoundError:
        raise CommandError(f"the program {words[0]!r} was not found; is it installed and on the PATH?") from None
    except OSError as error:
        raise CommandError(f"the program {words[0]!r} could not be started: {error.strerror or error}") from None
    watchdog = None
    try:
        watchdog = _watched(process)
        with reports.followed(lambda: _end(process)):
            return process.wait()
    finally:
        # Also kills processes that the program left running, and also after an interrupt.
        _kill(process)
        if watchdog is not None:
            watchdog.kill()
            watchdog.communicate()


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask a program to end, so that it can save a checkpoint."""
    with suppress(ProcessLookupError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGTERM)
        else:
            process.terminate()


def _watched(process: subprocess.Popen[bytes]) -> subprocess.Popen[bytes] | None:
    if not hasattr(os, "killpg"):
        return None
    words = [sys.executable, "-I", "-S", "-c", _WATCHDOG, str(process.pid)]
    return subprocess.Popen(  # noqa: S603 - our own program
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _kill(process: subprocess.Popen[bytes]) -> None:
    try:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    except ProcessLookupError:
        # All processes of the group have ended.
        return
    process.wait()


def _tail(file: IO[bytes], size: int) -> str:
    file.seek(0, os.SEEK_END)
    file.seek(max(0, file.tell() - size))
    return file.read().decode(errors="replace")


def _ending(code: int) -> str:
    if code > 0:
        return f"ended with exit code {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    return f"was killed by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")


def _said(err: IO[bytes]) -> str:
    lines = [line.strip() for line in _tail(err, _STDERR_TAIL).splitlines() if line.strip()]
    return f": {' | '.join(lines[-_ERROR_LINES:])}" if lines else " and wrote nothing to stderr"


def _noted(trial: Trial, value: Returned, more: Mapping[str, Any]) -> Returned:
    """Return the value of a result, and note on the trial what else the program said."""
    for name, noted in more.items():
        trial.set_user_attr(name, noted)
    return value


def _value(text: str, source: str, num_objectives: int) -> tuple[Returned, Mapping[str, Any]]:
    """Return the number in a JSON text or in its last line, and what is beside it; raise CommandError without one.

    A list of numbers takes the place of the number where there are several objectives.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise CommandError(f"the command ended well, but {source} has no result: it is empty")
    for candidate in (text, lines[-1]):
        try:
            found: Any = json.loads(candidate)
        except ValueError:
            continue
        more = dict(cast(dict[str, Any], found)) if isinstance(found, dict) else {}
        value = more.pop("value", None) if isinstance(found, dict) else found
        if num_objectives > 1:
            several = plain_numbers(value)
            if several is not None and len(several) == num_objectives:
                return several, more
        elif is_real(value):
            return float(value), more
    # Only the last line is shown, because the output may be long.
    wanted = "number" if num_objectives == 1 else f"list of {num_objectives} numbers"
    raise CommandError(
        f'{source} must be a JSON {wanted} or an object with a {wanted} as "value", got {lines[-1][:200]!r}'
    )
