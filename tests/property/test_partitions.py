"""Partitions answer as one machine does, to the last bit, and keep each record's bound: docs/proofs/partitions.md."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import Any, get_args

import numpy as np
import pytest

from accounting import Privacy
from accounting.mechanisms.poisson_gaussian import MOST_DRAWN
from accounting.noise import Noise, batches
from accounting.privacy import Relation, Unit
from solvers import Problem, plan
from solvers.columns import Columns
from solvers.data_access import data as reading
from solvers.data_access import inputs, partitioned
from solvers.data_access.data import Data
from solvers.data_access.partitioned import LocalPartitions, Partitioned
from solvers.data_access.rows import copied
from solvers.data_access.sums import gradient_sum
from solvers.data_access.walk import Walk
from solvers.domains import Free, LinfBall
from solvers.elsewhere import needs_one_machine
from solvers.errors import Unsuitable
from solvers.frame import Frame
from solvers.losses import Absolute, Logistic, Softmax, Squared
from solvers.methods import DpGd, DpSvrg, DpSvrgPp, InverseSensitivity, Method, NoisySgd
from solvers.preparation import Declared
from solvers.regularizers import L2
from solvers.solve import PlannedRun, run
from solvers.statistics import AnyStatistic
from tests.support import coupled
from tests.support.members import WIDE_LIMIT
from tests.support.runs import run_quote
from tests.support.seeded import SeededBits

N, GROUP = 400, 64
COLUMNS = Columns((1, 3, 1))
PROBLEMS = [
    Problem(loss, L2(0.05), domain, n=N, d=COLUMNS.d, row_norm=COLUMNS.row_norm, columns=COLUMNS)
    for loss, domain in ((Logistic(), Free()), (Squared(), LinfBall(1.0)), (Softmax(3), Free()))
]
PROBLEMS += [Problem(loss, L2(0.05), LinfBall(1.0), n=N, d=2, row_norm=1.0) for loss in (Logistic(), Absolute())]
PROBLEMS += [Problem(Squared(), n=N, d=2, row_norm=1.0)]
NUMBERS = Columns((1, 1))
PROBLEMS += [Problem(Squared(), n=N, d=3, row_norm=NUMBERS.row_norm, columns=NUMBERS)]
ALONE = {"bootstrap_reduction", "noisy_mirror_descent", "phased_sgd"}
SMALL: dict[type, Method] = {
    InverseSensitivity: InverseSensitivity(grid=6),
    DpSvrg: DpSvrg(epochs=2, inner_steps=5),
    DpSvrgPp: DpSvrgPp(epochs=2, inner_steps=2),
    NoisySgd: NoisySgd(steps=5, batch=40),
}
METHODS = [SMALL.get(kind) or kind() for kind in get_args(Method)]
STATISTICS: list[Any] = [kind() for kind in get_args(AnyStatistic)]
METHODS += [DpGd(release="last"), DpSvrg(form="printed", batch=20), WIDE_LIMIT]


@pytest.fixture(autouse=True)
def _small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (reading, partitioned):
        monkeypatch.setattr(module, "GROUP", GROUP)
    monkeypatch.setattr(reading, "piece_rows", lambda *_: 16)  # several blocks in a group
    monkeypatch.setattr(Walk, "of", staticmethod(lambda *_: None))  # it draws ahead: other batches of the same law


def rows(problem: Problem) -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (problem.n, problem.d))
    if problem.columns is not None:
        X[:, -1] = 1.0
        if 3 in problem.columns.widths:
            X[:, 1:4] = np.eye(3)[rng.integers(0, 3, problem.n)]
    y = np.where(X @ np.arange(1.0, problem.d + 1) > 0, 1.0, -1.0)
    return X, y if problem.outputs == 1 else rng.integers(0, 3, problem.n).astype(float)


def parted(whole: Data) -> Partitioned:
    """Return the same records in partitions."""
    partitions = []
    for start in range(0, whole.problem.n, GROUP):
        own = np.arange(start, min(start + GROUP, whole.problem.n))
        problem = replace(whole.problem, n=len(own))
        partitions.append(Data(copied(whole.records, own), whole.y[own], whole.scale[own], problem))
    return Partitioned(whole.problem, LocalPartitions(partitions))


def test_rows_are_stored_for_the_last_frame_only() -> None:
    """Partitions cache the rows of the most recent frame; another frame replaces them."""
    whole = inputs.of_arrays(*rows(PROBLEMS[-1]), PROBLEMS[-1])
    d, shared = whole.problem.d, parted(whole)
    first, then = (Frame(np.full(d - 1, 0.1), np.full(d - 1, scale), 0.5) for scale in (1.5, 0.2))
    sums = [
        gradient_sum(some.within(frame, 1.0), slice(0, whole.problem.n), np.ones(d))
        for some, frame in ((shared, first), (shared, then), (parted(whole), then))
    ]
    assert np.array_equal(sums[1], sums[2])
    assert not np.array_equal(sums[0], sums[1])


CELLS = list(product(PROBLEMS, (Privacy(1.0, 1e-6), Privacy(1.0)), ({}, {"preparation": Declared()})))


def cells(
    method: Method | AnyStatistic, count: int, relation: Relation = "replace_one", of: Sequence[Any] = CELLS
) -> list[PlannedRun]:
    """Return quotes of the first cells that the method accepts: at least one."""
    quotes: list[PlannedRun] = []
    for problem, privacy, settings in of:
        if len(quotes) < count:
            with suppress(Unsuitable):
                quotes.append(plan(method, replace(problem, relation=relation), privacy, **settings))
    assert quotes
    return quotes


every = pytest.mark.parametrize(
    "method",
    [m for m in METHODS if m.name not in ALONE] + STATISTICS,
    ids=lambda m: f"{m.name}-{getattr(m, 'release', '') or getattr(m, 'form', '')}".strip("-"),
)


@pytest.mark.slow
@every
def test_answers_and_transcript_do_not_depend_on_the_partitions(method: Method | AnyStatistic) -> None:
    for quote in cells(method, 4):
        whole, results = inputs.of_arrays(*rows(quote.problem), quote.problem), []
        for data in (whole, parted(whole)):
            noise = Noise(SeededBits(5))
            results.append(run(quote.method, quote.problem, data, quote.release, noise, preparation=quote.preparation))
        (w, transcript, _), (parted_w, parted_transcript, _) = results
        assert np.array_equal(w, parted_w)
        assert transcript == parted_transcript


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
@every
def test_a_record_of_one_partition_moves_no_value_by_more_than_its_bound(
    method: Method | AnyStatistic, relation: Relation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Record 7 is replaced or null. The positions of all other records are the same for both neighbors."""
    nulls = [False, relation == "zero_out"]

    def partly(method: Any, problem: Problem, whole: Data, *arguments: Any, **options: Any) -> Any:
        if nulls.pop(0):
            whole.scale[7] = 0.0
        return run(method, problem, parted(whole), *arguments, **options)

    monkeypatch.setattr(coupled, "run", partly)
    (quote,) = cells(method, 1, relation, CELLS[::-1])
    X, y = rows(quote.problem)
    replacement = X[7] if relation == "zero_out" else np.where(np.arange(len(X[7])) == 0, -1.0, X[8])
    complaints = coupled.complaints(quote, X, y, (replacement, y[7] if relation == "zero_out" else -y[7]))
    assert [complaint for complaint in complaints if not complaint.startswith("the frame is")] == []


