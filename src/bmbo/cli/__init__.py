"""Run the command line: `bmbo run study.toml` and the other commands."""

import os
import sys
import traceback
from collections.abc import Sequence

from bmbo.cli.argument_passwords import remember_passwords, words_without_passwords_in_sight
from bmbo.cli.arguments import UsageError, parser
from bmbo.cli.change_commands import add, delete, drop, learn, recover, retry
from bmbo.cli.read_commands import best, export, status, trials
from bmbo.cli.report_commands import dashboard, report
from bmbo.cli.run_commands import INTERRUPTED, OK, TERMINATED, Terminated, resume, run, worker
from bmbo.cli.text_output import message_line, print_message
from bmbo.ledger import without_passwords

USER_ERROR = 1
"""The exit code after an error that the user can correct."""

COMMANDS = {
    "run": run,
    "resume": resume,
    "worker": worker,
    "add": add,
    "learn": learn,
    "retry": retry,
    "drop": drop,
    "recover": recover,
    "delete": delete,
    "status": status,
    "best": best,
    "trials": trials,
    "export": export,
    "report": report,
    "dashboard": dashboard,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code; print an error as one sentence on stderr.

    Example:
        >>> main(["status", "study.toml"])
    """
    show_traceback = False
    words = words_without_passwords_in_sight() if argv is None else list(argv)
    remember_passwords(words)
    try:
        arguments = parser(COMMANDS).parse_args(words)
        show_traceback = arguments.traceback
        code = arguments.command(arguments)
        sys.stdout.flush()
    except UsageError as error:
        print_message(without_passwords(str(error)))
        return USER_ERROR
    except KeyboardInterrupt as interrupt:
        print_message("interrupted; what has finished is kept, and bmbo resume goes on")
        return TERMINATED if isinstance(interrupt, Terminated) else INTERRUPTED
    except BrokenPipeError:
        # The reader of the output has closed it. Without this line the interpreter would complain at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    # Exceptions of every kind: a traceback is shown only with --traceback.
    except Exception as error:
        shown = traceback.format_exc() if show_traceback else message_line(error_sentence(error))
        print(without_passwords(shown), file=sys.stderr)
        return USER_ERROR
    return code


def error_sentence(error: Exception) -> str:
    """Return the message of an exception in one line."""
    said = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    line = next((line.strip() for line in said.splitlines() if line.strip()), "")
    if isinstance(error, ValueError | TypeError | LookupError | OSError | ImportError | RuntimeError) and line:
        return line
    return f"{type(error).__name__}: {line} (--traceback shows where)"
