"""Excess risk and test score of every method of ours on public datasets, untuned and without a penalty, beside `auto`.

Each cell is written to docs/benchmarks/ours.jsonl when it is measured, so a stopped command continues where it stopped.
To measure a cell again, delete its line. The first line of a dataset has its public facts. From these a test resolves
`auto` again, and compares its choice with the best cell (tests/unit/benchmarks/test_ours.py).
"""

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from accounting import Privacy
from benchmarks.datasets import Split, adult, available, bank, california, covertype_50k, diamonds, health, protein, w8a
from benchmarks.references import DELTA, Reference, print_row
from solvers import Problem, solve
from solvers.columns import Columns
from solvers.errors import Unsuitable
from solvers.fitting import WISHLESS, Fitted, Wish, fit
from solvers.losses import Logistic, Squared
from solvers.methods import (
    AdaptiveGd,
    AdaSsp,
    BootstrapReduction,
    DpAccMd,
    DpGd,
    DpSvrg,
    DpSvrgPp,
    EpochGrowth,
    GrowthReduction,
    Localization,
    Method,
    NoisyMirrorDescent,
    NoisySgd,
    ObjectivePerturbation,
    OutputPerturbation,
    PhasedSgd,
)
from solvers.preparation import Declared
from solvers.selection import Auto

EPSILONS = (0.1, 0.2, 0.5, 1.0, 4.0)
RESULTS = Path(__file__).resolve().parents[1] / "docs/benchmarks/ours.jsonl"
LOADERS: tuple[Callable[[], Split], ...] = (
    adult,
    covertype_50k,
    california,
    protein,
    bank,
    w8a,
    health,
    diamonds,
)

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Way:
    """A method, with its preparation and slope limit."""

    method: Method
    wish: Wish = WISHLESS

    @property
    def name(self) -> str:
        """Return the name in the tables."""
        limit = "" if self.wish.slope_limit is None else f", slope_limit {self.wish.slope_limit:g}"
        rounds = ", one round" if self.method == AdaSsp(1) else ""
        return self.method.name + (", declared" if isinstance(self.wish.preparation, Declared) else "") + limit + rounds


PREPARED = (
    Way(AdaptiveGd()),
    Way(DpGd(), Wish(Declared())),
    *(Way(DpGd(), Wish(None, limit)) for limit in (1.0, 0.7, 0.5)),
)
OTHERS = (
    Way(AdaSsp(), Wish(Declared())),
    *(
        Way(method)
        for method in (
            AdaSsp(),
            AdaSsp(1),
            DpAccMd(),
            DpSvrg(),
            DpSvrgPp(),
            NoisySgd(),
            NoisyMirrorDescent(),
            OutputPerturbation(),
            Localization(),
            PhasedSgd(),
            EpochGrowth(),
            GrowthReduction(),
            BootstrapReduction(),
            ObjectivePerturbation(),
        )
    ),
)


@dataclass(frozen=True, slots=True)
class Facts:
    """Public facts of a dataset, and results without noise: the excess and score of w = 0, and the optimum's score."""

    dataset: str
    loss: str
    n: int
    widths: tuple[int, ...]
    ranges: tuple[tuple[float, float], ...]
    zero: float
    trivial: float
    best: float

    @property
    def problem(self) -> Problem:
        """Return the problem without a penalty."""
        columns = Columns(tuple(self.widths), tuple((low, high) for low, high in self.ranges))
        loss = Logistic() if self.loss == "logistic" else Squared()
        return Problem(loss, n=self.n, d=columns.d, row_norm=columns.row_norm, columns=columns)


@dataclass(frozen=True, slots=True)
class Cell:
    """The runs of one way at one epsilon on one dataset.

    Parameters
    ----------
    excess : training risk of each run above the least one
    score : test accuracy or test squared error of each run
    """

    dataset: str
    way: str
    epsilon: float
    excess: list[float]
    score: list[float]


def report(seeds: int) -> None:
    """Measure missing cells, and print a table for each dataset."""
    _report(PREPARED + OTHERS, seeds)


def preparation(seeds: int) -> None:
    """Measure missing cells of preparation and limited slopes, and print a table for each dataset."""
    _report(PREPARED, seeds)


def _report(ways: Sequence[Way], seeds: int) -> None:
    for split in available(*LOADERS):
        _measure(Reference.of(split), ways, seeds)
        facts, cells = read()
        own = {key: cell for key, cell in cells.items() if key[0] == split.name}
        _print(facts[split.name], own, [way.name for way in ways])


