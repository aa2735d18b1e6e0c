"""purse fit: the whole path on one local file, with the service inside this process.

Nothing is bypassed: the file is uploaded, priced, charged, solved and receipted through the same API as everywhere.
Its charges stay under PURSE_HOME with the file's SHA-256, so that fitting it again goes on with the same budget; of a
workbook's sheet with that of what is in its cells, however the workbook is saved.
"""

import csv
import gc
import hashlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from pydantic import BaseModel, ValidationError

from app.cli import jobs
from app.cli.common import Epsilon, Home, Json, Refusal, Sheet, emit, facts, loss, note, write_json
from app.cli.receipts import show
from app.cli.reports import cures
from app.cli.specs import read_spec
from app.sources.errors import SourceError
from purse import Client, Model, Receipt
from purse.excel import readable
from purse.wire.columns import Column, settled
from purse.wire.datasets import Budget, BudgetStatus, Dataset, DatasetSpec, PersonUnit
from purse.wire.files import PLAIN, Dialect

_READING = ("dialect", "max_unparsed", "max_clamped", "targets")
_LARGEST = 1e-6  # of deltas that nobody stated


@dataclass(frozen=True, slots=True)
class Declared:
    """What the schema file says, and what it may leave to the command line."""

    columns: list[Column]
    budget: Budget | None = None
    unit: PersonUnit | None = None
    reading: dict[str, Any] = field(default_factory=dict)  # the fields of _READING that the schema file states

    @property
    def dialect(self) -> Dialect:
        """How the file is written."""
        found: Dialect = self.reading.get("dialect", PLAIN)
        return found


def fit(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A CSV or Parquet file, or a workbook.")],
    target: jobs.Target,
    epsilon: Epsilon,
    delta: Annotated[
        float | None, typer.Option("--delta", "-d", help="Privacy slack delta; min(1e-6, 1/(10 n)) if left out.")
    ] = None,
    method: jobs.Method = None,
    positive: jobs.Positive = None,
    more: jobs.More = None,
    preparation: jobs.Preparation = None,
    slope_limit: jobs.SlopeLimit = None,
    schema: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="JSON: the list of columns with their bounds, or a spec."),
    ] = None,
    budget: Annotated[
        float | None, typer.Option(help="At the file's first fit: epsilon for all its fits together; else this fit's.")
    ] = None,
    unit: Annotated[
        str | None, typer.Option(help="The column that names whose each row is: then a person is protected.")
    ] = None,
    max_rows: Annotated[int | None, typer.Option(help="With --unit: how many rows of a person are used.")] = None,
    sheet: Sheet = None,
    folder: Annotated[
        Path | None, typer.Option("--out", "-o", help="A folder for model.json, receipt.json and keys.json.")
    ] = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Train one private model on a local file, without a standing server.

    Bounds and categories are declared in --schema, never read off the data; without it, a template with the file's
    column names is printed. What was spent on the file stays under PURSE_HOME, by the file's SHA-256.

    \b
    Examples:
      purse fit census.csv --target income --epsilon 1 > census.schema.json      # a template; fill in the bounds
      purse fit census.csv --target income --epsilon 1 --schema census.schema.json --out model/
      purse fit census.csv --target income --epsilon 1 --schema census.schema.json --budget 3 --method dp_svrg
      purse fit visits.xlsx --sheet 2025 --target stay --epsilon 1 --schema visits.json --unit patient --max-rows 8
    """
    if schema is None:
        with readable(file, sheet=sheet) as plain:
            _template(plain, target, json)
    declared = _aimed(_of_unit(_declared(schema), unit, max_rows), target)
    asked = jobs.request(target, epsilon, delta, method, positive, more, preparation, slope_limit)
    content = _content(file, sheet)
    with (
        readable(file, declared.dialect, sheet) as plain,
        _server(home) as (url, token),
        Client(url, token) as client,
    ):
        dataset = _dataset(client, plain, content, declared, epsilon, delta, budget)
        if delta is None:
            asked["privacy"]["delta"] = min(dataset.budget.delta, _delta(dataset.rows or dataset.persons or 1))
        job = client.jobs.submit(dataset=dataset.id, **asked)
        model = job.result(progress=False if json else None)
        receipt = job.receipt()
        receipt.verify(model=model)
        status = client.datasets.budget(dataset.id)
    if folder is not None:
        write_json(folder / "model.json", model)
        receipt.save(folder)
    told = dataset.model_dump(exclude={"report"})  # which is the file's: rows of persons are nobody's to count
    document = {"dataset": told, "model": model, "receipt": receipt.document, "budget": status}
    emit(document, json, lambda: _say(model, receipt, status, folder))


@contextmanager
def _server(home: Path | None) -> Iterator[tuple[str, str]]:
    """The service, its url and a token. Its working process comes first: before the service is loaded, which starts
    threads and opens the home.
    """
    from app.worker import forked

    begun = forked.begin()
    try:
        from app.cli.state import serving, settings_of

        with serving(settings_of(home, workers=1), begun, "purse fit") as found:
            gc.freeze()
            gc.enable()
            yield found
    finally:
        begun.end()


def header(file: Path) -> list[str]:
    """The file's column names; nothing else of it is read."""
    if _is_parquet(file):
        import pyarrow.parquet as pq

        return [str(name) for name in pq.read_schema(file).names]
    with file.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as source:
        names = next(csv.reader(source), [])
    "".join(names).encode()  # a UnicodeError is a ValueError
    return names


