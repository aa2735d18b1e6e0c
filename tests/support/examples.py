"""The examples of the OpenAPI document: one story, told to a running service, and what it answered.

`python -m tests.support.examples` writes them to app/openapi/examples.json; a test tells the story again.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

from tests.support.service import SPEC, Service, people

FILE = Path(__file__).parents[2] / "app/openapi/examples.json"
CENSUS: dict[str, Any] = SPEC | {"name": "census", "holdout": 0.2}
_ROWS = 400
_EXAMPLE_LINES = ("age,sex,income", "37,f,low", "52,m,high")  # of the uploaded file
Examples = dict[str, dict[str, Any]]


class Story:
    """The requests and answers of the session, by the name of the operation."""

    def __init__(self, service: Service) -> None:
        self.service, self.examples = service, dict[str, dict[str, Any]]()
        self._paths = service.client.get("/openapi.json").json()["paths"]

    def ask(self, method: str, path: str, body: Any = None, role: str = "steward", **names: str) -> Any:
        """Send a request that must succeed, note it, and return the answer."""
        options = {} if body is None else {"json": body}
        response = self.service.call(role, method, path.format(**names), **options)
        assert response.is_success, (path, response.text)
        content = response.json() if response.content else None
        self._note(method, path, body, content)
        return content

    def finished(self, job: Any) -> str:
        """The job, once it is done."""
        assert self.service.finished(job["id"])["state"] == "done"
        return str(job["id"])

    def _note(self, method: str, path: str, body: Any, content: Any) -> None:
        sides = {"request": body, "response": content}
        name = self._paths[path][method.lower()]["operationId"]
        self.examples.setdefault(name, {name: value for name, value in sides.items() if value is not None})


def tell(service: Service) -> Examples:
    """Register, share, price, use, charge and audit a census, and return the examples."""
    story = Story(service)
    ask = story.ask
    files = {"file": ("census.csv", people(_ROWS))}
    response = service.call("steward", "POST", "/v1/datasets", data={"spec": json.dumps(CENSUS)}, files=files)
    assert response.status_code == 201, response.text
    story._note("POST", "/v1/datasets", {"spec": CENSUS, "file": "\n".join(_EXAMPLE_LINES) + "\n"}, response.json())
    dataset = response.json()["id"]
    ada = ask("POST", "/v1/tokens", {"name": "ada", "role": "analyst"})
    service.tokens["ada"] = ada["token"]
    of_ada = {"dataset_id": dataset, "analyst": "ada"}
    for collection, body in (("grants", None), ("allotments", {"share": 0.9, "mode": "shared"})):
        ask("PUT", f"/v1/datasets/{{dataset_id}}/{collection}/{{analyst}}", body, **of_ada)
        ask("GET", f"/v1/datasets/{{dataset_id}}/{collection}/{{analyst}}", **of_ada)
        ask("GET", f"/v1/datasets/{{dataset_id}}/{collection}", dataset_id=dataset)
    ask("POST", "/v1/webhooks", {"url": "https://hooks.example/jobs"}, "ada")
    hook = ask("GET", "/v1/webhooks", role="ada")["items"][0]["id"]
    ask("GET", "/v1/webhooks/{webhook_id}", role="ada", webhook_id=hook)
    _ask_for_releases(story, dataset)
    _reserve(story)
    ask("GET", "/v1/datasets")
    for path in ("", "/budget", "/ledger/head"):
        ask("GET", f"/v1/datasets/{{dataset_id}}{path}", dataset_id=dataset)
    chain = service.call("steward", "GET", f"/v1/datasets/{dataset}/ledger", params={"limit": 3}).json()
    story._note("GET", "/v1/datasets/{dataset_id}/ledger", None, chain)
    event = {"type": "GaussianDpEvent", "noise_multiplier": 100.0}
    charge = {"label": "survey of 2025", "event": event}
    ask("POST", "/v1/datasets/{dataset_id}/charges", charge, dataset_id=dataset)
    sample = service.attach(dataset, published="Census 2019, public file").json()
    story._note("PUT", "/v1/datasets/{dataset_id}/sample", None, sample)
    ask("GET", "/v1/datasets/{dataset_id}/sample", dataset_id=dataset)
    target = {"mechanism": {"name": "gaussian"}, "count": 10, "epsilon": 1.0, "delta": 1e-6}
    ask("POST", "/v1/calibrations", target)
    ask("PATCH", "/v1/datasets/{dataset_id}", {"frozen": True}, dataset_id=dataset)
    ask("DELETE", "/v1/datasets/{dataset_id}", dataset_id=dataset)
    upload = service.call("steward", "POST", "/v1/uploads", headers={"Upload-Length": "1000"})
    story._note("POST", "/v1/uploads", None, upload.json())
    ask("GET", "/v1/uploads")
    ask("GET", "/v1/uploads/{upload_id}", upload_id=upload.json()["id"])
    ask("GET", "/v1/tokens")
    ask("POST", "/v1/tokens/{token_id}/rotate", token_id=ada["id"])
    for path in ("/health/live", "/health/ready", "/v1/keys"):
        ask("GET", path)
    return story.examples


def _reserve(story: Story) -> None:
    """A program elsewhere reserves ten answers, computes four of them, and gets its receipt."""
    ask, target = story.ask, {"privacy": {"epsilon": 0.1}, "steps": 10, "title": "a survey's mean", "lifetime": 3600}
    dataset = story.service.dataset(name="survey")
    story.service.grant(dataset, "ada")
    session = ask("POST", "/v1/datasets/{dataset_id}/sessions", target, "ada", dataset_id=dataset)["id"]
    ask("POST", "/v1/sessions/{session_id}/steps", {"steps": 4, "event": 0}, "ada", session_id=session)
    ask("GET", "/v1/sessions/{session_id}", role="ada", session_id=session)
    ask("POST", "/v1/sessions/{session_id}/close", role="ada", session_id=session)
    ask("GET", "/v1/sessions/{session_id}/receipt", role="auditor", session_id=session)
    ask("GET", "/v1/sessions", role="auditor")


def _ask_for_releases(story: Story, dataset: str) -> None:
    ask = story.ask
    model = {"dataset": dataset, "target": "income", "privacy": {"epsilon": 0.5}}
    ask("POST", "/v1/quotes", model, "ada")
    tried = {"epsilons": [0.5, 2.0]}
    ask("POST", "/v1/forecasts", {"dataset": dataset, "target": "income", "privacy": tried, "runs": 3}, "ada")
    job = story.finished(ask("POST", "/v1/jobs", model, "ada"))
    ask("GET", "/v1/jobs/{job_id}", role="ada", job_id=job)
    ask("GET", "/v1/jobs/{job_id}/model", role="ada", job_id=job)
    receipt = ask("GET", "/v1/jobs/{job_id}/receipt", role="auditor", job_id=job)
    ask("POST", "/v1/receipts/verify", receipt)
    measured = ask(
        "POST", "/v1/models/{job_id}/evaluations", {"bins": 2, "privacy": {"epsilon": 0.5}}, "ada", job_id=job
    )
    ask("GET", "/v1/jobs/{job_id}/evaluation", role="ada", job_id=story.finished(measured))
    ways = [{"regularizer": {"name": "l2", "strength": strength}} for strength in (0.001, 0.1)]
    tuning = {"dataset": dataset, "target": "income", "candidates": ways, "privacy": {"epsilon": 1.0}}
    story.finished(ask("POST", "/v1/tunings", tuning, "ada"))
    counts = {"dataset": dataset, "columns": ["sex", "income"], "method": {"name": "counts"}} | {
        "privacy": {"epsilon": 0.2}
    }
    counted = story.finished(ask("POST", "/v1/statistics", counts, "ada"))
    ask("GET", "/v1/jobs/{job_id}/statistic", role="ada", job_id=counted)
    profile = {"dataset": dataset, "method": {"name": "profile", "bins": 4}, "privacy": {"epsilon": 0.2}}
    profiled = story.service.call("ada", "POST", "/v1/statistics", json=profile).json()
    ask("GET", "/v1/jobs/{job_id}/profile", role="ada", job_id=story.finished(profiled))
    page = story.service.call("ada", "GET", "/v1/jobs", params={"limit": 1}).json()
    story._note("GET", "/v1/jobs", None, page)
    story.service.engine.gate.clear()
    waiting = story.service.call("ada", "POST", "/v1/jobs", json=model).json()["id"]
    ask("DELETE", "/v1/jobs/{job_id}", role="ada", job_id=waiting)
    story.service.engine.gate.set()


def _without_secrets(node: Any) -> Any:
    """Replace all tokens. They are invalid after the test, but must not be shown."""
    match node:
        case dict():
            return {k: "purse_" + "x" * 43 if k == "token" else _without_secrets(v) for k, v in node.items()}
        case list():
            return [_without_secrets(value) for value in node]
        case _:
            return node


if __name__ == "__main__":
    from tests.service.conftest import running_service

    with tempfile.TemporaryDirectory() as folder, running_service(Path(folder) / "home") as service:
        examples = _without_secrets(tell(service))
        lines = (f"{json.dumps(name)}: {json.dumps(of, ensure_ascii=False)}" for name, of in sorted(examples.items()))
        FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
