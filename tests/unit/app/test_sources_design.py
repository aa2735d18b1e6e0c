"""The matrix of a job: its shape from public facts, its rows from the stored codes."""

import errno
import io
import itertools
import json
import math
import shutil
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.sources.design import Design, StatisticDesign
from app.sources.design import load as load_design
from app.sources.ingest import Reading, store
from app.sources.matrix import (
    CODES,
    META,
    NUMBERS,
    CodedWriter,
    Floats,
    MatrixWriter,
    checksum,
    mapped,
    on_disk,
    open_coded,
    stored_column,
    widths,
)
from app.sources.singles import ends
from app.wire import JobRequest
from purse.errors import DesignError
from purse.wire.datasets import DatasetSpec
from solvers.data_access.data import Data
from solvers.data_access.rows import Coded
from solvers.data_access.unfolded import rows_of
from solvers.losses import Logistic, Squared
from solvers.problem import Problem

AGE = {"name": "age", "type": "number", "lower": 0, "upper": 100}
SEX = {"name": "sex", "type": "category", "categories": ["f", "m"]}
CITY = {"name": "city", "type": "category", "categories": ["Oslo", "Rome", "Lima"]}
SPEC: dict[str, Any] = {"name": "d", "columns": [AGE, SEX, CITY], "budget": {"epsilon": 1.0, "delta": 1e-6}}
FILE = b"city,age,sex\nOslo,0,f\nRome,100,m\n,75,x\nLima,,f\nParis,50,\n"


def spec(*columns: dict[str, Any]) -> DatasetSpec:
    return DatasetSpec.model_validate_json(json.dumps(SPEC | ({"columns": list(columns)} if columns else {})))


def design(fields: dict[str, Any], *columns: dict[str, Any]) -> Design:
    body = {"dataset": "ds", "target": "sex", "privacy": {"epsilon": 1.0}} | fields
    return Design.of(spec(*columns), JobRequest.model_validate_json(json.dumps(body)))


def load(job_design: Design, folder: Path) -> tuple[Floats, Floats]:
    """Return X as a dense matrix, and y."""
    stored, layout = open_coded(folder), job_design.columns
    problem = Problem(Squared(), n=len(stored.codes), d=layout.d, row_norm=layout.row_norm, columns=layout)
    data = load_design(job_design, problem, stored, widths(folder), folder)
    return rows_of(data), data.y


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("data")
    (root / "upload").write_bytes(FILE)
    assert store(root / "upload", Reading(spec().columns), root / "columns")[0] == 5
    return root / "columns"


def test_numbers_one_hot_blocks_and_a_last_column_of_ones(folder: Path) -> None:
    job_design = design({})
    X, y = load(job_design, folder)
    assert X.tolist() == [
        [-1.0, 1, 0, 0, 0, 1],
        [1.0, 0, 1, 0, 0, 1],
        [0.5, 0, 0, 0, 1, 1],
        [0.0, 0, 0, 1, 0, 1],
        [0.0, 0, 0, 0, 1, 1],
    ]
    assert y.tolist() == [-1.0, 1.0, -1.0, -1.0, -1.0]
    assert (job_design.d, job_design.widths, job_design.row_norm) == (6, (1, 4), math.sqrt(3))
    assert X.flags.c_contiguous
    assert job_design.split(np.arange(6.0)) == ([0.0, 1.0, 2.0, 3.0, 4.0], 5.0)
    with pytest.raises(ValueError, match="each column"):
        job_design.split(np.arange(5.0))


def test_features_have_the_requested_order(folder: Path) -> None:
    job_design = design({"features": ["city", "age"]})
    X, _ = load(job_design, folder)
    assert X[0].tolist() == [1, 0, 0, 0, -1.0, 1]
    assert [feature.name for feature in job_design.features] == ["city", "age"]


def test_without_features_only_the_intercept_is_trained(folder: Path) -> None:
    job_design = design({"target": "age", "features": []})
    X, y = load(job_design, folder)
    assert X.tolist() == [[1.0]] * 5
    assert y.tolist() == [-1.0, 1.0, 0.5, 0.0, 0.0]
    assert (job_design.d, job_design.row_norm, job_design.features) == (1, 1.0, ())
    assert job_design.split(np.array([0.25])) == ([], 0.25)


