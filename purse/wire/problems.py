"""The format of all errors: RFC 9457 problem details with a stable code."""

from typing import Annotated

from pydantic import Field

from purse.wire.base import Wire
from purse.wire.files import FileReport


class Violation(Wire):
    """A wrong field. The rejected value is never repeated."""

    where: Annotated[str, Field(description="Path of the field, such as body.privacy.epsilon.")]
    what: Annotated[str, Field(description="What the field must be.")]


class Remaining(Wire):
    """The remaining budget of a dataset."""

    epsilon: Annotated[float, Field(description="Largest epsilon, at this delta, of one more Gaussian-type job.")]
    delta: Annotated[float, Field(description="The dataset's delta.")]


class ProblemDetails(Wire):
    """An error (application/problem+json). All fields but `report` depend on public facts only."""

    type: Annotated[str, Field(description="A URI reference for the code.")]
    title: Annotated[str, Field(description="The code in words.")]
    status: Annotated[int, Field(description="The HTTP status.")]
    code: Annotated[str, Field(description="Stable name of the error. See the table of codes in the docs.")]
    detail: Annotated[str | None, Field(description="The cause, and how to fix it.")] = None
    violations: Annotated[list[Violation] | None, Field(description="The wrong fields.")] = None
    remaining: Annotated[Remaining | None, Field(description="With budget_exhausted: what remains.")] = None
    report: Annotated[
        FileReport | None,
        Field(description="With unparsed_values: the outcomes of the file's values, for its uploader."),
    ] = None
