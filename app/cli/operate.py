"""purse demo, serve, server."""

import logging
import socket
import sys
from contextlib import closing, redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from app.calculation.calculators import ForkedCalculators
from app.cli import late
from app.cli.options import DEFAULT_URL, Home, Json, Url
from app.cli.output import Output, Refusal
from app.cli.running import connect
from app.persistence.files import StartRefused
from purse import ProblemError, Unreachable, text


def serve(
    context: typer.Context,
    json: Json,
    host: str | None = None,
    port: Annotated[int | None, typer.Option(min=1, max=65535)] = None,
    home: Home = None,
) -> None:
    """Start the server.

    The first start creates a steward's token, prints it once, and stores it in PURSE_HOME/steward-token (mode 0600).
    Set PURSE_BOOTSTRAP_TOKEN, of 32 characters or more, to choose this token yourself. Stop the server with Ctrl-C or
    SIGTERM.

    Parameters
    ----------
    host : The address to listen on. Default: PURSE_HOST, or 127.0.0.1.
    port : The port to listen on. Default: PURSE_PORT, or 8000.

    \b
    Examples:
      purse serve --port 9000 --home /srv/purse
      purse server start --host 0.0.0.0
    """
    settings = late.state.settings_of(home, host, port)
    late.logs.install(settings.log_level, settings.log_format)
    url, logs_json = f"http://{settings.host}:{settings.port}", settings.log_format == "json"
    notes = () if logs_json else (f"serving {settings.home} on {url}",)
    try:
        _check_port(settings.host, settings.port)
        late.lives.check_free(settings, alone=False)
        Output({"url": url, "home": str(settings.home)}, notes=notes).write(json)
        with redirect_stdout(sys.stderr if json else sys.stdout):
            late.main.serve(settings, ForkedCalculators(settings.calculation_seconds, context.obj))
    except (Refusal, StartRefused) as refused:
        if not logs_json:
            raise
        logging.getLogger("purse.main").critical("start_refused: %s", refused)
        Output({"code": "failed", "status": None, "detail": str(refused), "remaining": None}, exit_code=1).write(json)


def migrate(home: Home = None) -> Output:
    """Update the database to this version.

    `purse serve` does this by itself with SQLite, but never with PostgreSQL.

    \b
    Example:
      purse server migrate --home /srv/purse
    """
    settings = late.state.settings_of(home)
    late.home.open_database(settings, upgrade=True).close()
    return Output({"home": str(settings.home), "migrated": True}, notes=[f"{settings.home} is up to date"])


def backup(
    target: Annotated[Path, typer.Argument(metavar="folder")],
    with_key: Annotated[bool, typer.Option("--with-key/--without-key")] = True,
    home: Home = None,
) -> Output:
    """Copy a running server to a folder.

    The folder can be used as PURSE_HOME. It contains the data, so protect it. It leaves out the epoch and files with
    tokens. With PostgreSQL it leaves out the database: run `pg_dump` first.

    Parameters
    ----------
    target : A folder that does not exist yet.
    with_key : Whether to include the signing key.

    \b
    Example:
      purse server backup /backups/2026-11-22 --home /srv/purse
    """
    settings = late.state.settings_of_home(home)
    copied = late.backup.back_up(settings, target.absolute(), with_key)
    document = {"home": str(settings.home), "backup": str(target), "datasets": copied, "key": with_key}
    return Output(document, notes=[f"{target} is a copy of {settings.home}. Number of datasets: {copied}"])


def copy_database(
    source: Annotated[str | None, typer.Option("--from")] = None,
    target: Annotated[str | None, typer.Option("--to")] = None,
    home: Home = None,
) -> Output:
    """Copy a server to another database.

    For example, copy from SQLite to PostgreSQL. Stop every server first. The copy is one transaction. Before it is
    committed, every ledger is verified in both databases, every receipt's signature is checked, and every row is
    compared. The data folder stays as it is. Afterwards a server refuses to start on the old database.

    Parameters
    ----------
    source : The database to copy. Default: the SQLite file under --home.
    target : An empty database. Default: the one in PURSE_DATABASE_URL.

    \b
    Examples:
      purse server copy-database --to postgresql://purse@db/purse
      PURSE_DATABASE_URL=postgresql://purse@db/purse purse server copy-database
    """
    settings = late.state.settings_of_home(home)
    source = source or settings.model_copy(update={"database_url": None}).database
    target = target or settings.database
    if source == target:
        raise Refusal("The two databases are the same. Name another one with --to or in PURSE_DATABASE_URL.")
    old_settings = settings.model_copy(update={"database_url": source})
    late.lives.check_free(old_settings)
    with closing(late.home.open_database(old_settings)) as old, closing(late.session.Database(target)) as new:
        copied = late.moving.copy(old, new, late.keys.SigningKeys.of(settings.home, old).jwks())
    counts = {name: count for name, (count, _) in copied.tables.items()}
    heads = {name: str(head) for name, head in copied.heads.items()}
    table = text.table(("ledger", "head", "in both"), [(name, head, "valid") for name, head in heads.items()])
    count = f"{sum(counts.values()):,} rows and {copied.receipts:,} receipts"
    line = f"Copied {count}, each signed by a key of {settings.home}."
    return Output({"ledgers": heads, "receipts": copied.receipts, "rows": counts}, table, [line])


def health(metrics: bool = False, url: Url = DEFAULT_URL) -> Output:
    """Check whether the server is ready.

    A server that answers is live. A server that accepts jobs is ready. The exit code is 1 if it is not ready.

    Parameters
    ----------
    metrics : Show the metrics for Prometheus instead.

    \b
    Examples:
      purse server health --url http://127.0.0.1:8000
      purse server health --metrics
    """
    if metrics:
        with connect(url) as client:
            figures = client.metrics()
        return Output({"metrics": figures}, figures)
    state = "ready"
    try:
        with connect(url) as client:
            client.ready()
    except ProblemError:
        state = "live, not ready"
    except Unreachable:
        state = "no answer"
    document = {"url": url, "live": state != "no answer", "ready": state == "ready"}
    return Output(document, notes=[f"{url}: {state}"], exit_code=0 if state == "ready" else 1)


def demo(json: Json) -> None:
    """Run the whole service on a real dataset.

    The demonstration uses a temporary folder and removes it at the end.

    \b
    Example:
      purse demo
    """
    with redirect_stdout(sys.stderr if json else sys.stdout):
        summary = late.script.run()
    Output(summary).write(json)


def _check_port(host: str, port: int) -> None:
    """Raise `Refusal` if the address cannot be listened on, before the server creates anything."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen()
    except OSError as error:
        raise Refusal(
            f"The server cannot listen on {host}:{port} ({error.strerror}). "
            "Stop the program that uses this port, or choose another address with --port and --host."
        ) from None
