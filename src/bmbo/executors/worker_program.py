"""Run jobs inside a worker process and send back their outcomes.

This file is started as a program, by its path, so that a worker need not import the package, which takes seconds.

Its messages are plain tuples. For each job they are (STARTED,), then (DONE, seconds, payload) or
(FAILED, seconds, error, payload). A payload is the pickled value or exception, or None if it cannot be pickled. On the
connection to the driver, a job and each of its messages come in a pair with the ticket of the job.
"""

import contextlib
import ctypes
import os
import pickle
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterator
from multiprocessing.connection import Connection
from typing import no_type_check

PR_SET_CHILD_SUBREAPER = 36
"""The number of a request to Linux, from its header prctl.h."""

STARTED, DONE, FAILED = "started", "done", "failed"

LONGEST_ERROR = 500
"""How many characters of the text of an exception are kept: enough to recognise it in a table."""


def error_line(error: BaseException) -> str:
    """Return an exception as one line of text."""
    try:
        text = " ".join(str(error).split())
    # Making the text may run the user's code, which may fail.
    except Exception:
        text = ""
    shortened = text if len(text) <= LONGEST_ERROR else text[: LONGEST_ERROR - 3] + "..."
    return f"{type(error).__name__}: {shortened}" if text else type(error).__name__


# Ray recognises a generator by its function, which a type checker at run time would wrap.
@no_type_check
def run_job(payload: bytes) -> Iterator[tuple[object, ...]]:
    """Run a pickled job and yield its messages; every exception of the job becomes a message."""
    try:
        job: Callable[[], object] = pickle.loads(payload)  # noqa: S301 - from the driver that started us
    # Exceptions of every kind, because loading imports the user's modules.
    except BaseException as error:
        kind, seconds, text, exception = _failed(0.0, error)
        yield kind, seconds, f"the job could not be loaded: {text}", exception
        return
    yield (STARTED,)
    start = time.monotonic()
    try:
        with only_here():
            value = job()
    # Also exceptions that would end a process, such as SystemExit: here they are the outcome of the job.
    except BaseException as error:
        yield _failed(time.monotonic() - start, error)
    else:
        yield _done(time.monotonic() - start, value)


@contextlib.contextmanager
def only_here() -> Generator[None, None, None]:
    """End every process that was forked inside this context, where it leaves the context.

    A job that forks returns twice. The copy has all that its parent has: without this, it would answer for the job of
    its parent, and go on as a second worker or a second planner.
    """
    here, code = os.getpid(), 0
    try:
        yield
    except BaseException as error:
        code = error.code if isinstance(error, SystemExit) and isinstance(error.code, int) else 1
        if os.getpid() != here and not isinstance(error, SystemExit):
            traceback.print_exception(error)
        raise
    finally:
        if os.getpid() != here:
            # As the processes of multiprocessing end: what they have written appears, and nothing is cleaned up twice.
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(Exception):
                    stream.flush()
            os._exit(code & 0xFF)


def pickled(value: object) -> bytes:
    """Return a value as bytes, together with functions and classes that only the driver's script knows."""
    import cloudpickle  # noqa: PLC0415 - the import path of the driver arrives with the first message

    return cloudpickle.dumps(value)


def _done(seconds: float, value: object) -> tuple[object, ...]:
    try:
        return DONE, seconds, pickled(value)
    # Exceptions of every kind, because pickling runs the code of the value's class.
    except Exception as error:
        reason = f"the result of type {type(value).__name__} cannot be sent back ({error_line(error)}); return a number"
        return FAILED, seconds, reason, None


def _failed(seconds: float, error: BaseException) -> tuple[object, ...]:
    text = error_line(error)
    try:
        # Pickling drops the traceback, but keeps notes.
        error.add_note("In the worker:\n" + "".join(traceback.format_exception(error)).rstrip())
        return FAILED, seconds, text, pickled(error)
    # Exceptions of every kind, as above; the text is sent without the exception.
    except Exception:
        return FAILED, seconds, text, None


def _watch(lifeline: int, parent: int) -> None:
    """Kill this process and all processes that it started as soon as the driver has ended."""
    while os.getppid() == parent:
        # Nobody writes to the pipe, so it becomes readable only when the driver's end is closed. A process that the
        # driver forked may hold that end open; therefore the parent's process id is checked too.
        if select.select([lifeline], [], [], 1.0)[0]:
            break
    os.killpg(os.getpgrp(), signal.SIGKILL)


def _let_the_kernel_watch(lifeline: int) -> None:
    """Let the kernel kill the process group when the driver has ended.

    The thread of `_watch` is not enough: it does not run while native code keeps the interpreter's lock.
    """
    import fcntl  # noqa: PLC0415 - missing on Windows, where other executors use this module

    if sys.platform == "linux":
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)


def _keep_orphans() -> None:
    """Become the parent of processes whose own parent ends, so that the driver finds daemons among our descendants.

    Only Linux can do this.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _serve(connection: Connection) -> None:
    sys.path[:], sys.argv[:] = pickle.loads(connection.recv_bytes())  # noqa: S301 - from the driver that started us
    while True:
        ticket, payload = pickle.loads(connection.recv_bytes())  # noqa: S301 - from the driver that started us
        for message in run_job(payload):
            connection.send_bytes(pickle.dumps((ticket, message)))


def main(connection_fd: int, lifeline: int, parent: int) -> None:
    """Run the jobs that the driver sends, until it closes the connection."""
    for descriptor in (connection_fd, lifeline):
        os.set_inheritable(descriptor, False)
    _let_the_kernel_watch(lifeline)
    _keep_orphans()
    threading.Thread(target=_watch, args=(lifeline, parent), daemon=True).start()
    try:
        _serve(Connection(connection_fd))
    except (EOFError, ConnectionError):
        return


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:4]))
