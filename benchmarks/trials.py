"""Trials of the defaults of the product: other step counts, descent times and settings for few records."""

import math
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from accounting import Privacy
from accounting.calibration import calibrate
from accounting.divergences.gaussian import gauss_mu
from accounting.mechanisms import Gaussian, Mechanism, ObjectivePerturbation, RowObjectivePerturbation
from accounting.plan import Query
from benchmarks.datasets import Split, adult, available, bank, covertype, covertype_50k, w8a
from benchmarks.references import DELTA, Reference, print_row, spread
from solvers import Problem, plan
from solvers.columns import Columns
from solvers.methods import AdaptiveGd, DpAccMd, DpGd, DpSvrg, Method, NoisySgd
from solvers.methods.standardised.adaptive_gd import AdaptiveGdRun

EPSILONS = (0.2, 0.5, 1.0)
_SMALL_EPSILONS = (0.1, 0.2, 0.5, 1.0, 4.0)
_MANY_RECORDS = 16.0  # n mu / d from which on the rule for few records only adds a small ridge
_TIMES = (0.5, 1.0, 2.0, 4.0)

Vector = NDArray[np.float64]
_signal = AdaptiveGdRun.signal


def report(seeds: int) -> None:
    """Print the noise of objective perturbation, and compare descent times of dp_gd on two datasets.

    The loss is logistic without a penalty, and rows are prepared privately.
    """
    _profiles()
    for split in available(adult, covertype_50k):
        _times(_reference(split, seeds), seeds)


def _reference(split: Split, seeds: int) -> Reference:
    """Return the logistic problem without a penalty, and print its sizes above its table."""
    reference = Reference.of(split)
    problem = reference.problem
    sizes = f"n = {problem.n}, d = {problem.d}, delta = {DELTA:g}, {seeds} runs a cell"
    print(f"\n{split.name}: {sizes}; excess risk")
    return reference


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
