"""adaptive_gd on few records for each coefficient, where it is hardly worse than a constant, and often better."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from accounting import Privacy
from accounting.filter import Filter
from accounting.privacy import Unit
from accounting.records import recomputation
from solvers import Problem, plan
from solvers.columns import Columns
from solvers.data_access.standardised import StandardisedOracle
from solvers.frame import Frame
from solvers.losses import Hinge, Logistic, Loss, Softmax, Squared
from solvers.methods import AdaptiveGd
from solvers.methods.defaults.little_signal import model_kind
from solvers.methods.standardised.adaptive_gd import AdaptiveGdRun
from solvers.preparation import ByProfile
from solvers.preparation.moments import Moments
from solvers.solve import PlannedRun, data_of
from tests.support import receipts
from tests.support.runs import run_quote
from tests.support.standardised import LIMITED_LOSSES

Vector = NDArray[np.float64]
RUNS = 6
LOGISTIC, ROW = Logistic(), Unit()
CELLS = [
    (100, 4, 0.1, Unit()),
    (100, 30, 0.5, Unit()),
    (2000, 30, 0.1, Unit()),
    (300, 8, 0.1, Unit("person", 3)),
]


def drawn(problem: Problem, rows: int, seed: int) -> tuple[Vector, Vector]:
    """Rows of numbers and of one block, and targets of which a linear model explains a half."""
    rng, size = np.random.default_rng(seed), (problem.d - 1) // 2
    X = np.column_stack(
        (np.clip(rng.normal(0.2, 0.3, (rows, size)), -1, 1), np.eye(size)[rng.choice(size, rows)], np.ones(rows))
    )
    spread = X[:, :-1].std(axis=0)
    signal = (X[:, :-1] - X[:, :-1].mean(axis=0)) @ (rng.normal(size=2 * size) / (spread * math.sqrt(2 * size)))
    if problem.loss.takes == "number":
        return X, np.clip(0.2 + 0.15 * (signal + rng.normal(size=rows)), -1, 1)
    y = np.where(rng.random(rows) < 1 / (1 + np.exp(-1.5 * signal - 0.5)), 1.0, -1.0)
    return X, np.maximum(y, 0.0) if problem.outputs > 1 else y


def risk(loss: Loss, X: Vector, y: Vector, w: Vector) -> float:
    margins = X @ w.reshape(-1, X.shape[1]).T
    return float(np.mean(loss.value(margins.T if loss.outputs > 1 else margins[:, 0], y)))


@pytest.mark.slow
@pytest.mark.parametrize("loss", LIMITED_LOSSES, ids=repr)
@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_no_cell_is_worse_than_zeros(loss: Loss, cell: tuple[int, int, float, Unit]) -> None:
    """In the mean of several runs, up to a tenth of the risk and the error of the mean."""
    n, size, epsilon, unit = cell
    columns = Columns((*(1,) * (size // 2), size // 2))
    problem = Problem(loss, n=n, d=columns.d, row_norm=columns.row_norm, columns=columns, unit=unit)
    quote = plan(AdaptiveGd(steps=120), problem, Privacy(epsilon, 1e-5))
    excess = []
    for seed in range(RUNS):
        rows = n * unit.slots // 2 if unit.is_person else n
        X, y = drawn(problem, rows, seed)
        data = data_of(quote.problem, X, y, np.arange(rows) % n if unit.is_person else None)
        w, _, _ = run_quote(quote, data, seed)
        zero = risk(loss, X, y, 0 * w)
        excess.append((risk(loss, X, y, w) - zero) / max(zero, 0.2))  # zeros are almost best for one of the losses
    assert np.mean(excess) < 0.1 + 2 * np.std(excess) / math.sqrt(RUNS)
    assert max(excess) < 3.0


@pytest.mark.parametrize(("loss", "threshold"), [(Logistic(), 1.0), (Softmax(3), 1.0), (Squared(), 4.0)], ids=str)
@pytest.mark.parametrize("times", [0.9, 1.1])
def test_below_the_least_signal_the_model_is_a_constant(loss: Loss, threshold: float, times: float) -> None:
    columns, privacy = Columns((1, 1)), Privacy(0.5, 1e-5)

    def case(n: int) -> Problem:
        return Problem(loss, n=n, d=3, row_norm=columns.row_norm, columns=columns)

    def signal(n: int) -> float:
        quote = plan(AdaptiveGd(steps=50), case(n), privacy)
        assert isinstance(quote.method, AdaptiveGdRun)
        return quote.method.signal(case(n), quote.release.plan.query("gradient").noise_multiplier)

    n = math.ceil(times * threshold / signal(1000) * 1000)
    quote = plan(AdaptiveGd(steps=50), case(n), privacy)
    assert isinstance(quote.method, AdaptiveGdRun)
    is_constant = times < 1
    assert kind_of(quote) == ("constant" if is_constant else "full")
    rng = np.random.default_rng(1)
    X = np.column_stack((rng.uniform(-1, 1, (n, 2)), np.ones(n)))
    y = np.maximum(np.sign(X[:, 0]), 0.0) if loss.outputs > 1 else np.sign(X[:, 0])
    data = data_of(quote.problem, X, y)
    w, _, _ = run_quote(quote, data, 3)
    slopes = w.reshape(-1, 3)[:, :-1]
    assert bool((slopes == 0).all()) == is_constant


def texts(rows: int, words: int, seed: int) -> tuple[Vector, Vector]:
    """Return indicators of words with Zipf frequencies, which differ between two equally frequent classes."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(rows) < 0.5, 1.0, -1.0)
    frequencies, effects = np.minimum(0.4, 2 / np.arange(1, words + 1)), np.random.default_rng(0).normal(0, 0.6, words)
    X = (rng.random((rows, words)) < np.minimum(0.9, frequencies * np.exp(np.outer(y, effects)))).astype(float)
    return np.column_stack((X, np.ones(rows))), y


