"""Tunings: every run is made within the cost of the choice, and a record moves a score within its bound."""

import copy
import math
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from pydantic import TypeAdapter

from accounting import Privacy
from accounting.errors import FilterMismatch, OutOfPlan, OutOfRange, ReceiptInvalid
from accounting.mechanisms import Gaussian
from accounting.noise import Noise
from accounting.plan import Plan, PlannedQuery
from accounting.privacy import Relation, Unit, sensitivity_factor
from accounting.records import receipt
from accounting.records.codec import plan_to_json
from solvers import Problem, tuning
from solvers.columns import Columns
from solvers.data_access import inputs
from solvers.data_access.data import Data
from solvers.data_access.persons import of_persons
from solvers.data_access.scores import BOUND, ScoreOracle, Scores
from solvers.domains import Free
from solvers.errors import NeedsDelta, RunFailed, Unsuitable
from solvers.losses import Logistic, Loss, Softmax, Squared
from solvers.methods import DpGd, Method, ObjectivePerturbation, OutputPerturbation
from solvers.preparation import Declared
from solvers.problem import Vector
from solvers.regularizers import L2
from solvers.solve import PlannedRun, WorkLimits
from solvers.solve import run as run_one
from solvers.trials import Candidate, Candidates, Tuning
from tests.support.noiseless import noiseless
from tests.support.receipts import make
from tests.support.seeded import SeededBits

LAYOUT = Columns((1, 3, 1), ((-1.0, 1.0), (-1.0, 1.0)))
N = 300
PROBLEM = Problem(Logistic(), n=N, d=LAYOUT.d, row_norm=LAYOUT.row_norm, columns=LAYOUT)
PRIVACY = Privacy(2.0, 1e-6)


def candidate(method: Method, strength: float = 0.1) -> Candidate:
    return Candidate(method, L2(strength), Free(), Declared(), None)


CANDIDATES = Candidates((candidate(OutputPerturbation(steps=4)), candidate(DpGd(steps=2), 0.5)), 3)


def tuned(quote: PlannedRun) -> Tuning:
    assert isinstance(quote.method, Tuning)
    return quote.method


@pytest.fixture(scope="module")
def rows() -> tuple[Vector, Vector]:
    rng = np.random.default_rng(2)
    kinds = np.eye(3)[rng.integers(0, 3, N)]
    X = np.column_stack((rng.uniform(-1, 1, N), kinds, rng.uniform(-1, 1, N), np.ones(N)))
    return X, np.sign(X[:, 0] + X[:, 4] / 3)


@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
def test_each_run_and_its_score_have_the_cost_stated_by_the_choice(relation: Relation) -> None:
    quote = tuning.plan(CANDIDATES, replace(PROBLEM, relation=relation), PRIVACY)
    mu = sensitivity_factor(relation) / quote.release.plan.queries[0].noise_multiplier
    assert (quote.release.epsilon <= PRIVACY.epsilon, quote.release.plan.relation) == (True, relation)
    for trial in tuned(quote).trials:
        spent, score = trial.plan.gdp(), replace(trial.plan, queries=trial.plan.queries[-1:]).gdp()
        assert spent is not None
        assert score is not None
        assert mu * (1 - 1e-6) <= spent <= mu
        assert score**2 == pytest.approx(0.1 * mu**2, rel=1e-3)
    runs = 3 * (4 + 2 + 2)  # passes of the methods and of the scores
    assert quote.gradient_evaluations == runs * N


@pytest.mark.slow
def test_every_run_is_made_and_progress_reveals_nothing(rows: tuple[Vector, Vector]) -> None:
    quote, data = tuning.plan(CANDIDATES, PROBLEM, PRIVACY), inputs.of_arrays(*rows, PROBLEM)
    chosen, histories = set(), []
    with patch.object(tuning, "run_one", wraps=run_one) as tried:
        for seed in range(8):
            progress: list[int] = []
            output, transcript, _ = tuning.run(
                tuned(quote), PROBLEM, data, quote.release, Noise(SeededBits(seed)), progress.append
            )
            chosen.add(int(output[0]))
            histories.append(progress)
            assert output.shape == (2 + LAYOUT.d,)
            assert transcript == quote.release.plan
        assert tried.call_count == 8 * 6
    assert chosen == {0, 1}
    assert all(history == histories[0] for history in histories)
    assert sorted(set(histories[0])) == [0, 1, 2, 3, 4, 5]


