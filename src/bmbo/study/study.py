"""Ask and tell over a ledger: a study joins a problem, a policy and the record of what was run."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import jax
from optuna.trial import TrialState

from bmbo.executors import make_executor
from bmbo.history import History, Outcome, Query
from bmbo.ledger import ASKED, Ledger, Record, Run, Storage, folder_of, redacted
from bmbo.ledger.study_definition import Definition
from bmbo.methods import bmbo_gp
from bmbo.policies import Bayes
from bmbo.problem import Fidelity, FidelityValue, Ladder, Number, Problem
from bmbo.problem.conversions import as_space
from bmbo.protocols import Executor, Policy
from bmbo.study import import_export, tell, validation
from bmbo.study.checkpoints import KEEPS, Keep, clean, root_in
from bmbo.study.planning import Limits
from bmbo.study.progress import Progress
from bmbo.study.run_loop import GRACE_SECONDS, Options, Runner
from bmbo.study.trial import StudyRecommendation, Trial, view

logger = logging.getLogger("bmbo")

Direction = Literal["minimize", "maximize"]
Objective = Callable[[Trial], Any]
Callback = Callable[["Study", Trial], object]


class Study:
    """A search in progress; made by `create_study` and found again by `load_study`."""

    def __init__(self, ledger: Ledger, policy: Policy, checkpoints: Path) -> None:
        self.policy = policy
        self.checkpoints = checkpoints
        self._ledger = ledger
        self._key = jax.random.key(ledger.seed)
        self._carry: Any = None
        self._runner: Runner | None = None

    @property
    def study_name(self) -> str:
        """Its name in the storage."""
        return self._ledger.name

    @property
    def storage(self) -> str:
        """Where it is kept, without passwords."""
        return redacted(self._ledger.storage)

    @property
    def problem(self) -> Problem:
        """Space, fidelities and direction."""
        return self._ledger.problem

    @property
    def direction(self) -> Direction:
        """Whether small or large values are good."""
        return "maximize" if self.problem.maximise else "minimize"

    @property
    def last_run(self) -> Run | None:
        """With what limits and batches the study was last run, by whatever process; None before the first run."""
        return self._ledger.last_run

    @property
    def history(self) -> History:
        """All that is known, as one immutable value."""
        return self._ledger.read().history

    @property
    def trials(self) -> list[Trial]:
        """Every trial, in the order in which they were asked for."""
        record = self._ledger.read()
        return [self._view(record, entry.trial.number) for entry in record.entries]

    @property
    def best_trial(self) -> Trial:
        """The best observed at the top fidelity."""
        record = self._ledger.read()
        best = record.history.best
        if best is None:
            top = self.problem.ladder[self.problem.ladder.top].name
            raise ValueError(f"no trial at the top fidelity ({top}) has finished yet")
        return self._view(record, best.number)

    @property
    def best_params(self) -> Mapping[str, Any]:
        """Configuration of the best trial."""
        return self.best_trial.params

    @property
    def best_value(self) -> float:
        """Value of the best trial."""
        return float(self.best_trial.value or 0.0)

    def ask(self, n: int = 1) -> list[Trial]:
        """The next `n` trials to run, chosen jointly; fewer only while the policy waits for trials in flight.

        Trials that wait in the queue come first. Run them yourself and tell what they gave, from any process; let one
        process ask at a time.
        """
        n = validation.whole("ask needs", n)
        record = self._ledger.read()
        numbers = [entry.trial.number for entry in record.waiting[:n] if self._ledger.claim(entry, ASKED)]
        if len(numbers) < n:
            history = self.history
            queries, self._carry = self.policy.suggest(self._key, history, n - len(numbers), self._carry)
            numbers += [self._ledger.add(query, owner=ASKED) for query in queries]
        record = self._ledger.read()
        return [self._view(record, number) for number in numbers]

    def enqueue(
        self, params: Mapping[str, Any], level: int | None = None, *, fidelity: FidelityValue | None = None
    ) -> Trial:
        """Queues a trial of your own choice, at the top fidelity unless another is given; ask and optimize take it."""
        place = import_export.level_of(self.problem.ladder, level, fidelity)
        number = self._ledger.add(Query(self.problem.space.encode(params), place))
        return self._view(self._ledger.read(), number)

    def tell(
        self,
        trial: Trial | int,
        value: object = None,
        *,
        error: str | None = None,
        state: str | TrialState | None = None,
        cost: Number | None = None,
        seconds: Number | None = None,
    ) -> Trial:
        """Records what a trial gave: a number, or the reason why there is none. NaN and infinities are failures.

        Args:
            trial: the trial or its number.
            value: what was observed.
            error: why there is no value.
            state: "complete" or "fail", where you like to say it; "waiting" puts the trial back into the queue.
            cost: what it cost, where that differs from its fidelity's cost.
            seconds: how long it ran; where costs are measured and this is not given, since it was asked for.
        """
        number = trial.number if isinstance(trial, Trial) else trial
        if isinstance(number, bool) or not isinstance(number, int):
            raise TypeError(f"tell needs a trial or its number, got {trial!r}")
        wanted = tell.state_of(value, error, state)
        record = self._ledger.read()
        if not 0 <= number < len(record.entries):
            raise KeyError(f"there is no trial {number}; the study has {len(record.entries)}")
        entry = record.entries[number]
        outcome = tell.outcome_of(self.problem.ladder, entry, value, error, cost=cost, seconds=seconds)
        # Refuses a second outcome before anything is written.
        record.history.with_outcome(number, outcome)
        if wanted == "waiting":
            self._ledger.requeue(entry, entry.owner, died=False)
        else:
            number = self._ledger.finish(entry, outcome)
        return self._view(self._ledger.read(), number)

    def recommendation(self) -> StudyRecommendation:
        """The surrogate's choice; needs a policy with a surrogate and at least one finished trial."""
        if not isinstance(self.policy, Bayes):
            raise TypeError("this study's method has no surrogate to recommend from; see best_trial")
        history = self.history
        if not history.done:
            raise ValueError("no trial has finished yet")
        found, self._carry = self.policy.recommendation(self._key, history, self._carry)
        return StudyRecommendation(self.problem.space.decode(found.unit), found.mean, found.std)

    def add_trial(
        self,
        params: Mapping[str, Any],
        value: Number,
        *,
        level: int | None = None,
        fidelity: FidelityValue | None = None,
        cost: Number | None = None,
    ) -> Trial:
        """Adds a result that was found elsewhere, at the top unless a level or a fidelity is given.

        It is used at once. It is free unless a cost is given, and no limit on trials counts it.
        """
        return self._added(
            [import_export.old_result(self.problem, params, value, level=level, fidelity=fidelity, cost=cost)]
        )[0]

    def add_trials(self, source: Any) -> list[Trial]:
        """Adds the results of a pandas DataFrame, another bmbo study or an Optuna study: all of them, or none.

        A table has a column for each parameter (its name, or params_ and its name), `value`, and where wanted `level`
        or `fidelity` and `cost`. Of a study the trials with a value are taken; Optuna's count as the top fidelity.
        """
        if isinstance(source, Study):
            rows: Iterable[Mapping[str, Any]] = [
                {"params": trial.params, "value": trial.value, "fidelity": trial.fidelity}
                for trial in source.trials
                if trial.value is not None
            ]
        else:
            rows = import_export.rows_of(source)
        return self._added(import_export.old_results(self.problem, rows))

    def _added(self, results: Sequence[tuple[Query, Outcome]]) -> list[Trial]:
        numbers = [self._ledger.add(query, outcome) for query, outcome in results]
        record = self._ledger.read()
        return [self._view(record, number) for number in numbers]

    def trials_dataframe(self) -> Any:
        """Every trial as a row of a pandas DataFrame."""
        return import_export.table(self.trials)

    def clean_checkpoints(self, keep: Keep = "useful") -> list[int]:
        """Removes checkpoint folders of finished trials and gives the trials' numbers; those in flight lose nothing.

        "useful" are the best trial's and, of each configuration, that of the highest finished level below the top.
        """
        return clean(self.checkpoints, self.history, keep)

    def stop(self) -> None:
        """Ends the run that is under way in this process, after what runs now; for callbacks and other threads."""
        if self._runner is None:
            raise RuntimeError("stop ends a run of this study in this process, and none is under way")
        self._runner.stop()

    def optimize(
        self,
        objective: Objective,
        *,
        total_cost: Number | None = None,
        n_trials: int | None = None,
        timeout: Number | None = None,
        batch_size: int = 1,
        n_workers: int = 1,
        executor: str | Executor = "auto",
        asynchronous: bool = False,
        trial_timeout: Number | None = None,
        callbacks: Sequence[Callback] = (),
        catch: type[BaseException] | Sequence[type[BaseException]] = (),
        keep_checkpoints: Keep = "all",
        grace: Number = GRACE_SECONDS,
        show_progress_bar: bool = True,
    ) -> None:
        """Runs trials until a limit is reached; any number of processes may do so for one study at once.

        What others left undone is done first: trials that wait, and those whose worker is gone. Where the method
        recommends, one evaluation at the top is kept of the limits to confirm the recommendation in the end. Ctrl-C
        stops after what runs, a second one at once; call again to go on.

        Args:
            objective: called with a `Trial`; gives a real number.
            total_cost: what all trials of the study may cost together, those that it holds already included. Where
                costs are measured this is kept as well as durations can be foreseen.
            n_trials: how many trials the study may have, those that it holds already included.
            timeout: seconds after which this call starts nothing more.
            batch_size: trials chosen jointly; asynchronously, trials kept in flight, at least one a worker.
            n_workers: trials run at once.
            executor: "inline" (this process), "process" (processes of this machine), "ray", an executor of your own, or
                "auto": inline for one worker without a `trial_timeout`, else process. One of your own is left open for
                the next run, unless this one ends in an exception.
            asynchronous: choose a trial as soon as a worker is free, not when the whole batch is done.
            trial_timeout: seconds after which a trial is killed and has failed.
            callbacks: each called with the study and a trial after that has finished.
            catch: exceptions of the objective that only fail their trial; others end the run after what runs.
            keep_checkpoints: which checkpoint folders stay: "all", "useful" or "none"; see `clean_checkpoints`.
            grace: seconds of silence after which another process is taken for dead.
            show_progress_bar: whether to show one.
        """
        limits = Limits.checked(total_cost, n_trials, timeout)
        n_workers = validation.whole("n_workers must be", n_workers)
        validation.check_total(limits, self.problem.ladder)
        if keep_checkpoints not in KEEPS:
            raise ValueError(f"keep_checkpoints must be one of {list(KEEPS)}, got {keep_checkpoints!r}")
        if self._runner is not None:
            raise RuntimeError("this study is being run already; other processes may join in, with load_study")
        caught = (catch,) if isinstance(catch, type) else tuple(catch)
        validation.check_callables(objective, callbacks, caught)
        options = Options(limits, batch_size, asynchronous, caught, grace)
        engine = make_executor(executor, n_workers, trial_timeout)
        self._ledger.note_run(Run(limits.total_cost, limits.n_trials, batch_size, asynchronous))
        with Progress(self.history, limits.total_cost, limits.n_trials, show_progress_bar) as progress:

            def on_finished(record: Record, number: int) -> None:
                progress.show(record.history)
                clean(self.checkpoints, record.history, keep_checkpoints)
                for callback in callbacks:
                    callback(self, self._view(record, number))

            try:
                self._run(objective, engine, options, on_finished)
            except BaseException:
                # Ends what still runs there.
                engine.close()
                raise
            if isinstance(executor, str):
                engine.close()

    def _run(
        self,
        objective: Objective,
        executor: Executor,
        options: Options,
        on_finished: Callable[[Record, int], None],
    ) -> None:
        self._runner = Runner(
            self._ledger,
            objective,
            executor,
            options,
            policy=self.policy,
            key=self._key,
            checkpoints=self.checkpoints,
            on_finished=on_finished,
            carry=self._carry,
        )
        try:
            self._runner.run()
        finally:
            self._carry = self._runner.carry
            self._runner = None

    def _view(self, record: Record, number: int) -> Trial:
        return view(self.checkpoints, record.history, record.entries[number])


