"""Test what is made from records: curves, ranks, packed tables and the report."""

import itertools
import math
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from experiments import __main__ as program
from experiments.harness import run_record as records
from experiments.harness.packed_records import pack, read_packed, unpack
from experiments.harness.run_record import Evaluation
from experiments.harness.run_settings import Task
from experiments.reporting.curves import Curve, cost_to_reach, curve, quartiles
from experiments.reporting.figures import spread
from experiments.reporting.ranks import average_ranks, critical_distance
from experiments.reporting.report import write_report
from experiments.reporting.summary import problems_of
from support.experiment_records import record_of


def test_the_three_curves_of_a_run():
    rows = (
        Evaluation(0, 0, 9.0, 3.0),
        Evaluation(0, 1, 5.0, 5.0, recommended=5.0),
        Evaluation(1, 0, 9.0, 1.0, recommended=2.0),
        Evaluation(2, 1, 4.0, 4.0),
        Evaluation(2, 1, None, None, recommended=6.0),
    )
    record = replace(record_of(), evaluations=rows)
    np.testing.assert_allclose(curve(record, "observed").loss, [math.inf, 5, 5, 4, 4])
    np.testing.assert_allclose(curve(record, "recommended").loss, [math.inf, 5, 2, 2, 6])
    np.testing.assert_allclose(curve(record, "paper").loss, [3, 3, 1, 1, 1])
    np.testing.assert_allclose(curve(record, "observed").cost, [1, 11, 12, 22, 32])


def test_losses_are_what_is_lost_against_the_optimum_in_either_direction():
    rows = (Evaluation(0, 1, 3.0, 3.0),)
    upwards = replace(record_of(), header=record_of().header | {"maximise": True, "optimum": 4.0}, evaluations=rows)
    unknown = replace(upwards, header=upwards.header | {"optimum": None})
    assert curve(upwards, "observed").at(10.0) == 1.0
    assert curve(unknown, "observed").at(10.0) == -3.0
    assert curve(upwards, "observed").at(9.9) == math.inf


def test_quartiles_and_the_cost_to_reach_a_loss():
    curves = [Curve(np.array([1.0, 2.0]), np.array(losses)) for losses in ([4.0, 1.0], [5.0, 2.0], [6.0, 3.0])]
    np.testing.assert_allclose(quartiles(curves, [1.0, 2.0])[1], [5.0, 2.0])
    np.testing.assert_allclose(quartiles(curves, [0.5])[:, 0], math.inf)
    assert cost_to_reach(curves, 2.0) == 2.0
    assert cost_to_reach(curves, 5.5) == 1.0
    assert cost_to_reach(curves, 1.9) == math.inf


def test_average_ranks_of_methods_that_always_come_in_one_order():
    losses = {f"p{place}": {"a": [1.0, 2.0], "b": [3.0, 4.0], "c": [math.inf]} for place in range(6)}
    ranks = average_ranks(losses, ["a", "b", "c"])
    np.testing.assert_allclose(ranks.mean, [1, 2, 3])
    np.testing.assert_allclose(ranks.low, [1, 2, 3])
    np.testing.assert_allclose(ranks.high, [1, 2, 3])
    assert ranks.p_value == pytest.approx(math.exp(-6), rel=1e-6)  # chi-square of 12 with 2 degrees of freedom
    assert average_ranks({"p": losses["p0"]}, ["a", "b", "c"]).p_value is None


def test_the_bootstrap_knows_of_the_chance_of_seeds():
    losses = {f"p{place}": {"a": [0.0, 1.0, 10.0], "b": [0.5, 2.0, 9.0]} for place in range(3)}
    ranks = average_ranks(losses, ["a", "b"])
    assert ranks.mean[0] == 1.0
    assert ranks.low[0] < ranks.high[0]
    assert ranks.high[1] > ranks.low[1]
    np.testing.assert_array_equal(average_ranks(losses, ["a", "b"]).low, ranks.low)


def test_the_critical_distance_is_the_published_one():
    # Demsar 2006, section 3.2.2: four classifiers on fourteen data sets.
    assert critical_distance(4, 14) == pytest.approx(1.25, abs=0.01)


def test_records_are_the_same_after_writing_packing_and_unpacking(tmp_path):
    made = [
        record_of("a", "p", 0),
        record_of("a", "p", 1, losses=(0.1234567891, 1e-9)),
        record_of("b", "p", 0, status="crashed", reason="ValueError: a, comma | and a bar"),
        record_of("b", "q", 0, takes_starts=False),
    ]
    made[1] = replace(made[1], evaluations=(*made[1].evaluations, Evaluation(3, 0, None, None)))
    for each in made:
        records.write(tmp_path / "records", each.task, records.lines(each))
    assert records.read_all(tmp_path / "records") == made
    assert [path.name for path in pack(made, tmp_path / "packed")] == ["p.csv.gz", "q.csv.gz"]
    assert read_packed(tmp_path / "packed") == made
    before = (tmp_path / "packed" / "p.csv.gz").read_bytes()
    # Packing fewer records keeps those that were packed before.
    pack(made[:1], tmp_path / "packed")
    assert (tmp_path / "packed" / "p.csv.gz").read_bytes() == before
    assert unpack(tmp_path / "packed", tmp_path / "again") == 4
    assert records.read_all(tmp_path / "again") == made
    assert unpack(tmp_path / "packed", tmp_path / "again") == 0


