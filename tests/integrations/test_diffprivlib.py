"""diffprivlib's own models and tools, whose epsilon a session records before they compute."""

import copy
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from accounting.privacy import Unit
from purse import Client, ProblemError
from purse.integrations.recording import NotCovered, UnsupportedMechanism, pure_event
from tests.integrations.conftest import Register
from tests.support.recorded import Recorded

library = pytest.importorskip("diffprivlib", reason="diffprivlib is not installed: run `make integrations`")

from purse.integrations import diffprivlib  # noqa: E402

ROWS = np.linspace(0, 1, 60).reshape(20, 3)
CLASSES = np.arange(20) % 2
BOUNDS = (0.0, 1.0)


@pytest.fixture(autouse=True)
def _warnings_restored() -> Any:
    with warnings.catch_warnings():
        yield


def dataset(relation: str = "zero_out", rows: int | None = None) -> Any:
    unit = Unit() if rows is None else Unit("person", rows)
    return SimpleNamespace(unit=unit, budget=SimpleNamespace(neighbors=relation))


def accountant(*epsilons: float) -> tuple[Any, Recorded]:
    session = Recorded([(pure_event(epsilon, 1), 1) for epsilon in epsilons])
    return diffprivlib.SessionAccountant(session.handle, dataset()), session


ANSWERS: dict[str, Any] = {
    "mean": lambda a: library.tools.mean(ROWS, bounds=BOUNDS, epsilon=0.5, accountant=a),
    "std": lambda a: library.tools.std(ROWS, bounds=BOUNDS, epsilon=0.5, accountant=a),
    "sum": lambda a: library.tools.sum(ROWS, bounds=BOUNDS, epsilon=0.5, accountant=a),
    "median": lambda a: library.tools.median(ROWS, bounds=BOUNDS, epsilon=0.5, accountant=a),
    "histogram": lambda a: library.tools.histogram(ROWS, range=BOUNDS, epsilon=0.5, accountant=a),
    "histogramdd": lambda a: library.tools.histogramdd(ROWS, range=[BOUNDS] * 3, bins=2, epsilon=0.5, accountant=a),
    "logistic": lambda a: library.models.LogisticRegression(epsilon=0.5, data_norm=2.0, accountant=a).fit(
        ROWS, CLASSES
    ),
    "naive_bayes": lambda a: library.models.GaussianNB(epsilon=0.5, bounds=BOUNDS, accountant=a).fit(ROWS, CLASSES),
    "scaler": lambda a: library.models.StandardScaler(epsilon=0.5, bounds=BOUNDS, accountant=a).fit(ROWS),
    "pca": lambda a: library.models.PCA(1, epsilon=0.5, data_norm=2.0, bounds=BOUNDS, accountant=a).fit(ROWS),
    "tree": lambda a: library.models.DecisionTreeClassifier(
        max_depth=2, epsilon=0.5, bounds=BOUNDS, classes=[0, 1], accountant=a
    ).fit(ROWS, CLASSES),
    "linear": lambda a: library.models.LinearRegression(
        epsilon=0.5, bounds_X=BOUNDS, bounds_y=BOUNDS, fit_intercept=False, accountant=a
    ).fit(ROWS, ROWS[:, 0]),
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=list(ANSWERS))
def test_each_answer_is_recorded_once_with_its_stated_epsilon(answer: Any) -> None:
    budget, session = accountant(0.5)
    answer(budget)
    assert session.total == 1
    assert budget.spent_budget == [(0.5, 0)]
    assert budget.total() == (0.5, 0)
    with pytest.raises(Recorded.Exhausted):
        answer(budget)
    assert budget.spent_budget == [(0.5, 0)]


def test_an_answer_beyond_the_plan_is_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    budget, session = accountant(0.5)
    drawn: list[int] = []
    mechanism = library.tools.utils.LaplaceTruncated
    randomise = mechanism.randomise

    def drawing(self: Any, value: float) -> Any:
        drawn.append(session.total)
        return randomise(self, value)

    monkeypatch.setattr(mechanism, "randomise", drawing)
    ANSWERS["mean"](budget)
    with pytest.raises(Recorded.Exhausted):
        ANSWERS["mean"](budget)
    assert drawn == [1]


