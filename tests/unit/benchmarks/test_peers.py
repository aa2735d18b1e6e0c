"""The comparison with peers: what of it is ours."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks import peers, peers_ways
from benchmarks.ada_ssp import boosted, printed
from benchmarks.datasets import Split
from benchmarks.floor import floor
from benchmarks.peers_ways import Prepared
from solvers import Problem
from solvers.losses import Squared


def _split() -> Split:
    generator = np.random.default_rng(1)
    X = np.c_[generator.uniform(-1, 1, size=(1000, 3)), np.ones(1000)]
    y = np.clip(X @ np.array([0.5, -0.25, 0.0, 0.1]) + 0.1 * generator.normal(size=1000), -1, 1)
    return Split("made up", X[:800], y[:800], X[800:], y[800:], 2.0)


def test_printed_adassp_is_ridge_regression_without_noise_and_worse_with_much() -> None:
    split = _split()
    n, d = split.X.shape
    ridge = np.linalg.solve(split.X.T @ split.X / n + 1e-4 * np.eye(d), split.X.T @ split.y / n)
    np.testing.assert_allclose(printed(split, 1e9, 1e-6, strength=1e-4), ridge, atol=1e-5)
    errors = [np.linalg.norm(printed(split, 0.01, 1e-6) - ridge) for _ in range(5)]
    assert np.median(errors) > 0.1


def test_boosted_adassp_is_least_squares_without_noise_and_worse_with_much() -> None:
    split = _split()
    exact = np.linalg.lstsq(split.X, split.y, rcond=None)[0]
    np.testing.assert_allclose(boosted(split, 1e6, 1e-6), exact, atol=1e-3)
    errors = [np.linalg.norm(boosted(split, 0.01, 1e-6) - exact) for _ in range(5)]
    assert np.median(errors) > 0.1


def test_the_noise_limit_falls_with_epsilon_and_is_that_of_the_exact_answer_for_much_noise() -> None:
    split = _split()
    n, d = split.X.shape
    problem = Problem(Squared(), n=n, d=d, row_norm=2.0)
    exact = np.asarray(np.linalg.lstsq(split.X, split.y, rcond=None)[0], dtype=np.float64)
    limits = [floor(split, problem, exact, epsilon, 1e-5) for epsilon in (1e-4, 0.1, 1.0, 10.0)]
    assert limits == sorted(limits, reverse=True)
    everything = float(np.mean((split.X @ exact) ** 2)) / 2  # of w = 0, which the ridge falls back to
    assert limits[0] == pytest.approx(everything, rel=0.01)
    assert limits[-1] < 1e-3 * everything


def test_measured_cells_are_not_measured_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    split = _split()
    monkeypatch.setattr(peers, "RESULTS", tmp_path / "peers.jsonl")
    monkeypatch.setattr(peers, "Peers", lambda *_: SimpleNamespace(close=lambda: None))
    epsilons: list[float] = []

    def fit(epsilon: float) -> tuple[np.ndarray, float]:
        epsilons.append(epsilon)
        return np.zeros(4), 10.0

    both = [
        (name, lambda _, __: Prepared(fit))
        for name in ("purse auto", "purse auto, zero_out", "a peer", "one more, add/remove")
    ]
    monkeypatch.setattr(peers, "ways", lambda *_: iter(both))
    peers.measure_dataset(split, str(tmp_path), 2)
    assert epsilons == [epsilon for _ in both for epsilon in peers.EPSILONS for _ in range(2)]
    lines = (tmp_path / "peers.jsonl").read_text().splitlines()
    (tmp_path / "peers.jsonl").write_text("\n".join(lines[1:]) + "\n")
    epsilons.clear()
    peers.measure_dataset(split, str(tmp_path), 2, "add/remove")  # the missing cell is one of auto
    assert epsilons == []
    peers.measure_dataset(split, str(tmp_path), 2)
    assert epsilons == [peers.EPSILONS[0]] * 2


def test_a_tuned_peer_runs_again_with_its_setting_until_it_has_enough_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The mean of three runs of a tuned peer was too uncertain for the comparison."""
    monkeypatch.setattr(peers, "RESULTS", tmp_path / "peers.jsonl")
    monkeypatch.setattr(peers, "Peers", lambda *_: SimpleNamespace(close=lambda: None))
    settings: list[Any] = []

    def prepare(_: float, setting: Any) -> Prepared:
        settings.append(setting)
        return Prepared(lambda _: (np.zeros(4), 10.0), setting or {"rate": 3.0})

    ours = ("purse auto", lambda _, __: Prepared(lambda _: (np.zeros(4), 1.0)))
    monkeypatch.setattr(peers, "ways", lambda *_: iter([ours, ("a peer", prepare)]))
    monkeypatch.setattr(peers, "_TUNED_RUNS", 3)
    peers.measure_dataset(_split(), str(tmp_path), 2)
    monkeypatch.setattr(peers, "_TUNED_RUNS", 5)
    peers.measure_dataset(_split(), str(tmp_path), 2)
    assert settings == [None] * 5 + [{"rate": 3.0}] * 5
    last = {(cell.way, cell.epsilon): cell for cell in peers.read_cells()}
    assert {len(cell.excess) for (way, _), cell in last.items() if way == "a peer"} == {5}
    assert {len(cell.excess) for (way, _), cell in last.items() if way == "purse auto"} == {4}
    assert last["a peer", 1.0].seconds == 10.0


