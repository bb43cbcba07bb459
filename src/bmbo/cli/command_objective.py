"""Any program as an objective: a template of its command line, run without a shell."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import IO, Any, cast

from bmbo.study.trial import Trial

LAST_LINE = "last line"
FILE = "file:"
SPECIAL: Mapping[str, Callable[[Trial], object]] = {
    "fidelity": lambda trial: trial.fidelity,
    "level": lambda trial: trial.level,
    "number": lambda trial: trial.number,
    "checkpoint_dir": lambda trial: trial.checkpoint_dir,
    "resume_from": lambda trial: trial.resume_from or "",
    "params_json": lambda trial: json.dumps(dict(trial.params)),
    "python": lambda _: sys.executable,
}
"""What a template may use beside the parameters and {result_file}."""

_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
# Enough for any one line of JSON; a chatty program's whole output is never read.
_STDOUT_TAIL, _STDERR_TAIL = 1 << 18, 1 << 12
# A traceback's last lines say where and what.
_ERROR_LINES = 3
# Waits until the pipe from its parent closes, then kills the group: also after a kill -9 of the parent.
_WATCHDOG = "import os, sys; sys.stdin.read(); os.killpg(int(sys.argv[1]), 9)"


class CommandError(RuntimeError):
    """A program that failed, or that said nothing to be understood."""


@dataclass(frozen=True)
class Command:
    """An objective that runs a program and reads what it reports.

    Placeholders: {name} of each parameter, {fidelity}, {level}, {number}, {checkpoint_dir}, {resume_from} (empty when
    there is none), {params_json} (all parameters as one JSON object), {result_file}, {python} (this interpreter);
    doubled braces stand for themselves. Numbers are written so that they read back exactly; booleans as true and false.

    Args:
        template: the program and its arguments; a string is split as a shell would, but no shell runs it.
        result: "last line": the last line printed is a JSON number, or an object with "value"; "file:NAME": a file
            with the same. NAME may have placeholders; a plain name lies in a fresh folder, known by {result_file}.
        workdir: where it runs; the working directory by default.
        env: environment variables to add, whose values may have placeholders.
        names: of the study's parameters, to check the template against now rather than at the first trial.
    """

    template: tuple[str, ...]
    result: str
    workdir: str | None
    env: tuple[tuple[str, str], ...]

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
        if names is not None:
            self.check(names)

    @property
    def placeholders(self) -> tuple[str, ...]:
        """All that the command line and the environment use, in the order in which they are written."""
        texts = [*self.template, *(value for _, value in self.env)]
        return tuple(dict.fromkeys(name for text in texts for name in _placeholders(text)))

    def check(self, names: Iterable[str]) -> None:
        """Refuses a template that does not fit the parameters of a study."""
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

    def __call__(self, trial: Trial) -> float:
        """Runs the program for one trial."""
        self.check(trial.params)
        with self._values(trial) as values, _output() as out, _output() as err:
            words = [_filled(word, values) for word in self.template]
            env = {name: _filled(value, values) for name, value in self.env}
            code = _run(words, self.workdir, {**os.environ, **env}, out, err)
            if code:
                raise CommandError(f"the command {_ending(code)}{_said(err)}")
            if self.result == LAST_LINE:
                return _value(_tail(out, _STDOUT_TAIL), "the last line it printed")
            path = Path(str(values["result_file"]))
            if not path.is_file():
                raise CommandError(f"the command ended well but wrote no {path.name}{_said(err)}")
            return _value(path.read_text(errors="replace"), path.name)

    @contextmanager
    def _values(self, trial: Trial) -> Generator[dict[str, object], None, None]:
        """What the placeholders stand for in one trial."""
        values: dict[str, object] = dict(trial.params)
        needed = {*self.placeholders, *_placeholders(self.result)}
        # A checkpoint folder is made when it is asked for.
        values |= {name: value(trial) for name, value in SPECIAL.items() if name in needed}
        with tempfile.TemporaryDirectory(prefix="bmbo-") as folder:
            if self.result != LAST_LINE:
                name = _filled(self.result.removeprefix(FILE), values)
                base = Path(self.workdir or ".") if _is_own(self.result) else Path(folder)
                path = (base / name).absolute()
                path.parent.mkdir(parents=True, exist_ok=True)
                # What an earlier attempt at this trial left is not this one's result.
                path.unlink(missing_ok=True)
                values["result_file"] = path
            yield values


def _words(template: Iterable[str] | str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(template) if isinstance(template, str) else template)
    except ValueError as error:
        raise ValueError(f"the command {template!r} cannot be split into words: {error}") from None
    if not words or not words[0]:
        raise ValueError(f"a command needs at least the name of a program, got {template!r}")
    return words


def _is_own(result: str) -> bool:
    """Whether each trial has a result file of its own by its name alone."""
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
    # A file, not a pipe: a program's own children may keep a pipe open after its end, and its output may be long.
    with tempfile.TemporaryFile() as file:
        yield file


def _run(words: list[str], workdir: str | None, env: Mapping[str, str], out: IO[bytes], err: IO[bytes]) -> int:
    """Exit code of a program in a process group of its own, which does not outlive this call or this process."""
    if workdir is not None and not Path(workdir).is_dir():
        raise CommandError(f"the command's workdir {workdir!r} is not a folder")
    try:
        # Its own session: Ctrl-C in the terminal is ours to answer, and running trials are awaited.
        process = subprocess.Popen(  # noqa: S603 (the user's own command, without a shell)
            words, cwd=workdir, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
        )
    except FileNotFoundError:
        raise CommandError(f"the program {words[0]!r} was not found; is it installed and on the PATH?") from None
    except OSError as error:
        raise CommandError(f"the program {words[0]!r} could not be started: {error.strerror or error}") from None
    watchdog = None
    try:
        watchdog = _watched(process)
        return process.wait()
    finally:
        # Also what it left running, and also when the wait was interrupted.
        _kill(process)
        if watchdog is not None:
            watchdog.kill()
            watchdog.communicate()


def _watched(process: subprocess.Popen[bytes]) -> subprocess.Popen[bytes] | None:
    if not hasattr(os, "killpg"):
        return None
    words = [sys.executable, "-I", "-S", "-c", _WATCHDOG, str(process.pid)]
    return subprocess.Popen(  # noqa: S603 (our own words)
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
        # All of the group have ended.
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


def _value(text: str, source: str) -> float:
    """The number in a JSON text, or in its last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise CommandError(f"the command ended well, but {source} has no result: it is empty")
    for candidate in (text, lines[-1]):
        try:
            found: Any = json.loads(candidate)
        except ValueError:
            continue
        value = cast(dict[str, Any], found).get("value") if isinstance(found, dict) else found
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    # A line is shown, not a page.
    raise CommandError(f'{source} must be a JSON number or an object with a number as "value", got {lines[-1][:200]!r}')