def _measure(reference: Reference, ways: Iterable[Way], seeds: int) -> None:
    """Write the dataset's facts and cells that are not stored yet."""
    split, problem = reference.split, reference.problem
    facts, cells = read()
    if split.name not in facts:
        assert split.columns is not None
        layout = split.columns.widths, split.columns.ranges
        zero, best = reference.excess(0 * reference.optimum), reference.score(reference.optimum)
        _write(Facts(split.name, problem.loss.name, problem.n, *layout, zero, reference.trivial_score, best))
    for way in ways:
        for epsilon in EPSILONS:
            if (split.name, way.name, epsilon) in cells:
                continue
            try:
                models = [_run(way, reference, epsilon) for _ in range(seeds)]
            except Unsuitable:
                break
            excess = [reference.excess(w) for w in models]
            assert all(math.isfinite(value) for value in excess)
            _write(Cell(split.name, way.name, epsilon, excess, [reference.score(w) for w in models]))


def _run(way: Way, reference: Reference, epsilon: float) -> Vector:
    split, wish, privacy = reference.split, way.wish, Privacy(epsilon, DELTA)
    release = solve(way.method, reference.problem, split.X, split.y, privacy, wish.preparation, wish.slope_limit)
    return release.coefficients


def _write(line: Facts | Cell) -> None:
    with RESULTS.open("a") as file:
        file.write(json.dumps(asdict(line)) + "\n")


def read() -> tuple[dict[str, Facts], dict[tuple[str, str, float], Cell]]:
    """Return the datasets by name, and the cells by dataset, way and epsilon."""
    lines = [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []
    facts = {line["dataset"]: Facts(**line) for line in lines if "widths" in line}
    cells = (Cell(**line) for line in lines if "way" in line)
    return facts, {(cell.dataset, cell.way, cell.epsilon): cell for cell in cells}


def chosen(facts: Facts, epsilon: float) -> str:
    """Return the name of the way that `auto` chooses from public facts.

    Raises
    ------
    LookupError
        if this way is not measured.
    """
    privacy = Privacy(epsilon, DELTA)
    choice, _ = Auto().choose(facts.problem, privacy)
    for way in PREPARED + OTHERS:
        if _is_same(way, choice, facts.problem, privacy):
            return way.name
    raise LookupError(f"{choice.method.name}, which `auto` chose for {facts.dataset}, is not measured")


def _is_same(way: Way, choice: Fitted, problem: Problem, privacy: Privacy) -> bool:
    if way.method.name != choice.method.name:
        return False
    fitted = fit(way.wish, way.method, problem, privacy)
    return (fitted.method, fitted.problem, fitted.preparation) == (choice.method, choice.problem, choice.preparation)


def _print(facts: Facts, cells: dict[tuple[str, str, float], Cell], ways: Sequence[str]) -> None:
    """Print mean and standard deviation of every method at every epsilon, and the choice of `auto` with its excess."""
    title = f"{facts.dataset}: n = {facts.n}, d = {facts.problem.d}, {facts.loss}, no penalty, delta = {DELTA:g}"
    measured = [name for name in ways if (facts.dataset, name, EPSILONS[0]) in cells]
    for kind, label, digits, zero, best in (
        ("excess", "excess risk", 5, facts.zero, 0.0),
        ("score", "test accuracy or squared error", 4, facts.trivial, facts.best),
    ):
        print(f"\n{title}; {label}")
        _print_row("", [f"eps {epsilon:g}" for epsilon in EPSILONS])
        _print_row("w = 0, or the majority", [f"{zero:.{digits}f}"])
        _print_row("without privacy", [f"{best:.{digits}f}"])
        for name in measured:
            rows = (np.array(getattr(cells[facts.dataset, name, epsilon], kind)) for epsilon in EPSILONS)
            _print_row(name, [f"{_short(row.mean(), digits)} +- {_short(row.std(), digits)}" for row in rows])
    choices = [chosen(facts, epsilon) for epsilon in EPSILONS]
    means = {key[1:]: float(np.mean(cell.excess)) for key, cell in cells.items() if key[1] in measured}
    if all((name, epsilon) in means for name, epsilon in zip(choices, EPSILONS, strict=True)):
        _print_row("auto takes", choices)
        least = [min(means[name, epsilon] for name in measured) for epsilon in EPSILONS]
        ratios = (means[name, e] / low for name, e, low in zip(choices, EPSILONS, least, strict=True))
        _print_row("its excess / the least", [f"{ratio:.2f}" for ratio in ratios])


_print_row = partial(print_row, label_width=24, width=20)


def _short(value: float, digits: int) -> str:
    return f"{value:.{digits}f}" if abs(value) < 10 else f"{value:.0e}"
