"""Our untuned methods beside diffprivlib, Opacus and AdaSSP tuned on the same rows, at the same epsilon and delta.

Every cell is a line of docs/benchmarks/peers.jsonl as soon as it is measured, so that a run that was stopped goes on
where it was; a cell whose line is deleted is measured again, one of too few runs runs on with what was tuned for it.
The tables are printed from the lines.
"""

import io
import json
import math
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.accuracy import accuracy, majority
from benchmarks.ada_ssp import published
from benchmarks.datasets import Split, adult, bank, california, covertype, diamonds, health, protein, w8a
from benchmarks.floor import floor
from benchmarks.newton import minimize, objective
from benchmarks.peers_ways import DELTA, PYTHON, Peers, Setting, ways
from solvers import Problem
from solvers.losses import Logistic, Squared

EPSILONS = (0.1, 0.2, 0.5, 1.0, 4.0)
RESULTS = Path(__file__).resolve().parents[1] / "docs/benchmarks/peers.jsonl"
_ROWS = 50_000  # of Covertype
_MEANT = (adult, lambda: covertype(_ROWS, settled=True), bank, w8a, health, california, protein, diamonds)
_DEAREST_FIRST = (3, 1, 0, 2, 7, 4, 6, 5)  # so that neither of the two that are measured at a time ends long before
_HARD = 1e3  # beyond, a peer has diverged
_TUNED = 8  # the least runs of what was tuned: the mean of three told too little
_CHEAP, _MOST = 4.0, 20  # CPU seconds that a cell's runs may take together to be more than asked for, and how many then

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Cell:
    """What was measured of one way at one epsilon on one dataset.

    Parameters
    ----------
    excess : of each run, the training risk above the least, without a penalty
    score : of each run, the test accuracy, or the test squared error
    seconds : of CPU, the mean of the runs
    setting : what was tuned for it, on the private rows
    """

    dataset: str
    way: str
    epsilon: float
    excess: list[float]
    score: list[float]
    seconds: float
    setting: Setting = field(default_factory=dict)


def report(seeds: int) -> None:
    """Measure what is missing, two sets at a time, and print AdaSSP's published table and one table a dataset."""
    if not PYTHON.exists():
        print("peers: run `make peers`, which makes .venv-peers")
        return
    published()
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        told = {place: pool.submit(_measured, place, seeds) for place in _DEAREST_FIRST}
        for place in range(len(_MEANT)):
            print(told[place].result(), end="", flush=True)
    last = {(cell.dataset, cell.way, cell.epsilon): cell for cell in _read()}
    RESULTS.write_text("".join(json.dumps(asdict(cell)) + "\n" for cell in last.values()))


def _measured(place: int, seeds: int) -> str:
    """Return the lines to print for this dataset."""
    split = _MEANT[place]()
    if split is None:
        return "peers: BENCHMARK_DATA names no folder that holds this dataset; nothing measured\n"
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()) as told:
        _dataset(split, folder, seeds)
    return told.getvalue()


def _dataset(split: Split, folder: str, seeds: int) -> None:
    n, d = split.X.shape
    classes = set(np.unique(split.y)) == {-1.0, 1.0}
    problem = Problem(Logistic() if classes else Squared(), n=n, d=d, row_norm=split.row_norm, columns=split.columns)
    if classes:
        optimum = minimize(problem, split.X, split.y)
        best, least = optimum.w, optimum.value
    else:
        best = np.asarray(np.linalg.lstsq(split.X, split.y, rcond=None)[0], dtype=np.float64)
        least = objective(problem, split.X, split.y, best)
    score: Callable[[Vector], float] = (lambda w: accuracy(split, w)) if classes else (lambda w: _error(split, w))

    def risk(w: Vector) -> float:
        value = objective(problem, split.X, split.y, w) - least
        return value if math.isfinite(value) else 1e300

    peers = Peers(split, folder)
    try:
        done = {(cell.way, cell.epsilon): cell for cell in _read() if cell.dataset == split.name}
        for way, prepare in ways(split, problem, peers, risk):
            for epsilon in EPSILONS:
                before = done.get((way, epsilon))
                if before is not None and len(before.excess) >= (_TUNED if before.setting else seeds):
                    continue
                prepared = prepare(epsilon, before.setting if before else None)
                runs = _runs(partial(prepared.fit, epsilon), _TUNED if prepared.setting else seeds, before)
                cell = Cell(
                    split.name,
                    way,
                    epsilon,
                    [*(before.excess if before else ()), *(risk(w) for w, _ in runs)],
                    [*(before.score if before else ()), *(score(w) for w, _ in runs)],
                    _mean_seconds(before, [seconds for _, seconds in runs]),
                    prepared.setting,
                )
                with RESULTS.open("a") as file:
                    file.write(json.dumps(asdict(cell)) + "\n")
                done[way, epsilon] = cell
    finally:
        peers.close()
    floors = {epsilon: floor(split, problem, best, epsilon, DELTA) for epsilon in EPSILONS}
    start = (risk(np.zeros(d)), majority(split) if classes else float(np.mean(split.y_test**2)))
    _print(f"{split.name}: n = {n}, d = {d}, {problem.loss.name}, no penalty", done, floors, start, score(best))


