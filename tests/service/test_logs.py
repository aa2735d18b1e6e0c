"""A whole session, and nothing of it in the log but identifiers and codes."""

import json
import logging
import re
from pathlib import Path

from app.operations.logs import Lines
from app.worker.engine import RAISED
from tests.service.conftest import MakeService
from tests.support.service import JOB, SPEC

_AGE = 31.4159265  # a value that is nowhere else
_NOTE = "canary4711"


def test_a_session_leaves_no_value_no_token_and_no_name_in_the_log(make_service: MakeService, tmp_path: Path) -> None:
    written: list[str] = []
    keep = logging.Handler(logging.DEBUG)
    keep.emit = lambda record: written.extend(Lines(layout).format(record) for layout in ("json", "text"))  # type: ignore[method-assign]
    root, level_before = logging.getLogger(), logging.getLogger().level
    root.addHandler(keep)
    root.setLevel(logging.DEBUG)
    try:
        with make_service(tmp_path / "home") as service:
            rows = "".join(f"{_AGE + i / 10},{'fm'[i % 2]},{'high' if i % 3 else 'low'}\n" for i in range(200))
            response = service.upload(SPEC | {"name": _NOTE}, f"age,sex,income\n{rows}".encode(), f"{_NOTE}.csv")
            dataset = response.json()["id"]
            body, key = JOB | {"dataset": dataset}, {"Idempotency-Key": f"{_NOTE}-key"}
            submitted = service.call("analyst", "POST", "/v1/jobs", json=body, headers=key)
            job, request = submitted.json()["id"], submitted.headers["X-Request-ID"]
            assert service.finished(job)["state"] == "done"
            model = service.call("analyst", "GET", f"/v1/jobs/{job}/model").json()
            receipt = service.call("analyst", "GET", f"/v1/jobs/{job}/receipt").json()
            service.engine.ends[1] = RAISED
            failed = service.call("analyst", "POST", "/v1/jobs", json=body).json()["id"]
            assert service.finished(failed)["state"] == "failed"
            service.token(_NOTE)
            for wrong in (b"{" + _NOTE.encode(), json.dumps(body | {"privacy": {"epsilon": _NOTE}}).encode()):
                service.call("analyst", "POST", "/v1/jobs", content=wrong)
            service.upload(SPEC, f"age,sex\n{_AGE},{_NOTE}\n".encode())
            service.client.get(f"/v1/datasets/{_NOTE}?{_NOTE}", headers={"Authorization": f"Bearer {_NOTE}"})
            service.call("auditor", "GET", f"/v1/datasets/{dataset}/ledger")
            service.call("auditor", "GET", "/metrics")
            secrets = [*service.tokens.values(), (service.home / "signing-key.json").read_text(), receipt["signature"]]
    finally:
        root.removeHandler(keep)
        root.setLevel(level_before)
    log = "\n".join(written)
    for message in ("job_submitted", "attempt_started", "attempt_ok", "job_done", "job_failed"):
        assert message in log, "the session was logged"
    numbers = re.findall(r"-?\d+\.\d{4,}", json.dumps(model))
    assert len(numbers) >= 3
    for secret in (_NOTE, str(_AGE)[:6], *secrets, *numbers, "the analyst", "income"):
        assert secret not in log
    lines = [json.loads(line) for line in written[::2]]
    of_the_job = [line for line in lines if job in line["message"]]
    names = [line["message"].split()[0] for line in of_the_job]
    names.remove("job_submitted")  # the dispatcher may start the attempt before the route logs the submission
    assert names == ["attempt_started", "attempt_ok", "job_done"]
    assert {line["request_id"] for line in of_the_job} == {request}, (
        "the job keeps the id of the request that submitted it"
    )
    assert {"time", "level", "logger", "message"} <= set.intersection(*(set(line) for line in lines))
