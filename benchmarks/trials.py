"""Trials of settings that were not changed: descent time, shares of the moments, recalibration and banded noise."""

import math
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from accounting import Privacy
from accounting.calibration import calibrate
from accounting.divergences.gaussian import gauss_epsilon, gauss_mu
from accounting.mechanisms import Gaussian, Mechanism, ObjectivePerturbation, PoissonGaussian, RowObjectivePerturbation
from accounting.plan import Query
from benchmarks.datasets import Split, adult, available, bank, covertype, covertype_50k, w8a
from benchmarks.references import DELTA, Reference, print_row, spread
from solvers import Problem, plan, solve
from solvers.columns import Columns
from solvers.losses import Logistic
from solvers.methods import AdaptiveGd, DpAccMd, DpGd, DpSvrg, Method, NoisySgd
from solvers.methods.standardised.adaptive_gd import AdaptiveGdRun
from solvers.preparation import private

EPSILONS = (0.2, 0.5, 1.0)
_SMALL_EPSILONS = (0.1, 0.2, 0.5, 1.0, 4.0)
_MANY_RECORDS = 16.0  # n mu / d from which on it changes nothing but a small ridge
_TIMES = (0.5, 1.0, 2.0, 4.0)
_SHARES = (0.5, 1.0, 2.0, 4.0)
_RECALIBRATION_SHARE = 0.05  # of mu^2
_BANDS = (1, 2, 4, 8, 16, 32)

Vector = NDArray[np.float64]
_signal = AdaptiveGdRun.signal


def report(seeds: int) -> None:
    """Compare on Adult and 50,000 rows of Covertype: logistic, no penalty, rows privately prepared."""
    _profiles()
    for split in available(adult, covertype_50k):
        reference = _reference(split, seeds)
        _times(reference, seeds)
        _shares(reference, seeds)
        _recalibrated(reference, seeds)
        _banded(reference.problem)


def _reference(split: Split, seeds: int) -> Reference:
    """Return the logistic problem without a penalty, and print its sizes."""
    reference = Reference.of(split)
    print_title(reference, seeds)
    return reference


def print_title(reference: Reference, seeds: int) -> None:
    """Print the sizes of a problem above its table."""
    problem = reference.problem
    sizes = f"n = {problem.n}, d = {problem.d}, delta = {DELTA:g}, {seeds} runs a cell"
    print(f"\n{reference.split.name}: {sizes}; excess risk")


def _heads(epsilons: tuple[float, ...]) -> list[str]:
    return [f"eps {epsilon:g}" for epsilon in epsilons]


def steps(seeds: int) -> None:
    """Compare step counts on the datasets of `report` and on Bank; the public rule chooses the step and the batch."""
    for split in available(adult, covertype_50k, bank):
        reference = _reference(split, seeds)
        cases: tuple[tuple[Any, str], ...] = ((NoisySgd(), "steps"), (DpAccMd(), "steps"), (DpSvrg(), "inner_steps"))
        for method, field in cases:
            runs = [plan(method, reference.problem, Privacy(epsilon, DELTA)).method for epsilon in EPSILONS]
            defaults = {epsilon: int(getattr(run, field)) for epsilon, run in zip(EPSILONS, runs, strict=True)}
            heads = [f"eps {epsilon:g}, {count}" for epsilon, count in defaults.items()]
            print_row(f"{method.name}, by its {field.replace('_', ' ')}", heads)
            for factor in (0.25, *_TIMES):
                scaled = {e: replace(method, **{field: max(1, round(factor * k))}) for e, k in defaults.items()}
                entries = [spread(reference.excesses(own, epsilon, seeds)) for epsilon, own in scaled.items()]
                print_row(f"  {factor:g} x the default", entries)


def small(seeds: int) -> None:
    """Compare adaptive_gd on few records for each coefficient with its settings for many records."""
    for split in available(adult, lambda: covertype(5000, settled=True), bank, w8a):
        rows = 10_000 if split.name == "w8a" else 5000
        reference = _reference(replace(split, X=split.X[:rows], y=split.y[:rows]), seeds)
        problem = reference.problem
        ratios = {epsilon: problem.n * gauss_mu(epsilon, DELTA) / problem.d for epsilon in _SMALL_EPSILONS}
        print_row(
            f"adaptive_gd; of w = 0: {reference.excess(np.zeros(problem.d)):.5f}",
            [f"eps {epsilon:g}, r {ratio:.1f}" for epsilon, ratio in ratios.items()],
        )
        print_row("  by its rule", _spreads(reference, AdaptiveGd(), _SMALL_EPSILONS, seeds))
        with mock.patch.object(AdaptiveGdRun, "signal", _many_records):
            entries = _spreads(reference, AdaptiveGd(), _SMALL_EPSILONS, seeds)
        print_row(f"  as if r were {_MANY_RECORDS:g}", entries)


