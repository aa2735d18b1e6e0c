"""A client generated from the document works: no field is dropped, and a job runs to its end."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from tests.support.service import JOB, SPEC, STEWARD, Service, people


@contextmanager
def _generated(service: Service, folder: Path, name: str) -> Iterator[Any]:
    """Generate the client's package, and make it importable under this name."""
    from openapi_python_client import generate  # takes half a second: not where the suite is collected
    from openapi_python_client.config import Config, ConfigFile, MetaType

    document = folder / "openapi.json"
    document.write_bytes(service.client.get("/openapi.json").content)
    config = Config.from_sources(ConfigFile(post_hooks=[]), MetaType.NONE, document, "utf-8", False, folder / name)
    assert generate(config=config) == [], "every route and every schema is in the client"
    sys.path.insert(0, str(folder))
    try:
        yield import_module
    finally:
        sys.path.remove(str(folder))
        for module in [module_name for module_name in sys.modules if module_name.split(".")[0] == name]:
            del sys.modules[module]


@pytest.mark.slow
def test_a_generated_client_registers_a_dataset_submits_a_job_and_reads_its_receipt(
    service: Service, tmp_path: Path
) -> None:
    with _generated(service, tmp_path, "generated_client") as module:

        def call(operation: str, *path: str, **given: Any) -> Any:
            return module(f"generated_client.api.{operation}").sync(*path, client=client, **given)

        models, types = module("generated_client.models"), module("generated_client.types")
        client = module("generated_client").AuthenticatedClient("http://testserver", STEWARD)
        client.set_httpx_client(service.client)
        service.client.headers["Authorization"] = f"Bearer {STEWARD}"  # it puts the token on a client of its own alone

        spec = models.DatasetSpec.from_dict(SPEC)
        body = models.RegisterDatasetBody(spec, types.File(BytesIO(people()), "people.csv", "text/csv"))
        dataset = call("datasets.register_dataset", body=body)
        request = models.JobRequest.from_dict(JOB | {"dataset": dataset.id})
        price = call("jobs.price_job", body=request)
        job = call("jobs.submit_job", body=request, idempotency_key="one")
        assert job.quote.epsilon == price.epsilon <= 0.5
        assert call("jobs.submit_job", body=request, idempotency_key="one").id == job.id

        assert service.finished(job.id)["state"] == "done"
        assert call("jobs.read_job", job.id).state == "done"
        assert call("jobs.read_released_model", job.id).target.name == "income"
        receipt = call("jobs.read_receipt", job.id)
        assert receipt.receipt["job"] == job.id
        assert call("ledger_and_receipts.verify_receipt", body=receipt).valid
        assert call("datasets.read_dataset_budget", dataset.id).jobs == 1
        assert call("datasets.read_dataset_budget", "ds_unknown").code == "not_found"

        event = {"type": "GaussianDpEvent", "noise_multiplier": 40.0}
        plan = models.EventsSessionRequest.from_dict({"events": [event], "lifetime": 600})
        session = call("sessions.open_session", dataset.id, body=plan)
        steps = models.StepsRequest.from_dict({"steps": 1})
        assert call("sessions.record_answers", session.id, body=steps).plan[0].recorded == 1
        assert call("sessions.close_session", session.id).state == "closed"
        assert call("sessions.read_session_receipt", session.id).receipt["session"] == session.id
        assert call("sessions.list_sessions").items[0].id == session.id
