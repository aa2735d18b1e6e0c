"""Seeded noise for the tests of the solvers."""

import pytest


@pytest.fixture(autouse=True)
def _seeded(seeded_noise: None) -> None:
    """Seed the noise of every test of this folder."""
