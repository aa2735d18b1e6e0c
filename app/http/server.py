"""How the application is served, by the command and by the tests alike."""

from functools import partial
from typing import Any

import uvicorn
from fastapi import FastAPI

from app.http.protocol import BoundedProtocol, Limits


def configured(app: FastAPI, limits: Limits, trusted: str | None = None, **chosen: Any) -> uvicorn.Config:
    """uvicorn's configuration: HTTP/1.1 alone, bounded, and silent about paths and versions.

    Parameters
    ----------
    trusted : the proxies whose X-Forwarded headers are believed; those of others are ignored
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
        access_log=False,  # ours names the route, never the path or the query
        **chosen,
    )
