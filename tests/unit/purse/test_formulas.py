"""Formulas: the terms that they stand for, and what they must not contain."""

from typing import Any

import pytest

from purse import formula
from purse.wire.terms import Term

pytest.importorskip("formulaic", reason="formulaic is not installed: formulas are not parsed")

AGE, WARD, SEX = {"column": "age"}, {"column": "ward"}, {"column": "sex"}


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("age + I(age**2)", [[AGE], [AGE | {"power": 2}]]),
        ("ward * sex", [[WARD], [SEX], [WARD, SEX]]),
        ("(age + ward + sex)**2 - ward:sex", [[AGE], [WARD], [SEX], [AGE, WARD], [AGE, SEX]]),
        ("I((age - 50) / 10):ward", [[AGE | {"center": 50, "scale": 10}, WARD]]),
        ("I((age + 5)**3)", [[AGE | {"center": -5, "power": 3}]]),
        ("I(quoted_0**2)", [[{"column": "quoted_0", "power": 2}]]),
        ("bs(age, knots=[40, 60.5], degree=2)", [[AGE | {"knots": [40, 60.5], "degree": 2}]]),
        (
            "C(ward, reference='B', merge={'n': ['A', 'C']})",
            [[WARD | {"reference": "B", "merge": [{"level": "n", "categories": ["A", "C"]}]}]],
        ),
        ("`length of stay` + I(`length of stay`**2):sex", [[{"column": "length of stay"}], [
            {"column": "length of stay", "power": 2}, SEX]]),
    ],
    ids=str,
)  # fmt: skip
def test_a_formula_is_converted_to_terms(text: str, terms: list[list[dict[str, Any]]]) -> None:
    by_degree = sorted(terms, key=len)
    assert sorted((own["factors"] for own in formula(text)["terms"]), key=len) == by_degree
    assert formula(f"`has returned` ~ {text}") == {"target": "has returned"} | formula(text)
    for own in formula(text)["terms"]:
        Term.model_validate(own)


def test_a_formula_of_the_intercept_has_no_features() -> None:
    assert formula("cost ~ 1") == {"target": "cost", "features": []}


@pytest.mark.parametrize(
    "text",
    [
        "y ~ 0 + age", "y ~ age - 1", "y ~ age +", "y + z ~ age", "log(y) ~ age", "y ~ age | sex", "y ~ log(age)",
        "y ~ I(age * bmi)", "y ~ I(age ** n)", "y ~ bs(age)", "y ~ bs(age, df=5)", "y ~ poly(age, 2)", "y ~ .",
        "y ~ C(ward, Treatment('B'))", "y ~ I(open('/etc/passwd'))", "y ~ center(age)", "y ~ age ~ sex",
        "y ~ I(age - 'a')", "y ~ I(age**)", "y ~ I(age ** 1e999)", "y ~ bs(age, knots=[40, 1e999])",
        "y ~ bs(age, degree=3)", "y ~ bs(age, knots=40)", "y ~ C(ward, merge={[]: ['A']})",
        f"y ~ I(age - {10**400})",
    ],
    ids=lambda text: text[:40],
)  # fmt: skip
def test_a_formula_with_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="formula"):
        formula(text)