def test_what_a_killed_run_left_is_read_up_to_the_line_that_was_cut(tmp_path):
    task = Task("p", "a", 0)
    path = records.partial_path_of(tmp_path, task)
    path.parent.mkdir(parents=True)
    lines = records.lines(record_of())
    path.write_text("\n".join(lines[:3]) + "\n" + lines[3][:10])
    found = records.read_partial(tmp_path, task)
    assert found is not None
    assert found.evaluations == record_of().evaluations[:2]
    assert found.status == "crashed"
    assert records.read_partial(tmp_path, Task("p", "a", 1)) is None


def test_a_report_is_made_from_the_records_alone(tmp_path):
    made = []
    for problem, factor in (("hill", 1.0), ("valley", 2.0)):
        for seed in range(3):
            for method, losses in (
                ("bmbo_x", (0.5, 0.1)),
                ("random", (2.0, 1.0)),
                ("peer", (1.5, 0.2)),
            ):
                scaled = [factor * loss * (1 + 0.1 * seed) for loss in losses]
                made.append(record_of(method, problem, seed, scaled))
    made[0] = replace(made[0], status="timed out", reason="timed out after 5 s", seconds=3600.0)
    made.append(replace(made[1], task=replace(made[1].task, repeat=True)))
    out = tmp_path / "results" / "page.md"
    write_report(made, {}, out, tmp_path / "figures", command="python -m experiments report")
    text = out.read_text()
    # After a tenth of the cost there are only the starts, so ranks are equal. At the end they differ.
    tied, alone = "2.00 [2.00, 2.00]", "1.00 [1.00, 1.00]"
    assert f"| bmbo_x | {tied} | {tied} | {alone} | {alone} | {alone} |" in text
    assert "The 18 runs took 1.0 hours together, evaluations included." in text
    assert "../figures/ranks.svg" in text
    # Our method reaches the final loss of random search after its first query, at a cost of 21 of 31.
    assert "| bmbo_x | 0.677 | 0.677 |" in text
    assert "hill: peer, valley: peer" in text
    assert "timed out after 5 s" in text
    assert "| random | hill: same |" in text
    # The second quartile at the end belongs to the middle seed.
    assert "0.11 [0.105, 0.115]" in text
    for name in ("hill", "valley", "ranks"):
        assert ElementTree.parse(tmp_path / "figures" / f"{name}.svg").getroot().tag.endswith("svg")
    before = text
    write_report(made, {}, out, tmp_path / "figures", command="python -m experiments report")
    assert out.read_text() == before


def test_a_report_shows_how_good_the_places_below_the_top_were(tmp_path):
    low = tuple(Evaluation(1, 0, value, 9.0) for value in (8.0, 3.0, 2.0))
    failed = Evaluation(1, 0, None, None)
    peer = record_of("peer")
    made = [replace(peer, evaluations=(*peer.evaluations, *low, failed)), record_of("top_only")]
    made.append(replace(record_of("low_only", takes_starts=False), evaluations=low))
    write_report(made, {}, tmp_path / "page.md", tmp_path)
    text = (tmp_path / "page.md").read_text()
    asked = text[text.index("Median values") :].split("##")[0]
    assert "| random starts | 5 | 4 |\n| peer | 3 | 0.75 |" in asked
    assert "| low_only | 3 | - |" in asked
    assert "top_only" not in asked
    write_report([record_of("top_only")], {}, tmp_path / "page.md", tmp_path)
    assert "Median values" not in (tmp_path / "page.md").read_text()


def test_a_report_compares_methods_on_the_seeds_that_both_have(tmp_path):
    ends = {
        ("random", "hill"): [0.5, 0.6, 0.7],
        ("peer", "hill"): [0.4, 0.6, 0.8, 0.1],
        ("random", "valley"): [0.5],
        ("peer", "valley"): [0.3],
        ("late", "valley"): [0.6],
        ("bmbo_gp", "hill"): [0.4],
        ("alone", "plain"): [0.1],
    }
    made = [
        record_of(method, problem, seed, [9.0, end])
        for (method, problem), losses in ends.items()
        for seed, end in enumerate(losses)
    ]
    write_report(made, {}, tmp_path / "page.md", tmp_path)
    duels = (tmp_path / "page.md").read_text().split("## Seed by seed")[1].split("##")[0]
    assert "| against random | hill | valley | all |" in duels
    rows = ["| bmbo_gp | 1 / 0 / 0 |  | 1 / 0 / 0 |", "| peer | 1 / 1 / 1 | 1 / 0 / 0 | 2 / 1 / 1 |"]
    assert "\n".join([*rows, "| late |  | 0 / 0 / 1 | 0 / 0 / 1 |"]) in duels
    ours = ["| against bmbo_gp | hill | all |", "| --- | --- | --- |", "| peer | 0 / 1 / 0 | 0 / 1 / 0 |"]
    assert "\n".join([*ours, "| random | 0 / 0 / 1 | 0 / 0 / 1 |"]) in duels
    assert "alone" not in duels
    write_report([record_of("alone", "plain")], {}, tmp_path / "page.md", tmp_path)
    assert "Seed by seed" not in (tmp_path / "page.md").read_text()


