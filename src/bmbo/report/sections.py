"""Put the sections of the page together: a title, a sentence on what to look for, and figures or a table."""

from collections.abc import Sequence
from itertools import combinations

from bmbo.history.shown_levels import compared_levels
from bmbo.report import calibration_figure as calibrations
from bmbo.report import slice_figures as slices
from bmbo.report.failures import MOST_GROUPS, failure_groups
from bmbo.report.front_sections import for_each_objective, front_sections
from bmbo.report.last_batch_figure import MOST_QUERIES, last_batch_figure
from bmbo.report.levels_figure import levels_figure
from bmbo.report.model_view import (
    FEWEST_VALUES,
    ModelView,
    centre_of,
    importances,
    level_correlations,
    shared_points,
)
from bmbo.report.noise_table import HEAD, noise_notes, noise_of
from bmbo.report.progress_figure import hidden_dots, progress_figure, progress_of
from bmbo.report.report_data import ReportData, short_number
from bmbo.report.section import Section
from bmbo.report.spending_figure import spending_figure, spending_of
from bmbo.report.timeline_figure import MOST_LANES, timeline_figure, timeline_of


def sections_of(data: ReportData, view: ModelView | None) -> list[Section]:
    """Return the sections that have something to show."""
    if data.problem.objectives:
        return _of_several(data)
    makers = (_progress, _spending, _timeline, _failures)
    found = [section for make in makers for section in make(data)]
    modelled = [*_levels(data, view), *_noise(data, view), *_last_batch(data)]
    if view is not None:
        modelled += [*_slices(data, view), *_calibration(data)]
    else:
        found.extend(_no_model(data))
    # Results first, then what the model makes of them, then how the run went.
    results = [section for section in found if section.key in ("progress", "spending")]
    return [*results, *modelled, *(section for section in found if section not in results), *_sampler(data)]


def _of_several(data: ReportData) -> list[Section]:
    """Return the sections of a study with several objectives: models are shown for each of them."""
    own = [data.of_objective(place) for place in range(data.problem.num_objectives)]
    views = [ModelView.of(each) for each in own]
    names = tuple(each.label for each in data.problem.objectives)
    modelled: list[Section] = []
    for make in (_levels, _importance):
        found = [section for each, view in zip(own, views, strict=True) for section in make(each, view)]
        if len(found) == len(names):
            modelled.append(for_each_objective(found, names))
    missing = [] if all(views) else list(_no_model(own[0]))
    results = [*front_sections(data), *_spending(data)]
    return [*results, *modelled, *_last_batch(data), *missing, *_timeline(data), *_failures(data), *_sampler(data)]


def _progress(data: ReportData) -> Sequence[Section]:
    if not data.done:
        return ()
    progress = progress_of(data)
    top = data.problem.ladder.top
    better = "rise" if data.problem.maximise else "fall"
    return (
        Section(
            "progress",
            "Progress",
            f"The dark line is the best value at the top so far: it should {better} early and then become flat. "
            "Each dot is a trial.",
            (progress_figure(data, progress),),
            tuple(hidden_dots(progress, top, data.problem.sign)),
        ),
    )


def _spending(data: ReportData) -> Sequence[Section]:
    if not data.told or data.problem.ladder.num_levels < 2:
        return ()
    spending = spending_of(data)
    failed, waiting = sum(spending.failed), sum(spending.in_flight)
    notes = [f"{failed} of the trials failed; their cost counts."] if failed else []
    notes += [f"{waiting} more trials wait or run."] if waiting else []
    return (
        Section(
            "spending",
            "Where the cost went",
            "Usually cheap levels have most of the trials, and the top most of the cost. A level that took much of it "
            "should relate well to the top.",
            (spending_figure(data, spending),),
            tuple(notes),
        ),
    )


