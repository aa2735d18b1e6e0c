"""PipelineDP: a `BudgetAccountant` that reserves and records a pipeline's mechanisms when their budgets are computed.

    accountant = SessionBudgetAccountant(client, "people", total_epsilon=1.0, total_delta=0.0)
    engine = pipeline_dp.DPEngine(accountant, backend)
    result = engine.aggregate(rows, params, extractors, public_partitions=[...])
    accountant.compute_budgets()        # reserves and records; the lazy pipeline has not read a row yet

PipelineDP protects all rows of one privacy id, added or removed. A privacy id must be the dataset's unit: the person,
or the row. Laplace noise is charged as its pure epsilon, which is doubled under replace_one. Gaussian noise is charged
as a GaussianDpEvent with the smallest multiplier that satisfies its (epsilon, delta), so the charge is at least its
real cost under either relation (docs/proofs/integrations.md). Its noise is PyDP's, which rounds on a lattice.

Private partition selection is refused, because it may reveal a partition with probability delta, and no event of a
session bounds that. Pass `public_partitions`. Gaussian noise for variances, vector sums and percentiles is refused,
because PipelineDP divides its budget in other ways. Use Laplace noise for these. Parameters with which PipelineDP
leaves out a protection are refused, too.

The accountant does not see some uses of PipelineDP. Spark computes a result again for each action and Beam for each run
of the pipeline, with fresh noise that is not recorded: store the first result. `calculate_private_contribution_bounds`
spends its `calculation_eps` outside of every accountant: do not use it on records of a session's dataset.
"""

import math
import sys
from typing import Any, Final

from purse.client import Client, SessionHandle
from purse.extras import needing
from purse.integrations.recording import (
    Reservation,
    UnsupportedMechanism,
    changed_units,
    described,
    pure_event,
    record,
    repeated,
)
from purse.wire.datasets import Dataset

with needing("purse.integrations.pipelinedp", "pipelinedp"):
    from pipeline_dp.aggregate_params import MechanismType
    from pipeline_dp.budget_accounting import MechanismSpec, NaiveBudgetAccountant
    from pipeline_dp.dp_computations import compute_sigma, gaussian_delta

_ONE_GAUSSIAN: Final = frozenset({"Count", "Sum", "MeanCount", "MeanSum", "PrivacyIdCount"})
"""Names of mechanisms whose Gaussian noise has the whole (epsilon, delta) of the mechanism."""
_STEP: Final = 1 - 2**-10
_UNPROTECTED: Final = (
    (
        "public_partitions_already_filtered",
        True,
        "PipelineDP then releases every partition of the data. Pass all rows and public_partitions",
    ),
    (
        "contribution_bounds_already_enforced",
        True,
        "PipelineDP then does not bound the rows of a privacy id. Extract a privacy id, such as the number of the row",
    ),
    (
        "perform_cross_partition_contribution_bounding",
        False,
        "PipelineDP then does not bound the partitions of a privacy id. Leave it out",
    ),
)
"""Parameters of an aggregation, the value with which it leaves out a protection, and what to do instead."""


