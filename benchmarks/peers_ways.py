"""The ways to fit that `benchmarks.peers` compares: ours untuned; the others tuned on the private rows.

A way is a function from epsilon to coefficients and CPU seconds. The peers run in .venv-peers (`make peers`).
"""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accounting import Privacy
from accounting.calibration import calibrate
from accounting.mechanisms import PoissonGaussian
from accounting.plan import Query
from accounting.privacy import REPLACE_ONE, Relation
from benchmarks.ada_ssp import boosted, printed
from benchmarks.datasets import Split
from solvers import Problem, solve
from solvers.methods import AdaSsp, DpGd, Method, ObjectivePerturbation, OutputPerturbation
from solvers.selection import Auto

PYTHON = Path(__file__).resolve().parents[1] / ".venv-peers" / "bin" / "python"
DELTA = 1e-5
# Opacus: from the middle of each list, one setting after the other is moved to its best, twice.
RATES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
CLIPS = (0.1, 0.3, 1.0, 3.0)
BATCHES = ((20, 5), (20, 20), (100, 5), (100, 20))  # batches in an epoch, epochs
_STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1)  # diffprivlib's l2

Vector = NDArray[np.float64]
Fit = Callable[[float], tuple[Vector, float]]
Risk = Callable[[Vector], float]


class Peers:
    """The worker in the other environment, for one dataset; one thread, as ours."""

    def __init__(self, split: Split, folder: str) -> None:
        file = Path(folder) / "rows.npz"
        np.savez(file, X=split.X, y=split.y)
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        worker = Path(__file__).with_name("peers_worker.py")
        self._process = subprocess.Popen(
            [PYTHON, worker, file], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | threads
        )

    def ask(self, **job: Any) -> dict[str, Any]:
        """One answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the peers' worker died; what it said stands above")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def fit(self, **job: Any) -> tuple[Vector, float]:
        """One run."""
        answer = self.ask(**job)
        return np.array(answer["w"]), float(answer["seconds"])

    def close(self) -> None:
        """Ends the worker."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def ways(split: Split, problem: Problem, peers: Peers, risk: Risk) -> Iterator[tuple[str, Callable[[float], Fit]]]:
    """Each way's name, and what is done once for an epsilon before it is timed: the choice of its settings."""
    more: list[Method | Auto] = [ObjectivePerturbation()] if problem.loss.takes == "class" else [AdaSsp()]
    for method in (Auto(), DpGd(), *more):
        yield f"purse {method.name}", lambda _, method=method: _ours(method, problem, split)  # type: ignore[misc]
    yield "purse auto, zero_out", lambda _: _ours(Auto(), problem, split, "zero_out")
    if problem.loss.takes == "class":
        yield "purse output_perturbation, delta 0", lambda _: _ours(OutputPerturbation(), problem, split, delta=0.0)
        yield "diffprivlib, delta 0", lambda _: _diffprivlib(peers, 1.0, split)
        yield "diffprivlib tuned, delta 0", partial(_tuned_diffprivlib, peers, split, risk)
    else:
        yield "AdaSSP as printed, add/remove", lambda _: _timed(lambda e: printed(split, e, DELTA))
        yield "boosted AdaSSP, add/remove", lambda _: _timed(lambda e: boosted(split, e, DELTA))
        yield "diffprivlib, delta 0", lambda _: lambda e: peers.fit(peer="diffprivlib_linear", epsilon=e)
    for relation in ("replace-one", "add/remove"):
        begun = {"rate": 1.0, "clip": 1.0, "schedule": (20, 20)}
        yield f"Opacus tuned, {relation}", partial(_tuned_opacus, peers, split, problem, risk, relation, begun)


def _timed(fit: Callable[[float], Vector]) -> Fit:
    def timed(epsilon: float) -> tuple[Vector, float]:
        start = time.process_time()
        return fit(epsilon), time.process_time() - start

    return timed


def _ours(
    method: Method | Auto, problem: Problem, split: Split, relation: Relation = REPLACE_ONE, delta: float = DELTA
) -> Fit:
    """Everything from the arrays to the coefficients, calibration included."""
    near = replace(problem, relation=relation)
    return _timed(lambda epsilon: solve(method, near, split.X, split.y, Privacy(epsilon, delta)).coefficients)


def _diffprivlib(peers: Peers, C: float, split: Split) -> Fit:
    return lambda epsilon: peers.fit(peer="diffprivlib_logistic", epsilon=epsilon, C=C, row_norm=split.row_norm)


def _tuned_diffprivlib(peers: Peers, split: Split, risk: Risk, epsilon: float) -> Fit:
    """By the training risk of one run each: its penalty, as an l2 of ours."""
    fits = [_diffprivlib(peers, split.row_norm**2 / (len(split.y) * s), split) for s in _STRENGTHS]
    return min(fits, key=lambda fit: risk(fit(epsilon)[0]))


def _tuned_opacus(
    peers: Peers, split: Split, problem: Problem, risk: Risk, relation: str, chosen: dict[str, Any], epsilon: float
) -> Fit:
    """By the mean training risk of two runs each: step size, clip, and batches with epochs, in turn, twice.

    `chosen` is where the search begins, and afterwards where it ended: at the next epsilon it goes on from there.
    """
    lists: dict[str, tuple[Any, ...]] = {"rate": RATES, "clip": CLIPS, "schedule": BATCHES}
    seen: dict[tuple[Any, ...], float] = {}

    def value(setting: dict[str, Any]) -> float:
        key = tuple(setting.values())
        if key not in seen:
            fits = [_opacus(peers, split, problem, relation, setting, epsilon)[0] for _ in range(2)]
            seen[key] = float(np.mean([risk(w) for w in fits]))
        return seen[key]

    for name in (*lists, *lists):
        chosen[name] = min(lists[name], key=lambda option, name=name: value(chosen | {name: option}))  # type: ignore[misc]
    best = dict(chosen)
    return lambda epsilon: _opacus(peers, split, problem, relation, best, epsilon)


def _opacus(
    peers: Peers, split: Split, problem: Problem, relation: str, setting: dict[str, Any], epsilon: float
) -> tuple[Vector, float]:
    batches, epochs = setting["schedule"]
    batch = -(-len(split.y) // batches)
    noise: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA}
    start = time.process_time()
    if relation == "replace-one":  # the least that our accountant finds for its Poisson batches
        query = Query("gradient", epochs * batches, PoissonGaussian(1 / batches))
        noise = {"multiplier": calibrate((query,), Privacy(epsilon, DELTA)).plan.queries[0].noise_multiplier}
    seconds = time.process_time() - start
    loss = "logistic" if problem.loss.takes == "class" else "squared"
    settings = {"epochs": epochs, "batch": batch, "clip": setting["clip"], "l2": 0.0, "rate": setting["rate"]}
    w, used = peers.fit(peer="opacus", loss=loss, **settings, **noise)
    return w, used + seconds
