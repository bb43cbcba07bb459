"""Show a person how far a run has come."""

from types import TracebackType

from tqdm.auto import tqdm

from bmbo.history import History


class Progress:
    """Show a bar over the cost, or over trials if there is no budget, with the best value and the use of each level.

    Like the limits, it also counts what the study held before this run.
    """

    def __init__(self, history: History, total_cost: float | None, n_trials: int | None, show: bool) -> None:
        self._by_cost = total_cost is not None
        self._done = self._count(history)
        limit = total_cost if self._by_cost else n_trials
        self._bar = tqdm(
            total=None if limit is None else max(limit, self._done),
            initial=self._done,
            unit="cost" if self._by_cost else "trial",
            bar_format=None
            if limit is None
            else "{desc}: {percentage:3.0f}%|{bar:20}| {n:g}/{total:g} {unit} [{elapsed}<{remaining}{postfix}]",
            desc="bmbo",
            disable=not show,
        )

    def show(self, history: History) -> None:
        """Move the bar to what the history says."""
        now = self._count(history)
        self._bar.set_postfix_str(describe(history), refresh=False)
        if self._bar.total is not None:
            # Results added meanwhile may go beyond the limit; tqdm would then forget that there is one.
            self._bar.total = max(self._bar.total, now)
        self._bar.update(now - self._done)
        self._done = now

    def _count(self, history: History) -> float:
        return history.spent if self._by_cost else float(len(history.told))

    def __enter__(self) -> "Progress":  # noqa: PYI034 (run-time type checks know no Self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.close()


def describe(history: History) -> str:
    """Return the best value at the top fidelity and the number of queries at each level, in one line."""
    ladder = history.problem.ladder
    levels = [trial.query.level for trial in history.trials]
    used = " ".join(f"{ladder[level].name}:{levels.count(level)}" for level in range(ladder.num_levels))
    best = history.best
    return f"best {'-' if best is None else format(best.value, '.5g')}, {used}"
