"""The whole interface fuzzed against its own document, and what is refused changes nothing that lasts."""

import sqlite3
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import schemathesis
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import events, from_schema

from app.ledger import audit
from tests.support.patience import PATIENCE
from tests.support.service import JOB, SPEC, STEWARD, Service

Schema = dict[str, Any]

# With no worker, so that no job starts, it is not ready, and says so.
_RESTING = {
    "include-operation-id": "check_readiness",
    "checks": {"not_a_server_error": {"expected-statuses": ["2xx", "4xx", "503"]}},
}
_CHECKS = {
    # Rules that no schema tells (that a column exists, that delta is 0 or at least 1e-12) refuse much that fits it.
    "positive_data_acceptance": {"enabled": False},
    "negative_data_rejection": {"expected-statuses": [401, 403, 404, 405, 409, 413, 415, 422, 429, 431]},
}


@dataclass(slots=True)
class Found:
    """The requests and failures of a run.

    Parameters
    ----------
    calls : requests by phase
    statuses : answers by method and status
    failures : the first request that shows each
    """

    calls: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    failures: dict[str, str] = field(default_factory=dict)

    def add(self, event: events.ScenarioFinished) -> None:
        """Add one scenario's requests, answers and failed checks."""
        recorder = event.recorder
        self.calls[event.phase.value] += len(recorder.interactions)
        for interaction in recorder.interactions.values():
            if interaction.response is not None:
                self.statuses[f"{interaction.request.method} {interaction.response.status_code}"] += 1
        for check in (check for checks in recorder.checks.values() for check in checks):
            if check.failure_info is not None:
                failure = check.failure_info.failure
                name = f"{failure.operation}: {failure.title}"
                self.failures.setdefault(name, f"{failure.message}\n{check.failure_info.code_sample}")


class Unchanged:
    """The state of the committed database and its folders at the last look."""

    def __init__(self, service: Service) -> None:
        self._home = service.home
        self._database = sqlite3.connect(service.home / "purse.sqlite3", check_same_thread=False)
        self._last_version: object = None

    def look(self) -> bool:
        """Return whether nothing has changed since the last look. The first look returns true."""
        [version] = self._database.execute("PRAGMA data_version").fetchone()
        now = (
            version,
            sorted(path.name for folder in ("datasets", "incoming") for path in self._home.glob(f"{folder}/*")),
        )
        version_before, self._last_version = self._last_version or now, now
        return version_before == now


