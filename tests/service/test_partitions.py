"""Datasets as partitions, through the service: registered, trained on, refused, damaged, deleted."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.datasets import folders, values
from app.sources import partitions
from solvers.data_access import data, partitioned
from tests.service.conftest import MakeService
from tests.support.service import JOB, SPEC, Service, people

PARTED = SPEC | {"storage": "partitions"}


@pytest.fixture(scope="module")
def parted(tmp_path_factory: pytest.TempPathFactory, make_service: MakeService) -> Iterator[Service]:
    """A service with a folder for partitions, which are small."""
    home = tmp_path_factory.mktemp("parted") / "home"
    with pytest.MonkeyPatch.context() as patch:
        for module in (partitions, data, partitioned):
            patch.setattr(module, "GROUP", 64)
        with make_service(home, storage_url=f"file://{home.parent}/store") as service:
            yield service


def store(service: Service) -> Path:
    return service.home.parent / "store"


@pytest.mark.slow
def test_a_job_runs_on_partitions_and_its_receipt_is_like_any_other(parted: Service) -> None:
    dataset = parted.upload(PARTED | {"name": "four groups"}, people(4 * 64)).json()["id"]
    files = sorted(path.name for path in (store(parted) / dataset).iterdir())
    assert len(files) == 2 * 4
    assert files[0] == "00000000.codes.npy"
    assert [path.name for path in (parted.home / "datasets" / dataset).iterdir()] == ["partitions.json"]
    for method in (
        {"name": "dp_svrg", "epochs": 2, "inner_steps": 3, "batch": 40},
        {"name": "adaptive_gd", "steps": 9},
    ):
        parted.receipt(parted.done(JOB | {"dataset": dataset, "method": method})["id"])
    assert list((parted.home / "scratch").glob("job_*")) == []


def test_methods_that_need_one_machine_are_refused_with_the_reason(parted: Service) -> None:
    dataset = parted.dataset(storage="partitions")
    body = JOB | {"dataset": dataset, "method": {"name": "phased_sgd"}, "regularizer": {"name": "none"}}
    refused = parted.call("analyst", "POST", "/v1/quotes", json=body)
    assert (refused.status_code, refused.json()["code"]) == (422, "method_needs_one_machine")
    assert refused.json()["detail"]
    forecast = parted.call("analyst", "POST", "/v1/forecasts", json=body | {"privacy": {"epsilons": [1.0]}})
    assert (forecast.status_code, forecast.json()["code"]) == (422, "method_needs_one_machine")
    assert parted.call("analyst", "POST", "/v1/quotes", json=body | {"dataset": parted.dataset()}).status_code == 200


def test_the_same_values_are_recognised_in_either_storage(parted: Service) -> None:
    file = people(333)
    assert parted.upload(PARTED | {"name": "once"}, file).status_code == 201
    files_before = sorted(store(parted).iterdir())
    again = parted.upload(SPEC | {"name": "twice"}, file)
    assert (again.status_code, again.json()["code"]) == (409, "duplicate_dataset")
    again = parted.upload(PARTED | {"name": "thrice"}, file)
    assert (again.status_code, again.json()["code"]) == (409, "duplicate_dataset")
    refused = parted.upload(PARTED | {"name": "ragged"}, file + b"1,2\n")
    assert refused.json()["code"] == "unreadable_file"
    assert sorted(store(parted).iterdir()) == files_before  # a refused upload leaves no file


@pytest.mark.slow
def test_a_damaged_partition_ends_the_attempt_and_marks_the_dataset(parted: Service) -> None:
    dataset = parted.dataset(storage="partitions")
    broken = store(parted) / dataset / "00000001.numbers.npy"
    right = broken.read_bytes()
    broken.write_bytes(b"other")
    body = JOB | {"dataset": dataset, "method": {"name": "dp_gd"}}
    assert parted.finished(parted.submitted(body)["id"])["state"] == "failed"
    again = parted.call("analyst", "POST", "/v1/jobs", json=body)
    assert (again.status_code, again.json()["code"]) == (503, "dataset_damaged")
    assert not values.verify(parted.database, parted.home)[dataset]  # as at every start
    broken.write_bytes(right)
    assert values.verify(parted.database, parted.home)[dataset]


def test_a_dataset_that_is_deleted_leaves_no_partition(parted: Service) -> None:
    dataset = parted.dataset(storage="partitions")
    assert (store(parted) / dataset).exists()
    assert parted.call("steward", "DELETE", f"/v1/datasets/{dataset}").status_code == 200
    assert not (store(parted) / dataset).exists()
    assert not (parted.home / "datasets" / dataset).exists()


def test_unreadable_partitions_are_not_reported_as_deleted(parted: Service) -> None:
    dataset = parted.dataset(storage="partitions")
    manifest = parted.home / "datasets" / dataset / "partitions.json"
    whole = manifest.read_bytes()
    manifest.write_bytes(b'{"x')
    response = parted.call("steward", "DELETE", f"/v1/datasets/{dataset}")
    assert (response.status_code, response.json()["code"]) == (503, "storage_unavailable")
    assert manifest.exists()
    manifest.write_bytes(whole)
    with parted.database.write(alone="names") as connection:
        assert folders.sweep(parted.home, connection) == []
    assert not (store(parted) / dataset).exists()
    assert not manifest.parent.exists()


def test_without_a_place_and_for_persons_partitions_are_refused(parted: Service, shared: Service) -> None:
    refused = shared.upload(PARTED)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")
    assert refused.json()["violations"][0]["where"] == "spec.storage"
    persons = PARTED | {"name": "persons", "unit": {"column": "who", "max_rows": 2}}
    assert parted.upload(persons).json()["code"] == "invalid_request"


@pytest.mark.slow
def test_a_job_with_terms_runs_on_partitions(parted: Service) -> None:
    dataset = parted.dataset(storage="partitions")
    factors = [{"column": "age", "power": 2}], [{"column": "age"}, {"column": "sex"}]
    body = JOB | {"dataset": dataset, "terms": [{"factors": own} for own in factors], "method": {"name": "dp_gd"}}
    model = parted.read(f"jobs/{parted.done(body)['id']}/model")
    assert [column["name"] for column in model["features"]] == ["age^2", "age:sex=f", "age:sex=m"]
    assert list((parted.home / "scratch").glob("job_*")) == []
