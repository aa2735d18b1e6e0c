"""Functions as commands: shared options, the client, and the printing of results."""

import dataclasses
import inspect
import os
import re
from collections.abc import Callable
from contextlib import nullcontext
from copy import copy
from inspect import Parameter
from typing import Annotated, Any, get_args, get_origin

import typer
from typer.models import OptionInfo

from app.cli.options import DEFAULT_URL, Json, Url
from app.cli.output import Output
from purse import Client

_CONNECTION = Parameter("url", Parameter.KEYWORD_ONLY, default=DEFAULT_URL, annotation=Url)
_FORMAT = Parameter("json", Parameter.KEYWORD_ONLY, default=False, annotation=Json)
_SHORT_NAMES = {"delta": "-d", "epsilon": "-e", "method": "-m", "out": "-o", "target": "-t"}
_PARAMETERS = re.compile(r"\n\nParameters\n-+\n(.*?)(?=\n\n|$)", re.DOTALL)  # the section of a docstring
_DESCRIPTION = re.compile(r"^(\w+) : (.*(?:\n +.*)*)", re.MULTILINE)


def connect(url: str) -> Client:
    """Return a client of a server, with the token in PURSE_TOKEN."""
    return Client(url, os.environ.get("PURSE_TOKEN") or None)


def as_command(function: Callable[..., Output | None]) -> Callable[..., None]:
    """Return a function as a command.

    Every command has the option --json, and its result is printed. A parameter `client` becomes the option --url, and
    the function receives a connected client. A parameter whose type is a dataclass becomes one option for each field.
    A parameter `json` receives the value of --json.

    Every other parameter becomes an option if it has a default, and an argument otherwise; `Annotated` states another
    kind. The help of an option is the parameter's description in the docstring of the function or dataclass.
    """
    own = inspect.signature(function).parameters
    groups: dict[str, Any] = {
        name: each.annotation for name, each in own.items() if dataclasses.is_dataclass(each.annotation)
    }
    help_text, descriptions = documented(function.__doc__)
    options: list[Parameter] = []
    for name, each in own.items():
        if name in groups:
            _, of_fields = documented(groups[name].__doc__)
            fields = inspect.signature(groups[name]).parameters.values()
            options += [_option(field, of_fields.get(field.name)) for field in fields]
        elif name not in ("client", "json"):
            options.append(each if each.annotation is typer.Context else _option(each, descriptions.get(name)))
    options += [_option(each) for each in ([_CONNECTION] if "client" in own else []) + [_FORMAT]]

    def run(**values: Any) -> None:
        as_json = values["json"]
        for name, group in groups.items():
            values[name] = group(**{field.name: values[field.name] for field in dataclasses.fields(group)})
        with connect(values["url"]) if "client" in own else nullcontext() as client:
            values["client"] = client
            output = function(**{name: values[name] for name in own})
            if output is not None:
                output.write(as_json)

    run.__doc__ = help_text
    run.__annotations__ = {each.name: each.annotation for each in options}
    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    return run


def documented(docstring: str | None) -> tuple[str, dict[str, str]]:
    """Return a docstring without its section of parameters, and the description of each parameter."""
    text = inspect.cleandoc(docstring or "")
    section = _PARAMETERS.search(text)
    descriptions = _DESCRIPTION.findall(section[1]) if section else []
    return _PARAMETERS.sub("", text), {name: " ".join(lines.split()) for name, lines in descriptions}


def _option(parameter: Parameter, description: str | None = None) -> Parameter:
    """Return a parameter as an option or argument of the command line. A flag has no opposite, such as --no-json."""
    annotation, default = parameter.annotation, parameter.default
    kind, *declared = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
    option = copy(declared[0]) if declared else typer.Argument() if default is Parameter.empty else typer.Option()
    option.help = description or option.help
    if isinstance(option, OptionInfo) and option.default is ...:  # no name is declared: Typer stores the first one here
        short_names = [_SHORT_NAMES[parameter.name]] if parameter.name in _SHORT_NAMES else []
        option.param_decls = (f"--{parameter.name.replace('_', '-')}", *short_names)
    return parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=Annotated[kind, option])
