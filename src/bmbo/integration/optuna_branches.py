"""Find out from finished trials of Optuna which parameters a script asks for only in some of its branches."""

from collections.abc import Iterable, Mapping, Sequence

from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState

from bmbo.problem.conditions import Choice, same_choice

MOST_VALUES = 100
"""Values that an integer may have to count as a parameter on which a script branches."""

Branches = Mapping[str, tuple[str, tuple[Choice, ...]]]
"""For each parameter that only some trials have: its parent, and the values of the parent at which it was asked for."""


def branches_of(trials: Iterable[FrozenTrial], common: Mapping[str, BaseDistribution]) -> Branches:
    """Return the parameters that only some trials have, each with a parent that says which.

    A parent is a choice or a small integer that was asked for before the parameter whenever both were. At no value of
    it some trials have the parameter and others do not. Where several fit, it is the one that was asked for last. A
    parameter without such a parent, or whose range changes, is left out.
    """
    ended = [trial for trial in trials if trial.state in (TrialState.COMPLETE, TrialState.PRUNED)]
    found: dict[str, tuple[str, tuple[Choice, ...]]] = {}
    for name in sorted({name for trial in ended for name in trial.params} - common.keys()):
        having = [trial for trial in ended if name in trial.params]
        if any(trial.distributions[name] != having[0].distributions[name] for trial in having):
            continue
        # Also those that only some trials have; the last first.
        before = list(having[0].params)[: list(having[0].params).index(name)]
        for parent in reversed(before):
            values = _values_with(ended, having, parent, name)
            if values:
                found[name] = parent, values
                break
    return _rooted(found, common)


def distributions_of(trials: Iterable[FrozenTrial], names: Iterable[str]) -> dict[str, BaseDistribution]:
    """Return the distributions of some parameters, as the first trials have them."""
    known: dict[str, BaseDistribution] = {}
    for trial in trials:
        known = {**trial.distributions, **known}
    return {name: known[name] for name in names}


def _values_with(
    ended: Sequence[FrozenTrial], having: Sequence[FrozenTrial], parent: str, name: str
) -> tuple[Choice, ...]:
    """Return the values of a parent at which trials have a parameter; nothing if it does not tell them apart."""
    kinds = [trial.distributions.get(parent) for trial in ended if parent in trial.params]
    if not _branches(kinds[0]) or any(kind != kinds[0] for kind in kinds):
        return ()
    for trial in having:
        asked = list(trial.params)
        if parent not in asked or asked.index(parent) > asked.index(name):
            return ()
    values: list[Choice] = []
    for trial in having:
        if not any(same_choice(trial.params[parent], value) for value in values):
            values.append(trial.params[parent])
    lacking = [trial.params[parent] for trial in ended if name not in trial.params and parent in trial.params]
    return () if any(same_choice(one, value) for one in lacking for value in values) else tuple(values)


def _branches(distribution: BaseDistribution | None) -> bool:
    if isinstance(distribution, IntDistribution):
        return not distribution.single() and distribution.high - distribution.low <= MOST_VALUES
    return isinstance(distribution, CategoricalDistribution) and not distribution.single()


def _rooted(found: Mapping[str, tuple[str, tuple[Choice, ...]]], common: Mapping[str, BaseDistribution]) -> Branches:
    """Return the branches whose parents are common, or are such branches themselves."""
    rooted: dict[str, tuple[str, tuple[Choice, ...]]] = {}
    while more := {
        name: branch
        for name, branch in found.items()
        if name not in rooted and (branch[0] in common or branch[0] in rooted)
    }:
        rooted.update(more)
    return rooted
