"""Make study files that are cut off, torn, foreign, newer or hostile, and command lines that fit nothing."""

import re

from hypothesis import strategies as st

from tests.fuzz.case import Case

# Its module does not exist, so that a file which is right by chance is refused too.
FILE = """\
[study]
name = "study"
storage = "sqlite:///study.db"
direction = "minimize"
seed = 3
[space.x]
type = "float"
low = 1e-5
high = 0.1
log = true
[space.n]
type = "int"
low = 1
high = 9
[space.kind]
type = "categorical"
choices = ["a", "b", 3]
[[fidelities]]
value = 1
cost = 1
[[fidelities]]
value = "full"
cost = 5
[objective]
function = "no_such_module_anywhere:train"
[run]
n_trials = 6
total_cost = 100
"""
HOSTILE = (
    "1e999", "-1", "nan", "inf", "10" + "0" * 400, "9" * 5000, "5e-324", "true", '""', '"\\u0000"', '"\\u001b[2J"',
    "[]", "[[[]]]", "[" * 5000, "{}", "{ a = { b = 1 } }", "1979-05-27T07:32:00Z", '"../../etc/passwd"', '"{x}"',
    '"x/lease"', '"__import__(\'os\')"', "'''", '"measure"', '"' + "n" * 300 + '"', "0x7fffffffffffffff", "-0.0",
    '"postgresql://me:a@b@c/d"', '"sqlite://"', '"mysql://"', '"os:system"', '"$(reboot)"', "[1, \"a\", true]",
)  # fmt: skip
JUNK = st.binary(max_size=40) | st.text(max_size=40).map(lambda text: text.encode(errors="replace"))


@st.composite
def changed_files(draw: st.DrawFn) -> bytes:
    """Return a study file with one to three things changed."""
    content = FILE.encode()
    for _ in range(draw(st.integers(1, 3))):
        change = draw(st.sampled_from(["value", "value", "cut", "insert", "delete", "double", "replace"]))
        place, end = sorted((draw(st.integers(0, len(content))), draw(st.integers(0, len(content)))))
        if change == "value":
            lines = content.splitlines(keepends=True) or [b""]
            which = draw(st.sampled_from([n for n, line in enumerate(lines) if b" = " in line] or [0]))
            written = re.sub(rb"= .*", b"= @", lines[which]).replace(b"@", draw(st.sampled_from(HOSTILE)).encode())
            content = b"".join([*lines[:which], written, *lines[which + 1 :]])
        elif change == "cut":
            content = content[:place]
        elif change == "insert":
            content = content[:place] + draw(JUNK) + content[place:]
        elif change == "delete":
            content = content[:place] + content[end:]
        elif change == "double":
            content = content[:end] + content[place:]
        else:
            content = content[:place] + draw(JUNK) + content[end:]
    return content


def study_files() -> st.SearchStrategy[Case]:
    """Return cases of study files; the storage does not exist either."""
    commands = st.sampled_from(["run", "status", "worker", "resume", "best", "trials", "export", "report", "retry"])
    return st.builds(
        lambda content, command: Case("study file", (command, "study.toml"), {"study.toml": content}),
        changed_files(),
        commands,
    )


COMMANDS = ["run", "resume", "worker", "add", "retry", "drop", "delete", "status", "best", "trials", "export", "report"]
OPTIONS = (
    "--storage", "--study", "--objective", "--table", "--total-cost", "--n-trials", "--timeout", "--batch-size",
    "--n-workers", "--executor", "--asynchronous", "--trial-timeout", "--max-failures", "--method", "--grace",
    "--no-plan", "--state", "--level", "--format", "--output", "--out", "--yes", "--json", "--refund", "--failed",
    "--trials", "--no-model", "--st", "--n", "--keep-checkpoints",
)  # fmt: skip
VALUES = (
    "sqlite:///none.db", "none.journal", "sqlite://", "sqlite:///:memory:", "nodriver://me:secret@host/db", "none.toml",
    "postgresql:/me:secret@host", "file:none.db?mode=rwc", "sqlite:///file:none.db?uri=true&mode=rw", "os:system", "-1",
    "0", "1e999", "nan", "9" * 5000, "study", "x/lease", "../../etc/passwd", "/", "\x1b[2J", "\udcff", "", "--", "@x",
    "complete", "csv", "process", "screening", "{x}", "a b c",
)  # fmt: skip


def command_lines() -> st.SearchStrategy[Case]:
    """Return command lines in an empty folder: whatever they ask for is not there."""
    # An argument that begins like --help, and would print it, is no mistake.
    words = st.sampled_from([*OPTIONS, *VALUES]) | st.text(max_size=12).filter(lambda word: not word.startswith("-"))
    first = st.sampled_from([*COMMANDS, *COMMANDS, *COMMANDS, "", "frobnicate", "--json"])
    lines = st.builds(lambda command, more: (command, *more), first, st.lists(words, max_size=8))
    return lines.map(lambda line: Case("command line", line))
