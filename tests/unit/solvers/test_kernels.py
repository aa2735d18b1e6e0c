"""Compiled loops, compared with their plain forms to the last bit where both consist of single operations."""

import hashlib
import inspect
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from solvers import kernels
from solvers.columns import Columns
from solvers.data_access import inputs
from solvers.data_access.rows import Coded
from solvers.kernels import build
from solvers.losses import Logistic, Power, Quantile, Softmax, Squared
from solvers.losses.one_margin import OneMargin
from solvers.problem import Problem
from tests.support.coded_rows import folded, unfolded
from tests.support.members import LOSSES
from tests.support.patience import PATIENCE
from tests.support.plain_loops import added, examples, margins, walk_constants, weighed

Vector = NDArray[np.float64]
ROOT = Path(__file__).parents[3]


WIDTHS = (1, 3, 1, 300, 1, 2, 70_000)  # codes of one byte, of two, of one, of three


def multipliers(
    X: Vector, y: Vector, scale: Vector, w: Vector, loss: OneMargin, columns: Columns | None = None
) -> Vector:
    return np.clip(loss.slope(margins(X, w, columns) * scale, y), -loss.slope_bound, loss.slope_bound)


def plain(X: NDArray[Any]) -> kernels.Records:
    """Singles stay singles."""
    return inputs.plain(X).records(Problem(Squared(), n=len(X), d=X.shape[1], row_norm=1.0))


def drawn(n: int, d: int, seed: int = 1) -> tuple[Vector, Vector, Vector, Vector, Vector]:
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((n, d)), np.where(rng.random(n) < 0.5, 1.0, -1.0)
    return X, y, rng.uniform(0.2, 1.0, n), rng.standard_normal(d), rng.standard_normal(d)


def test_a_loss_of_several_outputs_has_no_compiled_form() -> None:
    assert Softmax(3).compiled is None


