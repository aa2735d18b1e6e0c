"""Trials of settings that were not changed: descent time, shares of the moments, recalibration and banded noise."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from accounting import Privacy
from accounting.calibration import calibrate
from accounting.divergences.gaussian import gauss_epsilon, gauss_mu
from accounting.mechanisms import Gaussian, Mechanism, ObjectivePerturbation, PoissonGaussian, RowObjectivePerturbation
from accounting.plan import Query
from benchmarks.datasets import Split, adult, bank, covertype, w8a
from benchmarks.newton import minimize, objective
from solvers import Problem, plan, solve
from solvers.columns import Columns
from solvers.losses import Logistic
from solvers.methods import AdaptiveGd, DpAccMd, DpGd, DpSvrg, Method, NoisySgd
from solvers.methods.standardised.adaptive_gd import AdaptiveGdRun
from solvers.preparation import private

DELTA = 1e-5
EPSILONS = (0.2, 0.5, 1.0)
SMALL = (0.1, 0.2, 0.5, 1.0, 4.0)
_MANY = 16.0
_TIMES = (0.5, 1.0, 2.0, 4.0)
_SHARES = (0.5, 1.0, 2.0, 4.0)
_SHARE = 0.05  # of mu^2, for the recalibration
_BANDS = (1, 2, 4, 8, 16, 32)

Vector = NDArray[np.float64]
_signal = AdaptiveGdRun.signal


def report(seeds: int) -> None:
    """Compare on Adult and 50,000 rows of Covertype: logistic, no penalty, preparation private."""
    _profiles()
    for split in (adult(), covertype(50_000, settled=True)):
        if split is None:
            print("trials: BENCHMARK_DATA names no folder that holds the real datasets; nothing more measured")
            return
        problem, risk = _posed(split, seeds)
        _times(split, problem, risk, seeds)
        _shares(split, problem, risk, seeds)
        _recalibrated(split, problem, risk, seeds)
        _banded(problem)


def _posed(split: Split, seeds: int) -> tuple[Problem, Callable[[Vector], float]]:
    """The logistic problem without a penalty, and a point's excess risk; prints what is measured."""
    problem = Problem(Logistic(), n=len(split.y), d=split.X.shape[1], row_norm=split.row_norm, columns=split.columns)
    least = minimize(problem, split.X, split.y).value
    print(f"\n{split.name}: n = {problem.n}, d = {problem.d}, delta = {DELTA:g}, {seeds} runs a cell; excess risk")
    return problem, lambda w: objective(problem, split.X, split.y, w) - least


def steps(seeds: int) -> None:
    """As `report`, and Bank: step counts, with the step and the batch that the public rule then fills in."""
    for split in (adult(), covertype(50_000, settled=True), bank()):
        if split is None:
            print("steps: BENCHMARK_DATA names no folder that holds the dataset")
        else:
            _steps(split, seeds)


def _steps(split: Split, seeds: int) -> None:
    problem, risk = _posed(split, seeds)
    asked: tuple[tuple[Any, str], ...] = ((NoisySgd(), "steps"), (DpAccMd(), "steps"), (DpSvrg(), "inner_steps"))
    for method, field in asked:
        runs = [plan(method, problem, Privacy(epsilon, DELTA)).method for epsilon in EPSILONS]
        defaults = [int(getattr(run, field)) for run in runs]
        row(
            f"{method.name}, by its {field.replace('_', ' ')}",
            [f"eps {epsilon:g}, {k}" for epsilon, k in zip(EPSILONS, defaults, strict=True)],
        )
        for factor in (0.25, 0.5, 1.0, 2.0, 4.0):
            found = []
            for epsilon, k in zip(EPSILONS, defaults, strict=True):
                fit = solver(replace(method, **{field: max(1, round(factor * k))}), problem, split, epsilon)
                found.append(mean(fit, risk, seeds))
            row(f"  {factor:g} x the default", found)


def small(seeds: int) -> None:
    """Compare adaptive_gd on few records for each coefficient with its settings for many records."""
    for split, rows in ((adult(), 5000), (covertype(5000, settled=True), 5000), (bank(), 5000), (w8a(), 10_000)):
        if split is None:
            print("small: BENCHMARK_DATA names no folder that holds the dataset")
            continue
        X, y = split.X[:rows], split.y[:rows]
        some = replace(split, X=X, y=y)
        problem, risk = _posed(some, seeds)
        signals = (problem.n * gauss_mu(epsilon, DELTA) / problem.d for epsilon in SMALL)
        row(
            f"adaptive_gd; of w = 0: {risk(np.zeros(problem.d)):.5f}",
            [f"eps {epsilon:g}, r {r:.1f}" for epsilon, r in zip(SMALL, signals, strict=True)],
        )
        row("  by its rule", [mean(solver(AdaptiveGd(), problem, some, epsilon), risk, seeds) for epsilon in SMALL])
        with mock.patch.object(AdaptiveGdRun, "signal", _many):
            found = [mean(solver(AdaptiveGd(), problem, some, epsilon), risk, seeds) for epsilon in SMALL]
        row(f"  as if r were {_MANY:g}", found)


