"""What the tests of this folder share."""

import pytest

from accounting.noise import Noise
from solvers.solve import release
from tests.support.seeded import SeededBits


@pytest.fixture
def scikit_learn() -> None:
    """Skips what needs it, where it is not."""
    pytest.importorskip("sklearn", reason="scikit-learn is not installed: the estimators are not tried")


@pytest.fixture
def seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same noise for each fit."""
    monkeypatch.setitem(release.__globals__, "Noise", lambda: Noise(SeededBits(7)))
