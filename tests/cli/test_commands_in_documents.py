"""The commands that documents show are commands that bmbo has, with options that it has."""

import re
import shlex
from pathlib import Path

import pytest

from bmbo.cli import COMMANDS
from bmbo.cli.arguments import UsageError, parser

ROOT = Path(__file__).parent.parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
# At the beginning of a line of a block, or as all that stands in quotes and has an argument.
IN_A_BLOCK = re.compile(r"^ *(?:ssh .* )?(bmbo [a-z].*)$", re.MULTILINE)
INDENTED = re.compile(r"^ {4,}(bmbo [a-z]+ .*)$", re.MULTILINE)
IN_QUOTES = re.compile(r"`(bmbo [a-z]+ [^`\n]+)`")


def commands(text):
    """The commands of a document, without comments, with continued lines joined."""
    for block in re.findall(r"^ *```sh\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE):
        yield from IN_A_BLOCK.findall(block.replace("\\\n", " "))
    yield from INDENTED.findall(text)
    yield from IN_QUOTES.findall(text)


SHOWN = [
    pytest.param(command, id=f"{path.name}: {command}")
    for path in DOCUMENTS
    for command in dict.fromkeys(commands(path.read_text(encoding="utf-8")))
]


def test_documents_show_commands():
    assert len(SHOWN) > 10


@pytest.mark.parametrize("command", SHOWN)
def test_a_command_of_a_document_is_understood(command):
    words = [word for part in shlex.split(command, comments=True) for word in part.split(";") if word]
    parser(COMMANDS).parse_args(words[1:])


def test_a_command_that_does_not_exist_is_noticed():
    with pytest.raises(UsageError):
        parser(COMMANDS).parse_args(["begin", "study.toml"])
