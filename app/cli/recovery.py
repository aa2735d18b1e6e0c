"""purse ledger new-key, accept-rollback: continue after a permanent loss."""

from contextlib import closing
from typing import Annotated

import typer

from app.cli.options import Home
from app.cli.output import Output, Refusal
from purse import text


def new_key(is_lost: bool = False, home: Home = None) -> Output:
    """Create a new signing key after the loss of the old one.

    Existing receipts can then be verified only with keys that were saved earlier.

    Parameters
    ----------
    is_lost : Confirm that the old key is in no backup.

    \b
    Example:
      purse ledger new-key --is-lost --home /srv/purse
    """
    from app.cli.state import settings_of_home
    from app.ledger.keys import KEY_FILE, SigningKeys
    from app.services import check_free

    settings = settings_of_home(home)
    file = settings.home / KEY_FILE
    if file.exists():
        raise Refusal(f"{file} exists. To replace a key that is not lost, use `purse keys rotate`.")
    if not is_lost:
        raise Refusal("No key was created. Restore the key from a backup, or confirm its loss with --is-lost.")
    check_free(settings)
    SigningKeys(settings.make_home())
    return Output({"key": str(file)}, notes=[f"Created {file}. Keep a copy of it."])


def accept_rollback(reason: Annotated[str, typer.Option()], home: Home = None) -> Output:
    """Continue from an older copy of the database.

    Use it if the newest database is lost. Charges since the copy are unknown. Each ledger that lost entries records the
    reason and is frozen. Its open jobs fail and stay charged. Open sessions that lost recorded answers, or whose ledger
    lost entries, expire and stay charged. A steward then charges what may be lost as an external
    charge and unfreezes the dataset, or leaves it frozen.

    Parameters
    ----------
    reason : What happened, in 1 to 256 characters. The ledgers record it.

    \b
    Example:
      purse ledger accept-rollback --reason "disk lost, copy of 21 November" --home /srv/purse
    """
    from app.cli.state import settings_of_home
    from app.identity.home import open_database
    from app.jobs.rollback import accept
    from app.services import check_free

    settings = settings_of_home(home)
    check_free(settings)
    with closing(open_database(settings)) as database:
        rollback = accept(database, settings, reason)
    if not rollback.ledgers and not rollback.missing and not rollback.sessions:
        raise Refusal("Every ledger contains the head that was published of it, so there is nothing to accept.")
    rows = [(name, "unknown" if head is None else str(head), "frozen") for name, head in rollback.ledgers.items()]
    missing = "missing: if registered again, it needs an external charge"
    rows += [(name, str(head), missing) for name, head in rollback.missing.items()]
    rows += [(name, "recorded answers", "expired, and charged as a whole") for name in rollback.sessions]
    document = [{"ledger": name, "lacks": head, "is": state} for name, head, state in rows]
    return Output(document, text.table(("ledger", "missing head", "now"), rows))
