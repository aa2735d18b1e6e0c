"""Every operation agrees with the OpenAPI document, never answers 5xx, and leaves nothing behind after a refusal."""

from pathlib import Path

import pytest

from tests.service.conftest import MakeService
from tests.support.service import Service

# Operations whose edges take long to draw or to answer. A tuning has the edges of a job. Sessions and charges have the
# edges of a tree of events. `make fuzz` tries these operations on their edges, too.
_EXPENSIVE = "price_job|submit_job|forecast_accuracy|register_dataset|charge_outside_mechanism|open_session"


@pytest.mark.slow
def test_the_interface_behaves_as_its_document_states(
    make_service: MakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.support.fuzz import fuzz  # loaded only if the test runs

    monkeypatch.setenv("NO_PROXY", "testserver")  # else `requests` reads the whole environment for each request
    with make_service(tmp_path / "home") as service:
        outcome = fuzz(service, seed=1, examples=2, without_edges=_EXPENSIVE)
    assert not outcome.failures, "\n\n".join(f"{failure}\n{sample}" for failure, sample in outcome.failures.items())
    assert {"examples", "coverage", "fuzzing", "stateful"} <= set(outcome.calls)
    well = ("GET 200", "POST 200", "POST 201", "POST 202", "PUT 200", "PATCH 200", "DELETE 200", "DELETE 204")
    assert all(outcome.statuses[status] for status in well), "not only refusals were seen"


@pytest.mark.slow
def test_the_check_notices_rows_and_folders_that_a_request_leaves(service: Service) -> None:
    from tests.support.fuzz import Unchanged

    unchanged = Unchanged(service)
    assert unchanged.look()
    assert service.call("steward", "POST", "/v1/tokens", json={"name": "eve"}).status_code == 422
    assert unchanged.look()
    assert service.call("steward", "POST", "/v1/tokens", json={"name": "eve", "role": "analyst"}).status_code == 201
    assert not unchanged.look()
    (service.home / "datasets" / "left").mkdir(parents=True)
    assert not unchanged.look()
