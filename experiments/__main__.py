"""Compare methods on problems from the command line.

python -m experiments list
python -m experiments run --problems branin levy --methods random bmbo_darn --seeds 5
python -m experiments report --out docs/results/comparison.md
python -m experiments pack
python -m experiments table lda --rows 0:200 --jobs 2
python -m experiments standin lda
python -m experiments reference --jobs 2
python -m experiments run --suite development --methods random screening
python -m experiments report --suite development --of screening
python -m experiments judgement --method screening
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from experiments import page_commands
from experiments.command_options import PACKED, PAGE, RECORDS, all_records, fill
from experiments.harness import registry
from experiments.harness import run_record as records
from experiments.harness.campaign import ENGINES, Campaign, SettingsDifferError
from experiments.harness.find_references import find_all
from experiments.harness.package_versions import version_of
from experiments.harness.packed_records import pack, unpack
from experiments.harness.run_settings import SCHEDULES, SYNCHRONOUS, Settings, Task
from experiments.problems import APPLICATIONS, STAND_INS, Benchmark, DataMissingError, reference_values, suite


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m experiments", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("list", help="list methods and problems")
    running = commands.add_parser("run", help="run methods on problems; continues where it stopped")
    running.add_argument("--problems", nargs="+", help="names of problems; needed without --suite")
    running.add_argument("--methods", nargs="+", required=True)
    running.add_argument("--seeds", type=int, help="number of seeds; default 5, in a suite 10")
    running.add_argument("--first-seed", type=int, default=0)
    running.add_argument("--total-cost", type=float, help="cost of a run, starts included; default: each problem's own")
    running.add_argument("--num-starts", type=int, help="random points per level; default 10, in a suite 0")
    running.add_argument(
        "--unjudged",
        action=argparse.BooleanOptionalAction,
        help="evaluate only the last recommendation outside the cost, so that there is no curve like the paper's; "
        "this is so in a suite",
    )
    running.add_argument("--jobs", type=int, default=1, help="runs at the same time")
    running.add_argument("--engine", choices=list(ENGINES), default="local")
    running.add_argument("--timeout-per-run", type=float, help="seconds after which a run is killed")
    running.add_argument("--check-determinism", action="store_true", help="run the first seed of each method twice")
    running.add_argument("--retry-failed", action="store_true", help="run tasks again that crashed or timed out before")
    running.add_argument("--quiet", action="store_true", help="show no progress bar")
    reporting = commands.add_parser("report", help="make tables and figures from the records")
    reporting.add_argument("--out", type=Path, help=f"the page; default {PAGE}, or a page named like the suite")
    reporting.add_argument("--figures", type=Path, help="folder of the figures; default: figures beside the page")
    reporting.add_argument("--problems", nargs="+", help="report on these problems only")
    reporting.add_argument("--methods", nargs="+", help="report on these methods only")
    reporting.add_argument("--uncharged", action="store_true", help="do not charge starts to methods that take none")
    reporting.add_argument("--of", help="in a suite, compare this method with every other; default: the first")
    packing = commands.add_parser("pack", help="pack the records into small tables that can be committed")
    unpacking = commands.add_parser("unpack", help="write packed records as single files, to continue from them")
    _add_tables(commands)
    page_commands.add_parsers(commands)
    referring = commands.add_parser("reference", help="find the best known value and the random median of problems")
    referring.add_argument("--problems", nargs="+", help="default: the development suite")
    referring.add_argument("--jobs", type=int, default=1, help="problems at the same time")
    referring.add_argument("--out", type=Path, default=reference_values.PATH, help="the table; default: the committed")
    referring.add_argument("--quiet", action="store_true", help="show no progress bar")
    for command in (running, reporting, packing, unpacking):
        command.add_argument(
            "--suite", choices=list(suite.SUITES), help="use the problems, rules and folders of a suite"
        )
        command.add_argument("--batch-size", type=int, help="jobs at once, if a method can; default 5, in a suite 1")
        command.add_argument(
            "--records", type=Path, help=f"folder of the records; default {RECORDS}, in a suite one of its own below it"
        )
        command.add_argument(
            "--schedule",
            choices=SCHEDULES,
            default=SYNCHRONOUS,
            help="async: each of as many workers as a batch has jobs gets a new job when it is free",
        )
    for command in (running, reporting):
        command.add_argument("--half", choices=suite.HALVES, help="use one half of the problems of a suite")
    for command in (reporting, packing, unpacking):
        command.add_argument(
            "--packed", type=Path, help=f"folder of the packed tables; default {PACKED}, in a suite one below it"
        )
    for command in (listing, running, reporting, referring):
        command.add_argument("--plugin", action="append", default=[], help="your own module with ENTRIES or PROBLEMS")
    return parser


def _add_tables(commands: Any) -> None:
    making = commands.add_parser("table", help="train an application at all levels; continues where it stopped")
    making.add_argument("name", choices=APPLICATIONS)
    chosen = making.add_mutually_exclusive_group(required=True)
    chosen.add_argument("--rows", type=_rows, help="rows of the sequence, such as 0:200 for the first 200")
    chosen.add_argument("--configs", type=Path, help="a file of configurations instead, one per line, in JSON")
    chosen.add_argument("--visited", type=int, help="how many of the best configurations that runs here evaluated")
    making.add_argument("--jobs", type=int, default=1, help="trainings at the same time")
    making.add_argument("--seed", type=int, default=0)
    making.add_argument("--timeout", type=float, default=3600.0, help="seconds per row; for pinn, of all rows")
    making.add_argument("--note", default="", help="text for the first line of the table, such as the hardware")
    making.add_argument("--out", type=Path, help="default: experiments/tables/NAME.csv")
    making.add_argument("--quiet", action="store_true", help="show no progress bar")
    judging = commands.add_parser("standin", help="measure how well stand-ins predict held-out rows of a table")
    judging.add_argument("name", choices=STAND_INS)
    judging.add_argument("--table", type=Path, help="default: experiments/tables/NAME.csv")
    judging.add_argument("--out", type=Path, help="also write the printed page to this Markdown file")


def _rows(text: str) -> range:
    start, _, stop = text.partition(":")
    if not (start.isdecimal() and stop.isdecimal() and int(start) < int(stop)):
        raise argparse.ArgumentTypeError(f"rows are given as FIRST:END, such as 0:200, got {text!r}")
    return range(int(start), int(stop))


# The imports are inside the functions, because other commands do not need these packages.
def _table(arguments: argparse.Namespace) -> int:
    from experiments.applications import cached_evaluation as evaluation  # noqa: PLC0415
    from experiments.applications import fill_training_table as table  # noqa: PLC0415

    application = evaluation.get_application(arguments.name)
    space = application.problem.space
    if arguments.configs:
        wanted = table.visited_rows(space, table.read_configs(arguments.configs))
    elif arguments.visited is not None:
        if arguments.visited < 1:
            raise ValueError(f"--visited must be at least 1, got {arguments.visited}")
        best = evaluation.visited_configs(application, seed=arguments.seed)[: arguments.visited]
        if not best:
            raise ValueError(f"no run here has evaluated {arguments.name} at the top; `python -m experiments run` does")
        wanted = table.visited_rows(space, best)
    else:
        wanted = table.sobol_rows(space, arguments.rows.start, arguments.rows.stop)
    path = arguments.out or table.path_of(arguments.name)
    builder = table.TableBuilder(
        arguments.name,
        path,
        jobs=arguments.jobs,
        seed=arguments.seed,
        timeout=arguments.timeout,
        note=arguments.note,
        quiet=arguments.quiet,
        make_row=table.train_row_by_name if arguments.visited is None else table.evaluate_row_by_name,
    )
    there = builder.build(wanted)
    print(f"{path}: {there} of {len(wanted)} rows")
    return 0 if there == len(wanted) else 1


def _standin(arguments: argparse.Namespace) -> int:
    from experiments.applications import stand_in  # noqa: PLC0415

    page = stand_in.accuracy_page(arguments.name, arguments.table)
    print(page)
    if arguments.out:
        arguments.out.write_text(page + "\n")
    return 0


def _list(arguments: argparse.Namespace) -> int:
    print("Problems")
    for name, make in registry.problems(arguments.plugin).items():
        try:
            benchmark = make()
        except DataMissingError as error:
            print(f"  {name:<20} {error}")
            continue
        costs = ":".join(f"{cost:g}" for cost in benchmark.problem.ladder.costs)
        print(f"  {name:<20} {benchmark.problem.space.dim} dimensions, costs {costs}; {benchmark.source}")
    print("Methods")
    for name, entry in registry.methods(arguments.plugin).items():
        missing = [package for package in entry.packages if version_of(package) is None]
        note = f" (not installed: {', '.join(missing)})" if missing else ""
        print(f"  {name:<20} {entry.where}{note}")
    return 0


def _total_cost(arguments: argparse.Namespace, benchmark: Benchmark) -> float:
    """Return the cost of a run: the given one, that of the suite, or the problem's own."""
    if arguments.total_cost:
        return arguments.total_cost
    return suite.total_cost(benchmark, arguments.suite) if arguments.suite else benchmark.default_total_cost


