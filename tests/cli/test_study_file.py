"""A study written down, and what is said of one that is written wrongly."""

import dataclasses
import inspect

import pytest

from bmbo.cli.arguments import RUN_OPTION_HELP
from bmbo.cli.command_objective import CommandObjective
from bmbo.cli.study_file import StudyFile
from bmbo.cli.toml_with_lines import TomlError
from bmbo.problem import Categorical, Fidelity, FidelityRange, Float, Int, Ladder, Likely, Space
from bmbo.study import Study
from bmbo.study.run_options import RunOptions, run_option_kinds

WHOLE = """\
# A study of everything.
[study]
name = "cnn"
storage = "sqlite:///cnn.db"
direction = "maximize"
seed = 3
method = "random_search"

[space.lr]
type = "float"
low = 1e-5
high = 1          # a whole number will do
log = true

[space]
pool = { type = "categorical", choices = ["max", "average", 3], ordered = true }
width.type = "int"
width.low = 1
width.high = 9
width.step = 2

[space."drop out"]
type = "float"
low = 0
high = 0.5

[[fidelities]]
value = 1
cost = 1

[[fidelities]]
value = 10
cost = 10.5
name = "ten epochs"

[objective]
function = "package.module:train"

[run]
total_cost = 200
n_trials = 50
timeout = 3600.0
batch_size = 5
n_workers = 5
executor = "process"
asynchronous = true
trial_timeout = 60
catch = false
keep_checkpoints = "useful"
"""
LEAST = """\
[study]
name = "least"
storage = "study.log"
[space.x]
type = "float"
low = 0
high = 1
[[fidelities]]
value = "only"
cost = 1
[objective]
command = "./program {x}"
"""


def read(tmp_path, text):
    path = tmp_path / "study.toml"
    path.write_text(text)
    return StudyFile.read(path)


def refusal(tmp_path, text):
    """What is said of a file, without its folder."""
    with pytest.raises(TomlError) as error:
        read(tmp_path, text)
    message = str(error.value)
    assert "\n" not in message
    assert message.startswith(str(tmp_path / "study.toml"))
    return message.removeprefix(f"{tmp_path}/")


def test_every_field_is_read(tmp_path):
    study = read(tmp_path, WHOLE)
    assert (study.name, study.storage, study.direction) == ("cnn", "sqlite:///cnn.db", "maximize")
    assert (study.seed, study.method, study.objective) == (3, "random_search", "package.module:train")
    assert study.space == Space(
        {
            "lr": Float(1e-5, 1, log=True),
            "pool": Categorical(["max", "average", 3], ordered=True),
            "width": Int(1, 9, step=2),
            "drop out": Float(0, 0.5),
        }
    )
    assert study.ladder == Ladder([Fidelity(1, cost=1), Fidelity(10, cost=10.5, name="ten epochs")])
    assert study.run == RunOptions(
        total_cost=200,
        n_trials=50,
        timeout=3600.0,
        batch_size=5,
        n_workers=5,
        executor="process",
        asynchronous=True,
        trial_timeout=60,
        catch=False,
        keep_checkpoints="useful",
    )


def test_what_is_left_out_has_its_default(tmp_path):
    study = read(tmp_path, LEAST)
    assert (study.direction, study.seed, study.method) == ("minimize", 0, None)
    assert study.objective == CommandObjective("./program {x}")
    # Failures are failed trials: a run from the command line goes on.
    assert study.run == RunOptions(catch=True)


def test_every_run_option_is_an_argument_of_optimize_with_known_types():
    arguments = inspect.signature(Study.optimize).parameters
    assert set(run_option_kinds()) == {option.name for option in dataclasses.fields(RunOptions)} <= set(arguments)
    assert run_option_kinds()["total_cost"] == (int, float)
    assert run_option_kinds()["n_trials"] == (int,)
    assert run_option_kinds()["executor"] == (str,)


def test_only_the_folders_of_checkpoints_are_no_option_of_the_command_line():
    assert set(run_option_kinds()) - set(RUN_OPTION_HELP) == {"keep_checkpoints"}


def test_costs_may_be_measured(tmp_path):
    assert read(tmp_path, LEAST.replace("cost = 1", 'cost = "measure"')).ladder[0].cost == "measure"


