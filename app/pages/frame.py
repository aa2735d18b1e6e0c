"""The frame of every page: the visitor, the navigation, the templates, and pages for errors."""

import json
import math
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.params import Depends as Dependency
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from python_multipart import parse_form
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import Field, File

from app.http.body import MAX_BODY_BYTES, read_body
from app.http.errors import ApiError, invalid, invalid_field
from app.http.queries import strict_router
from app.http.work import in_turn
from app.identity.dependencies import Principal, bearer, caller
from app.pages import session, words
from app.pages.api import Api, part
from app.pages.forms import Forms
from app.pages.releases import is_number
from app.pages.session import PREFIX
from app.pages.static_files import address
from purse.wire.datasets import SESSION_RULES

_MAX_FIELDS = 5000
_MAX_FILE_FIELDS = 20
_ALL = ("steward", "analyst", "auditor")
NAVIGATION: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("", "Datasets", _ALL),
    ("/jobs", "Jobs", _ALL),
    ("/sessions", "Sessions", _ALL),
    ("/upload", "Upload", ("steward",)),
    ("/tokens", "Tokens", ("steward",)),
    ("/receipts", "Check a receipt", _ALL),
)
"""Path under /pages, name, and the roles that see it."""
GLOSSARY: dict[str, str] = json.loads(Path(__file__).with_name("glossary.json").read_text("utf-8"))
"""Short explanations of the technical terms on the pages, in the words of docs/glossary.md."""

_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
)
_FILTERS = (
    words.number,
    words.large,
    words.rounded_down,
    words.duration,
    words.percent,
    words.day,
    words.minute,
    words.bounds,
    words.field_label,
    words.coded,
    words.planned_answer,
    part,
    is_number,
)
_TEMPLATES.globals |= {
    "glossary": GLOSSARY,
    "states": words.STATES,
    "badges": words.BADGES,
    "options": words.OPTIONS,
    "labels": words.LABELS,
    "comparisons": words.COMPARISONS,
    "session_rules": SESSION_RULES,
    "entry_kinds": words.ENTRIES,
}
_TEMPLATES.filters |= {function.__name__: function for function in _FILTERS} | {"log10": math.log10}


@dataclass(frozen=True, slots=True)
class Visit:
    """A visitor's request for a page.

    Parameters
    ----------
    request : the HTTP request
    principal : identity of the visitor; None if not signed in
    """

    request: Request
    principal: Principal | None

    @property
    def api(self) -> Api:
        """The API with the visitor's token."""
        return Api(self.request, self.request.headers.get("authorization"))

    @property
    def root(self) -> str:
        """The path of the pages, with a proxy's prefix."""
        return str(self.request.scope.get("root_path", "")) + PREFIX

    @property
    def forms(self) -> Forms:
        """Forms made from the schemas of the API."""
        return Forms(self.request.app.openapi()["components"]["schemas"])

    async def rejection(self, method: str, path: str, **content: Any) -> ApiError | None:
        """Send a change to the API; return its error if it rejects the change."""
        try:
            await self.api.send(method, path, **content)
        except ApiError as error:
            return error
        return None

    @property
    def is_partial(self) -> bool:
        """Whether an open page requests a part of itself."""
        return self.request.headers.get("hx-request") == "true"

    async def page(
        self, template: str, status: int = 200, *, error: ApiError | None = None, **context: Any
    ) -> HTMLResponse:
        """Return a template as an answer, written in the visitor's turn; every value in it is text.

        Parameters
        ----------
        error : refusal of the API, which the template shows as `problem`; its status replaces the given one
        """
        role = self.principal.role if self.principal else None
        frame = {
            "root": self.root,
            "service": self.root.removesuffix(PREFIX),
            "visitor": self.principal,
            "navigation": [(path, name) for path, name, roles in NAVIGATION if role in roles],
            "static": lambda name: self.root + address(name),
            "problem": None if error is None else error.details(),
            "current_path": str(self.request.scope["path"]).removeprefix(str(self.request.scope.get("root_path", ""))),
        }
        text = await in_turn(_TEMPLATES.get_template(template).render, frame | context)
        return HTMLResponse(text, status if error is None else error.status)

    def go(self, path: str) -> Response:
        """Redirect to another page, also for a request that htmx made."""
        if self.is_partial:
            return Response(headers={"HX-Redirect": self.root + path})
        return RedirectResponse(self.root + path, 303)

    async def download(self, path: str, name: str, **query: int) -> Response:
        """Return an answer of the API as a file of this name, byte for byte."""
        answer = await self.api.send("GET", path, params=query)
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return Response(answer.content, media_type=answer.headers["content-type"], headers=headers)

    async def form(self) -> dict[str, str]:
        """Return the fields of a submitted form. Raise `ApiError` if it is too large or repeats a field."""
        return await in_turn(_fields, await read_body(self.request, MAX_BODY_BYTES))

    async def file_form(self, max_bytes: int) -> tuple[dict[str, str], bytes]:
        """Return the fields of a form with one file, and the file's bytes; `ApiError` for another or a larger body."""
        body = await read_body(self.request, max_bytes + MAX_BODY_BYTES)
        fields, content = await in_turn(_fields_and_file, self.request.headers.get("content-type", ""), body)
        if not content:
            raise invalid([{"type": "missing", "loc": ("file",), "msg": ""}], "body")
        return fields, content


