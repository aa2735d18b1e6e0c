"""The published documents of a job, made from a worker's output: the release, and its receipt."""

import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pydantic import ValidationError

from accounting.errors import CodecError
from accounting.mechanisms import Gaussian
from accounting.plan import Plan
from accounting.records import receipt as receipts
from accounting.records.chain import Entry
from accounting.records.codec import plan_from_json
from accounting.records.documents import canonical_text, fields, number, parse
from app.datasets.store import DatasetRow
from app.jobs.store import JobRow
from app.ledger.keys import SigningKeys
from app.persistence.session import new_id
from app.results import evaluations, profiles, statistics
from app.sources.design import Design
from app.sources.spec import JobSpec
from purse.solved_tables import model_coefficients, published, units
from purse.wire.columns import CategoryColumn, NumberColumn
from purse.wire.evaluations import ReleasedEvaluation
from purse.wire.models import Chosen, CoefficientIntervals, EncodedMeans, Link, Model, PrivacyStatement, ProfileUse
from purse.wire.profiles import DatasetProfile
from purse.wire.statistics import ReleasedStatistic
from solvers.data_access.scores import BOUND
from solvers.inference import RegressionTableRun
from solvers.inference.coordinates import Stds
from solvers.inference.table import Units, table
from solvers.intervals import LEVEL, half_widths
from solvers.losses import Logistic
from solvers.preparation import ByProfile
from solvers.statistics import AnyCounting, Evaluation, Profile
from solvers.trials import Tuning

_LARGEST_COEFFICIENT = 1e300


class Unreleasable(Exception):
    """The output is not a finite result within its plan. The message never leaves the service."""


@dataclass(frozen=True, slots=True)
class Result:
    """A checked output of a worker."""

    spec: JobSpec
    coefficients: tuple[float, ...]
    transcript: Plan
    means: EncodedMeans | None = None


def read(stored: str, output: str) -> Result:
    """Return the output of a run: finite coefficients, a transcript that the charged plan covers, perhaps means.

    Raises
    ------
    Unreleasable
        if the output is anything else.
    """
    spec = JobSpec.model_validate_json(stored)
    try:
        node = fields(parse(output), ("coefficients", "transcript"), "an output", ("means",))
        transcript = plan_from_json(node["transcript"])
        if not isinstance(node["coefficients"], list):
            raise CodecError("coefficients must be a list")
        values = tuple(
            number(value, -_LARGEST_COEFFICIENT, _LARGEST_COEFFICIENT, "a coefficient")
            for value in node["coefficients"]
        )
        means = EncodedMeans.model_validate(node["means"]) if "means" in node else None
    except (CodecError, ValidationError) as error:
        raise Unreleasable("the output is not one of ours") from error
    if not spec.release_plan.plan.covers(transcript):
        raise Unreleasable("more was answered than was charged")
    return Result(spec, values, transcript, means)


def document(job: JobRow, result: Result) -> str:
    """Return the release as canonical JSON: a model, statistic, profile or evaluation."""
    return canonical_text(_release(job, result).model_dump(mode="json"))


def _release(job: JobRow, result: Result) -> ReleasedEvaluation | Model | DatasetProfile | ReleasedStatistic:
    design, method = result.spec.design, result.spec.method
    if isinstance(method, Tuning):
        return _tuned(job, result, method)
    if isinstance(method, RegressionTableRun):
        return _regression(job, result, method)
    if isinstance(design, Design) and not isinstance(method, Evaluation):
        return _model(job, result, design)
    if not isinstance(method, AnyCounting) or len(result.coefficients) != method.size(result.spec.problem):
        raise Unreleasable("the output is of another length")
    if isinstance(method, Evaluation):
        return _evaluation(job, result, method)
    return _profile(job, result) if isinstance(method, Profile) else _statistic(job, result)


def _evaluation(job: JobRow, result: Result, method: Evaluation) -> ReleasedEvaluation:
    scores, std = evaluations.result(result.spec, np.array(result.coefficients))
    return ReleasedEvaluation(
        kind="evaluation",
        dataset=job.dataset_id,
        model=method.model,
        model_sha256=method.sha256,
        noise_std=std,
        result=scores,
        job=job.id,
        privacy=_promise(result),
    )


def _statistic(job: JobRow, result: Result) -> ReleasedStatistic:
    statistic = statistics.result(result.spec, np.array(result.coefficients))
    promise = _promise(result)
    return ReleasedStatistic(kind="statistic", dataset=job.dataset_id, result=statistic, job=job.id, privacy=promise)


def _profile(job: JobRow, result: Result) -> DatasetProfile:
    try:
        columns = profiles.columns(result.spec, np.array(result.coefficients))
    except ValueError as error:
        raise Unreleasable("the output holds no moments") from error
    return DatasetProfile(kind="profile", dataset=job.dataset_id, columns=columns, job=job.id, privacy=_promise(result))


def _model(job: JobRow, result: Result, design: Design) -> Model:
    problem = result.spec.problem
    try:
        coefficients, intercept = design.split(np.array(result.coefficients))
    except ValueError as error:
        raise Unreleasable("the output is of another width") from error
    if result.means is not None and len(result.means.values) != design.d - 1:
        raise Unreleasable("the output has another number of means")
    model = Model(
        kind="linear",
        loss=problem.loss.name,
        coefficients=coefficients,
        intercept=intercept,
        features=list(design.features),
        inputs=list(design.inputs) if design.terms else None,
        terms=list(design.terms) if design.terms else None,
        link=_link(result.spec, design),
        classes=None if design.classes is None else list(design.classes),
        target=design.target,
        row_norm=problem.row_norm,
        preparation=result.spec.preparation.statement,
        profile=_used(result.spec),
        means=result.means,
        slope_limit=problem.slope_limit,
        intervals=_intervals(result.spec, design),
        job=job.id,
        privacy=_promise(result),
    )
    return model if model.intervals is not None else model.model_copy(update=_supported(model))


