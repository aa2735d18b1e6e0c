"""The matrix of a job with terms. Its shape follows from public facts, and each row from one stored record."""

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.sources.design import Design
from app.sources.ingest import Reading, store
from app.sources.matrix import CODES, NUMBERS, Floats, open_coded, widths
from app.wire import JobRequest, TuningRequest
from purse.prediction import encode
from purse.terms import expand
from purse.wire.datasets import DatasetSpec
from solvers.data_access.data import Data
from solvers.data_access.rows import Coded
from solvers.data_access.unfolded import rows_of
from solvers.losses import Squared
from solvers.problem import Problem

COLUMNS: list[dict[str, Any]] = [
    {"name": "age", "type": "number", "lower": 0, "upper": 100},
    {"name": "sex", "type": "category", "categories": ["f", "m"]},
    {"name": "dose", "type": "number", "lower": -2, "upper": 6, "origin": 0},
    {"name": "city", "type": "category", "categories": ["Oslo", "Rome", "Lima"]},
    {"name": "cost", "type": "number", "lower": 0, "upper": 10},
]
TERMS: list[dict[str, Any]] = [
    {"factors": [{"column": "age"}]},
    {"factors": [{"column": "city", "merge": [{"level": "south", "categories": ["Rome", "Lima"]}]}]},
    {"factors": [{"column": "age", "center": 50, "power": 2}]},
    {"factors": [{"column": "dose", "knots": [0, 3]}]},
    {"factors": [{"column": "age"}, {"column": "dose"}]},
    {"factors": [{"column": "age"}, {"column": "sex"}]},
    {"factors": [{"column": "sex"}, {"column": "city"}]},
]
LINES = ["0,f,-2,Oslo,1", "100,m,6,Rome,2", ",x,,Lima,3", "nan,,inf,,", "55.5,f,1e-320,Oslo,4", "-7,m,1e999,Rome,99"]
EXTREME = ["", "nan", "-inf", "1e999", "0", "100", "50", "-1e-320"]


def spec() -> DatasetSpec:
    budget = {"epsilon": 1.0, "delta": 1e-6}
    return DatasetSpec.model_validate_json(json.dumps({"name": "d", "columns": COLUMNS, "budget": budget}))


def design(terms: Any = TERMS, **changes: Any) -> Design:
    request = {"dataset": "ds", "target": "cost", "terms": terms, "privacy": {"epsilon": 1.0}} | changes
    return Design.of(spec(), JobRequest.model_validate_json(json.dumps(request)))


def stored(folder: Path, lines: list[str]) -> Path:
    file = folder / f"rows-{len(list(folder.iterdir()))}.csv"
    file.write_text("age,sex,dose,city,cost\n" + "\n".join(lines) + "\n")
    store(file, Reading(spec().columns), folder_of_columns := file.with_suffix(""))
    return folder_of_columns


def matrix(job_design: Design, folder: Path) -> Floats:
    """Return X as a dense matrix."""
    coded, y = job_design.read(open_coded(folder), widths(folder), folder)
    assert coded.numbers.dtype == np.float32
    assert len(coded.numbers) == len(coded.codes) == len(y)
    problem = Problem(Squared(), n=len(y), d=job_design.d, row_norm=job_design.row_norm, columns=job_design.columns)
    return rows_of(Data.coded(coded, y, problem, in_place=True))


def test_a_job_and_a_prediction_have_the_same_features(tmp_path: Path) -> None:
    job_design, folder = design(), stored(tmp_path, LINES)
    X = matrix(job_design, folder)
    assert sorted(path.name for path in folder.iterdir()) == sorted(["meta.json", NUMBERS, CODES])
    cells = zip(*(line.split(",") for line in LINES), strict=True)
    names = [column["name"] for column in COLUMNS]
    codes = {n: encode(c, list(own)) for n, c, own in zip(names, spec().columns, cells, strict=True)}
    starts = job_design.columns.starts.tolist()
    for feature, start, width in zip(
        expand(job_design.inputs, job_design.terms), starts, job_design.widths, strict=True
    ):
        own = feature.codes(codes)
        expected = np.eye(width)[own.astype(int)] if width > 1 else own[:, None]
        assert X[:, start : start + width] == pytest.approx(expected, abs=1e-6)
    assert np.linalg.norm(X, axis=1).max() <= job_design.row_norm * (1 + 1e-12)