def test_the_parts_of_an_array_are_recorded_each() -> None:
    budget, session = accountant(*[0.5 / 3] * 3)
    library.tools.mean(ROWS, bounds=BOUNDS, epsilon=0.5, axis=0, accountant=budget)
    assert session.total == 3


def test_an_answer_that_fails_stays_recorded() -> None:
    budget, session = accountant(0.5, 0.5)
    with pytest.raises(ValueError, match=r"(?i)bound|lower"):
        library.tools.mean(ROWS, bounds=(1.0, 0.0), epsilon=0.5, accountant=budget)
    with pytest.raises(ValueError, match="class"):
        library.models.LogisticRegression(epsilon=0.5, data_norm=2.0, accountant=budget).fit(ROWS, np.zeros(20))
    assert session.total >= 1
    assert budget.spent_budget == []


def test_bounds_that_are_read_from_the_data_are_an_error() -> None:
    budget, session = accountant(0.5)
    with pytest.raises(library.utils.PrivacyLeakWarning):
        library.models.LogisticRegression(epsilon=0.5, accountant=budget).fit(ROWS, CLASSES)
    assert session.total == 1


def test_models_that_reveal_more_than_they_state_are_refused() -> None:
    budget, session = accountant(0.5)
    linear = library.models.LinearRegression(epsilon=0.5, bounds_X=BOUNDS, bounds_y=BOUNDS, accountant=budget)
    with pytest.raises(UnsupportedMechanism):
        linear.fit(ROWS, ROWS[:, 0])
    with pytest.raises(UnsupportedMechanism):
        library.models.KMeans(2, epsilon=0.5, bounds=BOUNDS, accountant=budget).fit(ROWS)
    with pytest.raises(UnsupportedMechanism):
        budget.spend(0.5, 1e-6)
    assert session.total == 0


SEEDED: dict[str, Any] = {
    "mean": lambda a: library.tools.mean(ROWS, bounds=BOUNDS, epsilon=0.5, random_state=1, accountant=a),
    "sum": lambda a: library.tools.sum(ROWS, bounds=BOUNDS, epsilon=0.5, random_state=1, accountant=a),
    "var": lambda a: library.tools.var(ROWS, bounds=BOUNDS, epsilon=0.5, random_state=1, accountant=a),
    "median": lambda a: library.tools.median(ROWS, bounds=BOUNDS, epsilon=0.5, random_state=1, accountant=a),
    "columns": lambda a: library.tools.mean(ROWS, bounds=BOUNDS, epsilon=1.5, axis=0, random_state=1, accountant=a),
    "histogram": lambda a: library.tools.histogram(ROWS, range=BOUNDS, epsilon=0.5, random_state=1, accountant=a),
    "generator": lambda a: library.tools.mean(
        ROWS, bounds=BOUNDS, epsilon=0.5, random_state=np.random.RandomState(1), accountant=a
    ),
    "logistic": lambda a: library.models.LogisticRegression(
        epsilon=0.5, data_norm=2.0, random_state=1, accountant=a
    ).fit(ROWS, CLASSES),
    "naive_bayes": lambda a: library.models.GaussianNB(epsilon=0.5, bounds=BOUNDS, random_state=1, accountant=a).fit(
        ROWS, CLASSES
    ),
    "scaler": lambda a: library.models.StandardScaler(epsilon=0.5, bounds=BOUNDS, random_state=1, accountant=a).fit(
        ROWS
    ),
    "tree": lambda a: library.models.DecisionTreeClassifier(
        max_depth=2, epsilon=0.5, bounds=BOUNDS, classes=[0, 1], random_state=1, accountant=a
    ).fit(ROWS, CLASSES),
}


