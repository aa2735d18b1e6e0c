"""The question that an evaluation comes to: the model's own columns and target, of the records that were kept out."""

from dataclasses import replace

import numpy as np

from accounting.errors import OutOfRange
from app.calculation.questions import Price, sentence
from app.datasets.models import ReleasedModel
from app.datasets.store import DatasetRow
from app.http.errors import ApiError
from app.quotes.pricing import Asked, privacy_of, problem_of
from app.settings import Settings
from app.sources.design import Design
from app.sources.spec import JobSpec
from app.wire import EvaluationRequest
from purse.wire.models import Model
from solvers.statistics import Evaluation


def ask(dataset: DatasetRow, request: EvaluationRequest, model: ReleasedModel, settings: Settings) -> Asked:
    """As `pricing.ask`, of the kept-out part of the model's dataset; its rows are not clipped.

    Raises
    ------
    ApiError
        unsupported_combination if it is not that; out_of_range for the privacy.
    """
    if dataset.holdout_of != model.dataset_id:
        raise ApiError("unsupported_combination", "A model is evaluated on what was kept out of its own dataset.")
    try:
        trained, told = JobSpec.model_validate_json(model.spec), Model.model_validate_json(model.document)
    except ValueError:  # of a version that nobody reads any more
        raise ApiError("unsupported_combination", "This model is of an older form: train it again.") from None
    assert isinstance(trained.design, Design)
    design = replace(trained.design, row_norm=trained.design.columns.row_norm)
    problem = problem_of(dataset, design, trained.problem.loss)
    weights = np.column_stack((np.atleast_2d(told.coefficients), np.atleast_1d(told.intercept)))
    method = Evaluation(request.bins, request.clip, model.job, model.sha256)
    rule, limits = dataset.state.filter, (settings.max_gradient_evaluations, settings.max_answers)
    try:
        privacy = privacy_of(request, rule)
    except OutOfRange as error:
        raise ApiError("out_of_range", sentence(error)) from None
    price = Price(method, problem, privacy, rule, *limits)
    return Asked(request, dataset, design, price, tuple(weights.ravel().tolist()))
