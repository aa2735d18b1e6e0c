"""purse forecast and twin."""

import json as text
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli import jobs, plots
from app.cli.common import DEFAULT_URL, Dataset, Delta, Json, Refusal, Url, connect, emit, facts, note, table
from app.cli.specs import read_spec
from purse.wire.forecasts import AccuracyForecast, Spread
from purse.wire.twins import TwinSource

Rows = Annotated[int, typer.Option(help="How many rows.")]
Number = Annotated[int, typer.Option(help="Which of the twins: the same number gives the same rows.")]
Source = Annotated[
    str | None,
    typer.Option("--from", help="sample, profile or declaration; the first of these that there is, if left out."),
]


def forecast(
    target: jobs.Target,
    dataset: Annotated[str | None, typer.Argument(help="A dataset's id or name; none with --spec.")] = None,
    epsilon: Annotated[
        list[float] | None, typer.Option("--epsilon", "-e", help="One to be tried; may be said again. Six if left out.")
    ] = None,
    delta: Delta = None,
    wanted: Annotated[
        float | None, typer.Option(help="An accuracy, or for a number an r2: which epsilon is it to be had at?")
    ] = None,
    signal: Annotated[
        float, typer.Option(help="How well the best model would do: 0 as a constant answer, 1 perfectly.")
    ] = 0.5,
    method: jobs.Method = None,
    positive: jobs.Positive = None,
    more: jobs.More = None,
    preparation: jobs.Preparation = None,
    slope_limit: jobs.SlopeLimit = None,
    source: Source = None,
    runs: Annotated[int, typer.Option(help="Of the method, at each epsilon.")] = 10,
    twin_number: Annotated[int, typer.Option("--twin", help="Which of the twins is tried.")] = 0,
    spec: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="JSON: a spec. Then all is computed on this machine."),
    ] = None,
    records: Annotated[int | None, typer.Option(help="With --spec: how many records the data have.")] = None,
    sample: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="With --spec: a public file of rows like the data's."),
    ] = None,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """What accuracy to expect at which epsilon, tried on a public twin. Touches no data, charges nothing.

    The method that a quote would name runs many times with the noise that it would have. What the answer rests on is
    said below it. Nothing public says how the target depends on the rest: try several --signal, or a public --sample.

    \b
    Examples:
      purse forecast census --target income
      purse forecast census --target income --wanted 0.8 --signal 0.6 --epsilon 0.1 --epsilon 0.3 --epsilon 1
      purse forecast --spec census.json --records 50000 --sample public.csv --target income
    """
    asked = jobs.request(target, 1.0, delta, method, positive, more, preparation, slope_limit)
    del asked["privacy"]
    asked |= {"signal": signal, "runs": runs, "twin": twin_number} | ({} if wanted is None else {"wanted": wanted})
    if spec is not None:
        if records is None or dataset is not None or source is not None:
            raise Refusal("--spec goes with --records, and neither with a dataset nor with --from")
        found = _here(spec, records, sample, epsilon, delta, asked)
    elif dataset is None or sample is not None or records is not None:
        raise Refusal("name a dataset, or --spec and --records: --sample and --records go with --spec")
    else:
        with connect(url) as client:
            ways = asked | {"source": source_of(source)}
            found = client.forecast(dataset=dataset, epsilons=epsilon, delta=delta, **ways)
    emit(found, json, lambda: _show(found))


