"""PipelineDP's own engine, whose mechanisms a session reserves and records before the pipeline runs."""

import math
from types import SimpleNamespace
from typing import Any

import pytest

from accounting.divergences.gaussian import gauss_mu
from purse import Client, ProblemError
from purse.integrations.recording import UnsupportedMechanism
from tests.integrations.conftest import Register

library = pytest.importorskip("pipeline_dp", reason="PipelineDP is not installed: run `make integrations`")

from purse.integrations import pipelinedp  # noqa: E402

ROWS = [(person, person % 3, float(person % 5)) for person in range(60)]


def aggregated(budget: Any, kind: Any, metrics: list[Any], **options: Any) -> Any:
    """Return the lazy result of one aggregation over ROWS."""
    engine = library.DPEngine(budget, library.LocalBackend())
    parameters = library.AggregateParams(
        noise_kind=kind,
        metrics=metrics,
        max_partitions_contributed=1,
        max_contributions_per_partition=1,
        min_value=0.0,
        max_value=4.0,
    )
    extractors = library.DataExtractors(
        privacy_id_extractor=lambda row: row[0],
        partition_extractor=lambda row: row[1],
        value_extractor=lambda row: row[2],
    )
    return engine.aggregate(ROWS, parameters, extractors, **options)


@pytest.mark.slow
@pytest.mark.parametrize(("neighbors", "factor"), [("zero_out", 1), ("replace_one", 2)])
def test_laplace_noise_is_charged_as_its_epsilon(
    client: Client, register: Register, neighbors: str, factor: int
) -> None:
    dataset = register(neighbors=neighbors)
    budget = pipelinedp.SessionBudgetAccountant(client, dataset, total_epsilon=0.5, total_delta=0.0)
    metrics = [library.Metrics.COUNT, library.Metrics.SUM]
    result = aggregated(budget, library.NoiseKind.LAPLACE, metrics, public_partitions=[0, 1, 2])
    assert not client.sessions.list(dataset=dataset)
    budget.compute_budgets()
    assert budget.session is not None
    assert [part.recorded for part in budget.session.plan] == [1, 1]
    assert sum(part.event["epsilon"] for part in budget.session.plan) == pytest.approx(0.5 * factor)
    assert len(dict(result)) == 3
    assert budget.session.close().charged.epsilon == pytest.approx(0.5 * factor, rel=0.5)


@pytest.mark.slow
def test_gaussian_noise_is_charged_as_a_gaussian_event(client: Client, register: Register) -> None:
    budget = pipelinedp.SessionBudgetAccountant(client, register(), total_epsilon=0.5, total_delta=1e-7)
    result = aggregated(budget, library.NoiseKind.GAUSSIAN, [library.Metrics.COUNT], public_partitions=[0, 1, 2])
    budget.compute_budgets()
    assert budget.session is not None
    (part,) = budget.session.plan
    assert part.event["type"] == "GaussianDpEvent"
    assert len(dict(result)) == 3


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-9), (1.0, 1e-6), (3.0, 1e-3)])
def test_the_charged_multiplier_is_below_that_of_every_noise_with_this_guarantee(epsilon: float, delta: float) -> None:
    charged = pipelinedp.smallest_multiplier(epsilon, delta)
    exact = 1 / gauss_mu(epsilon, delta)
    assert 0.99 * exact < charged < exact


@pytest.mark.parametrize("number", [math.inf, math.nan])
@pytest.mark.parametrize("kind", list(library.NoiseKind))
def test_a_budget_that_is_not_finite_is_refused(number: float, kind: Any) -> None:
    unreachable: Any = SimpleNamespace(
        datasets=SimpleNamespace(get=lambda _: SimpleNamespace(budget=SimpleNamespace(neighbors="zero_out")))
    )
    budget = pipelinedp.SessionBudgetAccountant(unreachable, "any", total_epsilon=number, total_delta=1e-6)
    aggregated(budget, kind, [library.Metrics.COUNT], public_partitions=[0, 1, 2])
    with pytest.raises((UnsupportedMechanism, RuntimeError)):
        budget.compute_budgets()
    assert budget.session is None


@pytest.mark.slow
def test_a_pipeline_that_does_not_fit_gets_no_budget(client: Client, register: Register) -> None:
    budget = pipelinedp.SessionBudgetAccountant(client, register(), total_epsilon=50.0, total_delta=0.0)
    result = aggregated(budget, library.NoiseKind.LAPLACE, [library.Metrics.COUNT], public_partitions=[0, 1, 2])
    with pytest.raises(ProblemError) as refused:
        budget.compute_budgets()
    assert refused.value.code == "budget_exhausted"
    with pytest.raises(AssertionError, match="not calculated"):
        dict(result)


def test_mechanisms_that_no_event_bounds_are_refused() -> None:
    dataset: Any = SimpleNamespace(budget=SimpleNamespace(neighbors="zero_out"))
    client: Any = SimpleNamespace(datasets=SimpleNamespace(get=lambda _: dataset))
    budget = pipelinedp.SessionBudgetAccountant(client, "any", total_epsilon=1.0, total_delta=1e-6)
    with pytest.raises(UnsupportedMechanism):
        aggregated(budget, library.NoiseKind.LAPLACE, [library.Metrics.COUNT])
    with pytest.raises(UnsupportedMechanism):
        aggregated(budget, library.NoiseKind.GAUSSIAN, [library.Metrics.VARIANCE], public_partitions=[0])
