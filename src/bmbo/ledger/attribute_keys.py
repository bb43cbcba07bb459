"""Define the keys of all attributes that bmbo writes into an Optuna storage.

A stored study keeps these keys for ever. A change of a key, or of its meaning, needs a new `FORMAT` in
`study_definition.py`.
"""

PREFIX = "bmbo:"
"""Beginning of every key of ours; all other attributes of a trial are a user's own."""

DEFINITION = "bmbo:definition"
"""Attribute of a study: its problem and its seed, as `StudyDefinition.to_json` writes them."""

SAMPLER_PLAN = "bmbo:sampler_plan"
"""System attribute of a trial: its `TrialPlan`, as our sampler of Optuna made it."""

PLAN = "bmbo:plan"
"""Attribute of a study: the last batch that was planned, so that another process can complete it."""

RUN = "bmbo:run"
"""Attribute of a study: the stored options of its last run."""

METHOD = "bmbo:method"
"""Attribute of a study: the method that it is run with, as `study/stored_method.py` describes it."""

LEVEL = "bmbo:level"
"""Attribute of a trial: the index of its fidelity."""

FIDELITY = "bmbo:fidelity"
"""Attribute of a trial: the value of its fidelity, for readers of the storage such as Optuna's dashboard."""

COST = "bmbo:cost"
"""Attribute of a trial: its cost; missing while it is not measured yet."""

BATCH = "bmbo:batch"
"""Attribute of a trial: the number of the batch in which it was planned."""

TAG = "bmbo:tag"
"""Attribute of a trial: the policy's notes on its query."""

RESUME_FROM = "bmbo:resume_from"
"""Attribute of a trial: the number of the trial whose checkpoint it continues."""

CHECKPOINT = "bmbo:checkpoint"
"""Attribute of a trial: whether it left a checkpoint; only in studies in which training continues."""

MEASURED = "bmbo:measured"
"""Attribute of a trial: the measured values that the problem limits, by their names; only where there are limits."""

REPORTED = "bmbo:reported"
"""Attribute of a trial: a table of the values that it reported on its way, by their levels."""

STOPPED_FROM = "bmbo:stopped_from"
"""Attribute of a trial that was stopped early: the level at which it was planned; its own is the one it reached."""

RETRIES = "bmbo:retries"
"""Attribute of a trial: how often it was queued again because its worker died."""

OWNER = "bmbo:owner"
"""Attribute of a trial: the process that runs it; of a term of the planner's lease: the process that plans."""

BEAT = "bmbo:beat"
"""Attribute of a trial or a term: a count that its owner increases to show that it is alive."""

APART = "bmbo:apart"
"""Attribute of a trial: whether it runs in another process than its owner, so that it does not end its owner."""

TOLD_BY = "bmbo:told_by"
"""Attribute of a trial: the attempt that gave its outcome, as `attempt_of` in `ledger_entries.py` names it."""

IMPORTED = "bmbo:imported"
"""Attribute of a trial: the key of the row of old results that it holds, so that no row is added twice."""

SECONDS = "bmbo:seconds"
"""Attribute of a trial: how long it ran."""

ERROR = "bmbo:error"
"""Attribute of a trial: why it has no value."""

DROPPED = "bmbo:dropped"
"""Beginning of attributes of a study, followed by ":" and the number of a trial: this trial was dropped.

A storage refuses new attributes of trials that have finished, so that these marks are attributes of the study.
"""

REFUNDED = "bmbo:refunded"
"""As `DROPPED`: the cost of this trial was given back."""

LOST = "bmbo:lost"
"""As `DROPPED`: the checkpoint of this trial is gone."""

RETRY_OF = "bmbo:retry_of"
"""Attribute of a trial: the number of the failed trial that it runs again."""

DUPLICATE_OF = "bmbo:duplicate_of"
"""Attribute of a trial: the number of the trial that it repeats, if a second result arrived for that trial."""

WRITE_KEY = "bmbo:write_key"
"""System attribute of a trial: random text, by which a write is known that is repeated because its answer was lost."""
