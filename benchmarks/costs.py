"""What things cost on this machine, as ratios within one run; absolute times only beside them."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np

from accounting import Privacy
from accounting.noise import Noise
from solvers import Problem, plan
from solvers.data import BLOCK, Data
from solvers.losses import Hinge, Logistic
from solvers.methods import DpGd, DpSvrg, NoisyMirrorDescent
from solvers.oracle import PrivateOracle
from solvers.regularizers import L2
from solvers.solve import run

N, D = 500_000, 54


def report() -> None:
    """Print the costs of noise, gradients, the oracle and a quote."""
    print(f"costs on this machine (medians of repeated measurements; gradients over {N} x {D} float64)")
    noise()
    gradients()
    half_pass()
    quotes()


def seconds(call: Callable[[], object], repeats: int = 7) -> float:
    """The median time of a call, after one that is not counted."""
    call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return median(times)


def noise() -> None:
    """The exactly rounded sampler against numpy's unproven one."""
    draws = 2_000_000
    exact, generator = Noise(), np.random.default_rng(0)
    ours = seconds(lambda: exact.rounded_gaussian(draws, 2.0**24 * 1.5))
    theirs = seconds(lambda: generator.standard_normal(draws))
    rate = f"{draws / ours / 1e6:.1f} million a second"
    print(f"  exactly rounded Gaussian: {rate}, {ours / theirs:.1f} x the time of numpy's PCG64 normals")


def gradients() -> None:
    """A full gradient against one streaming read of the same array, and the oracle against the bare loop."""
    generator = np.random.default_rng(0)
    X = generator.standard_normal((N, D))
    y = np.where(generator.random(N) < 0.5, 1.0, -1.0)
    problem = Problem(Logistic(), L2(1e-4), n=N, d=D, row_norm=8.0)
    data = Data.of(X, y, problem)
    release = plan(DpGd(steps=1000), problem, Privacy(1.0, 1e-6)).release
    oracle = PrivateOracle(problem, data, release.plan, Noise())
    w = generator.standard_normal(D)

    def bare() -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        total = np.zeros(D)
        for start in range(0, N, BLOCK):
            rows = X[start : start + BLOCK]
            total += rows.T @ problem.loss.slope(rows @ w, y[start : start + BLOCK])
        return total / N

    read, loop = seconds(X.sum), seconds(bare)
    door = seconds(lambda: oracle.gradient("gradient", w))
    print(f"  one read of the array {read * 1e3:.0f} ms; full gradient, bare loop: {loop / read:.2f} x the read")
    print(f"  PrivateOracle.gradient: {door / loop:.2f} x the bare loop, {door / read:.2f} x the read")


def half_pass() -> None:
    """A whole run of noisy mirror descent, by its defaults, against one read of the same array: linear time."""
    n, d, generator = 1_000_000, 50, np.random.default_rng(0)
    X = generator.standard_normal((n, d))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    problem = Problem(Hinge(), L2(1e-4), n=n, d=d, row_norm=8.0)
    data, read = Data.of(X, y, problem), seconds(X.sum)
    for form in ("independent", "ordered"):
        quote = plan(NoisyMirrorDescent(form=form), problem, Privacy(1.0, 1e-6))
        took = seconds(lambda quote=quote: run(quote.method, problem, data, quote.release), 3)
        slots = quote.release.plan.queries[0].answers
        print(f"  noisy_mirror_descent, {form}, {n} x {d}, {slots} slots: {took / read:.1f} x one read of the array")


def quotes() -> None:
    """A quote at a warm server: its first call and later ones, over HTTP on loopback."""
    from app.client import Client
    from app.demo.server import serving

    with tempfile.TemporaryDirectory() as home, serving(Path(home)) as (url, token), Client(url, token=token) as purse:
        rows = Path(home) / "rows.csv"
        rows.write_text("x,y\n" + "1,a\n2,b\n" * 100_000)
        columns = [
            {"name": "x", "type": "number", "lower": 0, "upper": 9},
            {"name": "y", "type": "category", "categories": ["a", "b"]},
        ]
        spec = {"name": "rows", "columns": columns, "budget": {"epsilon": 3.0, "delta": 1e-6}}
        dataset = purse.datasets.upload(rows, spec=spec)
        for method in (DpGd(), DpSvrg()):
            times = []
            for epsilon in (0.5, 0.5, 0.5, 0.5, 0.5, 0.5):
                start = time.perf_counter()
                purse.quote(dataset=dataset.id, target="y", method={"name": method.name}, privacy={"epsilon": epsilon})
                times.append(time.perf_counter() - start)
            print(f"  quote of {method.name}: first {times[0] * 1e3:.0f} ms, then {median(times[1:]) * 1e3:.0f} ms")
