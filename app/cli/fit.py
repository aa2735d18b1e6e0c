"""purse fit: the whole path on one local file, with the service in this process.

The file is uploaded, priced, charged, trained on and receipted through the same interface as on a server. Its charges
stay under PURSE_HOME with the file's SHA-256, so that fitting the file again continues with the same budget. A sheet of
a workbook has the SHA-256 of its cells as CSV.
"""

import gc
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from app.cli import late, receipts
from app.cli.options import Epsilon, File, Home, OptionalFile, Sheet, Training
from app.cli.output import Output, Refusal, loss, note, to_json, write_json
from app.cli.reports import cures
from app.cli.specs import read_spec
from app.sources.errors import SourceError
from purse import Client, Model, Receipt, Unreachable, text
from purse.excel import readable
from purse.wire.budgets import Budget, BudgetStatus
from purse.wire.datasets import Dataset, DatasetSpec, PersonUnit
from purse.wire.files import PLAIN

_FIELDS = ("columns", "unit", "dialect", "max_unparsed", "max_clamped", "targets")  # of a schema file that a fit uses
_LARGEST_DEFAULT_DELTA = 1e-6


@dataclass(frozen=True, slots=True)
class Guarantee:
    """The privacy of one fit, and the budget of all fits of a file.

    Parameters
    ----------
    delta : Privacy loss delta. Default: min(1e-6, 1/(10 n)).
    budget : Epsilon of all fits of this file, chosen at its first fit. Default: this fit's.
    """

    epsilon: Epsilon
    delta: float | None = None
    budget: float | None = None


def fit(
    file: File,
    training: Training,
    guarantee: Guarantee,
    schema: OptionalFile = None,
    unit: str | None = None,
    max_rows: int | None = None,
    sheet: Sheet = None,
    out: Path | None = None,
    home: Home = None,
) -> Output:
    """Train one private model on a local file.

    No server is needed. The schema declares bounds and categories, which are never read from the data. Without
    --schema, the command prints a template with the file's column names. The spending of the file is recorded under
    PURSE_HOME, by the file's SHA-256.

    Parameters
    ----------
    file : A CSV or Parquet file, or a workbook.
    schema : JSON file with the columns and their bounds, or a spec.
    unit : Column that names the person of each row. Protects a person instead of a row.
    max_rows : With --unit: number of rows used of each person.
    out : A folder for model.json, receipt.json and keys.json.

    \b
    Examples:
      purse fit census.csv --target income --epsilon 1 > schema.json  # fill it in
      purse fit census.csv --target income --epsilon 1 --schema schema.json
      purse fit census.csv --target income --epsilon 1 --schema schema.json \\
        --budget 3 --method dp_gd --out model/
      purse fit visits.xlsx --target stay --epsilon 1 --schema visits.json \\
        --unit patient --max-rows 8
    """
    if schema is None:
        with readable(file, sheet=sheet) as plain:
            return _template(plain, training.target)
    declared, has_budget = read_spec(schema)
    declared = _with_target(_with_unit(declared, unit, max_rows), training.target)
    budget = declared.budget if has_budget else None
    content = _content(file, sheet)
    with (
        readable(file, declared.dialect, sheet) as plain,
        _server(home) as (url, token),
        Client(url, token) as client,
    ):
        dataset = _dataset(client, plain, content, declared, budget, guarantee)
        delta = guarantee.delta
        if delta is None:
            delta = min(dataset.budget.delta, _delta(dataset.rows or dataset.persons))
        request = {"privacy": {"epsilon": guarantee.epsilon, "delta": delta}} | training.fields
        job = client.jobs.submit(dataset=dataset.id, **request)
        model = job.result()
        receipt = job.receipt()
        receipt.verify(model=model)
        status = client.datasets.budget(dataset.id)
    if out is not None:
        write_json(out / "model.json", model)
        receipt.save(out)
    described = dataset.model_dump(exclude={"report"})  # the report is about the file: rows of persons are not public
    document = {"dataset": described, "model": model, "receipt": receipt.document, "budget": status}
    notes = [] if out is None else [f"wrote model.json, receipt.json and keys.json into {out}"]
    return Output(document, _text(model, receipt, status), notes)


@contextmanager
def _server(home: Path | None) -> Iterator[tuple[str, str]]:
    """Yield the service's URL and a token.

    The process of its jobs starts before the service is loaded, which starts threads and opens the home.
    """
    process = late.forked.begin()
    try:
        settings = late.state.settings_of(home, workers=1)
        with late.serving.serving(settings, process, "purse fit") as connection:
            gc.freeze()
            gc.enable()
            yield connection
    except Unreachable as error:
        raise Refusal(
            f"The service of this command did not answer: {error.__cause__ or 'connection lost'}. The machine may be "
            "too busy. Run the command again when it is idle. A job that was already charged stays charged."
        ) from None
    finally:
        process.end()