def _spreads(reference: Reference, method: Method, epsilons: tuple[float, ...], seeds: int) -> list[str]:
    return [spread(reference.excesses(method, epsilon, seeds)) for epsilon in epsilons]


def _many_records(run: AdaptiveGdRun, problem: Problem, noise_multiplier: float) -> float:
    """Return n mu / d, and at least _MANY_RECORDS."""
    return max(_signal(run, problem, noise_multiplier), _MANY_RECORDS)


def descent(seeds: int) -> None:
    """Print parts of the excess risk: at epsilon 100 it comes almost only from the steps, below also from noise."""
    for split in available(w8a, _words):
        reference = _reference(split, seeds)
        epsilons = (0.5, 1.0, 4.0, 100.0)
        print_row("adaptive_gd, by its steps", _heads(epsilons))
        for steps in (None, 250, 500, 1000, 2000):
            label = "  default" if steps is None else f"  {steps}"
            print_row(label, _spreads(reference, AdaptiveGd(steps=steps), epsilons, seeds))


def _words() -> Split:
    """Return 20,000 synthetic pages with indicators of 120 words: Zipf frequencies, 7 % on a topic, 2 % mislabeled."""
    generator, n, d = np.random.default_rng(7), 20_000, 120
    frequencies = np.minimum(0.3, 1.2 / np.arange(1, d + 1) ** 0.9)
    lengths = np.where(generator.random((n, 1)) < 0.3, 3.0, 1.0)
    words = (generator.random((n, d)) < frequencies * lengths).astype(float)
    scores = (words - frequencies) @ generator.normal(0, 0.8, d)
    probabilities = 1 / (1 + np.exp(1.5 * (np.quantile(scores, 0.93) - scores)))
    y = np.where((generator.random(n) < probabilities) ^ (generator.random(n) < 0.02), 1.0, -1.0)
    columns = Columns((1,) * d, ((0.0, 1.0),) * d)
    X = np.c_[words, np.ones(n)]
    return Split("made-up words", X, y, X, y, columns.row_norm, columns)


def _times(reference: Reference, seeds: int) -> None:
    """Compare descent times, which grow with the square of the number of steps."""
    print_row("dp_gd, by its descent time", _heads(EPSILONS))
    runs = {epsilon: plan(DpGd(), reference.problem, Privacy(epsilon, DELTA)).method for epsilon in EPSILONS}
    for factor in _TIMES:
        entries = []
        for epsilon, run in runs.items():
            method = DpGd(steps=max(1, round(run.steps * factor**0.5)), step=run.step)  # type: ignore[union-attr]
            entries.append(spread(reference.excesses(method, epsilon, seeds)))
        print_row(f"  {factor:g} x the default", entries)


def _shares(reference: Reference, seeds: int) -> None:
    """Compare multiples of the moments' shares of mu^2, which are 2, 1 and 5 %."""
    for method in (DpGd(), DpSvrg()):
        print_row(f"{method.name}, by the moments' shares", _heads(EPSILONS))
        for factor in _SHARES:
            scaled = {name: share * factor for name, share in private._SHARES.items()}
            with mock.patch.dict(private._SHARES, scaled):
                print_row(f"  {factor:g} x 2, 1 and 5 %", _spreads(reference, method, EPSILONS, seeds))


