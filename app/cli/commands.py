"""Every command, and how each of them ends."""

import json
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated, NoReturn

import typer

from app.calculation.calculators import Begun
from app.cli import (
    audit,
    data,
    database,
    fit,
    jobs,
    keys,
    ledger,
    machines,
    operate,
    outside,
    profiles,
    receipts,
    recovery,
    sharing,
    stewardship,
    tokens,
)
from app.cli.common import Refusal, loss
from purse import ClientError, ProblemError

_ADVICE = {
    "unauthenticated": "put a token into PURSE_TOKEN; `purse token create` makes one",
    "forbidden": "this needs a token of another role",
    "not_ready": "the server is starting; try again in a few seconds",
    "unexpected_response": "look at PURSE_URL",
}
_HELP = """Differentially private models under a privacy budget: priced, charged, and released with a signed receipt.

PURSE_URL names the server and PURSE_TOKEN holds its token. Every command has --help with examples, and --json.
"""

purse = typer.Typer(
    name="purse",
    help=_HELP,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"{version('privy-purse')}\n")
        raise typer.Exit


@purse.callback()
def _options(
    _: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="The version.")] = False,
) -> None:
    """What holds for every command."""


for command in (
    operate.demo,
    operate.serve,
    machines.scheduler,
    fit.fit,
    data.upload,
    data.budget,
    jobs.quote,
    jobs.submit,
    jobs.model,
    profiles.profile,
    outside.charge,
    outside.calibrate,
    operate.health,
    operate.migrate,
    operate.backup,
    audit.audit,
):
    purse.command()(command)
ledger.group.command("new-key")(recovery.new_key)
ledger.group.command("accept-rollback")(recovery.accept_rollback)
purse.add_typer(jobs.group, name="jobs")
purse.add_typer(stewardship.group, name="dataset")
purse.add_typer(receipts.group, name="receipt")
purse.add_typer(ledger.group, name="ledger")
purse.add_typer(keys.group, name="keys")
purse.add_typer(tokens.group, name="token")
purse.add_typer(database.group, name="db")
purse.add_typer(machines.group, name="worker")
purse.add_typer(sharing.grants, name="grant")
purse.add_typer(sharing.allotments, name="allot")


def run(given: Sequence[str], begun: Begun | None = None) -> NoReturn:
    """Runs one command and exits.

    Parameters
    ----------
    given : the command line, from the command's name on
    begun : the calculating process of a server, if one is to start
    """
    try:
        purse(args=list(given), prog_name="purse", obj=begun)
    except (ClientError, Refusal, OSError, TimeoutError, ValueError) as error:
        _fail(error, "--json" in given)
    sys.exit(0)


def _fail(error: Exception, as_json: bool) -> NoReturn:
    code, status, remaining = "failed", None, None
    text = str(error).rstrip(".") or type(error).__name__
    text = "; ".join((text, *getattr(error, "__notes__", ()))).rstrip(".")
    if isinstance(error, ProblemError):
        code, status, remaining = error.code, error.status, error.remaining
        text += f"; what remains: {loss(remaining)}" if remaining else ""
        text += f"; {_ADVICE[code]}" if code in _ADVICE else ""
    if as_json:
        rest = remaining.model_dump() if remaining else None
        problem = {"code": code, "status": status, "detail": text, "remaining": rest}
        sys.stdout.write(json.dumps(problem, indent=2) + "\n")
    sys.stderr.write(f"purse: {' '.join(text.split())}\n")
    sys.exit(1)
