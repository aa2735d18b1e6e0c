"""Functions as commands: shared options, the client, and the printing of results."""

import dataclasses
import inspect
import os
from collections.abc import Callable
from contextlib import nullcontext
from inspect import Parameter
from typing import Any

from app.cli.options import DEFAULT_URL, Json, Url
from app.cli.output import Output
from purse import Client

_CONNECTION = Parameter("url", Parameter.KEYWORD_ONLY, default=DEFAULT_URL, annotation=Url)
_FORMAT = Parameter("json", Parameter.KEYWORD_ONLY, default=False, annotation=Json)


def connect(url: str) -> Client:
    """Return a client of a server, with the token in PURSE_TOKEN."""
    return Client(url, os.environ.get("PURSE_TOKEN") or None)


def as_command(function: Callable[..., Output | None]) -> Callable[..., None]:
    """Return a function as a command.

    Every command has the option --json, and its result is printed. A parameter `client` becomes the option --url, and
    the function receives a connected client. A parameter whose type is a dataclass becomes one option for each field.
    A parameter `json` receives the value of --json.
    """
    own = inspect.signature(function).parameters
    groups: dict[str, Any] = {
        name: each.annotation for name, each in own.items() if dataclasses.is_dataclass(each.annotation)
    }
    options: list[Parameter] = []
    for name, each in own.items():
        if name in groups:
            options += [_option(field) for field in dataclasses.fields(groups[name])]
        elif name not in ("client", "json"):
            options.append(each.replace(kind=Parameter.KEYWORD_ONLY))
    options += [*([_CONNECTION] if "client" in own else []), _FORMAT]

    def run(**values: Any) -> None:
        as_json = values["json"]
        for name, group in groups.items():
            values[name] = group(**{field.name: values[field.name] for field in dataclasses.fields(group)})
        with connect(values["url"]) if "client" in own else nullcontext() as client:
            values["client"] = client
            output = function(**{name: values[name] for name in own})
            if output is not None:
                output.write(as_json)

    run.__doc__ = function.__doc__
    run.__annotations__ = {each.name: each.annotation for each in options}
    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    return run


def _option(field: "dataclasses.Field[Any]") -> Parameter:
    default = Parameter.empty if field.default is dataclasses.MISSING else field.default
    return Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=field.type)