def check_sums(loss: OneMargin, d: int, columns: Columns | None = None, n: int = 300, kind: type = np.float64) -> None:
    X, y, scale, w, anchor = drawn(n, d)
    stored = X.astype(kind) if columns is None else unfolded(n, columns, kind=kind)
    records = plain(stored)
    if columns is not None:
        records = folded(stored, columns).records(Problem(Squared(), n=n, d=d, row_norm=1.0, columns=columns))
    assert records.is_single == (kind is np.float32)
    X = stored.astype(float)
    np.testing.assert_array_equal(kernels.dense_rows(records, scale, np.arange(n)), X * scale[:, None])
    slopes, coded = multipliers(X, y, scale, w, loss, columns), loss.compiled
    own = (slopes * scale)[:, None] * X
    stop = n - 10
    np.testing.assert_array_equal(
        kernels.gradient_sum(examples(records, y, scale), np.arange(17, stop), w, coded),
        added(own[17:stop]),
    )
    places = np.random.default_rng(4).permutation(n)[: n // 3 + 1]
    np.testing.assert_array_equal(
        kernels.gradient_sum(examples(records, y, scale), places, w, coded), added(own[places])
    )
    np.testing.assert_array_equal(kernels.margins_of(records, w, places), margins(X, w, columns)[places])
    weights = slopes[places]
    np.testing.assert_array_equal(kernels.weighted_sum(records, weights, places), added(weights[:, None] * X[places]))
    for limit in (1e-3, 0.1, 2.0):
        change = np.clip(slopes - multipliers(X, y, scale, anchor, loss, columns), -limit, limit) * scale
        np.testing.assert_array_equal(
            kernels.change_sum(examples(records, y, scale), places, w, anchor, coded, limit, 0.0),
            added((change[:, None] * X)[places]),
        )
    rise, anchor_margins = margins(X, w, columns), margins(X, anchor, columns)
    for curvature in (1e-3, 0.1, 2.0):
        change = loss.slope((rise + anchor_margins) * scale, y).clip(-loss.slope_bound, loss.slope_bound)
        change -= multipliers(X, y, scale, anchor, loss, columns)
        limits = curvature * (rise * scale)
        change = np.minimum(np.maximum(change, np.minimum(limits, 0.0)), np.maximum(limits, 0.0)) * scale
        np.testing.assert_array_equal(
            kernels.change_sum(examples(records, y, scale), places, w, anchor, coded, 0.0, curvature),
            added((change[:, None] * X)[places]),
        )


LAYOUTS = [
    (),
    (2,),
    (1,),
    (1, 1, 3),
    (300, 2),
    (1, 9, 3, 2),
    (4, 2, 3, 5),
    (2, 3, 300, 5, 7),
    (1,) * 9 + (5,) + (1,) * 12 + (17, 2),
    WIDTHS[:6],
]


KINDS = pytest.mark.parametrize("kind", [np.float64, np.float32])


@KINDS
@pytest.mark.parametrize("widths", LAYOUTS, ids=str)
def test_sums_over_coded_records_are_those_of_the_unfolded_rows_to_the_last_bit(
    widths: tuple[int, ...], kind: type
) -> None:
    columns = Columns(widths)
    check_sums(Logistic(), columns.d, columns, kind=kind)


@KINDS
@pytest.mark.parametrize("widths", LAYOUTS, ids=str)
@pytest.mark.parametrize("limit", [0.05, 0.5, 3.0])
def test_limited_sums_over_coded_records_are_those_of_the_unfolded_rows_to_the_last_bit(
    widths: tuple[int, ...], limit: float, kind: type
) -> None:
    """The loops of `adaptive_gd`."""
    columns, n, start, stop = Columns(widths), 75, 3, 70
    d, (_, y, inverse, w, _) = columns.d, drawn(n, columns.d)
    stored = unfolded(n, columns, kind=kind)
    problem, X = Problem(Squared(), n=n, d=d, row_norm=1.0, columns=columns), stored.astype(float)
    records, allowed, m = folded(stored, columns).records(problem), limit * inverse, margins(X, w, columns)
    s = np.array([1 / (1 + kernels.exp(each)) for each in y * m])
    logistic = np.clip(-y * (s * np.minimum(1.0, allowed / np.maximum(s, 1 - s))), -allowed, allowed)
    framed = kernels.FramedExamples(records, y, inverse).read_only()
    for loop, t in ((kernels.logistic_sum, logistic), (kernels.squared_sum, np.clip(m - y, -allowed, allowed))):
        actual = loop(framed, limit, w, start, stop)
        np.testing.assert_array_equal(actual, added((t[:, None] * X)[start:stop]))
    for loss in LOSSES:
        t = np.clip(loss.slope(m, y) * np.minimum(1.0, allowed / loss.slope_bound), -allowed, allowed)
        actual = kernels.bounded_sum(framed, limit, loss.compiled, w, start, stop)
        np.testing.assert_array_equal(actual, added((t[:, None] * X)[start:stop]))
    rng = np.random.default_rng(5)
    W, labels = rng.standard_normal((3, d)), rng.integers(0, 3, n)
    each = np.stack([margins(X, own, columns) for own in W], axis=1).tolist()
    T = np.array([weighed(p, k, a) for p, k, a in zip(each, labels.tolist(), allowed.tolist(), strict=True)])
    actual = kernels.softmax_sum(
        framed._replace(targets=kernels.read_only(labels.astype(float))), limit, W, start, stop
    )
    for k in range(3):
        np.testing.assert_array_equal(actual[k], added((T[:, k, None] * X)[start:stop]))
    gaps = np.minimum(np.abs(margins(X, W[0], columns) - labels), 0.7)[start:stop]
    residual = kernels.residual_sum(records, labels.astype(float), inverse, W[0], 0.7, start, stop)
    assert residual == added(gaps[:, None])[0]


@pytest.mark.parametrize("widths", LAYOUTS, ids=str)
def test_singles_give_all_that_their_doubles_give_to_the_last_bit(widths: tuple[int, ...]) -> None:
    """Compare norms, norms in a frame, and the walk, which no test above compares with a plain form."""
    columns, n, results = Columns(widths), 75, []
    d, (_, y, scale, w, anchor) = columns.d, drawn(n, columns.d)
    problem = Problem(Squared(), n=n, d=d, row_norm=1.0, columns=columns)
    singles = unfolded(n, columns, kind=np.float32)
    rng, where = np.random.default_rng(3), np.arange(n)
    center, shrink, sizes = rng.uniform(-1, 1, d - 1), rng.uniform(0.5, 2, d - 1), rng.uniform(0, 9, 5 * d)
    constants = walk_constants(Logistic().compiled, batch_size=15.0)
    only = kernels.read_only
    draws = kernels.WalkDraws(only(np.arange(6) * 15), only(where), only(sizes), only(sizes > 4))
    for X in (singles, singles.astype(float)):
        records, points = folded(X, columns).records(problem), np.zeros((6, d))
        points[0] = w
        framed = records._replace(center=center, shrink=shrink, intercept=0.5).read_only()
        examples, from_anchor = (
            kernels.Examples(framed, only(y), only(scale)),
            kernels.WalkAnchor(only(anchor), only(w / 9)),
        )
        kernels.walk(examples, draws, from_anchor, constants, points, np.zeros(d), kernels.WalkStart(0, False))
        assert (points[1:] != 0).any()
        results.append((kernels.norms(records, True), kernels.inverse_norms(framed), points))
    for single, double in zip(*results, strict=True):
        np.testing.assert_array_equal(single, double)


@pytest.mark.slow
def test_codes_of_three_bytes_are_read_as_they_are_written() -> None:
    columns = Columns(WIDTHS)
    check_sums(Logistic(), columns.d, columns, n=40)


def test_a_records_choice_of_columns_is_that_of_the_unfolded_rows() -> None:
    """Stored beside columns that are not used, and in another order than they are declared: the same bits."""
    stored, n = Columns((1, 4, 1, 300, 1, 3)), 100
    X, (_, y, scale, _, _) = unfolded(n, stored), drawn(n, 1)
    wide = folded(X, stored)
    chosen = Coded(wide.numbers, wide.codes, (2, 1, 0))  # the third number, the block of 300, the first number
    columns = Columns((1, 300, 1))
    own = np.column_stack((X[:, 306], X[:, 6:306], X[:, 0], np.ones(n)))
    w = np.random.default_rng(3).standard_normal(columns.d)
    records = chosen.records(Problem(Logistic(), n=n, d=columns.d, row_norm=1.0, columns=columns))
    swapped, at = own[:, [301, *range(1, 301), 0, 302]], w[[301, *range(1, 301), 0, 302]]  # as they are stored
    slopes = np.clip(Logistic().slope(margins(swapped, at, columns) * scale, y), -1, 1)
    np.testing.assert_array_equal(kernels.margins_of(records, w, np.arange(n)), margins(swapped, at, columns))
    np.testing.assert_array_equal(
        kernels.gradient_sum(examples(records, y, scale), np.arange(0, n), w, Logistic().compiled),
        added((slopes * scale)[:, None] * own),
    )


@KINDS
@pytest.mark.parametrize("d", [1, 2, 7, 8, 9, 16, 54, 117])
def test_sums_are_the_plain_ones_to_the_last_bit(d: int, kind: type) -> None:
    check_sums(Logistic(), d, kind=kind)
    stored: NDArray[Any] = drawn(300, d)[0].astype(kind)
    X = stored.astype(float)
    np.testing.assert_array_equal(
        kernels.norms(plain(stored), False), np.sqrt(np.concatenate([margins(x[None], x) for x in X]))
    )


@KINDS
@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 31, 32, 33, 47])
def test_eight_at_a_time_and_one_by_one_are_the_same(count: int, kind: type) -> None:
    """As many records as leave something over, of eight and of those whose slopes are computed together."""
    own_X, y, scale, w, _ = drawn(60, 13)
    X: NDArray[Any] = own_X.astype(kind)
    records, loss, places = plain(X), Logistic(), np.random.default_rng(2).permutation(60)[:count]
    own = (multipliers(X.astype(float), y, scale, w, loss) * scale)[:, None] * X
    np.testing.assert_array_equal(
        kernels.gradient_sum(examples(records, y, scale), places, w, loss.compiled),
        added(own[places]),
    )
    framed = kernels.FramedExamples(records, y, scale).read_only()
    whole = kernels.logistic_sum(framed, 0.3, w, 5, 5 + count)
    later = kernels.logistic_sum(kernels.FramedExamples(plain(X[5:]), y[5:], scale[5:]).read_only(), 0.3, w, 0, count)
    np.testing.assert_array_equal(whole, later)
    one_by_one = [kernels.logistic_sum(framed, 0.3, w, i, i + 1) for i in range(5, 5 + count)]
    np.testing.assert_array_equal(whole, added(np.array(one_by_one).reshape(count, 13)))


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_sums_of_every_loss_are_the_plain_ones_to_the_last_bit(loss: OneMargin) -> None:
    check_sums(loss, 5)