def _runs(fit: Callable[[], tuple[Vector, float]], least: int, before: Cell | None) -> list[tuple[Vector, float]]:
    """Return the new runs, besides those stored; cheap methods get more."""
    had = len(before.excess) if before else 0
    runs = [fit() for _ in range(least - had)]
    while not had and len(runs) < _MOST and sum(seconds for _, seconds in runs) < _CHEAP:
        runs.append(fit())
    return runs


def _mean_seconds(before: Cell | None, seconds: list[float]) -> float:
    """Return the mean seconds of a run, stored runs included."""
    had = len(before.excess) if before else 0
    return (sum(seconds) + (had * before.seconds if before else 0.0)) / (had + len(seconds))


def _read() -> list[Cell]:
    if not RESULTS.exists():
        return []
    return [Cell(**json.loads(line)) for line in RESULTS.read_text().splitlines()]


def _print(
    title: str,
    cells: dict[tuple[str, float], Cell],
    floors: dict[float, float],
    start: tuple[float, float],
    optimum: float,
) -> None:
    """Print mean excess, scores and CPU time of every method, then ours over the best peer and the floor."""
    names = list(dict.fromkeys(way for way, _ in cells))
    heads = "".join(f"{f'eps {epsilon:g}':>17}" for epsilon in EPSILONS)
    for what, kind, zero, top in (
        ("excess risk", "excess", start[0], 0.0),
        ("test accuracy or squared error", "score", start[1], optimum),
    ):
        print(f"\n{title}; {what}\n{'':<36}{heads}")
        print(f"{'w = 0, or the majority':<36}{zero:>17.4f}\n{'without privacy':<36}{top:>17.4f}")
        if kind == "excess":
            print(f"{'noise limit':<36}" + "".join(f"{floors[epsilon]:>17.4f}" for epsilon in EPSILONS))
        for name in names:
            row = (_spread(getattr(cells[name, epsilon], kind)) for epsilon in EPSILONS)
            print(f"{name:<36}" + "".join(f"{entry:>17}" for entry in row))
    print(f"\n{title}; CPU seconds")
    for name in names:
        print(f"{name:<36}" + "".join(f"{cells[name, epsilon].seconds:>17.2f}" for epsilon in EPSILONS))
    print(f"\n{title}; tuned on the private rows: l2, or step size, clip, batches in an epoch x epochs")
    for name in names:
        chosen = [cells[name, epsilon].setting for epsilon in EPSILONS]
        if any(chosen):
            print(f"{name:<36}" + "".join(f"{_briefly(setting):>17}" for setting in chosen))
    print(f"\n{title}; excess of purse auto over that of ..")
    others = [n for n in names if "purse" not in n]
    replaced = [n for n in others if "add/remove" not in n]
    for label, ours, peers in (
        ("the best peer, replace-one", "purse auto", replaced),
        ("the same, ours asked with l2 1e-4", "purse auto, asked with l2 1e-4", replaced),
        ("add/remove, ours zero_out", "purse auto, zero_out", [n for n in others if "add/remove" in n]),
    ):
        if not peers or ours not in names:
            continue
        ratios = (
            np.mean(cells[ours, epsilon].excess) / min(np.mean(cells[n, epsilon].excess) for n in peers)
            for epsilon in EPSILONS
        )
        print(f"{label:<36}" + "".join(f"{ratio:>17.2f}" for ratio in ratios))
    limits = (np.mean(cells["purse auto", epsilon].excess) / floors[epsilon] for epsilon in EPSILONS)
    print(f"{'the noise limit':<36}" + "".join(f"{ratio:>17.2f}" for ratio in limits), flush=True)


def _briefly(setting: Setting) -> str:
    """Return the values in their order."""
    return " ".join("x".join(map(str, v)) if isinstance(v, list | tuple) else f"{v:g}" for v in setting.values())


def _spread(values: list[float]) -> str:
    if np.abs(values).max() >= _HARD:
        return f"{np.mean(values):.0e}"
    return f"{np.mean(values):.4f} +- {np.std(values):.4f}"


def _error(split: Split, w: Vector) -> float:
    return float(np.mean((split.X_test @ w - split.y_test) ** 2))