def test_a_run_that_fails_is_the_worst_of_all_and_if_it_is_chosen_nothing_is_released(
    rows: tuple[Vector, Vector],
) -> None:
    quote, data = tuning.plan(CANDIDATES, PROBLEM, PRIVACY), inputs.of_arrays(*rows, PROBLEM)
    count = 0

    def failing(*arguments: object) -> object:
        nonlocal count
        count += 1
        if count % 6 != 0:
            raise RunFailed("no number")
        return run_one(*arguments)  # type: ignore[arg-type]

    ends = []
    with patch.object(tuning, "run_one", failing):
        for seed in range(12):
            try:
                ends.append(int(tuning.run(tuned(quote), PROBLEM, data, quote.release, Noise(SeededBits(seed)))[0][0]))
            except RunFailed:
                ends.append(-1)
    assert count == 12 * 6
    assert set(ends) == {-1, 1}  # the sixth run is of the second candidate


@pytest.mark.parametrize("error", [OutOfPlan("x"), np.linalg.LinAlgError(), IndexError()])
def test_whatever_a_run_raises_ends_that_run_alone(error: Exception, rows: tuple[Vector, Vector]) -> None:
    """An error of a run that is not chosen would be an answer about the data that no budget covers."""
    quote, data = tuning.plan(CANDIDATES, PROBLEM, PRIVACY), inputs.of_arrays(*rows, PROBLEM)
    count = 0

    def failing(*arguments: object) -> object:
        nonlocal count
        count += 1
        if count == 1:
            raise error
        return run_one(*arguments)  # type: ignore[arg-type]

    with patch.object(tuning, "run_one", failing):
        output, *_ = tuning.run(tuned(quote), PROBLEM, data, quote.release, Noise(SeededBits(3)))
    assert count == 6
    assert np.isfinite(output).all()


@pytest.mark.parametrize("error", [OSError(), MemoryError(), KeyboardInterrupt()])
def test_a_fault_of_the_machine_or_a_stop_ends_all_runs(error: BaseException, rows: tuple[Vector, Vector]) -> None:
    quote, data = tuning.plan(CANDIDATES, PROBLEM, PRIVACY), inputs.of_arrays(*rows, PROBLEM)
    with patch.object(tuning, "run_one", side_effect=error), pytest.raises(type(error)):
        tuning.run(tuned(quote), PROBLEM, data, quote.release)


def test_a_receipt_of_runs_that_cost_more_than_the_choice_states_is_refused() -> None:
    """The price of a choice covers a number of runs, each of which costs at most the stated price."""
    quote = tuning.plan(CANDIDATES, PROBLEM, PRIVACY)
    method = TypeAdapter(Tuning).dump_python(tuned(quote), mode="json")
    release = quote.release
    honest = {
        **make(),
        "epsilon": release.epsilon,
        "delta": release.delta,
        "queries": plan_to_json(release.plan)["queries"],
        "event": release.plan.event(),
        "method": method,
    }
    assert receipt.recompute(honest).epsilon <= release.epsilon * (1 + 1e-9)
    dear = copy.deepcopy(method)
    dear["trials"][1]["plan"]["queries"][0]["noise_multiplier"] *= 0.9
    zeroed = copy.deepcopy(method)
    zeroed["trials"][0]["plan"]["neighbors"] = "zero_out"
    wrongs = [
        dear,
        zeroed,
        method | {"repeats": 2},
        method | {"trials": method["trials"][:1]},
        method | {"trials": None},
    ]
    wrongs += [
        method | {"repeats": True},
        method | {"repeats": 3.0},
        method | {"repeats": "3" * 2**20},
        method | {"repeats": "3"},
        method | {"repeats": None},
        method | {"trials": [{}, {}]},
        {"name": "tuning"},
    ]
    for wrong in wrongs:
        with pytest.raises(ReceiptInvalid, match=r"\bruns?\b"):
            receipt.recompute(honest | {"method": wrong})
    with pytest.raises(ReceiptInvalid, match=r"\bruns?\b"):
        receipt.recompute(make() | {"method": method})


