"""The Python client: `Client`, `AsyncClient`, and handles of their jobs."""

from purse.client.aio import AsyncClient
from purse.client.client import Client, JobHandle
from purse.client.jobs import AsyncJobHandle

__all__ = ["AsyncClient", "AsyncJobHandle", "Client", "JobHandle"]