def create_study(
    *,
    study_name: str | None = None,
    storage: Storage = None,
    load_if_exists: bool = False,
    direction: Direction = "minimize",
    space: Any,
    fidelities: Iterable[Fidelity],
    seed: int = 0,
    method: Policy | None = None,
    checkpoints: str | Path | None = None,
) -> Study:
    """A new study, or one to go on with.

    Args:
        study_name: its name in the storage; made up where none is given.
        storage: a database URL ("sqlite:///study.db", "postgresql+psycopg://..."), a path ending in .log or .journal
            for a journal file, an Optuna storage, or None for memory.
        load_if_exists: go on with the study of that name, if there is one; it must be about the same problem.
        direction: "minimize" or "maximize".
        space: a `Space`, a mapping from names to bmbo's or Optuna's distributions, or a ConfigurationSpace.
        fidelities: from the roughest to the one that counts.
        seed: of all random choices.
        method: what chooses; `bmbo_gp()` by default.
        checkpoints: where checkpoint folders are made; by default beside a storage that is a file, else here.
    """
    if direction not in ("minimize", "maximize"):
        raise ValueError(f"direction must be 'minimize' or 'maximize', got {direction!r}")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ValueError(f"seed must be a whole number of at least 0, got {seed!r}")
    if study_name is not None and (not isinstance(study_name, str) or not study_name):
        raise ValueError(f"study_name must be a name that is not empty, got {study_name!r}")
    if load_if_exists and study_name is None:
        raise ValueError("load_if_exists=True needs a study_name: by what else should the study be found?")
    validation.check_method(method)
    problem = Problem(as_space(space), Ladder(fidelities), maximise=direction == "maximize")
    ledger = Ledger.create(storage, study_name, Definition(problem, seed), load_if_exists)
    return _study(ledger, method, checkpoints)


def load_study(
    *,
    study_name: str,
    storage: Storage,
    method: Policy | None = None,
    checkpoints: str | Path | None = None,
) -> Study:
    """The study of that name, as it was made; for the arguments see `create_study`."""
    validation.check_method(method)
    return _study(Ledger.load(storage, study_name), method, checkpoints)


def _study(ledger: Ledger, method: Policy | None, root: str | Path | None) -> Study:
    folder = root_in(folder_of(ledger.storage), ledger.name) if root is None else Path(root)
    return Study(ledger, bmbo_gp() if method is None else method, folder)
