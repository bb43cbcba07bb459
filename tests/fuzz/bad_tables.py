"""Make tables of results that no study can take."""

import json
from typing import Any

from hypothesis import strategies as st

from tests.fuzz.case import Case

HEAD = ["number", "state", "value", "level", "fidelity", "cost", "params_x", "params_n", "params_kind"]
ROW = ["0", "complete", "0.5", "0", "1", "1.0", "0.01", "3", "a"]

WRONG = {
    "value": ["", "nan", "inf", "-inf", "1e999", "text", "1,5", "[1]", "0x10", "True"],
    "fidelity": ["2", "empty", "full ", "1e999", "9" * 5000],
    "cost": ["-1", "nan", "inf", "1e999", "text", "9" * 400],
    "params_x": ["", "nan", "1", "0", "-0.01", "1e999", "text", "0.01;0.02", "\x00"],
    "params_n": ["", "0", "10", "2.5", "1e999", "nan", "three", "9" * 5000],
    "params_kind": ["", "A", "c", "b'a'", "3.5", "../a", "\x1b[2J", "a\nb"],
}


def _quoted(field: str) -> str:
    return '"' + field.replace('"', '""') + '"' if set(field) & set(',"\n\r') else field


def _csv(rows: list[list[str]]) -> bytes:
    return "\n".join(",".join(map(_quoted, row)) for row in rows).encode(errors="surrogatepass") + b"\n"


@st.composite
def tables(draw: st.DrawFn, storage: bytes, study_file: bytes) -> Case:
    """Return a case with a table of some right rows and at least one mistake."""
    rows = [HEAD, *([*ROW] for _ in range(draw(st.integers(1, 4))))]
    kind = draw(st.sampled_from(["field", "field", "field", "column", "torn", "bytes", "json", "missing"]))
    at = draw(st.integers(1, len(rows) - 1))
    name, content = "table.csv", b""
    if kind == "field":
        column = draw(st.sampled_from(sorted(WRONG)))
        rows[at][HEAD.index(column)] = draw(st.sampled_from(WRONG[column]))
        content = _csv(rows)
    elif kind == "column":
        place = draw(st.sampled_from([HEAD.index(each) for each in ("value", "params_x", "params_n", "params_kind")]))
        change = draw(st.sampled_from(["other name", "no name", "twice", "gone"]))
        if change == "gone":
            rows = [row[:place] + row[place + 1 :] for row in rows]
        elif change == "twice":
            plain = HEAD[place].removeprefix("params_")
            rows = [[*row, plain if row is HEAD else row[place]] for row in rows]
        else:
            rows[0] = [
                *HEAD[:place],
                "" if change == "no name" else draw(st.text("qwz_", min_size=2)),
                *HEAD[place + 1 :],
            ]
        content = _csv(rows)
    elif kind == "torn":
        whole = _csv(rows)
        # A quote that is never closed, or a row with too few or too many fields.
        content = draw(st.sampled_from([whole + b'0,complete,"', whole + b"0,complete\n", whole.rstrip() + b",more\n"]))
    elif kind == "bytes":
        junk = draw(st.binary(max_size=60))
        content = draw(
            st.sampled_from([b"\xff\xfe" + junk, b"SQLite format 3\x00" + junk, b"\x80\x04\x95" + junk, b""])
        )
    elif kind == "json":
        name, content = "table.json", draw(bad_json())
    else:
        name = draw(st.sampled_from(["none.csv", ".", "none/none.csv", "n" * 300 + ".csv"]))
    files = {"study.toml": study_file, "study.journal": storage}
    if kind != "missing":
        files[name] = content
    return Case("table", ("add", "study.toml", "--table", name), files)


@st.composite
def bad_json(draw: st.DrawFn) -> bytes:
    """Return JSON that is no list of results of the study, or no JSON."""
    right: dict[str, Any] = {"value": 0.5, "level": 0, "params": {"x": 0.01, "n": 3, "kind": "a"}}
    strange = st.recursive(
        st.none() | st.booleans() | st.text(max_size=8) | st.floats() | st.integers(-(10**400), 10**400),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
        max_leaves=6,
    )
    change = draw(st.sampled_from(["value", "level", "params", "x", "n", "kind", "whole", "torn", "deep"]))
    if change in ("torn", "deep"):
        return draw(st.sampled_from([b"[{", b'[{"value": 1}', b"[" * 99999, b'{"value": NaN', b"null", b"nul"]))
    if change == "whole":
        return json.dumps([draw(strange.filter(lambda each: each is not None))]).encode()
    # Of each field, only what it cannot be.
    wrong = draw(st.sampled_from([[], {}, "?", [1], {"x": 1}, 10**400, "\x1b[2J", -1.5]))
    if change in ("x", "n", "kind"):
        right["params"][change] = wrong
    elif change == "value":
        right["value"] = draw(st.sampled_from([[], {}, "?", None, 10**400, True]))
    else:
        right[change] = wrong if change == "params" or wrong != {} else [2]
    return json.dumps([right]).encode()