@KINDS
@pytest.mark.parametrize("d", [5, 54, 64])
def test_a_records_slope_is_the_same_wherever_it_stands(d: int, kind: type) -> None:
    """Alone, in every position of every batch, at every alignment of the array: the same bits."""
    X, y, scale, w, _ = drawn(64, d, seed=5)
    X = X.astype(kind)
    code = Logistic().compiled
    alone = [kernels.gradient_sum(examples(plain(X), y, scale), np.arange(i, i + 1), w, code) for i in range(64)]
    for shift in range(8):
        room: NDArray[Any] = np.zeros(64 * d + shift, kind)
        moved = room[shift:].reshape(64, d)
        moved[:] = X
        order = np.roll(np.arange(64), shift)
        for i in range(64):
            only = scale * (np.arange(64) == i)  # the others add zeros
            margin_scale = np.where(only > 0, only, 0.0)
            np.testing.assert_array_equal(
                kernels.gradient_sum(examples(plain(moved), y, margin_scale), order, w, code),
                alone[i],
            )


@KINDS
def test_readonly_and_mapped_rows_need_no_other_compilation(tmp_path: Path, kind: type) -> None:
    X, y, scale, w, _ = drawn(50, 6)
    X = X.astype(kind)
    np.save(tmp_path / "X.npy", X)
    mapped = np.require(np.load(tmp_path / "X.npy", mmap_mode="r"), requirements=["C", "A", "E"])
    code = Logistic().compiled
    np.testing.assert_array_equal(
        kernels.gradient_sum(examples(plain(mapped), y, scale), np.arange(0, 50), w, code),
        kernels.gradient_sum(examples(plain(X), y, scale), np.arange(0, 50), w, code),
    )