def _template(file: Path, target: str, as_json: bool) -> NoReturn:
    """Column names without bounds, and an exit: a declaration is the steward's to make."""
    try:
        names = header(file)
    except (ValueError, csv.Error) as error:
        raise Refusal(f"{file} is neither CSV nor Parquet") from error
    columns: list[dict[str, Any]] = [
        {"name": name, "type": "category", "categories": []}
        if name == target
        else {"name": name, "type": "number", "lower": None, "upper": None}
        for name in names
    ]
    emit(columns, True, lambda: None)
    if not as_json:
        note(
            "purse: --schema is needed. This template has the column names only: declare bounds and categories from\n"
            'what you know, not from the data ({"type": "category", "categories": [...]} for a category), leave out\n'
            "columns that are not to be used, save it, and name it with --schema. `purse check --propose` drafts more."
        )
    raise typer.Exit(2)


def _declared(schema: Path) -> Declared:
    spec, has_budget = read_spec(schema)
    reading = {name: getattr(spec, name) for name in _READING}
    return Declared(spec.columns, spec.budget if has_budget else None, spec.unit, reading)


def _of_unit(declared: Declared, column: str | None, max_rows: int | None) -> Declared:
    """With the unit of the command line, if it names one."""
    if (column is None) != (max_rows is None):
        raise Refusal("--unit and --max-rows go together")
    if column is None:
        return declared
    try:
        return replace(declared, unit=PersonUnit.model_validate({"column": column, "max_rows": max_rows}))
    except ValidationError as error:
        raise Refusal(f"--unit, --max-rows: {error.errors()[0]['msg']}") from None


def _aimed(declared: Declared, target: str) -> Declared:
    """With the target among the columns of which little may be unparsed, if none is."""
    known = target in {column.name for column in declared.columns}
    if declared.reading.get("targets") or not known:
        return declared
    return replace(declared, reading=declared.reading | {"targets": [target]})


def _content(file: Path, sheet: str | None) -> str:
    """What a budget goes by: a file's bytes; of a workbook its sheet's as plain CSV, whatever dialect it is sent in."""
    with readable(file, sheet=sheet) as plain, plain.open("rb") as source:
        return f"file-{hashlib.file_digest(source, 'sha256').hexdigest()}"


