"""Costs on this machine as ratios within one run, with absolute times beside them."""

import os
import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Callable
from functools import partial
from statistics import median

import numpy as np
from scipy.special import ndtri

from accounting import Privacy
from accounting.mechanisms import Gaussian, PoissonGaussian
from accounting.noise import Noise
from accounting.noise.source import SystemBits
from accounting.plan import Plan, PlannedQuery
from benchmarks import loops
from solvers import Problem, plan
from solvers.data_access import inputs
from solvers.data_access.sampled import SampledOracle
from solvers.data_access.walk import WalkingOracle
from solvers.losses import Hinge, Logistic
from solvers.methods import DpGd, NoisyMirrorDescent
from solvers.regularizers import L2
from solvers.solve import run

N, D = 500_000, 54


def report() -> None:
    """Print the costs of noise, gradients, small steps, compilation and a run in linear time."""
    print(f"costs on this machine (medians of repeated measurements; gradients over {N} x {D} float64)")
    noise()
    gradients()
    steps()
    compilation()
    half_pass()


def median_seconds(*calls: Callable[[], object], repeats: int = 7) -> list[float]:
    """Return the median seconds of each call, made in turn so that other work on the machine delays all alike."""
    turns = [[_seconds(call) for call in calls] for _ in range(repeats + 1)]
    return [median(column) for column in zip(*turns[1:], strict=True)]  # the first turn compiles


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def noise() -> None:
    """Compare the exactly rounded sampler with numpy's sampler, which has no proof."""
    draws = 2_000_000
    exact = Noise()
    generator = np.random.default_rng(0)
    ours, theirs = median_seconds(
        lambda: exact.rounded_gaussian(draws, 2.0**24 * 1.5), lambda: generator.standard_normal(draws)
    )
    rate = f"{draws / ours / 1e6:.1f} million a second"
    print(f"  exactly rounded Gaussian: {rate}, {ours / theirs:.1f} x the time of numpy's PCG64 normals")
    _noise_of_one_answer(exact, generator)


def _noise_of_one_answer(exact: Noise, generator: np.random.Generator) -> None:
    """Print the time of the noise of 117 coordinates, which the model of Adult has, and of its parts."""
    d, answers, bits = 117, 1000, SystemBits()
    mechanism = Gaussian()
    value = np.zeros(d)
    tail_probabilities = generator.uniform(0, 0.5, d)
    calls: list[Callable[[], object]] = [
        lambda: mechanism.perturb(value, 1.0, 1.0, exact),
        lambda: exact.rounded_gaussian(d, 2.0**24 * 1.5),
        lambda: exact.tails(d),
        lambda: bits.words(d),
        lambda: ndtri(tail_probabilities),
        lambda: generator.standard_normal(d),
    ]
    seconds = median_seconds(*(partial(timeit.timeit, call, number=answers) for call in calls), repeats=21)
    answer, rounded, draws, words, quantiles, theirs = (each / answers * 1e6 for each in seconds)
    print(f"    of {d} coordinates: {rounded:.1f} microseconds, {rounded / theirs:.1f} x the time of numpy's normals")
    print(f"    standard draws take {draws:.1f} of these, with {words:.1f} for bits and {quantiles:.1f} for quantiles")
    print(f"    an answer of the mechanism with this noise takes {answer:.1f}")


def gradients() -> None:
    """Compare a full gradient with one streaming read of the same array by the same thread."""
    generator = np.random.default_rng(0)
    X = generator.standard_normal((N, D))
    y = np.where(generator.random(N) < 0.5, 1.0, -1.0)
    problem = Problem(Logistic(), L2(1e-4), n=N, d=D, row_norm=8.0)
    data = inputs.of_arrays(X, y, problem)
    release = plan(DpGd(steps=1000), problem, Privacy(1.0, 1e-6)).release
    oracle = SampledOracle(problem, data, release.plan, Noise())
    w = generator.standard_normal(D)
    summed, read, gradient = median_seconds(X.sum, lambda: loops.read(X), lambda: oracle.gradient("gradient", w))
    ratio = f"{gradient / summed:.2f} x one read of the array by numpy's sum ({summed * 1e3:.0f} ms)"
    print(f"  SampledOracle.gradient: {ratio},")
    print(f"    {gradient / read:.2f} x one by a compiled loop that may add in any order ({read * 1e3:.0f} ms)")


