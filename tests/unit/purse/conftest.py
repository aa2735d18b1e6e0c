"""What the tests of this folder share."""

import pytest


@pytest.fixture
def scikit_learn() -> None:
    """Skips what needs it, where it is not."""
    pytest.importorskip("sklearn", reason="scikit-learn is not installed: the estimators are not tried")
