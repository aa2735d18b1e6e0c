"""The Python client: `Client`, `AsyncClient`, and the jobs that they hand out."""

from purse.client.aio import AsyncClient, AsyncJobHandle
from purse.client.client import Client, JobHandle

__all__ = ["AsyncClient", "AsyncJobHandle", "Client", "JobHandle"]
