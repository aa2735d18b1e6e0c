"""Uploading, describing and budgeting datasets through the real application."""

import json
import math
from collections.abc import MutableMapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from httpx import Response

from app.datasets import folders
from app.persistence.tables import datasets
from app.sources.matrix import NUMBERS
from purse.wire.neighbors import MEANING
from tests.service.conftest import MakeService
from tests.support.service import JOB, SPEC, Service, people
from tests.support.stored import stored_matrix
from tests.support.threads import at_once


def _problem(response: Response, status: int, code: str) -> dict[str, Any]:
    assert response.status_code == status, response.text
    problem: dict[str, Any] = response.json()
    assert problem["code"] == code, problem
    return problem


def _stored_folders(service: Service) -> list[str]:
    """Return the names of all dataset folders, including hidden ones."""
    return sorted(path.name for path in folders.root(service.home).iterdir())


def _registered_folders(service: Service) -> list[str]:
    with service.database.read() as connection:
        return sorted(connection.scalars(sa.select(datasets.c.folder)))


@pytest.mark.slow
def test_an_upload_becomes_a_dataset_with_an_open_budget(service: Service) -> None:
    dataset = service.registered()
    assert set(dataset) == {
        *("id", "name", "family", "rows", "persons", "unit", "data", "columns", "budget", "warnings", "created_at"),
        *("sessions", "profile", "holdout", "holdout_of", "report"),
    }
    report = dataset.pop("report")  # in this answer alone: see test_files
    assert [(c["name"], c["parsed"], c["outcomes"]) for c in report["columns"]] == [
        (column["name"], 200, []) for column in SPEC["columns"]
    ]
    assert (dataset["name"], dataset["rows"], dataset["warnings"], dataset["profile"]) == ("people", 200, [], None)
    extra: dict[str, Any] = {"number": {"origin": None, "scale": None}, "category": {}}
    expected = [{"default": None} | extra[column["type"]] | column for column in SPEC["columns"]]
    assert dataset["columns"] == expected
    assert dataset["budget"] == {
        "epsilon": 3.0,
        "delta": 1e-6,
        "neighbors": "replace_one",
        "unit": {"name": "row", "max_rows": None},
        "meaning": MEANING["replace_one"],
        "elsewhere": {"neighbors": "zero_out", "epsilon": 3.0, "delta": 1e-6},
        "filter": "gdp_rdp",
        "share": 0.0,
        "spent": {"epsilon": 0.0, "delta": 1e-6},
        "remaining": {"epsilon": 3.0, "delta": 1e-6},
        "jobs": 0,
        "promises": [{"epsilon": 3.0, "delta": 1e-6, "since": dataset["created_at"]}],
        "frozen": False,
        "exceeded": False,
        "analysts": [],
    }
    for role in ("steward", "analyst", "auditor"):
        assert service.call(role, "GET", f"/v1/datasets/{dataset['id']}").json() == dataset
        assert service.call(role, "GET", f"/v1/datasets/{dataset['id']}/budget").json() == dataset["budget"]
        assert service.call(role, "GET", "/v1/datasets").json() == {"items": [dataset], "next": None}


def test_only_the_encoded_matrix_is_stored(service: Service) -> None:
    dataset = service.upload().json()["id"]
    folder = folders.path(service.home, dataset)
    assert sorted(path.name for path in folder.iterdir()) == ["codes.npy", "meta.json", "numbers.npy"]
    i = np.arange(200)
    expected = np.stack([(20 + i % 60) / 50 - 1, i % 2, i % 60 > 30], axis=1)
    assert np.load(folder / NUMBERS).dtype == np.float32
    assert np.array_equal(stored_matrix(folder), expected.astype(np.float32))
    assert _stored_folders(service) == _registered_folders(service) == [dataset]


@pytest.mark.slow
def test_parquet_is_recognised_by_content_and_gives_the_same_dataset(service: Service, tmp_path: Path) -> None:
    by_csv = service.upload().json()["id"]
    i = np.arange(200)
    columns = {"age": 20 + i % 60, "sex": np.array(["f", "m"])[i % 2], "income": np.where(i % 60 > 30, "high", "low")}
    pq.write_table(pa.table(columns), tmp_path / "people")
    packed = (tmp_path / "people").read_bytes()
    refused = service.upload(SPEC | {"name": "again"}, packed, name="people.csv")
    _problem(refused, 409, "duplicate_dataset")
    assert "'people'" in refused.json()["detail"], "the dataset with the same values is named"
    spec = SPEC | {"name": "again", "columns": [SPEC["columns"][0] | {"default": 7}, *SPEC["columns"][1:]]}
    response = service.upload(spec, packed, name="people.csv")
    assert response.status_code == 201, response.text
    from_csv, from_parquet = (stored_matrix(folders.path(service.home, d)) for d in (by_csv, response.json()["id"]))
    assert np.array_equal(from_csv, from_parquet)