@pytest.mark.slow
def test_methods_that_need_all_rows_on_one_machine_are_refused() -> None:
    reasons = {m.name: needs_one_machine(q.method, q.met) for m in METHODS for q in cells(m, 1)}
    assert {name for name, why in reasons.items() if why} == ALONE
    for name in ALONE:
        (method,) = (m for m in METHODS if m.name == name)
        quote = next(q for q in cells(method, 2) if q.preparation == Declared())
        whole = inputs.of_arrays(*rows(quote.problem), quote.problem)
        with pytest.raises(Unsuitable, match="one machine"):
            run_quote(quote, parted(whole), 5)
    large = replace(PROBLEMS[-1], n=10**9)
    assert needs_one_machine(NoisySgd(batch=2 * MOST_DRAWN).resolve(large, Privacy(1.0, 1e-9)), large)
    with pytest.raises(Unsuitable):
        Partitioned(replace(large, n=10, unit=Unit("person", 2)), LocalPartitions([]))


def test_sums_of_ranges_and_batches_do_not_depend_on_the_partitions() -> None:
    problem = PROBLEMS[0]
    whole, w = inputs.of_arrays(*rows(problem), problem), np.linspace(-1, 1, problem.d)
    in_partitions = parted(whole)
    for places in (slice(0, N), slice(63, 65), slice(64, 128), slice(100, 399), np.empty(0, dtype=np.int64)):
        assert np.array_equal(gradient_sum(whole, places, w), gradient_sum(in_partitions, places, w))
    for rate in (0.01, 0.3):
        drawn = batches.poisson_rows(Noise(SeededBits(1)), N, rate)
        whole_sum, parted_sum = (gradient_sum(data, drawn, w, -w, 0.1) for data in (whole, in_partitions))
        assert np.array_equal(whole_sum, parted_sum)


def test_a_batch_of_many_rows_is_drawn_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row has its own draw, so pieces are independent; about as many rows are drawn as in one piece."""
    expected = batches.poisson_rows(Noise(SeededBits(2)), 1000, 0.3)
    monkeypatch.setattr(batches, "MOST_ROWS_AT_ONCE", 128)
    drawn = batches.poisson_rows(Noise(SeededBits(2)), 1000, 0.3)
    assert (np.diff(drawn) > 0).all()
    assert 0 <= drawn[0] < drawn[-1] < 1000
    assert abs(len(drawn) - len(expected)) < 100
    parts = np.bincount(drawn // 128, minlength=8)
    assert (parts > 10).all()
