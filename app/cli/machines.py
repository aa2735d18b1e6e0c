"""purse server scheduler, purse worker: jobs on other machines, and their certificates."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from app.cli import late
from app.cli.options import Json
from app.cli.output import Output, Refusal
from purse import text

Authority = Annotated[
    Path, typer.Option(envvar="PURSE_SCHEDULER_CA", help="PEM file with the authority's certificate.")
]
Certificate = Annotated[
    Path, typer.Option(envvar="PURSE_SCHEDULER_CERT", help="PEM file with this machine's certificate.")
]
Key = Annotated[Path, typer.Option(envvar="PURSE_SCHEDULER_KEY", help="PEM file with the certificate's key.")]


@dataclass(frozen=True, slots=True)
class WorkerFiles:
    """The files and folders of a worker.

    Parameters
    ----------
    data : The folder `datasets` of the server's data folder, mounted here. Only read.
    scratch : A working folder of this worker alone, on a large disk. Emptied at start.
    """

    ca: Authority = Path("ca.pem")
    cert: Certificate = Path("worker.pem")
    key: Key = Path("worker-key.pem")
    data: Path = Path("datasets")
    scratch: Path = Path("purse-scratch")


def scheduler(
    json: Json,
    ca: Authority,
    cert: Certificate,
    key: Key,
    host: str = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8786,
) -> None:
    """Distribute jobs to workers on other machines.

    Servers hand jobs to the scheduler, and workers take them. The scheduler needs only its certificate. Servers name it
    in PURSE_SCHEDULER. Anyone with a certificate of the same authority can run code on it and on every worker.

    Parameters
    ----------
    host : The address to listen on.
    port : The port to listen on.

    \b
    Example:
      purse server scheduler --ca ca.pem --cert server.pem --key server-key.pem
    """

    def report(address: str) -> None:
        Output({"address": address}, notes=[f"scheduling on {address}"]).write(json)

    asyncio.run(late.joining.schedule(host, port, late.joining.Channel(ca, cert, key), report))


def worker(
    files: WorkerFiles,
    scheduler: Annotated[str | None, typer.Option(envvar="PURSE_SCHEDULER")] = None,
    slots: Annotated[int, typer.Option(min=1, max=256)] = 1,
    patience: Annotated[float, typer.Option(min=0, max=86_400)] = 20.0,
) -> None:
    """Run jobs on this machine until stopped.

    `purse worker` is short for `purse worker run`. A worker needs a certificate and the folder of the datasets, but no
    database, signing key or token. After a stop signal it accepts no jobs. Jobs that do not end in time are handed
    back, which costs them no attempt.

    Parameters
    ----------
    scheduler : The scheduler's address, tls://host:port.
    slots : Number of jobs at once, one process each.
    patience : Seconds that running jobs may continue after a stop signal.

    \b
    Examples:
      purse worker run --scheduler tls://10.0.0.5:8786 --data /mnt/datasets
      purse worker run --scheduler tls://10.0.0.5:8786 --data /mnt/datasets \\
        --cert worker-1.pem --key worker-1-key.pem --scratch /var/tmp/purse
    """
    if scheduler is None or not scheduler.startswith("tls://"):
        raise Refusal("The scheduler is not named. Use --scheduler tls://host:port, or set PURSE_SCHEDULER.")
    if not files.data.is_dir():
        raise Refusal(f"{files.data} is not a folder. Name the folder of the datasets with --data.")
    channel = late.joining.Channel(files.ca, files.cert, files.key)
    folders = (files.data.absolute(), files.scratch.absolute())
    machine = late.joining.MachineWork(scheduler, channel, *folders, slots, patience)
    try:
        asyncio.run(late.joining.work(machine))
    except BlockingIOError:
        raise Refusal(f"Another worker uses {files.scratch}. Give each worker its own folder with --scratch.") from None


def certificate(
    name: str,
    out: Annotated[Path, typer.Option(file_okay=False)] = Path("certificates"),
    days: Annotated[int, typer.Option(min=1, max=3650)] = 365,
) -> Output:
    """Create a certificate for a server or worker.

    The scheduler needs one too. The first call also creates the authority that signs them. Protect `ca-key.pem` and
    every key: a person who has one can run code on every worker. Give each machine `ca.pem` and its own two files.

    Parameters
    ----------
    name : Name of the machine: letters, digits, hyphens and dots.
    out : The folder of the authority and its certificates.
    days : Days until the certificate expires.

    \b
    Example:
      purse worker certificate --out certificates scheduler
    """
    authority = late.certificates.AUTHORITY
    if name == authority or not all(part.isalnum() and part.isascii() for part in name.replace("-", ".").split(".")):
        raise Refusal(f"{name!r} is not a valid name. Use letters, digits, hyphens and dots, but not {authority!r}.")
    if name.endswith("-key") or len(name) > 64:
        raise Refusal(f"{name!r} is not a valid name. Use at most 64 characters, and do not end with -key.")
    try:
        cert, key = late.certificates.issue(out, name, days)
    except FileExistsError:
        raise Refusal(f"{out} already has a certificate named {name!r}. Choose another name or folder.") from None
    except FileNotFoundError as missing:
        raise Refusal(
            f"{missing.filename} does not exist, but {out / 'ca.pem'} does. Restore it, or use an empty folder."
        ) from None
    paths = {"ca": str(out / f"{authority}.pem"), "cert": str(cert), "key": str(key)}
    return Output(paths, text.facts(paths.items()))
