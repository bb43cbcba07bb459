"""Say which studies a storage holds."""

import json

from bmbo.ledger.attribute_keys import DEFINITION
from bmbo.ledger.damage import opened_whole, unreadable
from bmbo.ledger.outages import with_retries
from bmbo.ledger.storages import Storage, check_exists, redacted


def study_names(storage: Storage) -> list[str]:
    """Return the names of the studies in a storage that bmbo made; raise ValueError if the storage does not exist."""
    check_exists(storage)
    opened = opened_whole(storage, must_exist=True)
    try:
        studies = with_retries(opened.get_all_studies)
    except (json.JSONDecodeError, LookupError, AttributeError, TypeError) as error:
        raise unreadable(f"storage {redacted(storage)}", error) from error
    return sorted(study.study_name for study in studies if DEFINITION in study.user_attrs)