def test_a_number_target_is_its_code(folder: Path) -> None:
    job_design = design({"target": "age"})
    X, y = load(job_design, folder)
    assert y.tolist() == [-1.0, 1.0, 0.5, 0.0, 0.0]
    assert X.shape == (5, 3 + 4 + 1)
    assert job_design.classes is None


def test_a_missing_target_is_replaced_by_its_default_or_first_category(folder: Path, tmp_path: Path) -> None:
    first = design({"positive": "f"})
    assert load(first, folder)[1].tolist() == [1.0, -1.0, 1.0, 1.0, 1.0]
    assert first.classes == ("m", "f")
    declared = SEX | {"default": "m"}
    (tmp_path / "upload").write_bytes(FILE)
    store(tmp_path / "upload", Reading(spec(AGE, declared, CITY).columns), tmp_path / "columns")
    job_design = design({}, AGE, declared, CITY)
    assert load(job_design, tmp_path / "columns")[1].tolist() == [-1.0, 1.0, 1.0, -1.0, 1.0]


def test_a_positive_category_of_several_is_classified_against_all_others(folder: Path) -> None:
    job_design = design({"target": "city", "positive": "Rome"})
    assert job_design.classes == ("not Rome", "Rome")
    assert (job_design.outputs, job_design.size) == (1, job_design.d)
    assert load(job_design, folder)[1].tolist() == [-1.0, 1.0, -1.0, -1.0, -1.0]


@pytest.mark.parametrize("settings", [{}, {"loss": {"name": "softmax"}}, {"loss": {"name": "softmax", "classes": 3}}])
def test_more_than_two_categories_have_a_class_each(settings: dict[str, Any], folder: Path) -> None:
    job_design = design({"target": "city", **settings})
    assert job_design.classes == ("Oslo", "Rome", "Lima")
    assert (job_design.outputs, job_design.d, job_design.size) == (3, 5, 15)
    assert load(job_design, folder)[1].tolist() == [0.0, 1.0, 0.0, 2.0, 0.0]  # missing and unknown: the first
    coefficients, intercept = job_design.split(np.arange(15.0))
    assert coefficients == [[0.0, 1.0, 2.0, 3.0], [5.0, 6.0, 7.0, 8.0], [10.0, 11.0, 12.0, 13.0]]
    assert intercept == [4.0, 9.0, 14.0]
    with pytest.raises(ValueError, match="each class"):
        job_design.split(np.arange(5.0))


def test_two_categories_may_be_classified_by_softmax(folder: Path) -> None:
    job_design = design({"loss": {"name": "softmax"}})
    assert (job_design.classes, job_design.outputs) == (("f", "m"), 2)
    assert load(job_design, folder)[1].tolist() == [0.0, 1.0, 0.0, 0.0, 0.0]


def test_a_declared_default_is_the_class_of_a_missing_target(tmp_path: Path) -> None:
    declared = CITY | {"default": "Lima"}
    (tmp_path / "upload").write_bytes(FILE)
    store(tmp_path / "upload", Reading(spec(AGE, SEX, declared).columns), tmp_path / "columns")
    job_design = design({"target": "city"}, AGE, SEX, declared)
    assert load(job_design, tmp_path / "columns")[1].tolist() == [0.0, 1.0, 2.0, 2.0, 2.0]


@pytest.mark.parametrize("row_norm", [None, 0.5, 1e6])
def test_the_norm_of_every_possible_record_is_at_most_the_schemas_bound(row_norm: float | None) -> None:
    job_design = design({"row_norm": row_norm} if row_norm else {})
    coded = itertools.product((-1.0, 0.3, 1.0), range(4))
    numbers, codes = (np.array(part) for part in zip(*coded, strict=True))
    rows = Coded(numbers[:, None], codes[:, None].astype(np.uint8), (0, 0))
    problem = Problem(Squared(), n=12, d=job_design.d, row_norm=job_design.columns.row_norm, columns=job_design.columns)
    implied = math.sqrt(len(job_design.features) + 1)
    assert np.linalg.norm(rows_of(Data.coded(rows, np.zeros(12), problem)), axis=1).max() == pytest.approx(
        implied, rel=1e-14
    )
    assert job_design.row_norm == min(implied, row_norm or implied)


