"""The program of a worker process, started by its path so that it need not import the package, which takes seconds.

Messages from it are plain tuples, in this order for each job: (STARTED,), then (DONE, seconds, payload) or
(FAILED, seconds, error, payload), where a payload is the pickled value or exception and None if it cannot be pickled.
"""

import os
import pickle
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import no_type_check

STARTED, DONE, FAILED = "started", "done", "failed"

LONGEST_ERROR = 500
"""Characters of an exception's text that are kept: enough to recognise it by, in a table."""


def describe(error: BaseException) -> str:
    """An exception in one line."""
    try:
        text = " ".join(str(error).split())
    # Its text is the user's code.
    except Exception:
        text = ""
    shortened = text if len(text) <= LONGEST_ERROR else text[: LONGEST_ERROR - 3] + "..."
    return f"{type(error).__name__}: {shortened}" if text else type(error).__name__


# Ray knows a generator by its function, which a checker of types at run time would wrap.
@no_type_check
def messages(payload: bytes) -> Iterator[tuple[object, ...]]:
    """Runs a pickled job; nothing but the end of the process escapes."""
    try:
        job: Callable[[], object] = pickle.loads(payload)  # noqa: S301 - from the driver that started us
    # Loading imports the user's modules, which may do anything.
    except BaseException as error:
        kind, seconds, text, exception = _failed(0.0, error)
        yield kind, seconds, f"the job could not be loaded: {text}", exception
        return
    yield (STARTED,)
    start = time.monotonic()
    try:
        value = job()
    # Also what would end a process: it is the job's outcome here.
    except BaseException as error:
        yield _failed(time.monotonic() - start, error)
    else:
        yield _done(time.monotonic() - start, value)


def pickled(value: object) -> bytes:
    """A value as bytes, with functions and classes that only the driver's script knows."""
    import cloudpickle  # noqa: PLC0415 - it may be found only on the driver's path, which comes with a message

    return cloudpickle.dumps(value)


def _done(seconds: float, value: object) -> tuple[object, ...]:
    try:
        return DONE, seconds, pickled(value)
    # Of any kind: pickling runs the value's own code.
    except Exception as error:
        reason = f"the result of type {type(value).__name__} cannot be sent back ({describe(error)}); return a number"
        return FAILED, seconds, reason, None


def _failed(seconds: float, error: BaseException) -> tuple[object, ...]:
    text = describe(error)
    try:
        # Pickling drops the traceback; a note does not get lost.
        error.add_note("In the worker:\n" + "".join(traceback.format_exception(error)).rstrip())
        return FAILED, seconds, text, pickled(error)
    # Likewise; the text remains.
    except Exception:
        return FAILED, seconds, text, None


def _watch(lifeline: int, parent: int) -> None:
    """Kills this process and all that it started once the driver is gone."""
    while os.getppid() == parent:
        # Nothing is ever written: readable means that the driver's end was closed. A process that the driver forked
        # may hold that end open, hence the parent's number.
        if select.select([lifeline], [], [], 1.0)[0]:
            break
    os.killpg(os.getpgrp(), signal.SIGKILL)


def _let_the_kernel_watch(lifeline: int) -> None:
    """The same by a signal of the kernel: native code that keeps the interpreter's lock starves a thread."""
    import fcntl  # noqa: PLC0415 - Windows has none, and other executors use this module

    if sys.platform == "linux":
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)


def _serve(connection: Connection) -> None:
    sys.path[:], sys.argv[:] = pickle.loads(connection.recv_bytes())  # noqa: S301 - from the driver that started us
    while True:
        for message in messages(connection.recv_bytes()):
            connection.send_bytes(pickle.dumps(message))


def main(connection_fd: int, lifeline: int, parent: int) -> None:
    """Serves jobs until the driver closes its end."""
    for descriptor in (connection_fd, lifeline):
        os.set_inheritable(descriptor, False)
    _let_the_kernel_watch(lifeline)
    threading.Thread(target=_watch, args=(lifeline, parent), daemon=True).start()
    try:
        _serve(Connection(connection_fd))
    except (EOFError, ConnectionError):
        return


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:4]))