def _here(
    spec: Path,
    records: int,
    sample: Path | None,
    epsilons: list[float] | None,
    delta: float | None,
    asked: dict[str, Any],
) -> AccuracyForecast:
    """Computed in this process: a sample is sent nowhere."""
    from app.http.body import parse_json  # late, as the rest: what only this needs
    from app.http.errors import ApiError
    from app.quotes.forecasts import here, sampled
    from app.settings import Settings
    from app.sources.errors import SourceError
    from app.wire import ForecastRequest

    declared, has_budget = read_spec(spec)
    if not has_budget:
        usual = declared.budget.model_copy(update={"delta": min(1e-6, 1 / (10 * records))})
        declared = declared.model_copy(update={"budget": usual})
    given = {"epsilons": epsilons, "delta": delta}
    privacy = {key: value for key, value in given.items() if value is not None}
    try:
        body = parse_json(ForecastRequest, text.dumps({"dataset": "here", "privacy": privacy, **asked}))
        rows = None if sample is None else sampled(sample, declared)
        return here(declared, records, body, Settings(), rows)
    except ApiError as error:
        wrong = "; ".join(f"{v.where.removeprefix('body.')}: {v.what}" for v in error.violations or ())
        raise Refusal(f"{error.code}: {wrong or error.detail}") from None
    except SourceError as error:
        raise Refusal(error.detail) from None


def _show(found: AccuracyForecast) -> None:
    """For people: what was tried, a table, bars from a constant answer to the optimum, and what it rests on."""
    facts(
        [
            (found.measure, f"of {found.target}, at delta {found.delta:.3g}; {found.runs} runs at each epsilon"),
            ("constant answer", _number(found.constant)),
            ("without noise", _number(found.optimum)),
            *([] if found.wanted is None else [(f"for {found.wanted.score:g}", _needed(found))]),
        ]
    )
    is_number, labels = found.measure == "r2", [f"epsilon {each.epsilon:g}" for each in found.at]
    heads = ("epsilon", found.measure, "10 % to 90 %", *(("rmse", "10 % to 90 %") if is_number else ()), "method")
    sys.stdout.write("\n")
    told = [(e.score, e.rmse) if e.rmse else (e.score,) for e in found.at]
    cells = [[cell for spread in spreads for cell in _cells(spread)] for spreads in told]
    table(heads, [(f"{e.epsilon:g}", *own, e.method) for e, own in zip(found.at, cells, strict=True)])
    sys.stdout.write("\n")
    spreads = [(each.score.low, each.score.median, each.score.high) for each in found.at]
    for line in plots.curve(labels, spreads, found.constant, max(found.optimum, *(high for _, _, high in spreads))):
        sys.stdout.write(f"{line}\n")
    sys.stdout.write("\n")
    for sentence in found.rests_on:
        sys.stdout.write(f"{sentence}\n")


def _needed(found: AccuracyForecast) -> str:
    assert found.wanted is not None
    needed = found.wanted.epsilon
    if needed is None:
        return "no epsilon that was tried is enough"
    return f"epsilon {needed:.3g}" + (" or less" if needed == found.at[0].epsilon else "")


def _cells(spread: Spread) -> tuple[str, str]:
    return _number(spread.median), f"{_number(spread.low)} to {_number(spread.high)}"


def _number(value: float) -> str:
    return f"{value:.4g}"


def twin(
    dataset: Dataset,
    out: Annotated[Path, typer.Option("--out", "-o", help="Write it to this file.")],
    rows: Rows = 1000,
    number: Number = 0,
    source: Source = None,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """A file of rows to try code on, drawn by what is public of a dataset. Touches no data, charges nothing.

    Columns, ranges, categories and the file's dialect are as declared. Of a public sample rows are drawn whole; else
    columns are drawn one by one, so that nothing relates one to another.

    \b
    Example:
      purse twin census --rows 10000 --out twin.csv
    """
    with connect(url) as client:
        made = client.datasets.twin(dataset, rows=rows, number=number, source=source_of(source))
    out.write_bytes(made)
    emit(
        {"written": str(out), "rows": rows, "number": number},
        json,
        lambda: note(f"wrote {out}: {rows} rows, none of them of the data"),
    )


def source_of(given: str | None) -> TwinSource | None:
    """The source that an option names."""
    match given:
        case None | "declaration" | "profile" | "sample":
            return given
    raise Refusal("--from is sample, profile or declaration")
