"""The Python client: `Client`, `AsyncClient`, and handles of their jobs and sessions."""

from purse.client.aio import AsyncClient
from purse.client.client import Client, JobHandle, SessionHandle
from purse.client.jobs import AsyncJobHandle
from purse.client.sessions import AsyncSessionHandle

__all__ = ["AsyncClient", "AsyncJobHandle", "AsyncSessionHandle", "Client", "JobHandle", "SessionHandle"]
