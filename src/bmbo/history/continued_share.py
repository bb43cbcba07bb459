"""Count which trials went on from a lower level, and what that saved."""

from dataclasses import dataclass

from bmbo.history.trial_records import History


@dataclass(frozen=True)
class ContinuedShare:
    """Hold how much of the training of a study was continued.

    Attributes:
        above: trials with an outcome above the lowest level.
        continued: of these, how many went on from a lower level.
        saved: what these would have cost more if they had begun anew.
    """

    above: int
    continued: int
    saved: float

    @classmethod
    def of(cls, history: History) -> "ContinuedShare":
        """Return the share of a history."""
        costs = history.priced.ladder.costs
        above = [trial for trial in history.told if trial.query.level > 0]
        sources = [history.trials[trial.resumed_from] for trial in above if trial.resumed_from is not None]
        return cls(len(above), len(sources), sum((costs[source.query.level] for source in sources), start=0.0))

    @property
    def text(self) -> str:
        """Return the share in words."""
        return f"{self.continued} of {self.above} trials above the lowest level, which saved a cost of {self.saved:.4g}"
