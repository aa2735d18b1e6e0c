"""Routes of `strict_router`: what a synchronous GET route returns although it runs in its caller's turn."""

from typing import Annotated

import pytest
from fastapi import Depends, FastAPI, Response
from fastapi.testclient import TestClient
from pydantic import BaseModel

from app.http.queries import strict_router


class Item(BaseModel):
    """A document."""

    name: str = "a"


def _version(response: Response) -> None:
    response.headers["X-Version"] = "1"


router = strict_router(dependencies=[Depends(_version)])


@router.get("/plain")
def plain() -> Item:
    """Set no header."""
    return Item()


@router.get("/own")
def own(response: Response, marker: str = "m") -> Item:
    """Set a header and a status."""
    response.headers["X-Marker"], response.status_code = marker, 203
    return Item()


@router.get("/document")
def document(_version: Annotated[None, Depends(_version)]) -> Response:
    """Return a response, which FastAPI leaves as it is."""
    return Response(b"text")


@pytest.fixture
def client() -> TestClient:
    app = FastAPI()
    app.include_router(router)
    return TestClient(app)


@pytest.mark.parametrize(
    ("path", "status", "headers"),
    [("/plain", 200, {"x-version": "1"}), ("/own?marker=n", 203, {"x-version": "1", "x-marker": "n"})],
)
def test_headers_of_the_injected_response_are_sent(
    client: TestClient, path: str, status: int, headers: dict[str, str]
) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.json()) == (status, {"name": "a"})
    assert headers.items() <= dict(answer.headers).items()


def test_a_response_that_a_route_returns_is_sent_unchanged(client: TestClient) -> None:
    assert client.get("/document").content == b"text"
