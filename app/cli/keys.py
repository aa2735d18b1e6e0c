"""purse keys list, export, rotate."""

from pathlib import Path
from typing import Annotated

import typer

from app.cli import late
from app.cli.options import Home
from app.cli.output import Output, Refusal, write_json
from purse import Client, text


def list_keys(client: Client) -> Output:
    """List the server's public keys.

    The first key signs now. No token is needed.

    \b
    Example:
      purse keys list
    """
    keys = client.keys()
    rows = [(key["kid"], "retired" if index else "signs now") for index, key in enumerate(keys.keys)]
    return Output(keys, text.table(("key", "state"), rows))


def export(client: Client, out: Annotated[Path, typer.Option(dir_okay=False)] = Path("keys.json")) -> Output:
    """Save the server's public keys.

    Use the file with --keys to verify receipts later, without trusting the server of that day. No token is needed.

    Parameters
    ----------
    out : The file to write.

    \b
    Example:
      purse keys export --out keys-2026-11.json
    """
    keys = client.keys()
    write_json(out, keys)
    return Output(keys, text.facts([("file", out), ("keys", len(keys.keys)), ("signs now", keys.keys[0]["kid"])]))


def rotate(home: Home = None) -> Output:
    """Sign with a new key.

    The public part of the old key is kept, so existing receipts and heads verify as before. A running server uses the
    new key for its next receipt, without a restart. People who saved the keys should export them again.

    \b
    Example:
      purse keys rotate --home /srv/purse
    """
    file = late.state.settings_of(home).home / late.keys.KEY_FILE
    if not file.exists():
        raise Refusal(
            f"{file} does not exist. Either nothing was signed yet, or the key is lost. See `purse ledger new-key`."
        )
    current, *retired = (key["kid"] for key in late.signing.jwks(late.signing.rotate_key(file))["keys"])
    facts = [("file", str(file)), ("signs now", current), ("retired", ", ".join(retired))]
    return Output({"file": str(file), "signs now": current, "retired": retired}, text.facts(facts))
