"""Print how large the package and each of its extras are when they are installed.

    python benchmarks/install_size.py

Nothing is installed or downloaded. The requirements are followed through the metadata of the packages that are
installed here, and the sizes of their files are added up. An extra counts what it brings beyond the core.
"""

import argparse
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def needed(name: str, extras: Iterable[str] = ()) -> set[str]:
    """Return the names of the packages that a package needs, itself included; raise if one is not installed."""
    found: set[tuple[str, str]] = set()
    todo = [(canonicalize_name(name), extra) for extra in ("", *extras)]
    while todo:
        package, extra = todo.pop()
        if (package, extra) in found:
            continue
        found.add((package, extra))
        for text in metadata.distribution(package).requires or []:
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                todo += [(canonicalize_name(requirement.name), wanted) for wanted in ("", *requirement.extras)]
    return {package for package, _ in found}


def size(name: str) -> int:
    """Return the bytes of the files of an installed package, without compiled bytecode."""
    files = metadata.distribution(name).files or []
    paths = [Path(str(file.locate())) for file in files if file.suffix != ".pyc"]
    return sum(path.stat().st_size for path in paths if path.is_file())


def table(name: str) -> str:
    """Return a Markdown table with the core and every extra of a package."""
    core = needed(name)
    lines = ["| what | packages | MB |", "| --- | --- | --- |"]
    rows = [("core", core)]
    for extra in sorted(metadata.metadata(name).get_all("Provides-Extra") or []):
        try:
            rows.append((f"`{extra}`", needed(name, [extra]) - core))
        except metadata.PackageNotFoundError as error:
            lines.append(f"| `{extra}` | not installed here: {error.name} | |")
    lines[2:2] = [f"| {what} | {len(names)} | {sum(map(size, names)) / 1e6:.0f} |" for what, names in rows]
    return "\n".join(lines)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    print(table("bmbo"))


if __name__ == "__main__":
    main()