def _template(file: Path, target: str) -> Output:
    """Return the column names without bounds as the result of the command. The steward must add the bounds."""
    try:
        names = late.ingest.header(file)
    except SourceError as error:
        raise Refusal(f"{file} has no column names. {error}") from error
    columns: list[dict[str, Any]] = [
        {"name": name, "type": "category", "categories": []}
        if name == target
        else {"name": name, "type": "number", "lower": None, "upper": None}
        for name in names
    ]
    note = (
        "purse: --schema is required. This template has only the column names. Declare bounds and categories from "
        'what you know, not from the data. A category is {"type": "category", "categories": [...]}. Leave out columns '
        "that are not used, save the file, and name it with --schema. `purse check --propose` drafts more."
    )
    return Output(columns, to_json(columns), [text.paragraph(note).rstrip()], exit_code=2)


def _with_unit(declared: DatasetSpec, column: str | None, max_rows: int | None) -> DatasetSpec:
    """Return the declaration with the unit of the command line, if there is one."""
    if (column is None) != (max_rows is None):
        raise Refusal("--unit and --max-rows need each other. Give both or neither.")
    if column is None:
        return declared
    return declared.model_copy(update={"unit": PersonUnit.model_validate({"column": column, "max_rows": max_rows})})


def _with_target(declared: DatasetSpec, target: str) -> DatasetSpec:
    """Return the declaration with the target among `targets`, if that is empty."""
    if declared.targets or target not in {column.name for column in declared.columns}:
        return declared
    return declared.model_copy(update={"targets": [target]})


def _content(file: Path, sheet: str | None) -> str:
    """Return the name under which a file's budget is kept: the hash of its bytes, or of a sheet as plain CSV."""
    with readable(file, sheet=sheet) as plain, plain.open("rb") as source:
        return f"file-{hashlib.file_digest(source, 'sha256').hexdigest()}"


def _dataset(
    client: Client,
    file: Path,
    content: str,
    declared: DatasetSpec,
    declared_budget: Budget | None,
    guarantee: Guarantee,
) -> Dataset:
    """Return the file's dataset: the one of its earlier fits, or a new one."""
    options = [each for each in (declared.unit, declared.dialect) if each not in (None, PLAIN)]
    name = "-".join([content, *map(_digest, options)])
    for dataset in client.datasets.list():
        if dataset.name.startswith(content):
            return _again(dataset, name, declared, guarantee.budget)
    budget = _first_budget(file, declared, declared_budget, guarantee)
    spec = DatasetSpec(name=name, budget=budget, **{field: getattr(declared, field) for field in _FIELDS})
    dataset = client.datasets.upload(file, spec=spec)
    is_chosen = guarantee.budget is not None or declared_budget is not None
    reason = "" if is_chosen else ", because --budget was not given"
    total = text.loss(budget.epsilon, budget.delta)
    note(text.paragraph(f"This is the first fit of the file. The budget of all its fits is {total}{reason}.").rstrip())
    for line in cures(dataset.report):
        note(text.paragraph(f"purse: {line}").rstrip())
    return dataset


def _first_budget(file: Path, declared: DatasetSpec, budget: Budget | None, guarantee: Guarantee) -> Budget:
    """Return the budget of a new file: the schema's, unless the command line chooses another."""
    if budget is not None and guarantee.budget is None:
        return budget
    delta = guarantee.delta
    if delta is None:
        delta = default_delta(file, declared) if budget is None else budget.delta
    epsilon = guarantee.budget or guarantee.epsilon
    return Budget(epsilon=epsilon, delta=delta, filter="gdp_rdp" if budget is None else budget.filter)


def _digest(option: BaseModel) -> str:
    return hashlib.sha256(option.model_dump_json().encode()).hexdigest()[:16]


def _again(dataset: Dataset, name: str, declared: DatasetSpec, budget: float | None) -> Dataset:
    """Return the dataset of an earlier fit, if this one has the same declaration and budget."""
    if dataset.columns != declared.settled().columns:
        raise Refusal(
            "This file was fitted before with another schema. Its charges are kept under that schema, because "
            "declarations do not share a budget. Use the same schema."
        )
    if dataset.name != name:
        raise Refusal(
            f"This file was first fitted with {dataset.unit} protected, with other persons, or in another dialect. "
            "Repeat --unit, --max-rows and the dialect of that fit."
        )
    if budget is not None and budget != dataset.budget.epsilon:
        epsilon = f"epsilon {dataset.budget.epsilon:g}"
        raise Refusal(f"The budget of this file was fixed at its first fit: {epsilon}. Leave out --budget.")
    return dataset


def default_delta(file: Path, declared: DatasetSpec) -> float:
    """Return the default delta for the number of records or persons in a file, as the service will count it."""
    reading = late.ingest.Reading(declared.columns, declared.dialect)
    return _delta(late.ingest.count(file, reading, declared.unit))


def _delta(number: int | None) -> float:
    """Return the default delta for a number of records or persons."""
    return min(_LARGEST_DEFAULT_DELTA, 1 / (10 * (number or 1)))


def _text(model: Model, receipt: Receipt, status: BudgetStatus) -> str:
    checked = [
        ("verified", "the signature is valid and epsilon follows from the events"),
        ("remaining", f"{loss(status.remaining)}: the largest further fit of this file"),
    ]
    return "\n".join((model.summary(), text.facts(receipts.facts(receipt)), text.facts(checked)))
