"""Client of the service: datasets, prices, jobs, models and receipts.

with purse.Client("http://127.0.0.1:8000", token="...") as service:
    job = service.jobs.submit(dataset="people", target="income", privacy={"epsilon": 0.5, "delta": 1e-7})
    model = job.result()
    job.receipt().verify()

For data on your own machine, there are estimators of scikit-learn such as `purse.PrivateLogisticRegression`.
"""

from importlib import import_module  # noqa: TID251 (modules of this package alone, which `TYPE_CHECKING` names too)
from typing import TYPE_CHECKING

from purse.extras import needing

if TYPE_CHECKING:
    from purse.client import AsyncClient, AsyncJobHandle, AsyncSessionHandle, Client, JobHandle, SessionHandle
    from purse.errors import ClientError, JobNotReleased, ProblemError, Unreachable
    from purse.estimators import BudgetAccountant as BudgetAccountant
    from purse.estimators import LearnedFromData as LearnedFromData
    from purse.estimators import PrivateLinearRegression as PrivateLinearRegression
    from purse.estimators import PrivateLinearSVC as PrivateLinearSVC
    from purse.estimators import PrivateLogisticRegression as PrivateLogisticRegression
    from purse.estimators import PrivateQuantileRegressor as PrivateQuantileRegressor
    from purse.estimators import check_pipeline as check_pipeline
    from purse.extras import NotInstalled
    from purse.formulas import formula
    from purse.model import Model
    from purse.prediction import predict
    from purse.receipts import NotVerified, Receipt, load
    from purse.sessions import session

__all__ = [
    "AsyncClient",
    "AsyncJobHandle",
    "AsyncSessionHandle",
    "Client",
    "ClientError",
    "JobHandle",
    "JobNotReleased",
    "Model",
    "NotInstalled",
    "NotVerified",
    "ProblemError",
    "Receipt",
    "SessionHandle",
    "Unreachable",
    "formula",
    "load",
    "predict",
    "session",
]

_MODULES = {  # of public names; those of estimators are not in `__all__`, because a star import must not need an extra
    "client": ("AsyncClient", "AsyncJobHandle", "AsyncSessionHandle", "Client", "JobHandle", "SessionHandle"),
    "errors": ("ClientError", "JobNotReleased", "ProblemError", "Unreachable"),
    "estimators": (
        "BudgetAccountant",
        "LearnedFromData",
        "PrivateLinearRegression",
        "PrivateLinearSVC",
        "PrivateLogisticRegression",
        "PrivateQuantileRegressor",
        "check_pipeline",
    ),
    "extras": ("NotInstalled",),
    "formulas": ("formula",),
    "model": ("Model",),
    "prediction": ("predict",),
    "receipts": ("NotVerified", "Receipt", "load"),
    "sessions": ("session",),
}


def __getattr__(name: str) -> object:
    """Return a public name; its module is loaded at the first use, because the service needs only the wire."""
    module = next((module for module, names in _MODULES.items() if name in names), None)
    if module is None:
        raise AttributeError(f"module 'purse' has no attribute {name!r}")
    with needing(f"purse.{name}", "sklearn,solvers" if module == "estimators" else None):
        value: object = getattr(import_module(f"purse.{module}"), name)
    return value