def test_a_plan_of_less_noise_or_of_fewer_runs_is_refused(rows: tuple[Vector, Vector]) -> None:
    quote, data = tuning.plan(CANDIDATES, PROBLEM, PRIVACY), inputs.of_arrays(*rows, PROBLEM)
    method, release = tuned(quote), quote.release
    first = method.trials[0]
    halved = tuple(replace(query, noise_multiplier=query.noise_multiplier / 2) for query in first.plan.queries)
    unscored, zeroed = first.plan.queries[:-1], replace(first.plan, relation="zero_out")
    wrongs = (replace(first.plan, queries=halved), replace(first.plan, queries=unscored), zeroed)
    (choice,) = release.plan.queries
    wrong = [
        (replace(method, repeats=4), release),
        (replace(method, repeats=2), release),
        *((replace(method, trials=(replace(first, plan=wrong), method.trials[1])), release) for wrong in wrongs),
        (method, replace(release, plan=Plan((replace(choice, noise_multiplier=choice.noise_multiplier * 1.01),)))),
        (method, replace(release, plan=Plan((replace(choice, count=2),)))),
        (method, replace(release, plan=Plan((PlannedQuery("selection", 1, Gaussian(), 5.0),)))),
    ]
    for changed, planned in wrong:
        with pytest.raises(OutOfRange):
            tuning.run(changed, PROBLEM, data, planned)


def test_a_method_without_a_mu_is_refused() -> None:
    with pytest.raises(FilterMismatch, match="Gaussian"):
        tuning.plan(Candidates((candidate(ObjectivePerturbation()),), 2), PROBLEM, PRIVACY)


def test_refusals_name_the_reason(rows: tuple[Vector, Vector]) -> None:
    with pytest.raises(NeedsDelta):
        tuning.plan(CANDIDATES, PROBLEM, Privacy(1.0))
    with pytest.raises(OutOfRange, match="per-row gradients"):
        tuning.plan(CANDIDATES, PROBLEM, PRIVACY, WorkLimits(evaluations=20.0 * N))
    for repeats in (0, 129):
        with pytest.raises(OutOfRange):
            Candidates(CANDIDATES.candidates, repeats)
    quote = tuning.plan(CANDIDATES, PROBLEM, PRIVACY)
    with pytest.raises(Unsuitable, match="several runs"):
        run_one(tuned(quote), PROBLEM, inputs.of_arrays(*rows, PROBLEM), quote.release)


def score(data: Data, w: Vector) -> float:
    return float(data.total(Scores(w))) / 2**17 / data.problem.unit.slots


@pytest.mark.parametrize(
    ("loss", "labels"), [(Logistic(), (-1.0, 1.0)), (Softmax(3), (0.0, 1.0, 2.0)), (Squared(), ())]
)
def test_a_record_moves_a_score_by_one_at_most_and_a_blank_one_by_half(
    loss: Loss, labels: tuple[float, ...], rows: tuple[Vector, Vector]
) -> None:
    """Records at every target, under models of every size: what each adds is in [-1/2, 1/2], and they add up."""
    rng = np.random.default_rng(5)
    problem, farthest = replace(PROBLEM, loss=loss), 0.0
    y = rng.choice(labels, N) if labels else rng.uniform(-1, 1, N)
    data = inputs.of_arrays(rows[0], y, problem)
    for size in (0.0, 0.3, 1e3, 1e90):
        w = size * rng.normal(size=problem.size)
        whole = score(data, w)
        for i in range(0, N, 29):
            without = score(replace(data, scale=np.where(np.arange(N) == i, 0.0, data.scale)), w)
            farthest = max(farthest, abs(whole - without))
            assert abs(whole - without) <= BOUND
    assert farthest == pytest.approx(BOUND, abs=1e-3 if labels else 0.2)


