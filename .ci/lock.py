"""Write which version of every dependency pip chooses today, for the audit: `make lock`."""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

EXTRAS = "configspace,dashboard,networks,pandas,plot,postgresql,ray,sklearn"
HEAD = "# What pip chooses for bmbo and its extras on Linux with Python 3.11: `make lock`. Read by pip-audit.\n"


def main() -> None:
    """Ask pip, which installs nothing here, and write the file that the command line names."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        options = ["--quiet", "--dry-run", "--ignore-installed", "--report", str(report)]
        command = [sys.executable, "-m", "pip", "install", *options, f".[{EXTRAS}]"]
        subprocess.run(command, check=True)  # noqa: S603 - our own words
        found = [each["metadata"] for each in json.loads(report.read_text())["install"]]
    pins = {re.sub(r"[-_.]+", "-", each["name"]).lower(): each["version"] for each in found}
    lines = [f"{name}=={version}\n" for name, version in sorted(pins.items()) if name != "bmbo"]
    Path(sys.argv[1]).write_text(HEAD + "".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
