"""Promise what a method gives to a study: queries, a recommendation, and a plan within a budget."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from bmbo.history import History, Query
from bmbo.problem import Problem
from bmbo.protocols.exact_moments import ExactSurrogate


@runtime_checkable
class Policy(Protocol):
    """Map what is known to what to run next."""

    def suggest(self, seed: int, history: History, num: int, carry: Any = None) -> tuple[list[Query], Any]:
        """Return at most `num` queries, and a cache for the next call; no queries only while something is in flight.

        The result is a pure function of (seed, history). The seed belongs to the study and is the same at every call.
        `carry` is the cache that an earlier call returned; None is always allowed.
        """
        ...


@dataclass(frozen=True)
class Recommendation:
    """Hold a point of the cube, and what is predicted there in the objective's own units."""

    unit: tuple[float, ...]
    mean: float
    std: float


@runtime_checkable
class Recommending(Policy, Protocol):
    """Describe a policy that can name the best configuration; the planner then confirms it at the top fidelity."""

    def recommendation(self, seed: int, history: History, carry: Any = None) -> tuple[Recommendation, Any]:
        """Return the point with the best expected value at the top fidelity, and a cache as `suggest` does.

        The history has at least one trial with a value.
        """
        ...


@runtime_checkable
class SelfConfirming(Recommending, Protocol):
    """Describe a policy that can say that nothing must be kept to confirm its recommendation."""

    @property
    def recommends_evaluated(self) -> bool:
        """Return whether it recommends only what has a value at the top, as soon as anything has one."""
        ...


@runtime_checkable
class Budgeted(Policy, Protocol):
    """Describe a policy that plans with what a run may spend. It may suggest nothing when the top cannot be paid."""

    def within(self, total_cost: float | None, n_trials: int | None) -> Policy:
        """Return the same policy for a run with these limits; None is no limit.

        Args:
            total_cost: what all trials of the history may cost together, those still to come included.
            n_trials: how many trials the history may have at the end.
        """
        ...


@runtime_checkable
class Starting(Policy, Protocol):
    """Describe a policy that can say how it begins, so that users are told."""

    def start_sizes(self, problem: Problem) -> tuple[int, ...]:
        """Return how many trials of each level, lowest first, come before a model chooses; empty if it has no start.

        The problem has a number for each cost.
        """
        ...


@runtime_checkable
class Demanding(Policy, Protocol):
    """Describe a policy that knows of more than one value of one direction."""

    @property
    def handles(self) -> frozenset[str]:
        """Return what it knows of: names of arguments of `create_study`, as `Problem.demands` has them."""
        ...


@dataclass(frozen=True)
class Offer:
    """Describe the best query that a level had to offer when a query was chosen.

    Attributes:
        level: of the query.
        unit: its point of the cube.
        gain: the improvement at the top that is expected of it, standardised.
        cost: what this improvement costs, with the evaluation at the top that a look leads to.
    """

    level: int
    unit: tuple[float, ...]
    gain: float
    cost: float

    @property
    def rate(self) -> float:
        """Return the gain per cost."""
        return self.gain / self.cost


@dataclass(frozen=True)
class Choice:
    """Hold a query, and what the levels offered when it was chosen; nothing if no model chose it."""

    query: Query
    offers: tuple[Offer, ...] = ()


@runtime_checkable
class Explaining(Policy, Protocol):
    """Describe a policy with an exact model that can say why it chose a batch; the report of a study asks it."""

    @property
    def surrogate(self) -> ExactSurrogate:
        """Return what learns the model."""
        ...

    def explain(self, seed: int, history: History, num: int, carry: Any = None) -> tuple[list[Choice], Any]:
        """Return what `suggest` returns for the same arguments, each query with the offers of the levels."""
        ...
