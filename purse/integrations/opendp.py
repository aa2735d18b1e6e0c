"""OpenDP: an odometer that records the privacy loss of a measurement in a session before it invokes the measurement.

    odometer = reserve(client, "people", [histogram])
    with odometer.session:
        counts = odometer.invoke(histogram, rows)

The adapter evaluates the measurement's privacy map at the distance between neighbors of the dataset. Metrics count
rows: SymmetricDistance and InsertDeleteDistance count a replaced row twice, ChangeOneDistance and HammingDistance
count it once. A measurement must therefore take the rows of the dataset. Chain it with its transformations.

Only pure epsilon is charged: MaxDivergence, or Approximate(MaxDivergence) with delta 0. Gaussian noise is refused. The
privacy map of OpenDP's discrete Gaussian states rho of zero-concentrated DP, and a measurement does not state which
mechanism it is, so rho is all that is known. It bounds the Renyi divergence of order a by a rho, as for the Gaussian
event of noise multiplier 1 / sqrt(2 rho). The default filter and `gdp` charge that event by mu = sqrt(2 rho), but a
measurement with this rho can have a larger mu (docs/proofs/relation.md).

An interactive measurement, such as a compositor, is recorded as a whole when it is invoked. OpenDP's own noise is exact
on its lattice.
"""

from collections.abc import Sequence
from typing import Any, Final

from purse.client import Client, SessionHandle
from purse.extras import needing
from purse.integrations.recording import (
    Reservation,
    UnsupportedMechanism,
    changed_rows,
    described,
    pure_event,
    record,
)
from purse.wire.datasets import Dataset

with needing("purse.integrations.opendp", "opendp"):
    import opendp.prelude as dp

_ADDED_AND_REMOVED: Final = ("SymmetricDistance()", "InsertDeleteDistance()")
_CHANGED: Final = ("ChangeOneDistance()", "HammingDistance()")


class Odometer:
    """Invocations of measurements that a session records.

    Parameters
    ----------
    session : a handle whose plan has the events of `event_of(measurement, dataset)`, as `reserve` opens it
    dataset : the session's dataset, as `client.datasets.get` returns it
    """

    def __init__(self, session: SessionHandle, dataset: Dataset) -> None:
        self.session = session
        self._dataset = dataset

    def invoke(self, measurement: Any, rows: Any) -> Any:
        """Record a measurement, then return its answer about the rows.

        Raises
        ------
        UnsupportedMechanism
            if no event bounds its privacy loss.
        NotCovered, ProblemError
            if the plan has no such answer left; then the measurement is not invoked.
        """
        record(self.session, event_of(measurement, self._dataset))
        return measurement(rows)


def event_of(measurement: Any, dataset: Dataset) -> dict[str, Any]:
    """Return the event of one invocation of an OpenDP measurement about this dataset.

    Raises
    ------
    UnsupportedMechanism
        if the measurement's input is not the rows of a dataset, or its privacy map states no pure epsilon.
    """
    loss = measurement.map(distance(measurement, dataset))
    measure = measurement.output_measure
    if measure == dp.max_divergence():
        epsilon, delta = loss, 0.0
    elif measure == dp.approximate(dp.max_divergence()):
        epsilon, delta = loss
    else:
        raise UnsupportedMechanism(
            f"The output measure {measure} is not supported in a session, because no event bounds it. "
            "Use a measurement with MaxDivergence, such as Laplace noise"
        )
    if delta != 0:
        raise UnsupportedMechanism(
            f"A measurement with delta {delta} is not supported in a session, because no filter can charge a "
            "measurement by its epsilon and delta alone. Use a measurement with delta 0"
        )
    return pure_event(epsilon, 1)  # the map was evaluated at the distance of neighbors


def distance(measurement: Any, dataset: Dataset) -> int:
    """Return the distance between neighbors of the dataset in the measurement's input metric.

    Raises
    ------
    UnsupportedMechanism
        if the metric does not count rows, or counts changed rows although a person may have fewer of them.
    """
    metric = str(measurement.input_metric)
    if metric in _ADDED_AND_REMOVED:
        return changed_rows(dataset)
    if metric not in _CHANGED:
        raise UnsupportedMechanism(
            f"The input metric {metric} is not supported in a session, because it does not count rows of the dataset. "
            "Chain the measurement with its transformations, from SymmetricDistance on"
        )
    if dataset.unit.is_person:
        raise UnsupportedMechanism(
            f"{metric} compares datasets of equally many rows, but persons have different numbers of rows. "
            "Use SymmetricDistance"
        )
    return 1


def reserve(
    client: Client,
    dataset: Dataset | str,
    measurements: Sequence[Any],
    *,
    title: str | None = None,
    lifetime: int | None = None,
) -> Odometer:
    """Reserve budget for planned measurements, and return their odometer.

    Parameters
    ----------
    measurements : one OpenDP measurement for each planned answer; a later one may have a smaller loss than planned
    title : title of the session; by default the library and its version
    lifetime : seconds after which the session expires and its whole plan stays charged

    Raises
    ------
    UnsupportedMechanism
        if no event bounds the privacy loss of a measurement.
    ProblemError
        with the code `budget_exhausted` if the plan does not fit the budget.
    """
    declared = described(client, dataset)
    events = [event_of(measurement, declared) for measurement in measurements]
    reservation = Reservation(client, "opendp", "pure epsilon by its privacy maps", title, lifetime)
    return Odometer(reservation.open(declared, events=events), declared)