def _many(run: AdaptiveGdRun, problem: Problem, noise_multiplier: float) -> float:
    """Return n mu / d, raised to the least signal from which on it changes only a small ridge."""
    return max(_signal(run, problem, noise_multiplier), _MANY)


def descent(seeds: int) -> None:
    """Print parts of the excess risk: at epsilon 100 almost only the steps, below that the noise too."""
    for split in (w8a(), _words()):
        if split is None:
            print("descent: BENCHMARK_DATA names no folder that holds the real datasets")
        else:
            _by_steps(split, seeds)


def _by_steps(split: Split, seeds: int) -> None:
    problem, risk = _posed(split, seeds)
    epsilons = (0.5, 1.0, 4.0, 100.0)
    row("adaptive_gd, by its steps", [f"eps {epsilon:g}" for epsilon in epsilons])
    for steps in (None, 250, 500, 1000, 2000):
        solvers = [solver(AdaptiveGd(steps=steps), problem, split, epsilon) for epsilon in epsilons]
        row("  default" if steps is None else f"  {steps}", [mean(fit, risk, seeds) for fit in solvers])


def _words() -> Split:
    """Return 20,000 synthetic pages with indicators of 120 words: Zipf frequencies, 7 % on a topic, 2 % mislabeled."""
    generator, n, d = np.random.default_rng(7), 20_000, 120
    chances = np.minimum(0.3, 1.2 / np.arange(1, d + 1) ** 0.9)
    long = np.where(generator.random((n, 1)) < 0.3, 3.0, 1.0)
    words = (generator.random((n, d)) < chances * long).astype(float)
    about = (words - chances) @ generator.normal(0, 0.8, d)
    chance = 1 / (1 + np.exp(1.5 * (np.quantile(about, 0.93) - about)))
    y = np.where((generator.random(n) < chance) ^ (generator.random(n) < 0.02), 1.0, -1.0)
    columns = Columns((1,) * d, ((0.0, 1.0),) * d)
    X = np.c_[words, np.ones(n)]
    return Split("made-up words", X, y, X, y, columns.row_norm, columns)


def mean(fit: Callable[[], Vector], risk: Callable[[Vector], float], seeds: int) -> str:
    values = [risk(fit()) for _ in range(seeds)]
    return f"{np.mean(values):.5f} +- {np.std(values):.5f}"


def row(label: str, entries: list[str]) -> None:
    print(f"{label:<44}" + "".join(f"{entry:>22}" for entry in entries), flush=True)


def _times(split: Split, problem: Problem, risk: Callable[[Vector], float], seeds: int) -> None:
    """The descent time grows with the square of the number of steps."""
    row("dp_gd, by its descent time", [f"eps {epsilon:g}" for epsilon in EPSILONS])
    for factor in _TIMES:
        found = []
        for epsilon in EPSILONS:
            run = plan(DpGd(), problem, Privacy(epsilon, DELTA)).method
            method = DpGd(steps=max(1, round(run.steps * factor**0.5)), step=run.step)  # type: ignore[union-attr]
            found.append(mean(solver(method, problem, split, epsilon), risk, seeds))
        row(f"  {factor:g} x the default", found)


def _shares(split: Split, problem: Problem, risk: Callable[[Vector], float], seeds: int) -> None:
    """Compare multiples of the moments' shares of mu^2, which are 2, 1 and 5 %."""
    for method in (DpGd(), DpSvrg()):
        row(f"{method.name}, by the moments' shares", [f"eps {epsilon:g}" for epsilon in EPSILONS])
        for factor in _SHARES:
            more = {name: share * factor for name, share in private._SHARES.items()}
            with mock.patch.dict(private._SHARES, more):
                found = [mean(solver(method, problem, split, epsilon), risk, seeds) for epsilon in EPSILONS]
            row(f"  {factor:g} x 2, 1 and 5 %", found)


