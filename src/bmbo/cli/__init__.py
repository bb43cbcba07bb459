"""The command line: `bmbo run study.toml` and what belongs to it."""

import os
import re
import sys
import traceback
from collections.abc import Sequence

from bmbo.cli.arguments import UsageError, parser
from bmbo.cli.read_commands import best, export, status, trials
from bmbo.cli.run_commands import INTERRUPTED, OK, TERMINATED, Terminated, resume, run, worker

USER_ERROR = 1
"""Exit code of whatever the user can put right."""

COMMANDS = {
    "run": run,
    "resume": resume,
    "worker": worker,
    "status": status,
    "best": best,
    "trials": trials,
    "export": export,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and gives the exit code; a mistake of the user's is one sentence on stderr."""
    whole = False
    try:
        arguments = parser(COMMANDS).parse_args(argv)
        whole = arguments.traceback
        code = arguments.command(arguments)
        sys.stdout.flush()
    except UsageError as error:
        print(f"bmbo: {error}", file=sys.stderr)
        return USER_ERROR
    except KeyboardInterrupt as interrupt:
        print("bmbo: interrupted; what has finished is kept, and bmbo resume goes on", file=sys.stderr)
        return TERMINATED if isinstance(interrupt, Terminated) else INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has seen enough; the interpreter must not complain of it when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    # All: a page of a traceback helps only who asks for it.
    except Exception as error:
        print(without_passwords(traceback.format_exc() if whole else f"bmbo: {sentence(error)}"), file=sys.stderr)
        return USER_ERROR
    return code


def sentence(error: Exception) -> str:
    """What an exception says, in one line."""
    said = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    line = next((line.strip() for line in said.splitlines() if line.strip()), "")
    if isinstance(error, ValueError | TypeError | LookupError | OSError | ImportError | RuntimeError) and line:
        return line
    return f"{type(error).__name__}: {line} (--traceback shows where)"


def without_passwords(text: str) -> str:
    """A text in which no URL shows its password."""
    hidden = re.sub(r"(://[^:/@\s]*:)\S+@", r"\1***@", text)
    return re.sub(r"(?i)\b(password=)[^&\s'\"]+", r"\1***", hidden)
