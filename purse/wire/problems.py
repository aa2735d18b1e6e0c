"""The format of all errors: RFC 9457 problem details with a stable code."""

from purse.wire.base import Wire
from purse.wire.budgets import PrivacyLoss
from purse.wire.files import FileReport


class Violation(Wire):
    """A wrong field. The rejected value is never repeated."""

    where: str
    """Path of the field, such as body.privacy.epsilon."""
    what: str
    """Requirement that the field does not meet."""


class ProblemDetails(Wire):
    """An error (application/problem+json). All fields but `report` depend on public facts only."""

    type: str
    """A URI reference for the code."""
    title: str
    """The code in words."""
    status: int
    """The HTTP status."""
    code: str
    """Stable name of the error. See the table of codes in the docs."""
    detail: str | None = None
    """The cause, and how to fix it."""
    violations: list[Violation] | None = None
    """The wrong fields."""
    remaining: PrivacyLoss | None = None
    """With budget_exhausted: the largest epsilon, at the dataset's delta, of one more Gaussian-type job."""
    report: FileReport | None = None
    """With unparsed_values: the outcomes of the file's values, for its uploader."""