def test_a_command_has_all_its_options(tmp_path):
    objective = """\
command = ["./program", "--x={x}", "{result_file}"]
result = "file:out.json"
workdir = "work"
[objective.env]
A = "{level}"
"""
    study = read(tmp_path, LEAST.replace('command = "./program {x}"\n', objective))
    words = ["./program", "--x={x}", "{result_file}"]
    assert study.objective == CommandObjective(words, "file:out.json", workdir="work", env={"A": "{level}"})


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("high = 1 ", "hihg = 1 ", "line 12: unknown field 'hihg' in [space.lr]; did you mean 'high'?"),
        ("seed = 3", "seeds = 3", "line 6: unknown field 'seeds' in [study]; did you mean 'seed'?"),
        ("seed = 3", "xyz = 3", "line 6: unknown field 'xyz' in [study]; known are name, storage, direction,"),
        ("[run]", "[runs]", "line 39: unknown table [runs]; did you mean 'run'?"),
        ("seed = 3", 'seed = "3"', "line 6: seed in [study] must be a whole number, got '3'"),
        ("seed = 3", "seed = true", "line 6: seed in [study] must be a whole number, got True"),
        ("seed = 3", "seed = -3", "line 6: [study]: seed must be a whole number of at least 0, got -3"),
        ("low = 1e-5", 'low = "small"', "line 11: low in [space.lr] must be a number, got 'small'"),
        ("low = 1e-5", "low = 2", "line 11: [space.lr]: Float: low must be below high, got low=2, high=1"),
        ("low = 1e-5", "low = 0", "line 13: [space.lr]: Float: with log=True low must be above 0"),
        ("low = 1e-5\n", "", "line 9: [space.lr] needs low"),
        ("width.high = 9", "width.high = 9.5", "line 19: high in [space.width] must be a whole number, got 9.5"),
        ("width.step = 2", "width.choices = [1]", "line 20: unknown field 'choices' in [space.width]; known are type,"),
        ('"max", "average", 3', "", "line 16: [space.pool]: Categorical: at least one choice is needed"),
        ('type = "float"', 'type = "flaot"', "line 10: type in [space.lr] must be float, int or categorical"),
        ('type = "float"\n', "", "line 9: [space.lr] needs type"),
        ("cost = 10.5", 'cost = "much"', "line 33: cost in [[fidelities]] number 2 must be a number or 'measure'"),
        ("cost = 10.5", "cost = -1", "line 33: [[fidelities]] number 2: fidelity 10: cost must be positive"),
        ("cost = 10.5\n", "", "line 31: [[fidelities]] number 2 needs cost"),
        ('name = "ten epochs"', 'name = "1"', "line 27: [fidelities]: fidelity names must differ, '1' given more than"),
        ('"maximize"', '"up"', "line 5: direction in [study] must be 'minimize' or 'maximize', got 'up'"),
        ('"random_search"', '"random"', "line 7: unknown method 'random' in [study]; did you mean 'random_search'?"),
        ('name = "cnn"\n', "", "line 2: [study] needs name"),
        ('name = "cnn"', 'name = " "', "line 3: name in [study] must not be empty"),
        ("package.module:train", "train", "line 37: function in [objective] must be 'module:name', got 'train'"),
        ("[run]", 'command = "p"\n[run]', "line 36: [objective] needs either function = 'module:name' or a command"),
        ("[run]", 'workdir = "p"\n[run]', "line 39: workdir in [objective] belongs to a command, not to a function"),
        ("batch_size = 5", "batch_size = 0", "line 43: [run]: batch_size must be a whole number of at least 1, got 0"),
        ('"process"', '"dask"', "line 45: [run]: executor must be one of auto, inline, process, ray, got 'dask'"),
        ('"useful"', '"some"', "line 49: [run]: keep_checkpoints must be one of all, useful, none, got 'some'"),
        ("low = 1e-5", "low = ", "line 11: Invalid value: low ="),
        ("seed = 3", "seed = 3\nseed = 4", "line 7: Cannot overwrite a value: seed = 4"),
        ("[[fidelities]]\nvalue = 10", "[fidelities]\nvalue = 10", "line 31: Cannot declare"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path, old, new, message):
    assert old in WHOLE
    assert refusal(tmp_path, WHOLE.replace(old, new, 1)).startswith(f"study.toml, {message}")


ONLY = '[[fidelities]]\nvalue = "only"\ncost = 1\n'
RANGE = "[fidelities]\nlow = 1\nhigh = 81\nlog = true\npower = 2\nlevels = 40\n"


