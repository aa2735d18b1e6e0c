"""Step sizes and momentum of adaptive_gd beside other rules for them, on many two-class datasets.

A run of another rule has the same noise as a run of the product's, so the differences between them are more exact than
each excess. The noise is seeded, so these runs are not private.
"""

import math
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from accounting import Privacy
from accounting.divergences.gaussian import gauss_mu
from accounting.noise import Noise
from benchmarks.datasets import Split, adult, available, bank, covertype_50k, health, visits
from benchmarks.references import DELTA, Reference, print_row
from benchmarks.two_classes import PLANTED, SOURCES, near_separable
from solvers import plan
from solvers.data_access.data import Data
from solvers.methods import AdaptiveGd, path
from solvers.methods.defaults.step_growth import GROWTH
from solvers.solve import data_of, run
from tests.support.seeded import SeededBits

Vector = NDArray[np.float64]

_EPSILONS = (0.1, 0.5, 1.0, 4.0)
_OTHERS: dict[str, Callable[[], Split]] = {
    "Adult": adult,
    "Bank": bank,
    "Covertype": covertype_50k,
    "Health insurance": health,
    "Doctor visits": visits,
    "Near-separable": near_separable,
}


def _growth(**constants: float) -> Callable[[], AbstractContextManager[object]]:
    return lambda: mock.patch.object(path, "GROWTH", replace(GROWTH, **constants))


RULES: Mapping[str, Callable[[], AbstractContextManager[object]]] = {
    "equal steps": _growth(usual_variance=math.inf),
    "later": _growth(usual_variance=8.0),
    "no alarm": _growth(alarm=math.inf, strong_alarm=math.inf),
    "no restart": _growth(strong_alarm=math.inf),
    "no limit": _growth(most_noise=math.inf),
    "one momentum": lambda: mock.patch.object(path, "convex_momentum", return_value=1.0),
}


def report(seeds: int, cells: str = "") -> None:
    """Print the excess risk of the product's rule, and that of other rules divided by it.

    Parameters
    ----------
    cells : regular expression; only datasets whose name it matches are measured
    """
    print(f"\nstep sizes and momentum: delta = {DELTA:g}, {seeds} runs a cell")
    print("mean excess risk of the product, and of other rules divided by it, +- standard errors")
    _print_row(f"{'':<32}{'product':>20}", list(RULES))
    loaders = _OTHERS | {name: partial(source.split, name) for name, source in (SOURCES | PLANTED).items()}
    for split in available(*(load for name, load in loaders.items() if re.search(cells, name))):
        _measure(split, seeds)


_print_row = partial(print_row, label_width=52, width=17)


def _measure(split: Split, seeds: int) -> None:
    """Print a line for each epsilon."""
    reference = Reference.of(split)
    data = data_of(reference.problem, split.X, split.y)
    for epsilon in _EPSILONS:
        signal = reference.problem.n * gauss_mu(epsilon, DELTA) / reference.problem.d
        product = _excesses(reference, data, epsilon, seeds)
        entries = []
        for rule in RULES.values():
            with rule():
                own = _excesses(reference, data, epsilon, seeds)
            ratio = own.mean() / product.mean()
            entries.append(f"{ratio:.2f}+-{_error(own - ratio * product) / product.mean():.2f}")
        label = f"{split.name}, eps {epsilon:g}, r {signal:.0f}"
        _print_row(f"{label:<32}{product.mean():>9.5f} +- {_error(product):.5f}", entries)


def _excesses(reference: Reference, data: Data, epsilon: float, seeds: int) -> Vector:
    """Return the excess of each run; run k has the noise of seed k."""
    quote = plan(AdaptiveGd(), reference.problem, Privacy(epsilon, DELTA))
    models = (
        run(quote.method, quote.problem, data, quote.release, Noise(SeededBits(seed)), preparation=quote.preparation)[0]
        for seed in range(seeds)
    )
    return np.array([reference.excess(w) for w in models])


def _error(values: Vector) -> float:
    """Return the standard error of the mean."""
    return float(values.std(ddof=1) / math.sqrt(len(values)))
