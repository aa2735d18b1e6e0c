"""Seeded noise for the tests of the solvers."""

import itertools

import pytest

from accounting.noise import Noise
from solvers.solve import release
from tests.support.seeded import SeededBits


@pytest.fixture(autouse=True)
def _seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run of a test draws the same noise, and each release of a test has noise of its own."""
    seeds = itertools.count(1)
    monkeypatch.setitem(release.__globals__, "Noise", lambda: Noise(SeededBits(next(seeds))))