@pytest.mark.parametrize(("seconds", "runs"), [(10.0, 2), (1.5, 3), (0.5, 8), (0.01, 20)])
def test_cheap_fits_run_more_often(seconds: float, runs: int) -> None:
    assert len(peers.new_runs(lambda: (np.zeros(1), seconds), 2, None)) == runs


def test_a_setting_with_two_lucky_runs_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: dict[float, int] = {}

    def opacus(*arguments: Any) -> tuple[np.ndarray, float]:
        rate = arguments[4]["rate"]
        looked[rate] = looked.get(rate, 0) + 1
        lucky = rate == 3.0 and looked[rate] <= 2
        return np.array([0.0 if lucky else 9.0 if rate == 3.0 else rate]), 1.0

    monkeypatch.setattr(peers_ways, "_opacus", opacus)
    monkeypatch.setattr(peers_ways, "CLIPS", (1.0,))
    monkeypatch.setattr(peers_ways, "BATCHES", ((20, 20),))
    initial = {"rate": 1.0, "clip": 1.0, "schedule": (20, 20)}
    tuned = peers_ways._tuned_opacus(None, None, None, lambda w: float(w[0]), "replace-one", initial, 1.0, None)  # type: ignore[arg-type]
    assert tuned.setting == initial
    assert tuned.setting["rate"] in (0.03, 0.1)


def test_a_clearly_worse_setting_is_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[float] = []

    def opacus(*arguments: Any) -> tuple[np.ndarray, float]:
        looked.append(arguments[4]["rate"])
        return np.array([arguments[4]["rate"]]), 1.0

    monkeypatch.setattr(peers_ways, "_opacus", opacus)
    monkeypatch.setattr(peers_ways, "RATES", (1.0, 1.4, 1.6, 0.9))
    monkeypatch.setattr(peers_ways, "CLIPS", (1.0,))
    monkeypatch.setattr(peers_ways, "BATCHES", ((20, 20),))
    initial = {"rate": 1.0, "clip": 1.0, "schedule": (20, 20)}
    peers_ways._tuned_opacus(None, None, None, lambda w: float(w[0]), "replace-one", initial, 1.0, None)  # type: ignore[arg-type]
    again = [0.9] * 3 + [1.0] * 3 + [1.4] * 3
    assert looked == [1.0, 1.0, 1.4, 1.4, 1.6, 0.9, 0.9, *again]


def test_marginals_are_tuned_from_many_pairs_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """From few pairs, a change of one setting alone does not reach this optimum."""

    def fitted(*_: Any, first: str, more: int, **rest: Any) -> np.ndarray:
        assert set(rest) == {"ridge"}
        return np.array([0.0 if (first, more) == ("tree", 100) else 1.0])

    monkeypatch.setattr(peers_ways, "from_marginals", fitted)
    problem = Problem(Squared(), n=800, d=4, row_norm=2.0)
    tuned = peers_ways._tuned_marginals(lambda _: None, problem, lambda w: float(w[0]), 1, 1.0, None)  # type: ignore[arg-type, return-value]
    assert (tuned.setting["first"], tuned.setting["more"]) == ("tree", 100)
    again = peers_ways._tuned_marginals(lambda _: None, problem, lambda w: float(w[0]), 1, 1.0, tuned.setting)  # type: ignore[arg-type, return-value]
    assert again.setting == tuned.setting


def test_bandmf_is_tuned_from_the_settings_of_opacus(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = {"rate": 0.1, "clip": 3.0, "schedule": [100, 5]}

    def fitted(*arguments: Any, rate: float, clip: float, schedule: tuple[int, int]) -> np.ndarray:
        is_start = (rate, clip, schedule) == (0.1, 3.0, (100, 5))
        return np.array([abs(len(arguments[4]) - 5.0) if is_start else 9.0])  # the strategy has five bands

    monkeypatch.setattr(peers_ways, "banded", fitted)
    worker = SimpleNamespace(strategy=lambda _, bands: np.ones(bands))
    tuned = peers_ways._tuned_bandmf(worker, None, lambda w: float(w[0]), lambda _: stored, 1.0, None)  # type: ignore[arg-type]
    assert tuned.setting == stored | {"schedule": (100, 5), "bands": 5}


def test_the_report_without_the_environment_names_the_command_that_creates_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(peers, "PYTHON", tmp_path / "none")
    peers.report(1)
    assert "`make peers`" in capsys.readouterr().out


def test_a_diverged_peer_does_not_break_the_table() -> None:
    assert peers.mean_and_deviation([0.5, 0.7]) == "0.6000 +- 0.1000"
    assert peers.mean_and_deviation([-2.5e6, -1.5e6]) == "-2e+06"
