"""The calculator: the noise that a mechanism needs for a privacy target, without a dataset."""

from typing import Annotated

from fastapi import Depends, Request
from pydantic import Field

from accounting.mechanisms import Gaussian, Laplace, PoissonGaussian
from accounting.plan import MAX_COUNT
from accounting.privacy import Privacy, Relation
from app.calculation.pool import accepted
from app.calculation.questions import Calibrate, Calibrated
from app.http.body import JsonBody
from app.http.dependencies import while_connected
from app.http.errors import responses
from app.http.queries import strict_router
from app.identity.dependencies import Anyone, Calculations, Capacity
from purse.wire.base import Delta, Epsilon, Wire
from purse.wire.outside import Calibration

router = strict_router(prefix="/v1", tags=["calculator"])


class CalibrationRequest(Wire):
    """A mechanism, and the guarantee for all its answers together."""

    mechanism: Annotated[Gaussian | Laplace | PoissonGaussian, Field(discriminator="name")]
    """The mechanism of each answer."""
    count: Annotated[int, Field(ge=1, le=MAX_COUNT)] = 1
    """Number of answers."""
    epsilon: Epsilon
    delta: Delta = 0.0
    neighbors: Relation = "replace_one"
    """Neighboring relation."""


@router.post("/calibrations", summary="Calculate noise", responses=responses("unsupported_combination"))
async def calibrate(
    request: Request,
    calculations: Calculations,
    principal: Anyone,
    _capacity: Capacity,
    body: Annotated[CalibrationRequest, Depends(JsonBody(CalibrationRequest))],
) -> Calibration:
    """Returns the smallest noise with which `count` answers are (epsilon, delta)-DP, and the accountant."""
    privacy = Privacy(body.epsilon, body.delta)
    question = Calibrate(body.mechanism, body.count, privacy, body.neighbors)
    answer = await while_connected(request, calculations.answer(principal.id, question))
    release = accepted(answer, Calibrated).release
    return Calibration(
        noise_multiplier=release.plan.queries[0].noise_multiplier,
        epsilon=release.epsilon,
        delta=release.delta,
        neighbors=body.neighbors,
        accountant=release.accountant,
        accountant_version=release.accountant_version,
        event=release.plan.event(),
    )
