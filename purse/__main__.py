"""Run `purse` by `python -m purse`; a folder `app` in the working directory is not imported."""

import sys
from pathlib import Path

if not sys.flags.safe_path:
    sys.path[0] = str(Path(__file__).parents[1])

from app.cli import main

if __name__ == "__main__":
    main()
