"""Our untuned methods beside diffprivlib, Opacus, AdaSSP and newer methods at the same epsilon and delta.

The other methods are tuned on the private rows.

Each cell is written to docs/benchmarks/peers.jsonl when it is measured, and the tables are printed from these lines. A
stopped command therefore continues where it stopped. To measure a cell again, delete its line. A cell with too few runs
gets more runs with its tuned settings.
"""

import io
import json
import math
import re
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

from benchmarks.ada_ssp import published
from benchmarks.datasets import (
    Split,
    adult,
    available,
    bank,
    california,
    covertype_50k,
    diamonds,
    health,
    movies,
    protein,
    visits,
    w8a,
)
from benchmarks.floor import floor
from benchmarks.peers_ways import PYTHON, Peers, Setting, ways
from benchmarks.references import DELTA, Reference, print_row, spread

EPSILONS = (0.1, 0.2, 0.5, 1.0, 4.0)
RESULTS = Path(__file__).resolve().parents[1] / "docs/benchmarks/peers.jsonl"
_LOADERS = (adult, covertype_50k, bank, w8a, health, california, protein, diamonds, visits, movies)
# Two datasets are measured at a time. This order lets both processes end at about the same time.
_SLOWEST_FIRST = (w8a, covertype_50k, adult, bank, movies, diamonds, health, protein, california, visits)
_DIVERGED = 1e3  # excess of a peer
_TUNED_RUNS = 8  # the mean of three runs was too uncertain
_CHEAP_SECONDS, _MOST_CHEAP_RUNS = 4.0, 20  # runs beyond the requested ones, up to this CPU time of a cell

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Cell:
    """The runs of one way at one epsilon on one dataset.

    Parameters
    ----------
    excess : training risk of each run above the least one, without a penalty
    score : test accuracy or test squared error of each run
    seconds : CPU seconds, the mean of the runs
    setting : settings that were tuned on the private rows
    """

    dataset: str
    way: str
    epsilon: float
    excess: list[float]
    score: list[float]
    seconds: float
    setting: Setting = field(default_factory=dict)


def report(seeds: int, cells: str = "") -> None:
    """Measure missing cells, two datasets at a time; print AdaSSP's published table and a table for each dataset.

    Parameters
    ----------
    cells : regular expression; ways whose name it does not match are not measured
    """
    if not PYTHON.exists():
        print("peers: run `make peers`, which makes .venv-peers")
        return
    published()
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        tables = {load: pool.submit(_measured, load, seeds, cells) for load in _SLOWEST_FIRST}
        for load in _LOADERS:
            print(tables[load].result(), end="", flush=True)
    last = {(cell.dataset, cell.way, cell.epsilon): cell for cell in read_cells()}
    RESULTS.write_text("".join(json.dumps(asdict(cell)) + "\n" for cell in last.values()))


def _measured(load: Callable[[], Split], seeds: int, selected: str) -> str:
    """Return the lines to print for this dataset."""
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()) as output:
        for split in available(load):
            measure_dataset(split, folder, seeds, selected)
    return output.getvalue()


def measure_dataset(split: Split, folder: str, seeds: int, selected: str = "") -> None:
    reference = Reference.of(split)
    problem = reference.problem

    def risk(w: Vector) -> float:
        value = reference.excess(w)
        return value if math.isfinite(value) else 1e300

    peers = Peers(split, folder)
    try:
        cells = {(cell.way, cell.epsilon): cell for cell in read_cells() if cell.dataset == split.name}

        def stored(way: str, epsilon: float) -> Setting:
            return cells[way, epsilon].setting if (way, epsilon) in cells else {}

        for way, prepare in ways(split, problem, peers, risk, stored):
            if not re.search(selected, way):
                continue
            for epsilon in EPSILONS:
                before = cells.get((way, epsilon))
                if before is not None and len(before.excess) >= (_TUNED_RUNS if before.setting else seeds):
                    continue
                prepared = prepare(epsilon, before.setting if before else None)
                runs = new_runs(partial(prepared.fit, epsilon), _TUNED_RUNS if prepared.setting else seeds, before)
                cell = Cell(
                    split.name,
                    way,
                    epsilon,
                    [*(before.excess if before else ()), *(risk(w) for w, _ in runs)],
                    [*(before.score if before else ()), *(reference.score(w) for w, _ in runs)],
                    _mean_seconds(before, [seconds for _, seconds in runs]),
                    prepared.setting,
                )
                with RESULTS.open("a") as file:
                    file.write(json.dumps(asdict(cell)) + "\n")
                cells[way, epsilon] = cell
    finally:
        peers.close()
    floors = {epsilon: floor(split, problem, reference.optimum, epsilon, DELTA) for epsilon in EPSILONS}
    zero = risk(np.zeros(problem.d)), reference.trivial_score
    title = f"{split.name}: n = {problem.n}, d = {problem.d}, {problem.loss.name}, no penalty"
    _print(title, cells, floors, zero, reference.score(reference.optimum))


def new_runs(fit: Callable[[], tuple[Vector, float]], least: int, before: Cell | None) -> list[tuple[Vector, float]]:
    """Return the new runs, besides those stored; cheap methods get more."""
    stored = len(before.excess) if before else 0
    runs = [fit() for _ in range(least - stored)]
    while not stored and len(runs) < _MOST_CHEAP_RUNS and sum(seconds for _, seconds in runs) < _CHEAP_SECONDS:
        runs.append(fit())
    return runs