@pytest.mark.slow
def test_the_same_values_are_the_same_dataset_in_any_file(service: Service) -> None:
    """Otherwise a line break at the end of the file would give a new budget."""
    assert service.upload().status_code == 201
    files = (people() + b"\n", people().replace(b"\n", b"\r\n"), people().replace(b",f,", b", f,"))
    for number, file in enumerate(files):
        _problem(service.upload(SPEC | {"name": f"again {number}"}, file), 409, "duplicate_dataset")
    budget = {"epsilon": 1.0, "delta": 1e-6}
    _problem(service.upload(SPEC | {"name": "more", "budget": budget}), 409, "duplicate_dataset")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["../../escaped.csv", "/etc/escaped", "..\\escaped", "%2e%2e%2fescaped", "escaped\u0000", "", "é" * 100]
)
def test_the_files_name_is_never_used(service: Service, name: str) -> None:
    dataset = service.upload(name=name)
    assert dataset.status_code == 201, dataset.text
    assert "escaped" not in dataset.text
    assert _stored_folders(service) == [dataset.json()["id"]]
    assert [path for path in service.home.parent.rglob("*") if "escaped" in path.name] == []


def test_no_later_answer_depends_on_the_values(service: Service) -> None:
    files = {"people": b"50,f,low\n", "other": b"x,,\n"}
    changing = {"id": "", "name": "", "created_at": ""}
    views = []
    for name, line in files.items():
        dataset = service.upload(SPEC | {"name": name, "max_unparsed": 1}, b"age,sex,income\n" + line * 100).json()
        views.append(service.call("steward", "GET", f"/v1/datasets/{dataset['id']}").json())
        assert dataset == views[-1] | {"report": dataset["report"]}
    first, second = views
    for dataset in views:
        del dataset["budget"]["promises"][0]["since"]
    assert first | changing == second | changing


@pytest.mark.slow
def test_a_warning_when_delta_is_one_over_n_or_more(service: Service) -> None:
    budget = {"epsilon": 3.0, "delta": 1e-2}
    dataset = service.upload(SPEC | {"budget": budget}, people(100)).json()
    assert "1/n" in dataset["warnings"][0]
    assert service.call("analyst", "GET", f"/v1/datasets/{dataset['id']}").json()["warnings"] == dataset["warnings"]
    assert service.upload(SPEC | {"name": "b", "budget": budget}, people(99)).json()["warnings"] == []


def test_a_missing_column_is_named_and_no_value_is(service: Service) -> None:
    response = service.upload(file=b"age,gender,income\n50,s3cr3t,low\n")
    problem = _problem(response, 422, "invalid_request")
    assert [violation["where"] for violation in problem["violations"]] == ["spec.columns.1.name"]
    assert "s3cr3t" not in response.text
    ragged = service.upload(file=b"age,sex,income\n50,f,low\n51,m,s3cr3t,4\n")
    assert "Line 3" in _problem(ragged, 422, "unreadable_file")["detail"]
    assert "s3cr3t" not in ragged.text
    assert _stored_folders(service) == []


@pytest.mark.parametrize("role", ["analyst", "auditor", None])
def test_only_a_steward_uploads_and_other_roles_are_refused_before_a_byte_is_read(
    service: Service, role: str | None
) -> None:
    messages: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        raise AssertionError("the body was read")

    async def send(message: MutableMapping[str, Any]) -> None:
        messages.append(dict(message))

    headers = [(b"content-type", b"multipart/form-data; boundary=b")]
    if role is not None:
        headers.append((b"authorization", f"Bearer {service.tokens[role]}".encode()))
    scope = {"type": "http", "method": "POST", "path": "/v1/datasets", "query_string": b"", "headers": headers}
    anyio.run(partial(service.app, scope, receive, send))
    assert messages[0]["status"] == (401 if role is None else 403)
    assert _stored_folders(service) == []


