"""A service's datasets, prices, jobs, models and receipts from Python.

with purse.Client("http://127.0.0.1:8000", token="...") as service:
    job = service.jobs.submit(dataset="ds_...", target="income", privacy={"epsilon": 0.5, "delta": 1e-7})
    model = job.result()
    job.receipt().verify()
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from purse.client import AsyncClient, AsyncJobHandle, Client, JobHandle
    from purse.errors import ClientError, JobNotReleased, ProblemError, Unreachable
    from purse.prediction import predict
    from purse.receipts import NotVerified, Receipt, load

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


def __getattr__(name: str) -> object:
    """Loaded when first asked for: the service needs the wire alone."""
    if name not in __all__:
        raise AttributeError(f"module 'purse' has no attribute {name!r}")
    from purse import client, errors, prediction, receipts

    found = {key: part for module in (errors, prediction, receipts, client) for key, part in vars(module).items()}
    globals().update({key: found[key] for key in __all__})
    return found[name]
