"""docs/methods: a page for each method, of which what is said of the code is what the code says; small pictures."""

import re

import pytest

from tests.support import measured, methods
from tests.support.methods import FOLDER, METHODS

FOUND = measured.curves()
PICTURES = methods.pictures(FOUND)


@pytest.mark.parametrize("name", METHODS)
def test_a_page_is_as_it_is_written(name: str) -> None:
    """`python -m tests.support.review` writes it."""
    text = (FOLDER / f"{name}.md").read_text()
    assert text == methods.page(name, FOUND)
    assert text.startswith(f"# `{name}`: ")
    assert f"]({name}.svg)" in text
    assert re.findall("^## (.*)", text, re.MULTILINE)[:4] == [
        "Guarantee",
        "When to use it",
        "Supported problems",
        "Parameters",
    ]
    assert f"]({name}.md)" in (FOLDER / "README.md").read_text()


def test_the_page_that_compares_methods_is_up_to_date() -> None:
    assert methods.SUMMARY.read_text() == methods.summary()


@pytest.mark.parametrize("name", METHODS)
def test_a_picture_is_of_what_is_committed(name: str) -> None:
    drawn = PICTURES[name]
    assert (FOLDER / f"{name}.svg").read_text() == drawn
    assert len(drawn) < 40_000
    assert drawn.count("#0072B2") > 0, "something of its own is in it"


def test_what_a_method_takes_is_found_by_trying() -> None:
    said = {name: methods.page(name, FOUND) for name in ("ada_ssp", "dp_gd", "inverse_sensitivity")}
    assert "| losses | `squared` |" in said["ada_ssp"]
    assert "| domains | `free` |" in said["ada_ssp"]
    assert re.search(r"losses .*`sigmoid`", said["dp_gd"])
    assert "`free`" not in said["inverse_sensitivity"]
    assert "| delta = 0 | yes |" in said["inverse_sensitivity"]