def _form(*parts: tuple[bytes, bytes], end: bytes = b"--b--\r\n") -> bytes:
    pieces = [b'--b\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % part for part in parts]
    return b"".join(pieces) + end


SPEC_PART = (b"spec", json.dumps(SPEC).encode())
FILE_PART = (b"file", people())


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "last boundary"),
        (_form(), "part `spec`"),
        (_form(SPEC_PART), "parts `file`"),
        (_form(SPEC_PART, FILE_PART, (b"upload", b"up_4711")), "only one"),
        (_form(FILE_PART), "part `spec`"),
        (_form(SPEC_PART, FILE_PART, FILE_PART), "'file' twice"),
        (_form(SPEC_PART, SPEC_PART, FILE_PART), "'spec' twice"),
        (
            _form(SPEC_PART, FILE_PART, (b"seed", b"4711")),
            "Unknown part `seed`. Known parts: spec, file, upload, path.",
        ),
        (_form(*[(b"x%d" % i, b"") for i in range(10_000)]), "Unknown part `x0`."),
        (_form(SPEC_PART, FILE_PART, end=b""), "last boundary"),
        (_form(SPEC_PART, FILE_PART)[:-200], "last boundary"),
        (b"--b\r\n" + b"X-Header: y\r\n" * 1000 + b"\r\n", "well-formed"),
        (_form((b"fil\xff", FILE_PART[1])), "Did you mean `file`?"),
        (b"--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n--b--\r\n", "without a name"),
        (b"no multipart at all 4711", "well-formed"),
    ],
)
def test_a_malformed_form_is_refused(shared: Service, body: bytes, reason: str) -> None:
    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    response = shared.call("steward", "POST", "/v1/datasets", content=body, headers=headers)
    problem = _problem(response, 422, "invalid_request")
    assert reason in problem["violations"][0]["what"]
    assert "4711" not in response.text
    assert _stored_folders(shared) == _registered_folders(shared)


@pytest.mark.slow
def test_a_form_is_accepted_in_any_order_and_any_pieces(service: Service) -> None:
    def pieces() -> Any:
        body = _form(FILE_PART, SPEC_PART)
        for start in range(0, len(body), 7):
            yield body[start : start + 7]

    headers = {"Content-Type": 'multipart/form-data; boundary="b"'}
    response = service.call("steward", "POST", "/v1/datasets", content=pieces(), headers=headers)
    assert response.status_code == 201, response.text
    with service.database.read() as connection:
        folder = connection.scalar(sa.select(datasets.c.folder))
    assert len(stored_matrix(folders.path(service.home, str(folder)))) == 200


@pytest.mark.parametrize("kind", ["application/json", "text/csv", "", "multipart/mixed; boundary=b"])
def test_another_media_type_is_refused(shared: Service, kind: str) -> None:
    response = shared.call("steward", "POST", "/v1/datasets", content=people(), headers={"Content-Type": kind})
    _problem(response, 415, "unsupported_media_type")


@pytest.mark.slow
def test_a_form_without_a_boundary_is_refused(shared: Service) -> None:
    headers = {"Content-Type": "multipart/form-data"}
    response = shared.call("steward", "POST", "/v1/datasets", content=_form(SPEC_PART, FILE_PART), headers=headers)
    assert "boundary" in _problem(response, 422, "invalid_request")["violations"][0]["what"]


@pytest.mark.slow
def test_limits_hold_while_the_bytes_arrive(make_service: MakeService, tmp_path: Path) -> None:
    with make_service(tmp_path / "home", max_upload_bytes=5000) as service:
        assert service.upload(file=people(200)).status_code == 201
        response = service.upload(SPEC | {"name": "b"}, people(1000))
        assert "5000 bytes" in _problem(response, 413, "too_large")["detail"]
        headers = {"Content-Type": "multipart/form-data; boundary=b"}

        def endless() -> Any:
            yield (
                _form(SPEC_PART, end=b"")
                + b'--b\r\nContent-Disposition: form-data; name="file"\r\n\r\nage,sex,income\n'
            )
            for _ in range(200):
                yield b"50,f,low\n" * 10_000

        streamed = service.call("steward", "POST", "/v1/datasets", content=endless(), headers=headers)
        _problem(streamed, 413, "too_large")
        long = json.dumps(SPEC | {"name": "c"}) + " " * 2**22
        assert "'spec'" in _problem(service.upload(long), 413, "too_large")["detail"]
        announced = headers | {"Content-Length": "9" * 30}
        assert service.call("steward", "POST", "/v1/datasets", content=b"", headers=announced).status_code == 413
        assert len(_stored_folders(service)) == len(_registered_folders(service)) == 1


def test_a_small_file_that_would_unfold_too_far_is_refused_and_leaves_nothing(
    make_service: MakeService, tmp_path: Path
) -> None:
    n = 4000
    pq.write_table(pa.table({"age": [20] * n, "sex": ["f"] * n, "income": ["low"] * n}), tmp_path / "people")
    with make_service(tmp_path / "home", max_upload_bytes=5000) as service:
        response = service.upload(file=(tmp_path / "people").read_bytes())
        assert "rows" in _problem(response, 413, "too_large")["detail"]
        assert _stored_folders(service) == _registered_folders(service) == []


@pytest.mark.slow
def test_one_of_many_simultaneous_uploads_of_a_file_wins(service: Service) -> None:
    answers = at_once(4, lambda number: service.upload(SPEC | {"name": f"people {number}"}))
    assert sorted(answer.status_code for answer in answers) == [201, 409, 409, 409]
    assert len(_stored_folders(service)) == len(_registered_folders(service)) == 1


