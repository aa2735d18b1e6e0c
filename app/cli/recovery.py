"""purse ledger new-key, accept-rollback: going on where something is lost for good."""

from typing import Annotated

import typer

from app.cli.common import Home, Json, Refusal, emit, note, table
from app.cli.ledger import group as group


@group.command("new-key")
def new_key(
    is_lost: Annotated[bool, typer.Option("--is-lost", help="The old key is gone and in no backup.")] = False,
    home: Home = None,
    json: Json = False,
) -> None:
    """Make another signing key where the old one is lost. Receipts so far verify only with keys saved beside them.

    \b
    Example:
      purse ledger new-key --is-lost --home /srv/purse
    """
    from app.cli.state import refuse_second, settings_of_home
    from app.ledger.keys import KEY_FILE, SigningKeys

    settings = settings_of_home(home)
    file = settings.home / KEY_FILE
    if file.exists() or not is_lost:
        raise Refusal(f"{file} is there" if file.exists() else "restore the key from a backup, or say --is-lost")
    refuse_second(settings)
    SigningKeys(settings.make_home())
    emit({"key": str(file)}, json, lambda: note(f"made {file}; keep a copy of it"))


@group.command("accept-rollback")
def accept_rollback(
    reason: Annotated[str, typer.Option(help="What happened, for those who read the ledgers: 1 to 256 characters.")],
    home: Home = None,
    json: Json = False,
) -> None:
    """Go on from an older copy of the database, where the newest is lost. Nobody knows what was charged since.

    Each ledger that lost entries says so from now on, with this reason, and is frozen; its open jobs have failed and
    stay charged. Then, as a steward: charge what may be lost as an external charge, and lift the freeze; or leave it.

    \b
    Example:
      purse ledger accept-rollback --reason "disk of 22 November lost, copy of the night before" --home /srv/purse
    """
    from app.cli.state import opened, refuse_second, settings_of_home
    from app.jobs.rollback import accept
    from app.persistence.files import StartRefused

    settings = settings_of_home(home)
    refuse_second(settings)
    with opened(settings) as database:
        try:
            lost = accept(database, settings, reason)
        except StartRefused as error:
            raise Refusal(str(error)) from None
    if not lost.ledgers and not lost.missing:
        raise Refusal("every ledger holds the head that was published of it: there is nothing to accept")
    rows = [(of, "unknown" if head is None else str(head), "frozen") for of, head in lost.ledgers.items()]
    rows += [
        (of, str(head), "gone: registered again, it needs an external charge") for of, head in lost.missing.items()
    ]
    told = [{"ledger": of, "lacks": lacks, "is": state} for of, lacks, state in rows]
    emit(told, json, lambda: table(("ledger", "lacks the head", "now"), rows))