def fuzz(service: Service, seed: int, examples: int, seconds: int | None = None, without_edges: str = "") -> Found:
    """Every operation as the steward: known good, the schemas' edges, random good and bad, and chains along the links.

    No job starts, so that what a request leaves behind is that request's.

    Parameters
    ----------
    seed : of all that is drawn
    examples : of each operation; also the number of chains
    seconds : goes on until then
    without_edges : operations (a pattern of names) that are not tried on their schemas' edges, of which they have many
    """
    service.engine.slots = 0
    service.app.state.services.courier.stop()  # it would ask whoever is named
    dataset, kept_dataset = service.dataset(), service.dataset()
    own = service.call("steward", "GET", "/v1/tokens").json()["items"][-1]["id"]
    known_values = {
        "path.dataset_id": [dataset, kept_dataset],
        "path.analyst": ["the analyst"],
        "body.dataset": [dataset, kept_dataset],
        "body.target": ["income", "age"],
        "body.positive": ["high", "m"],
        "body.features[*]": ["age", "sex"],
    }
    config = SchemathesisConfig.from_dict(
        {
            "seed": seed,
            "suppress-health-check": ["all"],
            "request-timeout": PATIENCE,
            "max-stream-events": 1,  # the state now; with no job started there is no other
            "auth": {"openapi": {"token": {"bearer": STEWARD}}},
            "generation": {"max-examples": examples, "database": "none", "no-shrink": True},
            "checks": _CHECKS,
            "phases": {"stateful": {"max-steps": 5}},
            "dictionaries": {name: {"values": values} for name, values in known_values.items()},
            "parameters": {name: {"dictionary": name, "probability": 0.7} for name in known_values},
            **({"max-time": seconds} if seconds else {}),
            "operations": [_RESTING, *([_plain(without_edges)] if without_edges else [])],
        }
    )
    schema = schemathesis.openapi.from_dict(
        _exemplified(service.client.get("/openapi.json").json(), dataset), config=config
    )
    schema.app, schema.location = _running(service.app), "/openapi.json"
    unchanged, ended_tokens = Unchanged(service), {own}

    @schema.hook
    def after_call(_context: Any, case: Any, response: Any) -> None:
        """Note that a rotation ends the token that it names, which the tool treats as a new one."""
        if case.path.endswith("/rotate") and response.status_code == 201:
            ended_tokens.add(case.path_parameters["token_id"])

    @schema.hook
    def filter_case(_context: Any, case: Any) -> bool:
        deletes_kept = case.method == "DELETE" and case.path_parameters == {"dataset_id": kept_dataset}
        # `own` is the token of all later requests.
        return case.path_parameters.get("token_id") not in ended_tokens and not deletes_kept

    @schemathesis.check
    def refused_changes_nothing(_context: Any, response: Any, case: Any) -> None:
        is_to_change = case.method not in ("GET", "HEAD") and response.status_code < 400
        assert unchanged.look() or is_to_change, f"{response.status_code} left something behind"

    outcome = Found()
    try:
        for event in from_schema(schema).execute():
            if isinstance(event, events.ScenarioFinished):
                outcome.add(event)
            elif isinstance(event, events.NonFatalError | events.FatalError):
                outcome.failures[str(event)] = "an error of the tool"
    finally:
        schemathesis.checks.CHECKS.unregister("refused_changes_nothing")
    outcome.failures |= {ledger: wrong for ledger, wrong in audit.verify(service.database).items() if wrong}
    return outcome


def _plain(pattern: str) -> Schema:
    return {"include-operation-id-regex": pattern, "phases": {"coverage": {"enabled": False}}}


def _running(app: Callable[..., Any]) -> Callable[..., Any]:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            raise NotImplementedError  # it runs already
        await app(scope, receive, send)

    return application


def _exemplified(document: Schema, dataset: str) -> Schema:
    """Return the document with valid requests as examples, which are sent unchanged and with one change."""
    bodies_of_jobs = [JOB | {"dataset": dataset, "method": {"name": "dp_gd", "steps": steps}} for steps in (3, 0)]
    bodies_of_jobs += [{"dataset": dataset, "method": {"name": "profile"}, "privacy": {"epsilon": 0.1}}]
    event = {"type": "GaussianDpEvent", "noise_multiplier": 1000.0}
    good: dict[str, list[Schema]] = {
        "submit_job": bodies_of_jobs,
        "price_job": bodies_of_jobs,
        "make_token": [{"name": "eve", "role": "analyst"}],
        "charge_outside_mechanism": [{"label": "survey", "event": event}],
        "set_allotment": [{"share": 0.1, "mode": "shared"}],
        "amend_dataset": [{"budget": {"epsilon": 10.0, "delta": 1e-6}}, {"frozen": False}],
        "calculate_noise": [{"mechanism": {"name": "gaussian"}, "epsilon": 1.0, "delta": 1e-6}],
        "register_dataset": [{"spec": SPEC, "file": "age,sex,income\n20,f,low\n30,m,high\n"}],
    }
    for operation in (operation for operations in document["paths"].values() for operation in operations.values()):
        bodies = good.get(operation["operationId"], ())
        for content in operation.get("requestBody", {}).get("content", {}).values():
            content.pop("example", None)
            content["examples"] = {str(place): {"value": body} for place, body in enumerate(bodies)}
    return document
