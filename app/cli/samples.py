"""purse dataset sample set, show, delete."""

from typing import Annotated

import typer

from app.cli.options import Dataset, File, OptionalFile, Sheet
from app.cli.output import Output, described
from app.cli.reports import cures
from app.cli.specs import read_spec
from purse import Client
from purse.wire.twins import PublicSample


def attach(
    client: Client,
    dataset: Dataset,
    file: File,
    published: Annotated[str, typer.Option()],
    spec: OptionalFile = None,
    sheet: Sheet = None,
) -> Output:
    """Attach a public file of rows.

    Twins and forecasts are then drawn from these rows. You state that the rows are public, because analysts can obtain
    them. Never attach the data itself or a part of it: the service does not compare the two.

    Parameters
    ----------
    file : Public file in the dataset's format, or a workbook.
    published : Where the file was published. Analysts can read this.
    spec : The dataset's spec. A workbook needs it, for its dialect.

    \b
    Examples:
      purse dataset sample set census 2019.csv --published "Census office, 2019"
      purse dataset sample set stays stays.xlsx --sheet all --published "Ministry"
    """
    declared = None if spec is None else read_spec(spec)[0]
    sample = client.datasets.attach_sample(dataset, file, published=published, spec=declared, sheet=sheet)
    return Output(sample, _facts(sample), list(cures(sample.report)))


def show(client: Client, dataset: Dataset) -> Output:
    """Show the attached public file.

    `purse dataset twin --from sample` draws rows from it.

    \b
    Example:
      purse dataset sample show census
    """
    sample = client.datasets.sample(dataset)
    return Output(sample, _facts(sample))


def delete(client: Client, dataset: Dataset) -> Output:
    """Remove the attached public file.

    \b
    Example:
      purse dataset sample delete census
    """
    client.datasets.delete_sample(dataset)
    return Output({"dataset": dataset, "deleted": True}, notes=[f"{dataset}: removed the public sample"])


def _facts(sample: PublicSample) -> str:
    return described(sample, "rows", "published", "attached_by", "attached_at")
