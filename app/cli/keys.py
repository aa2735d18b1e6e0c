"""purse keys list, export."""

from pathlib import Path
from typing import Annotated

import typer

from app.cli.common import DEFAULT_URL, Json, Url, connect, emit, facts, table, write_json

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
