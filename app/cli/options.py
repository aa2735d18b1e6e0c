"""Options and arguments that several commands share."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.output import read_json
from purse import formula
from purse.client.requests import ModelOptions, without_none
from purse.unknown_fields import unknown

DEFAULT_URL = "http://127.0.0.1:8000"
_REQUEST_FIELDS = tuple(ModelOptions.__annotations__)

File = Annotated[Path, typer.Argument(exists=True, dir_okay=False)]
FileOption = Annotated[Path, typer.Option(exists=True, dir_okay=False)]
OptionalFile = Annotated[Path | None, typer.Option(exists=True, dir_okay=False)]
OptionalArgument = Annotated[str | None, typer.Argument()]
Json = Annotated[bool, typer.Option(help="Write one JSON document to stdout, without text.")]
Url = Annotated[str, typer.Option(envvar="PURSE_URL", help="Address of the server. Set its token in PURSE_TOKEN.")]
Home = Annotated[
    Path | None, typer.Option(envvar="PURSE_HOME", help="The server's data folder. Default: ./purse-data.")
]
Wait = Annotated[bool, typer.Option(help="Return when the job has ended.")]
Key = Annotated[str | None, typer.Option(help="Requests with the same key are charged once. Default: a random key.")]
QuoteOnly = Annotated[bool, typer.Option(help="Show the price and charge nothing.")]
Explain = Annotated[bool, typer.Option(help="Explain what the neighbor relation guarantees.")]
Epsilon = Annotated[float, typer.Option(help="Privacy loss epsilon, from 0.001 to 100.")]
Delta = Annotated[float | None, typer.Option(help="Privacy loss delta. Default: the dataset's.")]
Dataset = Annotated[str, typer.Argument(help="The dataset's id or name.")]
Job = Annotated[str, typer.Argument(help="The job's id.")]
Sheet = Annotated[str | None, typer.Option(help="The sheet to read, if the workbook has several.")]
OldestFirst = Annotated[bool, typer.Option(help="List the oldest first.")]
OutFile = Annotated[Path | None, typer.Option(dir_okay=False, help="Also write the result to this file.")]
Bins = Annotated[int | None, typer.Option(help="Number of equal parts of a number's declared range.")]
Target = Annotated[str, typer.Option(help="The declared column to predict.")]
Positive = Annotated[
    str | None,
    typer.Option(help="Class to predict of a category target. Default: the second, or softmax for several."),
]


@dataclass(frozen=True, slots=True)
class PrivacyOptions:
    """The privacy loss of one request."""

    epsilon: Epsilon
    delta: Delta = None

    @property
    def fields(self) -> dict[str, float]:
        """The request's `privacy`."""
        return without_none(epsilon=self.epsilon, delta=self.delta)


@dataclass(frozen=True, slots=True)
class ReleaseOptions(PrivacyOptions):
    """The privacy loss of a result that is released, or only priced, and perhaps saved."""

    quote: QuoteOnly = False
    out: OutFile = None


@dataclass(frozen=True, slots=True)
class Training:
    """The options that describe a model to train.

    Parameters
    ----------
    method : Training method, such as dp_svrg. An unknown name prints the list of methods. Default: auto.
    request_file : JSON object with more fields of the request, such as loss, regularizer or domain.
    preparation : How rows are scaled: private, declared, profile (the latest) or profile:JOB. Default: private if the
        method supports it.
    slope_limit : Clip each record's slope to this fraction of the loss's largest slope. Default: chosen from public
        facts.
    formula : Columns of the model as a formula of R: "age + I(age**2) + ward * sex". Needs privy-purse[formula].
    inference : Release a regression table: estimates with standard errors that include sampling error and privacy
        noise.
    family : With --inference, poisson fits a Poisson regression of a count. Default: by the target.
    """

    target: Target
    method: str | None = None
    positive: Positive = None
    request_file: Annotated[Path | None, typer.Option("--with", exists=True, dir_okay=False)] = None
    preparation: str | None = None
    slope_limit: float | None = None
    formula: str | None = None
    inference: bool = False
    family: str | None = None

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of the request, without its dataset and its price."""
        fields: dict[str, Any] = {} if self.request_file is None else read_json(self.request_file)
        if not isinstance(fields, dict):
            raise typer.BadParameter(f"{self.request_file} must contain a JSON object")
        wrong = [name for name in fields if name not in _REQUEST_FIELDS]
        if wrong:
            raise typer.BadParameter(unknown(wrong[0], _REQUEST_FIELDS), param_hint="--with")
        name, _, job = (self.preparation or "").partition(":")
        options = without_none(
            method=self.method and {"name": self.method},
            positive=self.positive,
            slope_limit=self.slope_limit,
            inference=self.inference or None,
            family=self.family,
            preparation=without_none(name=name, job=job or None) if name else None,
        )
        terms = {} if self.formula is None else self._terms(self.formula)
        return {"target": self.target, **fields, **options, **terms}

    def _terms(self, text: str) -> dict[str, Any]:
        """Return the fields of a formula; a refusal if it cannot be read or has another target."""
        try:
            terms = formula(text)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--formula") from None
        if terms.pop("target", self.target) != self.target:
            raise typer.BadParameter("the formula's left side must be --target", param_hint="--formula")
        return terms
