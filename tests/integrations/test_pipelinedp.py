"""PipelineDP's own engine, whose mechanisms a session reserves and records before the pipeline runs."""

import math
from collections.abc import Mapping
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest

from accounting.divergences.gaussian import gauss_mu
from purse import Client, ProblemError
from purse.integrations.recording import UnsupportedMechanism
from tests.integrations.conftest import Register

library = pytest.importorskip("pipeline_dp", reason="PipelineDP is not installed: run `make integrations`")

from purse.integrations import pipelinedp  # noqa: E402

ROWS = [(person, person % 3, float(person % 5)) for person in range(60)]


def aggregated(
    budget: Any, kind: Any, metrics: list[Any], changes: Mapping[str, Any] = MappingProxyType({}), **options: Any
) -> Any:
    """Return the lazy result of one aggregation over ROWS; `changes` are parameters of the aggregation."""
    engine = library.DPEngine(budget, library.LocalBackend())
    parameters = library.AggregateParams(
        noise_kind=kind,
        metrics=metrics,
        max_partitions_contributed=1,
        max_contributions_per_partition=1,
        min_value=0.0,
        max_value=4.0,
        **changes,
    )
    extractors = library.DataExtractors(
        privacy_id_extractor=lambda row: row[0],
        partition_extractor=lambda row: row[1],
        value_extractor=lambda row: row[2],
    )
    return engine.aggregate(ROWS, parameters, extractors, **options)


def unreachable() -> Any:
    """Return a client that describes a dataset and opens no session."""
    dataset = SimpleNamespace(budget=SimpleNamespace(neighbors="zero_out"))
    return SimpleNamespace(datasets=SimpleNamespace(get=lambda _: dataset))


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


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("public_partitions_already_filtered", True),
        ("contribution_bounds_already_enforced", True),
        ("contribution_bounds_already_enforced", 1),
        ("perform_cross_partition_contribution_bounding", False),
        ("perform_cross_partition_contribution_bounding", 0),
    ],
)
@pytest.mark.parametrize("partitions", [None, [0, 1, 2]])
def test_an_aggregation_that_leaves_out_a_protection_is_refused(
    name: str, value: bool | int, partitions: list[int] | None
) -> None:
    """PipelineDP would release every partition of the data, or let a privacy id have any number of rows."""
    budget = pipelinedp.SessionBudgetAccountant(unreachable(), "any", total_epsilon=0.5, total_delta=0.0)
    with pytest.raises(UnsupportedMechanism, match=f"{name}={bool(value)} is not supported"):
        aggregated(
            budget,
            library.NoiseKind.LAPLACE,
            [library.Metrics.COUNT],
            {name: value},
            public_partitions=partitions,
        )
    assert not budget.mechanism_specs


@pytest.mark.parametrize("kind", list(library.NoiseKind))
def test_noise_on_values_that_pipelinedp_did_not_bound_is_refused(kind: Any) -> None:
    budget = pipelinedp.SessionBudgetAccountant(unreachable(), "any", total_epsilon=0.5, total_delta=1e-6)
    parameters = library.aggregate_params.AddDPNoiseParams(noise_kind=kind, l0_sensitivity=1, linf_sensitivity=1.0)
    with pytest.raises(UnsupportedMechanism, match="add_dp_noise"):
        library.DPEngine(budget, library.LocalBackend()).add_dp_noise([("key", 1.0)], parameters)
    assert not budget.mechanism_specs


def test_noise_of_custom_combiners_is_refused() -> None:
    budget = pipelinedp.SessionBudgetAccountant(unreachable(), "any", total_epsilon=0.5, total_delta=0.0)
    combiner = SimpleNamespace(
        request_budget=lambda accountant: accountant.request_budget(library.MechanismType.LAPLACE)
    )
    with pytest.raises(UnsupportedMechanism, match="custom_combiners"):
        aggregated(budget, library.NoiseKind.LAPLACE, [], {"custom_combiners": [combiner]}, public_partitions=[0, 1, 2])
    assert not budget.mechanism_specs


@pytest.mark.parametrize("number", [math.inf, math.nan])
@pytest.mark.parametrize("kind", list(library.NoiseKind))
def test_a_budget_that_is_not_finite_is_refused(number: float, kind: Any) -> None:
    budget = pipelinedp.SessionBudgetAccountant(unreachable(), "any", total_epsilon=number, total_delta=1e-6)
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
    budget = pipelinedp.SessionBudgetAccountant(unreachable(), "any", total_epsilon=1.0, total_delta=1e-6)
    with pytest.raises(UnsupportedMechanism):
        aggregated(budget, library.NoiseKind.LAPLACE, [library.Metrics.COUNT])
    with pytest.raises(UnsupportedMechanism):
        aggregated(budget, library.NoiseKind.GAUSSIAN, [library.Metrics.VARIANCE], public_partitions=[0])
