"""The Python client: `Client`, `AsyncClient`, and the jobs that they hand out."""

from purse.client.aio import AsyncClient
from purse.client.client import Client, JobHandle
from purse.client.jobs import AsyncJobHandle

__all__ = ["AsyncClient", "AsyncJobHandle", "Client", "JobHandle"]
