"""Check the names of new studies, and name the second study that belongs to each."""

LEASE_ENDING = "/lease"
"""After the name of a study: the name of the study in which is kept who plans it."""

LONGEST = 250
"""Databases of Optuna hold names of 512 characters, and files of most systems names of 255 bytes."""


def check_new_name(name: str) -> None:
    """Raise ValueError if no study should be made under a name; studies that have such a name can still be loaded."""
    if len(name) > LONGEST:
        raise ValueError(f"study_name must have at most {LONGEST} characters, got {len(name)}: {name[:40]!r}...")
    # Also halves of characters, which no storage can hold.
    strange = [character for character in name if not character.isprintable()]
    if strange:
        raise ValueError(f"study_name must have printable characters only, got {strange[0]!r} in {name!r}")
    if name.endswith(LEASE_ENDING):
        raise ValueError(
            f"study_name must not end in {LEASE_ENDING!r}: under the name {name!r} is kept who plans the study "
            f"{name.removesuffix(LEASE_ENDING)!r}"
        )


def lease_name(name: str) -> str:
    """Return the name of the study in which is kept who plans a study."""
    return f"{name}{LEASE_ENDING}"
