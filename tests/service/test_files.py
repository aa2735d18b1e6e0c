"""The report on a file's values is returned once, only to the sender, and reaches others in no way."""

import gzip
import logging
from pathlib import Path
from typing import Any

import pytest

from app.operations.logs import Lines
from tests.service.conftest import MakeService
from tests.support import hospital
from tests.support.service import JOB, SPEC, Service

CANARY = "Chimpanzee-4711"
FLOATS = b"age,sex,income\n" + b"".join(b"%d,f,%d.0\n" % (i % 90, i % 2) for i in range(100))
BINARY: dict[str, Any] = SPEC | {
    "columns": [*SPEC["columns"][:2], {"name": "income", "type": "category", "categories": ["0", "1"]}]
}


def test_zeros_and_ones_that_are_floats_are_refused_with_the_cure(shared: Service) -> None:
    """Previously such a file gave a worthless model with a valid receipt and no warning."""
    response = shared.upload(BINARY | {"name": "floats"}, FLOATS)
    assert response.status_code == 422
    problem = response.json()
    assert problem["code"] == "unparsed_values"
    assert "'income'" in problem["detail"]
    [income] = [column for column in problem["report"]["columns"] if column["outcomes"]]
    [outcome] = income["outcomes"]
    assert (outcome["what"], outcome["count"], outcome["line"]) == ("not_declared", 100, 2)
    assert "0.0 and 1.0" in outcome["cure"]
    names = [dataset["name"] for dataset in shared.call("steward", "GET", "/v1/datasets").json()["items"]]
    assert "floats" not in names
    accepted = shared.registered(BINARY | {"name": "floats", "max_unparsed": {"income": 1}}, FLOATS)
    assert accepted["report"]["columns"][2]["max_unparsed"] == 1


@pytest.mark.parametrize(
    ("changes", "status"),
    [({}, 201), ({"targets": ["income"]}, 422), ({"max_unparsed": 0.02}, 422), ({"max_unparsed": {"income": 0}}, 422)],
)
def test_one_percent_of_a_target_and_five_of_other_columns_may_be_unparsed(
    shared: Service, changes: dict[str, Any], status: int
) -> None:
    file = b"age,sex,income\n" + b"50,f,low\n" * 97 + b"1,m,lo\n" * 3 + b",,\n" * 50
    spec = SPEC | {"name": f"limits {status} {changes}"} | changes
    response = shared.upload(spec, file)
    assert response.status_code == status, response.text
    income = response.json()["report"]["columns"][2]
    assert {outcome["what"]: outcome["count"] for outcome in income["outcomes"]} == {"missing": 50, "not_declared": 3}


def test_a_hospitals_file_is_registered_as_it_is(shared: Service) -> None:
    declared = {"columns": hospital.COLUMNS, "dialect": hospital.DIALECT, "unit": hospital.UNIT}
    spec = SPEC | declared | {"name": "stays", "targets": ["intensiv"]}
    answer = shared.registered(spec, gzip.compress(hospital.stays()))
    assert (answer["persons"], answer["report"]["records"]) == (300, 600)
    outcomes = {column["name"]: column["outcomes"] for column in answer["report"]["columns"]}
    assert [(o["what"], o["count"], o["line"]) for o in outcomes.pop("kosten")] == [("missing", 12, 2)]
    assert set(map(len, outcomes.values())) == {0}
    assert answer["columns"][0]["date"] == "days"
    plain = hospital.stays().replace(b"S\xe4uglinge", b"S\x81uglinge")
    refused = shared.upload(spec | {"name": "again"}, plain)
    assert (refused.status_code, refused.json()["code"]) == (422, "unreadable_file")
    assert refused.json()["detail"].startswith("Line 4 is not WINDOWS-1252")
    nobody = shared.upload(spec | {"name": "again"}, hospital.stays().replace(b"P7;", b";"))
    assert nobody.json()["detail"].startswith("Line 16 is empty in 'patient'")


@pytest.mark.slow
def test_only_the_uploader_reads_the_report(make_service: MakeService, tmp_path: Path) -> None:
    """Other callers, the log, the metrics and the disk do not show it."""
    written: list[str] = []
    keep = logging.Handler(logging.DEBUG)
    keep.emit = lambda record: written.append(Lines("json").format(record))  # type: ignore[method-assign]
    logging.getLogger().addHandler(keep)
    level_before = logging.getLogger().level
    logging.getLogger().setLevel(logging.DEBUG)
    try:
        with make_service(tmp_path / "home") as service:
            service.tokens["second"] = service.token("second", "steward")["token"]
            file = b"age,sex,income\n" + b"50,f,low\n" * 973 + b"51,%b,low\n" % CANARY.encode() * 27
            refused = service.upload(SPEC | {"max_unparsed": 0.01}, file)
            assert refused.status_code == 422
            accepted = service.upload(SPEC, file)
            assert accepted.status_code == 201, accepted.text
            for response in (refused, accepted):
                assert CANARY in response.text
                assert '"count":27' in response.text
            dataset = accepted.json()["id"]
            job = service.done(JOB | {"dataset": dataset})["id"]
            paths = [f"/v1/datasets/{dataset}{suffix}" for suffix in ("", "/budget", "/ledger", "/ledger/head")]
            paths += [f"/v1/jobs/{job}{suffix}" for suffix in ("", "/model", "/receipt")]
            answers = [
                service.call(role, "GET", path).text
                for path in [*paths, "/v1/datasets", "/v1/jobs", "/metrics"]
                for role in ("steward", "second", "analyst", "auditor")
            ]
            durable = repr(service.durable(dataset))
    finally:
        logging.getLogger().removeHandler(keep)
        logging.getLogger().setLevel(level_before)
    assert any('"analyst"' in answer for answer in answers)
    for place in (*answers, durable, *written):
        for secret in (CANARY, "not_declared", "outcomes", '"report"'):
            assert secret not in place
    for path in (path for path in (tmp_path / "home").rglob("*") if path.is_file()):
        for secret in (CANARY, "not_declared", "outcomes"):
            assert secret.encode() not in path.read_bytes(), path