def test_a_failure_at_the_last_step_leaves_neither_row_nor_folder(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = folders.publish

    def broken(staged: Path, home: Path, folder: str) -> None:
        publish(staged, home, folder)
        raise OSError("disk full, s3cr3t")

    monkeypatch.setattr(folders, "publish", broken)
    response = service.upload()
    _problem(response, 500, "internal")
    assert "s3cr3t" not in response.text
    assert _stored_folders(service) == _registered_folders(service) == []
    monkeypatch.undo()
    assert service.upload().status_code == 201


@pytest.mark.slow
def test_a_restart_removes_only_the_files_of_a_crash(make_service: MakeService, tmp_path: Path) -> None:
    home = tmp_path / "home"
    with make_service(home) as service:
        dataset = service.dataset()
    root = folders.root(home)
    for name in ("ds_orphan", ".incoming-dead"):
        (root / name).mkdir()
        (root / name / "values.npy").write_bytes(b"rows of somebody")
    with folders.incoming(home) as filled:
        (filled / "upload").write_bytes(b"half of a file")
        with make_service(home) as service:
            assert _stored_folders(service) == sorted([dataset, filled.name, f"{filled.name}.lock"])
            assert (filled / "upload").read_bytes() == b"half of a file"
            assert sorted(path.name for path in (home / "quarantine").iterdir()) == ["ds_orphan", "incoming-dead"]
            assert service.call("analyst", "GET", f"/v1/datasets/{dataset}").status_code == 200
    assert [path.name for path in root.iterdir()] == [dataset]


@pytest.mark.parametrize("params", [{"limit": 0}, {"limit": 201}, {"limit": "x"}, {"cursor": "../x"}, {"page": 2}])
def test_a_list_with_other_parameters_is_refused(shared: Service, params: dict[str, Any]) -> None:
    assert shared.call("analyst", "GET", "/v1/datasets", params=params).status_code == 422


@pytest.mark.slow
def test_an_analyst_sees_only_own_charges_and_the_total(service: Service) -> None:
    dataset = service.dataset()
    service.analyst("bob", dataset)
    job = JOB | {"dataset": dataset, "method": {"name": "dp_gd", "steps": 3}}
    for role in ("analyst", "analyst", "bob"):
        submitted = service.call(role, "POST", "/v1/jobs", json=job)
        assert submitted.status_code == 202, submitted.text
    by_role = {role: service.budget(dataset, role) for role in ("analyst", "bob", "steward", "auditor")}
    whole = by_role["steward"]
    assert whole["jobs"] == 3
    assert 0.5 < whole["spent"]["epsilon"] < 3.0
    assert 0.0 < whole["remaining"]["epsilon"] < 3.0
    assert [(a["analyst"], a["jobs"]) for a in whole["analysts"]] == [("bob", 1), ("the analyst", 2)]
    assert by_role["auditor"] == whole
    for role, name in (("analyst", "the analyst"), ("bob", "bob")):
        budget = by_role[role]
        assert budget == whole | {"analysts": [a for a in whole["analysts"] if a["analyst"] == name]}
        assert budget["analysts"][0]["spent"]["epsilon"] < whole["spent"]["epsilon"]
        assert service.call(role, "GET", f"/v1/datasets/{dataset}").json()["budget"] == budget


@pytest.mark.slow
def test_a_column_of_zeros_and_ones_is_coded_from_zero_and_moves_half_as_far(service: Service) -> None:
    """The default origin becomes part of the declaration. Models state it and use it for predictions."""
    columns = [
        {"name": "flag", "type": "number", "lower": 0, "upper": 1},
        {"name": "count", "type": "number", "lower": 0, "upper": 50, "origin": 0, "scale": 10},
        {"name": "income", "type": "category", "categories": ["low", "high"]},
    ]
    lines = "\n".join(f"{i % 2},{i % 50},{['low', 'high'][i % 3 == 0]}" for i in range(300))
    dataset = service.upload(
        SPEC | {"name": "flags", "columns": columns}, f"flag,count,income\n{lines}\n".encode()
    ).json()
    assert [(c["origin"], c["scale"]) for c in dataset["columns"][:2]] == [(0.0, 1.0), (0.0, 10.0)]
    body = {"dataset": dataset["id"], "target": "income", "privacy": {"epsilon": 1.0}, "method": {"name": "dp_gd"}}
    quote = service.call("analyst", "POST", "/v1/quotes", json=body).json()
    means = next(query for query in quote["queries"] if query["name"] == "means")
    assert means["noise_std"] == pytest.approx(means["noise_multiplier"] * math.sqrt(2) / 2 / 300, rel=1e-2)
    model = service.read(f"jobs/{service.done(body)['id']}/model")
    assert [(f["origin"], f["scale"]) for f in model["features"]] == [(0.0, 1.0), (0.0, 10.0)]