def _timeline(data: ReportData) -> Sequence[Section]:
    lanes = timeline_of(data)
    if not lanes:
        return ()
    left_out = len(lanes) - MOST_LANES
    notes = [f"{left_out} more rows are left out."] if left_out > 0 else []
    return (
        Section(
            "timeline",
            "When and where trials ran",
            "In each row one trial runs at a time. Gaps are times in which a worker waited for a plan or for others.",
            (timeline_figure(data, lanes),),
            tuple(notes),
        ),
    )


def _failures(data: ReportData) -> Sequence[Section]:
    groups = failure_groups(data.history.trials)
    if not groups:
        return ()
    names = data.level_names
    rows = [
        (
            group.reason,
            str(len(group.numbers)),
            ", ".join(names[level] for level in group.levels),
            short_number(group.cost),
            group.named,
        )
        for group in groups[:MOST_GROUPS]
    ]
    more = [f"{len(groups) - MOST_GROUPS} more reasons are left out."] if len(groups) > MOST_GROUPS else []
    return (
        Section(
            "failures",
            "Failures",
            "A reason with many trials is worth a look. Reasons that differ only in numbers are one row.",
            notes=tuple(more),
            head=("reason", "trials", "levels", "cost", "numbers"),
            rows=tuple(rows),
        ),
    )


def _levels(data: ReportData, view: ModelView | None) -> Sequence[Section]:
    if data.problem.ladder.num_levels < 2 or not data.done:
        return ()
    levels = compared_levels(data.history)
    shared = shared_points(data.history, levels)
    if view is None and not shared.is_known:
        return ()
    model = None if view is None else level_correlations(view, levels)
    scale = "1 means that a level orders configurations as the other does, 0 that it says nothing about it."
    source = (
        "The numbers are correlations of ranks at configurations that were run at both levels."
        if view is None
        else "The first number of a square is the model's correlation over the whole space; below it is that of the "
        "ranks at configurations that were run at both levels, if there are enough. A small first number may also mean "
        f"that too little is known of a level. {_whose(data)}"
    )
    return (
        Section(
            "levels",
            "How the levels relate",
            f"Look at the last row: {scale}",
            (levels_figure(data, model, shared, levels),),
            (source,),
            is_narrow=True,
        ),
    )


def _noise(data: ReportData, view: ModelView | None) -> Sequence[Section]:
    if not data.problem.noisy or not data.done:
        return ()
    found = noise_of(data, view)
    return (
        Section(
            "noise",
            "Noise by level",
            "How far a value is from the mean of its configuration, as a standard deviation in the objective's unit. "
            "Repeated runs show it without any model; in brackets is their 95 % interval, if the noise is Gaussian.",
            notes=noise_notes(found),
            head=HEAD,
            rows=tuple(each.row for each in found),
        ),
    )


def _last_batch(data: ReportData) -> Sequence[Section]:
    batch = data.last_batch
    if batch is None:
        return ()
    title = "Why the last batch was chosen"
    named = (
        f"trial {batch.numbers[0]}" if len(batch.numbers) == 1 else f"trials {batch.numbers[0]} to {batch.numbers[-1]}"
    )
    repeated = (
        f"The method, asked again, chooses the last batch ({named}) in the same way."
        if batch.is_same
        else f"The method, asked again for the last batch ({named}), chooses other queries, which are shown here: "
        "it was run with other limits, or results came in another order."
    )
    if not any(choice.offers for choice in batch.choices):
        return (
            Section(
                "last-batch",
                title,
                "No model chose this batch: it belongs to the start of the search.",
                notes=(repeated,),
            ),
        )
    more = len(batch.choices) - MOST_QUERIES
    notes = [repeated, *([f"{more} more queries are left out."] if more > 0 else [])]
    return (
        Section(
            "last-batch",
            title,
            "For each query, the bars compare what the levels offered: expected improvement at the top per cost. "
            "The framed bar was taken.",
            (last_batch_figure(data, batch),),
            tuple(notes),
        ),
    )