def _fields_and_file(content_type: str, body: bytes) -> tuple[dict[str, str], bytes]:
    """Return the fields of a multipart form and the bytes of its file, empty without one."""
    fields: dict[str, str] = {}
    contents: list[bytes] = []

    def on_field(field: Field) -> None:
        fields[(field.field_name or b"").decode()] = (field.value or b"").decode()

    def on_file(file: File) -> None:
        file.file_object.seek(0)
        contents.append(file.file_object.read())
        file.close()

    try:
        parse_form({"Content-Type": content_type.encode()}, BytesIO(body), on_field, on_file)
    except (FormParserError, ValueError):
        raise invalid_field("body", "is not a form with one file") from None
    if len(contents) > 1 or len(fields) > _MAX_FILE_FIELDS:
        raise invalid_field("body", "is not a form with one file")
    return fields, contents[0] if contents else b""


def _fields(raw: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(raw.decode(), keep_blank_values=True, strict_parsing=bool(raw), max_num_fields=_MAX_FIELDS)
    except ValueError:
        raise invalid_field("body", "is not a form") from None
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise invalid_field("body", "contains a field twice")
    return fields


async def visiting(request: Request) -> Visit:
    """Return the visit of a signed-in visitor. Raise `ApiError` as for any request to the API."""
    request.state.visitor = await caller(request, await bearer(request))
    return Visit(request, request.state.visitor)


async def passing(request: Request) -> Visit:
    """Return the visit of anyone, signed in or not."""
    return Visit(request, None)


Cursor = Annotated[str | None, Query(max_length=64)]
Visiting = Annotated[Visit, Depends(visiting)]
Passing = Annotated[Visit, Depends(passing)]


async def stewards(visit: Visiting) -> None:
    """Raise `ApiError` forbidden unless the visitor is a steward."""
    if visit.principal is None or visit.principal.role != "steward":
        raise ApiError("forbidden", "Only stewards can use this page.")


STEWARDS_ONLY = (Depends(stewards),)


class PageRoute(APIRoute):
    """A route whose errors are pages: the sign-in page, or a page that states the error and its remedy."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the route's handler, with its errors as HTML."""
        handler = APIRoute.get_route_handler(self)

        async def handling(request: Request) -> Response:
            try:
                return await handler(request)
            except ApiError as error:
                return await _refused(request, error)
            except RequestValidationError as error:
                return await _refused(request, invalid(error.errors()))

        return handling


async def _refused(request: Request, error: ApiError) -> Response:
    visit = Visit(request, getattr(request.state, "visitor", None))
    if error.code == "unauthenticated":
        if (
            session.COOKIE not in request.cookies
        ):  # a link of another site sends no cookie, and must not end the session
            return visit.go("/sign-in")
        answer = visit.go("/sign-in?expired=true")
        session.end(request, answer)
        return answer
    if visit.principal is None and error.status == 422:  # it was raised before the visitor was identified
        with suppress(ApiError):
            visit = await visiting(request)
    template = "problem_part.html" if visit.is_partial else "problem.html"
    answer = await visit.page(template, error=error)
    answer.headers.update(error.headers)
    return answer


def page_router(path: str = "", dependencies: Sequence[Dependency] = ()) -> APIRouter:
    """Return a router for pages whose paths begin with this one, below /pages."""
    return strict_router(
        prefix=f"{PREFIX}{path}",
        include_in_schema=False,
        route_class=PageRoute,
        default_response_class=HTMLResponse,
        dependencies=list(dependencies),
    )
