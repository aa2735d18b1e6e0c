"""Variants of adaptive_gd for two classes, beside its default, on datasets that its constants were not chosen with.

A run of a variant has the same noise as a run of the default, so the differences between them are more exact than each
excess. The noise is seeded, so these runs are not private.
"""

import math
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from functools import partial
from unittest import mock
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from accounting import Privacy
from accounting.divergences.gaussian import gauss_mu
from accounting.noise import Noise
from accounting.plan import PlannedQuery
from benchmarks.datasets import Split, adult, available, bank, covertype_50k, health, visits
from benchmarks.references import DELTA, Reference, print_row
from benchmarks.two_classes import PLANTED, SOURCES, near_separable
from solvers import Problem, plan
from solvers.data_access.data import Data
from solvers.data_access.meter import Meter
from solvers.frame import Frame
from solvers.methods import AdaptiveGd, slopes
from solvers.methods.defaults import adaptive_gd as schedule
from solvers.methods.path import Path
from solvers.methods.path import scaled as first_frame
from solvers.methods.standardised import adaptive_gd as method
from solvers.solve import data_of, run
from tests.support.seeded import SeededBits

Vector = NDArray[np.float64]

_LIMIT_SETS = (
    "Medicine",
    "Light chains",
    "Food",
    "Vocabulary",
    "Instructors",
    "Doctor visits",
    "Short films",
    "Large diamonds",
)
_DESCENT_SETS = (
    "Medicine",
    "Light chains",
    "Elderly",
    "Computers",
    "Doctor visits",
    "Short films",
    "Large diamonds",
    "Near-separable",
)
_MOMENTUM_SETS = (
    "Adult",
    "Covertype",
    "Bank",
    "Health insurance",
    "Instructors",
    "Doctor contacts",
    "Home runs",
    "Young men",
    "Rare class",
    "Collinear",
    "No signal",
)
_TESTED_FROM, _FULL_FROM, _WIDE_FROM = 50.0, 200.0, 1600.0  # values of r
_MARGINS = 0.2  # k V: mean curvature of margins of variance 1
_RIDGE_OF_MOMENTS = 30.0  # sigma; above the largest weight of the l1, so that steps are stable
_CONVEXITY_OF_MOMENTS = 1 / 40  # of a direction of curvature sigma, whose second moment is about 10 sigma


@dataclass(frozen=True, slots=True)
class Cell:
    """A dataset at one epsilon, with what variants need of it.

    Parameters
    ----------
    signal : r = n mu / d
    steps : T of the default
    sigma : noise std of one gradient with the whole budget
    limit : C of the first steps
    second : mean of x x'
    """

    signal: float
    steps: int
    sigma: float
    limit: float
    second: Vector


Patch = Callable[[Cell], AbstractContextManager[object]]


@dataclass(frozen=True, slots=True)
class Variant:
    """A variant of the default: a patch of the product, and the range of r in which it differs from the default."""

    name: str
    patch: Patch
    least_signal: float = 0.0
    largest_signal: float = math.inf


def report(seeds: int, cells: str = "") -> None:
    """Print tables of limits of slopes, of other changes, and of momentum on further sets.

    The last three sets of the second table are almost separable.

    Parameters
    ----------
    cells : regular expression; only variants whose name it matches are measured
    """
    for title, names, epsilons, variants in (
        ("limits of slopes", _LIMIT_SETS, (0.1, 0.3, 1.0), LIMITS),
        ("descent and noise", _DESCENT_SETS, (0.1, 0.5, 1.0), DESCENTS),
        ("momentum", _MOMENTUM_SETS, (0.1, 0.5, 1.0, 4.0), MOMENTA),
    ):
        selected = [variant for variant in variants if re.search(cells, variant.name)]
        if selected:
            print(f"\n{title}: delta = {DELTA:g}, {seeds} runs a cell")
            print("mean excess risk of the default, and of the variant divided by it, +- standard errors")
            _print_row(f"{'':<30}{'default':>20}", [variant.name for variant in selected])
            for split in available(*map(_loader, names)):
                _measure(split, epsilons, selected, seeds)


