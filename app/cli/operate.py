"""purse serve, migrate, backup, health, demo."""

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from app.cli.common import DEFAULT_URL, Home, Json, Refusal, Url, connect, emit, note
from purse import ProblemError, Unreachable


def serve(
    context: typer.Context,
    host: Annotated[str | None, typer.Option(help="The address to listen on; PURSE_HOST, else 127.0.0.1.")] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="The port to listen on; PURSE_PORT, else 8000.")
    ] = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Run the service until it is told to stop.

    The first start makes a steward's token, prints it once and keeps it in PURSE_HOME/steward-token (mode 0600);
    PURSE_BOOTSTRAP_TOKEN, of 32 characters or more, sets it instead.

    \b
    Examples:
      purse serve
      purse serve --host 0.0.0.0 --port 9000 --home /srv/purse
    """
    from app import main
    from app.calculation.calculators import ForkedCalculators
    from app.cli.state import refuse_second, settings_of
    from app.persistence.files import StartRefused

    settings = settings_of(home, host, port)
    refuse_second(settings, alone=False)
    url = f"http://{settings.host}:{settings.port}"
    emit({"url": url, "home": str(settings.home)}, json, lambda: note(f"serving {settings.home} on {url}"))
    sys.stdout.flush()
    try:
        with redirect_stdout(sys.stderr if json else sys.stdout):
            main.serve(settings, ForkedCalculators(settings.calculation_seconds, context.obj))
    except StartRefused as error:
        raise Refusal(str(error)) from None


def migrate(home: Home = None, json: Json = False) -> None:
    """Bring the database up to date; `purse serve` does so by itself with SQLite, and never with PostgreSQL.

    \b
    Example:
      purse migrate --home /srv/purse
    """
    from app.cli.state import opened, settings_of

    settings = settings_of(home)
    with opened(settings, upgrade=True):
        pass
    emit({"home": str(settings.home), "migrated": True}, json, lambda: note(f"{settings.home} is up to date"))


def backup(
    target: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that is not there yet.")],
    with_key: Annotated[
        bool, typer.Option("--with-key/--without-key", help="The signing key, too; else keep it elsewhere.")
    ] = True,
    home: Home = None,
    json: Json = False,
) -> None:
    """Copy a service while it runs: a folder that is a home. Never its epoch, nor the tokens that it keeps in files.

    With PostgreSQL the database is not in it: `pg_dump` first, then this. Whoever can read it has the data.

    \b
    Example:
      purse backup /backups/2026-11-22 --home /srv/purse
    """
    from app.cli.state import settings_of_home
    from app.operations.backup import back_up
    from app.persistence.files import StartRefused

    settings = settings_of_home(home)
    try:
        copied = back_up(settings, target.absolute(), with_key)
    except StartRefused as error:
        raise Refusal(str(error)) from None
    told = {"home": str(settings.home), "backup": str(target), "datasets": copied, "key": with_key}
    emit(told, json, lambda: note(f"{target} is a copy of {settings.home}, with {copied} datasets"))


def health(
    metrics: Annotated[bool, typer.Option("--metrics", help="Its figures instead, as Prometheus reads them.")] = False,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """Whether the server is there (live) and takes jobs (ready); exit code 1 if not.

    \b
    Examples:
      purse health --url http://127.0.0.1:8000
      purse health --metrics
    """
    if metrics:
        with connect(url) as client:
            told = client.metrics()
        emit({"metrics": told}, json, lambda: sys.stdout.write(told))
        return
    live, ready = True, True
    try:
        with connect(url) as client:
            client.ready()
    except ProblemError:
        ready = False
    except Unreachable:
        live = ready = False
    state = "ready" if ready else "live, not ready" if live else "no answer"
    emit({"url": url, "live": live, "ready": ready}, json, lambda: note(f"{url}: {state}"))
    if not ready:
        raise typer.Exit(1)


def demo(json: Json = False) -> None:
    """The whole service on a real dataset, from upload to refusal, in a temporary home.

    \b
    Example:
      purse demo
    """
    from app.demo.script import run

    with redirect_stdout(sys.stderr if json else sys.stdout):
        summary = run()
    emit(summary, json, lambda: None)
