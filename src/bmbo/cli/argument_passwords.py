"""Keep passwords that stand on the command line out of the list of processes and out of messages."""

import json
import os
import sys
from collections.abc import Sequence

from bmbo.ledger.passwords import has_password, shown_url

CARRIER = "BMBO_COMMAND_LINE"
"""The environment variable that carries the words of the command line into the program that replaces this one."""


def words_without_passwords_in_sight() -> list[str]:
    """Return the words of the command line; if one holds a password, first replace this program by itself.

    Every user of a machine can read the words of a process. The new program has the same process id, and shows the
    words without passwords. The whole words are in its environment, which only its own user can read.
    """
    carried = os.environ.pop(CARRIER, None)
    if carried is not None:
        sys.argv[1:] = json.loads(carried)
        return sys.argv[1:]
    words = sys.argv[1:]
    # On Windows, a program that is replaced gets another process id, and a shell would not wait for it.
    if os.name == "posix" and any(map(has_password, words)):
        before = sys.orig_argv[: len(sys.orig_argv) - len(words)]
        environment = {**os.environ, CARRIER: json.dumps(words)}
        os.execve(sys.executable, [*before, *map(shown_url, words)], environment)  # noqa: S606 - this program again
    return words


def remember_passwords(words: Sequence[str]) -> None:
    """Note the passwords on a command line and in the environment, so that no message shows them."""
    for text in (*words, os.environ.get("BMBO_STORAGE", "")):
        shown_url(text)
    # A password with a space in it, not quoted for the shell, is torn into several words.
    for first, word in enumerate(words):
        rest = " ".join(words[first:])
        if "://" in word and "@" not in word and "@" in rest:
            torn = rest[: rest.rindex("@") + 1].split(" ")
            for part in torn[1:]:
                shown_url(f"x://:{part.rpartition('@')[0] or part}@x")