def kind_of(quote: PlannedRun) -> str:
    assert isinstance(quote.method, AdaptiveGdRun)
    return model_kind(quote.met, quote.method.signal(quote.met, quote.release.plan.query("gradient").noise_multiplier))


def of_columns(columns: Columns, loss: Loss = LOGISTIC, n: int = 1000, unit: Unit = ROW) -> Problem:
    return Problem(loss, n=n, d=columns.d, row_norm=columns.row_norm, columns=columns, unit=unit)


WORDS = Columns((1,) * 1500, ((0.0, 1.0),) * 1500)


@pytest.mark.parametrize("unit", [Unit(), Unit("person", 2)], ids=["rows", "persons"])
@pytest.mark.parametrize("is_related", [True, False])
def test_many_columns_of_few_records_give_a_direction_at_a_small_cost(is_related: bool, unit: Unit) -> None:
    """Related words decide the class. Words that say nothing cost about 1/128 in log loss, twice that with slots empty.

    Half of the persons have both of their rows.
    """
    problem = of_columns(WORDS, unit=unit)
    quote = plan(AdaptiveGd(), problem, Privacy(4.0, 1e-5))
    assert kind_of(quote) == "small"
    persons = np.concatenate((np.arange(1000), np.arange(500))) if unit.is_person else None
    X, y = texts(1000 if persons is None else len(persons), len(WORDS.widths), 1)
    X_test, y_test = texts(1000, len(WORDS.widths), 2)
    if not is_related:
        y, y_test = np.random.default_rng(3).permutation(y), np.random.default_rng(4).permutation(y_test)
    data = data_of(problem, X, y, persons)
    w, transcript, _ = run_quote(quote, data, 5)
    assert {query.name for query in transcript.queries} == {"gradient", "spread"}
    loss, accuracy = risk(Logistic(), X_test, y_test, w), float(np.mean(y_test * (X_test @ w) > 0))
    if is_related:
        assert accuracy > 0.7
        assert loss < 0.65
    else:
        assert loss < math.log(2) + 0.03


@pytest.mark.parametrize(
    ("problem", "epsilon", "kind"),
    [
        (of_columns(WORDS), 0.4, "small"),
        (of_columns(WORDS), 0.3, "constant"),  # n mu is 89
        (of_columns(WORDS, unit=Unit("person", 10)), 4.0, "constant"),
        (of_columns(WORDS, n=2_000), 4.0, "full"),
        (of_columns(WORDS, Softmax(2)), 0.4, "constant"),
        (of_columns(WORDS, Hinge()), 0.4, "constant"),
        (of_columns(WORDS, Squared()), 0.4, "constant"),
        (of_columns(Columns((1,) * 1500)), 0.4, "constant"),
        (of_columns(Columns((1,) * 700 + (800,), ((0.0, 1.0),) * 700)), 0.4, "constant"),
        (of_columns(Columns((1,) * 800 + (700,), ((-1.0, 0.0),) * 800)), 0.4, "small"),
    ],
    ids=[
        "words",
        "n mu below 100",
        "n mu below 100 per slot",
        "r above 1",
        "softmax",
        "hinge",
        "numbers",
        "ranges on both sides of 0",
        "mostly a category",
        "mostly ranges up to 0",
    ],
)
def test_only_logistic_on_columns_that_may_be_sparse_has_small_coefficients(
    problem: Problem, epsilon: float, kind: str
) -> None:
    assert kind_of(plan(AdaptiveGd(steps=50), problem, Privacy(epsilon, 1e-5))) == kind


