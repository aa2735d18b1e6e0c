"""Forms are the schema: what they come to is what the interface reads, for every member of every union."""

from pathlib import Path
from typing import Any

import pytest

from app.main import create_app
from app.pages.forms import MAX_OPTIONS, Field, Forms, document, form_values, without
from app.settings import Settings
from app.wire import JobRequest, StatisticRequest, TuningRequest

TARGET_OF_TERMS = {"dataset": "d", "target": "y", "privacy": {"epsilon": 0.5}}
TARGET = {"target": "age", "privacy.epsilon": "0.5"}


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> Forms:
    schemas = create_app(Settings(home=tmp_path_factory.mktemp("forms"))).openapi()["components"]["schemas"]
    return Forms(schemas)


def _by_name(fields: list[Field]) -> dict[str, Field]:
    return {field.name: field for field in fields}


def test_every_field_of_a_request_is_in_its_form(forms: Forms) -> None:
    for schema, model in (
        ("JobRequest", JobRequest),
        ("StatisticRequest", StatisticRequest),
        ("TuningRequest", TuningRequest),
    ):
        assert {field.name for field in forms.fields(schema, {}, {"features": [], "columns": []})} == set(
            model.model_fields
        )


def test_a_form_has_the_terms_of_a_job_that_is_repeated(forms: Forms) -> None:
    merged = {"column": "ward", "merge": [{"level": "rest", "categories": ["B", "C"]}], "reference": "A"}
    factors = [{"column": "age", "knots": [40, 60.5], "degree": 2}], [{"column": "age", "power": 2}, merged]
    request = TARGET_OF_TERMS | {"terms": [{"factors": own} for own in factors]}
    assert document(forms.fields("JobRequest", form_values(request), {})) == request


def test_empty_inputs_are_omitted_from_the_request(forms: Forms) -> None:
    fields = forms.fields("JobRequest", TARGET | {"slope_limit": "", "method.name": ""}, {"features": ["age"]})
    assert document(fields) == {"target": "age", "privacy": {"epsilon": 0.5}}


def test_an_empty_input_states_the_forms_default(forms: Forms) -> None:
    """A form has no null: an empty choice means all features, but no targets."""
    declaration_fields = _by_name(forms.fields("DatasetSpec", {}, {"targets": ["age"]}))
    request_fields = _by_name(forms.fields("JobRequest", {}, {"features": ["age"]}))
    assert (declaration_fields["targets"].default, request_fields["features"].default) == ("none", "all")
    assert declaration_fields["unit"].hint.endswith("If left empty, single rows are protected.")


def test_a_tab_is_entered_as_an_escape_sequence(forms: Forms) -> None:
    """The tab key moves to the next field."""
    values = {"dialect.delimiter": "\\t"}
    fields = forms.fields("DatasetSpec", values, {"targets": []})
    assert document(fields)["dialect"] == {"delimiter": "\t"}
    assert form_values({"dialect": {"delimiter": "\t"}}) == values


def test_a_list_has_a_group_of_inputs_for_each_member(forms: Forms) -> None:
    values = TARGET | {
        "candidates.3.method.name": "",
        "candidates.10.method.name": "dp_gd",
        "candidates.10.method.steps": "7",
    }
    request = document(forms.fields("TuningRequest", values, {"features": []}))
    assert request["candidates"] == [{}, {"method": {"name": "dp_gd", "steps": 7}}]
    assert document(forms.fields("TuningRequest", without(values, "candidates"), {}))["candidates"] == []
    many = TARGET | {f"candidates.{i}.slope_limit": "0.5" for i in range(300)}
    assert len(document(forms.fields("TuningRequest", many, {}))["candidates"]) == 257, "one more than the limit"


@pytest.mark.parametrize("part", ["loss", "regularizer", "domain", "method", "preparation"])
def test_every_member_of_a_union_can_be_chosen_and_filled_in(forms: Forms, part: str) -> None:
    options: dict[str, Any] = {"features": []}
    members = _by_name(forms.fields("JobRequest", {}, options))[part].options
    assert len(members) >= 3
    for member in members:
        filled = TARGET | {f"{part}.name": member}
        for inner in _by_name(forms.fields("JobRequest", filled, options))[part].parts:
            assert inner.hint
            filled[inner.input] = inner.options[0] if inner.options else "1"
        request = document(forms.fields("JobRequest", filled, options))
        assert request[part]["name"] == member
        assert len(request[part]) == 1 + len(filled) - 3


def test_text_that_is_not_a_number_is_passed_to_the_route_which_refuses_it(forms: Forms) -> None:
    read = {}
    for text in ("7", "-2", "0.5", "1e-3", "nan", "inf", "seven", "1_000", "٣"):
        fields = forms.fields("JobRequest", TARGET | {"slope_limit": text}, {"features": []})
        read[text] = document(fields)["slope_limit"]
    assert {text: value for text, value in read.items() if isinstance(value, str)} == {
        text: text for text in ("nan", "inf", "seven")
    }
    assert read["7"] == 7
    assert isinstance(read["7"], int)
    assert read["1e-3"] == 0.001


def test_declared_columns_of_any_name_can_be_chosen(forms: Forms) -> None:
    names = ["age", "a:b", "x.y", "<b>"]
    fields = forms.fields("StatisticRequest", {f"columns:{name}": "on" for name in names[1:]}, {"columns": names})
    assert document(fields)["columns"] == names[1:]
    several = forms.fields(
        "StatisticRequest", {"method.name": "quantiles", "method.shares": "0.5, 0.9"}, {"columns": names}
    )
    assert document(several)["method"] == {"name": "quantiles", "shares": [0.5, 0.9]}


def test_the_server_of_one_command_has_no_pages(tmp_path: Path) -> None:
    """And all else: nobody looks at it, and a fit does not load what draws them."""
    settings = Settings(home=tmp_path)
    every, alone = ({route.path for route in create_app(settings, alone=it).routes} for it in (False, True))  # type: ignore[attr-defined]
    pages = every - alone
    assert {"/pages", "/pages/session"} & pages
    assert all(path == "/" or path.startswith("/pages") for path in pages)
    assert alone < every
    assert "/v1/jobs" in alone


def test_names_are_typed_if_there_are_more_than_a_form_lists(forms: Forms) -> None:
    names = [f"column {number}" for number in range(MAX_OPTIONS + 1)]
    chosen_fields = _by_name(forms.fields("JobRequest", {}, {"target": names[1:], "features": names[1:]}))
    assert (chosen_fields["target"].kind, chosen_fields["features"].kind) == ("choice", "choices")
    values = {"target": names[0], "features": f"{names[1]}\n{names[2]}\n", "privacy.epsilon": "0.5"}
    typed_fields = forms.fields("JobRequest", values, {"target": names, "features": names})
    assert [_by_name(typed_fields)[name].options for name in ("target", "features")] == [(), ()]
    assert document(typed_fields) == {"target": names[0], "features": names[1:3], "privacy": {"epsilon": 0.5}}