def _loader(name: str) -> Callable[[], Split]:
    described = SOURCES | PLANTED
    if name in described:
        return lambda: described[name].split(name)
    loaders = {
        "Doctor visits": visits,
        "Near-separable": near_separable,
        "Adult": adult,
        "Covertype": covertype_50k,
        "Bank": bank,
        "Health insurance": health,
    }
    return loaders[name]


def _measure(split: Split, epsilons: Sequence[float], variants: Sequence[Variant], seeds: int) -> None:
    """Print a line for each epsilon."""
    reference = Reference.of(split)
    problem = reference.problem
    data = data_of(problem, split.X, split.y)
    for epsilon in epsilons:
        signal = problem.n * gauss_mu(epsilon, DELTA) / problem.d
        quote = plan(AdaptiveGd(), problem, Privacy(epsilon, DELTA)).method
        assert isinstance(quote, method.AdaptiveGdRun)
        limit = schedule.CLASSES.narrow_limit(problem, quote.slope_limit)
        sigma = 2 * limit / (signal * problem.d)
        cell = Cell(signal, quote.steps, sigma, limit, split.X.T @ split.X / problem.n)
        default = _excesses(reference, data, epsilon, seeds)
        label = f"{split.name}, eps {epsilon:g}, r {signal:.0f}"
        label, entries = f"{label:<30}{default.mean():>9.5f} +- {_error(default):.5f}", []
        for variant in variants:
            if not variant.least_signal <= signal < variant.largest_signal:
                entries.append("-")
                continue
            with variant.patch(cell):
                own = _excesses(reference, data, epsilon, seeds)
            ratio = own.mean() / default.mean()
            entries.append(f"{ratio:.2f}+-{_error(own - ratio * default) / default.mean():.2f}")
        _print_row(label, entries)


_print_row = partial(print_row, label_width=50, width=13)


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


def _settings(limit: float, narrow: float) -> AbstractContextManager[object]:
    """Replace the largest limit of slopes, and the limit of the first steps."""

    def slope_limit(*_: object) -> float:
        return limit

    classes = replace(schedule.CLASSES, most_narrow_limit=narrow)
    stack = ExitStack()
    stack.enter_context(mock.patch.object(schedule.SettingsRule, "slope_limit", slope_limit))
    for module in (schedule, slopes, method):
        stack.enter_context(mock.patch.object(module, "CLASSES", classes))
    return stack


def _tested(cell: Cell) -> AbstractContextManager[object]:
    """Test twice the limit, as the product does from r = 1600 on for a larger one."""
    return _settings(2 * cell.limit, cell.limit)


def _untested(_: Cell) -> AbstractContextManager[object]:
    """Limit slopes to their bound, as the product does from r = 200 on."""
    return _settings(1.0, 1.0)


