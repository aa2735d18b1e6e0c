"""docs/concepts.md: the table of epsilons is computed from the definition, not copied."""

import math
import re
from pathlib import Path

import pytest

from tests.support import pictures

PAGE = (Path(__file__).parents[2] / "docs/concepts.md").read_text()


def test_the_table_of_epsilons_follows_from_the_definition() -> None:
    rows = re.findall(r"^\| ([\d.]+) \| ([\d.]+) \| ([\d.]+) % \|$", PAGE, re.MULTILINE)
    assert len(rows) == 6
    for epsilon, factor, confidence in rows:
        likelihood_ratio = math.exp(float(epsilon))
        decimals = len(factor.partition(".")[2])
        assert round(likelihood_ratio, decimals) == float(factor)
        decimals = len(confidence.partition(".")[2])
        assert round(100 * likelihood_ratio / (1 + likelihood_ratio), decimals) == float(confidence)


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_each_picture_equals_the_output_of_its_command(name: str) -> None:
    file = pictures.FOLDER / f"{name}.svg"
    assert file.read_text() == pictures.PICTURES[name](), "run: python -m tests.support.pictures"
    assert f"pictures/{name}.svg" in PAGE


def test_the_picture_of_the_budget_holds_as_many_jobs_as_the_page_states() -> None:
    assert len(pictures.spending()) == 12
    assert "twelve such jobs" in " ".join(PAGE.split())
