"""Bodies: what is not exactly one finite, well-formed JSON value of the model is refused on the bytes."""

import asyncio
import json
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from fastapi import Depends, FastAPI, Request
from fastapi.testclient import TestClient

from app.http import handlers
from app.http.body import MAX_BODY_BYTES, JsonBody, parse_json, read_body
from app.http.errors import ApiError
from purse.wire.base import Delta, Epsilon, Wire


class Privacy(Wire):
    epsilon: Epsilon
    delta: Delta = 0.0


class Message(Wire):
    privacy: Privacy
    note: str = ""
    anything: dict[str, Any] = {}  # noqa: RUF012


def _body(inner: str) -> bytes:
    return b'{"privacy": {"epsilon": 0.5}, "anything": {"canary4711": ' + inner.encode() + b"}}"


def _refused(raw: bytes | str) -> ApiError:
    with pytest.raises(ApiError) as caught:
        parse_json(Message, raw)
    problem = caught.value
    assert problem.violations or problem.code == "too_large"
    assert "4711" not in problem.details().model_dump_json()
    return problem


def test_a_valid_body_is_parsed() -> None:
    text = '{"privacy": {"epsilon": 0.5, "delta": 1e-6}, "note": "ä 😀 \\ud83d\\ude00", "anything": {"a": [1, null]}}'
    expected = Message(privacy=Privacy(epsilon=0.5, delta=1e-6), note="ä 😀 😀", anything={"a": [1, None]})
    assert parse_json(Message, text) == expected
    assert parse_json(Message, text.encode()) == expected


@pytest.mark.parametrize(
    "literal",
    ["NaN", "Infinity", "-Infinity", "nan", "+1", "0x10", "0x1p-1", "1e", "1_0", "٣", "01", "1.", "'a'", "[1,]", ""],
)
def test_text_that_is_not_json_is_refused(literal: str) -> None:
    assert _refused(_body(literal)).code == "invalid_request"


@pytest.mark.parametrize("literal", ["1e999", "-1e999", "1" + "0" * 309, "-" + "9" * 400, "1" * 5000, "2e308"])
def test_a_number_beyond_a_double_is_out_of_range(literal: str) -> None:
    assert _refused(_body(literal)).code == "out_of_range"


@pytest.mark.parametrize("literal", ["1" + "0" * 308, "-1.5e308", "5e-324", "1e-999", "9007199254740993"])
def test_a_number_within_a_double_is_read(literal: str) -> None:
    assert parse_json(Message, _body(literal)).anything == {"canary4711": json.loads(literal)}


@pytest.mark.parametrize(
    "text",
    [
        '{"privacy": {"epsilon": 0.5}, "privacy": {"epsilon": 0.1}}',
        '{"privacy": {"epsilon": 0.5, "epsilon": 0.5}}',
        '{"privacy": {"epsilon": 0.5}, "anything": {"a": [{"b": {"c4711": 1, "c4711": 1}}]}}',
        '{"privacy": {"epsilon": 0.5, "\\u0065psilon": 0.1}}',
    ],
)
def test_a_repeated_key_is_refused_at_any_depth(text: str) -> None:
    problem = _refused(text)
    assert (problem.code, len(problem.violations or ())) == ("invalid_request", 1)


@pytest.mark.parametrize(
    "literal", [r'"\u0000"', r'"a\u0000b4711"', r'"\ud800"', r'"\udc00\ud800"', r'{"\u0000": 1}', r'{"\udfff": 1}']
)
def test_nul_and_half_surrogates_are_refused(literal: str) -> None:
    assert _refused(_body(literal)).code == "invalid_request"


