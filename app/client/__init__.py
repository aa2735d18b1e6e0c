"""The Python client: `Client`, `AsyncClient`, and what they hand out."""

from app.client.aio import AsyncClient, AsyncJobHandle
from app.client.client import Client, JobHandle
from app.client.errors import ClientError, JobNotReleased, ProblemError, Unreachable
from app.client.prediction import predict
from app.client.receipts import NotVerified, Receipt, load

__all__ = [
    "AsyncClient",
    "AsyncJobHandle",
    "Client",
    "ClientError",
    "JobHandle",
    "JobNotReleased",
    "NotVerified",
    "ProblemError",
    "Receipt",
    "Unreachable",
    "load",
    "predict",
]
