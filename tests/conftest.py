"""What `make quick` leaves out."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parent
SLOW = ("e2e", "privacy")  # real servers; statistics with power


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole folders are slow; single tests elsewhere carry the mark themselves."""
    for item in items:
        if item.path.relative_to(ROOT).parts[0] in SLOW:
            item.add_marker(pytest.mark.slow)