def test_scores_are_right_answers_and_distances(rows: tuple[Vector, Vector]) -> None:
    X, y = rows
    w = np.array([0.3, 0.1, -0.2, 0.0, 0.4, 0.05])
    data = inputs.of_arrays(X, y, PROBLEM)
    right = np.mean((X @ w > 0) == (y > 0))
    assert score(data, w) / N == pytest.approx(right - 0.5)
    number = replace(PROBLEM, loss=Squared())
    distance = np.minimum(np.abs(X @ w - X[:, 0]), 1.0).mean()
    assert score(inputs.of_arrays(X, X[:, 0], number), w) / N == pytest.approx(0.5 - distance, abs=2**-16)
    several = replace(PROBLEM, loss=Softmax(3))
    W, classes = np.random.default_rng(1).normal(size=(3, LAYOUT.d)), np.arange(N, dtype=np.float64) % 3
    actual = score(inputs.of_arrays(X, classes, several), W.ravel()) / N
    assert actual == pytest.approx(np.mean((X @ W.T).argmax(axis=1) == classes) - 0.5)


def test_the_noise_of_a_score_is_that_of_its_multiplier(rows: tuple[Vector, Vector]) -> None:
    """Of 400 scores the std is within 6 of its stds of z / 2 over n."""
    quote, data = tuning.plan(CANDIDATES, PROBLEM, PRIVACY), inputs.of_arrays(*rows, PROBLEM)
    (query,), noise = tuned(quote).trials[0].plan.queries[-1:], Noise(SeededBits(9))
    w = np.zeros(LAYOUT.d)
    drawn = [ScoreOracle(PROBLEM, data, Plan((query,)), noise).score("score", w) for _ in range(400)]
    std = query.noise_multiplier * 0.5 / N
    assert np.std(drawn) == pytest.approx(std, rel=6 / math.sqrt(800))
    assert np.mean(drawn) == pytest.approx(score(data, w) / N, abs=6 * std / 20)


def test_a_person_moves_a_score_by_one_at_most_however_many_rows_are_theirs(rows: tuple[Vector, Vector]) -> None:
    """The mean over k places: a person of k right rows adds 1/2, one without rows nothing."""
    k, people = 3, 50
    problem = replace(PROBLEM, n=people, unit=Unit("person", k))
    owners = np.repeat(np.arange(40), 4)  # of four rows each, of which three have a place; ten have none
    X, w = rows[0][:160], np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    y = np.where(X @ w > 0, 1.0, -1.0)
    data = of_persons(X, y, owners, problem, Noise(SeededBits(4)))
    assert score(data, w) == pytest.approx(BOUND * 40)
    assert score(data, -w) == pytest.approx(-BOUND * 40)
    blank = np.arange(people * k) // k == int(np.flatnonzero(data.present())[0]) // k
    without = replace(data, scale=np.where(blank, 0.0, data.scale))
    assert abs(score(without, w) - score(data, w)) == pytest.approx(BOUND)


@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
def test_a_persons_score_gets_its_noise_before_it_is_divided(rows: tuple[Vector, Vector], relation: Relation) -> None:
    """The score is a whole number of steps with the bound of k slots. A division by 3 once caused a rounding error."""
    k, people = 3, 50
    problem = replace(PROBLEM, n=people, unit=Unit("person", k), relation=relation)
    X = rows[0][: 2 * people]
    data = of_persons(X, np.sign(X[:, 0]), np.repeat(np.arange(people), 2), problem, Noise(SeededBits(4)))
    plan, w = Plan((PlannedQuery("score", 1, Gaussian(), 1.0),), relation), np.linspace(-1, 1, LAYOUT.d)
    with noiseless() as answers:
        actual = ScoreOracle(problem, data, plan, Noise()).score("score", w)
    [(value, bound)] = answers
    assert (float(value[0]) * 2**17).is_integer()
    assert bound == k * BOUND
    assert actual == pytest.approx(score(data, w) / people)