@pytest.mark.usefixtures("as_a_user")
def test_a_table_in_place_of_a_list_of_fidelities_is_a_range(tmp_path):
    assert read(tmp_path, LEAST.replace(ONLY, RANGE)).ladder == Ladder(
        FidelityRange(1, 81, log=True, power=2, levels=40)
    )
    for old, new, message in (
        ("high = 81", "high = 0", "[fidelities]: a range of fidelities goes from the roughest"),
        ("levels = 40", "level = 40", "unknown field 'level' in [fidelities]; did you mean 'levels'?"),
        ("power = 2", 'cost = "dear"', "[fidelities]: cost of a range must be"),
    ):
        assert message in refusal(tmp_path, LEAST.replace(ONLY, RANGE.replace(old, new)))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("./program {x}", "./program {y}", "study.toml, line 12: [objective]: the command uses {y}, but there"),
        (
            "./program {x}",
            "./program",
            "study.toml, line 12: [objective]: the command never uses parameter 'x'",
        ),
        ('"./program {x}"', '["p", 3]', "study.toml, line 12: command in [objective] must be made of strings"),
        ('[space.x]\ntype = "float"\nlow = 0\nhigh = 1\n', "", "study.toml: [space] is missing"),
        (
            '[space.x]\ntype = "float"\nlow = 0\nhigh = 1\n',
            "[space]\n",
            "study.toml, line 4: [space] needs at least one",
        ),
        ('[[fidelities]]\nvalue = "only"\ncost = 1\n', "", "study.toml: [[fidelities]] is missing"),
        (
            '[[fidelities]]\nvalue = "only"\ncost = 1\n',
            "[fidelities]\n",
            "study.toml, line 8: at least one fidelity is",
        ),
        (LEAST, "", "study.toml: [study] is missing"),
        (LEAST, "study = 3\nspace = 1\nfidelities = 2\nobjective = 1", "study.toml, line 1: [study] must be a table"),
    ],
)
def test_what_is_missing_or_does_not_fit_together_is_said(tmp_path, old, new, message):
    assert old in LEAST
    assert refusal(tmp_path, LEAST.replace(old, new, 1)).startswith(message)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(TomlError, match=r"there is no study file .*nowhere\.toml"):
        StudyFile.read(tmp_path / "nowhere.toml")
    (tmp_path / "study.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(TomlError, match=r"study\.toml cannot be read"):
        StudyFile.read(tmp_path / "study.toml")
    # The reason comes last: of a message that is too long, the middle is left out.
    with pytest.raises(TomlError, match=r"99 cannot be read: \D+$"):
        StudyFile.read("9" * 900)


def test_a_study_file_does_not_show_its_storage(tmp_path):
    study = read(tmp_path, LEAST.replace("study.log", "postgresql+psycopg://me:secret@host/db"))
    assert "secret" not in repr(study)


def test_a_parameter_may_exist_only_where_another_has_certain_values(tmp_path):
    more = """
[space.booster]
type = "categorical"
choices = ["tree", "linear"]

[space.depth]
type = "int"
low = 1
high = 9
when = { booster = ["tree"] }
"""
    least = LEAST.replace("{x}", "{params_json}")
    space = read(tmp_path, least + more).space
    assert space["depth"] == Int(1, 9, when={"booster": "tree"})
    assert refusal(tmp_path, least + more.replace('["tree"] }', '["forest"] }')).endswith(
        "parameter 'depth': when has a value that 'booster' cannot take: Categorical: value must be one of "
        "['tree', 'linear'], got 'forest'"
    )
    assert "when" in refusal(tmp_path, least + more.replace('when = { booster = ["tree"] }', "when = 3"))


def test_a_parameter_may_have_a_prior(tmp_path):
    value = '[space.rate]\ntype = "float"\nlow = 0\nhigh = 1\nprior = { best = 0.3, width = 0.1 }\n'
    weights = '[space.kind]\ntype = "categorical"\nchoices = ["a", "b"]\nprior = { best = { a = 5 } }\n'
    least = LEAST.replace("{x}", "{params_json}")
    space = read(tmp_path, f"{least}\n{value}\n{weights}").space
    assert space["rate"].prior == Likely(0.3, width=0.1)
    assert space["kind"].prior == Likely({"a": 5})
    assert "its prior does not fit" in refusal(tmp_path, f"{least}\n{value.replace('0.3', '3.3')}")
    assert "width must be a number above 0" in refusal(tmp_path, f"{least}\n{value.replace('0.1', '0')}")
    assert "prior must be a bmbo.Likely" in refusal(tmp_path, f"{least}\n{value.replace('width', 'wide')}")
