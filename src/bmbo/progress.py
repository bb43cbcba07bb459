"""What a person sees while a study runs."""

from types import TracebackType

from tqdm.auto import tqdm

from bmbo.problem import Problem
from bmbo.trial import History


class Progress:
    """A bar over cost (or over trials, where there is no budget) with the best at the top and the use of each level."""

    def __init__(self, problem: Problem, total_cost: float | None, n_trials: int | None, show: bool) -> None:
        self._problem = problem
        self._by_cost = total_cost is not None
        self._bar = tqdm(
            total=total_cost if self._by_cost else n_trials,
            unit="cost" if self._by_cost else "trial",
            bar_format="{desc}: {percentage:3.0f}%|{bar:20}| {n:g}/{total:g} {unit} [{elapsed}<{remaining}{postfix}]"
            if (self._by_cost or n_trials is not None)
            else None,
            desc="bmbo",
            disable=not show,
        )
        self._done: float = 0
        self._before: tuple[float, int] | None = None

    def show(self, history: History) -> None:
        """Moves the bar to what the history says."""
        told = history.told
        if self._before is None:
            last = told[-1].outcome if told else None
            self._before = (history.spent - (last.cost if last else 0.0), len(told) - 1)
        now = history.spent - self._before[0] if self._by_cost else len(told) - self._before[1]
        self._bar.set_postfix_str(describe(history), refresh=False)
        self._bar.update(now - self._done)
        self._done = now

    def __enter__(self) -> "Progress":  # noqa: PYI034 (run-time type checks know no Self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.close()


def describe(history: History) -> str:
    """Best value at the top fidelity and queries at each level, in one line."""
    ladder = history.problem.ladder
    levels = [trial.query.level for trial in history.trials]
    used = " ".join(f"{ladder[level].name}:{levels.count(level)}" for level in range(ladder.num_levels))
    best = history.best
    return f"best {'-' if best is None else format(best.value, '.5g')}, {used}"