def test_empty_slots_do_not_multiply_the_noise_of_margins() -> None:
    """Each person has one row and nine empty slots. The ridge of rows would leave a variance of about 1/10."""
    problem = of_columns(WORDS, n=1500, unit=Unit("person", 10))
    quote = plan(AdaptiveGd(), problem, Privacy(4.0, 1e-5))
    assert kind_of(quote) == "small"
    X, _ = texts(1500, len(WORDS.widths), 1)
    y = np.random.default_rng(1).choice((-1.0, 1.0), 1500)
    data = data_of(problem, X, y, np.arange(1500))
    w, _, _ = run_quote(quote, data, 1)
    assert np.var(X @ w) < 1 / 16


def test_with_a_released_profile_the_model_is_a_constant() -> None:
    count = len(WORDS.widths)
    profile = ByProfile(Moments((0.1,) * count, (0.09,) * count, (1e-3,) * count))
    quote = plan(AdaptiveGd(steps=50), of_columns(WORDS), Privacy(0.4, 1e-5), preparation=profile)
    assert kind_of(quote) == "constant"


@pytest.mark.parametrize("blocks", [(), (3, 4)], ids=["numbers", "blocks too"])
@pytest.mark.parametrize("high", [1.0, 1e-4])
def test_rows_have_a_mean_square_of_about_1_in_the_frame(
    blocks: tuple[int, ...], high: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A narrow range of numbers is no reason to stretch a block: its square is at most 1 in the original columns."""
    rng, n, numbers = np.random.default_rng(0), 300, 400
    columns = Columns((1,) * numbers + blocks, ((0.0, high),) * numbers)
    problem = of_columns(columns, n=n)
    quote = plan(AdaptiveGd(steps=2), problem, Privacy(4.0, 1e-5))
    assert kind_of(quote) == "small"
    X = np.column_stack(
        (high * rng.random((n, numbers)), *(np.eye(size)[rng.choice(size, n)] for size in blocks), np.ones(n))
    )
    frames: list[Frame] = []
    gradient = StandardisedOracle.gradient

    def recorded(oracle: StandardisedOracle, query: str, w: Vector, frame: Frame, limit: float) -> Vector:
        frames.append(frame)
        return gradient(oracle, query, w, frame, limit)

    monkeypatch.setattr(StandardisedOracle, "gradient", recorded)
    data = data_of(problem, X, rng.choice((-1.0, 1.0), n))
    run_quote(quote, data, 1)
    [square] = {float((frame.rows(X)[:, :-1] ** 2).sum(axis=1).mean()) for frame in frames}
    assert 0.5 < square < 1.5


def test_a_receipt_states_the_answers_given_and_the_epsilon_of_the_plan() -> None:
    """The ledger charges the plan, and every reader of the event reads answers that the run gave."""
    problem = of_columns(WORDS)
    quote = plan(AdaptiveGd(steps=20), problem, Privacy(4.0, 1e-5))
    data = data_of(problem, *texts(1000, len(WORDS.widths), 1))
    _, transcript, means = run_quote(quote, data, 5)
    planned = quote.release.plan
    assert means is None
    assert {query.name for query in planned.queries} - {query.name for query in transcript.queries} == {
        "means",
        "variances",
    }
    built = receipts.make(release_plan=quote.release, transcript=transcript, method={"name": "adaptive_gd"})
    assert built["epsilon"] == quote.release.epsilon
    assert built["event"] == transcript.event()
    recomputed = recomputation.recompute(built)
    assert recomputed.epsilon < quote.release.epsilon
    rule = Filter.open("gdp", Privacy(8.0, 1e-5))
    assert rule.cost(planned) > rule.cost(transcript)