def _regression(job: JobRow, result: Result, method: RegressionTableRun) -> Model:
    """Return the model of a regression table in the units of the file. Its coefficients are the estimates."""
    spec, plan, answers = result.spec, result.spec.release_plan.plan, np.array(result.coefficients)
    assert isinstance(spec.design, Design)
    if len(answers) != method.size(spec.problem):
        raise Unreleasable("the output is of another length")
    features, is_count = spec.design.features, method.largest_count is not None
    target = spec.design.target if isinstance(spec.design.target, NumberColumn) else None
    stds = Stds(spec.problem, lambda query: plan.query(query).noise_multiplier)
    try:
        solved = table(spec.problem, method, answers, stds, Units(**units(features, target, is_count)))
    except (ValueError, np.linalg.LinAlgError) as error:
        raise Unreleasable("the output holds no regression table") from error
    own = replace(result, coefficients=tuple(model_coefficients(solved, target, is_count)), means=None)
    facts = {"loss": "poisson", "link": "log"} if is_count else {}
    return _model(job, own, spec.design).model_copy(update=facts | published(features, target, solved, method.level))


def _supported(model: Model) -> dict[str, Any]:
    """Return the coefficients with 0 for each category that released shares cannot tell from one without rows.

    Such a coefficient is noise. Intervals describe coefficients as the run made them, so a model with intervals keeps
    all of its coefficients.
    """
    is_supported = ~np.array(model.unsupported, dtype=bool)
    return {"coefficients": np.where(is_supported, model.coefficients, 0.0).tolist()}


def _intervals(spec: JobSpec, design: Design) -> CoefficientIntervals | None:
    wide = half_widths(spec.method, spec.problem, spec.release_plan.plan, spec.preparation)
    if wide is None:
        return None
    coefficients, intercept = design.split(wide)
    return CoefficientIntervals(level=LEVEL, half_widths=coefficients, intercept=intercept)


def _tuned(job: JobRow, result: Result, tuning: Tuning) -> Model:
    """Return the model of the chosen candidate, with the privacy of the whole tuning."""
    spec, (index, score, *coefficients) = result.spec, result.coefficients
    assert isinstance(spec.design, Design)
    if index not in range(len(tuning.trials)):
        raise Unreleasable("the output names no candidate")
    trial = tuning.trials[int(index)]
    run = {"method": trial.method, "problem": trial.problem(spec.problem), "preparation": trial.preparation}
    own = replace(result, spec=spec.model_copy(update=run), coefficients=tuple(coefficients))
    chosen = Chosen(
        candidate=int(index),
        runs=len(tuning.trials) * tuning.repeats,
        score=0.5 + score if spec.problem.loss.takes == "class" else 0.5 - score,
        noise_std=Gaussian().std(trial.plan.queries[-1].noise_multiplier, BOUND, 1) / spec.problem.n,
    )
    return _model(job, own, spec.design).model_copy(update={"tuning": chosen})


def _promise(result: Result) -> PrivacyStatement:
    plan, problem = result.spec.release_plan, result.spec.problem
    return PrivacyStatement(
        epsilon=plan.epsilon,
        delta=plan.delta,
        neighbors=plan.plan.relation,
        **problem.unit.counted(problem.n),
        unit=problem.unit,
        event=result.transcript.event(),
        accountant=plan.accountant,
        accountant_version=plan.accountant_version,
    )


def _used(spec: JobSpec) -> ProfileUse | None:
    """Return the profile by which rows were standardised; None if they were not."""
    by = spec.preparation
    if not isinstance(by, ByProfile) or by.job is None or by.sha256 is None:
        return None
    m = by.moments
    values = {"center": list(m.center), "variances": list(m.variances), "noise": list(m.noise)}
    return ProfileUse(job=by.job, sha256=by.sha256, **values)


def receipt(
    job: JobRow, dataset: DatasetRow, result: Result, model_sha256: str, entry: Entry, at: str, keys: SigningKeys
) -> str:
    """Return the signed receipt of the release that `entry` records."""
    used = _used(result.spec)
    document = receipts.build(
        receipts.ReleaseFacts(
            id=new_id("rcpt"),
            dataset=dataset.id,
            dataset_name=dataset.name,
            records=dataset.n,
            unit=dataset.spec.protected,
            analyst=job.analyst,
            job=job.id,
            method=result.spec.stated,
            release_plan=result.spec.release_plan,
            transcript=result.transcript,
            model_sha256=model_sha256,
            entry=entry,
            issued_at=at,
            profile=None if used is None else {"job": used.job, "sha256": used.sha256},
            share=json.loads(job.charge).get("share"),
        )
    )
    return canonical_text({"receipt": document, "signature": keys.sign(document)})


def _link(spec: JobSpec, design: Design) -> Link:
    """Return the link of a model: only logistic and softmax losses are minimized by probabilities, others by a rule."""
    if not isinstance(design.target, CategoryColumn):
        return "identity"
    if design.positive is None:
        return "softmax"
    return "logistic" if isinstance(spec.problem.loss, Logistic) else "sign"
