"""A person as the unit, through the real application: what is protected, and that nothing tells how many rows are."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.datasets import folders
from app.persistence.tables import datasets, jobs
from app.sources.matrix import PRESENT, filled_slots
from solvers.methods import InverseSensitivity
from tests.support.service import JOB, SPEC, Service, people
from tests.support.stored import stored_matrix

K, N = 3, 50
UNIT = {"column": "patient", "max_rows": K}
PERSON = {"name": "person", "max_rows": K}
VISITS: dict[str, Any] = SPEC | {"unit": UNIT}


def visits(limit: int, persons: int = N) -> bytes:
    """Return rows of this number of patients, 1 to `limit` of each, in random order."""
    rng = np.random.default_rng(limit)
    owners = np.concatenate([np.full(1 + p % limit, p) for p in range(persons)])
    lines = (
        f"p{p},{20 + i % 60},{'fm'[i % 2]},{'high' if i % 60 > 30 else 'low'}"
        for i, p in enumerate(rng.permutation(owners))
    )
    return ("patient,age,sex,income\n" + "\n".join(lines) + "\n").encode()


def register(service: Service, name: str, file: bytes, **unit: Any) -> dict[str, Any]:
    return service.registered(VISITS | {"name": name, "unit": UNIT | unit}, file)


def published_text(service: Service, dataset: dict[str, Any], method: dict[str, Any]) -> tuple[list[str], list[Any]]:
    """Return the published text about a dataset and a job on it, without names, times and noise, and file sizes."""
    request = JOB | {"dataset": dataset["id"], "method": method}
    quote = service.call("analyst", "POST", "/v1/quotes", json=request)
    wrong = service.call(
        "analyst", "POST", "/v1/quotes", json=request | {"method": {"name": "dp_svrg", "batch": 10**6}}
    )
    job = service.done(request)
    receipt = service.receipt(job["id"])["receipt"]
    model = service.read(f"jobs/{job['id']}/model")
    of_noise = ("id", "issued_at", "hash", "previous_hash", "head", "model_sha256")
    texts = [service.call("steward", "GET", f"/v1/datasets/{dataset['id']}{part}").json() for part in ("", "/budget")]
    texts += [quote.json(), wrong.json(), {k: v for k, v in receipt.items() if k not in of_noise}]
    means = sorted(model.get("means") or {})  # the keys; the values and their noise std follow a noisy share
    texts += [model | {"coefficients": len(model["coefficients"]), "intercept": 0, "means": means}]
    texts += [job | {"created_at": "", "started_at": "", "finished_at": ""}]
    texts += [
        {k: v for k, v in entry["body"].items() if k not in ("at", "model_sha256")}
        for entry in service.entries(dataset["id"])
    ]
    with service.database.read() as connection:
        [row] = connection.execute(jobs.select().where(jobs.c.id == job["id"])).all()
        [own] = connection.execute(datasets.select().where(datasets.c.id == dataset["id"])).all()
    texts += [row.spec, row.charge, own.rows, own.spec]
    folder = folders.path(service.home, dataset["id"])
    sizes = sorted((path.name, path.stat().st_size) for path in folder.iterdir())
    names = ((job["id"], "JOB"), (dataset["id"], "DATASET"), (dataset["name"], "NAME"), (dataset["created_at"], "AT"))
    text = json.dumps(texts)
    for name, instead in names:
        text = text.replace(name, instead)
    return text.split(", "), sizes


@pytest.mark.slow
@pytest.mark.parametrize("method", [{"name": "dp_gd", "steps": 5}, {"name": "adaptive_gd", "steps": 5}], ids=str)
@pytest.mark.parametrize("declared", [{}, {"persons": N + 9}], ids=["counted", "declared"])
def test_files_with_different_numbers_of_rows_are_indistinguishable(
    service: Service, method: Any, declared: dict[str, int]
) -> None:
    """If n is declared, files with different numbers of persons cannot be distinguished either."""
    small = register(service, "few", visits(2, N - 9 if declared else N), **declared)
    large = register(service, "many", visits(40), **declared)
    first, second = published_text(service, small, method), published_text(service, large, method)
    assert [a for a, b in zip(*(x[0] for x in (first, second)), strict=True) if a != b] == []
    assert first[1] == second[1]


@pytest.mark.slow
def test_the_protected_unit_is_stated_everywhere(service: Service) -> None:
    dataset = register(service, "visits", visits(5))
    assert (dataset["rows"], dataset["persons"], dataset["unit"], dataset["warnings"]) == (None, N, PERSON, [])
    assert dataset["budget"]["unit"] == PERSON
    job = service.done(JOB | {"dataset": dataset["id"]})
    assert (job["quote"]["rows"], job["quote"]["persons"], job["quote"]["unit"]) == (None, N, PERSON)
    assert job["quote"]["gradient_evaluations"] % (N * K) == 0
    privacy = service.read(f"jobs/{job['id']}/model")["privacy"]
    assert (privacy["persons"], privacy["unit"], "rows" in privacy) == (N, PERSON, False)
    receipt = service.receipt(job["id"])["receipt"]
    assert (receipt["persons"], receipt["unit"]) == (N, PERSON)
    first = service.entries(dataset["id"])[0]["body"]
    assert (first["persons"], first["unit"], "rows" in first) == (N, PERSON, False)


def test_positions_of_persons_are_stored_instead_of_names(service: Service) -> None:
    dataset = register(service, "visits", visits(5))["id"]
    folder = folders.path(service.home, dataset)
    here = filled_slots(folder)
    assert here is not None
    assert here.shape == (N * K,)
    assert here.reshape(N, K).sum(axis=1).tolist().count(K) == sum(1 + p % 5 >= K for p in range(N))
    assert not stored_matrix(folder)[~here].any()
    assert all(b"p49" not in path.read_bytes() and b"patient" not in path.read_bytes() for path in folder.iterdir())
    (folder / PRESENT).write_bytes(b"")
    job = service.submitted(JOB | {"dataset": dataset})
    assert service.finished(job["id"])["state"] == "failed"


def test_declared_persons_are_n_and_more_than_these_are_refused(service: Service) -> None:
    assert register(service, "visits", visits(3), persons=N + 7)["persons"] == N + 7
    refused = service.upload(VISITS | {"name": "fewer", "unit": UNIT | {"persons": N - 1}}, visits(4))
    assert (refused.status_code, refused.json()["code"]) == (422, "unreadable_file")
    assert str(N) not in refused.json()["detail"]


def test_too_many_slots_are_refused_before_they_are_allocated(service: Service) -> None:
    refused = service.upload(VISITS | {"unit": UNIT | {"persons": 10**9}}, visits(3))
    assert (refused.status_code, refused.json()["code"]) == (413, "too_large")


def test_files_without_the_persons_column_are_refused(service: Service) -> None:
    nobody = visits(3) + b" ,30,f,low\n"
    refused = service.upload(VISITS, nobody)
    assert (refused.status_code, refused.json()["code"]) == (422, "unreadable_file")
    unknown = service.upload(VISITS | {"unit": UNIT | {"column": "doctor"}}, visits(3))
    assert unknown.json()["violations"][0]["where"] == "spec.unit.column"
    for unit in (
        {"column": "sex", "max_rows": 2},
        UNIT | {"max_rows": 0},
        UNIT | {"max_rows": 4097},
        UNIT | {"persons": 0},
        {"column": "patient"},
    ):
        answer = service.upload(VISITS | {"unit": unit}, visits(3))
        assert (answer.status_code, answer.json()["code"] in ("invalid_request", "out_of_range")) == (422, True)


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.int64(), pa.float64(), pa.dictionary(pa.int32(), pa.string())], ids=str
)
def test_persons_in_parquet_are_those_of_their_names(service: Service, tmp_path: Path, kind: pa.DataType) -> None:
    i = np.arange(200)
    owners = pa.array((i % 70).astype(str)).cast(kind) if pa.types.is_dictionary(kind) else pa.array(i % 70).cast(kind)
    columns = {
        "patient": owners,
        "age": 20 + i % 60,
        "sex": np.array(["f", "m"])[i % 2],
        "income": np.where(i > 30, "high", "low"),
    }
    pq.write_table(pa.table(columns), tmp_path / "visits")
    dataset = register(service, "visits", (tmp_path / "visits").read_bytes())
    assert dataset["persons"] == 70
    names = owners.take(pa.array([None if j == 3 else j for j in range(200)]))
    pq.write_table(pa.table(columns | {"patient": names}), tmp_path / "visits")
    refused = service.upload(VISITS | {"name": "again"}, (tmp_path / "visits").read_bytes())
    assert refused.json()["code"] == "unreadable_file"


def test_the_same_rows_are_no_second_budget_under_another_unit(service: Service) -> None:
    register(service, "visits", visits(3))
    for spec in (VISITS | {"name": "again"}, VISITS | {"name": "rows", "unit": None}):
        assert service.upload(spec, visits(3)).json()["code"] == "duplicate_dataset"


def test_a_family_protects_one_unit(service: Service) -> None:
    register(service, "first", visits(3))
    family = {"family": "visits"}
    assert service.upload(VISITS | family | {"name": "a"}, visits(4)).status_code == 201
    refused = service.upload(VISITS | family | {"name": "b", "unit": None}, visits(5))
    assert refused.json()["code"] == "family_mismatch"
    longer = service.upload(VISITS | family | {"name": "b", "unit": UNIT | {"max_rows": K + 1}}, visits(5))
    assert longer.json()["code"] == "family_mismatch"
    assert service.upload(VISITS | family | {"name": "c"}, visits(6)).status_code == 201


def test_a_method_proved_for_single_rows_is_refused_with_the_reason(service: Service) -> None:
    spec = VISITS | {"columns": [SPEC["columns"][2]]}
    dataset = service.upload(spec, visits(3)).json()["id"]
    body = JOB | {
        "dataset": dataset, "features": [], "method": {"name": InverseSensitivity().name},
        "domain": {"name": "linf_ball", "radius": 1.0}, "preparation": {"name": "declared"},
    }  # fmt: skip
    answer = service.call("analyst", "POST", "/v1/quotes", json=body)
    assert answer.json()["code"] == "unsupported_combination", answer.text
    assert "one row" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("name", "suspect"),
    [
        ("patient_id", True),
        ("userId", True),
        ("SSN", True),
        ("E-Mail", True),
        ("age", False),
        ("paid", False),
        ("width", False),
    ],
)
def test_a_column_named_like_an_identifier_causes_a_warning(service: Service, name: str, suspect: bool) -> None:
    column = {"name": name, "type": "number", "lower": 0, "upper": 100}
    spec = SPEC | {"columns": [column, *SPEC["columns"][1:]]}
    dataset = service.registered(spec, people().replace(b"age", name.encode()))
    assert any(repr(name) in warning for warning in dataset["warnings"]) == suspect


@pytest.mark.parametrize(
    ("column", "suspect"),
    [
        ({"type": "category", "categories": ["yes", "no"]}, False),
        ({"type": "category", "categories": [f"a{i}@example.org" for i in range(40)]}, True),
        ({"type": "number", "lower": 0, "upper": 1}, False),
    ],
)
def test_a_column_with_few_declared_values_is_not_suspected_to_identify_persons(
    service: Service, column: dict[str, object], suspect: bool
) -> None:
    spec = SPEC | {"columns": [{"name": "email", **column}, *SPEC["columns"][1:]], "max_unparsed": 1}
    dataset = service.registered(spec, people().replace(b"age", b"email"))
    assert len(dataset["warnings"]) == suspect
    assert dataset["report"]["warnings"] == dataset["warnings"]  # one sentence, so that it can be printed once


@pytest.mark.slow
def test_terms_are_computed_in_the_slots_of_persons(service: Service) -> None:
    dataset = register(service, "terms", visits(4))
    terms = [{"factors": [{"column": "age"}]}, {"factors": [{"column": "age"}, {"column": "sex"}]}]
    request = JOB | {"dataset": dataset["id"], "terms": terms, "method": {"name": "dp_gd"}}
    model = service.read(f"jobs/{service.done(request)['id']}/model")
    assert (len(model["coefficients"]), model["privacy"]["persons"]) == (2, N)