def steps() -> None:
    """Time the walk of dp_svrg on batches of one row, beside a bare compiled loop with numpy's PCG64 noise."""
    generator, n, count = np.random.default_rng(0), 200_000, 75_000
    X = generator.standard_normal((n, D))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.where(generator.random(n) < 0.5, 1.0, -1.0)
    problem = Problem(Logistic(), L2(1e-4), n=n, d=D, row_norm=1.0)
    data = inputs.of_arrays(X, y, problem)
    multiplier = 0.43
    step = 1e-4
    start = np.zeros(D)
    planned = Plan((PlannedQuery("change", count, PoissonGaussian(1 / n), multiplier),))

    def ours() -> None:
        oracle = WalkingOracle(problem, data, planned, Noise())
        w = start
        for _ in range(0, count, 1000):
            points = oracle.walk("change", w, start, start, step, 1000)
            if points is None:
                raise TypeError("the walk is not compiled")
            w = points[-1]

    bare, walk = median_seconds(lambda: loops.svrg(X, y, start, multiplier, step, count, generator), ours)
    print(
        f"  {count} steps of dp_svrg at batch 1 on {n} x {D}: {walk / bare:.2f} x a bare compiled loop with PCG64 noise"
    )
    print(f"    ({walk / count * 1e6:.2f} and {bare / count * 1e6:.2f} microseconds a step)")


def compilation() -> None:
    """Time the start of compiled loops without and with a cache, and check that a first gradient compiles nothing."""
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"NUMBA_CACHE_DIR": cache}
        command = [sys.executable, "-c", FIRST_GRADIENT]
        for state in ("nothing cached", "from the cache"):
            output = subprocess.check_output(command, env=environment, text=True)
            loading, first, later = map(float, output.split())
            print(
                f"  importing the solvers, {state}: {loading:.2f} s; then a first gradient takes {first * 1e3:.1f} ms, "
                f"the next {later * 1e3:.1f} ms"
            )


FIRST_GRADIENT = """
import time
import dp_accounting, mpmath, numba, numpy as np, pydantic, randomgen, scipy.special
def passed(call):
    start = time.perf_counter(); call(); return time.perf_counter() - start
def load():
    import solvers.compiled
loading = passed(load)
from solvers import Problem
from solvers.data_access import inputs
from solvers.data_access.sums import gradient_sum
from solvers.losses import Logistic
problem = Problem(Logistic(), n=100_000, d=54, row_norm=8.0)
data = inputs.of_arrays(np.ones((100_000, 54)), np.ones(100_000), problem)
gradient = lambda: gradient_sum(data, slice(0, 100_000), np.ones(54))
print(loading, passed(gradient), passed(gradient))
"""


def half_pass() -> None:
    """Compare a run of noisy mirror descent at its defaults, in linear time, with one read of the same array."""
    n, d, generator = 1_000_000, 50, np.random.default_rng(0)
    X = generator.standard_normal((n, d))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    problem = Problem(Hinge(), L2(1e-4), n=n, d=d, row_norm=8.0)
    data = inputs.of_arrays(X, y, problem)
    for form in ("independent", "ordered"):
        quote = plan(NoisyMirrorDescent(form=form), problem, Privacy(1.0, 1e-6))
        job = partial(run, quote.method, problem, data, quote.release)
        read, seconds = median_seconds(X.sum, job, repeats=3)
        slots = quote.release.plan.queries[0].answers
        print(f"  noisy_mirror_descent, {form}, {n} x {d}, {slots} slots: {seconds / read:.1f} x one read of the array")
