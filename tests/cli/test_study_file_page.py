"""The page on the study file says what the code reads: tables, fields, types, defaults and placeholders."""

import dataclasses
import json
import re
import tomllib
from pathlib import Path

import pytest

from bmbo.cli import study_file
from bmbo.cli.command_objective import SPECIAL
from bmbo.cli.study_file import StudyFile
from bmbo.problem import Float, Int
from bmbo.study.run_options import RUN_CHOICES, RunOptions, run_option_kinds

PAGE = (Path(__file__).parents[2] / "docs" / "study_file.md").read_text(encoding="utf-8")
EXAMPLE = re.findall(r"^```toml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)[0]
WORDS = {str: "text", int: "whole number", float: "number", bool: "`true` or `false`", list: "list", dict: "table"}


def rows(title, table=0):
    """The cells of a table under a heading, by the name in the first cell."""
    section = PAGE.split(f"\n## `{title}`\n")[1].split("\n## ")[0]
    body = re.findall(r"^\| ?-.*\n((?:\|.*\n)+)", section, re.MULTILINE)[table]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in body.splitlines()]
    return {first.strip("` "): [cell.strip("| ") for cell in rest] for first, *rest in cells}


def test_the_example_is_a_study_file_with_every_table(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(EXAMPLE)
    assert StudyFile.read(path).run.total_cost == 400
    assert set(tomllib.loads(EXAMPLE)) == set(study_file.TABLES)


def test_every_table_has_a_section():
    titles = re.findall(r"^## `\[+(\w+)", PAGE, re.MULTILINE)
    assert sorted(titles) == sorted(study_file.TABLES)


@pytest.mark.parametrize(
    ("title", "fields"),
    [
        ("[study]", study_file.STUDY_FIELDS),
        ("[[fidelities]]", study_file.FIDELITY_FIELDS),
        ("[objective]", study_file.OBJECTIVE_FIELDS),
        ("[run]", run_option_kinds()),
    ],
)
def test_the_fields_of_a_table_are_those_that_are_read(title, fields):
    assert list(rows(title)) == list(fields)


def test_the_fields_of_a_range_of_fidelities_are_those_that_are_read():
    assert list(rows("[[fidelities]]", table=1)) == list(study_file.RANGE_FIELDS)


def test_the_fields_and_types_of_parameters_are_those_that_are_read():
    head = re.search(r"^\| field \| (`type.*) \|$", PAGE, re.MULTILINE)
    assert head is not None
    shown = rows("[space.NAME]")
    kinds = re.findall(r'"(\w+)"', head[1])
    assert set(kinds) == set(study_file.PARAMETER_KINDS)
    for column, kind in enumerate(kinds):
        _, fields, required = study_file.PARAMETER_KINDS[kind]
        expected = {
            name: WORDS[kinds_of[-1]] + (", required" if name in required else "") for name, kinds_of in fields.items()
        }
        assert {name: cells[column] for name, cells in shown.items() if cells[column] != "-"} == expected


def test_types_and_defaults_of_run_options_are_those_of_the_code():
    shown = rows("[run]")
    kinds = run_option_kinds()
    for field in dataclasses.fields(RunOptions):
        kind, default, _ = shown[field.name]
        if field.name in RUN_CHOICES:
            assert re.findall(r'"(\w+)"', kind) == list(RUN_CHOICES[field.name])
        else:
            # The last type is the widest: a number may be whole.
            assert kind == WORDS[kinds[field.name][-1]]
        written = f"`{json.dumps(field.default)}`" if field.default is not None else "no limit"
        assert default == written


def test_defaults_of_the_study_are_those_of_the_code():
    defaults = {field.name: field.default for field in dataclasses.fields(StudyFile)}
    shown = rows("[study]")
    assert shown["direction"][1] == f'`"{defaults["direction"]}"`'
    assert defaults["method"] is None
    assert shown["method"][1] == 'that of a study that exists, else `"screening"`'
    assert shown["seed"][1] == f"`{defaults['seed']}`"


def test_the_placeholders_are_those_that_are_filled_in():
    shown = [name.strip("{}") for name in rows("[objective]", table=1)]
    assert sorted(shown) == sorted(["NAME", *SPECIAL, "result_file"])


@pytest.mark.parametrize("kind", [Float, Int])
def test_a_step_cannot_be_combined_with_a_logarithm_as_the_page_says(kind):
    with pytest.raises(ValueError, match="step"):
        kind(1, 9, log=True, step=2)