def _run(arguments: argparse.Namespace) -> int:
    fill(arguments)
    if not arguments.problems:
        raise ValueError("there are no problems to run; name some with --problems, or a suite with --suite")
    methods, problems = registry.methods(arguments.plugin), registry.problems(arguments.plugin)
    registry.check_names("problem", arguments.problems, problems)
    registry.check_names("method", arguments.methods, methods)
    settings: dict[str, Settings] = {}
    for name in arguments.problems:
        benchmark = problems[name]()
        benchmark.prepare()
        total = _total_cost(arguments, benchmark)
        if total <= benchmark.start_cost(arguments.num_starts):
            start = benchmark.start_cost(arguments.num_starts)
            raise ValueError(f"the starts of {name} cost {start:g}: the total cost of {total:g} must be more")
        settings[name] = Settings(
            total, arguments.batch_size, arguments.num_starts, not arguments.unjudged, arguments.schedule
        )
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    # Seeds are the outer loop, so that a comparison that is stopped has about as many runs of each method.
    tasks = [Task(p, m, seed) for seed in seeds for p in arguments.problems for m in arguments.methods]
    if arguments.check_determinism:
        tasks += [Task(p, m, seeds[0], repeat=True) for p in arguments.problems for m in arguments.methods]
    campaign = Campaign(
        arguments.records,
        tasks,
        settings,
        jobs=arguments.jobs,
        engine=arguments.engine,
        timeout=arguments.timeout_per_run,
        plugins=arguments.plugin,
        paths=sys.path if arguments.plugin else (),
        retry_failed=arguments.retry_failed,
    )
    tally = campaign.run(show_progress=not arguments.quiet)
    print(", ".join(f"{count} {status}" for status, count in sorted(tally.items())))
    for method, reason in campaign.missing.items():
        print(f"{method} is not installed: {reason}")
    return 0


