"""Excess risk and test score of every method of ours on public datasets, untuned and without a penalty, beside `auto`.

Every cell is a line of docs/benchmarks/ours.jsonl as soon as it is measured, so that a run that was stopped goes on
where it was; a cell whose line is deleted is measured again. A dataset's first line holds its public facts, from which
a test resolves `auto` anew and looks its choice up (tests/unit/benchmarks/test_ours.py).
"""

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from accounting import Privacy
from benchmarks.accuracy import accuracy, majority
from benchmarks.datasets import Split, adult, bank, california, covertype, diamonds, health, protein, w8a
from benchmarks.newton import minimize, objective
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
DELTA = 1e-5
RESULTS = Path(__file__).resolve().parents[1] / "docs/benchmarks/ours.jsonl"
_SETS = (adult, lambda: covertype(50_000, settled=True), california, protein, bank, w8a, health, diamonds)

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Way:
    """A method, and what is asked for beside it."""

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
    """What was measured of one way at one epsilon on one dataset: of each run, the excess training risk and the score.

    The score is the test accuracy, or the test squared error.
    """

    dataset: str
    way: str
    epsilon: float
    excess: list[float]
    score: list[float]


def report(seeds: int) -> None:
    """Measure what is missing, and print one table a dataset."""
    _report(PREPARED + OTHERS, seeds)


def preparation(seeds: int) -> None:
    """The same for what preparation and limited slopes do."""
    _report(PREPARED, seeds)


def _report(ways: Iterable[Way], seeds: int) -> None:
    for load in _SETS:
        split = load()
        if split is None:
            print("ours: BENCHMARK_DATA names no folder that holds the real datasets, or `make peers` was not run")
            continue
        facts = _dataset(split, ways, seeds)
        _, cells = read()
        _print(facts, {key: cell for key, cell in cells.items() if key[0] == facts.dataset}, [w.name for w in ways])


def _dataset(split: Split, ways: Iterable[Way], seeds: int) -> Facts:
    n, d = split.X.shape
    classes = set(np.unique(split.y)) == {-1.0, 1.0}
    assert split.columns is not None
    problem = Problem(Logistic() if classes else Squared(), n=n, d=d, row_norm=split.row_norm, columns=split.columns)
    exact = minimize(problem, split.X, split.y).w if classes else np.linalg.lstsq(split.X, split.y, rcond=None)[0]
    best = np.asarray(exact, dtype=np.float64)
    least = objective(problem, split.X, split.y, best)
    score: Callable[[Vector], float] = (lambda w: accuracy(split, w)) if classes else (lambda w: _error(split, w))
    known, cells = read()
    if split.name not in known:
        zero = objective(problem, split.X, split.y, 0 * best) - least
        trivial = majority(split) if classes else score(0 * best)
        layout = split.columns.widths, split.columns.ranges
        known[split.name] = Facts(split.name, problem.loss.name, n, *layout, zero, trivial, score(best))
        _write(known[split.name])
    for way in ways:
        for epsilon in EPSILONS:
            if (split.name, way.name, epsilon) in cells:
                continue
            try:
                runs = [_run(way, problem, split, epsilon) for _ in range(seeds)]
            except Unsuitable:
                break
            excess = [objective(problem, split.X, split.y, w) - least for w in runs]
            assert all(math.isfinite(value) for value in excess)
            _write(Cell(split.name, way.name, epsilon, excess, [score(w) for w in runs]))
    return known[split.name]


def _run(way: Way, problem: Problem, split: Split, epsilon: float) -> Vector:
    wish, privacy = way.wish, Privacy(epsilon, DELTA)
    release = solve(way.method, problem, split.X, split.y, privacy, wish.preparation, wish.slope_limit)
    return release.coefficients


def _write(line: Facts | Cell) -> None:
    with RESULTS.open("a") as file:
        file.write(json.dumps(asdict(line)) + "\n")


def read() -> tuple[dict[str, Facts], dict[tuple[str, str, float], Cell]]:
    """The datasets by name, and the cells by dataset, way and epsilon."""
    lines = [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []
    facts = {line["dataset"]: Facts(**line) for line in lines if "widths" in line}
    cells = (Cell(**line) for line in lines if "way" in line)
    return facts, {(cell.dataset, cell.way, cell.epsilon): cell for cell in cells}


def chosen(facts: Facts, epsilon: float) -> str:
    """The name of the way that `auto` takes, from public facts alone.

    Raises
    ------
    LookupError
        if it is none of those that are measured.
    """
    privacy = Privacy(epsilon, DELTA)
    taken, _ = Auto().choose(facts.problem, privacy)
    return next(way.name for way in PREPARED + OTHERS if _same(way, taken, facts.problem, privacy))


def _same(way: Way, taken: Fitted, problem: Problem, privacy: Privacy) -> bool:
    if way.method.name != taken.method.name:
        return False
    fitted = fit(way.wish, way.method, problem, privacy)
    return (fitted.method, fitted.problem, fitted.preparation) == (taken.method, taken.problem, taken.preparation)


def _print(facts: Facts, cells: dict[tuple[str, str, float], Cell], ways: Sequence[str]) -> None:
    """Print mean and standard deviation of every method at every epsilon, and the choice of `auto` with its excess."""
    title = f"{facts.dataset}: n = {facts.n}, d = {facts.problem.d}, {facts.loss}, no penalty, delta = {DELTA:g}"
    measured = [name for name in ways if (facts.dataset, name, EPSILONS[0]) in cells]
    heads = "".join(f"{f'eps {epsilon:g}':>20}" for epsilon in EPSILONS)
    wide = {"excess": (5, facts.zero, 0.0), "score": (4, facts.trivial, facts.best)}
    for kind, label in (("excess", "excess risk"), ("score", "test accuracy or squared error")):
        places, zero, best = wide[kind]
        print(f"\n{title}; {label}\n{'':<24}{heads}")
        print(f"{'w = 0, or the majority':<24}{zero:>20.{places}f}\n{'without privacy':<24}{best:>20.{places}f}")
        for name in measured:
            rows = (np.array(getattr(cells[facts.dataset, name, epsilon], kind)) for epsilon in EPSILONS)
            entries = (f"{_short(row.mean(), places)} +- {_short(row.std(), places)}" for row in rows)
            print(f"{name:<24}" + "".join(f"{entry:>20}" for entry in entries))
    taken = [chosen(facts, epsilon) for epsilon in EPSILONS]
    means = {key[1:]: float(np.mean(cell.excess)) for key, cell in cells.items() if key[1] in measured}
    if all((name, epsilon) in means for name, epsilon in zip(taken, EPSILONS, strict=True)):
        print(f"{'auto takes':<24}" + "".join(f"{name:>20}" for name in taken))
        least = [min(means[name, epsilon] for name in measured) for epsilon in EPSILONS]
        ratios = (means[name, e] / low for name, e, low in zip(taken, EPSILONS, least, strict=True))
        print(f"{'its excess / the least':<24}" + "".join(f"{ratio:>20.2f}" for ratio in ratios), flush=True)


def _short(value: float, places: int) -> str:
    return f"{value:.{places}f}" if abs(value) < 10 else f"{value:.0e}"


def _error(split: Split, w: Vector) -> float:
    return float(np.mean((split.X_test @ w - split.y_test) ** 2))
