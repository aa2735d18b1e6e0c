"""The ways to fit that `benchmarks.peers` compares: ours without tuning, and others tuned on the private rows.

A way is a function from epsilon to coefficients and CPU seconds. The peers run in .venv-peers (`make peers`).
"""

import json
import math
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accounting import Privacy
from accounting.calibration import calibrate
from accounting.mechanisms import PoissonGaussian
from accounting.plan import Query
from accounting.privacy import REPLACE_ONE, Relation
from benchmarks.ada_ssp import CHANGES, boosted, printed
from benchmarks.datasets import Split
from benchmarks.marginals import Tables, from_marginals
from benchmarks.newest import banded, bisr, sketched
from benchmarks.references import DELTA
from solvers import Problem, solve
from solvers.methods import AdaSsp, DpGd, Method, ObjectivePerturbation, OutputPerturbation
from solvers.regularizers import L2
from solvers.selection import Auto

PYTHON = Path(__file__).resolve().parents[1] / ".venv-peers" / "bin" / "python"
# Settings of Opacus
RATES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
CLIPS = (0.1, 0.3, 1.0, 3.0)
BATCHES = ((20, 5), (20, 20), (100, 5), (100, 20))  # batches in an epoch, epochs
# Settings of the newest methods
FIXED_BATCHES = ((1, 50), (5, 20), (20, 20), (20, 100), (100, 20))  # batches in an epoch, epochs
BANDS = (1, 2, 8, 64)  # 1 is independent noise
STRATEGY_BANDS = (1, 2, 5, 20)  # of BandMF; each divides the numbers of batches, and 1 is DP-SGD
ROUNDS, SKETCHES, SHARES, RIDGES = (1, 2, 3, 5, 10, 20), (3, 10, 30), (0.1, 0.3, 0.5, 0.7, 0.9), (0.0, 1.0)
LEVELS, FIRST_PAIRS, MORE_PAIRS = (2, 4, 8, 16, 32), ("none", "target", "tree"), (0, 3, 10, 30, 100)
MOMENT_RIDGES, INTERVALS = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0), (1.0, 2.0, 3.0, 4.0, 6.0, 10.0)
FAR_BEHIND = 1.5  # a setting whose first run is above this multiple of the best mean has no second run
FINALISTS, FINAL_RUNS = 3, 3  # the best settings, and the number of their further runs
_STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1)  # diffprivlib's l2
_DEFAULT_PENALTY = L2(1e-4)  # of a request without a penalty

Vector = NDArray[np.float64]
Fit = Callable[[float], tuple[Vector, float]]
Setting = dict[str, Any]
Risk = Callable[[Vector], float]
Lists = dict[str, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run at an epsilon, and the settings that were chosen for it, if any were."""

    fit: Fit
    setting: Setting = field(default_factory=dict)


_STRATEGIES: dict[tuple[int, int], Vector] = {}

Prepare = Callable[[float, Setting | None], Prepared]


class Peers:
    """A worker of the other environment for one dataset, with one thread, as `python -m benchmarks` sets."""

    def __init__(self, split: Split, folder: str) -> None:
        file = Path(folder) / "rows.npz"
        np.savez(file, X=split.X, y=split.y)
        command = [PYTHON, Path(__file__).with_name("peers_worker.py"), file]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def fit(self, **job: Any) -> tuple[Vector, float]:
        """Return the coefficients of one run and its CPU seconds."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(job), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the worker of the peers ended. Its error is printed above")
        answer = json.loads(line)
        return np.array(answer["w"]), float(answer["seconds"])

    def strategy(self, steps: int, bands: int) -> Vector:
        """Return the banded strategy of jax_privacy for so many steps, of norm 1. All datasets share it."""
        if bands == 1:
            return np.ones(1)
        if (steps, bands) not in _STRATEGIES:
            _STRATEGIES[steps, bands] = self.fit(peer="bandmf_strategy", steps=steps, bands=bands)[0]
        return _STRATEGIES[steps, bands]

    def close(self) -> None:
        """End the worker."""
        self._process.communicate()


def ways(
    split: Split, problem: Problem, peers: Peers, risk: Risk, stored: Callable[[str, float], Setting]
) -> Iterator[tuple[str, Prepare]]:
    """Yield each way's name, and the function that prepares a run at an epsilon, before it is timed.

    The function chooses the settings of the run, or takes the stored ones.

    Parameters
    ----------
    stored : returns the settings that were chosen for a way at an epsilon, empty if it was not measured
    """
    for name, fit in _untuned(split, problem, peers):
        yield name, lambda _, __, fit=fit: Prepared(fit)  # type: ignore[misc]
    if problem.loss.takes == "class":
        yield "diffprivlib tuned, delta 0", partial(_tuned_diffprivlib, peers, split, risk)
    for relation in ("replace-one", "add/remove"):
        initial = {"rate": 1.0, "clip": 1.0, "schedule": (20, 20)}
        yield f"Opacus tuned, {relation}", partial(_tuned_opacus, peers, split, problem, risk, relation, initial)
    opacus = partial(stored, "Opacus tuned, replace-one")
    yield "BandMF tuned, replace-one", partial(_tuned_bandmf, peers, split, risk, opacus)
    yield from newest_ways(split, problem, risk)