def test_a_job_reads_the_stored_records_in_place(folder: Path, tmp_path: Path) -> None:
    coded, _ = design({"features": ["city"]}).read(open_coded(folder), widths(folder), tmp_path)
    assert isinstance(coded.numbers, np.memmap)
    assert isinstance(coded.codes, np.memmap)
    assert (coded.codes.dtype, coded.codes.shape, coded.offsets) == (np.uint8, (5, 2), (1,))
    assert list(tmp_path.iterdir()) == []


def test_the_checksum_covers_every_file_that_determines_a_record(folder: Path, tmp_path: Path) -> None:
    checksum_before = checksum(folder)
    for name in (META, NUMBERS, CODES):
        copy = tmp_path / name
        shutil.copytree(folder, copy)
        assert checksum(copy) == checksum_before
        data = (copy / name).read_bytes()
        (copy / name).write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        assert checksum(copy) != checksum_before


def test_codes_are_stored_in_the_smallest_integer_type(tmp_path: Path) -> None:
    wide = CITY | {"name": "many", "categories": [f"v{i}" for i in range(300)]}
    narrow = CITY | {"name": "few", "categories": [f"v{i}" for i in range(255)]}
    lines = [b"many,few,age"] + [b"v%d,v%d,%d" % (i % 301, i % 256, i % 100) for i in range(1000)]
    (tmp_path / "upload").write_bytes(b"\n".join(lines) + b"\n")
    store(tmp_path / "upload", Reading(spec(narrow, AGE, wide).columns), tmp_path / "columns")
    stored = np.load(tmp_path / "columns" / CODES)
    assert (stored.dtype, stored.shape) == (np.uint8, (1000, 3))
    assert np.load(tmp_path / "columns" / NUMBERS).shape == (1000, 1)
    coded = open_coded(tmp_path / "columns")
    i = np.arange(1000)
    assert np.array_equal(stored_column(coded, coded.offsets[0], 256), i % 256)
    assert np.array_equal(stored_column(coded, coded.offsets[2], 301), i % 301)


@pytest.mark.parametrize("target", ["sex", "age"])
def test_the_memory_of_a_job_does_not_hold_targets_and_scales(target: str, tmp_path: Path) -> None:
    n, declared, rng = 2_500_000, (1, 3, 4), np.random.default_rng(3)
    with CodedWriter(tmp_path, declared, ends(spec().columns)) as writer:
        writer.append(np.column_stack([rng.uniform(-1, 1, n), rng.integers(0, 3, n), rng.integers(0, 4, n)]))
    job_design, stored = design({"target": target}), mapped(tmp_path, declared)
    layout, loss = job_design.columns, Logistic() if target == "sex" else Squared()
    problem = Problem(loss, n=n, d=layout.d, row_norm=1.2, columns=layout)
    at, width = job_design.target_position, declared[job_design.target_position]
    codes = stored_column(stored, stored.offsets[at], width)
    expected = np.where(codes == 1, 1.0, -1.0) if target == "sex" else codes
    norms = np.sqrt(stored.numbers[:, 0].astype(float) ** 2 + 2) if target == "sex" else np.full(n, math.sqrt(3))
    tracemalloc.start()
    try:
        data = load_design(job_design, problem, stored, declared, tmp_path)
        remaining, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert np.array_equal(data.y, expected)
    assert np.allclose(data.scale, 1.2 / norms)
    assert peak < 24 * n
    assert remaining < n


@pytest.mark.parametrize("count", [1, 100_000])
def test_a_full_disk_is_an_error_of_the_system(count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/full", "r+b", buffering=0) as full:
        monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: io.BufferedRandom(full))
        with pytest.raises(OSError, match="No space left") as caught:
            on_disk([np.ones(count)], tmp_path)
    assert caught.value.errno == errno.ENOSPC