def _dataset(
    client: Client,
    file: Path,
    content: str,
    declared: Declared,
    epsilon: float,
    delta: float | None,
    budget: float | None,
) -> Dataset:
    """The file's dataset: the one of its earlier fits, or a new one."""
    told = [said for said in (declared.unit, declared.dialect) if said not in (None, PLAIN)]
    name = "-".join([content, *map(_digest, told)])
    for known in client.datasets.list():
        if known.name.startswith(content):
            return _again(known, name, declared, budget)
    chosen = declared.budget
    if chosen is None or budget is not None:
        slack = delta if delta is not None else chosen.delta if chosen is not None else _usual(file, declared)
        chosen = Budget(epsilon=budget or epsilon, delta=slack, filter="gdp_rdp" if chosen is None else chosen.filter)
    try:
        spec = DatasetSpec(name=name, columns=declared.columns, budget=chosen, unit=declared.unit, **declared.reading)
    except ValidationError as error:
        raise Refusal(f"the schema does not fit: {error.errors()[0]['msg']}") from None
    made = client.datasets.upload(file, spec=spec)
    note(
        f"first fit of this file: epsilon {chosen.epsilon:g} at delta {chosen.delta:.3g} is the budget of all its fits"
        + ("" if budget is not None or declared.budget is not None else "; --budget would have chosen another")
    )
    for line in cures(made.report):
        note(f"purse: {line}")
    return made


def _digest(said: BaseModel) -> str:
    return hashlib.sha256(said.model_dump_json().encode()).hexdigest()[:16]


def _again(known: Dataset, name: str, declared: Declared, budget: float | None) -> Dataset:
    if known.columns not in (settled(declared.columns), declared.columns):  # the latter of homes before there was such
        raise Refusal(
            "this file was fitted before under another schema, and its charges are kept under that one; "
            "use the same schema (no two declarations share a budget)"
        )
    if known.name != name:
        raise Refusal(
            f"this file was first fitted with {known.unit} protected, or other persons, or in another dialect: "
            "repeat --unit, --max-rows and the schema's dialect of that fit"
        )
    if budget is not None and budget != known.budget.epsilon:
        fixed = f"epsilon {known.budget.epsilon:g}"
        raise Refusal(f"this file's budget was fixed at its first fit: {fixed}; leave out --budget")
    return known


def _delta(n: int) -> float:
    return min(_LARGEST, 1 / (10 * n))


def _usual(file: Path, declared: Declared) -> float:
    """The delta where none is said. Text of few lines has few records, which need not be counted."""
    from app.sources.csv import is_short

    try:
        is_few = not _is_parquet(file) and is_short(file, declared.dialect, round(1 / (10 * _LARGEST)))
    except SourceError as error:
        raise Refusal(str(error)) from error
    return _LARGEST if is_few else _delta(_count(file, declared))


def _count(file: Path, declared: Declared) -> int:
    """n, as the service will count it."""
    from app.sources.ingest import Reading, batches, count_persons

    reading = Reading(declared.columns, declared.dialect)
    try:
        if declared.unit is not None:
            return max(1, count_persons(file, reading, declared.unit))
        if _is_parquet(file):
            import pyarrow.parquet as pq  # late: no other file needs it

            return max(1, int(pq.ParquetFile(file).metadata.num_rows))
        return max(1, sum(len(batch.columns[0]) for batch in batches(file, declared.columns[:1], reading)))
    except (SourceError, ValueError) as error:
        raise Refusal(str(error)) from error


def _is_parquet(file: Path) -> bool:
    with file.open("rb") as source:
        return source.read(4) == b"PAR1"


def _say(model: Model, receipt: Receipt, status: BudgetStatus, folder: Path | None) -> None:
    sys.stdout.write(model.summary())
    sys.stdout.write("\n")
    show(receipt)
    sys.stdout.write("\n")
    facts(
        [
            ("verified", "the signature holds and epsilon follows from the events"),
            ("remaining", f"{loss(status.remaining)}: the largest further fit of this file"),
        ]
    )
    if folder is not None:
        note(f"wrote model.json, receipt.json and keys.json into {folder}")