def _mean_seconds(before: Cell | None, seconds: list[float]) -> float:
    """Return the mean seconds of a run, stored runs included."""
    stored = len(before.excess) if before else 0
    return (sum(seconds) + (stored * before.seconds if before else 0.0)) / (stored + len(seconds))


def read_cells() -> list[Cell]:
    if not RESULTS.exists():
        return []
    return [Cell(**json.loads(line)) for line in RESULTS.read_text().splitlines()]


def _print(
    title: str,
    cells: dict[tuple[str, float], Cell],
    floors: dict[float, float],
    zero: tuple[float, float],
    optimum: float,
) -> None:
    """Print mean excess, scores and CPU time of methods with all cells, then ours over the best peer and the floor."""
    names = [way for way in dict.fromkeys(way for way, _ in cells) if all((way, e) in cells for e in EPSILONS)]
    for label, kind, at_zero, best in (
        ("excess risk", "excess", zero[0], 0.0),
        ("test accuracy or squared error", "score", zero[1], optimum),
    ):
        print(f"\n{title}; {label}")
        _print_row("", [f"eps {epsilon:g}" for epsilon in EPSILONS])
        _print_row("w = 0, or the majority", [f"{at_zero:.4f}"])
        _print_row("without privacy", [f"{best:.4f}"])
        if kind == "excess":
            _print_row("noise limit", [f"{floors[epsilon]:.4f}" for epsilon in EPSILONS])
        for name in names:
            _print_row(name, [mean_and_deviation(getattr(cells[name, epsilon], kind)) for epsilon in EPSILONS])
    print(f"\n{title}; CPU seconds")
    for name in names:
        _print_row(name, [f"{cells[name, epsilon].seconds:.2f}" for epsilon in EPSILONS])
    print(f"\n{title}; tuned on the private rows: l2, or step size, clip, batches in an epoch x epochs")
    for name in names:
        settings = [cells[name, epsilon].setting for epsilon in EPSILONS]
        if any(settings):
            _print_row(name, [_short(setting) for setting in settings])
    print(f"\n{title}; excess of purse auto over that of ..")
    means = {key: float(np.mean(cell.excess)) for key, cell in cells.items()}
    all_peers = [name for name in names if "purse" not in name]
    replaced = [name for name in all_peers if "add/remove" not in name]
    for label, ours, peers in (
        ("the best peer, replace-one", "purse auto", replaced),
        ("the same, ours asked with l2 1e-4", "purse auto, asked with l2 1e-4", replaced),
        ("add/remove, ours zero_out", "purse auto, zero_out", [name for name in all_peers if name not in replaced]),
    ):
        if peers and ours in names:
            best_peers = {epsilon: min(means[name, epsilon] for name in peers) for epsilon in EPSILONS}
            _print_row(label, [f"{means[ours, epsilon] / best:.2f}" for epsilon, best in best_peers.items()])
    if "purse auto" in names:
        _print_row("the noise limit", [f"{means['purse auto', e] / floors[e]:.2f}" for e in EPSILONS])


_print_row = partial(print_row, label_width=36, width=17)


def newest() -> None:
    """Print the excess of the newest methods and of older ones beside auto, for datasets with all stored cells."""
    cells = {(cell.dataset, cell.way, cell.epsilon): float(np.mean(cell.excess)) for cell in read_cells()}
    datasets = sorted({dataset for dataset, _, _ in cells})
    for label, ours in (
        ("BISR tuned, replace-one", "purse auto"),
        ("BISR tuned, add/remove", "purse auto, zero_out"),
        ("IHM tuned, add/remove", "purse auto, zero_out"),
        ("BandMF tuned, replace-one", "purse auto"),
        ("noisy marginals tuned, replace-one", "purse auto"),
        ("noisy marginals tuned, add/remove", "purse auto, zero_out"),
        ("Opacus tuned, replace-one", "purse auto"),
        ("diffprivlib tuned, delta 0", "purse auto"),
        ("boosted AdaSSP, replace-one", "purse auto"),
        ("purse objective_perturbation", "purse auto"),
    ):
        measured = [d for d in datasets if all({(d, label, e), (d, ours, e)} <= cells.keys() for e in EPSILONS)]
        if measured:
            print(f"\n{label}: excess risk, and the excess of {ours} over it")
            _print_row("", [f"eps {epsilon:g}" for epsilon in EPSILONS])
        for dataset in measured:
            found = [(cells[dataset, label, epsilon], cells[dataset, ours, epsilon]) for epsilon in EPSILONS]
            _print_row(dataset, [f"{theirs:.5f} ({own / theirs:.2f})" for theirs, own in found])


def _short(setting: Setting) -> str:
    """Return the values of a setting in their order."""
    return " ".join(
        "x".join(map(str, v)) if isinstance(v, list | tuple) else v if isinstance(v, str) else f"{v:g}"
        for v in setting.values()
    )


def mean_and_deviation(values: list[float]) -> str:
    return f"{np.mean(values):.0e}" if np.abs(values).max() >= _DIVERGED else spread(values, 4)