def _recalibrated(split: Split, problem: Problem, risk: Callable[[Vector], float], seeds: int) -> None:
    """a s + b for the score s, cut at 8, by dp_gd on two coordinates, for a share of mu^2."""
    for method in (AdaptiveGd(), DpGd()):
        row(f"{method.name}, recalibrated", [f"eps {epsilon:g}" for epsilon in EPSILONS])
        plainly, again = [], []
        for epsilon in EPSILONS:
            mu = gauss_mu(epsilon, DELTA)
            first, second = (gauss_epsilon(mu * math.sqrt(share), DELTA) for share in (1 - _SHARE, _SHARE))
            before, after = [], []
            for _ in range(seeds):
                w = solver(method, problem, split, first)()
                scores = np.c_[np.clip(split.X @ w / 8, -1, 1), np.ones(problem.n)]
                two = Problem(Logistic(), n=problem.n, d=2, row_norm=math.sqrt(2))
                v = solve(DpGd(), two, scores, split.y, Privacy(second, DELTA)).coefficients
                moved = v[0] / 8 * w
                moved[-1] += v[1]
                before.append(risk(w))
                after.append(risk(moved))
            plainly.append(f"{np.mean(before):.5f} +- {np.std(before):.5f}")
            again.append(f"{np.mean(after):.5f} +- {np.std(after):.5f}")
        row(f"  before, for {1 - _SHARE:.0%} of mu^2", plainly)
        row(f"  after, for {_SHARE:.0%} more", again)


def _banded(problem: Problem) -> None:
    """The root mean square of the noise in the running sums of noisy_sgd's gradients, over that of its own noise.

    Noise C^-1 z for C the first bands of the square root of summation, columns of norm 1; records are drawn once in so
    many steps as there are bands, at as many times the rate (Choquette-Choo et al. 2023, for a record more or less;
    here with our accountant for a record replaced). An estimate: it is no mechanism of ours, and nothing is trained.
    """
    row("noise in running sums, banded / noisy_sgd's", [f"eps {epsilon:g}" for epsilon in EPSILONS])
    rows: dict[int, list[str]] = {bands: [] for bands in _BANDS}
    for epsilon in EPSILONS:
        privacy = Privacy(epsilon, DELTA)
        run = plan(NoisySgd(), problem, privacy).method
        steps, rate = run.steps, run.batch / problem.n  # type: ignore[union-attr]
        own = 0.0
        for bands in _BANDS:
            if bands * rate > 1:
                rows[bands].append("-")
                continue
            query = Query("gradient", math.ceil(steps / bands), PoissonGaussian(bands * rate))
            noise = calibrate((query,), privacy).plan.queries[0].noise_multiplier * _summed(bands, steps)
            own = own or noise
            rows[bands].append(f"{noise / own:.3f}")
    for bands, entries in rows.items():
        row(f"  {bands} bands", entries)


def _summed(bands: int, steps: int) -> float:
    """The root mean square over t <= T of the norm of row t of A C^-1, A the summation."""
    kept = np.cumprod(np.r_[1.0, (2 * np.arange(1, bands) - 1) / (2 * np.arange(1, bands))])
    kept = kept / np.linalg.norm(kept)
    inverse = np.zeros(steps)
    inverse[0] = 1 / kept[0]
    for t in range(1, steps):
        past = inverse[max(0, t - bands + 1) : t][::-1]
        inverse[t] = -(past @ kept[1 : len(past) + 1]) / kept[0]
    entries = np.cumsum(inverse)  # of A C^-1, which is constant along diagonals
    return float(np.sqrt(np.mean(np.cumsum(entries**2))))


def _profiles() -> None:
    """At the product's shares: a tenth of epsilon for the determinants, 2 % of mu^2 for the solver's distance.

    The plain answer has no determinants to pay for: it is made for the rest of epsilon.
    """
    print("objective perturbation's noise by its curve, by its profile, and that of one Gaussian answer")
    for delta in (1e-6, DELTA):
        for epsilon in (0.2, 0.5, 1.0, 4.0):
            ratio = math.expm1(0.1 * epsilon)
            curve, profile = (
                _noise(epsilon, kind(ratio), delta) for kind in (ObjectivePerturbation, RowObjectivePerturbation)
            )
            plain = _noise(0.9 * epsilon, Gaussian(), delta)
            print(
                f"  delta {delta:g}, epsilon {epsilon:<4g} {curve:8.3f} {profile:8.3f} {plain:8.3f}: the profile's "
                f"{1 - profile / curve:.1%} less than the curve's, {profile / plain - 1:.1%} more than the answer's"
            )


def _noise(epsilon: float, mechanism: Mechanism, delta: float) -> float:
    """The noise multiplier of a minimizer, beside 2 % of mu^2 for its distance."""
    asked = Query("minimizer", 1, mechanism, 0.98), Query("approximation", 1, Gaussian(), 0.02)
    return calibrate(asked, Privacy(epsilon, delta)).plan.query("minimizer").noise_multiplier


def solver(method: Method, problem: Problem, split: Split, epsilon: float) -> Callable[[], Vector]:
    privacy = Privacy(epsilon, DELTA)
    return lambda: solve(method, replace(problem), split.X, split.y, privacy).coefficients
