"""Read the conditions of a ConfigSpace space: those that one set of values for each parent can say."""

from typing import Any

from bmbo.problem.conditions import Choice, same_choice

_KNOWN = "conditions that name values of a parent (EqualsCondition, InCondition), joined by AndConjunction"


def config_space_conditions(space: Any) -> dict[str, dict[str, list[Choice]]]:
    """Return for each conditional hyperparameter of a ConfigurationSpace the values of its parents, as for `when`.

    Raise ValueError for forbidden clauses, and for conditions that cannot be said so.
    """
    if space.forbidden_clauses:
        named = "; ".join(str(one) for one in space.forbidden_clauses)
        raise ValueError(
            f"the space has forbidden clauses, which are not supported: {named}; leave them out, and let the objective "
            "raise for what is forbidden"
        )
    found: dict[str, dict[str, list[Choice]]] = {}
    for condition in space.conditions:
        kind = type(condition).__name__
        parts: list[Any] = list(condition.components) if kind == "AndConjunction" else [condition]
        for part in parts:
            values = _values(type(part).__name__, part, condition)
            parents = found.setdefault(part.child.name, {})
            before = parents.get(part.parent.name, values)
            both = [value for value in values if any(same_choice(value, other) for other in before)]
            if not both:
                raise ValueError(f"the condition {condition} never holds; leave {part.child.name!r} out")
            parents[part.parent.name] = both
    return found


def _values(kind: str, part: Any, whole: object) -> list[Choice]:
    if kind not in ("EqualsCondition", "InCondition"):
        raise ValueError(f"the condition {whole} is not supported: give {_KNOWN}")
    values: list[Any] = [part.value] if kind == "EqualsCondition" else list(part.values)
    return [value.item() if hasattr(value, "item") else value for value in values]
