"""Every command, and how each of them ends.

A command's module is loaded when that command is asked for; the list of all of them needs none.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import typer

if TYPE_CHECKING:
    from app.calculation.calculators import Begun

_ADVICE = {
    "unauthenticated": "put your token into PURSE_TOKEN; a steward makes one: `purse token create NAME --role analyst`",
    "forbidden": "this needs a token of another role",
    "not_ready": "the server is starting; try again in a few seconds",
    "unexpected_response": "look at PURSE_URL",
}
_HELP = """Differentially private models under a privacy budget: priced, charged, and released with a signed receipt.

PURSE_URL names the server and PURSE_TOKEN holds its token. Every command has --help with examples, and --json.
"""

COMMANDS: Final[Mapping[str, str]] = {
    "demo": "The whole service on a real dataset, from upload to refusal, in a temporary home.",
    "serve": "Run the service until it is told to stop.",
    "fit": "Train one private model on a local file, without a standing server.",
    "check": "What would become of a file's values under a declaration.",
    "upload": "Register a file as a dataset, under declared bounds and a budget.",
    "datasets": "The datasets that this token may see, the newest first; of one of them its columns, as declared.",
    "budget": "What is spent of a dataset's budget and what remains.",
    "forecast": "What accuracy to expect at which epsilon, tried on a public twin.",
    "twin": "A file of rows to try code on, drawn by what is public of a dataset.",
    "sample": "Name a public file of rows like a dataset's, for twins and forecasts to draw from.",
    "quote": "What a job would cost. Touches no data, charges nothing.",
    "submit": "Charge the budget and train a private model.",
    "tune": "Train models in several ways at one price, and keep the best.",
    "jobs": "List, show, follow and cancel jobs; a list, if nothing else is said.",
    "model": "The model that a job released, as JSON.",
    "evaluate": "How well a job's model does on the part that was kept out of its dataset, with noise.",
    "predict": "What a released model predicts for the rows of a CSV file.",
    "profile": "A dataset's columns: counts, means, spread and quantiles, with noise.",
    "count": "How many rows lie in each part of a column, or in each cell of several, with noise.",
    "table": "A cross table of two columns, with noise.",
    "means": "Means of numbers and shares of categories, with noise.",
    "quantiles": "Quantiles of numbers, with noise.",
    "covariance": "Covariance and correlation of numbers, with noise.",
    "receipt": "Save receipts, and verify them without a server.",
    "ledger": "Read ledgers, keep their heads, verify them with and without a server.",
    "keys": "The keys that sign receipts and heads.",
    "token": "Make, list, rotate and revoke bearer tokens.",
    "grant": "Say which analysts know of a dataset.",
    "allot": "Say what one analyst may spend of a dataset's budget.",
    "webhook": "Have an address told of each job that is over.",
    "dataset": "Change, freeze or delete a dataset that is there, as its steward.",
    "charge": "Charge a dataset for what ran elsewhere on the same people.",
    "calibrate": "The least noise for a target, and who certifies it.",
    "health": "Whether the server is there (live) and takes jobs (ready); exit code 1 if not.",
    "migrate": "Bring the database up to date",
    "backup": "Copy a service while it runs: a folder that is a home.",
    "db": "The database of an installation.",
    "scheduler": "Run the scheduler that servers hand jobs to and workers take them from",
    "worker": "Run jobs on this machine, for servers elsewhere.",
    "audit": "Attack a method on its worst-case neighbors",
}
"""Each by its name, with how its own help begins."""
EVERY: Final = "*"


def program(wanted: str) -> typer.Typer:
    """The command line, of which the wanted command is loaded and the rest is names; all of it for `EVERY`."""
    purse = typer.Typer(
        name="purse", help=_HELP, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False
    )
    purse.callback()(_options)
    for name, said in COMMANDS.items():
        if wanted not in (name, EVERY):
            purse.command(name, help=said)(_named)
        elif isinstance(loaded := _load(name), typer.Typer):
            purse.add_typer(loaded, name=name)
        else:
            purse.command(name)(loaded)
    return purse


def _named() -> None:
    """Stands for a command that was not asked for."""


def _print_version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"{version('privy-purse')}\n")
        raise typer.Exit


def _options(
    _: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="The version.")] = False,
) -> None:
    """What holds for every command."""


def _load(name: str) -> Callable[..., None] | typer.Typer:
    """The command, or group of commands, of this name."""
    command: Callable[..., None]
    match name:
        case "demo" | "serve" | "health" | "migrate" | "backup":
            from app.cli import operate

            command = getattr(operate, name)
            return command
        case "upload" | "datasets" | "budget":
            from app.cli import data

            command = getattr(data, name)
            return command
        case "quote" | "submit" | "model":
            from app.cli import jobs

            command = getattr(jobs, name)
            return command
        case "forecast" | "twin":
            from app.cli import forecasts

            command = getattr(forecasts, name)
            return command
        case "sample":
            from app.cli.samples import group

            return group
        case "tune":
            from app.cli.tunings import tune

            return tune
        case "charge" | "calibrate":
            from app.cli import outside

            command = getattr(outside, name)
            return command
        case "check":
            from app.cli.check import check

            return check
        case "evaluate":
            from app.cli.evaluations import evaluate

            return evaluate
        case "fit":
            from app.cli.fit import fit

            return fit
        case "jobs":
            from app.cli.jobs import group

            return group
        case "predict":
            from app.cli.predictions import predict

            return predict
        case "profile":
            from app.cli.profiles import profile

            return profile
        case "count" | "table" | "means" | "quantiles" | "covariance":
            from app.cli import statistics

            command = getattr(statistics, name)
            return command
        case "receipt":
            from app.cli.receipts import group

            return group
        case "ledger":
            from app.cli.recovery import group

            return group
        case "keys":
            from app.cli.keys import group

            return group
        case "token":
            from app.cli.tokens import group

            return group
        case "grant":
            from app.cli.sharing import grants

            return grants
        case "allot":
            from app.cli.sharing import allotments

            return allotments
        case "webhook":
            from app.cli.webhooks import group

            return group
        case "dataset":
            from app.cli.stewardship import group

            return group
        case "db":
            from app.cli.database import group

            return group
        case "scheduler":
            from app.cli.machines import scheduler

            return scheduler
        case "worker":
            from app.cli.machines import group

            return group
        case _:
            from app.cli.audit import audit

            return audit


def run(given: Sequence[str], begun: "Begun | None" = None) -> NoReturn:
    """Runs one command and exits.

    Parameters
    ----------
    given : the command line, from the command's name on
    begun : the calculating process of a server, if one is to start
    """
    completed = (os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or "").split()[1:]
    wanted = next((word for word in given or completed if not word.startswith("-")), "")
    try:
        program(wanted)(args=list(given), prog_name="purse", obj=begun)
    except Exception as error:
        fail(error, f"purse {wanted}", "--json" in given)
    sys.exit(0)


def fail(error: Exception, command: str, as_json: bool = False) -> NoReturn:
    """Says what went wrong and ends the program; what is nobody's refusal goes on as it is."""
    from pydantic import ValidationError  # late, as the next: what no list of commands needs

    from app.cli.common import Refusal
    from app.cli.reports import cures
    from app.persistence.files import described
    from purse import ClientError, ProblemError
    from purse.errors import faults
    from purse.extras import lacking

    if isinstance(error, ModuleNotFoundError):
        error = lacking(command, error)
    if not isinstance(error, ClientError | Refusal | OSError | TimeoutError | ValueError):
        raise error
    code, status, remaining, report = "failed", None, None, None
    told = described(error) if isinstance(error, OSError) else str(error)
    if isinstance(error, ValidationError):
        told = faults(error)
    text = told.rstrip(".") or type(error).__name__
    text = "; ".join((text, *getattr(error, "__notes__", ()))).rstrip(".")
    if isinstance(error, ProblemError):
        code, status, remaining, report = error.code, error.status, error.remaining, error.report
        text += f"; {_ADVICE[code]}" if code in _ADVICE else ""
    if as_json:
        rest = remaining.model_dump() if remaining else None
        problem = {"code": code, "status": status, "detail": text, "remaining": rest}
        problem |= {"report": report.model_dump()} if report else {}
        sys.stdout.write(json.dumps(problem, indent=2) + "\n")
    sys.stderr.write(f"purse: {' '.join(text.split())}\n")
    for line in cures(report) if report else ():
        sys.stderr.write(f"  {line}\n")
    sys.exit(1)