@pytest.mark.parametrize(
    "raw",
    [
        b"\xff\xfe{}",
        b'{"privacy": "\xc3\x28"}',
        b'{"note": "\xed\xa0\x80"}',
        b'\xef\xbb\xbf{"privacy": {"epsilon": 0.5}}',
        '{"privacy": {"epsilon": 0.5}}'.encode("utf-16"),
        '{"privacy": {"epsilon": 0.5}}'.encode("utf-32-le"),
        b'{"privacy": {"epsilon": 0.5}}\0',
        b'{"privacy": {"epsilon": 0.5}} {}',
        b"",
        b" ",
        b"null",
        b"[]",
        b'"text"',
    ],
)
def test_bytes_that_are_not_one_utf8_object_are_refused(raw: bytes) -> None:
    assert _refused(raw).code == "invalid_request"


@pytest.mark.parametrize("depth", [80, 5_000, 400_000])
@pytest.mark.parametrize("ends", [("[", "]"), ('{"a":', "}")])
def test_deep_nesting_is_refused(depth: int, ends: tuple[str, str]) -> None:
    depth = min(depth, 1_000_000 // len(ends[0] + ends[1]))
    assert _refused(_body(ends[0] * depth + "1" + ends[1] * depth)).code == "invalid_request"


def test_usual_nesting_is_read() -> None:
    parse_json(Message, _body("[" * 60 + "]" * 60))


def test_a_text_of_a_form_field_is_named_by_its_field() -> None:
    with pytest.raises(ApiError) as caught:
        parse_json(Message, '{"privacy": {"epsilon": 0}}', where="spec")
    assert caught.value.violations is not None
    assert caught.value.violations[0].where == "spec.privacy.epsilon"


def test_a_lone_surrogate_in_text_is_not_utf8() -> None:
    assert _refused('{"note": "\ud800"}').code == "invalid_request"


@pytest.fixture(scope="module")
def client() -> TestClient:
    app = FastAPI()
    handlers.install(app)

    @app.post("/")
    def echo(body: Annotated[Message, Depends(JsonBody(Message))]) -> float:
        return body.privacy.epsilon

    return TestClient(app)


GOOD = b'{"privacy": {"epsilon": 0.5}}'


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8", "Application/JSON"])
def test_json_is_taken(client: TestClient, kind: str) -> None:
    assert client.post("/", content=GOOD, headers={"Content-Type": kind}).json() == 0.5


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonx"])
def test_another_content_type_is_415(client: TestClient, kind: str) -> None:
    response = client.post("/", content=GOOD, headers={"Content-Type": kind})
    assert response.status_code == 415
    assert response.json()["code"] == "unsupported_media_type"


def test_more_than_a_mebibyte_is_413(client: TestClient) -> None:
    long = GOOD + b" " * (MAX_BODY_BYTES + 1 - len(GOOD))
    headers = {"Content-Type": "application/json"}
    assert client.post("/", content=long, headers=headers).json()["code"] == "too_large"
    assert client.post("/", content=long[:-1], headers=headers).json() == 0.5
    with pytest.raises(ApiError, match="too_large"):
        parse_json(Message, long)


def _request(chunks: list[bytes], headers: list[tuple[bytes, bytes]]) -> tuple[Request, Callable[[], int]]:
    reads = 0

    async def receive() -> dict[str, Any]:
        nonlocal reads
        reads += 1
        return {"type": "http.request", "body": chunks[reads - 1], "more_body": reads < len(chunks)}

    return Request({"type": "http", "method": "POST", "path": "/", "headers": headers}, receive), lambda: reads


@pytest.mark.parametrize("declared", [b"", b"10", b"-5", b"1e9", "٣".encode()])
def test_a_long_body_is_not_read_to_its_end_for_any_declared_length(declared: bytes) -> None:
    request, reads = _request([b"x" * 600] * 100, [(b"content-length", declared)])
    with pytest.raises(ApiError, match="too_large"):
        asyncio.run(read_body(request, 1000))
    assert reads() == 2


def test_a_body_that_declares_too_much_is_not_read_at_all() -> None:
    request, reads = _request([b"x"], [(b"content-length", b"1001")])
    with pytest.raises(ApiError, match="too_large"):
        asyncio.run(read_body(request, 1000))
    assert reads() == 0
