"""The comparison with peers: what of it is ours."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks import peers
from benchmarks.datasets import Split


def _split() -> Split:
    generator = np.random.default_rng(1)
    X = np.c_[generator.uniform(-1, 1, size=(1000, 3)), np.ones(1000)]
    y = np.clip(X @ np.array([0.5, -0.25, 0.0, 0.1]) + 0.1 * generator.normal(size=1000), -1, 1)
    return Split("made up", X[:800], y[:800], X[800:], y[800:], 2.0)


def test_printed_adassp_is_ridge_regression_without_noise_and_worse_with_much() -> None:
    split = _split()
    n, d = split.X.shape
    ridge = np.linalg.solve(split.X.T @ split.X / n + peers.STRENGTH * np.eye(d), split.X.T @ split.y / n)
    np.testing.assert_allclose(peers.printed(split, 1e9, 1e-6), ridge, atol=1e-5)
    errors = [np.linalg.norm(peers.printed(split, 0.01, 1e-6) - ridge) for _ in range(5)]
    assert np.median(errors) > 0.1


def test_without_their_environment_it_says_how_to_make_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(peers, "PYTHON", tmp_path / "none")
    monkeypatch.setattr(peers, "DATA", tmp_path)
    peers.report(1)
    assert capsys.readouterr().out == "peers: run `make peers`, which makes .venv-peers\n"


def test_a_diverged_peer_does_not_break_the_table() -> None:
    assert peers._spread([0.5, 0.7]) == "0.6000 +- 0.1000"
    assert peers._spread([-2.5e6, -1.5e6]) == "-2.0e+06 +- 5e+05"
