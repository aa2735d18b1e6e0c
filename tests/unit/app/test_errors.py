"""Problems: one table of codes, and none of the caller's values in any of them."""

import json
from typing import Annotated, Literal

import pytest
from pydantic import Field, ValidationError, field_validator

from accounting.errors import OutOfRange
from app.calculation.questions import sentence
from app.http.codes import CODES
from app.http.errors import MEDIA_TYPE, ApiError, invalid, responses
from purse.wire.base import Wire
from purse.wire.budgets import PrivacyLoss
from purse.wire.problems import ProblemDetails

CANARY = "canary_4711"


class Cat(Wire):
    name: Literal["cat"]
    lives: Annotated[int, Field(ge=1, le=9)] = 9


class Dog(Wire):
    name: Literal["dog"]


class Request(Wire):
    epsilon: Annotated[float, Field(ge=1e-3, le=100)] = 1.0
    pet: Annotated[Cat | Dog, Field(discriminator="name")] = Dog(name="dog")
    short: Annotated[str, Field(max_length=3, pattern="^[a-z]*$")] = ""
    checked: float = 0.5
    parts: Annotated[tuple[Annotated[float, Field(lt=1)], ...], Field(min_length=1)] = (0.5,)

    @field_validator("checked")
    @classmethod
    def _check(cls, value: float) -> float:
        if value > 1:
            raise OutOfRange("checked must be at most 1")
        if value < 0:
            raise ValueError("checked must not be negative")
        return value


def _problem(text: str) -> ApiError:
    with pytest.raises(ValidationError) as caught:
        Request.model_validate_json(text)
    return invalid(caught.value.errors(), "body", Request)


def test_the_error_about_an_unknown_name_lists_the_known_names() -> None:
    (violation,) = _problem('{"pet": {"name": "canary_4711"}}').violations or ()
    assert violation.where == "body.pet"
    assert violation.what.endswith(": cat, dog")
    assert "canary" not in violation.what


@pytest.mark.parametrize("code", CODES)
def test_every_code_makes_a_complete_document(code: str) -> None:
    details = ApiError(code).details()
    assert (details.code, details.status, details.title) == (code, CODES[code].status, CODES[code].title)
    assert details.detail == CODES[code].meaning
    assert 400 <= details.status < 600
    assert ProblemDetails.model_validate_json(details.model_dump_json(exclude_none=True)) == details
    retry = (ApiError(code).headers or {}).get("Retry-After")
    assert (retry is not None) == (CODES[code].status in (429, 503)), "a temporary error states when to try again"
    assert ApiError(code, headers={"Retry-After": "7"}).headers == {"Retry-After": "7"}


def test_unknown_code_is_a_mistake_of_the_program() -> None:
    with pytest.raises(KeyError):
        ApiError("no_such_code")


def test_the_problem_document_has_the_remaining_budget() -> None:
    remaining = PrivacyLoss(epsilon=0.5, delta=1e-6)
    assert ApiError("budget_exhausted", "No.", remaining=remaining).details().remaining == remaining


@pytest.mark.parametrize(
    ("text", "code", "where"),
    [
        ('{"epsilon": 0}', "out_of_range", "body.epsilon"),
        ('{"epsilon": NaN}', "out_of_range", "body.epsilon"),
        ('{"epsilon": "0.5"}', "invalid_request", "body.epsilon"),
        ('{"epsilon": true}', "invalid_request", "body.epsilon"),
        ('{"checked": 2.0}', "out_of_range", "body.checked"),
        ('{"checked": -2.0}', "invalid_request", "body.checked"),
        ('{"short": "canary_4711"}', "out_of_range", "body.short"),
        ('{"short": "C11"}', "invalid_request", "body.short"),
        ('{"stranger": "canary_4711"}', "invalid_request", "body.stranger"),
        ('{"pet": {"name": "canary_4711"}}', "invalid_request", "body.pet"),
        ('{"pet": {"name": "cat", "lives": 4711}}', "out_of_range", "body.pet.cat.lives"),
        ('{"pet": {"name": "cat", "stranger": {"canary_4711": 4711}}}', "invalid_request", "body.pet.cat.stranger"),
        ("canary_4711", "invalid_request", "body"),
    ],
)
def test_violation_names_the_place_and_never_the_value(text: str, code: str, where: str) -> None:
    problem = _problem(text)
    assert problem.code == code
    assert problem.violations is not None
    assert problem.violations[0].where == where
    text_of_problem = problem.details().model_dump_json()
    assert CANARY not in text_of_problem
    assert "4711" not in text_of_problem


def test_a_list_with_a_wrong_entry_is_not_also_reported_as_too_short() -> None:
    assert [each.where for each in _problem('{"parts": [1.5]}').violations or ()] == ["body.parts.0"]
    assert [each.what for each in _problem('{"parts": []}').violations or ()] == ["must have 1 or more entries"]


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("x" * 5000, f"body.{'x' * 61}..."),
        ("\u202e\x1b[31m\n", "body.\\u202e\\x1b[31m\\n"),
        ("`a\\", "body.\\x60a\\\\"),
        ("größe", "body.größe"),
    ],
)
def test_the_name_of_an_unknown_field_is_escaped_and_cut(name: str, where: str) -> None:
    (violation,) = _problem(json.dumps({name: 1})).violations or ()
    assert violation.where == where
    assert f"`{where.removeprefix('body.')}`" in violation.what
    assert violation.what.isprintable()


def test_violations_are_few() -> None:
    errors = [{"type": "missing", "loc": (str(i),), "msg": "Field required"} for i in range(1000)]
    problem = invalid(errors)
    assert problem.violations is not None
    assert len(problem.violations) == 20
    assert "20 of 1000" in str(problem.detail)


def test_responses_group_codes_by_status() -> None:
    documented = responses("invalid_request", "out_of_range", "not_found")
    assert set(documented) == {422, 404}
    examples = documented[422]["content"][MEDIA_TYPE]["examples"]
    assert set(examples) == {"invalid_request", "out_of_range"}
    assert all(CODES[code].title in documented[422]["description"] for code in examples)


@pytest.mark.parametrize("code", CODES)
def test_the_title_and_meaning_of_each_code_are_short(code: str) -> None:
    """The title states what is wrong; the meaning states why, or what to do."""
    title, meaning = CODES[code].title, CODES[code].meaning
    assert title[0].isupper()
    assert not title.endswith(".")
    assert meaning.endswith(".")
    assert 3 <= len(meaning.split()) <= 40
    assert meaning.count(". ") <= 1


@pytest.mark.parametrize(
    ("text", "detail"),
    [("regression_table: rows are missing", "regression_table: rows are missing."), ("no row", "No row.")],
)
def test_the_name_of_a_method_in_a_detail_is_not_capitalized(text: str, detail: str) -> None:
    assert sentence(ValueError(text)) == detail
