"""Server configuration, shared by the command and the tests."""

from functools import partial
from typing import Any

import uvicorn
from fastapi import FastAPI

from app.http.protocol import BoundedProtocol, ConnectionLimits


def configured(app: FastAPI, limits: ConnectionLimits, trusted: str | None = None, **options: Any) -> uvicorn.Config:
    """Return uvicorn's configuration: HTTP/1.1 only, with limits, and without paths or versions in its output.

    Parameters
    ----------
    limits : limits on connections
    trusted : proxies whose X-Forwarded headers are used; those of other clients are ignored
    options : further arguments of `uvicorn.Config`
    """
    return uvicorn.Config(
        app,
        http=partial(BoundedProtocol, limits),  # type: ignore[arg-type]
        ws="none",
        h11_max_incomplete_event_size=limits.head_bytes,
        proxy_headers=trusted is not None,
        forwarded_allow_ips=trusted or "",
        server_header=False,
        log_config=None,
        access_log=False,  # `Observed` logs the route, never the path or the query
        **options,
    )
