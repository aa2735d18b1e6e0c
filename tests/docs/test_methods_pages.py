"""docs/methods: a page for each method, of which what is said of the code is what the code says; small pictures."""

import re

import pytest

from tests.support import measured, methods
from tests.support.methods import FOLDER, METHODS

CURVES = measured.curves()
PICTURES = methods.pictures(CURVES)


@pytest.mark.parametrize("name", METHODS)
def test_each_page_of_a_method_is_up_to_date(name: str) -> None:
    """`python -m tests.support.review` writes the page."""
    text = (FOLDER / f"{name}.md").read_text()
    assert text == methods.page(name, CURVES)
    assert text.startswith(f"# `{name}`: ")
    assert f"\n\nUse `{name}` " in text.partition("\n## ")[0]
    assert f"]({name}.svg)" in text
    assert re.findall("^## (.*)", text, re.MULTILINE)[:4] == [
        "Algorithm",
        "Guarantee",
        "Supported problems",
        "Parameters",
    ]
    assert f"]({name}.md)" in (FOLDER / "README.md").read_text()


def test_the_page_that_compares_methods_is_up_to_date() -> None:
    assert methods.SUMMARY.read_text() == methods.summary()


@pytest.mark.parametrize("name", METHODS)
def test_each_picture_of_a_method_shows_the_committed_results(name: str) -> None:
    drawn = PICTURES[name]
    assert (FOLDER / f"{name}.svg").read_text() == drawn
    assert len(drawn) < 40_000
    assert drawn.count("#0072B2") > 0, "the picture has a curve of the method itself"


def test_the_page_of_a_method_lists_what_the_method_accepts() -> None:
    pages = {name: methods.page(name, CURVES) for name in ("ada_ssp", "dp_gd", "inverse_sensitivity")}
    assert "| losses | `squared` |" in pages["ada_ssp"]
    assert "| domains | `free` |" in pages["ada_ssp"]
    assert re.search(r"losses .*`sigmoid`", pages["dp_gd"])
    assert "`free`" not in pages["inverse_sensitivity"]
    assert "| delta = 0 | yes |" in pages["inverse_sensitivity"]
