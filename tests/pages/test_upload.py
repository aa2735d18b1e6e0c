"""A steward declares a file's columns, is told what does not parse, mends that, and lets an analyst in."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from purse import Client
from tests.support.browser import Visitor
from tests.support.service import SPEC, people

ROWS = "patient;age;sex\n" + "\n".join(f"p{i // 2};{20 + i % 60},5;{'fm'[i % 2]}" for i in range(200)) + "\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "hospital.csv"
    made.write_bytes(ROWS.encode("latin-1"))
    return made


def _fill(page: Page, **said: str) -> None:
    for name, value in said.items():
        page.locator(f"[name='{name.replace('__', '.')}']").fill(value)


def test_a_file_is_declared_refused_mended_and_registered(visitor: Visitor, file: Path) -> None:
    page = visitor.page
    page.get_by_role("link", name="Upload").click()
    _fill(page, name="hospital", budget__epsilon="2", budget__delta="1e-6")
    page.locator("summary", has_text="More of the dataset").click()
    _fill(page, dialect__delimiter=";", unit__column="patient", unit__max_rows="2")
    page.get_by_label("File").set_input_files(file)
    expect(page.get_by_role("group", name="Column 3: sex")).to_be_visible()
    page.get_by_role("button", name="Remove column 1").click()
    age, sex = (page.get_by_role("group", name=re.compile(name)) for name in ("Column 1: age", "Column 2: sex"))
    age.get_by_label("Lower").fill("0")
    age.get_by_label("Upper").fill("100")
    sex.get_by_label("Type").select_option("category")
    sex.get_by_label("Categories").fill("f\nm")
    sex.get_by_label("Categories").blur()
    expect(page.get_by_label("Declaration, as JSON")).to_have_value(re.compile('"categories": '))
    page.get_by_role("button", name="Upload and register").click()
    report = page.get_by_role("region", name="What became of the values")
    expect(report).to_contain_text("20,5")
    expect(page.get_by_role("alert")).to_contain_text("do not parse")
    report.scroll_into_view_if_needed()
    visitor.shoot("upload")
    assert all("422" in complaint for complaint in visitor.complaints)
    visitor.complaints.clear()
    page.get_by_label("Decimal").select_option(",")
    expect(page.get_by_label("Declaration, as JSON")).to_have_value(re.compile('"decimal": ","'))
    page.get_by_role("button", name="Upload and register").click()
    expect(page.get_by_text("It is registered")).to_be_visible()
    expect(report).to_contain_text("200")
    visitor.check()
    with Client(visitor.url, page.context.cookies()[0]["value"]) as client:
        [made] = [each for each in client.datasets.list() if each.name == "hospital"]
    assert (made.persons, made.unit.max_rows, [column.name for column in made.columns]) == (100, 2, ["age", "sex"])


def test_a_declaration_may_be_pasted(visitor: Visitor, tmp_path: Path) -> None:
    page = visitor.page
    page.goto("/pages/upload")
    declared = page.get_by_label("Declaration, as JSON")
    declared.fill(json.dumps(SPEC | {"max_unparsed": {"age": 0.5}}))
    page.get_by_role("button", name="Show it in the editor").click()
    expect(page.get_by_role("alert")).to_contain_text("more than the editor can")
    declared.fill(json.dumps(SPEC))
    page.get_by_role("button", name="Show it in the editor").click()
    expect(page.get_by_role("group", name="Column 3: income")).to_be_visible()
    assert json.loads(declared.input_value()) == SPEC
    (tmp_path / "people.csv").write_bytes(people())
    page.get_by_label("File").set_input_files(tmp_path / "people.csv")
    expect(page.get_by_role("group", name="Column 3: income")).to_be_visible()
    page.get_by_role("button", name="Upload and register").click()
    page.get_by_role("link", name="people").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("people")
