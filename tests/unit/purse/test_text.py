"""Text for a terminal: columns stay below their headings, and lines stay within the width."""

import re

from purse import text
from purse.tables import Estimate, written

ID = "ds_" + "a" * 20
NAME = "Health insurance of all members (holdout)"


def test_columns_stay_aligned_beside_identifiers_if_names_are_wrapped() -> None:
    """An identifier has no space at which it could be wrapped."""
    headings = ("id", "name", "dataset", "state", "share")
    printed = text.table(headings, [(ID, NAME, NAME, "done", "8.64 %")] * 2)
    first, *lines = printed.splitlines()
    starts = [match.start() for match in re.finditer(r"\S+", first)]
    assert max(map(len, [first, *lines])) <= text.WIDTH
    assert len(lines) == 4, "each row is wrapped once"
    assert [lines[0][start:].split("  ")[0].strip() for start in starts][0::4] == [ID, "8.64 %"]
    assert all(line[start - 1] == " " for line in lines for start in starts[1:] if start <= len(line))


def test_a_table_without_spaces_is_not_wrapped() -> None:
    assert text.table(("a", "b"), [("x" * 70, "y" * 70)]).splitlines()[1] == f"{'x' * 70}  {'y' * 70}"


def test_an_exact_number_has_no_interval() -> None:
    assert written(Estimate(1.0, 1.0, 1.0)) == "1"
    assert written(Estimate(1.0, 0.5, 1.0)) == "1 [0.5, 1]"