def newest_ways(split: Split, problem: Problem, risk: Risk) -> Iterator[tuple[str, Prepare]]:
    """Yield the newest published methods, which need no other environment."""
    lists: Lists = {"rate": RATES, "clip": CLIPS, "schedule": FIXED_BATCHES, "band": BANDS}
    for relation, changed in (("replace-one", 2.0), ("add/remove", 1.0)):

        def correlated(setting: Setting, epsilon: float, changed: float = changed) -> tuple[Vector, float]:
            return _timed(lambda epsilon: bisr(split, epsilon, DELTA, changed, **setting))(epsilon)

        initial = {"rate": 1.0, "clip": 1.0, "schedule": (20, 20), "band": 8}
        yield f"BISR tuned, {relation}", partial(_tuned, correlated, lists, risk, initial)
    tables = cache(partial(Tables.of, split))
    for relation, change in (("replace-one", 2), ("add/remove", 1)):
        yield f"noisy marginals tuned, {relation}", partial(_tuned_marginals, tables, problem, risk, change)
    if problem.loss.takes != "class":

        def mixed(setting: Setting, epsilon: float) -> tuple[Vector, float]:
            return _timed(lambda epsilon: sketched(split, epsilon, DELTA, **setting))(epsilon)

        start = {"rounds": 3, "sketch": 10 * problem.d, "share": 0.5, "ridge": 0.0}
        sketches = {
            "rounds": ROUNDS,
            "sketch": tuple(factor * problem.d for factor in SKETCHES),
            "share": SHARES,
            "ridge": RIDGES,
        }
        yield "IHM tuned, add/remove", partial(_tuned, mixed, sketches, risk, start)


def _untuned(split: Split, problem: Problem, peers: Peers) -> Iterator[tuple[str, Fit]]:
    ours = partial(_ours, split, problem)
    penalized = replace(problem, regularizer=_DEFAULT_PENALTY)
    yield "purse auto", ours(Auto())
    yield "purse auto, asked with l2 1e-4", _ours(split, penalized, Auto())
    yield "purse dp_gd", ours(DpGd())
    if problem.loss.takes == "class":
        yield "purse objective_perturbation", ours(ObjectivePerturbation())
        yield "purse output_perturbation, delta 0", ours(OutputPerturbation(), delta=0.0)
        yield "diffprivlib, delta 0", _diffprivlib(peers, 1.0, split)
    else:
        yield "purse ada_ssp", ours(AdaSsp())
        for name, published in (("AdaSSP as printed", printed), ("boosted AdaSSP", boosted)):
            for relation in CHANGES:
                fit = partial(published, split, delta=DELTA, relation=relation)
                yield f"{name}, {relation}", _timed(fit)
        yield "diffprivlib, delta 0", lambda epsilon: peers.fit(peer="diffprivlib_linear", epsilon=epsilon)
    yield "purse auto, zero_out", ours(Auto(), "zero_out")


def _timed(fit: Callable[[float], Vector]) -> Fit:
    def timed(epsilon: float) -> tuple[Vector, float]:
        start = time.process_time()
        return fit(epsilon), time.process_time() - start

    return timed


def _ours(
    split: Split, problem: Problem, method: Method | Auto, relation: Relation = REPLACE_ONE, delta: float = DELTA
) -> Fit:
    """Run everything from the arrays to the coefficients, with calibration."""
    near = replace(problem, relation=relation)
    return _timed(lambda epsilon: solve(method, near, split.X, split.y, Privacy(epsilon, delta)).coefficients)


def _diffprivlib(peers: Peers, C: float, split: Split) -> Fit:
    return lambda epsilon: peers.fit(peer="diffprivlib_logistic", epsilon=epsilon, C=C, row_norm=split.row_norm)


def _tuned_diffprivlib(peers: Peers, split: Split, risk: Risk, epsilon: float, given: Setting | None) -> Prepared:
    """Choose the penalty by the training risk of one run each; return it as an l2 of ours."""
    fits = {s: _diffprivlib(peers, split.row_norm**2 / (len(split.y) * s), split) for s in _STRENGTHS}
    best = given["l2"] if given else min(fits, key=lambda s: risk(fits[s](epsilon)[0]))
    return Prepared(fits[best], {"l2": best})


def _tuned_opacus(
    peers: Peers,
    split: Split,
    problem: Problem,
    risk: Risk,
    relation: str,
    chosen: Setting,
    epsilon: float,
    given: Setting | None,
) -> Prepared:
    lists: Lists = {"rate": RATES, "clip": CLIPS, "schedule": BATCHES}
    run = partial(_opacus, peers, split, problem, relation)
    return _tuned(run, lists, risk, chosen, epsilon, given)