def test_a_stored_matrix_of_another_width_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="width"):
        load(design({}, AGE, SEX), folder)
    with pytest.raises(ValueError, match="width"):
        StatisticDesign.of(spec(AGE, SEX)).read(open_coded(folder), widths(folder), folder)


@pytest.mark.parametrize("name", [NUMBERS, CODES])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda stored: stored[:-1], "different numbers of rows"),
        (lambda stored: stored[:, :-1], "declared width"),
        (lambda stored: np.hstack((stored, stored)), "declared width"),
        (lambda stored: stored.ravel(), "declared width"),
        (lambda stored: stored.astype(np.float16), "declared width"),
    ],
)
def test_stored_files_of_another_length_width_or_type_are_refused(
    folder: Path, tmp_path: Path, name: str, change: Callable[[Any], Any], message: str
) -> None:
    shutil.copytree(folder, tmp_path / "changed")
    np.save(tmp_path / "changed" / name, change(np.load(folder / name)))
    with pytest.raises(ValueError, match=message):
        open_coded(tmp_path / "changed")


@pytest.mark.parametrize("block", [np.zeros((2, 3)), np.zeros(2), np.zeros((2, 2), np.float32)], ids=str)
def test_a_block_of_another_width_or_type_is_not_written(tmp_path: Path, block: Any) -> None:
    with MatrixWriter(tmp_path / "m.npy", 2, "<f8") as writer:
        with pytest.raises(ValueError, match="type and width"):
            writer.append(block)
        writer.append(np.ones((1, 2)))
    assert np.load(tmp_path / "m.npy").tolist() == [[1.0, 1.0]]


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        ({"target": "gone"}, "target", "declared column: age, sex, city, one$"),
        ({"features": ["age", "gone"]}, "features.1", "declared column: age, sex, city, one$"),
        ({"features": ["age", "age"]}, "features", "distinct"),
        ({"features": ["age", "sex"]}, "features", "target"),
        ({"positive": "x"}, "positive", "one of"),
        ({"target": "age", "positive": "f"}, "positive", "number target"),
        ({"target": "one"}, "positive", "single"),
        ({"target": "one", "loss": {"name": "softmax"}}, "target", "two categories or more"),
        ({"target": "city", "loss": {"name": "hinge"}}, "positive", "hinge distinguishes two classes"),
        ({"target": "city", "positive": "Rome", "loss": {"name": "softmax"}}, "positive", "left out"),
    ],
)
def test_the_error_names_the_field_that_does_not_fit_the_declaration(
    fields: dict[str, Any], field: str, message: str
) -> None:
    with pytest.raises(DesignError, match=message) as caught:
        design(fields, AGE, SEX, CITY, CITY | {"name": "one", "categories": ["yes"]})
    assert caught.value.field == field
    assert "gone" not in str(caught.value)


def test_a_single_category_may_be_the_positive_one(tmp_path: Path) -> None:
    constant = CITY | {"name": "one", "categories": ["yes"]}
    (tmp_path / "upload").write_bytes(b"age,one\n1,yes\n2,no\n")
    store(tmp_path / "upload", Reading(spec(AGE, constant).columns), tmp_path / "columns")
    job_design = design({"target": "one", "positive": "yes"}, AGE, constant)
    assert job_design.classes == ("not yes", "yes")
    assert load(job_design, tmp_path / "columns")[1].tolist() == [1.0, 1.0]


@pytest.mark.slow
def test_a_matrix_that_would_be_too_wide_is_refused() -> None:
    many = [str(i) for i in range(2**14)]
    wide = [CITY | {"name": f"c{i}", "categories": many} for i in range(16)]
    with pytest.raises(DesignError, match="262,144 columns"):
        design({}, SEX, *wide)
    with pytest.raises(DesignError, match="87,381 columns"):
        design({"target": "city"}, CITY, *wide[:6])
    with pytest.raises(DesignError, match="262,144 columns"):
        StatisticDesign.of(spec(*wide))
    assert design({"target": "city"}, CITY, *wide[:5]).size == 3 * (5 * (2**14 + 1) + 1)
    job_design = design({}, SEX, *wide[:15])
    assert job_design.d == 15 * (2**14 + 1) + 1
