"""Fixtures of the tests of the estimators and the client."""

import pytest

from accounting.noise import Noise
from solvers.solve import release
from tests.support.seeded import SeededBits


@pytest.fixture
def scikit_learn() -> None:
    """Skip the test if scikit-learn is not installed."""
    pytest.importorskip("sklearn", reason="scikit-learn is not installed: the estimators are not tried")


@pytest.fixture
def same_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw the same noise in each fit."""
    monkeypatch.setitem(release.__globals__, "Noise", lambda: Noise(SeededBits(7)))