def _tuned_bandmf(
    peers: Peers, split: Split, risk: Risk, opacus: Callable[[float], Setting], epsilon: float, given: Setting | None
) -> Prepared:
    """Choose the settings, from those of Opacus on, which are this method with one band."""
    lists: Lists = {"rate": RATES, "clip": CLIPS, "schedule": BATCHES, "bands": STRATEGY_BANDS}
    start: Setting = {"rate": 1.0, "clip": 1.0, "schedule": (20, 20)} | opacus(epsilon) | {"bands": 1}
    start["schedule"] = tuple(start["schedule"])

    def run(setting: Setting, epsilon: float) -> tuple[Vector, float]:
        rest = {name: value for name, value in setting.items() if name != "bands"}
        strategy = peers.strategy(math.prod(setting["schedule"]), setting["bands"])
        return _timed(lambda epsilon: banded(split, epsilon, DELTA, REPLACE_ONE, strategy, **rest))(epsilon)

    return _tuned(run, lists, risk, start, epsilon, given)


def _tuned_marginals(
    tables: Callable[[int], Tables], problem: Problem, risk: Risk, change: int, epsilon: float, given: Setting | None
) -> Prepared:
    """Choose the settings from two starts, few pairs and many, by the mean training risk of further runs."""
    lists: Lists = {"ridge": MOMENT_RIDGES, "levels": LEVELS, "more": MORE_PAIRS, "first": FIRST_PAIRS}
    few: Setting = {"ridge": 1e-2, "levels": 8, "more": 0, "first": "target"}
    many: Setting = {"ridge": 1e-2, "levels": 8, "more": 100, "first": "tree"}
    if problem.loss.takes == "class":
        lists = {"interval": INTERVALS} | lists
        few, many = {"interval": 3.0} | few, {"interval": 3.0} | many

    def run(setting: Setting, epsilon: float) -> tuple[Vector, float]:
        rest = {name: value for name, value in setting.items() if name != "levels"}
        rows = tables(setting["levels"])
        return _timed(lambda epsilon: from_marginals(rows, epsilon, DELTA, change, **rest))(epsilon)

    found = [_tuned(run, lists, risk, start, epsilon, given) for start in (few, many)]
    return found[0] if given else min(found, key=lambda way: np.mean([risk(way.fit(epsilon)[0]) for _ in range(8)]))


def _tuned(
    run: Callable[[Setting, float], tuple[Vector, float]],
    lists: Lists,
    risk: Risk,
    chosen: Setting,
    epsilon: float,
    given: Setting | None,
) -> Prepared:
    """Choose the settings of these lists in turn and twice, by the mean training risk of two runs each.

    A setting that is far behind has one run only. The three best settings have three more runs, which decide, so that
    no setting is chosen for lucky runs.

    Parameters
    ----------
    chosen : the setting at which the search begins; it becomes the chosen one, at which the search for the next epsilon
        begins
    """
    seen: dict[tuple[Any, ...], float] = {}

    def mean(setting: Setting, runs: int) -> float:
        return float(np.mean([risk(run(setting, epsilon)[0]) for _ in range(runs)]))

    def value(setting: Setting) -> float:
        key = tuple(setting.values())
        if key not in seen:
            first = mean(setting, 1)
            close = first <= FAR_BEHIND * min(seen.values(), default=math.inf)
            seen[key] = (first + mean(setting, 1)) / 2 if close else first
        return seen[key]

    if given:
        chosen |= given
        return Prepared(partial(run, given), given)
    for name in (*lists, *lists):
        chosen[name] = min(lists[name], key=lambda option, name=name: value(chosen | {name: option}))  # type: ignore[misc]
    best = [dict(zip(lists, key, strict=True)) for key in sorted(seen, key=lambda key: seen[key])[:FINALISTS]]
    setting: Setting = min(best, key=lambda setting: mean(setting, FINAL_RUNS))
    chosen |= setting
    return Prepared(partial(run, setting), setting)


def _opacus(
    peers: Peers, split: Split, problem: Problem, relation: str, setting: Setting, epsilon: float
) -> tuple[Vector, float]:
    batches, epochs = setting["schedule"]
    batch = -(-len(split.y) // batches)
    noise: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA}
    start = time.process_time()
    if relation == "replace-one":  # the smallest noise that our accountant finds for its Poisson batches
        query = Query("gradient", epochs * batches, PoissonGaussian(1 / batches))
        noise = {"multiplier": calibrate((query,), Privacy(epsilon, DELTA)).plan.queries[0].noise_multiplier}
    seconds = time.process_time() - start
    loss = "logistic" if problem.loss.takes == "class" else "squared"
    settings = {"epochs": epochs, "batch": batch, "clip": setting["clip"], "l2": 0.0, "rate": setting["rate"]}
    w, used = peers.fit(peer="opacus", loss=loss, **settings, **noise)
    return w, used + seconds
