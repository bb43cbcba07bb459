"""The methods of this package. The planner of a study decides what each of them runs next."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from bmbo import History, Outcome, Problem, Query, methods
from bmbo.protocols import Policy, Recommending
from bmbo.study.limits import Limits
from bmbo.study.next_queries import next_step
from experiments.harness.method_interface import Job, MethodEntry, Start


class OwnMethod:
    """Run one policy as a study runs it. It holds the history and the policy's cache; `next_step` holds the rules."""

    def __init__(
        self,
        policy: Policy,
        problem: Problem,
        *,
        seed: int,
        batch_size: int,
        starts: Sequence[Start],
        total_cost: float,
    ) -> None:
        self._policy = policy
        self._seed = seed
        self._batch_size = batch_size
        self._history = History(problem)
        self._carry: Any = None
        for job, value in starts:
            self._add(Query(problem.space.encode(job.config), job.level))
            self._finish_first_pending(value)
        self._limits = Limits(total_cost=self._history.spent + total_cost)

    def ask(self) -> list[Job]:
        """Return the jobs of the planner's next step, or no jobs when the planner has finished."""
        return list(self.start(self._batch_size).values())

    def start(self, num: int) -> dict[int, Job]:
        """Return the jobs of the planner's next step by the numbers of their trials, see `Asynchronous`."""
        step = next_step(
            self._seed,
            self._history,
            self._limits,
            self._policy,
            num=num,
            busy=len(self._history.pending),
            carry=self._carry,
        )
        self._carry = step.carry
        first = len(self._history.trials)
        return {first + place: self._add(query) for place, query in enumerate(step.queries)}

    def finish(self, number: int, value: float) -> None:
        """Add the value of a trial to the history."""
        outcome = Outcome.of(value, self._history.price_of(self._history.trials[number]))
        # Where training continues, every state is kept.
        left = self._history.problem.continues and outcome.value is not None
        self._history = self._history.with_outcome(number, replace(outcome, checkpoint=left))

    def tell(self, jobs: list[Job], values: list[float]) -> None:
        """Add the values to the history."""
        for _, value in zip(jobs, values, strict=True):
            self._finish_first_pending(value)

    def recommend(self) -> Mapping[str, Any] | None:
        """Return the surrogate's recommendation, or None if the policy has no surrogate or there is no value yet."""
        if not isinstance(self._policy, Recommending) or not self._history.done:
            return None
        found, self._carry = self._policy.recommendation(self._seed, self._history, self._carry)
        return self._history.problem.space.decode(found.unit)

    def _add(self, query: Query) -> Job:
        self._history = self._history.asked(query)
        return Job(self._history.problem.space.decode(query.unit), query.level)

    def _finish_first_pending(self, value: float) -> None:
        self.finish(self._history.pending[0].number, value)


def start_run(
    problem: Problem,
    seed: int,
    batch_size: int,
    starts: Sequence[Start],
    total_cost: float,
    *,
    make_policy: Callable[[], Policy],
) -> OwnMethod:
    """Start a run. With `make_policy` fixed this is a `Factory`."""
    return OwnMethod(make_policy(), problem, seed=seed, batch_size=batch_size, starts=starts, total_cost=total_cost)


def _make(name: str, *arguments: Any) -> Policy:
    """Return a method by its name in `bmbo.methods`; JAX is loaded here, and only if this method needs it."""
    return getattr(methods, name)(*arguments)


def _entry(
    name: str, where: str, paper: str, differs: str, *, batch: bool = True, arguments: tuple[Any, ...] = ()
) -> MethodEntry:
    """Describe a method by its name here, and its name and arguments in `bmbo.methods`."""
    return MethodEntry(
        name=name,
        factory=partial(start_run, make_policy=partial(_make, where, *arguments)),
        takes_starts=True,
        batch=batch,
        paper=paper,
        where=f"bmbo.methods.{where}",
        differs=differs,
        packages=("bmbo", "jax"),
    )


DARN = "Li, Kirby, Zhe 2021, Batch Multi-Fidelity Bayesian Optimization with Deep Auto-Regressive Networks"
OUR_FIT = "hyperparameters by our fitting of Gaussian processes"

ENTRIES = (
    _entry("random", "random_search", "", "uniform, at the top fidelity alone"),
    _entry(
        "bmbo_darn",
        "bmbo_darn",
        DARN,
        "the default preset: surrogate, noise and confirmation as docs/design.md says",
    ),
    _entry(
        "bmbo_darn_paper",
        "bmbo_darn",
        DARN,
        "the network, HMC and information as printed; docs/methods.md lists the departures",
        arguments=("paper",),
    ),
    _entry(
        "bmbo_darn_paper_adapted",
        "bmbo_darn",
        DARN,
        "the paper's network and information, chains that tune their step",
        arguments=("paper_adapted",),
    ),
    _entry("bmbo_darn_1", "bmbo_darn_1", DARN, "one query at a time", batch=False),
    _entry(
        "bmbo_gp",
        "bmbo_gp",
        DARN,
        "the same acquisition over a deep auto-regressive Gaussian process",
    ),
    _entry("bmbo_gp_1", "bmbo_gp", DARN, "as bmbo_gp, one query at a time", batch=False),
    _entry(
        "bmbo_mixture",
        "bmbo_mixture",
        DARN,
        "the same acquisition over a mixture of surrogates weighted by held-out density",
    ),
    _entry(
        "screening",
        "screening",
        "",
        "ours: one exact Gaussian process over all levels, expected improvement at the top or a cheaper look first",
    ),
    _entry("screening_1", "screening", "", "as screening, one query at a time", batch=False),
    _entry(
        "mf_gp_ucb",
        "mf_gp_ucb",
        "Kandasamy et al. 2016, Gaussian Process Bandit Optimisation with Multi-fidelity Evaluations",
        OUR_FIT,
        batch=False,
    ),
    _entry(
        "mf_mes",
        "mf_mes",
        "Takeno et al. 2020, Multi-fidelity Bayesian Optimization with Max-value Entropy Search",
        OUR_FIT,
        batch=False,
    ),
    _entry(
        "mf_mes_batch",
        "mf_mes_batch",
        "Takeno et al. 2020, the parallel version",
        "places of a batch one after the other, as if each began a worker",
    ),
    _entry(
        "shtl",
        "shtl",
        "Perrone et al. 2018, Scalable Hyperparameter Transfer Learning",
        "levels as tasks, as the paper used it",
        batch=False,
    ),
    _entry(
        "dnn_mfbo",
        "dnn_mfbo",
        "Li et al. 2020, Multi-Fidelity Bayesian Optimization via Deep Neural Networks",
        "our inference for the networks",
        batch=False,
    ),
    _entry(
        "sf_batch",
        "sf_batch",
        "Kandasamy et al. 2018, Parallelised Bayesian Optimisation via Thompson Sampling",
        "synchronous batches, top fidelity alone",
    ),
)
