"""Look up the versions of installed packages."""

from importlib import metadata


def version_of(package: str) -> str | None:
    """Return the version of a package, or None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
