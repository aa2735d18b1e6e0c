"""The range in the type of each setting is checked, and refuses values that are not plain numbers."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, get_args

import numpy as np
import pytest
from pydantic import TypeAdapter

import solvers  # noqa: F401  # defines all settings and runs
from solvers.errors import Unsuitable
from solvers.inference.regression_table import RegressionTableRun
from solvers.methods import (
    AdaptiveGd,
    DpGd,
    DpSvrg,
    DpSvrgPp,
    EpochGrowth,
    InverseSensitivity,
    Localization,
    Method,
    NoisyMirrorDescent,
    ObjectivePerturbation,
    OutputPerturbation,
    PhasedSgd,
)
from solvers.methods.data.output_perturbation import OutputPerturbationRun
from solvers.methods.run import Strict
from solvers.ranges import Real, Whole


def _below(base: Any) -> Iterator[Any]:
    for child in base.__subclasses__():
        yield child
        yield from _below(child)


SETTINGS = [each for each in _below(Strict) if is_dataclass(each) and each.__module__.startswith("solvers.")]


def _ranges(annotation: Any) -> list[Any]:
    """Return the ranges anywhere in a type."""
    within = [valid for part in get_args(annotation) for valid in _ranges(part)]
    return within + [valid for valid in getattr(annotation, "__metadata__", ()) if isinstance(valid, Whole | Real)]


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: str(settings.__name__))
def test_no_settings_replace_or_hide_the_check_of_their_ranges(settings: Any) -> None:
    assert settings.__post_init__ is Strict.__post_init__
    for field in fields(settings):
        assert not isinstance(field.type, str)  # as in a module with postponed annotations
        assert len(_ranges(field.type)) == sum(
            isinstance(valid, Whole | Real) for valid in getattr(field.type, "__metadata__", ())
        )


@pytest.mark.parametrize("valid", [Whole(9), Real(1, 9), Real(1, 9, is_open=True), Real(1, 9, or_zero=True)], ids=repr)
def test_a_range_holds_plain_numbers_only(valid: Whole | Real) -> None:
    valid.check(2, "setting")
    beyond = (float("nan"), float("inf"), -float("inf"), -1, 10, 10**400, -(10**400))
    for value in (*beyond, True, False, "2", b"2", [2], 2j, np.int64(2), np.float32(2), np.array(2.0)):
        with pytest.raises(Unsuitable, match="setting"):
            valid.check(value, "setting")


def test_the_ends_of_a_range() -> None:
    for valid, out in ((Whole(9), 0), (Whole(9), 2.0), (Real(1, 9), 0), (Real(1, 9, is_open=True), 1)):
        with pytest.raises(Unsuitable):
            valid.check(out, "setting")
    for valid, end in ((Whole(9), 9), (Real(1, 9), 1), (Real(1, 9, is_open=True), 9), (Real(1, 9, or_zero=True), -0.0)):
        valid.check(end, "setting")


@pytest.mark.parametrize("method", get_args(Method), ids=lambda method: str(method.__name__))
def test_every_number_that_a_request_may_set_has_a_range(method: Any) -> None:
    for field in fields(method):
        parts = (field.type, *get_args(field.type))
        kinds = {*parts, *(kind for part in parts for kind in get_args(part))}
        assert _ranges(field.type) or not {int, float} & {kind for kind in kinds if isinstance(kind, type)}, field.name


@pytest.mark.parametrize("method", get_args(Method), ids=lambda method: str(method.__name__))
def test_the_schema_of_a_request_has_the_ends_of_each_range(method: Any) -> None:
    """A range that also has 0 begins there in the schema."""
    properties = TypeAdapter(method).json_schema()["properties"]
    for field in fields(method):
        for valid in _ranges(field.type):
            schema = properties[field.name]
            (number,) = (each for each in schema.get("anyOf", [schema]) if "maximum" in each)
            lowest = number.get("minimum", number.get("exclusiveMinimum"))
            for end in (lowest, number["maximum"]):
                if end != number.get("exclusiveMinimum"):
                    valid.check(end, field.name)
            for out in (number.get("exclusiveMinimum", lowest - 1), number["maximum"] + 1):
                with pytest.raises(Unsuitable):
                    valid.check(out, field.name)


@pytest.mark.parametrize(
    ("method", "field"),
    [
        (DpGd, "release"),
        (DpSvrg, "form"),
        (DpSvrgPp, "step_rule"),
        (NoisyMirrorDescent, "form"),
        (OutputPerturbation, "noise"),
        (OutputPerturbationRun, "noise"),
    ],
)
def test_a_name_outside_of_its_choices_is_refused(method: Any, field: str) -> None:
    settings = {"steps": 1, "ridge": 1.0} if method is OutputPerturbationRun else {}
    with pytest.raises(Unsuitable, match=f"{method.__dataclass_fields__['name'].default}: {field} must be one of"):
        method(**settings, **{field: "unknown"})


@pytest.mark.parametrize("value", [None, 1, "Fixed"])
def test_a_name_that_is_needed_is_one_of_its_choices(value: Any) -> None:
    with pytest.raises(Unsuitable, match="step_rule"):
        DpSvrg(step_rule=value)


@pytest.mark.parametrize(
    ("method", "field", "value"),
    [
        (AdaptiveGd, "residual_limit", 5.0),
        (AdaptiveGd, "slope_limit", 0.0),
        (InverseSensitivity, "grid", 1 << 20),
        (DpGd, "steps", 10**6),
        (OutputPerturbation, "ridge", -1e-9),
        (OutputPerturbation, "ridge", 2e6),
        (ObjectivePerturbation, "ridge", -1e-9),
        (ObjectivePerturbation, "ridge", 2e6),
        (PhasedSgd, "step", 0.0),
        (PhasedSgd, "step", -1.0),
        (DpSvrgPp, "epochs", 31),
        (Localization, "phases", 65),
        (Localization, "ratio", 1.0),
        (Localization, "smoothing", 1e-5),
        (EpochGrowth, "kappa", 1.0),
        (EpochGrowth, "epochs", 1001),
    ],
)
def test_a_number_beyond_the_range_of_its_setting_is_refused(method: Any, field: str, value: float) -> None:
    with pytest.raises(Unsuitable, match=field):
        method(**{field: value})


@pytest.mark.parametrize("wrong", [{"mu": 0.0}, {"mu": float("nan")}, {"level": 0.4}, {"level": "0.9"}], ids=repr)
def test_the_run_of_a_regression_table_checks_its_ranges(wrong: dict[str, Any]) -> None:
    with pytest.raises(Unsuitable):
        RegressionTableRun(**({"mu": 1.0} | wrong))
