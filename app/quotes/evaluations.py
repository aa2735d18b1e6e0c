"""Requests to evaluate a model: its own columns and target, on the records of the holdout set."""

from dataclasses import replace

import numpy as np

from accounting.errors import OutOfRange
from app.calculation.questions import Price, sentence
from app.datasets.models import ReleasedModel
from app.datasets.store import DatasetRow
from app.http.errors import ApiError
from app.quotes.requests import ReadRequest, limits_of, privacy_of, problem_of
from app.settings import Settings
from app.sources.design import Design
from app.sources.spec import JobSpec
from app.wire import EvaluationRequest
from purse.wire.models import Model
from solvers.statistics import Evaluation


def read(dataset: DatasetRow, request: EvaluationRequest, model: ReleasedModel, settings: Settings) -> ReadRequest:
    """Read a request to evaluate a model on a dataset, as `requests.read` does; rows are not clipped.

    Raises
    ------
    ApiError
        unsupported_combination if the dataset is not the holdout set of the model's dataset; out_of_range for the
        privacy.
    """
    if dataset.holdout_of != model.dataset_id:
        raise ApiError(
            "unsupported_combination", "A model is evaluated on the holdout set of its own dataset, not on another one."
        )
    trained = JobSpec.model_validate_json(model.spec)
    released = Model.model_validate_json(model.document)
    assert isinstance(trained.design, Design)
    if released.link == "log":
        raise ApiError(
            "unsupported_combination",
            "A Poisson model cannot be evaluated, because an evaluation counts residuals of a linear prediction. Train "
            "a linear model of the same target to evaluate it.",
        )
    design = replace(trained.design, row_norm=trained.design.columns.row_norm)
    problem = problem_of(dataset, design, trained.problem.loss)
    weights = np.column_stack((np.atleast_2d(released.coefficients), np.atleast_1d(released.intercept)))
    method = Evaluation(request.bins, request.clip, model.job, model.sha256)
    rule = dataset.state.filter
    try:
        privacy = privacy_of(request.privacy, rule)
    except OutOfRange as error:
        raise ApiError("out_of_range", sentence(error)) from None
    price = Price(method, problem, privacy, rule, limits_of(settings, dataset))
    return ReadRequest(request, dataset, design, price, tuple(weights.ravel().tolist()))
