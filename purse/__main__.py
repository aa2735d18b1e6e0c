"""`python -m purse` is `purse`, whatever the working directory holds: a folder `app` there is not ours."""

import sys
from pathlib import Path

if not sys.flags.safe_path:
    sys.path[0] = str(Path(__file__).parents[1])

from app.cli import main

if __name__ == "__main__":
    main()
