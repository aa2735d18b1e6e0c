"""purse forecast, purse dataset twin."""

from pathlib import Path
from typing import Annotated

import typer

from app.cli import late
from app.cli.options import Dataset, Delta, OptionalArgument, OptionalFile, Training
from app.cli.output import Output, Refusal
from purse import Client, text
from purse.client.requests import without_none
from purse.wire.forecasts import AccuracyForecast
from purse.wire.twins import TwinSource

Source = Annotated[TwinSource | None, typer.Option("--from")]


def forecast(
    client: Client,
    training: Training,
    dataset: OptionalArgument = None,
    epsilon: list[float] | None = None,
    delta: Delta = None,
    wanted: float | None = None,
    signal: float = 0.5,
    source: Source = None,
    runs: int | None = None,
    twin_number: Annotated[int, typer.Option("--twin")] = 0,
    spec: OptionalFile = None,
    records: int | None = None,
    sample: OptionalFile = None,
) -> Output:
    """Estimate what noise costs at each epsilon.

    The method is run many times on synthetic rows, with the noise that a job would have. No data is read and nothing
    is charged. The declaration does not state how strongly the target depends on the other columns, so try several
    values of --signal, or use a public --sample.

    Parameters
    ----------
    dataset : The dataset's id or name. Leave it out with --spec.
    epsilon : An epsilon to try. Repeatable. Default: six values.
    wanted : Target score: accuracy, or R^2 for a numeric target. Shows the epsilon that reaches it.
    signal : Assumed quality of the best model: 0 is as good as a constant answer, 1 is perfect.
    source : Origin of the synthetic rows. Default: the first of sample, profile and declaration that exists.
    runs : Number of runs at each epsilon. Default: 10, or fewer.
    twin_number : Number of the synthetic dataset. The same number gives the same rows.
    spec : JSON file with a spec. The forecast then runs on this machine.
    records : With --spec: number of records.
    sample : With --spec: public file with similar rows.

    \b
    Examples:
      purse forecast census --target income
      purse forecast census --target income --wanted 0.8 --epsilon 0.1 --epsilon 1
      purse forecast --target income --spec census.json --records 50000 \\
        --sample public.csv
    """
    request = training.fields | without_none(signal=signal, twin=twin_number, runs=runs, wanted=wanted)
    if spec is not None:
        if records is None or dataset is not None or source is not None:
            raise Refusal("--spec needs --records, and cannot be combined with a dataset or with --from.")
        request["privacy"] = without_none(epsilons=epsilon, delta=delta)
        computed = late.local_forecasts.compute(spec, records, sample, request)
    elif dataset is None or sample is not None or records is not None:
        raise Refusal("Give a dataset, or --spec and --records. --sample and --records need --spec.")
    else:
        computed = client.forecast(dataset=dataset, epsilons=epsilon, delta=delta, source=source, **request)
    return Output(computed, _text(computed))


def _text(computed: AccuracyForecast) -> str:
    """Return a forecast as text: a table, bars from a constant answer to the best model, and the assumptions."""
    measure = computed.score_name
    facts = [
        ("forecast", f"{measure} of {computed.target}, at delta {computed.delta:.3g}"),
        ("runs", f"{computed.runs} at each epsilon"),
        ("constant answer", text.number(computed.constant)),
        ("without noise", text.number(computed.optimum)),
    ]
    if computed.wanted is not None:
        facts.append((f"{measure} {computed.wanted.score:g}", _needed(computed)))
    assumptions = "".join(text.paragraph(sentence) for sentence in computed.rests_on)
    return "\n".join((text.facts(facts), *(table.to_text() for table in computed.tables()), assumptions))


def _needed(computed: AccuracyForecast) -> str:
    assert computed.wanted is not None
    needed = computed.wanted.epsilon
    if needed is None:
        return "not reached at any epsilon that was tried"
    return f"at epsilon {needed:.3g}" + (" or less" if needed == computed.at[0].epsilon else "")


def twin(
    client: Client,
    dataset: Dataset,
    out: Annotated[Path, typer.Option()],
    rows: int = 1000,
    number: int = 0,
    source: Source = None,
) -> Output:
    """Write synthetic rows to try code on.

    The rows have the declared columns, ranges, categories and dialect. From a public sample, whole rows are drawn.
    Otherwise each column is drawn separately, so columns are independent. No data is read and nothing is charged.

    Parameters
    ----------
    out : Write the rows to this file.
    rows : Number of rows.
    number : Number of the twin. The same number gives the same rows.
    source : Origin of the synthetic rows. Default: the first of sample, profile and declaration that exists.

    \b
    Example:
      purse dataset twin census --rows 10000 --out twin.csv
    """
    out.write_bytes(client.datasets.twin(dataset, rows=rows, number=number, source=source))
    document = {"written": str(out), "rows": rows, "number": number}
    return Output(document, notes=[f"wrote {out}: {rows:,} synthetic rows"])
