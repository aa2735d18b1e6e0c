"""OpenDP's own measurements, recorded before they are invoked."""

import math
from types import SimpleNamespace
from typing import Any

import pytest

from accounting.divergences import randomized_response
from accounting.privacy import Unit
from purse import Client, ProblemError
from purse.integrations.recording import UnsupportedMechanism
from tests.integrations.conftest import Register
from tests.support.recorded import Recorded

dp = pytest.importorskip("opendp.prelude", reason="OpenDP is not installed: run `make integrations`")

from purse.integrations import opendp  # noqa: E402

dp.enable_features("contrib", "honest-but-curious")
SPACE = dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance()
CATEGORIES = ["low", "high"]


def histogram(scale: float = 2.0, space: Any = SPACE) -> Any:
    return space >> dp.t.then_count_by_categories(categories=CATEGORIES) >> dp.m.then_laplace(scale=scale)


def gaussian() -> Any:
    counts = dp.t.then_count_by_categories(categories=CATEGORIES, MO="L2Distance<i32>")
    return SPACE >> counts >> dp.m.then_gaussian(scale=2.0)


def dataset(relation: str = "zero_out", rows: int | None = None) -> Any:
    unit = Unit() if rows is None else Unit("person", rows)
    return SimpleNamespace(unit=unit, budget=SimpleNamespace(neighbors=relation))


@pytest.mark.parametrize(
    ("relation", "rows", "factor"),
    [("zero_out", None, 1), ("replace_one", None, 2), ("zero_out", 3, 3), ("replace_one", 3, 6)],
)
def test_epsilon_is_that_of_the_privacy_map_at_the_distance_of_neighbors(
    relation: str, rows: int | None, factor: int
) -> None:
    event = opendp.event_of(histogram(), dataset(relation, rows))
    assert event["epsilon"] == pytest.approx(factor / 2.0)
    assert event["epsilon"] >= histogram().map(factor)


def user_measurement(metric: Any) -> Any:
    return dp.m.make_user_measurement(
        input_domain=dp.vector_domain(dp.atom_domain(T=int)),
        input_metric=metric,
        output_measure=dp.max_divergence(),
        function=lambda _: 0,
        privacy_map=lambda d_in: 0.5 * d_in,
    )


def test_a_metric_of_changed_rows_counts_a_replaced_row_once() -> None:
    measurement = user_measurement(dp.change_one_distance())
    assert (
        opendp.distance(measurement, dataset("replace_one")) == opendp.distance(measurement, dataset("zero_out")) == 1
    )
    assert opendp.distance(user_measurement(dp.insert_delete_distance()), dataset("replace_one")) == 2
    with pytest.raises(UnsupportedMechanism):
        opendp.distance(measurement, dataset("zero_out", 3))


def test_losses_that_no_event_bounds_are_refused() -> None:
    fixed = dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(gaussian()), 1e-6)
    for measurement in (gaussian(), fixed, dp.c.make_zCDP_to_approxDP(gaussian())):
        with pytest.raises(UnsupportedMechanism):
            opendp.event_of(measurement, dataset())
    with pytest.raises(UnsupportedMechanism):
        opendp.event_of(dp.m.make_randomized_response_bool(0.75), dataset())
    approximate = dp.c.make_approximate(histogram())
    assert opendp.event_of(approximate, dataset())["epsilon"] == pytest.approx(0.5)


def test_gaussian_noise_with_the_rho_of_a_measurement_can_cost_less_than_the_measurement() -> None:
    """Therefore rho is refused: randomized response has a larger mu than Gaussian noise with its rho."""
    probability = math.exp(0.5) / (1 + math.exp(0.5))
    response = dp.c.make_pureDP_to_zCDP(dp.m.make_randomized_response_bool(probability))
    rho = response.map(1)
    assert rho == pytest.approx(0.125)
    assert randomized_response.gdp(0.5) == pytest.approx(0.624, rel=0.001)
    assert randomized_response.gdp(0.5) > math.sqrt(2 * rho)
    with pytest.raises(UnsupportedMechanism, match="Zero"):
        opendp.event_of(dp.c.make_pureDP_to_zCDP(histogram()), dataset())


@pytest.mark.parametrize("epsilon", [0.0, math.inf])
def test_a_privacy_map_without_a_positive_finite_epsilon_is_refused(epsilon: float) -> None:
    measurement = dp.m.make_user_measurement(
        *SPACE, output_measure=dp.max_divergence(), function=lambda _: 0, privacy_map=lambda _: epsilon
    )
    session = Recorded([({"type": "EpsilonDeltaDpEvent", "epsilon": 0.5, "delta": 0.0}, 1)])
    with pytest.raises(UnsupportedMechanism):
        opendp.Odometer(session.handle, dataset()).invoke(measurement, ["low"])
    assert session.total == 0


def test_a_measurement_beyond_the_plan_is_not_invoked() -> None:
    invoked: list[int] = []

    def function(_: Any) -> int:
        invoked.append(1)
        return 7

    measurement = dp.m.make_user_measurement(
        *SPACE, output_measure=dp.max_divergence(), function=function, privacy_map=lambda d_in: 0.5 * d_in
    )
    session = Recorded([({"type": "EpsilonDeltaDpEvent", "epsilon": 0.5, "delta": 0.0}, 1)])
    odometer = opendp.Odometer(session.handle, dataset())
    assert odometer.invoke(measurement, ["low"]) == 7
    with pytest.raises(Recorded.Exhausted):
        odometer.invoke(measurement, ["low"])
    assert invoked == [1]


def test_a_compositor_is_recorded_as_a_whole_when_it_is_invoked() -> None:
    compositor = dp.c.make_adaptive_composition(
        input_domain=SPACE[0], input_metric=SPACE[1], output_measure=dp.max_divergence(), d_in=1, d_mids=[0.5, 0.5]
    )
    session = Recorded([(opendp.event_of(compositor, dataset()), 1)])
    queryable = opendp.Odometer(session.handle, dataset()).invoke(compositor, ["low", "high"])
    assert session.total == 1
    assert len(queryable(histogram())) == 3
    assert session.plan[0].event["epsilon"] == pytest.approx(1.0)


@pytest.mark.slow
def test_a_histogram_on_a_real_server(client: Client, register: Register) -> None:
    registered = register(neighbors="replace_one")
    odometer = opendp.reserve(client, registered, [histogram(10.0)])
    with odometer.session:
        assert len(odometer.invoke(histogram(10.0), ["low", "high", "low"])) == 3
        with pytest.raises(ProblemError) as refused:
            odometer.invoke(histogram(10.0), ["low"])
    assert refused.value.code == "session_exhausted"
    (part,) = odometer.session.refresh().plan
    assert part.recorded == 1
    assert part.event["epsilon"] == pytest.approx(0.2)
    receipt = odometer.session.receipt()
    receipt.verify()
    assert "opendp" in receipt.facts["title"]