def test_terms_of_one_column_make_the_same_matrix_as_features(tmp_path: Path) -> None:
    folder, names = stored(tmp_path, LINES), ["city", "age", "sex", "dose"]
    plain = design(None, features=names)
    job_design = design([{"factors": [{"column": name}]} for name in names])
    assert (job_design.features, job_design.row_norm) == (plain.features, plain.row_norm)
    assert np.array_equal(matrix(job_design, folder), matrix(plain, folder))


@pytest.mark.parametrize("column", range(4), ids=["age", "sex", "dose", "city"])
def test_a_replaced_record_changes_its_own_row_only(tmp_path: Path, column: int) -> None:
    job_design, base = design(), matrix(design(), stored(tmp_path, LINES))
    replacements = EXTREME if column in (0, 2) else ["", "f", "m", "Oslo", "Lima", "\ufffd"]
    for index, text in itertools.product((0, 3), replacements):
        cells = LINES[index].split(",")
        cells[column] = text
        X = matrix(job_design, stored(tmp_path, [*LINES[:index], ",".join(cells), *LINES[index + 1 :]]))
        assert X.shape == base.shape
        assert np.array_equal(np.delete(X, index, axis=0), np.delete(base, index, axis=0))
        assert np.linalg.norm(X, axis=1).max() <= job_design.row_norm * (1 + 1e-12)


def test_a_damaged_record_raises_no_error_and_changes_no_other_row(tmp_path: Path) -> None:
    job_design, rng = design(), np.random.default_rng(1)
    numbers, codes = rng.uniform(-0.3, 1, (6, 3)).astype(np.float32), rng.integers(0, 3, (6, 2)).astype(np.uint8)
    widths = (1, 3, 1, 4, 1)

    def features(numbers: Any, codes: Any) -> tuple[Coded, Floats]:
        rows, y = job_design.read(Coded(numbers, codes, (0, 0, 1, 1, 2)), widths, tmp_path)
        problem = Problem(Squared(), n=6, d=job_design.d, row_norm=job_design.row_norm, columns=job_design.columns)
        return rows, rows_of(Data.coded(rows, y, problem, in_place=True))

    _, base = features(numbers, codes)
    for value, code in ((np.nan, 255), (np.inf, 3), (-np.inf, 7), (np.float32(1e38), 255)):
        damaged, wrong = numbers.copy(), codes.copy()
        damaged[2, :2], wrong[2] = value, code
        with np.errstate(all="ignore"):
            _, X = features(damaged, wrong)
        assert np.isfinite(X).all()
        assert np.array_equal(np.delete(X, 2, axis=0), np.delete(base, 2, axis=0))
        assert np.linalg.norm(X, axis=1).max() <= job_design.row_norm * (1 + 1e-12)
    assert list(tmp_path.iterdir()) == []


def test_a_job_keeps_its_terms_in_its_stored_design() -> None:
    job_design = design()
    assert [column.name for column in job_design.inputs] == ["age", "city", "dose", "sex"]
    tuning = {"dataset": "ds", "target": "cost", "terms": TERMS, "candidates": [{}], "privacy": {"epsilon": 1.0}}
    assert Design.of(spec(), TuningRequest.model_validate_json(json.dumps(tuning))) == job_design


def test_a_quote_with_features_of_another_version_is_not_run(tmp_path: Path) -> None:
    job_design = design()
    object.__setattr__(job_design, "terms", design(TERMS[:2]).terms)
    with pytest.raises(ValueError, match="quote"):
        matrix(job_design, stored(tmp_path, LINES))