def test_the_cache_knows_every_file_that_a_loop_is_made_of() -> None:
    """Each is kept under a name that holds a digest of the folder, and calls compiled code of that folder alone."""
    folder = Path(build.__file__).parent
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))).hexdigest()
    for name, loop in kernels.ENTRIES.items():
        function = loop.py_func
        assert function.__qualname__ == f"{name}_{digest[:16]}"
        for called in function.__code__.co_names:
            used = function.__globals__.get(called)
            if callable(used) and not isinstance(used, type):
                assert Path(inspect.getfile(getattr(used, "py_func", None) or used._defn)).parent == folder, called


def test_two_derivatives_of_one_file_are_two_in_the_cache() -> None:
    """Each is kept under its own name: by the file alone the second would be the first, compiled before."""
    m, y = np.array([1.0, 2.0]), np.array([0.5, 0.25])

    def residual(m: float, y: float) -> float:
        return m - y

    def steeper(m: float, y: float) -> float:
        return 2.0 * m + y

    for derivative in (residual, steeper):
        loss = kernels.Slope(build.c_function(derivative).address, 0.0, 0.0, 0.0, np.inf)
        expected = [derivative(*at) for at in zip(m.tolist(), y.tolist(), strict=True)]
        np.testing.assert_array_equal(kernels.derivatives(loss, m, y), expected)


_FRESH = """
from typing import get_args
import numpy as np, solvers.kernels as k
from solvers.losses import Logistic, Loss
before = [len(f.signatures) for f in k.ENTRIES.values()]
formulas = [k.c_function(kind.derivative) for kind in get_args(Loss) if kind.compiled is not None]
stored, layout = (np.ones((3, 16), np.uint8), np.ones((3, 0), np.uint8)), (np.ones((0, 4), int), np.arange(2), 2, 0)
some = k.Records(*stored, *layout, np.ones(0), np.ones(0), 1.0, np.arange(0), np.ones(0), False).read_only()
k.gradient_sum(k.Examples(some, np.ones(3), np.ones(3)).read_only(), np.arange(0, 3), np.ones(2), Logistic().compiled)
hits, misses = (sum(sum(getattr(f.stats, n).values()) for f in k.ENTRIES.values()) for n in
                ("cache_hits", "cache_misses"))
assert before == [len(f.signatures) for f in k.ENTRIES.values()] == [1] * len(k.ENTRIES)
print(hits, misses, len(k.ENTRIES), sum(f.cache_hits for f in formulas), len(formulas))
"""