class SessionBudgetAccountant(NaiveBudgetAccountant):  # type: ignore[misc]
    """PipelineDP's accountant by basic composition, which records its mechanisms in a session.

    Parameters
    ----------
    client : a client whose token may open sessions
    dataset : the dataset, or its id or name
    total_epsilon, total_delta : budget of the pipeline, as PipelineDP divides it
    title : title of the session; by default the library and its version
    lifetime : seconds after which the session expires and its whole plan stays charged
    options : `num_aggregations` or `aggregation_weights` of PipelineDP
    """

    def __init__(
        self,
        client: Client,
        dataset: Dataset | str,
        total_epsilon: float,
        total_delta: float,
        *,
        title: str | None = None,
        lifetime: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(total_epsilon, total_delta, **options)
        self.session: SessionHandle | None = None
        self._dataset = described(client, dataset)
        self._reservation = Reservation(client, "pipeline-dp", "all rows of one privacy id", title, lifetime)

    def request_budget(self, mechanism_type: MechanismType, *arguments: Any, **options: Any) -> MechanismSpec:
        """Return a mechanism whose budget `compute_budgets` sets; `UnsupportedMechanism` if no event bounds it."""
        if mechanism_type not in (MechanismType.LAPLACE, MechanismType.GAUSSIAN):
            raise UnsupportedMechanism(
                f"{mechanism_type.value} is not supported in a session, because it reveals a partition with "
                "probability delta. Pass public_partitions"
            )
        name = options.get("name", "")
        if name == "AddDPNoise":
            raise UnsupportedMechanism(
                "add_dp_noise is not supported in a session, because PipelineDP then bounds no contributions and "
                "releases every key. Use aggregate"
            )
        if mechanism_type == MechanismType.GAUSSIAN and name not in _ONE_GAUSSIAN:
            raise UnsupportedMechanism(
                f"Gaussian noise for {name or 'this mechanism'} is not supported in a session, because PipelineDP "
                "divides its epsilon and delta further. Use Laplace noise"
            )
        return super().request_budget(mechanism_type, *arguments, **options)

    def scope(self, weight: float) -> Any:
        """Return the scope of an aggregation. PipelineDP's engine calls this before it plans a mechanism.

        Raises
        ------
        UnsupportedMechanism
            if the parameters of the aggregation leave out a protection.
        """
        _refuse_unprotected(sys._getframe(1).f_locals.get("params"))
        return super().scope(weight)

    def compute_budgets(self) -> None:
        """Reserve and record all mechanisms of the pipeline, then let it run.

        Raises
        ------
        ProblemError
            with the code `budget_exhausted` if they do not fit the budget; then no mechanism has a budget, and the
            pipeline cannot run.
        """
        super().compute_budgets()
        try:
            self._reserve_and_record()
        except BaseException:
            for spec in self.mechanism_specs:
                spec._eps = spec._delta = None  # as before, so that no answer can be computed
            raise

    def _reserve_and_record(self) -> None:
        events = [self._event(spec) for spec in self.mechanism_specs]
        if events:
            plan = [repeated(single, count) for single, count in events]
            self.session = self._reservation.open(self._dataset, events=plan)
            for single, count in events:
                record(self.session, single, count)

    def _event(self, spec: MechanismSpec) -> tuple[dict[str, Any], int]:
        """Return the event of one use of a mechanism with a budget, and the number of its uses."""
        if spec.mechanism_type == MechanismType.GAUSSIAN:
            multiplier = smallest_multiplier(spec.eps, spec.delta)
            return {"type": "GaussianDpEvent", "noise_multiplier": multiplier}, spec.count
        return pure_event(spec.eps, changed_units(self._dataset)), spec.count


def _refuse_unprotected(params: object) -> None:
    """Raise `UnsupportedMechanism` for parameters of an aggregation whose epsilon bounds no privacy loss."""
    for name, unprotected, reason in _UNPROTECTED:
        if bool(getattr(params, name, not unprotected)) is unprotected:
            raise UnsupportedMechanism(f"{name}={unprotected} is not supported in a session, because {reason}")
    if getattr(params, "custom_combiners", None):
        raise UnsupportedMechanism(
            "custom_combiners are not supported in a session, because they draw their own noise. Use metrics"
        )


def smallest_multiplier(epsilon: float, delta: float) -> float:
    """Return a noise multiplier at or below that of every Gaussian mechanism with this (epsilon, delta).

    The exact delta of Gaussian noise decreases in the multiplier. The result has an exact delta above the stated one,
    so a mechanism that satisfies the stated one has more noise.
    """
    multiplier = float(compute_sigma(epsilon, delta, 1.0))
    while gaussian_delta(multiplier, epsilon) <= delta * (1 + 2**-20):
        multiplier *= _STEP
    if not multiplier > 0 or not math.isfinite(multiplier):
        raise UnsupportedMechanism(
            f"no Gaussian noise satisfies epsilon {epsilon} and delta {delta}. Raise epsilon or delta"
        )
    return multiplier