def _restarted(cell: Cell) -> AbstractContextManager[object]:
    """Forget the momentum after each eighth of the steps."""

    def forget(path: Path, _gradient: Vector, t: int) -> None:
        if t % max(1, cell.steps // 8) == 0:
            path._previous = path._w

    return _after_steps(forget)


def _restarted_uphill(_: Cell) -> AbstractContextManager[object]:
    """Forget the momentum whenever a step went against the noisy gradient (O'Donoghue and Candes 2015)."""

    def forget(path: Path, gradient: Vector, _t: int) -> None:
        if gradient @ (path._w - path._previous) > 0:
            path._previous = path._w

    return _after_steps(forget)


def _after_steps(change: Callable[[Path, Vector, int], None]) -> AbstractContextManager[object]:
    descend = Path.descend

    def changed(path: Path, point: Vector, gradient: Vector, penalties: Vector, step: float, t: int) -> None:
        descend(path, point, gradient, penalties, step, t)
        change(path, gradient, t)

    return mock.patch.object(Path, "descend", changed)


def _window(weight: Callable[[float], float]) -> Patch:
    """Return the patch that gives point t of T the weight `weight(t / T)`; by default it is t."""

    def patch(cell: Cell) -> AbstractContextManager[object]:
        descend = Path.descend

        def weighted(path: Path, point: Vector, gradient: Vector, penalties: Vector, step: float, t: int) -> None:
            before = path._sum, path._weight
            descend(path, point, gradient, penalties, step, t)
            own = weight(t / cell.steps)
            path._sum = before[0] + own / t * (path._sum - before[0])
            path._weight = before[1] + own

        return mock.patch.object(Path, "descend", weighted)

    return patch


def precision(t: int, steps: int) -> float:
    """Return the precision of gradient t of T over their mean, about 1/4 + 3/2 t / T; mu^2 is that of equal noise."""
    return 0.25 + 1.5 * t / (steps + 1)


def _allotted(*, is_late: bool) -> Patch:
    """Return the patch with most precision, so least noise, in late gradients, or in early ones."""

    def patch(_: Cell) -> AbstractContextManager[object]:
        perturb = Meter.perturb

        def allotted(meter: Meter, planned: PlannedQuery, value: Vector, bound: float) -> Vector:
            if planned.name == "gradient":
                t, steps = meter.answered("gradient"), planned.count
                own = precision(t if is_late else steps + 1 - t, steps)
                planned = replace(planned, noise_multiplier=planned.noise_multiplier / math.sqrt(own))
            return perturb(meter, planned, value, bound)

        return mock.patch.object(Meter, "perturb", allotted)

    return patch


def _with_moments(cell: Cell) -> AbstractContextManager[object]:
    """Multiply steps by the inverse of the exact second moments plus a ridge: at best what a profile can give."""
    inverses: dict[int, tuple[Frame, Vector]] = {}

    def inverse(frame: Frame) -> Vector:
        if id(frame) not in inverses:
            size = len(cell.second)
            rows = np.zeros((size, size))  # z = rows x
            rows[range(size - 1), range(size - 1)] = frame.scale
            rows[:-1, -1], rows[-1, -1] = -frame.scale * frame.center, frame.constant
            ridge = _RIDGE_OF_MOMENTS * cell.sigma * np.eye(size)
            inverses[id(frame)] = frame, np.asarray(np.linalg.inv(rows @ cell.second @ rows.T + ridge), np.float64)
        return inverses[id(frame)][1]

    def descend(path: Path, point: Vector, gradient: Vector, penalties: Vector, step: float, t: int) -> None:
        direction = gradient + np.minimum(penalties, 1 / step) * (point - path._start)
        path._previous, path._w = path._w, point - step * inverse(path.frame) @ direction
        path._sum = path._sum + t * (path._w.reshape(-1, len(cell.second)) * path._scale).ravel()
        path._weight += t

    extrapolate = Path.extrapolate

    def preconditioned(path: Path, step_times_convexity: float) -> Vector:
        return extrapolate(path, step_times_convexity / cell.sigma * _CONVEXITY_OF_MOMENTS)

    stack = ExitStack()
    stack.enter_context(mock.patch.object(Path, "descend", descend))
    stack.enter_context(mock.patch.object(Path, "extrapolate", preconditioned))
    return stack


def _ridge(cell: Cell) -> AbstractContextManager[object]:
    """Set the ridge of slopes to sigma^2 d / (k V), which is 2 C / (k V) times sigma / r."""
    penalties = Path.penalties

    def larger(path: Path, ridge: float, l1: float, offset: float, t: int, intercept: float = 0.0) -> Vector:
        return penalties(path, 2 * cell.limit / _MARGINS * ridge, l1, offset, t, intercept)

    return mock.patch.object(Path, "penalties", larger)


def _ridge_by_size(cell: Cell) -> AbstractContextManager[object]:
    """Set that ridge with V from the running mean: twice the variance of its margins, at least 1."""
    penalties, model = Path.penalties, _Size()

    def sized(path: Path, ridge: float, l1: float, offset: float, t: int, intercept: float = 0.0) -> Vector:
        variance = max(1.0, 2 * model.variance(path))
        curvature = 0.25 / math.sqrt(1 + math.pi * variance / 8)
        return penalties(path, 2 * cell.limit / (curvature * variance) * ridge, l1, offset, t, intercept)

    return model.with_patch("penalties", sized)


def _momentum_by_size(factor: Callable[[float], float], *, is_for_intercept: bool) -> Patch:
    """Return the patch by which momentum supposes a strong convexity of factor(V) sigma after a fifth of T.

    V is the variance of the margins of the running mean. Along a direction of curvature k, noise costs
    sigma^2 / (2 k), and a coefficient w that is left at 0 costs k w^2 / 2. Both are equal at k = sigma / |w|, and w^2
    is about V in the first frame.
    """

    def patch(cell: Cell) -> AbstractContextManager[object]:
        extrapolate, model = Path.extrapolate, _Size()

        def sized(path: Path, step_times_convexity: float) -> Vector:
            plain = extrapolate(path, step_times_convexity)
            if model.steps(path) <= cell.steps / 5:
                return plain
            point = extrapolate(path, step_times_convexity * factor(max(model.variance(path), 1e-9)))
            if not is_for_intercept:
                point[-1] = plain[-1]
            return point

        return model.with_patch("extrapolate", sized)

    return patch


class _Size:
    """The variance of margins of a path's running mean, from the released variances as if columns were independent."""

    def __init__(self) -> None:
        self._variances = np.zeros(0)
        self._steps: WeakKeyDictionary[Path, int] = WeakKeyDictionary()

    def variance(self, path: Path) -> float:
        return float((path.mean[:, :-1] ** 2 @ self._variances).sum()) if path._weight else 0.0

    def steps(self, path: Path) -> int:
        """Return how often this was called for the path."""
        self._steps[path] = self._steps.get(path, 0) + 1
        return self._steps[path]

    def with_patch(self, name: str, function: Callable[..., Vector]) -> AbstractContextManager[object]:
        def scaled(center: Vector, variances: Vector, power: float) -> Frame:
            self._variances = variances
            return first_frame(center, variances, power)

        stack = ExitStack()
        stack.enter_context(mock.patch.object(method, "scaled", scaled))
        stack.enter_context(mock.patch.object(Path, name, function))
        return stack


def _more_steps(_: Cell) -> AbstractContextManager[object]:
    """Take four times the default steps."""
    count = schedule.SettingsRule.step_count

    def more(rule: schedule.SettingsRule, problem: Problem, signal: float, slope_limit: float) -> int:
        return 4 * count(rule, problem, signal, slope_limit)

    return mock.patch.object(schedule.SettingsRule, "step_count", more)


_SIZED = Variant("sized x", _momentum_by_size(lambda v: min(max(1.0, 3 / math.sqrt(v)), 3.0), is_for_intercept=True))
LIMITS = (
    Variant("limit 1", _untested, _TESTED_FROM, _FULL_FROM),
    Variant("limit tested", _tested, _TESTED_FROM, _WIDE_FROM),
)
DESCENTS = (
    Variant("restarts", _restarted),
    Variant("uphill", _restarted_uphill),
    Variant("sqrt window", _window(math.sqrt)),
    Variant("half window", _window(lambda place: 1.0 if place > 0.5 else 1e-6)),
    Variant("early noise", _allotted(is_late=True)),
    Variant("late noise", _allotted(is_late=False)),
    Variant("moments", _with_moments),
    Variant("ridge", _ridge),
    Variant("sized ridge", _ridge_by_size),
    _SIZED,
    Variant("4 T", _more_steps),
)
MOMENTA = (
    _SIZED,
    Variant("slopes x", _momentum_by_size(lambda v: max(1.0, 6.5 / v), is_for_intercept=False)),
    Variant("clipped x", _momentum_by_size(lambda v: min(max(1.0, 6.5 / v), 3.0), is_for_intercept=False)),
)