def _reference(arguments: argparse.Namespace) -> int:
    names: list[str] = arguments.problems or suite.names_of()
    registry.check_names("problem", names, registry.problems(arguments.plugin))
    found = find_all(names, jobs=arguments.jobs, plugins=arguments.plugin)
    for name, values in tqdm(found, total=len(names), disable=arguments.quiet):
        reference_values.write({name: values}, arguments.out)
    print(f"{arguments.out}: {len(names)} problems")
    return 0


def _report(arguments: argparse.Namespace) -> int:
    fill(arguments)
    # The import is here, because runs in an environment for peers do without matplotlib.
    try:
        from experiments.reporting import suite_page  # noqa: PLC0415
        from experiments.reporting.report import write_report  # noqa: PLC0415
    except ImportError as error:
        raise DataMissingError(f"a report needs matplotlib ({error}): pip install --group experiments") from error

    kept = [
        record
        for record in all_records(arguments)
        if (not arguments.problems or record.task.problem in arguments.problems)
        and (not arguments.methods or record.task.method in arguments.methods)
    ]
    if arguments.suite:
        page = suite_page.collect(kept, reference_values.read(), arguments.of)
        suite_page.write_page(page, arguments.out, command=_suite_command(arguments))
        print(f"{arguments.out} from {len(kept)} records")
        return 0
    figures = arguments.figures or arguments.out.parent / "figures"
    command = "python -m experiments report " + " ".join(_given_options(arguments))
    entries = registry.methods(arguments.plugin)
    write_report(kept, entries, arguments.out, figures, charged=not arguments.uncharged, command=command.strip())
    print(f"{arguments.out} from {len(kept)} records")
    return 0


def _suite_command(arguments: argparse.Namespace) -> str:
    """Return the command that makes the page of a suite."""
    said = ["--suite", arguments.suite, "--batch-size", str(arguments.batch_size)]
    said += [] if arguments.schedule == SYNCHRONOUS else ["--schedule", arguments.schedule]
    for name in ("half", "of"):
        said += [f"--{name}", getattr(arguments, name)] if getattr(arguments, name) else []
    said += ["--methods", *arguments.methods] if arguments.methods else []
    return "python -m experiments report " + " ".join(said)


def _given_options(arguments: argparse.Namespace) -> list[str]:
    """Return the options that the page depends on, as they were given."""
    said = [] if arguments.figures is None else ["--figures", str(arguments.figures)]
    said += ["--uncharged"] if arguments.uncharged else []
    for name in ("problems", "methods"):
        chosen = getattr(arguments, name)
        said += [f"--{name}", *chosen] if chosen else []
    return ["--out", str(arguments.out), *said]


def _pack(arguments: argparse.Namespace) -> int:
    fill(arguments)
    for path in pack(records.read_all(arguments.records), arguments.packed):
        print(f"{path}: {path.stat().st_size / 1024:.0f} KiB")
    return 0


def _unpack(arguments: argparse.Namespace) -> int:
    fill(arguments)
    print(f"{unpack(arguments.packed, arguments.records)} records written to {arguments.records}")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    chosen = _parser().parse_args(arguments)
    commands = {
        "list": _list,
        "run": _run,
        "report": _report,
        "pack": _pack,
        "unpack": _unpack,
        "table": _table,
        "standin": _standin,
        "reference": _reference,
        **page_commands.COMMANDS,
    }
    try:
        return commands[chosen.command](chosen)
    except (registry.UnknownNameError, DataMissingError, SettingsDifferError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; finished runs are kept, the same command goes on", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