_SLOPES_PROGRAM = """
from solvers.kernels import slopes
from solvers.kernels.build import ENTRIES, c_function
from solvers.losses import Squared
formulas = [c_function(Squared.derivative)]
assert slopes.slope(slopes.Slope(formulas[0].address, 1.0, 0.0, 0.0, 1.0), 0.5, 1.0) == -0.5
print(*(sum(sum(getattr(f.stats, n).values()) for f in ENTRIES.values()) for n in ("cache_hits", "cache_misses")),
      len(ENTRIES), sum(f.cache_hits for f in formulas), len(formulas))
"""


def _fresh(program: str, environment: dict[str, str]) -> list[int]:
    base = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONSAFEPATH": "1"}
    process = subprocess.run(
        [sys.executable, "-c", program], env=base | environment, capture_output=True, text=True, timeout=PATIENCE
    )
    assert process.returncode == 0, process.stderr
    return [int(word) for word in process.stdout.split()]


@pytest.mark.slow
def test_the_import_loads_all_loops_from_the_cache() -> None:
    """A first call compiles nothing, so no job compiles, because a worker imports this module as it starts."""
    loop_count = len(kernels.ENTRIES)  # compiled here unless the cache has them
    hits, misses, count, formula_hits, formulas = _fresh(_FRESH, {n: v for n, v in os.environ.items() if "NUMBA" in n})
    assert (hits, misses, count, formula_hits) == (loop_count, 0, loop_count, formulas)


@pytest.mark.slow
def test_compiled_loops_are_cached_and_then_only_read(tmp_path: Path) -> None:
    """Compile the loops of one module, as an example for all."""
    folder = {"NUMBA_CACHE_DIR": str(tmp_path)}
    hits, misses, count, formula_hits, formulas = _fresh(_SLOPES_PROGRAM, folder)
    assert (hits, misses, formula_hits) == (0, count, 0)
    times = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert _fresh(_SLOPES_PROGRAM, folder) == [count, 0, count, formulas, formulas]
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == times


@pytest.mark.slow
def test_without_a_folder_to_write_it_still_loads(tmp_path: Path) -> None:
    """Loops are compiled in memory if the source is read-only and there is no home, as for some services."""
    shutil.copytree(ROOT / "solvers", tmp_path / "solvers", ignore=shutil.ignore_patterns("__pycache__"))
    for folder in ("kernels", "losses"):
        (tmp_path / "solvers" / folder / "__pycache__").write_text("a file where the cache would be")
    nowhere = dict.fromkeys(("NUMBA_CACHE_DIR", "HOME", "XDG_CACHE_HOME"), "/proc/nowhere")
    hits, _, count, formula_hits, _ = _fresh(
        _SLOPES_PROGRAM, {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}", **nowhere}
    )
    assert (hits, formula_hits) == (0, 0)
    assert 2 <= count < len(kernels.ENTRIES)
    assert not list(tmp_path.rglob("*.nb?"))


def value_jumps(assembly: str) -> list[str]:
    """Return the jumps of LLVM's code that a comparison of numbers decides, function by function."""
    jumps = []
    for function in assembly.split("\ndefine ")[1:]:
        compared = set(re.findall(r"(%\S+) = fcmp ", function))
        jumps += [at for at in re.findall(r" br i1 (%[^,\s]+),", function) if at in compared]
    return jumps


@pytest.mark.slow
def test_no_jump_depends_on_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is guessed wrong takes longer: slopes are chosen, not jumped to. `Power` has pow, with its own."""
    cfunc = numba.cfunc
    with monkeypatch.context() as uncached:  # numba does not show the code of a cached callback
        uncached.setattr(numba, "cfunc", lambda *signature, **options: cfunc(*signature, **options | {"cache": False}))
        for kind in {type(loss) for loss in LOSSES} - {Quantile}:  # a level without smoothing is public
            formula = build.c_function.__wrapped__(kind.derivative)
            assert bool(value_jumps(formula.inspect_llvm())) == (kind is Power), kind
    summed = ("margins", "add_records", "slopes", "logistic_sum", "squared_sum", "bounded_sum", "softmax_sum")
    for name in (*summed, "residual_sum", "from_center", "distances", "square_sums"):
        [compiled] = kernels.ENTRIES[name].overloads.values()
        optimized = str(compiled.library._get_module_for_linking())  # numba has no public way to read a cached loop
        assert "\ndefine " in optimized
        assert not value_jumps(optimized), name