def _importance(data: ReportData, view: ModelView | None) -> Sequence[Section]:
    if view is None:
        return ()
    return (
        Section(
            "importance",
            "Which parameters matter",
            "A long bar means that the predicted value at the top changes much when this parameter alone is moved.",
            (slices.importance_figure(importances(view)),),
            (
                "The shares come from the model and are about the whole space, not about what matters near the best. "
                f"{_whose(data)}",
            ),
        ),
    )


def _slices(data: ReportData, view: ModelView) -> Sequence[Section]:
    centre = centre_of(data)
    if centre is None:
        return ()
    importance = importances(view)
    names = [name for name in importance if name in data.problem.space.decode(centre)]
    found = [slices.slice_of(view, centre, name) for name in names[: slices.NUM_SLICES]]
    bounds = slices.common_range(data, found)
    where = "the recommendation" if data.recommendation is not None else "the best configuration so far"
    sections = [
        *_importance(data, view),
        Section(
            "slices",
            "One parameter at a time",
            f"The line is the predicted value at the top when one parameter moves away from {where} (dotted line); the "
            "band is one deviation up and down. A wide band is a place that the study knows little about.",
            tuple(slices.slice_figure(data, each, bounds) for each in found),
            ("The grey dots are trials at the top. Their other parameters differ, so they need not lie on the line.",),
            has_columns=True,
        ),
    ]
    pairs = list(combinations(names[: slices.NUM_PAIRED], 2))
    if pairs:
        sections.append(
            Section(
                "pairs",
                "Two parameters at a time",
                "Dark places are predicted to be good at the top. "
                f"The star is {where}, and the dots are the best trials there.",
                tuple(slices.pair_figure(data, slices.pair_of(view, centre, pair)) for pair in pairs),
                has_columns=True,
            )
        )
    return sections


def _calibration(data: ReportData) -> Sequence[Section]:
    calibration = calibrations.calibrate(data)
    num = len(calibration.predictions)
    if num < calibrations.FEWEST_PREDICTIONS:
        return ()
    one, two = calibration.covered(0.683), calibration.covered(0.954)
    of = "" if num == calibration.possible else f" of {calibration.possible}"
    return (
        Section(
            "calibration",
            "Did the predictions come true",
            "Each dot compares a trial at the top with what was predicted of it from the trials before it: two thirds "
            "should lie in the inner band, and nearly all in the outer one.",
            (calibrations.calibration_figure(calibration),),
            (
                f"{num}{of} trials of the last half at the top: {one:.0%} lie within one deviation (68% should), "
                f"{two:.0%} within two (95% should). {_whose(data)}",
            ),
        ),
    )


def _sampler(data: ReportData) -> Sequence[Section]:
    if data.info is None:
        return ()
    # Imported here: it loads JAX, which a method that reports on samples has loaded already.
    from bmbo.report.sampler_health import sampler_complaints, sampler_rows  # noqa: PLC0415

    rows = sampler_rows(data.info)
    if not rows:
        return ()
    return (
        Section(
            "sampler",
            "Health of the sampler",
            "Few accepted proposals or many divergences mean that the model cannot be relied on.",
            notes=tuple(sampler_complaints(data.info)),
            head=("what", "value"),
            rows=rows,
        ),
    )


def _no_model(data: ReportData) -> Sequence[Section]:
    """Return why the page has no figures of a model."""
    if not data.told:
        return ()
    if data.surrogate is None:
        why = "The page was made without a model."
    elif len(data.done) < FEWEST_VALUES:
        why = f"A model needs at least {FEWEST_VALUES} trials with a value."
    else:
        why = "The model could not be fitted to these values; the log says why."
    return (Section("no-model", "No model", f"{why} Figures that need one are left out."),)


def _whose(data: ReportData) -> str:
    if data.is_own_model:
        return "The model is the method's own."
    return "The method has no exact model: the page fits a Gaussian process to the record instead."
