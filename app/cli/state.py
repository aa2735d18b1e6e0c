"""The settings of a server, and its data folder, without the server."""

import difflib
import os
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from pydantic import ValidationError

from app.cli.output import Refusal
from app.identity.home import IDENTITY_FILE
from app.persistence.session import Database
from app.persistence.tables import datasets
from app.settings import Settings
from purse.errors import fault

_SIMILARITY = 0.9  # of names, as difflib measures it


def settings_of(
    home: Path | None = None, host: str | None = None, port: int | None = None, workers: int | None = None
) -> Settings:
    """Return the settings of the environment, replaced by those of the command line."""
    _refuse_misspelt()
    options = {"home": home, "host": host, "port": port, "workers": workers}
    try:
        chosen: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
        return Settings(**chosen | {"_secrets_dir": os.environ.get("PURSE_SECRETS_DIR")})
    except ValidationError as error:
        faults = "; ".join(f"PURSE_{'.'.join(map(str, e['loc'])).upper()}: {fault(e)}" for e in error.errors())
        raise Refusal(f"Invalid setting: {faults}. Correct the environment variable or the option.") from None


def _refuse_misspelt() -> None:
    """Raise `Refusal` if a variable has almost the name of a setting. Other programs may have variables of PURSE_."""
    names = [f"PURSE_{name.upper()}" for name in Settings.model_fields]
    for variable in os.environ:
        if variable.upper().startswith("PURSE_") and variable.upper() not in names:
            similar = difflib.get_close_matches(variable.upper(), names, n=1, cutoff=_SIMILARITY)
            if similar:
                raise Refusal(f"{variable} is not a setting. Rename the variable to {similar[0]}, or remove it.")


def settings_of_home(home: Path | None = None) -> Settings:
    """Return the settings for an existing home. Raise `Refusal` if no server has created the home yet."""
    settings = settings_of(home)
    if not (settings.home / IDENTITY_FILE).is_file():
        raise Refusal(
            f"{settings.home} is not the data folder of a server. Name the folder with --home or in PURSE_HOME."
        )
    return settings


def dataset_names(database: Database) -> dict[str, str]:
    """Return the name of each dataset, by its id."""
    with database.read() as connection:
        rows = connection.execute(sa.select(datasets.c.id, datasets.c.name)).all()
    return {row.id: row.name for row in rows}
