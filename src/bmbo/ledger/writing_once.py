"""Write once what must not be there twice, also where the storage keeps a write and its answer is lost."""

import time

from optuna.storages import BaseStorage, JournalStorage
from optuna.trial import FrozenTrial, TrialState

from bmbo.ledger.attribute_keys import OWNER, WRITE_KEY
from bmbo.ledger.mended_journal import MendedJournal, NotPermittedError
from bmbo.ledger.optuna_private import journal_state, journal_trials, trial_id, wrapped_backend
from bmbo.ledger.outages import with_retries

NAMING_SECONDS = 5.0
"""How long a process that claimed a trial may take to write its name."""


def write_once(
    storage: BaseStorage, study_id: int, template: FrozenTrial, term: int | None = None, after: int | None = None
) -> int | None:
    """Write a trial and return its id; None if its writer may not write it any more, see `TrialStore.create`.

    Databases also look for the key of the trial inside the transaction, see `optuna_private`: an earlier try may still
    be at work there.
    """
    tried = False

    def write() -> int | None:
        nonlocal tried
        if tried:
            for stored in storage.get_all_trials(study_id, deepcopy=False):
                if stored.system_attrs.get(WRITE_KEY) == template.system_attrs[WRITE_KEY]:
                    return trial_id(stored)
        tried = True
        return write_if(storage, study_id, template, term, after)

    return with_retries(write)


def write_if(
    storage: BaseStorage, study_id: int, template: FrozenTrial, term: int | None, after: int | None
) -> int | None:
    """Write a trial and return its id; None if a term has ended, or if there are more trials than the caller knows.

    In a journal of ours nothing can come between the look and the write.
    """
    journal = wrapped_backend(storage)
    if (term is None and after is None) or not isinstance(journal, MendedJournal):
        over = term is not None and storage.get_trial(term).state != TrialState.RUNNING
        crowded = after is not None and storage.get_n_trials(study_id) > after
        return None if over or crowded else storage.create_new_trial(study_id, template)
    assert isinstance(storage, JournalStorage)

    def is_permitted() -> bool:
        if term is not None and journal_state(storage, term) != TrialState.RUNNING:
            return False
        return after is None or len(journal_trials(storage, study_id)) <= after

    try:
        with journal.only_if(is_permitted):
            return storage.create_new_trial(study_id, template)
    except NotPermittedError:
        return None


def claim_once(storage: BaseStorage, claimed: int) -> bool:
    """Begin a trial that waits and return whether it worked; of several processes that try, only one succeeds.

    A second try after a lost answer finds the trial begun, and cannot see by whom. Who begins a trial writes its name
    at once, so a trial that stays without a name was begun by the first try.

    Args:
        storage: where the trial is kept.
        claimed: the id of the trial.

    Raises:
        UpdateFinishedTrialError: The trial has ended.
    """
    tries = 0

    def begin() -> bool:
        nonlocal tries
        tries += 1
        return storage.set_trial_state_values(claimed, TrialState.RUNNING)

    return with_retries(begin) or (tries > 1 and _stays_nameless(storage, claimed))


def _stays_nameless(storage: BaseStorage, claimed: int) -> bool:
    deadline = time.monotonic() + NAMING_SECONDS
    while True:
        stored = with_retries(lambda: storage.get_trial(claimed))
        if stored.state != TrialState.RUNNING or stored.user_attrs.get(OWNER) is not None:
            return False
        if time.monotonic() >= deadline:
            return True
        time.sleep(0.2)