def test_unjudged_runs_have_no_curve_like_the_papers(tmp_path):
    judged, other = record_of("peer", "hill"), record_of("peer", "valley")
    settings = {**other.header["settings"], "judged": False}
    unjudged = replace(other, header={**other.header, "settings": settings})
    write_report([judged, unjudged], {}, tmp_path / "page.md", tmp_path)
    rows = [row for row in (tmp_path / "page.md").read_text().splitlines() if row.startswith("| peer | 1 | ")]
    assert ["- [-, -] |" in row for row in rows[-2:]] == [False, True]


def test_figures_name_our_default_the_best_peers_and_random_search_and_no_other(tmp_path):
    ends = {"screening": 0.2, "random": 2.0, "good": 0.1, "fair": 0.3, "poor": 0.4, "worst": 0.5, "bmbo_other": 0.25}
    made = [record_of(name, problem, losses=(5.0, end)) for name, end in ends.items() for problem in ("hill", "dale")]
    write_report(made, {}, tmp_path / "page.md", tmp_path)
    for name in ("hill", "dale"):
        drawn = (tmp_path / f"{name}.svg").read_text()
        named = {method for method in ends if f">{method}<" in drawn}
        assert named == {"screening", "random", "good", "fair", "poor"}
        assert f"{name}: good ends best; screening is number 2 of 7" in drawn
    assert (
        "Over 2 problems good has the best average rank; screening is number 2 of 7"
        in (tmp_path / "ranks.svg").read_text()
    )


def test_names_at_the_ends_of_lines_never_overlap():
    assert spread([], 0.1) == []
    assert spread([0.2, 0.9], 0.1) == [0.2, 0.9]
    apart = spread([0.5, 0.5, 0.52, 0.62], 0.1)
    assert all(later - earlier >= 0.1 - 1e-12 for earlier, later in itertools.pairwise(apart))
    assert sum(apart) / 4 == pytest.approx((0.5 + 0.5 + 0.52 + 0.62) / 4)


def test_records_of_before_unjudged_runs_count_as_judged():
    record = record_of()
    settings = {name: value for name, value in record.header["settings"].items() if name != "judged"}
    assert len(curve(replace(record, header={**record.header, "settings": settings}), "paper").loss) == 4


def test_a_report_without_records_says_what_to_do(tmp_path, capsys):
    empty = ["--records", str(tmp_path / "none"), "--packed", str(tmp_path / "none")]
    assert program.main(["report", "--out", str(tmp_path / "page.md"), *empty]) == 2
    assert "experiments run" in capsys.readouterr().err


def test_a_method_that_never_reaches_the_top_has_no_value_and_the_last_rank(tmp_path):
    lost = tuple(Evaluation(batch, 0, 1.0, 1.0) for batch in range(1, 5))
    made = [record_of("good", problem, seed) for problem in ("p", "q") for seed in (0, 1)]
    made += [replace(record_of("low", p, s, takes_starts=False), evaluations=lost) for p in ("p", "q") for s in (0, 1)]
    write_report(made, {}, tmp_path / "page.md", tmp_path)
    assert "| low | 2.00 [2.00, 2.00] |" in (tmp_path / "page.md").read_text()
    assert "| low | 2 | - [-, -] |" in (tmp_path / "page.md").read_text()


def test_without_the_charge_a_method_without_starts_is_further_at_the_same_cost():
    made = [record_of("free", losses=(3.0, 2.0, 1.0), takes_starts=False), record_of("other", losses=(1.0, 1.0, 1.0))]
    charged, uncharged = (problems_of(made, each)[0].methods["free"] for each in (True, False))
    assert charged.losses("observed", 21.0) == [3.0]
    assert uncharged.losses("observed", 21.0) == [2.0]


def test_seconds_are_counted_once_a_batch_and_given_per_query():
    rows = (Evaluation(0, 0, 1.0, 1.0), *[Evaluation(1, 1, 1.0, 1.0, wall=3.0, cpu=6.0)] * 3)
    method = problems_of([replace(record_of(), evaluations=rows)])[0].methods["a"]
    assert method.seconds_per_query("wall") == 1.0
    assert method.seconds_per_query("cpu") == 2.0
    assert method.queries() == [0.0, 3.0]