@pytest.mark.parametrize("answer", SEEDED.values(), ids=list(SEEDED))
def test_a_chosen_seed_is_refused(answer: Any) -> None:
    """With it, the noise can be drawn again and subtracted."""
    budget, session = accountant(0.5, 0.5, 0.5)
    with pytest.raises(UnsupportedMechanism, match="random_state is not supported"):
        answer(budget)
    assert session.total == 0


def test_a_forest_whose_trees_have_seeds_is_refused() -> None:
    budget, session = accountant(0.5)
    forest = library.models.RandomForestClassifier(2, epsilon=0.5, bounds=BOUNDS, classes=[0, 1], accountant=budget)
    with pytest.raises(UnsupportedMechanism, match="RandomForestClassifier"):
        forest.fit(ROWS, CLASSES)
    assert session.total == 0


def test_jobs_that_draw_the_same_noise_are_refused() -> None:
    budget, session = accountant(0.5, 0.5)
    parallel_config = pytest.importorskip("joblib").parallel_config
    model = library.models.LogisticRegression(epsilon=0.5, data_norm=2.0, n_jobs=2, accountant=budget)
    with pytest.raises(UnsupportedMechanism, match="n_jobs=1"):
        model.fit(ROWS, CLASSES)
    with parallel_config("loky", n_jobs=2), pytest.raises(UnsupportedMechanism, match="n_jobs=1"):
        model.set_params(n_jobs=None).fit(ROWS, CLASSES)
    assert session.total == 0
    model.set_params(n_jobs=1).fit(ROWS, CLASSES)
    assert session.total == 1


def test_the_intercept_of_linear_regression_spends_more_than_its_epsilon(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused because the epsilons of its noise add up to more than the stated epsilon."""
    spent: list[float] = []
    module = library.models.linear_regression

    def spending(function: Any) -> Any:
        def call(*arguments: Any, epsilon: float, **options: Any) -> Any:
            spent.append(epsilon)
            return function(*arguments, epsilon=epsilon, **options)

        return call

    for name in ("mean", "_construct_regression_obj"):
        monkeypatch.setattr(module, name, spending(getattr(module, name)))
    model = library.models.LinearRegression(epsilon=1.0, bounds_X=BOUNDS, bounds_y=BOUNDS)
    model.fit(ROWS, ROWS[:, 0])
    assert sum(spent) == pytest.approx(1.25)


def test_a_spend_without_a_check_is_recorded_and_copies_share_one_record() -> None:
    budget, session = accountant(0.5)
    assert copy.deepcopy(budget) is copy.copy(budget) is budget
    budget.spend(0.5, 0)
    assert (session.total, len(budget)) == (1, 1)
    with pytest.raises(Recorded.Exhausted):
        budget.spend(0.5, 0)
    with pytest.raises(NotCovered):
        budget.spend(0.6, 0)


@pytest.mark.parametrize("epsilon", [0.0, -0.5, np.inf, np.nan])
def test_an_epsilon_that_bounds_nothing_is_not_recorded(epsilon: float) -> None:
    budget, session = accountant(0.5)
    with pytest.raises((UnsupportedMechanism, ValueError)):
        budget.check(epsilon, 0)
    with pytest.raises((UnsupportedMechanism, ValueError)):
        budget.spend(epsilon, 0)
    assert session.total == 0


@pytest.mark.slow
@pytest.mark.parametrize(("neighbors", "factor"), [("zero_out", 1), ("replace_one", 2)])
def test_a_model_on_a_real_server(client: Client, register: Register, neighbors: str, factor: int) -> None:
    registered = register(neighbors=neighbors)
    budget = diffprivlib.reserve(client, registered, epsilons=[0.25])
    with budget.session:
        library.models.LogisticRegression(epsilon=0.25, data_norm=2.0, accountant=budget).fit(ROWS, CLASSES)
        with pytest.raises(ProblemError) as refused:
            library.tools.mean(ROWS, bounds=BOUNDS, epsilon=0.25, accountant=budget)
    assert refused.value.code == "session_exhausted"
    (part,) = budget.session.refresh().plan
    assert part.event["epsilon"] == pytest.approx(0.25 * factor)
    assert f"{factor} times" in (budget.session.session.title or "")
