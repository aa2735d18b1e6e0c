"""Access rules: the roles that may call each route, as the tables of docs/http.md state them, and the scopes."""

import re
from pathlib import Path

from fastapi.routing import APIRoute

from app.http.routing import routes
from app.main import ROUTERS

PAGE = Path(__file__).parents[2] / "docs/http.md"
ROLES = ("steward", "analyst", "auditor")
# Words of the tables, and the roles that they name. An owner is an analyst; whose object it is, other tests check.
NAMED = {role: {role} for role in ROLES} | {"owner": {"analyst"}, "any role": {*ROLES}}
ROWS = re.findall(r"^\| `([A-Z]+) (/\S*)` \| ([^|]+) \|", PAGE.read_text(), re.MULTILINE)
PUBLIC = {(method, path) for method, path, callers in ROWS if callers == "public"}
RULES = {
    (method, path): {role for word, roles in NAMED.items() if re.search(rf"\b{word}\b", callers) for role in roles}
    for method, path, callers in ROWS
    if callers != "public"
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
