"""Whose each row is: names in all forms that a file may have them in."""

import pyarrow as pa
import pytest

from app.sources.errors import Unreadable
from app.sources.persons import People
from purse.wire.datasets import PersonUnit


def people(*parts: pa.Array) -> People:
    persons = People(PersonUnit(column="patient", max_rows=2))
    for part in parts:
        persons.add(part, lambda row: row + 1)
    return persons


def test_equal_numbers_identify_one_person() -> None:
    for kind in (pa.float16(), pa.float32(), pa.float64()):
        persons = people(pa.array([0.0, -0.0, 1.5]).cast(kind), pa.array([-0.0, 1.5]).cast(kind))
        assert persons.owners.tolist() == [0, 0, 1, 0, 1]


def test_names_that_differ_in_outer_white_space_identify_one_person_in_every_batch() -> None:
    persons = people(pa.array(["a", " a"]).dictionary_encode(), pa.array(["b", "a\t"]))
    assert (persons.count, persons.owners.tolist()) == (2, [0, 0, 1, 0])


@pytest.mark.parametrize("name", [b"\xffab", b"\xc3"])
def test_names_that_are_not_text_are_refused_and_not_quoted(name: bytes) -> None:
    """Parquet declares UTF-8, and no earlier step checks it."""
    names = pa.array([b"a", name], pa.binary()).view(pa.string())
    for form in (names, names.dictionary_encode()):
        with pytest.raises(Unreadable, match=r"patient.*not UTF-8") as refused:
            people(form)
        assert refused.value.__cause__ is None


def test_persons_identified_by_nan_infinity_or_null_are_refused() -> None:
    for nobody in (float("nan"), float("inf"), None):
        with pytest.raises(Unreadable, match="the person"):
            people(pa.array([1.0, nobody]))
