"""purse scheduler, purse worker: the engine on machines of its own, and their certificates."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from app.cli.common import Json, Refusal, emit, facts, note

Authority = Annotated[
    Path, typer.Option("--ca", envvar="PURSE_SCHEDULER_CA", help="The channel's authority, a PEM file.")
]
Certificate = Annotated[
    Path, typer.Option("--cert", envvar="PURSE_SCHEDULER_CERT", help="Our certificate, a PEM file.")
]
Key = Annotated[Path, typer.Option("--key", envvar="PURSE_SCHEDULER_KEY", help="The key of that certificate.")]

group = typer.Typer(invoke_without_command=True, help="Run jobs on this machine, for servers elsewhere.")


def scheduler(
    ca: Authority,
    cert: Certificate,
    key: Key,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on.")] = 8786,
    json: Json = False,
) -> None:
    """Run the scheduler that servers hand jobs to and workers take them from, until it is told to stop.

    It has its certificate and nothing else. Servers name it in PURSE_SCHEDULER; whoever has a certificate of the same
    authority runs code there and on every worker.

    \b
    Example:
      purse scheduler --host 0.0.0.0 --ca ca.pem --cert scheduler.pem --key scheduler-key.pem
    """
    from app.worker.joining import Channel, schedule

    def listening(address: str) -> None:
        emit({"address": address}, json, lambda: note(f"scheduling on {address}"))
        sys.stdout.flush()

    asyncio.run(schedule(host, port, Channel(ca, cert, key), listening))


@group.callback()
def worker(
    context: typer.Context,
    scheduler: Annotated[
        str | None, typer.Option(envvar="PURSE_SCHEDULER", help="The scheduler's address, tls://host:port.")
    ] = None,
    ca: Authority = Path("ca.pem"),
    cert: Certificate = Path("worker.pem"),
    key: Key = Path("worker-key.pem"),
    data: Annotated[
        Path, typer.Option(help="The folder `datasets` of the servers' home, as this machine sees it; read only.")
    ] = Path("datasets"),
    scratch: Annotated[
        Path, typer.Option(help="A folder of its own to work in, on a disk with room; emptied at start.")
    ] = Path("purse-scratch"),
    slots: Annotated[int, typer.Option(min=1, max=256, help="How many jobs at once, a process each.")] = 1,
    patience: Annotated[
        float, typer.Option(min=0, max=86_400, help="Seconds that a job may go on once this is told to stop.")
    ] = 20.0,
) -> None:
    """Run jobs on this machine, for the servers behind a scheduler, until told to stop.

    It needs a certificate and the folder of the datasets: no database, no signing key, no token. Told to stop, it takes
    nothing more; what does not end in time is handed back, which costs the job no attempt.

    \b
    Examples:
      purse worker certificate --out certificates worker-1
      purse worker --scheduler tls://10.0.0.5:8786 --ca ca.pem --cert worker-1.pem --key worker-1-key.pem \\
        --data /mnt/purse/datasets --scratch /var/tmp/purse
    """
    if context.invoked_subcommand is not None:
        return
    from app.worker.joining import Channel, Work, work

    if scheduler is None or not scheduler.startswith("tls://"):
        raise Refusal("name the scheduler: --scheduler tls://host:port, or PURSE_SCHEDULER")
    if not data.is_dir():
        raise Refusal(f"{data} is no folder: name the folder of the datasets with --data")
    try:
        asyncio.run(work(Work(scheduler, Channel(ca, cert, key), data.absolute(), scratch.absolute(), slots, patience)))
    except BlockingIOError:
        raise Refusal(f"another worker has {scratch}: give each its own with --scratch") from None


@group.command("certificate")
def certificate(
    name: Annotated[str, typer.Argument(help="Whose it is: letters, digits, hyphens and dots.")],
    out: Annotated[Path, typer.Option("--out", "-o", file_okay=False, help="The folder, with its authority.")] = Path(
        "certificates"
    ),
    days: Annotated[int, typer.Option(min=1, max=3650, help="How long it holds.")] = 365,
    json: Json = False,
) -> None:
    """Make a certificate for a server, the scheduler or a worker; the first time also the authority that signs them.

    Keep `ca-key.pem` where nobody else reads it: whoever has it, or any of these keys, may run code on every worker.
    Give each machine `ca.pem` and its own two files.

    \b
    Example:
      purse worker certificate --out certificates scheduler
    """
    from app.worker.certificates import AUTHORITY, issue

    if name == AUTHORITY or not all(part.isalnum() and part.isascii() for part in name.replace("-", ".").split(".")):
        raise Refusal("a name is letters, digits, hyphens and dots")
    if name.endswith("-key") or len(name) > 64:
        raise Refusal("a name has 64 characters at the most, and does not end as the files of keys do")
    try:
        made, key = issue(out, name, days)
    except FileExistsError:
        raise Refusal(f"{out} has a certificate of this name already") from None
    except FileNotFoundError as missing:
        raise Refusal(f"{missing.filename} is not there: no other authority is made beside {out / 'ca.pem'}") from None
    told = {"ca": str(out / f"{AUTHORITY}.pem"), "cert": str(made), "key": str(key)}
    emit(told, json, lambda: facts(list(told.items())))
