"""What `benchmarks costs` runs by itself still runs."""

import subprocess
import sys

import pytest

from benchmarks import costs
from tests.support.patience import PATIENCE


@pytest.mark.slow
def test_a_first_gradient_of_a_fresh_process_is_timed() -> None:
    result = subprocess.run(
        [sys.executable, "-c", costs.FIRST_GRADIENT], capture_output=True, text=True, timeout=PATIENCE
    )
    assert result.returncode == 0, result.stderr
    assert all(float(seconds) > 0.0 for seconds in result.stdout.split())
    assert len(result.stdout.split()) == 3
