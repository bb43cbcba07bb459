"""Run the command line: `python -m bmbo` is `bmbo`."""

import sys

from bmbo.cli import main

if __name__ == "__main__":
    sys.exit(main())
