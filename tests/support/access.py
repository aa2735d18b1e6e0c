"""Access rules: the roles and scopes that may call each route."""

import re

from fastapi.routing import APIRoute

from app.http.routing import routes
from app.main import ROUTERS

ROLES = ("steward", "analyst", "auditor")
PUBLIC = {
    ("GET", "/health/live"),
    ("GET", "/health/ready"),
    ("GET", "/docs"),
    ("GET", "/docs/try.js"),
    ("GET", "/openapi.json"),
    ("GET", "/v1/keys"),
    ("POST", "/v1/receipts/verify"),
}
# Roles by route; a steward may do all that an analyst may.
ALL = frozenset(ROLES)
RULES = {
    ("GET", "/metrics"): {"steward", "auditor"},
    ("POST", "/v1/tokens"): {"steward"},
    ("GET", "/v1/tokens"): {"steward"},
    ("POST", "/v1/tokens/{token_id}/rotate"): {"steward"},
    ("DELETE", "/v1/tokens/{token_id}"): {"steward"},
    ("POST", "/v1/datasets"): {"steward"},
    ("POST", "/v1/uploads"): {"steward"},
    ("GET", "/v1/uploads"): {"steward"},
    ("GET", "/v1/uploads/{upload_id}"): {"steward"},
    ("PATCH", "/v1/uploads/{upload_id}"): {"steward"},
    ("DELETE", "/v1/uploads/{upload_id}"): {"steward"},
    ("GET", "/v1/datasets"): ALL,
    ("GET", "/v1/datasets/{dataset_id}"): ALL,
    ("GET", "/v1/datasets/{dataset_id}/budget"): ALL,
    ("GET", "/v1/datasets/{dataset_id}/twin"): ALL,
    ("PUT", "/v1/datasets/{dataset_id}/sample"): {"steward"},
    ("GET", "/v1/datasets/{dataset_id}/sample"): ALL,
    ("DELETE", "/v1/datasets/{dataset_id}/sample"): {"steward"},
    ("PUT", "/v1/datasets/{dataset_id}/grants/{analyst}"): {"steward"},
    ("GET", "/v1/datasets/{dataset_id}/grants"): {"steward"},
    ("GET", "/v1/datasets/{dataset_id}/grants/{analyst}"): {"steward"},
    ("DELETE", "/v1/datasets/{dataset_id}/grants/{analyst}"): {"steward"},
    ("POST", "/v1/calibrations"): ALL,
    ("POST", "/v1/datasets/{dataset_id}/charges"): {"steward"},
    ("PATCH", "/v1/datasets/{dataset_id}"): {"steward"},
    ("DELETE", "/v1/datasets/{dataset_id}"): {"steward"},
    ("PUT", "/v1/datasets/{dataset_id}/allotments/{analyst}"): {"steward"},
    ("GET", "/v1/datasets/{dataset_id}/allotments"): {"steward"},
    ("GET", "/v1/datasets/{dataset_id}/allotments/{analyst}"): {"steward"},
    ("DELETE", "/v1/datasets/{dataset_id}/allotments/{analyst}"): {"steward"},
    ("GET", "/v1/datasets/{dataset_id}/ledger"): {"steward", "auditor"},
    ("GET", "/v1/datasets/{dataset_id}/ledger/head"): ALL,
    ("POST", "/v1/quotes"): {"steward", "analyst"},
    ("POST", "/v1/forecasts"): ALL,
    ("POST", "/v1/jobs"): {"steward", "analyst"},
    ("POST", "/v1/statistics"): {"steward", "analyst"},
    ("POST", "/v1/tunings"): {"steward", "analyst"},
    ("GET", "/v1/jobs"): ALL,
    ("GET", "/v1/jobs/{job_id}"): {"steward", "analyst"},
    ("GET", "/v1/jobs/{job_id}/events"): {"steward", "analyst"},
    ("DELETE", "/v1/jobs/{job_id}"): {"steward", "analyst"},
    ("GET", "/v1/jobs/{job_id}/model"): {"steward", "analyst"},
    ("GET", "/v1/jobs/{job_id}/statistic"): {"steward", "analyst"},
    ("POST", "/v1/models/{job_id}/evaluations"): {"steward", "analyst"},
    ("GET", "/v1/jobs/{job_id}/evaluation"): {"steward", "analyst"},
    ("GET", "/v1/jobs/{job_id}/receipt"): ALL,
    ("GET", "/v1/jobs/{job_id}/profile"): ALL,
    ("POST", "/v1/datasets/{dataset_id}/sessions"): {"steward", "analyst"},
    ("GET", "/v1/sessions"): ALL,
    ("GET", "/v1/sessions/{session_id}"): ALL,
    ("POST", "/v1/sessions/{session_id}/steps"): {"steward", "analyst"},
    ("POST", "/v1/sessions/{session_id}/close"): {"steward", "analyst"},
    ("GET", "/v1/sessions/{session_id}/receipt"): ALL,
    ("POST", "/v1/webhooks"): {"steward", "analyst"},
    ("GET", "/v1/webhooks"): {"steward", "analyst"},
    ("GET", "/v1/webhooks/{webhook_id}"): {"steward", "analyst"},
    ("DELETE", "/v1/webhooks/{webhook_id}"): {"steward", "analyst"},
}
# Scopes by route. A GET needs `read`; other routes need `manage` unless they are listed here.
SCOPED = {
    ("POST", "/v1/calibrations"): {"read"},
    ("POST", "/v1/forecasts"): {"read"},
    ("POST", "/v1/quotes"): {"quote"},
    ("POST", "/v1/jobs"): {"submit"},
    ("POST", "/v1/statistics"): {"submit"},
    ("POST", "/v1/models/{job_id}/evaluations"): {"submit"},
    ("POST", "/v1/tunings"): {"submit"},
    ("DELETE", "/v1/jobs/{job_id}"): {"submit"},
    ("POST", "/v1/datasets/{dataset_id}/sessions"): {"session"},
    ("POST", "/v1/sessions/{session_id}/steps"): {"session"},
    ("POST", "/v1/sessions/{session_id}/close"): {"session"},
    ("POST", "/v1/webhooks"): {"submit"},
    ("DELETE", "/v1/webhooks/{webhook_id}"): {"submit"},
}
EVERY = [(method, route) for route in routes(ROUTERS) for method in sorted(route.methods or ())]
PROTECTED = [(method, route) for method, route in EVERY if (method, route.path) not in PUBLIC]


def example_path(route: APIRoute) -> str:
    """Return the route's path with `nobody` for each parameter."""
    return re.sub(r"\{\w+\}", "nobody", route.path)
