"""purse keys list, export, rotate."""

from pathlib import Path
from typing import Annotated

import typer

from app.cli.common import DEFAULT_URL, Home, Json, Refusal, Url, connect, emit, facts, table, write_json

group = typer.Typer(no_args_is_help=True, help="The keys that sign receipts and heads.")


@group.command("list")
def list_keys(url: Url = DEFAULT_URL, json: Json = False) -> None:
    """The public keys, the one that signs now first. Needs no token.

    \b
    Example:
      purse keys list
    """
    with connect(url) as client:
        found = client.keys()
    rows = [(key["kid"], "retired" if place else "signs now") for place, key in enumerate(found.keys)]
    emit(found, json, lambda: table(("key", "state"), rows))


@group.command("export")
def export(
    out: Annotated[Path, typer.Option("--out", "-o", dir_okay=False, help="The file.")] = Path("keys.json"),
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """Save the public keys: what `--keys` trusts, from then on whatever a server says. Needs no token.

    \b
    Example:
      purse keys export --out keys-2026-11.json
    """
    with connect(url) as client:
        found = client.keys()
    write_json(out, found)
    emit(found, json, lambda: facts([("file", out), ("keys", len(found.keys)), ("signs now", found.keys[0]["kid"])]))


@group.command("rotate")
def rotate(home: Home = None, json: Json = False) -> None:
    """Sign with a fresh key from now on, in the state under PURSE_HOME; the old one's public half is kept.

    Receipts and heads so far verify as before. A running server needs no restart: its next receipt has the new key.
    Whoever pinned the keys exports them again.

    \b
    Example:
      purse keys rotate --home /srv/purse
    """
    from accounting.records import receipt
    from app.cli.state import settings_of
    from app.ledger.keys import KEY_FILE

    file = settings_of(home).home / KEY_FILE
    if not file.exists():
        raise Refusal(f"{file} is not there: nothing was signed yet, or it is lost (`purse ledger new-key`)")
    found = receipt.jwks(receipt.rotate_key(file))["keys"]
    told = {"file": str(file), "signs now": found[0]["kid"], "retired": [key["kid"] for key in found[1:]]}
    emit(told, json, lambda: facts([*list(told.items())[:2], ("retired", ", ".join(told["retired"]))]))
