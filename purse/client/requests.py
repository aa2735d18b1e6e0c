"""Keywords of requests: their types, their short forms, and errors that name a wrong one."""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, Final, ParamSpec, SupportsFloat, TypedDict, TypeVar, get_args

from purse.client.calls import reference
from purse.unknown_fields import unknown
from purse.wire.datasets import Dataset

P = ParamSpec("P")
T = TypeVar("T")
Choice = str | Mapping[str, Any] | object
"""A name, as in "dp_gd"; a mapping, as in {"name": "dp_gd", "steps": 100}; or an object of the solvers."""

_NAMED: Final = ("loss", "regularizer", "domain", "method", "preparation")


class TrainingOptions(TypedDict, total=False):
    """Options of training a model; the server fills in defaults for those that are left out."""

    positive: str | None
    features: Sequence[str] | None
    terms: Sequence[Mapping[str, Any]] | None
    loss: Choice
    row_norm: float | None


class ModelOptions(TrainingOptions, total=False):
    """Options of one way to train a model, or of a regression table (`inference`, `family`, `reference`, `level`)."""

    regularizer: Choice
    domain: Choice
    method: Choice
    preparation: Choice
    slope_limit: float | None
    inference: bool
    family: str | None
    reference: Mapping[str, str] | None
    level: float


class JobOptions(ModelOptions, total=False):
    """Options of a job: those of a model, or the columns of a statistic, whose name is the method.

    For the statistic table1 also `by`, the columns that group, and `where`, conditions on the described rows.
    """

    columns: Sequence[str] | None
    by: Sequence[str] | None
    where: Sequence[Mapping[str, Any]] | None


class EvaluationOptions(TypedDict, total=False):
    """Options of an evaluation: bins of scores or residuals; clip of residuals in halves of the target's range."""

    bins: int
    clip: float


class QuoteOptions(JobOptions, EvaluationOptions, total=False):
    """Options of a quote: those of a job, an evaluation of `model`, or a tuning of `candidates`."""

    model: str
    candidates: Sequence[Mapping[str, Any]]
    repeats: int


class TuningOptions(TrainingOptions, total=False):
    """Options of a tuning: `repeats` is the number of times that each candidate is tried."""

    repeats: int


class ForecastOptions(ModelOptions, total=False):
    """Options of a forecast: those of a model, and how the public twin is drawn and how often the job runs."""

    source: str | None
    signal: float
    runs: int
    twin: int
    wanted: float | None


class CalibrationOptions(TypedDict, total=False):
    """Options of a calibration."""

    delta: float
    count: int
    neighbors: str


class AllotmentOptions(TypedDict, total=False):
    """An allotment: a share, or an epsilon with or without a delta; and its mode, "shared" or "reserved"."""

    share: float
    epsilon: float
    delta: float
    mode: str


def explicit_signature(method: Callable[..., Any]) -> Signature:
    """Return the method's signature with the fields of an `Unpack[...]` as keywords of their own."""
    original = signature(method)
    parameters: list[Parameter] = []
    for parameter in original.parameters.values():
        if parameter.kind is Parameter.VAR_KEYWORD and get_args(parameter.annotation):
            [options] = get_args(parameter.annotation)
            fields = [name for name in options.__annotations__ if name not in original.parameters]
            parameters += [
                Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=options.__annotations__[name])
                for name in fields
            ]
        else:
            parameters.append(parameter)
    return original.replace(parameters=parameters)


def check_arguments(name: str, expected: Signature, /, *args: Any, **keywords: Any) -> None:
    """Raise a TypeError that names the method and its wrong or missing argument."""
    try:
        expected.bind(*args, **keywords)
    except TypeError as error:
        names = [each.name for each in expected.parameters.values() if each.kind is Parameter.KEYWORD_ONLY]
        wrong = [keyword for keyword in keywords if keyword not in expected.parameters]
        reason = f": {unknown(wrong[0], names, 'keyword')}" if wrong and names else f" {error}"
        raise TypeError(f"{name}(){reason}") from None


def completed(method: Callable[P, T]) -> Callable[P, T]:
    """Give a method with an `Unpack[...]` its explicit signature, which editors complete, and check calls by it."""
    expected = explicit_signature(method)

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        check_arguments(method.__qualname__, expected, *args, **kwargs)
        return method(*args, **kwargs)

    call.__signature__ = expected  # type: ignore[attr-defined]
    return call


def job_request(
    dataset: Dataset | str, target: str | None, privacy: object, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a request in full, from names and an epsilon in place of objects."""
    request = without_none(dataset=reference(dataset), privacy=privacy_of(privacy), target=target)
    return request | expanded(options)


def expanded(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with `{"name": name}` in place of a name."""
    return {
        key: {"name": value} if key in _NAMED and isinstance(value, str) else value for key, value in options.items()
    }


def privacy_of(privacy: object) -> dict[str, Any]:
    """Return the mapping of a privacy target; a number is an epsilon at the dataset's delta.

    Raises
    ------
    ValueError
        if it is neither a number nor a mapping.
    """
    if isinstance(privacy, SupportsFloat) and not isinstance(privacy, bool):  # NumPy's numbers, too
        return {"epsilon": privacy if isinstance(privacy, int) else float(privacy)}
    if isinstance(privacy, Mapping):
        return dict(privacy)
    raise ValueError(
        f"privacy must be an epsilon such as 0.5, or a mapping such as {{'epsilon': 0.5, 'delta': 1e-6}}; it is of "
        f"type {type(privacy).__name__}"
    )


def without_none(**fields: Any) -> dict[str, Any]:
    """Return the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}
