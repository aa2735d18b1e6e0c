"""`auto` against the measured best of ours: docs/benchmarks/ours.jsonl, cell by cell."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks import ours
from benchmarks.datasets import Split
from benchmarks.ours import EPSILONS
from solvers.columns import Columns

FACTOR = 1.15
FACTS, CELLS = ours.read()


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("dataset", sorted(FACTS))
def test_auto_is_never_worse_than_the_best_by_more_than_the_factor(dataset: str, epsilon: float) -> None:
    """The comparison uses the measured means."""
    chosen_cell = CELLS[dataset, ours.chosen(FACTS[dataset], epsilon), epsilon]
    smallest_excess = min(
        np.mean(cell.excess) for (name, _, at), cell in CELLS.items() if (name, at) == (dataset, epsilon)
    )
    assert float(np.mean(chosen_cell.excess) / smallest_excess) <= FACTOR


def test_the_table_has_every_suitable_method_at_every_epsilon() -> None:
    for dataset in FACTS:
        ways = {way for name, way, _ in CELLS if name == dataset}
        assert all((dataset, way, epsilon) in CELLS for way in ways for epsilon in EPSILONS)
        assert {way.name for way in ours.PREPARED} <= ways


@pytest.mark.slow
def test_measured_cells_are_not_measured_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    X = np.c_[generator.uniform(-1, 1, size=(500, 2)), np.ones(500)]
    y = np.clip(X @ np.array([0.5, -0.25, 0.1]) + 0.1 * generator.normal(size=500), -1, 1)
    columns = Columns((1, 1))
    split = Split("made up", X[:400], y[:400], X[400:], y[400:], columns.row_norm, columns)
    monkeypatch.setattr(ours, "RESULTS", tmp_path / "ours.jsonl")
    monkeypatch.setattr(ours, "LOADERS", (lambda: split,))
    ours.preparation(2)
    lines_before = (tmp_path / "ours.jsonl").read_text()
    facts, cells = ours.read()
    assert facts["made up"].problem.n == 400
    assert len(cells) == len(ours.PREPARED) * len(EPSILONS)
    assert all(len(cell.excess) == 2 for cell in cells.values())
    ours.preparation(2)
    assert (tmp_path / "ours.jsonl").read_text() == lines_before