def _recalibrated(reference: Reference, seeds: int) -> None:
    """Compare the score s with a s + b, where dp_gd fits a and b for a share of mu^2 to s cut at 8."""
    split = reference.split
    for method in (AdaptiveGd(), DpGd()):
        print_row(f"{method.name}, recalibrated", _heads(EPSILONS))
        plain_entries, entries = [], []
        for epsilon in EPSILONS:
            mu = gauss_mu(epsilon, DELTA)
            first, second = (
                gauss_epsilon(mu * math.sqrt(share), DELTA)
                for share in (1 - _RECALIBRATION_SHARE, _RECALIBRATION_SHARE)
            )
            plain_risks, risks = [], []
            for _ in range(seeds):
                w = reference.fit(method, first)
                scores = np.c_[np.clip(split.X @ w / 8, -1, 1), np.ones(len(split.y))]
                problem = Problem(Logistic(), n=len(split.y), d=2, row_norm=math.sqrt(2))
                a, b = solve(DpGd(), problem, scores, split.y, Privacy(second, DELTA)).coefficients
                recalibrated = a / 8 * w
                recalibrated[-1] += b
                plain_risks.append(reference.excess(w))
                risks.append(reference.excess(recalibrated))
            plain_entries.append(spread(plain_risks))
            entries.append(spread(risks))
        print_row(f"  before, for {1 - _RECALIBRATION_SHARE:.0%} of mu^2", plain_entries)
        print_row(f"  after, for {_RECALIBRATION_SHARE:.0%} more", entries)


def _banded(problem: Problem) -> None:
    """Print the noise of banded sums over that of noisy_sgd, as root mean squares in the running sums of gradients.

    The noise is C^-1 z, where C has the first bands of the square root of summation, and columns of norm 1. With b
    bands, a record is drawn in every b-th step at b times the rate (Choquette-Choo et al. 2023, for add-remove
    neighbors; here with our accountant for replace-one neighbors). This is an estimate: nothing is trained.
    """
    print_row("noise in running sums, banded / noisy_sgd's", _heads(EPSILONS))
    rows: dict[int, list[str]] = {bands: [] for bands in _BANDS}
    for epsilon in EPSILONS:
        privacy = Privacy(epsilon, DELTA)
        run = plan(NoisySgd(), problem, privacy).method
        steps, rate = run.steps, run.batch / problem.n  # type: ignore[union-attr]
        unbanded = 0.0
        for bands in _BANDS:
            if bands * rate > 1:
                rows[bands].append("-")
                continue
            query = Query("gradient", math.ceil(steps / bands), PoissonGaussian(bands * rate))
            noise = calibrate((query,), privacy).plan.queries[0].noise_multiplier * summed_noise(bands, steps)
            unbanded = unbanded or noise
            rows[bands].append(f"{noise / unbanded:.3f}")
    for bands, entries in rows.items():
        print_row(f"  {bands} bands", entries)


def summed_noise(bands: int, steps: int) -> float:
    """Return the root mean square, over the steps t, of the norm of row t of A C^-1, where A is the summation."""
    coefficients = np.cumprod(np.r_[1.0, (2 * np.arange(1, bands) - 1) / (2 * np.arange(1, bands))])
    coefficients = coefficients / np.linalg.norm(coefficients)
    diagonals = lfilter([1.0], coefficients, np.ones(steps))  # A C^-1 is constant along its diagonals
    return float(np.sqrt(np.mean(np.cumsum(diagonals**2))))


def _profiles() -> None:
    """Print the noise of objective perturbation by its Rényi curve and by its profile, and that of a Gaussian answer.

    The product spends a tenth of epsilon on the determinants, and 2 % of mu^2 on the solver's distance. The Gaussian
    answer has no determinants, so it gets the other nine tenths of epsilon.
    """
    print("objective perturbation's noise by its curve, by its profile, and that of one Gaussian answer")
    for delta in (1e-6, DELTA):
        for epsilon in (0.2, 0.5, 1.0, 4.0):
            ratio = math.expm1(0.1 * epsilon)
            curve = noise_multiplier(epsilon, ObjectivePerturbation(ratio), delta)
            profile = noise_multiplier(epsilon, RowObjectivePerturbation(ratio), delta)
            plain = noise_multiplier(0.9 * epsilon, Gaussian(), delta)
            print(
                f"  delta {delta:g}, epsilon {epsilon:<4g} {curve:8.3f} {profile:8.3f} {plain:8.3f}: the profile's "
                f"{1 - profile / curve:.1%} less than the curve's, {profile / plain - 1:.1%} more than the answer's"
            )


def noise_multiplier(epsilon: float, mechanism: Mechanism, delta: float) -> float:
    """Return the noise multiplier of a minimizer, if 2 % of mu^2 are spent on its distance from the exact one."""
    queries = Query("minimizer", 1, mechanism, 0.98), Query("approximation", 1, Gaussian(), 0.02)
    return calibrate(queries, Privacy(epsilon, delta)).plan.query("minimizer").noise_multiplier
